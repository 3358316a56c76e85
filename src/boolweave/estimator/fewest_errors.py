"""A fit with objective="errors": from the data and parameters of an estimator to a result."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from boolweave import cautions
from boolweave.data.weights import entry_weights
from boolweave.estimator.parameters import bytes_allowed, settings_of
from boolweave.fit import memory, rank
from boolweave.runtime.deadline import Deadline
from boolweave.runtime.progress import progress, search_progress
from boolweave.search.answer import fewest_errors as search
from boolweave.search.result import result_of
from boolweave.search.searching import Options

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.data.observations import Observations
    from boolweave.engine.result import Result
    from boolweave.estimator.factorization import BooleanMatrixFactorization
    from boolweave.fit.rank import RankSelection
    from boolweave.search.searching import Progress

# Bytes of a search for each cell of the matrix, and for each cell that has a weight of its own.
BYTES_PER_CELL = 1
BYTES_PER_WEIGHT = 16

# Seconds of a search for which Ctrl-C left no time.
TIME_AFTER_INTERRUPT = 1.0


def fit(
    parameters: BooleanMatrixFactorization, observations: Observations, sample_weight: object = None
) -> tuple[Result, RankSelection | None, int]:
    """Search for the factors with the fewest errors; also choose their number if asked to.

    Returns
    -------
    Result, RankSelection or None, int
        The last is the number of factors that were dropped, being useless.
    """
    began = time.monotonic()
    weights = None if sample_weight is None else entry_weights(sample_weight, observations)
    _check_memory(parameters, observations, weights)
    cautions.about_data(observations, parameters)
    counted, own = _counted(observations, weights)
    n_components, selection, seed = parameters.n_components, None, parameters._first_seed()
    if n_components == "auto":
        selection = _select_rank(parameters, counted, seed)
        n_components = selection.best
    n_init = None if parameters.n_init == "auto" else parameters.n_init
    limit = _time_left(parameters.max_time, began, selection)
    seconds = 0.0
    with search_progress(limit, parameters.verbose) as on_round:

        def report(progress: Progress) -> None:
            nonlocal seconds
            seconds = progress.seconds
            if on_round is not None:
                on_round(progress.n_rounds, progress.cost)

        answer = search(
            counted, n_components, false_one_weight=parameters.false_one_weight,
            product=parameters.product, weights=own, options=Options(n_init, limit), seed=seed,
            n_jobs=parameters.n_jobs, report=report,
        )  # fmt: skip
    in_time = limit is None or seconds < limit
    result = result_of(
        answer, observations, product=parameters.product,
        false_one_weight=parameters.false_one_weight, weights=weights, in_time=in_time,
    )  # fmt: skip
    if selection is not None and selection.interrupted:
        result = result.as_interrupted()
    return result, selection, n_components - len(answer.Y)


def _select_rank(
    parameters: BooleanMatrixFactorization, observations: Observations, seed: int
) -> RankSelection:
    """Choose the number of factors by description length, in at most half of the time."""
    half = None if parameters.max_time is None else parameters.max_time / 2
    with progress(parameters.max_iter, parameters.verbose) as on_iteration:
        deadline = Deadline(half, on_iteration)
        selection, _ = rank.search(
            observations, settings_of(parameters), np.random.default_rng(seed),
            on_iteration=deadline,
        )  # fmt: skip
    return replace(selection, interrupted=False) if deadline.passed else selection


def _time_left(
    max_time: float | None, began: float, selection: RankSelection | None
) -> float | None:
    """The seconds that are left for the search; few if Ctrl-C came before it."""
    if selection is not None and selection.interrupted:
        return TIME_AFTER_INTERRUPT
    return None if max_time is None else max(0.0, max_time - (time.monotonic() - began))


def _counted(
    observations: Observations, weights: NDArray[np.float64] | None
) -> tuple[Observations, NDArray[np.float64] | None]:
    """The entries that are not of weight 0, and weights (M, N); none where they are all 1."""
    if weights is None:
        return observations, None
    nothing = weights == 0
    if nothing.any():
        observations, weights = observations.split(nothing)[0], weights[~nothing]
    if (weights == 1).all():
        return observations, None
    dense = np.zeros(observations.shape)
    dense[observations.rows_of_entries(), observations.indices] = weights
    return observations, dense


def _check_memory(
    parameters: BooleanMatrixFactorization,
    observations: Observations,
    weights: NDArray[np.float64] | None,
) -> None:
    """Raise MemoryError if the tables of the search do not fit."""
    per_cell = BYTES_PER_CELL + (0 if weights is None else BYTES_PER_WEIGHT)
    memory.check_answer(
        observations.shape, per_cell, "the search for the fewest errors",
        'take fewer rows or columns, or set `objective="posterior"`, which keeps in files what '
        "memory does not hold", bytes_allowed(parameters.max_memory),
    )  # fmt: skip
