"""The loops over variables: from sums of messages to beliefs and decoded bits.

The belief of a variable is its prior log-odds plus the sum of its messages. For the next iteration
it is quantised to whole units and clipped to 16 bits; its sign is the decoded bit. Rows and columns
are treated alike: n of them with K variables each, one after another.
"""

from typing import Any, NamedTuple

import numpy as np

from boolweave.engine.kernels.groups import Block, Variables, arrays_apart
from boolweave.engine.kernels.jit import njit
from boolweave.engine.kernels.max_sum import Entries
from boolweave.engine.kernels.rules import Xor
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

# Prior log-odds are summed in units of 1/COARSE and 1/FINE; those below −LARGEST_PRIOR are clipped,
# because they are practically certain.
COARSE = 2.0**12
FINE = 2.0**36
LARGEST_PRIOR = 2.0**20

_i32 = np.int32
_i64 = np.int64
_u64 = np.uint64
_f32 = np.float32


class Scale(NamedTuple):
    """The relation between log-odds and units."""

    unit: np.float32  # log-odds of one unit
    per_odds: np.float32  # number of units per unit of log-odds
    limit: np.float32  # the largest belief, in units


def scratch_for(n_factors: int) -> tuple[Array, ...]:
    """Make scratch arrays for K factors: counts and two arrays of masks."""
    size = n_factors * LANES
    masks = (size // 64 + 2, np.uint64)
    return tuple(arrays_apart([(size, np.int32), masks, masks]))


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _cut(masks: Any, first: int, n: int) -> Any:
    """The bits from `first` to `first` + n − 1 of an array of masks, n ≤ 64."""
    shift = _u64(first & 63)
    low = masks[first >> 6] >> shift
    high = (masks[(first >> 6) + 1] << _u64(1)) << (_u64(63) - shift)
    return (low | high) & (~_u64(0) >> _u64(64 - n))


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _count_bits(word: Any) -> Any:
    """The number of ones in a word of 64 bits."""
    n = _i64(0)
    while word:
        word &= word - _u64(1)
        n += 1
    return n


@njit(nogil=True, cache=True, error_model="numpy")
def quantise_and_decode(
    variables: Variables, words: Array, prior: Floats, scale: Scale, scratch: tuple[Array, ...],
    field: tuple[Floats, Floats] | None = None, out: tuple[Floats, Floats] | None = None,
) -> np.int64:  # fmt: skip
    """Turn the sums of rows or columns into beliefs, quantise them and decode bits.

    Parameters
    ----------
    variables : Variables
        Its beliefs are updated, and so are the flags of the rows or columns that changed.
    words : (n, ⌈K/64⌉) array of uint64
        The decoded bits, which are updated.
    prior : flat array of float32
        Log-odds of all variables, or of 16 rows if all rows are alike.
    scale : Scale
    scratch : tuple of arrays
        The first, (16 · K,) int32, counts ones; those found here are added.
    field : two arrays of float32, optional
        Log-odds that are added to the priors: (n · K,), and (16 · K,) for the rows after the last
        complete 16 rows.
    out : two arrays of float32, optional
        Arrays of the same shapes to which the beliefs are written, in log-odds. The rows after the
        last complete 16 rows are in the second, so that no vector reaches beyond the first.

    Returns
    -------
    n_changed : int
        The number of bits that changed.

    Notes
    -----
    16 rows are K vectors. Which beliefs changed, and which bits are 1, are masks of 16 bits one
    after another, from which those of a row are extracted.
    """
    n, n_factors, n_words = variables.changed.shape[0], variables.stride, words.shape[1]
    # If both have the same size by chance, there are at most 16 rows, and both cases are the same.
    prior_stride = n_factors if prior.shape[0] == variables.sums.shape[0] else 0
    log_odds, sums, beliefs = pointer(prior), pointer(variables.sums), pointer(variables.beliefs)
    counts, changed_masks, ones_masks = pointer(scratch)
    if field is not None:
        more, more_behind = pointer(field)
    if out is not None:
        kept, kept_behind = pointer(out)
    changed, ones = scratch[1].view(np.uint16), scratch[2].view(np.uint16)
    lowest = splat(_f32(-3e38))
    none, one = splat(_i32(0)), splat(_i32(1))
    n_changed = _i64(0)
    for first in range(0, n, LANES):
        n_here = min(LANES, n - first)
        for v in range(-(-n_here * n_factors // LANES)):
            at = first * n_factors + v * LANES
            # The maximum has no effect, but prevents a fused multiply-add, which rounds only once.
            total = maximum(as_float32(load(sums, at)) * splat(scale.unit), lowest)
            before = load(log_odds, first * prior_stride + v * LANES)
            if field is not None and n_here == LANES:
                before = before + load(more, at)
            elif field is not None:
                before = before + load(more_behind, v * LANES)
            odds = before + total
            if out is not None and n_here == LANES:
                store(kept, at, odds)
            elif out is not None:
                store(kept_behind, v * LANES, odds)
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
                n_changed += _count_bits(word ^ words[first + i, w])
                words[first + i, w] = word
            variables.changed[first + i] = differs != 0
        if n_here < LANES:  # a vector may have reached beyond the last row
            for v in range(n_here * n_factors):
                counts[v] += _i32((ones[v // LANES] >> (v % LANES)) & 1)
    return n_changed


# ---------------------------------------------------------------- priors of decoded bits


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _in_steps(odds: Any) -> tuple[Any, Any]:
    """Prior log-odds in two parts, in units of 1/COARSE and of 1/FINE.

    These are whole numbers, whose sums are exact in any order and on any number of machines.
    """
    exact = max(np.float64(odds), -LARGEST_PRIOR)
    whole = np.floor(exact * COARSE + 0.5)
    return _i64(whole), _i64(np.floor((exact - whole / COARSE) * FINE + 0.5))


@njit(nogil=True, cache=True, error_model="numpy")
def decoded(
    belief: Floats, prior: Floats, hard: float, by_row: bool
) -> tuple[Array, np.int64, np.int64]:
    """Decode log-odds (n, K), or (K, n) unless `by_row`, and sum the priors of the ones.

    Returns the bits in words (n, ⌈K/64⌉), and the two parts of the sum. A prior of `hard` or more
    represents certainty and does not count.
    """
    n, n_factors = belief.shape if by_row else (belief.shape[1], belief.shape[0])
    words = np.zeros((n, -(-n_factors // 64)), np.uint64)
    coarse, fine = _i64(0), _i64(0)
    for i in range(belief.shape[0]):
        for j in range(belief.shape[1]):
            one = belief[i, j] > 0
            variable, k = (i, j) if by_row else (j, i)
            words[variable, k >> 6] |= _u64(one) << _u64(k & 63)
            if one and prior[i, j] < hard:
                more, finer = _in_steps(prior[i, j])
                coarse += more
                fine += finer
    return words, coarse, fine


@njit(nogil=True, cache=True, error_model="numpy")
def prior_totals(words: Array, prior: Floats, hard: float) -> tuple[np.int64, np.int64]:
    """Sum the priors (n, K or 1) of the ones in words (n, W), as `decoded` does."""
    coarse, fine = _i64(0), _i64(0)
    for i in range(prior.shape[0]):
        for k in range(prior.shape[1]):
            n_ones = _i64(0)
            if prior.shape[1] > 1:
                n_ones = _i64((words[i, k >> 6] >> _u64(k & 63)) & _u64(1))
            else:
                for w in range(words.shape[1]):
                    n_ones += _count_bits(words[i, w])
            if n_ones and prior[i, k] < hard:
                more, finer = _in_steps(prior[i, k])
                coarse += n_ones * more
                fine += n_ones * finer
    return coarse, fine


# ---------------------------------------------------------------- the decoded product


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _is_one(
    xor: Xor,
    n_words: int,
    row_words: Any,
    row: int,
    column_words: Any,
    column: int,
) -> Any:
    """Whether the product of a row and a column of bits is 1: uint64, which is 0 if it is not."""
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
    xor: Xor, block: Block, row_words: Array, column_words: Array
) -> tuple[np.int64, np.int64]:
    """Count the entries, of those observed as 0 and as 1, at which the decoded product is 1.

    row_words (rows, W) and column_words (N, W) are the decoded bits, 64 in a word.
    """
    n_rows, n_words = row_words.shape
    entries = pointer(block)
    x, y = pointer(row_words.reshape(-1)), pointer(column_words.reshape(-1))
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


@njit(nogil=True, cache=True, error_model="numpy")
def explained_evidence(xor: Xor, entries: Entries, row_words: Array, column_words: Array) -> float:
    """Sum L over the entries at which the decoded product is 1; words as in `count_covered`."""
    n_rows, n_words = row_words.shape
    x, y = pointer(row_words.reshape(-1)), pointer(column_words.reshape(-1))
    total = 0.0
    for row in range(n_rows):
        for i in range(entries.indptr[row], entries.indptr[row + 1]):
            if _is_one(xor, n_words, x, row, y, _i64(entries.columns[i])):
                total += entries.evidence[i]
    return total
