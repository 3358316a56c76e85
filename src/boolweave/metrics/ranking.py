"""Ranking measures: the held-out entries of each row, sorted by score, and the ones at the top.

A row is a user, a column is an item, and a one is relevant. Only held-out entries are ranked, never
columns whose value is unknown. Entries of a row with equal scores have no order, so every measure
is its expected value over all their orders; a constant score is as good as chance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boolweave.metrics.entries import bits_and_scores
from boolweave.runtime.checks import check_count
from boolweave.runtime.types import Array


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
