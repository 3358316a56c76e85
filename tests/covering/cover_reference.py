"""Slow, obvious twins of the covering: all rectangles, and all sets of them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp


def are_neighbours(allowed, e, f):
    """Whether two ones can share a factor without false ones."""
    return bool(allowed[e[0], f[1]] and allowed[f[0], e[1]])


def heaviest_clique(near, weight):
    """The weight of a heaviest clique, by all of them; `near` is (E, E)."""
    if not len(near):
        return 0
    without_first = heaviest_clique(near[1:, 1:], weight[1:])
    others = 1 + np.flatnonzero(near[0, 1:])
    with_first = weight[0] + heaviest_clique(near[np.ix_(others, others)], weight[others])
    return max(without_first, with_first)


def largest_independent(near):
    """The size of a largest set of which no two are neighbours, by all sets; `near` is (E, E)."""
    if not len(near):
        return 0
    without_first = largest_independent(near[1:, 1:])
    far = np.flatnonzero(~near[0])
    return max(without_first, 1 + largest_independent(near[np.ix_(far, far)]))


def largest_rectangles(allowed):
    """All largest rectangles (rows, columns) of allowed entries, by all sets of columns."""
    found = set()
    N = allowed.shape[1]
    for size in range(1, N + 1):
        for columns in combinations(range(N), size):
            rows = np.flatnonzero(allowed[:, columns].all(axis=1))
            if len(rows):
                closed = np.flatnonzero(allowed[rows].all(axis=0))
                found.add((tuple(rows.tolist()), tuple(closed.tolist())))
    return sorted(found)


def greedy_tiles_of(ones, allowed, at, order, grow):
    """Tiles (rows, columns), each grown by rows from the next one that no earlier tile has."""
    free, tiles = ones.copy(), []
    for e in order:
        row, column = at[0][e], at[1][e]
        if not free[row, column]:
            continue
        rows = [row]

        def n_free(with_rows):
            return free[np.ix_(with_rows, allowed[with_rows].all(axis=0))].sum()

        # A row that is added changes places with the first candidate, which decides between ties.
        candidates = [r for r in np.flatnonzero(allowed[:, column]) if r != row]
        while grow and candidates:
            gains = [n_free([*rows, r]) for r in candidates]
            if max(gains) <= n_free(rows):
                break
            best = int(np.argmax(gains))
            rows.append(candidates[best])
            candidates[best] = candidates[0]
            del candidates[0]
        columns = np.flatnonzero(allowed[rows].all(axis=0))
        free[np.ix_(rows, columns)] = False
        tiles.append((rows, columns))
    return tiles


def least_cover(ones, allowed=None, most_missed=0):
    """The fewest rectangles of allowed entries that have all ones but so many."""
    ones = np.asarray(ones, dtype=bool)
    allowed = ones if allowed is None else allowed
    if ones.sum() <= most_missed:
        return 0
    covers = []
    for rows, columns in largest_rectangles(allowed):
        inside = np.zeros_like(ones)
        inside[np.ix_(rows, columns)] = True
        covers.append(inside & ones)
    for size in range(1, len(covers) + 1):
        for chosen in combinations(covers, size):
            if ones.sum() - np.logical_or.reduce(chosen).sum() <= most_missed:
                return size
    raise AssertionError("all largest rectangles cover all ones")


def least_limited_cover(ones, max_rows, max_columns):
    """The fewest rectangles of ones within limits that have all ones."""
    ones = np.asarray(ones, dtype=bool)
    if not ones.any():
        return 0
    M = len(ones)
    covers = []
    for n_rows in range(1, min(M, max_rows) + 1):
        for rows in combinations(range(M), n_rows):
            shared = np.flatnonzero(ones[list(rows)].all(axis=0))
            for columns in combinations(shared, min(len(shared), max_columns)):
                inside = np.zeros_like(ones)
                inside[np.ix_(rows, columns)] = True
                covers.append(inside)
    for size in range(1, len(covers) + 1):
        for chosen in combinations(covers, size):
            if (np.logical_or.reduce(chosen) == ones).all():
                return size
    raise AssertionError("single ones cover all ones")


def best_cover(matrix, *, objective="roles", min_rows=1, min_columns=1, max_rows=9, max_columns=9,
               max_roles_per_row=99, conflicts=(), most_missed=0, most_false=0):  # fmt: skip
    """The missed ones beyond the most, the factors, and rows and columns of factors, at best.

    A program with a variable for every rectangle, every missed one and every false one; missed
    ones count first.
    """
    ones = np.asarray(matrix, dtype=bool)
    M, N = ones.shape
    limits = (M, min_rows, max_rows), (N, min_columns, max_columns)
    sets = [[c for size in range(least, min(most, n) + 1) for c in combinations(range(n), size)]
            for n, least, most in limits]  # fmt: skip
    apart = [set(some) for some in conflicts]
    tiles = [(rows, columns) for columns in sets[1] for rows in sets[0]
             if all(len(some & set(columns)) < 2 for some in apart)
             and (most_false or ones[np.ix_(rows, columns)].all())]  # fmt: skip
    inside = np.zeros((len(tiles), M, N), dtype=int)
    for t, (rows, columns) in enumerate(tiles):
        inside[t][np.ix_(rows, columns)] = 1
    T, E, Z = len(tiles), int(ones.sum()), int((~ones).sum())
    price = 1 if objective == "assignments" else 100
    cost = [price + len(rows) + len(columns) for rows, columns in tiles]
    costs = np.concatenate([cost, np.zeros(E + Z), [10**4]])
    in_row = inside.any(axis=2)
    lines = [
        [*inside[:, m, n], *(np.arange(E) == e), *np.zeros(Z), 0]
        for e, (m, n) in enumerate(np.argwhere(ones))
    ]  # covered or missed
    low = [1.0] * E
    for z, (m, n) in enumerate(np.argwhere(~ones)):  # false if any tile covers it
        lines.append([*-inside[:, m, n], *np.zeros(E), *(T * (np.arange(Z) == z)), 0])
        low.append(0)
    lines += [[*-in_row[:, m].astype(int), *np.zeros(E + Z), 0] for m in range(M)]
    low += [-max_roles_per_row] * M
    lines.append([*np.zeros(T), *-np.ones(E), *np.zeros(Z), 1])
    low.append(-most_missed)
    lines.append([*np.zeros(T + E), *-np.ones(Z), 0])
    low.append(-most_false)
    solved = milp(
        costs, constraints=LinearConstraint(np.array(lines, dtype=float), low, np.inf),
        bounds=Bounds(0, [*np.ones(T + E + Z), E]), integrality=np.ones(len(costs)),
        options={"mip_rel_gap": 0},
    )  # fmt: skip
    chosen = np.flatnonzero(solved.x[:T] > 0.5)
    return round(solved.x[-1]), len(chosen), sum(cost[t] - price for t in chosen)
