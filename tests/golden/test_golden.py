"""Results of small fits, held against those that were stored in fits.json.

A change that must not alter any answer is safe if these tests pass. Where answers are meant to
change, `pytest tests/golden --update-golden` stores the new ones, and the difference of fits.json
shows which they are.

Decoded factors must be equal. Log-odds and the like may differ in the last digits, because
processors round sums of floats differently. Threads, files and a cluster must not change a bit.
"""

import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from fitted import assert_same, local_client
from golden_files import compare_bits, store, stored_in

from boolweave import BooleanMatrixFactorization
from boolweave.datasets import load_zoo, make_boolean

STORED = Path(__file__).parent / "fits.json"

# Some of the fits are cut off before they converge, which keeps them short.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

# So many entries make two blocks of rows, which two threads or workers share; their messages
# take more than MAX_MEMORY and are kept in files then.
SHAPE, RANK, OBSERVED = (440, 400), 4, 0.8
MAX_MEMORY = "1.3MiB"
COMMON = {"n_components": RANK, "random_state": 1, "n_init": 2, "max_iter": 60}

ENGINES = {
    f"{product} {method} {messages}": {"product": product, "method": method, "messages": messages}
    for product in ("or", "xor")
    for method in ("auto", "max-sum", "sum-product")
    for messages in ("auto", "uint8", "float32")
}
INTEGERS = [name for name in ENGINES if name.endswith("uint8")]
OTHERS = {
    "decimation": {"method": "sum-product", "decimation": 0.3},
    "learned noise, given prior": {"n_init": 3, "noise": "learn", "row_prior": 0.3},
    "absent zero": {"absent": "zero"},
    "absent missing": {"absent": "missing", "noise": 0.01, "column_prior": 0.3},
    "chosen rank": {"n_components": "auto"},
}


@cache
def planted(product):
    return make_boolean(*SHAPE, RANK, flip=0.05, observed=OBSERVED, product=product, random_state=3)


def parameters_of(name):
    parameters = {**COMMON, **ENGINES.get(name, {}), **OTHERS.get(name, {})}
    if name.startswith("xor sum-product"):
        # By itself it does not settle, and in the end rounding decides where it goes: a few
        # iterations from priors that know more.
        truth = planted("xor")
        parameters |= {"max_iter": 5, "n_init": 1, "noise": 0.05}
        parameters |= {"row_prior": 0.1 + 0.8 * truth.X, "column_prior": 0.1 + 0.8 * truth.Y}
    return parameters


def table(name):
    if name == "chosen rank":
        return load_zoo().observations
    truth = planted(ENGINES.get(name, {}).get("product", "or"))
    if not name.startswith("absent"):
        return truth.observations
    draw = np.random.default_rng(0).random(SHAPE)
    if name == "absent zero":
        return scipy.sparse.coo_array(truth.Z * (draw < 0.9))
    rows, columns = np.nonzero(draw < 0.3)  # stored zeros say where a 0 was seen
    return scipy.sparse.coo_array((truth.Z[rows, columns], (rows, columns)), shape=SHAPE)


@cache
def fitted(name):
    """The fit of this name in memory and with one thread, made once."""
    return BooleanMatrixFactorization(**parameters_of(name)).fit(table(name))


def digits(values, n=5):
    """Numbers with so many digits, rounded."""
    return [float(f"{value:.{n}g}") for value in np.asarray(values, dtype=float).ravel()]


def in_short(model):
    """What is stored of a fit."""
    n_rows, n_columns = len(model.row_log_odds_), model.column_log_odds_.shape[1]
    tenth = np.arange(0, min(n_rows, n_columns), 10)
    return {
        "rows": np.packbits(model.row_log_odds_ > 0).tobytes().hex(),
        "columns": np.packbits(model.components_).tobytes().hex(),
        "row_log_odds": digits(model.row_log_odds_[tenth]),
        "column_log_odds": digits(model.column_log_odds_[:, tenth]),
        "probabilities": digits(model.predict_proba(tenth, tenth)),
        "noise": digits([model.noise_.one_given_zero, model.noise_.one_given_one]),
        "log_posterior": digits([model.log_posterior_], 7),
    }


@pytest.mark.parametrize("name", [*ENGINES, *OTHERS])
def test_as_stored(name, request):
    model = fitted(name)
    compare_bits(
        request,
        name,
        {part: getattr(model, part) for part in ("row_log_odds_", "column_log_odds_")},
    )
    found = in_short(model)
    if request.config.getoption("--update-golden"):
        store(STORED, [*ENGINES, *OTHERS], name, found)
        return
    for part, expected in stored_in(STORED)[name].items():
        if isinstance(expected, str):
            assert found[part] == expected, part
        else:
            np.testing.assert_allclose(found[part], expected, rtol=2e-3, atol=1e-4, err_msg=part)


@pytest.mark.parametrize("name", ENGINES)
def test_two_threads(name):
    model = BooleanMatrixFactorization(**parameters_of(name), n_jobs=2)
    assert_same(model.fit(table(name)), fitted(name))


@pytest.mark.parametrize("name", INTEGERS)
def test_files(name, monkeypatch):
    expected = fitted(name)
    opened = []
    temporary_file = tempfile.TemporaryFile
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda: opened.append(name) or temporary_file())
    model = BooleanMatrixFactorization(**parameters_of(name), max_memory=MAX_MEMORY)
    assert_same(model.fit(table(name)), expected)
    assert opened


@pytest.fixture(scope="module")
def client():
    with local_client() as client:
        yield client


@pytest.mark.parametrize("name", INTEGERS)
def test_cluster(name, client):
    from boolweave.distributed import DaskBooleanMatrixFactorization

    model = DaskBooleanMatrixFactorization(**parameters_of(name), client=client)
    assert_same(model.fit(table(name)), fitted(name))
