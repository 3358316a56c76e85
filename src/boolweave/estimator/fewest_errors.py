"""A fit with objective="errors", from the data and parameters of an estimator to a result."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from boolweave import cautions
from boolweave.data.weights import entry_weights
from boolweave.estimator.parameters import bytes_allowed, settings_of
from boolweave.fit import memory
from boolweave.runtime.free_memory import format_bytes, free_memory
from boolweave.runtime.progress import search_progress
from boolweave.search.answer import fewest_errors as search
from boolweave.search.curve import search_rank, trace_curve
from boolweave.search.result import result_of
from boolweave.search.searching import Options, compile_kernels
from boolweave.search.table import pack_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.data.observations import Observations
    from boolweave.engine.result import Result
    from boolweave.estimator.factorization import BooleanMatrixFactorization
    from boolweave.fit.rank import RankSelection
    from boolweave.runtime.checkpoint import Recorder
    from boolweave.runtime.progress import OnRound

# Number of bytes that a search needs per cell of the matrix, without and with weights.
BYTES_PER_CELL = 1
BYTES_PER_WEIGHT = 16


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
        _reporting(parameters) as clock,
    ):
        n_components, selection, n_init = parameters.n_components, None, parameters.n_init
        options = Options(
            None if n_init == "auto" else int(n_init), parameters.max_time, bound=parameters.bound
        )
        table = pack_table(counted, parameters.false_one_weight, parameters.product, own)
        how: _How = {
            "options": options, "seed": int(random.integers(2**31)),
            "n_jobs": parameters.n_jobs, "report": clock, "recorder": recorder,
        }  # fmt: skip
        if n_components == "auto":
            selection, answer = search_rank(counted, table, **how)
            n_components = selection.best
        else:
            answer = search(counted, table, int(n_components), **how)
        result = result_of(
            answer, observations, product=parameters.product,
            false_one_weight=parameters.false_one_weight, weights=weights, in_time=clock.in_time,
        )  # fmt: skip
        if not result.interrupted:
            recorder.finish()
    return result, selection, n_components - result.model.n_components


def select_rank(
    parameters: BooleanMatrixFactorization, observations: Observations, ranks: list[int] | None,
    sample_weight: object = None,
) -> RankSelection:  # fmt: skip
    """Find the fewest errors at every rank, and judge the ranks by description length."""
    counted, weights, own = _weighed(parameters, observations, sample_weight)
    recording = _recording(parameters, observations, weights, ranks=ranks, criterion="mdl")
    with recording as (recorder, _), _reporting(parameters) as clock:
        table = pack_table(counted, parameters.false_one_weight, parameters.product, own)
        selection = trace_curve(
            counted, table, ranks=ranks, max_time=parameters.max_time, n_jobs=parameters.n_jobs,
            report=clock, recorder=recorder,
        )  # fmt: skip
        if not selection.interrupted:
            recorder.finish()
    return selection


class _How(TypedDict):
    """Common arguments of the searches with and without a given number of factors."""

    options: Options
    seed: int
    n_jobs: int | None
    report: OnRound
    recorder: Recorder


class _Clock:
    """Pass progress on to a display, and note whether the search ended in time."""

    def __init__(self, max_time: float | None, on_round: OnRound | None) -> None:
        self.in_time = True
        self._end = None if max_time is None else time.monotonic() + max_time
        self._on_round = on_round

    def __call__(self, number: int, error: float, factors: int, share: float | None) -> None:
        """Note the time of a round."""
        self.in_time = self._end is None or time.monotonic() < self._end
        if self._on_round is not None:
            self._on_round(number, error, factors, share)


@contextmanager
def _reporting(parameters: BooleanMatrixFactorization) -> Iterator[_Clock]:
    """Show the progress of a search if asked to; its time begins when kernels are compiled."""
    compile_kernels()
    with search_progress(parameters.max_time, parameters.verbose) as on_round:
        yield _Clock(parameters.max_time, on_round)


def _recording(
    parameters: BooleanMatrixFactorization, observations: Observations,
    weights: NDArray[np.float64] | None, **more: object,
) -> AbstractContextManager[tuple[Recorder, np.random.Generator]]:  # fmt: skip
    """Open the checkpoint of a search, and its random numbers."""
    return parameters._recording(
        observations, settings_of(parameters, observations), None, objective="errors",
        false_one_weight=parameters.false_one_weight, weights=weights, **more,
    )  # fmt: skip


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
    """Raise MemoryError if the tables of the search, or the factors, do not fit."""
    per_cell = BYTES_PER_CELL + (0 if weights is None else BYTES_PER_WEIGHT)
    memory.check_answer(
        observations.shape, per_cell, "the search for the fewest errors",
        'use fewer rows or columns, or set `objective="posterior"`, which keeps in files what does '
        "not fit into memory", bytes_allowed(parameters.max_memory),
    )  # fmt: skip
    if parameters.n_components == "auto":
        return
    K, free = int(parameters.n_components), free_memory()
    n_bytes = K * sum(observations.shape)
    if free is not None and n_bytes > free:
        raise MemoryError(
            f"{K:,} factors take {format_bytes(n_bytes)} of memory, but "
            f"{format_bytes(free)} are free; use fewer factors: no table needs more than it "
            f"has rows or columns, here {min(observations.shape):,}"
        )
