"""Comparison of the factors of two factorizations, and a bound on the entries needed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boolweave.model.products import as_bits
from boolweave.runtime.checks import check_count
from boolweave.runtime.types import Array


@dataclass(frozen=True, eq=False)
class FactorMatch:
    """Pairs of similar factors of two factorizations.

    Attributes
    ----------
    permutation : ndarray of shape (K_a,), int64
        For each factor of the first factorization, its partner in the second; -1 if it has none.
    similarities : ndarray of shape (K_a,), float64
        Jaccard similarity of the two tiles; 0 without a partner.
    """

    permutation: NDArray[np.int64]
    similarities: NDArray[np.float64]


def match_factors(X_a: ArrayLike, Y_a: ArrayLike, X_b: ArrayLike, Y_b: ArrayLike) -> FactorMatch:
    """Pair the factors of two factorizations so that their tiles overlap most.

    The tile of factor k is the set of entries that it makes one, the outer product of ``X[:, k]``
    and ``Y[k]``. Pairs maximize the sum of Jaccard similarities; the numbers of factors may differ.

    Parameters
    ----------
    X_a : array_like of shape (M, K_a)
    Y_a : array_like of shape (K_a, N)
    X_b : array_like of shape (M, K_b)
    Y_b : array_like of shape (K_b, N)

    Examples
    --------
    >>> from boolweave.metrics import match_factors
    >>> X, Y = [[1, 0], [1, 1], [0, 1]], [[1, 0, 1], [0, 1, 0]]
    >>> match = match_factors(X, Y, [row[::-1] for row in X], Y[::-1])
    >>> match.permutation, match.similarities
    (array([1, 0]), array([1., 1.]))
    """
    from scipy.optimize import linear_sum_assignment

    rows_a, columns_a = as_bits(X_a, "X_a"), as_bits(Y_a, "Y_a")
    rows_b, columns_b = as_bits(X_b, "X_b"), as_bits(Y_b, "Y_b")
    for name, rows, columns in (("a", rows_a, columns_a), ("b", rows_b, columns_b)):
        if rows.shape[1] != columns.shape[0]:
            raise ValueError(
                f"X_{name} and Y_{name} must have the same number of components, got "
                f"{rows.shape[1]} columns of X_{name} and {columns.shape[0]} rows of Y_{name}"
            )
    if rows_a.shape[0] != rows_b.shape[0] or columns_a.shape[1] != columns_b.shape[1]:
        raise ValueError(
            "both factorizations must be of matrices of the same shape, got "
            f"{rows_a.shape[0]} x {columns_a.shape[1]} and {rows_b.shape[0]} x {columns_b.shape[1]}"
        )
    # |A and B| of two tiles = (common rows) * (common columns): no M x N array is needed.
    common = _in_common(rows_a, rows_b) * _in_common(columns_a.T, columns_b.T)
    size_a = rows_a.sum(axis=0, dtype=np.float64) * columns_a.sum(axis=1, dtype=np.float64)
    size_b = rows_b.sum(axis=0, dtype=np.float64) * columns_b.sum(axis=1, dtype=np.float64)
    union = size_a[:, None] + size_b[None, :] - common
    # Two empty tiles are equal.
    jaccard = np.where(union > 0, common / np.maximum(union, 1), 1.0)
    own, partner = linear_sum_assignment(jaccard, maximize=True)
    permutation = np.full(rows_a.shape[1], -1, dtype=np.int64)
    similarities = np.zeros(rows_a.shape[1])
    permutation[own] = partner
    similarities[own] = jaccard[own, partner]
    return FactorMatch(permutation=permutation, similarities=similarities)


def _in_common(a: Array, b: Array) -> NDArray[np.float64]:
    """How often a column of a and one of b are both 1, for bits (n, K_a) and (n, K_b)."""
    total = np.zeros((a.shape[1], b.shape[1]))
    # Number of rows that are converted to floats at once.
    rows_at_a_time = 1 << 16
    for first in range(0, len(a), rows_at_a_time):
        run = slice(first, first + rows_at_a_time)
        total += a[run].T.astype(np.float64) @ b[run].astype(np.float64)
    return total


def information_bound(n_rows: int, n_columns: int, n_components: int) -> float:
    """Compute the number of observed entries below which completion cannot succeed.

    It is K(M + N - ln K + 1): the K(M + N) bits of the two factors, minus ln K! (about K ln K - K)
    for their order, which does not matter. An observation has at most one bit of information.

    Parameters
    ----------
    n_rows, n_columns, n_components : int
        M, N and K.

    Examples
    --------
    >>> from boolweave.metrics import information_bound
    >>> information_bound(1000, 1000, 1)
    2001.0
    """
    sizes = {"n_rows": n_rows, "n_columns": n_columns, "n_components": n_components}
    for name, size in sizes.items():
        check_count(name, size)
    return float(n_components * (n_rows + n_columns - math.log(n_components) + 1))
