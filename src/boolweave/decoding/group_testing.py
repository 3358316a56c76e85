"""Group testing: which items are positive, from the outcomes of tests on pools of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from boolweave.decoding.pools import as_design, as_outcomes
from boolweave.decoding.tanner import (
    CERTAIN,
    CERTAIN_OR,
    Settings,
    TannerGraph,
    log_ratio,
    propagate,
)
from boolweave.model.odds import sigmoid

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Rate = float | ArrayLike | Callable[[NDArray[np.int64]], ArrayLike]

# Items less probable than this do not take part in the search for the most likely set.
CANDIDATE = 1e-4

# The search for the most likely set goes through the exchanges of items at most so often.
SEARCH_PASSES = 10

# The most likely set is reported unless it is expected to have so many wrong items more than the
# items above one half, which have the fewest.
WORSE = 1.0

# Learning of the prevalence: rounds of expectation and maximisation, and the change that ends them.
LEARNING_ROUNDS = 100
LEARNING_TOL = 1e-3


@dataclass(frozen=True, eq=False)
class Report:
    """What reporting every item above a threshold would mean.

    Attributes
    ----------
    items : (count,) int array, or a list of them
        The items whose probability is at least the threshold.
    expected_missed : float or (columns,) array
        Expected number of positive items that are not among them.
    expected_false : float or (columns,) array
        Expected number of negative items among them.
    """

    items: Any
    expected_missed: Any
    expected_false: Any


@dataclass(frozen=True, eq=False)
class GroupTestingResult:
    """What `group_testing` found.

    For a single vector of outcomes (pools,), arrays over items are (items,) and numbers are plain;
    for outcomes (pools, columns) there is a column, or an entry in a list, for each of them.

    Attributes
    ----------
    probabilities : (items,) or (items, columns) array
        P(item is positive | outcomes).
    positive : (items,) or (items, columns) uint8 array
        1 for the items to report: the most likely set, unless it is expected to have one wrong item
        more than the items with a probability above one half; then those. With too few pools the
        most likely set is not likely at all, and reporting it does harm.
    most_likely : (items,) or (items, columns) uint8 array
        1 for the items of the most likely set: the highest posterior that a search found.
    prevalence : float or array
        As given, or as learned.
    converged : bool or (columns,) bool array
        Whether the probabilities settled.
    n_iter : int or (columns,) int array
    """

    probabilities: NDArray[np.float64]
    positive: NDArray[np.uint8]
    most_likely: NDArray[np.uint8]
    prevalence: Any
    converged: Any
    n_iter: Any

    @property
    def items(self) -> Any:
        """The items to report (see `positive`), ascending; for several columns a list of arrays."""
        return _numbers(self.positive == 1)

    @property
    def expected_errors(self) -> Any:
        """Expected number of wrong items, missed and false together, if `items` is reported."""
        return _plain(_doubt(self.positive == 1, self.probabilities).sum(axis=0))

    def at(self, threshold: float) -> Report:
        """Report every item with at least this probability.

        Parameters
        ----------
        threshold : float
            Between 0 and 1. A low one misses less and gives more false alarms.

        Returns
        -------
        Report
        """
        if not 0 <= threshold <= 1:
            raise ValueError(f"threshold must lie between 0 and 1, got {threshold}")
        above = self.probabilities >= threshold
        return Report(
            _numbers(above),
            _plain(np.where(above, 0.0, self.probabilities).sum(axis=0)),
            _plain(np.where(above, 1 - self.probabilities, 0.0).sum(axis=0)),
        )

    def retest(self, n: int = 10) -> Any:
        """Which items to test singly: those most likely to be on the wrong side.

        Parameters
        ----------
        n : int
            How many.

        Returns
        -------
        (n,) int array, or a list of them
            The most doubtful item first.
        """
        if n < 0:
            raise ValueError(f"n must not be negative, got {n}")
        doubt = _doubt(self.positive == 1, self.probabilities)
        order = np.argsort(-doubt, axis=0, kind="stable")[:n]
        return order if order.ndim == 1 else list(order.T)


def group_testing(
    design: Any,
    outcomes: ArrayLike,
    prevalence: ArrayLike | Literal["learn"],
    sensitivity: Rate = 1.0,
    specificity: Rate = 1.0,
    *,
    n_items: int | None = None,
    schedule: str = "serial",
    damping: float = 0.7,
    max_iter: int = 200,
    tol: float = 1e-3,
    n_jobs: int | None = None,
) -> GroupTestingResult:
    """Infer which items are positive from tests on pools.

    A pool is truly positive if one of its items is. The test shows that with probability
    `sensitivity`, and shows a negative pool as negative with probability `specificity`.

    Parameters
    ----------
    design : (pools, items) array or sparse matrix of 0 and 1, or lists of items
        Which items are in which pool; a list of pools holds lists of item numbers from 0.
    outcomes : (pools,) or (pools, columns) array of 0, 1 and NaN
        NaN: not tested. Columns are separate sets of items tested with the same design.
    prevalence : float, array or "learn"
        P(item is positive) beforehand: one number, one for each item (items,), or (items, columns).
        0 and 1 are certain knowledge. "learn" finds the one number that fits all outcomes.
    sensitivity, specificity : float, (pools,) array or function
        A function is called with the sizes of the pools (pools,) and returns the values: this is
        how a sensitivity that falls with dilution is given.
    n_items : int, optional
        Number of items, where `design` is a list of pools; left out, the largest number plus 1.
    schedule : {"serial", "flooding"}
        One pool after the other, each from the latest beliefs, or all pools at once. The first
        needs fewer iterations and settles more often.
    damping : float in (0, 1]
        Share of the new message taken in each step.
    max_iter : int
    tol : float
        Stop when no log-odds move by more.
    n_jobs : int, optional
        Threads over columns; the result does not depend on it.

    Returns
    -------
    GroupTestingResult

    Examples
    --------
    >>> from boolweave.decoding import group_testing
    >>> pools = [[0, 1, 2], [3, 4, 5], [0, 3], [1, 4], [2, 5]]
    >>> result = group_testing(pools, [1, 0, 0, 1, 0], prevalence=0.1, sensitivity=0.95)
    >>> result.items
    array([1])
    >>> result.probabilities.round(3)
    array([0.006, 0.999, 0.006, 0.   , 0.006, 0.   ])
    >>> diluted = group_testing(
    ...     pools, [1, 0, 0, 1, 0], 0.1, sensitivity=lambda size: 0.98 - 0.01 * size
    ... )
    >>> diluted.items, round(diluted.expected_errors, 3)
    (array([1]), 0.016)
    """
    if n_items is None and isinstance(design, list | tuple) and np.ndim(prevalence) > 0:
        n_items = np.shape(prevalence)[0]
    matrix = as_design(design, n_items)
    results = as_outcomes(outcomes, matrix.shape[0])
    single = np.ndim(outcomes) == 1
    graph = TannerGraph.from_matrix(matrix)
    sens = pool_rate("sensitivity", sensitivity, graph.degrees)
    spec = pool_rate("specificity", specificity, graph.degrees)
    evidence = pool_evidence(results, sens, spec)
    settings = Settings(
        product="or", method="sum-product", schedule=schedule, damping=damping,
        max_iter=max_iter, tol=tol,
    )  # fmt: skip
    if isinstance(prevalence, str):
        if prevalence != "learn":
            raise ValueError(
                f'prevalence must be a number, an array or "learn", got {prevalence!r}'
            )
        prior, prevalence = _learn(graph, evidence, results, sens, spec, settings, n_jobs)
    else:
        prior = _prior(prevalence, graph.n_variables, results.shape[1])
    _refuse_impossible(matrix, results, prior, sens, spec)
    found = propagate(graph, prior.T, evidence.T, settings, n_jobs)
    probabilities = sigmoid(found.log_odds.T)
    most_likely = most_likely_sets(graph, prior, evidence, probabilities)
    likely_items = probabilities > 0.5
    worse = _doubt(most_likely == 1, probabilities).sum(axis=0)
    worse -= _doubt(likely_items, probabilities).sum(axis=0)
    positive = np.where(worse > WORSE, likely_items, most_likely).astype(np.uint8)
    shown = np.asarray(prevalence, dtype=np.float64)
    return GroupTestingResult(
        probabilities[:, 0] if single else probabilities,
        positive[:, 0] if single else positive,
        most_likely[:, 0] if single else most_likely,
        float(shown) if shown.ndim == 0 else shown,
        bool(found.converged[0]) if single else found.converged,
        int(found.n_iter[0]) if single else found.n_iter,
    )


# ---------------------------------------------------------------- the problem


def pool_rate(name: str, value: Any, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    """A sensitivity or specificity in any form as (pools, 1)."""
    rate = np.asarray(value(sizes) if callable(value) else value, dtype=np.float64)
    if rate.ndim > 1 or (rate.ndim == 1 and len(rate) != len(sizes)):
        raise ValueError(
            f"{name} must be a number, have shape ({len(sizes)},), one for each pool, or be a "
            f"function of the pool sizes; got shape {rate.shape}"
        )
    if not ((rate >= 0) & (rate <= 1)).all():
        raise ValueError(f"{name} must lie between 0 and 1, got {rate.min()} to {rate.max()}")
    return np.broadcast_to(rate, sizes.shape)[:, None]


def pool_evidence(
    results: NDArray[np.float64], sens: NDArray[np.float64], spec: NDArray[np.float64]
) -> NDArray[np.float64]:
    """L = log p(outcome | pool positive) − log p(outcome | negative), (pools, columns)."""
    positive, negative = log_ratio(sens, 1 - spec), log_ratio(1 - sens, spec)
    evidence = np.where(results == 1, positive, negative)
    impossible = np.isnan(evidence) & ~np.isnan(results)
    if impossible.any():
        pool = int(np.argwhere(impossible)[0, 0])
        raise ValueError(
            f"pool {pool} cannot have its outcome whatever its items are: sensitivity "
            f"{sens[pool, 0]:g}, specificity {spec[pool, 0]:g}; correct one of them"
        )
    return np.where(np.isnan(results), 0.0, evidence)


def _prior(prevalence: ArrayLike, n_items: int, n_columns: int) -> NDArray[np.float64]:
    """Prior log-odds, (items, columns)."""
    p = np.asarray(prevalence, dtype=np.float64)
    if p.shape not in ((), (n_items,), (n_items, n_columns)):
        raise ValueError(
            f"prevalence must be a number or have shape ({n_items},), one for each item, or "
            f"({n_items}, {n_columns}), got {p.shape}"
        )
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("prevalence must lie between 0 and 1; a percentage is divided by 100")
    odds = log_ratio(p, 1 - p)
    return np.broadcast_to(odds[:, None] if p.ndim == 1 else odds, (n_items, n_columns))


def _refuse_impossible(
    matrix: Any, results: NDArray[np.float64], prior: NDArray[np.float64],
    sens: NDArray[np.float64], spec: NDArray[np.float64],
) -> None:  # fmt: skip
    """Refuse outcomes that contradict each other where tests never err."""
    counts = matrix.astype(np.int64)
    cleared_by = (results == 0) & (sens == 1)
    cleared = (counts.T @ cleared_by.astype(np.int64) > 0) | np.isneginf(prior)
    possible = counts @ (~cleared).astype(np.int64)
    known = counts @ np.isposinf(prior).astype(np.int64)
    without = (results == 1) & (spec == 1) & (possible == 0)
    against = cleared_by & (known > 0)
    for wrong, says in (
        (without, "is positive, but every one of its items is certainly negative"),
        (against, "is negative, but one of its items has prevalence 1"),
    ):
        if wrong.any():
            pool = int(np.argwhere(wrong)[0, 0])
            raise ValueError(
                f"pool {pool} {says}: with these outcomes tests must err; give a sensitivity or "
                f"specificity below 1"
            )


def _learn(
    graph: TannerGraph, evidence: NDArray[np.float64], results: NDArray[np.float64],
    sens: NDArray[np.float64], spec: NDArray[np.float64], settings: Settings, n_jobs: int | None,
) -> tuple[NDArray[np.float64], float]:  # fmt: skip
    """Expectation-maximisation: the prevalence is the mean of the probabilities it leads to."""
    n_columns = results.shape[1]
    p = _first_prevalence(graph.degrees, results, sens, spec)
    for _ in range(LEARNING_ROUNDS):
        prior = np.broadcast_to(log_ratio(p, 1 - p), (graph.n_variables, n_columns))
        found = propagate(graph, prior.T, evidence.T, settings, n_jobs)
        mean = float(np.clip(sigmoid(found.log_odds).mean(), 1e-9, 1 - 1e-9))
        done = abs(mean - p) <= LEARNING_TOL * p
        p = mean
        if done:
            break
    return np.broadcast_to(log_ratio(p, 1 - p), (graph.n_variables, n_columns)), p


def _first_prevalence(
    sizes: NDArray[np.int64], results: NDArray[np.float64],
    sens: NDArray[np.float64], spec: NDArray[np.float64],
) -> float:  # fmt: skip
    """The prevalence at which the share of positive pools is expected that was seen."""
    seen = ~np.isnan(results)
    if not seen.any():
        raise ValueError('prevalence="learn" needs outcomes, but every one of them is NaN')
    count = seen.sum(axis=1)
    shown = np.nansum(results) / count.sum()
    low, high = 1e-6, 0.5
    for _ in range(40):
        p = np.sqrt(low * high)
        truly = 1 - (1 - p) ** sizes
        expected = truly * sens[:, 0] + (1 - truly) * (1 - spec[:, 0])
        if (expected * count).sum() / count.sum() < shown:
            low = p
        else:
            high = p
    return float(p)


# ---------------------------------------------------------------- the most likely set


def most_likely_sets(
    graph: TannerGraph,
    prior: NDArray[np.float64],
    evidence: NDArray[np.float64],
    probabilities: NDArray[np.float64],
) -> NDArray[np.uint8]:
    """Search the set with the highest posterior in each column, (items, columns) uint8.

    Two climbs, from the items above one half and from the empty set; the higher end is kept.
    """
    from boolweave.decoding import kernels

    by_item = graph.transposed()
    odds = np.clip(prior, -CERTAIN, CERTAIN)
    weights = np.clip(evidence, -CERTAIN_OR, CERTAIN_OR)
    sets = np.zeros(probabilities.shape, dtype=np.uint8)
    for column in range(probabilities.shape[1]):
        p, a = probabilities[:, column], np.ascontiguousarray(odds[:, column])
        known = a >= CERTAIN
        free = (p > CANDIDATE) & (np.abs(a) < CERTAIN)
        best = -np.inf
        for start in (p > 0.5, known):
            chosen = (start | known).astype(np.uint8)
            score = kernels.improve_set(
                graph.indptr, graph.variables, by_item.indptr, by_item.variables,
                a, np.ascontiguousarray(weights[:, column]), free, SEARCH_PASSES, chosen,
            )  # fmt: skip
            if score > best:
                best = score
                sets[:, column] = chosen
    return sets


# ---------------------------------------------------------------- shapes


def _numbers(mask: NDArray[np.bool_]) -> Any:
    if mask.ndim == 1:
        return np.flatnonzero(mask)
    return [np.flatnonzero(column) for column in mask.T]


def _doubt(reported: NDArray[np.bool_], probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """The probability that an item is on the wrong side."""
    return np.where(reported, 1 - probabilities, probabilities)


def _plain(values: NDArray[np.float64]) -> Any:
    return float(values) if values.ndim == 0 else values
