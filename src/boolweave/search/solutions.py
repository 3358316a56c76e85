"""Solutions of a search, the few different ones with which it continues, and their tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from boolweave.search.kernels.bits import sizes_of
from boolweave.search.kernels.factors import cost
from boolweave.search.table import bits_of, factors_of, shape_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from boolweave.search.kernels.factors import Factors, Table
    from boolweave.search.table import Bits

# The number of solutions with which a search continues. Two are considered equal if their products
# differ in fewer entries than this fraction of their cost.
N_KEPT = 8
SAME = 0.05


@dataclass(frozen=True, eq=False)
class Solution:
    """Factors and their cost."""

    cost: float
    X: Bits  # (M, K)
    Y: Bits  # (K, N)
    covered: NDArray[np.uint64]  # (M, words of N), their product

    @classmethod
    def of(cls, cost: float, factors: Factors) -> Solution:
        """Unpack factors."""
        return cls(float(cost), *bits_of(factors), factors.rows.once.copy())

    def order(self) -> tuple[float, int, bytes]:
        """The sort key of solutions: the cost, then the size, then something reproducible."""
        text = np.sort(np.packbits(self.Y, axis=1).view(f"S{-(-self.Y.shape[1] // 8)}"), axis=0)
        return round(self.cost, 6), int(self.X.sum()) + int(self.Y.sum()), text.tobytes()

    def factors(self, table: Table) -> Factors:
        """Pack the factors."""
        return factors_of(table, self.X, self.Y)

    def is_of(self, table: Table, n_components: int) -> bool:
        """Whether these are `n_components` factors of the table, with their product and cost."""
        M, N = shape_of(table)
        if self.X.shape != (M, n_components) or self.Y.shape != (n_components, N):
            return False
        if self.X.dtype != np.uint8 or self.Y.dtype != np.uint8 or self.covered.dtype != np.uint64:
            return False
        factors = self.factors(table)
        return (
            isinstance(self.cost, float)
            and bool(np.isclose(cost(table, factors), self.cost, rtol=1e-9))
            and np.array_equal(factors.rows.once, self.covered)
        )


def add(kept: list[Solution], new: Solution) -> list[Solution]:
    """Add a solution to the kept ones, the best first; of two similar ones, keep the better."""
    for i, old in enumerate(kept):
        limit = SAME * min(old.cost, new.cost)
        if sizes_of(old.covered ^ new.covered).sum() <= limit:
            if new.cost < old.cost:
                kept = [*kept[:i], new, *kept[i + 1 :]]
            break
    else:
        kept = [*kept, new]
    return sorted(kept, key=lambda solution: solution.cost)[:N_KEPT]


def distinct(solutions: Iterable[Solution], most: int) -> list[Solution]:
    """Take the first few solutions with different products."""
    chosen: list[Solution] = []
    for one in solutions:
        if len(chosen) < most and not any((one.covered == other.covered).all() for other in chosen):
            chosen.append(one)
    return chosen


def distinct_tiles(solutions: Iterable[Solution]) -> tuple[Bits, Bits]:
    """Collect the different tiles of solutions that are not empty: X (M, T), Y (T, N)."""
    solutions = list(solutions)
    X = np.hstack([solution.X for solution in solutions])
    Y = np.vstack([solution.Y for solution in solutions])
    full = np.flatnonzero(X.any(axis=0) & Y.any(axis=1))
    packed = np.hstack([np.packbits(X.T[full], axis=1), np.packbits(Y[full], axis=1)])
    _, first = np.unique(packed, axis=0, return_index=True)
    chosen = full[np.sort(first)]
    return X[:, chosen], Y[chosen]
