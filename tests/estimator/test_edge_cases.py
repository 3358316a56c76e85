"""Problems at the edge: no noise, no observations, contradictions, odd sizes. Never a NaN."""

import warnings

import numpy as np
import pytest
from engines import make_problem
from hypothesis import given, settings
from problems import even_model, random_run, run_from, smalls

from boolweave import BooleanMatrixFactorization
from boolweave.data.observations import Observations
from boolweave.datasets import make_boolean
from boolweave.model.channel import Channel
from boolweave.model.model import Model

pytestmark = pytest.mark.filterwarnings("error")


def assert_sane(result):
    for array in (result.row_log_odds, result.column_log_odds, *result.history.values()):
        assert not np.isnan(array).any()
    assert np.isfinite(result.log_posterior)
    M, N = result.observations.shape
    assert result.Z.shape == result.completed.shape == (M, N)


@settings(max_examples=30)
@given(small=smalls(max_side=8))
def test_no_problem_gives_nan(small):
    for dtype in (np.float32, np.float64):
        assert_sane(run_from(small, small.random_messages(0), dtype, max_iter=30))


EXTREMES = [0.0, 5e-324, 1e-300, 1e-12, 0.3, 0.5, 1 - 1e-12, 1.0]


def extreme(rng, shape):
    """A probability, the same for all, or one for each row, column or entry."""
    shape = [(), (1, shape[1]), (shape[0], 1), shape][rng.integers(4)]
    return rng.choice(EXTREMES, shape)


@pytest.mark.parametrize("method", ["max-sum", "sum-product", "auto"])
@pytest.mark.parametrize("product", ["or", "xor"])
def test_extreme_channels_and_priors_give_no_nan(method, product):
    """What cannot be is refused; everything else has an answer, and the answer is a number."""
    n_fits = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        M, N, K = (int(n) for n in rng.integers(1, 7, 3))
        seen = rng.integers(0, 2, (M, N)).astype(float)
        seen[rng.random((M, N)) < 0.2] = np.nan
        channel = {name: extreme(rng, (M, N)) for name in ("one_given_zero", "one_given_one")}
        if rng.random() < 0.3:
            missing = rng.choice([0.0, 1e-300, 0.2, 1.0])
            channel |= {
                f"missing_given_{value}": missing * (1 - channel[f"one_given_{value}"])
                for value in ("zero", "one")
            }
        model = BooleanMatrixFactorization(
            K, method=method, product=product, noise=Channel(**channel), max_iter=8, n_init=2,
            row_prior=extreme(rng, (M, K)), column_prior=extreme(rng, (K, N)), random_state=0,
        )  # fmt: skip
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of eight iterations, and the like
                model.fit(seen)
        except ValueError as error:
            assert "cannot be" in str(error)
            continue
        n_fits += 1
        rows, columns = (index.ravel() for index in np.indices((M, N)))
        for array in (
            model.row_log_odds_, model.column_log_odds_, model.predict_proba(rows, columns),
            model.predict_proba(rows, columns, kind="latent"), model.predict_proba(seen),
        ):  # fmt: skip
            assert not np.isnan(array).any()
        assert np.isfinite(model.log_posterior_)
    assert n_fits >= 15


def test_contradictory_certainty_gives_no_nan():
    """What is known and what is seen without noise exclude each other."""
    seen = Observations.from_dense(np.ones((4, 4)))
    model = Model(2, Channel.symmetric(0.0), row_prior=0.0, column_prior=1.0)
    result = random_run(seen, model)
    assert_sane(result)
    assert not result.X.any()
    assert result.Y.all()


@pytest.mark.parametrize("shape", [(3, 4), (1, 1), (0, 3), (3, 0), (0, 0)])
def test_without_observations_the_priors_remain(shape):
    seen = Observations.from_dense(np.full(shape, np.nan))
    model = Model(2, Channel.symmetric(0.1), row_prior=0.7, column_prior=[[0.2], [0.9]])
    result = random_run(seen, model)
    assert_sane(result)
    assert result.converged
    assert result.X.all()
    np.testing.assert_array_equal(result.Y, np.tile([[0], [1]], shape[1]).reshape(2, shape[1]))
    expected = 2 * shape[0] * np.log(0.7) + shape[1] * np.log(0.8 * 0.9)
    assert result.log_posterior == pytest.approx(expected, abs=1e-5)


def test_empty_rows_and_columns():
    planted = make_boolean(30, 30, 2, random_state=0)
    dense = planted.observations.to_dense()
    dense[[0, 7, 29]] = np.nan
    dense[:, [0, 12, 29]] = np.nan
    model = Model(2, Channel.symmetric(0.05), row_prior=0.3, column_prior=0.6)
    result = random_run(Observations.from_dense(dense), model)
    assert_sane(result)
    np.testing.assert_allclose(result.row_log_odds[[0, 7, 29]], np.log(0.3 / 0.7), rtol=1e-6)
    np.testing.assert_allclose(result.column_log_odds[:, [0, 12, 29]], np.log(1.5), rtol=1e-6)


@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize("n_components", [1, 3, 12])
def test_all_zeros_and_all_ones(value, n_components):
    """Twelve factors are more than the matrix has rows or columns."""
    seen = Observations.from_dense(np.full((8, 6), value))
    result = random_run(seen, even_model(n_components))
    assert_sane(result)
    assert (value == result.Z).all()


@pytest.mark.parametrize(
    ("channel", "message"),
    [
        ({"one_given_zero": 0.0, "one_given_one": 0.0}, "row 0, column 1 cannot be observed as 1"),
        ({"one_given_zero": 1.0, "one_given_one": 1.0}, "row 0, column 0 cannot be observed as 0"),
        (
            {"missing_given_zero": 0.0, "missing_given_one": 0.0},
            "row 1, column 0 cannot be missing.*leave out missing_given_zero",
        ),
        (
            {"one_given_zero": [[0.1], [0.2], [0.3]]},
            r"must broadcast to the matrix 2 × 2.*\(3, 1\)",
        ),
    ],
)
def test_impossible_observations(channel, message):
    seen = Observations.from_dense([[0, 1], [np.nan, 1]])
    with pytest.raises(ValueError, match=message):
        make_problem(seen, Model(1, Channel(**channel)))
