"""Predictions of entries: each function compared with the formula, entry by entry."""

import itertools
import tracemalloc

import numpy as np
import pytest

from boolweave import Channel, Observations
from boolweave.engine import prediction
from boolweave.engine.result import Result
from boolweave.model import products
from boolweave.model.model import Model
from boolweave.model.products import product_at


def factors(n_rows, n_columns, K, seed, dtype=np.float32):
    """Log-odds of both factors, certain ones and ties among them."""
    random = np.random.default_rng(seed)
    rows, columns = (random.normal(0, 3, size) for size in ((n_rows, K), (n_columns, K)))
    for odds in (rows, columns):
        odds[random.random(odds.shape) < 0.1] = np.inf
        odds[random.random(odds.shape) < 0.2] = -np.inf
        odds[random.random(odds.shape) < 0.1] = 0.0
    return rows.astype(dtype), columns.astype(dtype).T


def slow_latent(row_log_odds, column_log_odds, m, n, product):
    """P(z = 1), from the sum over all values of the factors of one entry."""
    with np.errstate(over="ignore"):
        both = 1 / (1 + np.exp(-row_log_odds[m].astype(float)))
        both = both / (1 + np.exp(-column_log_odds[:, n].astype(float)))
    total = 0.0
    for on in itertools.product((0, 1), repeat=len(both)):
        z = sum(on) % 2 if product == "xor" else max(on)
        total += z * np.prod(np.where(on, both, 1 - both))
    return total


def slow_decoded(row_log_odds, column_log_odds, m, n, product):
    both = (row_log_odds[m] > 0) & (column_log_odds[:, n] > 0)
    return both.sum() % 2 if product == "xor" else both.any()


def observed(shape, share, seed):
    random = np.random.default_rng(seed)
    table = (random.random(shape) < 0.4).astype(float)
    table[random.random(shape) > share] = np.nan
    return Observations.from_dense(table)


@pytest.mark.parametrize("product", ["or", "xor"])
@pytest.mark.parametrize("n", [0, 1, 4, 200])
def test_pairs(product, n, monkeypatch):
    rows_odds, columns_odds = factors(9, 7, 4, seed=1)
    random = np.random.default_rng(2)
    m, j = random.integers(0, 9, n), random.integers(0, 7, n)
    latent = prediction.latent_at(rows_odds, columns_odds, m, j, product)
    decoded = product_at(rows_odds, columns_odds, m, j, product)
    pairs = list(zip(m, j, strict=True))
    expected = [slow_latent(rows_odds, columns_odds, *pair, product) for pair in pairs]
    assert latent == pytest.approx(expected, abs=1e-12)
    expected = [slow_decoded(rows_odds, columns_odds, *pair, product) for pair in pairs]
    assert decoded.tolist() == expected
    certain = prediction.latent_at(rows_odds, columns_odds, m, j, product, marginal=False)
    assert certain.tolist() == expected
    monkeypatch.setattr(prediction, "VALUES_AT_A_TIME", 10)
    monkeypatch.setattr(products, "PAIRS_AT_ONCE", 10)
    same = prediction.latent_at(rows_odds, columns_odds, m, j, product)
    np.testing.assert_array_equal(same, latent)
    same = product_at(rows_odds, columns_odds, m, j, product)
    np.testing.assert_array_equal(same, decoded)


@pytest.mark.parametrize("product", ["or", "xor"])
def test_whole_rows_are_as_their_pairs(product, monkeypatch):
    rows_odds, columns_odds = factors(9, 7, 4, seed=3)
    m, j = (index.ravel() for index in np.indices((9, 7)))
    expected = prediction.latent_at(rows_odds, columns_odds, m, j, product).reshape(9, 7)
    for piece in (prediction.VALUES_AT_A_TIME, 15, 1):
        monkeypatch.setattr(prediction, "VALUES_AT_A_TIME", piece)
        found = np.full((9, 7), np.nan)
        for rows, chance in prediction.latent_rows(rows_odds, columns_odds, product):
            found[rows] = chance
        np.testing.assert_array_equal(found, expected)
        some = np.array([4, 0, 4])
        pieces = prediction.latent_rows(rows_odds, columns_odds, product, rows=some)
        np.testing.assert_array_equal(np.vstack([part for _, part in pieces]), expected[some])


