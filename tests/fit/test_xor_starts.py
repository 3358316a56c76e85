"""The XOR product: planted factors. They are known up to an invertible matrix: compare Z, not X."""

import tracemalloc
import warnings

import numpy as np
import pytest
from engines import backend_of, beliefs, make_problem

from boolweave import BooleanMatrixFactorization, complete
from boolweave.datasets import make_boolean
from boolweave.engine import footprint
from boolweave.fit import first_factors, memory
from boolweave.model.channel import Channel
from boolweave.model.model import Model


def fitted(planted, n_components, **parameters):
    model = BooleanMatrixFactorization(
        n_components, product="xor", **{"random_state": 0, **parameters}
    )
    return model.fit(planted.observations)


def error(model, planted):
    rows, columns = (index.ravel() for index in np.indices(planted.Z.shape))
    return float(np.mean(model.predict(rows, columns) != planted.Z.ravel()))


@pytest.mark.parametrize("seed", range(3))
def test_completion(seed):
    planted = make_boolean(150, 150, 2, product="xor", observed=0.2, random_state=seed)
    model = fitted(planted, 2)
    assert error(model, planted) < 0.02
    answer = complete(planted.observations, 2, product="xor", random_state=0)
    assert np.mean(answer.Z != planted.Z) < 0.02


@pytest.mark.parametrize("n_components", [3, 4])
@pytest.mark.parametrize("seed", range(3))
def test_factorization(n_components, seed):
    planted = make_boolean(120, 120, n_components, product="xor", flip=0.05, random_state=seed)
    model = fitted(planted, n_components)
    assert error(model, planted) < 0.01
    assert float(model.noise_.one_given_zero) == pytest.approx(0.05, abs=0.01)
    assert 1 - float(model.noise_.one_given_one) == pytest.approx(0.05, abs=0.01)


def test_max_sum_too():
    planted = make_boolean(120, 120, 3, product="xor", flip=0.02, random_state=0)
    assert error(fitted(planted, 3, method="max-sum", n_init=3), planted) < 0.01


def test_with_one_factor_known_random_messages_are_enough():
    planted = make_boolean(60, 120, 5, product="xor", column_density=0.3, flip=0.05, random_state=0)
    model = fitted(planted, 5, method="sum-product", column_prior=planted.Y, n_init=1)
    assert np.mean((model.row_log_odds_ > 0) != planted.X) < 0.02


def test_inverse_transform_counts_modulo_two():
    planted = make_boolean(60, 60, 3, product="xor", random_state=0)
    model = fitted(planted, 3)
    X = np.array([[1, 1, 0], [1, 1, 1], [0, 0, 0]])
    expected = (X @ model.components_.astype(int)) % 2
    np.testing.assert_array_equal(model.inverse_transform(X), expected)


def test_new_rows():
    planted = make_boolean(160, 100, 3, product="xor", flip=0.05, random_state=1)
    seen = planted.observations.to_dense()
    model = BooleanMatrixFactorization(3, product="xor", random_state=0).fit(seen[:120])
    factors = model.transform(seen[120:])
    assert factors.shape == (40, 3)
    assert np.mean(model.inverse_transform(factors) != planted.Z[120:]) < 0.01
    np.testing.assert_array_equal(model.predict(seen[120:]), model.inverse_transform(factors))
    again = model.fit_transform(seen)
    assert np.mean(model.inverse_transform(again) != planted.Z) < 0.01


