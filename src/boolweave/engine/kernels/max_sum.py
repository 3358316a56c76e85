"""The inner loops: numba, one block of rows, one iteration.

A block is a run of consecutive rows; its observed entries
are cut into chunks of equal size, across row boundaries, so that every loop below runs over a long
contiguous range whether rows are long or short. Messages of a block are stored as
(chunks, factors, entries of a chunk); what lies past the last entry of a block is padding.

One pass over a chunk is gather → exchange → scatter:

    gather    beliefs minus stored messages: what variables tell the factors (cavities)
    exchange  new messages from the cavities, damped into the stored ones
    scatter   the sums of the new messages, which are the next beliefs
"""

from typing import NamedTuple

import numpy as np

from boolweave.engine.kernels.jit import njit
from boolweave.runtime.types import Array, Floats, Integers

# A damped message that decays to nothing would pass through the denormal floats, on which
# processors are ten times slower. Messages are log-odds: below this they say nothing.
NEGLIGIBLE = np.float32(1e-12)

# A flip must raise the log-posterior by more than rounding could.
NO_GAIN = 1e-9


class Entries(NamedTuple):
    """The entries of a run of consecutive rows."""

    indptr: Integers  # (rows + 1,) where the entries of each row begin, from 0
    columns: Integers  # (entries,)
    evidence: Floats  # (entries,) L = log p(o|1) − log p(o|0)


class Messages(NamedTuple):
    """The messages of a block, in both directions."""

    to_row: Array  # Φ
    to_column: Array  # Ψ


class Sides(NamedTuple):
    """Beliefs, or sums of messages, of rows and columns."""

    rows: Floats  # (rows, K)
    columns: Floats  # (K, N)


# Why "+ zero" after a maximum that is stored where it came from: without it the compiler stores
# only where the value changed, and a loop with a conditional store is not vectorised.


@njit(nogil=True, cache=True)
def _gather_rows(indptr, first_row, start, n, row_belief, to_row, cavity):
    """cavity[k, j] = row_belief[row of entry j, k] − to_row[k, j]; returns the last row seen."""
    row = first_row
    j = 0
    while j < n:
        while indptr[row + 1] <= start + j:
            row += 1
        stop = min(n, indptr[row + 1] - start)
        for k in range(row_belief.shape[1]):
            belief = row_belief[row, k]
            for i in range(np.uint64(j), np.uint64(stop)):
                cavity[k, i] = belief - to_row[k, i]
        j = stop
    return row


@njit(nogil=True, cache=True)
def _gather_columns(columns, n, column_belief, to_column, cavity):
    """cavity[k, j] = column_belief[k, columns[j]] − to_column[k, j]."""
    for k in range(column_belief.shape[0]):
        for j in range(n):
            cavity[k, j] = column_belief[k, columns[j]] - to_column[k, j]


@njit(nogil=True, cache=True, fastmath={"reassoc", "nsz"})  # a sum in vector lanes
def _scatter_rows(indptr, first_row, start, n, to_row, row_sum):
    """row_sum[row of entry j, k] += to_row[k, j]."""
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
def _scatter_columns(columns, n, to_column, column_sum):
    """column_sum[k, columns[j]] += to_column[k, j]."""
    for k in range(column_sum.shape[0]):
        for j in range(n):
            column_sum[k, columns[j]] += to_column[k, j]


@njit(nogil=True, cache=True)
def _damp(n, damping, new, message, change):
    """message ← (1 − λ)·message + λ·new; change[j] ← the larger of itself and what moved."""
    zero = message.dtype.type(0)
    for j in range(n):
        moved = damping * (new[j] - message[j])
        value = message[j] + moved
        message[j] = value if abs(value) > NEGLIGIBLE else zero
        change[j] = max(change[j], abs(moved)) + zero


