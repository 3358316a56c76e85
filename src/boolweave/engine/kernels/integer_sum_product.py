"""The inner loops on small integers: sum-product in 16 bits a message.

As `integer_max_sum`, whose groups, gather and scatter it shares. Messages and beliefs are
binary log-odds in whole numbers of steps of 1/512: then a power of 2 is a shift into the exponent
of a float and a polynomial for the rest. What is between is in floats, 16 to a vector, those of the
even entries of a group before those of the odd ones: see `_vectors.in_upper_halves`.
"""

import numpy as np

from boolweave.engine.kernels import integer_max_sum
from boolweave.engine.kernels.integer_max_sum import (
    GROUPS,
    LINE,
    fetch_ahead,
    fetch_messages,
    find_group,
    first_entry,
    gather,
    n_groups_of,
    read_codes,
    scatter_columns,
    scatter_rows,
    settled,
)
from boolweave.engine.kernels.jit import njit
from boolweave.engine.kernels.vectors import (
    LANES,
    TILE,
    add_pairs,
    as_float32,
    as_int16,
    as_int32,
    bits_of,
    float_of,
    from_upper_halves,
    in_upper_halves,
    largest,
    load,
    maximum,
    pointer,
    prefetch,
    splat,
    store,
    total,
    where,
)

# Steps of log₂-odds, and of log-odds: 739.
BINARY_STEPS = 512
LOG_ODDS_STEPS = BINARY_STEPS / np.log(2)

# Messages lie within ±12, the largest evidence that is allowed; beliefs are cut at ±29.5. So a
# message less than a belief is within 16 bits, and the product of two odds within a float.
SUM_PRODUCT_LIMIT = 21800

# Expected ones are counted in whole numbers of this, for sums that do not depend on their order.
ONES_STEPS = 1 << 20

# Two irrational numbers in 2⁻³², by which what is added before rounding goes on from row to row and
# from column to column.
BY_ROW = 3242174889 - (1 << 32)
BY_COLUMN = 2654435769 - (1 << 32)

_i16 = np.int16
_i32 = np.int32
_i64 = np.int64
_f32 = np.float32


