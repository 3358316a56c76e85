"""Covers without false ones: reductions, exact covers of small parts, and iterated first fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from boolweave.covering.kernels.first_fit import (
    Limits,
    empty_cliques,
    first_fit,
    greedy_tiles,
    iterate,
)
from boolweave.covering.kernels.reducing import (
    Flag,
    Indices,
    Ones,
    Reduction,
    assign_dominated,
    empty_reduction,
    empty_span,
    intersect,
    reduce,
)
from boolweave.covering.kernels.tiles import needed
from boolweave.covering.matrix import NO_LIMITS, Merged, packed_at
from boolweave.covering.parts import (
    MOST_LISTED,
    Part,
    fewest,
    fractional_bound,
    independent_ones,
    maximal_cliques,
)
from boolweave.engine.kernels.bits import Words, n_words, random_words, sizes_of
from boolweave.runtime.run import Run
from boolweave.runtime.words import counted

# Up to this many ones that remain after the reductions are divided into connected components.
MOST_DIVIDED = 4000

# Work is counted in units of a few nanoseconds: the maximum work of all rounds of first fit, and
# the work between two looks at the time limit and at Ctrl-C.
MOST_WORK = 8e9
WORK_AT_ONCE = 5e7

# The rounds end after this many rounds without improvement, if these are also more than those
# before the last improvement, or after this much work without improvement.
PATIENCE = 10000
IDLE_WORK = 2e9

# Maximum number of bits that are read to find the first tiles; each takes a nanosecond or less.
GREEDY_WORK = 2 * 10**9

# Maximum number of words that are read by the reductions; each takes a nanosecond or less.
REDUCING_WORK = 4 * 10**10


@dataclass(frozen=True, eq=False)
class Tiles:
    """Factors of a merged matrix, and a lower bound of their number."""

    rows: Words  # (T, words of M')
    columns: Words  # (T, words of N')
    bound: int


def exact_cover(
    merged: Merged, active: Words, limits: Limits, seed: int, most_work: float, run: Run
) -> Tiles:
    """Cover the active ones with few factors and no false ones.

    Parameters
    ----------
    merged : Merged
    active : (M', words of N') array
        The ones that must be covered.
    limits : Limits
        Maximum numbers of rows and columns of a factor; lines that are limited must not be merged.
    seed : int
    most_work : float
        Maximum work of all rounds of first fit.
    run : Run
        When it sets its `stop`, the search ends with the best cover so far.

    Returns
    -------
    Tiles
        Without limits, every row or column that is added to a tile would add a false one.
    """
    search = _Search(merged, seed, most_work, run)
    ones = merged.list_ones(active)
    if not len(ones.rows):
        return Tiles(np.zeros((0, n_words(merged.shape[0])), dtype=np.uint64), merged.fixed[:0], 0)
    run.progress.say(f"reducing {counted(len(ones.rows), 'one')}")
    found, remaining = reduced(merged, active, ones, run.stop)
    n_forced = search.n_before = int(found.n[0])
    clique, n_left, bound = search.cover(_subset(ones, remaining))
    found.clique[remaining] = n_forced + clique
    assign_dominated(found)
    n_cliques, bound = n_forced + n_left, n_forced + bound
    if limits == NO_LIMITS:
        rows, columns = _lines_of_cliques(merged, ones, found.clique, n_cliques)
        _enlarge(merged, rows, columns)
        order = np.argsort(sizes_of(rows) * sizes_of(columns), kind="stable")
        stays = needed(ones, active, rows, columns, order) == 1
        rows, columns = rows[stays], columns[stays]
    else:
        clique, n_cliques = search.split(ones, found.clique, limits)
        rows, columns = _lines_of_cliques(merged, ones, clique, n_cliques)
        bound = max(bound, *_bounds_of_limits(merged, ones, limits))
    return Tiles(rows, columns, bound)


def reduced(merged: Merged, active: Words, ones: Ones, stop: Flag) -> tuple[Reduction, Indices]:
    """Apply the reductions to the active ones; also return those that remain."""
    found = empty_reduction(len(ones.rows))
    # Ones with few neighbours dominate others, and they take less time to examine.
    in_row, in_column = map(sizes_of, merged.allowed)
    order = np.argsort(in_row[ones.rows] * in_column[ones.columns], kind="stable")
    span = empty_span(merged.allowed)
    reduce(merged.allowed, active.copy(), ones, order, span, found, REDUCING_WORK, stop)
    return found, np.flatnonzero((found.clique < 0) & (found.dominator < 0))


class _Search:
    """Covers of some ones of a merged matrix, with a limited amount of work."""

    def __init__(self, merged: Merged, seed: int, most_work: float, run: Run) -> None:
        self.merged = merged
        self.most_work = most_work
        self.run, self.stop = run, run.stop
        self.n_before = 0  # number of factors of other ones, for display
        self.random = np.random.default_rng(seed)
        self.work = 0.0

    # ------------------------------------------------------------ without limits

    def cover(self, ones: Ones) -> tuple[Indices, int, int]:
        """The clique of each one (E,), the number of cliques, and a lower bound of that number."""
        clique, n_cliques, bound = np.zeros(len(ones.rows), dtype=np.int64), 0, 0
        for chosen in self._divided(ones):
            own, n_own, least = self._cover_part(Part.of(self.merged, _subset(ones, chosen)))
            clique[chosen] = n_cliques + own
            n_cliques, bound = n_cliques + n_own, bound + least
            self.n_before += n_own
        return clique, n_cliques, bound

    def _divided(self, ones: Ones) -> Iterator[Indices]:
        """Divide the ones into parts without neighbours in other parts, unless there are many."""
        n_ones = len(ones.rows)
        if n_ones == 0:
            return
        if n_ones > MOST_DIVIDED:
            yield np.arange(n_ones)
            return
        near = sparse.csr_array(Part.of(self.merged, ones).neighbours())
        n_parts, part_of = connected_components(near, directed=False)
        for part in range(n_parts):
            yield np.flatnonzero(part_of == part)

    def _cover_part(self, part: Part) -> tuple[Indices, int, int]:
        n_ones, bound = len(part.ones.rows), 0
        self._report(0, f"{counted(n_ones, 'one')} left")
        best: tuple[Indices, int] | None = None
        if n_ones <= MOST_LISTED:
            listed = maximal_cliques(part.neighbours(), self.stop)
            if listed is not None:
                clique, bound = fewest(listed, n_ones, self.run.left())
                best = None if clique is None else (clique, int(clique.max()) + 1)
                if best is not None and best[1] == bound:
                    return *best, bound
        count = part.count(self.stop)
        starts = self._starts(part, count)
        if self.most_work:
            most = min(n for _, _, n in starts)
            self._report(most, "looking for a lower bound")
            bound = max(bound, independent_ones(part, count, most, self.random, self.stop))
        for start in starts:
            found = self._improved(part, *start, NO_LIMITS, bound)
            if best is None or found[1] < best[1]:
                best = found
            if best[1] == bound:
                break
        assert best is not None
        clique, n_cliques = best
        if self.most_work and bound < n_cliques:
            self._report(n_cliques, "looking for a lower bound")
            bound = fractional_bound(part, clique, count, bound, self.run)
        return clique, n_cliques, bound

    def _report(self, n_cliques: int, text: str) -> None:
        roles = counted(self.n_before + n_cliques, "role")
        self.run.progress.say(f"{roles} so far, {text}")

    def _starts(self, part: Part, count: Indices) -> list[tuple[Indices, Indices, int]]:
        """Some first orders, the cliques that result from each, and their number.

        Greedy tiles come first. In dense parts, the ones of an order by rows or by columns form a
        clique for each line, which rounds of first fit seldom improve; but there are parts in which
        they end with fewer cliques than greedy tiles.
        """
        ones = part.ones
        hardest = np.argsort(count, kind="stable")
        clique = np.zeros(len(hardest), dtype=np.int64)
        n = greedy_tiles(part.allowed, ones, part.active, hardest, GREEDY_WORK, clique, self.stop)
        first = np.argsort(clique, kind="stable"), clique, n
        orders = [np.lexsort((ones.columns, ones.rows)), np.lexsort((ones.rows, ones.columns))]
        memory = empty_cliques(part.shape, 2 * min(part.shape))
        found = []
        for order in [*orders, hardest]:
            if self.stop[0]:
                break
            clique = np.zeros(len(order), dtype=np.int64)
            n = first_fit(part.allowed, ones, order, NO_LIMITS, memory, clique)
            if n >= 0:
                found.append((order, clique, n))
        return [first, *sorted(found, key=lambda one: one[2])]

    # ------------------------------------------------------------ rounds

    def _improved(
        self,
        part: Part,
        order: Indices,
        clique: Indices,
        n_cliques: int,
        limits: Limits,
        bound: int,
    ) -> tuple[Indices, int]:
        """Run rounds of first fit until the bound is reached, or until they do not improve."""
        memory = empty_cliques(part.shape, n_cliques)
        state = random_words(self.random)
        per_round = _work_of_round(part, n_cliques)
        done, last, last_work = 0, 0, self.work
        best = clique.copy()
        while n_cliques > bound and self.work < self.most_work and not self.stop[0]:
            n_rounds = int(np.clip(WORK_AT_ONCE / per_round, 1, PATIENCE // 4))
            now = iterate(part.allowed, part.ones, order, limits, memory, clique, state, n_rounds)
            self.work += n_rounds * per_round
            done += n_rounds
            self._report(n_cliques, f"round {done:,}")
            if now < n_cliques:
                n_cliques, last, last_work = now, done, self.work
                best[:] = clique
            if done - last > max(PATIENCE, last) or self.work - last_work > IDLE_WORK:
                break
        return best, n_cliques

    # ------------------------------------------------------------ with limits

    def split(self, ones: Ones, clique: Indices, limits: Limits) -> tuple[Indices, int]:
        """Find cliques within the limits, starting from blocks of the given cliques (E,)."""
        part = Part.of(self.merged, ones)
        of_rows = _block(clique, ones.rows, limits.rows)
        of_columns = _block(clique, ones.columns, limits.columns)
        block = np.stack([clique, of_rows, of_columns])
        _, small = np.unique(block, axis=1, return_inverse=True)
        small = small.reshape(-1).astype(np.int64)
        order = np.argsort(small, kind="stable")
        memory = empty_cliques(part.shape, int(small.max()) + 1)
        n = first_fit(part.allowed, part.ones, order, limits, memory, small)
        self.work, self.n_before = 0.0, 0
        return self._improved(part, order, small, n, limits, 0)


def _work_of_round(part: Part, n_cliques: int) -> float:
    lines = float(sum(n_words(n) for n in part.shape))
    lines += 4 * float(part.in_row.mean() + part.in_column.mean())
    return len(part.ones.rows) * (4 + n_cliques / 64) + n_cliques * lines


def _block(clique: Indices, line: Indices, most: int) -> Indices:
    """The block of each one, if the lines of its clique are divided into blocks of `most` lines."""
    pairs, at = np.unique(np.stack([clique, line]), axis=1, return_inverse=True)
    first = np.searchsorted(pairs[0], pairs[0])
    return ((np.arange(pairs.shape[1]) - first) // most)[at.reshape(-1)]


def _subset(ones: Ones, chosen: Indices) -> Ones:
    """Some of the ones, in the same order."""
    rows = ones.rows[chosen]
    start = np.searchsorted(rows, np.arange(len(ones.start))).astype(np.int64)
    return Ones(start, rows, ones.columns[chosen])


def _lines_of_cliques(merged: Merged, ones: Ones, clique: Indices, n: int) -> tuple[Words, Words]:
    """The rows and columns of each clique: (T, words of M') and (T, words of N')."""
    M, N = merged.shape
    return packed_at(clique, ones.rows, (n, M)), packed_at(clique, ones.columns, (n, N))


def _enlarge(merged: Merged, rows: Words, columns: Words) -> None:
    """Give each tile all rows that allow its columns, then all columns that these rows allow."""
    nonzero = empty_span(merged.allowed).nonzero
    for t in range(len(rows)):
        intersect(merged.allowed.columns, columns[t], rows[t], nonzero)
        intersect(merged.allowed.rows, rows[t], columns[t], nonzero)


def _bounds_of_limits(merged: Merged, ones: Ones, limits: Limits) -> tuple[int, int]:
    """Lower bounds: a row with many ones needs several factors of few columns; columns likewise."""
    in_row = np.bincount(ones.rows, merged.column_weight[ones.columns]).max()
    in_column = np.bincount(ones.columns, merged.row_weight[ones.rows]).max()
    return -(-int(in_row) // limits.columns), -(-int(in_column) // limits.rows)
