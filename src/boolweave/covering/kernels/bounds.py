"""Lower bounds of any cover: ones of which no two can share a factor, and heavy cliques of ones.

The local search for such ones always has a set of them. A one with no neighbour in the set is
added. If there is none, a one with a single neighbour in the set takes its place, the one that has
waited longest; and now and then, or if there is no such one either, any one takes the place of all
its neighbours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from boolweave.covering.kernels.reducing import (
    Allowed,
    Flag,
    Indices,
    Ones,
    Span,
    intersect,
    list_within,
    nonzero_words,
    position_of,
)
from boolweave.engine.kernels.bits import (
    ONE,
    ZERO,
    Words,
    below,
    clear,
    contains,
    copy,
    flip,
    insert,
    lowest,
    members,
)
from boolweave.engine.kernels.jit import njit

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
) -> int:
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
) -> int:
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


# ---------------------------------------------------------------- the heaviest cliques


# The work of a node of the search, relative to the work of looking at a pair of neighbours.
WORK_OF_NODE = 200


@njit(cache=True, nogil=True)
def _are_neighbours(allowed: Allowed, ones: Ones, e: int, f: int) -> bool:
    return contains(allowed.rows[ones.rows[e]], ones.columns[f]) and contains(
        allowed.rows[ones.rows[f]], ones.columns[e]
    )


@njit(cache=True, nogil=True)
def _bounds(
    near: Words, weight: Indices, left: Words, order: Indices, bound: Indices, memory: Words
) -> int:
    """Order the candidates in `left`, and bound the cliques among each and those before it.

    The candidates are divided into classes without neighbours among each other. A clique has at
    most one member of each class, so it is no heavier than the sum of the heaviest members.
    Returns the number of candidates. `memory` (2, words) is scratch memory.
    """
    rest, free = memory[0], memory[1]
    copy(left, rest)
    n, total = 0, 0
    while True:
        copy(rest, free)
        most = 0
        any_left = False
        for w in range(free.shape[0]):
            while free[w] != ZERO:
                v = 64 * w + lowest(free[w])
                any_left = True
                flip(rest, v)
                flip(free, v)
                for i in range(w, free.shape[0]):
                    free[i] &= ~near[v, i]
                most = max(most, weight[v])
                order[n] = v
                bound[n] = total + most
                n += 1
        if not any_left:
            return n
        total += most


@njit(cache=True, nogil=True)
def heaviest(
    near: Words, weight: Indices, least: int, most_nodes: int, best: Words, stop: Flag
) -> tuple[int, int, int]:
    """Find the heaviest clique of a small graph that is heavier than `least`.

    Parameters
    ----------
    near : (n, words of n) array
        The neighbours of each vertex, without itself.
    weight : (n,) array
        The vertices should be in descending order of their weights.
    least, most_nodes : int
        Only heavier cliques are searched; the search ends after so many nodes, or when `stop[0]`
        is set.
    best : (words of n,) array
        Is set to the clique; empty if there is none.

    Returns
    -------
    weight, bound, n_nodes : int
        The weight of the clique, and an upper bound of the weight of any clique; both are `least`
        if there is no heavier one. The number of nodes.
    """
    n, words = near.shape
    sets = np.zeros((n + 1, words), dtype=np.uint64)  # candidates at each depth
    orders = np.zeros((n + 1, n), dtype=np.int64)
    bounds = np.zeros((n + 1, n), dtype=np.int64)
    at = np.zeros(n + 1, dtype=np.int64)
    chosen = np.zeros(n + 1, dtype=np.int64)
    sums = np.zeros(n + 1, dtype=np.int64)
    memory = np.zeros((2, words), dtype=np.uint64)
    clear(best)
    for v in range(n):
        insert(sets[0], v)
    at[0] = _bounds(near, weight, sets[0], orders[0], bounds[0], memory) - 1
    root = bounds[0, n - 1] if n else 0
    found, depth, n_nodes = least, 0, 0
    while depth >= 0:
        i = at[depth]
        if i < 0 or sums[depth] + bounds[depth, i] <= found:
            depth -= 1
            continue
        n_nodes += 1
        if n_nodes > most_nodes or stop[0]:
            return found, max(root, found), n_nodes
        v = orders[depth, i]
        at[depth] = i - 1
        flip(sets[depth], v)
        chosen[depth] = v
        total = sums[depth] + weight[v]
        if total > found:
            found = total
            clear(best)
            for d in range(depth + 1):
                insert(best, chosen[d])
        for w in range(words):
            sets[depth + 1, w] = sets[depth, w] & near[v, w]
        sums[depth + 1] = total
        at[depth + 1] = (
            _bounds(near, weight, sets[depth + 1], orders[depth + 1], bounds[depth + 1], memory) - 1
        )
        depth += 1
    return found, found, n_nodes


@njit(cache=True, nogil=True)
def price(
    allowed: Allowed,
    ones: Ones,
    order: Indices,
    weight: Indices,
    limit: int,
    most_work: int,
    members: Indices,
    start: Indices,
    stop: Flag,
) -> tuple[int, int]:
    """Find cliques that are too heavy, and lower weights until there are none.

    For each one, the last first, the heaviest clique of it and later ones is found. If this is too
    heavy, the one loses the excess; earlier ones then meet the lower weight.

    Parameters
    ----------
    order : (n,) array
        The ones with positive weight, each once.
    weight : (E,) array
        Afterwards, no clique is heavier than `limit`.
    limit : int
        Only cliques that are heavier are listed.
    most_work : int
        Once this much work is done, or `stop[0]` is set, upper bounds of the weights of cliques are
        used.
    members, start : (m,) and (n + 1,) arrays
        The members of the cliques, and where each clique begins.

    Returns
    -------
    n_cliques, work : int
        The number of cliques in the list; the work, in units of some two nanoseconds.
    """
    n_cliques, work = 0, 0
    near_e = np.zeros(len(order), dtype=np.int64)
    for i in range(len(order) - 1, -1, -1):
        e = order[i]
        n = 0
        most = weight[e]  # an upper bound of the weight of a clique of this one and later ones
        for j in range(i + 1, len(order)):
            if weight[order[j]] > 0 and _are_neighbours(allowed, ones, e, order[j]):
                near_e[n] = order[j]
                n += 1
                most += weight[order[j]]
        if most > limit and work <= most_work and not stop[0]:
            later = near_e[:n]
            later = later[np.argsort(-weight[later], kind="mergesort")]
            near = np.zeros((n, (n + 63) >> 6), dtype=np.uint64)
            for j in range(n):
                for k in range(j):
                    if _are_neighbours(allowed, ones, later[j], later[k]):
                        insert(near[j], k)
                        insert(near[k], j)
            best = np.zeros(near.shape[1], dtype=np.uint64)
            most_nodes = (most_work - work) // WORK_OF_NODE
            least = limit - weight[e]
            found, most, n_nodes = heaviest(near, weight[later], least, most_nodes, best, stop)
            work += n * n + WORK_OF_NODE * n_nodes
            most += weight[e]
            if found > least and start[n_cliques] + n + 1 <= len(members):
                at = start[n_cliques]
                members[at] = e
                at += 1
                for j in range(n):
                    if contains(best, j):
                        members[at] = later[j]
                        at += 1
                n_cliques += 1
                start[n_cliques] = at
        # Without e, no clique of later ones is too heavy.
        weight[e] -= min(weight[e], max(0, most - limit))
    return n_cliques, work


@njit(cache=True, nogil=True)
def enlarged(
    allowed: Allowed, active: Words, ones: Ones, members: Indices, memory: Span, out: Indices
) -> int:
    """List a clique (n,) and all active ones (m, words of n) that can be added; return how many.

    It gets all rows that its columns allow, then all columns that these rows allow.
    """
    rows, columns = memory.rows, memory.columns
    clear(columns)
    for i in range(len(members)):
        insert(columns, ones.columns[members[i]])
    intersect(allowed.columns, columns, rows, memory.nonzero)
    intersect(allowed.rows, rows, columns, memory.nonzero)
    return list_within(active, ones, rows, columns, out)
