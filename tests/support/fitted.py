"""Fitting in tests: a small Dask cluster to fit on, and comparing fitted estimators."""

import os
import time
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

    The scheduler may not know yet that a worker is dead, so that all are asked. On a busy machine a
    nanny may give up; then another worker takes the place.
    """
    begun, grown = time.monotonic(), False
    while True:
        answers = client.run(os.getpid, on_error="return").values()
        if len(answers) >= 2 and all(isinstance(answer, int) for answer in answers):
            return
        passed = time.monotonic() - begun
        assert passed < 180, f"two workers are expected to answer, got {list(answers)}"
        if passed > 60 and not grown:
            client.cluster.scale(3)
            grown = True
        time.sleep(0.1)


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
