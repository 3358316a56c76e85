"""From a matrix and what is asked of its cover to the answer.

Without false ones, all ones are covered first (`exact`). If less is asked for, or only so many
factors are allowed, or false ones are, then `partial` goes on from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from boolweave.covering.exact import MOST_WORK, NO_LIMITS, exact_cover
from boolweave.covering.kernels.counting import remove_within
from boolweave.covering.matrix import Merged
from boolweave.covering.ordering import greedy_order
from boolweave.covering.partial import Goal, partial_cover
from boolweave.covering.result import cover_of
from boolweave.search.kernels.bits import n_words, pack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.covering.exact import Tiles
    from boolweave.covering.kernels.first_fit import Limits
    from boolweave.covering.matrix import Matrix
    from boolweave.covering.result import Cover
    from boolweave.covering.wanted import Wanted
    from boolweave.search.kernels.bits import Words
    from boolweave.search.table import Bits


def find_cover(matrix: Matrix, wanted: Wanted, seed: int) -> Cover:
    """Find the fewest factors that cover what is asked for."""
    fixed, F = wanted.fixed, len(wanted.fixed)
    own, n_false = holders(matrix, fixed, wanted.most_false)
    most = None if wanted.most_factors is None else wanted.most_factors - F
    goal = Goal(wanted.most_missed, wanted.most_false - n_false, most, wanted.limits)
    exactly = wanted.most_false == 0
    tiles, X, Y = _without_false_ones(matrix, own, fixed, wanted.limits, seed, exactly)
    bound, interrupted = F, tiles.interrupted
    if exactly:  # with a factor more for each one that is missed, all would be covered
        bound += max(tiles.bound - goal.most_missed, 0)
    if not exactly or goal.most_missed or (most is not None and len(Y) > most):
        covered = _product(own, fixed, matrix.shape)
        found = partial_cover(matrix, covered, goal, (X, Y), seed)
        X, Y, interrupted = found.X, found.Y, interrupted or found.interrupted
    X, Y = np.concatenate([own, X], axis=1), np.concatenate([fixed, Y])
    order, gained = _order(matrix, X, Y, F)
    bound = max(bound, int(matrix.n_ones > 0))
    return cover_of(
        matrix, X[:, order], Y[order], gained, bound=bound, n_fixed=F, interrupted=interrupted
    )


def holders(matrix: Matrix, fixed: Bits, most_false: int) -> tuple[Bits, int]:
    """The rows (M, F) of fixed factors (F, N), and how many false ones they have.

    A row has a factor if that covers one of its ones, and no zero of it. With false ones allowed,
    rows follow in which a factor covers more ones than zeros, the smallest share of zeros first, as
    long as the false ones are not too many.
    """
    size = fixed.sum(axis=1, dtype=np.int64)
    n_inside = np.asarray(matrix.ones.astype(np.int64) @ fixed.T.astype(np.int64))
    n_zeros = size - n_inside
    if matrix.missing is not None:
        n_zeros = n_zeros - matrix.missing.astype(np.int64) @ fixed.T.astype(np.int64)
    own = ((n_zeros == 0) & (n_inside > 0)).astype(np.uint8)
    n_false = 0
    if most_false:
        row, factor = np.nonzero((n_zeros > 0) & (n_inside > n_zeros))
        zeros = n_zeros[row, factor]
        order = np.argsort(zeros / size[factor], kind="stable")
        within = order[np.cumsum(zeros[order]) <= most_false]
        own[row[within], factor[within]] = 1
        n_false = int(zeros[within].sum())
    return own, n_false


def _without_false_ones(
    matrix: Matrix, own: Bits, fixed: Bits, limits: Limits, seed: int, exactly: bool
) -> tuple[Tiles, Bits, Bits]:  # fmt: skip
    """Cover all ones that fixed factors leave; the factors also as X (M, T) and Y (T, N).

    If it is only the beginning of a search with false ones, it takes little work.
    """
    # Where the rows of a factor are counted, equal ones must stay apart.
    merged = Merged.of(
        matrix, fixed, limits.rows == NO_LIMITS.rows, limits.columns == NO_LIMITS.columns
    )
    active = merged.ones.copy()
    for f, rows in enumerate(pack(own[merged.first_rows].T)):
        remove_within(active, rows, merged.fixed[f])
    tiles = exact_cover(merged, active, limits, seed, MOST_WORK if exactly else 0.0)
    X, Y = merged.expanded(tiles.rows, tiles.columns)
    if len(Y):  # by their first rows and columns
        order = np.lexsort((Y.argmax(axis=1), X.argmax(axis=0)))
        X, Y = X[:, order], Y[order]
    return tiles, X, Y


def _product(X: Bits, Y: Bits, shape: tuple[int, int]) -> Words:
    """The product of a few factors, packed: (M, words of N)."""
    covered = np.zeros((shape[0], n_words(shape[1])), dtype=np.uint64)
    for x, y in zip(X.T.astype(bool), pack(Y), strict=True):
        covered[x] |= y
    return covered


def _order(
    matrix: Matrix, X: Bits, Y: Bits, n_fixed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:  # fmt: skip
    """The order of the factors and the ones that each adds."""
    merged = Merged.of(matrix, Y, own=X)
    rows = pack(X[merged.first_rows].T)
    return greedy_order(
        merged.ones, rows, merged.fixed, merged.row_weight, merged.column_weight, n_fixed
    )
