"""All zeros of a row, or of a column, at once.

A zero that no other factor claims has the evidence L₀ = −λ about every term. With

    h(v) = (v + L₀)₊ − (v)₊                     max-sum
    h(v) = log(1 + e^(v + L₀)) − log(1 + e^v)   sum-product

it sends Φ = h(Υ − Ψ) to its row and Ψ = h(Ξ − Φ) to its column. To first order Ψ = h(Ξ) = −t, which
depends only on the row, so that all zeros of row m together send F(t) = Σₙ h(Υₙ + t), minus the
terms of the listed cells of the row, which are not such zeros. F depends only on how often each
value of Υ occurs: beliefs are rounded to steps, and one table of F is used for all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from boolweave.data.ones import Cells
from boolweave.engine.backend import InitialBeliefs, Semiring
from boolweave.engine.kernels.vectors import LANES
from boolweave.engine.kernels.zeros import collective as kernels
from boolweave.runtime.threads import MOST_PIECES, balanced_runs, pieces, run_all
from boolweave.runtime.types import Array, Floats

Steps = NDArray[np.int8 | np.int16]

# Max-sum: number of steps in λ; beliefs are clipped to ±λ.
STEPS = 127

# Sum-product: number of steps per unit of log-odds.
FINE = 32

# Sum-product: number of units per unit of log-odds in sums, which are exact in any order.
PARTS = float(1 << 24)

# Minimum number of listed cells that a thread processes at a time.
CELLS = 1 << 16


@dataclass(frozen=True)
class ZeroScale:
    """The steps to which beliefs are rounded, for zeros with the evidence L₀ = −strength."""

    strength: float
    semiring: Semiring

    @property
    def per_odds(self) -> float:
        """Number of steps per unit of log-odds."""
        return STEPS / self.strength if self.semiring == "max-sum" else float(FINE)

    @property
    def limits(self) -> tuple[int, int]:
        """The lowest and the highest belief, in steps."""
        if self.semiring == "max-sum":
            return -STEPS, STEPS
        # Below the lower limit, a probability times the largest number of columns is negligible.
        lowest, highest = -20.0, 20.0
        return int(lowest * FINE), int(highest * FINE)

    @property
    def n_levels(self) -> int:
        """Number of different beliefs."""
        low, high = self.limits
        return high - low + 1

    @cached_property
    def to_zeros(self) -> NDArray[np.int64]:
        """Sum-product: t, which a variable sends to all zeros, in steps, by belief − lowest one."""
        low, high = self.limits
        return np.rint(-self._h(np.arange(low, high + 1) / FINE) * FINE).astype(np.int64)

    def _h(self, odds: NDArray[np.float64]) -> NDArray[np.float64]:
        """The function h of sum-product, in log-odds."""
        return np.logaddexp(0, odds - self.strength) - np.logaddexp(0, odds)

    @cached_property
    def from_zeros(self) -> NDArray[np.int64]:
        """Sum-product: −h(Υ + t) in units, by Υ + t − lowest Υ."""
        low, high = self.limits
        values = np.arange(low, high + int(self.to_zeros.max()) + 1)
        return np.rint(-self._h(values / FINE) * PARTS).astype(np.int64)

    @property
    def unit(self) -> float:
        """Log-odds of one unit of `from_zeros`."""
        return self.strength / STEPS if self.semiring == "max-sum" else 1 / PARTS

    @cached_property
    def _knots(self) -> NDArray[np.int64]:
        """Sum-product: the values of t, in steps, at which F is computed."""
        most = int(self.to_zeros.max())
        # F is interpolated linearly between this many values of t.
        n_knots = 33
        n = min(n_knots, most + 1)
        return np.unique(np.rint(np.linspace(0, most, n)).astype(np.int64))

    @cached_property
    def interpolation(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """For every belief, the knot below its t, and the fraction of the interval beyond it."""
        knot = np.clip(np.searchsorted(self._knots, self.to_zeros, "right") - 1, 0, None)
        knot = np.minimum(knot, max(0, len(self._knots) - 2))
        widths = np.diff([*self._knots, self._knots[-1] + 1])
        return knot, (self.to_zeros - self._knots[knot]) / widths[knot]

    @cached_property
    def _from_zeros_at_knots(self) -> NDArray[np.float64]:
        """`from_zeros` of every belief at each knot, (levels, knots)."""
        sent = [self.from_zeros[t : t + self.n_levels] for t in self._knots]
        return np.stack(sent, axis=1).astype(np.float64)

    def table(self, counts: NDArray[np.int64]) -> Array:
        """−F(t) by factor, from the number of times each belief occurs, (K, levels).

        In max-sum, these are whole numbers at t = 0 … STEPS; in sum-product, values at the knots,
        the last of them twice.
        """
        if self.semiring == "max-sum":
            table = np.empty((len(counts), STEPS + 1), dtype=np.int64)
            kernels.clipped_sums(counts, table)
            return table
        # Whole numbers below 2⁵³ are exact as floats, whose products are many times faster.
        sums = counts.astype(np.float64) @ self._from_zeros_at_knots
        return np.concatenate([sums, sums[:, -1:]], axis=1)


def quantised(n: int, n_factors: int, semiring: Semiring) -> Steps:
    """An array for the beliefs of n rows or columns in steps, (n, stride): K in whole vectors."""
    kind = np.int8 if semiring == "max-sum" else np.int16
    return np.zeros((n, -(-n_factors // LANES) * LANES), dtype=kind)


@dataclass(frozen=True, eq=False)
class Side:
    """The beliefs of all rows, or of all columns, in steps."""

    steps: Steps  # (n, stride)
    counts: NDArray[np.int64]  # (K, levels), the number of times each belief occurs

    @classmethod
    def of(
        cls, scale: ZeroScale, beliefs: Floats, steps: Steps, pool: ThreadPoolExecutor | None
    ) -> tuple[Side, int]:
        """Round beliefs (n, K) to steps, which replace those of the last iteration.

        Also returns the largest change of what a variable sends to zeros, in steps.
        """
        beliefs, (n, n_factors) = np.ascontiguousarray(beliefs), beliefs.shape
        low, high = (np.float32(limit) for limit in scale.limits)
        per_odds = np.float32(scale.per_odds)

        def quantise(some: slice) -> tuple[NDArray[np.int64], float]:
            counts = np.zeros((n_factors, scale.n_levels), dtype=np.int64)
            change = kernels.quantise(beliefs[some], per_odds, low, high, steps[some], counts)
            return counts, change

        counts, change = np.zeros((n_factors, scale.n_levels), dtype=np.int64), 0.0
        for some_counts, some_change in run_all(pool, quantise, pieces(n, pool)):
            counts += some_counts
            change = max(change, some_change)
        counts[:, 0] = n - counts.sum(axis=1)
        return cls(steps, counts), int(change)


@dataclass(frozen=True, eq=False)
class ZeroSums:
    """The sums of the messages of zeros, and the same plus the field after the iteration."""

    rows: Floats  # (M, K)
    columns: Floats  # (N, K)
    after_rows: Floats
    after_columns: Floats


def renew_sums(
    scale: ZeroScale,
    rows: Side,
    columns: Side,
    by_rows: Sequence[Cells],
    by_columns: Sequence[Cells],
    damping: float,
    sums: ZeroSums,
    pool: ThreadPoolExecutor | None = None,
    field: InitialBeliefs | None = None,
    reduce: Callable[[Array], Array] = lambda array: array,
    scratch: Array | None = None,
) -> Array:
    """Damp the sums of the messages of zeros towards those that follow from present beliefs.

    `by_rows` are lists of the cells that are not collective zeros, each of them once; `by_columns`
    are the same with rows and columns exchanged. The sums plus the `field` are written to the
    arrays for afterwards. `reduce` adds up whole numbers over all parts of the matrix, of which
    these rows are one. Returns a scratch array for the next call: the system would map a new one
    page by page.
    """
    (n_rows, n_factors), n_columns = sums.rows.shape, len(sums.columns)
    counts = reduce(rows.counts)
    kind = _kind_of_sums(scale, max(int(counts[0].sum()), n_columns))
    max_sum, table = scale.semiring == "max-sum", scale.table(columns.counts)
    beyond = table - table[:, :1]
    if scratch is None or scratch.shape != sums.columns.shape or scratch.dtype != kind:
        scratch = np.empty(sums.columns.shape, kind)
    to_columns = scratch  # the messages that the listed cells would send

    def some_rows(some: slice) -> None:
        lists, steps = _lists_of(by_rows, some), rows.steps[some]
        first = None if field is None else field.of_rows(some)
        damped = _damped(scale, table, damping, sums.rows[some], sums.after_rows[some])
        if max_sum:
            own_scratch = kernels.scratch_for(n_factors, kind)
            kernels.max_sum_to_rows(
                lists, steps, columns.steps, STEPS, beyond, damped, own_scratch, first
            )
        else:
            to_rows = np.empty((len(steps), n_factors), kind)
            _look_up(scale, lists, steps, columns, to_rows)
            kernels.damp_sums(_interpolated(scale, steps, table, to_rows), damped, first)

    def from_listed(some: slice) -> None:
        lists, steps = _lists_of(by_columns, some), columns.steps[some]
        if max_sum:
            own_scratch = kernels.scratch_for(n_factors, kind)
            kernels.add_clipped(lists, steps, rows.steps, STEPS, own_scratch, to_columns[some])
        else:
            _look_up(scale, lists, steps, rows, to_columns[some])

    def some_columns(some: slice) -> None:
        first = None if of_columns is None else np.ascontiguousarray(of_columns[some])
        damped = _damped(scale, table, damping, sums.columns[some], sums.after_columns[some])
        steps, from_cells = columns.steps[some], to_columns[some]
        if max_sum:
            kernels.max_sum_to_columns(steps, from_cells, beyond, damped, first)
        else:
            kernels.damp_sums(_interpolated(scale, steps, table, from_cells), damped, first)

    tasks = [partial(some_rows, some) for some in pieces(n_rows, pool)]
    tasks += [partial(from_listed, some) for some in _pieces_of_cells(by_columns[0], pool)]
    list(run_all(pool, lambda task: task(), tasks))
    to_columns, table = reduce(to_columns), scale.table(counts)
    beyond = table - table[:, :1]
    of_columns = None if field is None else field.of_columns().T
    list(run_all(pool, some_columns, pieces(n_columns, pool)))
    return scratch


def _pieces_of_cells(cells: Cells, pool: ThreadPoolExecutor | None) -> list[slice]:
    """Runs of columns with about the same number of cells, one thread each at a time."""
    n = max(1, min(MOST_PIECES, len(cells) // CELLS)) if pool else 1
    return balanced_runs(cells.indptr, n)


def _kind_of_sums(scale: ZeroScale, n_cells: int) -> type[np.signedinteger]:
    """A type for the sum of the messages of all listed cells of a row or column."""
    narrow = scale.semiring == "max-sum" and n_cells * STEPS < 2**31
    return np.int32 if narrow else np.int64


def _lists_of(lists: Sequence[Cells], some: slice) -> kernels.Lists:
    """The cells of some rows, or columns, for kernels: read-only arrays, all of the same types."""
    lists_for_kernels = []
    for cells in lists:
        indptr = cells.indptr[some.start : some.stop + 1]
        numbers = cells.columns  # below 2³¹, signed or not
        numbers = numbers.view(np.int32) if numbers.itemsize == 4 else numbers.astype(np.int32)
        indptr.flags.writeable = numbers.flags.writeable = False
        lists_for_kernels.append((indptr, numbers))
    return tuple(lists_for_kernels)


def _damped(
    scale: ZeroScale, table: Array, damping: float, sums: Floats, after: Floats
) -> kernels.Damped:
    """Sums of some rows or columns, to be damped towards new ones."""
    none = table[:, 0].astype(np.float64)
    return kernels.Damped(1.0 - damping, damping * scale.unit, none, sums, after)


def _look_up(
    scale: ZeroScale, lists: kernels.Lists, steps: Steps, others: Side, out: Array
) -> None:
    """What listed cells would send to some rows or columns in sum-product, (n, K)."""
    out.fill(0)
    tables = scale.limits[0], scale.to_zeros, scale.from_zeros
    for indptr, numbers in lists:
        if len(numbers):
            kernels.add_looked_up(indptr, numbers, steps, others.steps, *tables, out)


def _interpolated(
    scale: ZeroScale, steps: Steps, table: Array, listed: Array
) -> NDArray[np.float64]:
    """The sums of all cells minus those of listed cells, negative, in sum-product, (n, K)."""
    totals, (knot, part) = np.empty(listed.shape), scale.interpolation
    kernels.interpolated_sums(steps, scale.limits[0], knot, part, table, listed, totals)
    return totals
