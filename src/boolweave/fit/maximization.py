"""The M-step: learn the channel and the priors from marginals or from decoded factors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from boolweave.model.channel import Channel
from boolweave.model.model import Model
from boolweave.model.odds import sigmoid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from boolweave.data.observed import ObservedEntries
    from boolweave.engine.backend import Beliefs
    from boolweave.engine.result import Result
    from boolweave.fit.settings import Settings

# Limits of a learned channel: never certain (that could not be unlearned), never useless.
LEAST_FLIP = 1e-6
LEAST_GAP = 0.02

# Densities stay away from 0 and 1, which would be certain and could not be unlearned.
LEAST_DENSITY = 1e-3


def model_from_beliefs(
    settings: Settings,
    observations: ObservedEntries,
    model: Model,
    beliefs: Beliefs,
    expected_ones: tuple[float, float],
) -> Model:
    """Learn the channel and the priors from the marginals of sum-product."""
    if settings.learns("noise"):
        n_ones = observations.n_ones
        seen_one, seen_zero = expected_ones
        n_zeros = observations.n_observed - n_ones
        counts = (n_zeros - seen_zero, seen_zero), (n_ones - seen_one, seen_one)
        model = replace(model, channel=channel_from_counts(counts))
    if settings.learns("row_prior"):
        model = replace(model, row_prior=density(sigmoid(beliefs.rows)))
    if settings.learns("column_prior"):
        model = replace(model, column_prior=density(sigmoid(beliefs.columns.T)).T)
    return model


def model_from_bits(settings: Settings, observations: ObservedEntries, result: Result) -> Model:
    """Learn the same from the decoded factors, because max-sum has no marginals."""
    model = result.model
    if settings.learns("noise"):
        model = replace(model, channel=channel_from_counts(result.decoded_counts(observations)))
    if settings.learns("row_prior"):
        model = replace(model, row_prior=density(result.X.astype(np.float64)))
    if settings.learns("column_prior"):
        model = replace(model, column_prior=density(result.Y.T.astype(np.float64)).T)
    return model


def channel_from_counts(counts: Sequence[Sequence[float]] | NDArray[np.int64]) -> Channel:
    """Estimate the channel from (expected) counts, indexed by the seen and then the true value.

    Ten entries with the flip probability of the paper are added for either true value, so that
    small data do not change it much.
    """
    (zero_and_zero, zero_and_one), (one_and_zero, one_and_one) = counts
    one_given_one = (one_and_one + 9) / (one_and_one + zero_and_one + 10)
    one_given_zero = (one_and_zero + 1) / (one_and_zero + zero_and_zero + 10)
    middle = (one_given_one + one_given_zero) / 2
    one_given_one = max(one_given_one, middle + LEAST_GAP / 2)
    one_given_zero = min(one_given_zero, middle - LEAST_GAP / 2)
    return Channel(
        one_given_zero=float(np.clip(one_given_zero, LEAST_FLIP, 1 - 2 * LEAST_GAP)),
        one_given_one=float(np.clip(one_given_one, 2 * LEAST_GAP, 1 - LEAST_FLIP)),
    )


def density(probabilities: NDArray[np.floating]) -> NDArray[np.float64]:
    """Estimate the density of a factor from the probabilities of its entries.

    Parameters
    ----------
    probabilities : (M, K) array
        P(entry = 1).

    Returns
    -------
    (1, 1), (1, K) or (M, 1) array
        One density in total, per factor, or per row. More numbers are used only if they raise the
        expected log-probability of the entries by more than ½ log(entries per number) each.
    """
    n_rows, n_factors = probabilities.shape
    if probabilities.size == 0:
        return np.full((1, 1), 0.5)
    choices = []
    for axis, entries in ((None, n_rows * n_factors), (0, n_rows), (1, n_factors)):
        # One additional success and failure prevent certainty in small samples.
        sums = probabilities.sum(axis=axis, keepdims=True, dtype=np.float64)
        p = np.clip((sums + 1) / (entries + 2), LEAST_DENSITY, 1 - LEAST_DENSITY)
        gain = float(np.sum(sums * np.log(p) + (entries - sums) * np.log1p(-p)))
        choices.append((gain - 0.5 * p.size * np.log(entries + 1), p))
    return max(choices, key=lambda choice: choice[0])[1]


def distance(a: Model, b: Model) -> float:
    """Return the largest difference between the probabilities of two models."""
    pairs = [
        (a.channel.one_given_zero, b.channel.one_given_zero),
        (a.channel.one_given_one, b.channel.one_given_one),
        (a.row_prior, b.row_prior),
        (a.column_prior, b.column_prior),
    ]
    return max(float(np.max(np.abs(np.subtract(x, y)), initial=0.0)) for x, y in pairs)
