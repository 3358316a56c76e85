"""Lists of single entries: missing ones with their predictions, and doubtful observed ones.

Both are complete if a table has up to a million cells. In a larger table, only entries that are
spread evenly over it are examined, and M × N numbers are never computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from boolweave.data.cells import MISSING
from boolweave.data.ones import SparseObservations
from boolweave.report.grid import entries_of, packed_array

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from boolweave.report.grid import Bits, Grid, Predict, Seen
    from boolweave.report.lines import Lines
    from boolweave.runtime.types import Floats, Integers

    Pairs = tuple[Integers, Integers]

# Maximum number of entries that are examined, and number of columns of a sample.
MOST_JUDGED = 1 << 20
SAMPLED_COLUMNS = 1 << 12

# Maximum number of entries of a list, and minimum number of a list of doubtful ones.
MOST_LISTED = 5000
LEAST_DOUBTFUL = 200

# Number of pairs that are predicted at a time.
CHUNK = 1 << 15

# Represents the value of a missing entry.
NOT_OBSERVED = 255


@dataclass(frozen=True, eq=False)
class EntryList:
    """The entries of a list, in order.

    Attributes
    ----------
    kind : {"holes", "doubtful", "missed", "false"}
    rows, columns : arrays of shape (n,)
        Positions in the table.
    observed : array of shape (n,), uint8
        The observed values, 255 for missing entries.
    chances : array of shape (n,)
        P(o = 1), the probability that a one would be observed.
    n_all : int
        Number of such entries in the table; for doubtful entries, the number of observed entries.
    is_sample : bool
        Whether only some of them were examined.
    """

    kind: str
    rows: Integers
    columns: Integers
    observed: Bits
    chances: Floats
    n_all: int
    is_sample: bool

    def __len__(self) -> int:
        return len(self.rows)

    def packed(self, rows: Lines, columns: Lines) -> dict[str, object]:
        """For JSON: numbers of lines, values and probabilities as deflated base64."""
        return {
            "kind": self.kind,
            "n": len(self),
            "rows": packed_array(rows.numbers(self.rows)),
            "columns": packed_array(columns.numbers(self.columns)),
            "observed": packed_array(self.observed),
            "chances": packed_array(self.chances.astype(np.float32)),
        }


def holes(seen: Seen, predict: Predict) -> EntryList | None:
    """The missing entries, the most probable ones first; None if nothing is missing."""
    n_holes = seen.n_rows * seen.n_columns - seen.n_observed
    if not n_holes:
        return None
    rows, columns = _some_holes(seen)
    chances = predicted(predict, rows, columns)
    order = np.argsort(-chances, kind="stable")[:MOST_LISTED]
    return EntryList(
        "holes", rows[order], columns[order], np.full(len(order), NOT_OBSERVED, dtype=np.uint8),
        chances[order], n_holes, len(rows) < n_holes,
    )  # fmt: skip


def _some_holes(seen: Seen) -> Pairs:
    """Rows and columns of missing entries, all or a sample, in the order of the table."""
    if isinstance(seen, SparseObservations):
        at = spread(len(seen.holes), MOST_JUDGED)
        rows = np.searchsorted(seen.holes.indptr, at, side="right") - 1
        return rows, seen.holes.columns[at].astype(np.intp)
    n_rows, n_columns = seen.shape
    if n_rows * n_columns <= MOST_JUDGED:
        chosen = np.arange(n_rows), np.arange(n_columns)
    else:
        columns = spread(n_columns, SAMPLED_COLUMNS)
        chosen = spread(n_rows, MOST_JUDGED // len(columns)), columns
    own = seen.take_rows(chosen[0])
    place = np.full(n_columns, -1, dtype=np.int64)
    place[chosen[1]] = np.arange(len(chosen[1]))
    missing = np.ones((len(chosen[0]), len(chosen[1])), dtype=bool)
    known = place[own.indices] >= 0
    missing[own.rows_of_entries()[known], place[own.indices[known]]] = False
    m, n = np.nonzero(missing)
    return chosen[0][m], chosen[1][n]


def doubtful(seen: Seen, predict: Predict, grid: Grid) -> EntryList:
    """Observed entries in the order of their probability, the least probable first.

    These are all entries that the model would have predicted wrong, and some more if there are few
    of them. In a matrix that lists only its ones, they are ones, and zeros that are drawn.
    """
    sparse = isinstance(seen, SparseObservations)
    n_listed = seen.n_ones if sparse else seen.n_observed
    step = max(1, -(-n_listed // MOST_JUDGED))
    rows, columns, values, chances, doubts = (
        np.zeros(0, dtype=kind) for kind in (np.int64, np.int64, np.uint8, float, float)
    )
    for row, column, value in _observed(seen, grid, step):
        chance = predicted(predict, row, column)
        rows, columns = np.concatenate([rows, row]), np.concatenate([columns, column])
        values, chances = np.concatenate([values, value]), np.concatenate([chances, chance])
        doubts = np.concatenate([doubts, np.where(value == 1, 1 - chance, chance)])
        best = np.argsort(-doubts, kind="stable")[:MOST_LISTED]
        rows, columns, values, chances, doubts = (
            array[best] for array in (rows, columns, values, chances, doubts)
        )
    n = max(int(np.count_nonzero(doubts > 0.5)), LEAST_DOUBTFUL)
    return EntryList(
        "doubtful", rows[:n], columns[:n], values[:n], chances[:n], seen.n_observed,
        step > 1 or sparse,
    )  # fmt: skip


def _observed(seen: Seen, grid: Grid, step: int) -> Iterator[tuple[Integers, Integers, Bits]]:
    """Every `step`-th of the listed entries, and some zeros if zeros are not listed."""
    begin = 0
    for row, column, value in entries_of(seen):
        if value.max(initial=0) == MISSING:  # a matrix that lists only its ones
            continue
        chosen = slice((-begin) % step, None, step)
        begin += len(row)
        yield row[chosen], column[chosen].astype(np.intp), value[chosen]
    if isinstance(seen, SparseObservations):
        yield _drawn_zeros(seen, grid)


def _drawn_zeros(seen: SparseObservations, grid: Grid) -> tuple[Integers, Integers, Bits]:
    """The zeros among the rows and columns that are drawn."""
    rows = grid.row_order[:SAMPLED_COLUMNS]
    columns = grid.column_order[: max(1, MOST_JUDGED // max(1, len(rows)))]
    place = np.full(seen.n_columns, -1, dtype=np.int64)
    place[columns] = np.arange(len(columns))
    zero = np.ones((len(rows), len(columns)), dtype=bool)
    for cells in (seen.ones, seen.holes):
        own = cells.take_rows(rows)
        drawn = place[own.columns] >= 0
        zero[own.rows()[drawn], place[own.columns[drawn]]] = False
    m, n = np.nonzero(zero)
    return rows[m], columns[n], np.zeros(len(m), dtype=np.uint8)


def listed(kind: str, pairs: NDArray[np.int64], value: int, predict: Predict) -> EntryList:
    """A list of given pairs, (n, 2), all with the same observed value."""
    rows, columns = pairs[:MOST_LISTED].T
    observed, chances = np.full(len(rows), value, np.uint8), predicted(predict, rows, columns)
    return EntryList(kind, rows, columns, observed, chances, len(pairs), False)


def predicted(predict: Predict, rows: Integers, columns: Integers) -> Floats:
    """Probabilities at pairs, (n,), some at a time."""
    out = np.empty(len(rows))
    for start in range(0, len(rows), CHUNK):
        some = slice(start, start + CHUNK)
        out[some] = predict(rows[some], columns[some])
    return out


def spread(n: int, most: int) -> NDArray[np.intp]:
    """Up to `most` positions among n, evenly spread."""
    return np.arange(n) if n <= most else np.linspace(0, n - 1, max(1, most)).astype(np.intp)
