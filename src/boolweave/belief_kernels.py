"""The loops over variables, beside those over messages: from sums to beliefs, units and bits.

The belief of a variable is its prior log-odds plus the sum of its messages. For the next iteration
it is told in whole units, cut to 16 bits; its sign is the decoded bit. Priors are (n, K) for rows,
(K, n) for columns, or 1 instead of n or of K where they are the same for all.
"""

import numpy as np

from boolweave._jit import njit
from boolweave._vectors import (
    LANES,
    as_float32,
    as_int16,
    as_int32,
    load,
    mask_bits,
    maximum,
    minimum,
    pointer,
    splat,
    store,
    where,
)
from boolweave.kernels import COARSE, FINE, LARGEST_PRIOR

_i16 = np.int16
_i32 = np.int32
_i64 = np.int64
_u64 = np.uint64
_f32 = np.float32


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _in_units(odds, scale, limit):
    """Log-odds in units, rounded and cut to ±limit."""
    value = min(max(odds * scale, -limit), limit) + _f32(0.5)
    whole = _i32(value)
    return _i16(whole - (_i32(1) if _f32(whole) > value else _i32(0)))


@njit(nogil=True, cache=True, error_model="numpy")
def to_units(belief, scale, limit, by_row, units, moved):
    """Log-odds (a, b) to units (a, b) int16; `moved` of the rows, or else columns, that change."""
    for i in range(belief.shape[0]):
        for j in range(belief.shape[1]):
            new = _in_units(belief[i, j], scale, limit)
            if new != units[i, j]:
                units[i, j] = new
                moved[i if by_row else j] = True


@njit(nogil=True, cache=True, error_model="numpy")
def to_log_odds(prior, sums, unit, out):
    """Prior + unit · sums, (a, b), to `out`."""
    by_row, by_column = _i64(prior.shape[0] > 1), _i64(prior.shape[1] > 1)
    for i in range(sums.shape[0]):
        for j in range(sums.shape[1]):
            out[i, j] = prior[i * by_row, j * by_column] + unit * _f32(sums[i, j])


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _count(odds, hard, n_ones, totals):
    """Add a prior, as often as there are ones, to (coarse, fine), as `kernels.decoded` does it."""
    if n_ones and odds < hard:
        odds = max(np.float64(odds), -LARGEST_PRIOR)
        whole = np.floor(odds * COARSE + 0.5)
        totals[0] += n_ones * _i64(whole)
        totals[1] += n_ones * _i64(np.floor((odds - whole / COARSE) * FINE + 0.5))


