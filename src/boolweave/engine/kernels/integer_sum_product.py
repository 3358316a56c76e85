"""The inner loops with small integers: sum-product with messages of 16 bits.

Groups, gather and scatter are the same as in `integer_max_sum`. Messages and beliefs are binary
logarithms of odds in whole steps of 1/512, so that a power of 2 is a shift into the exponent of a
float and a polynomial for the rest. The computation in between uses floats, 16 in a vector; those
of the even entries of a group come before those of the odd ones (see `vectors.in_upper_halves`).
"""

from typing import Any, NamedTuple

import numpy as np

from boolweave.engine.kernels.groups import (
    GROUPS,
    LINE,
    Block,
    Group,
    Scratch,
    Variables,
    arrays_apart,
    count_groups,
    ends_row,
    find_group,
    first_entry,
    gather,
    is_unchanged,
    make_scratch,
    padded,
    prefetch_columns,
    prefetch_messages,
    read_codes,
    scatter_columns,
    scatter_rows,
)
from boolweave.engine.kernels.jit import njit
from boolweave.engine.kernels.max_sum import Messages
from boolweave.engine.kernels.rules import Xor
from boolweave.engine.kernels.vectors import (
    LANES,
    Vector,
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
    minimum,
    pointer,
    prefetch,
    splat,
    store,
    total,
    where,
)
from boolweave.runtime.types import Array, Floats, Integers

# Number of steps per unit of log₂-odds, and per unit of log-odds (739).
BINARY_STEPS = 512
LOG_ODDS_STEPS = BINARY_STEPS / np.log(2)

# Messages are within ±12, the largest evidence that is allowed, and beliefs are clipped to ±29.5.
# Then a message minus a belief fits into 16 bits, and the product of two odds into a float.
SUM_PRODUCT_LIMIT = 21800

# Expected ones are counted in units of 1 / ONES_STEPS, so that their sums do not depend on the
# order; probabilities of entries are written in units of 1 / CHANCE_STEPS.
ONES_STEPS = 1 << 20
CHANCE_STEPS = 32767

# Two irrational numbers, as multiples of 2⁻³², by which the dither changes from row to row and from
# column to column.
BY_ROW = 3242174889 - (1 << 32)
BY_COLUMN = 2654435769 - (1 << 32)

_i16 = np.int16
_i32 = np.int32
_i64 = np.int64
_f32 = np.float32


class Damping(NamedTuple):
    """The damping factor, and a number that determines which messages are rounded up."""

    steps: int | Vector  # damping in 128ths
    phase: int | Vector  # from 0 to 127, different in every iteration


class Chances(NamedTuple):
    """More arrays of one thread for one group; the kernel is passed a plain tuple of them."""

    row_one: Floats  # (K, LANES) float32: P(x = 1) without the message of the entry
    column_one: Floats  # (K, LANES) float32: the same for P(y = 1)
    others: Floats  # (K + 1, LANES) float32: see `_read_chances` and `_find_gains`
    numbers: Integers  # (2, LANES) int32: 0 to 15, and space for columns


class PerEntry(NamedTuple):
    """Flat arrays with a number for each entry, in the layout of groups of 16."""

    evidence: Integers  # int16: log₂ p(o | z = 1) / p(o | z = 0) in steps, 0 after the last entry
    chance: Integers  # int16, an output: P(z = 1) without the entry's own evidence, in 32767ths


