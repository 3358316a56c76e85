"""Rows for a known column factor: compared with enumeration, and independent of each other."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matrices import sparse_of
from problems import smalls
from scipy.sparse import csr_array

from boolweave import Channel, Observations
from boolweave.data.ones import SparseObservations
from boolweave.datasets import make_boolean
from boolweave.engine import prediction
from boolweave.engine.prediction import FixedColumns
from boolweave.model.model import Model
from boolweave.model.odds import log_odds, sigmoid
from boolweave.model.products import boolean_product

NAN = np.nan


def known(small):
    """The column factor of a small problem, as it is decoded and as marginals."""
    odds = log_odds(small.column_prior, limit=np.inf)
    return FixedColumns(small.model, odds), FixedColumns(small.model, odds, marginal=True)


def decoded(model):
    """A column factor that is known: the prior of the model."""
    return FixedColumns(model, log_odds(model.column_prior))


@settings(max_examples=30)
@given(small=smalls(max_side=7), seed=st.integers(0, 99))
def test_rows_are_folded_in_one_by_one(small, seed):
    """With the column factor known, rows say nothing about each other."""
    rows = np.random.default_rng(seed).permutation(small.shape[0])
    everything = slice(None)
    for which in (0, 1):
        together, odds = prediction.fold_in(small.observations, known(small)[which])
        other = small.permuted(rows, everything, everything)
        shuffled, shuffled_odds = prediction.fold_in(other.observations, known(other)[which])
        np.testing.assert_array_equal(shuffled, together[rows])
        np.testing.assert_array_equal(shuffled_odds, odds[rows])
        for row in range(small.shape[0]):
            one = small.permuted([row], everything, everything)
            alone, _ = prediction.fold_in(one.observations, known(one)[which])
            np.testing.assert_array_equal(alone[0], together[row])
        assert not np.isnan(odds).any()
        np.testing.assert_array_equal(np.isinf(odds), np.isin(small.row_prior, (0, 1)))


def test_folded_in_rows_are_the_best():
    """Against all 2^K rows; K is small and the components overlap little."""
    planted = make_boolean(40, 60, 4, flip=0.1, observed=0.8, random_state=2)
    model = Model(4, Channel.symmetric(0.1), row_prior=0.3, column_prior=planted.Y)
    rows, _ = prediction.fold_in(planted.observations, decoded(model))
    candidates = (np.arange(16)[:, None] >> np.arange(4)) & 1
    Z = boolean_product(candidates, planted.Y)
    seen = planted.observations.to_dense()
    scores = (np.log(9) * (seen[:, None, :] == Z)).sum(axis=2)
    scores += candidates.sum(axis=1) * np.log(0.3 / 0.7)
    np.testing.assert_array_equal(rows, candidates[scores.argmax(axis=1)])


def test_equal_claims_are_decided():
    seen = Observations.from_dense(np.ones((2, 5)))
    model = Model(3, Channel.symmetric(0.1), column_prior=np.ones((3, 5)))
    rows, _ = prediction.fold_in(seen, decoded(model))
    assert (rows.sum(axis=1) >= 1).all()


# ---------------------------------------------------------------- against enumeration


def marginals(entries, prior, chance, product, maximum):
    """Log-odds of each x_k: of sums over all x, or of maxima. entries: pairs of o and column."""
    n_factors = len(prior)
    by_value = np.full((2, n_factors), -np.inf)
    for x in itertools.product((0, 1), repeat=n_factors):
        weight = np.sum(np.log(np.where(x, prior, 1 - prior)))
        for (given_zero, given_one), column in entries:
            q = 1 - (2 if product == "xor" else 1) * np.array(x) * chance[:, column]
            zero = (1 + np.prod(q)) / 2 if product == "xor" else np.prod(q)
            weight += np.log(given_zero * zero + given_one * (1 - zero))
        for k, bit in enumerate(x):
            join = max if maximum else np.logaddexp
            by_value[bit, k] = join(by_value[bit, k], weight)
    return by_value[1] - by_value[0]


@pytest.mark.parametrize("product", ["or", "xor"])
@pytest.mark.parametrize("maximum", [False, True])
@pytest.mark.parametrize("n_factors", [1, 3])
def test_exact_where_the_graph_is_a_tree(product, maximum, n_factors):
    """One factor and any number of entries, or any number of factors and one entry."""
    rng = np.random.default_rng(n_factors)
    for trial in range(20):
        n_columns = 6 if n_factors == 1 else 1
        prior = rng.uniform(0.05, 0.95, n_factors)
        odds = rng.normal(0, 2, (n_factors, n_columns))
        channel = Channel(rng.uniform(0.01, 0.4), rng.uniform(0.6, 0.99))
        values = rng.integers(0, 2, n_columns)
        bits = (odds > 0).astype(np.uint8)
        model = Model(n_factors, channel, prior, bits, product)
        what = FixedColumns(model, odds, not maximum, damping=1.0)
        _, found = prediction.fold_in(Observations.from_dense(values[None]), what)
        likelihood = [
            (1 - channel.one_given_zero, 1 - channel.one_given_one),
            (channel.one_given_zero, channel.one_given_one),
        ]
        entries = [(likelihood[value], column) for column, value in enumerate(values)]
        chance = bits.astype(float) if maximum else sigmoid(odds)
        expected = marginals(entries, prior, chance, product, maximum)
        np.testing.assert_allclose(found[0], expected, atol=1e-6, err_msg=f"trial {trial}")


def test_marginals_are_near_the_truth_in_general():
    rng = np.random.default_rng(0)
    for product in ("or", "xor"):
        odds = rng.normal(0, 4, (3, 30))
        prior = np.array([0.3, 0.5, 0.2])
        model = Model(3, Channel.symmetric(0.1), prior, (odds > 0).astype(np.uint8), product)
        x = rng.integers(0, 2, (10, 3))
        seen = boolean_product(x, odds > 0, product) ^ (rng.random((10, 30)) < 0.1)
        _, found = prediction.fold_in(
            Observations.from_dense(seen), FixedColumns(model, odds, marginal=True)
        )
        for row in range(10):
            entries = [((0.1, 0.9) if o else (0.9, 0.1), j) for j, o in enumerate(seen[row])]
            expected = marginals(entries, prior, sigmoid(odds), product, False)
            np.testing.assert_allclose(sigmoid(found[row]), sigmoid(expected), atol=0.05)


# ---------------------------------------------------------------- pieces, channels, errors


@pytest.mark.parametrize("missing", [{}, {"missing_given_zero": 0.4, "missing_given_one": 0.2}])
def test_pieces_and_threads_change_nothing(missing, monkeypatch):
    planted = make_boolean(50, 20, 3, flip=0.1, observed=0.7, random_state=0)
    ups = np.random.default_rng(1).uniform(0.01, 0.2, (50, 1))
    odds = np.where(planted.Y, 3.0, -3.0)
    model = Model(3, Channel(ups, 0.5, **missing), np.full((50, 3), 0.3), planted.Y)
    for what in (decoded(model), FixedColumns(model, odds, marginal=True)):
        expected = prediction.fold_in(planted.observations, what)
        right = prediction.n_right(planted.observations, what)
        for piece, n_jobs in ((64, None), (7, 2), (1, None)):
            monkeypatch.setattr(prediction, "ENTRIES_PER_CHUNK", piece)
            found = prediction.fold_in(planted.observations, what, n_jobs)
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_array_equal(one, other)
            assert prediction.n_right(planted.observations, what, n_jobs) == right


def test_errors_name_the_row_also_in_a_later_piece(monkeypatch):
    monkeypatch.setattr(prediction, "ENTRIES_PER_CHUNK", 4)
    table = np.zeros((5, 3))
    table[4, 1] = 1
    model = Model(1, Channel(0.0, 0.0), 0.5, np.ones((1, 3)))
    with pytest.raises(ValueError, match="row 4, column 1 cannot be observed as 1"):
        prediction.fold_in(Observations.from_dense(table), decoded(model))
    table[4, 1] = NAN
    model = Model(1, Channel(0.1, 0.9, 0.0, 0.0), 0.5, np.ones((1, 3)))
    with pytest.raises(ValueError, match="row 4, column 1 cannot be missing"):
        prediction.fold_in(Observations.from_dense(table), decoded(model))


def test_right_is_judged_on_hidden_entries_only():
    """One factor claims nothing but what a row itself says of an entry: hidden, it is unknown."""
    seen = Observations.from_dense(np.eye(6))
    model = Model(6, Channel.symmetric(0.1), 0.2, np.eye(6, dtype=np.uint8))
    assert prediction.n_right(seen, decoded(model)) == 30  # the zeros
    bits, _ = prediction.fold_in(seen, decoded(model))
    np.testing.assert_array_equal(bits, np.eye(6))


def test_right_in_rows_with_one_entry_and_with_none():
    table = np.array([[NAN, 1, NAN], [NAN, NAN, NAN], [0, NAN, NAN]])
    model = Model(1, Channel.symmetric(0.1), 0.2, np.ones((1, 3), dtype=np.uint8))
    assert prediction.n_right(Observations.from_dense(table), decoded(model)) == 1


@pytest.mark.parametrize("marginal", [False, True])
@pytest.mark.parametrize("observed", [1.0, 0.95])
def test_score_without_a_list_of_zeros(marginal, observed, monkeypatch):
    """As many entries are predicted rightly as with every zero; parts go by columns in both."""
    made = make_boolean(
        60, 45, 4, row_density=0.25, column_density=0.25, flip=(0.01, 0.1), observed=observed,
        random_state=2,
    )  # fmt: skip
    dense = made.observations.to_dense()
    seen = sparse_of(dense)
    model = Model(4, Channel(one_given_zero=0.01, one_given_one=0.9), 0.25, 0.25)
    fixed = FixedColumns(model, np.where(made.Y, 4.0, -6.0), marginal)
    right = 0
    for part in range(prediction.N_PARTS):
        hidden = np.arange(45) % prediction.N_PARTS == part
        kept = np.where(hidden, NAN, dense)
        bits, odds = prediction.fold_in(Observations.from_dense(kept), fixed)
        terms = sigmoid(odds).T[:, :, None] * sigmoid(fixed.log_odds)[:, None, :]
        chance = 1 - np.prod(1 - terms, axis=0)
        z = chance > 0.5 if marginal else boolean_product(bits, made.Y)
        right += int(((z == dense) & hidden).sum())
    monkeypatch.setattr(prediction, "ROWS", 16)
    found = [prediction.n_right(seen, fixed, n_jobs) for n_jobs in (1, 2)]
    assert found[0] == found[1]
    assert abs(found[0] - right) <= 0.002 * dense.size


def test_score_of_a_matrix_that_is_too_large_for_its_zeros():
    """Six thousand million cells: only the ones and the cells of tiles are looked at."""
    M, N = 20_000, 300_000
    Y = np.full((2, N), -9.0)
    Y[0, 10:40] = Y[1, 100:130] = 9.0
    rows, columns = np.repeat(np.arange(50), 30), np.tile(np.arange(10, 40), 50)
    table = csr_array((np.ones(1500, np.uint8), (rows, columns)), shape=(M, N))
    model = Model(2, Channel(one_given_zero=1e-4, one_given_one=0.9), 0.01, 0.01)
    right = prediction.n_right(SparseObservations.from_sparse(table), FixedColumns(model, Y))
    assert right == M * N
