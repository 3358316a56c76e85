"""The inner loops on small integers: sum-product in 16 bits a message.

As `boolweave.compact_kernels`, whose groups, gather and scatter it shares. Messages and beliefs are
binary log-odds in whole numbers of steps of 1/512: then a power of 2 is a shift into the exponent
of a float and a polynomial for the rest. What is between is in floats, 16 to a vector.
"""

import numpy as np

from boolweave import compact_kernels
from boolweave._jit import njit
from boolweave._vectors import (
    LANES,
    TILE,
    as_float32,
    as_int16,
    as_int32,
    bits_of,
    float_of,
    largest,
    load,
    maximum,
    pointer,
    scatter_sorted_tile,
    splat,
    store,
    total,
    where,
)
from boolweave.compact_kernels import (
    GROUPS,
    clear_rest,
    fetch_ahead,
    find_group,
    first_entry,
    gather,
    n_groups_of,
    read_codes,
    scatter_columns,
    settled,
)

# Steps of log₂-odds, and of log-odds: 739.
BINARY_STEPS = 512
LOG_ODDS_STEPS = BINARY_STEPS / np.log(2)

# Messages lie within ±12, the largest evidence that is allowed; beliefs are cut at ±29.5. So a
# message less than a belief is within 16 bits, and the product of two odds within a float.
SUM_PRODUCT_LIMIT = 21800

# Expected ones are counted in whole numbers of this, for sums that do not depend on their order.
ONES_STEPS = 1 << 20

_i16 = np.int16
_i32 = np.int32
_f32 = np.float32


