"""The messages of all zeros of a row at once, in whole steps.

Beliefs are whole numbers of steps, (n, stride), where the stride is K rounded up to a multiple of
16; the padding after the last factor is the lowest belief. They have 8 bits in max-sum, where they
are within ±127, and 16 bits in sum-product. The message of a zero to its row depends only on the
sum of the belief of its column and the message of the row to all zeros: see
`boolweave.engine.zeros.collective`. The kernels here count beliefs, which determines the sum over
all cells of a row, and add up the messages that listed cells would send if they were such zeros.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from boolweave.engine.kernels.groups import arrays_apart
from boolweave.engine.kernels.jit import njit
from boolweave.engine.kernels.vectors import (
    LANES,
    as_int16,
    as_int32,
    largest,
    load,
    lowest_bit,
    mask_bits,
    maximum,
    minimum,
    narrowed,
    pointer,
    prefetch_to_read,
    splat,
    store,
    where,
    widened,
)
from boolweave.runtime.types import Array, Floats, Integers

# Lists of cells by rows: where the cells of each row begin, and their columns. All arrays are
# read-only, so that all lists have one type.
Lists: TypeAlias = tuple[tuple[Integers, Integers], ...]

# Number of cells of a row whose messages, of at most 127, are added up in 16 bits.
_RUN = 256

# Number of bytes in a cache line, and number of cells by which beliefs are prefetched.
_LINE = 64
_AHEAD = 16

# 3 · 2²²: the floats around it are whole numbers.
_ROUND = np.float32(12582912.0)

_i16 = np.int16
_i64 = np.int64
_u64 = np.uint64


@njit(nogil=True, cache=True, error_model="numpy")
def quantise(
    beliefs: Floats, per_odds: np.float32, low: np.float32, high: np.float32, out: Integers,
    counts: Integers,
) -> np.int16:  # fmt: skip
    """Round beliefs (n, K) to whole steps within [low, high]; out (n, stride).

    The number of beliefs of factor k that are low + v, for v > 0, is added to counts[k, v],
    (K, levels) int64. Returns the largest change of the positive part of a belief, which is what a
    variable sends to zeros.
    """
    n, K = beliefs.shape
    stride = out.shape[1]
    flat = beliefs.reshape(-1)
    odds, steps = pointer(flat), pointer(out.reshape(-1))
    behind, is_factor = np.zeros(LANES, np.float32), np.zeros(LANES, np.int16)
    is_factor[: K - (stride - LANES)] = 1  # the last vector of a row may have fewer factors
    zero, lowest = splat(_i16(0)), splat(_i16(low))
    real, last, change = load(pointer(is_factor), 0) > zero, stride - LANES, zero
    for i in range(n):
        for first in range(0, stride, LANES):
            at = i * K + first
            if at + LANES <= flat.shape[0]:
                value = load(odds, at)
            else:  # a vector would reach beyond the last row
                behind[: flat.shape[0] - at] = flat[at:]
                value = load(pointer(behind), 0)
            value = minimum(maximum(value * splat(per_odds), splat(low)), splat(high))
            # Adding this number rounds to whole numbers, and halves to even ones.
            rounded = as_int16(as_int32((value + splat(_ROUND)) - splat(_ROUND)))
            if first == last:
                rounded = where(real, rounded, lowest)
            before = as_int16(load(steps, i * stride + first))
            moved = maximum(rounded, zero) - maximum(before, zero)
            change = maximum(change, maximum(moved, zero - moved))
            store(steps, i * stride + first, narrowed(rounded, out))
            above = _u64(mask_bits(rounded > lowest))
            while above:
                k = first + lowest_bit(above)
                above &= above - _u64(1)
                counts[k, out[i, k] - _i16(low)] += 1
    return largest(change)


@njit(nogil=True, cache=True, error_model="numpy")
def clipped_sums(counts: Integers, out: Integers) -> None:
    """out[k, t] = Σ over beliefs v of (v + t) clipped to 0 … T, for t = 0 … T.

    counts (K, 2T + 1) is the number of times each belief from −T to T occurs; out is (K, T + 1)
    int64. From t to t + 1, the sum grows by the number of beliefs from −t to T − t − 1.
    """
    most = out.shape[1] - 1
    for k in range(counts.shape[0]):
        total, growth = _i64(0), _i64(0)
        for v in range(most):
            total += v * counts[k, most + v]
            growth += counts[k, most + v]
        out[k, 0] = total + most * counts[k, 2 * most]
        for t in range(most):
            out[k, t + 1] = out[k, t] + growth
            growth += counts[k, most - t - 1] - counts[k, 2 * most - t - 1]


class Damped(NamedTuple):
    """Sums of zeros that are damped towards new ones, and what follows for beliefs."""

    kept: float  # fraction of the old sums that is kept
    share: float  # log-odds of a unit of the new sums, times the damping factor
    none: Floats  # (K,) what all zeros send, in units, to a variable that is certainly 0
    sums: Floats  # (n, K), updated
    after: Floats  # (n, K), an output: the new sums plus the field, if there is one


def scratch_for(n_factors: int, kind: type[np.signedinteger]) -> tuple[Array, Array]:
    """Make scratch arrays for one row of K factors: its messages to zeros, and sums of a type."""
    size = -(-n_factors // LANES) * LANES
    to_zeros, totals = arrays_apart([(size, np.int16), (size, kind)])
    return to_zeros, totals


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _flat(damped: Damped) -> Any:
    """Pointers to the arrays: numba counts references to arrays that are passed to functions."""
    sums, after = damped.sums.reshape(-1), damped.after.reshape(-1)
    return pointer(Damped(damped.kept, damped.share, damped.none, sums, after))


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _damp(
    first: int, n_factors: int, totals: Any, first_total: int, damped: Any, field: Any
) -> None:
    """sums ← kept · sums + share · (totals − none); after = sums + field.

    All arrays are flat: the K numbers begin at `first`, and those of `totals` at `first_total`.
    """
    for k in range(n_factors):
        more = damped.share * (totals[first_total + k] - damped.none[k])
        damped.sums[first + k] = np.float32(damped.kept * damped.sums[first + k] + more)
    for k in range(n_factors):
        if field is None:
            damped.after[first + k] = damped.sums[first + k]
        else:
            damped.after[first + k] = damped.sums[first + k] + field[first + k]


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _add_listed(
    m: int, n: int, lists: Any, others: Any, stride: int, own: Any, bound: int, sums: Any
) -> None:
    """sums[k] += Σ min(max(others[i, k] + own[k], 0), bound) over the listed cells (m, i), m < n.

    All arrays are pointers, because numba counts references to arrays; own is (stride,) int16.
    """
    zero, top = splat(_i16(0)), splat(_i16(bound))
    for indptr, numbers in lists:
        last, behind = indptr[m + 1], indptr[n]
        for start in range(indptr[m], last, _RUN):
            stop = min(last, start + _RUN)
            for i in range(start, stop):
                ahead = _i64(numbers[min(i + _AHEAD, behind - 1)]) * stride
                for line in range(0, stride, _LINE):
                    prefetch_to_read(others, ahead + line)
            for k in range(0, stride, 2 * LANES):
                shift, run = load(own, k), zero
                if k + LANES < stride:  # two vectors at a time
                    next_shift, next_run = load(own, k + LANES), zero
                    for i in range(start, stop):
                        at = _i64(numbers[i]) * stride + k
                        run = run + minimum(maximum(as_int16(load(others, at)) + shift, zero), top)
                        next_run = next_run + minimum(
                            maximum(as_int16(load(others, at + LANES)) + next_shift, zero), top
                        )
                    store(sums, k + LANES, load(sums, k + LANES) + widened(next_run, sums))
                else:
                    for i in range(start, stop):
                        at = _i64(numbers[i]) * stride + k
                        run = run + minimum(maximum(as_int16(load(others, at)) + shift, zero), top)
                store(sums, k, load(sums, k) + widened(run, sums))


@njit(nogil=True, cache=True, error_model="numpy")
def add_clipped(
    lists: Lists, own: Integers, others: Integers, bound: int, scratch: tuple[Array, Array],
    out: Integers,
) -> None:  # fmt: skip
    """Add up what listed cells would send to rows or columns if they were zeros, in max-sum.

    With clip(v) = min(max(v, 0), bound), out[m, k] = Σₙ clip(others[n, k] + (own[m, k])₊) over the
    listed cells (m, n). own (m, stride) and others (n, stride) are int8, bound ≤ 127; out is
    (m, K).
    """
    stride, n_factors = own.shape[1], out.shape[1]
    x, y = pointer(own.reshape(-1)), pointer(others.reshape(-1))
    to_zeros, totals = scratch
    shifts, sums, listed = pointer(to_zeros), pointer(totals), pointer(lists)
    zero = splat(_i16(0))
    for m in range(own.shape[0]):
        for first in range(0, stride, LANES):
            store(shifts, first, maximum(as_int16(load(x, m * stride + first)), zero))
        totals[:] = 0
        _add_listed(m, own.shape[0], listed, y, stride, shifts, bound, sums)
        for k in range(n_factors):
            out[m, k] = totals[k]


@njit(nogil=True, cache=True, error_model="numpy")
def max_sum_to_rows(
    lists: Lists, rows: Integers, columns: Integers, bound: int, beyond: Integers, damped: Damped,
    scratch: tuple[Array, Array], field: Floats | None,
) -> None:  # fmt: skip
    """Damp the sums of zeros of some rows towards those that follow from beliefs, in max-sum.

    Listed cells are not among these zeros: what they would send (see `add_clipped`) is subtracted.
    rows (n, stride) and columns (N, stride) are int8; bound ≤ 127. beyond (K, bound + 1) is what
    zeros send to a row with a belief t ≥ 0, in addition to what they send at t = 0.
    """
    stride, n_factors = rows.shape[1], damped.sums.shape[1]
    x, y = pointer(rows.reshape(-1)), pointer(columns.reshape(-1))
    target, more = _flat(damped), None if field is None else pointer(field.reshape(-1))
    to_zeros, totals = scratch
    shifts, sums, listed = pointer(to_zeros), pointer(totals), pointer(lists)
    zero = splat(_i16(0))
    for m in range(rows.shape[0]):
        for first in range(0, stride, LANES):
            store(shifts, first, maximum(as_int16(load(x, m * stride + first)), zero))
        totals[:] = 0
        _add_listed(m, rows.shape[0], listed, y, stride, shifts, bound, sums)
        for first in range(0, stride, LANES):
            above = _u64(mask_bits(load(shifts, first) > zero))
            while above:
                k = first + lowest_bit(above)
                above &= above - _u64(1)
                totals[k] -= beyond[k, rows[m, k]]
        _damp(m * n_factors, n_factors, sums, 0, target, more)


@njit(nogil=True, cache=True, error_model="numpy")
def max_sum_to_columns(
    columns: Integers, listed: Integers, beyond: Integers, damped: Damped, field: Floats | None
) -> None:
    """Damp the sums of zeros of some columns towards those that follow from beliefs, in max-sum.

    columns is (n, stride) int8. listed (n, K) is what listed cells would send to them; it is
    overwritten. beyond is as in `max_sum_to_rows`.
    """
    stride, n_factors = columns.shape[1], listed.shape[1]
    y, zero, totals = pointer(columns.reshape(-1)), splat(_i16(0)), pointer(listed.reshape(-1))
    target, more = _flat(damped), None if field is None else pointer(field.reshape(-1))
    for n in range(columns.shape[0]):
        for first in range(0, stride, LANES):
            above = _u64(mask_bits(as_int16(load(y, n * stride + first)) > zero))
            while above:
                k = first + lowest_bit(above)
                above &= above - _u64(1)
                listed[n, k] -= beyond[k, columns[n, k]]
        _damp(n * n_factors, n_factors, totals, n * n_factors, target, more)


@njit(nogil=True, cache=True, error_model="numpy")
def add_looked_up(
    indptr: Integers, numbers: Integers, own: Integers, others: Integers, low: int,
    to_zeros: Integers, from_zeros: Integers, out: Integers,
) -> None:  # fmt: skip
    """Add what listed cells of some rows or columns would send to them, in sum-product.

    out[m, k] += Σₙ from_zeros[others[n, k] + to_zeros[own[m, k]]] over the cells (m, n). The two
    tables, int64, are indexed by a belief, or by the sum, minus the lowest belief, `low`. own is
    (m, stride), others (n, stride), indptr (m + 1,), numbers (cells,), and out (m, K).
    """
    n_factors = out.shape[1]
    shift = np.empty(n_factors, _i64)
    for m in range(indptr.shape[0] - 1):
        if indptr[m] == indptr[m + 1]:
            continue
        for k in range(n_factors):
            shift[k] = to_zeros[own[m, k] - low] - low
        for i in range(indptr[m], indptr[m + 1]):
            n = _i64(numbers[i])
            for k in range(n_factors):
                out[m, k] += from_zeros[others[n, k] + shift[k]]


@njit(nogil=True, cache=True, error_model="numpy")
def interpolated_sums(
    own: Integers, low: int, at: Integers, part: Floats, table: Floats, listed: Integers,
    out: Floats,
) -> None:  # fmt: skip
    """out[m, k] = listed[m, k] − (F − table[k, 0]), where F is interpolated in table[k].

    F is between the values number at[v] and at[v] + 1, where v = own[m, k] − low; part[v] is 0 at
    the first and 1 at the second. own is (n, stride), table (K, values), listed and out (n, K).
    """
    for m in range(out.shape[0]):
        for k in range(out.shape[1]):
            v = own[m, k] - low
            i = at[v]
            total = table[k, i] + part[v] * (table[k, i + 1] - table[k, i])
            out[m, k] = listed[m, k] - (total - table[k, 0])


@njit(nogil=True, cache=True, error_model="numpy")
def damp_sums(totals: Array, damped: Damped, field: Floats | None) -> None:
    """Damp the sums of zeros of some rows or columns towards `totals`, (n, K)."""
    n_factors, sums = totals.shape[1], pointer(totals.reshape(-1))
    target, more = _flat(damped), None if field is None else pointer(field.reshape(-1))
    for m in range(totals.shape[0]):
        _damp(m * n_factors, n_factors, sums, m * n_factors, target, more)
