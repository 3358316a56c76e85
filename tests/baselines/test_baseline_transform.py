"""Asso and GreConD give new rows the factors that they gave the rows of fit."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from boolweave.baselines import Asso, GreConD
from boolweave.datasets import make_boolean

NAN = float("nan")


@pytest.mark.parametrize("observed", [1.0, 0.6, 0.05])
@pytest.mark.parametrize(
    "model",
    [
        Asso(4, random_state=0),
        Asso(4, threshold=0.5, bonus=2, penalty=0.5),
        GreConD(4, random_state=0),
        GreConD(5, missing="zero"),
        GreConD(5, missing="one"),
    ],
    ids=str,
)
def test_transform_of_the_rows_of_fit(model, observed):
    seen = make_boolean(60, 40, 3, flip=0.05, observed=observed, random_state=0).observations
    model = clone(model).fit(seen)
    assert model.row_factors_.any()
    np.testing.assert_array_equal(model.transform(seen), model.row_factors_)
    np.testing.assert_array_equal(clone(model).fit_transform(seen), model.row_factors_)
    some = np.array([50, 3, 3, 17])  # each row by itself
    np.testing.assert_array_equal(model.transform(seen.take_rows(some)), model.row_factors_[some])


def test_transform_of_asso_by_hand():
    """Bonus 1, penalty 1, and what an earlier factor covers is not gained again."""
    model = Asso(2, threshold=0.9).fit([[1, 1, 1, 0, 0]] * 3 + [[0, 0, 1, 1, 1]] * 2)
    assert model.components_.tolist() == [[1, 1, 1, 0, 0], [0, 0, 1, 1, 1]]
    rows = [
        [1, 1, 0, 0, 0],  # two ones against a zero
        [1, 0, 0, 0, 0],
        [1, 1, 1, 1, 0],  # of the second factor one and zero are left
        [1, 1, 1, 1, NAN],  # a hole costs nothing
        [NAN] * 5,
    ]
    assert model.transform(rows).tolist() == [[1, 0], [0, 0], [1, 0], [1, 1], [0, 0]]


def test_transform_of_grecond_by_hand():
    table = [[1, 1, 0], [1, 1, 1], [0, 0, 1]]
    rows = [[1, 1, 1], [1, 0, 1], [NAN, 1, 0], [NAN, NAN, NAN]]
    for missing, expected in (
        ("zero", [[1, 1], [0, 1], [0, 0], [0, 0]]),
        ("one", [[1, 1], [0, 1], [1, 0], [1, 1]]),
    ):
        model = GreConD(3, missing=missing).fit(table)
        assert model.components_.tolist() == [[1, 1, 0], [0, 0, 1]]
        found = model.transform(rows)
        assert (found.dtype, found.tolist()) == (np.uint8, expected)
        sparse = csr_array(np.array([[1, 1, 0], [0, 0, 0]]))
        assert model.transform(sparse).tolist() == [[1, 0], [0, 0]]
        assert model.inverse_transform([[1, 0]]).tolist() == [[1, 1, 0]]
        np.testing.assert_array_equal(model.inverse_transform(), table)


@pytest.mark.parametrize("model", [Asso(2, threshold=0.5), GreConD(2)], ids=str)
def test_transform_in_a_pipeline_and_bad_rows(model):
    with pytest.raises(NotFittedError):
        model.transform([[0, 1]])
    planted = make_boolean(40, 20, 2, random_state=0)
    y = planted.X[:, 0]
    pipeline = make_pipeline(clone(model), LogisticRegression()).fit(planted.observations, y)
    assert pipeline.score(planted.observations, y) > 0.9
    for wrong in ([[0, 1]], np.zeros((3, 21))):
        with pytest.raises(ValueError, match=r"X has \d+ features, but \w+ was fitted with 20"):
            pipeline[0].transform(wrong)


def test_transform_without_factors():
    for model in (Asso(3, threshold=0.5), GreConD(3)):
        assert model.fit(np.zeros((4, 5))).transform(np.ones((2, 5))).shape == (2, 0)
