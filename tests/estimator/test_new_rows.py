"""Rows that the model has not seen: what they are, how well they are predicted, what they take."""

import copy
import tracemalloc
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from boolweave import (
    BooleanCompletion,
    BooleanMatrixFactorization,
    complete,
    cover,
    factorize,
    select_rank,
)
from boolweave.data.observations import ENTRIES_PER_CHUNK
from boolweave.datasets import make_boolean
from boolweave.model.products import boolean_product

NAN = np.nan


@pytest.fixture(scope="module")
def planted():
    return make_boolean(100, 80, 3, flip=0.05, observed=0.9, random_state=0)


@pytest.fixture(scope="module")
def fitted(planted):
    return BooleanMatrixFactorization(3, method="max-sum", n_init=3, random_state=0).fit(
        planted.observations
    )


def test_score_of_rows_with_one_entry(fitted):
    row = np.full((1, 80), NAN)
    row[0, 2] = 0.0
    assert fitted.score(row) == 1 - fitted.predict(np.full((1, 80), NAN))[0, 2]


def test_grid_search_chooses_the_number_of_factors():
    planted = make_boolean(160, 40, 3, flip=0.05, observed=0.9, random_state=1)
    table = planted.observations.to_dense()
    search = GridSearchCV(
        BooleanMatrixFactorization(random_state=0, method="max-sum", n_init=3),
        {"n_components": [1, 2, 3, 6, 12]},
        cv=3,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert search.fit(table).best_params_ == {"n_components": 3}


def test_learned_priors_of_rows_are_no_secret_of_fit_transform():
    """Where the density of rows is learned row by row, `transform` cannot know it."""
    rng = np.random.default_rng(0)
    dense = rng.beta(0.4, 1.2, (200, 1))
    X, Y = rng.random((200, 5)) < dense, rng.random((5, 60)) < 0.3
    seen = boolean_product(X, Y) ^ (rng.random((200, 60)) < 0.15)
    model = BooleanMatrixFactorization(5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        factors = model.fit_transform(seen)
    assert np.shape(model.row_prior_) == (200, 1)
    np.testing.assert_array_equal(factors, model.transform(seen))


def test_new_rows_are_predicted_by_marginals_as_pairs_are():
    planted = make_boolean(200, 30, 5, flip=0.2, observed=0.4, random_state=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BooleanMatrixFactorization(5, noise=0.2, random_state=0).fit(planted.observations)
    assert model.marginal_
    predicted = model.predict(planted.observations)
    chance = model.predict_proba(planted.observations, kind="latent")
    np.testing.assert_array_equal(predicted, chance > 0.5)
    pairs = [index.ravel() for index in np.indices(planted.Z.shape)]
    old_rows = model.predict_proba(*pairs, kind="latent").reshape(chance.shape)
    assert np.mean(predicted == (old_rows > 0.5)) > 0.98
    assert np.abs(chance - old_rows).mean() < 0.02


def test_equal_rows_get_equal_answers():
    planted = make_boolean(120, 50, 4, flip=0.1, observed=0.5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BooleanMatrixFactorization(4, random_state=0).fit(planted.observations)
    table = planted.observations.to_dense()
    table[::7] = table[0]
    for answer in (model.predict_proba(table), model.transform(table)):
        assert (answer[::7] == answer[0]).all()


# ---------------------------------------------------------------- memory


def test_new_rows_take_memory_for_the_answer_only():
    """Before: 8 bytes and more for each entry and factor, whatever max_memory was."""
    planted = make_boolean(3000, 200, 6, flip=0.05, random_state=0)
    first = planted.observations.take_rows(slice(300))
    model = BooleanMatrixFactorization(6, method="max-sum", random_state=0).fit(first)
    for method, answer in ((model.transform, 3000 * 6 * 9), (model.score, 0)):
        method(first)
        tracemalloc.start()
        method(planted.observations)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak - answer < 100 * ENTRIES_PER_CHUNK  # there are 600,000 entries


def test_answers_that_do_not_fit_are_refused(fitted, planted, monkeypatch):
    model = copy.deepcopy(fitted).set_params(max_memory=1000)
    with pytest.raises(MemoryError, match=r"takes 8 kB .* `max_memory=1 kB`; pass fewer rows"):
        model.predict(planted.observations)
    with pytest.raises(MemoryError, match=r"probabilities of 100 rows × 80 columns takes 64 kB"):
        model.predict_proba(planted.observations)
    assert model.predict(planted.observations.take_rows([0])).shape == (1, 80)
    monkeypatch.setattr("boolweave.runtime.free_memory.free_memory", lambda: 5000)
    with pytest.raises(MemoryError, match="but 5 kB are free; pass fewer rows"):
        fitted.predict(planted.observations)


@pytest.mark.parametrize("objective", ["errors", "posterior"])
@pytest.mark.parametrize("shape", [(40, 12), (40, 13)])
def test_the_probability_of_a_single_factor_is_exact(objective, shape):
    """Of one factor, sum-product is Bayes' rule with the probabilities of the columns."""
    planted = make_boolean(*shape, 1, flip=0.1, random_state=0)
    given = {"objective": objective, "random_state": 0, "output": "probability"}
    model = BooleanMatrixFactorization(1, **given)
    found = model.fit_transform(planted.observations)
    y = 1 / (1 + np.exp(-model.column_log_odds_[0]))
    table, channel = planted.observations.to_dense(), model.noise_
    of_zero, of_one = (
        np.where(table == 1, p, 1 - p)
        for p in (np.float64(channel.one_given_zero), np.float64(channel.one_given_one))
    )
    prior = np.mean(np.asarray(model.row_prior_))
    odds = np.log(prior / (1 - prior)) + np.log((y * of_one + (1 - y) * of_zero) / of_zero).sum(1)
    np.testing.assert_allclose(found[:, 0], 1 / (1 + np.exp(-odds)), atol=1e-5)
    np.testing.assert_allclose(model.transform(planted.observations), found, atol=1e-5)
    bits = clone(model).set_params(output="bits").fit_transform(planted.observations)
    assert bits.dtype == np.uint8 and (bits == (found > 0.5)).mean() > 0.95


@pytest.mark.parametrize("function", [complete, factorize, select_rank])
def test_functions_without_transform_refuse_an_output(function):
    said = f"`output='probability'` .* `{function.__name__}` has no `transform`; leave it out"
    with pytest.raises(ValueError, match=said):
        function([[1, 0], [0, 1]], output="probability")
    function([[1, 0], [0, 1]], output="bits", max_time=0.1)


def test_results_are_short_when_they_are_shown():
    table = [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    size = "2 factors of 3 rows × 3 columns"
    found = factorize(table, 2, random_state=0)
    assert repr(found) == f"Result({size}, error 0 (at least 0), converged)"
    model = BooleanMatrixFactorization(1, random_state=0).fit(table)
    assert repr(model.result_).startswith("Result(1 factor of 3 rows × 3 columns, ")
    words = "at least 2, 100.0% of 5 ones covered, 0 false ones"
    assert repr(cover(table, random_state=0)) == f"Cover({size}, {words})"
    ensemble = BooleanCompletion(n_members=1, random_state=0).fit(table).ensemble_
    assert repr(ensemble) == f"Ensemble({ensemble.name}; 1 member, 3 rows × 3 columns)"
