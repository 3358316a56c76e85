"""Reductions of a matrix that keep the least number of factors that cover it.

Two ones (u, p) and (v, q) can share a factor without false ones exactly if (u, q) and (v, p) are no
zeros: then they are called neighbours. Ones that are all neighbours of each other have a factor in
common. So a cover is a partition of the ones into cliques of neighbours, and two rules of clique
covers hold:

dominated   If all neighbours of e are neighbours of f, then every clique with e can have f, too:
            f needs no care until the rest is covered.
forced      If all neighbours of e are neighbours of each other, they are one clique, and no clique
            with e has more: it is taken.

The neighbours of e = (u, p) are the ones within the rows that p allows and the columns that u
allows. With A the rows and B the columns in which they are, e dominates the ones in the rows that
allow all of B and the columns that all of A allow; and it forces a clique if all of A allow all
of B.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from boolweave.engine.kernels.jit import njit
from boolweave.search.kernels.bits import ONE, ZERO, clear, lowest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.search.kernels.bits import Words

    Indices = NDArray[np.int64]


# A word that is found by its place takes as long as so many in a row.
SPARSE = 4


class Allowed(NamedTuple):
    """Where a factor may be: the ones and the missing entries of a matrix (M, N)."""

    rows: Words  # (M, words of N)
    columns: Words  # (N, words of M)


class Ones(NamedTuple):
    """The ones that are to be covered, by rows and then by columns."""

    start: Indices  # (M + 1,): where the ones of each row begin
    rows: Indices  # (E,)
    columns: Indices  # (E,)


class Fate(NamedTuple):
    """What became of the ones.

    A one is left over (clique −1, dominator −1), in a forced clique, or dominated.
    """

    clique: Indices  # (E,): the forced clique, or −1
    dominator: Indices  # (E,): the one that dominates it, or −1
    order: Indices  # (E,): the dominated ones in the order in which that was found
    forcing: Indices  # (E,): the one that forces each clique
    n: Indices  # (2,): the number of forced cliques, and of dominated ones


class Span(NamedTuple):
    """Scratch memory for the surroundings of a one."""

    rows: Words  # A (words of M,): the rows in which its neighbours are
    columns: Words  # B (words of N,): their columns
    all_rows: Words  # (words of M,): the rows that allow all of B
    all_columns: Words  # (words of N,): the columns that all of A allow
    full: Indices  # (the more words,): for `full_words`


def no_span(allowed: Allowed) -> Span:
    """Allocate the memory."""
    of_rows, of_columns = allowed.columns.shape[1], allowed.rows.shape[1]
    rows, all_rows = np.zeros((2, of_rows), dtype=np.uint64)
    columns, all_columns = np.zeros((2, of_columns), dtype=np.uint64)
    full = np.zeros(max(of_rows, of_columns), dtype=np.int64)
    return Span(rows, columns, all_rows, all_columns, full)


def no_fate(n_ones: int) -> Fate:
    """Allocate the fate of so many ones, of which nothing is known."""
    clique, dominator, order, forcing = np.full((4, n_ones), -1, dtype=np.int64)
    return Fate(clique, dominator, order, forcing, np.zeros(2, dtype=np.int64))


@njit(cache=True, nogil=True, inline="always")
def has(words: Words, position: int) -> bool:
    """Whether a set has a member."""
    return (words[position >> 6] >> np.uint64(position & 63)) & ONE != ZERO


@njit(cache=True, nogil=True)
def put(words: Words, position: int) -> None:
    """Add a member to a set."""
    words[position >> 6] |= ONE << np.uint64(position & 63)


@njit(cache=True, nogil=True)
def is_within(small: Words, large: Words) -> bool:
    """Whether one set is a part of the other."""
    outside = ZERO
    for w in range(small.shape[0]):
        outside |= small[w] & ~large[w]
    return outside == ZERO


@njit(cache=True, nogil=True)
def full_words(words: Words, full: Indices) -> int:
    """List the words that are not zero; return how many there are.

    Where they are few, as in sparse rows, loops go over them instead of over all words.
    """
    n = 0
    for w in range(words.shape[0]):
        if words[w] != ZERO:
            full[n] = w
            n += 1
    return n


@njit(cache=True, nogil=True)
def common(lines: Words, members: Words, out: Words, full: Indices) -> None:
    """Set what all member lines have in common; without members, everything.

    `full` (words or more,) is scratch memory.
    """
    n, n_full = out.shape[0], -1
    for w in range(n):
        out[w] = ~ZERO
    for j in range(members.shape[0]):
        left = members[j]
        while left != ZERO:
            line = 64 * j + lowest(left)
            left &= left - ONE
            if n_full < 0:
                for w in range(n):
                    out[w] = lines[line, w]
                n_full = full_words(out, full)
            elif SPARSE * n_full < n:
                for i in range(n_full):
                    out[full[i]] &= lines[line, full[i]]
            else:
                for w in range(n):
                    out[w] &= lines[line, w]


@njit(cache=True, nogil=True)
def span(allowed: Allowed, active: Words, row: int, column: int, out: Span) -> int:
    """Set the rows and columns of the neighbours of a one among the active ones (M, words of N).

    Returns how many words were looked at.
    """
    n, n_lines = active.shape[1], 0
    own = allowed.rows[row]
    n_full = full_words(own, out.full)
    is_sparse = SPARSE * n_full < n
    clear(out.rows)
    clear(out.columns)
    for j in range(out.rows.shape[0]):
        left = allowed.columns[column, j]
        while left != ZERO:
            line = 64 * j + lowest(left)
            left &= left - ONE
            n_lines += 1
            found = ZERO
            if is_sparse:
                for i in range(n_full):
                    w = out.full[i]
                    shared = active[line, w] & own[w]
                    out.columns[w] |= shared
                    found |= shared
            else:
                for w in range(n):
                    shared = active[line, w] & own[w]
                    out.columns[w] |= shared
                    found |= shared
            if found != ZERO:
                put(out.rows, line)
    return n_lines * (SPARSE * n_full if is_sparse else n)


@njit(cache=True, nogil=True)
def position_of(ones: Ones, row: int, column: int) -> int:
    """The number of a one."""
    low, high = ones.start[row], ones.start[row + 1]
    while low + 1 < high:
        middle = (low + high) >> 1
        if ones.columns[middle] <= column:
            low = middle
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def _is_due(allowed: Allowed, column: int, changed: Indices, since: int) -> bool:
    """Whether ones in rows that a column allows were taken out since a time."""
    if since < 0:
        return True
    for j in range(allowed.columns.shape[1]):
        left = allowed.columns[column, j]
        while left != ZERO:
            if changed[64 * j + lowest(left)] > since:
                return True
            left &= left - ONE
    return False


@njit(cache=True, nogil=True)
def _take_out(
    active: Words, ones: Ones, e: int, forced: bool, memory: Span, fate: Fate, changed: Indices,
    now: int,
) -> bool:  # fmt: skip
    """Make the active ones within a span inactive because of the one e; whether there were any."""
    any_out = False
    rows, columns = (
        (memory.rows, memory.columns) if forced else (memory.all_rows, memory.all_columns)
    )
    for j in range(rows.shape[0]):
        left = rows[j]
        while left != ZERO:
            line = 64 * j + lowest(left)
            left &= left - ONE
            for w in range(columns.shape[0]):
                gone = active[line, w] & columns[w]
                while gone != ZERO:
                    column = 64 * w + lowest(gone)
                    gone &= gone - ONE
                    f = position_of(ones, line, column)
                    if forced:
                        fate.clique[f] = fate.n[0]
                    elif f == e:
                        continue
                    else:
                        fate.dominator[f] = e
                        fate.order[fate.n[1]] = f
                        fate.n[1] += 1
                    active[line, w] ^= ONE << np.uint64(column & 63)
                    changed[line] = now
                    any_out = True
    return any_out


@njit(cache=True, nogil=True)
def reduce(
    allowed: Allowed, active: Words, ones: Ones, order: Indices, memory: Span, fate: Fate,
    most_words: int,
) -> None:  # fmt: skip
    """Apply both rules until nothing changes, or so many words were looked at.

    `active` (M, words of N) has the ones that are to be covered; in the end, those left over. The
    `order` (E,) in which ones are looked at changes nothing but the time.
    """
    n_words = 0
    changed = np.zeros(active.shape[0], dtype=np.int64)
    looked = np.full(len(ones.rows), -1, dtype=np.int64)
    now = 0
    again = True
    while again:
        again = False
        for i in range(len(order)):
            e = order[i]
            row, column = ones.rows[e], ones.columns[e]
            if not has(active[row], column) or not _is_due(allowed, column, changed, looked[e]):
                continue
            now += 1
            looked[e] = now
            n_words += span(allowed, active, row, column, memory)
            if n_words > most_words:
                return
            common(allowed.columns, memory.columns, memory.all_rows, memory.full)
            forced = is_within(memory.rows, memory.all_rows)
            if not forced:
                common(allowed.rows, memory.rows, memory.all_columns, memory.full)
            if _take_out(active, ones, e, forced, memory, fate, changed, now):
                again = True
            if forced:
                fate.forcing[fate.n[0]] = e
                fate.n[0] += 1


@njit(cache=True, nogil=True)
def follow(fate: Fate) -> None:
    """Put the dominated ones into the cliques of those that dominate them, the last found first.

    What a one had as neighbours when it was dominated, its dominator had, too: so the clique that
    the dominator is in has room for it.
    """
    for i in range(fate.n[1] - 1, -1, -1):
        f = fate.order[i]
        fate.clique[f] = fate.clique[fate.dominator[f]]
