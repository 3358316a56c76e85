"""Loops over listed zeros, the few that have messages of their own.

Messages are floats. In max-sum, those of a cell lie together, (cells, stride), where the stride is
K rounded up to a multiple of 16, with 0 behind the last factor; few of them are not 0. In
sum-product they are (chunks, K, size), those of a cell in one lane. What goes to columns is added
up in whole steps, which are exact in any order: rows may be with several workers.
"""

from typing import Any

import numpy as np

from boolweave.engine.kernels.jit import njit
from boolweave.engine.kernels.max_sum import NEGLIGIBLE, Messages
from boolweave.engine.kernels.vectors import (
    LANES,
    Vector,
    load,
    mask_bits,
    maximum,
    minimum,
    pointer,
    splat,
    store,
    where,
)
from boolweave.runtime.types import Floats, Integers

# Steps in 1 of log-odds, and in a probability of 1.
STEPS = float(1 << 20)

# All of 16 lanes, in bits.
_ALL = np.uint16(0xFFFF)

_f32 = np.float32
_i64 = np.int64


@njit(nogil=True, cache=True, error_model="numpy")
def add_to_rows(row_of: Integers, to_row: Floats, sign: float, first: int, rows: Floats) -> None:
    """rows[m] += sign · Σ of the messages to row m, for 16 factors from `first` on, in max-sum.

    row_of (cells,), to_row (cells, stride), rows (M, K).
    """
    stride, n_factors, zero = to_row.shape[1], rows.shape[1], splat(_f32(0))
    messages, sums = pointer(to_row.reshape(-1)), pointer(rows.reshape(-1))
    for i in range(row_of.shape[0]):
        at = i * stride + first
        some = mask_bits(load(messages, at) == zero) ^ _ALL
        if some:
            own = row_of[i] * n_factors + first
            for j in range(min(LANES, n_factors - first)):
                if (some >> j) & 1:
                    sums[own + j] += _f32(sign) * messages[at + j]


@njit(nogil=True, cache=True, error_model="numpy")
def add_to_columns(
    columns: Integers, to_column: Floats, sign: int, first: int, out: Integers
) -> None:
    """out[n] += sign · Σ of the messages to column n, in steps, for 16 factors from `first` on.

    columns (cells,), to_column (cells, stride), out (N, K) int64; in max-sum.
    """
    stride, n_factors, zero = to_column.shape[1], out.shape[1], splat(_f32(0))
    messages, sums = pointer(to_column.reshape(-1)), pointer(out.reshape(-1))
    for i in range(columns.shape[0]):
        at = i * stride + first
        some = mask_bits(load(messages, at) == zero) ^ _ALL
        if some:
            own = columns[i] * n_factors + first
            for j in range(min(LANES, n_factors - first)):
                if (some >> j) & 1:
                    sums[own + j] += sign * _i64(np.rint(messages[at + j] * STEPS))


@njit(nogil=True, cache=True, error_model="numpy")
def add_lanes_to_rows(
    row_of: Integers, to_row: Floats, sign: float, begin: int, end: int, rows: Floats
) -> None:
    """rows[m] += sign · Σ of the messages to row m, for the factors from begin to end.

    row_of (cells,), to_row (chunks, K, size), rows (M, K).
    """
    size = to_row.shape[2]
    for chunk in range(to_row.shape[0]):
        first = chunk * size
        for k in range(begin, end):  # messages of a factor lie one after another
            for lane in range(min(size, row_of.shape[0] - first)):
                rows[row_of[first + lane], k] += _f32(sign) * to_row[chunk, k, lane]


