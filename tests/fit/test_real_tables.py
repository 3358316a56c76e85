"""Tables that are no planted products: many factors, rare ones, and a table to explain."""

from dataclasses import replace

import engines as engine
import numpy as np
import pytest

from boolweave import BooleanMatrixFactorization, Channel
from boolweave.datasets import load_paleo, make_boolean
from boolweave.engine.floats import FloatBackend
from boolweave.engine.integers import IntegerBackend
from boolweave.fit import judging, learn, memory
from boolweave.fit.learn import UninformativeWarning, fit, with_stability
from boolweave.fit.settings import Settings
from boolweave.model.model import Model

# With many factors the messages of real tables never come to rest.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def wrong(model, seen):
    """Wrong entries of the product of the decoded factors."""
    Z = model.inverse_transform((model.row_log_odds_ > 0).astype(np.uint8))
    return int(np.sum(Z[seen.rows_of_entries(), seen.indices] != seen.values))


def paleo():
    return load_paleo().observations


# ---------------------------------------------------------------- many factors


@pytest.mark.parametrize("n_components", [17, 50])
def test_many_factors_of_a_sparse_table_are_not_empty(n_components):
    """Before: every factor was empty, on every seed, from 17 factors on."""
    seen = paleo()
    for method, share in (("auto", 0.9), ("max-sum", 0.6)):  # marginals explain rare ones away
        model = BooleanMatrixFactorization(n_components, method=method, random_state=0).fit(seen)
        full = (model.row_log_odds_ > 0).any(axis=0) & model.components_.any(axis=1)
        assert full.sum() > n_components / 2
        assert wrong(model, seen) < share * seen.n_ones


@pytest.mark.parametrize("n_components", [5, 20, 40])
def test_integers_are_as_good_as_floats(n_components):
    seen = paleo()
    found = {
        messages: wrong(
            BooleanMatrixFactorization(
                n_components, method="max-sum", n_init=2, messages=messages, random_state=0
            ).fit(seen),
            seen,
        )
        for messages in ("auto", "float32")
    }
    assert found["auto"] <= 1.05 * found["float32"]


def test_a_start_that_still_rises_is_given_more_iterations():
    """Near the bound 40 factors show only after some 60 iterations."""
    planted = make_boolean(1000, 1000, 40, observed=0.13, random_state=0)
    model = BooleanMatrixFactorization(40, n_init=2, random_state=0).fit(planted.observations)
    rows, columns = (index.ravel() for index in np.indices((1000, 1000)))
    assert np.mean(model.predict(rows, columns) != planted.Z.ravel()) < 0.01


@pytest.mark.parametrize("seed", [1, 4])
def test_a_complete_table_has_marginals_too(seed):
    """Before: max-sum, with fewer wrong entries but further from the truth, replaced them."""
    planted = make_boolean(100, 100, 7, flip=0.3, random_state=seed)
    model, max_sum = (
        BooleanMatrixFactorization(7, method=method, random_state=seed).fit(planted.observations)
        for method in ("auto", "max-sum")
    )
    assert model.marginal_
    assert np.mean(model.result_.Z != planted.Z) < 0.8 * np.mean(max_sum.result_.Z != planted.Z)


@pytest.mark.parametrize("seed", [0, 1])
def test_factors_that_fit_noise_explain_nothing(seed):
    """Max-sum has a fifth fewer wrong entries, but its factors take more bits than they save."""
    planted = make_boolean(
        60, 60, 3, row_density=0.5, column_density=0.5, flip=0.4, random_state=seed
    )
    seen = planted.observations
    model, max_sum = (
        BooleanMatrixFactorization(3, method=method, random_state=seed).fit(seen)
        for method in ("auto", "max-sum")
    )
    assert not judging.explains(max_sum.result_)
    few, many = (judging.wrong_entries(fit.result_, seen) for fit in (max_sum, model))
    assert 1.2 * few < many and model.marginal_
    assert np.mean(model.result_.Z != planted.Z) < np.mean(max_sum.result_.Z != planted.Z)


def test_factors_that_fit_noise_do_not_replace_uninformative_marginals():
    """Nearly all of the product is 1, and the noise is too strong to find where it is 0."""
    planted = make_boolean(
        120, 120, 8, row_density=0.5, column_density=0.5, flip=0.4, random_state=0
    )
    with pytest.warns(UninformativeWarning, match="no start found factors") as caught:
        model = BooleanMatrixFactorization(8, n_init=2, random_state=0).fit(planted.observations)
    assert caught[0].filename == __file__
    assert model.marginal_ and np.mean(model.result_.Z != planted.Z) < 0.15


def test_settled_or_short_factors_are_explanations():
    """Those of an identity take more bits than it has, but they are not due to chance."""
    settled = BooleanMatrixFactorization(6, method="max-sum", random_state=0).fit(np.eye(6))
    assert judging.has_settled(settled.result_) and judging.explains(settled.result_)
    changes = np.full(20, 10.0)  # all ones change in every iteration
    restless = replace(settled.result_, ending="out of iterations", history={"changes": changes})
    assert not judging.explains(restless)
    seen = make_boolean(60, 60, 3, flip=0.05, random_state=0).observations
    found = BooleanMatrixFactorization(3, method="max-sum", random_state=0).fit(seen).result_
    assert judging.explains(
        replace(found, ending="out of iterations", history={"changes": 99 * changes})
    )


# ---------------------------------------------------------------- answers that fail


def empty(result):
    nothing = np.full_like(result.row_log_odds, -1.0), np.full_like(result.column_log_odds, -1.0)
    return replace(result, row_log_odds=nothing[0], column_log_odds=nothing[1])


