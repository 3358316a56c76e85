"""Noise rates of each column or of each row: the M-step, its shrinkage, and the choice of axis.

A column (or row) n has two rates, p₁₁ = p(1|1) and p₁₀ = p(1|0). With P = P(z = 1) of its observed
entries, they are the expected shares of ones among its true ones and its true zeros. Columns with
few entries would have arbitrary rates, so both are shrunk to the common pair g by s pseudo-entries:
p = (k + s·g) / (n + s), the mean of a beta distribution. Its strength s is learned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from boolweave.engine.prediction import latent_at
from boolweave.model.channel import Channel

if TYPE_CHECKING:
    from boolweave.data.observations import Observations
    from boolweave.model.odds import Doubles
    from boolweave.model.products import Product
    from boolweave.runtime.types import Floats

Axis = Literal["columns", "rows"]

# Ten entries with the flip probability of the paper are added for either true value, so that small
# data do not change the common pair much.
ADDED, ADDED_FLIPS = 10, 1

# The strengths s of the common pair among which the most probable is chosen. Expected counts vary
# less than counts, so that lines seem to differ less than they do: with much stronger ones, all
# lines could become the same, and the next iterations would keep them so.
STRENGTHS = (1.0, 2.0, 4.0, 8.0)

# Rates are never certain, because that could not be unlearned.
LEAST_RATE = 1e-6


class Counts(NamedTuple):
    """Expected numbers of entries of each line: of true zeros and ones, and those observed as 1."""

    zeros: Doubles  # n₀, (lines,)
    ones_of_zeros: Doubles  # k₀
    ones: Doubles  # n₁
    ones_of_ones: Doubles  # k₁


def expected_counts(
    observations: Observations,
    row_log_odds: Floats,
    column_log_odds: Floats,
    product: Product,
    marginal: bool = True,
) -> dict[Axis, Counts]:
    """The counts of all columns and of all rows, given the log-odds of both factors.

    Parameters
    ----------
    observations : Observations, (M, N)
    row_log_odds : (M, K) array
    column_log_odds : (K, N) array
    product : {"or", "xor"}
    marginal : bool
        Whether log-odds are marginals; if not, the factors are decoded.

    Returns
    -------
    dict
        For "columns", arrays of shape (N,); for "rows", of shape (M,).
    """
    lengths: dict[Axis, int] = {"columns": observations.n_columns, "rows": observations.n_rows}
    totals = {axis: np.zeros((4, length)) for axis, length in lengths.items()}
    for first, last, columns, values in observations.row_chunks():
        rows = np.repeat(np.arange(first, last), np.diff(observations.indptr[first : last + 1]))
        one = latent_at(row_log_odds, column_log_odds, rows, columns, product, marginal)
        for lines, total in zip((columns, rows), totals.values(), strict=True):
            for value, chance in enumerate((1 - one, one)):
                total[2 * value] += np.bincount(lines, chance, total.shape[1])
                total[2 * value + 1] += np.bincount(lines, chance * values, total.shape[1])
    return {axis: Counts(*total) for axis, total in totals.items()}


def common_pair(counts: Counts) -> tuple[float, float]:
    """The rates p(1|0) and p(1|1) of all lines together."""
    n_zeros, ones_of_zeros, n_ones, ones_of_ones = (float(part.sum()) for part in counts)
    return (
        (ones_of_zeros + ADDED_FLIPS) / (n_zeros + ADDED),
        (ones_of_ones + ADDED - ADDED_FLIPS) / (n_ones + ADDED),
    )


def log_evidence(successes: Doubles, trials: Doubles, common: float, s: float) -> float:
    """log p(successes | s): rates of lines have a beta distribution with this mean and strength.

    Without the binomial coefficients, which do not depend on `s`; infinity means the common rate.
    """
    from scipy.special import betaln

    failures = trials - successes
    if s == np.inf:
        return float(np.sum(successes * np.log(common) + failures * np.log1p(-common)))
    ones, zeros = s * common, s * (1 - common)
    return float(np.sum(betaln(successes + ones, failures + zeros) - betaln(ones, zeros)))


def strength(successes: Doubles, trials: Doubles, common: float) -> float:
    """The number of pseudo-entries, out of a few, that describes the rates of lines best.

    Examples
    --------
    >>> import numpy as np
    >>> from boolweave.fit.noise import strength
    >>> n = np.full(100, 50.0)
    >>> strength(np.full(100, 5.0), n, 0.1)  # lines that do not differ at all
    8.0
    >>> strength(np.tile([0.0, 50.0], 50), n, 0.5)  # lines that have nothing in common
    1.0
    """
    return max(STRENGTHS, key=lambda s: log_evidence(successes, trials, common, s))


def rates(counts: Counts) -> tuple[Doubles, Doubles]:
    """The shrunk rates p(1|0) and p(1|1) of each line."""
    zero, one = (
        np.clip((successes + s * common) / (trials + s), LEAST_RATE, 1 - LEAST_RATE)
        for successes, trials, common in _kinds(counts)
        for s in [strength(successes, trials, common)]
    )
    return zero, one


def _kinds(counts: Counts) -> list[tuple[Doubles, Doubles, float]]:
    """Of true zeros, and of true ones: those observed as 1, all, and the common rate."""
    zero, one = common_pair(counts)
    return [(counts.ones_of_zeros, counts.zeros, zero), (counts.ones_of_ones, counts.ones, one)]


def channel_of(counts: Counts, axis: Axis) -> Channel:
    """The channel with rates of each column, (N,), or of each row, (M, 1)."""
    zero, one = rates(counts)
    if axis == "rows":
        zero, one = zero[:, None], one[:, None]
    return Channel(one_given_zero=zero, one_given_one=one)


def best_axis(counts: dict[Axis, Counts]) -> Axis | None:
    """Whether columns or rows deserve rates of their own; None if one pair describes them best.

    The expected entries must be more probable if the rates have beta distributions, by more than
    the two strengths of these, half the logarithm of the number of lines each, take to describe.
    """
    gains: dict[Axis | None, float] = {None: 0.0}
    for axis, of in counts.items():
        gain = -np.log(len(of.zeros))
        for successes, trials, common in _kinds(of):
            s = strength(successes, trials, common)
            gain += log_evidence(successes, trials, common, s)
            gain -= log_evidence(successes, trials, common, np.inf)
        gains[axis] = gain
    return max(gains, key=lambda axis: gains[axis])
