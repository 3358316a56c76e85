"""The loops over variables, beside those over messages: from sums to what is told, and to bits.

The belief of a variable is its prior log-odds plus the sum of its messages. For the next iteration
it is told in whole units, cut to 16 bits; its sign is the decoded bit. Rows and columns are alike
here: n of them with K variables each, one after another.
"""

import numpy as np

from boolweave.engine.kernels.jit import njit
from boolweave.engine.kernels.max_sum import COARSE, FINE, LARGEST_PRIOR
from boolweave.engine.kernels.vectors import (
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

_i32 = np.int32
_i64 = np.int64
_u64 = np.uint64
_f32 = np.float32


def scratch(n_factors):
    """The scratch arrays of `settle`: counts, news and ones."""
    size = n_factors * LANES
    masks = [np.zeros(size // 64 + 2, np.uint64) for _ in range(2)]
    return np.zeros(size, np.int32), *masks


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _cut(masks, first, n):
    """Bits from first to first + n of a row of masks, n ≤ 64."""
    shift = _u64(first & 63)
    low = masks[first >> 6] >> shift
    high = (masks[(first >> 6) + 1] << _u64(1)) << (_u64(63) - shift)
    return (low | high) & (~_u64(0) >> _u64(64 - n))


@njit(nogil=True, cache=True, error_model="numpy")
def settle(
    n, n_factors, prior, prior_step, sums, unit, scale, limit, units, moved, words,
    counts, news, ones, news_bits, ones_bits,
):  # fmt: skip
    """What n rows or columns tell next, and their bits, from their sums; how many bits changed.

    All arrays are flat, those of variables (n · K,) with slack behind. prior: of all of them,
    and prior_step is K; or of 16, the same for all, and it is 0. Updated: units int16; moved (n,)
    uint8, whether they differ; words, ⌈K/64⌉ for each, uint64; counts (16 · K,) int32, how many are
    1. news and ones are scratch, uint16, and the same memory as uint64.

    16 rows are K vectors; what differs, and what is 1, are masks of 16 bits one after another, from
    which those of a row are cut.
    """
    n_words = -(-n_factors // 64)
    prior, sums, units, moved = pointer(prior), pointer(sums), pointer(units), pointer(moved)
    words, counts = pointer(words), pointer(counts)
    news, ones = pointer(news), pointer(ones)
    news_bits, ones_bits = pointer(news_bits), pointer(ones_bits)
    lowest = splat(_f32(-3e38))
    none, one = splat(_i32(0)), splat(_i32(1))
    n_changed = _i64(0)
    for first in range(0, n, LANES):
        n_here = min(LANES, n - first)
        for v in range(-(-n_here * n_factors // LANES)):
            at = first * n_factors + v * LANES
            # The maximum does nothing, but keeps product and sum from being rounded as one.
            total = maximum(as_float32(load(sums, at)) * splat(unit), lowest)
            odds = load(prior, first * prior_step + v * LANES) + total
            value = minimum(maximum(odds * splat(scale), splat(-limit)), splat(limit))
            value = value + splat(_f32(0.5))
            whole = as_int32(value)
            new = as_int16(where(as_float32(whole) > value, whole - one, whole))
            news[v] = ~mask_bits(new == load(units, at))
            store(units, at, new)
            positive = odds > splat(_f32(0))
            ones[v] = mask_bits(positive)
            if n_here == LANES:
                at = v * LANES
                store(counts, at, load(counts, at) + where(positive, one, none))
        for i in range(n_here):
            differs = _u64(0)
            for w in range(n_words):
                begin = i * n_factors + w * 64
                size = min(64, n_factors - w * 64)
                differs |= _cut(news_bits, begin, size)
                word = _cut(ones_bits, begin, size)
                place = (first + i) * n_words + w
                change = word ^ words[place]
                while change:
                    change &= change - _u64(1)
                    n_changed += 1
                words[place] = word
            moved[first + i] = differs != 0
        if n_here < LANES:  # a vector may have reached beyond the last
            for v in range(n_here * n_factors):
                counts[v] += _i32((ones[v // LANES] >> (v % LANES)) & 1)
    return n_changed


@njit(nogil=True, cache=True, error_model="numpy")
def prior_totals(words, prior, hard):
    """Priors of the ones of words (n, W), in the steps of `kernels.decoded`; prior (n, K or 1)."""
    coarse, fine = _i64(0), _i64(0)
    for i in range(prior.shape[0]):
        for k in range(prior.shape[1]):
            if prior.shape[1] > 1:
                n_ones = _i64((words[i, k >> 6] >> _u64(k & 63)) & _u64(1))
            else:
                n_ones = _i64(0)
                for w in range(words.shape[1]):
                    word = words[i, w]
                    while word:
                        word &= word - _u64(1)
                        n_ones += 1
            if n_ones and prior[i, k] < hard:
                odds = max(np.float64(prior[i, k]), -LARGEST_PRIOR)
                whole = np.floor(odds * COARSE + 0.5)
                coarse += n_ones * _i64(whole)
                fine += n_ones * _i64(np.floor((odds - whole / COARSE) * FINE + 0.5))
    return coarse, fine


@njit(nogil=True, cache=True, error_model="numpy")
def add_records(part, stride, n_factors, total):
    """total[j, k] += part[j, k]; part (N, stride) and total (N, K) are flat."""
    n_columns = total.shape[0] // n_factors
    for j in range(n_columns):
        for k in range(n_factors):
            total[j * n_factors + k] += part[j * stride + k]


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _is_one(xor, n_words, row_words, row_at, column_words, column_at):
    """Whether the product of two rows of bits is 1: uint64, 0 if not."""
    folded = _u64(0)
    for w in range(n_words):
        term = row_words[row_at + w] & column_words[column_at + w]
        folded = folded | term if xor is None else folded ^ term
    if xor is not None:  # the parity of the bits
        for shift in (32, 16, 8, 4, 2, 1):
            folded ^= folded >> _u64(shift)
        folded &= _u64(1)
    return folded


@njit(nogil=True, cache=True, error_model="numpy")
def covered(xor, dense, indptr, columns, codes, n_words, row_words, column_words):
    """How many entries seen as 0, and as 1, the decoded product makes 1.

    row_words, column_words: the decoded bits of rows and columns, 64 to a word, n_words for each.
    """
    n_rows = indptr.shape[0] - 1
    indptr, columns, codes = pointer(indptr), pointer(columns), pointer(codes)
    row_words, column_words = pointer(row_words), pointer(column_words)
    seen_as_one, seen_as_zero = _i64(0), _i64(0)
    for row in range(n_rows):
        start = indptr[row]
        for i in range(start, indptr[row + 1]):
            column = i - start if dense is not None else _i64(columns[i])
            if n_words == 1:
                hit = _is_one(xor, 1, row_words, row, column_words, column)
            else:
                hit = _is_one(
                    xor, n_words, row_words, row * n_words, column_words, column * n_words
                )
            one = _i64(hit != 0)
            seen_as_one += one & _i64(codes[i] == 1)
            seen_as_zero += one & _i64(codes[i] == 0)
    return seen_as_zero, seen_as_one
