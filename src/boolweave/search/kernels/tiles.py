"""One factor at a time: the best tile from a first guess, with all other factors fixed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from boolweave.engine.kernels.jit import njit
from boolweave.search.kernels.bits import ONE, ZERO, below, clear, copy, popcount
from boolweave.search.kernels.factors import gains, install

if TYPE_CHECKING:
    from boolweave.search.kernels.bits import Words
    from boolweave.search.kernels.factors import Entries, Factors, Side, Table, Tile

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
def refit(
    table: Table, factors: Factors, k: int, tile: Tile, changed: Tile, ties: int
) -> bool:  # fmt: skip
    """Improve the present factor k; return whether it changed."""
    copy(factors.columns.patterns[k], tile.x)
    copy(factors.rows.patterns[k], tile.y)
    alternate(table, factors, k, tile, ties)
    return install(table, factors, k, tile, changed)


@njit(cache=True, nogil=True)
def _missing(
    table: Table, entries: Entries, side: Side, line: int, k: int, pattern: Words
) -> bool:  # fmt: skip
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
) -> bool:  # fmt: skip
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
