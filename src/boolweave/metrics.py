"""Figures of merit: errors, probabilities and their calibration, and comparing factors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boolweave.model.products import as_bits
from boolweave.runtime.types import Array

# Probabilities are kept this far from 0 and 1 in the log loss: one certain mistake then costs
# 34.5 instead of infinity.
PROBABILITY_FLOOR = 1e-15

# Rows that are turned into floats at once.
PIECE = 1 << 16


def reconstruction_error(Z: ArrayLike, Z_hat: ArrayLike) -> float:
    """Share of entries in which two Boolean arrays differ; NaN in `Z` is not counted.

    Parameters
    ----------
    Z : array_like of shape (M, N) or any other
        The truth, 0 and 1, NaN where unknown.
    Z_hat : array_like of the same shape
        The estimate, 0 and 1.

    Examples
    --------
    >>> from boolweave.metrics import reconstruction_error
    >>> reconstruction_error([[1, 0], [1, float("nan")]], [[1, 1], [1, 0]])  # 1 of 3
    0.3333333333333333
    """
    truth, estimate = _known_entries(Z, Z_hat, "Z", "Z_hat")
    if not truth.size:
        raise ValueError("Z must have at least one known entry, got none")
    return float(np.mean(truth != estimate))


def accuracy(y: ArrayLike, y_hat: ArrayLike) -> float:
    """Share of entries in which two Boolean arrays agree; NaN in `y` is not counted.

    Parameters
    ----------
    y : array_like
        The truth, 0 and 1, NaN where unknown.
    y_hat : array_like of the same shape
        The prediction, 0 and 1.

    Examples
    --------
    >>> from boolweave.metrics import accuracy
    >>> accuracy([1, 0, 1, 1], [1, 1, 1, 1])
    0.75
    """
    return 1.0 - reconstruction_error(y, y_hat)


@dataclass(frozen=True)
class Agreement:
    """How well a 0/1 prediction agrees with the truth, beside what a constant would reach.

    Where ones are rare, accuracy alone says little: a matrix of zeros already has nearly all of it.

    Attributes
    ----------
    n_entries, n_ones : int
        Known entries, and ones among them.
    n_covered : int
        Ones that are predicted to be 1.
    false_ones : int
        Zeros that are predicted to be 1.
    """

    n_entries: int
    n_ones: int
    n_covered: int
    false_ones: int

    @classmethod
    def of_counts(cls, counts: ArrayLike) -> Agreement:
        """From counts (2, 2) of entries, by truth (first) and prediction."""
        table = np.asarray(counts)
        return cls(*(int(n) for n in (table.sum(), table[1].sum(), table[1, 1], table[0, 1])))

    @property
    def ones_covered(self) -> float | None:
        """Share of the ones that are predicted to be 1; None without ones."""
        return self.n_covered / self.n_ones if self.n_ones else None

    @property
    def accuracy(self) -> float | None:
        """Share of the entries that are right; None without entries."""
        right = self.n_entries - self.n_ones - self.false_ones + self.n_covered
        return right / self.n_entries if self.n_entries else None

    @property
    def constant(self) -> int:
        """The more frequent value; 0 in a tie."""
        return int(2 * self.n_ones > self.n_entries)

    @property
    def constant_accuracy(self) -> float | None:
        """Share of the entries that the constant would have right; None without entries."""
        most = max(self.n_ones, self.n_entries - self.n_ones)
        return most / self.n_entries if self.n_entries else None

    def figures(self, prefix: str = "") -> dict[str, Any]:
        """All of it as plain numbers by name, for JSON."""
        names = ("n_ones", "ones_covered", "false_ones", "accuracy", "constant_accuracy")
        return {f"{prefix}{name}": getattr(self, name) for name in names}

    def sentence(self, entries: str = "entries") -> str:
        """The same in words; `entries` says which ones these are."""
        if not self.n_entries:
            return f"no {entries}"
        covered = "no ones to cover"
        if self.n_ones:
            covered = f"{self.ones_covered:.1%} of {_count(self.n_ones, 'one')} covered"
        return (
            f"{covered}, {_count(self.false_ones, 'false one')}; "
            f"{self.accuracy:.1%} of {self.n_entries:,} {entries} right "
            f"(all {'ones' if self.constant else 'zeros'}: {self.constant_accuracy:.1%})"
        )


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def agreement(y: ArrayLike, y_hat: ArrayLike) -> Agreement:
    """Count how well a 0/1 prediction agrees with the truth; NaN in `y` is not counted.

    Parameters
    ----------
    y : array_like
        The truth, 0 and 1, NaN where unknown.
    y_hat : array_like of the same shape
        The prediction, 0 and 1.

    Examples
    --------
    >>> from boolweave.metrics import agreement
    >>> print(agreement([0, 0, 0, 0, 0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0, 0, 1, 1, 0]).sentence())
    50.0% of 2 ones covered, 1 false one; 80.0% of 10 entries right (all zeros: 80.0%)
    """
    truth, estimate = _known_entries(y, y_hat, "y", "y_hat")
    cell = 2 * (truth == 1) + (estimate == 1)
    return Agreement.of_counts(np.bincount(cell, minlength=4).reshape(2, 2))


def log_loss(y: ArrayLike, p: ArrayLike) -> float:
    """Mean negative log-likelihood, in nats, of bits under predicted probabilities.

    Parameters
    ----------
    y : array_like of shape (n,)
        The truth, 0 and 1.
    p : array_like of shape (n,)
        Predicted P(y = 1).

    Examples
    --------
    >>> from boolweave.metrics import log_loss
    >>> round(log_loss([1, 0], [0.5, 0.5]), 4)  # ln 2
    0.6931
    """
    bits, probability = _bits_and_probabilities(y, p)
    clipped = np.clip(probability, PROBABILITY_FLOOR, 1 - PROBABILITY_FLOOR)
    return float(-np.mean(np.where(bits, np.log(clipped), np.log1p(-clipped))))


def roc_auc(y: ArrayLike, p: ArrayLike) -> float:
    """Area under the ROC curve: the chance that a one gets a higher score than a zero.

    Parameters
    ----------
    y : array_like of shape (n,)
        The truth, 0 and 1, both present.
    p : array_like of shape (n,)
        Predicted P(y = 1).

    Examples
    --------
    >>> from boolweave.metrics import roc_auc
    >>> roc_auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    from sklearn.metrics import roc_auc_score

    bits, probability = _bits_and_probabilities(y, p)
    if bits.all() or not bits.any():
        raise ValueError("y must hold both 0 and 1, got only one of them; the area is undefined")
    return float(roc_auc_score(bits, probability))


