"""Covered zeros: a short list of cells that have messages of their own, as floats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from boolweave.data.entries import find_sorted
from boolweave.data.ones import Cells
from boolweave.engine.backend import Beliefs, Semiring
from boolweave.engine.floats import CHUNK, odds_of
from boolweave.engine.kernels import max_sum, sum_product
from boolweave.engine.kernels.groups import arrays_apart
from boolweave.engine.kernels.vectors import LANES
from boolweave.engine.kernels.zeros import listed as kernels
from boolweave.runtime.threads import balanced_runs, cut, n_threads, run_all
from boolweave.runtime.types import Array, Floats, Integers

# Number of cells that a thread processes at a time.
CELLS = 4096


@dataclass(frozen=True, eq=False)
class ListedSums:
    """Sums to which the messages of listed zeros are added."""

    rows: Floats  # (M, K)
    touched: NDArray[np.int64]  # (n,) the columns with listed zeros
    numbers: NDArray[np.int64]  # (N,) the position of a column among these
    columns: NDArray[np.int64]  # (n, K), in steps, whose sums are exact in any order
    pool: ThreadPoolExecutor | None = None

    @classmethod
    def of(
        cls,
        lists: Sequence[Listed],
        rows: Floats,
        n_columns: int,
        everywhere: bool,
        pool: ThreadPoolExecutor | None = None,
    ) -> ListedSums:
        """Sums for some lists; those of rows are added to `rows`. `everywhere`: for all columns."""
        touched, numbers = np.arange(n_columns), np.arange(n_columns)
        if not everywhere:
            touched = lists[0].touched
            if len(lists) > 1:
                touched = np.unique(np.concatenate([listed.touched for listed in lists]))
            numbers[touched] = np.arange(len(touched))
        columns = np.zeros((len(touched), rows.shape[1]), dtype=np.int64)
        return cls(rows, touched, numbers, columns, pool)

    def of_all(
        self, pieces: list[slice], some_rows: Callable[[slice, kernels.Totals], float]
    ) -> float:
        """Call a function for pieces of the rows; every thread has sums of columns of its own.

        Returns the largest result of a call.
        """
        shared = iter(pieces)  # a thread takes the next piece when it is free

        def one_thread(columns: NDArray[np.int64]) -> float:
            totals = kernels.Totals(self.rows, self.numbers, columns)
            return max((some_rows(piece, totals) for piece in shared), default=0.0)

        n_more = min(n_threads(self.pool), len(pieces)) - 1
        others = [np.zeros_like(self.columns) for _ in range(n_more)]
        most = max(run_all(self.pool, one_thread, [self.columns, *others]))
        for columns in others:
            np.add(self.columns, columns, out=self.columns)
        return most

    def finish(self, columns: Floats, reduce: Callable[[Array], Array]) -> None:
        """Add the sums of columns, of all parts of the matrix, to (N, K)."""
        kernels.add_steps(self.touched, reduce(self.columns), columns)


@dataclass(eq=False)
class Listed:
    """Zeros that are treated one by one, and their messages."""

    indptr: NDArray[np.int64]  # (M + 1,)
    columns: Integers  # (n,) int32
    # Φ and Ψ in max-sum, (n, stride); e^Φ and e^Ψ in sum-product, (chunks, K, size)
    to_row: Floats
    to_column: Floats

    @classmethod
    def none(cls, n_rows: int, n_factors: int) -> Listed:
        """No zeros."""
        cells, shape = Cells.none(n_rows), _shape(0, n_factors, "max-sum")
        return cls(cells.indptr, cells.columns, np.zeros(shape, "f4"), np.zeros(shape, "f4"))

    def __post_init__(self) -> None:
        self._by_columns: Cells | None = None

    @property
    def semiring(self) -> Semiring:
        """The kind of the messages, which their layout shows."""
        return "max-sum" if self.to_row.ndim == 2 else "sum-product"

    @property
    def cells(self) -> Cells:
        """The positions of these zeros."""
        return Cells(self.indptr, self.columns)

    def by_columns(self, n_columns: int) -> Cells:
        """The positions of these zeros, with rows and columns exchanged."""
        if self._by_columns is None:
            self._by_columns = self.cells.by_columns(n_columns)
        return self._by_columns

    @cached_property
    def touched(self) -> NDArray[np.int64]:
        """The columns with listed zeros, in order."""
        return np.unique(self.columns).astype(np.int64)

    @classmethod
    def joined(cls, parts: Sequence[Listed]) -> Listed:
        """Join the lists of consecutive runs of rows."""
        n_before = np.cumsum([0, *(len(part.columns) for part in parts)])
        starts = [part.indptr[1:] + n for part, n in zip(parts, n_before, strict=False)]
        sides = (
            _like(
                getattr(parts[0], side),
                np.concatenate([_by_cell(getattr(part, side), part) for part in parts]),
            )
            for side in ("to_row", "to_column")
        )
        columns = np.concatenate([part.columns for part in parts])
        return cls(np.concatenate([[0], *starts]), columns, *sides)

    def take_rows(self, rows: slice) -> Listed:
        """Take a run of rows."""
        first, last = self.indptr[[rows.start, rows.stop]]
        indptr = self.indptr[rows.start : rows.stop + 1] - first
        sides = (
            _like(m, _by_cell(m, self)[first:last]).copy() for m in (self.to_row, self.to_column)
        )
        return Listed(indptr, self.columns[first:last], *sides)

    def check(self, shape: tuple[int, int], n_factors: int, semiring: Semiring) -> None:
        """Raise ValueError unless these are zeros of a matrix of this shape, with messages."""
        cells, n = self.cells, len(self.columns)
        rising = len(cells.indptr) == shape[0] + 1 and (np.diff(cells.indptr) >= 0).all()
        inside = n == 0 or (self.columns.min() >= 0 and self.columns.max() < shape[1])
        like = _shape(n, n_factors, semiring)
        same = self.to_row.shape == self.to_column.shape == like
        if not (rising and inside and same and cells.indptr[0] == 0 and cells.indptr[-1] == n):
            raise ValueError("the list of covered zeros does not fit the matrix")

    def to_sum_product(self, n_factors: int) -> Listed:
        """The same with messages of sum-product."""
        limit = float(np.log(sum_product.RATIO_LIMIT))
        sides = (
            _in_chunks(np.exp(np.clip(m[:, :n_factors], -limit, limit)).astype(np.float32))
            for m in (self.to_row, self.to_column)
        )
        return Listed(self.indptr, self.columns, *sides)

    def add(self, sums: ListedSums, sign: int = 1) -> None:
        """Add the messages, times a sign, to sums."""
        if not len(self.columns):
            return
        if self.semiring == "max-sum":
            messages = max_sum.Messages(self.to_row, self.to_column)

            def some_rows(piece: slice, totals: kernels.Totals) -> float:
                scratch = arrays_apart([(self.to_row.shape[1], np.float32)])[0]
                cells = self.indptr, self.columns, piece.start, piece.stop
                kernels.add_to_sums(*cells, messages, sign, totals, scratch)
                return 0.0

            sums.of_all(self._pieces(), some_rows)
            return
        row_of, column_of = self.cells.rows(), sums.numbers[self.columns]
        to_row, to_column = (sum_product.log_odds(m) for m in (self.to_row, self.to_column))

        def some_factors(k: slice) -> None:
            kernels.add_lanes_to_rows(row_of, to_row, sign, k.start, k.stop, sums.rows)
            kernels.add_lanes_to_columns(column_of, to_column, sign, k.start, k.stop, sums.columns)

        K = sums.rows.shape[1]
        list(run_all(sums.pool, some_factors, cut(K, 1, LANES)))

    def _entries(self, strength: float) -> max_sum.Entries:
        evidence = np.full(len(self.columns), -strength, dtype=np.float32)
        return max_sum.Entries(self.indptr, self.columns.view(np.uint32), evidence)

    def step(
        self, strength: float, damping: float, beliefs: Beliefs, sums: ListedSums
    ) -> tuple[float, float]:
        """Update the messages, and add the new ones to sums.

        Returns the largest change, and the expected number of ones among these zeros.
        """
        if not len(self.columns):
            return 0.0, 0.0
        if self.semiring == "max-sum":
            return self._max_sum(strength, damping, beliefs, sums), 0.0
        odds = max_sum.Sides(odds_of(beliefs.rows), odds_of(beliefs.columns))
        messages = max_sum.Messages(self.to_row, self.to_column)
        n_ones = kernels.count_ones(
            self.indptr, self.columns, odds.rows, odds.columns, *messages, np.exp(-strength)
        )
        unused = max_sum.Sides(np.zeros_like(odds.rows), np.zeros_like(odds.columns))
        entries = self._entries(strength)
        residual = sum_product.sum_product(
            None, entries, np.float32(damping), odds, messages, unused, np.zeros(2)
        )
        self.add(sums)
        return float(residual), int(n_ones) / kernels.STEPS

    def _max_sum(
        self, strength: float, damping: float, beliefs: Beliefs, sums: ListedSums
    ) -> float:
        """`step` for max-sum, some rows at a time."""
        rows, columns = beliefs.rows, np.ascontiguousarray(beliefs.columns.T)
        messages = max_sum.Messages(self.to_row, self.to_column)

        def some(piece: slice, totals: kernels.Totals) -> float:
            scratch = arrays_apart([(6 * self.to_row.shape[1], np.float32)])[0]
            cells, by = (self.indptr, self.columns, piece.start, piece.stop), np.float32(damping)
            change = kernels.max_sum(
                *cells, rows, columns, messages, np.float32(strength), by, totals, scratch
            )
            return float(change)

        return sums.of_all(self._pieces(), some)

    def _pieces(self) -> list[slice]:
        """Runs of rows that a thread processes at a time."""
        return balanced_runs(self.indptr, max(1, -(-len(self.columns) // CELLS)))

    def replaced(
        self,
        cells: Cells,
        strength: float,
        beliefs: Beliefs,
        pool: ThreadPoolExecutor | None = None,
        spare: Listed | None = None,
    ) -> Listed:
        """Make a list of other cells: old ones keep their messages, new ones start as any zero.

        The arrays of `spare`, a list that is no longer needed, may be overwritten.
        """
        K, n_columns = beliefs.columns.shape
        rows, n = cells.rows(), len(cells)
        old, new = self.cells.numbers(n_columns), cells.numbers(n_columns)
        place, stays = find_sorted(old, new)
        before, y = np.where(stays, place, -1), beliefs.columns.T
        spares = (None, None) if spare is None else (spare.to_row, spare.to_column)
        sides_of_new = (_empty(_shape(n, K, self.semiring), array) for array in spares)
        out = Listed(cells.indptr, cells.columns, *sides_of_new)
        sides = (self.to_row, self.to_column), (out.to_row, out.to_column)
        if self.semiring == "max-sum":
            y = np.ascontiguousarray(y)

            def some_cells(some: slice) -> None:
                kernels.start_max_sum(
                    some.start,
                    some.stop,
                    rows,
                    cells.columns,
                    before,
                    beliefs.rows,
                    y,
                    np.float32(strength),
                    *(max_sum.Messages(*side) for side in sides),
                    arrays_apart([(2 * LANES, np.float32)])[0],
                )

            list(run_all(pool, some_cells, cut(n, 1, CELLS)))
            return out

        def one_chunk(chunk: int) -> None:
            size = out.to_row.shape[2]
            some = slice(chunk * size, min(n, (chunk + 1) * size))
            kept, where = stays[some], before[some][stays[some]]
            fresh = _sent_by_zeros(beliefs.rows[rows[some]], y[cells.columns[some]], strength)
            for messages, old_ones, new_ones in zip(fresh, *sides, strict=True):
                if len(where):
                    n_each = old_ones.shape[2]
                    messages[kept] = old_ones[where // n_each, :, where % n_each]
                new_ones[chunk, :, : len(messages)] = messages.T

        for messages in sides[1]:
            messages[...] = 1  # behind the last cell
        list(run_all(pool, one_chunk, range(len(out.to_row))))
        return out


def _sent_by_zeros(x: Floats, y: Floats, strength: float) -> tuple[Floats, Floats]:
    """The ratios that zeros send in sum-product, to first order, if no other factor claims them.

    All arrays are (n, K).
    """

    def sent(v: Floats) -> Floats:
        return np.logaddexp(0, v - strength) - np.logaddexp(0, v)

    return np.exp(sent(y - sent(x))), np.exp(sent(x - sent(y)))


def _shape(n: int, n_factors: int, semiring: Semiring) -> tuple[int, ...]:
    """The shape of the messages of n cells to one side."""
    if semiring == "max-sum":
        return n, -(-n_factors // LANES) * LANES
    size = max(1, min(CHUNK, n))
    return -(-n // size), n_factors, size


def _empty(shape: tuple[int, ...], spare: Floats | None) -> Floats:
    """An array with arbitrary contents, in the memory of another one if that is large enough.

    The system would map new memory page by page, which takes longer than filling it.
    """
    whole = None if spare is None else spare.base
    if not isinstance(whole, np.ndarray) or whole.shape[1:] != shape[1:] or len(whole) < shape[0]:
        whole = np.empty((shape[0] + shape[0] // 4, *shape[1:]), dtype=np.float32)
    return whole[: shape[0]]


def _by_cell(messages: Floats, listed: Listed) -> Floats:
    """Messages as (cells, K), or (cells, stride) in max-sum."""
    if messages.ndim == 2:
        return messages
    by_cell = messages.transpose(0, 2, 1).reshape(-1, messages.shape[1])
    return by_cell[: len(listed.columns)]


def _like(messages: Floats, by_cell: Floats) -> Floats:
    """Messages by cell in the same layout as others."""
    return by_cell if messages.ndim == 2 else _in_chunks(by_cell)


def _in_chunks(by_cell: Floats) -> Floats:
    """Messages (cells, K) in chunks; the padding after the last cell is 1."""
    n_chunks, n_factors, size = _shape(len(by_cell), by_cell.shape[1], "sum-product")
    padded = np.ones((n_chunks * size, n_factors), dtype=np.float32)
    padded[: len(by_cell)] = by_cell
    return np.ascontiguousarray(padded.reshape(n_chunks, size, n_factors).transpose(0, 2, 1))
