"""The entries in which the product of sparse factors differs from a sparse matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from boolweave.engine.kernels.jit import njit
from boolweave.search.kernels.bits import ONE, ZERO, clear, contains, insert, lowest

if TYPE_CHECKING:
    from boolweave.covering.kernels.reducing import Indices
    from boolweave.search.kernels.bits import Words


@njit(cache=True, nogil=True)
def differences(
    start: Indices, factors: Indices, columns: Words, ones_start: Indices, ones: Indices,
    missing_start: Indices, missing: Indices, missed: Indices, false: Indices,
) -> tuple[int, int]:  # fmt: skip
    """List the ones that are missed and the zeros that are covered; return their numbers.

    Parameters
    ----------
    start, factors : (M + 1,) and (n,) arrays
        The factors of each row.
    columns : (K, words of N) array
        The columns of each factor.
    ones_start, ones, missing_start, missing
        The columns of the ones and of the missing entries of each row.
    missed, false : (n, 2) arrays
        Rows and columns of the entries; those that do not fit into the arrays are only counted.
    """
    n_missed, n_false = 0, 0
    covered = np.zeros(columns.shape[1], dtype=np.uint64)
    known = np.zeros(columns.shape[1], dtype=np.uint64)
    for row in range(len(start) - 1):
        if start[row] == start[row + 1] and ones_start[row] == ones_start[row + 1]:
            continue
        clear(covered)
        clear(known)
        for i in range(start[row], start[row + 1]):
            for w in range(columns.shape[1]):
                covered[w] |= columns[factors[i], w]
        for i in range(ones_start[row], ones_start[row + 1]):
            insert(known, ones[i])
            if not contains(covered, ones[i]):
                if n_missed < len(missed):
                    missed[n_missed, 0], missed[n_missed, 1] = row, ones[i]
                n_missed += 1
        for i in range(missing_start[row], missing_start[row + 1]):
            insert(known, missing[i])
        for w in range(columns.shape[1]):
            left = covered[w] & ~known[w]
            while left != ZERO:
                if n_false < len(false):
                    false[n_false, 0], false[n_false, 1] = row, 64 * w + lowest(left)
                n_false += 1
                left &= left - ONE
    return n_missed, n_false
