"""Parts of a matrix: ones that are covered together, exactly if they are few, and lower bounds.

If no clique of ones is heavier than 1, every cover needs at least as many cliques as all ones
weigh. The best weights are the dual solution of a linear program that covers the ones with
fractions of cliques. It begins with the cliques of a cover; in each round, heavy cliques that it
lacks are added. Weights with cliques that are too heavy also give a bound, once the ones in them
have lost the excess.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from boolweave.covering.kernels.bounds import (
    N_WORDS,
    enlarged,
    nothing_chosen,
    price,
    search_independent,
    take,
)
from boolweave.covering.kernels.reducing import Allowed, Indices, Ones, empty_span
from boolweave.covering.kernels.tiles import count_neighbours
from boolweave.covering.matrix import CELLS_AT_ONCE, Merged, packed_at
from boolweave.engine.kernels.bits import Words, pack, random_words, sizes_of, unpack
from boolweave.runtime.run import Run
from boolweave.runtime.threads import cut

# Maximum number of words that are read to count neighbours; each takes a nanosecond or less.
COUNTING_WORK = 1e10

# The search for ones of which no two can share a factor: the work after which it ends, the work
# without improvement after which it ends, at most and per one, in units of a few nanoseconds, and
# the number of steps between two looks at them.
INDEPENDENT_WORK = 2e9
INDEPENDENT_IDLE = 3e8
IDLE_PER_ONE = 1e5
STEPS_AT_ONCE = 200


@dataclass(frozen=True, eq=False)
class Part:
    """Some ones of a merged matrix, within the m rows and n columns that have any of them.

    Attributes
    ----------
    shape : (int, int)
        The numbers of rows and columns, m and n.
    allowed : Allowed
        The ones and the missing entries of the matrix within these rows and columns.
    ones : Ones
        The positions of the ones within them, in the given order.
    """

    shape: tuple[int, int]
    allowed: Allowed
    ones: Ones

    @classmethod
    def of(cls, merged: Merged, ones: Ones) -> Part:
        """Take some ones of a merged matrix."""
        rows, at_row = np.unique(ones.rows, return_inverse=True)
        columns, at_column = np.unique(ones.columns, return_inverse=True)
        allowed = Allowed(
            _within(merged.allowed.rows[rows], merged.shape[1], columns),
            _within(merged.allowed.columns[columns], merged.shape[0], rows),
        )
        start = np.searchsorted(at_row, np.arange(len(rows) + 1)).astype(np.int64)
        own = Ones(start, at_row.astype(np.int64), at_column.astype(np.int64))
        return cls((len(rows), len(columns)), allowed, own)

    @cached_property
    def active(self) -> Words:
        """The ones, packed: (m, words of n)."""
        return packed_at(self.ones.rows, self.ones.columns, self.shape)

    @cached_property
    def in_row(self) -> Indices:
        """The number of allowed entries of each row, (m,)."""
        return sizes_of(self.allowed.rows)

    @cached_property
    def in_column(self) -> Indices:
        """The number of allowed entries of each column, (n,)."""
        return sizes_of(self.allowed.columns)

    def neighbours(self) -> NDArray[np.bool_]:
        """A mask (E, E) of the pairs of ones that can share a factor."""
        allowed = unpack(self.allowed.rows, self.shape[1]).astype(bool)
        return neighbours_of(allowed, self.ones.rows, self.ones.columns)

    def count(self, stop: NDArray[np.bool_]) -> Indices:
        """The number of neighbours of each one (E,), or an upper bound if counting takes long.

        Counting ends when another thread sets `stop[0]`.
        """
        ones = self.ones
        count = self.in_row[ones.rows] * self.in_column[ones.columns]
        words = np.minimum(self.in_row[ones.rows], self.active.shape[1])
        if (self.in_column[ones.columns] * words).sum() < COUNTING_WORK:
            count_neighbours(self.allowed, self.active, ones, count, stop)
        return count


def independent_ones(
    part: Part, count: Indices, most: int, random: np.random.Generator, stop: NDArray[np.bool_]
) -> int:
    """Find many ones of which no two can share a factor, and return their number.

    `count` (E,) is the number of neighbours of each one, and `most` is a number that cannot be
    exceeded. The search ends when another thread sets `stop[0]`.
    """
    chosen = nothing_chosen(len(part.ones.rows))
    state = random_words(random)
    take(part.allowed, part.active, part.ones, chosen, np.argsort(count, kind="stable"))
    idle = min(INDEPENDENT_IDLE, IDLE_PER_ONE * len(count))
    best = int(chosen.n[0])
    limit = idle
    while best < most and chosen.n[N_WORDS] < limit and not stop[0]:
        now = search_independent(part.allowed, part.active, part.ones, chosen, state, STEPS_AT_ONCE)
        if now > best:
            best, limit = now, min(INDEPENDENT_WORK, int(chosen.n[N_WORDS]) + idle)
    return best


def _within(words: Words, n: int, chosen: Indices) -> Words:
    """Some of the n columns of packed lines: (L, words of n) to (L, words of the chosen ones)."""
    parts = cut(len(words), n, CELLS_AT_ONCE)
    return np.concatenate([pack(unpack(words[some], n)[:, chosen]) for some in parts])


# ---------------------------------------------------------------- small parts: the fewest cliques


# Maximum number of ones for which all maximal cliques are listed, maximum of this number times the
# members of all cliques, and maximum number of nodes in the search for the fewest cliques. Up to
# this size, the search took at most 7 s in random tables; somewhat above it, up to 22 s.
MOST_LISTED = 600
MOST_SIZE = 650_000
MOST_NODES = 2000


def neighbours_of(
    allowed: NDArray[np.bool_], rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """A mask (E, E) of the pairs of ones that are neighbours; `allowed` is (M, N)."""
    across = allowed[rows[:, None], columns[None, :]]
    return across & across.T


def maximal_cliques(neighbours: NDArray[np.bool_], stop: NDArray[np.bool_]) -> list[int] | None:
    """List all maximal cliques as sets of bits; None if they have too many members.

    It is also None if another thread sets `stop[0]` before the end.

    This is the algorithm of Bron and Kerbosch: P are the vertices that can be added to the clique
    R, and X are those that were tried before.
    """
    n = len(neighbours)
    near = [sum(1 << int(j) for j in np.flatnonzero(neighbours[i]) if j != i) for i in range(n)]
    found: list[int] = []
    n_members = 0
    stack = [(0, (1 << n) - 1, 0)]
    while stack:
        if stop[0]:
            return None
        R, P, X = stack.pop()
        if not P:
            if not X:
                found.append(R)
                n_members += R.bit_count()
                if n * n_members > MOST_SIZE:
                    return None
            continue
        pivot = max(_members(P | X), key=lambda v: ((near[v] & P).bit_count(), -v))
        for v in _members(P & ~near[pivot]):
            stack.append((R | 1 << v, P & near[v], X & near[v]))
            P ^= 1 << v
            X |= 1 << v
    return found


def _members(bits: int) -> list[int]:
    members = []
    while bits:
        low = bits & -bits
        members.append(low.bit_length() - 1)
        bits ^= low
    return members


def time_limit(seconds: float | None) -> dict[str, float]:
    """The option of HiGHS for a time limit; it must be positive."""
    return {} if seconds is None else {"time_limit": max(seconds, 1e-3)}


def fewest(
    cliques: list[int], n_ones: int, seconds: float | None = None
) -> tuple[NDArray[np.int64] | None, int]:
    """Choose the fewest cliques that cover all ones; also return a lower bound of their number.

    It ends after this many seconds. The choice is the clique of each one, (E,), the first if it is
    in several of them; None if no choice was found.
    """
    lists = [_members(clique) for clique in cliques]
    rows = np.concatenate([np.array(members) for members in lists])
    columns = np.repeat(np.arange(len(lists)), [len(members) for members in lists])
    A = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n_ones, len(lists)))
    solved = milp(
        np.ones(len(lists)),
        constraints=LinearConstraint(A, 1, np.inf),
        bounds=Bounds(0, 1),
        integrality=np.ones(len(lists)),
        options={"node_limit": MOST_NODES, "mip_rel_gap": 0, **time_limit(seconds)},
    )
    bound = solved.mip_dual_bound
    least = 0 if bound is None or not np.isfinite(bound) else int(np.ceil(bound - 1e-6))
    if solved.x is None:
        return None, least
    chosen = np.flatnonzero(solved.x > 0.5)
    clique = np.full(n_ones, -1, dtype=np.int64)
    for number, c in enumerate(chosen):
        members = np.array(lists[c])
        clique[members[clique[members] < 0]] = number
    # Number the cliques that have ones, beginning with 0.
    return np.unique(clique, return_inverse=True)[1].astype(np.int64), least


# ---------------------------------------------------------------- a linear program


# Maximum number of ones, and of the work of all linear programs together: n steps of the simplex
# method take some n² times 60 to 280 nanoseconds, twenty seconds at most. Maximum work to find
# heavy cliques, some ten seconds.
MOST_WEIGHED = 3000
MOST_SQUARES = 7 * 10**7
MOST_WORK = 10**9

# Weights are whole numbers, so that the bound does not depend on rounding: a weight of 1 is this
# many units. Cliques that are heavier than 1 by less than the tolerance are not added.
UNITS = 10**6
TOLERANCE = 100

# Maximum number of members of all cliques of a round, per one.
MOST_MEMBERS = 50


def fractional_bound(part: Part, clique: Indices, count: Indices, bound: int, run: Run) -> int:
    """Improve a lower bound of the number of cliques of any cover.

    Parameters
    ----------
    part : Part
    clique, count : (E,) arrays
        The clique of each one in a cover, and the number of its neighbours.
    bound : int
        A lower bound that is known.
    run : Run
        When it sets its `stop`, the bound so far is returned.
    """
    n_ones = len(clique)
    if n_ones > MOST_WEIGHED:
        return bound
    pool = _Pool(part)
    for c in range(int(clique.max()) + 1):
        pool.add(np.flatnonzero(clique == c))
    squares, work, grew = 0, 0, True
    while grew and work < MOST_WORK and not run.stop[0]:
        solved = _solve(pool.matrix(), isqrt(MOST_SQUARES - squares), run.left())
        if solved is None or np.ceil(solved.value - 1e-6) <= bound:
            break  # no time or steps are left, or more cliques can only lower the value
        squares += min(solved.n_steps**2, MOST_SQUARES - squares)
        units = np.round(solved.weight * UNITS).astype(np.int64)
        heavy = np.flatnonzero(units > 0)
        order = heavy[np.argsort(count[heavy], kind="stable")]
        members = np.zeros(MOST_MEMBERS * n_ones, dtype=np.int64)
        start = np.zeros(len(order) + 1, dtype=np.int64)
        limit = UNITS + TOLERANCE
        n, used = price(
            part.allowed, part.ones, order, units, limit, MOST_WORK - work, members, start, run.stop
        )
        work += int(used)
        bound = max(bound, -(-int(units.sum()) // limit))
        n_before = len(pool.cliques)
        for i in range(n):
            pool.add(members[start[i] : start[i + 1]])
        grew = len(pool.cliques) > n_before
    return bound


class _Pool:
    """Different largest cliques."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.cliques: dict[bytes, Indices] = {}
        self.memory = empty_span(part.allowed)
        self.out = np.zeros(len(part.ones.rows), dtype=np.int64)

    def add(self, members: Indices) -> None:
        """Add a clique, with all ones that fit into it, unless it is known."""
        part = self.part
        n = enlarged(part.allowed, part.active, part.ones, members, self.memory, self.out)
        clique = self.out[:n].copy()
        self.cliques.setdefault(clique.tobytes(), clique)

    def matrix(self) -> sparse.csc_array:
        """The ones (E,) of each clique (C,)."""
        cliques = list(self.cliques.values())
        start = np.cumsum([0, *map(len, cliques)])
        entries = np.ones(start[-1]), np.concatenate(cliques), start
        return sparse.csc_array(entries, shape=(len(self.out), len(cliques)))


class _Solved(NamedTuple):
    """The fewest fractions of cliques that cover all ones."""

    value: float
    weight: NDArray[np.float64]  # (E,): the weights of the ones
    n_steps: int


def _solve(cliques: sparse.csc_array, most_steps: int, seconds: float | None) -> _Solved | None:
    """Solve the linear program; None if it takes more steps or seconds."""
    n_ones, n_cliques = cliques.shape
    solved = linprog(
        np.ones(n_cliques),
        A_ub=-cliques,
        b_ub=-np.ones(n_ones),
        method="highs-ds",
        options={"maxiter": max(most_steps, 1), **time_limit(seconds)},
    )
    if solved.status != 0:
        return None
    return _Solved(float(solved.fun), np.maximum(-solved.ineqlin.marginals, 0), int(solved.nit))
