"""Encoded tables: whole answers, and logistic regressions on the answers to other questions."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import boolweave
from boolweave import BooleanCompletion, Observations, TableEncoder
from boolweave.completion.regressions import fit_regressions
from boolweave.completion.table import Table
from boolweave.metrics import answer_scores


@pytest.fixture(scope="module")
def survey():
    """Home decides pet and travel; some cells are missing."""
    random = np.random.default_rng(0)
    home = random.integers(3, size=240)
    pet = np.where(random.random(240) < 0.8, home, random.integers(3, size=240))
    travel = np.where(random.random(240) < 0.8, 2 - home, random.integers(3, size=240))
    table = pl.DataFrame(
        {
            "home": np.array(["flat", "house", "boat"])[home],
            "pet": np.array(["cat", "dog", "fish"])[pet],
            "travel": np.array(["Never", "Sometimes", "Always"])[travel],
            "car": np.array(["yes", "no"])[(random.random(240) < 0.4).astype(int)],
        }
    )
    holes = pl.DataFrame({name: random.random(240) < 0.1 for name in table.columns})
    return table.select(
        pl.when(holes[name]).then(None).otherwise(pl.col(name)).alias(name)
        for name in table.columns
    )


@pytest.fixture(scope="module")
def fitted(survey):
    completion = BooleanCompletion(
        n_directions=1, n_layers=0, n_members=2, random_state=0, n_jobs=1
    )
    return make_pipeline(TableEncoder(), completion).fit(survey)


def test_a_pipeline_knows_the_questions(survey, fitted):
    encoder, model = fitted[0], fitted[1]
    bits = encoder.transform(survey)
    (levels, thresholds) = (
        [columns for form, columns in model.ensemble_.questions.parts if form == wanted]
        for wanted in ("levels", "thresholds")
    )
    assert len(levels) == 2 and len(thresholds) == 1
    for filled in (fitted.transform(survey), model.ensemble_.row_probabilities(np.arange(240))):
        for columns in levels:
            np.testing.assert_allclose(filled[:, columns].sum(axis=1), 1)
        assert (np.diff(filled[:, thresholds[0]]) <= 0).all()
    rows, columns = (part.ravel() for part in np.indices(bits.shape))
    by_rows = model.ensemble_.row_probabilities(np.arange(240))
    np.testing.assert_array_equal(model.predict_proba(rows, columns), by_rows.ravel())
    again = BooleanCompletion(**model.get_params()).fit(bits, groups=encoder.questions_)
    np.testing.assert_array_equal(again.predict_proba(rows, columns), by_rows.ravel())


def test_answers_are_better_predicted_than_by_their_frequency(survey):
    encoder = TableEncoder().fit(survey)
    seen = Observations.from_data(encoder.transform(survey))
    kept, *hidden = seen.hide(0.2, random_state=0, groups=encoder.questions_)
    model = BooleanCompletion(n_directions=1, n_layers=0, n_members=1, random_state=0)
    model.fit(kept, groups=encoder.questions_)
    assert model.ensemble_.regressions is not None
    assert "logistic regressions on other answers" in model.ensemble_.name
    scores = answer_scores(*hidden, model.predict_proba(*hidden[:2]), encoder.questions_)
    assert scores.accuracy > 0.6
    assert abs(scores.log_loss - model.selection_[0]["log_loss"]) < 0.2
    assert model.score(seen) > 0.6


def test_regressions_are_those_of_scikit_learn(survey):
    encoder = TableEncoder()
    bits = np.asarray(encoder.fit_transform(survey), dtype=float)
    table = Table.of(Observations.from_data(bits))
    found = fit_regressions(table, encoder.questions_, 10.0, 1.0, np.random.default_rng(0))
    groups, signs = encoder.groups_, np.nan_to_num(2 * bits - 1)
    np.testing.assert_array_equal(found.rows, signs)
    for n in range(bits.shape[1]):
        others, known = groups != groups[n], ~np.isnan(bits[:, n])
        expected = LogisticRegression(C=0.1, tol=1e-8).fit(signs[known][:, others], bits[known, n])
        odds = expected.decision_function(signs[:, others])
        np.testing.assert_allclose(found.log_odds(np.arange(240))[:, n], odds, atol=0.02)
    assert (found.slopes[groups[:, None] == groups] == 0).all()


def test_files_explanations_and_more_entries(survey, fitted, tmp_path):
    encoder, model = fitted[0], fitted[1]
    model.save(tmp_path / "m.npz")
    loaded = boolweave.load(tmp_path / "m.npz")
    pairs = np.arange(240), np.full(240, 1)
    np.testing.assert_array_equal(loaded.predict_proba(*pairs), model.predict_proba(*pairs))
    why = model.explain(3, 1)
    assert why.log_odds == pytest.approx(sum(part.log_odds for part in why.parts))
    assert why.probability == pytest.approx(model.predict_proba([3], [1])[0])
    kinds = [part.kind for part in why.parts]
    assert kinds[-1] == "answer"
    assert kinds[-2] == "regressions"
    assert why.parts[-2].sentence.partition(": ")[0].endswith(" other answers")
    assert why.parts[-2].reason.startswith("the other answers of ")
    low, high = model.predict_interval(*pairs)
    chance = model.predict_proba(*pairs)
    assert (low <= chance + 1e-9).all() and (chance <= high + 1e-9).all()
    bits = np.asarray(encoder.transform(survey))
    more = BooleanCompletion(**model.get_params()).fit(bits[:200], groups=encoder.questions_)
    more.partial_fit(bits)
    assert more.ensemble_.shape == (240, bits.shape[1])
    np.testing.assert_allclose(more.ensemble_.row_probabilities(np.arange(240))[:, :3].sum(1), 1)
    with pytest.raises(ValueError, match="partial_fit got 1 new columns, whose questions are not"):
        more.partial_fit(np.column_stack([bits, bits[:, 0]]))


def test_a_file_whose_questions_do_not_fit_is_refused(fitted, tmp_path):
    model = fitted[1]
    ensemble = model.ensemble_
    short = replace(ensemble.questions, levels=ensemble.questions.levels[:-1])
    model.ensemble_ = replace(ensemble, questions=short)
    try:
        model.save(tmp_path / "m.npz")
    finally:
        model.ensemble_ = ensemble
    with pytest.raises(ValueError, match="'questions/levels' must be"):
        boolweave.load(tmp_path / "m.npz")
