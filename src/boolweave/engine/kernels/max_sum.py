"""The inner loops of max-sum with floats: one iteration over one block of rows.

A block is a run of consecutive rows. Its observed entries are divided into chunks of equal size,
regardless of row boundaries, so that every loop below runs over a long contiguous range even if
rows are short. The messages of a block are stored as (chunks, factors, entries of a chunk), with
padding after the last entry of the block.

One pass over a chunk is gather → exchange → scatter:

    gather    cavities: beliefs minus stored messages
    exchange  new messages from the cavities, damped into the stored ones
    scatter   the sums of the new messages, which are the next beliefs
"""

from typing import Any, NamedTuple

import numpy as np

from boolweave.engine.kernels.jit import njit
from boolweave.runtime.types import Array, Floats, Integers

# A damped message that decays to zero would pass through the denormal floats, with which processors
# are ten times slower. Messages are log-odds, and smaller ones than this make no difference.
NEGLIGIBLE = np.float32(1e-12)


class Entries(NamedTuple):
    """The entries of a run of consecutive rows."""

    indptr: Integers  # (rows + 1,) where the entries of each row begin, starting with 0
    columns: Integers  # (entries,)
    evidence: Floats  # (entries,) L = log p(o|1) − log p(o|0)


class Messages(NamedTuple):
    """The messages of a block, in both directions."""

    to_row: Array  # Φ
    to_column: Array  # Ψ


class Sides(NamedTuple):
    """Beliefs of rows and columns, or sums of their messages."""

    rows: Floats  # (rows, K)
    columns: Floats  # (K, N)


# Why "+ zero" is added to a maximum that replaces one of its arguments: without it, the compiler
# stores only values that changed, and a loop with a conditional store is not vectorized.


# ---------------------------------------------------------------- gather and scatter


@njit(nogil=True, cache=True)
def spread_rows(
    indptr: Integers, first_row: int, start: int, n: int, belief: Floats, spread: Floats
) -> int:
    """Set spread[k, j] = belief[row of entry j, k]; return the row of the last entry."""
    row = first_row
    j = 0
    while j < n:
        while indptr[row + 1] <= start + j:
            row += 1
        stop = min(n, indptr[row + 1] - start)
        for k in range(belief.shape[1]):
            value = belief[row, k]
            for i in range(np.uint64(j), np.uint64(stop)):
                spread[k, i] = value
        j = stop
    return row


@njit(nogil=True, cache=True)
def spread_columns(columns: Integers, n: int, belief: Floats, spread: Floats) -> None:
    """Set spread[k, j] = belief[k, columns[j]]."""
    for k in range(belief.shape[0]):
        for j in range(n):
            spread[k, j] = belief[k, columns[j]]


@njit(nogil=True, cache=True)
def _subtract(n: int, message: Floats, belief: Floats) -> None:
    """Subtract messages from beliefs (K, n), which thus become cavities."""
    for k in range(belief.shape[0]):
        for j in range(n):
            belief[k, j] -= message[k, j]


@njit(nogil=True, cache=True, fastmath={"reassoc", "nsz"})  # so that the sum is vectorized
def scatter_rows(
    indptr: Integers, first_row: int, start: int, n: int, to_row: Floats, row_sum: Floats
) -> None:
    """Add to_row[k, j] to row_sum[row of entry j, k]."""
    row = first_row
    j = 0
    while j < n:
        while indptr[row + 1] <= start + j:
            row += 1
        stop = min(n, indptr[row + 1] - start)
        for k in range(row_sum.shape[1]):
            total = to_row.dtype.type(0)
            for i in range(np.uint64(j), np.uint64(stop)):
                total += to_row[k, i]
            row_sum[row, k] += total
        j = stop


@njit(nogil=True, cache=True)
def scatter_columns(columns: Integers, n: int, to_column: Floats, column_sum: Floats) -> None:
    """Add to_column[k, j] to column_sum[k, columns[j]]."""
    for k in range(column_sum.shape[0]):
        for j in range(n):
            column_sum[k, columns[j]] += to_column[k, j]


