"""The best tile of one factor with all others fixed, and the search for a better optimum of all."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from boolweave.engine.kernels.bits import (
    ONE,
    ZERO,
    Words,
    below,
    clear,
    copy,
    lowest,
    n_words,
    overlap,
    popcount,
    size_of,
)
from boolweave.engine.kernels.jit import njit
from boolweave.search.kernels.factors import (
    Entries,
    Factors,
    Side,
    Table,
    Tile,
    copy_factors,
    cost,
    empty_tile,
    gain_of_tile,
    gains,
    install,
    loss,
)

# How to treat lines whose membership makes no difference: none is a member, members stay, or all
# are members. (Literal numbers would be types of their own to the compiler.)
DROP_TIES = np.int64(0)
KEEP_TIES = np.int64(1)
TAKE_TIES = np.int64(2)

# Sums of weights that differ by less than this fraction are considered equal.
TOLERANCE = 1e-12


@njit(cache=True, nogil=True)
def best_members(
    table: Table, entries: Entries, side: Side, k: int, pattern: Words, ties: int, chosen: Words
) -> float:
    """Choose the lines of factor k, given its pattern; return what they save.

    `chosen` (words of L) holds the present members at the call and the best ones afterwards.
    """
    ones, zeros, weights = entries
    members, own, once, twice = side
    n_lines, n = ones.shape
    plain = weights.shape[0] == 0 and not table.xor
    false_weight = table.false_weight
    j, shift = k >> 6, np.uint64(k & 63)
    of_lines = np.empty(0 if plain else n_lines)
    if not plain:
        everything = np.full(chosen.shape[0], ~ZERO)
        if n_lines % 64:
            everything[-1] = (ONE << np.uint64(n_lines % 64)) - ONE
        gains(table, entries, side, k, pattern, everything, of_lines)
    total = 0.0
    for word in range(chosen.shape[0]):
        best = ZERO
        for i in range(min(64, n_lines - 64 * word)):
            line = 64 * word + i
            if plain:
                # The same as `gains`, inlined because most of the time is spent here.
                keeps = ~ZERO * ((members[line, j] >> shift) & ONE)
                good, bad = 0, 0
                for w in range(n):
                    others = (once[line, w] & ~(own[k, w] & keeps)) | twice[line, w]
                    free = pattern[w] & ~others
                    good += popcount(ones[line, w] & free)
                    bad += popcount(zeros[line, w] & free)
                saved = good - false_weight * bad
            else:
                saved = of_lines[line]
            if saved > 0:
                total += saved
                best |= ONE << np.uint64(i)
            elif (
                saved == 0
                and ties != DROP_TIES
                and (ties == TAKE_TIES or (chosen[word] >> np.uint64(i)) & ONE != ZERO)
            ):
                best |= ONE << np.uint64(i)
        chosen[word] = best
    return total


@njit(cache=True, nogil=True)
def alternate(table: Table, factors: Factors, k: int, tile: Tile, ties: int) -> float:
    """Improve rows and columns of the tile of factor k alternately; return its gain."""
    before = -1.0
    while True:
        saved = best_members(table, table.rows, factors.rows, k, tile.y, ties, tile.x)
        if saved <= before + TOLERANCE * abs(before):
            return saved
        before = saved
        saved = best_members(table, table.columns, factors.columns, k, tile.x, ties, tile.y)
        if saved <= before + TOLERANCE * abs(before):
            return saved
        before = saved


@njit(cache=True, nogil=True)
def refit(table: Table, factors: Factors, k: int, tile: Tile, changed: Tile, ties: int) -> bool:
    """Improve the present factor k; return whether it changed."""
    copy(factors.columns.patterns[k], tile.x)
    copy(factors.rows.patterns[k], tile.y)
    alternate(table, factors, k, tile, ties)
    return install(table, factors, k, tile, changed)


@njit(cache=True, nogil=True)
def _missing(table: Table, entries: Entries, side: Side, line: int, k: int, pattern: Words) -> bool:
    """Set the entries of a line that k should cover; return whether there are any."""
    ones, zeros, _ = entries
    members, own, once, twice = side
    keeps = ~ZERO * ((members[line, k >> 6] >> np.uint64(k & 63)) & ONE)
    found = ZERO
    for w in range(pattern.shape[0]):
        if table.xor:
            others = once[line, w] ^ (own[k, w] & keeps)
            pattern[w] = (ones[line, w] & ~others) | (zeros[line, w] & others)
        else:
            others = (once[line, w] & ~(own[k, w] & keeps)) | twice[line, w]
            pattern[w] = ones[line, w] & ~others
        found |= pattern[w]
    return found != ZERO


@njit(cache=True, nogil=True)
def _seed_pattern(
    table: Table, entries: Entries, side: Side, k: int, random: Words, pattern: Words
) -> bool:
    """Set a first pattern for factor k from a random line; False if nothing is left to cover.

    The pattern consists of the uncovered ones of the line, or all of its ones, or those that it
    shares with another line; if false ones may be cheap, also the ones of both lines.
    """
    n_lines, n = entries.ones.shape
    first, line, found = below(random, n_lines), 0, False
    for attempt in range(n_lines + 8):
        line = below(random, n_lines) if attempt < 8 else (first + attempt) % n_lines
        found = _missing(table, entries, side, line, k, pattern)
        if found:
            break
    if not found:
        return False
    plain = entries.weights.shape[0] == 0 and not table.xor and table.false_weight >= 1
    kind = below(random, 3 if plain else 4)
    if kind in (1, 2):
        copy(entries.ones[line], pattern)
    if kind == 2:
        for _ in range(10):
            other = below(random, n_lines)
            shared = 0
            for w in range(n):
                shared += popcount(pattern[w] & entries.ones[other, w])
            if shared > 1 and other != line:
                for w in range(n):
                    pattern[w] &= entries.ones[other, w]
                break
    if kind == 3:
        pattern |= entries.ones[below(random, n_lines)]
    return True


@njit(cache=True, nogil=True)
def seed(table: Table, factors: Factors, k: int, random: Words, tile: Tile) -> bool:
    """Set a random first tile for factor k and improve it; False if nothing is left to cover."""
    if below(random, 2) == 0:
        if not _seed_pattern(table, table.rows, factors.rows, k, random, tile.y):
            return False
    else:
        if not _seed_pattern(table, table.columns, factors.columns, k, random, tile.x):
            return False
        clear(tile.y)
        best_members(table, table.columns, factors.columns, k, tile.x, DROP_TIES, tile.y)
    clear(tile.x)
    alternate(table, factors, k, tile, KEEP_TIES)
    return True


# ---------------------------------------------------------------- all factors


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
    table: Table,
    factors: Factors,
    memory: Scratch,
    random: Words,
    most: int,
    ties: int,
    stop: NDArray[np.bool_],
) -> tuple[float, int]:
    """Refit all factors in random order until the cost does not fall; return it and the work.

    It ends early when another thread sets `stop[0]`.
    """
    K, order = len(memory.order), memory.order
    best = cost(table, factors)
    work = 0
    for _ in range(most):
        for i in range(K - 1, 0, -1):
            j = below(random, i + 1)
            order[i], order[j] = order[j], order[i]
        changed = False
        for k in order:
            if stop[0]:
                return cost(table, factors), work
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
) -> bool:
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
def _repair(
    table: Table,
    factors: Factors,
    memory: Scratch,
    random: Words,
    ties: int,
    stop: NDArray[np.bool_],
) -> int:
    """Refit the factors around a change, and around the resulting changes; return their number."""
    K, n = len(memory.waits), 0
    while n < 2 * K + 10 and not stop[0]:
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
) -> int:
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
    table: Table,
    factors: Factors,
    kept: Factors,
    memory: Scratch,
    random: Words,
    most_work: int,
    least_trials: int,
    most_trials: int,
    simplify: bool,
    stop: NDArray[np.bool_],
) -> tuple[float, int]:
    """Repeatedly replace one or two factors by new tiles, descend, and keep what is not worse.

    With `simplify`, the size (rows and columns of all factors) must not rise either if the cost is
    equal. The search ends after the given work (refits of a factor) or number of trials, at a cost
    of zero, or when another thread sets `stop[0]`. Returns the cost and the work.
    """
    best, work = descend(table, factors, memory, random, MANY_PASSES, KEEP_TIES, stop)
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
            now, more = descend(table, factors, memory, random, FEW_PASSES, ties, stop)
        else:
            more = _repair(table, factors, memory, random, ties, stop)
            now = cost(table, factors)
        work += more
        better = now < best - TOLERANCE * best
        if better:
            now, more = descend(table, factors, memory, random, MANY_PASSES, KEEP_TIES, stop)
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
    table: Table,
    factors: Factors,
    memory: Scratch,
    random: Words,
    n_tries: int,
    stop: NDArray[np.bool_],
) -> None:
    """Make the best of some random tiles a factor, one factor after another.

    It ends early when another thread sets `stop[0]`.
    """
    best = Tile(np.zeros_like(memory.tile.x), np.zeros_like(memory.tile.y))
    for k in range(len(memory.order)):
        most = 0.0
        for _ in range(n_tries):
            if stop[0] or not seed(table, factors, k, random, memory.tile):
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


# ---------------------------------------------------------------- known tiles


@njit(cache=True, nogil=True)
def add_best(
    table: Table, factors: Factors, first: int, rows: Words, columns: Words, memory: Scratch
) -> None:
    """Set each factor from `first` on to the tile that saves most, with the others fixed.

    The tiles are `rows` (T, words of M) and `columns` (T, words of N). The factors from `first` on
    must be empty; they stay empty if no tile saves anything.
    """
    tile = memory.tile
    for k in range(first, factors.rows.patterns.shape[0]):
        best, most = -1, 0.0
        for t in range(rows.shape[0]):
            gain = gain_of_tile(table, factors, k, rows[t], columns[t], memory.saved)
            if gain > most:
                best, most = t, gain
        if best < 0:
            return
        tile.x[:] = rows[best]
        tile.y[:] = columns[best]
        install(table, factors, k, tile, memory.changed)
