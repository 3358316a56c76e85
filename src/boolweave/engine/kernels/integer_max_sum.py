"""The inner loops with small integers: max-sum with messages of 8 bits.

If all ones have the same evidence, and all zeros have the same evidence, messages and beliefs can
be whole numbers of one unit. Then sums are exact in any order, 16 numbers fit into a vector
register, and a max-sum message fits into a byte. With OR, the message of an entry observed as 1 is
between 0 and |L|; that of an entry observed as 0 is between −|L| and 0, and `OR_STEPS` is added to
store it. With XOR, messages are between −|L| and |L|, and `XOR_OFFSET` is added to store them.
Cavities make no difference beyond ±|L|, so that beliefs can be clipped to 16 bits.
"""

from typing import NamedTuple

import numpy as np

from boolweave.engine.kernels.groups import (
    GROUPS,
    Block,
    Scratch,
    Variables,
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
from boolweave.engine.kernels.rules import (
    Xor,
    claims_of,
    no_terms,
    to_one_term,
    to_term,
    to_variable,
    with_term,
)
from boolweave.engine.kernels.vectors import (
    LANES,
    Vector,
    as_int16,
    as_uint8,
    largest,
    load,
    maximum,
    pointer,
    splat,
    store,
    total,
    where,
)
from boolweave.runtime.types import Array, Integers

# A message is a fraction of L in one byte: 255 steps, or 127 in either direction for XOR.
OR_STEPS = 255
XOR_STEPS = 127
XOR_OFFSET = 128

# Beliefs are clipped to this, which is over twice the largest message and so practically certain.
MAX_SUM_LIMIT = 1023

# The largest possible change of a message in an iteration.
LARGEST_MOVE = 255

# Damping is a multiple of 1/128, so that 128 · 255 fits into 16 bits.
DAMPING_STEPS = 128

_i16 = np.int16


class Damping(NamedTuple):
    """Damping in 128ths, and how damped changes are rounded; see `damped`."""

    steps: int | Vector
    up: int | Vector
    down: int | None


def scratch_for(n_factors: int) -> tuple[Array, ...]:
    """Scratch arrays for K factors."""
    return make_scratch(n_factors, (padded(n_factors) * LANES, np.int16))


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def damped(gap: Vector, steps: Vector, up: Vector, down: int | None) -> Vector:
    """The damped change that reduces a gap: `steps` / 128 of it, rounded.

    `up` is added before the result is rounded down; `down`, unless it is None, is also added to
    negative changes. If the damping factor is small, rounding to nearest would make messages stop
    far from their targets.
    """
    share = gap * steps
    if down is None:
        return (share + up) >> splat(_i16(7))
    return (share + up + ((share >> splat(_i16(15))) & splat(_i16(down)))) >> splat(_i16(7))


def damping_of(damping: float) -> Damping:
    """The damping factor, in (0, 1], in the form of the kernel.

    Changes are rounded to nearest if that reduces a gap of two units. Otherwise a gap of 2 becomes
    1, and a gap of 1 stays, because closing it might lead to endless oscillation.
    """
    steps = max(1, round(damping * DAMPING_STEPS))
    if 2 * steps > DAMPING_STEPS // 2:
        return Damping(steps, DAMPING_STEPS // 2, None)
    up = DAMPING_STEPS - 1 - steps
    return Damping(steps, up, steps - up)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _send(
    claim: Vector,
    cavity: Vector,
    old: Vector,
    damping: Damping,
    messages: Integers,
    at: int,
    changes: Integers,
    i: int,
) -> Vector:
    """Update messages towards (claim + cavity)₊ − (cavity)₊, damped; return the sizes of changes.

    `claim` is Γ, the message of the likelihood to the term, and the cavity is that of the other
    variable of the term. The messages begin at position `at`. Their changes are written to
    `changes`, beginning at position `i`.
    """
    change = damped(to_variable(claim, cavity) - old, damping.steps, damping.up, damping.down)
    store(messages, at, as_uint8(as_int16(load(messages, at)) + change))
    store(changes, i, change)
    return maximum(change, splat(_i16(0)) - change)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _exchange(
    xor: Xor, n_factors: int, is_one: Vector, bound: Vector, offset: Vector, damping: Damping,
    first: int, messages: Messages, scratch: Scratch,
) -> Vector:  # fmt: skip
    """Do the damped update of one group.

    The vector `offset` is added to messages when they are stored, and `bound` is |L|. The messages
    begin at position `first`. Returns the sizes of the largest changes, a vector.
    """
    x, y, to_row, to_column = scratch.x, scratch.y, messages.to_row, messages.to_column
    change, terms = splat(_i16(0)), no_terms(xor, bound, is_one)
    for k in range(n_factors):
        i = k * LANES
        a = load(x, i) - (as_int16(load(to_row, first + i)) - offset)
        b = load(y, i) - (as_int16(load(to_column, first + i)) - offset)
        terms = with_term(xor, terms, to_term(a, b), bound)
    claims = claims_of(xor, terms, bound, is_one)
    for k in range(n_factors):
        i = k * LANES
        old_row = as_int16(load(to_row, first + i)) - offset
        old_column = as_int16(load(to_column, first + i)) - offset
        a = load(x, i) - old_row
        b = load(y, i) - old_column
        claim = to_one_term(xor, claims, to_term(a, b), bound)
        size = _send(claim, b, old_row, damping, to_row, first + i, x, i)
        size = maximum(size, _send(claim, a, old_column, damping, to_column, first + i, y, i))
        change = maximum(change, size)
    return change


@njit(nogil=True, cache=True, error_model="numpy")
def max_sum(
    xor: Xor, block: Block, rows: Variables, columns: Variables,
    messages: Messages, resting: Array, bounds: Integers, damping: Damping,
    scratch: tuple[Array, ...],
) -> float:  # fmt: skip
    """Do one iteration of max-sum over one block of rows.

    `bounds` (2,) int16 are |L| of a 0 and of a 1 in units. Messages (groups · K · LANES,) uint8 are
    updated, and so is `resting` (chunks,) bool, which says whether no message of a chunk changed.
    Changes of messages are added to the sums of rows and columns. A chunk is skipped if neither its
    messages nor its beliefs changed in the last iteration, because nothing in it would change now.
    Returns the largest change relative to |L|.
    """
    n_factors, n_columns, n_entries = rows.stride, columns.stride, block.codes.shape[0]
    n_groups = count_groups(block, n_columns)
    entries, of_rows, of_columns = pointer(block), pointer(rows), pointer(columns)
    sent, own = pointer(messages), pointer(Scratch(*scratch))
    zero = splat(_i16(0))
    bound_of_zero, bound_of_one = splat(bounds[0]), splat(bounds[1])
    by = Damping(splat(_i16(damping.steps)), splat(_i16(damping.up)), damping.down)
    residual_of_zero, residual_of_one = _i16(0), _i16(0)
    row = 0
    for c in range(resting.shape[0]):
        first = c * GROUPS
        last = min(n_groups, first + GROUPS)
        row, column = first_entry(entries, n_columns, first, row)
        if resting[c] and is_unchanged(block, rows, columns, first, last, row):
            continue
        change_of_zero, change_of_one = zero, zero
        for g in range(first, last):
            group = find_group(entries, n_columns, n_entries, g, row, column)
            row = group.row
            column = group.column + LANES
            prefetch_columns(entries, of_columns, group, n_entries)
            if block.dense is None:
                prefetch_messages(sent, group, n_factors, 1)
            gather(entries, of_rows, of_columns, group, own)
            code = read_codes(entries, group, own)
            seen_as_one = code == splat(_i16(1))
            bound = where(code == zero, bound_of_zero, where(seen_as_one, bound_of_one, zero))
            at = g * n_factors * LANES
            offset = splat(_i16(XOR_OFFSET))
            if xor is None:
                offset = where(code == zero, splat(_i16(OR_STEPS)), zero)
            change = _exchange(xor, n_factors, seen_as_one, bound, offset, by, at, sent, own)
            change_of_one = maximum(change_of_one, where(seen_as_one, change, zero))
            change_of_zero = maximum(change_of_zero, where(seen_as_one, zero, change))
            scatter_columns(entries, n_factors, of_columns, group, own)
            if group.one_row:
                for k in range(n_factors):  # at most 32 changes of at most 255 fit into 16 bits
                    i = k * LANES
                    store(own.row_changes, i, load(own.row_changes, i) + load(own.x, i))
                if g + 1 == last or ends_row(entries, group):
                    for k in range(n_factors):
                        of_rows.sums[row * n_factors + k] += total(load(own.row_changes, k * LANES))
                        store(own.row_changes, k * LANES, zero)
            else:
                scatter_rows(entries, of_rows, own)
        largest_of_zero, largest_of_one = largest(change_of_zero), largest(change_of_one)
        resting[c] = largest_of_zero == 0 and largest_of_one == 0
        residual_of_zero = max(residual_of_zero, largest_of_zero)
        residual_of_one = max(residual_of_one, largest_of_one)
    return max(residual_of_zero / bounds[0], residual_of_one / bounds[1])
