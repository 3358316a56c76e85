"""Accuracy of predictions of entries: each from the others of its row, or as one of the fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from boolweave.metrics import accuracy

if TYPE_CHECKING:
    from boolweave.completion.answers.new_rows import FoldIn
    from boolweave.completion.ensemble import Ensemble
    from boolweave.data.observations import Observations
    from boolweave.data.splits import Entries

# Number of parts over which the entries of a row are distributed; each part is hidden once.
PARTS = 5


def accuracy_of_rows(model: FoldIn, seen: Observations) -> float:
    """Accuracy on the entries of rows, each predicted from the rest of its row.

    The entries of a row are distributed in turn, from left to right, over five parts, and each part
    is hidden once while the row is folded in with the rest. No entry helps to predict itself.
    """
    if not seen.n_observed:
        raise ValueError("X must have at least one observed entry, got none")
    part = (np.arange(seen.n_observed) - seen.indptr[seen.rows_of_entries()]) % PARTS
    n_right = 0
    for i in range(int(part.max()) + 1):
        rest, rows, columns, values = seen.split(part == i)
        chance = model.fold_in(rest).probabilities(rows, columns.astype(np.intp))
        n_right += int(np.count_nonzero((chance > 0.5) == values))
    return n_right / seen.n_observed


def accuracy_of_entries(model: Ensemble, entries: Entries) -> float:
    """Accuracy on held-out entries of the fitted table."""
    at = entries.rows_of_entries(), entries.indices.astype(np.intp)
    return accuracy(entries.values, model.probabilities(*at) > 0.5)
