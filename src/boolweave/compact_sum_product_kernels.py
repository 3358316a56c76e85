"""The inner loops on small integers: sum-product in 16 bits a message.

As `boolweave.compact_kernels`, whose chunks, gather and scatter it shares. Messages and beliefs are
log-odds in whole numbers of steps of 1/1024. What is between is in floats: probabilities from
log-odds by an exponential, new log-odds by a logarithm, both polynomials of a few terms, as exact
as the steps need.
"""

import numpy as np

from boolweave import compact_kernels
from boolweave._jit import njit
from boolweave.compact_kernels import (
    _CHANGE,
    CHUNK,
    MISSING,
    _floor,
    _gather_columns,
    _gather_rows,
    _largest_change,
    _scatter_columns,
    _scatter_rows,
    _settled,
)

# P(z = 1 | o) is added up in steps of 2⁻²⁰: sums of them are exact, in whatever order.
ONES_STEPS = 1 << 20

# Steps of log-odds of 1/1024; messages within ±12, beliefs within ±31.9 (16 bits).
LOG_ODDS_STEPS = 1024
MESSAGE_LIMIT = 12.0
SUM_PRODUCT_LIMIT = 32700

# Rows of the scratch array of floats.
_BASE = 0
_IF_ONE = CHUNK
_IF_ZERO = 2 * CHUNK
_BEFORE = 3 * CHUNK
_DITHER = 4 * CHUNK
_GAIN = 5 * CHUNK
_FLOAT_ROWS = 6

_i16 = np.int16
_i32 = np.int32
_f32 = np.float32


def scratch(n_factors):
    """The scratch arrays of one thread: x, y, w, p, q, after and v below."""
    floats = [np.zeros((n, CHUNK), np.float32) for n in (n_factors, n_factors, n_factors + 1)]
    return [
        *compact_kernels.scratch(n_factors), *floats, np.zeros(_FLOAT_ROWS * CHUNK, np.float32)
    ]  # fmt: skip


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def _exponential(a):
    """e^a to 3e-6 of itself: 2^n by the exponent bits of a float, the rest by a polynomial."""
    t = _f32(a * _f32(1.442695041))
    shifted = _f32(t + _f32(12582912.0))  # the integer part lands in the lowest bits
    f = _f32(t - _f32(shifted - _f32(12582912.0)))
    p = _f32(0.0095700966)
    p = _f32(p * f + _f32(0.055917879))
    p = _f32(p * f + _f32(0.24024744))
    p = _f32(p * f + _f32(0.69312179))
    p = _f32(p * f + _f32(0.99999928))
    bits = _i32(_f32(p).view(np.int32) + _i32(_f32(shifted).view(np.int32) << _i32(23)))
    return _i32(bits).view(np.float32)


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def _logarithm(a):
    """log a to 1e-5 of itself: 2^e·m with m in [2/3, 4/3), log m by a polynomial."""
    bits = _f32(a).view(np.int32)
    exponent = _i32(_i32(bits - _i32(0x3F2AAAAB)) & _i32(-(1 << 23)))
    f = _f32(_i32(bits - exponent).view(np.float32) - _f32(1))
    p = _f32(-0.19725278)
    p = _f32(p * f + _f32(0.22449315))
    p = _f32(p * f + _f32(-0.248024))
    p = _f32(p * f + _f32(0.33246115))
    p = _f32(p * f + _f32(-0.5000302))
    return _f32(_f32(_f32(p * f) * f + f) + _f32(_f32(exponent) * _f32(8.2629582e-08)))


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def _damp_log_odds(damping, phase, other, gain, v, message, moved, w):
    """message[j] ← (1 − λ)·message + λ·log(1 − y + y·gain), y = other[j]; moved[j], by how much.

    Rounding is dithered twice. The target: a message of a third of a step is a whole step in a
    third of the entries, so that sums of many weak messages are right. And the step towards it:
    a share λ of the entries one step away go there now, the others in a later iteration, when
    `phase` is another; so that small moves are damped, too, and all arrive.
    """
    one = _f32(1)
    limit = _f32(MESSAGE_LIMIT * LOG_ODDS_STEPS)
    for j in range(CHUNK):
        y = other[j]
        ratio = _f32(_f32(one - y) + _f32(y * gain[j]))
        new = _f32(_logarithm(ratio) * _f32(LOG_ODDS_STEPS))
        target = _floor(_f32(min(max(new, -limit), limit) + v[_DITHER + j]))
        moved[j] = _i16(_i32(target - _i32(message[j])))
    for j in range(CHUNK):
        w[_CHANGE + j] = max(w[_CHANGE + j], max(moved[j], _i16(-moved[j])))
    for j in range(CHUNK):
        spread = _f32(_f32(v[_DITHER + j] * _f32(127)) + phase)
        spread = _f32(spread - _f32(_i32(spread)))
        moved[j] = _i16(_floor(_f32(_f32(damping * _f32(_i32(moved[j]))) + spread)))
    for j in range(CHUNK):
        message[j] = _i16(message[j] + moved[j])


