"""Many ones of which no two can share a factor, by local search: a lower bound of any cover.

The search always has a set of such ones. A one with no neighbour in the set is added. If there is
none, a one with a single neighbour in the set takes its place, the one that has waited longest; and
now and then, or if there is no such one either, any one takes the place of all its neighbours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from boolweave.covering.kernels.reducing import nonzero_words, position_of
from boolweave.engine.kernels.jit import njit
from boolweave.search.kernels.bits import ONE, ZERO, below, lowest, members

if TYPE_CHECKING:
    from boolweave.covering.kernels.reducing import Allowed, Indices, Ones
    from boolweave.search.kernels.bits import Words

# The numbers in `Chosen.n`: of chosen ones, of free ones, of ones with one chosen neighbour, of
# steps, and of words read.
N_CHOSEN, N_FREE, N_SINGLE, N_STEPS, N_WORDS = range(5)

# Number of ones with a single chosen neighbour of which the one that has waited longest is taken.
N_COMPARED = 50

# One step in this many is a random one.
RARE = 10000


class Chosen(NamedTuple):
    """A set of ones without neighbours among each other, and what it leaves for the others."""

    near: Indices  # (E,): the number of neighbours of each one in the set, itself included
    inside: Indices  # (E,): 1 for the ones in the set
    moved: Indices  # (E,): the step in which it last entered or left the set
    list: Indices  # (2, E): free ones, and those with one neighbour in the set
    place: Indices  # (E,): where each of them is in its list
    n: Indices  # (5,): see N_CHOSEN
    members: Indices  # (E,): scratch memory


def nothing_chosen(n_ones: int) -> Chosen:
    """The empty set."""
    near, inside, moved = np.zeros((3, n_ones), dtype=np.int64)
    lists = np.zeros((2, n_ones), dtype=np.int64)
    lists[0] = np.arange(n_ones)
    n = np.array([0, n_ones, 0, 0, 0], dtype=np.int64)
    return Chosen(near, inside, moved, lists, np.arange(n_ones), n, np.zeros_like(near))


@njit(cache=True, nogil=True)
def _enlist(c: Chosen, which: int, e: int) -> None:
    c.list[which, c.n[N_FREE + which]] = e
    c.place[e] = c.n[N_FREE + which]
    c.n[N_FREE + which] += 1


@njit(cache=True, nogil=True)
def _delist(c: Chosen, which: int, e: int) -> None:
    c.n[N_FREE + which] -= 1
    last = c.list[which, c.n[N_FREE + which]]
    c.list[which, c.place[e]] = last
    c.place[last] = c.place[e]


@njit(cache=True, nogil=True)
def move(
    allowed: Allowed, active: Words, ones: Ones, c: Chosen, e: int, by: int, nonzero: Indices
) -> int:  # fmt: skip
    """Let e enter the set (`by` 1) or leave it (−1); list the other members that are neighbours.

    Returns the number of these; they are in `c.members`.
    """
    n_members = 0
    own = allowed.rows[ones.rows[e]]
    n_nonzero = nonzero_words(own, nonzero)
    for line in members(allowed.columns[ones.columns[e]]):
        c.n[N_WORDS] += n_nonzero
        for i in range(n_nonzero):
            w = nonzero[i]
            found = active[line, w] & own[w]
            while found != ZERO:
                f = position_of(ones, line, 64 * w + lowest(found))
                found &= found - ONE
                c.n[N_WORDS] += 4
                if c.near[f] < 2:
                    _delist(c, c.near[f], f)
                c.near[f] += by
                if c.near[f] < 2:
                    _enlist(c, c.near[f], f)
                if c.inside[f] and f != e:
                    c.members[n_members] = f
                    n_members += 1
    c.inside[e] = by > 0
    c.moved[e] = c.n[N_STEPS]
    c.n[N_CHOSEN] += by
    return n_members


@njit(cache=True, nogil=True)
def _next(c: Chosen, random: Words) -> int:
    """The one that enters the set next."""
    if c.n[N_FREE]:
        return c.list[0, below(random, c.n[N_FREE])]
    best = -1
    if c.n[N_SINGLE] and below(random, RARE):
        for _ in range(N_COMPARED):
            e = c.list[1, below(random, c.n[N_SINGLE])]
            if not c.inside[e] and (best < 0 or c.moved[e] < c.moved[best]):
                best = e
    if best < 0:
        best = below(random, len(c.near))
        while c.inside[best]:
            best = below(random, len(c.near))
    return best


@njit(cache=True, nogil=True)
def take(allowed: Allowed, active: Words, ones: Ones, c: Chosen, order: Indices) -> None:
    """Add ones to the set in an order (E,), if they have no neighbour there."""
    nonzero = np.zeros(active.shape[1], dtype=np.int64)
    for i in range(len(order)):
        if c.near[order[i]] == 0:
            move(allowed, active, ones, c, order[i], 1, nonzero)


@njit(cache=True, nogil=True)
def search_independent(
    allowed: Allowed, active: Words, ones: Ones, c: Chosen, random: Words, n_steps: int
) -> int:  # fmt: skip
    """Take some steps, each of which lets a one enter; return the size of the largest set."""
    most = c.n[N_CHOSEN]
    nonzero = np.zeros(active.shape[1], dtype=np.int64)
    for _ in range(n_steps):
        if c.n[N_CHOSEN] == len(c.near):
            break
        c.n[N_STEPS] += 1
        e = _next(c, random)
        n_members = move(allowed, active, ones, c, e, 1, nonzero)
        leaving = c.members[:n_members].copy()
        for i in range(n_members):
            move(allowed, active, ones, c, leaving[i], -1, nonzero)
        most = max(most, c.n[N_CHOSEN])
    return most
