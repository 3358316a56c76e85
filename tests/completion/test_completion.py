"""BooleanCompletion as its users call it."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from boolweave import BooleanCompletion, BooleanMatrixFactorization, Observations, complete, load
from boolweave.baselines import BiasModel
from boolweave.completion.table import FeatureEncoding, levels_of
from boolweave.datasets import load_votes84, make_boolean
from boolweave.metrics import log_loss


def ratings_like(rng, shape=(120, 80), share=0.3, n_directions=1):
    """Bits from offsets and directions through a probit link, and their true probabilities."""
    from scipy.special import ndtr

    M, N = shape
    mean = rng.normal(size=(M, 1)) * 0.8 + rng.normal(size=(1, N)) * 0.8
    mean = mean + rng.normal(size=(M, n_directions)) @ rng.normal(size=(n_directions, N))
    values = (mean + rng.normal(size=shape) > 0).astype(float)
    values[rng.random(shape) > share] = np.nan
    return Observations.from_dense(values), ndtr(mean), mean


pytestmark = pytest.mark.usefixtures("short_chains")


@pytest.fixture(scope="module")
def small(short_chains):
    """A table, what was hidden of it, and a model fitted to the rest."""
    seen, chance, _ = ratings_like(np.random.default_rng(0))
    kept, rows, columns, values = seen.hide(0.2, random_state=0)
    model = BooleanCompletion(n_members=6, n_layers=0, random_state=0).fit(kept)
    return kept, rows, columns, values, model, chance


def test_it_is_better_than_offsets_where_there_are_directions(small):
    kept, rows, columns, values, model, _ = small
    ours = log_loss(values, model.predict_proba(rows, columns))
    bias = log_loss(values, BiasModel(random_state=0).fit(kept).predict_proba(rows, columns))
    assert ours < bias - 0.02
    assert "direction" in model.selection_[1]["model"]


def test_what_was_tried_is_listed(small):
    model = small[4]
    blend, *tried = model.selection_
    assert blend["model"] == "blend" and blend["weight"] == 1
    assert [row["log_loss"] for row in tried] == sorted(row["log_loss"] for row in tried)
    assert blend["log_loss"] <= tried[0]["log_loss"] + 2e-3
    assert {row["model"] for row in tried} >= {"offsets", "offsets + 2 directions"}
    assert any(row["weight"] > 0 for row in tried)
    assert len(model.members_) >= 6
    assert model.row_bias_.shape == (120,) and model.column_bias_.shape == (80,)


def test_probabilities_are_calibrated(small):
    _, rows, columns, _, model, chance = small
    found = model.predict_proba(rows, columns)
    truth = chance[rows, columns]
    assert abs(found.mean() - truth.mean()) < 0.03
    assert np.corrcoef(found, truth)[0, 1] > 0.85


def test_intervals(small):
    _, rows, columns, _, model, _ = small
    low, high = model.predict_interval(rows, columns)
    chance = model.predict_proba(rows, columns)
    assert (low <= chance).all() and (chance <= high).all() and (high > low).mean() > 0.9
    wider = model.predict_interval(rows, columns, coverage=0.99)
    assert (wider[1] - wider[0] >= high - low).all()
    with pytest.raises(ValueError, match="coverage must be between 0 and 1, got 2"):
        model.predict_interval(rows, columns, 2)


def test_threads_change_nothing(small):
    kept, rows, columns, _, model, _ = small
    again = BooleanCompletion(n_members=6, n_layers=0, random_state=0, n_jobs=2).fit(kept)
    np.testing.assert_array_equal(
        model.predict_proba(rows, columns), again.predict_proba(rows, columns)
    )


def test_new_rows(small):
    kept, *_, model, _ = small
    filled = model.transform(kept)
    assert filled.shape == kept.shape
    dense = kept.to_dense()
    known = ~np.isnan(dense)
    np.testing.assert_array_equal(filled[known], dense[known])
    m, n = np.nonzero(~known)
    own = model.predict_proba(m, n)
    assert np.abs(filled[m, n] - own).mean() < 0.05
    assert 0.5 < model.score(kept) <= 1
    assert model.predict(kept.take_rows([0])).shape == (1, 80)


def test_partial_fit_goes_on(small):
    kept, rows, columns, values, model, _ = small
    before = log_loss(values, model.predict_proba(rows, columns))
    more = Observations.from_triples(
        np.append(rows, 120), np.append(columns, 80), np.append(values, 1), shape=(121, 81)
    )
    again = BooleanCompletion(n_members=6, n_layers=0, random_state=0).fit(kept).partial_fit(more)
    assert again.ensemble_.shape == (121, 81) and again.n_features_in_ == 81
    assert again.observations_.n_observed == kept.n_observed + len(values) + 1
    assert log_loss(values, again.predict_proba(rows, columns)) < before  # it has seen them
    assert 0 < again.predict_proba([120], [80])[0] < 1
    first = BooleanCompletion(n_members=1, n_layers=0, random_state=0).partial_fit(kept)
    assert first.ensemble_.shape == kept.shape


def test_partial_fit_finds_lines_by_their_labels():
    first = Observations.from_dense(
        [[1, 0], [1, 0]], row_labels=["a", "b"], column_labels=["x", "y"]
    )
    model = BooleanCompletion(n_members=1, random_state=0).fit(first)
    new = Observations.from_dense([[1, 1]], row_labels=["c"], column_labels=["z", "x"])
    model.partial_fit(new)
    assert model.observations_.row_labels.tolist() == ["a", "b", "c"]
    assert model.observations_.column_labels.tolist() == ["x", "y", "z"]
    dense = model.observations_.to_dense()
    np.testing.assert_array_equal(dense[2], [1, np.nan, 1])
    nameless = Observations.from_data(np.ones((5, 3)))
    with pytest.raises(ValueError, match="2 new ones have none"):
        model.partial_fit(nameless)


def test_planted_factors_are_found_by_the_plain_model():
    planted = make_boolean(150, 150, 3, flip=0.05, observed=0.3, random_state=0)
    kept, rows, columns, values = planted.observations.hide(0.2, random_state=0)
    ours = BooleanCompletion(n_members=2, n_layers=0, random_state=0).fit(kept)
    default = BooleanMatrixFactorization(absent="missing", random_state=0).fit(kept)
    loss = log_loss(values, ours.predict_proba(rows, columns))
    assert loss < log_loss(values, default.predict_proba(rows, columns)) + 0.01
    assert ours.ensemble_.plain is not None


def test_layers_are_blended_where_they_help():
    rng = np.random.default_rng(3)
    groups, kinds = rng.integers(0, 4, 150), rng.integers(0, 4, 100)
    mean = rng.normal(size=(150, 1)) + np.where(groups[:, None] == kinds, 1.6, -0.6)
    values = (mean + rng.normal(size=mean.shape) > 0).astype(float)
    values[rng.random(values.shape) < 0.5] = np.nan
    model = BooleanCompletion(n_members=4, n_directions=0, random_state=0).fit(values)
    layered = [family for family in model.ensemble_.families if family.structure.n_layers]
    assert layered and layered[0].members[0].layers
    assert model.selection_[0]["log_loss"] < 0.9 * next(
        row["log_loss"] for row in model.selection_ if row["model"] == "offsets"
    )
    found = model.explain(0, int(np.flatnonzero(kinds == groups[0])[0]))
    assert any(part.kind == "layers" for part in found.parts)


def test_ratings_say_more_than_bits():
    rng = np.random.default_rng(4)
    _, _, mean = ratings_like(rng, (150, 60))
    rating = np.digitize(mean + rng.normal(size=mean.shape), [-1.5, -0.5, 0.5, 1.5])
    known, hidden = rng.random(mean.shape) < 0.15, rng.random(mean.shape) < 0.5
    values = np.where(known, (rating >= 3).astype(float), np.nan)
    seen = Observations.from_dense(values)
    ratings = rating[seen.rows_of_entries(), seen.indices]
    m, n = np.nonzero(~known & hidden)
    truth = (rating >= 3)[m, n].astype(np.uint8)
    loss = {}
    for name, given in (("bits", None), ("ratings", ratings)):
        model = BooleanCompletion(n_members=4, n_layers=0, n_directions=1, random_state=0)
        model.fit(seen, ratings=given)
        loss[name] = log_loss(truth, model.predict_proba(m, n))
    assert loss["ratings"] < loss["bits"] - 0.005
    assert (np.diff(model.members_[0].cuts) > 0).all() and 0.0 in model.members_[0].cuts


def test_features_help_rows_without_entries(tmp_path):
    rng = np.random.default_rng(5)
    kind = rng.integers(0, 2, 200)
    mean = np.where(kind == 1, 1.5, -1.5)[:, None] + rng.normal(size=(1, 30)) * 0.3
    values = (mean + rng.normal(size=mean.shape) > 0).astype(float)
    values[rng.random(values.shape) < 0.7] = np.nan
    values[:20] = np.nan
    texts = np.where(kind == 1, "likes", "dislikes")
    model = BooleanCompletion(n_members=2, n_layers=0, n_directions=0, random_state=0)
    chance = model.fit(values, row_features=texts).predict_proba(np.arange(20), np.zeros(20, int))
    assert chance[kind[:20] == 1].min() > 0.75 and chance[kind[:20] == 0].max() < 0.25
    model.save(tmp_path / "model.npz")
    for known in (model, load(tmp_path / "model.npz")):  # new rows without entries
        new = known.predict_proba(values[:20], row_features=texts[:20])
        assert new[kind[:20] == 1].min() > 0.75 and new[kind[:20] == 0].max() < 0.25
        np.testing.assert_array_equal(known.transform(values[:20], row_features=texts[:20]), new)
        np.testing.assert_array_equal(
            known.predict(values[:20], row_features=texts[:20]), new > 0.5
        )
    average = model.predict_proba(values[:1])
    assert abs(average.mean() - 0.5) < 0.1
    with pytest.raises(ValueError, match="row_features are those of new rows"):
        model.predict([0], [0], row_features=texts[:1])
    with pytest.raises(ValueError, match="row_features were not given to fit"):
        clone(model).fit(values).transform(values, row_features=texts)


def test_features_in_a_table_with_numbers_and_categories():
    """Numbers stay numbers beside text, where NumPy makes Python objects of them."""
    ages, genres = [31, 47, 62], ["jazz", "rock", "jazz"]
    expected = np.column_stack([np.divide(ages, np.std(ages)), [1, 0, 1], [0, 1, 0]])
    expected = expected - expected.mean(axis=0)
    columns = {"age": ages, "genre": genres}
    for table in (pd.DataFrame(columns), pl.DataFrame(columns)):
        encoding = FeatureEncoding.of(table, 3, "row_features")
        np.testing.assert_allclose(encoding.encoded(table, 3, "row_features"), expected)
    with pytest.raises(ValueError, match="row_features must be finite"):
        FeatureEncoding.of(pl.DataFrame(columns | {"age": [31, None, 62]}), 3, "row_features")
    new = pd.DataFrame({"age": [46, 93], "genre": ["folk", "rock"]})  # folk is not known
    found = encoding.encoded(new, 2, "row_features")
    ages_of_new = (np.array([46, 93]) - np.mean(ages)) / np.std(ages)
    np.testing.assert_allclose(found[:, 0], ages_of_new)
    np.testing.assert_allclose(found[:, 1:], [[-2 / 3, -1 / 3], [-2 / 3, 2 / 3]])
    with pytest.raises(ValueError, match="must have 2 columns, as in fit, but there are 1"):
        encoding.encoded([[1], [2]], 2, "row_features")
    with pytest.raises(ValueError, match="column 1 of row_features must hold numbers, as in fit"):
        encoding.encoded([["old", "jazz"]], 1, "row_features")


def test_levels_of_ratings_that_are_all_ones_or_all_zeros():
    """There is a level below the lowest one, and above the highest zero."""
    for value, ratings, levels, n_levels in (
        (1, [5, 4, 5], [2, 1, 2], 3),
        (1, [5, 5, 5], [1, 1, 1], 2),
        (0, [2, 1, 2], [1, 0, 1], 3),
        (0, [1, 1, 1], [0, 0, 0], 2),
    ):
        seen = Observations.from_dense([[value] * 3])
        found = levels_of(ratings, seen)
        assert (found[0].tolist(), found[1]) == (levels, n_levels)
    model = BooleanCompletion(n_members=1, random_state=0).fit([[1] * 3], ratings=[[5, 4, 5]])
    assert model.predict_proba([0], [0])[0] > 0.5


def test_the_unit_of_a_feature_does_not_matter():
    """Numbers up to the largest floats; squares of most of them would be infinite."""
    rng = np.random.default_rng(2)
    values = np.where(rng.random((30, 12)) < 0.5, rng.integers(0, 2, (30, 12)), np.nan)
    known = rng.choice([-1.0, -0.5, 0.25, 1.0], (30, 2))
    model = BooleanCompletion(n_members=1, n_layers=0, n_directions=0, random_state=0)
    expected = model.fit_transform(values, row_features=known)
    for unit in (2.0**-1000, 2.0**500, 2.0**1023):
        found = model.fit_transform(values, row_features=unit * known)
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    for unit in (2.0**-1000, 1.0):  # new rows far from those of the fit, with and without entries
        model.fit(values, row_features=unit * known)
        for new in (values[:2], np.full((2, 12), np.nan)):
            chance = model.predict_proba(new, row_features=np.full((2, 2), [[1.7e308, -1.7e308]]))
            assert np.isfinite(chance).all()
            nearer = model.predict_proba(new, row_features=np.full((2, 2), [[1e300, -1e300]]))
            np.testing.assert_array_equal(chance, nearer)
    equal = [0.1] * 7
    encoding = FeatureEncoding.of(equal, 7, "row_features")
    assert not encoding.encoded(equal, 7, "row_features").any()
    with pytest.raises(ValueError, match="row_features must be finite"):
        FeatureEncoding.of(np.array([10**400, 1, 2], dtype=object), 3, "row_features")


def test_weights_count_entries_several_times():
    rng = np.random.default_rng(6)
    values = (rng.random((60, 40)) < 0.5).astype(float)
    weights = np.where(values == 1, 3.0, 1.0)
    weights[0, 0] = 0.0
    model = BooleanCompletion(n_members=4, n_layers=0, n_directions=0, random_state=0)
    plain = model.fit(values).predict_proba(np.arange(60), np.arange(60) % 40).mean()
    weighted = model.fit(values, sample_weight=weights)
    assert weighted.observations_.n_observed == 60 * 40 - 1
    chance = weighted.predict_proba(np.arange(60), np.arange(60) % 40).mean()
    assert abs(plain - 0.5) < 0.05 and abs(chance - 0.75) < 0.05


def test_max_time_ends_with_an_answer():
    votes = load_votes84().observations
    model = BooleanCompletion(n_members=4, random_state=0, max_time=0.01).fit(votes)
    assert not model.interrupted_ and len(model.members_) >= 1
    assert 0 < model.predict_proba([0], [1])[0] < 1


def test_labels_and_lines_without_entries():
    table = Observations.from_dense(
        [[1, 0, 1, np.nan], [1, 0, np.nan, np.nan], [np.nan] * 4],
        row_labels=["Ann", "Bo", "Cy"], column_labels=["tea", "rum", "ale", "gin"],
    )  # fmt: skip
    model = BooleanCompletion(n_members=2, random_state=0).fit(table)
    assert model.selection_ == []  # too few entries to hold any out
    chance = model.predict_proba(["Cy", "Ann"], ["gin", "gin"])
    assert ((chance > 0) & (chance < 1)).all()
    assert "prior" in " ".join(model.explain("Cy", "gin").sentences())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_members": 0}, "n_members"),
        ({"n_layers": -1}, "n_layers"),
        ({"n_components": "many"}, "n_components"),
        ({"n_directions": 1.5}, "n_directions"),
        ({"absent": "nothing"}, "absent"),
        ({"max_time": 0}, "max_time"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        BooleanCompletion(**parameters).fit([[1, 0], [0, 1]])


def test_ratings_may_be_a_table_with_holes():
    """As many users have them: the same answer as from the ratings of the entries in order."""
    rng = np.random.default_rng(5)
    ratings = np.where(rng.random((20, 8)) < 0.7, rng.integers(1, 6, (20, 8)), np.nan)
    bits = np.where(np.isnan(ratings), np.nan, ratings >= 4)
    found = [
        BooleanCompletion(n_members=1, n_layers=0, n_directions=0, random_state=0)
        .fit(bits, ratings=given)
        .predict_proba([0, 1, 2], [3, 4, 5])
        for given in (ratings, ratings[~np.isnan(ratings)])
    ]
    np.testing.assert_array_equal(*found)
    ratings[~np.isnan(ratings)] = np.nan
    with pytest.raises(ValueError, match="ratings must have a number for each observed entry"):
        BooleanCompletion().fit(bits, ratings=ratings)


def test_bad_data():
    model = BooleanCompletion(n_members=1, random_state=0)
    with pytest.raises(ValueError, match="at least one observed entry"):
        model.fit(np.full((2, 2), np.nan))
    with pytest.raises(ValueError, match="0 sample"):
        model.fit(np.zeros((0, 3)))
    with pytest.raises(NotFittedError):
        model.predict_proba([0], [0])
    table = [[1, 0, 1], [0, 1, 0]]
    with pytest.raises(
        ValueError, match=r"ratings must be a table of shape \(2, 3\), or 6 numbers"
    ):
        model.fit(table, ratings=[1, 2])
    with pytest.raises(ValueError, match="a zero is rated 5 and a one 1"):
        model.fit(table, ratings=[1, 5, 5, 1, 5, 1])
    with pytest.raises(ValueError, match="row_features must have 2 lines"):
        model.fit(table, row_features=[[1], [2], [3]])
    with pytest.raises(ValueError, match="row_features must have the same number"):
        model.fit(table, row_features=[[1], [2, 3]])
    for ratings in ("x", [["a"] * 3] * 2, [[1], [1, 2]], np.ones((2, 3)) * 1j):
        with pytest.raises(ValueError, match="ratings must be numbers"):
            model.fit(table, ratings=ratings)
    with pytest.raises(ValueError, match=r"at most 1e\+12, got 1e\+308 at row 1"):
        model.fit(table, sample_weight=[1, 1e308])
    for client in (5, "tcp://127.0.0.1:8786"):
        with pytest.raises(ValueError, match=r"'client' parameter .* 'submit'"):
            BooleanCompletion(client=client).fit(table)
    with pytest.raises(TypeError, match=r"^complete\(\) got an unexpected argument 'foo'"):
        complete(table, foo=1)
    with pytest.raises(TypeError, match=r"^complete\(\) .* 'sample_weight' together with 'noise'"):
        complete(table, noise=0.1, sample_weight=[1, 1])
    with pytest.raises(ValueError, match="column_features must be finite"):
        model.fit(table, column_features=[1.0, np.nan, 2.0])
    model.fit(table)
    with pytest.raises(ValueError, match="rows must be from 0 to 1, got 2"):
        model.predict([2], [0])
    with pytest.raises(ValueError, match="same length"):
        model.predict([0, 1], [0, 1, 2])
    with pytest.raises(ValueError, match="row_features must have 0 columns"):
        model.partial_fit(table, row_features=[[1.0], [2.0]])
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        model.fit(table, weights=[1, 2])
    model.fit(table, sample_weight=[1.0, 2.0])
    with pytest.raises(ValueError, match="does not support ratings and weights"):
        model.partial_fit(table)