def scratch(n_factors):
    """The scratch arrays of one thread: x, y, …, seen of max-sum, then those of this kernel."""
    size = -(-n_factors // TILE) * TILE * LANES
    floats = [(size + extra, np.float32) for extra in (0, 0, LANES)]
    x, y, _, *rest = compact_kernels.scratch(n_factors, [*floats, (LANES, np.uint32)])
    return [x, y, *rest]


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _power(steps):
    """2^(steps / 512) to 8e-5 of itself, of int32: shift, and a polynomial for 2^(m − 1)."""
    shifted = steps << splat(_i32(14))
    rest = splat(_i32((1 << 23) - 1))
    m = float_of((shifted & rest) + splat(_i32(127 << 23)))
    p = splat(_f32(0.07802428305149078))
    p = p * m + splat(_f32(-0.008005294017493725))
    p = p * m + splat(_f32(0.477771133184433))
    p = p * m + splat(_f32(0.4521351158618927))
    return float_of(bits_of(p) + (shifted & splat(_i32(-(1 << 23)))))


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _steps(ratio):
    """512·log₂ ratio to 5e-5 of itself: 2^e·m with m in [2/3, 4/3), log m by a polynomial."""
    bits = bits_of(ratio)
    exponent = (bits - splat(_i32(0x3F2AAAAB))) & splat(_i32(-(1 << 23)))
    f = float_of(bits - exponent) - splat(_f32(1))
    p = splat(_f32(333.4305114746094 / 2))
    p = p * f + splat(_f32(-406.8030090332031 / 2))
    p = p * f + splat(_f32(490.87939453125 / 2))
    p = p * f + splat(_f32(-737.5875854492188 / 2))
    p = p * f + splat(_f32(1477.32861328125 / 2))
    return p * f + as_float32(exponent) * splat(_f32(512.0 / (1 << 23)))


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _rounded(steps, dither):
    """The whole number below steps + dither, int16; 32768 is in `dither`: all is above 0."""
    return as_int16(as_int32(steps + dither)) + splat(_i16(-32768))


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _damped(gap, damping, spread):
    """damping/128 of a gap, rounded up for a share of the lanes that is what would be cut off.

    In two parts of 8 bits, so that products stay within 16.
    """
    low = ((gap & splat(_i16(255))) * damping + spread) >> splat(_i16(7))
    return (gap >> splat(_i16(8))) * (damping + damping) + low


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _group(
    xor, n_factors, base, if_one, if_zero, dither, spread, damping, first, to_row, to_column,
    x, y, row_odds, column_odds, after, change,
):  # fmt: skip
    """Damped update of one group; returns the larger of `change` and its gaps, and P(all terms 0).

    With u = e^−(what x tells of itself), v of y: P(term = 1) = c = 1/((1 + u)(1 + v)). p(o | term)
    is base + if_one·r for a 1 and base + if_zero·r for a 0, where r = Π (1 − c) over the others
    (XOR: 1 − 2c). What the factor tells x, log [p(o | x = 1) / p(o | x = 0)], is then
    log [(v·zero + one) / ((1 + v)·zero)], and one division serves x, y and c.

    Rounding is dithered twice. Where a message goes: one of a third of a step is a whole step in a
    third of the entries, so that sums of many weak messages are right. And the way there: a share
    of the entries one step away go there now, the others in a later iteration, when `spread` is
    another; so that small moves are damped, too, and all arrive.
    """
    one = splat(_f32(1))
    r = one
    store(after, n_factors * LANES, one)
    for back in range(n_factors):
        i = (n_factors - 1 - back) * LANES
        u = _power(as_int32(load(to_row, first + i) - load(x, i)))
        v = _power(as_int32(load(to_column, first + i) - load(y, i)))
        store(row_odds, i, u)
        store(column_odds, i, v)
        c = one / ((one + u) * (one + v))
        if xor is not None:
            c = c + c
        r = r - r * c
        store(after, i, r)
    r = one
    zero16 = splat(_i16(0))
    for k in range(n_factors):
        i = k * LANES
        u = load(row_odds, i)
        v = load(column_odds, i)
        others = r * load(after, i + LANES)
        zero = base + if_zero * others
        like_one = base
        if xor is not None:
            like_one = base + if_one * others
        up = one + u
        vp = one + v
        inverse = one / (up * vp * zero)
        c = inverse * zero
        if xor is not None:
            c = c + c
        r = r - r * c
        old_row = load(to_row, first + i)
        old_column = load(to_column, first + i)
        gap = _rounded(_steps((v * zero + like_one) * (up * inverse)), dither) - old_row
        gap_column = _rounded(_steps((u * zero + like_one) * (vp * inverse)), dither) - old_column
        moved = _damped(gap, damping, spread)
        moved_column = _damped(gap_column, damping, spread)
        store(to_row, first + i, old_row + moved)
        store(to_column, first + i, old_column + moved_column)
        store(x, i, moved)
        store(y, i, moved_column)
        sizes = maximum(maximum(gap, zero16 - gap), maximum(gap_column, zero16 - gap_column))
        change = maximum(change, sizes)
    return change, r


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _read_spread(dense, columns, top, row, column, start, n, one_row, n_factors, row_at, spread):
    """Evenly spread whole numbers of 32 bits by row and column, the same for whatever blocks.

    top is the number of the block's first row in the matrix.
    """
    for i in range(n):
        at = row * n_factors if one_row else row_at[i]
        place = np.uint32(column + i) if dense is not None else columns[start + i]
        by_row = np.uint64(top * n_factors + at) * np.uint64(3242174889)  # two irrationals
        spread[i] = np.uint32(
            (by_row + np.uint64(place) * np.uint64(2654435769)) & np.uint64(0xFFFFFFFF)
        )


@njit(nogil=True, cache=True, error_model="numpy")
def sum_product(
    xor, top, dense, n_columns, indptr, columns, codes, small, damping, phase, n_factors,
    row_belief, column_belief, row_moved, column_moved, still, ones, to_row, to_column, row_sum,
    column_sum, x, y, row_at, column_at, seen, row_odds, column_odds, after, spread,
):  # fmt: skip
    """One iteration of sum-product over one block of rows.

    top is the number of the block's first row in the matrix. The rest is as in
    `compact_kernels.max_sum`, but messages (groups, K, LANES) are int16, log₂-odds in steps of
    1/512; small (2,) float32 is the smaller likelihood of a 0 and of a 1 with the larger set to 1;
    damping is in 128ths, int16; phase another in 0 … 127 every iteration, int16. Updated: ones
    (chunks, 2) int64, the sum of P(z = 1 | o) over the entries of a chunk seen as 1, and as 0, in
    steps of 2⁻²⁰.
    """
    n_entries, n_rows = codes.shape[0], indptr.shape[0] - 1
    n_groups = n_groups_of(dense, n_columns, n_rows, n_entries)
    indptr, columns, codes = pointer(indptr), pointer(columns), pointer(codes)
    row_belief, column_belief = pointer(row_belief), pointer(column_belief)
    to_row, to_column = pointer(to_row), pointer(to_column)
    row_sum, column_sum = pointer(row_sum), pointer(column_sum)
    x, y, seen, spread = pointer(x), pointer(y), pointer(seen), pointer(spread)
    row_at, column_at = pointer(row_at), pointer(column_at)
    row_odds, column_odds, after = pointer(row_odds), pointer(column_odds), pointer(after)
    zero = splat(_i16(0))
    one = splat(_f32(1))
    none = splat(_i32(0))
    steps = splat(damping)
    residual = _i16(0)
    row = 0
    for c in range(still.shape[0]):
        first = c * GROUPS
        last = min(n_groups, first + GROUPS)
        row, column = first_entry(dense, n_columns, indptr, first, row)
        if still[c] and settled(
            dense, n_columns, n_rows, n_entries, indptr, columns, first, last, row, row_moved,
            column_moved,
        ):  # fmt: skip
            continue
        change = zero
        ones_of_one = none
        ones_of_zero = none
        for g in range(first, last):
            row, column, start, n, one_row = find_group(
                dense, n_columns, indptr, n_entries, g, row, column
            )
            fetch_ahead(dense, n_columns, columns, start, n_entries, column_belief)
            gather(
                dense, n_columns, indptr, columns, row, column, start, n, one_row, n_factors,
                row_belief, column_belief, x, y, row_at, column_at,
            )  # fmt: skip
            _read_spread(
                dense, columns, top, row, column, start, n, one_row, n_factors, row_at, spread
            )
            code = as_int32(read_codes(codes, start, n, seen))
            as_one = code == splat(_i32(1))
            as_zero = code == none
            like_one = where(as_zero, splat(small[0]), one)
            like_zero = where(as_one, splat(small[1]), one)
            bits = as_int32(load(spread, 0))
            dither = as_float32((bits >> splat(_i32(24))) & splat(_i32(255)))
            dither = dither * splat(_f32(1 / 256)) + splat(_f32(32768))  # exact in a float
            base = like_one
            if xor is not None:
                base = like_one + like_zero
            change, all_zero = _group(
                xor, n_factors, base, like_one - like_zero, like_zero - like_one, dither,
                (as_int16(bits >> splat(_i32(16))) + splat(phase)) & splat(_i16(127)), steps,
                g * n_factors * LANES, to_row, to_column, x, y, row_odds, column_odds, after,
                change,
            )  # fmt: skip
            prior = one - all_zero
            if xor is not None:
                prior = prior * splat(_f32(0.5))
            joint = prior * like_one
            share = joint / (joint + (one - prior) * like_zero)
            counted = as_int32(share * splat(_f32(ONES_STEPS)))
            ones_of_one = ones_of_one + where(as_one, counted, none)
            ones_of_zero = ones_of_zero + where(as_zero, counted, none)
            scatter_columns(dense, n_columns, column, n_factors, y, column_at, column_sum)
            if one_row:
                for k in range(n_factors):
                    row_sum[row * n_factors + k] += total(load(x, k * LANES))
            else:
                clear_rest(n_factors, x)
                for k in range(0, n_factors, TILE):
                    scatter_sorted_tile(x, row_at, k, row_sum)
            column += LANES
        ones[c, 0] = total(ones_of_one)
        ones[c, 1] = total(ones_of_zero)
        moved = largest(change)
        still[c] = moved == 0
        residual = max(residual, moved)
    return residual
