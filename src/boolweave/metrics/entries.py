"""Measures of single entries: errors, probabilities and their calibration."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boolweave.model.products import as_bits
from boolweave.runtime.checks import check_count
from boolweave.runtime.types import Array
from boolweave.runtime.words import counted

# Probabilities are kept this far from 0 and 1 in the log-loss: one certain mistake then costs 34.5
# instead of infinity.
PROBABILITY_FLOOR = 1e-15


def reconstruction_error(Z: ArrayLike, Z_hat: ArrayLike) -> float:
    """Compute the fraction of entries in which two Boolean arrays differ; NaN is ignored.

    Parameters
    ----------
    Z : array_like of shape (M, N) or any other
        The truth, 0 and 1; NaN if unknown.
    Z_hat : array_like of the same shape
        The estimate, 0 and 1.

    Examples
    --------
    >>> from boolweave.metrics import reconstruction_error
    >>> reconstruction_error([[1, 0], [1, float("nan")]], [[1, 1], [1, 0]])  # 1 of 3
    0.3333333333333333
    """
    return _share_wrong(Z, Z_hat, "Z", "Z_hat")


def _share_wrong(truth: ArrayLike, estimate: ArrayLike, name: str, estimate_name: str) -> float:
    bits, answer = known_entries(truth, estimate, name, estimate_name)
    if not bits.size:
        raise ValueError(f"{name} must have at least one known entry, got none")
    return float(np.mean(bits != answer))


def accuracy(y: ArrayLike, y_hat: ArrayLike) -> float:
    """Compute the fraction of entries in which two Boolean arrays agree; NaN is ignored.

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
    return 1.0 - _share_wrong(y, y_hat, "y", "y_hat")


@dataclass(frozen=True)
class Agreement:
    """The agreement of a 0/1 prediction with the truth, compared with a constant.

    If ones are rare, accuracy alone says little, because a matrix of zeros is almost always right.

    Attributes
    ----------
    n_entries, n_ones : int
        Number of known entries, and of ones among them.
    n_covered : int
        Number of ones that are predicted to be 1.
    false_ones : int
        Number of zeros that are predicted to be 1.
    """

    n_entries: int
    n_ones: int
    n_covered: int
    false_ones: int

    @classmethod
    def of_counts(cls, counts: ArrayLike) -> Agreement:
        """Make an agreement from counts (2, 2) of entries, by truth (first) and prediction."""
        table = np.asarray(counts)
        return cls(*(int(n) for n in (table.sum(), table[1].sum(), table[1, 1], table[0, 1])))

    @property
    def ones_covered(self) -> float | None:
        """Fraction of the ones that are predicted to be 1; None without ones."""
        return self.n_covered / self.n_ones if self.n_ones else None

    @property
    def accuracy(self) -> float | None:
        """Fraction of the entries that are right; None without entries."""
        right = self.n_entries - self.n_ones - self.false_ones + self.n_covered
        return right / self.n_entries if self.n_entries else None

    @property
    def constant(self) -> int:
        """The more frequent value; 0 in a tie."""
        return int(2 * self.n_ones > self.n_entries)

    @property
    def constant_accuracy(self) -> float | None:
        """Fraction of the entries that the constant would get right; None without entries."""
        most = max(self.n_ones, self.n_entries - self.n_ones)
        return most / self.n_entries if self.n_entries else None

    def figures(self, prefix: str = "") -> dict[str, Any]:
        """All figures as plain numbers by name, for JSON."""
        names = ("n_ones", "ones_covered", "false_ones", "accuracy", "constant_accuracy")
        return {f"{prefix}{name}": getattr(self, name) for name in names}

    def sentence(self, entries: str = "entries") -> str:
        """The same in words; `entries` is the noun for the entries."""
        if not self.n_entries:
            return f"no {entries}"
        covered = "no ones to cover"
        if self.n_ones:
            covered = f"{self.ones_covered:.1%} of {counted(self.n_ones, 'one')} covered"
        return (
            f"{covered}, {counted(self.false_ones, 'false one')}; "
            f"{self.accuracy:.1%} of {self.n_entries:,} {entries} right "
            f"(all {'ones' if self.constant else 'zeros'}: {self.constant_accuracy:.1%})"
        )


def agreement(y: ArrayLike, y_hat: ArrayLike) -> Agreement:
    """Measure the agreement of a 0/1 prediction with the truth; NaN in `y` is ignored.

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
    truth, estimate = known_entries(y, y_hat, "y", "y_hat")
    cell = 2 * truth + estimate
    return Agreement.of_counts(np.bincount(cell, minlength=4).reshape(2, 2))


def log_loss(y: ArrayLike, p: ArrayLike) -> float:
    """Compute the mean negative log-likelihood (in nats) of bits under probabilities.

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
    bits, probability = bits_and_probabilities(y, p)
    clipped = np.clip(probability, PROBABILITY_FLOOR, 1 - PROBABILITY_FLOOR)
    return float(-np.mean(np.where(bits, np.log(clipped), np.log1p(-clipped))))


