"""All of scikit-learn's own checks of an estimator.

They feed continuous data, which this estimator refuses: its cells are 0, 1 or missing. The fixture
`zeros_and_ones` cuts it. Those excused below make their own data.
"""

import pytest
from sklearn.utils import estimator_checks

from boolweave import BooleanMatrixFactorization

EXCUSED = {
    "check_positive_only_tag_during_fit": (
        "subtracts the mean from its data, which are no zeros and ones then"
    ),
    "check_estimator_sparse_array": "expects one label a row of `predict`; see below",
    "check_estimator_sparse_matrix": "expects one label a row of `predict`; see below",
    "check_sample_weights_shape": "its data are whole numbers up to 4",
    "check_sample_weights_not_overwritten": "its data are whole numbers up to 4",
    "check_sample_weight_equivalence_on_dense_data": "its data are fractions",
    "check_sample_weight_equivalence_on_sparse_data": "its data are fractions",
}

# Only errors have weights.
EXCUSED_WITHOUT_WEIGHTS = dict.fromkeys(
    (
        "check_sample_weights_pandas_series", "check_sample_weights_not_an_array",
        "check_sample_weights_list", "check_all_zero_sample_weights_error",
    ),
    'weights need objective="errors"',
)  # fmt: skip


def excused(estimator):
    return EXCUSED | ({} if estimator.objective == "errors" else EXCUSED_WITHOUT_WEIGHTS)


@pytest.mark.usefixtures("quick_search", "zeros_and_ones")
@estimator_checks.parametrize_with_checks(
    [
        BooleanMatrixFactorization(2),
        BooleanMatrixFactorization(2, objective="errors"),
    ],
    expected_failed_checks=excused,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:sum-product became uninformative")  # data are noise in some
def test_check(estimator, check):
    check(estimator)


class WithoutPredict(BooleanMatrixFactorization):
    """Matrix completion predicts a matrix, (rows, N), where a classifier predicts a column."""

    @property
    def predict(self):
        raise AttributeError

    predict_proba = predict


@pytest.mark.usefixtures("zeros_and_ones")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:sum-product became uninformative")
@pytest.mark.filterwarnings("ignore:no start found factors")  # the data are noise, without a seed
@pytest.mark.parametrize(
    "check",
    [estimator_checks.check_estimator_sparse_array, estimator_checks.check_estimator_sparse_matrix],
)
def test_sparse_input_apart_from_predict(check):
    check("BooleanMatrixFactorization", WithoutPredict(n_components=2))
