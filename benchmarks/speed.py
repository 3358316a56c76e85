"""The time of one iteration, compared with the speed of memory and with other programs.

The unit is a plain float32 triad, a[i] += s·b[i], over as many elements as there are messages in
one direction: K times the observed entries. One iteration reads and writes two messages per
element. Every problem runs in a process of its own, with one thread and with two:

- dense problems, and sparse ones with 100 and with 10 entries per row, with random entries, so that
  all messages change: time of an iteration (the smallest and the median of several), per entry and
  factor, in units of the triad, for max-sum and sum-product;
- peak memory in addition to the input, per entry and factor, compared with the estimate of
  `boolweave.fit.memory`;
- a planted 1000 × 1000 matrix, K = 5, 10% flips: processor time and error of whole calls, compared
  with NIMFA and other programs that can be installed. Every program is called as its users call it
  and ends by its own rule: in a new process, imports included, and once more in the same process;
- the first fit of a process, with newly compiled kernels and with the compile cache.

    python benchmarks/speed.py                  # a few minutes
    python benchmarks/speed.py --huge           # also 10⁸ entries, which takes 10 GB
    python benchmarks/speed.py --only planted   # this part; the others stay as they are
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import processes
from processes import answer_of, load_before, memory_now, peak_memory, record

RESULTS = processes.RESULTS / "speed.json"

THREADS = (1, 2)
FLIP = 0.1
LARGEST_TRIAD = 10**8  # elements; beyond about 10⁷, the time per element is constant
RANK = 5  # of the planted problem
CALLS = {
    "default": "BooleanMatrixFactorization(5)",
    "max-sum": 'BooleanMatrixFactorization(5, method="max-sum")',
}
PARTS = ("first_fit", "steps", "planted")


def problems(huge: bool) -> list[dict]:
    """The problems: dense shapes, and sparse ones by number of entries and entries per row."""
    listed = [
        {"label": "dense 1000 × 1000", "rows": 1000, "columns": 1000, "per_row": 1000, "K": 5},
        {"label": "dense 4000 × 4000", "rows": 4000, "columns": 4000, "per_row": 4000, "K": 16},
    ]
    for per_row in (100, 10):
        for power in (5, 6, 7, 8) if huge else (5, 6, 7):
            rows = 10**power // per_row
            columns = max(1000, min(rows, 20_000))
            label = f"sparse 10{'⁰¹²³⁴⁵⁶⁷⁸'[power]}, {per_row} a row"
            listed.append(
                {"label": label, "rows": rows, "columns": columns, "per_row": per_row, "K": 10}
            )
    return listed


# ---------------------------------------------------------------- in a process of its own


def draw_observations(rows: int, columns: int, per_row: int, seed: int = 0):
    """Random bits at random positions, `per_row` in each row."""
    from boolweave import Observations

    rng = np.random.default_rng(seed)
    values = rng.integers(0, 2, rows * per_row, dtype=np.uint8)
    indptr = np.arange(rows + 1, dtype=np.int64) * per_row
    if per_row == columns:
        index = np.tile(np.arange(columns, dtype=np.int32), rows)
    else:  # one position in each of `per_row` strips of the columns
        width = columns // per_row
        index = rng.integers(0, width, (rows, per_row), dtype=np.int32)
        index += np.arange(per_row, dtype=np.int32) * np.int32(width)
        index = index.ravel()
    return Observations((rows, columns), indptr, index, values)


def make_state(observations, K: int, n_threads: int = 1):
    from boolweave.engine.integers import IntegerBackend
    from boolweave.model.channel import Channel
    from boolweave.model.model import Model

    backend = IntegerBackend(observations, n_threads)
    problem = backend.problem(Model(K, Channel.symmetric(FLIP)))
    return backend, problem, backend.random_start(problem, np.random.default_rng(1))


def run_step(options: dict) -> dict:
    """Times of iterations and of the triad with one thread and with two, and the peak memory."""
    from boolweave.engine.integers import IntegerBackend

    shape = options["rows"], options["columns"]
    warm = draw_observations(40, 40, 40 if options["per_row"] == options["columns"] else 10)
    time_steps(*make_state(warm, options["K"], 2), seconds=0)
    observations = draw_observations(*shape, options["per_row"])
    n_messages = observations.n_observed * options["K"]
    answer: dict = {"entries": observations.n_observed, "threads": {}}
    answer |= peak_of_fit(warm, observations, options["K"])
    backend, problem, state = make_state(observations, options["K"])
    backends = {n: IntegerBackend(observations, n) for n in THREADS}
    for n_threads, other in backends.items():
        answer["threads"][n_threads] = {"max-sum": time_steps(other, problem, state)}
    state = backend.to_sum_product(problem, state)
    for n_threads, other in backends.items():
        answer["threads"][n_threads]["sum-product"] = time_steps(other, problem, state)
    del backend, backends, other, problem, state, observations
    for n_threads in THREADS:
        one = answer["threads"][n_threads]
        one["triad_ns"] = time_triad(min(n_messages, LARGEST_TRIAD), n_threads)
        for semiring in ("max-sum", "sum-product"):
            one[semiring]["ns_each"] = one[semiring]["best_s"] / n_messages * 1e9
            one[semiring]["triads"] = one[semiring]["ns_each"] / one["triad_ns"]
    return answer


def peak_of_fit(warm, observations, K: int) -> dict:
    """Peak memory of a complete max-sum fit in addition to its input, and its estimate."""
    import warnings

    from boolweave import BooleanMatrixFactorization
    from boolweave.fit import memory

    warnings.filterwarnings("ignore")  # two iterations are not enough to converge
    model = BooleanMatrixFactorization(K, method="max-sum", max_iter=2, random_state=0)
    model.fit(warm)
    give_back_memory()
    before = memory_now()
    model.fit(observations)
    above = peak_memory() - before
    n = observations.n_observed
    expected = memory.FitSize(observations.shape, n, K, method="max-sum", learns=False).n_bytes
    return {
        "bytes_each": above / (n * K),
        "expected_memory": expected / above,
        "peak_mb": peak_memory() / 2**20,
    }


def time_steps(backend, problem, state, seconds: float = 1.5) -> dict:
    """Times of at least 5 single iterations, for about `seconds`, in which nothing is skipped."""
    walls: list[float] = []
    cpus: list[float] = []
    backend.step(problem, state, 0.4)
    # The time of this thread does not include the threads of a pool.
    cpu_clock = time.thread_time if backend.pool is None else time.process_time
    while len(walls) < 5 or (sum(walls) < seconds and len(walls) < 200):
        for flags in state.messages.sums.converged_chunks:
            flags[:] = False
        start = time.perf_counter(), cpu_clock()
        backend.step(problem, state, 0.4)
        walls.append(time.perf_counter() - start[0])
        cpus.append(cpu_clock() - start[1])
    # On a busy machine, the processor time of one thread is more precise than the wall time.
    best = min(walls) if backend.pool is not None else min(*walls, *cpus)
    return {
        "best_s": best,
        "median_s": float(np.median(walls)),
        "cpu_s": min(cpus),
        "wall_s": min(walls),
        "repeats": len(walls),
    }


def time_triad(n: int, n_threads: int) -> float:
    """Nanoseconds per element of a[i] += s·b[i], the smallest of several times."""
    from numba import njit

    @njit(nogil=True)
    def triad(a, b, s):
        for i in range(a.shape[0]):
            a[i] += s * b[i]

    a, b = np.ones(n, np.float32), np.ones(n, np.float32)
    cuts = [slice(n * i // n_threads, n * (i + 1) // n_threads) for i in range(n_threads)]
    times: list[float] = []
    with ThreadPoolExecutor(n_threads) as pool:

        def once() -> float:
            start = time.perf_counter(), time.thread_time()
            if n_threads == 1:
                triad(a, b, np.float32(0.5))
                return min(time.perf_counter() - start[0], time.thread_time() - start[1])
            list(pool.map(lambda cut: triad(a[cut], b[cut], np.float32(0.5)), cuts))
            return time.perf_counter() - start[0]

        once()
        while len(times) < 5 or (sum(times) < 0.7 and len(times) < 500):
            times.append(once())
    return min(times) / n * 1e9


def run_planted(options: dict) -> dict:
    """Processor seconds and errors of whole fits with one thread: of the first, and of others."""
    import warnings

    from boolweave import BooleanMatrixFactorization

    warnings.filterwarnings("ignore")
    method = {} if options["call"] == "default" else {"method": options["call"]}
    with np.load(options["problem"]) as arrays:
        truth, seen = arrays["truth"], arrays["seen"]
    runs = []
    for seed in range(4):
        begun = time.process_time() if runs else 0.0  # the first one includes imports
        model = BooleanMatrixFactorization(RANK, n_jobs=1, random_state=seed, **method)
        product = model.inverse_transform(model.fit_transform(seen))
        seconds = time.process_time() - begun
        runs.append({"cpu_s": seconds, "error": float(np.mean(product != truth))})
    return {
        "first_s": runs[0]["cpu_s"],
        "again_s": float(np.median([run["cpu_s"] for run in runs[1:]])),
        "errors": [run["error"] for run in runs],
        "peak_mb": peak_memory() / 2**20,
    }


def run_first_fit(options: dict) -> dict:
    """Seconds of the first fit of a process, without imports."""
    import warnings

    from boolweave import BooleanMatrixFactorization

    warnings.filterwarnings("ignore")
    start = time.perf_counter(), time.process_time()
    model = BooleanMatrixFactorization(2, max_iter=100, random_state=0)
    model.fit(np.random.default_rng(0).integers(0, 2, (20, 20)))
    return {"wall_s": time.perf_counter() - start[0], "cpu_s": time.process_time() - start[1]}


RUNNERS = {"step": run_step, "planted": run_planted, "first_fit": run_first_fit}


def give_back_memory() -> None:
    """Return free memory to the system and reset the peak, which would affect the next figures."""
    import ctypes
    import gc

    gc.collect()
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass  # the peak is then that of the whole process


# ---------------------------------------------------------------- the parent


def in_child(runner: str, options: dict, cache: Path | None = None) -> dict:
    command = [sys.executable, __file__, "--child", runner, json.dumps(options)]
    return answer_of(command, environment={} if cache is None else {"NUMBA_CACHE_DIR": str(cache)})


def measure(arguments: argparse.Namespace) -> dict:
    from rich.console import Console

    console = Console(stderr=True)
    report = {"load_before": load_before(console)}
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "numba"
        if "first_fit" in arguments.only:
            console.print("first fit, with compilation …")
            report["first_fit"] = {
                state: in_child("first_fit", {}, cache) for state in ("empty_cache", "warm_cache")
            }
        if "steps" in arguments.only:
            report["steps"] = []
            for options in problems(arguments.huge):
                console.print(f"{options['label']} …")
                report["steps"].append(options | in_child("step", options, cache))
        if "planted" in arguments.only:
            report["planted"] = measure_planted(arguments, Path(folder), console)
    return report


def measure_planted(arguments: argparse.Namespace, folder: Path, console) -> dict[str, dict]:
    """Run boolweave and the other programs on the planted problem."""
    import peers
    import speed_peers

    random = np.random.default_rng(0)
    x, y = random.integers(0, 2, (1000, RANK)), random.integers(0, 2, (RANK, 1000))
    truth = (x @ y > 0).astype(np.uint8)
    seen = truth ^ (random.random(truth.shape) < FLIP)
    file = folder / "planted.npz"
    np.savez(file, truth=truth, seen=seen)
    out = {}
    for call, name in CALLS.items():
        console.print(f"planted: {name} …")
        options = {"problem": str(file), "call": call}
        in_child("planted", options)  # compiles kernels that are not in the cache yet
        out[name] = in_child("planted", options)
    if arguments.no_peers:
        return out
    console.print("planted: NIMFA …")
    failure = peers.make_nimfa_environment()
    out["NIMFA"] = {"failed": failure} if failure else peers.nimfa_bmf(seen, truth, RANK)
    for peer in speed_peers.PEERS:
        console.print(f"planted: {peer} …")
        out[peer] = speed_peers.run(peer, file, RANK, arguments.timeout)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--huge", action="store_true", help="also 10⁸ entries")
    parser.add_argument("--no-peers", action="store_true", help="run only boolweave")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="some of the parts")
    parser.add_argument("--timeout", type=float, default=600.0, help="limit for other programs")
    parser.add_argument("--output", type=Path, default=RESULTS, help="file for the results")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        runner, options = arguments.child
        print(json.dumps(RUNNERS[runner](json.loads(options))))
        return

    import speed_report

    report = measure(arguments)
    if arguments.output.exists():  # parts that were not measured now
        report = json.loads(arguments.output.read_text()) | report
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    print(*speed_report.lines(report), sep="\n")
    speed_report.draw(report, arguments.output.with_suffix(".png"))
    record(arguments.output, ("model", "engine", "fit", "estimator"), arguments.only)
    if any("failed" in step for step in report["steps"]):
        sys.exit("boolweave itself did not run; see above.")


if __name__ == "__main__":
    main()
