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
from typing import TYPE_CHECKING

import numpy as np

from boolweave.engine.kernels.vectors import LANES
from boolweave.engine.kernels.zeros import collective as kernels
from boolweave.runtime.threads import run_all

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from numpy.typing import NDArray

    from boolweave.data.ones import Cells
    from boolweave.engine.backend import Semiring
    from boolweave.engine.field import Field
    from boolweave.runtime.types import Array, Floats

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

# Rows that one thread takes at a time.
ROWS = 512


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
            return _clipped_sums(counts)
        # whole numbers below 2⁵³: exact as floats, whose products are many times faster
        table = counts.astype(np.float64) @ self._sent_at
        return np.concatenate([table, table[:, -1:]], axis=1)


def _clipped_sums(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Σ over beliefs v of (v + t) clipped to 0 … STEPS, for t = 0 … STEPS, (K, STEPS + 1).

    From t to t + 1 it grows by the number of beliefs from −t to STEPS − t − 1.
    """
    up_to = np.concatenate(
        [np.zeros((len(counts), 1), np.int64), np.cumsum(counts, axis=1)], axis=1
    )
    t = np.arange(STEPS)
    growth = up_to[:, 2 * STEPS - t] - up_to[:, STEPS - t]
    first = counts[:, STEPS:] @ np.arange(STEPS + 1)
    return np.cumsum(np.concatenate([first[:, None], growth], axis=1), axis=1)


def quantised(n: int, n_factors: int) -> NDArray[np.int16]:
    """Room for the beliefs of n rows or columns, (n, stride): K in whole vectors."""
    room = np.zeros((n, -(-n_factors // LANES) * LANES), dtype=np.int16)
    room[:, n_factors:] = np.iinfo(np.int16).min
    return room


@dataclass(frozen=True, eq=False)
class Side:
    """Rows or columns: their beliefs in steps."""

    steps: NDArray[np.int16]  # (n, stride)
    counts: NDArray[np.int64]  # (K, levels), how often each belief occurs
    positive: kernels.Positive  # beliefs above 0; of max-sum only

    @classmethod
    def of(
        cls, scale: Scale, beliefs: Floats, steps: NDArray[np.int16],
        pool: ThreadPoolExecutor | None,
    ) -> tuple[Side, int]:  # fmt: skip
        """Make the side of beliefs (n, K), written to `steps` over those before.

        Returns also the largest change of what a variable tells zeros, in steps.
        """
        n, n_factors = beliefs.shape
        low, high = (np.float32(limit) for limit in scale.limits)
        per_odds = np.float32(scale.per_odds)
        starts = np.zeros(n + 1, dtype=np.int64)
        piece = max(4 * ROWS, -(-n // 16))

        def quantise(first: int) -> tuple[NDArray[np.int64], float]:
            some = slice(first, min(n, first + piece))
            counts = np.zeros((n_factors, scale.n_levels), dtype=np.int64)
            positive = starts[some.start + 1 : some.stop + 1]
            change = kernels.quantise(
                beliefs[some], per_odds, low, high, steps[some], counts, positive
            )
            return counts, change

        counts, change = np.zeros((n_factors, scale.n_levels), dtype=np.int64), 0.0
        for some_counts, some_change in run_all(pool, quantise, range(0, n, piece)):
            counts += some_counts
            change = max(change, some_change)
        counts[:, 0] = n - counts.sum(axis=1)
        room = 0
        if scale.semiring == "max-sum":
            np.cumsum(starts, out=starts)
            room = int(starts[-1])
        positive = kernels.Positive(starts, np.empty(room, np.int32))

        def list_positive(first: int) -> None:
            some = slice(first, min(n, first + piece))
            kernels.list_positive(steps[some], first, positive)

        if room:
            _each(pool, list_positive, range(0, n, piece))
        return cls(steps, counts, positive), int(change)


@dataclass(frozen=True, eq=False)
class Sums:
    """What zeros send to rows and columns, and what all but messages add to beliefs afterwards."""

    rows: Floats  # (M, K)
    columns: Floats  # (N, K)
    after_rows: Floats
    after_columns: Floats


def renew_sums(
    scale: Scale, rows: Side, columns: Side, listed: Sequence[Cells], damping: float, sums: Sums,
    pool: ThreadPoolExecutor | None = None, field: Field | None = None,
    reduce: Callable[[Array], Array] = lambda array: array,
    room: list[tuple[Array, Array]] | None = None,
) -> None:  # fmt: skip
    """Damp what zeros send to all rows and columns towards what they send now.

    `listed` are the cells that are no collective zeros, each of them once. What the `field` and the
    sums are together is written to the arrays for afterwards. `reduce` adds whole numbers up over
    all parts of the matrix, of which these rows are one. `room` has arrays from the last time: new
    ones would be mapped by the system page by page.
    """
    (n_rows, n_factors), n_columns = sums.rows.shape, len(sums.columns)
    counts = reduce(rows.counts)
    kind = _kind_of_sums(scale, max(int(counts[0].sum()), n_columns))
    table = scale.table(columns.counts)
    # What listed cells would send to some rows and to columns: a pair of arrays for each thread.
    pairs = [] if room is None else room
    shapes = (ROWS, n_factors), (n_columns, n_factors)
    pairs[:] = [pair for pair in pairs if (pair[0].shape, pair[1].shape) == shapes]
    pairs[:] = [pair for pair in pairs if pair[0].dtype == kind]
    for _, to_columns in pairs:
        to_columns.fill(0)

    def make() -> tuple[Array, Array]:
        return np.empty(shapes[0], kind), np.zeros(shapes[1], kind)

    def some(start: int) -> None:
        own = slice(start, min(n_rows, start + ROWS))
        pair = _one_of(pairs, make)
        to_rows, to_columns = pair[0][: own.stop - own.start], pair[1]
        to_rows.fill(0)
        for cells in listed:
            if len(cells):
                _add_listed(scale, rows, columns, cells, own, to_rows, to_columns)
        first = None if field is None else field.of_rows(own)
        _damp(
            scale, rows, own, table, to_rows, damping, first, sums.rows[own], sums.after_rows[own]
        )
        pairs.append(pair)

    _each(pool, some, range(0, n_rows, ROWS))
    to_columns = pairs[0][1] if pairs else np.zeros(shapes[1], kind)
    for _, others in pairs[1:]:
        to_columns += others
    to_columns = reduce(to_columns)
    first = None if field is None else np.ascontiguousarray(field.of_columns().T)
    everything, table = slice(0, n_columns), scale.table(counts)
    _damp(
        scale, columns, everything, table, to_columns, damping, first, sums.columns,
        sums.after_columns,
    )  # fmt: skip


def _kind_of_sums(scale: Scale, n_cells: int) -> type[np.signedinteger]:
    """The integers that can hold what all listed cells of a row or column send."""
    narrow = scale.semiring == "max-sum" and n_cells * STEPS < 2**31
    return np.int32 if narrow else np.int64


def _one_of(
    pairs: list[tuple[Array, Array]], make: Callable[[], tuple[Array, Array]]
) -> tuple[Array, Array]:
    """A pair of arrays that no other thread has taken, or a new one."""
    try:
        return pairs.pop()
    except IndexError:
        return make()


def _add_listed(
    scale: Scale, rows: Side, columns: Side, cells: Cells, own: slice, to_rows: Array,
    to_columns: Array,
) -> None:  # fmt: skip
    """Add −h of the listed cells of some rows, in units, to what goes to rows and to columns."""
    indptr, steps = cells.indptr[own.start : own.stop + 1], rows.steps[own]
    if scale.semiring == "max-sum":
        kernels.add_clipped(
            indptr, cells.columns, own.start, steps, rows.positive, columns.steps,
            columns.positive, STEPS, to_rows, to_columns,
        )  # fmt: skip
    else:
        kernels.add_looked_up(
            indptr, cells.columns, steps, columns.steps, scale.limits[0], scale.told, scale.sent,
            to_rows, to_columns,
        )  # fmt: skip


def _damp(
    scale: Scale, side: Side, own: slice, table: Array, listed: Array, damping: float,
    field: Floats | None, sums: Floats, after: Floats,
) -> None:  # fmt: skip
    """Damp the sums of some rows or columns; `listed` is what listed cells would send to them."""
    first = table[:, 0].astype(np.float64)
    if scale.semiring == "max-sum":
        kernels.add_beyond_first(own.start, side.positive, table, listed)
    else:
        totals, (at, part) = np.empty(listed.shape), scale.between
        kernels.add_between(side.steps[own], scale.limits[0], at, part, table, listed, totals)
        listed = totals
    kernels.damp_towards(listed, first, damping, scale.unit, field, sums, after)


def _each(pool: ThreadPoolExecutor | None, function: Callable[[int], None], items: range) -> None:
    for _ in run_all(pool, function, items):
        pass
