"""A default that is written out, or given as None where that means the default, changes nothing."""

import inspect
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from commands import run_here
from sklearn.utils._param_validation import make_constraint

import short
from boolweave import (
    BooleanCompletion,
    BooleanMatrixFactorization,
    TableEncoder,
    complete,
    cover,
    factorize,
    select_rank,
)
from boolweave.datasets import make_boolean
from boolweave.decoding import ParityCheckCode, group_testing
from boolweave.functions import Completion
from boolweave.parameters import parameters_of

pytestmark = pytest.mark.filterwarnings("ignore")

PLANTED = make_boolean(14, 10, 2, flip=0.05, random_state=0).observations.to_dense()
HOLES = np.where(np.random.default_rng(0).random(PLANTED.shape) < 0.2, np.nan, PLANTED)
TABLE = pl.DataFrame({"a": ["x", "y", "x", "z"], "b": [1.5, 2.5, 3.5, 9.0]})
POOLS = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]])
CODE = ParityCheckCode(np.array([[1, 1, 0, 1], [0, 1, 1, 1]]))

# What a default means, where it is None and the documentation says so.
WRITTEN_OUT = {"noise": "learn", "row_prior": "learn", "column_prior": "learn"}
OF_FACTORIZATION = BooleanMatrixFactorization().get_params(deep=False)
OF_COMPLETION = BooleanCompletion().get_params(deep=False)
SEED = {"random_state": 0}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    for shorten in (short.shorten_searches, short.shorten_chains, short.shorten_covers):
        shorten(monkeypatch)


def estimator(kind, data, **parameters):
    model = kind(n_components=2, random_state=0, **parameters).fit(data)
    return model.predict_proba([0, 3, 5], [1, 2, 0])


def completed(**parameters):
    made = complete(HOLES, 2, **parameters)
    return isinstance(made, Completion), made.predict_proba([0, 3, 5], [1, 2, 0])


def factors(**parameters):
    found = factorize(PLANTED, 2, **parameters)
    return found.X, found.Y, found.cost is None


CALLS = {
    "BooleanMatrixFactorization": (
        lambda **given: estimator(BooleanMatrixFactorization, PLANTED, **given), OF_FACTORIZATION,
    ),
    "fewest errors": (
        lambda **given: estimator(
            BooleanMatrixFactorization, PLANTED, **{"objective": "errors", **given}
        ),
        {name: default for name, default in OF_FACTORIZATION.items() if name != "objective"},
    ),
    "BooleanCompletion": (
        lambda **given: estimator(BooleanCompletion, HOLES, n_members=2, **given),
        {name: value for name, value in OF_COMPLETION.items() if name != "n_members"},
    ),
    "factorize": (
        lambda **given: factors(**{**SEED, **given}), {**OF_FACTORIZATION, "objective": "errors"},
    ),
    "complete": (
        lambda **given: completed(**{**SEED, "n_members": 2, **given}),
        {**{name: value for name, value in OF_FACTORIZATION.items() if name != "objective"},
         **OF_COMPLETION, "n_members": 2, "absent": "missing"},
    ),
    "select_rank": (
        lambda **given: select_rank(PLANTED, [1, 2], **{**SEED, "n_init": 1, **given}).scores,
        {**OF_FACTORIZATION, "n_init": 1, "criterion": "mdl", "sample_weight": None,
         "objective": "errors"},
    ),
    "cover": (
        lambda **given: cover(PLANTED, **{**SEED, **given}).Y, inspect.signature(cover).parameters,
    ),
    "TableEncoder": (
        lambda **given: np.asarray(TableEncoder(**given).fit_transform(TABLE)),
        TableEncoder().get_params(),
    ),
    "group_testing": (
        lambda **given: group_testing(POOLS, [1, 1, 0], 0.2, **given).probabilities,
        inspect.signature(group_testing).parameters,
    ),
    "decode": (
        lambda **given: CODE.decode([2.0, -1.0, 0.5, 3.0], **given).bits,
        inspect.signature(CODE.decode).parameters,
    ),
}  # fmt: skip

FIXED = {"random_state", "n_components", "verbose"}  # given by the calls above, or of no effect


def written_out(defaults):
    """All defaults as they are, and what those mean that are None."""
    values = {
        name: value.default if isinstance(value, inspect.Parameter) else value
        for name, value in defaults.items()
        if name not in FIXED and getattr(value, "default", None) is not inspect.Parameter.empty
    }
    meanings = {name: meaning for name, meaning in WRITTEN_OUT.items() if name in values}
    return [values, meanings] if meanings else [values]


def same(one, other):
    """Whether two answers are equal, number by number."""
    one, other = (value if isinstance(value, tuple) else (value,) for value in (one, other))
    return all(
        np.array_equal(np.asarray(a), np.asarray(b)) for a, b in zip(one, other, strict=True)
    )


@pytest.mark.parametrize("name", CALLS)
def test_defaults_change_nothing_if_they_are_written_out(name):
    """Before: `factorize(A, 3, method="auto")` switched to another objective."""
    call, defaults = CALLS[name]
    plain = call()
    for values in written_out(defaults):
        if not same(call(**values), plain):
            one_by_one = [{name: values[name]} for name in values]
            assert [given for given in one_by_one if not same(call(**given), plain)] == [], values


def test_the_estimator_on_a_cluster_has_the_same_defaults():
    made = pytest.importorskip("boolweave.distributed").DaskBooleanMatrixFactorization()
    assert made.get_params(deep=False) == {**OF_FACTORIZATION, "client": None}


OPTIONS = (
    "--method auto --product or --noise learn --row-prior learn --column-prior learn --damping 0.4 "
    "--max-iter 200 --tol 0.001 --n-init auto --messages auto --zero-treatment auto"
)


@pytest.mark.parametrize("command", ["factorize", "complete"])
def test_options_with_their_defaults_change_nothing(command, tmp_path):
    """Before: `complete --method auto` fitted another estimator."""
    data = PLANTED if command == "factorize" else HOLES
    np.savetxt(tmp_path / "table.csv", data, delimiter=",", fmt="%g")
    fixed = [command, "table.csv", "-k", "2", "--seed", "0", "--quiet"]
    written = []
    for options in ([], OPTIONS.split()):
        done = run_here(*fixed, "-o", "answer.csv", *options, cwd=tmp_path, text=True)
        assert done.returncode == 0, done.stderr
        written.append((tmp_path / "answer.csv").read_text())
        (tmp_path / "answer.csv").unlink()
    assert written[0] == written[1]


VALUES = (
    None, True, False, -1, 0, 1, 2, 2**32, 2**63 - 1, 2**63, -0.5, 0.0, 0.5, 1.0, 1.5, float("inf"),
    float("nan"), "auto", "few", "or", "zero", "bits", "learn", "nonsense", "2GiB", Path("folder"),
)  # fmt: skip


@pytest.mark.parametrize("estimator", [BooleanMatrixFactorization, BooleanCompletion])
def test_options_have_the_values_that_scikit_learn_accepts(estimator):
    """The command line checks them without loading scikit-learn."""
    for name, parameter in parameters_of(estimator).items():
        checks = [make_constraint(check) for check in estimator._parameter_constraints[name]]
        for value in VALUES if name != "checkpoint" else ():
            accepted = any(check.is_satisfied_by(value) for check in checks)
            assert parameter.accepts(value) == accepted, (name, value)
