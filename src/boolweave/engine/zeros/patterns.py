"""First factors of a sparse matrix: patterns that two rows have in common.

A random factor would cover hardly any ones of a large matrix. Therefore a factor begins at a one
that no previous factor explains. The columns that its row shares with another row that has a one in
the same column are a pattern, and the rows with most of the pattern belong to it. A few such pairs
of rows are tried, and the pattern with most unexplained ones is used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from boolweave.engine.field import Field

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.data.ones import Cells, SparseObservations
    from boolweave.runtime.types import Integers

# Number of pairs of rows that are tried for a pattern, and the minimum fraction of a pattern that a
# row of it has.
TRIED = 8
MOST = 0.7

# Log-odds of first beliefs, and those below which they are dropped.
FIRST = 8.0
LEAST = 0.01


def first_beliefs(
    seen: SparseObservations, by_column: Cells, n_factors: int, random: np.random.Generator
) -> Field:
    """First beliefs of a number of factors, from patterns that begin at random ones.

    Parameters
    ----------
    seen : SparseObservations, (M, N)
    by_column : Cells
        Its ones by columns.
    n_factors : int
    random : numpy Generator
    """
    M, N = seen.shape
    rows, columns = np.full((M, n_factors), -FIRST, "f4"), np.full((n_factors, N), -FIRST, "f4")
    if seen.n_ones:
        patterns = _Patterns(seen.ones, by_column, M, N)
        for k in range(n_factors):
            inside, pattern = patterns.next(random)
            rows[inside, k], columns[k, pattern] = FIRST, FIRST
    return Field.of_log_odds(rows, columns, LEAST)


@dataclass(eq=False)
class _Patterns:
    """The ones of a matrix, and which of them no pattern explains so far."""

    ones: Cells
    by_column: Cells
    n_rows: int
    n_columns: int
    left: NDArray[np.bool_] = field(init=False)  # (ones,)

    def __post_init__(self) -> None:
        self.left = np.ones(len(self.ones), dtype=bool)

    def next(self, random: np.random.Generator) -> tuple[Integers, Integers]:
        """Rows and columns of the best of a few patterns, whose ones are explained from now on."""
        candidates = np.flatnonzero(self.left)
        if not len(candidates):
            candidates = np.arange(len(self.ones))
        best = -np.inf
        for _ in range(TRIED):
            one = int(candidates[random.integers(len(candidates))])
            rows, columns, hits = self._tile(one, random)
            new = int(self.left[hits].sum())
            gain = new - (len(rows) * len(columns) - len(hits))
            if gain > best:
                best, found, explained = gain, (rows, columns), hits
        self.left[explained] = False
        return found

    def _tile(self, one: int, random: np.random.Generator) -> tuple[Integers, Integers, Integers]:
        """Rows, columns and ones of a pattern that begins at a one."""
        m = int(np.searchsorted(self.ones.indptr, one, "right")) - 1
        others = _of(self.by_column, int(self.ones.columns[one]))
        other = int(others[random.integers(len(others))])
        shared = np.intersect1d(_of(self.ones, m), _of(self.ones, other), assume_unique=True)
        counts = np.zeros(self.n_rows, dtype=np.int32)
        for n in shared:  # the rows of one column are all different
            counts[_of(self.by_column, int(n))] += 1
        rows = np.flatnonzero(counts >= MOST * len(shared))
        member = np.zeros(self.n_columns, dtype=bool)
        member[shared] = True
        starts, lengths = self.ones.indptr[rows], np.diff(self.ones.indptr)[rows]
        ends = np.cumsum(lengths)
        at = np.repeat(starts - (ends - lengths), lengths) + np.arange(ends[-1])
        return rows, shared, at[member[self.ones.columns[at]]]


def _of(cells: Cells, m: int) -> Integers:
    """The columns of a row; of cells by columns, the rows of a column."""
    return cells.columns[cells.indptr[m] : cells.indptr[m + 1]]