@pytest.mark.parametrize("product", ["or", "xor"])
@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("K", [1, 4, 70])
def test_counts_are_those_of_the_pairs(product, share, K, monkeypatch):
    seen = observed((40, 12), share, seed=4)
    rows_odds, columns_odds = factors(40, 12, K, seed=5, dtype=np.float64)
    if K == 70:
        rows_odds = rows_odds - 4
    at = seen.rows_of_entries(), seen.indices.astype(np.int64)
    likely = prediction.latent_at(rows_odds, columns_odds, *at, product) > 0.5
    decoded = product_at(rows_odds, columns_odds, *at, product)
    for predicted, marginal in ((likely, True), (decoded, False)):
        expected = [
            [int(np.sum((seen.values == o) & (predicted == z))) for z in (0, 1)] for o in (0, 1)
        ]
        for piece in (1 << 18, 3):
            monkeypatch.setattr(prediction, "VALUES_AT_A_TIME", piece)
            monkeypatch.setattr("boolweave.data.observations.ENTRIES_PER_CHUNK", piece)
            model = Model(K, Channel.symmetric(0.1), product=product)
            fixed = prediction.FixedColumns(model, columns_odds, marginal)
            found = prediction.counts(seen, rows_odds, fixed)
            assert found.tolist() == expected


@pytest.mark.parametrize("marginal", [True, False])
def test_a_result_counts_what_it_predicts(marginal):
    seen = observed((30, 20), 0.5, seed=6)
    rows_odds, columns_odds = factors(30, 20, 3, seed=7)
    result = Result(
        model=Model(3, Channel.symmetric(0.1)), observations=seen, row_log_odds=rows_odds,
        column_log_odds=columns_odds, log_posterior=0.0, ending="converged",
        n_iter=1, history={}, marginal=marginal,
    )  # fmt: skip
    at = seen.rows_of_entries(), seen.indices
    right = int(np.sum(result.Z[at] == seen.values))
    assert np.trace(result.counts(seen)) == right
    np.testing.assert_array_equal(result.predict(*at), result.Z[at])
    both = (rows_odds > 0).astype(int) @ (columns_odds > 0).astype(int) > 0
    np.testing.assert_array_equal(result.Z, result.probabilities > 0.5 if marginal else both)
    decoded_right = int(np.sum(both[at] == seen.values))
    assert np.trace(result.decoded_counts(seen)) == decoded_right


def peak_of(function):
    function()  # what is compiled or kept is no part of it
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("product", ["or", "xor"])
def test_one_pair_needs_nothing_of_the_others(product):
    rows_odds, columns_odds = factors(20_000, 10_000, 8, seed=8)
    pair = np.array([17]), np.array([23])
    for at in (prediction.latent_at, product_at):
        assert peak_of(lambda at=at: at(rows_odds, columns_odds, *pair, product)) < 20_000


@pytest.mark.parametrize("marginal", [True, False])
def test_counting_takes_no_memory_for_entries(marginal):
    """Before: some 100 bytes for each entry of a piece, and 24 for each row, column and factor."""
    rows_odds, columns_odds = factors(2000, 500, 8, seed=9)
    seen = Observations.from_dense(np.ones((2000, 500), dtype=np.uint8))
    fixed = prediction.FixedColumns(Model(8, Channel.symmetric(0.1)), columns_odds, marginal)
    most = peak_of(lambda: prediction.counts(seen, rows_odds, fixed))
    assert most < (2000 + 3 * 500) * 8 * 8 * 4


@pytest.mark.parametrize("product", ["or", "xor"])
def test_few_entries_have_the_bits_of_the_kernels(product, monkeypatch):
    odds = factors(7, 9, 5, 3)
    m, n = (side.ravel() for side in np.indices((7, 9)))

    def chances():
        pairs = prediction.latent_at(*odds, m, n, product)
        rows = [latent for _, latent in prediction.latent_rows(*odds, product)]
        return pairs, np.concatenate(rows).ravel()

    few = chances()
    monkeypatch.setattr(prediction, "FEW_PRODUCTS", 0)
    for by_numpy, by_kernel in zip(few, chances(), strict=True):
        np.testing.assert_array_equal(by_numpy, by_kernel)
