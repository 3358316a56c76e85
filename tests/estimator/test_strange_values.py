"""Every parameter of every public function gets strange values: a good answer or a clear error."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from boolweave import (
    BooleanMatrixFactorization,
    Channel,
    Observations,
    cover,
    factorize,
    select_rank,
)
from boolweave.baselines import compare
from boolweave.datasets import make_boolean
from boolweave.decoding import ParityCheckCode, group_testing
from short import shorten_bounds, shorten_covers, shorten_searches

TABLE = np.array([[1, 0, 1], [1, 1, 0], [0, 1, 1], [1, 1, 1]], dtype=float)
HOLES = np.where(np.arange(12).reshape(4, 3) == 4, np.nan, TABLE)
CODE = ParityCheckCode([[1, 1, 0, 1, 1, 0, 0], [1, 0, 1, 1, 0, 1, 0], [0, 1, 1, 1, 0, 0, 1]])


class Thing:
    """An object of no use."""

    def __repr__(self) -> str:
        return "a thing"


VALUES = [
    None, True, -1, 0, 2**70, 1e308, float("nan"), float("inf"), np.float32(0.5), "x", [], Thing(),
]  # fmt: skip


def fit(**parameters: Any) -> Any:
    quick = {"n_components": 1, "max_iter": 3, "n_init": 1, "random_state": 0}
    return BooleanMatrixFactorization(**quick | parameters).fit(HOLES)


def fit_errors(sample_weight: Any = None, **parameters: Any) -> Any:
    quick = {"n_components": 1, "n_init": 1, "random_state": 0, "objective": "errors"}
    model = BooleanMatrixFactorization(**quick | parameters)
    return model.fit(TABLE, sample_weight=sample_weight)


def seen() -> Observations:
    return Observations.from_dense(HOLES)


# A function, its parameters that are valid, those that get strange values, and their other names.
CASES: dict[str, tuple[Callable[..., Any], dict[str, Any], tuple[str, ...]]] = {
    "fit": (fit, {}, tuple(inspect.signature(BooleanMatrixFactorization).parameters)),
    "fit_errors": (
        fit_errors, {},
        ("n_components", "n_init", "false_one_weight", "max_time", "bound", "sample_weight"),
    ),
    "select_rank": (
        select_rank, {"X": TABLE, "ranks": [1], "max_iter": 3, "n_init": 1, "random_state": 0},
        ("criterion", "ranks", "sample_weight", "max_time"),
    ),
    "factorize": (factorize, {"X": TABLE, "n_components": 1, "n_init": 1}, ("max_time", "bound")),
    "cover": (cover, {"X": TABLE}, tuple(inspect.signature(cover).parameters)[1:]),
    "compare": (compare, {"X": TABLE, "methods": ["majority"]}, ("top",)),  # none is valid
    "make_boolean": (
        make_boolean, {"n_rows": 4, "n_columns": 3, "n_components": 1},
        tuple(inspect.signature(make_boolean).parameters),
    ),
    "Channel": (
        Channel, {"one_given_zero": 0.1, "one_given_one": 0.9},
        ("one_given_zero", "one_given_one", "missing_given_zero", "missing_given_one"),
    ),
    "Channel.symmetric": (Channel.symmetric, {}, ("flip",)),
    "from_dense": (Observations.from_dense, {"array": HOLES}, ("row_labels", "column_labels")),
    "from_data": (
        Observations.from_data, {"data": sparse.eye_array(3)}, ("absent", "duplicates"),
    ),
    "hide": (lambda **k: seen().hide(**{"share": 0.5} | k), {}, ("share", "random_state")),
    "folds": (lambda **k: seen().folds(**{"n_folds": 2} | k), {}, ("n_folds", "random_state")),
    "split": (lambda **k: seen().split(**k), {}, ("hidden",)),
    "group_testing": (
        group_testing, {"design": np.eye(3), "outcomes": [1, 0, 1], "prevalence": 0.1},
        tuple(inspect.signature(group_testing).parameters),
    ),
    "encode": (CODE.encode, {}, ("bits",)),
    "decode": (CODE.decode, {"llr": np.ones((1, 7))}, ("llr", "method", "max_iter")),
}  # fmt: skip

# How errors call a parameter, if not by its name.
OTHER_NAMES = {
    "row_labels": "row labels", "column_labels": "column labels", "noise": "flip",
    "prevalence": "pool", "n_items": "items",
}  # fmt: skip


@pytest.fixture(autouse=True)
def little_work(monkeypatch):
    for shorten in (shorten_searches, shorten_covers, shorten_bounds):
        shorten(monkeypatch)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "parameter"),
    [(name, parameter) for name, (_, _, wanted) in CASES.items() for parameter in wanted],
)
def test_strange_values(name, parameter):
    """An error is our own or scikit-learn's check of parameters, and names the parameter."""
    function, given, _ = CASES[name]
    for value in VALUES:
        try:
            function(**given | {parameter: value})
        except (ValueError, TypeError, MemoryError) as error:
            file = traceback.extract_tb(error.__traceback__)[-1].filename
            assert "boolweave" in file or file.endswith("_param_validation.py"), (value, file)
            known = parameter, OTHER_NAMES.get(parameter, parameter)
            assert any(word in str(error) for word in known), (value, str(error))


@pytest.mark.parametrize("weight", [1e308, 1e13])
def test_weights_are_limited(weight):
    for weights in ([weight] * 4, np.full((4, 3), weight), sparse.csr_array(np.eye(4, 3) * weight)):
        with pytest.raises(ValueError, match=r"sample_weight must be .* at most 1e\+12, got"):
            fit_errors(weights)


def test_a_huge_weight_of_false_ones_is_that_of_none():
    never = fit_errors(false_one_weight=np.inf)
    huge = fit_errors(false_one_weight=1e308, sample_weight=np.full((4, 3), 1e12))
    assert fit_errors(false_one_weight=1e308).error_ == never.error_
    assert np.isfinite(huge.error_) and huge.error_ == pytest.approx(1e12 * never.error_)


def test_an_empty_table_is_covered_by_nothing():
    for shape in ((0, 0), (0, 3), (3, 0), (2, 2)):
        found = cover(np.zeros(shape), coverage=0.5, false_ones=1, n_components=1)
        assert (found.cost, found.bound, found.coverage) == (0, 0, 1)


@pytest.mark.filterwarnings("ignore:the decoded factors still change")
def test_priors_of_factors_need_their_number():
    for priors in (
        {"row_prior": np.full((4, 2), 0.5)}, {"column_prior": np.full((2, 3), 0.5)},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r'n_components="auto" .* set `n_components`'):
            fit(n_components="auto", **priors)
        with pytest.raises(ValueError, match="set `n_components`"):
            select_rank(TABLE, [2], **priors)
        assert len(fit(n_components=2, **priors).components_) == 2


@pytest.mark.filterwarnings("ignore:the decoded factors still change")
def test_new_rows_have_no_channel_of_their_own():
    rates = np.full((4, 1), 0.1)
    model = fit(noise=Channel(one_given_zero=rates, one_given_one=1 - rates))
    assert model.transform(TABLE).shape == (4, 1)
    with pytest.raises(ValueError, match=r"each of 4 rows, and got 2 rows.*same for all rows"):
        model.transform(TABLE[:2])


def test_a_prior_that_is_no_number():
    with pytest.raises(ValueError, match="column_prior"):
        BooleanMatrixFactorization(1, column_prior={}).fit([[1, 0], [0, 1]])
