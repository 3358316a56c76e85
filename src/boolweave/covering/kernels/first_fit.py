"""First fit: one after another, each one is put into the first clique that can take it.

Iterated first fit repeats this in another order of the cliques, with the ones of a clique next to
each other. The number of cliques never rises, because each clique can take all of its ones, and it
often falls.

Greedy tiles are a clique for each one that is still free, grown by the rows that add most.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from boolweave.covering.kernels.reducing import Allowed, Flag, Indices, Ones, position_of
from boolweave.engine.kernels.bits import (
    ONE,
    ZERO,
    Words,
    below,
    clear,
    contains,
    copy,
    insert,
    lowest,
    members,
    n_words,
    popcount,
    size_of,
)
from boolweave.engine.kernels.jit import njit

# The fractions, in tenths, of rounds in which the cliques are in reverse order and in random order;
# in the other rounds, the largest ones come first.
REVERSE = 5
SHUFFLED = 3


class Limits(NamedTuple):
    """Maximum numbers of rows and columns of a clique."""

    rows: int
    columns: int


class Cliques(NamedTuple):
    """T cliques, and the rows and columns that they can take."""

    rows: Words  # (T, words of M): the rows of their ones
    columns: Words  # (T, words of N)
    n_rows: Indices  # (T,)
    n_columns: Indices  # (T,)
    open_rows: Words  # (T, words of M): the rows that all of their columns allow
    open_columns: Words  # (T, words of N)
    of_rows: Words  # (M, words of T): the cliques that are open to each row
    of_columns: Words  # (N, words of T)


def empty_cliques(shape: tuple[int, int], most: int) -> Cliques:
    """Allocate memory for at most this many cliques."""

    def words(lines: int, n: int) -> Words:
        return np.zeros((lines, n_words(n)), dtype=np.uint64)

    M, N = shape
    n_rows, n_columns = np.zeros((2, most), dtype=np.int64)
    return Cliques(
        words(most, M),
        words(most, N),
        n_rows,
        n_columns,
        words(most, M),
        words(most, N),
        words(M, most),
        words(N, most),
    )


@njit(cache=True, nogil=True)
def _open(lines: Words, line: int, own: Words, others: Words, t: int) -> None:
    """Open clique t to the lines that a line allows; `own` (T, words), `others` its transpose."""
    bit = ONE << np.uint64(t & 63)
    for w in range(own.shape[1]):
        left = lines[line, w]
        own[t, w] = left
        while left != ZERO:
            others[64 * w + lowest(left), t >> 6] |= bit
            left &= left - ONE


@njit(cache=True, nogil=True)
def _narrow(lines: Words, line: int, own: Words, others: Words, t: int) -> None:
    """Close clique t to the lines that a line does not allow."""
    bit = ONE << np.uint64(t & 63)
    for w in range(own.shape[1]):
        gone = own[t, w] & ~lines[line, w]
        if gone != ZERO:
            own[t, w] ^= gone
            while gone != ZERO:
                others[64 * w + lowest(gone), t >> 6] ^= bit
                gone &= gone - ONE


@njit(cache=True, nogil=True)
def _place(c: Cliques, n_cliques: int, row: int, column: int, limits: Limits) -> int:
    """The first clique that can take a one; −1 if there is none."""
    for w in range((n_cliques + 63) >> 6):
        both = c.of_rows[row, w] & c.of_columns[column, w]
        while both != ZERO:
            t = 64 * w + lowest(both)
            both &= both - ONE
            if (c.n_rows[t] < limits.rows or contains(c.rows[t], row)) and (
                c.n_columns[t] < limits.columns or contains(c.columns[t], column)
            ):
                return t
    return -1


@njit(cache=True, nogil=True)
def first_fit(
    allowed: Allowed, ones: Ones, order: Indices, limits: Limits, c: Cliques, clique: Indices
) -> int:
    """Put the ones into cliques in an order (E,), and set the `clique` (E,) of each one.

    Returns the number of cliques, or −1 if the allocated memory is not enough for them.
    """
    for m in range(c.of_rows.shape[0]):
        clear(c.of_rows[m])
    for n in range(c.of_columns.shape[0]):
        clear(c.of_columns[n])
    n_cliques = 0
    for i in range(len(order)):
        e = order[i]
        row, column = ones.rows[e], ones.columns[e]
        t = _place(c, n_cliques, row, column, limits)
        if t < 0:
            t = n_cliques
            if t == c.rows.shape[0]:
                return -1
            n_cliques += 1
            clear(c.rows[t])
            clear(c.columns[t])
            c.n_rows[t], c.n_columns[t] = 0, 0
            _open(allowed.rows, row, c.open_columns, c.of_columns, t)
            _open(allowed.columns, column, c.open_rows, c.of_rows, t)
        if not contains(c.rows[t], row):
            insert(c.rows[t], row)
            c.n_rows[t] += 1
            _narrow(allowed.rows, row, c.open_columns, c.of_columns, t)
        if not contains(c.columns[t], column):
            insert(c.columns[t], column)
            c.n_columns[t] += 1
            _narrow(allowed.columns, column, c.open_rows, c.of_rows, t)
        clique[e] = t
    return n_cliques


@njit(cache=True, nogil=True)
def _by_size(order: Indices, clique: Indices, place: Indices) -> None:
    """Set the positions of the cliques, the largest first, by a counting sort."""
    size = np.zeros(len(place), dtype=np.int64)
    for i in range(len(order)):
        size[clique[order[i]]] += 1
    before = np.zeros(len(order) + 2, dtype=np.int64)  # the number of larger cliques for each size
    for t in range(len(place)):
        before[size[t]] += 1
    n = 0
    for s in range(len(order), -1, -1):
        own = before[s]
        before[s] = n
        n += own
    for t in range(len(place)):
        place[t] = before[size[t]]
        before[size[t]] += 1


@njit(cache=True, nogil=True)
def _rearrange(order: Indices, clique: Indices, n_cliques: int, random: Words) -> None:
    """Put the cliques into another order; the ones of each clique stay together in their order."""
    E = len(order)
    place = np.arange(n_cliques)
    kind = below(random, 10)
    if kind < REVERSE:
        for t in range(n_cliques):
            place[t] = n_cliques - 1 - t
    elif kind < REVERSE + SHUFFLED:
        for t in range(n_cliques - 1, 0, -1):
            j = below(random, t + 1)
            place[t], place[j] = place[j], place[t]
    else:
        _by_size(order, clique, place)
    start = np.zeros(n_cliques + 1, dtype=np.int64)
    for i in range(E):
        start[place[clique[order[i]]] + 1] += 1
    for t in range(n_cliques):
        start[t + 1] += start[t]
    before = order.copy()
    for i in range(E):
        e = before[i]
        t = place[clique[e]]
        order[start[t]] = e
        start[t] += 1


@njit(cache=True, nogil=True)
def iterate(
    allowed: Allowed,
    ones: Ones,
    order: Indices,
    limits: Limits,
    c: Cliques,
    clique: Indices,
    random: Words,
    n_rounds: int,
) -> int:
    """Repeat first fit, beginning with an order and the cliques that resulted from it.

    Returns the number of cliques.
    """
    n_cliques = 0
    for i in range(len(order)):
        n_cliques = max(n_cliques, clique[order[i]] + 1)
    for _ in range(n_rounds):
        _rearrange(order, clique, n_cliques, random)
        n_cliques = first_fit(allowed, ones, order, limits, c, clique)
    return n_cliques


# ---------------------------------------------------------------- greedy tiles


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
    allowed: Allowed,
    free: Words,
    row: int,
    column: int,
    rows: Indices,
    columns: Words,
    most_work: int,
    stop: Flag,
) -> tuple[int, int]:
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
    while work < most_work and not stop[0]:
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
    allowed: Allowed,
    ones: Ones,
    active: Words,
    order: Indices,
    most_work: int,
    clique: Indices,
    stop: Flag,
) -> int:
    """Cover the ones with tiles, and set the `clique` (E,) of each one; return how many there are.

    Each tile is grown from the next one, in an `order` (E,), that is free: in no earlier tile. Once
    `most_work` bits have been read, or `stop[0]` is set, tiles have a single row.
    """
    free, columns = active.copy(), np.zeros(active.shape[1], dtype=np.uint64)
    rows = np.zeros(len(allowed.rows), dtype=np.int64)
    n_cliques = 0
    for i in range(len(order)):
        row, column = ones.rows[order[i]], ones.columns[order[i]]
        if not contains(free[row], column):
            continue
        n_rows, work = _grow(allowed, free, row, column, rows, columns, most_work, stop)
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
