"""Exact covers of small parts of a matrix: all maximal cliques of ones, and the fewest of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Maximum number of ones for which all maximal cliques are listed, maximum of this number times the
# members of all cliques, and maximum number of nodes in the search for the fewest cliques. Up to
# this size, the search took at most 7 s in random tables; somewhat above it, up to 22 s.
MOST_ONES = 600
MOST_SIZE = 650_000
MOST_NODES = 2000


def neighbours_of(
    allowed: NDArray[np.bool_], rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> NDArray[np.bool_]:  # fmt: skip
    """A mask (E, E) of the pairs of ones that are neighbours; `allowed` is (M, N)."""
    across = allowed[rows[:, None], columns[None, :]]
    return across & across.T


def maximal_cliques(neighbours: NDArray[np.bool_]) -> list[int] | None:
    """List all maximal cliques as sets of bits; None if they have too many members.

    This is the algorithm of Bron and Kerbosch: P are the vertices that can be added to the clique
    R, and X are those that were tried before.
    """
    n = len(neighbours)
    near = [
        sum(1 << int(j) for j in np.flatnonzero(neighbours[i]) if j != i) for i in range(n)
    ]  # fmt: skip
    found: list[int] = []
    n_members = 0
    stack = [(0, (1 << n) - 1, 0)]
    while stack:
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


def fewest(cliques: list[int], n_ones: int) -> tuple[NDArray[np.int64] | None, int]:
    """Choose the fewest cliques that cover all ones; also return a lower bound of their number.

    The choice is the clique of each one, (E,), the first if it is in several of them; None if no
    choice was found.
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
        options={"node_limit": MOST_NODES, "mip_rel_gap": 0},
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