def roc_auc(y: ArrayLike, p: ArrayLike) -> float:
    """Compute the area under the ROC curve: P(a one gets a higher score than a zero).

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

    bits, probability = bits_and_probabilities(y, p)
    if bits.all() or not bits.any():
        raise ValueError("y must hold both 0 and 1, got only one of them; the area is undefined")
    return float(roc_auc_score(bits, probability))


def expected_calibration_error(y: ArrayLike, p: ArrayLike, n_bins: int = 10) -> float:
    """Compute the mean gap between predicted probability and observed frequency.

    Probabilities are put into `n_bins` bins of equal width, which are weighted by their counts.

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
    check_count("n_bins", n_bins)
    bits, probability = bits_and_probabilities(y, p)
    bins = np.minimum((probability * n_bins).astype(np.int64), n_bins - 1)
    # Sum over bins of (count / n) |mean p - mean y| = sum |sum p - sum y| / n.
    gaps = np.bincount(bins, weights=probability - bits, minlength=n_bins)
    return float(np.abs(gaps).sum() / len(bits))


# ---------------------------------------------------------------- checks of arguments


def same_shape(
    first: ArrayLike, second: ArrayLike, first_name: str, second_name: str
) -> tuple[Array, Array]:
    """Both as arrays of numbers; raise unless they are, and have the same shape."""
    a, b = _numeric(first, first_name), _numeric(second, second_name)
    if a.shape != b.shape:
        raise ValueError(
            f"{first_name} and {second_name} must have the same shape, got {a.shape} and {b.shape}"
        )
    return a, b


def _numeric(values: ArrayLike, name: str) -> Array:
    """As an array of numbers or Booleans, None as NaN; raise for texts, dates and uneven lists."""
    try:
        array: Array = np.asarray(values)
    except ValueError:
        raise ValueError(
            f"{name} must be an array, got lists of different lengths; pass lists of equal length"
        ) from None
    if array.dtype.kind == "O":
        known = [cell is None or isinstance(cell, Real | np.bool_) for cell in array.flat]
        if all(known):
            return array.astype(np.float64)
        problem = f"got {array.flat[known.index(False)]!r}"
    elif array.dtype.kind in "biuf":
        return array
    else:
        problem = f"got dtype {array.dtype}"
    raise TypeError(f"{name} must hold numbers, {problem}; convert it to numbers first")


def known_entries(
    truth: ArrayLike, estimate: ArrayLike, truth_name: str, estimate_name: str
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Both as flat bits, restricted to entries whose truth is known: not NaN, None or masked."""
    a, b = same_shape(truth, estimate, truth_name, estimate_name)
    known = ~np.ma.getmaskarray(np.ma.asanyarray(truth))
    if a.dtype.kind == "f":
        known &= ~np.isnan(a)
    return as_bits(a[known], truth_name, None), as_bits(b[known], estimate_name, None)


def bits_and_probabilities(
    y: ArrayLike, p: ArrayLike
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """`y` as bits and `p` as probabilities, both flat; raise if they are not."""
    bits, probability = bits_and_numbers(y, p)
    wrong = ~((probability >= 0) & (probability <= 1))
    if wrong.any():
        raise ValueError(
            f"p must hold probabilities between 0 and 1, got {probability[wrong][0]}; "
            "turn log-odds into probabilities first"
        )
    return bits, probability


def bits_and_scores(y: ArrayLike, p: ArrayLike) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """`y` as bits with at least one 1, and `p` as numbers without NaN, both flat, or raise."""
    bits, score = bits_and_numbers(y, p)
    if np.isnan(score).any():
        raise ValueError(
            f"p must hold scores, got nan at entry {int(np.argmax(np.isnan(score)))}; "
            "pass a number for every entry"
        )
    if not bits.any():
        raise ValueError(
            "y must hold at least one 1, got none; without it there is nothing to find"
        )
    return bits, score


def bits_and_numbers(y: ArrayLike, p: ArrayLike) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """`y` as bits and `p` as floats, both flat, with at least one entry, or raise."""
    truth, given = same_shape(y, p, "y", "p")
    numbers = given.astype(np.float64).ravel()
    if truth.size == 0:
        raise ValueError("y and p must hold at least one entry, got none")
    return as_bits(truth, "y", None).ravel().astype(bool), numbers
