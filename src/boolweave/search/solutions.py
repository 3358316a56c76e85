"""Solutions of a search, the few different ones with which it continues, and their tiles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from boolweave.engine.kernels.bits import sizes_of, unpack
from boolweave.search.kernels.factors import Entries, Factors, Table, cost
from boolweave.search.table import Bits, bits_of, factors_of, shape_of

# The number of solutions with which a search continues.
N_KEPT = 8


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


def without_errors(table: Table, most: int) -> Solution | None:
    """A solution without errors: a factor for each different row, or column, that has ones.

    Of rows and columns, those of which fewer are different are taken. The solution has at least one
    factor; it is None if more than `most` factors would be necessary.
    """
    rows, columns = (_one_per_line(side, most) for side in (table.rows, table.columns))
    if rows is None and columns is None:
        return None
    if columns is None or (rows is not None and rows.shape[1] <= columns.shape[1]):
        assert rows is not None
        X, Y = rows, unpack(table.rows.ones[rows.argmax(axis=0)], shape_of(table)[1])
    else:
        Y, X = columns.T, unpack(table.columns.ones[columns.argmax(axis=0)], shape_of(table)[0]).T
    return Solution.of(0.0, factors_of(table, X, Y))


def enumerated(table: Table, n_components: int) -> Solution | None:
    """The best factors of a tiny table by trying all; None if these are too many.

    With XOR, all searches may agree on factors that are not the best ones.
    """
    if shape_of(table)[0] < shape_of(table)[1]:
        other = enumerated(table._replace(rows=table.columns, columns=table.rows), n_components)
        return other and Solution.of(other.cost, factors_of(table, other.Y.T, other.X.T))
    N = shape_of(table)[1]
    most = 100_000  # combinations of factors
    if N > 16 or comb(2**N - 1, n_components) << n_components > most:
        return None
    ones, zeros = (unpack(side, N) for side in (table.rows.ones, table.rows.zeros))
    weights = table.rows.weights if table.rows.weights.size else np.ones(ones.shape)
    patterns = unpack(np.arange(2**N, dtype=np.uint64)[:, None], N)
    # The cost of each pattern (second axis) in each row, and the best of those that the factors of
    # each set, all numbers of patterns, combine to.
    costs = (weights * ones) @ (1 - patterns).T + table.false_weight * (
        weights * zeros
    ) @ patterns.T
    sets = np.array(list(combinations(range(1, 2**N), n_components)))
    combine = np.bitwise_xor if table.xor else np.bitwise_or
    members = unpack(np.arange(2**n_components, dtype=np.uint64)[:, None], n_components)
    combined = combine.reduce(sets[:, None] * members, axis=2)
    totals = sum(row[combined].min(axis=1) for row in costs)
    best = int(np.argmin(totals))
    X = members[costs[:, combined[best]].argmin(axis=1)]
    factors = factors_of(table, X, patterns[sets[best]])
    return Solution.of(cost(table, factors), factors)


def _one_per_line(entries: Entries, most: int) -> Bits | None:
    """Which lines belong to each set of equal lines with ones, (L, K); None if K > `most`."""
    sets: dict[bytes, int] = {}
    set_of = np.full(len(entries.ones), -1)
    for line in np.flatnonzero(entries.ones.any(axis=1)):
        key = entries.ones[line].tobytes() + entries.zeros[line].tobytes()
        set_of[line] = sets.setdefault(key, len(sets))
        if len(sets) > most:
            return None
    return (set_of[:, None] == np.arange(max(1, len(sets)))).astype(np.uint8)


def add(kept: list[Solution], new: Solution) -> list[Solution]:
    """Add a solution to the kept ones, the best first; of two similar ones, keep the better."""
    # Two are considered equal if their products differ in fewer entries than this fraction of their
    # cost.
    same = 0.05
    for i, old in enumerate(kept):
        limit = same * min(old.cost, new.cost)
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
