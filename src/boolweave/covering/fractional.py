"""A lower bound from weights of the ones, by linear programming.

If no clique of ones is heavier than 1, every cover needs at least as many cliques as all ones
weigh. The best weights are the dual solution of a linear program that covers the ones with
fractions of cliques. It begins with the cliques of a cover; in each round, heavy cliques that it
lacks are added. Weights with cliques that are too heavy also give a bound, once the ones in them
have lost the excess.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from boolweave.covering.kernels.pricing import enlarged, price
from boolweave.covering.kernels.reducing import empty_span

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.covering.kernels.reducing import Indices
    from boolweave.covering.parts import Part

# Maximum number of ones, of the sizes (ones times cliques) of all linear programs together, and of
# the work to find heavy cliques; the programs take some twenty seconds at most, the cliques ten.
MOST_ONES = 3000
MOST_CELLS = 2 * 10**8
MOST_WORK = 4 * 10**9

# Weights are whole numbers, so that the bound does not depend on rounding: a weight of 1 is this
# many units. Cliques that are heavier than 1 by less than the tolerance are not added.
UNITS = 10**6
TOLERANCE = 100

# Maximum number of members of all cliques of a round, per one.
MOST_MEMBERS = 50


def fractional_bound(part: Part, clique: Indices, count: Indices, bound: int) -> int:
    """Improve a lower bound of the number of cliques of any cover.

    Parameters
    ----------
    part : Part
    clique, count : (E,) arrays
        The clique of each one in a cover, and the number of its neighbours.
    bound : int
        A lower bound that is known.
    """
    n_ones = len(clique)
    if n_ones > MOST_ONES:
        return bound
    pool = _Pool(part)
    for c in range(int(clique.max()) + 1):
        pool.add(np.flatnonzero(clique == c))
    n_cells, work, grew = 0, 0, True
    while grew and n_cells < MOST_CELLS and work < MOST_WORK:
        n_cells += n_ones * len(pool.cliques)
        value, weight = _solve(pool.matrix())
        if np.ceil(value - 1e-6) <= bound:
            break  # more cliques can only lower the value
        units = np.round(weight * UNITS).astype(np.int64)
        heavy = np.flatnonzero(units > 0)
        order = heavy[np.argsort(count[heavy], kind="stable")]
        members = np.zeros(MOST_MEMBERS * n_ones, dtype=np.int64)
        start = np.zeros(len(order) + 1, dtype=np.int64)
        limit = UNITS + TOLERANCE
        n, used = price(
            part.allowed, part.ones, order, units, limit, MOST_WORK - work, members, start
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


def _solve(cliques: sparse.csc_array) -> tuple[float, NDArray[np.float64]]:
    """The fewest fractions of cliques that cover all ones, and the weights (E,) of the ones."""
    n_ones, n_cliques = cliques.shape
    solved = linprog(np.ones(n_cliques), A_ub=-cliques, b_ub=-np.ones(n_ones), method="highs")
    return float(solved.fun), np.maximum(-solved.ineqlin.marginals, 0)
