"""All factors: descent to a local optimum, and the search for a better local optimum."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from boolweave.engine.kernels.jit import njit
from boolweave.search.kernels.bits import (
    ONE,
    ZERO,
    below,
    clear,
    copy,
    lowest,
    n_words,
    overlap,
    size_of,
)
from boolweave.search.kernels.factors import (
    Tile,
    copy_factors,
    cost,
    empty_tile,
    gains,
    install,
    loss,
)
from boolweave.search.kernels.tiles import (
    DROP_TIES,
    KEEP_TIES,
    TAKE_TIES,
    TOLERANCE,
    alternate,
    refit,
    seed,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.search.kernels.bits import Words
    from boolweave.search.kernels.factors import Entries, Factors, Side, Table

# One of this many trials ends with a descent of all factors, the others with a descent of those
# factors whose surroundings changed.
FULL_DESCENT = 4

# Maximum number of passes over all factors in the descent of a trial, and in a full descent.
FEW_PASSES = np.int64(2)
MANY_PASSES = np.int64(50)


class Scratch(NamedTuple):
    """Memory for kernels."""

    tile: Tile
    changed: Tile
    rows: Words  # (K, words of M): the rows that changed around each factor since its last refit
    columns: Words  # (K, words of N)
    waits: NDArray[np.bool_]  # (K,): whether a factor waits for a refit
    order: NDArray[np.int64]  # (K,)
    saved: NDArray[np.float64]  # (the longer side,)


def scratch(shape: tuple[int, int], n_components: int) -> Scratch:
    """Allocate the memory for kernels."""
    K = n_components
    rows, columns = (np.zeros((K, n_words(n)), dtype=np.uint64) for n in shape)
    waits, order = np.zeros(K, dtype=np.bool_), np.arange(K)
    return Scratch(
        empty_tile(shape), empty_tile(shape), rows, columns, waits, order, np.zeros(max(shape))
    )


@njit(cache=True, nogil=True)
def descend(
    table: Table, factors: Factors, memory: Scratch, random: Words, most: int, ties: int
) -> tuple[float, int]:
    """Refit all factors in random order until the cost does not fall; return it and the work."""
    K, order = len(memory.order), memory.order
    best = cost(table, factors)
    work = 0
    for _ in range(most):
        for i in range(K - 1, 0, -1):
            j = below(random, i + 1)
            order[i], order[j] = order[j], order[i]
        changed = False
        for k in order:
            if refit(table, factors, k, memory.tile, memory.changed, ties):
                changed = True
        work += K
        now = cost(table, factors)
        if not changed or now >= best - TOLERANCE * best:
            return now, work
        best = now
    return best, work


@njit(cache=True, nogil=True)
def _mark(factors: Factors, k: int, memory: Scratch) -> None:
    """Note what changed for the factors that share rows or columns with the change of factor k."""
    changed = memory.changed
    for j in range(len(memory.waits)):
        x, y = factors.columns.patterns[j], factors.rows.patterns[j]
        if j != k and (overlap(x, changed.x) or overlap(y, changed.y)):
            memory.waits[j] = True
            for w in range(len(x)):
                memory.rows[j, w] |= changed.x[w]
            for w in range(len(y)):
                memory.columns[j, w] |= changed.y[w]


@njit(cache=True, nogil=True)
def _should_change(
    table: Table, entries: Entries, side: Side, k: int, lines: Words, saved: NDArray[np.float64]
) -> bool:  # fmt: skip
    """Whether one of the lines should join factor k or leave it."""
    gains(table, entries, side, k, side.patterns[k], lines, saved)
    for j in range(lines.shape[0]):
        left = lines[j]
        while left != ZERO:
            line = 64 * j + lowest(left)
            left &= left - ONE
            is_member = (side.members[line, k >> 6] >> np.uint64(k & 63)) & ONE != ZERO
            if saved[line] != 0 and (saved[line] > 0) != is_member:
                return True
    return False


@njit(cache=True, nogil=True)
def _clear_marks(memory: Scratch) -> None:
    for k in range(len(memory.waits)):
        memory.waits[k] = False
        clear(memory.rows[k])
        clear(memory.columns[k])


@njit(cache=True, nogil=True)
def _repair(table: Table, factors: Factors, memory: Scratch, random: Words, ties: int) -> int:
    """Refit the factors around a change, and around the resulting changes; return their number."""
    K, n = len(memory.waits), 0
    while n < 2 * K + 10:
        k = below(random, K)
        for _ in range(K):
            if memory.waits[k]:
                break
            k = (k + 1) % K
        if not memory.waits[k]:
            break
        memory.waits[k] = False
        wrong = _should_change(
            table, table.rows, factors.rows, k, memory.rows[k], memory.saved
        ) or _should_change(
            table, table.columns, factors.columns, k, memory.columns[k], memory.saved
        )
        clear(memory.rows[k])
        clear(memory.columns[k])
        if wrong:
            n += 1
            if refit(table, factors, k, memory.tile, memory.changed, ties):
                _mark(factors, k, memory)
    return n


@njit(cache=True, nogil=True)
def _factor_to_replace(
    table: Table, factors: Factors, random: Words, saved: NDArray[np.float64]
) -> int:  # fmt: skip
    """A random factor, or the least useful one of two or three."""
    K = factors.rows.patterns.shape[0]
    k = below(random, K)
    n_more = below(random, 3) if below(random, 2) == 0 else 0
    if n_more:
        least = loss(table, factors, k, saved)
        for _ in range(n_more):
            j = below(random, K)
            other = loss(table, factors, j, saved)
            if other < least:
                k, least = j, other
    return k


@njit(cache=True, nogil=True)
def size(factors: Factors) -> int:
    """Count the rows and the columns of all factors."""
    n = 0
    for k in range(factors.rows.patterns.shape[0]):
        n += size_of(factors.columns.patterns[k]) + size_of(factors.rows.patterns[k])
    return n


@njit(cache=True, nogil=True)
def improve(
    table: Table, factors: Factors, kept: Factors, memory: Scratch, random: Words,
    most_work: int, least_trials: int, most_trials: int, simplify: bool, stop: NDArray[np.bool_],
) -> tuple[float, int]:  # fmt: skip
    """Repeatedly replace one or two factors by new tiles, descend, and keep what is not worse.

    With `simplify`, the size (rows and columns of all factors) must not rise either if the cost is
    equal. The search ends after the given work (refits of a factor) or number of trials, at a cost
    of zero, or when another thread sets `stop[0]`. Returns the cost and the work.
    """
    best, work = descend(table, factors, memory, random, MANY_PASSES, KEEP_TIES)
    copy_factors(factors, kept)
    least_size = size(factors)
    n_trials = 0
    while best > 0 and n_trials < most_trials and not stop[0]:
        if work >= most_work and n_trials >= least_trials:
            break
        n_trials += 1
        work += 2
        _clear_marks(memory)
        for _ in range(1 + (below(random, 3) == 0)):
            k = _factor_to_replace(table, factors, random, memory.saved)
            if not seed(table, factors, k, random, memory.tile):
                break
            if install(table, factors, k, memory.tile, memory.changed):
                _mark(factors, k, memory)
        ties = DROP_TIES if simplify or below(random, 2) == 0 else TAKE_TIES
        if below(random, FULL_DESCENT) == 0:
            now, more = descend(table, factors, memory, random, FEW_PASSES, ties)
        else:
            more = _repair(table, factors, memory, random, ties)
            now = cost(table, factors)
        work += more
        better = now < best - TOLERANCE * best
        if better:
            now, more = descend(table, factors, memory, random, MANY_PASSES, KEEP_TIES)
            work += more
        if better or (
            now <= best + TOLERANCE * best and (not simplify or size(factors) <= least_size)
        ):
            best = now
            least_size = size(factors)
            copy_factors(factors, kept)
        else:
            copy_factors(kept, factors)
    return best, work


@njit(cache=True, nogil=True)
def fill(
    table: Table, factors: Factors, memory: Scratch, random: Words, n_tries: int
) -> None:  # fmt: skip
    """Make the best of some random tiles a factor, one factor after another."""
    best = Tile(np.zeros_like(memory.tile.x), np.zeros_like(memory.tile.y))
    for k in range(len(memory.order)):
        most = 0.0
        for _ in range(n_tries):
            if not seed(table, factors, k, random, memory.tile):
                return
            saved = alternate(table, factors, k, memory.tile, KEEP_TIES)
            if saved > most:
                most = saved
                copy(memory.tile.x, best.x)
                copy(memory.tile.y, best.y)
        if most > 0:
            install(table, factors, k, best, memory.changed)


@njit(cache=True, nogil=True)
def prune(table: Table, factors: Factors, n_left: int) -> NDArray[np.bool_]:
    """Drop the least useful factor until `n_left` are left; return a mask (K,) of those."""
    K = factors.rows.patterns.shape[0]
    alive = np.ones(K, dtype=np.bool_)
    losses = np.zeros(K)
    saved = np.zeros(factors.rows.once.shape[0])
    for k in range(K):
        losses[k] = loss(table, factors, k, saved)
    nothing = Tile(
        np.zeros(factors.columns.patterns.shape[1], dtype=np.uint64),
        np.zeros(factors.rows.patterns.shape[1], dtype=np.uint64),
    )
    changed = Tile(np.zeros_like(nothing.x), np.zeros_like(nothing.y))
    for _ in range(K - n_left):
        least = np.int64(0)
        for k in range(K):
            if alive[k] and (not alive[least] or losses[k] < losses[least]):
                least = np.int64(k)
        alive[least] = False
        clear(nothing.x)
        clear(nothing.y)
        if not install(table, factors, least, nothing, changed):
            continue
        for k in range(K):
            x, y = factors.columns.patterns[k], factors.rows.patterns[k]
            if alive[k] and overlap(x, changed.x) and overlap(y, changed.y):
                losses[k] = loss(table, factors, k, saved)
    return alive
