"""What happens to a fit on a Dask cluster when a part of the cluster fails.

    python benchmarks/faults.py [--only NAME,NAME] [--estimator completion|factors|files]

Each fault strikes a fit on a small cluster of its own, at a random moment after a given part of the
fit, with fixed seeds. The outcome is the right answer (the same bits as without a cluster), one
clear error (`ClusterLost`), or something else, which counts as a failure, as does a fit that has
not ended after LIMIT seconds. Silent workers are given up after PATIENCE seconds instead of 90,
and silent schedulers instead of 30. Chains are short.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import numpy as np

from boolweave import BooleanCompletion, BooleanMatrixFactorization
from boolweave.completion import chain, selection
from boolweave.completion.tasks import Runner
from boolweave.datasets import make_boolean
from boolweave.distributed import DaskBooleanMatrixFactorization
from boolweave.engine import backend, loop
from boolweave.runtime import cluster
from distributed import Client, LocalCluster, Scheduler, Worker

N_WORKERS = 3
SHAPE = (40, 30)
PREPARED = "BOOLWEAVE_FAULTS"  # the variable that tells processes of workers to prepare
PATIENCE, LIMIT = 12, 240
FACTORS = {"n_components": 3, "random_state": 0, "max_iter": 40, "n_init": 1, "tol": 0.0}
COMPLETION = {"n_members": 8, "n_layers": 0, "n_directions": 1, "random_state": 0}
SETTINGS = {
    "distributed.worker.multiprocessing-method": "forkserver",
    "distributed.comm.timeouts.tcp": f"{PATIENCE}s",
    "distributed.comm.timeouts.connect": f"{PATIENCE}s",
}


# ---------------------------------------------------------------- clusters


class Nannied:
    """Workers whose nannies start them again, and a scheduler in this process."""

    def __enter__(self) -> Nannied:
        self.cluster = LocalCluster(
            n_workers=N_WORKERS, threads_per_worker=1, dashboard_address=None,
            silence_logs="CRITICAL",
        )  # fmt: skip
        self.client = Client(self.cluster)
        self.extra: list[Any] = []
        return self

    @property
    def workers(self) -> list[int]:
        return [n.pid for n in self.cluster.workers.values() if n.pid is not None]

    def add_worker(self) -> None:
        self.cluster.scale(N_WORKERS + 1)

    def __exit__(self, *_: object) -> None:
        for pid in self.workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        for opened in (self.client, self.cluster):
            with contextlib.suppress(Exception):
                opened.close(timeout=20)


class Bare:
    """A scheduler and workers in processes of their own, which nobody starts again."""

    def __enter__(self) -> Bare:
        self.context = multiprocessing.get_context("forkserver")
        self.place = tempfile.TemporaryDirectory()
        path = Path(self.place.name) / "address"
        self.processes: list[Any] = []
        self._start(run_scheduler, str(path))
        while not path.exists() or not path.read_text():
            time.sleep(0.05)
        self.address = path.read_text()
        for _ in range(N_WORKERS):
            self.add_worker()
        self.client = Client(self.address, timeout=60)
        self.client.wait_for_workers(N_WORKERS, timeout=120)
        return self

    def _start(self, target: Callable[[str], None], argument: str) -> None:
        process = self.context.Process(target=target, args=(argument,), daemon=True)
        process.start()
        self.processes.append(process)

    @property
    def scheduler(self) -> int:
        return self.processes[0].pid

    @property
    def workers(self) -> list[int]:
        return [process.pid for process in self.processes[1:]]

    def add_worker(self) -> None:
        self._start(run_worker, self.address)

    def __exit__(self, *_: object) -> None:
        for process in reversed(self.processes):
            process.kill()
        with contextlib.suppress(Exception):
            self.client.close(timeout=5)
        self.place.cleanup()


def run_scheduler(path: str) -> None:
    async def serve() -> None:
        async with Scheduler(port=0, host="127.0.0.1", dashboard_address=":0") as scheduler:
            Path(path).write_text(scheduler.address)
            await scheduler.finished()

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with dask.config.set(SETTINGS):
        asyncio.run(serve())


def run_worker(address: str) -> None:
    async def serve() -> None:
        async with Worker(address, nthreads=1, dashboard_address=None) as worker:
            await worker.finished()

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with dask.config.set(SETTINGS):
        asyncio.run(serve())


# ---------------------------------------------------------------- faults


def kill(cluster: Any, number: int = 0) -> None:
    os.kill(cluster.workers[number], signal.SIGKILL)


def kill_all(cluster: Any) -> None:
    for pid in cluster.workers:
        os.kill(pid, signal.SIGKILL)


def kill_again_and_again(cluster: Any) -> None:
    """Kill every worker as soon as there is one, as if each ran out of memory."""
    until = time.monotonic() + 60
    while time.monotonic() < until and cluster.client.status == "running":
        with contextlib.suppress(ProcessLookupError):
            kill_all(cluster)
        time.sleep(0.5)


def freeze(cluster: Any, seconds: float | None = None) -> None:
    pid = cluster.workers[0]
    os.kill(pid, signal.SIGSTOP)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)


def freeze_all(cluster: Any) -> None:
    for pid in cluster.workers:
        os.kill(pid, signal.SIGSTOP)


def freeze_scheduler(cluster: Any, seconds: float | None = None) -> None:
    os.kill(cluster.scheduler, signal.SIGSTOP)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(cluster.scheduler, signal.SIGCONT)


def with_other_client(cluster: Any, action: Callable[[Client], None]) -> None:
    with contextlib.suppress(Exception):
        action(Client(cluster.address, timeout=20, set_as_default=False))


def retire(client: Client) -> None:
    client.retire_workers(sorted(client.scheduler_info(n_workers=-1)["workers"])[:1])


# Name: cluster, what happens, and after which part of the fit.
FAULTS: dict[str, tuple[type, Callable[[Any], None], float]] = {
    "worker killed, early": (Bare, kill, 0.05),
    "worker killed, middle": (Bare, kill, 0.5),
    "worker killed, late": (Bare, kill, 0.8),
    "two workers killed": (Bare, lambda c: (kill(c), kill(c, 1)), 0.4),
    "worker killed, restarted by nanny": (Nannied, kill, 0.5),
    "all workers killed, restarted": (Nannied, kill_all, 0.5),
    "all workers killed for good": (Bare, kill_all, 0.5),
    "workers killed again and again": (Nannied, kill_again_and_again, 0.2),
    "worker frozen, early": (Bare, freeze, 0.05),
    "worker frozen, middle": (Bare, freeze, 0.5),
    "worker frozen, late": (Bare, freeze, 0.8),
    "worker frozen, with nanny": (Nannied, freeze, 0.3),
    "worker frozen for 3 s": (Bare, lambda c: freeze(c, 3), 0.3),
    "worker frozen for 30 s": (Bare, lambda c: freeze(c, 30), 0.3),
    "all workers frozen": (Bare, freeze_all, 0.5),
    "worker added": (Bare, lambda c: c.add_worker(), 0.3),
    "worker retired": (Bare, lambda c: with_other_client(c, retire), 0.4),
    "workers restarted": (Nannied, lambda c: c.client.restart(wait_for_workers=False), 0.5),
    "scheduler killed, early": (Bare, lambda c: os.kill(c.scheduler, signal.SIGKILL), 0.05),
    "scheduler killed, late": (Bare, lambda c: os.kill(c.scheduler, signal.SIGKILL), 0.8),
    "scheduler frozen": (Bare, freeze_scheduler, 0.5),
    "scheduler frozen for 3 s": (Bare, lambda c: freeze_scheduler(c, 3), 0.5),
    "cluster shut down": (Bare, lambda c: with_other_client(c, Client.shutdown), 0.5),
    "client closed": (Bare, lambda c: c.client.close(), 0.5),
    "client of a local cluster closed": (Nannied, lambda c: c.client.close(), 0.3),
}


# ---------------------------------------------------------------- fits


class Steps:
    """Counts the steps of fits and calls a function, in another thread, at one of them."""

    def __init__(self) -> None:
        self.n, self.when, self.action = 0, -1, None

    def start(self, when: int = -1, action: Callable[[], None] | None = None) -> None:
        self.n, self.when, self.action = 0, when, action

    def count(self) -> None:
        self.n += 1
        if self.n == self.when:
            threading.Thread(target=self.action, daemon=True).start()

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Count iterations of factorizations, and tasks of completions."""
        iterate, run = loop.iterate, Runner.__call__

        def counted_iterate(*arguments: Any) -> None:
            self.count()
            iterate(*arguments)

        def counted_run(runner: Runner, function: Any, tasks: Any) -> Iterator[Any]:
            for answer in run(runner, function, tasks):
                self.count()
                yield answer

        loop.iterate, Runner.__call__ = counted_iterate, counted_run
        try:
            yield
        finally:
            loop.iterate, Runner.__call__ = iterate, run


