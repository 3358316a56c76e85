"""Fitting in tests: a small Dask cluster to fit on, and comparing fitted estimators."""

from contextlib import contextmanager

import numpy as np
import pytest


@contextmanager
def local_client(n_workers=2, processes=False):
    """A client of workers with one thread each, in this process or in processes of their own."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=processes, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def whole_again(client):
    """Wait until the nanny of a killed worker has started another one.

    On a busy machine a nanny may give up; then another worker takes the place.
    """
    try:
        client.wait_for_workers(2, timeout=60)
    except TimeoutError:
        client.cluster.scale(3)
        client.wait_for_workers(2, timeout=120)


def assert_same(one, other):
    for name in ("components_", "row_log_odds_", "column_log_odds_", "row_prior_", "column_prior_",
                 "factor_stability_"):  # fmt: skip
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for name in ("one_given_zero", "one_given_one"):
        assert getattr(one.noise_, name) == getattr(other.noise_, name)
    for name, values in one.history_.items():
        np.testing.assert_array_equal(values, other.history_[name], err_msg=name)
    for name in ("n_iter_", "converged_", "interrupted_", "log_posterior_", "n_dropped_"):
        assert getattr(one, name) == getattr(other, name), name
    if one.rank_selection_ is not None:
        assert str(one.rank_selection_) == str(other.rank_selection_)
