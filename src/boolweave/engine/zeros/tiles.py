"""The cells that decoded factors cover, counted and listed without the matrix.

Work and memory depend on the number of ones and on the area of the tiles, never on the number of
cells of the matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from boolweave.data.ones import Cells, SparseObservations
from boolweave.engine.kernels.zeros import tiles as kernels
from boolweave.model.odds import sigmoid
from boolweave.runtime.threads import pieces, run_all
from boolweave.runtime.types import Floats, Integers

Answer = TypeVar("Answer")
Part = TypeVar("Part")
Words = NDArray[np.uint64]

# Terms with a smaller probability are ignored: even some dozens of them would not make a cell 1.
NEGLIGIBLE = 0.01


@dataclass(frozen=True, eq=False)
class Tiles:
    """Decoded factors as lists: the factors of each row, and the columns of each factor."""

    by_row: Cells  # M rows; columns are factors
    by_factor: Cells  # K rows; columns are those of the matrix
    shape: tuple[int, int]  # (M, N)
    pool: ThreadPoolExecutor | None = None

    @classmethod
    def of_beliefs(
        cls, rows: Floats, columns: Floats, pool: ThreadPoolExecutor | None = None
    ) -> Tiles:
        """The tiles of the factors that beliefs (M, K) and (K, N) decode to."""
        if columns.flags.c_contiguous:
            by_factor = _above_zero(columns, pool)
        else:
            by_factor = _above_zero(columns.T, pool).by_columns(len(columns))
        return cls(_above_zero(rows, pool), by_factor, (len(rows), columns.shape[1]), pool)

    @classmethod
    def of_bits(
        cls,
        rows: Sequence[Words],
        columns: Words,
        n_factors: int,
        pool: ThreadPoolExecutor | None = None,
    ) -> Tiles:
        """The tiles of decoded factors in words of 64 bits: rows in blocks, and all columns."""
        by_row, by_column = _ones_of(rows, pool), _ones_of([columns], pool)
        shape = sum(len(words) for words in rows), len(columns)
        return cls(by_row, _by_factor(by_column, n_factors), shape, pool)

    def n_cells(self) -> int:
        """Count the cells that are covered by at least one tile."""

        def of_some(rows: slice) -> int:
            return int(kernels.count_covered_cells(*self._lists_of(rows), self._marks()))

        return sum(self._each(of_some))

    def covered(self, cells: Cells) -> NDArray[np.bool_]:
        """Whether each of the cells is covered, (n,)."""
        out = np.zeros(len(cells), dtype=bool)

        def of_some(rows: slice) -> None:
            indptr = cells.indptr[rows.start : rows.stop + 1]
            kernels.find_covered(*self._lists_of(rows), indptr, cells.columns, self._marks(), out)

        if len(cells):
            list(self._each(of_some))
        return out

    def counts(self, observations: SparseObservations) -> NDArray[np.int64]:
        """Count entries by observed value (first axis) and product (second axis): (2, 2)."""
        ones = int(self.covered(observations.ones).sum())
        zeros = self.n_covered_zeros(observations, ones)
        n_zeros = observations.n_observed - observations.n_ones
        return np.array([[n_zeros - zeros, zeros], [observations.n_ones - ones, ones]])

    def n_covered_zeros(self, observations: SparseObservations, n_ones: int | None = None) -> int:
        """Count the observed zeros that are covered; `n_ones` ones are covered, if it is known."""
        if n_ones is None:
            n_ones = int(self.covered(observations.ones).sum())
        return self.n_cells() - n_ones - int(self.covered(observations.holes).sum())

    def covered_zeros(
        self,
        observations: SparseObservations,
        most: int,
        count_before: Callable[[int], tuple[int, int]] = lambda n: (0, n),
    ) -> Cells:
        """List the observed zeros that are covered, or some of them, evenly spread, if too many.

        `count_before` returns how many there are in the rows above these, and in all rows.
        """
        n_zeros = self.n_covered_zeros(observations)
        n_before, n_all = count_before(n_zeros)
        every = max(1, -(-n_all // max(1, most)))
        n_listed = -(-(n_before + n_zeros) // every) - -(-n_before // every)
        listed_cells = np.empty(n_listed, dtype=observations.ones.columns.dtype)
        per_row = np.zeros(self.shape[0], dtype=np.int64)
        listed = observations.not_zero
        cells = listed.indptr, listed.columns
        kernels.list_covered_zeros(
            *self._lists, *cells, every, n_before, self._marks(), per_row, listed_cells
        )
        indptr = np.concatenate([[0], np.cumsum(per_row)])
        order = np.lexsort((listed_cells, np.repeat(np.arange(self.shape[0]), per_row)))
        return Cells(indptr, listed_cells[order])

    def alone(
        self, observations: SparseObservations, kept: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Count the ones, and the cells, that each factor covers and no other kept factor does.

        Factors that are not kept, according to `kept` (K,), have 0 of each.
        """
        out = np.zeros((len(kept), 2), dtype=np.int64)
        ones = observations.ones
        kernels.count_alone(*self._lists, ones.indptr, ones.columns, kept, self._marks(), out)
        return out[:, 0], out[:, 1]

    @property
    def _lists(self) -> tuple[Integers, Integers, Integers, Integers]:
        return self._lists_of(slice(0, self.shape[0]))

    def _lists_of(self, rows: slice) -> tuple[Integers, Integers, Integers, Integers]:
        """The lists of some rows in the form of kernels."""
        starts, factors = self.by_row.indptr[rows.start : rows.stop + 1], self.by_factor
        return starts, self.by_row.columns, factors.indptr, factors.columns

    def _each(self, function: Callable[[slice], Answer]) -> Iterable[Answer]:
        """Call a function for pieces of the rows."""
        return run_all(self.pool, function, pieces(self.shape[0], self.pool))

    def _marks(self) -> NDArray[np.int64]:
        return np.full(self.shape[1], -1, dtype=np.int64)


