"""The quality of an answer, compared with a constant matrix or another answer, or in bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boolweave.data.observed import ObservedEntries
from boolweave.engine.result import Result
from boolweave.metrics import match_factors
from boolweave.runtime.types import Array, Floats

# Messages often oscillate around a solution without meeting the tolerance, and a few entries of the
# factors flicker with them: on roll calls of the Senate up to 1.3% of the ones in an iteration,
# while the product changes by less than 0.5% in ten. Up to this share, averaged over the late
# iterations, factors have settled.
FLICKER = 0.02

# The number of parts of the entries that are held out in turn. A rank must be better than a lower
# one by more than this many nats for each further factor, because the best of several equally good
# ranks is always a little better.
N_FOLDS = 4
LEAST_GAIN = 2.0


def wrong_entries(result: Result, observations: ObservedEntries) -> int:
    """Count the observed entries that the product of the decoded factors gets wrong."""
    counts = result.decoded_counts(observations)
    return int(counts.sum() - np.trace(counts))


def wrong_as_constant(observations: ObservedEntries) -> int:
    """Count the observed entries that the better of the two constant matrices gets wrong."""
    return min(observations.n_ones, observations.n_observed - observations.n_ones)


def failed(result: Result, observations: ObservedEntries) -> bool:
    """Whether all factors are empty, or say no more about the entries than a constant matrix.

    They do if they have no more wrong entries, or save more bits than they take: where a one of the
    product is seen in fewer than half of the cases, a good answer has many wrong entries.
    """
    if observations.n_ones == 0:
        return False
    empty = not (result.X.any(axis=0) & result.Y.any(axis=1)).any()
    if empty or wrong_entries(result, observations) <= wrong_as_constant(observations):
        return empty
    return description_length(result) >= length_without_factors(observations)


def is_rising(result: Result) -> bool:
    """Whether the log-posterior of the decoded factors was still rising fast at the end."""
    scores = result.history["log_posterior"]
    # A log-posterior is rising if it rose by this fraction of itself in this many last iterations.
    rise = 0.02
    last = 10
    if result.converged or len(scores) <= last:
        return False
    return bool(scores[-1] - scores[-1 - last] > rise * abs(scores[-1]))


def share_changing(result: Result) -> float:
    """The number of changes in X and Y per late iteration, divided by the number of ones."""
    # The number of iterations over which the share is averaged.
    late = 10
    changes = result.history.get("changes", np.zeros(0))[-late:]  # old model files do not have it
    n_ones = np.count_nonzero(result.row_log_odds > 0) + np.count_nonzero(
        result.column_log_odds > 0
    )
    return float(changes.mean() / max(1, n_ones)) if len(changes) else 0.0


def has_settled(result: Result) -> bool:
    """Whether the decoded factors hardly changed any more when the run ended."""
    return result.converged or share_changing(result) <= FLICKER


def explains(result: Result) -> bool:
    """Whether factors are more than a fit of noise.

    They have settled, or they describe the table in fewer bits than it takes without factors.
    """
    return has_settled(result) or description_length(result) < length_without_factors(
        result.observations
    )


def halves_errors(result: Result) -> bool:
    """Whether factors have at most half as many wrong entries as a constant matrix."""
    observations = result.observations
    return 2 * wrong_entries(result, observations) <= wrong_as_constant(observations)


def has_few_holes(observations: ObservedEntries) -> bool:
    """Whether hardly any entries are missing."""
    n_cells = observations.shape[0] * observations.shape[1]
    # With a larger fraction of missing entries than this, the bits that factors save do not show
    # whether they fit noise.
    few_holes = 0.05
    return observations.n_observed > (1 - few_holes) * n_cells


def is_informative(result: Result, start: Result, observations: ObservedEntries) -> bool:
    """Whether a result says at least a tenth of what max-sum says about the entries."""
    said, said_before = shares_of_information(observations, result, start)
    return said > 0.1 * said_before or said >= said_before


def shares_of_information(observations: ObservedEntries, *results: Result) -> list[float]:
    """Return the share of the information in the entries that the product of each result has.

    This is the mutual information of entries and product, divided by the entropy of the entries. It
    takes no account of how often a one of the product is seen.
    """
    whole = entropy([observations.n_ones, observations.n_observed - observations.n_ones])
    shares = []
    for result in results:
        counts = result.counts(observations)  # of entries o (first axis) and product z
        shared = entropy(counts.sum(axis=0)) + entropy(counts.sum(axis=1)) - entropy(counts)
        shares.append(float(shared / whole) if whole > 0 else 0.0)
    return shares


def entropy(counts: ArrayLike) -> float:
    """The entropy of frequencies, in nats."""
    positive = np.asarray(counts, dtype=np.float64).ravel()
    positive = positive[positive > 0] / max(1.0, positive.sum())
    return float(-(positive * np.log(positive)).sum())


def shares_found(
    X: NDArray[np.uint8],
    Y: NDArray[np.uint8],
    others: Sequence[tuple[NDArray[np.uint8], NDArray[np.uint8]]],
) -> NDArray[np.float64]:
    """Return the fraction of other answers in which each factor is found again, (K,)."""
    n_found = np.zeros(len(Y))
    # A factor is found again in another answer if the tiles have at least this Jaccard similarity.
    same_factor = 0.5
    for other in others:
        match = match_factors(X, Y, *other)
        n_found += (match.permutation >= 0) & (match.similarities >= same_factor)
    return n_found / max(1, len(others))


def description_length(result: Result) -> float:
    """Count the bits that describe the decoded factors and where the data differ from them.

    This is MDL4BMF (Miettinen and Vreeken) with the typed XOR error matrix: each column of X and
    row of Y is described by the number and the positions of its ones; the errors among the ones of
    the product, and among its zeros, by their number and their positions. Only observed entries
    count.
    """
    return length_in_bits(result.X, result.Y, result.decoded_counts(result.observations))


def length_without_factors(observations: ObservedEntries) -> float:
    """Count the bits that describe the data if every entry of the product is 0."""
    (M, N), n_ones = observations.shape, observations.n_ones
    counts = np.array([[observations.n_observed - n_ones, 0], [n_ones, 0]])
    nothing = np.zeros((M, 0), dtype=np.uint8), np.zeros((0, N), dtype=np.uint8)
    return length_in_bits(*nothing, counts)


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


def chance_of_lines(observations: ObservedEntries, axis: int) -> float:
    """How often lines with the same share of ones differ as much as these by chance alone.

    Rows (axis 0) or columns (axis 1) are compared by the chi-squared test of homogeneity.

    Examples
    --------
    >>> import numpy as np
    >>> from boolweave import Observations
    >>> from boolweave.fit.judging import chance_of_lines
    >>> table = Observations.from_dense(np.tile([0, 1, 1, 1], (20, 1)))
    >>> [round(chance_of_lines(table, axis), 3) for axis in (0, 1)]
    [1.0, 0.0]
    """
    from scipy.special import chdtrc

    local = observations.to_local()
    line = (local.rows_of_entries(), local.indices)[axis]
    n = np.bincount(line, minlength=local.shape[axis]).astype(np.float64)
    ones = np.bincount(line, local.values, local.shape[axis])
    share = local.n_ones / max(1, local.n_observed)
    if share in (0.0, 1.0):
        return 1.0
    squares = (ones - n * share) ** 2 / np.maximum(n, 1.0)  # 0 for lines without entries
    return float(chdtrc(max(1, np.count_nonzero(n) - 1), squares.sum() / (share * (1 - share))))


# ---------------------------------------------------------------- entries held out


def n_row_groups(observations: ObservedEntries, n_folds: int = N_FOLDS) -> int:
    """The number of groups of rows of a held-out part, none of which is empty."""
    # A standard error from one number for each held-out part would be too uncertain.
    n_groups = 16
    return max(1, min(n_groups, observations.n_listed // n_folds))


def log_loss_by_rows(
    rows: Array, values: Array, probability: Floats, weights: Floats | None, n_groups: int
) -> NDArray[np.float64]:
    """The log-loss of entries in groups of neighbouring rows, (n_groups,).

    The mean over the groups is the mean of −log p over all entries, with their weights. Entries are
    grouped by rows, because the errors of a fit in the entries of one row are not independent.
    Probabilities are kept away from 0 and 1.
    """
    p = np.clip(probability, 1e-6, 1 - 1e-6)
    return mean_by_rows(rows, -np.where(values == 1, np.log(p), np.log1p(-p)), weights, n_groups)


def mean_by_rows(
    rows: Array, losses: Floats, weights: Floats | None, n_groups: int
) -> NDArray[np.float64]:
    """The mean of the losses of entries in groups of neighbouring rows, (n_groups,)."""
    n = len(losses)
    weights = np.ones(n) if weights is None else weights
    group = np.empty(n, dtype=np.intp)
    group[np.argsort(rows, kind="stable")] = np.arange(n) * n_groups // n
    return n_groups * np.bincount(group, weights * losses, n_groups) / weights.sum()


def best_rank(scores: Mapping[int, NDArray[np.float64]], tolerance: float = 0.0) -> int:
    """The lowest rank whose mean score exceeds the lowest one by at most one standard error.

    The standard error is that of the difference between two ranks, whose scores are of the same
    entries. It is 0 if each rank has a single score. Differences up to `tolerance` for each
    factor that a rank has less never count.

    Examples
    --------
    >>> import numpy as np
    >>> from boolweave.fit.judging import best_rank
    >>> best_rank({1: np.array([0.9, 0.7]), 2: np.array([0.2, 0.1]), 3: np.array([0.1, 0.18])})
    2
    """
    lowest = min(scores, key=lambda rank: scores[rank].mean())
    differences = {rank: scores[rank] - scores[lowest] for rank in scores}
    return min(
        rank
        for rank, lost in differences.items()
        if lost.mean() <= max(standard_error(lost), tolerance * (lowest - rank))
    )


def standard_error(values: NDArray[np.float64]) -> float:
    """The standard error of the mean of independent values; 0 for a single value."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
