"""From a matrix and the requirements for its cover to the cover.

First, all ones are covered without false ones (`exact`). If a part of the ones is enough, if the
number of factors is limited, or if false ones are allowed, `partial` continues from there. At last,
needless assignments are removed, and rules enforced (`assigning`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from boolweave.covering.assigning import MOST_CELLS, least_assignments, with_fewer_assignments
from boolweave.covering.exact import MOST_WORK, Tiles, exact_cover
from boolweave.covering.kernels.first_fit import Limits
from boolweave.covering.kernels.tiles import remove_within
from boolweave.covering.matrix import NO_LIMITS, Matrix, Merged, Requirements
from boolweave.covering.partial import partial_cover
from boolweave.covering.result import Cover, cover_of, greedy_order
from boolweave.covering.reviewing import descriptions_of
from boolweave.engine.kernels.bits import Words, n_words, pack
from boolweave.engine.result import Ending
from boolweave.runtime.run import Run
from boolweave.runtime.warning import warn_user
from boolweave.search.table import Bits

# The share of `max_time` for a cover of all ones, if a search for fewer factors follows, and, by
# objective, for all that comes before the search for fewer assignments.
FIRST_SHARE = 0.5
SHARE_OF_FACTORS = {"roles": 0.6, "assignments": 0.1}


def find_cover(
    matrix: Matrix,
    required: Requirements,
    seed: int,
    run: Run | None = None,
    attributes: dict[str, list[str]] | None = None,
) -> Cover:
    """Find the fewest factors that meet the requirements, described by attributes of the rows.

    When the time is over, or at Ctrl-C, the answer is the best cover so far.
    """
    run = run or Run()
    fixed, F = required.fixed, len(required.fixed)
    fixed_rows, n_false = rows_of_fixed(matrix, fixed, required.most_false)
    most = None if required.most_factors is None else required.most_factors - F
    goal = replace(required, most_false=required.most_false - n_false, most_factors=most)
    exactly = required.most_false == 0
    is_last = exactly and not goal.most_missed and most is None
    share = 1.0 if required.closed else SHARE_OF_FACTORS[required.objective]
    tiles, X, Y = run.call(
        lambda: _without_false_ones(matrix, fixed_rows, fixed, required.limits, seed, exactly, run),
        share=share * (1.0 if is_last else FIRST_SHARE),
    )
    if not exactly or goal.most_missed or (most is not None and len(Y) > most):
        covered = _product(fixed_rows, fixed, matrix.shape)
        start = X, Y
        found = run.call(
            lambda: partial_cover(matrix, covered, goal, start, seed, run), share=share
        )
        X, Y = found.X, found.Y
    X, Y = np.concatenate([fixed_rows, X], axis=1), np.concatenate([fixed, Y])
    bound = F
    if exactly:  # one more factor for each missed one would cover all ones
        bound += max(tiles.bound - goal.most_missed, 0)
    bound = max(bound, int(matrix.n_ones > required.most_missed))
    if required.objective == "assignments":
        bound = 3 * (bound - F) + F + int(fixed.sum())  # a new factor has a row and a column
        if exactly and not goal.most_missed and matrix.n_ones:
            bound = max(bound, least_assignments(matrix))
    if not required.closed and len(Y):
        first = X, Y
        sparing = run.call(
            lambda: with_fewer_assignments(matrix, required, *first, bound, seed, run)
        )
        if sparing is None:
            warn_user(
                "no search for fewer assignments was made, so that rows can have factors which "
                f"they do not need: it takes a matrix with at most {MOST_CELLS:,} entries after "
                "equal rows and columns are merged. Divide the matrix, or pass `closed=True`, "
                "which gives the same cover."
            )
        X, Y = first if sparing is None else sparing
    order, gained = _order(matrix, X, Y, F)
    ending = Ending.OUT_OF_TIME if run.passed else Ending.CONVERGED
    ending = Ending.INTERRUPTED if run.interrupted else ending
    X, Y = X[:, order], Y[order]
    descriptions = () if attributes is None else descriptions_of(X, attributes)
    return cover_of(matrix, required, X, Y, gained, bound, ending, descriptions)


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
    fixed_rows = ((n_zeros == 0) & (n_inside > 0)).astype(np.uint8)
    n_false = 0
    if most_false:
        row, factor = np.nonzero((n_zeros > 0) & (n_inside > n_zeros))
        zeros = n_zeros[row, factor]
        order = np.argsort(zeros / size[factor], kind="stable")
        within = order[np.cumsum(zeros[order]) <= most_false]
        fixed_rows[row[within], factor[within]] = 1
        n_false = int(zeros[within].sum())
    return fixed_rows, n_false


def _without_false_ones(
    matrix: Matrix,
    fixed_rows: Bits,
    fixed: Bits,
    limits: Limits,
    seed: int,
    exactly: bool,
    run: Run,
) -> tuple[Tiles, Bits, Bits]:
    """Cover all ones that fixed factors do not cover; also return the factors X (M, T), Y (T, N).

    Unless `exactly`, the result is only the start of a search with false ones, and the fast search
    is enough.
    """
    # If the number of rows or columns of a factor is limited, equal ones must not be merged.
    merged = Merged.of(
        matrix, fixed, limits.rows == NO_LIMITS.rows, limits.columns == NO_LIMITS.columns
    )
    active = merged.ones.copy()
    for f, rows in enumerate(pack(fixed_rows[merged.first_rows].T)):
        remove_within(active, rows, merged.fixed[f])
    most_work = MOST_WORK if exactly else 0.0
    tiles = exact_cover(merged, active, limits, seed, most_work, run)
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
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The order of the factors, and the number of ones that each of them adds."""
    merged = Merged.of(matrix, Y, fixed_rows=X)
    rows = pack(X[merged.first_rows].T)
    return greedy_order(
        merged.ones, rows, merged.fixed, merged.row_weight, merged.column_weight, n_fixed
    )
