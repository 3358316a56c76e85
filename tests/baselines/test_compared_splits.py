"""Comparisons on splits of the caller's own, and the error bars of a single one."""

import numpy as np
import pytest

from boolweave import Observations, metrics
from boolweave.baselines import BiasModel, compare, worker
from boolweave.baselines.comparison import HIDDEN, KEPT, LEFT_OUT, _roles
from boolweave.data.splits import folds_by_time, hide_last
from boolweave.datasets import make_boolean

SEEN = make_boolean(40, 30, 2, flip=0.02, observed=0.9, random_state=0).observations
TIMES = np.random.default_rng(0).permutation(SEEN.n_observed)
RANKING = ("precision", "recall", "ndcg", "map")


def same_split(a, b):
    assert a[0].fingerprint == b[0].fingerprint
    for one, other in zip(a[1:], b[1:], strict=True):
        np.testing.assert_array_equal(one, other)


def test_one_split_by_time_and_its_errors():
    split = hide_last(SEEN, TIMES, per_row=8)
    found = compare(SEEN, methods=["row and column bias"], splits=iter([split]), top=3)
    (measures,) = found.folds["row and column bias"]
    kept, rows, columns, values = split
    model = BiasModel(random_state=0).fit(kept)
    p = model.predict_proba(rows, columns)
    assert measures["log_loss"] == pytest.approx(metrics.log_loss(values, p))
    expected = metrics.ranking_scores(rows, values, p, 3)
    assert [measures[name] for name in RANKING] == pytest.approx(expected[:4])
    for name in ("accuracy", "log_loss", "auc", "calibration", *RANKING):
        assert 0 < found.standard_error("row and column bias", name) < 0.2
    assert np.isnan(found.standard_error("row and column bias", "seconds"))
    assert found.plot().axes


def test_folds_by_time_are_fitted_to_the_past_alone():
    splits = list(folds_by_time(SEEN, TIMES, 2))
    found = compare(SEEN, methods=["row and column bias"], splits=splits)
    for measures, (kept, rows, columns, values) in zip(
        found.folds["row and column bias"], splits, strict=True
    ):
        p = BiasModel(random_state=0).fit(kept).predict_proba(rows, columns)
        assert measures["auc"] == pytest.approx(metrics.roc_auc(values, p))
        assert not [name for name in measures if name.endswith("_error")]


def test_folds_of_whole_answers():
    groups, method = np.arange(30) // 3, "row and column bias"
    found = compare(SEEN, methods=[method], n_folds=2, random_state=5, groups=groups)
    splits = SEEN.folds(2, 5, groups=groups)
    for measures, (kept, rows, columns, values) in zip(found.folds[method], splits, strict=True):
        p = BiasModel(random_state=5).fit(kept).predict_proba(rows, columns)
        assert measures["log_loss"] == pytest.approx(metrics.log_loss(values, p))
    with pytest.raises(ValueError, match="either groups or splits"):
        compare(SEEN, methods=[method], splits=[hide_last(SEEN, TIMES)], groups=groups)


def test_a_split_in_three_ways_is_the_same():
    hidden = np.random.default_rng(1).random(SEEN.n_observed) < 0.2
    split = SEEN.split(hidden)
    expected = np.where(hidden, HIDDEN, KEPT)
    for given in (split, hidden, np.flatnonzero(hidden), np.flatnonzero(hidden).tolist()):
        np.testing.assert_array_equal(_roles(given, SEEN, 0), expected)
    (found,) = worker._splits(SEEN, expected[None])
    same_split(found, split)


def test_entries_that_are_neither_kept_nor_hidden():
    for split in folds_by_time(SEEN, TIMES, 3):
        roles = _roles(split, SEEN, 0)
        counts = np.bincount(roles, minlength=3)
        assert counts[[KEPT, HIDDEN]].tolist() == [split[0].n_observed, len(split[1])]
        assert counts.sum() == SEEN.n_observed
        (found,) = worker._splits(SEEN, roles[None])
        same_split(found, split)
    assert counts[LEFT_OUT] == 0  # of the last period


def test_jackknife_of_a_mean_is_its_standard_error():
    random = np.random.default_rng(2)
    rows, numbers = np.repeat(np.arange(15) * 7, 4), random.random(60)

    def judged(some):
        return {"mean": float(np.mean(numbers[some]))}

    found = worker.jackknife(rows, judged, judged(slice(None)))
    by_row = numbers.reshape(15, 4).mean(axis=1)
    assert found == {"mean_error": pytest.approx(np.std(by_row, ddof=1) / np.sqrt(15))}
    alone = worker.jackknife(np.zeros(60, dtype=int), judged, {"mean": 0.5})
    assert np.isnan(alone["mean_error"])


def test_what_is_not_defined_is_nan():
    zeros = worker.judge(np.arange(3), np.zeros(3), np.full(3, 0.2), np.zeros(3), 10)
    assert all(np.isnan(zeros[name]) for name in ("auc", *RANKING))
    assert zeros["accuracy"] == 1


class Bare:
    """A method without a number of factors."""


def test_rank_of_any_method():
    bare, known = Bare(), Bare()
    known.n_components_ = 4
    assert np.isnan(worker._rank(bare)) and worker._rank(known) == 4


OTHER = Observations.from_dense(1 - SEEN.to_dense())
SMALL = Observations.from_dense([[1, 0], [0, 1]])


@pytest.mark.parametrize(
    ("splits", "words"),
    [
        ([], "at least one split"),
        ([np.ones(3, dtype=bool)], r"one Boolean for each of the \d+ observed .* shape \(3,\)"),
        ([[0, 10**6]], r"splits\[0\] must hold positions from 0 .* go from 0 to 1000000"),
        ([[0], [-1]], r"splits\[1\] must hold positions"),
        ([["a"]], "must be a tuple .* got list"),
        ([[0.5]], "must be a tuple .* got list"),
        ([np.zeros(SEEN.n_observed, dtype=bool)], "must hide at least one entry"),
        ([np.ones(SEEN.n_observed, dtype=bool)], "must keep at least one entry"),
        ([SMALL.hide(0.5, 0)], r"must be of the table, 40 x 30, but is of 2 x 2"),
        ([OTHER.hide(0.5, 0)], "split the same observations"),
        ([(SEEN, *SEEN.hide(0.5, 0)[1:])], "keeps an entry that it hides"),
        ([(SEEN.hide(0.5, 0)[0], [99], [0], [1])], "from 0 to 39, got 99"),
    ],
)
def test_bad_splits_are_refused(splits, words):
    with pytest.raises(ValueError, match=words):
        compare(SEEN, methods=["majority"], splits=splits)


def test_folds_or_splits():
    with pytest.raises(ValueError, match="either n_folds or splits"):
        compare(SEEN, n_folds=3, splits=[[0]])
