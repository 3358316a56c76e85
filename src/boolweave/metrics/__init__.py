"""Measures of the quality of a prediction, a ranking or a set of factors.

Numbers that score an answer belong here; code that makes answers, or chooses between them in a fit,
does not. Measures of single entries come first, then those of the answers of an encoded table, then
rankings of the entries of each row, as recommenders make them, then comparisons of factors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boolweave.data.questions import Questions
from boolweave.model.products import as_bits
from boolweave.runtime.checks import check_count
from boolweave.runtime.threads import cut
from boolweave.runtime.types import Array, Bits, Doubles
from boolweave.runtime.words import counted

__all__ = [
    "PROBABILITY_FLOOR",
    "Agreement",
    "AnswerScores",
    "FactorMatch",
    "RankingScores",
    "accuracy",
    "agreement",
    "answer_scores",
    "average_precision_at_n",
    "expected_calibration_error",
    "information_bound",
    "log_loss",
    "match_factors",
    "ndcg_at_n",
    "precision_at_n",
    "ranking_scores",
    "recall_at_n",
    "reconstruction_error",
    "roc_auc",
]

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
    _, bins = np.unique(bins, return_inverse=True)  # those with probabilities
    # Sum over bins of (count / n) |mean p - mean y| = sum |sum p - sum y| / n.
    gaps = np.bincount(bins, weights=probability - bits)
    return float(np.abs(gaps).sum() / len(bits))


# ---------------------------------------------------------------- answers to questions


@dataclass(frozen=True, eq=False)
class AnswerScores:
    """How well answers are predicted.

    Attributes
    ----------
    losses : array of shape (n,)
        The negative logarithm (in nats) of the probability of each given answer.
    right : array of shape (n,), bool
        Whether the given answer is the most probable one.
    chances : array
        The probabilities of all possible answers to all questions.
    given : array of the same shape, uint8
        Whether each of these was the answer.
    weights : array of shape (n,)
        How often each answer counts.
    """

    losses: Doubles
    right: np.ndarray
    chances: Doubles
    given: Bits
    weights: Doubles

    @property
    def n_answers(self) -> int:
        """Number of answers."""
        return len(self.losses)

    @property
    def log_loss(self) -> float:
        """Mean log-loss of an answer, in nats."""
        return float(np.average(self.losses, weights=self.weights))

    @property
    def standard_error(self) -> float:
        """Standard error of the log-loss."""
        return float(self.losses.std() / np.sqrt(len(self.losses)))

    @property
    def accuracy(self) -> float:
        """Fraction of the answers that are the most probable ones."""
        return float(np.average(self.right, weights=self.weights))

    @property
    def calibration_error(self) -> float:
        """Expected calibration error of the probabilities of all possible answers."""
        return expected_calibration_error(self.given, self.chances)


def answer_scores(
    rows: ArrayLike,
    columns: ArrayLike,
    values: ArrayLike,
    p: ArrayLike,
    groups: Any,
    sample_weight: ArrayLike | None = None,
) -> AnswerScores:
    """Score the predictions of whole answers.

    Parameters
    ----------
    rows, columns, values : array_like of shape (n,)
        Entries of an encoded table, such as those that `Observations.hide` hides: positions and
        values.
    p : array_like of shape (n,)
        Predicted P(value = 1). Levels of one category must add up to 1, and thresholds of one
        answer must not increase, as those of a `BooleanCompletion` that knows the questions.
    groups : Questions
        ``TableEncoder.questions_``. Columns that are neither levels nor thresholds, such as those
        of plain groups, are yes/no answers.

    sample_weight : array_like of shape (n,), optional
        How often the entries count; the first entry of an answer decides.

    Returns
    -------
    AnswerScores

    Examples
    --------
    >>> from boolweave.data.questions import Questions
    >>> from boolweave.metrics import answer_scores
    >>> colour = Questions.of_forms([("levels", 3)], [0, 0, 0])
    >>> found = answer_scores([0, 0, 0], [0, 1, 2], [0, 1, 0], [0.25, 0.5, 0.25], colour)
    >>> found.n_answers, round(found.log_loss, 4), found.accuracy  # one answer, ln 2
    (1, 0.6931, 1.0)
    """
    m, n, bits, chance = (np.asarray(part) for part in (rows, columns, values, p))
    count = np.ones(len(m)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    losses, right, chances, given, weights = [], [], [], [], []
    for probability, outcome, first in Questions.of(groups, len(groups)).answers(
        m, n, bits, chance
    ):
        of_outcome = probability[np.arange(len(outcome)), outcome]
        losses.append(-np.log(np.clip(of_outcome, PROBABILITY_FLOOR, 1.0)))
        right.append(probability.argmax(axis=1) == outcome)
        chances.append(probability.ravel())
        given.append((np.arange(probability.shape[1]) == outcome[:, None]).ravel())
        weights.append(count[first])
    joined = [np.concatenate(parts) for parts in (losses, right, chances, given, weights)]
    chance = np.clip(joined[2], 0.0, 1.0)  # differences of thresholds are rounded
    return AnswerScores(joined[0], joined[1], chance, joined[3].astype(np.uint8), joined[4])


# ---------------------------------------------------------------- rankings

# A row is a user, a column is an item, and a one is relevant. Only held-out entries are ranked,
# never columns whose value is unknown. Entries of a row with equal scores have no order, so every
# measure is its expected value over all their orders; a constant score is as good as chance.


class RankingScores(NamedTuple):
    """Measures of the first n entries of each row, averaged over the rows that have a one.

    Attributes
    ----------
    precision : float
        Fraction of ones among the first n entries, or among all entries of a row with fewer than n.
    recall : float
        Fraction of the ones of a row that are among its first n entries.
    ndcg : float
        Normalized discounted cumulative gain: a one at position i, counted from 1, gains
        1 / log2(i + 1); the sum over the first n positions is divided by that of the best order.
    average_precision : float
        Sum of the precision at the position of each one among the first n, divided by the number of
        ones of the row or n, whichever is less. Its mean over the rows is known as MAP.
    n_rows : int
        Number of rows that have a one; the other figures are means over these rows.
    """

    precision: float
    recall: float
    ndcg: float
    average_precision: float
    n_rows: int


def ranking_scores(rows: ArrayLike, y: ArrayLike, p: ArrayLike, n: int = 10) -> RankingScores:
    """Rank the held-out entries of each row by score, and compute four measures of the first `n`.

    Every measure is computed for each row separately, only from its held-out entries, and then
    averaged over the rows that have at least one 1; all such rows have the same weight. Rows
    without a 1 are left out, because nothing could be found there. If entries of a row have equal
    scores, a measure is its expected value over all their orders.

    Parameters
    ----------
    rows : array_like of shape (n_entries,), int or str
        The row of each held-out entry, by number or label, in any order.
    y : array_like of shape (n_entries,)
        The truth, 0 and 1, with at least one 1.
    p : array_like of shape (n_entries,)
        Scores, such as probabilities or log-odds; the highest come first.
    n : int
        Number of entries of each row that count, >= 1.

    Returns
    -------
    RankingScores
        ``precision``, ``recall``, ``ndcg``, ``average_precision`` and ``n_rows``.

    Examples
    --------
    >>> from boolweave.metrics import ranking_scores
    >>> rows = ["Ann", "Ann", "Ann", "Bo", "Bo"]
    >>> found = ranking_scores(rows, [1, 0, 1, 0, 1], [0.9, 0.8, 0.3, 0.6, 0.7], n=2)
    >>> found.precision, found.recall, found.n_rows  # Ann: 1 of 2 and 1 of 2; Bo: 1 of 2 and all
    (0.5, 0.75, 2)
    """
    check_count("n", n, remedy="; 10 means the first ten")
    bits, score = bits_and_scores(y, p)
    row = _numbered(rows, len(bits))
    order = np.lexsort((-score, row))
    row, score, one = row[order], score[order], bits[order].astype(np.int64)
    row_begins = np.concatenate([[True], row[1:] != row[:-1]])
    tie_begins = row_begins | np.concatenate([[True], score[1:] != score[:-1]])

    first, size, row = _runs(row_begins)  # `row` counts from 0 now
    n_ones = np.add.reduceat(one, first)
    tie_first, tie_size, tie = _runs(tie_begins)
    tie_ones = np.add.reduceat(one, tie_first)
    # Number of ones of the row before the tie.
    before = np.cumsum(tie_ones) - tie_ones
    before -= (np.cumsum(n_ones) - n_ones)[row[tie_first]]

    place = np.arange(len(one)) - first[row]
    shown = np.flatnonzero(place < n)
    row, tie, place = row[shown], tie[shown], place[shown]
    # In a tie of m entries with r ones, each position holds a one with probability r / m. Given
    # that, each of the i earlier positions of the tie holds a one with (r - 1) / (m - 1).
    chance = tie_ones[tie] / tie_size[tie]
    others = (tie_ones[tie] - 1) / np.maximum(tie_size[tie] - 1, 1)
    ones_so_far = 1 + before[tie] + (shown - tie_first[tie]) * others

    gain = 1 / np.log2(np.arange(min(n, int(size.max()))) + 2)
    has_one = n_ones > 0
    best = np.concatenate([[0.0], np.cumsum(gain)])[np.minimum(n_ones, len(gain))]

    def mean(terms: NDArray[np.float64], divisor: Array) -> float:
        """Sum the terms by row, divide them, and average over rows with a one."""
        sums = np.bincount(row, weights=terms, minlength=len(first))
        return float(np.mean(sums[has_one] / divisor[has_one]))

    return RankingScores(
        precision=mean(chance, np.minimum(size, n)),
        recall=mean(chance, n_ones),
        ndcg=mean(chance * gain[place], best),
        average_precision=mean(chance * ones_so_far / (place + 1), np.minimum(n_ones, n)),
        n_rows=int(np.count_nonzero(has_one)),
    )


def precision_at_n(rows: ArrayLike, y: ArrayLike, p: ArrayLike, n: int = 10) -> float:
    """Compute the fraction of ones among the `n` highest scores of each row.

    The result is the mean over the rows that have at least one 1. For a row with fewer than `n`
    held-out entries, all of them count. Ties contribute their expected value over all orders.

    Parameters
    ----------
    rows, y, p, n
        As for `ranking_scores`, which gives all measures at once.

    Examples
    --------
    >>> from boolweave.metrics import precision_at_n
    >>> precision_at_n([0, 0, 0, 0], [1, 0, 1, 1], [0.9, 0.8, 0.7, 0.1], n=2)
    0.5
    """
    return ranking_scores(rows, y, p, n).precision


def recall_at_n(rows: ArrayLike, y: ArrayLike, p: ArrayLike, n: int = 10) -> float:
    """Compute the fraction of the held-out ones of each row among its `n` highest scores.

    The result is the mean over the rows that have at least one 1. Ties contribute their expected
    value over all orders.

    Parameters
    ----------
    rows, y, p, n
        As for `ranking_scores`, which gives all measures at once.

    Examples
    --------
    >>> from boolweave.metrics import recall_at_n
    >>> recall_at_n([0, 0, 0, 0], [1, 0, 0, 1], [0.9, 0.8, 0.7, 0.1], n=2)
    0.5
    """
    return ranking_scores(rows, y, p, n).recall


def ndcg_at_n(rows: ArrayLike, y: ArrayLike, p: ArrayLike, n: int = 10) -> float:
    """Compute the normalized discounted cumulative gain of the `n` highest scores of each row.

    A one at position i, counted from 1, gains 1 / log2(i + 1); the sum over the first `n` positions
    is divided by that of the best order of the held-out entries of the row. The result is the mean
    over the rows that have at least one 1. Ties contribute their expected value over all orders.

    Parameters
    ----------
    rows, y, p, n
        As for `ranking_scores`, which gives all measures at once.

    Examples
    --------
    >>> from boolweave.metrics import ndcg_at_n
    >>> round(ndcg_at_n([0, 0, 0], [0, 1, 0], [0.9, 0.8, 0.1]), 4)  # 1 / log2(3)
    0.6309
    """
    return ranking_scores(rows, y, p, n).ndcg


def average_precision_at_n(rows: ArrayLike, y: ArrayLike, p: ArrayLike, n: int = 10) -> float:
    """Compute the mean average precision (MAP) of the `n` highest scores of each row.

    For each row, the precisions at the position of each one among its first `n` entries are summed
    and divided by the number of its ones or `n`, whichever is less. The result is the mean over the
    rows that have at least one 1. Ties contribute their expected value over all orders.

    Parameters
    ----------
    rows, y, p, n
        As for `ranking_scores`, which gives all measures at once.

    Examples
    --------
    >>> from boolweave.metrics import average_precision_at_n
    >>> average_precision_at_n([0, 0, 0, 0], [1, 0, 0, 1], [0.9, 0.8, 0.7, 0.1])  # (1/1 + 2/4) / 2
    0.75
    """
    return ranking_scores(rows, y, p, n).average_precision


def _numbered(rows: ArrayLike, n_entries: int) -> NDArray[np.int64]:
    """Rows as whole numbers, which are equal if the rows are equal."""
    given: Array = np.asarray(rows)
    if given.shape != (n_entries,):
        raise ValueError(
            f"rows must hold one row for each of the {n_entries} entries, got shape {given.shape}"
        )
    if given.dtype.kind == "O" and all(isinstance(label, str) for label in given):
        given = given.astype(np.str_)
    if given.dtype.kind in "UT":
        return np.unique(given, return_inverse=True)[1].astype(np.int64)
    if given.dtype.kind not in "iu":
        raise ValueError(
            f"rows must be whole numbers or labels, got {given.dtype}; convert them first"
        )
    return given.astype(np.int64)


def _runs(begins: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
    """Where each run starts and how long it is, (n_runs,), and the run of each entry."""
    first = np.flatnonzero(begins)
    return first, np.diff(first, append=len(begins)), np.cumsum(begins) - 1


# ---------------------------------------------------------------- factors


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
    factors, partner = linear_sum_assignment(jaccard, maximize=True)
    permutation = np.full(rows_a.shape[1], -1, dtype=np.int64)
    similarities = np.zeros(rows_a.shape[1])
    permutation[factors] = partner
    similarities[factors] = jaccard[factors, partner]
    return FactorMatch(permutation=permutation, similarities=similarities)


def _in_common(a: Array, b: Array) -> NDArray[np.float64]:
    """How often a column of a and one of b are both 1, for bits (n, K_a) and (n, K_b)."""
    total = np.zeros((a.shape[1], b.shape[1]))
    for run in cut(len(a), 1, 1 << 16):  # as many rows as are converted to floats at once
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
