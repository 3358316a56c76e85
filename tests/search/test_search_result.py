"""An answer of the search as a `Result`: its channel, its log-odds, its score."""

from types import SimpleNamespace

import numpy as np
import pytest

from boolweave import Observations
from boolweave.engine.result import Ending
from boolweave.model.products import boolean_product
from boolweave.search.result import result_of


def answer(X, Y, **more):
    K = X.shape[1]
    plain = {
        "cost": 3.0, "bound": 1.0, "stability": np.ones(K), "redundancy": np.arange(K) * 1.0,
        "n_searches": 3, "n_rounds": 5, "interrupted": False, "passed": False,
        "history": np.array([9.0, 3.0]),
    }  # fmt: skip
    return SimpleNamespace(X=X, Y=Y, **{**plain, **more})


def random_problem(seed, shape=(7, 6), K=3):
    rng = np.random.default_rng(seed)
    X, Y = (rng.random(s) < 0.5 for s in ((shape[0], K), (K, shape[1])))
    dense = (rng.random(shape) < 0.5).astype(float)
    dense[rng.random(shape) < 0.2] = np.nan
    return X.astype(np.uint8), Y.astype(np.uint8), Observations.from_dense(dense)


@pytest.mark.parametrize("product", ["or", "xor"])
@pytest.mark.parametrize("K", [1, 3, 9])
@pytest.mark.parametrize("seed", range(5))
def test_any_factors_are_decoded_as_they_are(product, K, seed):
    """Also bad ones, whose bits are no local optimum."""
    X, Y, seen = random_problem(seed, K=K)
    result = result_of(answer(X, Y), seen, product=product)
    Z = boolean_product(X, Y, product)
    np.testing.assert_array_equal(result.X, X)
    np.testing.assert_array_equal(result.Y, Y)
    np.testing.assert_array_equal(result.Z, Z)
    np.testing.assert_array_equal(result.probabilities > 0.5, Z)


@pytest.mark.parametrize("product", ["or", "xor"])
def test_the_channel_and_the_log_posterior(product):
    X, Y, seen = random_problem(0)
    result = result_of(answer(X, Y), seen, product=product)
    dense, Z = seen.to_dense(), boolean_product(X, Y, product)
    for value, found in enumerate(
        (result.model.channel.one_given_zero, result.model.channel.one_given_one)
    ):
        ones = dense[(value == Z) & ~np.isnan(dense)]
        assert found == pytest.approx((ones.sum() + 0.5) / (len(ones) + 1))
    channel = result.model.channel
    ratio = channel.log_likelihood_ratio(seen)
    assert np.isfinite(ratio).all()
    assert result.log_posterior < 0
    assert (result.cost, result.bound, result.n_iter) == (3.0, 1.0, 5)
    assert result.converged and not result.marginal
    np.testing.assert_array_equal(result.history["error"], [9, 3])


def test_endings():
    X, Y, seen = random_problem(0)
    assert result_of(answer(X, Y, passed=True), seen).ending is Ending.OUT_OF_TIME
    assert result_of(answer(X, Y, interrupted=True), seen).interrupted


def test_one_search_that_was_cut_short_says_nothing_about_stability():
    X, Y, seen = random_problem(0)
    cut = {"n_searches": 1, "interrupted": True}
    assert result_of(answer(X, Y, **cut), seen).stability is None
    assert result_of(answer(X, Y, n_searches=1, passed=True), seen).stability is None
    assert result_of(answer(X, Y, interrupted=True), seen).stability is not None
    assert result_of(answer(X, Y, n_searches=1), seen).stability is not None


def test_no_factors_are_one_empty_factor():
    _, _, seen = random_problem(0)
    result = result_of(answer(np.zeros((7, 0), np.uint8), np.zeros((0, 6), np.uint8)), seen)
    assert result.X.shape == (7, 1) and not result.Z.any()
    assert result.redundancy.tolist() == [0] and result.stability.tolist() == [1]


def test_weights_count_as_often():
    X, Y, seen = random_problem(1)
    dense = seen.to_dense()
    twice = Observations.from_dense(np.vstack([dense, dense]))
    heavy = result_of(answer(X, Y), seen, weights=np.full(seen.n_observed, 2.0))
    double = result_of(answer(np.vstack([X, X]), Y), twice)
    assert heavy.model.channel.one_given_one == pytest.approx(double.model.channel.one_given_one)
    np.testing.assert_allclose(heavy.column_log_odds, double.column_log_odds)


@pytest.mark.parametrize("value", [0.0, 1.0, np.nan])
def test_constant_tables(value):
    """Nothing is 0 or 1 for certain, whatever was seen."""
    seen = Observations.from_dense(np.full((3, 4), value))
    for bit in (0, 1):
        X, Y = np.full((3, 2), bit, np.uint8), np.full((2, 4), bit, np.uint8)
        result = result_of(answer(X, Y), seen, false_one_weight=np.inf)
        assert np.isfinite(result.row_log_odds).all() and np.isfinite(result.log_posterior)
        assert ((result.probabilities > 0) & (result.probabilities < 1)).all()