def make_ready() -> None:
    """Shorten chains, and compile what fits call, in this process and in those it becomes.

    The plain Boolean model, which the client alone fits, is left out.
    """
    chain.FROM_RANDOM, chain.TRIAL_AVERAGES, chain.MOST_AVERAGES = 15, 1, 3
    selection.FEW_FOLDS = selection.VERY_FEW_FOLDS = 2
    selection.Selection._try_plain = lambda self: None
    for estimator in ("completion", "factors"):
        fitted(estimator, None, "")


def problem() -> Any:
    return make_boolean(*SHAPE, 3, flip=0.1, observed=0.8, random_state=0).observations


def in_files(place: str) -> list[str]:
    import polars

    seen, paths = problem(), []
    table = polars.DataFrame({"r": seen.rows_of_entries(), "c": seen.indices, "v": seen.values})
    for n in range(3):
        paths.append(f"{place}/{n}.parquet")
        table[n::3].write_parquet(paths[-1])
    return paths


def fitted(estimator: str, client: Client | None, place: str) -> np.ndarray:
    """All that is random in a fit: the beliefs of a factorization, or all probabilities."""
    if estimator == "completion":
        model = BooleanCompletion(client=client, **COMPLETION).fit(problem())
        return model.predict_proba(*np.nonzero(np.ones(SHAPE)))
    if client is None:
        model = BooleanMatrixFactorization(**FACTORS).fit(problem())
    else:
        given = in_files(place) if estimator == "files" else problem()
        model = DaskBooleanMatrixFactorization(client=client, **FACTORS).fit(given)
    return np.concatenate([model.row_log_odds_.ravel(), model.column_log_odds_.ravel()])