@njit(nogil=True, cache=True)
def _max_sum_or_exchange(evidence, n, damping, cavities, to_row, to_column, scratch):
    """Replace the messages of one chunk by their damped update; return the largest change.

    evidence L (n,); cavities Φ̂ and Ψ̂, to_row Φ, to_column Ψ (K, n); scratch (8, n).
    The change is that of Φ or Ψ as a share of |L|, the bound of both.

        Γ̂_k = min(Φ̂ + Ψ̂, Φ̂, Ψ̂)
        Γ_k = min{ (−max_{j≠k} Γ̂_j)₊ , Σ_{j≠k} (Γ̂_j)₊ + L }
        Φ   = (Γ + Ψ̂)₊ − (Ψ̂)₊
        Ψ   = (Γ + Φ̂)₊ − (Φ̂)₊

    Where L > 0 the first term of Γ decides (a positive Γ̂_j makes it 0), capped by L; where L < 0
    the second does, capped by 0. So (Γ̂_j)₊ may be cut at |L|, which keeps "the sum without k"
    exact when beliefs are huge. For the same reason Φ is computed as
    max(Γ + min(Ψ̂, 0), −max(Ψ̂, 0)). The loops are many and short so that each one vectorises.
    """
    from_row, from_column = cavities
    n_factors = from_row.shape[0]
    zero = evidence.dtype.type(0)
    bound = scratch[0]
    largest = scratch[1]
    second = scratch[2]
    total = scratch[3]
    both = scratch[4]
    claim = scratch[5]
    new = scratch[6]
    change = scratch[7]
    for j in range(n):
        bound[j] = abs(evidence[j])
        largest[j] = -np.inf
    for j in range(n):
        second[j] = -np.inf
        total[j] = zero
        change[j] = zero
    for k in range(n_factors):
        for j in range(n):
            x = from_row[k, j]
            y = from_column[k, j]
            both[j] = min(x + y, min(x, y))
        for j in range(n):
            second[j] = max(second[j], min(largest[j], both[j])) + zero
        for j in range(n):
            largest[j] = max(largest[j], both[j]) + zero
            total[j] += min(max(both[j], zero), bound[j])
    for k in range(n_factors):
        for j in range(n):
            x = from_row[k, j]
            y = from_column[k, j]
            both[j] = min(x + y, min(x, y))
        for j in range(n):
            others = second[j] if both[j] == largest[j] else largest[j]
            others_sum = total[j] - min(max(both[j], zero), bound[j])
            if_one = min(max(-others, zero), bound[j])
            if_zero = min(others_sum - bound[j], zero)
            claim[j] = if_one if evidence[j] > zero else if_zero
        for j in range(n):
            y = from_column[k, j]
            new[j] = max(claim[j] + min(y, zero), -max(y, zero))
        _damp(n, damping, new, to_row[k], change)
        for j in range(n):
            x = from_row[k, j]
            new[j] = max(claim[j] + min(x, zero), -max(x, zero))
        _damp(n, damping, new, to_column[k], change)
    worst = zero
    for j in range(n):
        worst = max(worst, change[j] / bound[j])
    return worst


@njit(nogil=True, cache=True)
def _max_sum_xor_exchange(evidence, n, damping, cavities, to_row, to_column, scratch):
    """As `_max_sum_or_exchange`, for the XOR product.

    Γ_k = sign(L) · Π_{j≠k} sign(−Γ̂_j) · min(|L|, min_{j≠k} |Γ̂_j|)
    """
    from_row, from_column = cavities
    n_factors = from_row.shape[0]
    zero = evidence.dtype.type(0)
    one = evidence.dtype.type(1)
    bound = scratch[0]
    smallest = scratch[1]
    second = scratch[2]
    sign = scratch[3]
    both = scratch[4]
    claim = scratch[5]
    new = scratch[6]
    change = scratch[7]
    for j in range(n):
        bound[j] = abs(evidence[j])
        smallest[j] = np.inf
    for j in range(n):
        second[j] = np.inf
        sign[j] = one if evidence[j] > zero else -one
        change[j] = zero
    for k in range(n_factors):
        for j in range(n):
            x = from_row[k, j]
            y = from_column[k, j]
            both[j] = min(x + y, min(x, y))
        for j in range(n):
            size = abs(both[j])
            second[j] = min(second[j], max(smallest[j], size)) + zero
            smallest[j] = min(smallest[j], size) + zero
        for j in range(n):
            sign[j] = -sign[j] if both[j] > zero else sign[j] + zero
    for k in range(n_factors):
        for j in range(n):
            x = from_row[k, j]
            y = from_column[k, j]
            both[j] = min(x + y, min(x, y))
        for j in range(n):
            others = second[j] if abs(both[j]) == smallest[j] else smallest[j]
            others = min(others, bound[j])
            others_sign = -sign[j] if both[j] > zero else sign[j]
            claim[j] = others * others_sign
        for j in range(n):
            y = from_column[k, j]
            new[j] = max(claim[j] + min(y, zero), -max(y, zero))
        _damp(n, damping, new, to_row[k], change)
        for j in range(n):
            x = from_row[k, j]
            new[j] = max(claim[j] + min(x, zero), -max(x, zero))
        _damp(n, damping, new, to_column[k], change)
    worst = zero
    for j in range(n):
        worst = max(worst, change[j] / bound[j])
    return worst


@njit(nogil=True, cache=True)
def max_sum(xor, entries, damping, beliefs, messages, sums):
    """One iteration of max-sum over one block of rows.

    Fixed: xor, the product; entries; damping λ. Read: beliefs Ξ and Υ. Updated: messages
    (chunks, K, chunk size). Added to: sums. Returns the largest change of a message as a share of
    |L|.
    """
    indptr, columns, evidence = entries
    to_row, to_column = messages
    n_chunks, n_factors, size = to_row.shape
    n_entries = columns.shape[0]
    from_row = np.empty((n_factors, size), to_row.dtype)
    from_column = np.empty((n_factors, size), to_row.dtype)
    cavities = from_row, from_column
    scratch = np.empty((8, size), to_row.dtype)
    residual = to_row.dtype.type(0)
    row = 0
    for c in range(n_chunks):
        start = c * size
        n = min(size, n_entries - start)
        first_row = row
        row = _gather_rows(indptr, first_row, start, n, beliefs.rows, to_row[c], from_row)
        _gather_columns(columns[start:], n, beliefs.columns, to_column[c], from_column)
        if xor:
            change = _max_sum_xor_exchange(
                evidence[start:], n, damping, cavities, to_row[c], to_column[c], scratch
            )
        else:
            change = _max_sum_or_exchange(
                evidence[start:], n, damping, cavities, to_row[c], to_column[c], scratch
            )
        residual = max(residual, change)
        _scatter_rows(indptr, first_row, start, n, to_row[c], sums.rows)
        _scatter_columns(columns[start:], n, to_column[c], sums.columns)
    return residual


