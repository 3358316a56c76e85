"""The loops over variables, beside those over messages: from sums to beliefs, and to bits.

The belief of a variable is its prior log-odds plus the sum of its messages. For the next iteration
it is quantised to whole units, cut to 16 bits; its sign is the decoded bit. Rows and columns are
alike here: n of them with K variables each, one after another.
"""

from typing import Any, Literal, NamedTuple

import numpy as np

from boolweave.engine.kernels.groups import Block, Variables, arrays_apart
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
from boolweave.runtime.types import Array, Floats

_i32 = np.int32
_i64 = np.int64
_u64 = np.uint64
_f32 = np.float32


class Scale(NamedTuple):
    """How log-odds and units go together."""

    unit: np.float32  # in log-odds
    per_odds: np.float32  # units in 1 of log-odds
    limit: np.float32  # the largest belief, in units


def scratch_for(n_factors: int) -> tuple[Array, ...]:
    """Scratch arrays for K factors: counts and two rows of masks."""
    size = n_factors * LANES
    masks = (size // 64 + 2, np.uint64)
    return tuple(arrays_apart([(size, np.int32), masks, masks]))


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _cut(masks: Any, first: int, n: int) -> Any:
    """Bits from first to first + n of a row of masks, n ≤ 64."""
    shift = _u64(first & 63)
    low = masks[first >> 6] >> shift
    high = (masks[(first >> 6) + 1] << _u64(1)) << (_u64(63) - shift)
    return (low | high) & (~_u64(0) >> _u64(64 - n))


@njit(nogil=True, cache=True, error_model="numpy")
def quantise_and_decode(
    variables: Variables, words: Array, prior: Floats, scale: Scale, scratch: tuple[Array, ...]
) -> np.int64:
    """Turn the sums of rows or columns into beliefs, quantise them and decode bits.

    prior: log-odds of all of them, or of 16 where all are alike; flat float32. Updated: beliefs,
    and which rows or columns they changed for; words (n, ⌈K/64⌉) uint64, the bits. Added to the
    first of `scratch`, (16 · K,) int32: how many are 1. Returns how many bits changed.

    16 rows are K vectors; what changed, and what is 1, are masks of 16 bits one after another, from
    which those of a row are cut.
    """
    n, n_factors, n_words = variables.changed.shape[0], variables.stride, words.shape[1]
    # Where both are of the same size, there are no more than 16 rows, and it does not matter.
    prior_stride = n_factors if prior.shape[0] == variables.sums.shape[0] else 0
    log_odds, sums, beliefs = pointer(prior), pointer(variables.sums), pointer(variables.beliefs)
    counts, changed_masks, ones_masks = pointer(scratch)
    changed, ones = scratch[1].view(np.uint16), scratch[2].view(np.uint16)
    lowest = splat(_f32(-3e38))
    none, one = splat(_i32(0)), splat(_i32(1))
    n_changed = _i64(0)
    for first in range(0, n, LANES):
        n_here = min(LANES, n - first)
        for v in range(-(-n_here * n_factors // LANES)):
            at = first * n_factors + v * LANES
            # The maximum does nothing, but keeps product and sum from being rounded as one.
            total = maximum(as_float32(load(sums, at)) * splat(scale.unit), lowest)
            odds = load(log_odds, first * prior_stride + v * LANES) + total
            value = minimum(
                maximum(odds * splat(scale.per_odds), splat(-scale.limit)), splat(scale.limit)
            )
            value = value + splat(_f32(0.5))
            whole = as_int32(value)
            new = as_int16(where(as_float32(whole) > value, whole - one, whole))
            changed[v] = ~mask_bits(new == load(beliefs, at))
            store(beliefs, at, new)
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
                differs |= _cut(changed_masks, begin, size)
                word = _cut(ones_masks, begin, size)
                change = word ^ words[first + i, w]
                while change:
                    change &= change - _u64(1)
                    n_changed += 1
                words[first + i, w] = word
            variables.changed[first + i] = differs != 0
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
def _is_one(
    xor: Literal[True] | None,
    n_words: int,
    row_words: Any,
    row: int,
    column_words: Any,
    column: int,
) -> Any:
    """Whether the product of two rows of bits is 1: uint64, 0 if not."""
    folded = _u64(0)
    for w in range(n_words):
        term = row_words[row * n_words + w] & column_words[column * n_words + w]
        folded = folded | term if xor is None else folded ^ term
    if xor is not None:  # the parity of the bits
        for shift in (32, 16, 8, 4, 2, 1):
            folded ^= folded >> _u64(shift)
        folded &= _u64(1)
    return folded


@njit(nogil=True, cache=True, error_model="numpy")
def count_covered(
    xor: Literal[True] | None, block: Block, row_words: Array, column_words: Array
) -> tuple[np.int64, np.int64]:
    """How many entries seen as 0, and as 1, the decoded product makes 1.

    row_words (rows, W), column_words (N, W): the decoded bits of rows and columns, 64 to a word.
    """
    n_rows, n_words = row_words.shape
    entries, x, y = pointer(block), pointer(row_words), pointer(column_words)
    seen_as_one, seen_as_zero = _i64(0), _i64(0)
    for row in range(n_rows):
        start = entries.indptr[row]
        for i in range(start, entries.indptr[row + 1]):
            column = i - start if block.dense is not None else _i64(entries.columns[i])
            if n_words == 1:
                one = _i64(_is_one(xor, 1, x, row, y, column) != 0)
            else:
                one = _i64(_is_one(xor, n_words, x, row, y, column) != 0)
            seen_as_one += one & _i64(entries.codes[i] == 1)
            seen_as_zero += one & _i64(entries.codes[i] == 0)
    return seen_as_zero, seen_as_one
