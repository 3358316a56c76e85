"""Example tables that ship with the package, and planted problems with a known answer.

Tables for trying the library belong here; reading of users' files is in `boolweave.io`. Start with
`shipped.py`.
"""

from boolweave.datasets.planted import Planted, make_boolean
from boolweave.datasets.shipped import (
    CONGRESSES,
    Dataset,
    fetch_movielens,
    load_movielens,
    load_movietweetings,
    load_paleo,
    load_senate,
    load_votes84,
    load_zoo,
)

__all__ = [
    "CONGRESSES",
    "Dataset",
    "Planted",
    "fetch_movielens",
    "load_movielens",
    "load_movietweetings",
    "load_paleo",
    "load_senate",
    "load_votes84",
    "load_zoo",
    "make_boolean",
]
