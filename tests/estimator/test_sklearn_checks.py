"""All of scikit-learn's own checks of an estimator.

They feed continuous data, which this estimator refuses: its cells are 0, 1 or missing. So the
one function through which nearly all checks prepare their data turns it into zeros and ones
here, and the checks run as they are. Those excused below make their own data.
"""

import numpy as np
import pytest
from sklearn.utils import estimator_checks

from boolweave import BooleanMatrixFactorization

EXCUSED = {
    "check_positive_only_tag_during_fit": (
        "subtracts the mean from its data, which are no zeros and ones then"
    ),
    "check_estimator_sparse_array": "expects one label a row of `predict`; see below",
    "check_estimator_sparse_matrix": "expects one label a row of `predict`; see below",
}


@pytest.fixture(autouse=True)
def zeros_and_ones(monkeypatch):
    enforce = estimator_checks._enforce_estimator_tags_X

    def enforce_and_cut(estimator, X, X_test=None, **options):
        if X_test is not None:
            return tuple(cut(part) for part in enforce(estimator, X, X_test, **options))
        return cut(enforce(estimator, X, **options))

    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # else a check is skipped
    monkeypatch.setattr(estimator_checks, "_enforce_estimator_tags_X", enforce_and_cut)


def cut(X):
    """1 where a value is above its column's median, else 0; NaN stays."""
    X = np.asarray(X)
    ones = np.where(np.isnan(X), np.nan, np.nanmedian(X, axis=0) < X)
    return ones.astype(X.dtype)


@pytest.mark.usefixtures("quick_search")
@estimator_checks.parametrize_with_checks(
    [
        BooleanMatrixFactorization(2),
        BooleanMatrixFactorization(2, method="max-sum"),
        BooleanMatrixFactorization(2, objective="errors"),
    ],
    expected_failed_checks=lambda estimator: EXCUSED,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_check(estimator, check):
    check(estimator)


class WithoutPredict(BooleanMatrixFactorization):
    """Matrix completion predicts a matrix, (rows, N), where a classifier predicts a column."""

    @property
    def predict(self):
        raise AttributeError

    predict_proba = predict


@pytest.mark.parametrize(
    "check",
    [estimator_checks.check_estimator_sparse_array, estimator_checks.check_estimator_sparse_matrix],
)
def test_sparse_input_apart_from_predict(check):
    check("BooleanMatrixFactorization", WithoutPredict(n_components=2))
