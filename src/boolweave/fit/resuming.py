"""Checks of the contents of a checkpoint against the problem that continues with it.

A checksum detects accidental damage, but not who wrote the file. Types follow from annotations
(`runtime.tree`); compiled code also trusts the shapes of messages, sums and beliefs, and that they
are numbers.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.engine.backend import Beliefs, InitialBeliefs, State, check_like, no_array
from boolweave.engine.loop import Iterates
from boolweave.engine.result import Result
from boolweave.fit.stages import Attempts, Decimation, Learning, Starts
from boolweave.model.model import Model

if TYPE_CHECKING:
    from boolweave.fit.stages import FitStages
    from boolweave.runtime.tree import Checks
    from boolweave.runtime.types import Array


def checks_of_fit(fit: FitStages, most: int) -> Checks:
    """The checks of the frames of a fit, of which none has more than `most` iterations left."""
    shape, K = fit.observations.shape, fit.settings.n_components
    sides = (shape[0], K), (K, shape[1])

    def check_model(model: Model) -> None:
        same = (model.n_components, model.product) == (K, fit.settings.product)
        _expect(same, "a model of another product")
        model.prior_log_odds(shape)
        model.channel.broadcasts_to(shape)
        _expect(fit.backend.allows(model), "a channel that messages of integers do not allow")

    def check_state(state: State) -> None:
        if state.messages is not None:
            fit.backend.check(fit.first_problem, state)

    def check_field(field: InitialBeliefs) -> None:
        for array, side in zip((field.rows, field.columns), sides, strict=True):
            check_like(no_array(side, np.int8), array)
        steps = field.row_step, field.column_step, field.least
        _expect(all(0 <= float(step) < np.inf for step in steps), "a field without a size")

    def check_beliefs(beliefs: Beliefs | Decimation) -> None:
        _check_odds(beliefs.rows, sides[0])
        _check_odds(beliefs.columns, sides[1])

    def check_iterates(at: Iterates) -> None:
        _expect(at.best is None or type(at.best) is Beliefs, "expected beliefs")

    def check_result_of_fit(result: Result) -> None:
        check_model(result.model)
        check_result(shape, result)

    def check_learning(learning: Learning) -> None:
        counts = learning.left, learning.pause
        _expect(all(0 <= count <= most for count in counts), "more iterations than allowed")

    def check_starts(starts: Starts) -> None:
        _expect(starts.n_tried >= 0, "a number of candidates below 0")

    def check_attempts(attempts: Attempts) -> None:
        _expect(attempts.n_failed >= 0, "a number of attempts below 0")

    return {
        Model: check_model,
        State: check_state,
        InitialBeliefs: check_field,
        Beliefs: check_beliefs,
        Decimation: check_beliefs,
        Iterates: check_iterates,
        Result: check_result_of_fit,
        Learning: check_learning,
        Starts: check_starts,
        Attempts: check_attempts,
    }


def checks_of_search(shape: tuple[int, int], kind: type | None = None, n_scores: int = 0) -> Checks:
    """The checks of a search over ranks for a matrix of this shape.

    A state of the class `kind` has `n_scores` scores for each rank.
    """

    def check_scores(state: Any) -> None:
        right = len(state.ranks) == len(state.scores)
        right = right and all(score.shape == (n_scores,) for score in state.scores)
        _expect(right, f"expected {n_scores} scores for each rank")
        _expect(not any(np.isnan(score).any() for score in state.scores), "expected numbers")

    checks: Checks = {Result: partial(check_result, shape)}
    return checks if kind is None else {**checks, kind: check_scores}


def check_result(shape: tuple[int, int], result: Result) -> None:
    """Raise unless a result belongs to a matrix of this shape; an unused start has none."""
    K = result.model.n_components
    _expect(result.observations.shape == shape, "other observations")
    sides = (shape[0], K), (K, shape[1])
    if result.n_iter == 0 and result.row_log_odds.shape[0] == 0:
        sides = (0, K), (K, 0)
    _check_odds(result.row_log_odds, sides[0])
    _check_odds(result.column_log_odds, sides[1])
    _expect(all(one.ndim == 1 for one in result.history.values()), "a history must be a list")


def _check_odds(odds: Array, shape: tuple[int, ...]) -> None:
    _expect(odds.shape == shape, f"expected the shape {shape}, got {odds.shape}")
    _expect(odds.dtype in (np.float32, np.float64), f"expected floats, got {odds.dtype}")
    _expect(not np.isnan(odds).any(), "beliefs without a number")


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)