def test_probabilities_are_those_of_a_parity():
    planted = make_boolean(40, 40, 2, product="xor", flip=0.2, observed=0.5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fitted(planted, 2)
    x, y = (1 / (1 + np.exp(-odds)) for odds in (model.row_log_odds_, model.column_log_odds_))
    odd = (1 - np.prod(1 - 2 * x[3] * y[:, 7])) / 2
    assert model.predict_proba([3], [7], kind="latent")[0] == pytest.approx(odd)


def test_the_order_of_rows_and_columns_does_not_matter():
    """Not bit for bit, as the starts are drawn by position; but the answer is the same."""
    planted = make_boolean(120, 120, 3, product="xor", flip=0.03, random_state=2)
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(120), rng.permutation(120)
    seen = planted.observations.to_dense()
    one = BooleanMatrixFactorization(3, product="xor", random_state=0).fit(seen)
    two = BooleanMatrixFactorization(3, product="xor", random_state=0).fit(seen[rows][:, columns])
    Z_one = one.inverse_transform(one.row_log_odds_ > 0)
    Z_two = two.inverse_transform(two.row_log_odds_ > 0)
    assert np.mean(Z_one[rows][:, columns] != Z_two) < 0.01


# ---------------------------------------------------------------- the starts


def test_patterns_are_a_basis_of_the_rows():
    """Without noise, the K patterns span exactly the rows of Z."""
    planted = make_boolean(60, 50, 3, product="xor", random_state=3)
    votes = first_factors._patterns(planted.observations, 3, np.random.default_rng(0))
    basis = (votes > 0).astype(int)
    combinations = np.indices((2, 2, 2)).reshape(3, 8).T
    spanned = {tuple(row) for row in (combinations @ basis) % 2}
    assert len(spanned) == 8
    assert {tuple(row) for row in planted.Z.astype(int)} <= spanned


def test_more_factors_than_rows_and_empty_tables_are_no_error():
    for table, n_components in ((np.eye(3), 5), (np.full((3, 3), np.nan), 2), (np.ones((1, 1)), 2)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = BooleanMatrixFactorization(n_components, product="xor", random_state=0)
            assert model.fit_transform(table).shape == (len(table), n_components)


def test_a_start_respects_known_columns():
    planted = make_boolean(30, 30, 2, product="xor", random_state=0)
    known = np.full((2, 30), 0.5)
    known[:, :10] = planted.Y[:, :10]
    model = Model(2, Channel.symmetric(0.1), 0.5, known, "xor")
    problem = make_problem(planted.observations, model)
    random = np.random.default_rng(0)
    state = first_factors.xor_start(backend_of(problem), problem, planted.observations, random, 0.4)
    np.testing.assert_array_equal(beliefs(problem, state)[1][:, :10] > 0, planted.Y[:, :10] == 1)


def patterns_by_definition(observations, n_components, random):
    """All sums of the patterns as one dense table, and rows as vectors of signs."""
    table = 1.0 - 2.0 * observations.to_dense()[random.permutation(observations.n_rows)[:1024]]
    known = ~np.isnan(table)
    table = np.where(known, table, 0.0)
    sums = np.ones((1, observations.n_columns))
    pattern = np.zeros((n_components, observations.n_columns))
    taken = np.zeros(len(table), dtype=bool)
    for k in range(min(n_components, len(table))):
        nearness = (table @ sums.T) / np.maximum(known @ np.abs(sums).T, 1)
        far = np.flatnonzero((nearness.max(axis=1) < 0.5) & ~taken)
        chosen = int(far[0]) if len(far) else int(np.flatnonzero(~taken)[0])
        taken[chosen] = True
        alike = (table @ table[chosen]) / np.maximum(known @ known[chosen].astype(int), 1) > 0.5
        alike[chosen] = True
        votes = table[alike].sum(axis=0)
        pattern[k] = -votes
        if k < 10:
            sums = np.concatenate([sums, sums * np.sign(votes)])
    return pattern


@pytest.mark.parametrize("seed", range(8))
def test_patterns_are_those_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    n_rows, n_columns, K = (int(n) for n in rng.integers(1, [80, 40, 13]))
    planted = make_boolean(
        n_rows, n_columns, min(K, 5), product="xor", flip=0.05,
        observed=float(rng.choice([0.2, 0.6, 1.0])), random_state=seed,
    ).observations  # fmt: skip
    found = first_factors._patterns(planted, K, np.random.default_rng(seed))
    expected = patterns_by_definition(planted, K, np.random.default_rng(seed))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("method", ["max-sum", "auto"])
def test_starts_take_no_more_memory_than_was_said(method):
    """Before: 16 kB for each column, up to 58 times the estimate."""
    planted = make_boolean(
        200, 6_000, 12, product="xor", flip=0.03, observed=0.02, random_state=0
    ).observations
    n_init = 1 if method == "max-sum" else footprint.N_STARTS
    model = BooleanMatrixFactorization(
        12, product="xor", method=method, max_iter=2, random_state=0
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(planted)  # what is compiled takes memory, too
        tracemalloc.start()
        model.fit(planted)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < memory.FitSize(
        planted.shape, planted.n_observed, 12, method=method, learns=method == "auto",
        n_init=n_init, product="xor",
    ).n_bytes  # fmt: skip
