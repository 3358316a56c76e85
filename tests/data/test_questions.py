"""Answers to questions: which columns exclude each other, and consistent probabilities."""

import numpy as np
import polars as pl
import pytest
from sklearn.isotonic import IsotonicRegression

from boolweave import Observations, TableEncoder
from boolweave.data.questions import Questions
from boolweave.metrics import answer_scores

# Three levels, four thresholds, and a column by itself.
QUESTIONS = Questions.of_forms(
    [("levels", 3), ("thresholds", 4), (None, 1)], [0, 0, 0, 1, 1, 1, 1, 2]
)


@pytest.fixture
def chances():
    return np.random.default_rng(0).uniform(0.05, 0.95, (50, 8))


def test_levels_add_up_and_thresholds_decrease_as_little_as_possible(chances):
    found = QUESTIONS.consistent(chances)
    np.testing.assert_allclose(found[:, :3].sum(axis=1), 1)
    np.testing.assert_allclose(
        found[:, :3] / found[:, :1], chances[:, :3] / chances[:, :1], rtol=1e-12
    )
    isotonic = IsotonicRegression(increasing=False)
    nearest = np.array([isotonic.fit_transform(np.arange(4), row) for row in chances[:, 3:7]])
    np.testing.assert_allclose(found[:, 3:7], nearest, atol=5e-3)
    assert (np.diff(found[:, 3:7]) < 0).all()
    np.testing.assert_array_equal(found[:, 7], chances[:, 7])


def test_scores_are_those_of_whole_answers(chances):
    found = QUESTIONS.consistent(chances)
    random = np.random.default_rng(1)
    level, passed, bit = (random.integers(n, size=50) for n in (3, 5, 2))
    values = np.column_stack(
        [level[:, None] == np.arange(3), passed[:, None] > np.arange(4), bit]
    ).astype(np.uint8)
    rows, columns = (part.ravel() for part in np.indices(values.shape))
    mixed = random.permutation(len(rows))
    entries = rows[mixed], columns[mixed], values.ravel()[mixed], found.ravel()[mixed]
    scores = answer_scores(*entries, QUESTIONS)
    assert scores.n_answers == 150
    ends = np.column_stack([np.ones(50), found[:, 3:7], np.zeros(50)])
    likelihood = np.concatenate(
        [
            found[np.arange(50), level],
            (ends[:, :-1] - ends[:, 1:])[np.arange(50), passed],
            np.where(bit, found[:, 7], 1 - found[:, 7]),
        ]
    )
    assert scores.log_loss == pytest.approx(-np.log(likelihood).mean(), rel=1e-9)
    right = np.concatenate(
        [
            found[:, :3].argmax(axis=1) == level,
            (ends[:, :-1] - ends[:, 1:]).argmax(axis=1) == passed,
            (found[:, 7] > 0.5) == bit,
        ]
    )
    assert scores.accuracy == pytest.approx(right.mean())
    assert 0 < scores.calibration_error < 1
    twice = answer_scores(*entries, QUESTIONS, sample_weight=np.full(400, 2.0))
    assert twice.log_loss == pytest.approx(scores.log_loss)


def test_a_part_of_an_answer_is_several_answers():
    """So are columns of which none says what the answer was."""
    part = answer_scores([0, 0], [0, 1], [0, 1], [0.25, 0.5], QUESTIONS)
    assert part.n_answers == 2
    assert part.log_loss == pytest.approx(-(np.log(0.75) + np.log(0.5)) / 2)
    none = answer_scores([0, 0, 0], [0, 1, 2], [0, 0, 0], [0.25, 0.5, 0.25], QUESTIONS)
    assert none.n_answers == 3
    found = QUESTIONS.consistent_entries(np.zeros(2, int), np.arange(2), np.array([0.25, 0.5]))
    np.testing.assert_array_equal(found, [0.25, 0.5])


def test_the_encoder_says_which_columns_exclude_each_other():
    table = pl.DataFrame(
        {
            "home": ["flat", "house", "boat", "flat"] * 5,
            "income": ["$0 - $999", "$1,000 - $4,999", "$5,000+", "$0 - $999"] * 5,
            "weight": [50.5 + 7 * i % 40 for i in range(20)],
            "visits": [0, 1, 2, 1] * 5,
            "car": ["yes", "no", "no", "yes"] * 5,
            "hobby": ["tea;rum", "rum", "tea", "gin;rum;tea"] * 5,
        }
    )
    encoder = TableEncoder().fit(table)
    questions = encoder.questions_
    assert repr(questions) == "Questions(6 of 15 columns: 2 with levels, 2 with thresholds)"
    kinds = "1 yes/no, 1 category, 1 ordered, 1 choices, 2 number"
    assert repr(encoder.plan_) == f"Plan(6 columns: {kinds})"
    np.testing.assert_array_equal(np.asarray(questions), encoder.groups_)
    names = encoder.get_feature_names_out()
    found = {(form, *names[columns]) for form, columns in questions.parts}
    assert found == {
        ("levels", "home = boat", "home = flat", "home = house"),
        ("thresholds", "income ≥ $1,000", "income ≥ $5,000"),
        ("levels", *(name for name in names if "weight" in name)),
        ("thresholds", "visits ≥ 1", "visits ≥ 2"),
    }
    _, *hidden = Observations.from_data(encoder.transform(table)).hide(
        0.2, random_state=0, groups=questions
    )
    scores = answer_scores(*hidden, np.full(len(hidden[0]), 0.5), questions)
    assert scores.n_answers < len(hidden[0])
    assert encoder.transform(table)[:, ::-1].questions is None
