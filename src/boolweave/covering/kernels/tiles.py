"""The entries of tiles and of their product, and tiles with few enough rows and columns."""

from __future__ import annotations

import numpy as np

from boolweave.covering.kernels.first_fit import Limits
from boolweave.covering.kernels.reducing import (
    Allowed,
    Flag,
    Indices,
    Ones,
    list_within,
    nonzero_words,
)
from boolweave.engine.kernels.bits import (
    ONE,
    ZERO,
    Words,
    clear,
    contains,
    copy,
    insert,
    lowest,
    members,
    popcount,
)
from boolweave.engine.kernels.jit import njit
from boolweave.runtime.types import Floats
from boolweave.search.kernels.descent import TOLERANCE, Scratch, seed
from boolweave.search.kernels.factors import (
    Entries,
    Factors,
    Side,
    Table,
    Tile,
    cost,
    gains,
    install,
)


@njit(cache=True, nogil=True)
def count_neighbours(
    allowed: Allowed, active: Words, ones: Ones, count: Indices, stop: Flag
) -> None:
    """Count the neighbours of each of the ones among the active ones (M, words of N).

    It ends when `stop[0]` is set; the remaining ones keep their `count` (E,).
    """
    nonzero = np.zeros(active.shape[1], dtype=np.int64)
    for e in range(len(ones.rows)):
        if stop[0]:
            return
        own = allowed.rows[ones.rows[e]]
        n_nonzero = nonzero_words(own, nonzero)
        n = 0
        for line in members(allowed.columns[ones.columns[e]]):
            for i in range(n_nonzero):
                n += popcount(active[line, nonzero[i]] & own[nonzero[i]])
        count[e] = n


@njit(cache=True, nogil=True)
def weight_within(
    entries: Words, rows: Words, columns: Words, row_weight: Indices, column_weight: Indices
) -> int:
    """Sum the weights, row times column, of the entries (M, words of N) within a tile."""
    total = 0
    for line in members(rows):
        in_line = 0
        for w in range(columns.shape[0]):
            inside = entries[line, w] & columns[w]
            while inside != ZERO:
                in_line += column_weight[64 * w + lowest(inside)]
                inside &= inside - ONE
        total += row_weight[line] * in_line
    return total


@njit(cache=True, nogil=True)
def remove_within(entries: Words, rows: Words, columns: Words) -> None:
    """Remove the entries (M, words of N) within a tile."""
    for line in members(rows):
        for w in range(columns.shape[0]):
            entries[line, w] &= ~columns[w]


@njit(cache=True, nogil=True)
def needed(ones: Ones, active: Words, rows: Words, columns: Words, order: Indices) -> Indices:
    """Drop tiles, in an order, that others make unnecessary; return 1 for those that stay, (T,).

    The tiles are `rows` (T, words of M) and `columns` (T, words of N). The ones in `active` (M,
    words of N) must stay covered.
    """
    count, inside = np.zeros((2, len(ones.rows)), dtype=np.int64)
    stays = np.ones(len(order), dtype=np.int64)
    for t in range(len(order)):
        n = list_within(active, ones, rows[t], columns[t], inside)
        _add_to(count, inside, n, 1)
    for i in range(len(order)):
        t = order[i]
        n = list_within(active, ones, rows[t], columns[t], inside)
        if _add_to(count, inside, n, -1) > 0:
            stays[t] = 0
        else:
            _add_to(count, inside, n, 1)
    return stays


@njit(cache=True, nogil=True)
def _add_to(count: Indices, inside: Indices, n: int, by: int) -> int:
    """Add `by` to the counts of the first n ones inside a tile; return the smallest of them."""
    least = 1 << 60
    for i in range(n):
        count[inside[i]] += by
        least = min(least, count[inside[i]])
    return least


# ---------------------------------------------------------------- differences of a product


@njit(cache=True, nogil=True)
def differences(
    start: Indices,
    factors: Indices,
    columns: Words,
    ones_start: Indices,
    ones: Indices,
    missing_start: Indices,
    missing: Indices,
    missed: Indices,
    false: Indices,
) -> tuple[int, int]:
    """List the ones that are missed and the zeros that are covered; return their numbers.

    Parameters
    ----------
    start, factors : (M + 1,) and (n,) arrays
        The factors of each row.
    columns : (K, words of N) array
        The columns of each factor.
    ones_start, ones, missing_start, missing
        The columns of the ones and of the missing entries of each row.
    missed, false : (n, 2) arrays
        Rows and columns of the entries; those that do not fit into the arrays are only counted.
    """
    n_missed, n_false = 0, 0
    covered = np.zeros(columns.shape[1], dtype=np.uint64)
    known = np.zeros(columns.shape[1], dtype=np.uint64)
    for row in range(len(start) - 1):
        if start[row] == start[row + 1] and ones_start[row] == ones_start[row + 1]:
            continue
        clear(covered)
        clear(known)
        for i in range(start[row], start[row + 1]):
            for w in range(columns.shape[1]):
                covered[w] |= columns[factors[i], w]
        for i in range(ones_start[row], ones_start[row + 1]):
            insert(known, ones[i])
            if not contains(covered, ones[i]):
                if n_missed < len(missed):
                    missed[n_missed, 0], missed[n_missed, 1] = row, ones[i]
                n_missed += 1
        for i in range(missing_start[row], missing_start[row + 1]):
            insert(known, missing[i])
        for w in range(columns.shape[1]):
            left = covered[w] & ~known[w]
            while left != ZERO:
                if n_false < len(false):
                    false[n_false, 0], false[n_false, 1] = row, 64 * w + lowest(left)
                n_false += 1
                left &= left - ONE
    return n_missed, n_false


