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
    from boolweave.runtime.types import Array, Floats, Integers

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
ROWS = 4096


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

    def table(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """−F(t) at some t, from how often each belief occurs, (K, levels): (K, values + 1)."""
        # Whole numbers below 2⁵³: exact as floats, whose products are many times faster.
        table = counts.astype(np.float64) @ self._sent_at
        return np.concatenate([table, table[:, -1:]], axis=1)


def quantised(n: int, n_factors: int) -> NDArray[np.int16]:
    """Room for the beliefs of n rows or columns, (n, stride): K in whole vectors."""
    return np.zeros((n, -(-n_factors // LANES) * LANES), dtype=np.int16)


@dataclass(frozen=True, eq=False)
class Side:
    """Rows or columns: their beliefs in steps, and cells that are no collective zeros."""

    steps: NDArray[np.int16]  # (n, stride)
    listed: Sequence[Cells]  # by rows or by columns, as the side is


def renew_sums(
    scale: Scale, own: Side, others: Side, damping: float, sums: Floats,
    pool: ThreadPoolExecutor | None,
) -> None:  # fmt: skip
    """Damp what zeros send to all variables of a side, sums (n, K), towards what they send now."""
    n, n_factors = sums.shape
    table = scale.table(level_counts(scale, others.steps, n_factors, pool))
    at, part = scale.between
    low, unit = scale.limits[0], scale.unit

    def some(start: int) -> None:
        rows = slice(start, min(n, start + ROWS))
        listed = _sums_of_listed(scale, own, others, rows, n_factors)
        kernels.damp_towards(
            own.steps[rows], low, at, part, table, listed, damping, unit, sums[rows]
        )

    _each(pool, some, range(0, n, ROWS))


def level_counts(
    scale: Scale, steps: Integers, n_factors: int, pool: ThreadPoolExecutor | None
) -> NDArray[np.int64]:
    """How often each belief occurs in each factor, (K, levels)."""
    parts: list[NDArray[np.int64]] = []

    def some(start: int) -> None:
        counts = np.zeros((n_factors, scale.n_levels), dtype=np.int64)
        kernels.count_levels(steps[start : start + piece], scale.limits[0], n_factors, counts)
        parts.append(counts)

    piece = max(ROWS, -(-len(steps) // 16))
    _each(pool, some, range(0, len(steps), piece))
    return np.sum(parts, axis=0) if parts else np.zeros((n_factors, scale.n_levels), np.int64)


def _sums_of_listed(scale: Scale, own: Side, others: Side, rows: slice, n_factors: int) -> Array:
    """−Σ h over the listed cells of some rows, in units, (rows, K)."""
    steps, low = own.steps[rows], scale.limits[0]
    if scale.semiring == "max-sum":
        sums = np.zeros(steps.shape, dtype=np.int32)
        scratch = np.zeros(2 * steps.shape[1], dtype=np.int16)
        for cells in own.listed:
            indptr = cells.indptr[rows.start : rows.stop + 1]
            kernels.add_clipped(indptr, cells.columns, steps, others.steps, STEPS, sums, scratch)
        return sums
    totals = np.zeros((len(steps), n_factors), dtype=np.int64)
    for cells in own.listed:
        indptr = cells.indptr[rows.start : rows.stop + 1]
        kernels.add_looked_up(
            indptr, cells.columns, steps, others.steps, low, scale.told, scale.sent, totals
        )  # fmt: skip
    return totals


def _each(pool: ThreadPoolExecutor | None, function: Callable[[int], None], items: range) -> None:
    for _ in run_all(pool, function, items):
        pass
