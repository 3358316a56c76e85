"""Greedy tiles: a clique for each one that is still free, grown by the rows that add most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from boolweave.covering.kernels.reducing import position_of
from boolweave.engine.kernels.jit import njit
from boolweave.search.kernels.bits import (
    ONE,
    ZERO,
    contains,
    copy,
    lowest,
    members,
    popcount,
    size_of,
)

if TYPE_CHECKING:
    from boolweave.covering.kernels.reducing import Allowed, Indices, Ones
    from boolweave.search.kernels.bits import Words


@njit(cache=True, nogil=True)
def _gain(allowed: Words, free: Words, row: int, columns: Words, count: Indices) -> int:
    """The number of free ones of a tile after a row is added, within the columns that it allows.

    `count` (N,) is the number of free ones of the tile in each of its columns.
    """
    total = 0
    for w in range(columns.shape[0]):
        left = columns[w] & allowed[row, w]
        total += popcount(left & free[row, w])
        while left != ZERO:
            total += count[64 * w + lowest(left)]
            left &= left - ONE
    return total


@njit(cache=True, nogil=True)
def _add(allowed: Words, free: Words, row: int, columns: Words, count: Indices) -> None:
    """Add a row to a tile: it loses the columns that the row does not allow."""
    for w in range(columns.shape[0]):
        columns[w] &= allowed[row, w]
        left = columns[w] & free[row, w]
        while left != ZERO:
            count[64 * w + lowest(left)] += 1
            left &= left - ONE


@njit(cache=True, nogil=True)
def _grow(
    allowed: Allowed, free: Words, row: int, column: int, rows: Indices, columns: Words,
    most_work: int,
) -> tuple[int, int]:  # fmt: skip
    """Grow the tile of a one: set its rows and columns; return the number of rows, and the work.

    It begins with the row of the one and all columns that this row allows. Of the rows that allow
    the column of the one, that with which the tile has most free ones is added next, until none
    adds any.
    """
    copy(allowed.rows[row], columns)
    count = np.zeros(len(allowed.columns), dtype=np.int64)
    _add(allowed.rows, free, row, columns, count)
    most, work = count.sum(), 0
    rows[0], n_rows, n = row, 1, 1  # the first n_rows are those of the tile; the others may follow
    for line in members(allowed.columns[column]):
        if line != row:
            rows[n] = line
            n += 1
    while work < most_work:
        best = -1
        work += (columns.shape[0] + size_of(columns)) * (n - n_rows)
        for k in range(n_rows, n):
            gain = _gain(allowed.rows, free, rows[k], columns, count)
            if gain > most:
                most, best = gain, k
        if best < 0:
            break
        rows[n_rows], rows[best] = rows[best], rows[n_rows]
        _add(allowed.rows, free, rows[n_rows], columns, count)
        n_rows += 1
    return n_rows, work


@njit(cache=True, nogil=True)
def greedy_tiles(
    allowed: Allowed, ones: Ones, active: Words, order: Indices, most_work: int, clique: Indices
) -> int:  # fmt: skip
    """Cover the ones with tiles, and set the `clique` (E,) of each one; return how many there are.

    Each tile is grown from the next one, in an `order` (E,), that is free: in no earlier tile. Once
    `most_work` bits have been read, tiles have a single row.
    """
    free, columns = active.copy(), np.zeros(active.shape[1], dtype=np.uint64)
    rows = np.zeros(len(allowed.rows), dtype=np.int64)
    n_cliques = 0
    for i in range(len(order)):
        row, column = ones.rows[order[i]], ones.columns[order[i]]
        if not contains(free[row], column):
            continue
        n_rows, work = _grow(allowed, free, row, column, rows, columns, most_work)
        most_work -= work
        for k in range(n_rows):
            for w in range(columns.shape[0]):
                taken = free[rows[k], w] & columns[w]
                free[rows[k], w] ^= taken
                while taken != ZERO:
                    clique[position_of(ones, rows[k], 64 * w + lowest(taken))] = n_cliques
                    taken &= taken - ONE
        n_cliques += 1
    return n_cliques
