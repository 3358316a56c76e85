"""The heaviest cliques of weighted ones, by branch and bound; all ones that fit into a clique."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from boolweave.covering.kernels.reducing import intersect, list_within
from boolweave.engine.kernels.jit import njit
from boolweave.search.kernels.bits import ZERO, clear, contains, copy, flip, insert, lowest

if TYPE_CHECKING:
    from boolweave.covering.kernels.reducing import Allowed, Indices, Ones, Span
    from boolweave.search.kernels.bits import Words

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
) -> int:  # fmt: skip
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
    near: Words, weight: Indices, least: int, most_nodes: int, best: Words
) -> tuple[int, int, int]:  # fmt: skip
    """Find the heaviest clique of a small graph that is heavier than `least`.

    Parameters
    ----------
    near : (n, words of n) array
        The neighbours of each vertex, without itself.
    weight : (n,) array
        The vertices should be in descending order of their weights.
    least, most_nodes : int
        Only heavier cliques are searched; the search ends after so many nodes.
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
        if n_nodes > most_nodes:
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
    allowed: Allowed, ones: Ones, order: Indices, weight: Indices, limit: int, most_work: int,
    members: Indices, start: Indices,
) -> tuple[int, int]:  # fmt: skip
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
        Once this much work is done, upper bounds of the weights of cliques are used.
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
        if most > limit and work <= most_work:
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
            found, most, n_nodes = heaviest(near, weight[later], least, most_nodes, best)
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
) -> int:  # fmt: skip
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
