"""The M-step: the channel and the priors that marginals or decoded factors support."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.fit.density import density
from boolweave.model.model import Channel, Model, sigmoid

if TYPE_CHECKING:
    from boolweave.data.observations import Observations
    from boolweave.engine.loop import State
    from boolweave.engine.result import Result
    from boolweave.fit.settings import Settings

# What a learned channel may be: never certain (that could not be unlearned), never useless.
LEAST_FLIP = 1e-6
LEAST_GAP = 0.02


def model_from_beliefs(
    settings: Settings, observations: Observations, model: Model, state: State
) -> Model:
    """The M-step: the channel and priors that the marginals of sum-product support."""
    channel = model.channel
    if settings.learns("noise"):
        n_ones = observations.n_ones
        seen_one, seen_zero = state.expected_ones
        channel = channel_from_counts(
            one_and_one=seen_one,
            one_and_zero=n_ones - seen_one,
            zero_and_one=seen_zero,
            zero_and_zero=observations.n_observed - n_ones - seen_zero,
        )
    row_prior, column_prior = model.row_prior, model.column_prior
    if settings.learns("row_prior"):
        row_prior = density(sigmoid(state.row_belief))
    if settings.learns("column_prior"):
        column_prior = density(sigmoid(state.column_belief.T)).T
    return replace(model, channel=channel, row_prior=row_prior, column_prior=column_prior)


def model_from_bits(settings: Settings, observations: Observations, result: Result) -> Model:
    """The same from the decoded factors, as max-sum has no marginals."""
    model = result.model
    channel = model.channel
    X, Y = result.X, result.Y
    if settings.learns("noise"):
        seen = observations
        (zero_and_zero, zero_and_one), (one_and_zero, one_and_one) = result.decoded_counts(seen)
        channel = channel_from_counts(
            zero_and_zero=zero_and_zero, zero_and_one=zero_and_one,
            one_and_zero=one_and_zero, one_and_one=one_and_one,
        )  # fmt: skip
    row_prior, column_prior = model.row_prior, model.column_prior
    if settings.learns("row_prior"):
        row_prior = density(X.astype(np.float64))
    if settings.learns("column_prior"):
        column_prior = density(Y.T.astype(np.float64)).T
    return replace(model, channel=channel, row_prior=row_prior, column_prior=column_prior)


def channel_from_counts(
    *, one_and_one: float, one_and_zero: float, zero_and_one: float, zero_and_zero: float
) -> Channel:
    """The channel of (expected) counts of "seen and true".

    Ten entries with the paper's share of flips are added for either true value: little data cannot
    teach much.
    """
    one_given_one = (one_and_one + 9) / (one_and_one + zero_and_one + 10)
    one_given_zero = (one_and_zero + 1) / (one_and_zero + zero_and_zero + 10)
    middle = (one_given_one + one_given_zero) / 2
    one_given_one = max(one_given_one, middle + LEAST_GAP / 2)
    one_given_zero = min(one_given_zero, middle - LEAST_GAP / 2)
    return Channel(
        one_given_zero=float(np.clip(one_given_zero, LEAST_FLIP, 1 - 2 * LEAST_GAP)),
        one_given_one=float(np.clip(one_given_one, 2 * LEAST_GAP, 1 - LEAST_FLIP)),
    )


def distance(a: Model, b: Model) -> float:
    """Largest difference between the probabilities of two models."""
    pairs: list[tuple[Any, Any]] = [
        (a.channel.one_given_zero, b.channel.one_given_zero),
        (a.channel.one_given_one, b.channel.one_given_one),
        (a.row_prior, b.row_prior),
        (a.column_prior, b.column_prior),
    ]
    return max(float(np.max(np.abs(np.asarray(x) - y), initial=0.0)) for x, y in pairs)
