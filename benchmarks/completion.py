"""Prediction of held-out entries of real and planted tables by BooleanCompletion and other methods.

Every method is given a fraction of the known entries of each table and predicts the others:

- `movietweetings`: 100,000 ratings of films, where a rating above the mean is a one (read from the
  folder movietweetings of $BOOLWEAVE_DATA), at 1, 5, 10, 20, 50 and 95%;
- `senate-101` to `senate-107` and `votes84`, which ship with the package, at 5, 20 and 50%;
- `planted-500x400` (4 factors, a tenth of the entries flipped) at 20% and `planted-1000x1000` (5
  factors, a twentieth flipped) at 5%;
- `movielens`, if --movielens is given the folder of the user's copy, at the first six fractions.

The splits of a table are the same for all methods. Each fit runs in a process of its own, one at a
time, which is ended after --limit seconds. The settings of each method are in
`completion_methods.py`; other packages are installed from PyPI into .bench/completion-venv when
they are first used.

    BOOLWEAVE_DATA=... python benchmarks/completion.py
    BOOLWEAVE_DATA=... python benchmarks/completion.py --only senate votes84/0.05 --splits 1
    BOOLWEAVE_DATA=... python benchmarks/completion.py --methods BooleanCompletion --again

Results are stored one by one in results/completion.json, so that a run continues where the last one
stopped; stored results are measured again only with --again. All results are printed as a table and
drawn in results/completion.png; `scripts/completion_table.py` puts both into the documentation.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is imported

import numpy as np

import completion_peers
import completion_report
from boolweave import datasets, metrics
from boolweave.data.observations import Observations, Split
from processes import now, record

RESULTS = Path(__file__).resolve().parent / "results" / "completion.json"
MEASURES = ("completion", "fit", "engine", "baselines")

RATING_SHARES = (0.01, 0.05, 0.1, 0.2, 0.5, 0.95)
VOTE_SHARES = (0.05, 0.2, 0.5)


# ---------------------------------------------------------------- tables and splits


@dataclass(frozen=True)
class Table:
    """A table: its name, the fractions of its entries that are given, and how to load it.

    `load` returns the known entries, and for a planted table the matrix without flips, (M, N).
    """

    name: str
    shares: tuple[float, ...]
    load: Callable[[], tuple[Observations, np.ndarray | None]]


def tables(movielens: Path | None = None) -> dict[str, Table]:
    """All tables by name, without MovieTweetings unless $BOOLWEAVE_DATA is set."""
    found = []
    if "BOOLWEAVE_DATA" in os.environ:
        folder = Path(os.environ["BOOLWEAVE_DATA"]) / "movietweetings"
        found.append(Table("movietweetings", RATING_SHARES, lambda: ratings(folder)))
    if movielens is not None:
        found.append(Table("movielens", RATING_SHARES, lambda: ratings(movielens)))
    found += [
        Table(f"senate-{congress}", VOTE_SHARES, lambda congress=congress: senate(congress))
        for congress in range(101, 108)
    ]
    found += [
        Table("votes84", VOTE_SHARES, lambda: (datasets.load_votes84().observations, None)),
        Table("planted-500x400", (0.2,), lambda: planted(500, 400, 4, 0.1)),
        Table("planted-1000x1000", (0.05,), lambda: planted(1000, 1000, 5, 0.05)),
    ]
    return {table.name: table for table in found}


def ratings(folder: Path) -> tuple[Observations, None]:
    return datasets.load_movielens(folder).observations, None


def senate(congress: int) -> tuple[Observations, None]:
    return datasets.load_senate(congress).observations, None


def planted(n_rows: int, n_columns: int, K: int, flip: float) -> tuple[Observations, np.ndarray]:
    problem = datasets.make_boolean(n_rows, n_columns, K, flip=flip, random_state=0)
    return problem.observations, problem.Z


def split(observations: Observations, share: float, seed: int) -> Split:
    """Keep a fraction of the entries; also return rows, columns and values of the others, (n,)."""
    return observations.hide(1 - share, random_state=seed)


@dataclass(frozen=True)
class Cell:
    """A table, and the fraction of its entries that is given."""

    table: Table
    share: float


def chosen(every: dict[str, Table], only: list[str] | None) -> list[Cell]:
    """The cells selected by table, table/fraction or kind of table; by default, all of them."""
    cells = [Cell(table, share) for table in every.values() for share in table.shares]
    if only is None:
        return cells
    names = {
        cell: {name, f"{name}/{cell.share:g}", name.partition("-")[0]}
        for cell in cells
        for name in [cell.table.name]
    }
    unknown = set(only) - set().union(*names.values())
    if unknown:
        raise SystemExit(
            f"--only: no table or share is named {', '.join(sorted(unknown))}; there are "
            f"{', '.join(every)}, and shares such as {cells[0].table.name}/{cells[0].share:g}"
        )
    return [cell for cell in cells if names[cell] & set(only)]


# ---------------------------------------------------------------- one result


def figures(values: np.ndarray, p: np.ndarray, decisions: np.ndarray) -> dict:
    """The measures of predictions, with their standard errors over the entries."""
    clipped = np.clip(p, metrics.PROBABILITY_FLOOR, 1 - metrics.PROBABILITY_FLOOR)
    losses = -np.where(values, np.log(clipped), np.log1p(-clipped))
    area = metrics.roc_auc(values, p)
    right = decisions == (values > 0)
    return {
        "accuracy": float(right.mean()), "log_loss": metrics.log_loss(values, p), "auc": area,
        "ece": metrics.expected_calibration_error(values, p),
        "accuracy_error": float(right.std() / np.sqrt(len(p))),
        "log_loss_error": float(losses.std() / np.sqrt(len(p))),
        "auc_error": area_error(area, int(values.sum()), int((values == 0).sum())),
    } | calibration(values, clipped)  # fmt: skip


def calibration(values: np.ndarray, p: np.ndarray) -> dict:
    """What remains of the calibration error if the held-out entries themselves correct it.

    - `ece_shifted`: with the best intercept of the log-odds;
    - `ece_stretched`: with the best intercept and slope;
    - `ece_by_chance`: of probabilities that are exactly right, for as many entries (mean of 100).
    """
    odds = np.log(p) - np.log1p(-p)
    error = metrics.expected_calibration_error
    random = np.random.default_rng(0)
    by_chance = [error(random.random(len(p)) < p, p) for _ in range(100)]
    return {
        "ece_shifted": error(values, refitted(values, np.ones((len(p), 1)), odds)),
        "ece_stretched": error(values, refitted(values, np.column_stack([np.ones(len(p)), odds]))),
        "ece_by_chance": float(np.mean(by_chance)),
    }


def refitted(values: np.ndarray, x: np.ndarray, offset: np.ndarray | float = 0.0) -> np.ndarray:
    """Probabilities of a logistic regression on x (n, F) beside a fixed offset, on its own data."""
    from scipy.optimize import minimize
    from scipy.special import expit

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        v = offset + x @ w
        gradient = x.T @ (expit(v) - values)
        return np.mean(np.logaddexp(0, v) - values * v), gradient / len(values)

    start = np.arange(x.shape[1], dtype=float)  # intercept 0, slope 1
    return expit(offset + x @ minimize(loss, start, jac=True, method="BFGS").x)


def area_error(area: float, n_ones: int, n_zeros: int) -> float:
    """Standard error of an area under the ROC curve (Hanley and McNeil 1982)."""
    of_ones = area / (2 - area) - area**2
    of_zeros = 2 * area**2 / (1 + area) - area**2
    variance = area * (1 - area) + (n_ones - 1) * of_ones + (n_zeros - 1) * of_zeros
    return float(np.sqrt(variance / (n_ones * n_zeros)))


def measure(
    method: str, parts: Split, truth: np.ndarray | None, seed: int, arguments: argparse.Namespace
) -> dict:
    """Run one method on one split; return its figures, or the reason why it is `left_out`."""
    kept, rows, columns, values = parts
    with tempfile.TemporaryDirectory() as folder:
        problem = Path(folder) / "problem.npz"
        np.savez(
            problem, shape=kept.shape, rows=kept.rows_of_entries(), columns=kept.indices,
            values=kept.values, test_rows=rows, test_columns=columns,
        )  # fmt: skip
        answer = completion_peers.run(method, problem, seed, arguments.limit, arguments.threads)
    if "left_out" in answer:
        return answer
    p, decisions = answer.pop("probabilities"), answer.pop("decisions")
    answer |= figures(values, np.clip(p, 0, 1), decisions)
    if truth is not None:
        answer["from_truth"] = float(np.mean(decisions != (truth[rows, columns] > 0)))
    return answer


# ---------------------------------------------------------------- all results


def wanted(
    cells: list[Cell], arguments: argparse.Namespace, stored: dict[tuple, dict]
) -> Iterator[tuple[Cell, int, list[str]]]:
    """The cells and splits, with the methods that have not been measured on them."""
    for seed in range(arguments.first_split, arguments.first_split + arguments.splits):
        for cell in cells:
            keys = {m: (cell.table.name, cell.share, seed, m) for m in arguments.methods}
            missing = [
                method
                for method, key in keys.items()
                if arguments.again or not is_done(stored.get(key), arguments.limit)
            ]
            if missing:
                yield cell, seed, missing


def is_done(result: dict | None, limit: float) -> bool:
    """Whether there is an answer, or none within the time limit; failures are tried again."""
    return result is not None and ("left_out" not in result or result.get("limit", -1) >= limit)


def key(result: dict) -> tuple:
    return result["data"], result["share"], result["split"], result["method"]


def read(file: Path) -> dict[tuple, dict]:
    """Stored results by table, share, split and method."""
    if not file.exists():
        return {}
    return {key(result): result for result in json.loads(file.read_text())["results"]}


def store(file: Path, stored: dict[tuple, dict], arguments: argparse.Namespace) -> None:
    """Write all results to a new file, and rename it, so that readers find a complete file."""
    every = list(tables(arguments.movielens)) + sorted({name for name, *_ in stored})
    methods = list(completion_peers.METHODS)
    order = sorted(stored, key=lambda k: (every.index(k[0]), *k[1:3], methods.index(k[3])))
    before = json.loads(file.read_text()).get("versions", {}) if file.exists() else {}
    report = {
        "limit": arguments.limit,
        "versions": before | {"numpy": np.__version__} | completion_peers.versions(),
        "results": [stored[k] for k in order],
    }
    beside = file.with_suffix(".part")
    beside.write_text(json.dumps(report, indent=1) + "\n")
    beside.replace(file)
    options = [option for option in sys.argv[1:] if option != "--again"]
    whole = arguments.again and not options
    record(file, MEASURES, () if whole else [" ".join(options) or "cells that were missing"])


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="tables, or tables/fraction")
    parser.add_argument(
        "--methods", nargs="+", metavar="METHOD", default=list(completion_peers.METHODS),
        help=f"some of: {', '.join(completion_peers.METHODS)}",
    )  # fmt: skip
    parser.add_argument("--splits", type=int, default=3, help="number of splits of each cell")
    parser.add_argument("--first-split", type=int, default=0, help="number of the first split")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--limit", type=float, default=300, help="time limit of a fit in seconds")
    parser.add_argument("--again", action="store_true", help="measure stored results again")
    parser.add_argument("--movielens", type=Path, metavar="FOLDER", help="your copy of a data set")
    parser.add_argument("--output", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    unknown = set(arguments.methods) - set(completion_peers.METHODS)
    if unknown:
        parser.error(
            f"--methods: there is no {', '.join(sorted(unknown))}; there are "
            f"{', '.join(completion_peers.METHODS)}"
        )
    return arguments


def main() -> None:
    arguments = parse()
    every = tables(arguments.movielens)
    if "movietweetings" not in every:
        print("MovieTweetings is left out: BOOLWEAVE_DATA does not name the folder that holds it")
    cells = chosen(every, arguments.only)
    stored = read(arguments.output)
    for cell, seed, methods in wanted(cells, arguments, stored):
        observations, truth = cell.table.load()
        parts = split(observations, cell.share, seed)
        place = {
            "data": cell.table.name, "share": cell.share, "split": seed,
            "n_train": parts[0].n_observed, "n_test": len(parts[3]),
        }  # fmt: skip
        for method in methods:
            found = measure(method, parts, truth, seed, arguments)
            result = place | {"method": method, "threads": arguments.threads} | found
            result["measured"] = now()
            stored[key(result)] = result
            store(arguments.output, stored, arguments)
            print(completion_report.line(result), flush=True)
    results = list(stored.values())
    print(*completion_report.text(results), sep="\n")
    completion_report.draw(results, arguments.output.with_suffix(".png"))


if __name__ == "__main__":
    main()
