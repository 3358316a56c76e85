"""Loops over listed zeros, the few that have messages of their own.

Messages are floats, (chunks, K, size), those of a cell in one lane. What goes to columns is added
up in whole steps, which are exact in any order: rows may be with several workers.
"""

import numpy as np

from boolweave.engine.kernels.jit import njit
from boolweave.runtime.types import Floats, Integers

# Steps in 1 of log-odds, and in a probability of 1.
STEPS = float(1 << 20)

_i64 = np.int64


@njit(nogil=True, cache=True, error_model="numpy")
def add_to_rows(
    row_of: Integers, to_row: Floats, sign: float, begin: int, end: int, rows: Floats
) -> None:
    """rows[m] += sign · Σ of the messages to row m, for the factors from begin to end.

    row_of (cells,), rows (M, K).
    """
    size = to_row.shape[2]
    for chunk in range(to_row.shape[0]):
        first = chunk * size
        for k in range(begin, end):  # messages of a factor lie one after another
            for lane in range(min(size, row_of.shape[0] - first)):
                rows[row_of[first + lane], k] += np.float32(sign) * to_row[chunk, k, lane]


@njit(nogil=True, cache=True, error_model="numpy")
def add_to_columns(
    columns: Integers, to_column: Floats, begin: int, end: int, out: Integers
) -> None:
    """out[n] += Σ of the messages to column n, in steps, for the factors from begin to end.

    columns (cells,), out (N, K) int64.
    """
    size = to_column.shape[2]
    for chunk in range(to_column.shape[0]):
        first = chunk * size
        for k in range(begin, end):
            for lane in range(min(size, columns.shape[0] - first)):
                out[columns[first + lane], k] += _i64(np.rint(to_column[chunk, k, lane] * STEPS))


@njit(nogil=True, cache=True, error_model="numpy")
def count_ones(
    indptr: Integers, columns: Integers, row_odds: Floats, column_odds: Floats, to_row: Floats,
    to_column: Floats, like_one: float,
) -> np.int64:  # fmt: skip
    """Σ P(z = 1 | 0 was seen) over the listed zeros, in steps.

    row_odds (M, K), column_odds (K, N): e^belief; messages are ratios; like_one: p(0|1) / p(0|0).
    """
    size, total = to_row.shape[2], _i64(0)
    for m in range(row_odds.shape[0]):
        for i in range(indptr[m], indptr[m + 1]):
            chunk, lane, n = i // size, i % size, _i64(columns[i])
            none = 1.0  # that no term is 1
            for k in range(row_odds.shape[1]):
                x = np.float64(row_odds[m, k]) / to_row[chunk, k, lane]
                y = np.float64(column_odds[k, n]) / to_column[chunk, k, lane]
                none *= 1.0 - x / (1.0 + x) * (y / (1.0 + y))
            some = like_one * (1.0 - none)
            total += _i64(np.rint(some / (some + none) * STEPS))
    return total
