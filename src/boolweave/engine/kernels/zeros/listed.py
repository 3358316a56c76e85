"""Loops over listed zeros, the few that have messages of their own.

Messages are floats. In max-sum, those of a cell are stored together, (cells, stride), where the
stride is K rounded up to a multiple of 16, with 0 after the last factor; few of them are not 0. In
sum-product, they are (chunks, K, size), with those of a cell in one lane. Messages to columns are
added up in whole steps, which is exact in any order, because several workers may have the rows.
"""

from typing import Any, NamedTuple

import numpy as np

from boolweave.engine.kernels.jit import njit
from boolweave.engine.kernels.max_sum import Messages, send
from boolweave.engine.kernels.rules import positive_part, to_term, to_term_of_zero
from boolweave.engine.kernels.vectors import (
    LANES,
    load,
    lowest_bit,
    mask_bits,
    maximum,
    minimum,
    pointer,
    splat,
    store,
)
from boolweave.runtime.types import Floats, Integers

# Number of steps per unit of log-odds, and in a probability of 1.
STEPS = float(1 << 20)

# 16 lanes as bits.
_ALL = np.uint16(0xFFFF)

_f32 = np.float32
_i64 = np.int64
_u64 = np.uint64


class Totals(NamedTuple):
    """Sums to which messages are added."""

    rows: Floats  # (M, K)
    numbers: Integers  # (N,) the number of the sum of a column
    columns: Integers  # (n, K) int64, in steps


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _add_to_column(
    messages: Any, at: int, sign: int, sums: Any, first: int, begin: int, end: int
) -> None:
    """Add the messages of a cell to the sums of its column, for the factors from begin to end.

    Both are pointers, with factor 0 at `at` and `first`. Few of the messages are not 0.
    """
    for k in range(begin, end, LANES):
        some = _u64(mask_bits(load(messages, at + k) == splat(_f32(0))) ^ _ALL)
        while some:
            j = k + lowest_bit(some)
            some &= some - _u64(1)
            sums[first + j] += sign * _i64(np.rint(messages[at + j] * STEPS))


@njit(nogil=True, cache=True, error_model="numpy")
def add_to_sums(
    indptr: Integers, columns: Integers, begin: int, end: int, messages: Messages, sign: int,
    totals: Totals, scratch: Floats,
) -> None:  # fmt: skip
    """Add the messages of the listed zeros of the rows begin to end − 1, times a sign, in max-sum.

    messages are (cells, stride), scratch is (stride,) float32.
    """
    n_factors, stride = totals.rows.shape[1], messages.to_row.shape[1]
    to_row, to_column = (
        pointer(messages.to_row.reshape(-1)),
        pointer(messages.to_column.reshape(-1)),
    )
    own, sums, by = pointer(scratch), pointer(totals.columns.reshape(-1)), splat(_f32(sign))
    for m in range(begin, end):
        if indptr[m] == indptr[m + 1]:
            continue
        for k in range(n_factors):
            own[k] = totals.rows[m, k]
        for i in range(indptr[m], indptr[m + 1]):
            for k in range(0, stride, LANES):
                store(own, k, load(own, k) + by * load(to_row, i * stride + k))
            first = totals.numbers[columns[i]] * n_factors
            _add_to_column(to_column, i * stride, sign, sums, first, 0, stride)
        for k in range(n_factors):
            totals.rows[m, k] = own[k]


@njit(nogil=True, cache=True, error_model="numpy")
def add_lanes_to_rows(
    row_of: Integers, to_row: Floats, sign: float, begin: int, end: int, rows: Floats
) -> None:
    """rows[m] += sign · Σ of the messages to row m, for the factors from begin to end − 1.

    row_of (cells,), to_row (chunks, K, size), rows (M, K).
    """
    size = to_row.shape[2]
    for chunk in range(to_row.shape[0]):
        first = chunk * size
        for k in range(begin, end):  # the messages of a factor are contiguous
            for lane in range(min(size, row_of.shape[0] - first)):
                rows[row_of[first + lane], k] += _f32(sign) * to_row[chunk, k, lane]


