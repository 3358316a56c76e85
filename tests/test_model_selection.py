"""Cross-validation by entries, held against loops written by hand."""

import pickle

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate

from boolweave import BooleanCompletion, BooleanMatrixFactorization, Observations
from boolweave.baselines import BiasModel
from boolweave.datasets import load_zoo, make_boolean
from boolweave.metrics import accuracy, log_loss, roc_auc
from boolweave.model_selection import Entries, EntryKFold, entry_scorer
from short import shorten_chains


@pytest.fixture(scope="module")
def table():
    return make_boolean(40, 30, 2, flip=0.05, observed=0.7, random_state=0).observations


def factors(n_components=2):
    return BooleanMatrixFactorization(n_components, method="max-sum", random_state=0)


def same(one, other):
    return one.shape == other.shape and all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("indptr", "indices", "values")
    )


def test_entries_are_taken_one_by_one():
    cells = np.array([[1, np.nan, 0], [np.nan, np.nan, np.nan], [1, 1, 0]])
    entries = Entries.from_data(Observations.from_dense(cells, column_labels=["a", "b", "c"]))
    assert (len(entries), entries.shape, entries.n_observed) == (5, (3, 3), 5)
    expected = np.full((3, 3), np.nan)
    expected[0, 2], expected[2, 1] = 0, 1
    for key in ([1, 3], (np.array([3, 1]), ...), np.array([False, True, False, True, False])):
        taken = entries[key]
        np.testing.assert_array_equal(taken.to_dense(), expected)
        assert taken.column_labels.tolist() == ["a", "b", "c"]
    assert same(entries[:], entries) and len(entries[[]]) == 0
    assert type(entries.to_local()) is Observations
    for key in (5, [0, 9], (1, 2)):
        with pytest.raises(IndexError):
            entries[key]


@pytest.mark.parametrize("groups", [None, np.arange(30) // 4])
def test_folds_are_those_of_observations(table, groups):
    entries = Entries.from_data(table)
    folds = EntryKFold(4, random_state=7, groups=groups)
    assert folds.get_n_splits() == 4 and "n_splits=4" in repr(folds)
    pairs = zip(folds.split(entries), table.folds(4, random_state=7, groups=groups), strict=True)
    for (train, test), (kept, rows, columns, values) in pairs:
        assert same(entries[train], kept)
        hidden = entries[test]
        np.testing.assert_array_equal(hidden.rows_of_entries(), rows)
        np.testing.assert_array_equal(hidden.indices, columns)
        np.testing.assert_array_equal(hidden.values, values)


def by_hand(estimator, table, n_folds, measure, method="predict_proba"):
    """Fit to the rest of each fold and judge it."""
    scores = []
    for kept, rows, columns, values in table.folds(n_folds, random_state=1):
        answer = getattr(estimator.fit(kept), method)(rows, columns)
        scores.append(measure(values, answer))
    return scores


@pytest.mark.parametrize(
    ("name", "measure", "method"),
    [
        ("accuracy", accuracy, "predict"),
        ("neg_log_loss", lambda values, chance: -log_loss(values, chance), "predict_proba"),
        ("roc_auc", roc_auc, "predict_proba"),
    ],
)
def test_scores_are_those_of_a_loop(table, name, measure, method):
    entries, folds = Entries.from_data(table), EntryKFold(3, random_state=1)
    for estimator in (factors(), BiasModel(random_state=0)):
        found = cross_val_score(estimator, entries, cv=folds, scoring=entry_scorer(name))
        expected = by_hand(estimator, table, 3, measure, method)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_search_is_a_loop(table):
    entries, folds = Entries.from_data(table), EntryKFold(3, random_state=1)
    search = GridSearchCV(factors(), {"n_components": [1, 2, 3]}, cv=folds)
    search.fit(entries)  # judged by accuracy, which is what `score` says of entries
    expected = [np.mean(by_hand(factors(k), table, 3, accuracy, "predict")) for k in (1, 2, 3)]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected, rtol=1e-12)
    best = 1 + int(np.argmax(expected))
    assert search.best_params_ == {"n_components": best}
    alone = factors(best).fit(table)
    np.testing.assert_array_equal(search.best_estimator_.components_, alone.components_)
    assert type(search.best_estimator_.observations_) is Observations


def zoo_entries(zoo, step):
    """One entry in `step`."""
    hidden = np.ones(zoo.n_observed, dtype=bool)
    hidden[::step] = False
    return zoo.split(hidden)[0]


def test_completions_and_several_scores(monkeypatch):
    shorten_chains(monkeypatch)
    zoo = load_zoo().observations.take_rows(slice(40))
    estimator = BooleanCompletion(2, n_layers=0, n_directions=1, n_members=1, random_state=0)
    scorers = {name: entry_scorer(name) for name in ("accuracy", "neg_calibration_error")}
    folds = EntryKFold(2, random_state=0)
    found = cross_validate(estimator, Entries.from_data(zoo), cv=folds, scoring=scorers)
    plain = cross_val_score(estimator, Entries.from_data(zoo), cv=folds)
    np.testing.assert_array_equal(found["test_accuracy"], plain)
    assert (found["test_neg_calibration_error"] <= 0).all()
    # What a search with n_jobs sends to other processes.
    assert pickle.loads(pickle.dumps(entry_scorer("roc_auc"))).measure == "roc_auc"
    assert same(pickle.loads(pickle.dumps(Entries.from_data(zoo)))[::2], zoo_entries(zoo, 2))


def test_what_cannot_be_split(table):
    with pytest.raises(
        TypeError, match=r"splits the rows of a ndarray; pass Entries\.from_data\(X\)"
    ):
        cross_val_score(factors(), table.to_dense(), cv=EntryKFold(3))
    with pytest.raises(ValueError, match="from 2 to the number of observed entries, 2, but got 3"):
        next(EntryKFold(3).split(Entries.from_data([[1, 0]])))
    for n_splits in (1, 2.5, True, "5"):
        with pytest.raises(ValueError, match="n_splits must be a whole number >= 2"):
            EntryKFold(n_splits)
    with pytest.raises(ValueError, match="measure must be one of accuracy, neg_log_loss"):
        entry_scorer("f1")
    with pytest.raises(TypeError, match="scores entries, got a Observations"):
        entry_scorer()(factors().fit(table), table)
