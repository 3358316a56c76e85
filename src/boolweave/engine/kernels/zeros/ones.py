"""Max-sum if all entries are ones, entry by entry: a vector holds 16 factors of one entry.

The kernel for entries of any kind has 16 entries in a vector and processes one factor after
another. It has to transpose beliefs and changes, which is most of its work if there are many
factors. Here the messages of an entry are stored together, (entries, K), and so are the beliefs of
its row and column. All numbers are those of `integer_max_sum` to the last bit.
"""

from typing import Any, NamedTuple

import numpy as np

from boolweave.engine.kernels.groups import GROUPS, Block, Variables, arrays_apart, is_unchanged
from boolweave.engine.kernels.integer_max_sum import Damping, damped
from boolweave.engine.kernels.jit import njit
from boolweave.engine.kernels.max_sum import Messages
from boolweave.engine.kernels.rules import (
    claims_of,
    no_terms,
    to_term,
    to_term_of_one,
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
    minimum,
    pointer,
    prefetch,
    splat,
    store,
    two_largest,
    where,
    widened,
)
from boolweave.runtime.types import Array, Integers

# Below every belief and every cavity, but far from the limits of 16 bits.
_NEVER = -8000

# Number of entries of a row whose changes, of at most 255, are added up in 16 bits.
_RUN = 128

# Number of bytes in a cache line; number of entries by which messages, and columns, are prefetched.
_LINE = 64
_AHEAD = 8
_COLUMNS_AHEAD = 12

_i16 = np.int16
_i64 = np.int64


class Wide(NamedTuple):
    """Sums of columns that are wide enough for all entries; full sums of 16 bits are moved here."""

    sums: Array  # (N · K,) of the changes of messages
    counts: Array  # (N,) int32: number of entries in the sum of 16 bits of a column
    most: int  # the largest number possible


def scratch_for(n_factors: int) -> Array:
    """Make a scratch array for five rows of K numbers in whole vectors."""
    return arrays_apart([(5 * _padded(n_factors), np.int16)])[0]