@njit(nogil=True, cache=True, error_model="numpy")
def add_lanes_to_columns(
    columns: Integers, to_column: Floats, sign: int, begin: int, end: int, out: Integers
) -> None:
    """out[n] += sign · Σ of the messages to column n, in steps, for the factors begin to end.

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
    y: Floats, strength: np.float32, old: Messages, new: Messages,
) -> None:  # fmt: skip
    """Messages of the cells begin … end of a new list: old ones, or those to first order.

    before (cells,): the number of a cell in the old list, or −1; x (M, K), y (N, K): beliefs. With
    clip(v) = min(max(v, 0), strength), cell (m, n) sends −clip(y[n] + clip(x[m])) to its row.
    """
    none = _f32(0)
    for i in range(begin, end):
        if before[i] >= 0:
            new.to_row[i] = old.to_row[before[i]]
            new.to_column[i] = old.to_column[before[i]]
            continue
        m, n = row_of[i], columns[i]
        for k in range(x.shape[1]):
            of_row = min(max(x[m, k], none), strength)
            of_column = min(max(y[n, k], none), strength)
            new.to_row[i, k] = -min(max(y[n, k] + of_row, none), strength)
            new.to_column[i, k] = -min(max(x[m, k] + of_column, none), strength)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _send(
    claim: Vector, cavity: Vector, messages: Any, at: int, damping: Vector, change: Vector
) -> Vector:
    """Update 16 messages towards (claim + cavity)₊ − (cavity)₊, damped; `max_sum._send`.

    Returns the larger of `change` and of what they changed.
    """
    zero, old = splat(_f32(0)), load(messages, at)
    new = maximum(claim + minimum(cavity, zero), zero - maximum(cavity, zero))
    # The maximum has no effect, but prevents a fused multiply-add, which rounds only once.
    moved = maximum(damping * (new - old), splat(_f32(-3e38)))
    value = old + moved
    size = maximum(value, zero - value)
    store(messages, at, where(size > splat(_f32(NEGLIGIBLE)), value, zero))
    return maximum(change, maximum(moved, zero - moved))


@njit(nogil=True, cache=True, error_model="numpy")
def max_sum(
    indptr: Integers, columns: Integers, begin: int, end: int, rows: Floats, others: Floats,
    messages: Messages, strength: np.float32, damping: np.float32, scratch: Floats,
) -> np.float32:  # fmt: skip
    """Do one iteration of max-sum over the listed zeros of the rows begin … end.

    All numbers are those of `kernels.max_sum` to the last bit: the sum of (Γ̂)₊ has few terms that
    are not 0, which are added in the order of the factors. rows (M, K) and others (N, K) are
    beliefs; messages (cells, stride); scratch (5 · stride,) float32. Returns the largest change as
    a share of the strength.
    """
    n_factors, stride = rows.shape[1], messages.to_row.shape[1]
    last = stride - LANES
    to_row, to_column = (
        pointer(messages.to_row.reshape(-1)),
        pointer(messages.to_column.reshape(-1)),
    )
    x, y = pointer(rows.reshape(-1)), pointer(others.reshape(-1))
    own, of_row, of_column, a, b, both = (
        pointer(scratch),
        0,
        stride,
        2 * stride,
        3 * stride,
        4 * stride,
    )
    zero, top, by = splat(_f32(0)), splat(strength), splat(damping)
    change = zero
    for k in range(2 * stride):  # behind the last factor: below every belief
        own[k] = _f32(-1e30)
    for m in range(begin, end):
        if indptr[m] == indptr[m + 1]:
            continue
        for k in range(n_factors):
            own[of_row + k] = x[m * n_factors + k]
        for i in range(indptr[m], indptr[m + 1]):
            of_y, at, total = _i64(columns[i]) * n_factors, i * stride, _f32(0)
            for k in range(last, n_factors):
                own[of_column + k] = y[of_y + k]
            for k in range(0, stride, LANES):
                belief = load(own, of_column + last) if k == last else load(y, of_y + k)
                from_row = load(own, of_row + k) - load(to_row, at + k)
                from_column = belief - load(to_column, at + k)
                term = minimum(from_row + from_column, minimum(from_row, from_column))
                term = minimum(maximum(term, zero), top)
                store(own, a + k, from_row)
                store(own, b + k, from_column)
                store(own, both + k, term)
                above = mask_bits(term > zero)
                if above:
                    for j in range(LANES):
                        if (above >> j) & 1:
                            total += own[both + k + j]
            for k in range(0, stride, LANES):
                claim = minimum((splat(total) - load(own, both + k)) - top, zero)
                change = _send(claim, load(own, b + k), to_row, at + k, by, change)
                change = _send(claim, load(own, a + k), to_column, at + k, by, change)
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
