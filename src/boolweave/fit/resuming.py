"""Checks of the contents of a checkpoint against the problem that continues with it.

A checksum detects accidental damage, but not who wrote the file. Compiled code trusts the shapes
and types of messages and sums, so these are compared with those of the problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.data.observations import Observations
from boolweave.engine.backend import AnyBackend, Beliefs, Problem, State
from boolweave.engine.field import Field
from boolweave.engine.loop import Run
from boolweave.engine.result import Ending, Result
from boolweave.fit.starts import Attempts, Candidate, Decimation, Learning, Starts
from boolweave.model.model import Model

if TYPE_CHECKING:
    from boolweave.fit.steps import Steps

_NUMBER = (int, float, np.integer, np.floating)
_WHOLE = (int, np.integer)
_SWITCH = (bool, np.bool_)
_TYPES: dict[type, dict[str, Any]] = {
    Run: {"state": State, "residuals": list, "scores": list, "changes": list,
          "best_score": _NUMBER, "best": Beliefs | None},
    Starts: {
        "current": Candidate | None, "finished": list, "finalists": list, "n_tried": _WHOLE,
        "refined": Candidate | None, "best": Result | None, "sum_product": Result | None,
        "n_finished": _WHOLE, "max_sum": Result | None,
    },
    Attempts: {"n_failed": _WHOLE, "best": Result | None},
    Learning: {"candidate": Candidate, "model": Model, "left": _WHOLE, "pause": _WHOLE},
    Decimation: {"candidate": Candidate, "rows": np.ndarray, "columns": np.ndarray},
    Candidate: {"state": State, "result": Result, "number": _WHOLE},
    State: {"n_iter": _WHOLE, "residual": _NUMBER, "n_changed": tuple, "expected_ones": tuple},
    Result: {
        "model": Model, "observations": object, "row_log_odds": np.ndarray,
        "column_log_odds": np.ndarray, "log_posterior": _NUMBER, "ending": Ending,
        "n_iter": _WHOLE, "history": dict, "marginal": _SWITCH,
    },
}  # fmt: skip


def frame_check(kind: type, fit: Steps, most: int) -> Callable[[Any], None]:
    """Make a check that raises ValueError unless a fit can continue from a frame.

    A valid frame is of this kind and has no more than `most` iterations left.
    """

    def check(frame: Any) -> None:
        _expect(type(frame) is kind, f"expected {kind.__name__}, got {type(frame).__name__}")
        for part in _parts(frame):
            _check_types(part)
            if isinstance(part, State):
                check_state(fit.backend, fit.first_problem, part)
            elif isinstance(part, Result):
                check_result(part, fit.first_problem.shape, fit.first_problem.n_components)
            elif isinstance(part, Model):
                check_model(fit.backend, fit.first_problem, part)
        if isinstance(frame, Starts):
            candidates = [*frame.finished, *frame.finalists]
            _expect(all(type(one) is Candidate for one in candidates), "expected candidates")
            _expect(frame.n_tried >= 0, "a number of candidates below 0")
        if isinstance(frame, Learning):
            counts = frame.left, frame.pause
            _expect(all(0 <= count <= most for count in counts), "more iterations than allowed")
        if isinstance(frame, Run):
            numbers = [*frame.residuals, *frame.scores, *frame.changes, frame.best_score]
            _expect(all(isinstance(one, _NUMBER) for one in numbers), "expected numbers")
            if frame.best is not None:
                _check_beliefs((frame.best.rows, frame.best.columns), fit.first_problem)
        if isinstance(frame, Decimation):
            _check_beliefs((frame.rows, frame.columns), fit.first_problem)

    return check


def search_check(kind: type, shape: tuple[int, int], n_scores: int) -> Callable[[Any], None]:
    """Make a check of the state of a search over ranks for a matrix of this shape.

    A valid state has `n_scores` scores for each rank.
    """

    def check(frame: Any) -> None:
        _expect(type(frame) is kind, f"expected {kind.__name__}, got {type(frame).__name__}")
        for part in _parts(frame):
            _check_types(part)
            if isinstance(part, Result):
                check_result(part, shape, part.model.n_components)
            elif isinstance(part, np.ndarray):
                numbers = part.dtype.kind in "biuf" and not np.isnan(part).any()
                _expect(numbers, "expected numbers")
        right = len(frame.ranks) == len(frame.scores)
        right = right and all(np.shape(score) == (n_scores,) for score in frame.scores)
        _expect(right, f"expected {n_scores} scores for each rank")

    return check


def whole_number(frame: Any) -> None:
    """Check a frame that is a list of one whole number."""
    right = type(frame) is list and len(frame) == 1 and type(frame[0]) is int and frame[0] >= 0
    _expect(right, "expected one whole number")


def check_result(result: Any, shape: tuple[int, int], n_factors: int) -> None:
    """Raise unless a result belongs to a matrix of this shape; an unused start has none."""
    _expect(type(result) is Result, "expected a result")
    _expect(result.model.n_components == n_factors, "another number of factors")
    _expect(result.observations.shape == shape, "other observations")
    sides = (shape[0], n_factors), (n_factors, shape[1])
    if result.n_iter == 0 and result.row_log_odds.shape[0] == 0:
        sides = (0, n_factors), (n_factors, 0)
    for odds, side in zip((result.row_log_odds, result.column_log_odds), sides, strict=True):
        _check_floats(odds, side)
    for values in result.history.values():
        _expect(isinstance(values, np.ndarray) and values.ndim == 1, "a history must be a list")
        _expect(values.dtype.kind in "fi", "a history must hold numbers")


def check_model(backend: AnyBackend, problem: Problem, model: Model) -> None:
    """Raise unless a model can replace that of the problem."""
    same = (model.n_components, model.product) == (problem.n_components, problem.model.product)
    _expect(same, "a model of another product")
    model.prior_log_odds(problem.shape)
    model.channel.broadcasts_to(problem.shape)
    _expect(backend.allows(model), "a channel that messages of integers do not allow")


def check_state(backend: AnyBackend, problem: Problem, state: State) -> None:
    """Raise unless a state has messages of this problem, or none because it is done."""
    _expect(state.semiring in ("max-sum", "sum-product"), "an unknown kind of messages")
    if state.field is not None:
        _check_field(state.field, problem)
    if state.messages is not None:
        backend.check(problem, state)


def _check_field(field: Any, problem: Problem) -> None:
    _expect(type(field) is Field, "expected a field")
    (M, N), K = problem.shape, problem.n_components
    _check_array(field.rows, (M, K), np.int8)
    _check_array(field.columns, (K, N), np.int8)
    for number in (field.row_step, field.column_step, field.least):
        right = isinstance(number, _NUMBER) and 0 <= float(number) < np.inf
        _expect(right, "a field without a size")


def _check_types(part: Any) -> None:
    for name, wanted in _TYPES.get(type(part), {}).items():
        right = isinstance(getattr(part, name), wanted)
        _expect(right, f"{name} of {type(part).__name__} is of another type")


def _check_beliefs(sides: Any, problem: Problem) -> None:
    (M, N), K = problem.shape, problem.n_components
    _expect(len(sides) == 2, "expected beliefs of rows and of columns")
    for odds, shape in zip(sides, ((M, K), (K, N)), strict=True):
        _check_floats(odds, shape)


def _check_floats(array: Any, shape: tuple[int, ...]) -> None:
    _expect(isinstance(array, np.ndarray), "expected an array")
    _expect(array.shape == shape, f"expected the shape {shape}, got {array.shape}")
    _expect(array.dtype in (np.float32, np.float64), f"expected floats, got {array.dtype}")
    _expect(not np.isnan(array).any(), "beliefs without a number")


def _check_array(array: Any, shape: tuple[int, ...], kind: Any) -> None:
    _expect(isinstance(array, np.ndarray), "expected an array")
    same = array.shape == shape and array.dtype == kind and array.flags.c_contiguous
    _expect(same, f"expected {np.dtype(kind)} {shape}, got {array.dtype} {array.shape}")


def _parts(value: Any) -> Iterator[Any]:
    """A value and all its parts; observations, states and arrays are not divided."""
    yield value
    if isinstance(value, list | tuple):
        children = list(value)
    elif isinstance(value, dict):
        children = list(value.values())
    elif is_dataclass(value) and not isinstance(value, Observations | State):
        children = [getattr(value, field.name) for field in fields(value)]
    else:
        return
    for child in children:
        yield from _parts(child)


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)
