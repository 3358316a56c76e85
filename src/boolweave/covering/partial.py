"""Covers of a part of the ones, with a limited number of factors, or with false ones.

Factors are improved by their cost: the number of missed ones plus the number of false ones times a
weight. The number of factors is reduced as long as the missed ones and the false ones stay within
their limits; the weight of a false one is adapted to the limit that is exceeded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from boolweave.covering.kernels.tiles import descend_within, grow, n_missed
from boolweave.covering.matrix import NO_LIMITS, Matrix, Requirements, packed
from boolweave.covering.result import greedy_order
from boolweave.engine.kernels.bits import Words, pack, random_words, sizes_of
from boolweave.runtime.run import Run
from boolweave.runtime.words import counted
from boolweave.search.kernels.descent import prune, scratch
from boolweave.search.kernels.factors import Entries, Table, empty_factors
from boolweave.search.searching import improve_factors, work_of_refit
from boolweave.search.table import Bits, bits_of, factors_of, shape_of, transposed

# Work in nanoseconds of a core: the maximum of all trials together, and of one trial, which has at
# least this many passes over all factors.
MOST_WORK = 30e9
TRIAL_WORK = 2e9
LEAST_PASSES = 3

# Number of random tiles that are tried for each new factor, and maximum number of passes of a
# descent.
N_TRIES = 8
N_PASSES = 20

# The weights of a false one relative to a missed one that are tried first. Later the weight is
# multiplied or divided by this factor; this many weights are tried for each number of factors.
WEIGHTS = (1.0, 0.5, 2.0)
STEP_OF_WEIGHT = 2.0
N_WEIGHTS = 3


@dataclass(frozen=True, eq=False)
class Found:
    """Factors X (M, K) and Y (K, N), and the numbers of their missed ones and false ones."""

    X: Bits
    Y: Bits
    n_missed: int
    n_false: int

    def reaches(self, goal: Requirements) -> bool:
        """Whether the missed ones and the false ones are within their limits."""
        return self.n_missed <= goal.most_missed and self.n_false <= goal.most_false


def partial_cover(
    matrix: Matrix,
    covered: Words,
    goal: Requirements,
    start: tuple[Bits, Bits],
    seed: int,
    run: Run,
) -> Found:
    """Cover enough ones with few factors, or as many ones as possible with a number of factors.

    Parameters
    ----------
    matrix : Matrix, shape (M, N)
    covered : (M, words of N) array
        The entries that fixed factors cover.
    goal : Requirements
        The limits of the factors that are not fixed.
    start : X (M, T) and Y (T, N)
        Factors without false ones that cover all ones.
    seed : int
    run : Run
        When it sets its `stop`, the search ends with the best answer so far.
    """
    search = _Search(matrix, covered, goal, seed, run)
    found = search.first(*start)
    if goal.most_false:
        found = search.with_false_ones(found)
    if goal.most_factors is not None and not found.reaches(goal):
        now = search.with_factors(found, goal.most_factors)
        found = min(found, now, key=search.rank)
    if found.reaches(goal):
        found = search.fewer(found)
    return found


class _Search:
    def __init__(
        self, matrix: Matrix, covered: Words, goal: Requirements, seed: int, run: Run
    ) -> None:
        self.matrix, self.goal, self.stop, self.say = matrix, goal, run.stop, run.progress.say
        self.random = np.random.default_rng(seed)
        self.weight = np.inf if goal.most_false == 0 else WEIGHTS[0]
        self.entries = _entries(matrix, covered)
        self.work = 0.0

    def table(self, weight: float) -> Table:
        """The entries that fixed factors do not cover, with a weight of false ones."""
        finite = self.matrix.n_ones + 1.0 if np.isinf(weight) else weight
        return Table(*self.entries, float(finite), False)

    def first(self, X: Bits, Y: Bits) -> Found:
        """Take the factors of a cover that add most, one by one, until enough ones are covered."""
        table = self.table(np.inf)
        total, n = n_missed(table, empty_factors(shape_of(table), 1)), len(Y)
        if total <= self.goal.most_missed:
            return self._counted(X[:, :0], Y[:0])
        rows, columns = pack(X.T), pack(Y)
        order = greedy_order(
            table.rows.ones,
            rows,
            columns,
            np.ones(len(X), dtype=np.int64),
            np.ones(Y.shape[1], dtype=np.int64),
        )[0]
        low, high = 1, n
        while low < high:
            middle = (low + high) // 2
            factors = factors_of(table, X[:, order[:middle]], Y[order[:middle]])
            if n_missed(table, factors) <= self.goal.most_missed:
                high = middle
            else:
                low = middle + 1
        if self.goal.most_factors is not None:
            high = min(high, self.goal.most_factors)
        return self._counted(X[:, order[:high]], Y[order[:high]])

    def with_false_ones(self, found: Found) -> Found:
        """Find new factors one by one, with several weights of false ones; keep the best answer."""
        best, best_weight = found, self.weight
        for weight in WEIGHTS:
            if self.stop[0]:
                break
            self.say(f"{counted(len(best.Y), 'role')} so far, allowing false ones")
            for now in self._grown(weight, max(1, len(best.Y))):
                if self.rank(now) < self.rank(best):
                    best, best_weight = now, weight
        self.weight = best_weight
        return best

    def _grown(self, weight: float, n: int) -> list[Found]:
        """Find at most n new factors; return them as they were added, and after improvement."""
        table = self.table(weight)
        memory, random = scratch(shape_of(table), n), random_words(self.random)
        factors = empty_factors(shape_of(table), n)
        most = self.goal.most_missed
        n_used = grow(table, factors, self.goal.limits, memory, random, N_TRIES, most, self.stop)
        X, Y = bits_of(factors)
        X, Y = X[:, :n_used], Y[:n_used]
        return [self._counted(X, Y), self._fitted(X, Y, weight)]

    # ------------------------------------------------------------ fewer factors

    def fewer(self, found: Found) -> Found:
        """Drop factors while the limits are met: several at a time, then one by one."""
        step = max(1, len(found.Y) // 8)
        while len(found.Y) > 0 and self.work < MOST_WORK and not self.stop[0]:
            now = self.with_factors(found, max(0, len(found.Y) - step))
            if now.reaches(self.goal):
                found = now
            elif step == 1:
                break
            else:
                step = max(1, step // 2)
        return found

    def with_factors(self, found: Found, n: int) -> Found:
        """Keep n of the factors and improve them, while the weight of false ones is adapted."""
        if n == 0:
            return self._counted(found.X[:, :0], found.Y[:0])
        self.say(f"{counted(len(found.Y), 'role')} so far, trying {n:,}")
        best: Found | None = None
        for _ in range(1 if self.goal.most_false == 0 else N_WEIGHTS):
            table = self.table(self.weight)
            factors = factors_of(table, found.X, found.Y)
            stays = prune(table, factors, n)
            now = self._fitted(found.X[:, stays], found.Y[stays], self.weight)
            if best is None or self.rank(now) < self.rank(best):
                best = now
            if now.reaches(self.goal) or self.goal.most_false == 0 or self.stop[0]:
                break
            if now.n_false > self.goal.most_false:
                self.weight *= STEP_OF_WEIGHT
            else:
                self.weight /= STEP_OF_WEIGHT
        assert best is not None
        return best

    def rank(self, found: Found) -> tuple[int, int, int]:
        """A sort key: answers that meet the limits come first, then those with fewer factors."""
        return (
            max(0, found.n_false - self.goal.most_false),
            max(0, found.n_missed - self.goal.most_missed),
            len(found.Y),
        )

    def _fitted(self, X: Bits, Y: Bits, weight: float) -> Found:
        """Improve factors with this weight of false ones."""
        if not len(Y):
            return self._counted(X, Y)
        table = self.table(weight)
        factors, K = factors_of(table, X, Y), len(Y)
        refit = work_of_refit(table)
        if self.goal.limits == NO_LIMITS:
            most = int(max(TRIAL_WORK / refit, LEAST_PASSES * K))
            _, n = improve_factors(table, factors, random_words(self.random), most, 0, self.stop)
            self.work += n * refit
        else:
            memory = scratch(shape_of(table), K)
            descend_within(table, factors, self.goal.limits, memory, N_PASSES, self.stop)
            self.work += N_PASSES * K * refit
        return self._counted(*bits_of(factors))

    def _counted(self, X: Bits, Y: Bits) -> Found:
        """Drop empty factors, and count the missed ones and the false ones."""
        full = X.any(axis=0) & Y.any(axis=1)
        X, Y = X[:, full], Y[full]
        table = self.table(np.inf)
        factors = factors_of(table, X, Y) if len(Y) else empty_factors(shape_of(table), 1)
        n_false = int(sizes_of(table.rows.zeros & factors.rows.once).sum())
        return Found(X, Y, int(n_missed(table, factors)), n_false)


def _entries(matrix: Matrix, covered: Words) -> tuple[Entries, Entries]:
    """The ones and zeros that fixed factors do not cover, by rows and by columns."""
    N = matrix.shape[1]
    every = pack(np.ones((1, N), dtype=bool))
    ones = packed(matrix.ones)
    zeros = every & ~ones
    if matrix.missing is not None:
        zeros &= ~packed(matrix.missing)
    ones, zeros = ones & ~covered, zeros & ~covered
    nothing = np.zeros((0, 0))
    return (
        Entries(ones, zeros, nothing),
        Entries(transposed(ones, N), transposed(zeros, N), nothing),
    )
