"""A fit with objective="errors", from the data and parameters of an estimator to a result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import numpy as np

from boolweave import cautions
from boolweave.data.convert import entry_weights
from boolweave.estimator.parameters import bytes_allowed, settings_of
from boolweave.runtime.free_memory import check_answer
from boolweave.search.answer import fewest_errors as search
from boolweave.search.curve import search_rank, trace_curve
from boolweave.search.result import result_of
from boolweave.search.searching import Job, Options
from boolweave.search.table import pack_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.data.observations import Observations
    from boolweave.engine.result import Result
    from boolweave.estimator.factorization import BooleanMatrixFactorization
    from boolweave.fit.rank_selection import RankSelection
    from boolweave.runtime.checkpoint import Recorder


def fit(
    parameters: BooleanMatrixFactorization, observations: Observations, sample_weight: object = None
) -> tuple[Result, RankSelection | None, int]:
    """Search for the factors with the fewest errors, and choose their number if asked to.

    Returns
    -------
    Result, RankSelection or None, int
        The last is the number of useless factors that were dropped.
    """
    counted, weights, own = _weighed(parameters, observations, sample_weight)
    with (
        _recording(parameters, observations, weights) as (recorder, random),
        _search_of(parameters, counted, own, recorder) as job,
    ):
        n_components, selection, n_init = parameters.n_components, None, parameters.n_init
        options = Options(None if n_init == "auto" else int(n_init), bound=parameters.bound)
        false_weight = float(parameters.false_one_weight)
        if job.table.false_weight < false_weight:  # so large that a false one never pays
            false_weight = np.inf
        seed = int(random.integers(2**31))
        if isinstance(n_components, str):
            few = n_components == "few"
            selection, answer = search_rank(job, None, options, seed, few)
            n_components = selection.elbow if few else selection.best
        else:
            answer = search(job, int(n_components), options, seed)
        result = result_of(
            answer,
            observations,
            product=parameters.product,
            false_one_weight=false_weight,
            weights=weights,
        )
        if not result.interrupted:
            recorder.finish()
    return result, selection, n_components - result.model.n_components


def select_rank(
    parameters: BooleanMatrixFactorization,
    observations: Observations,
    ranks: list[int] | None,
    sample_weight: object = None,
) -> RankSelection:
    """Find the fewest errors at every rank, and judge the ranks by description length."""
    counted, weights, own = _weighed(parameters, observations, sample_weight)
    recording = _recording(parameters, observations, weights, ranks=ranks, criterion="mdl")
    with recording as (recorder, _), _search_of(parameters, counted, own, recorder) as job:
        selection = trace_curve(job, ranks)
        if not selection.interrupted:
            recorder.finish()
    return selection


@contextmanager
def _search_of(
    parameters: BooleanMatrixFactorization,
    observations: Observations,
    weights: NDArray[np.float64] | None,
    recorder: Recorder,
) -> Iterator[Job]:
    """The search that the parameters ask for, with its time limit and its display of progress."""
    false_weight = float(parameters.false_one_weight)
    table = pack_table(observations, false_weight, parameters.product, weights)
    with parameters._surroundings(recorder) as run:
        yield Job(observations, table, run)


def _recording(
    parameters: BooleanMatrixFactorization,
    observations: Observations,
    weights: NDArray[np.float64] | None,
    **more: object,
) -> AbstractContextManager[tuple[Recorder, np.random.Generator]]:
    """Open the checkpoint of a search, and its random numbers."""
    return parameters._recording(
        observations,
        settings_of(parameters, observations),
        None,
        objective="errors",
        false_one_weight=float(parameters.false_one_weight),
        weights=weights,
        **more,
    )


def _weighed(
    parameters: BooleanMatrixFactorization, observations: Observations, sample_weight: object
) -> tuple[Observations, NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """The entries with a positive weight, the weights of all entries, and their weights (M, N).

    The last are None if all weights are 1.
    """
    weights = None if sample_weight is None else entry_weights(sample_weight, observations)
    _check_memory(parameters, observations, weights)
    cautions.about_data(observations, parameters)
    if weights is None:
        return observations, None, None
    nothing, counted, own = weights == 0, observations, weights
    if nothing.any():
        counted, own = observations.split(nothing)[0], weights[~nothing]
    if (own == 1).all():
        return counted, weights, None
    dense = np.zeros(counted.shape)
    dense[counted.rows_of_entries(), counted.indices] = own
    return counted, weights, dense


def _check_memory(
    parameters: BooleanMatrixFactorization,
    observations: Observations,
    weights: NDArray[np.float64] | None,
) -> None:
    """Raise MemoryError if the tables of the search do not fit."""
    # Number of bytes that a search needs per cell of the matrix, without and with weights.
    bytes_per_cell = 1
    bytes_per_weight = 16
    per_cell = bytes_per_cell + (0 if weights is None else bytes_per_weight)
    check_answer(
        observations.shape,
        per_cell,
        "the search for the fewest errors",
        'use fewer rows or columns, or set `objective="posterior"`, which keeps in files what does '
        "not fit into memory",
        bytes_allowed(parameters.max_memory),
    )