@njit(nogil=True, cache=True, error_model="numpy")
def add_lanes_to_columns(
    columns: Integers, to_column: Floats, sign: int, begin: int, end: int, out: Integers
) -> None:
    """out[n] += sign · Σ of the messages to column n, in steps, for the factors begin to end − 1.

    columns (cells,), to_column (chunks, K, size), out (N, K) int64.
    """
    size = to_column.shape[2]
    for chunk in range(to_column.shape[0]):
        first = chunk * size
        for k in range(begin, end):
            for lane in range(min(size, columns.shape[0] - first)):
                steps = _i64(np.rint(to_column[chunk, k, lane] * STEPS))
                out[columns[first + lane], k] += sign * steps


@njit(nogil=True, cache=True, error_model="numpy")
def add_steps(touched: Integers, steps: Integers, out: Floats) -> None:
    """out[touched[i]] += steps[i] / STEPS; steps (n, K), out (N, K)."""
    for i in range(touched.shape[0]):
        n = touched[i]
        for k in range(out.shape[1]):
            out[n, k] = _f32(np.float64(out[n, k]) + steps[i, k] / STEPS)


@njit(nogil=True, cache=True, error_model="numpy")
def start_max_sum(
    begin: int, end: int, row_of: Integers, columns: Integers, before: Integers, x: Floats,
    y: Floats, strength: np.float32, old: Messages, new: Messages, scratch: Floats,
) -> None:  # fmt: skip
    """Set the messages of the cells begin to end − 1 of a new list: old ones, or to first order.

    before (cells,) is the number of a cell in the old list, or −1; x (M, K) and y (N, K) are
    beliefs. With clip(v) = min(max(v, 0), strength), cell (m, n) sends −clip(y[n] + clip(x[m])) to
    its row. scratch is (32,) float32.
    """
    n_factors, stride = x.shape[1], new.to_row.shape[1]
    last, zero, top = stride - LANES, splat(_f32(0)), splat(strength)
    rows, others, behind = pointer(x.reshape(-1)), pointer(y.reshape(-1)), pointer(scratch)
    old_ones = pointer(old.to_row.reshape(-1)), pointer(old.to_column.reshape(-1))
    to_row, to_column = pointer(new.to_row.reshape(-1)), pointer(new.to_column.reshape(-1))
    for k in range(2 * LANES):  # padding after the last factor
        behind[k] = _f32(0)
    for i in range(begin, end):
        at = i * stride
        if before[i] >= 0:
            for k in range(0, stride, LANES):
                store(to_row, at + k, load(old_ones[0], before[i] * stride + k))
                store(to_column, at + k, load(old_ones[1], before[i] * stride + k))
            continue
        of_x, of_y = row_of[i] * n_factors, _i64(columns[i]) * n_factors
        for k in range(last, n_factors):
            behind[k - last] = rows[of_x + k]
            behind[LANES + k - last] = others[of_y + k]
        for k in range(0, stride, LANES):
            a = load(behind, 0) if k == last else load(rows, of_x + k)
            b = load(behind, LANES) if k == last else load(others, of_y + k)
            of_row = minimum(maximum(a, zero), top)
            of_column = minimum(maximum(b, zero), top)
            store(to_row, at + k, zero - minimum(maximum(b + of_row, zero), top))
            store(to_column, at + k, zero - minimum(maximum(a + of_column, zero), top))


