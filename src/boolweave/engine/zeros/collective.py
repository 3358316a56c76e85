"""All zeros of a row, or of a column, at once.

A zero that no other factor claims says L₀ = −λ of every term, wherever it is. With

    h(v) = (v + L₀)₊ − (v)₊                  max-sum
    h(v) = log(1 + e^(v + L₀)) − log(1 + e^v)   sum-product

it sends Φ = h(Υ − Ψ) to its row and Ψ = h(Ξ − Φ) to its column. To first order Ψ = h(Ξ) = −t, which
depends on the row alone, so that all zeros of row m send F(t) = Σₙ h(Υₙ + t), less what this counts
for the listed cells of the row, which are no such zeros. F needs only how often each value of Υ
occurs: beliefs are rounded to steps, and one table of F serves all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from boolweave.data.ones import Cells
from boolweave.engine.kernels.vectors import LANES
from boolweave.engine.kernels.zeros import collective as kernels
from boolweave.runtime.threads import run_all

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from numpy.typing import DTypeLike, NDArray

    from boolweave.engine.backend import Semiring
    from boolweave.engine.field import Field
    from boolweave.runtime.types import Array, Floats

    Steps = NDArray[np.int8 | np.int16]

# Max-sum: steps of λ; what is beyond ±λ counts as ±λ.
STEPS = 127

# Sum-product: steps of log-odds, and the range that is told apart: below it a probability times
# the largest number of columns is still next to nothing.
FINE = 32
LOWEST, HIGHEST = -20.0, 20.0

# Sum-product: values of t at which F is worked out, between which it is taken for linear; and the
# part of a unit of log-odds in which sums are taken, exact in any order.
N_TOLD = 33
PARTS = float(1 << 24)

# Rows, or listed cells, that one thread takes at a time, at the least, and the most pieces.
ROWS = 4096
CELLS = 1 << 16
PIECES = 16


@dataclass(frozen=True)
class Scale:
    """The steps in which beliefs are rounded, for zeros that say L₀ = −strength."""

    strength: float
    semiring: Semiring

    @property
    def per_odds(self) -> float:
        """Steps in 1 of log-odds."""
        return STEPS / self.strength if self.semiring == "max-sum" else float(FINE)

    @property
    def limits(self) -> tuple[int, int]:
        """The lowest and the highest belief, in steps."""
        if self.semiring == "max-sum":
            return -STEPS, STEPS
        return int(LOWEST * FINE), int(HIGHEST * FINE)

    @property
    def n_levels(self) -> int:
        """How many beliefs there are."""
        low, high = self.limits
        return high - low + 1

    @cached_property
    def told(self) -> NDArray[np.int64]:
        """What a variable tells all zeros, t in steps, by its belief less the lowest, (levels,)."""
        low, high = self.limits
        beliefs = np.arange(low, high + 1)
        if self.semiring == "max-sum":
            return np.clip(beliefs, 0, STEPS)
        return np.rint(-self._sent(beliefs / FINE) * FINE).astype(np.int64)

    def _sent(self, odds: NDArray[np.float64]) -> NDArray[np.float64]:
        """h, of sum-product, in log-odds."""
        return np.logaddexp(0, odds - self.strength) - np.logaddexp(0, odds)

    @cached_property
    def sent(self) -> NDArray[np.int64]:
        """−h(Υ + t) by Υ + t less the lowest Υ, in `unit`s; (levels + t's,)."""
        low, high = self.limits
        values = np.arange(low, high + int(self.told.max()) + 1)
        if self.semiring == "max-sum":
            return np.clip(values, 0, STEPS)
        return np.rint(-self._sent(values / FINE) * PARTS).astype(np.int64)

    @property
    def unit(self) -> float:
        """Log-odds of one unit of `sent`."""
        return self.strength / STEPS if self.semiring == "max-sum" else 1 / PARTS

    @cached_property
    def _told_at(self) -> NDArray[np.int64]:
        """The values of t in steps at which F is worked out."""
        most = int(self.told.max())
        n = most + 1 if self.semiring == "max-sum" else min(N_TOLD, most + 1)
        return np.unique(np.rint(np.linspace(0, most, n)).astype(np.int64))

    @cached_property
    def between(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """For every belief the number of the value of t below its own, and how far it is beyond."""
        at = np.clip(np.searchsorted(self._told_at, self.told, "right") - 1, 0, None)
        at = np.minimum(at, max(0, len(self._told_at) - 2))
        widths = np.diff([*self._told_at, self._told_at[-1] + 1])
        return at, (self.told - self._told_at[at]) / widths[at]

    @cached_property
    def _sent_at(self) -> NDArray[np.float64]:
        """`sent` of every belief at each of these values, (levels, values)."""
        sent = [self.sent[t : t + self.n_levels] for t in self._told_at]
        return np.stack(sent, axis=1).astype(np.float64)

    def table(self, counts: NDArray[np.int64]) -> Array:
        """−F(t) at some t, from how often each belief occurs, (K, levels): (K, values).

        In max-sum these are whole numbers at t = 0 … STEPS.
        """
        if self.semiring == "max-sum":
            table = np.empty((len(counts), STEPS + 1), dtype=np.int64)
            kernels.clipped_sums(counts, table)
            return table
        # whole numbers below 2⁵³: exact as floats, whose products are many times faster
        sums = counts.astype(np.float64) @ self._sent_at
        return np.concatenate([sums, sums[:, -1:]], axis=1)


def quantised(n: int, n_factors: int, semiring: Semiring) -> Steps:
    """Room for the beliefs of n rows or columns, (n, stride): K in whole vectors."""
    kind = np.int8 if semiring == "max-sum" else np.int16
    return np.zeros((n, -(-n_factors // LANES) * LANES), dtype=kind)


@dataclass(frozen=True, eq=False)
class Side:
    """Rows or columns: their beliefs in steps."""

    steps: Steps  # (n, stride)
    counts: NDArray[np.int64]  # (K, levels), how often each belief occurs

    @classmethod
    def of(
        cls, scale: Scale, beliefs: Floats, steps: Steps, pool: ThreadPoolExecutor | None
    ) -> tuple[Side, int]:
        """Make the side of beliefs (n, K), written to `steps` over those of the last iteration.

        Also returns the largest change of what a variable tells zeros, in steps.
        """
        beliefs, (n, n_factors) = np.ascontiguousarray(beliefs), beliefs.shape
        low, high = (np.float32(limit) for limit in scale.limits)
        per_odds = np.float32(scale.per_odds)

        def quantise(some: slice) -> tuple[NDArray[np.int64], float]:
            counts = np.zeros((n_factors, scale.n_levels), dtype=np.int64)
            change = kernels.quantise(beliefs[some], per_odds, low, high, steps[some], counts)
            return counts, change

        counts, change = np.zeros((n_factors, scale.n_levels), dtype=np.int64), 0.0
        for some_counts, some_change in run_all(pool, quantise, _pieces(n, pool)):
            counts += some_counts
            change = max(change, some_change)
        counts[:, 0] = n - counts.sum(axis=1)
        return cls(steps, counts), int(change)


def _pieces(n: int, pool: ThreadPoolExecutor | None) -> list[slice]:
    """Rows or columns that one thread takes at a time: at most sixteen pieces."""
    size = max(ROWS, -(-n // PIECES)) if pool else max(1, n)
    return [slice(first, min(n, first + size)) for first in range(0, n, size)]


@dataclass(frozen=True, eq=False)
class Sums:
    """What zeros send to rows and columns, and that plus the field, after the iteration."""

    rows: Floats  # (M, K)
    columns: Floats  # (N, K)
    after_rows: Floats
    after_columns: Floats


def renew_sums(
    scale: Scale, rows: Side, columns: Side, by_rows: Sequence[Cells], by_columns: Sequence[Cells],
    damping: float, sums: Sums,
    pool: ThreadPoolExecutor | None = None, field: Field | None = None,
    reduce: Callable[[Array], Array] = lambda array: array, room: Room | None = None,
) -> None:  # fmt: skip
    """Damp what zeros send to all rows and columns towards what they send now.

    `by_rows` are lists of the cells that are not collective zeros, each of them once; `by_columns`
    are the same with rows and columns exchanged. The sums plus the `field` are written to the
    arrays for afterwards. `reduce` adds up whole numbers over all parts of the matrix, of which
    these rows are one. `room` keeps arrays from one call to the next.
    """
    (n_rows, n_factors), n_columns = sums.rows.shape, len(sums.columns)
    counts = reduce(rows.counts)
    kind = _kind_of_sums(scale, max(int(counts[0].sum()), n_columns))
    max_sum, table = scale.semiring == "max-sum", scale.table(columns.counts)
    beyond = table - table[:, :1]
    to_columns = (room or Room()).array("to columns", (n_columns, n_factors), kind)

    def some_rows(own: slice) -> None:
        lists, steps = _lists_of(by_rows, own), rows.steps[own]
        first = None if field is None else field.of_rows(own)
        damped = _damped(scale, table, damping, sums.rows[own], sums.after_rows[own])
        if max_sum:
            kernels.max_sum_to_rows(
                lists, steps, columns.steps, STEPS, beyond, damped,
                kernels.scratch_for(n_factors, kind), first,
            )  # fmt: skip
        else:
            to_rows = np.empty((len(steps), n_factors), kind)
            _look_up(scale, lists, steps, columns, to_rows)
            kernels.damp_sums(_between(scale, steps, table, to_rows), damped, first)

    def from_listed(own: slice) -> None:
        lists, steps = _lists_of(by_columns, own), columns.steps[own]
        if max_sum:
            scratch = kernels.scratch_for(n_factors, kind)
            kernels.add_clipped(lists, steps, rows.steps, STEPS, scratch, to_columns[own])
        else:
            _look_up(scale, lists, steps, rows, to_columns[own])

    def some_columns(own: slice) -> None:
        first = None if of_columns is None else np.ascontiguousarray(of_columns[own])
        damped = _damped(scale, table, damping, sums.columns[own], sums.after_columns[own])
        steps, from_cells = columns.steps[own], to_columns[own]
        if max_sum:
            kernels.max_sum_to_columns(steps, from_cells, beyond, damped, first)
        else:
            kernels.damp_sums(_between(scale, steps, table, from_cells), damped, first)

    tasks = [(some_rows, own) for own in _pieces(n_rows, pool)]
    tasks += [(from_listed, own) for own in _pieces_of_cells(by_columns[0], pool)]
    _each(pool, tasks)
    to_columns, table = reduce(to_columns), scale.table(counts)
    beyond = table - table[:, :1]
    of_columns = None if field is None else field.of_columns().T
    _each(pool, [(some_columns, own) for own in _pieces(n_columns, pool)])


def _pieces_of_cells(cells: Cells, pool: ThreadPoolExecutor | None) -> list[slice]:
    """Columns that one thread takes at a time, with about as many cells each."""
    n_columns, n_cells = len(cells.indptr) - 1, len(cells)
    n = max(1, min(PIECES, n_cells // CELLS)) if pool else 1
    cuts = np.searchsorted(cells.indptr, np.arange(1, n) * (n_cells / n))
    return [slice(a, b) for a, b in pairwise([0, *cuts.tolist(), n_columns]) if b > a]


class Room:
    """Arrays that are written to in every iteration: the system would map new ones page by page."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}

    def array(self, name: str, shape: tuple[int, ...], kind: DTypeLike) -> Array:
        """The array of this name, shape and type, with any numbers."""
        found = self._arrays.get(name)
        if found is None or found.shape != shape or found.dtype != kind:
            found = self._arrays[name] = np.empty(shape, kind)
        return found


def _kind_of_sums(scale: Scale, n_cells: int) -> type[np.signedinteger]:
    """The integers that can hold what all listed cells of a row or column send."""
    narrow = scale.semiring == "max-sum" and n_cells * STEPS < 2**31
    return np.int32 if narrow else np.int64


def _lists_of(lists: Sequence[Cells], own: slice) -> kernels.Lists:
    """The cells of some rows, or columns, for kernels: read-only arrays of the same types."""
    found = []
    for cells in lists:
        indptr = cells.indptr[own.start : own.stop + 1]
        numbers = cells.columns  # below 2³¹, signed or not
        numbers = numbers.view(np.int32) if numbers.itemsize == 4 else numbers.astype(np.int32)
        indptr.flags.writeable = numbers.flags.writeable = False
        found.append((indptr, numbers))
    return tuple(found)


def _damped(
    scale: Scale, table: Array, damping: float, sums: Floats, after: Floats
) -> kernels.Damped:
    """Sums of some rows or columns, to be damped towards new ones."""
    none = table[:, 0].astype(np.float64)
    return kernels.Damped(1.0 - damping, damping * scale.unit, none, sums, after)


def _look_up(scale: Scale, lists: kernels.Lists, steps: Steps, others: Side, out: Array) -> None:
    """What listed cells would send to some rows or columns in sum-product, (n, K)."""
    out.fill(0)
    for indptr, numbers in lists:
        if len(numbers):
            kernels.add_looked_up(
                indptr, numbers, steps, others.steps, scale.limits[0], scale.told, scale.sent, out
            )


def _between(scale: Scale, steps: Steps, table: Array, listed: Array) -> NDArray[np.float64]:
    """What zeros send less what listed cells would send, in sum-product, (n, K)."""
    totals, (at, part) = np.empty(listed.shape), scale.between
    kernels.sums_between(steps, scale.limits[0], at, part, table, listed, totals)
    return totals


def _each(
    pool: ThreadPoolExecutor | None, tasks: Sequence[tuple[Callable[[slice], None], slice]]
) -> None:
    for _ in run_all(pool, lambda task: task[0](task[1]), tasks):
        pass
