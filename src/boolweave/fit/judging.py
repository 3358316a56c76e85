"""How good an answer is: wrong entries, beside those of a constant matrix and of another answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from boolweave.data.observations import Observations
    from boolweave.engine.result import Result

# A table with fewer holes than this is there to be explained rather than to be filled. Then an
# answer of max-sum takes the place of one of sum-product that has this much more wrong entries.
FEW_HOLES = 0.05
MORE_WRONG = 1.01

# A start is on its way up if its log-posterior rose by this share of itself in so many iterations.
RISE = 0.02
LATELY = 10


def wrong_entries(result: Result, observations: Observations) -> int:
    """How many observed entries the product of the decoded factors has wrong."""
    counts = result.decoded_counts(observations)
    return int(counts.sum() - np.trace(counts))


def wrong_as_constant(observations: Observations) -> int:
    """How many observed entries the better of the two constant matrices has wrong."""
    return min(observations.n_ones, observations.n_observed - observations.n_ones)


def is_empty(result: Result) -> bool:
    """Whether every factor is empty: it has no row, or no column."""
    return not (result.X.any(axis=0) & result.Y.any(axis=1)).any()


def failed(result: Result, observations: Observations) -> bool:
    """Whether an answer says nothing, or has more wrong entries than a constant matrix."""
    if observations.n_ones == 0:
        return False
    return is_empty(result) or wrong_entries(result, observations) > wrong_as_constant(observations)


def climbs(result: Result) -> bool:
    """Whether the log-posterior of the decoded factors was still rising fast at the end."""
    scores = result.history["log_posterior"]
    if result.converged or len(scores) <= LATELY:
        return False
    return bool(scores[-1] - scores[-1 - LATELY] > RISE * abs(scores[-1]))


def is_to_be_explained(observations: Observations) -> bool:
    """Whether so few entries are missing that the table itself is what counts."""
    n_cells = observations.shape[0] * observations.shape[1]
    return observations.n_observed > (1 - FEW_HOLES) * n_cells


def says_something(result: Result, start: Result, observations: Observations) -> bool:
    """Whether it explains at least a tenth of what max-sum explains beyond a constant."""
    if observations.n_observed == 0:
        return True
    right, right_before, constant = shares_explained(observations, result, start)
    return right > constant + 0.1 * (right_before - constant) or right >= right_before


def shares_explained(observations: Observations, *results: Result) -> list[float]:
    """The share of the entries that each result explains; last, that of a constant."""
    n = observations.n_observed
    shares = [int(np.trace(result.counts(observations))) / n for result in results]
    return [*shares, 1 - wrong_as_constant(observations) / n]
