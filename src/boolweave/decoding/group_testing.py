"""Group testing: inference of the positive items from the outcomes of pooled tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from boolweave.decoding.pools import as_design, as_outcomes
from boolweave.decoding.tanner import DecoderSettings, TannerGraph, as_probabilities, propagate
from boolweave.model.odds import log_odds, sigmoid

if TYPE_CHECKING:
    import scipy.sparse
    from numpy.typing import ArrayLike, NDArray

    from boolweave.decoding.pools import Design

    Doubles: TypeAlias = NDArray[np.float64]
    Items: TypeAlias = NDArray[np.int64] | list[NDArray[np.int64]]  # a list of several columns
    Rate: TypeAlias = ArrayLike | Callable[[NDArray[np.int64]], ArrayLike]

# The most likely set is reported unless it is expected to have this many more wrong items than the
# items with a probability above one half, which have the fewest.
WORSE = 1.0

# Learning of the prevalence: maximum number of rounds of expectation-maximization, and tolerance.
LEARNING_ROUNDS = 100
LEARNING_TOL = 1e-3


@dataclass(frozen=True, eq=False)
class Report:
    """The items above a threshold, and the errors to expect if they are reported.

    Attributes
    ----------
    items : (count,) int array, or a list of them
        The items whose probability is at least the threshold.
    expected_missed : float or (columns,) array
        Expected number of positive items that are not reported.
    expected_false : float or (columns,) array
        Expected number of negative items that are reported.
    """

    items: Items
    expected_missed: float | Doubles
    expected_false: float | Doubles


@dataclass(frozen=True, eq=False)
class GroupTestingResult:
    """The result of `group_testing`.

    For a single vector of outcomes (pools,), arrays over items are (items,) and other results are
    single numbers; for outcomes (pools, columns), there is a column, or an entry in a list, for
    each column of outcomes.

    Attributes
    ----------
    probabilities : (items,) or (items, columns) array
        P(item is positive | outcomes).
    positive : (items,) or (items, columns) uint8 array
        1 for the items to report. These are the most likely set, or the items with a probability
        above one half if the most likely set is expected to have one wrong item more. With too few
        pools, the most likely set is not likely at all, and reporting it would do harm.
    most_likely : (items,) or (items, columns) uint8 array
        1 for the items of the most likely set: the highest posterior that a search found.
    prevalence : float or array
        The prevalence, given or learned.
    converged : bool or (columns,) bool array
        Whether the probabilities converged.
    n_iter : int or (columns,) int array
        Number of iterations.

    Examples
    --------
    >>> from boolweave.decoding import group_testing
    >>> pools = [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    >>> found = group_testing(pools, [1, 1, 0], prevalence=0.1)
    >>> found.items  # the second item explains both positive pools
    array([1])
    >>> found.probabilities.round(3)
    array([0.1, 1. , 0. , 0. ])
    """

    probabilities: NDArray[np.float64]
    positive: NDArray[np.uint8]
    most_likely: NDArray[np.uint8]
    prevalence: float | Doubles
    converged: bool | NDArray[np.bool_]
    n_iter: int | NDArray[np.int64]

    @property
    def items(self) -> Items:
        """The items to report (see `positive`), ascending; a list of arrays for several columns."""
        return _numbers(self.positive == 1)

    @property
    def expected_errors(self) -> float | Doubles:
        """Expected number of missed and false items together if `items` are reported."""
        return _plain(_doubt(self.positive == 1, self.probabilities).sum(axis=0))

    def at(self, threshold: float) -> Report:
        """Report every item with at least this probability.

        Parameters
        ----------
        threshold : float
            Between 0 and 1. A lower threshold misses fewer items and gives more false alarms.

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

    def retest(self, n: int = 10) -> Items:
        """Choose the items to test again, alone: those most likely to be wrong.

        Parameters
        ----------
        n : int
            Number of items.

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
    design: Design,
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

    A pool is truly positive if one of its items is positive. The test of a positive pool is
    positive with probability `sensitivity`, and that of a negative pool is negative with
    probability `specificity`.

    Parameters
    ----------
    design : (pools, items) array or sparse matrix of 0 and 1, or lists of items
        The items of each pool; a list of pools holds lists of item numbers, counted from 0.
    outcomes : (pools,) or (pools, columns) array of 0, 1 and NaN
        NaN means not tested. Columns are separate sets of items tested with the same design.
    prevalence : float, array or "learn"
        Prior probability that an item is positive: one number, one for each item (items,), or
        (items, columns). 0 and 1 are certain knowledge. "learn" finds the number that fits all
        outcomes best.
    sensitivity, specificity : float, (pools,) array or function
        A function gets the sizes of the pools (pools,) and returns the values, for example for a
        sensitivity that falls with dilution.
    n_items : int, optional
        Number of items, if `design` is a list of pools; by default, the largest number plus 1.
    schedule : {"serial", "flooding"}
        "serial" updates one pool after the other, each from the latest beliefs, and "flooding" all
        pools at once. The first needs fewer iterations and converges more often.
    damping : float in (0, 1]
        Weight of the new message in each update.
    max_iter : int
    tol : float
        Convergence tolerance: stop when no log-odds change by more than this.
    n_jobs : int, optional
        Number of threads, which share the columns; the result does not depend on it.

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
    from boolweave.decoding.set_search import most_likely_sets  # numba is loaded when it is needed

    if n_items is None and isinstance(design, list | tuple) and np.ndim(prevalence) > 0:
        n_items = np.shape(prevalence)[0]
    matrix = as_design(design, n_items)
    graph = TannerGraph.from_matrix(matrix)
    tests = PoolTests(
        matrix,
        as_outcomes(outcomes, matrix.shape[0]),
        pool_rate("sensitivity", sensitivity, graph.degrees),
        pool_rate("specificity", specificity, graph.degrees),
    )
    evidence = tests.evidence()
    settings = DecoderSettings(
        product="or", method="sum-product", schedule=schedule, damping=damping,
        max_iter=max_iter, tol=tol,
    )  # fmt: skip
    shape = graph.n_variables, evidence.shape[1]
    if isinstance(prevalence, str):
        if prevalence != "learn":
            raise ValueError(
                f'prevalence must be a number, an array or "learn", got {prevalence!r}'
            )
        p = _learn(graph, tests, settings, n_jobs)
    else:
        p = as_probabilities("prevalence", prevalence, (), shape[:1], shape, each="item")
    prior = np.broadcast_to(log_odds(p[:, None] if p.ndim == 1 else p, limit=np.inf), shape)
    _refuse_impossible(tests, prior)
    found = propagate(graph, prior.T, evidence.T, settings, n_jobs)
    probabilities = sigmoid(found.log_odds.T)
    most_likely = most_likely_sets(graph, prior, evidence, probabilities)
    likely_items = probabilities > 0.5
    worse = _doubt(most_likely == 1, probabilities).sum(axis=0)
    worse -= _doubt(likely_items, probabilities).sum(axis=0)
    positive = np.where(worse > WORSE, likely_items, most_likely).astype(np.uint8)
    if np.ndim(outcomes) == 1:
        arrays = probabilities[:, 0], positive[:, 0], most_likely[:, 0]
        converged, n_iter = bool(found.converged[0]), int(found.n_iter[0])
        return GroupTestingResult(*arrays, _plain(p), converged, n_iter)
    arrays = probabilities, positive, most_likely
    return GroupTestingResult(*arrays, _plain(p), found.converged, found.n_iter)


# ---------------------------------------------------------------- the problem


class PoolTests(NamedTuple):
    """Tests on pools: their items, their outcomes, and how often a test errs."""

    design: scipy.sparse.csr_array  # (pools, items)
    outcomes: Doubles  # (pools, columns) of 0, 1 and NaN
    sensitivity: Doubles  # (pools, 1)
    specificity: Doubles  # (pools, 1)

    def evidence(self) -> Doubles:
        """L = log p(outcome | pool positive) − log p(outcome | negative), (pools, columns)."""
        _, outcomes, sens, spec = self
        with np.errstate(divide="ignore", invalid="ignore"):
            if_positive = np.log(sens) - np.log(1 - spec)
            if_negative = np.log(1 - sens) - np.log(spec)
        evidence = np.where(outcomes == 1, if_positive, if_negative)
        impossible = np.isnan(evidence) & ~np.isnan(outcomes)
        if impossible.any():
            pool = int(np.argwhere(impossible)[0, 0])
            raise ValueError(
                f"the outcome of pool {pool} is impossible with sensitivity {sens[pool, 0]:g} and "
                f"specificity {spec[pool, 0]:g}; correct one of them"
            )
        return np.where(np.isnan(outcomes), 0.0, evidence)


def pool_rate(name: str, value: Rate, sizes: NDArray[np.int64]) -> Doubles:
    """A sensitivity or specificity in any form as (pools, 1)."""
    given = value(sizes) if callable(value) else value
    rate = as_probabilities(name, given, (), sizes.shape, each="pool")
    return np.broadcast_to(rate, sizes.shape)[:, None]


def _refuse_impossible(tests: PoolTests, prior: Doubles) -> None:
    """Refuse outcomes that are contradictory if tests never err."""
    counts = tests.design.astype(np.int64)
    cleared_by = (tests.outcomes == 0) & (tests.sensitivity == 1)
    cleared = (counts.T @ cleared_by.astype(np.int64) > 0) | np.isneginf(prior)
    possible = counts @ (~cleared).astype(np.int64)
    known = counts @ np.isposinf(prior).astype(np.int64)
    without = (tests.outcomes == 1) & (tests.specificity == 1) & (possible == 0)
    against = cleared_by & (known > 0)
    for wrong, problem in (
        (without, "is positive, but every one of its items is certainly negative"),
        (against, "is negative, but one of its items has prevalence 1"),
    ):
        if wrong.any():
            pool = int(np.argwhere(wrong)[0, 0])
            raise ValueError(
                f"pool {pool} {problem}; some test must be wrong, so pass a sensitivity or "
                f"specificity below 1"
            )


def _learn(
    graph: TannerGraph, tests: PoolTests, settings: DecoderSettings, n_jobs: int | None
) -> Doubles:
    """Expectation-maximization: the prevalence is the mean of the probabilities it leads to."""
    evidence = tests.evidence()
    p = _first_prevalence(graph.degrees, tests)
    for _ in range(LEARNING_ROUNDS):
        prior = np.full((evidence.shape[1], graph.n_variables), log_odds(p))
        found = propagate(graph, prior, evidence.T, settings, n_jobs)
        mean = float(np.clip(sigmoid(found.log_odds).mean(), 1e-9, 1 - 1e-9))
        done = abs(mean - p) <= LEARNING_TOL * p
        p = mean
        if done:
            break
    return np.asarray(p)


def _first_prevalence(sizes: NDArray[np.int64], tests: PoolTests) -> float:
    """The prevalence at which the expected share of positive pools equals the observed one."""
    _, outcomes, sens, spec = tests
    count = (~np.isnan(outcomes)).sum(axis=1)
    if not count.any():
        raise ValueError('prevalence="learn" needs outcomes, but all of them are NaN')
    seen = np.nansum(outcomes) / count.sum()
    low, high = 1e-6, 0.5
    for _ in range(40):
        p = np.sqrt(low * high)
        truly = 1 - (1 - p) ** sizes
        expected = truly * sens[:, 0] + (1 - truly) * (1 - spec[:, 0])
        if (expected * count).sum() / count.sum() < seen:
            low = p
        else:
            high = p
    return float(p)


# ---------------------------------------------------------------- shapes


def _numbers(mask: NDArray[np.bool_]) -> Items:
    """The items of a mask (items,), or a list with those of each column."""
    if mask.ndim == 1:
        return np.flatnonzero(mask)
    return [np.flatnonzero(column) for column in mask.T]


def _doubt(reported: NDArray[np.bool_], probabilities: Doubles) -> Doubles:
    """The probability that the report about an item is wrong."""
    return np.where(reported, 1 - probabilities, probabilities)


def _plain(values: Doubles) -> float | Doubles:
    """An array without dimensions as a number."""
    return float(values) if values.ndim == 0 else values