def scratch_for(n_factors: int) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Make scratch arrays for K factors: `Scratch` and `Chances`."""
    size = padded(n_factors) * LANES
    floats = [(size + extra, np.float32) for extra in (0, 0, LANES)]
    chances = Chances(*arrays_apart([*floats, (2 * LANES, np.int32)]))
    chances.numbers[:LANES] = np.arange(LANES)
    return make_scratch(n_factors, (size // 2, np.int32)), tuple(chances)


# ---------------------------------------------------------------- exponential and logarithm


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _power(steps: Vector) -> Vector:
    """2^(steps / 512) of int16 as float32, with a relative error of at most 8e-5.

    The shifted number of steps has the bits of a float 2^e·m that is nearly the result, except that
    it has m instead of 2^(m − 1). The difference is computed by a polynomial, in the form
    4·(2^(m − 1) − m − 1): floats beyond −4 are spaced by the unit that is needed here, and their
    exponent is the part that is still missing in the exponent of 2^e.
    """
    shifted = in_upper_halves(steps) >> splat(_i32(2))
    m = float_of((shifted & splat(_i32(0x7FC000))) + splat(_i32(127 << 23)))
    p = splat(_f32(0.3120981025289459))
    p = p * m + splat(_f32(-0.03202564202594577))
    p = p * m + splat(_f32(-2.088908911089868))
    p = p * m + splat(_f32(-2.1914626665330574))
    return float_of((shifted & splat(_i32(-(1 << 14)))) - bits_of(p))


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _dither(spread: Vector) -> Vector:
    """The dither that `_steps` adds: (b + ½) / 256 of a step, where b is the upper byte of int16.

    It is scaled like the polynomial of `_steps`, whose last coefficient it includes; float32.
    """
    parts = as_float32((in_upper_halves(spread) >> splat(_i32(24))) & splat(_i32(255)))
    return parts * splat(_f32(1 / 32768)) + splat(_f32(4 - 6.101515155909723 + 1 / 65536))


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _steps(ratio: Vector, dither: Vector) -> Vector:
    """512·log₂ ratio + dither as int32, with the integer part in the upper halves.

    The error is at most a third of a step, and for small values at most 3e-4 of the value. The bits
    of a float 2^e·m represent e + (m − 1), which is nearly its logarithm. The difference,
    log₂ m − (m − 1), is approximated by a polynomial that is 0 where m is 1 or 2. In the form
    4 + 4·(…), its bits have the same unit, and the sum of its exponent and that of the ratio
    vanishes in the bits that remain after the shift.
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
def _damped(gap: Vector, damping: Vector, spread: Vector) -> Vector:
    """damping/128 of a gap, rounded up in a fraction of the lanes equal to the fractional part.

    The gap is multiplied in two parts of 8 bits, so that the products fit into 16 bits.
    """
    low = ((gap & splat(_i16(255))) * damping + spread) >> splat(_i16(7))
    return (gap >> splat(_i16(8))) * (damping + damping) + low


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _read_chances(
    xor: Xor, n_factors: int, first: int, messages: Messages, scratch: Scratch,
    chances: Chances,
) -> None:  # fmt: skip
    """Set row_one and column_one to P(x = 1) and P(y = 1) without the messages of the entry.

    With u = 1 + e^−(cavity of x) and v = 1 + e^−(cavity of y), these are 1/u and 1/v. A single
    division yields both and their product c = P(term = 1); none exceeds 1 even after rounding.
    others[k] becomes Π (1 − c) over the terms from k to the last, or Π (1 − 2c) for XOR.
    """
    one = splat(_f32(1))
    r = one
    store(chances.others, n_factors * LANES, one)
    for back in range(n_factors):
        i = (n_factors - 1 - back) * LANES
        u = one + _power(load(messages.to_row, first + i) - load(scratch.x, i))
        v = one + _power(load(messages.to_column, first + i) - load(scratch.y, i))
        c = one / (u * v)
        store(chances.row_one, i, v * c)
        store(chances.column_one, i, u * c)
        if xor is not None:
            c = c + c
        r = r - r * c
        store(chances.others, i, r)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _find_gains(xor: Xor, n_factors: int, base: Vector, lean: Vector, chances: Chances) -> Vector:
    """Set others[k] = p(o | term k = 1) / p(o | term k = 0) − 1; return Π (1 − c) over all terms.

    With r = Π (1 − c) over the other terms, p(o | term = 0) = base − lean·r, where
    base = p(o | z = 1) and lean = p(o | z = 1) − p(o | z = 0). For XOR, r is Π (1 − 2c), base is
    p(o | z = 1) + p(o | z = 0), and base − lean·r is twice the probability.
    """
    r = splat(_f32(1))
    for k in range(n_factors):
        i = k * LANES
        more = lean * (r * load(chances.others, i + LANES))
        if_zero = base - more
        c = load(chances.row_one, i) * load(chances.column_one, i)
        if xor is not None:
            more = more + more
            c = c + c
        store(chances.others, i, more / if_zero)
        r = r - r * c
    return r


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _send(
    n_factors: int, first: int, messages: Messages, damping: Damping, spread: Vector,
    scratch: Scratch, chances: Chances, change: Vector,
) -> Vector:  # fmt: skip
    """Do the damped update of one group; return the larger of `change` and the gaps of messages.

    The message to x is log [p(o | x = 1) / p(o | x = 0)] = log (1 + gain·P(y = 1)).

    Rounding is dithered twice. First, the new message is dithered: one third of a step becomes a
    whole step in one third of the entries, so that sums of many weak messages are correct. Second,
    the damped change is dithered: of the messages that are one step from their targets, a fraction
    changes now, and the others change in later iterations, with other phases. Thus small changes
    are damped, too, and all messages reach their targets.
    """
    one = splat(_f32(1))
    zero = splat(_i16(0))
    dither = _dither(spread)
    spread = (spread + damping.phase) & splat(_i16(127))
    for k in range(n_factors):
        i = k * LANES
        gain = load(chances.others, i)
        old_row = load(messages.to_row, first + i)
        old_column = load(messages.to_column, first + i)
        new_row = from_upper_halves(_steps(one + gain * load(chances.column_one, i), dither))
        new_column = from_upper_halves(_steps(one + gain * load(chances.row_one, i), dither))
        gap = new_row - old_row
        gap_column = new_column - old_column
        row_change = _damped(gap, damping.steps, spread)
        column_change = _damped(gap_column, damping.steps, spread)
        store(messages.to_row, first + i, old_row + row_change)
        store(messages.to_column, first + i, old_column + column_change)
        store(scratch.x, i, row_change)
        store(scratch.y, i, column_change)
        sizes = maximum(maximum(gap, zero - gap), maximum(gap_column, zero - gap_column))
        change = maximum(change, sizes)
    return change


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _prefetch_sums(block: Block, n_factors: int, columns: Variables, scratch: Scratch) -> None:
    """Prefetch the sums to which this group will add."""
    if block.dense is None:
        for i in range(LANES):
            for k in range(0, n_factors, LINE // 2):  # numbers of 32 bits
                prefetch(columns.sums, scratch.column_at[i] + k)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _column_numbers(block: Block, group: Group, numbers: Integers) -> Vector:
    """The columns of the entries of a group, int32."""
    if block.dense is not None:
        return as_int32(splat(_i64(group.column))) + load(numbers, 0)
    if group.n == LANES:
        return as_int32(load(block.columns, group.start))
    for i in range(group.n):
        numbers[LANES + i] = block.columns[group.start + i]
    return load(numbers, LANES)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _read_spread(
    block: Block, n_factors: int, group: Group, scratch: Scratch, numbers: Integers
) -> Vector:
    """Evenly spread 16-bit numbers that depend only on row and column, not on the blocks."""
    if group.one_row:  # where the row begins in (M, K)
        place = as_int32(splat(_i64(group.row * n_factors)))
    else:
        place = as_int32(load(scratch.row_at, 0))
    by_row = (place + as_int32(splat(_i64(block.first_row * n_factors)))) * splat(_i32(BY_ROW))
    column = _column_numbers(block, group, numbers)
    return as_int16((by_row + column * splat(_i32(BY_COLUMN))) >> splat(_i32(16)))


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _add_row_changes(rows: Variables, row: int, row_changes: Integers) -> None:
    """Add the accumulated changes of messages to a row to its sums, and reset them to 0."""
    half = LANES // 2
    for k in range(rows.stride):
        both = _i32(0)
        for i in range(half):
            both += row_changes[k * half + i]
            row_changes[k * half + i] = 0
        rows.sums[row * rows.stride + k] += both


# ---------------------------------------------------------------- a block


@njit(nogil=True, cache=True, error_model="numpy")
def sum_product(
    xor: Xor, block: Block, rows: Variables, columns: Variables,
    messages: Messages, resting: Array, likelihoods: Floats, damping: Damping,
    expected_ones: Array, scratch: tuple[Array, ...], chances: tuple[Array, ...],
    per_entry: PerEntry | None,
) -> np.int16:  # fmt: skip
    """Do one iteration of sum-product over one block of rows.

    It is like `integer_max_sum.max_sum`, but messages are int16, log₂-odds in steps of 1/512, and
    `likelihoods` (2,) float32 are the smaller likelihoods of a 0 and of a 1, relative to the larger
    ones. `expected_ones` (chunks, 2) int64 is updated, too: the sum of P(z = 1 | o) over the
    entries of a chunk that are observed as 1, and as 0, in units of 2⁻²⁰. With `per_entry`, each
    entry has evidence of its own, and `likelihoods` is not used. Returns the largest gap between
    an old and a new message.
    """
    n_factors, n_columns, n_entries = rows.stride, columns.stride, block.codes.shape[0]
    n_groups = count_groups(block, n_columns)
    entries, of_rows, of_columns = pointer(block), pointer(rows), pointer(columns)
    sent, own, shares = pointer(messages), pointer(Scratch(*scratch)), pointer(Chances(*chances))
    # Branches ask for `per_entry`, an argument: numba 0.60 prunes no others before it infers types.
    by_entry: Any = None if per_entry is None else pointer(per_entry)
    zero = splat(_i16(0))
    one = splat(_f32(1))
    none = splat(_i32(0))
    by = Damping(splat(_i16(damping.steps)), splat(_i16(damping.phase)))
    residual = _i16(0)
    row = 0
    for c in range(resting.shape[0]):
        first = c * GROUPS
        last = min(n_groups, first + GROUPS)
        row, column = first_entry(entries, n_columns, first, row)
        if resting[c] and is_unchanged(block, rows, columns, first, last, row):
            continue
        change = zero
        ones_of_one = none
        ones_of_zero = none
        for g in range(first, last):
            group = find_group(entries, n_columns, n_entries, g, row, column)
            row = group.row
            column = group.column + LANES
            prefetch_columns(entries, of_columns, group, n_entries)
            gather(entries, of_rows, of_columns, group, own)
            spread = _read_spread(entries, n_factors, group, own, shares.numbers)
            code = in_upper_halves(read_codes(entries, group, own)) >> splat(_i32(16))
            as_one = code == splat(_i32(1))
            as_zero = code == none
            if per_entry is None:
                like_one = where(as_zero, splat(likelihoods[0]), one)
                like_zero = where(as_one, splat(likelihoods[1]), one)
            else:
                evidence = load(by_entry.evidence, g * LANES)
                like_one = _power(minimum(evidence, zero))
                like_zero = _power(minimum(zero - evidence, zero))
            at = g * n_factors * LANES
            _read_chances(xor, n_factors, at, sent, own, shares)
            _prefetch_sums(entries, n_factors, of_columns, own)
            prefetch_messages(sent, group, n_factors, 2)
            base = like_one if xor is None else like_one + like_zero
            all_zero = _find_gains(xor, n_factors, base, like_one - like_zero, shares)
            change = _send(n_factors, at, sent, by, spread, own, shares, change)
            prior = one - all_zero
            if xor is not None:
                prior = prior * splat(_f32(0.5))
            if per_entry is not None:
                parts = as_int32(prior * splat(_f32(CHANCE_STEPS << 16)))
                store(by_entry.chance, g * LANES, from_upper_halves(parts))
            joint = prior * like_one
            share = joint / (joint + (one - prior) * like_zero)
            counted = as_int32(share * splat(_f32(ONES_STEPS)))
            ones_of_one = ones_of_one + where(as_one, counted, none)
            ones_of_zero = ones_of_zero + where(as_zero, counted, none)
            scatter_columns(entries, n_factors, of_columns, group, own)
            if group.one_row:
                for k in range(n_factors):
                    add_pairs(load(own.x, k * LANES), own.row_changes, k * (LANES // 2))
                if g + 1 == last or ends_row(entries, group):
                    _add_row_changes(of_rows, row, own.row_changes)
            else:
                scatter_rows(entries, of_rows, own)
        expected_ones[c, 0] = total(ones_of_one)
        expected_ones[c, 1] = total(ones_of_zero)
        largest_change = largest(change)
        resting[c] = largest_change == 0
        residual = max(residual, largest_change)
    return residual
