"""Noise rates of each column or row: counts and choice against slow twins, recovery, use."""

import numpy as np
import pytest
from fitted import local_client

import boolweave
from boolweave import BooleanMatrixFactorization, Channel, Observations
from boolweave.datasets import make_boolean
from boolweave.fit import noise
from boolweave.metrics import log_loss
from boolweave.model.odds import sigmoid

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def uneven(seed=0, shape=(150, 40), n_factors=3):
    """A planted matrix in which half of the columns are observed with much more noise."""
    planted = make_boolean(*shape, n_factors, random_state=seed)
    truth = planted.observations.to_dense().astype(int)
    random = np.random.default_rng(seed)
    up = np.where(np.arange(shape[1]) % 2, 0.02, 0.4)
    down = np.where(np.arange(shape[1]) % 2, 0.02, 0.3)
    flips = random.random(shape) < np.where(truth == 1, down, up)
    return truth, np.where(flips, 1 - truth, truth).astype(float), up, 1 - down


@pytest.mark.parametrize("product", ["or", "xor"])
def test_expected_counts_are_sums_of_probabilities(product):
    random = np.random.default_rng(0)
    table = np.where(random.random((6, 5)) < 0.3, np.nan, random.integers(0, 2, (6, 5)))
    rows, columns = random.normal(size=(6, 2)) * 2, random.normal(size=(2, 5)) * 2
    counts = noise.expected_counts(Observations.from_dense(table), rows, columns, product)
    slow = {"rows": np.zeros((4, 6)), "columns": np.zeros((4, 5))}
    for m in range(6):
        for n in range(5):
            if np.isnan(table[m, n]):
                continue
            one, two = sigmoid(rows[m]) * sigmoid(columns[:, n])
            both = one * two
            p = one + two - (both if product == "or" else 2 * both)
            line = np.array([1 - p, (1 - p) * table[m, n], p, p * table[m, n]])
            slow["rows"][:, m] += line
            slow["columns"][:, n] += line
    for axis in ("rows", "columns"):
        np.testing.assert_allclose(np.array(counts[axis]), slow[axis], atol=1e-12)


def test_the_evidence_is_the_integral_over_rates():
    successes, trials, common, s = np.array([3.0, 0.0]), np.array([7.0, 2.0]), 0.3, 4.0
    p = (np.arange(200_000) + 0.5) / 200_000
    beta = p ** (s * common - 1) * (1 - p) ** (s * (1 - common) - 1)
    beta /= beta.mean()
    slow = sum(
        np.log(np.mean(beta * p**k * (1 - p) ** (n - k)))
        for k, n in zip(successes, trials, strict=True)
    )
    assert noise.log_evidence(successes, trials, common, s) == pytest.approx(slow, abs=1e-3)
    far = noise.log_evidence(successes, trials, common, 1e9)
    assert noise.log_evidence(successes, trials, common, np.inf) == pytest.approx(far, abs=1e-5)


def test_lines_with_few_entries_get_the_common_rates():
    counts = noise.Counts(
        np.array([1000.0, 0.0]),
        np.array([100.0, 0.0]),
        np.array([900.0, 0.0]),
        np.array([810.0, 0]),
    )
    zero, one = noise.rates(counts)
    assert (zero[1], one[1]) == pytest.approx(noise.common_pair(counts))


@pytest.mark.parametrize("by_row", [False, True])
def test_the_data_choose_the_lines_that_differ(by_row):
    _, table, *_ = uneven()
    table = table.T if by_row else table
    model = BooleanMatrixFactorization(3, noise="auto", random_state=0).fit(table)
    assert np.shape(model.noise_.one_given_zero) == ((40, 1) if by_row else (40,))


@pytest.mark.parametrize("product", ["or", "xor"])
@pytest.mark.parametrize("observed", [1.0, 0.6])
def test_one_pair_stays_one_pair(product, observed):
    planted = make_boolean(80, 60, 3, product=product, flip=0.08, observed=observed, random_state=1)
    models = [
        BooleanMatrixFactorization(3, product=product, noise=word, random_state=0).fit(
            planted.observations
        )
        for word in ("learn", "auto", None)
    ]
    for other in models[1:]:
        assert np.ndim(other.noise_.one_given_one) == 0
        np.testing.assert_array_equal(models[0].row_log_odds_, other.row_log_odds_)
        np.testing.assert_array_equal(models[0].column_log_odds_, other.column_log_odds_)


@pytest.mark.parametrize(
    ("method", "wrong", "off"),
    [("auto", 0.03, 0.06), ("sum-product", 0.03, 0.06), ("max-sum", 0.12, 0.1)],
)
def test_rates_of_columns_are_recovered(method, wrong, off):
    truth, table, up, one = uneven()
    model = BooleanMatrixFactorization(3, method=method, noise="learn-columns", random_state=0)
    model.fit(table)
    assert np.mean(truth != model.result_.Z) < wrong
    assert np.abs(model.noise_.one_given_zero - up).mean() < off
    assert np.abs(model.noise_.one_given_one - one).mean() < off


def test_held_out_entries_are_predicted_better():
    _, table, *_ = uneven(1)
    kept, rows, columns, values = Observations.from_dense(table).hide(0.2, random_state=0)
    losses = {
        word: log_loss(
            values,
            BooleanMatrixFactorization(3, noise=word, random_state=0)
            .fit(kept)
            .predict_proba(rows, columns),
        )
        for word in ("learn", "auto")
    }
    assert losses["auto"] < losses["learn"] - 0.02


def test_threads_and_clusters_give_the_same_bits():
    from boolweave.distributed import DaskBooleanMatrixFactorization

    _, table, *_ = uneven(2)
    options = {"n_components": 3, "noise": "auto", "random_state": 0}
    first = BooleanMatrixFactorization(**options, n_jobs=1).fit(table)
    others = [BooleanMatrixFactorization(**options, n_jobs=2).fit(table)]
    with local_client() as client:
        others.append(DaskBooleanMatrixFactorization(**options, client=client).fit(table))
    assert np.ndim(first.noise_.one_given_one) == 1
    for other in others:
        np.testing.assert_array_equal(first.row_log_odds_, other.row_log_odds_)
        np.testing.assert_array_equal(first.noise_.one_given_one, other.noise_.one_given_one)


def test_new_rows_use_the_rates(tmp_path):
    _, table, *_ = uneven(3)
    by_column = BooleanMatrixFactorization(3, random_state=0, noise="learn-columns").fit(table)
    by_row = BooleanMatrixFactorization(3, random_state=0, noise="learn-rows").fit(table)
    assert by_row.noise_.n_rows == 150
    for model in (by_column, by_row):
        model.save(tmp_path / "model.npz")
        again = boolweave.load(tmp_path / "model.npz")
        chance = model.predict_proba(table[:7])
        assert chance.shape == (7, 40)
        np.testing.assert_array_equal(chance, again.predict_proba(table[:7]))
    mean = by_row.noise_.of_new_rows()
    assert float(mean.one_given_one) == pytest.approx(np.mean(by_row.noise_.one_given_one))
    assert Channel().of_new_rows().is_uniform


def test_what_is_impossible_is_refused():
    _, table, *_ = uneven()
    with pytest.raises(ValueError, match=r'`messages="uint8"` needs a channel that is the same'):
        BooleanMatrixFactorization(3, noise="learn-rows", messages="uint8").fit(table)
    with pytest.raises(ValueError, match=r'"collective"` is not possible with `noise="learn-col'):
        BooleanMatrixFactorization(3, noise="learn-columns", zeros="collective").fit(table)
