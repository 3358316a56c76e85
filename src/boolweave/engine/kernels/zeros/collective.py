"""What all zeros of a row send at once, in whole steps.

Beliefs are whole numbers of steps, (n, stride) int16, where the stride is K rounded up to a
multiple of 16; the numbers behind the last factor are below every belief. What a zero sends to its
row, given the belief of its column and what the row tells it, depends only on the sum of the two:
see `boolweave.engine.zeros.collective`. The kernels here count beliefs, from which the sum over all
cells of a row follows, and add up what listed cells would send, which are not collective zeros.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from boolweave.engine.kernels.groups import arrays_apart
from boolweave.engine.kernels.jit import njit
from boolweave.engine.kernels.vectors import (
    LANES,
    as_int16,
    load,
    mask_bits,
    maximum,
    minimum,
    pointer,
    prefetch,
    prefetch_to_read,
    splat,
    store,
)
from boolweave.runtime.types import Array, Floats, Integers

# Lists of cells by rows: where the cells of each row begin, and their columns. All arrays are
# read-only, so that all lists have one type.
Lists: TypeAlias = tuple[tuple[Integers, Integers], ...]

# Cells of a row whose messages of at most 127 are added up in 16 bits.
_RUN = 256

# Bytes in a cache line, and by how many cells the beliefs of columns are prefetched.
_LINE = 64
_AHEAD = 4

_i16 = np.int16
_i64 = np.int64


@njit(nogil=True, cache=True, error_model="numpy")
def quantise(
    beliefs: Floats, per_odds: np.float32, low: np.float32, high: np.float32, out: Integers,
    counts: Integers,
) -> np.int16:  # fmt: skip
    """Round beliefs (n, K) to whole steps within [low, high]; out (n, stride) int16.

    Added to counts[k, v], (K, levels) int64: how many beliefs of factor k are low + v, for v > 0.
    Returns the largest change of the positive part of a belief, which is what a variable tells
    zeros.
    """
    n, K = beliefs.shape
    stride = out.shape[1]
    steps = pointer(out.reshape(-1))
    change, lowest = _i16(0), splat(_i16(low))
    for i in range(n):
        for k in range(K):
            odds = beliefs[i, k] * per_odds
            odds = low if odds < low else odds
            odds = high if odds > high else odds
            value = _i16(np.rint(odds))
            before = out[i, k]
            told = value if value > 0 else _i16(0)
            told_before = before if before > 0 else _i16(0)
            moved = told - told_before if told > told_before else told_before - told
            change = moved if moved > change else change
            out[i, k] = value
        for first in range(0, stride, LANES):
            values = load(steps, i * stride + first)
            above = mask_bits(values > lowest)
            if above:
                for j in range(LANES):
                    if (above >> j) & 1:
                        value = out[i, first + j]
                        counts[first + j, value - _i16(low)] += 1
    return change


class Damped(NamedTuple):
    """Sums of zeros that are damped towards new ones, and the beliefs that follow."""

    kept: float  # share of the old sums that is kept
    share: float  # log-odds of a unit of the new sums, times their share
    none: Floats  # (K,) what zeros send, in units, to a variable that is surely 0
    sums: Floats  # (n, K), replaced
    after: Floats  # (n, K): the new sums plus the field, if there is one


def scratch_for(n_factors: int, kind: type[np.signedinteger]) -> tuple[Array, ...]:
    """Scratch arrays for one row of K factors, with sums of some type."""
    size = -(-n_factors // LANES) * LANES
    wanted: list[tuple[int, Any]] = [(size, np.int16)] * 2 + [(size, kind)] + [(size, np.int64)] * 2
    return tuple(arrays_apart(wanted))


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _damp(m: int, totals: Integers, damped: Damped, field: Floats | None) -> None:
    """sums[m] ← kept · sums[m] + share · (totals − none); after[m] = sums[m] + field[m]."""
    sums, n_factors = damped.sums, damped.sums.shape[1]
    for k in range(n_factors):
        sums[m, k] = damped.kept * sums[m, k] + damped.share * (totals[k] - damped.none[k])
    for k in range(n_factors):
        if field is None:
            damped.after[m, k] = sums[m, k]
        else:
            damped.after[m, k] = sums[m, k] + field[m, k]


@njit(nogil=True, cache=True, error_model="numpy")
def max_sum_to_rows(
    lists: Lists, rows: Integers, columns: Integers, bound: int, beyond: Integers, damped: Damped,
    to_columns: Integers, scratch: tuple[Array, ...], field: Floats | None,
) -> None:  # fmt: skip
    """Damp the sums of zeros of some rows towards those of these beliefs, in max-sum.

    Listed cells are not among these zeros: what they would send is taken back. With clip(v) =
    min(max(v, 0), bound), cell (m, n) would send clip(columns[n] + (rows[m])₊) to its row, and
    clip(rows[m] + (columns[n])₊) to its column, which is added to `to_columns`, (N, K).

    rows (n, stride) int16; columns (N, stride) int8; bound ≤ 127. beyond (K, bound + 1): what zeros
    send to a row with a belief t ≥ 0, in addition to what they send at t = 0. scratch is from
    `scratch_for`.
    """
    stride, n_factors = rows.shape[1], to_columns.shape[1]
    x, y = pointer(rows.reshape(-1)), pointer(columns.reshape(-1))
    sent_to_columns = pointer(to_columns.reshape(-1))
    told, in_run, totals, raised, beliefs = scratch
    own, run = pointer(told), pointer(in_run)
    zero, top, lowest = splat(_i16(0)), splat(_i16(bound)), splat(_i16(-bound))
    for m in range(rows.shape[0]):
        n_raised = 0  # factors whose belief is above −bound: others send nothing to columns
        for first in range(0, stride, LANES):
            belief = load(x, m * stride + first)
            store(own, first, maximum(belief, zero))
            store(run, first, zero)
            above = mask_bits(belief > lowest)
            if above:
                for j in range(LANES):
                    if (above >> j) & 1:
                        raised[n_raised] = first + j
                        beliefs[n_raised] = rows[m, first + j]
                        n_raised += 1
        totals[:] = 0
        in_this_run = 0
        for indptr, numbers in lists:
            for i in range(indptr[m], indptr[m + 1]):
                ahead = _i64(numbers[min(i + _AHEAD, numbers.shape[0] - 1)])
                for first in range(0, stride, _LINE):
                    prefetch_to_read(y, ahead * stride + first)
                n = _i64(numbers[i])
                for first in range(0, stride, LANES):
                    belief = as_int16(load(y, n * stride + first)) + load(own, first)
                    sent = minimum(maximum(belief, zero), top)
                    store(run, first, load(run, first) + sent)
                for j in range(n_raised):
                    k = raised[j]
                    prefetch(sent_to_columns, ahead * n_factors + k)
                    to_column = min(beliefs[j] + max(_i64(columns[n, k]), 0), bound)
                    if to_column > 0:
                        to_columns[n, k] += to_column
                in_this_run += 1
                if in_this_run == _RUN:
                    for k in range(stride):
                        totals[k] += in_run[k]
                        in_run[k] = 0
                    in_this_run = 0
        for k in range(stride):
            totals[k] += in_run[k]
        for j in range(n_raised):
            if beliefs[j] > 0:
                totals[raised[j]] -= beyond[raised[j], beliefs[j]]
        _damp(m, totals, damped, field)


@njit(nogil=True, cache=True, error_model="numpy")
def max_sum_to_columns(
    columns: Integers, listed: Integers, beyond: Integers, damped: Damped, field: Floats | None
) -> None:
    """Damp the sums of zeros of some columns towards those of these beliefs, in max-sum.

    columns (n, stride) int16. listed (n, K): what listed cells would send to them; it is
    overwritten. beyond is as in `max_sum_to_rows`.
    """
    stride = columns.shape[1]
    y, zero = pointer(columns.reshape(-1)), splat(_i16(0))
    for n in range(columns.shape[0]):
        for first in range(0, stride, LANES):
            above = mask_bits(load(y, n * stride + first) > zero)
            if above:
                for j in range(LANES):
                    if (above >> j) & 1:
                        k = first + j
                        listed[n, k] -= beyond[k, columns[n, k]]
        _damp(n, listed[n], damped, field)


@njit(nogil=True, cache=True, error_model="numpy")
def add_looked_up(
    indptr: Integers, columns: Integers, rows: Integers, others: Integers, low: int, told: Integers,
    sent: Integers, to_rows: Integers, to_columns: Integers,
) -> None:  # fmt: skip
    """Add what the listed cells of some rows would send to both sides, in sum-product.

    to_rows[m, k] += Σₙ sent[others[n, k] + told[rows[m, k]]], and to_columns[n, k] likewise with
    both exchanged. told and sent, int64, are tables whose index is a belief minus the lowest one,
    `low`; sent has room for the sum. rows (n, stride), others (N, stride); indptr (n + 1,), columns
    (cells,); to_rows (n, K), to_columns (N, K).
    """
    n_factors = to_rows.shape[1]
    shift = np.empty(n_factors, _i64)
    for m in range(indptr.shape[0] - 1):
        if indptr[m] == indptr[m + 1]:
            continue
        for k in range(n_factors):
            shift[k] = told[rows[m, k] - low] - low
        for i in range(indptr[m], indptr[m + 1]):
            n = _i64(columns[i])
            for k in range(n_factors):
                to_rows[m, k] += sent[others[n, k] + shift[k]]
                to_columns[n, k] += sent[rows[m, k] + told[others[n, k] - low] - low]


@njit(nogil=True, cache=True, error_model="numpy")
def sums_between(
    own: Integers, low: int, at: Integers, part: Floats, table: Floats, listed: Integers,
    out: Floats,
) -> None:  # fmt: skip
    """out[m, k] = listed[m, k] − (F − table[k, 0]), where F is interpolated in table[k].

    F lies between the values number at[v] and at[v] + 1, where v = own[m, k] − low; part[v] is how
    far: 0 at the first, 1 at the second. own (n, stride); table (K, values); listed, out (n, K).
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
    for m in range(totals.shape[0]):
        _damp(m, totals[m], damped, field)
