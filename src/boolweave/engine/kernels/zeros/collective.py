"""What all zeros of a row send at once, in whole steps.

Beliefs are whole numbers of steps, (n, stride) int16, a stride being a multiple of 16. What a zero
sends to a row, given the belief of its column and what the row has told it, is a function of the
sum of the two: see `boolweave.engine.zeros.collective`. Here it is added up over listed cells,
which are no such zeros, and beliefs are counted, from which the sum over all cells follows.
"""

from typing import Any, NamedTuple

import numpy as np

from boolweave.engine.kernels.jit import njit
from boolweave.engine.kernels.vectors import (
    LANES,
    load,
    maximum,
    minimum,
    pointer,
    splat,
    store,
    widened,
)
from boolweave.runtime.types import Array, Floats, Integers

# Entries whose sums of 16 bits are added up before they go to sums of 32 bits: 255 · 128 < 2¹⁵.
RUN = 128

_i16 = np.int16
_i64 = np.int64


class Alive(NamedTuple):
    """Beliefs above the lowest, by row or column: only these let a zero send something."""

    starts: Integers  # (n + 1,) int64
    factors: Integers  # (beliefs,) int32
    values: Integers  # (beliefs,) int16, in steps


@njit(nogil=True, cache=True, error_model="numpy")
def quantise(
    beliefs: Floats, per_odds: np.float32, low: np.float32, high: np.float32, out: Integers,
    counts: Integers, alive: Integers,
) -> float:  # fmt: skip
    """Turn beliefs (n, K) into whole steps within [low, high]; out (n, stride) int16.

    Added to counts[k, v], (K, levels) int64: how many beliefs of factor k are low + v, v above 0.
    alive (n,) int64: how many beliefs of each are above the lowest. Returns the largest change of
    what was there, as far as it is above 0: what the variable tells zeros.
    """
    n, K = beliefs.shape
    change, lowest = 0, _i16(low)
    for i in range(n):
        for k in range(K):
            value = _i16(np.rint(min(max(beliefs[i, k] * per_odds, low), high)))
            change = max(change, abs(max(value, _i16(0)) - max(out[i, k], _i16(0))))
            out[i, k] = value
        n_alive = _i64(0)
        for k in range(K):
            n_alive += _i64(out[i, k] > lowest)
        alive[i] = n_alive
        if n_alive:
            for k in range(K):
                if out[i, k] > lowest:
                    counts[k, out[i, k] - lowest] += 1
    return change


@njit(nogil=True, cache=True, error_model="numpy")
def list_alive(beliefs: Integers, low: int, n_factors: int, first: int, out: Alive) -> None:
    """Write the beliefs (n, stride) above the lowest to `out`: those of row first and of the next.

    The starts are there already.
    """
    for i in range(beliefs.shape[0]):
        at = out.starts[first + i]
        if at == out.starts[first + i + 1]:
            continue
        for k in range(n_factors):
            if beliefs[i, k] > low:
                out.factors[at] = k
                out.values[at] = beliefs[i, k]
                at += 1


@njit(nogil=True, cache=True, error_model="numpy")
def add_clipped(
    indptr: Integers, columns: Integers, own: Integers, others: Integers, alive: Alive, bound: int,
    sums: Array, scratch: Array,
) -> None:  # fmt: skip
    """sums[m, k] += Σ over the listed columns n of row m of clip(others[n, k] + (own[m, k])₊).

    Values are clipped to 0 … bound; bound is 255 at most, and −bound the lowest of the others, who
    add nothing then: `alive` has the rest. Where these are few beside the vectors of all, they are
    taken one by one. indptr (rows + 1,), columns (cells,); own (rows, stride), others (N, stride)
    int16; sums (rows, stride) int32; scratch (2 · stride,) int16.
    """
    stride = own.shape[1]
    zero, top = splat(_i16(0)), splat(_i16(bound))
    x, y, total, told = pointer((own.reshape(-1), others.reshape(-1), sums.reshape(-1), scratch))
    for m in range(indptr.shape[0] - 1):
        start, stop = indptr[m], indptr[m + 1]
        if start == stop:
            continue
        for k in range(0, stride, LANES):
            store(told, k, maximum(load(x, m * stride + k), zero))
            store(told, stride + k, zero)
        n_added = 0
        for i in range(start, stop):
            n = _i64(columns[i])
            first, last = alive.starts[n], alive.starts[n + 1]
            if 8 * (last - first + 2) <= stride:
                for j in range(first, last):
                    k = alive.factors[j]
                    total[m * stride + k] += max(0, min(alive.values[j] + told[k], bound))
                continue
            at = n * stride
            for k in range(0, stride, LANES):
                sent = minimum(maximum(load(y, at + k) + load(told, k), zero), top)
                store(told, stride + k, load(told, stride + k) + sent)
            n_added += 1
            if n_added == RUN:
                _flush(told, stride, total, m * stride, sums)
                n_added = 0
        if n_added:
            _flush(told, stride, total, m * stride, sums)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _flush(told: Any, stride: int, total: Any, first: int, sums: Array) -> None:
    """Add the second half of `told` to totals from `first` on, and make it 0."""
    for k in range(0, stride, LANES):
        at = first + k
        store(total, at, load(total, at) + widened(load(told, stride + k), sums))
        store(told, stride + k, splat(_i16(0)))


@njit(nogil=True, cache=True, error_model="numpy")
def add_looked_up(
    indptr: Integers, columns: Integers, own: Integers, others: Integers, low: int, told: Integers,
    sent: Integers, sums: Integers,
) -> None:  # fmt: skip
    """sums[m, k] += Σ over the listed columns n of row m of sent[others[n, k] + told[own[m, k]]].

    As `add_clipped`; told and sent, int64, are tables whose index is a belief less the lowest one,
    `low`; sent has room for the sum. sums (rows, K) int64.
    """
    n_factors = sums.shape[1]
    shift = np.empty(n_factors, _i64)
    for m in range(indptr.shape[0] - 1):
        if indptr[m] == indptr[m + 1]:
            continue
        for k in range(n_factors):
            shift[k] = told[own[m, k] - low] - low
        for i in range(indptr[m], indptr[m + 1]):
            n = _i64(columns[i])
            for k in range(n_factors):
                sums[m, k] += sent[others[n, k] + shift[k]]


@njit(nogil=True, cache=True, error_model="numpy")
def damp_towards(
    own: Integers, low: int, at: Integers, part: Floats, table: Floats, listed: Integers,
    damping: float, unit: float, out: Floats,
) -> None:  # fmt: skip
    """out[m, k] ← (1 − damping)·out[m, k] + damping·unit·(listed[m, k] − F).

    F is table[k] between two of its values, the one at[v] and the next, v being own[m, k] − low;
    part[v] is how far: 0 at the first, 1 at the second. own (n, stride); table (K, values); listed
    (n, K or more); out (n, K).
    """
    n, K = out.shape
    totals, first = np.empty(K), table[:, 0].copy()
    silent = low  # beliefs up to this tell zeros nothing, and these are most
    while silent - low + 1 < at.shape[0] and at[silent - low + 1] == 0 == part[silent - low + 1]:
        silent += 1
    for m in range(n):
        for k in range(K):
            totals[k] = first[k]
        for k in range(K):
            if own[m, k] > silent:
                v = own[m, k] - low
                i = at[v]
                totals[k] = table[k, i] + part[v] * (table[k, i + 1] - table[k, i])
        for k in range(K):
            sent = unit * (listed[m, k] - totals[k])
            out[m, k] = (1.0 - damping) * out[m, k] + damping * sent
