"""Slow twins of the back end for sparse matrices: dense arrays, straight from the formulas."""

import numpy as np
import scipy.sparse

from boolweave.data.ones import SparseObservations


def sent_by_zero(belief, strength, semiring):
    """h(v): what a zero that says −strength sends, given the cavity of the other variable."""
    if semiring == "max-sum":
        return np.maximum(belief - strength, 0) - np.maximum(belief, 0)
    return np.logaddexp(0, belief - strength) - np.logaddexp(0, belief)


def sums_of_zeros(rows, columns, is_zero, strength, semiring):
    """What all zeros send to every row and column: (M, K) and (K, N).

    rows Ξ (M, K); columns Υ (K, N); is_zero (M, N): which cells are zeros that are not listed.
    """
    told_by_row = sent_by_zero(rows, strength, semiring)  # Ψ = h(Ξ), to first order
    told_by_column = sent_by_zero(columns, strength, semiring)
    M, K = rows.shape
    to_rows, to_columns = np.zeros(rows.shape), np.zeros(columns.shape)
    for m in range(M):
        for k in range(K):
            own = sent_by_zero(columns[k] - told_by_row[m, k], strength, semiring)
            to_rows[m, k] = own[is_zero[m]].sum()
    for n in range(columns.shape[1]):
        for k in range(K):
            own = sent_by_zero(rows[:, k] - told_by_column[k, n], strength, semiring)
            to_columns[k, n] = own[is_zero[:, n]].sum()
    return to_rows, to_columns


def codes_at_random(shape, random, ones=0.2, missing=0.1):
    """A matrix of 0, 1 and NaN."""
    drawn = random.random(shape)
    return np.where(drawn < ones, 1.0, np.where(drawn < ones + missing, np.nan, 0.0))


def sparse_of(table):
    """A dense table with NaN as observations that list no zeros."""
    stored = scipy.sparse.coo_array(np.where(table == 0, 0.0, np.where(np.isnan(table), 2, 1)))
    stored.data = np.where(stored.data == 2, np.nan, 1.0)
    return SparseObservations.from_sparse(stored)


def product(X, Y):
    """The OR product of bits (M, K) and (K, N)."""
    return (X.astype(int) @ Y.astype(int)) > 0
