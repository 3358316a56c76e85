"""Compiled loops over rows of observations: their similarity to XOR sums of patterns, and votes.

A pattern is +1 for a zero, −1 for a one and 0 where it is undefined, so that the XOR of patterns is
their product. Patterns are the columns of (N, S) arrays of int8.
"""

import numpy as np

from boolweave.engine.kernels.jit import njit
from boolweave.runtime.types import Floats, Integers


@njit(nogil=True, cache=True)
def raise_similarity(
    indptr: Integers, columns: Integers, values: Integers, rows: Integers, sums: Integers,
    pattern: Integers, similarity: Floats,
) -> None:  # fmt: skip
    """Raise the similarity of each row (rows,) to that of its most similar sum, if that is higher.

    The similarity of a row and a sum is the mean of their product over the entries that both
    define, from −1 (opposite) to 1 (equal). `pattern` (N,) is added to each of the sums (N, S).
    """
    n_sums = sums.shape[1]
    agree = np.empty(n_sums, np.int32)
    shared = np.empty(n_sums, np.int32)
    for i in range(rows.shape[0]):
        agree[:] = 0
        shared[:] = 0
        for entry in range(indptr[rows[i]], indptr[rows[i] + 1]):
            j = columns[entry]
            sign = np.int32(pattern[j]) * (np.int32(1) - np.int32(2) * np.int32(values[entry]))
            for s in range(n_sums):
                agree[s] += sign * np.int32(sums[j, s])
            if sign != 0:
                for s in range(n_sums):
                    shared[s] += abs(np.int32(sums[j, s]))
        for s in range(n_sums):
            similarity[i] = max(similarity[i], agree[s] / max(shared[s], 1))


@njit(nogil=True, cache=True)
def add_votes(
    indptr: Integers, columns: Integers, values: Integers, rows: Integers, votes: Integers
) -> None:
    """Add the entries of some rows to the votes (N,): +1 for each zero, −1 for each one."""
    for i in range(rows.shape[0]):
        for entry in range(indptr[rows[i]], indptr[rows[i] + 1]):
            votes[columns[entry]] += 1 - 2 * np.int64(values[entry])