@njit(nogil=True, cache=True, error_model="numpy")
def max_sum(
    indptr: Integers, columns: Integers, begin: int, end: int, rows: Floats, others: Floats,
    messages: Messages, strength: np.float32, damping: np.float32, totals: Totals, scratch: Floats,
) -> np.float32:  # fmt: skip
    """Do one iteration of max-sum over the listed zeros of the rows begin to end − 1.

    All numbers are those of `kernels.max_sum` to the last bit: the few terms of the sum of (Γ̂)₊
    that are not 0 are added in the order of the factors. rows (M, K) and others (N, K) are beliefs;
    messages (cells, stride) are updated and added to the totals; scratch is (6 · stride,) float32.
    Returns the largest change relative to the strength.
    """
    n_factors, stride = rows.shape[1], messages.to_row.shape[1]
    last = stride - LANES
    to_row, to_column = (
        pointer(messages.to_row.reshape(-1)),
        pointer(messages.to_column.reshape(-1)),
    )
    x, y = pointer(rows.reshape(-1)), pointer(others.reshape(-1))
    own = pointer(scratch)
    of_row, of_column, a, b, both, sent = 0, stride, 2 * stride, 3 * stride, 4 * stride, 5 * stride
    sums = pointer(totals.columns.reshape(-1))
    zero, top, by = splat(_f32(0)), splat(strength), splat(damping)
    change = zero
    for k in range(2 * stride):  # after the last factor: below every belief
        own[k] = _f32(-1e30)
    for m in range(begin, end):
        if indptr[m] == indptr[m + 1]:
            continue
        for k in range(n_factors):
            own[of_row + k] = x[m * n_factors + k]
            own[sent + k] = totals.rows[m, k]
        for i in range(indptr[m], indptr[m + 1]):
            of_y, at, total = _i64(columns[i]) * n_factors, i * stride, _f32(0)
            for k in range(last, n_factors):
                own[of_column + k] = y[of_y + k]
            for k in range(0, stride, LANES):
                belief = load(own, of_column + last) if k == last else load(y, of_y + k)
                from_row = load(own, of_row + k) - load(to_row, at + k)
                from_column = belief - load(to_column, at + k)
                term = positive_part(to_term(from_row, from_column), top)
                store(own, a + k, from_row)
                store(own, b + k, from_column)
                store(own, both + k, term)
                above = _u64(mask_bits(term > zero))
                while above:
                    total += own[both + k + lowest_bit(above)]
                    above &= above - _u64(1)
            first = totals.numbers[columns[i]] * n_factors
            for k in range(0, stride, LANES):
                claim = to_term_of_zero(splat(total), load(own, both + k), top)
                value, change = send(claim, load(own, b + k), to_row, at + k, by, change)
                store(own, sent + k, load(own, sent + k) + value)
                _, change = send(claim, load(own, a + k), to_column, at + k, by, change)
                _add_to_column(to_column, at, 1, sums, first, k, k + LANES)
        for k in range(n_factors):
            totals.rows[m, k] = own[sent + k]
    store(own, 0, change)
    most = _f32(0)
    for j in range(LANES):
        most = max(most, own[j])
    return _f32(most / strength)


@njit(nogil=True, cache=True, error_model="numpy")
def count_ones(
    indptr: Integers, columns: Integers, row_odds: Floats, column_odds: Floats, to_row: Floats,
    to_column: Floats, like_one: float,
) -> np.int64:  # fmt: skip
    """Σ P(z = 1 | o = 0) over the listed zeros, in steps.

    row_odds (M, K) and column_odds (K, N) are e^belief, messages are ratios, and like_one is
    p(0|1) / p(0|0).
    """
    size, total = to_row.shape[2], _i64(0)
    for m in range(row_odds.shape[0]):
        for i in range(indptr[m], indptr[m + 1]):
            chunk, lane, n = i // size, i % size, _i64(columns[i])
            none = 1.0  # P(no term is 1)
            for k in range(row_odds.shape[1]):
                x = np.float64(row_odds[m, k]) / to_row[chunk, k, lane]
                y = np.float64(column_odds[k, n]) / to_column[chunk, k, lane]
                none *= 1.0 - x / (1.0 + x) * (y / (1.0 + y))
            some = like_one * (1.0 - none)
            total += _i64(np.rint(some / (some + none) * STEPS))
    return total
