"""Adding entries, rows and columns to a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from boolweave.data.labels import find_labels
from boolweave.data.observations import Observations

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.data.labels import Labels


def joined(before: Observations, new: Observations) -> Observations:
    """The entries of both; if both have an entry, the new value counts.

    If both have labels, lines are matched by them and new ones are appended; otherwise they are
    matched by position.

    Examples
    --------
    >>> from boolweave import Observations
    >>> first = Observations.from_data([[1, 0], [0, float("nan")]])
    >>> joined(first, Observations.from_data([[float("nan")] * 3, [1, float("nan"), 1]])).to_dense()
    array([[ 1.,  0., nan],
           [ 1., nan,  1.]], dtype=float32)
    """
    sides = []
    for axis in (0, 1):
        old_labels = (before.row_labels, before.column_labels)[axis]
        new_labels = (new.row_labels, new.column_labels)[axis]
        sides.append(_placed(old_labels, new_labels, before.shape[axis], new.shape[axis]))
    (rows, n_rows, row_labels), (columns, n_columns, column_labels) = sides
    m = np.concatenate([before.rows_of_entries(), rows[new.rows_of_entries()]])
    n = np.concatenate([before.indices, columns[new.indices]]).astype(np.int64)
    values = np.concatenate([before.values, new.values])
    key = m * n_columns + n
    _, last = np.unique(key[::-1], return_index=True)
    kept = len(key) - 1 - last
    return Observations.from_triples(
        m[kept], n[kept], values[kept], shape=(n_rows, n_columns),
        row_labels=row_labels, column_labels=column_labels,
    )  # fmt: skip


def _placed(
    old: Labels | None, new: Labels | None, n_old: int, n_new: int
) -> tuple[NDArray[np.intp], int, Labels | None]:
    """Positions of the new lines among all, their number, and the labels of all."""
    if old is None or new is None:
        if old is not None and n_new > n_old:
            raise ValueError(
                f"the lines of the model have labels, but {n_new - n_old} new ones have none; pass "
                "observations with labels"
            )
        return np.arange(n_new), max(n_old, n_new), old
    at, known = find_labels(new, old)
    positions = at.copy()
    positions[~known] = n_old + np.arange(np.count_nonzero(~known))
    labels: Labels = np.concatenate([old, new[~known]])
    return positions, len(labels), labels
