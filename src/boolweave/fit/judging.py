"""The quality of an answer, compared with a constant matrix or another answer, or in bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from boolweave.data.ones import SparseObservations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from boolweave.data.observed import ObservedEntries
    from boolweave.engine.result import Result
    from boolweave.runtime.types import Array, Floats

# In a table with a smaller fraction of missing entries than this, the aim is to explain rather than
# to predict. Then an answer of max-sum replaces one of sum-product that has this many times as many
# wrong entries.
FEW_HOLES = 0.05
MORE_WRONG = 1.01

# A log-posterior is rising if it rose by this fraction of itself in this many last iterations.
RISE = 0.02
LAST = 10


def wrong_entries(result: Result, observations: ObservedEntries) -> int:
    """Count the observed entries that the product of the decoded factors gets wrong."""
    counts = result.decoded_counts(observations)
    return int(counts.sum() - np.trace(counts))


def wrong_as_constant(observations: ObservedEntries) -> int:
    """Count the observed entries that the better of the two constant matrices gets wrong."""
    return min(observations.n_ones, observations.n_observed - observations.n_ones)


def failed(result: Result, observations: ObservedEntries) -> bool:
    """Whether all factors are empty, or more entries are wrong than with a constant matrix."""
    if observations.n_ones == 0:
        return False
    empty = not (result.X.any(axis=0) & result.Y.any(axis=1)).any()
    return empty or wrong_entries(result, observations) > wrong_as_constant(observations)


def is_rising(result: Result) -> bool:
    """Whether the log-posterior of the decoded factors was still rising fast at the end."""
    scores = result.history["log_posterior"]
    if result.converged or len(scores) <= LAST:
        return False
    return bool(scores[-1] - scores[-1 - LAST] > RISE * abs(scores[-1]))


def has_few_holes(observations: ObservedEntries) -> bool:
    """Whether so few entries are missing that the aim is to explain, not to predict."""
    n_cells = observations.shape[0] * observations.shape[1]
    return observations.n_observed > (1 - FEW_HOLES) * n_cells


def is_informative(result: Result, start: Result, observations: ObservedEntries) -> bool:
    """Whether a result explains at least a tenth of what max-sum explains beyond a constant."""
    if observations.n_observed == 0:
        return True
    right, right_before, constant = shares_explained(observations, result, start)
    return right > constant + 0.1 * (right_before - constant) or right >= right_before


def shares_explained(observations: ObservedEntries, *results: Result) -> list[float]:
    """Return the fraction of the entries that each result explains, and last that of a constant."""
    n = observations.n_observed
    shares = [int(np.trace(result.counts(observations))) / n for result in results]
    return [*shares, 1 - wrong_as_constant(observations) / n]


def description_length(result: Result) -> float:
    """Count the bits that describe the decoded factors and where the data differ from them.

    This is MDL4BMF (Miettinen and Vreeken) with the typed XOR error matrix: each column of X and
    row of Y is described by the number and the positions of its ones; the errors among the ones of
    the product, and among its zeros, by their number and their positions. Only observed entries
    count.
    """
    return length_in_bits(result.X, result.Y, result.decoded_counts(result.observations))


def length_in_bits(X: NDArray[np.uint8], Y: NDArray[np.uint8], counts: NDArray[np.int64]) -> float:
    """Count the bits of factors and errors; `counts[o, z]` entries are o where the product is z."""
    bits = 0.0
    for side in (X.T, Y):
        n = side.shape[1]
        for ones in side.sum(axis=1, dtype=np.int64):
            bits += np.log2(n + 1) + _log2_choose(n, int(ones))
    for value in (0, 1):
        n, wrong = int(counts[:, value].sum()), int(counts[1 - value, value])
        bits += np.log2(n + 1) + _log2_choose(n, wrong)
    return float(bits)


def _log2_choose(n: int, k: int) -> float:
    from scipy.special import gammaln

    return float((gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)) / np.log(2.0))


# ---------------------------------------------------------------- entries held out


def held_out_parts(
    seen: ObservedEntries, n_folds: int, seed: int
) -> Iterator[tuple[ObservedEntries, Array, Array, Array, Floats | None]]:
    """What is left without each part of the entries, and the rows, columns, values and weights.

    Where zeros are not listed, a part is of ones and of a sample of zeros; otherwise all entries
    are dealt, and there are no weights.
    """
    if isinstance(seen, SparseObservations):
        yield from seen.folds(n_folds, seed)
        return
    for part in seen.to_local().folds(n_folds, seed):
        yield (*part, None)


def log_loss(values: Array, probability: Floats, weights: Floats | None) -> float:
    """The mean of −log p of what was seen; probabilities are kept away from 0 and 1."""
    p = np.clip(probability, 1e-6, 1 - 1e-6)
    loss = -np.where(values == 1, np.log(p), np.log1p(-p))
    return float(np.average(loss, weights=weights))