@njit(nogil=True, cache=True)
def _read_dither(dense, indptr, columns, top, first_row, start, n, v):
    """Evenly spread numbers in [0, 1), by row and column, the same however rows are cut to blocks.

    top is the number of the block's first row in the matrix.
    """
    row = first_row
    j = 0
    while j < n:
        while indptr[row + 1] <= start + j:
            row += 1
        stop = min(n, indptr[row + 1] - start)
        offset = np.uint32((top + row) * 3242174889 & 0xFFFFFFFF)  # multiples of two irrationals
        for i in range(j, stop):
            column = np.uint32(start + i - indptr[row]) if dense else columns[start + i]
            spread = np.uint32((np.uint64(column) * np.uint64(2654435769) + offset) & 0xFFFFFF00)
            v[_DITHER + i] = _f32(spread) * _f32(1.0 / 4294967296.0)
        j = stop
    for i in range(n, CHUNK):
        v[_DITHER + i] = _f32(0)


@njit(nogil=True, cache=True, error_model="numpy")
def _read_evidence(xor, codes, start, n, small_zero, small_one, v):
    """p(o | term = 1) = base + if_one·r and p(o | term = 0) = base + if_zero·r, r from the others.

    OR: r = P(all others are 0); XOR: r = P(their sum is even) − P(it is odd). small_one is p(o|0)
    where o = 1 with p(o|1) set to 1, small_zero likewise.
    """
    one = _f32(1)
    for j in range(n):
        code = codes[start + j]
        like_one = one if code != 0 else small_zero
        like_zero = one if code != 1 else small_one
        v[_BASE + j] = like_one + like_zero if xor else like_one
        v[_IF_ONE + j] = like_one - like_zero if xor else _f32(0)
        v[_IF_ZERO + j] = like_zero - like_one
    for j in range(n, CHUNK):
        v[_BASE + j] = one
        v[_IF_ONE + j] = _f32(0)
        v[_IF_ZERO + j] = _f32(0)


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def _sum_product_exchange(
    terms, damping, phase, to_row, to_column, row_belief, column_belief, p, q, after, v, w
):
    """Damped update of one chunk; messages are log-odds in steps of 1/1024.

    terms is 1 for OR, 2 for XOR: a term that is 1 with probability c multiplies r by 1 − terms·c.
    p, q (K, CHUNK): scratch for P(x = 1) and P(y = 1) without the message. after (K + 1, CHUNK):
    r of the terms after k. The beliefs are replaced by what the messages moved by.
    """
    n_factors = to_row.shape[0]
    one = _f32(1)
    step = _f32(1.0 / LOG_ODDS_STEPS)
    gain = v[_GAIN : _GAIN + CHUNK]
    for j in range(CHUNK):
        after[n_factors, j] = one
        v[_BEFORE + j] = one
    for i in range(n_factors):
        k = n_factors - 1 - i
        for j in range(CHUNK):
            a = _f32(_i32(_i32(to_row[k, j]) - _i32(row_belief[k, j])))
            p[k, j] = _f32(one / _f32(one + _exponential(_f32(a * step))))
        for j in range(CHUNK):
            b = _f32(_i32(_i32(to_column[k, j]) - _i32(column_belief[k, j])))
            q[k, j] = _f32(one / _f32(one + _exponential(_f32(b * step))))
        for j in range(CHUNK):
            after[k, j] = after[k + 1, j] * (one - terms * p[k, j] * q[k, j])
    for k in range(n_factors):
        for j in range(CHUNK):
            r = v[_BEFORE + j] * after[k + 1, j]
            v[_GAIN + j] = (v[_BASE + j] + v[_IF_ONE + j] * r) / (
                v[_BASE + j] + v[_IF_ZERO + j] * r
            )
        for j in range(CHUNK):
            v[_BEFORE + j] = v[_BEFORE + j] * (one - terms * p[k, j] * q[k, j])
        _damp_log_odds(damping, phase, q[k], gain, v, to_row[k], row_belief[k], w)
        _damp_log_odds(damping, phase, p[k], gain, v, to_column[k], column_belief[k], w)


