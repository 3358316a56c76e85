"""Tiles with a limited number of rows and columns, with all other factors fixed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from boolweave.engine.kernels.jit import njit
from boolweave.search.kernels.bits import ONE, ZERO, clear, copy, insert, popcount
from boolweave.search.kernels.factors import Tile, cost, gains, install
from boolweave.search.kernels.tiles import TOLERANCE, seed

if TYPE_CHECKING:
    from boolweave.covering.kernels.first_fit import Limits
    from boolweave.runtime.types import Floats
    from boolweave.search.kernels.bits import Words
    from boolweave.search.kernels.descent import Scratch
    from boolweave.search.kernels.factors import Entries, Factors, Side, Table


@njit(cache=True, nogil=True)
def best_lines(
    table: Table, entries: Entries, side: Side, k: int, pattern: Words, most: int, chosen: Words,
    saved: Floats,
) -> float:  # fmt: skip
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
) -> float:  # fmt: skip
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
    table: Table, factors: Factors, limits: Limits, memory: Scratch, random: Words, n_tries: int,
    most_missed: int,
) -> int:  # fmt: skip
    """Set the factors, one after another, to the best of some random tiles each.

    It ends when at most `most_missed` ones are missed, when no tile is useful, or after the last
    factor. Returns the number of factors that are set.
    """
    best = Tile(np.zeros_like(memory.tile.x), np.zeros_like(memory.tile.y))
    K = factors.rows.patterns.shape[0]
    for k in range(K):
        if n_missed(table, factors) <= most_missed:
            return k
        most = 0.0
        for _ in range(n_tries):
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
    table: Table, factors: Factors, limits: Limits, memory: Scratch, most: int
) -> float:  # fmt: skip
    """Refit all factors until the cost does not fall, at most `most` times; return the cost."""
    best = cost(table, factors)
    for _ in range(most):
        for k in range(factors.rows.patterns.shape[0]):
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
