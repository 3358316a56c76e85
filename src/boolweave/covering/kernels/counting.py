"""Counts of neighbours, and the entries of tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from boolweave.covering.kernels.reducing import list_within, nonzero_words
from boolweave.engine.kernels.jit import njit
from boolweave.search.kernels.bits import ONE, ZERO, lowest, members, popcount

if TYPE_CHECKING:
    from boolweave.covering.kernels.reducing import Allowed, Indices, Ones
    from boolweave.search.kernels.bits import Words


@njit(cache=True, nogil=True)
def count_neighbours(allowed: Allowed, active: Words, ones: Ones, count: Indices) -> None:
    """Count the neighbours of each of the ones among the active ones (M, words of N)."""
    nonzero = np.zeros(active.shape[1], dtype=np.int64)
    for e in range(len(ones.rows)):
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
) -> int:  # fmt: skip
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
