"""Compiled loops over some rows of observations: how near they are to sums of patterns, and votes.

A pattern is +1 for a zero, −1 for a one and 0 where it says nothing, so that the XOR of patterns is
their product. Patterns stand in the columns of (N, S) arrays of int8.
"""

import numpy as np

from boolweave.engine.kernels.jit import njit
from boolweave.runtime.types import Floats, Integers


@njit(nogil=True, cache=True)
def nearest(
    indptr: Integers, columns: Integers, values: Integers, rows: Integers, sums: Integers,
    also: Integers, nearness: Floats,
) -> None:  # fmt: skip
    """Raise nearness (rows,) to that of the nearest sum: how much they agree where both speak.

    From −1, the opposite, to 1. Each of the sums (N, S) is taken times the pattern `also` (N,).
    """
    n_sums = sums.shape[1]
    agree = np.empty(n_sums, np.int32)
    shared = np.empty(n_sums, np.int32)
    for i in range(rows.shape[0]):
        agree[:] = 0
        shared[:] = 0
        for entry in range(indptr[rows[i]], indptr[rows[i] + 1]):
            j = columns[entry]
            sign = np.int32(also[j]) * (np.int32(1) - np.int32(2) * np.int32(values[entry]))
            for s in range(n_sums):
                agree[s] += sign * np.int32(sums[j, s])
            if sign != 0:
                for s in range(n_sums):
                    shared[s] += abs(np.int32(sums[j, s]))
        for s in range(n_sums):
            nearness[i] = max(nearness[i], agree[s] / max(shared[s], 1))


@njit(nogil=True, cache=True)
def add_votes(
    indptr: Integers, columns: Integers, values: Integers, rows: Integers, votes: Integers
) -> None:
    """Add the entries of rows to votes (N,): +1 for each zero, −1 for each one."""
    for i in range(rows.shape[0]):
        for entry in range(indptr[rows[i]], indptr[rows[i] + 1]):
            votes[columns[entry]] += 1 - 2 * np.int64(values[entry])
