"""A Dask cluster of processes on this machine against threads: time per iteration.

    python benchmarks/cluster.py [--large]

Two questions: what an iteration costs on two workers beyond what it costs with two threads (K = 10,
N = 10⁴), and, with --large, how much faster two workers of one thread are than one (2·10⁷ entries).
The results must be the same bit for bit; the script fails if they are not.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings

import numpy as np

from boolweave import BooleanMatrixFactorization
from boolweave.distributed import DaskBooleanMatrixFactorization
from boolweave.planted import make_boolean

K = 10


class Clock:
    """Time of every iteration but the first few, which compile and send the blocks."""

    def __init__(self) -> None:
        self.at: list[float] = []

    def __call__(self, *_: float) -> None:
        self.at.append(time.perf_counter())

    @property
    def seconds(self) -> float:
        return statistics.median(np.diff(self.at)[5:])


def timed(model: BooleanMatrixFactorization, observations) -> tuple[float, np.ndarray]:
    """Median seconds per iteration of max-sum, and the log-odds at the end."""
    from boolweave import learning

    clock, fit = Clock(), learning.fit

    def watched(observations, settings, random, on_iteration=None, recorder=None):
        return fit(observations, settings, random, clock, recorder)

    learning.fit = watched
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(observations)
    finally:
        learning.fit = fit
    return clock.seconds, model.row_log_odds_


def on_cluster(n_workers: int, observations, parameters) -> tuple[float, np.ndarray]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        return timed(DaskBooleanMatrixFactorization(client=client, **parameters), observations)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="2·10⁷ entries as well")
    large = parser.parse_args().large
    parameters = {
        "n_components": K, "method": "max-sum", "max_iter": 30, "tol": 0.0, "random_state": 0,
    }  # fmt: skip
    found = {}
    small = make_boolean(300, 10_000, K, flip=0.1, observed=0.1, random_state=0).observations
    here, odds = timed(BooleanMatrixFactorization(n_jobs=2, **parameters), small)
    there, same = on_cluster(2, small, parameters)
    np.testing.assert_array_equal(odds, same)
    found["threads_ms"], found["workers_ms"] = 1000 * here, 1000 * there
    found["overhead_ms"] = 1000 * (there - here)
    if large:
        big = make_boolean(2000, 10_000, K, flip=0.1, random_state=0).observations
        one, odds = on_cluster(1, big, parameters)
        two, same = on_cluster(2, big, parameters)
        np.testing.assert_array_equal(odds, same)
        found["one_worker_s"], found["two_workers_s"], found["speed_up"] = one, two, one / two
    print(json.dumps({name: round(value, 3) for name, value in found.items()}, indent=1))


if __name__ == "__main__":
    main()