def expected_calibration_error(y: ArrayLike, p: ArrayLike, n_bins: int = 10) -> float:
    """Mean gap between predicted probability and observed frequency.

    Probabilities are put into `n_bins` bins of equal width; each bin weighs by its count.

    Parameters
    ----------
    y : array_like of shape (n,)
        The truth, 0 and 1.
    p : array_like of shape (n,)
        Predicted P(y = 1).
    n_bins : int
        Number of bins, >= 1.

    Examples
    --------
    >>> from boolweave.metrics import expected_calibration_error
    >>> round(expected_calibration_error([1, 0, 1, 1], [0.75, 0.75, 0.75, 0.75]), 6)
    0.0
    """
    if n_bins < 1:
        raise ValueError(f"n_bins must be a whole number >= 1, got {n_bins!r}")
    bits, probability = _bits_and_probabilities(y, p)
    bins = np.minimum((probability * n_bins).astype(np.int64), n_bins - 1)
    # Sum over bins of (count / n) |mean p - mean y| = sum |sum p - sum y| / n.
    gaps = np.bincount(bins, weights=probability - bits, minlength=n_bins)
    return float(np.abs(gaps).sum() / len(bits))


@dataclass(frozen=True, eq=False)
class FactorMatch:
    """Pairs of factors of two factorizations that resemble each other.

    Attributes
    ----------
    permutation : ndarray of shape (K_a,), int64
        For each factor of the first its partner in the second, -1 where there is none.
    similarities : ndarray of shape (K_a,), float64
        Jaccard similarity of the two tiles, 0 without a partner.
    """

    permutation: NDArray[np.int64]
    similarities: NDArray[np.float64]


def match_factors(X_a: ArrayLike, Y_a: ArrayLike, X_b: ArrayLike, Y_b: ArrayLike) -> FactorMatch:
    """Pair the factors of two factorizations so that their tiles overlap most.

    The tile of factor k is the set of entries that it alone makes one, the outer product
    of ``X[:, k]`` and ``Y[k]``. Pairs maximise the sum of Jaccard similarities; the numbers of
    factors may differ.

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
                f"X_{name} and Y_{name} must have as many components, got "
                f"{rows.shape[1]} columns of X_{name} and {columns.shape[0]} rows of Y_{name}"
            )
    if rows_a.shape[0] != rows_b.shape[0] or columns_a.shape[1] != columns_b.shape[1]:
        raise ValueError(
            "both factorizations must be of equally large matrices, got "
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
    """How often a column of a and one of b are both 1, of bits (n, K_a) and (n, K_b)."""
    total = np.zeros((a.shape[1], b.shape[1]))
    for first in range(0, len(a), PIECE):
        run = slice(first, first + PIECE)
        total += a[run].T.astype(np.float64) @ b[run].astype(np.float64)
    return total


def information_bound(n_rows: int, n_columns: int, n_components: int) -> float:
    """Give the number of observed entries below which completion cannot succeed.

    K(M + N - ln K + 1): the K(M + N) bits of the two factors, less ln K! (about K ln K - K) for
    their order, which does not matter. An observation tells at most one bit.

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
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size!r}")
    return float(n_components * (n_rows + n_columns - math.log(n_components) + 1))


def _same_shape(
    first: ArrayLike, second: ArrayLike, first_name: str, second_name: str
) -> tuple[Array, Array]:
    """Both as arrays, of one shape or an error."""
    a, b = np.asarray(first), np.asarray(second)
    if a.shape != b.shape:
        raise ValueError(
            f"{first_name} and {second_name} must have the same shape, got {a.shape} and {b.shape}"
        )
    return a, b


def _known_entries(
    truth: ArrayLike, estimate: ArrayLike, truth_name: str, estimate_name: str
) -> tuple[Array, Array]:
    """Both where the truth is known, that is no NaN, as flat arrays."""
    a, b = _same_shape(truth, estimate, truth_name, estimate_name)
    known = ~np.isnan(a) if a.dtype.kind == "f" else np.ones(a.shape, dtype=bool)
    return a[known], b[known]


def _bits_and_probabilities(
    y: ArrayLike, p: ArrayLike
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """`y` as bits and `p` as probabilities, both flat, or an error."""
    truth, given = _same_shape(y, p, "y", "p")
    probability = given.astype(np.float64).ravel()
    if truth.size == 0:
        raise ValueError("y and p must hold at least one entry, got none")
    bits = as_bits(truth.reshape(1, -1), "y").ravel().astype(bool)
    wrong = ~((probability >= 0) & (probability <= 1))
    if wrong.any():
        raise ValueError(
            f"p must hold probabilities between 0 and 1, got {probability[wrong][0]}; "
            "turn log-odds into probabilities first"
        )
    return bits, probability
