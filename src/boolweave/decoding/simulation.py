"""Simulation of the errors of a design, before any sample is pooled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from boolweave.decoding.group_testing import group_testing, pool_rate
from boolweave.decoding.pool_rules import comp, definite_defectives, scomp
from boolweave.decoding.pools import as_design
from boolweave.decoding.tanner import as_probabilities
from boolweave.metrics import expected_calibration_error
from boolweave.runtime.checks import check_count

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from boolweave.decoding.group_testing import Rate
    from boolweave.decoding.pools import Design

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
    rng = np.random.default_rng(random_state)
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
