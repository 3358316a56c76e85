"""`method="paper"`: Algorithm 1 as it is printed, beside its slow twin."""

import numpy as np
import pytest
from commands import run_here
from reference import printed_reference

import boolweave
from boolweave import BooleanMatrixFactorization, Channel, Observations, select_rank
from boolweave.datasets import make_boolean
from boolweave.engine.floats import PrintedBackend
from boolweave.fit import learn
from boolweave.model.model import Model

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
NAMES = ("to_row", "to_column", "from_row", "from_column", "to_product", "from_product")


@pytest.mark.parametrize("K", [1, 2, 4])
def test_all_six_arrays_are_those_of_the_paper(K):
    random = np.random.default_rng(K)
    values = np.where(random.random((6, 5)) < 0.3, np.nan, random.integers(0, 2, (6, 5)))
    seen = Observations.from_dense(values)
    model = Model(
        K, Channel(0.1, 0.8), row_prior=0.4, column_prior=random.uniform(0.2, 0.8, (K, 5))
    )
    backend = PrintedBackend(seen)
    problem = backend.problem(model)
    state = backend.random_start(problem, random)
    rows, columns = seen.rows_of_entries(), seen.indices
    evidence = np.zeros((6, 5))
    evidence[rows, columns] = np.where(seen.values == 1, np.log(0.8 / 0.1), np.log(0.2 / 0.9))

    def spread(name):
        full = np.zeros((6, 5, K))
        full[rows, columns] = getattr(state.messages, name)
        return full

    prior = problem.row_prior * np.ones((6, K)), problem.column_prior * np.ones((K, 5))
    six = [spread(name) for name in NAMES]
    assert all(np.abs(array).max() > 0 for array in six)  # all of them begin at random
    before = six[0]
    for expected in printed_reference(evidence, *prior, six, n_iter=25):
        backend.step(problem, state, 0.4)
        for name, array in zip(NAMES, expected, strict=True):
            np.testing.assert_allclose(spread(name), array, rtol=0, atol=1e-12)
        assert state.residual == pytest.approx(np.abs(expected[0] - before).max(), abs=1e-12)
        before = expected[0]
    beliefs = backend.beliefs(problem, state)
    np.testing.assert_allclose(beliefs.rows, prior[0] + before.sum(axis=1), atol=1e-12)
    np.testing.assert_allclose(beliefs.columns, prior[1] + expected[1].sum(axis=0).T, atol=1e-12)


def test_the_answer_is_the_last_iterate_of_one_run(monkeypatch):
    planted = make_boolean(40, 30, 3, flip=0.05, observed=0.9, random_state=0)
    attempts = []
    attempt = learn._Fit._attempt
    monkeypatch.setattr(
        learn._Fit,
        "_attempt",
        lambda self, seeds: attempts.append(len(seeds)) or attempt(self, seeds),
    )
    for n_iter in (7, 100):
        model = BooleanMatrixFactorization(
            3, method="paper", max_iter=n_iter, tol=0, random_state=1
        )
        model.fit(planted.observations)
        last = model.result_.history["log_posterior"]
        assert len(last) == model.n_iter_ == n_iter and model.log_posterior_ == last[-1]
    assert attempts == [1, 1] and not model.marginal_
    assert np.mean(model.result_.Z != planted.Z) < 0.05
    assert float(model.noise_.one_given_zero) == 0.1


def test_known_entries_stay_known():
    random = np.random.default_rng(0)
    X = random.integers(0, 2, (20, 2))
    Y = random.integers(0, 2, (2, 15))
    model = BooleanMatrixFactorization(2, method="paper", row_prior=X, random_state=0)
    model.fit((X @ Y > 0).astype(int))
    np.testing.assert_array_equal(model.row_factors_, X)
    assert np.array_equal(model.result_.Z, X @ Y > 0)


def test_it_is_saved_and_loaded(tmp_path):
    seen = make_boolean(12, 10, 2, random_state=0).observations
    model = BooleanMatrixFactorization(2, method="paper", random_state=0).fit(seen)
    model.save(tmp_path / "model.npz")
    again = boolweave.load(tmp_path / "model.npz")
    assert again.method == "paper"
    np.testing.assert_array_equal(again.components_, model.components_)


@pytest.mark.parametrize(
    "given",
    [{"n_init": 3}, {"messages": "uint8"}, {"decimation": 0.1}, {"noise": "learn"},
     {"row_prior": "learn"}, {"product": "xor"}, {"checkpoint": "here"}, {"max_memory": "1MiB"},
     {"zeros": "collective"}],
)  # fmt: skip
def test_what_it_does_not_use_is_refused(given):
    (name,) = given
    with pytest.raises(ValueError, match=f'method="paper"` is the algorithm .* not use `{name}='):
        BooleanMatrixFactorization(2, method="paper", **given).fit(np.eye(4))


def test_it_needs_a_number_of_factors():
    for call in (BooleanMatrixFactorization(method="paper").fit, _rank):
        with pytest.raises(ValueError, match="for a given number of factors; set `n_components`"):
            call(np.eye(4))


def _rank(X):
    return select_rank(X, method="paper")


def test_a_cluster_refuses_it():
    kind = pytest.importorskip("boolweave.distributed").DaskBooleanMatrixFactorization
    with pytest.raises(ValueError, match="runs on one machine, not on a cluster"):
        kind(2, method="paper").fit(np.eye(4))


def test_on_the_command_line(tmp_path):
    np.savetxt(tmp_path / "table.csv", np.eye(6), delimiter=",", fmt="%d")
    words = ["factorize", "table.csv", "-k", "2", "--method", "paper", "--seed", "0", "--quiet"]
    assert run_here(*words, "-o", "factors.csv", cwd=tmp_path).returncode == 0
    refused = run_here(*words, "--n-init", "4", cwd=tmp_path, text=True)
    assert refused.returncode == 2 and "--n-init" in refused.stderr