def counts(
    row_log_odds: Floats, column_log_odds: Floats, observations: SparseObservations, marginal: bool
) -> NDArray[np.int64]:
    """Count entries by observed value (first axis) and predicted value (second axis): (2, 2).

    The prediction is the product of the decoded factors or, with `marginal`, P(z = 1) > ½ without
    negligible terms. If far more terms than ones are not negligible, so that the factors contain
    hardly any information, the product of the decoded factors is used in both cases.
    """
    if marginal:
        rows, x = _chances(row_log_odds)
        columns, y = _chances(column_log_odds)
    # If there are more terms than this, and than twenty for each one, only decoded factors are
    # used.
    most_terms = 100_000_000
    if not marginal or _n_terms(rows, x, columns, y) > most_terms + 20 * observations.n_ones:
        return Tiles.of_beliefs(row_log_odds, column_log_odds).counts(observations)
    listed = observations.not_zero
    likely = np.zeros(len(listed), dtype=bool)
    factors = rows.indptr, rows.columns, x, columns.indptr, columns.columns, y
    total = kernels.count_likely_cells(*factors, NEGLIGIBLE, listed.indptr, listed.columns, likely)
    is_one = np.ones(len(listed), dtype=bool)
    if len(observations.holes):
        N = observations.n_columns
        is_one[np.searchsorted(listed.numbers(N), observations.holes.numbers(N))] = False
    ones = int(np.count_nonzero(likely & is_one))
    zeros = int(total) - int(np.count_nonzero(likely))
    n_zeros = observations.n_observed - observations.n_ones
    return np.array([[n_zeros - zeros, zeros], [observations.n_ones - ones, ones]])


def _chances(log_odds: Floats) -> tuple[Cells, NDArray[np.float64]]:
    """Where log-odds (n, m) are not negligible, the largest first, and the probabilities there."""
    least = log_odds.dtype.type(np.log(NEGLIGIBLE))
    cells = _above_zero(log_odds - least)
    chances = sigmoid(log_odds[cells.rows(), cells.columns].astype(np.float64))
    order = np.lexsort((-chances, cells.rows()))
    return Cells(cells.indptr, cells.columns[order]), chances[order]


def _n_terms(rows: Cells, x: Floats, columns: Cells, y: Floats) -> int:
    """Count the terms, each of a cell and a factor, that are not negligible."""
    n_terms = 0
    for k in range(len(columns.indptr) - 1):
        chances = y[columns.indptr[k] : columns.indptr[k + 1]]
        n_terms += int(np.searchsorted(-chances, -NEGLIGIBLE / x[rows.columns == k], "right").sum())
    return n_terms


def _above_zero(beliefs: Floats, pool: ThreadPoolExecutor | None = None) -> Cells:
    """Where beliefs (n, m) are above 0."""

    def count(some: slice, indptr: Integers) -> None:
        kernels.count_above_zero(beliefs[some], indptr[some.start : some.stop + 1])

    def fill(some: slice, indptr: Integers, columns: Integers) -> None:
        kernels.list_above_zero(beliefs[some], indptr[some.start : some.stop + 1], columns)

    return _counted(len(beliefs), pieces(len(beliefs), pool), count, fill, pool)


def _ones_of(blocks: Sequence[Words], pool: ThreadPoolExecutor | None) -> Cells:
    """Which bits of words (n, W), in blocks of rows, are 1."""
    starts = np.cumsum([0, *(len(words) for words in blocks)]).tolist()

    def count(i: int, indptr: Integers) -> None:
        kernels.count_bits(blocks[i], indptr[starts[i] + 1 : starts[i + 1] + 1])

    def fill(i: int, indptr: Integers, columns: Integers) -> None:
        kernels.list_bits(blocks[i], indptr[starts[i] : starts[i + 1]], columns)

    return _counted(starts[-1], range(len(blocks)), count, fill, pool)


def _counted(
    n_rows: int,
    parts: Sequence[Part],
    count: Callable[[Part, Integers], None],
    fill: Callable[[Part, Integers, Integers], None],
    pool: ThreadPoolExecutor | None,
) -> Cells:
    """Cells that are counted first, row by row, and then listed, in parts of the rows."""
    indptr = np.zeros(n_rows + 1, dtype=np.int64)
    list(run_all(pool, lambda part: count(part, indptr), parts))
    np.cumsum(indptr, out=indptr)
    columns = np.empty(int(indptr[-1]), dtype=np.int32)
    list(run_all(pool, lambda part: fill(part, indptr, columns), parts))
    return Cells(indptr, columns)


def _by_factor(by_column: Cells, n_factors: int) -> Cells:
    """The columns of each factor, from the factors of each column."""
    counts = np.bincount(by_column.columns, minlength=n_factors)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    columns = np.empty(len(by_column), dtype=np.int32)
    kernels.list_rows(by_column.indptr, by_column.columns, indptr[:-1].copy(), columns)
    return Cells(indptr, columns)
