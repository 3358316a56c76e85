"""All of scikit-learn's own checks of an estimator, and a cluster."""

import numpy as np
import pytest
from sklearn.utils import estimator_checks

from boolweave import BooleanCompletion
from boolweave.completion import selection
from boolweave.datasets import make_boolean

EXCUSED = {
    "check_positive_only_tag_during_fit": (
        "subtracts the mean from its data, which are no zeros and ones then"
    ),
    "check_n_features_in_after_fitting": "`partial_fit` takes new columns",
    "check_estimator_sparse_array": "stores zeros only where others are absent: one value",
    "check_estimator_sparse_matrix": "stores zeros only where others are absent: one value",
    "check_sample_weights_shape": "its data are whole numbers up to 4",
    "check_sample_weights_not_overwritten": "its data are whole numbers up to 4",
    "check_sample_weight_equivalence_on_dense_data": "its data are fractions",
    "check_sample_weight_equivalence_on_sparse_data": "its data are fractions",
}


@pytest.fixture
def without_plain(monkeypatch):
    """The plain Boolean model has checks of its own."""
    monkeypatch.setattr(selection, "is_far_behind", lambda *_: True)


@pytest.mark.usefixtures("short_chains", "zeros_and_ones", "without_plain")
@estimator_checks.parametrize_with_checks(
    [BooleanCompletion(n_members=1, n_layers=0, n_directions=0, absent="zero")],
    expected_failed_checks=lambda estimator: EXCUSED,
)
@pytest.mark.filterwarnings("ignore::boolweave.cautions.DegenerateDataWarning")
def test_check(estimator, check):
    check(estimator)


@pytest.mark.usefixtures("short_chains")
def test_a_cluster_gives_the_same_bits():
    """Trials and members are tasks; where they run does not matter."""
    from distributed import Client, LocalCluster

    seen = make_boolean(40, 30, 2, flip=0.1, observed=0.6, random_state=0).observations
    here = BooleanCompletion(n_members=3, n_layers=1, n_directions=1, random_state=0).fit(seen)
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        there = BooleanCompletion(
            n_members=3, n_layers=1, n_directions=1, random_state=0, client=client
        ).fit(seen)
    pairs = np.nonzero(np.ones(seen.shape))
    np.testing.assert_array_equal(here.predict_proba(*pairs), there.predict_proba(*pairs))
