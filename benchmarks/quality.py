"""Quality of the answers to planted problems: the paper's max-sum and the default fit.

For every problem and seed, a matrix is planted (`boolweave.datasets.make_boolean`) and fitted
twice:

- paper: one max-sum run of T = 200 iterations (`method="max-sum"`, `tol=0`) with its best iterate;
- ours: `BooleanMatrixFactorization(n_components=K, random_state=seed)`, with other defaults.

The error is the fraction of all entries, observed or not, that differ from the planted product:
for `predict`, which uses the marginals, and for `inverse_transform(fit_transform(X))`, the Boolean
product of decoded factors. The cost is the CPU time of the default fit, divided by that of the
max-sum run on the same matrix in the same process. A run with integer messages may end before
T = 200, because messages stop changing; its time is then scaled to 200 iterations. Another column
has the same run with messages of 32-bit floats. For XOR, the max-sum run uses the starts of the
library (a basis of row patterns), because it fails from random messages.

One line for each problem and seed is kept in results/quality.jsonl, so that a run continues where
the last one stopped; results/quality.json holds the table. Lines of another version of the library
must not be used: start with --fresh after a change.

    python benchmarks/quality.py                     # 10 seeds, 50 for some problems
    python benchmarks/quality.py --quick             # 3 and 6 seeds
    python benchmarks/quality.py --only rank --jobs 2
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from sklearn.base import clone

from boolweave import BooleanMatrixFactorization
from boolweave.datasets import Planted, make_boolean
from boolweave.metrics import information_bound
from processes import record

RESULTS = Path(__file__).resolve().parent / "results"

STUCK = 0.01  # a larger error than this means that a fit failed, if others reach nearly 0
HALF = {"row_density": 0.5, "column_density": 0.5}


# ---------------------------------------------------------------- the problems


@dataclass(frozen=True)
class Problem:
    """A row of the table: how the matrix is planted, what is measured, and the target."""

    label: str
    size: int
    n_components: int
    ask: float
    asked: str  # the target in words
    options: dict = field(default_factory=dict)  # a function is called with the seed
    measure: str = "error"  # the figure that is compared with the target
    summary: Callable = np.mean
    seeds: int = 10
    find_rank: bool = False

    def rank(self, seed: int) -> int:
        return 2 + seed % 14 if self.find_rank else self.n_components

    def plant(self, seed: int) -> Planted:
        options = {k: v(seed) if callable(v) else v for k, v in self.options.items()}
        return make_boolean(self.size, self.size, self.rank(seed), random_state=seed, **options)


def bound(times: float, n_components: int) -> int:
    return int(times * information_bound(1000, 1000, n_components))


def between(low: float, high: float, n: int) -> Callable[[int], float]:
    """Flip probabilities from low to high, a different one for each of n seeds."""
    return lambda seed: low + (high - low) * (seed * 7 % n) / (n - 1)


def at_most_one_percent(errors: list[float]) -> float:
    return float(np.mean(np.array(errors) <= 0.01))


PROBLEMS = {
    "k10": Problem(
        "completion 1000², K=10, 2 × bound", 1000, 10, 0.0088, "≤ .0088",
        {"observed": bound(2, 10)},
    ),
    "k20": Problem(
        "completion 1000², K=20, 2 × bound", 1000, 20, 0.0021, "≤ .0021",
        {"observed": bound(2, 20)},
    ),
    "k5": Problem(
        "completion 1000², K=5, 1.25 × bound", 1000, 5, 0.09, "≤ .09",
        {"observed": bound(1.25, 5)},
    ),
    "f200": Problem(
        "factorization 200², K=5, 30% flips, ½", 200, 5, 0.033, "≤ .033", {"flip": 0.3, **HALF}
    ),
    "f100-20": Problem(
        "factorization 100², K=7, 20% flips", 100, 7, 0.0155, "≤ .0155", {"flip": 0.2}
    ),
    "f100-30": Problem(
        "factorization 100², K=7, 30% flips", 100, 7, 0.18, "≤ .18", {"flip": 0.3}
    ),
    "stuck": Problem(
        "stuck: 300², K=5, flips 2-20%", 300, 5, 0.02, "≤ 1 in 50",
        {"flip": between(0.02, 0.20, 50)},
        measure="stuck", seeds=50,
    ),
    "c300": Problem(
        "completion 300², K=5, 20% seen, 10% flips", 300, 5, 0.0053, "≤ .0053",
        {"observed": 0.2, "flip": 0.1},
    ),
    "rank": Problem(
        "rank found: 500², K=2-15, flips ≤ 10%", 500, 0, 0.9, "≥ 45 of 50",
        {"flip": between(0.0, 0.10, 50)},
        measure="rank_found", seeds=50, find_rank=True,
    ),
    "flips": Problem(
        "learned flips: 1000², K=5, flips 5-30%", 1000, 5, 0.10, "≤ 10% off, all",
        {"flip": between(0.05, 0.30, 10)},
        measure="flip_off_by", summary=np.max,
    ),
    "xor2": Problem(
        "XOR completion 300², K=2, 20% seen, ½", 300, 2, 0.01, "≤ .01",
        {"observed": 0.2, "product": "xor"},
    ),
    "xor3": Problem(
        "XOR factorization 300², K=3, 5% flips, ½", 300, 3, 0.8, "≤ .01 in 8 of 10",
        {"flip": 0.05, "product": "xor"},
        summary=at_most_one_percent,
    ),
    "xor4": Problem(
        "XOR factorization 300², K=4, 5% flips, ½", 300, 4, 0.8, "≤ .01 in 8 of 10",
        {"flip": 0.05, "product": "xor"},
        summary=at_most_one_percent,
    ),
}  # fmt: skip

AT_LEAST = {"rank", "xor3", "xor4"}  # problems whose targets are minima; the others are maxima


# ---------------------------------------------------------------- one line


def measure(name: str, seed: int) -> dict:
    """Fit one planted matrix in both ways."""
    warnings.simplefilter("ignore")
    problem = PROBLEMS[name]
    planted = problem.plant(seed)
    product = problem.options.get("product", "or")
    rank = problem.rank(seed)
    line: dict = {"problem": name, "seed": seed}
    rows, columns = (index.ravel() for index in np.indices(planted.Z.shape))

    def error(model: BooleanMatrixFactorization) -> float:
        return float(np.mean(model.predict(rows, columns) != planted.Z.ravel()))

    if not problem.find_rank:
        paper = BooleanMatrixFactorization(
            rank, product=product, method="max-sum", tol=0, random_state=seed
        )
        line["paper_cpu_s"] = seconds_of_all_iterations(paper, planted)
        line["paper_error"] = error(paper)
        paper.set_params(messages="float32")
        line["float_cpu_s"] = seconds_of_all_iterations(paper, planted)
        line["paper_stuck"] = float(line["paper_error"] > STUCK)
    ours = BooleanMatrixFactorization(
        "auto" if problem.find_rank else rank, product=product, random_state=seed
    )
    line["cpu_s"] = seconds_of(ours.fit, planted.observations)
    line["n_iter"] = int(ours.n_iter_)
    line["error"] = error(ours)
    line["stuck"] = float(line["error"] > STUCK)
    factors = ours.result_.fold_in().transform(
        ours.observations_, ours.row_prior_
    )  # as fit_transform does
    line["product_error"] = float(np.mean(ours.inverse_transform(factors) != planted.Z))
    line["rank"], line["true_rank"] = len(ours.components_), rank
    line["rank_found"] = float(line["rank"] == rank)
    flip = problem.options.get("flip", 0.0)
    flip = flip(seed) if callable(flip) else flip
    learned = (float(ours.noise_.one_given_zero), 1 - float(ours.noise_.one_given_one))
    line["flip"], line["learned_flips"] = flip, learned
    if flip:
        line["flip_off_by"] = max(abs(p - flip) / flip for p in learned)
    return line


def seconds_of_all_iterations(model: BooleanMatrixFactorization, planted: Planted) -> float:
    """CPU time of a fit, scaled to max_iter iterations; leaves the model fitted."""
    first = seconds_of(clone(model).set_params(max_iter=1).fit, planted.observations)
    seconds = seconds_of(model.fit, planted.observations)
    if model.n_iter_ < 2:
        return seconds
    each = max(0.0, seconds - first) / (model.n_iter_ - 1)
    return seconds + each * (model.max_iter - model.n_iter_)


def seconds_of(function: Callable, *arguments: object) -> float:
    begin = time.process_time()
    function(*arguments)
    return time.process_time() - begin


def warm_up() -> None:
    """Compile all kernels before the fits that are measured."""
    warnings.simplefilter("ignore")
    for product in ("or", "xor"):
        seen = make_boolean(20, 20, 2, product=product, flip=0.1, random_state=0).observations
        for method in ("auto", "max-sum"):
            BooleanMatrixFactorization(2, product=product, method=method).fit_transform(seen)


# ---------------------------------------------------------------- all lines, and the table


def summarize(name: str, lines: list[dict]) -> dict:
    problem = PROBLEMS[name]
    value = float(problem.summary([line[problem.measure] for line in lines]))
    reached = value >= problem.ask if name in AT_LEAST else value <= problem.ask
    row = {
        "problem": problem.label,
        "name": name,
        "seeds": len(lines),
        "of": problem.seeds,
        "measured": value,
        "ask": problem.asked,
        "reached": bool(reached),
        "error": float(np.mean([line["error"] for line in lines])),
        "error_standard_error": float(
            np.std([line["error"] for line in lines]) / max(1, len(lines) - 1) ** 0.5
        ),
        "product_error": float(np.mean([line["product_error"] for line in lines])),
        "worst_error": float(np.max([line["error"] for line in lines])),
        "cpu_s": float(np.mean([line["cpu_s"] for line in lines])),
    }
    if not problem.find_rank:
        row["paper_error"] = float(np.mean([line["paper_error"] for line in lines]))
        row["paper_stuck"] = float(np.mean([line["paper_stuck"] for line in lines]))
        paper = sum(line["paper_cpu_s"] for line in lines)
        row["cost_ratio"] = sum(line["cpu_s"] for line in lines) / paper
        row["worst_cost_ratio"] = max(line["cpu_s"] / line["paper_cpu_s"] for line in lines)
        row["cost_ratio_to_floats"] = sum(line["cpu_s"] for line in lines) / sum(
            line["float_cpu_s"] for line in lines
        )
    return row


def print_table(rows: list[dict]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="planted problems: error over all entries, mean over the seeds")
    table.add_column("problem")
    for name in ("seeds", "max-sum", "ours", "± s.e.", "product", "measured", "ask", "reached",
                 "cost ×", "worst ×", "floats ×"):  # fmt: skip
        table.add_column(name, justify="right")

    def show(value: float | None, form: str = ".4f") -> str:
        return "–" if value is None else format(value, form)

    for row in rows:
        table.add_row(
            row["problem"], f"{row['seeds']}/{row['of']}",
            show(row.get("paper_error")), show(row["error"]), show(row["error_standard_error"]),
            show(row["product_error"]), show(row["measured"]), row["ask"],
            "yes" if row["reached"] else "NO",
            show(row.get("cost_ratio"), ".1f"), show(row.get("worst_cost_ratio"), ".1f"),
            show(row.get("cost_ratio_to_floats"), ".1f"),
        )  # fmt: skip
    console = Console()
    Console(width=max(160, console.width) if not console.is_terminal else None).print(table)


def read_lines(path: Path) -> dict[tuple[str, int], dict]:
    if not path.exists():
        return {}
    lines = [json.loads(text) for text in path.read_text().splitlines() if text]
    return {(line["problem"], line["seed"]): line for line in lines}


def joined(stored: Path, rows: list[dict]) -> list[dict]:
    """The rows, and those of other problems that are stored, in the order of `PROBLEMS`."""
    by_name = {}
    if stored.exists():
        by_name = {row["name"]: row for row in json.loads(stored.read_text())["rows"]}
    by_name |= {row["name"]: row for row in rows}
    return [by_name[name] for name in PROBLEMS if name in by_name]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer seeds: 3, or 6 instead of 50")
    parser.add_argument("--only", action="append", choices=list(PROBLEMS), help="only this one")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--fresh", action="store_true", help="ignore earlier results")
    parser.add_argument("--lines", type=Path, default=RESULTS / "quality.jsonl")
    parser.add_argument("--output", type=Path, default=RESULTS / "quality.json")
    arguments = parser.parse_args()
    arguments.lines.parent.mkdir(parents=True, exist_ok=True)
    if arguments.fresh:
        arguments.lines.unlink(missing_ok=True)
    done = read_lines(arguments.lines)
    wanted = []
    for name in arguments.only or PROBLEMS:
        n = PROBLEMS[name].seeds
        wanted += [(name, seed) for seed in range((6 if n > 10 else 3) if arguments.quick else n)]
    missing = [key for key in wanted if key not in done]

    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with ProcessPoolExecutor(arguments.jobs, initializer=warm_up) as pool:
        futures = [pool.submit(measure, *key) for key in missing]
        for i, future in enumerate(as_completed(futures), 1):
            line = future.result()
            done[line["problem"], line["seed"]] = line
            with arguments.lines.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(
                f"{i}/{len(missing)} {line['problem']} seed {line['seed']}: "
                f"error {line['error']:.4f}, {line['cpu_s']:.1f} s",
                flush=True,
            )
    rows = []
    for name in arguments.only or PROBLEMS:
        lines = [done[key] for key in wanted if key[0] == name]
        rows.append(summarize(name, lines))
    arguments.output.write_text(
        json.dumps({"cores": os.cpu_count(), "rows": joined(arguments.output, rows)}, indent=2)
        + "\n"
    )
    record(arguments.output, ("model", "engine", "fit", "estimator"), arguments.only or ())
    print_table(rows)


if __name__ == "__main__":
    main()
