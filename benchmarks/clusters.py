"""The costs of a cluster, of checkpoints and of messages in files.

    python benchmarks/clusters.py [--quick] [--only overhead,speed_up,checkpoint,files]

- overhead: additional time of an iteration with two workers instead of two threads, K = 10, N = 10⁴
- speed_up: one to four workers with one thread each, 2·10⁷ entries, K = 10
- checkpoint: fraction of the time for writing checkpoints at the default interval
- files: messages that need four times the allowed memory, compared with messages in memory

Results that must be equal bit for bit are compared, and the script fails if they differ. The
numbers are written to benchmarks/results/clusters.json, except with --quick.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from boolweave import BooleanMatrixFactorization, Observations
from boolweave.datasets import make_boolean
from boolweave.fit import memory
from boolweave.runtime.checkpoint import Checkpoint, Recorder
from boolweave.runtime.run import Progress
from processes import RESULTS, ROOT, filled, peak_memory, record

NUMBERS = RESULTS / "clusters.json"
PAGE = ROOT / "docs" / "scale.md"
_MARK = "<!-- measured -->"
K = 10
MAX_SUM = {"n_components": K, "method": "max-sum", "tol": 0.0, "random_state": 0}
# Targets: the maximum of some figures, and the minimum of others.
ASKED = {
    "overhead_ms": (15, None), "speed_up_2": (None, 1.6),
    "checkpoint_share": (0.03, None), "files_ratio": (3, None), "files_uncached_ratio": (3, None),
}  # fmt: skip


class Clock:
    """Record the time of every iteration except the first few, which compile and send entries."""

    def __init__(self) -> None:
        self.at: list[float] = []

    def __call__(self, *_: float) -> None:
        self.at.append(time.perf_counter())

    @property
    def seconds(self) -> float:
        return statistics.median(np.diff(self.at)[5:])


@contextlib.contextmanager
def calling(on_iteration: Callable[..., None]) -> Iterator[None]:
    """Call `on_iteration` after every iteration of the fits inside."""
    silent = Progress.iteration
    Progress.iteration = lambda self, *values: on_iteration(*values)
    try:
        yield
    finally:
        Progress.iteration = silent


def timed(model: BooleanMatrixFactorization, observations) -> tuple[float, np.ndarray]:
    """Median seconds per iteration, and the log-odds at the end."""
    clock = Clock()
    with calling(clock):
        quietly(model, observations)
    return clock.seconds, model.row_log_odds_


def quietly(model, observations):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(observations)


def cluster_of(n_workers: int):
    from distributed import LocalCluster

    return LocalCluster(
        n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=None
    )


def on_cluster(n_workers: int, parameters, *problems) -> list[tuple[float, np.ndarray]]:
    """Call `timed` for each problem on a cluster of processes."""
    from boolweave.distributed import DaskBooleanMatrixFactorization
    from distributed import Client

    with cluster_of(n_workers) as cluster, Client(cluster) as client:
        return [
            timed(DaskBooleanMatrixFactorization(client=client, **parameters), seen)
            for seen in problems
        ]


# ---------------------------------------------------------------- what is measured


def overhead(quick: bool) -> dict[str, float]:
    parameters = {**MAX_SUM, "max_iter": 30 if quick else 100}
    seen = make_boolean(300, 10_000, K, flip=0.1, observed=0.1, random_state=0).observations
    here, odds = timed(BooleanMatrixFactorization(n_jobs=2, **parameters), seen)
    ((there, same),) = on_cluster(2, parameters, seen)
    np.testing.assert_array_equal(odds, same)
    return {
        "threads_ms": 1000 * here, "workers_ms": 1000 * there,
        "overhead_ms": 1000 * (there - here), **round_trips(),
    }  # fmt: skip


class Echo:
    def answer(self) -> None:
        pass


def nothing(_: int) -> None:
    pass


def round_trips() -> dict[str, float]:
    """Time of one call to each of two workers, as calls of actors or as new tasks."""
    from distributed import Client

    with cluster_of(2) as cluster, Client(cluster) as client:
        workers = list(client.scheduler_info(n_workers=-1)["workers"])
        actors = [
            client.submit(Echo, actor=True, workers=[w], pure=False).result() for w in workers
        ]

        def by_actors() -> None:
            for future in [actor.answer() for actor in actors]:
                future.result()

        def by_tasks() -> None:
            client.gather(
                [client.submit(nothing, n, workers=[w], pure=False) for n, w in enumerate(workers)]
            )

        found = {}
        for name, call in (("actor_call_ms", by_actors), ("task_call_ms", by_tasks)):
            times = []
            for _ in range(60):
                began = time.perf_counter()
                call()
                times.append(time.perf_counter() - began)
            found[name] = 1000 * statistics.median(times[10:])
        return found


def speed_up(quick: bool) -> dict[str, float]:
    """Measure the times with several workers, and compare them with the model of docs/scale.md.

    The constants of the model are the time per entry and factor, from a run with one thread, and
    the constant time of an iteration for each number of workers, from a small problem with the same
    number of columns.
    """
    n_rows = 100 if quick else 2000
    seen = make_boolean(n_rows, 10_000, K, flip=0.1, random_state=0).observations
    small = make_boolean(28, 10_000, K, flip=0.1, random_state=0).observations  # four blocks
    parameters = {**MAX_SUM, "max_iter": 16}
    here, odds = timed(BooleanMatrixFactorization(**parameters), seen)
    n_cores = os.cpu_count() or 1
    found: dict[str, float] = {
        "entries": seen.n_observed, "cores": n_cores, "seconds_here": here,
        "ns_per_entry_and_factor": 1e9 * here / (seen.n_observed * K),
    }  # fmt: skip
    for n_workers in (1, 2) if quick else (1, 2, 3, 4):
        (seconds, same), (little, _) = on_cluster(n_workers, parameters, seen, small)
        np.testing.assert_array_equal(odds, same)
        at_once = min(n_workers, n_cores)
        besides = max(0.0, little - here * small.n_observed / seen.n_observed / at_once)
        found[f"seconds_{n_workers}"] = seconds
        found[f"besides_ms_{n_workers}"] = 1000 * besides
        found[f"predicted_{n_workers}"] = here / at_once + besides
        if n_workers > 1:
            found[f"speed_up_{n_workers}"] = found["seconds_1"] / seconds
    return found


def checkpoint(quick: bool) -> dict[str, float]:
    """Measure the time of a checkpoint, with random bits, for which messages do not converge.

    Checkpoints are saved more often than usual; the fraction is that for the default interval.
    """
    n_rows = 100 if quick else 2000
    bits = np.random.default_rng(0).integers(0, 2, (n_rows, 10_000), dtype=np.uint8)
    seen = Observations.from_dense(bits)
    interval = 2.0 if quick else 8.0
    spent, save = [], Recorder.save

    def timed_save(self) -> None:
        began = time.perf_counter()
        save(self)
        spent.append(time.perf_counter() - began)

    class Enough(Exception):
        pass

    began = time.perf_counter()

    def watch(*_: float) -> None:
        if time.perf_counter() - began > 3.25 * interval:
            raise Enough

    Recorder.save = timed_save
    try:
        with tempfile.TemporaryDirectory() as place, calling(watch):
            model = BooleanMatrixFactorization(
                n_jobs=2, max_iter=10**6, checkpoint=Checkpoint(place, interval=interval), **MAX_SUM
            )
            with contextlib.suppress(Enough):
                quietly(model, seen)
            size = max(file.stat().st_size for file in Path(place).iterdir())
    finally:
        Recorder.save = save
    each, usual = statistics.median(spent), Checkpoint("").interval
    return {
        "interval_s": usual, "checkpoint_s": each, "checkpoint_MB": size / 1e6,
        "checkpoint_share": each / (usual + each),
    }  # fmt: skip


def files(quick: bool) -> dict[str, float]:
    """Do each run in a process of its own, which reads the entries from disk."""
    shape = (4000, 5000) if quick else (4000, 20_000)
    seen = make_boolean(*shape, K, flip=0.1, observed=0.25, random_state=0).observations
    needed = memory.FitSize(shape, seen.n_observed, K, method="max-sum", learns=False).n_bytes
    found: dict[str, float] = {"entries": seen.n_observed, "allowed_MB": needed / 4e6}
    with tempfile.TemporaryDirectory() as place:
        for name in ("indptr", "indices", "values"):
            np.save(f"{place}/{name}.npy", getattr(seen, name))
        np.save(f"{place}/shape.npy", seen.shape)
        for kind in ("memory", "files", "files_uncached"):
            command = [sys.executable, __file__, "--one-run", place, kind, str(needed // 4)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found |= {f"{kind}_{name}": v for name, v in json.loads(done.stdout).items()}
    assert len({found.pop(f"{kind}_sum") for kind in ("memory", "files", "files_uncached")}) == 1
    for kind in ("files", "files_uncached"):
        found[f"{kind}_ratio"] = found[f"{kind}_ns_per_entry"] / found["memory_ns_per_entry"]
    return found


def one_run(place: str, kind: str, allowed: int) -> None:
    arrays = [
        np.load(f"{place}/{name}.npy", mmap_mode="r") for name in ("indptr", "indices", "values")
    ]
    shape = tuple(np.load(f"{place}/shape.npy").tolist())
    quietly(BooleanMatrixFactorization(max_iter=2, **MAX_SUM), np.eye(30))  # compile the kernels
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak memory
    before = peak_memory()
    seen = Observations(shape, *arrays)
    if kind == "files_uncached":
        memory.free_memory = lambda: 1
    limit = None if kind == "memory" else allowed
    model = BooleanMatrixFactorization(max_iter=14, max_memory=limit, **MAX_SUM)
    seconds, odds = timed(model, seen)
    print(json.dumps({
        "ns_per_entry": 1e9 * seconds / seen.n_observed, "peak_MB": (peak_memory() - before) / 1e6,
        "sum": float(odds.sum(dtype=np.float64)),
    }))  # fmt: skip


# ---------------------------------------------------------------- all of it


PARTS = {"overhead": overhead, "speed_up": speed_up, "checkpoint": checkpoint,
         "files": files}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, for a test of the script"
    )
    parser.add_argument("--only", default=",".join(PARTS), help="some of the parts")
    parser.add_argument("--one-run", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one_run:
        one_run(given.one_run[0], given.one_run[1], int(given.one_run[2]))
        return
    found: dict[str, dict[str, float]] = {}
    for name in given.only.split(","):
        load = os.getloadavg()[0]
        found[name] = PARTS[name](given.quick) | {"load_before": load}
        print(name)
        for what, value in found[name].items():
            most, least = ASKED.get(what, (None, None))
            asked = f"  (at most {most})" if most is not None else ""
            asked = f"  (at least {least})" if least is not None else asked
            print(f"  {what:<28}{value:>14.4g}{asked}", flush=True)
    if not given.quick:
        old = json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {}
        rounded = {
            name: {what: float(f"{value:.4g}") for what, value in part.items()}
            for name, part in found.items()
        }
        NUMBERS.write_text(json.dumps(old | rounded, indent=1) + "\n")
        record(NUMBERS, ("distributed", "fit", "engine", "runtime"), list(found))
        if "speed_up" in found:
            put_into_page(found["speed_up"])


def put_into_page(found: dict[str, float]) -> None:
    """The table of docs/scale.md with the measured times and those of the model."""
    lines = ["| workers | measured, s | model, s |", "|---|---|---|"]
    for n in range(1, 5):
        lines.append(f"| {n} | {found[f'seconds_{n}']:.3f} | {found[f'predicted_{n}']:.3f} |")
    words = (
        f"\n\n{found['entries']:,.0f} entries, K = {K}, {found['cores']:.0f} cores, "
        f"t = {found['ns_per_entry_and_factor']:.2f} ns; load of the machine before: "
        f"{found['load_before']:.1f}."
    )
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(_MARK)
    _, _, after = rest.partition("<!-- end -->")
    table = "\n".join(lines) + words
    text = filled(f"{before}{_MARK}\n{table}\n<!-- end -->{after}")
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