def test_an_empty_answer_is_tried_again_with_less_noise(monkeypatch):
    planted = make_boolean(40, 30, 2, random_state=0)
    attempt, flips = learn._Fit._attempt, []

    def first_is_empty(self, seeds):
        flips.append(float(self.first_problem.model.channel.one_given_zero))
        result = attempt(self, seeds)
        return empty(result) if len(flips) == 1 else result

    monkeypatch.setattr(learn._Fit, "_attempt", first_is_empty)
    result = fit(planted.observations, Settings(2, n_init=2), np.random.default_rng(0))
    assert flips == list(learn.FLIPS[:2])
    assert np.mean(result.Z != planted.Z) < 0.02


@pytest.mark.parametrize("method", ["auto", "max-sum", "sum-product"])
def test_an_answer_that_stays_empty_says_so(monkeypatch, method):
    planted = make_boolean(40, 30, 2, random_state=0)
    attempt, seen = learn._Fit._attempt, []

    def is_empty(self, seeds):
        seen.append(seeds[0])
        return empty(attempt(self, seeds))

    monkeypatch.setattr(learn._Fit, "_attempt", is_empty)
    with pytest.warns(UninformativeWarning, match="are better than a constant matrix"):
        BooleanMatrixFactorization(2, method=method, random_state=0).fit(planted.observations)
    assert len(seen) == len(learn.FLIPS)
    states = [generator.bit_generator.state["state"]["state"] for generator in seen]
    assert len(set(states)) == len(states)  # other starts


def test_a_good_answer_may_have_many_wrong_entries():
    """Before: a one of the product was seen in 39% of the cases, so max-sum replaced it."""
    seen = paleo()
    model = BooleanMatrixFactorization(6, random_state=0).fit(seen)  # without a warning
    assert model.marginal_ and model.noise_.one_given_one < 0.5
    max_sum = BooleanMatrixFactorization(6, method="max-sum", random_state=0).fit(seen).result_
    assert judging.wrong_entries(model.result_, seen) > judging.wrong_as_constant(seen)
    of_marginals, of_bits = judging.shares_of_information(seen, model.result_, max_sum)
    assert of_marginals > of_bits > 0.1
    assert judging.is_informative(model.result_, max_sum, seen)
    assert not judging.failed(model.result_, seen)


def test_what_a_failed_answer_is():
    planted = make_boolean(20, 15, 2, random_state=0)
    seen = planted.observations
    result = fit(seen, Settings(2), np.random.default_rng(0))
    assert not judging.failed(result, seen)
    assert judging.wrong_entries(result, seen) == 0
    assert judging.failed(empty(result), seen)
    everything = replace(result, row_log_odds=np.ones((20, 2)), column_log_odds=np.ones((2, 15)))
    assert judging.failed(everything, seen) == (2 * seen.n_ones < seen.n_observed)
    assert judging.wrong_as_constant(seen) == min(seen.n_ones, 300 - seen.n_ones)


def test_an_empty_factor_is_not_stable():
    """Before: an empty factor came back in every start in which there was an empty one."""
    planted = make_boolean(20, 15, 2, random_state=0)
    result = fit(planted.observations, Settings(2), np.random.default_rng(0))
    half = np.array(result.row_log_odds)
    half[:, 0] = -5
    partly_empty = replace(result, row_log_odds=half)
    assert with_stability(partly_empty, [partly_empty] * 3).stability.tolist() == [0, 1]


# ---------------------------------------------------------------- the last iterations with floats


@pytest.mark.parametrize("observed", [1.0, 0.8, 0.3])
@pytest.mark.parametrize("product", ["or", "xor"])
def test_messages_as_floats_are_the_same(observed, product):
    seen = make_boolean(
        30, 23, 3, product=product, observed=observed, flip=0.05, random_state=0
    ).observations
    model = Model(3, Channel.symmetric(0.1), product=product)
    problem = engine.make_problem(seen, model, code=engine.quantization_for(model))
    state = engine.init(problem, np.random.default_rng(0))
    for _ in range(30):
        engine.step(problem, state, 0.4)
    assert state.field is None
    backend, floats, after = engine.backend_of(problem).to_floats(problem, state)
    assert isinstance(backend, FloatBackend) and after.n_iter == state.n_iter
    found, expected = backend.beliefs(floats, after), engine.beliefs(problem, state)
    np.testing.assert_allclose(found.rows, expected[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found.columns, expected[1], rtol=1e-4, atol=1e-4)
    observed_only = np.concatenate([block.codes != 2 for block in problem.blocks])
    for found, expected in zip(
        engine.messages_of(floats, after), engine.messages_of(problem, state), strict=True
    ):
        np.testing.assert_allclose(found, expected[observed_only], rtol=1e-5, atol=1e-6)


def test_floats_take_the_last_iterations_of_those_there_are(monkeypatch):
    seen = paleo()
    used = []
    to_floats = IntegerBackend.to_floats
    monkeypatch.setattr(
        IntegerBackend, "to_floats", lambda *a: used.append(a[2].n_iter) or to_floats(*a)
    )
    how = {"n_components": 20, "method": "max-sum", "random_state": 0, "max_iter": 50}
    model = BooleanMatrixFactorization(**how, tol=0).fit(seen)
    assert used == [35] and model.n_iter_ <= 50
    BooleanMatrixFactorization(**how, messages="uint8").fit(seen)
    monkeypatch.setattr(memory, "MOST_FLOAT_BYTES", 1000)
    BooleanMatrixFactorization(**how).fit(seen)
    assert used == [35]
