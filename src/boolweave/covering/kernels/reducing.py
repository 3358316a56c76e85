"""Reductions of a matrix that preserve the minimum number of factors that cover it.

Two ones (u, p) and (v, q) can share a factor without false ones if and only if neither (u, q) nor
(v, p) is a zero; then they are called neighbours. Ones that are pairwise neighbours can all share a
factor. So a cover is a partition of the ones into cliques of neighbours, and two rules of clique
covers apply:

dominated   If all neighbours of e are neighbours of f, then f can be added to every clique that
            contains e. So f can be ignored until the other ones are covered.
forced      If all neighbours of e are neighbours of each other, then they form a clique, and no
            clique that contains e is larger. So this clique is taken.

The neighbours of e = (u, p) are the ones within the rows that p allows and the columns that u
allows. Let A be their rows and B their columns. Then e dominates the ones whose row allows all of
B and whose column is allowed by all of A; and e forces a clique if all rows of A allow all of B.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from boolweave.engine.kernels.bits import (
    ONE,
    ZERO,
    Words,
    clear,
    contains,
    copy,
    flip,
    insert,
    lowest,
    members,
)
from boolweave.engine.kernels.jit import njit

Indices = NDArray[np.int64]
Flag = NDArray[np.bool_]  # (1,): another thread sets it to make a loop end

# Reading a word by its index takes as long as reading this many consecutive words.
SPARSE = 4


class Allowed(NamedTuple):
    """The entries that factors may cover: the ones and the missing entries of a matrix (M, N)."""

    rows: Words  # (M, words of N)
    columns: Words  # (N, words of M)


class Ones(NamedTuple):
    """The ones that must be covered, by rows and then by columns."""

    start: Indices  # (M + 1,): where the ones of each row begin
    rows: Indices  # (E,)
    columns: Indices  # (E,)


class Reduction(NamedTuple):
    """The results of the reductions for each one.

    A one is in a forced clique, or dominated, or it remains (clique −1, dominator −1).
    """

    clique: Indices  # (E,): the forced clique, or −1
    dominator: Indices  # (E,): the one that dominates it, or −1
    order: Indices  # (E,): the dominated ones, in the order in which they were found
    n: Indices  # (2,): the number of forced cliques, and of dominated ones


class Span(NamedTuple):
    """Scratch memory for the rows and columns around a one."""

    rows: Words  # A (words of M,): the rows of its neighbours
    columns: Words  # B (words of N,): the columns of its neighbours
    all_rows: Words  # (words of M,): the rows that allow all of B
    all_columns: Words  # (words of N,): the columns that all of A allow
    nonzero: Indices  # (the larger number of words,): for `nonzero_words`


def empty_span(allowed: Allowed) -> Span:
    """Allocate a span."""
    of_rows, of_columns = allowed.columns.shape[1], allowed.rows.shape[1]
    rows, all_rows = np.zeros((2, of_rows), dtype=np.uint64)
    columns, all_columns = np.zeros((2, of_columns), dtype=np.uint64)
    nonzero = np.zeros(max(of_rows, of_columns), dtype=np.int64)
    return Span(rows, columns, all_rows, all_columns, nonzero)


def empty_reduction(n_ones: int) -> Reduction:
    """Allocate the results of the reductions; at first, all ones remain."""
    clique, dominator, order = np.full((3, n_ones), -1, dtype=np.int64)
    return Reduction(clique, dominator, order, np.zeros(2, dtype=np.int64))


@njit(cache=True, nogil=True)
def is_subset(small: Words, large: Words) -> bool:
    """Whether one set is a subset of another."""
    outside = ZERO
    for w in range(small.shape[0]):
        outside |= small[w] & ~large[w]
    return outside == ZERO


@njit(cache=True, nogil=True)
def nonzero_words(words: Words, nonzero: Indices) -> int:
    """List the indices of the words that are not zero; return their number.

    If they are few, as in sparse rows, loops go over them instead of over all words.
    """
    n = 0
    for w in range(words.shape[0]):
        if words[w] != ZERO:
            nonzero[n] = w
            n += 1
    return n


@njit(cache=True, nogil=True)
def intersect(lines: Words, chosen: Words, out: Words, nonzero: Indices) -> None:
    """Set `out` to the intersection of the chosen lines; if there are none, to all ones.

    `nonzero` (at least as long as `out`,) is scratch memory.
    """
    n, n_nonzero = out.shape[0], -1
    for w in range(n):
        out[w] = ~ZERO
    for line in members(chosen):
        if n_nonzero < 0:
            copy(lines[line], out)
            n_nonzero = nonzero_words(out, nonzero)
        elif SPARSE * n_nonzero < n:
            for i in range(n_nonzero):
                out[nonzero[i]] &= lines[line, nonzero[i]]
        else:
            for w in range(n):
                out[w] &= lines[line, w]


@njit(cache=True, nogil=True)
def span(allowed: Allowed, active: Words, row: int, column: int, out: Span) -> int:
    """Find the rows and columns of the neighbours of a one among the active ones (M, words of N).

    Returns the number of words that were read.
    """
    n, n_lines = active.shape[1], 0
    own = allowed.rows[row]
    n_nonzero = nonzero_words(own, out.nonzero)
    is_sparse = SPARSE * n_nonzero < n
    clear(out.rows)
    clear(out.columns)
    for line in members(allowed.columns[column]):
        n_lines += 1
        found = ZERO
        if is_sparse:
            for i in range(n_nonzero):
                w = out.nonzero[i]
                shared = active[line, w] & own[w]
                out.columns[w] |= shared
                found |= shared
        else:
            for w in range(n):
                shared = active[line, w] & own[w]
                out.columns[w] |= shared
                found |= shared
        if found != ZERO:
            insert(out.rows, line)
    return n_lines * (SPARSE * n_nonzero if is_sparse else n)


@njit(cache=True, nogil=True)
def position_of(ones: Ones, row: int, column: int) -> int:
    """The position of a one in the list of ones."""
    low, high = ones.start[row], ones.start[row + 1]
    while low + 1 < high:
        middle = (low + high) >> 1
        if ones.columns[middle] <= column:
            low = middle
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def list_within(active: Words, ones: Ones, rows: Words, columns: Words, out: Indices) -> int:
    """List the positions of the active ones (M, words of N) within a tile; return their number."""
    n = 0
    for line in members(rows):
        for w in range(columns.shape[0]):
            inside = active[line, w] & columns[w]
            while inside != ZERO:
                out[n] = position_of(ones, line, 64 * w + lowest(inside))
                inside &= inside - ONE
                n += 1
    return n


@njit(cache=True, nogil=True)
def _is_due(allowed: Allowed, column: int, changed: Indices, since: int) -> bool:
    """Whether ones in rows that a column allows were removed after the time `since`."""
    if since < 0:
        return True
    for line in members(allowed.columns[column]):  # noqa: SIM110 (not compiled with any)
        if changed[line] > since:
            return True
    return False


@njit(cache=True, nogil=True)
def _remove(
    active: Words,
    ones: Ones,
    e: int,
    forced: bool,
    memory: Span,
    found: Reduction,
    changed: Indices,
    now: int,
    inside: Indices,
) -> bool:
    """Remove the active ones that e forces into a clique or dominates; whether there were any.

    `inside` (E,) is scratch memory.
    """
    any_removed = False
    rows, columns = (
        (memory.rows, memory.columns) if forced else (memory.all_rows, memory.all_columns)
    )
    for i in range(list_within(active, ones, rows, columns, inside)):
        f = inside[i]
        if forced:
            found.clique[f] = found.n[0]
        elif f == e:
            continue
        else:
            found.dominator[f] = e
            found.order[found.n[1]] = f
            found.n[1] += 1
        row = ones.rows[f]
        flip(active[row], ones.columns[f])
        changed[row] = now
        any_removed = True
    return any_removed


@njit(cache=True, nogil=True)
def reduce(
    allowed: Allowed,
    active: Words,
    ones: Ones,
    order: Indices,
    memory: Span,
    found: Reduction,
    most_words: int,
    stop: Flag,
) -> None:
    """Apply both rules until nothing changes, or until `most_words` words have been read.

    It also ends when another thread sets `stop[0]`.

    `active` (M, words of N) holds the ones that must be covered; afterwards, those that remain. The
    `order` (E,) in which the ones are examined affects only the time.
    """
    n_words = 0
    changed = np.zeros(active.shape[0], dtype=np.int64)
    examined = np.full(len(ones.rows), -1, dtype=np.int64)
    inside = np.zeros(len(ones.rows), dtype=np.int64)
    now = 0
    again = True
    while again:
        again = False
        for i in range(len(order)):
            e = order[i]
            row, column = ones.rows[e], ones.columns[e]
            if not contains(active[row], column):
                continue
            if not _is_due(allowed, column, changed, examined[e]):
                continue
            now += 1
            examined[e] = now
            n_words += span(allowed, active, row, column, memory)
            if n_words > most_words or stop[0]:
                return
            intersect(allowed.columns, memory.columns, memory.all_rows, memory.nonzero)
            forced = is_subset(memory.rows, memory.all_rows)
            if not forced:
                intersect(allowed.rows, memory.rows, memory.all_columns, memory.nonzero)
            if _remove(active, ones, e, forced, memory, found, changed, now, inside):
                again = True
            if forced:
                found.n[0] += 1


@njit(cache=True, nogil=True)
def assign_dominated(found: Reduction) -> None:
    """Put the dominated ones into the cliques of their dominators, the last ones first.

    When a one was dominated, all neighbours of its dominator were neighbours of it. Therefore it
    can be added to the clique of its dominator.
    """
    for i in range(found.n[1] - 1, -1, -1):
        f = found.order[i]
        found.clique[f] = found.clique[found.dominator[f]]
