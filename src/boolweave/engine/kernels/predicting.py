"""Compiled loops over entries: their probabilities, and how many are more likely 1 than 0.

Probabilities of rows and of columns are (n, K) arrays of 64-bit floats.
"""

import numpy as np

from boolweave.engine.kernels.jit import njit
from boolweave.runtime.types import Floats, Integers


@njit(nogil=True, cache=True, inline="always")
def _chance(xor: bool, x: Floats, i: int, y: Floats, j: int) -> float:
    """P(z = 1) of row i and column j, if all memberships in factors are independent.

    OR: 1 − Π (1 − x y). XOR: (1 − Π (1 − 2 x y)) / 2.
    """
    sign = 2.0 if xor else 1.0
    rest = 1.0
    for k in range(x.shape[1]):
        rest *= 1.0 - sign * x[i, k] * y[j, k]
    return (1.0 - rest) / sign


@njit(nogil=True, cache=True)
def chances_of_pairs(
    xor: bool, rows: Integers, columns: Integers, x: Floats, y: Floats, out: Floats
) -> None:
    """P(z = 1) at pairs of rows of x and rows of y, all (n,)."""
    for i in range(out.shape[0]):
        out[i] = _chance(xor, x, rows[i], y, columns[i])


@njit(nogil=True, cache=True)
def chances_of_rows(xor: bool, x: Floats, y: Floats, out: Floats) -> None:
    """P(z = 1) of every row of x with every row of y: out (rows, columns)."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = _chance(xor, x, i, y, j)


@njit(nogil=True, cache=True)
def count_likely(
    xor: bool, indptr: Integers, columns: Integers, values: Integers, x: Floats, y: Floats
) -> tuple[np.int64, np.int64]:
    """Count the entries that are more likely 1 than 0, of those observed as 0 and as 1.

    Row i of x has the entries from indptr[i] − indptr[0] to indptr[i + 1] − indptr[0] of `columns`
    and `values`.
    """
    seen_as_zero, seen_as_one = np.int64(0), np.int64(0)
    first = indptr[0]
    for i in range(x.shape[0]):
        for entry in range(indptr[i] - first, indptr[i + 1] - first):
            likely = np.int64(_chance(xor, x, i, y, columns[entry]) > 0.5)
            seen_as_one += likely & np.int64(values[entry])
            seen_as_zero += likely & (np.int64(1) - np.int64(values[entry]))
    return seen_as_zero, seen_as_one