# ---------------------------------------------------------------- exchange


@njit(nogil=True, cache=True)
def _join(n: int, x: Floats, y: Floats, both: Floats) -> None:
    """Compute Γ̂ of a term from its cavities: both = min(x + y, x, y)."""
    for j in range(n):
        both[j] = min(x[j] + y[j], min(x[j], y[j]))


@njit(nogil=True, cache=True)
def _send(
    n: int, damping: Any, claim: Floats, cavity: Floats, message: Floats, new: Floats,
    change: Floats,
) -> None:  # fmt: skip
    """Update message ← (1 − λ)·message + λ·[(claim + cavity)₊ − (cavity)₊].

    `claim` is Γ, the message of the likelihood to the term. change[j] becomes the larger of itself
    and the absolute change of the message.
    """
    zero = message.dtype.type(0)
    for j in range(n):
        new[j] = max(claim[j] + min(cavity[j], zero), -max(cavity[j], zero))
    for j in range(n):
        moved = damping * (new[j] - message[j])
        value = message[j] + moved
        message[j] = value if abs(value) > NEGLIGIBLE else zero
        change[j] = max(change[j], abs(moved)) + zero


@njit(nogil=True, cache=True)
def _exchange_or(
    evidence: Floats, n: int, damping: Any, cavities: Messages, messages: Messages, scratch: Floats
) -> None:
    """Replace the messages of one chunk by their damped update.

    The arrays are the evidence L (n,), the cavities Φ̂ and Ψ̂, the messages Φ and Ψ (K, n), and
    scratch (8, n), whose first row is |L| and whose last row gets the change of each entry.

        Γ̂_k = min(Φ̂ + Ψ̂, Φ̂, Ψ̂)
        Γ_k = min{ (−max_{j≠k} Γ̂_j)₊ , Σ_{j≠k} (Γ̂_j)₊ + L }
        Φ   = (Γ + Ψ̂)₊ − (Ψ̂)₊
        Ψ   = (Γ + Φ̂)₊ − (Φ̂)₊

    If L > 0, Γ is the first term (0 if some Γ̂_j is positive), but at most L; if L < 0, Γ is the
    second term, but at most 0. Therefore (Γ̂_j)₊ can be clipped to |L|, so that the sum without k is
    exact even if beliefs are huge. For the same reason, Φ is computed as
    max(Γ + min(Ψ̂, 0), −max(Ψ̂, 0)). There are many short loops, so that each of them is vectorized.
    """
    from_row, from_column = cavities
    bound, largest, second, total = scratch[0], scratch[1], scratch[2], scratch[3]
    both, claim, new, change = scratch[4], scratch[5], scratch[6], scratch[7]
    zero = evidence.dtype.type(0)
    for j in range(n):
        largest[j] = -np.inf
        second[j] = -np.inf
        total[j] = zero
    for k in range(from_row.shape[0]):
        _join(n, from_row[k], from_column[k], both)
        for j in range(n):
            second[j] = max(second[j], min(largest[j], both[j])) + zero
        for j in range(n):
            largest[j] = max(largest[j], both[j]) + zero
            total[j] += min(max(both[j], zero), bound[j])
    for k in range(from_row.shape[0]):
        _join(n, from_row[k], from_column[k], both)
        for j in range(n):
            others = second[j] if both[j] == largest[j] else largest[j]
            others_sum = total[j] - min(max(both[j], zero), bound[j])
            if_one = min(max(-others, zero), bound[j])
            if_zero = min(others_sum - bound[j], zero)
            claim[j] = if_one if evidence[j] > zero else if_zero
        _send(n, damping, claim, from_column[k], messages.to_row[k], new, change)
        _send(n, damping, claim, from_row[k], messages.to_column[k], new, change)


