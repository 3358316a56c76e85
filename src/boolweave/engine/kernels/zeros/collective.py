"""What all zeros of a row send at once, in whole steps.

Beliefs are whole numbers of steps, (n, stride) int16, a stride being a multiple of 16; what is
beyond the last factor is below every belief. What a zero sends to a row, given the belief of its
column and what the row has told it, is a function of the sum of the two: see
`boolweave.engine.zeros.collective`. Here it is added up over listed cells, which are no such zeros,
and beliefs are counted, from which the sum over all cells follows.
"""

from typing import NamedTuple

import numpy as np

from boolweave.engine.kernels.jit import njit
from boolweave.engine.kernels.vectors import LANES, load, mask_bits, pointer, splat
from boolweave.runtime.types import Array, Floats, Integers

_i16 = np.int16
_i64 = np.int64
_u32 = np.uint32


class Positive(NamedTuple):
    """Beliefs above 0, by row or column: without one of these a zero in max-sum sends nothing."""

    starts: Integers  # (n + 1,) int64
    packed: Integers  # (beliefs,) int32: factor · 256 + belief in steps, one cache line for both


@njit(nogil=True, cache=True, error_model="numpy")
def quantise(
    beliefs: Floats, per_odds: np.float32, low: np.float32, high: np.float32, out: Integers,
    counts: Integers, positive: Integers,
) -> np.int16:  # fmt: skip
    """Turn beliefs (n, K) into whole steps within [low, high]; out (n, stride) int16.

    Added to counts[k, v], (K, levels) int64: how many beliefs of factor k are low + v, v above 0.
    positive (n,) int64: how many beliefs of each are above 0. Returns the largest change of what
    was there, as far as it is above 0: what the variable tells zeros.
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
        n_positive = _i64(0)
        for first in range(0, stride, LANES):
            values = load(steps, i * stride + first)
            above = mask_bits(values > lowest)
            if above:
                for j in range(LANES):
                    if (above >> j) & 1:
                        value = out[i, first + j]
                        counts[first + j, value - _i16(low)] += 1
                        n_positive += _i64(value > 0)
        positive[i] = n_positive
    return change


@njit(nogil=True, cache=True, error_model="numpy")
def list_positive(beliefs: Integers, first_row: int, out: Positive) -> None:
    """Write the beliefs (n, stride) above 0 to `out`: those of row first_row and of the next.

    The starts are there already.
    """
    stride = beliefs.shape[1]
    steps, none = pointer(beliefs.reshape(-1)), splat(_i16(0))
    for i in range(beliefs.shape[0]):
        at = out.starts[first_row + i]
        if at == out.starts[first_row + i + 1]:
            continue
        for first in range(0, stride, LANES):
            above = mask_bits(load(steps, i * stride + first) > none)
            if above:
                for j in range(LANES):
                    if (above >> j) & 1:
                        out.packed[at] = (first + j) * 256 + beliefs[i, first + j]
                        at += 1


@njit(nogil=True, cache=True, error_model="numpy")
def add_clipped(
    indptr: Integers, columns: Integers, first_row: int, rows: Integers, of_rows: Positive,
    others: Integers, of_columns: Positive, bound: int, to_rows: Array, to_columns: Array,
) -> None:  # fmt: skip
    """Add what the listed cells of some rows would send to both sides if they were zeros.

    to_rows[m, k] += Σₙ clip(others[n, k] + (rows[m, k])₊), and to_columns[n, k] likewise with both
    exchanged; values are clipped to 0 … bound. Both are 0 unless one of the two beliefs is above 0,
    so that only these are looked at. The rows are those from `first_row` on, (rows, stride); others
    (N, stride); indptr (rows + 1,), columns (cells,); to_rows (rows, K), to_columns (N, K).
    """
    for m in range(indptr.shape[0] - 1):
        begin, end = of_rows.starts[first_row + m], of_rows.starts[first_row + m + 1]
        for i in range(indptr[m], indptr[m + 1]):
            n = _u32(columns[i])
            for j in range(begin, end):
                k, x = _u32(of_rows.packed[j] >> 8), of_rows.packed[j] & 255
                y = others[n, k]
                sent = min(x + y, bound)
                if sent > 0:
                    to_rows[m, k] += sent
                to_columns[n, k] += sent if y > 0 else x
            for j in range(of_columns.starts[n], of_columns.starts[n + 1]):
                k, y = _u32(of_columns.packed[j] >> 8), of_columns.packed[j] & 255
                x = rows[m, k]
                if x <= 0:
                    to_rows[m, k] += y
                    if x + y > 0:  # hardly ever, and the place is far away
                        to_columns[n, k] += x + y


@njit(nogil=True, cache=True, error_model="numpy")
def add_looked_up(
    indptr: Integers, columns: Integers, rows: Integers, others: Integers, low: int, told: Integers,
    sent: Integers, to_rows: Integers, to_columns: Integers,
) -> None:  # fmt: skip
    """As `add_clipped`, to_rows[m, k] += Σₙ sent[others[n, k] + told[rows[m, k]]].

    told and sent, int64, are tables whose index is a belief less the lowest one, `low`; sent has
    room for the sum.
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
def add_beyond_first(first_row: int, positive: Positive, table: Integers, out: Array) -> None:
    """out[m, k] −= table[k, t] − table[k, 0] for the beliefs t above 0 of some rows, (rows, K)."""
    for m in range(out.shape[0]):
        for j in range(positive.starts[first_row + m], positive.starts[first_row + m + 1]):
            k, t = positive.packed[j] >> 8, positive.packed[j] & 255
            out[m, k] -= table[k, t] - table[k, 0]


@njit(nogil=True, cache=True, error_model="numpy")
def add_between(
    own: Integers, low: int, at: Integers, part: Floats, table: Floats, listed: Integers,
    out: Floats,
) -> None:  # fmt: skip
    """out[m, k] = listed[m, k] − (F − table[k, 0]), F being table[k] between two of its values.

    These are the one at[v] and the next, v being own[m, k] − low; part[v] is how far: 0 at the
    first, 1 at the second. own (n, stride); table (K, values); listed, out (n, K).
    """
    for m in range(out.shape[0]):
        for k in range(out.shape[1]):
            v = own[m, k] - low
            i = at[v]
            total = table[k, i] + part[v] * (table[k, i + 1] - table[k, i])
            out[m, k] = listed[m, k] - (total - table[k, 0])


@njit(nogil=True, cache=True, error_model="numpy")
def damp_towards(
    listed: Array, first: Floats, damping: float, unit: float, field: Floats | None, out: Floats,
    after: Floats,
) -> None:  # fmt: skip
    """out[m, k] ← (1 − damping)·out[m, k] + damping·unit·(listed[m, k] − first[k]).

    after[m, k] = out[m, k] + field[m, k]. first (K,); all others (n, K).
    """
    kept, share = 1.0 - damping, damping * unit
    for m in range(out.shape[0]):
        for k in range(out.shape[1]):
            out[m, k] = kept * out[m, k] + share * (listed[m, k] - first[k])
        for k in range(out.shape[1]):
            if field is None:
                after[m, k] = out[m, k]
            else:
                after[m, k] = out[m, k] + field[m, k]