def _padded(n_factors: int) -> int:
    return -(-n_factors // LANES) * LANES


class _Places(NamedTuple):
    """Where the numbers of an entry begin."""

    a: int  # in scratch: cavities of the row
    b: int  # of the column
    moved: int  # sums of the changes of messages to the row
    messages: int  # in the messages of the block
    column: np.int64  # in the beliefs and sums of columns


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _moved(
    claim: Vector, cavity: Vector, messages: Any, at: int, damping: Damping, real: Any
) -> Vector:
    """Update 16 messages towards (claim + cavity)₊ − (cavity)₊, damped.

    `real`, unless it is None, is a mask of the lanes that are factors; the others stay as they are.
    Returns the changes.
    """
    zero = splat(_i16(0))
    old = as_int16(load(messages, at))
    gap = to_variable(claim, cavity) - old
    change = damped(gap, damping.steps, damping.up, damping.down)
    if real is not None:
        change = where(real, change, zero)
    store(messages, at, as_uint8(old + change))
    return change


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _send(
    k: int, claim: Vector, own: Any, at: _Places, sent: Messages, columns: Variables,
    damping: Damping, real: Any, change: tuple[Vector, Vector],
) -> tuple[Vector, Vector]:  # fmt: skip
    """Update the messages of one entry for 16 factors, beginning with k, and add up their changes.

    Returns the largest and the smallest changes so far.
    """
    to_row = _moved(claim, load(own, at.b + k), sent.to_row, at.messages + k, damping, real)
    store(own, at.moved + k, load(own, at.moved + k) + to_row)
    to_column = _moved(claim, load(own, at.a + k), sent.to_column, at.messages + k, damping, real)
    place = at.column + k
    store(columns.sums, place, load(columns.sums, place) + to_column)
    return (
        maximum(change[0], maximum(to_row, to_column)),
        minimum(change[1], minimum(to_row, to_column)),
    )


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _empty(n: Any, of_column: Any, n_factors: int, sums: Any, wide: Any) -> None:
    """Move the sums of a column, which begin at `of_column`, to the wide ones."""
    for k in range(n_factors):
        wide[n * n_factors + k] += sums[of_column + k]
        sums[of_column + k] = _i16(0)


@njit(nogil=True, cache=True, error_model="numpy")
def max_sum_of_ones(
    block: Block, rows: Variables, columns: Variables, wide: Wide, messages: Messages,
    resting: Array, bound: int, damping: Damping, scratch: Integers,
) -> float:  # fmt: skip
    """Do one iteration of max-sum with OR over a sparse block of rows whose entries are all ones.

    `bound` is L in units; messages are ((entries + 1) · K,) uint8, K ≥ 16. The sums of columns have
    16 bits; those that become full are moved to `wide`. The rest is as in
    `integer_max_sum.max_sum`. Returns the largest change relative to L.
    """
    n_factors, n_entries = rows.stride, block.codes.shape[0]
    size = -(-n_factors // LANES) * LANES
    x, a, b, both, moved = 0, size, 2 * size, 3 * size, 4 * size  # in `scratch`
    of_rows, of_columns = pointer(rows), pointer(columns)
    sent, own, full = pointer(messages), pointer(scratch), pointer(wide)
    zero, never, top = splat(_i16(0)), splat(_i16(_NEVER)), splat(_i16(bound))
    is_one = zero == zero
    by = Damping(splat(_i16(damping.steps)), splat(_i16(damping.up)), damping.down)
    last = size - LANES  # the last vector may have fewer factors than lanes
    for k in range(LANES):
        own[k] = _i16(last + k < n_factors)
    is_factor = load(own, 0) > zero
    overall, row = _i16(0), _i64(0)
    for c in range(resting.shape[0]):
        start, stop = c * GROUPS * LANES, min(n_entries, (c + 1) * GROUPS * LANES)
        while block.indptr[row + 1] <= start:
            row += 1
        if resting[c] and is_unchanged(block, rows, columns, c * GROUPS, (c + 1) * GROUPS, row):
            continue
        change, n_added, end = (zero, zero), 0, start
        for i in range(start, stop):
            if i == end:  # the first entry of a row
                while block.indptr[row + 1] <= i:
                    row += 1
                end = min(stop, block.indptr[row + 1])
                for k in range(0, size, LANES):
                    store(own, x + k, load(of_rows.beliefs, row * n_factors + k))
                    store(own, moved + k, zero)
                store(own, x + last, where(is_factor, load(own, x + last), never))
            n = _i64(block.columns[i])
            at, of_column = i * n_factors, n * columns.stride
            if i + _COLUMNS_AHEAD < n_entries:
                ahead = _i64(block.columns[i + _COLUMNS_AHEAD]) * columns.stride
                for k in range(0, n_factors, _LINE // 2):
                    prefetch(of_columns.beliefs, ahead + k)
                    prefetch(of_columns.sums, ahead + k)
            for k in range(0, n_factors, _LINE):
                prefetch(sent.to_row, at + _AHEAD * n_factors + k)
                prefetch(sent.to_column, at + _AHEAD * n_factors + k)
            terms = no_terms(None, top, is_one)
            for k in range(0, size, LANES):
                to_row = load(own, x + k) - as_int16(load(sent.to_row, at + k))
                to_column = load(of_columns.beliefs, of_column + k) - as_int16(
                    load(sent.to_column, at + k)
                )
                term = to_term(to_row, to_column)
                terms = with_term(None, terms, term, top)
                store(own, a + k, to_row)
                store(own, b + k, to_column)
                store(own, both + k, term)
            first, second = two_largest(terms[0], terms[1])
            claims = claims_of(None, (splat(first), splat(second), zero), top, is_one)
            places = _Places(a, b, moved, at, of_column)
            for k in range(0, last, LANES):
                claim = to_term_of_one(claims, load(own, both + k))
                change = _send(k, claim, own, places, sent, of_columns, by, None, change)
            claim = to_term_of_one(claims, load(own, both + last))
            change = _send(last, claim, own, places, sent, of_columns, by, is_factor, change)
            full.counts[n] += 1
            if full.counts[n] == full.most:
                _empty(n, of_column, n_factors, of_columns.sums, full.sums)
                full.counts[n] = 0
            n_added += 1
            if i + 1 == end or n_added == _RUN:
                for k in range(0, size, LANES):
                    place = row * n_factors + k
                    total = load(of_rows.sums, place) + widened(load(own, moved + k), rows.sums)
                    store(of_rows.sums, place, total)
                    store(own, moved + k, zero)
                n_added = 0
        moved_by = largest(maximum(change[0], zero - change[1]))
        resting[c] = moved_by == 0
        overall = max(overall, moved_by)
    return overall / bound