def scratch(n_factors):
    """The scratch arrays of `settle_rows`: pattern, counts, news and ones."""
    size = n_factors * LANES
    masks = [np.zeros(size // 64 + 2, np.uint64).view(np.uint16) for _ in range(2)]
    return np.zeros(size, np.float32), np.zeros(size, np.int32), *masks


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _cut(masks, first, n):
    """Bits from first to first + n of a row of masks, n ≤ 64."""
    shift = _u64(first & 63)
    low = masks[first >> 6] >> shift
    high = (masks[(first >> 6) + 1] << _u64(1)) << (_u64(63) - shift)
    return (low | high) & (~_u64(0) >> _u64(64 - n))


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _fill(prior, first, n, n_factors, pattern):
    """The priors of n rows, one after another."""
    by_row, by_factor = _i64(prior.shape[0] > 1), _i64(prior.shape[1] > 1)
    for i in range(n):
        for k in range(n_factors):
            pattern[i * n_factors + k] = prior[(first + i) * by_row, k * by_factor]


@njit(nogil=True, cache=True, error_model="numpy")
def settle_rows(
    prior, sums, unit, scale, limit, hard, n_factors, units, moved, words, totals,
    pattern, counts, news, ones,
):  # fmt: skip
    """What rows tell next, and their bits, from their sums (n · K,); whether a bit changed.

    Updated: units (n · K,) int16, moved (n,), words (n, ⌈K/64⌉), totals (2,), the priors of what is
    1 in the steps of `kernels.decoded`. The rest is of `scratch`. 16 rows at a time are K vectors;
    what differs, and what is 1, are masks of 16 bits one after another, from which those of a row
    are cut.
    """
    n_rows = moved.shape[0]
    by_row = prior.shape[0] > 1
    news_bits, ones_bits = news.view(np.uint64), ones.view(np.uint64)
    told, row_sums = pointer(units), pointer(sums)
    patterns, count = pointer(pattern), pointer(counts)
    lowest = splat(_f32(-3e38))
    none, one = splat(_i32(0)), splat(_i32(1))
    changed = False
    totals[:] = 0
    counts[:] = 0
    if not by_row and n_rows:
        _fill(prior, 0, LANES, n_factors, pattern)
    for first in range(0, n_rows, LANES):
        n = min(LANES, n_rows - first)
        counted = not by_row and n == LANES
        if by_row:
            _fill(prior, first, n, n_factors, pattern)
        for v in range(-(-n * n_factors // LANES)):
            at = first * n_factors + v * LANES
            # The maximum does nothing, but keeps product and sum from being rounded as one.
            total = maximum(as_float32(load(row_sums, at)) * splat(unit), lowest)
            odds = load(patterns, v * LANES) + total
            value = minimum(maximum(odds * splat(scale), splat(-limit)), splat(limit))
            value = value + splat(_f32(0.5))
            whole = as_int32(value)
            new = as_int16(where(as_float32(whole) > value, whole - one, whole))
            news[v] = ~mask_bits(new == load(told, at))
            store(told, at, new)
            positive = odds > splat(_f32(0))
            ones[v] = mask_bits(positive)
            if counted:
                store(count, v * LANES, load(count, v * LANES) + where(positive, one, none))
        for i in range(n):
            row = first + i
            differs = _u64(0)
            for w in range(words.shape[1]):
                begin = i * n_factors + w * 64
                size = min(64, n_factors - w * 64)
                differs |= _cut(news_bits, begin, size)
                word = _cut(ones_bits, begin, size)
                changed |= word != words[row, w]
                words[row, w] = word
            moved[row] = differs != 0
        for v in range(0 if counted else n * n_factors):
            _count(pattern[v], hard, _i64((ones[v // LANES] >> v % LANES) & 1), totals)
    for v in range(counts.shape[0]):
        _count(pattern[v], hard, _i64(counts[v]), totals)
    return changed


@njit(nogil=True, cache=True, error_model="numpy")
def settle_columns(prior, sums, unit, scale, limit, hard, units, moved, words, totals):
    """The same for columns: sums and units (K, n)."""
    by_factor, by_column = _i64(prior.shape[0] > 1), _i64(prior.shape[1] > 1)
    before = words.copy()
    words[:] = 0
    moved[:] = False
    totals[:] = 0
    for k in range(sums.shape[0]):
        bit = _u64(1) << _u64(k & 63)
        n_ones = 0
        for j in range(sums.shape[1]):
            odds = prior[k * by_factor, j * by_column] + unit * _f32(sums[k, j])
            new = _in_units(odds, scale, limit)
            moved[j] |= new != units[k, j]
            units[k, j] = new
            one = odds > 0
            words[j, k >> 6] |= bit if one else _u64(0)
            n_ones += one
            if by_column:
                _count(prior[k * by_factor, j], hard, _i64(one), totals)
        if not by_column:
            _count(prior[k * by_factor, 0], hard, n_ones, totals)
    changed = False
    for j in range(words.shape[0]):
        for w in range(words.shape[1]):
            changed |= before[j, w] != words[j, w]
    return changed


@njit(nogil=True, cache=True, error_model="numpy")
def add_turned(part, stride, total):
    """total[k, j] += part[j, k]; part (N, stride) is flat, total (K, N)."""
    n_factors, n_columns = total.shape
    for j in range(n_columns):
        for k in range(n_factors):
            total[k, j] += part[j * stride + k]


@njit(nogil=True, cache=True, error_model="numpy")
def covered(xor, dense, indptr, columns, codes, row_words, column_words):
    """How many entries seen as 0, and as 1, the decoded product makes 1.

    row_words (rows, W), column_words (N, W): the decoded bits of the factors, 64 to a word.
    """
    n_words = row_words.shape[1]
    words = column_words.reshape(-1)
    ones = 0
    zeros = 0
    for row in range(row_words.shape[0]):
        start = indptr[row]
        if n_words == 1 and xor is None:
            word = row_words[row, 0]
            for i in range(indptr[row + 1] - start):
                column = i if dense is not None else np.int64(columns[start + i])
                hit = (words[column] & word) != 0
                ones += hit & (codes[start + i] == 1)
                zeros += hit & (codes[start + i] == 0)
            continue
        for i in range(indptr[row + 1] - start):
            column = i if dense is not None else np.int64(columns[start + i])
            folded = np.uint64(0)
            for w in range(n_words):
                term = row_words[row, w] & words[column * n_words + w]
                folded = folded | term if xor is None else folded ^ term
            if xor is not None:  # the parity of the bits
                for shift in (32, 16, 8, 4, 2, 1):
                    folded ^= folded >> np.uint64(shift)
                folded &= np.uint64(1)
            ones += (folded != 0) & (codes[start + i] == 1)
            zeros += (folded != 0) & (codes[start + i] == 0)
    return zeros, ones
