"""A fit with objective="errors": from the data and parameters of an estimator to a result."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from boolweave import cautions
from boolweave.data.weights import entry_weights
from boolweave.estimator.parameters import bytes_allowed, settings_of
from boolweave.fit import memory, rank
from boolweave.fit.rank import RankSelection
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
    from boolweave.runtime.checkpoint import Recorder
    from boolweave.search.answer import Answer
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
    with parameters._recording(
        observations, settings_of(parameters), objective="errors",
        false_one_weight=parameters.false_one_weight, weights=weights,
    ) as (recorder, random):  # fmt: skip
        n_components, selection = parameters.n_components, None
        seed = int(random.integers(2**31))
        recorder.register(_Chosen, RankSelection)
        recorder.checks["rank"] = _check_chosen
        with recorder.frame("rank", _Chosen) as chosen:
            if n_components == "auto":
                chosen.selection = chosen.selection or _select_rank(
                    parameters, counted, random, recorder
                )
                selection, n_components = chosen.selection, chosen.selection.best
            limit = _time_left(parameters.max_time, began, selection)
            answer, in_time = _search(parameters, counted, n_components, own, limit, seed, recorder)
        result = result_of(
            answer, observations, product=parameters.product,
            false_one_weight=parameters.false_one_weight, weights=weights, in_time=in_time,
        )  # fmt: skip
        if selection is not None and selection.interrupted:
            result = result.as_interrupted()
        if not result.interrupted:
            recorder.finish()
    return result, selection, n_components - len(answer.Y)


def _search(
    parameters: BooleanMatrixFactorization, observations: Observations, n_components: int,
    weights: NDArray[np.float64] | None, limit: float | None, seed: int, recorder: Recorder,
) -> tuple[Answer, bool]:  # fmt: skip
    """Search for so many factors; also say whether the search ended within its time."""
    n_init, seconds = parameters.n_init, 0.0
    with search_progress(limit, parameters.verbose) as on_round:

        def report(progress: Progress) -> None:
            nonlocal seconds
            seconds = progress.seconds
            if on_round is not None:
                on_round(progress.n_rounds, progress.cost)

        answer = search(
            observations, n_components, false_one_weight=parameters.false_one_weight,
            product=parameters.product, weights=weights,
            options=Options(None if n_init == "auto" else n_init, limit), seed=seed,
            n_jobs=parameters.n_jobs, report=report, recorder=recorder,
        )  # fmt: skip
    return answer, limit is None or seconds < limit


@dataclass(eq=False)
class _Chosen:
    """How the number of factors was chosen, if it was to be and already is; for a checkpoint."""

    selection: RankSelection | None = None


def _check_chosen(frame: object) -> None:
    """Raise unless a frame of a checkpoint says how the number of factors was chosen."""
    selection = frame.selection if isinstance(frame, _Chosen) else frame
    if selection is not None and not (
        isinstance(selection, RankSelection)
        and type(selection.best) is int
        and selection.best in selection.ranks
    ):
        raise ValueError("expected a number of factors")


def _select_rank(
    parameters: BooleanMatrixFactorization, observations: Observations,
    random: np.random.Generator, recorder: Recorder,
) -> RankSelection:  # fmt: skip
    """Choose the number of factors by description length, in at most half of the time."""
    half = None if parameters.max_time is None else parameters.max_time / 2
    with progress(parameters.max_iter, parameters.verbose) as on_iteration:
        deadline = Deadline(half, on_iteration)
        selection, _ = rank.search(
            observations, settings_of(parameters), random, on_iteration=deadline, recorder=recorder
        )
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
