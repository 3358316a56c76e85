"""The inner loops of max-sum with floats: one iteration over one block of rows.

A block is a run of consecutive rows. Its observed entries are divided into chunks of equal size,
regardless of row boundaries, so that every loop below runs over a long contiguous range even if
rows are short. The messages of a block are stored as (chunks, factors, entries of a chunk), with
padding after the last entry of the block.

One pass over a chunk is gather → exchange → scatter:

    gather    beliefs of the rows and columns of the entries
    exchange  new messages from the cavities (beliefs minus messages), damped into the stored ones
    scatter   the sums of the new messages, which are the next beliefs
"""

from typing import NamedTuple

import numpy as np

from boolweave.engine.kernels.jit import njit
from boolweave.engine.kernels.rules import (
    Terms,
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
    like,
    load,
    maximum,
    pointer,
    store,
    where,
)
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


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def send(
    claim: Vector, cavity: Vector, messages: Floats, at: int, damping: Vector, change: Vector
) -> tuple[Vector, Vector]:
    """Update 16 messages ← (1 − λ)·message + λ·[(claim + cavity)₊ − (cavity)₊].

    Returns the messages, and the larger of `change` and the sizes of their changes.
    """
    zero, old = like(claim, 0), load(messages, at)
    # The maximum has no effect, but prevents a fused multiply-add, which rounds only once.
    moved = maximum(damping * (to_variable(claim, cavity) - old), like(claim, -3e38))
    value = old + moved
    value = where(maximum(value, zero - value) > like(claim, NEGLIGIBLE), value, zero)
    store(messages, at, value)
    return value, maximum(change, maximum(moved, zero - moved))


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _exchange(
    xor: Xor, n: int, n_factors: int, size: int, damping: float, beliefs: Sides, messages: Messages,
    first: int, scratch: Floats,
) -> None:  # fmt: skip
    """Replace the messages of one chunk, which begin at `first`, by their damped update.

    The pointers are those of beliefs (K, size) at each entry, of messages, and of `scratch`
    (6, size): the evidence L, the largest change of each entry, and the states of entries, which
    stay in the fastest cache while the memory of one factor after another is read in order.
    """
    a, b, c, d = 2 * size, 3 * size, 4 * size, 5 * size
    by = like(load(scratch, 0), damping)
    for j in range(0, n, LANES):
        bound, is_one = _evidence(scratch, j)
        _store_terms(scratch, a + j, b + j, c + j, no_terms(xor, bound, is_one))
        store(scratch, size + j, like(bound, 0))
    for k in range(n_factors):
        for j in range(0, n, LANES):
            i, (bound, _) = k * size + j, _evidence(scratch, j)
            x = load(beliefs.rows, i) - load(messages.to_row, first + i)
            y = load(beliefs.columns, i) - load(messages.to_column, first + i)
            terms = load(scratch, a + j), load(scratch, b + j), load(scratch, c + j)
            terms = with_term(xor, terms, to_term(x, y), bound)
            _store_terms(scratch, a + j, b + j, c + j, terms)
    for j in range(0, n, LANES):
        bound, is_one = _evidence(scratch, j)
        terms = load(scratch, a + j), load(scratch, b + j), load(scratch, c + j)
        claims = claims_of(xor, terms, bound, is_one)
        _store_terms(scratch, a + j, b + j, c + j, claims[:3])
        store(scratch, d + j, claims[3])
    for k in range(n_factors):
        for j in range(0, n, LANES):
            i, (bound, _) = k * size + j, _evidence(scratch, j)
            x = load(beliefs.rows, i) - load(messages.to_row, first + i)
            y = load(beliefs.columns, i) - load(messages.to_column, first + i)
            firsts = load(scratch, a + j), load(scratch, b + j), load(scratch, c + j)
            claims, change = (*firsts, load(scratch, d + j)), load(scratch, size + j)
            claim = to_one_term(xor, claims, to_term(x, y), bound)
            _, change = send(claim, y, messages.to_row, first + i, by, change)
            _, change = send(claim, x, messages.to_column, first + i, by, change)
            store(scratch, size + j, change)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _evidence(scratch: Floats, j: int) -> tuple[Vector, Vector]:
    """|L| of 16 entries, and whether L > 0."""
    evidence = load(scratch, j)
    zero = like(evidence, 0)
    return maximum(evidence, zero - evidence), evidence > zero


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _store_terms(scratch: Floats, a: int, b: int, c: int, terms: Terms) -> None:
    store(scratch, a, terms[0])
    store(scratch, b, terms[1])
    store(scratch, c, terms[2])


# ---------------------------------------------------------------- a block


@njit(nogil=True, cache=True, error_model="numpy")
def max_sum(
    xor: Xor, entries: Entries, damping: float, beliefs: Sides, messages: Messages, sums: Sides
) -> float:
    """Do one iteration of max-sum over one block of rows, with damping λ and beliefs Ξ and Υ.

    Messages (chunks, K, chunk size) are updated, and added to `sums`; the size of chunks is a
    multiple of `LANES`. Returns the largest change of a message relative to its bound |L|.
    """
    indptr, columns, evidence = entries
    to_row, to_column = messages
    n_chunks, n_factors, size = to_row.shape
    x = np.zeros((n_factors, size), to_row.dtype)
    y = np.zeros((n_factors, size), to_row.dtype)
    scratch = np.zeros((6, size), to_row.dtype)
    at_entries = Sides(pointer(x.reshape(-1)), pointer(y.reshape(-1)))
    flat = Messages(pointer(to_row.reshape(-1)), pointer(to_column.reshape(-1)))
    residual = to_row.dtype.type(0)
    row = 0
    for c in range(n_chunks):
        start = c * size
        n = min(size, columns.shape[0] - start)
        for j in range(size):  # after the last entry there is no evidence
            scratch[0, j] = evidence[start + j] if j < n else 0
        first_row = row
        row = spread_rows(indptr, first_row, start, n, beliefs.rows, x)
        spread_columns(columns[start:], n, beliefs.columns, y)
        own = pointer(scratch.reshape(-1))
        _exchange(xor, n, n_factors, size, damping, at_entries, flat, start * n_factors, own)
        for j in range(n):
            residual = max(residual, scratch[1, j] / abs(evidence[start + j]))
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
