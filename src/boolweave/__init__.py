"""Boolean matrix factorization, noisy completion and Boolean decoding by message passing.

Names are loaded when they are first used, so that importing the package is quick and compiles
nothing. Only modules that users call are outside the folders; start reading in `estimator`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from boolweave.runtime.lazy import loading

if TYPE_CHECKING:
    from boolweave.completion import BooleanCompletion
    from boolweave.data.observations import Observations
    from boolweave.encoding import TableEncoder
    from boolweave.estimator import BooleanMatrixFactorization
    from boolweave.functions import complete, cover, factorize, load, select_rank
    from boolweave.model.channel import Channel

__version__ = "0.1.0"

_HOME = {
    "BooleanCompletion": "boolweave.completion",
    "BooleanMatrixFactorization": "boolweave.estimator",
    "Channel": "boolweave.model.channel",
    "Observations": "boolweave.data.observations",
    "TableEncoder": "boolweave.encoding",
    "complete": "boolweave.functions",
    "cover": "boolweave.functions",
    "factorize": "boolweave.functions",
    "load": "boolweave.functions",
    "select_rank": "boolweave.functions",
    "baselines": "boolweave.baselines",
    "crowd": "boolweave.crowd",
    "datasets": "boolweave.datasets",
    "decoding": "boolweave.decoding",
    "diagnosis": "boolweave.diagnosis",
    "metrics": "boolweave.metrics",
    "model_selection": "boolweave.model_selection",
    "plot": "boolweave.plot",
}

__all__ = [
    "BooleanCompletion",
    "BooleanMatrixFactorization",
    "Channel",
    "Observations",
    "TableEncoder",
    "complete",
    "cover",
    "factorize",
    "load",
    "select_rank",
]


__getattr__ = loading(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
