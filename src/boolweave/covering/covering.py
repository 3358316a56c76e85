"""From a matrix and the requirements for its cover to the cover.

First, all ones are covered without false ones (`exact`). If a part of the ones is enough, if the
number of factors is limited, or if false ones are allowed, `partial` continues from there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from boolweave.covering.exact import MOST_WORK, NO_LIMITS, exact_cover
from boolweave.covering.kernels.counting import remove_within
from boolweave.covering.matrix import Merged
from boolweave.covering.ordering import greedy_order
from boolweave.covering.partial import partial_cover
from boolweave.covering.result import cover_of
from boolweave.runtime.progress import silent
from boolweave.search.kernels.bits import n_words, pack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.covering.exact import Tiles
    from boolweave.covering.kernels.first_fit import Limits
    from boolweave.covering.matrix import Matrix
    from boolweave.covering.requirements import Requirements
    from boolweave.covering.result import Cover
    from boolweave.runtime.progress import Say
    from boolweave.search.kernels.bits import Words
    from boolweave.search.table import Bits


def find_cover(
    matrix: Matrix, required: Requirements, seed: int, say: Say = silent
) -> Cover:  # fmt: skip
    """Find the fewest factors that meet the requirements; `say` is called with the progress."""
    fixed, F = required.fixed, len(required.fixed)
    own, n_false = rows_of_fixed(matrix, fixed, required.most_false)
    most = None if required.most_factors is None else required.most_factors - F
    goal = replace(required, most_false=required.most_false - n_false, most_factors=most)
    exactly = required.most_false == 0
    tiles, X, Y = _without_false_ones(matrix, own, fixed, required.limits, seed, exactly, say)
    bound, interrupted = F, tiles.interrupted
    if exactly:  # one more factor for each missed one would cover all ones
        bound += max(tiles.bound - goal.most_missed, 0)
    if not exactly or goal.most_missed or (most is not None and len(Y) > most):
        covered = _product(own, fixed, matrix.shape)
        found = partial_cover(matrix, covered, goal, (X, Y), seed, say)
        X, Y, interrupted = found.X, found.Y, interrupted or found.interrupted
    X, Y = np.concatenate([own, X], axis=1), np.concatenate([fixed, Y])
    order, gained = _order(matrix, X, Y, F)
    bound = max(bound, int(matrix.n_ones > 0))
    return cover_of(
        matrix, X[:, order], Y[order], gained, bound=bound, n_fixed=F,
        fixed_names=required.fixed_names, most_missed=required.most_missed,
        interrupted=interrupted,
    )  # fmt: skip


def rows_of_fixed(matrix: Matrix, fixed: Bits, most_false: int) -> tuple[Bits, int]:
    """Choose the rows (M, F) of fixed factors (F, N); also return the number of their false ones.

    A factor gets the rows in which it covers at least a one and no zero. If false ones are allowed,
    it also gets rows in which it covers more ones than zeros, those with the smallest fraction of
    zeros first, until there would be too many false ones.
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
    matrix: Matrix, own: Bits, fixed: Bits, limits: Limits, seed: int, exactly: bool, say: Say
) -> tuple[Tiles, Bits, Bits]:  # fmt: skip
    """Cover all ones that fixed factors do not cover; also return the factors X (M, T), Y (T, N).

    Unless `exactly`, the result is only the start of a search with false ones, and the fast search
    is enough.
    """
    # If the number of rows or columns of a factor is limited, equal ones must not be merged.
    merged = Merged.of(
        matrix, fixed, limits.rows == NO_LIMITS.rows, limits.columns == NO_LIMITS.columns
    )
    active = merged.ones.copy()
    for f, rows in enumerate(pack(own[merged.first_rows].T)):
        remove_within(active, rows, merged.fixed[f])
    tiles = exact_cover(merged, active, limits, seed, MOST_WORK if exactly else 0.0, say)
    X, Y = merged.expanded(tiles.rows, tiles.columns)
    if len(Y):  # in the order of their first rows and columns
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
    """The order of the factors, and the number of ones that each of them adds."""
    merged = Merged.of(matrix, Y, own=X)
    rows = pack(X[merged.first_rows].T)
    return greedy_order(
        merged.ones, rows, merged.fixed, merged.row_weight, merged.column_weight, n_fixed
    )