@njit(nogil=True, cache=True)
def explained_evidence(xor, entries, row_words, column_words):
    """Sum of L over the entries of a block at which the decoded product is 1.

    row_words (rows, W), column_words (N, W): the decoded bits of the factors, 64 to a word.
    """
    indptr, columns, evidence = entries
    total = 0.0
    for row in range(row_words.shape[0]):
        for entry in range(indptr[row], indptr[row + 1]):
            column = columns[entry]
            folded = np.uint64(0)
            for w in range(row_words.shape[1]):
                if xor:
                    folded ^= row_words[row, w] & column_words[column, w]
                else:
                    folded |= row_words[row, w] & column_words[column, w]
            if xor:  # the parity of the bits
                for shift in (32, 16, 8, 4, 2, 1):
                    folded ^= folded >> np.uint64(shift)
                folded &= np.uint64(1)
            if folded:
                total += evidence[entry]
    return total


@njit(nogil=True, cache=True)
def add_up(entries, messages, sums):
    """Add the messages of a block to sums as an iteration does, with the same bits."""
    indptr, columns, _ = entries
    to_row, to_column = messages
    n_chunks, _, size = to_row.shape
    n_entries = columns.shape[0]
    row = 0
    for c in range(n_chunks):
        start = c * size
        n = min(size, n_entries - start)
        while indptr[row + 1] <= start:
            row += 1
        _scatter_rows(indptr, row, start, n, to_row[c], sums.rows)
        _scatter_columns(columns[start:], n, to_column[c], sums.columns)


@njit(nogil=True, cache=True)
def improve_rows(xor, entries, row_prior, column_bits, row_bits):
    """Flip single bits of a block's rows, the best first, as long as the log-posterior rises.

    row_prior a (rows, K); column_bits (N, K), known; row_bits (rows, K), updated.
    """
    indptr, columns, evidence = entries
    n_factors = row_bits.shape[1]
    gain = np.empty(n_factors)
    for row in range(row_bits.shape[0]):
        first = indptr[row]
        terms = np.zeros(indptr[row + 1] - first, np.int64)  # how many factors claim each entry
        for j in range(terms.shape[0]):
            for k in range(n_factors):
                terms[j] += row_bits[row, k] & column_bits[columns[first + j], k]
        while True:
            for k in range(n_factors):
                gain[k] = -row_prior[row, k] if row_bits[row, k] else row_prior[row, k]
            for j in range(terms.shape[0]):
                for k in range(n_factors):
                    if column_bits[columns[first + j], k]:
                        then = terms[j] - 1 if row_bits[row, k] else terms[j] + 1
                        if xor:
                            gain[k] += evidence[first + j] * ((then & 1) - (terms[j] & 1))
                        else:
                            gain[k] += evidence[first + j] * (min(then, 1) - min(terms[j], 1))
            best = np.argmax(gain)
            if gain[best] <= NO_GAIN:
                break
            change = -1 if row_bits[row, best] else 1
            row_bits[row, best] = 1 - row_bits[row, best]
            for j in range(terms.shape[0]):
                if column_bits[columns[first + j], best]:
                    terms[j] += change


# Steps in which prior log-odds are added up; below −LARGEST_PRIOR they are as good as certain.
COARSE = 2.0**12
FINE = 2.0**36
LARGEST_PRIOR = 2.0**20


@njit(nogil=True, cache=True, error_model="numpy")
def decoded(belief, prior, hard, by_row):
    """Bits of log-odds (n, K), or (K, n), in words (n, ⌈K/64⌉), and the priors of what is 1.

    A prior of `hard` and more stands for certainty and is not counted. The priors are added up in
    two parts, in steps of 1/COARSE and of 1/FINE: whole numbers, whose sums are exact in whatever
    order, on however many machines.
    """
    n, n_factors = belief.shape if by_row else (belief.shape[1], belief.shape[0])
    words = np.zeros((n, -(-n_factors // 64)), np.uint64)
    coarse, fine = np.int64(0), np.int64(0)
    for i in range(belief.shape[0]):
        for j in range(belief.shape[1]):
            one = belief[i, j] > 0
            variable, k = (i, j) if by_row else (j, i)
            words[variable, k >> 6] |= np.uint64(one) << np.uint64(k & 63)
            if one and prior[i, j] < hard:
                odds = max(np.float64(prior[i, j]), -LARGEST_PRIOR)
                whole = np.floor(odds * COARSE + 0.5)
                coarse += np.int64(whole)
                fine += np.int64(np.floor((odds - whole / COARSE) * FINE + 0.5))
    return words, coarse, fine