# ---------------------------------------------------------------- tiles of limited size


@njit(cache=True, nogil=True)
def best_lines(
    table: Table,
    entries: Entries,
    side: Side,
    k: int,
    pattern: Words,
    most: int,
    chosen: Words,
    saved: Floats,
) -> float:
    """Choose at most `most` lines for factor k that save most, given its pattern.

    Returns what they save. `saved` (at least as long as the number of lines,) is scratch memory.
    """
    n_lines = entries.ones.shape[0]
    everything = np.full(chosen.shape[0], ~ZERO)
    if n_lines % 64:
        everything[-1] = (ONE << np.uint64(n_lines % 64)) - ONE
    gains(table, entries, side, k, pattern, everything, saved)
    clear(chosen)
    limit = 0.0  # at most `most` lines save more than this
    if most < n_lines:
        limit = max(0.0, np.sort(saved[:n_lines])[n_lines - 1 - most])
    total, n = 0.0, 0
    for ties in range(2 if limit > 0 else 1):
        for line in range(n_lines):
            is_next = saved[line] == limit if ties else saved[line] > limit
            if is_next and n < most:
                insert(chosen, line)
                total += saved[line]
                n += 1
    return total


@njit(cache=True, nogil=True)
def alternate_within(
    table: Table, factors: Factors, k: int, tile: Tile, limits: Limits, saved: Floats
) -> float:
    """Improve rows and columns of the tile of factor k alternately; return its gain.

    It begins with the columns of the tile, whose number may exceed the limit.
    """
    of_rows, of_columns = (table.rows, factors.rows), (table.columns, factors.columns)
    best_lines(table, *of_rows, k, tile.y, limits.rows, tile.x, saved)
    now = best_lines(table, *of_columns, k, tile.x, limits.columns, tile.y, saved)
    while True:
        before = now
        now = best_lines(table, *of_rows, k, tile.y, limits.rows, tile.x, saved)
        if now <= before + TOLERANCE * before:
            return now
        before = now
        now = best_lines(table, *of_columns, k, tile.x, limits.columns, tile.y, saved)
        if now <= before + TOLERANCE * before:
            return now


@njit(cache=True, nogil=True)
def grow(
    table: Table,
    factors: Factors,
    limits: Limits,
    memory: Scratch,
    random: Words,
    n_tries: int,
    most_missed: int,
    stop: Flag,
) -> int:
    """Set the factors, one after another, to the best of some random tiles each.

    It ends when at most `most_missed` ones are missed, when no tile is useful, after the last
    factor, or when `stop[0]` is set. Returns the number of factors that are set.
    """
    best = Tile(np.zeros_like(memory.tile.x), np.zeros_like(memory.tile.y))
    K = factors.rows.patterns.shape[0]
    for k in range(K):
        if n_missed(table, factors) <= most_missed:
            return k
        most = 0.0
        for _ in range(n_tries):
            if stop[0]:
                return k
            if not seed(table, factors, k, random, memory.tile):
                return k
            now = alternate_within(table, factors, k, memory.tile, limits, memory.saved)
            if now > most:
                most = now
                copy(memory.tile.x, best.x)
                copy(memory.tile.y, best.y)
        if most <= 0:
            return k
        install(table, factors, k, best, memory.changed)
    return K


@njit(cache=True, nogil=True)
def n_missed(table: Table, factors: Factors) -> int:
    """Count the ones that no factor covers."""
    ones, covered = table.rows.ones, factors.rows.once
    n = 0
    for line in range(ones.shape[0]):
        for w in range(ones.shape[1]):
            n += popcount(ones[line, w] & ~covered[line, w])
    return n


@njit(cache=True, nogil=True)
def descend_within(
    table: Table, factors: Factors, limits: Limits, memory: Scratch, most: int, stop: Flag
) -> float:
    """Refit all factors until the cost does not fall, at most `most` times; return the cost.

    It ends early when `stop[0]` is set.
    """
    best = cost(table, factors)
    for _ in range(most):
        for k in range(factors.rows.patterns.shape[0]):
            if stop[0]:
                break
            tile = memory.tile
            copy(factors.columns.patterns[k], tile.x)
            copy(factors.rows.patterns[k], tile.y)
            alternate_within(table, factors, k, tile, limits, memory.saved)
            install(table, factors, k, tile, memory.changed)
        now = cost(table, factors)
        if now >= best - TOLERANCE * best:
            return now
        best = now
    return best