def scratch(n_factors):
    """The scratch arrays of one thread: x, y, …, seen of max-sum, then those of this kernel."""
    size = -(-n_factors // TILE) * TILE * LANES
    floats = [(size + extra, np.float32) for extra in (0, 0, LANES)]
    integers = [(2 * LANES, np.int32), (size // 2, np.int32)]
    x, y, _, *rest = integer_max_sum.scratch(n_factors, [*floats, *integers])
    *_, numbers, _ = rest
    numbers[:LANES] = np.arange(LANES)
    return [x, y, *rest]


# ---------------------------------------------------------------- exponential and logarithm


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _power(steps):
    """2^(steps / 512) of int16, to 8e-5 of itself: float32.

    A whole number of steps, shifted, is the bits of a float 2^e·m that is nearly it: m stands where
    2^(m − 1) should. The difference is a polynomial, as 4·(2^(m − 1) − m − 1): from −4 on floats
    count in the unit that is needed, and their exponent is what is still missing in that of 2^e.
    """
    shifted = in_upper_halves(steps) >> splat(_i32(2))
    m = float_of((shifted & splat(_i32(0x7FC000))) + splat(_i32(127 << 23)))
    p = splat(_f32(0.3120981025289459))
    p = p * m + splat(_f32(-0.03202564202594577))
    p = p * m + splat(_f32(-2.088908911089868))
    p = p * m + splat(_f32(-2.1914626665330574))
    return float_of((shifted & splat(_i32(-(1 << 14)))) - bits_of(p))


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _dither(spread):
    """What `_steps` adds: (0 … 255 and a half) / 256 by the upper bytes of int16, float32.

    In 128ths of a step, with the last coefficient of its polynomial.
    """
    parts = as_float32((in_upper_halves(spread) >> splat(_i32(24))) & splat(_i32(255)))
    return parts * splat(_f32(1 / 32768)) + splat(_f32(4 - 6.101515155909723 + 1 / 65536))


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _steps(ratio, dither):
    """512·log₂ ratio + dither, int32: whole numbers in the upper halves.

    Weak ones are exact to 3e-4 of themselves, all to a third of a step. The bits of a float 2^e·m
    are e + (m − 1), nearly its logarithm. The difference, log₂ m − (m − 1), is a polynomial that is
    0 where m is 1 or 2; as 4 + 4·(…) its bits count in the same unit, and their exponent and that
    of the ratio add up to nothing within what is left after the shift.
    """
    bits = bits_of(ratio)
    m = float_of((bits & splat(_i32(0x7FFFFF))) + splat(_i32(127 << 23)))
    p = splat(_f32(-0.3141384675850442))
    p = p * m + splat(_f32(2.538319188081762))
    p = p * m + splat(_f32(-8.46674586910484))
    p = p * m + splat(_f32(12.344080304517844))
    p = p * m + dither
    return (bits + bits_of(p)) << splat(_i32(2))


# ---------------------------------------------------------------- a group


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _damped(gap, damping, spread):
    """damping/128 of a gap, rounded up for a share of the lanes that is what would be cut off.

    In two parts of 8 bits, so that products stay within 16.
    """
    low = ((gap & splat(_i16(255))) * damping + spread) >> splat(_i16(7))
    return (gap >> splat(_i16(8))) * (damping + damping) + low


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _read_chances(
    xor, n_factors, first, to_row, to_column, x, y, row_one, column_one, others
):  # fmt: skip
    """row_one, column_one = P(x = 1), P(y = 1) without what the entry says of them.

    With e^−(what x tells of itself) and that of y, plus 1, as u and v, these are 1/u and 1/v: one
    division serves both and their product c = P(term = 1). Rounded, too, none is above 1.
    others[k] = Π (1 − c) from term k on, for XOR Π (1 − 2c). All are (K, LANES) float32, `others`
    one longer.
    """
    one = splat(_f32(1))
    r = one
    store(others, n_factors * LANES, one)
    for back in range(n_factors):
        i = (n_factors - 1 - back) * LANES
        u = one + _power(load(to_row, first + i) - load(x, i))
        v = one + _power(load(to_column, first + i) - load(y, i))
        c = one / (u * v)
        store(row_one, i, v * c)
        store(column_one, i, u * c)
        if xor is not None:
            c = c + c
        r = r - r * c
        store(others, i, r)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _find_gains(xor, n_factors, base, lean, row_one, column_one, others):
    """others[k] = p(o | term k = 1) / p(o | term k = 0) − 1; returns Π (1 − c) of all terms.

    With r = Π (1 − c) over the other terms, p(o | term = 0) is base − lean·r, where for OR
    base = p(o | z = 1), for XOR it is p(o | z = 1) + p(o | z = 0), all is twice as much and r is
    Π (1 − 2c). lean = p(o | z = 1) − p(o | z = 0).
    """
    r = splat(_f32(1))
    for k in range(n_factors):
        i = k * LANES
        more = lean * (r * load(others, i + LANES))
        if_zero = base - more
        c = load(row_one, i) * load(column_one, i)
        if xor is not None:
            more = more + more
            c = c + c
        store(others, i, more / if_zero)
        r = r - r * c
    return r


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _send(
    n_factors, gains, row_one, column_one, dither, spread, damping, first, to_row, to_column, x, y,
    change,
):  # fmt: skip
    """Damped update of one group; returns the larger of `change` and its gaps.

    What the factor tells x is log [p(o | x = 1) / p(o | x = 0)] = log (1 + gain·P(y = 1)).

    Rounding is dithered twice. Where a message goes: one of a third of a step is a whole step in a
    third of the entries, so that sums of many weak messages are right. And the way there: a share
    of the entries one step away go there now, the others in a later iteration, when `spread` is
    another; so that small moves are damped, too, and all arrive.
    """
    one = splat(_f32(1))
    zero = splat(_i16(0))
    for k in range(n_factors):
        i = k * LANES
        gain = load(gains, i)
        old_row = load(to_row, first + i)
        old_column = load(to_column, first + i)
        new_row = from_upper_halves(_steps(one + gain * load(column_one, i), dither))
        new_column = from_upper_halves(_steps(one + gain * load(row_one, i), dither))
        gap = new_row - old_row
        gap_column = new_column - old_column
        moved = _damped(gap, damping, spread)
        moved_column = _damped(gap_column, damping, spread)
        store(to_row, first + i, old_row + moved)
        store(to_column, first + i, old_column + moved_column)
        store(x, i, moved)
        store(y, i, moved_column)
        sizes = maximum(maximum(gap, zero - gap), maximum(gap_column, zero - gap_column))
        change = maximum(change, sizes)
    return change


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _fetch_sums(dense, n_factors, column_at, column_sum):
    """Ask for the sums that this group will add to."""
    if dense is None:
        for i in range(LANES):
            for k in range(0, n_factors, LINE // 2):  # numbers of 32 bits
                prefetch(column_sum, column_at[i] + k)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _column_numbers(dense, columns, column, start, n, numbers):
    """Columns of the entries of a group, int32; `numbers` are 0 … 15, and room for 16 more."""
    if dense is not None:
        return as_int32(splat(_i64(column))) + load(numbers, 0)
    if n == LANES:
        return as_int32(load(columns, start))
    for i in range(n):
        numbers[LANES + i] = columns[start + i]
    return load(numbers, LANES)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _read_spread(top_at, one_row, at, row_at, column_numbers):
    """Evenly spread numbers of 16 bits by row and column, the same for whatever blocks.

    top_at is where the block's first row begins in the matrix (M, K); at or row_at[i], where those
    of the entries begin in the block.
    """
    place = as_int32(splat(_i64(at))) if one_row else as_int32(load(row_at, 0))
    by_row = (place + as_int32(splat(_i64(top_at)))) * splat(_i32(BY_ROW))
    spread = by_row + column_numbers * splat(_i32(BY_COLUMN))
    return as_int16(spread >> splat(_i32(16)))


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _add_held(n_factors, held, at, row_sum):
    """Add what is held to the sums of a row, and hold nothing."""
    half = LANES // 2
    for k in range(n_factors):
        both = _i32(0)
        for i in range(half):
            both += held[k * half + i]
            held[k * half + i] = 0
        row_sum[at + k] += both


# ---------------------------------------------------------------- a block


@njit(nogil=True, cache=True, error_model="numpy")
def sum_product(
    xor, top, dense, n_columns, indptr, columns, codes, small, damping, phase, n_factors,
    row_belief, column_belief, row_moved, column_moved, still, ones, to_row, to_column, row_sum,
    column_sum, x, y, row_at, column_at, seen, row_one, column_one, others, numbers, held,
):  # fmt: skip
    """One iteration of sum-product over one block of rows.

    top is the number of the block's first row in the matrix. The rest is as in
    `integer_max_sum.max_sum`, but messages (groups, K, LANES) are int16, log₂-odds in steps of
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
    x, y, seen, numbers, held = (
        pointer(x), pointer(y), pointer(seen), pointer(numbers), pointer(held)
    )  # fmt: skip
    row_at, column_at = pointer(row_at), pointer(column_at)
    row_one, column_one, others = pointer(row_one), pointer(column_one), pointer(others)
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
            spread = _read_spread(
                top * n_factors, one_row, row * n_factors, row_at,
                _column_numbers(dense, columns, column, start, n, numbers),
            )  # fmt: skip
            code = in_upper_halves(read_codes(codes, start, n, seen)) >> splat(_i32(16))
            as_one = code == splat(_i32(1))
            as_zero = code == none
            like_one = where(as_zero, splat(small[0]), one)
            like_zero = where(as_one, splat(small[1]), one)
            at = g * n_factors * LANES
            _read_chances(
                xor, n_factors, at, to_row, to_column, x, y, row_one, column_one, others
            )  # fmt: skip
            _fetch_sums(dense, n_factors, column_at, column_sum)
            fetch_messages(g, n_factors, 2, to_row, to_column)
            base = like_one if xor is None else like_one + like_zero
            all_zero = _find_gains(
                xor, n_factors, base, like_one - like_zero, row_one, column_one, others
            )
            change = _send(
                n_factors, others, row_one, column_one, _dither(spread),
                (spread + splat(phase)) & splat(_i16(127)), steps, at, to_row, to_column, x, y,
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
                    add_pairs(load(x, k * LANES), held, k * (LANES // 2))
                if g + 1 == last or indptr[row + 1] < start + n + LANES:  # the next is not its own
                    _add_held(n_factors, held, row * n_factors, row_sum)
            else:
                scatter_rows(dense, n_factors, x, row_at, row_sum)
            column += LANES
        ones[c, 0] = total(ones_of_one)
        ones[c, 1] = total(ones_of_zero)
        moved = largest(change)
        still[c] = moved == 0
        residual = max(residual, moved)
    return residual
