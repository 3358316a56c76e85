"""Loops over listed zeros, the few that have messages of their own.

Messages are floats, (chunks, K, size), those of a cell in one lane. What goes to columns is added
up in whole steps, which are exact in any order: rows may be with several workers.
"""

from typing import NamedTuple

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
                message = np.float32(sign) * to_row[chunk, k, lane]
                if message != 0:  # in max-sum most are 0
                    rows[row_of[first + lane], k] += message


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
                message = to_column[chunk, k, lane]
                if message != 0:
                    out[columns[first + lane], k] += _i64(np.rint(message * STEPS))


class Messages(NamedTuple):
    """Messages of listed zeros."""

    to_row: Floats  # (chunks, K, size)
    to_column: Floats


@njit(nogil=True, cache=True, error_model="numpy")
def start_max_sum(
    chunk: int, row_of: Integers, columns: Integers, before: Integers, x: Floats, y: Floats,
    strength: np.float32, old: Messages, new: Messages,
) -> None:  # fmt: skip
    """Messages of one chunk of a new list: old ones, or what a zero sends to first order.

    before (cells,): the number of a cell in the old list, or −1; x (M, K), y (N, K): beliefs. With
    clip(v) = min(max(v, 0), strength), cell (m, n) sends −clip(y[n] + clip(x[m])) to its row.
    """
    _, n_factors, size = new.to_row.shape
    none = np.float32(0)
    for lane in range(min(size, columns.shape[0] - chunk * size)):
        i = chunk * size + lane
        if before[i] >= 0:
            n_each = old.to_row.shape[2]
            from_chunk, from_lane = before[i] // n_each, before[i] % n_each
            for k in range(n_factors):
                new.to_row[chunk, k, lane] = old.to_row[from_chunk, k, from_lane]
                new.to_column[chunk, k, lane] = old.to_column[from_chunk, k, from_lane]
            continue
        m, n = row_of[i], columns[i]
        for k in range(n_factors):
            of_row = min(max(x[m, k], none), strength)
            of_column = min(max(y[n, k], none), strength)
            new.to_row[chunk, k, lane] = -min(max(y[n, k] + of_row, none), strength)
            new.to_column[chunk, k, lane] = -min(max(x[m, k] + of_column, none), strength)


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