def outcome_of(estimator: str, client: Client, right: np.ndarray) -> str:
    """Fit, and describe the outcome in words."""
    found: list[str] = []

    def fit() -> None:
        with tempfile.TemporaryDirectory() as place:
            try:
                same = np.array_equal(fitted(estimator, client, place), right)
                found.append("right answer" if same else "WRONG ANSWER")
            except cluster.ClusterLost as error:
                found.append(f"error: {error}")
            except BaseException as error:
                traceback.print_exc()
                found.append(f"FOREIGN ERROR: {type(error).__name__}: {error}")

    thread = threading.Thread(target=fit, daemon=True)
    thread.start()
    thread.join(LIMIT)
    return found[0] if found else f"NO END within {LIMIT:g} s"


def run(names: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """Run faults, print a line for each, and return what happened."""
    os.environ[PREPARED] = "1"
    # The server from which workers are forked finds this file only there, and ignores it otherwise:
    # workers would then have long chains, and other answers.
    places = [str(Path(__file__).resolve().parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, places))
    multiprocessing.get_context("forkserver").set_forkserver_preload(["faults"])
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    steps, outcomes = Steps(), []
    with dask.config.set(SETTINGS), steps.counted(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make_ready()
        backend.MIN_BLOCK = 200  # so that every worker has rows
        cluster.PATIENCE = 1
        right, n_steps = {}, {}
        for estimator in {estimator for _, estimator in names}:
            steps.start()
            right[estimator] = fitted(estimator, None, "")
            n_steps[estimator] = steps.n
        for number, (name, estimator) in enumerate(names):
            kind, action, part = FAULTS[name]
            pause = np.random.default_rng(number).uniform(0, 0.1)
            struck = []
            with kind() as struck_cluster:

                def strike(
                    action=action, cluster=struck_cluster, pause=pause, struck=struck
                ) -> None:
                    time.sleep(pause)
                    struck.append(time.monotonic())
                    action(cluster)

                steps.start(max(1, round(part * n_steps[estimator])), strike)
                outcome = outcome_of(estimator, struck_cluster.client, right[estimator])
                seconds = time.monotonic() - struck[0] if struck else float("nan")
            if not struck:
                outcome = f"NOT STRUCK: {outcome}"
            outcomes.append({"fault": name, "fit": estimator, "outcome": outcome,
                             "seconds": round(seconds, 1)})  # fmt: skip
            print(f"{number + 1:>3}  {name:<34}{estimator:<12}{seconds:>6.1f} s  {outcome}",
                  flush=True)  # fmt: skip
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="names of faults, separated by semicolons")
    parser.add_argument("--estimator", help="completion, factors or files")
    given = parser.parse_args()
    estimators = [given.estimator] if given.estimator else ["completion", "factors"]
    chosen = given.only.split(";") if given.only else list(FAULTS)
    outcomes = run([(name, estimator) for estimator in estimators for name in chosen])
    right = sum(found["outcome"] == "right answer" for found in outcomes)
    errors = sum(found["outcome"].startswith("error: ") for found in outcomes)
    slowest = max(found["seconds"] for found in outcomes)
    others = len(outcomes) - right - errors
    print(
        f"{len(outcomes)} faults: {right} right answers, {errors} clear errors, {others} others; "
        f"at most {slowest:.0f} s after the fault"
    )
    sys.stdout.flush()
    os._exit(right + errors < len(outcomes))  # without waiting for fits that have not ended


if os.environ.get(PREPARED) and __name__ == "faults":  # workers begin as copies of this process
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make_ready()
if __name__ == "__main__":
    main()
