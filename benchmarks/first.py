"""Comparison of boolweave with NIMFA and a plain NumPy version, on a planted 1000 x 1000 matrix.

The planted factors are uniform (each entry of X and Y is 1 with probability 1/2); 10% and then 30%
of the entries of their Boolean product are flipped. Every program gets the same matrix and runs in
a process of its own, so that its peak memory can be measured. The figures are

- the time of one run, without imports and compilation (the median if there are several runs);
- the error: the fraction of entries that differ from the product before flipping;
- the peak memory of the process, and the part of it in addition to imports and data;
- each of these relative to NIMFA with its own stopping rule.

boolweave tries several random starts and keeps the one with the highest log-posterior, without
using the truth. NIMFA starts from NNDSVD, which is not random; its two factors are binarised at the
pair of thresholds that is best *compared with the truth*, which is not possible for a user. NIMFA
stops as soon as its objective rises; a line "to T" is a run with all T iterations.

NIMFA needs NumPy 1, so it has an environment of its own in .bench/, which is created on first use.

    python benchmarks/first.py            # the NumPy version does 10 iterations, scaled to 200
    python benchmarks/first.py --full     # the NumPy version does all 200
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import processes
from peers import NIMFA_PYTHON, best_binarised_error, make_nimfa_environment, nimfa_settings
from processes import answer_of, load_before, machine, memory_now, peak_memory

RESULTS = processes.RESULTS / "first.json"

NIMFA = "NIMFA Bmf"
RANK = 5
ITERATIONS = 200
REFERENCE_ITERATIONS = 10  # without --full


# ---- the problem


def draw_problem(size: int, flip: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the product of two uniform factors, and the same with entries flipped; both uint8."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2, (size, RANK))
    y = rng.integers(0, 2, (RANK, size))
    truth = (x @ y > 0).astype(np.uint8)
    flipped = (rng.random(truth.shape) < flip).astype(np.uint8)
    return truth, truth ^ flipped


# ---- contenders: each runs in a child process and returns a dict


def run_boolweave(problem: Path, flip: float, options: dict) -> dict:
    import warnings

    from boolweave import BooleanMatrixFactorization

    warnings.filterwarnings("ignore")  # with tol=0, the run does not converge, as intended

    def fit(
        matrix: np.ndarray, seed: int
    ) -> tuple[Seconds, np.ndarray, BooleanMatrixFactorization]:
        model = BooleanMatrixFactorization(
            n_components=RANK,
            method="max-sum",
            n_init=1,
            max_iter=ITERATIONS,
            random_state=seed,
            n_jobs=options["n_jobs"],
            **({} if options["tol"] is None else {"tol": options["tol"]}),
        )
        start = Clock()
        factors = (model.fit(matrix).row_log_odds_ > 0).astype(np.uint8)
        return start.elapsed(), factors, model

    truth, seen = load(problem)
    first_call, _, _ = fit(seen[:20, :20], seed=0)
    if options.get("only_first_call"):
        return {"first_call_s": first_call[0]}

    before = memory_now()
    times, iterations, best = [], [], (-np.inf, 1.0)
    for seed in range(options["starts"]):
        seconds, factors, model = fit(seen, seed)
        times.append(seconds)
        iterations.append(int(model.n_iter_))
        error = float(np.mean(model.inverse_transform(factors) != truth))
        best = max(best, (float(model.log_posterior_), error))
    return summary(times, iterations, best[1], before)


def run_nimfa(problem: Path, flip: float, options: dict) -> dict:
    import nimfa

    truth, seen = load(problem)
    matrix = seen.astype(float)
    settings = nimfa_settings(RANK, ITERATIONS, options["all_iterations"])
    before = memory_now()
    times = []
    for _ in range(options["starts"]):
        bmf = nimfa.Bmf(matrix, **settings)
        start = Clock()
        fitted = bmf()
        times.append(start.elapsed())
    peak = peak_memory() / 2**20  # before the search for thresholds, which is not part of NIMFA
    w, h = np.asarray(fitted.basis()), np.asarray(fitted.coef())

    result = summary(times, [int(fitted.fit.n_iter)], best_binarised_error(w, h, truth), before)
    real = w @ h
    real_product = min(float(np.mean((real > t) != truth)) for t in np.linspace(0, 1, 101))
    return result | {"peak_mb": peak, "error_of_real_product": real_product}


def run_reference(problem: Path, flip: float, options: dict) -> dict:
    sys.path.insert(0, str(processes.ROOT / "tests" / "support"))
    from reference import max_sum_reference

    truth, seen = load(problem)
    rows, columns = seen.shape
    before = memory_now()
    start = Clock()
    evidence = np.where(seen == 1, 1.0, -1.0) * np.log((1 - flip) / flip)
    uniform = np.zeros((rows, RANK)), np.zeros((RANK, columns))
    to_row, to_column = np.random.default_rng(0).logistic(size=(2, rows, columns, RANK))
    n_iter = options["iterations"]
    for messages in max_sum_reference(evidence, *uniform, to_row, to_column, n_iter=n_iter):
        beliefs = messages.row_belief, messages.column_belief
    wall, cpu = start.elapsed()
    scale = ITERATIONS / n_iter

    error = None  # it is measured only after all iterations
    if n_iter == ITERATIONS:
        x, y = ((belief > 0).astype(np.float32) for belief in beliefs)
        error = float(np.mean((x @ y > 0) != truth))
    result = summary([(wall * scale, cpu * scale)], [n_iter], error, before)
    return result | {"scaled_from": None if n_iter == ITERATIONS else n_iter}


RUNNERS = {"boolweave": run_boolweave, "nimfa": run_nimfa, "reference": run_reference}


def load(problem: Path) -> tuple[np.ndarray, np.ndarray]:
    with np.load(problem) as arrays:
        return arrays["truth"], arrays["seen"]


Seconds = tuple[float, float]  # wall time, and processor time of all cores


class Clock:
    def __init__(self) -> None:
        self.start = time.perf_counter(), time.process_time()

    def elapsed(self) -> Seconds:
        return time.perf_counter() - self.start[0], time.process_time() - self.start[1]


def summary(times: list[Seconds], iterations: list[int], error: float | None, before: int) -> dict:
    wall, cpu = zip(*times, strict=True)
    return {
        "time_s": float(np.median(wall)),
        "times_s": wall,
        "cpu_s": float(np.median(cpu)),
        "iterations": iterations,
        "error": error,
        "peak_mb": peak_memory() / 2**20,
        "start_mb": before / 2**20,
    }


# ---- the parent


def in_child(python: Path | str, runner: str, problem: Path, flip: float, options: dict) -> dict:
    """Run one contender in a process of its own; a failure is returned, not raised."""
    command = [str(python), __file__, "--child", runner, str(problem), str(flip)]
    cache = {"NUMBA_CACHE_DIR": str(problem.parent / "numba")}
    return answer_of([*command, json.dumps(options)], environment=cache)


def contenders(starts: int, full: bool) -> list[tuple[str, Path | str, str, dict]]:
    """List (label, interpreter, runner, options) in the order of the table."""
    rows: list[tuple[str, Path | str, str, dict]] = []
    for all_iterations in (False, True):
        label = f"{NIMFA}, to T" if all_iterations else NIMFA
        options = {"starts": starts, "all_iterations": all_iterations}
        rows.append((label, NIMFA_PYTHON, "nimfa", options))
    for n_jobs in (1, 2):
        for tol, text in ((0.0, ", to T"), (None, "")):
            label = f"boolweave, {n_jobs} thread{'s' if n_jobs > 1 else ''}{text}"
            options = {"n_jobs": n_jobs, "tol": tol, "starts": starts}
            rows.append((label, sys.executable, "boolweave", options))
    iterations = ITERATIONS if full else REFERENCE_ITERATIONS
    rows.append(("NumPy reference", sys.executable, "reference", {"iterations": iterations}))
    return rows


def ratios(result: dict, base: dict) -> dict:
    """Divide NIMFA's figures by the contender's: above 1, the contender is better."""
    out = {}
    for name in ("time_s", "error", "peak_mb"):
        ours, theirs = result.get(name), base.get(name)
        if ours is not None and theirs is not None:
            out[name] = theirs / ours if ours > 0 else None
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="all iterations of the NumPy version")
    parser.add_argument("--size", type=int, default=1000, help="rows and columns (1000)")
    parser.add_argument("--starts", type=int, default=3, help="runs of each contender (3)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the planted problem (0)")
    parser.add_argument("--output", type=Path, default=RESULTS, help="file for the results")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()

    if arguments.child:
        runner, problem, flip, options = arguments.child
        print(json.dumps(RUNNERS[runner](Path(problem), float(flip), json.loads(options))))
        return
    measure(arguments)


def measure(arguments: argparse.Namespace) -> None:
    from rich.console import Console

    console = Console(stderr=True)
    no_nimfa = make_nimfa_environment()
    if no_nimfa:
        console.print(f"[yellow]{no_nimfa}; its line and the ratios stay empty.")

    load = load_before(console)
    results = []
    first_call = {}
    with tempfile.TemporaryDirectory() as folder:
        for flip in (0.1, 0.3):
            truth, seen = draw_problem(arguments.size, flip, arguments.seed)
            problem = Path(folder) / f"flip-{flip}.npz"
            np.savez(problem, truth=truth, seen=seen)
            if not first_call:  # the first call fills a new compile cache
                probe = {"n_jobs": 1, "tol": None, "starts": 0, "only_first_call": True}
                for state in ("empty_cache", "warm_cache"):
                    answer = in_child(sys.executable, "boolweave", problem, flip, probe)
                    first_call[state] = answer.get("first_call_s")
            for label, python, runner, options in contenders(arguments.starts, arguments.full):
                console.print(f"flips {flip:.0%}: {label} …")
                result = in_child(python, runner, problem, flip, options)
                if "failed" in result:
                    console.print(f"[yellow]  did not run: {result['failed']}", highlight=False)
                results.append({"contender": label, "flip": flip} | result)

    for result in results:
        base = next(r for r in results if r["flip"] == result["flip"] and r["contender"] == NIMFA)
        result["nimfa_divided_by_this"] = ratios(result, base)

    report = {
        "problem": {"rows": arguments.size, "columns": arguments.size, "rank": RANK,
                    "density": 0.5, "seed": arguments.seed, "iterations": ITERATIONS},
        "machine": {"python": platform.python_version(), **machine(), "load_before": load},
        "first_call_s": first_call,
        "results": results,
    }  # fmt: skip
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(report, indent=2) + "\n")
    print_table(report)
    if any("failed" in r for r in results if r["contender"].startswith("boolweave")):
        sys.exit("boolweave itself did not run; see above.")


def print_table(report: dict) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title="{rows} × {columns}, K = {rank}, T = {iterations}".format(**report["problem"])
    )
    table.add_column("contender")
    for name in ("flips", "time s", "CPU s", "iterations", "error", "peak MB", "in the run"):
        table.add_column(name, justify="right")
    for name in ("faster ×", "less error ×", "less memory ×"):
        table.add_column(name, justify="right")

    def show(value: float | None, form: str) -> str:
        return "–" if value is None else format(value, form)

    for result in report["results"]:
        ratio = result["nimfa_divided_by_this"]
        mark = "*" if result.get("scaled_from") else ""
        table.add_row(
            result["contender"],
            f"{result['flip']:.0%}",
            show(result.get("time_s"), ".2f") + mark,
            show(result.get("cpu_s"), ".2f") + mark,
            ", ".join(map(str, result.get("iterations", []))),
            show(result.get("error"), ".4f"),
            show(result.get("peak_mb"), ".0f"),
            show(result["peak_mb"] - result["start_mb"] if "peak_mb" in result else None, ".0f"),
            show(ratio.get("time_s"), ".3g") + mark,
            "∞" if result.get("error") == 0 else show(ratio.get("error"), ".3g"),
            show(ratio.get("peak_mb"), ".3g"),
            end_section=result["contender"] == "NumPy reference",
        )
    console = Console(width=max(150, Console().width) if not sys.stdout.isatty() else None)
    console.print(table)
    console.print("× are relative to NIMFA as it stops by itself: above 1 is better than NIMFA.")
    for result in report["results"]:
        if result["contender"] == NIMFA and "error_of_real_product" in result:
            console.print(
                f"NIMFA at {result['flip']:.0%} flips, its real-valued product cut at the best "
                f"threshold (no Boolean factors then): error {result['error_of_real_product']:.4f}"
            )
    if any(result.get("scaled_from") for result in report["results"]):
        scaled = f"measured over {REFERENCE_ITERATIONS} iterations and scaled to {ITERATIONS}"
        console.print(f"* {scaled}; --full runs them all.")
    calls = report["first_call_s"]
    console.print(
        f"First call of boolweave: {show(calls.get('empty_cache'), '.2f')} s with compilation, "
        f"{show(calls.get('warm_cache'), '.2f')} s from the compile cache; not in the times above."
    )


if __name__ == "__main__":
    main()