@njit(nogil=True, cache=True)
def _exchange_xor(
    evidence: Floats, n: int, damping: Any, cavities: Messages, messages: Messages, scratch: Floats
) -> None:
    """The same as `_exchange_or` for the XOR product.

    Γ_k = sign(L) · Π_{j≠k} sign(−Γ̂_j) · min(|L|, min_{j≠k} |Γ̂_j|)
    """
    from_row, from_column = cavities
    bound, smallest, second, sign = scratch[0], scratch[1], scratch[2], scratch[3]
    both, claim, new, change = scratch[4], scratch[5], scratch[6], scratch[7]
    zero = evidence.dtype.type(0)
    one = evidence.dtype.type(1)
    for j in range(n):
        smallest[j] = np.inf
        second[j] = np.inf
        sign[j] = one if evidence[j] > zero else -one
    for k in range(from_row.shape[0]):
        _join(n, from_row[k], from_column[k], both)
        for j in range(n):
            size = abs(both[j])
            second[j] = min(second[j], max(smallest[j], size)) + zero
            smallest[j] = min(smallest[j], size) + zero
        for j in range(n):
            sign[j] = -sign[j] if both[j] > zero else sign[j] + zero
    for k in range(from_row.shape[0]):
        _join(n, from_row[k], from_column[k], both)
        for j in range(n):
            others = second[j] if abs(both[j]) == smallest[j] else smallest[j]
            others_sign = -sign[j] if both[j] > zero else sign[j]
            claim[j] = min(others, bound[j]) * others_sign
        _send(n, damping, claim, from_column[k], messages.to_row[k], new, change)
        _send(n, damping, claim, from_row[k], messages.to_column[k], new, change)


# ---------------------------------------------------------------- a block


@njit(nogil=True, cache=True)
def max_sum(
    xor: bool, entries: Entries, damping: Any, beliefs: Sides, messages: Messages, sums: Sides
) -> float:
    """Do one iteration of max-sum over one block of rows, with damping λ and beliefs Ξ and Υ.

    Messages (chunks, K, chunk size) are updated, and added to `sums`. Returns the largest change of
    a message relative to its bound |L|.
    """
    indptr, columns, evidence = entries
    to_row, to_column = messages
    n_chunks, n_factors, size = to_row.shape
    zero = to_row.dtype.type(0)
    from_row = np.empty((n_factors, size), to_row.dtype)
    from_column = np.empty((n_factors, size), to_row.dtype)
    scratch = np.empty((8, size), to_row.dtype)
    bound, change = scratch[0], scratch[7]
    residual = zero
    row = 0
    for c in range(n_chunks):
        start = c * size
        n = min(size, columns.shape[0] - start)
        own = evidence[start:]
        for j in range(n):
            bound[j] = abs(own[j])
            change[j] = zero
        first_row = row
        row = spread_rows(indptr, first_row, start, n, beliefs.rows, from_row)
        spread_columns(columns[start:], n, beliefs.columns, from_column)
        _subtract(n, to_row[c], from_row)
        _subtract(n, to_column[c], from_column)
        cavities, updated = Messages(from_row, from_column), Messages(to_row[c], to_column[c])
        if xor:
            _exchange_xor(own, n, damping, cavities, updated, scratch)
        else:
            _exchange_or(own, n, damping, cavities, updated, scratch)
        for j in range(n):
            residual = max(residual, change[j] / bound[j])
        scatter_rows(indptr, first_row, start, n, to_row[c], sums.rows)
        scatter_columns(columns[start:], n, to_column[c], sums.columns)
    return residual


@njit(nogil=True, cache=True)
def add_up(entries: Entries, messages: Messages, sums: Sides) -> None:
    """Add the messages of a block to sums in the same order as an iteration, bit for bit."""
    indptr, columns, _ = entries
    to_row, to_column = messages
    n_chunks, _, size = to_row.shape
    row = 0
    for c in range(n_chunks):
        start = c * size
        n = min(size, columns.shape[0] - start)
        while indptr[row + 1] <= start:
            row += 1
        scatter_rows(indptr, row, start, n, to_row[c], sums.rows)
        scatter_columns(columns[start:], n, to_column[c], sums.columns)
