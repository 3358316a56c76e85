"""Group testing: the positive items from the outcomes of pooled tests, and errors to expect."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from boolweave.decoding.pools import (
    Design,
    PoolError,
    as_design,
    as_outcomes,
    comp,
    definite_defectives,
    design_pools,
    scomp,
)
from boolweave.decoding.tanner import DecoderSettings, TannerGraph, as_probabilities, propagate
from boolweave.metrics import expected_calibration_error
from boolweave.model.odds import log_odds, sigmoid
from boolweave.runtime.checks import check_count, generator_of

Doubles: TypeAlias = NDArray[np.float64]
Items: TypeAlias = NDArray[np.int64] | list[NDArray[np.int64]]  # a list of several columns
Rate: TypeAlias = ArrayLike | Callable[[NDArray[np.int64]], ArrayLike]


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
        product="or",
        method="sum-product",
        schedule=schedule,
        damping=damping,
        max_iter=max_iter,
        tol=tol,
    )
    shape = graph.n_variables, evidence.shape[1]
    if isinstance(prevalence, str):
        if prevalence != "learn":
            raise ValueError(
                f'prevalence must be a number, an array or "learn", got {prevalence!r}'
            )
        p = _learn(graph, tests, settings, n_jobs)
    else:
        p = as_probabilities("prevalence", prevalence, (), shape[:1], shape, each="item")
    odds = log_odds(p[:, None] if p.ndim == 1 else p, limit=np.inf)
    # Prior log-odds that are finite end here, at 9e-14: messages of pools in single precision end
    # at some 40, and a test that never errs must outweigh every prior that is not certain.
    most_odds = 30.0
    odds = np.where(np.isinf(odds), odds, np.clip(odds, -most_odds, most_odds))
    prior = np.broadcast_to(odds, shape)
    _refuse_impossible(tests.design, evidence, prior)
    found = propagate(graph, prior.T, evidence.T, settings, n_jobs)
    probabilities = sigmoid(found.log_odds.T)
    most_likely = most_likely_sets(graph, prior, evidence, probabilities)
    likely_items = probabilities > 0.5
    worse = _doubt(most_likely == 1, probabilities).sum(axis=0)
    worse -= _doubt(likely_items, probabilities).sum(axis=0)
    # The most likely set is reported unless it is expected to have this many more wrong items than
    # the items with a probability above one half, which have the fewest.
    most_more_wrong = 1.0
    positive = np.where(worse > most_more_wrong, likely_items, most_likely).astype(np.uint8)
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
            raise PoolError(
                pool,
                f"the outcome of {{pool}} is impossible with sensitivity {sens[pool, 0]:g} and "
                f"specificity {spec[pool, 0]:g}; correct one of them",
            )
        return np.where(np.isnan(outcomes), 0.0, evidence)


def pool_rate(name: str, value: Rate, sizes: NDArray[np.int64]) -> Doubles:
    """A sensitivity or specificity in any form as (pools, 1)."""
    given: Any = value(sizes) if callable(value) and not isinstance(value, type) else value
    rate = as_probabilities(name, given, (), sizes.shape, each="pool")
    return np.broadcast_to(rate, sizes.shape)[:, None]


def _refuse_impossible(design: scipy.sparse.csr_array, evidence: Doubles, prior: Doubles) -> None:
    """Refuse outcomes that are contradictory if tests never err, or always."""
    counts = design.astype(np.int64)
    negative = np.isneginf(evidence)
    cleared = (counts.T @ negative.astype(np.int64) > 0) | np.isneginf(prior)
    possible = counts @ (~cleared).astype(np.int64)
    known = counts @ np.isposinf(prior).astype(np.int64)
    for wrong, problem in (
        (
            np.isposinf(evidence) & (possible == 0),
            "is positive, but every one of its items is certainly negative",
        ),
        (negative & (known > 0), "is negative, but one of its items has prevalence 1"),
    ):
        if wrong.any():
            pool = int(np.argwhere(wrong)[0, 0])
            raise PoolError(
                pool,
                f"{{pool}} {problem}; some test must be wrong, so pass a sensitivity or "
                "specificity below 1",
            )


def _learn(
    graph: TannerGraph, tests: PoolTests, settings: DecoderSettings, n_jobs: int | None
) -> Doubles:
    """Expectation-maximization: the prevalence is the mean of the probabilities it leads to."""
    evidence = tests.evidence()
    p = _first_prevalence(graph.degrees, tests)
    # Learning of the prevalence: maximum number of rounds of expectation-maximization, and
    # tolerance.
    learning_rounds = 100
    learning_tol = 1e-3
    for _ in range(learning_rounds):
        prior = np.full((evidence.shape[1], graph.n_variables), log_odds(p))
        found = propagate(graph, prior, evidence.T, settings, n_jobs)
        mean = float(np.clip(sigmoid(found.log_odds).mean(), 1e-9, 1 - 1e-9))
        done = abs(mean - p) <= learning_tol * p
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


# ---------------------------------------------------------------- simulation


RULES = {"COMP": comp, "DD": definite_defectives, "SCOMP": scomp}


@dataclass(frozen=True)
class ErrorSummary:
    """Errors of the reported sets in the trials of a simulation.

    Attributes
    ----------
    exact : float
        Fraction of trials in which the reported set was exactly right.
    missed, false : float
        Mean number of missed positive items, and of reported negative items, in a trial.
    exact_error, wrong_error : float
        Standard errors of `exact` and of missed + false.
    """

    exact: float
    missed: float
    false: float
    exact_error: float
    wrong_error: float

    @property
    def wrong(self) -> float:
        """Mean number of wrong items, missed and false."""
        return self.missed + self.false

    @classmethod
    def of(cls, truth: NDArray[np.uint8], reported: NDArray[np.uint8]) -> ErrorSummary:
        """Compare 0/1 arrays (items, trials)."""
        missed = ((truth == 1) & (reported == 0)).sum(axis=0)
        false = ((truth == 0) & (reported == 1)).sum(axis=0)
        exact = (missed + false == 0).mean()
        n = truth.shape[1]
        return cls(
            float(exact),
            float(missed.mean()),
            float(false.mean()),
            float(np.sqrt(exact * (1 - exact) / n)),
            float((missed + false).std() / np.sqrt(n)),
        )


@dataclass(frozen=True)
class SimulationResult:
    """The result of `simulate`.

    Attributes
    ----------
    errors : ErrorSummary
        Errors of the items that `group_testing` reports.
    baselines : dict of str to ErrorSummary
        Errors of COMP, DD and SCOMP on the same outcomes.
    calibration_error : float
        Expected calibration error of the probabilities.
    tests_per_item : float
        Pools divided by items.
    trials : int
    """

    errors: ErrorSummary
    baselines: dict[str, ErrorSummary] = field(repr=False)
    calibration_error: float
    tests_per_item: float
    trials: int


def simulate(
    design: Design,
    prevalence: ArrayLike,
    sensitivity: Rate = 1.0,
    specificity: Rate = 1.0,
    *,
    trials: int = 200,
    random_state: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
) -> SimulationResult:
    """Draw positive items and outcomes many times, decode, and count the errors.

    Parameters
    ----------
    design : (pools, items) array or sparse matrix of 0 and 1, or lists of items
        The design, for example from `design_pools`.
    prevalence : float or (items,) array
    sensitivity, specificity : float, (pools,) array or function of the pool sizes
        As for `group_testing`.
    trials : int
    random_state : int or Generator, optional
    n_jobs : int, optional
        Number of threads, which share the trials.

    Returns
    -------
    SimulationResult

    Examples
    --------
    >>> from boolweave.decoding import design_pools, simulate
    >>> design = design_pools(100, 40, prevalence=0.02, random_state=0)
    >>> found = simulate(design, 0.02, 0.95, 0.99, trials=50, random_state=0)
    >>> found.errors.exact > 0.8, found.errors.wrong < found.baselines["COMP"].wrong
    (True, True)
    """
    check_count("trials", trials)
    matrix = as_design(design)
    n_pools, n_items = matrix.shape
    p = as_probabilities("prevalence", prevalence, (), (n_items,), each="item")
    rng = generator_of(random_state)
    sizes = np.diff(matrix.indptr).astype(np.int64)
    sens = pool_rate("sensitivity", sensitivity, sizes)
    spec = pool_rate("specificity", specificity, sizes)
    truth = (rng.random((n_items, trials)) < np.broadcast_to(p, n_items)[:, None]).astype(np.uint8)
    truly = matrix.astype(np.int32) @ truth.astype(np.int32) > 0
    outcomes = (rng.random((n_pools, trials)) < np.where(truly, sens, 1 - spec)).astype(np.uint8)
    found = group_testing(matrix, outcomes, p, sens[:, 0], spec[:, 0], n_jobs=n_jobs)
    return SimulationResult(
        errors=ErrorSummary.of(truth, found.positive),
        baselines={
            name: ErrorSummary.of(truth, rule(matrix, outcomes)) for name, rule in RULES.items()
        },
        calibration_error=expected_calibration_error(truth.ravel(), found.probabilities.ravel()),
        tests_per_item=n_pools / n_items,
        trials=int(trials),
    )


class Rates(NamedTuple):
    """What is known about items and tests."""

    prevalence: float
    sensitivity: float
    specificity: float


def search_design(
    n_items: int,
    rates: Rates,
    right: float = 0.9,
    n_pools: int | None = None,
    per_item: int | None = None,
    random_state: int = 0,
) -> tuple[scipy.sparse.csr_array, SimulationResult]:
    """Find a design and the errors to expect from it; `n_pools=None` means as few as are needed.

    All items must be right with the probability `right`. The search begins where outcomes could
    just distinguish all sets of items if tests never erred. If no number of pools is right often
    enough, the result is the smallest number that is as good as single tests.
    """
    p, sensitivity, specificity = rates
    single = (p * sensitivity + (1 - p) * specificity) ** n_items
    bits = -n_items * (p * math.log2(p) + (1 - p) * math.log2(1 - p))
    tried = n_pools or max(1, min(n_items, math.ceil(bits)))
    all_tried = []
    # The growth from one design to the next.
    larger = 1.15
    while True:
        design, found = _best_design(n_items, tried, per_item, rates, random_state)
        if n_pools is not None or found.errors.exact >= right:
            return design, found
        all_tried.append((design, found))
        if tried >= n_items:
            break
        tried = min(n_items, math.ceil(tried * larger))
    as_good = [each for each in all_tried if each[1].errors.exact >= single]
    return as_good[0] if as_good else all_tried[-1]


def _best_design(
    n_items: int, n_pools: int, per_item: int | None, rates: Rates, random_state: int
) -> tuple[scipy.sparse.csr_array, SimulationResult]:
    """Try several numbers of pools per item and return the design with the fewest wrong items.

    A pool that is positive half of the time is the most informative if the number of positive items
    is the expected one. If there are more positive items, smaller pools are more informative.
    """
    half = math.log(2) * n_pools / max(rates.prevalence * n_items, 1.0)
    # The numbers of pools per item that are tried, relative to the number at which half of the
    # pools are positive. With 60 items of which 2% are positive, half of that number needs 18
    # pools, all of it 40.
    shares = (0.35, 0.5, 0.7, 1.0)
    numbers = {round(share * half) for share in shares} if per_item is None else {per_item}
    found = []
    # Number of simulated runs that judge a design.
    trials = 200
    for number in sorted({min(max(1, number), n_pools) for number in numbers}):
        design = design_pools(n_items, n_pools, pools_per_item=number, random_state=random_state)
        expected = simulate(design, *rates, trials=trials, random_state=random_state, n_jobs=-1)
        found.append((design, expected))
    return min(found, key=lambda each: each[1].errors.wrong)
