"""The numbers that a report about a cover shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from boolweave.data.ones import Cells, SparseObservations
from boolweave.report.entries import listed
from boolweave.report.words import percent

if TYPE_CHECKING:
    from boolweave.covering.result import Cover
    from boolweave.report.entries import EntryList

    Facts = list[tuple[str, str]]


def seen(found: Cover) -> SparseObservations:
    """The table: its ones and its missing entries; all others are zeros."""
    given = found.observations.to_local()
    is_one = given.values == 1
    pattern = sparse.csr_array(
        (is_one.astype(np.int8), given.indices, given.indptr), shape=given.shape, copy=True
    )
    pattern.eliminate_zeros()
    return SparseObservations(
        given.shape,
        _cells(pattern),
        None if found.missing is None else _cells(found.missing),
        given.row_labels,
        given.column_labels,
    )


def _cells(pattern: sparse.csr_array) -> Cells:
    return Cells(pattern.indptr.astype(np.int64), pattern.indices.astype(np.int32))


def facts(found: Cover) -> Facts:
    """The number of factors, and what they cover."""
    K, bound = int(found.cost or 0), int(found.bound or 0)
    least = f"{bound:,} (proven)" if bound == K else f"at least {bound:,}" if bound > 1 else ""
    return [
        ("factors", f"{K:,}"),
        *([("fewest possible", least)] if least else []),
        ("ones covered", percent(found.coverage)),
        ("ones missed", f"{len(found.missed):,}"),
        ("false ones", f"{len(found.false_ones):,}"),
    ]


def lists(found: Cover) -> list[EntryList]:
    """Lists of missed ones, which their rows lose, and covered zeros, which their rows gain."""
    return [
        listed(kind, pairs, value, found.predict_proba)
        for kind, pairs, value in (("missed", found.missed, 1), ("false", found.false_ones, 0))
        if len(pairs)
    ]