@njit(nogil=True, cache=True, error_model="numpy")
def sum_product(
    xor, top, dense, indptr, columns, codes, small, damping, phase, row_belief, column_belief,
    row_moved, column_moved, still, ones, to_row, to_column, row_sum, column_sum,
    x, y, w, p, q, after, v,
):  # fmt: skip
    """One iteration of sum-product over one block of rows.

    top is the number of the block's first row in the matrix. The rest is as in `max_sum_or`, but
    messages (chunks, K, CHUNK) are int16, log-odds in steps of 1/1024; small (2,) float32 is the
    smaller likelihood of a 0 and of a 1 with the larger set to 1; damping is a float,
    phase another in [0, 1) every iteration; p, q
    (K, CHUNK), after (K + 1, CHUNK) and v are scratch. Updated: ones (chunks, 2), the sum of
    P(z = 1 | o) over the entries of a chunk seen as 1, and as 0.
    """
    terms = _f32(2 if xor else 1)
    residual = _i16(0)
    row = 0
    for c in range(to_row.shape[0]):
        start = c * CHUNK
        n = min(CHUNK, codes.shape[0] - start)
        while indptr[row + 1] <= start:
            row += 1
        if still[c] and _settled(dense, indptr, columns, row, start, n, row_moved, column_moved):
            continue
        _gather_rows(indptr, row, start, n, row_belief, x)
        _gather_columns(dense, columns, start, n, column_belief, y)
        _read_evidence(xor, codes, start, n, small[0], small[1], v)
        _read_dither(dense, indptr, columns, top, row, start, n, v)
        _sum_product_exchange(
            terms, damping, phase, to_row[c], to_column[c], x, y, p, q, after, v, w
        )
        change = _largest_change(w)
        residual = max(residual, change)
        still[c] = change == 0
        _scatter_rows(indptr, row, start, n, x, row_sum)
        _scatter_columns(dense, columns, start, n, y, column_sum)
        ones[c, 0] = 0
        ones[c, 1] = 0
        for j in range(n):
            code = codes[start + j]
            if code != MISSING:
                one = (_f32(1) - v[_BEFORE + j]) / terms
                like_one = one * (_f32(1) if code == 1 else small[0])
                like_zero = (_f32(1) - one) * (_f32(1) if code == 0 else small[1])
                steps = _i32(like_one / (like_one + like_zero) * _f32(ONES_STEPS) + _f32(0.5))
                ones[c, 0 if code == 1 else 1] += _f32(steps) * _f32(1.0 / ONES_STEPS)
    return residual
