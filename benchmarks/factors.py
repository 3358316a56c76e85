"""Wrong entries of K factors on real tables, compared with the best published numbers.

Three collections are read from folders in $BOOLWEAVE_DATA, and a fourth is planted:

- `fewest-errors`: four tables of the integer-programming literature at K = 2, 5 and 10, and the
  fewest wrong entries known (Kovács, Günlük and Hauser 2021, and later records);
- `one-hot`: ten tables with one column for each category at three ranks each, and the wrong
  entries of eleven methods (Avellaneda and Villemaire 2022);
- `fimi`: mushroom at K = 25, for which there is no published number; Asso is used instead;
- `planted`: matrices of `quality.py` that can be recovered exactly; the planted factors are used
  instead of a published number.

Ours is `factorize` with its default settings and the time limit --seconds. The same run has Asso
with its best threshold and GreConD (both from `boolweave.baselines`), and FPMsBMF if it is
installed (`pip install FPMsBMF`). Missing entries do not count. One fit runs at a time.

    BOOLWEAVE_DATA=... python benchmarks/factors.py
    BOOLWEAVE_DATA=... python benchmarks/factors.py --only zoo one-hot/iris --seconds 2 --seeds 3
    BOOLWEAVE_DATA=... python benchmarks/factors.py --peers kept    # earlier results of others

Tables of `fewest-errors` are files NAME.txt of numbers separated by blanks, with "nan" for missing
entries; those of `one-hot` are files NAME.csv without a header, in which empty cells are missing;
mushroom.dat has a line of item numbers for each row. The published numbers are in best_known.csv
(table, K, best_known, proven_optimal, and a column for each method) and published.csv (table, K,
and the same columns).

The results are written to results/factors.json and results/factors.png, with --only to the file
given by --output; `scripts/factors_table.py` puts them into the documentation.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is imported

import numpy as np

import boolweave
import factors_peers
import factors_report
from processes import now, record
from quality import PROBLEMS

RESULTS = Path(__file__).resolve().parent / "results" / "factors.json"
MEASURES = ("search", "engine", "baselines")

# Matrices of quality.py that are fitted with no or nearly no wrong entries: problem and seed.
PLANTED = (("stuck", 0), ("stuck", 7), ("rank", 7), ("rank", 13), ("flips", 0), ("flips", 7))

MUSHROOM_RANK = 25

# Cells for which wrong entries are drawn against seconds, and time limits in addition to --seconds.
CURVES = (
    ("fewest-errors", "votes_w_missing", 10),
    ("one-hot", "chess_krvskp", 20),
    ("one-hot", "soybean", 50),
    ("fimi", "mushroom", MUSHROOM_RANK),
)
BUDGETS = (0.5, 1.0, 2.0, 5.0, 10.0)


# ---------------------------------------------------------------- the cells


@dataclass(frozen=True)
class Cell:
    """A table and a number of factors, with the fewest wrong entries that were published.

    `methods` are the names of all methods that reach `best`; `optimal` means that it is optimal.
    """

    collection: str
    table: str
    K: int
    best: int | None = None
    methods: tuple[str, ...] = ()
    optimal: bool = False
    seed: int = 0  # random seed of a planted matrix

    @property
    def key(self) -> tuple[str, str, int]:
        return self.collection, self.table, self.K


def all_cells(data: Path) -> Iterator[Cell]:
    """All cells; the published numbers are read from the folder `data`."""
    with (data / "fewest-errors" / "best_known.csv").open() as file:
        for line in csv.DictReader(file):
            table, K, best = line.pop("table"), int(line.pop("K")), int(line.pop("best_known"))
            optimal = line.pop("proven_optimal") == "yes"
            names = tuple(name for name, errors in line.items() if errors == str(best))
            names = tuple(name.replace("_", " ") for name in names) or ("later record",)
            yield Cell("fewest-errors", table, K, best, names, optimal)
    with (data / "one-hot" / "published.csv").open() as file:
        for line in csv.DictReader(file):
            table, K = line.pop("table"), int(line.pop("K"))
            best = min(map(int, line.values()))
            names = tuple(name for name, errors in line.items() if int(errors) == best)
            yield Cell("one-hot", table, K, best, names)
    yield Cell("fimi", "mushroom", MUSHROOM_RANK)
    for name, seed in PLANTED:
        yield Cell("planted", f"{name}-{seed}", PROBLEMS[name].rank(seed), seed=seed)


def chosen(cells: Iterable[Cell], only: list[str] | None) -> list[Cell]:
    """The cells selected by collection, table or collection/table; by default, all of them."""
    every = list(cells)
    if only is None:
        return every
    names = {c: {c.collection, c.table, f"{c.collection}/{c.table}"} for c in every}
    unknown = set(only) - set().union(*names.values())
    if unknown:
        known = ", ".join(dict.fromkeys(c.table for c in every))
        raise SystemExit(
            f"--only: no table is named {', '.join(sorted(unknown))}; there are {known}"
        )
    return [c for c in every if names[c] & set(only)]


def read(cell: Cell, data: Path) -> tuple[np.ndarray, np.ndarray | None]:
    """A table of 0, 1 and NaN (missing), (M, N), and the planted matrix, if any."""
    if cell.collection == "planted":
        planted = PROBLEMS[cell.table.rpartition("-")[0]].plant(cell.seed)
        return planted.observations.to_dense().astype(float), planted.Z
    if cell.collection == "fimi":
        return read_transactions(data / "fimi" / f"{cell.table}.dat"), None
    if cell.collection == "fewest-errors":
        return np.loadtxt(data / cell.collection / f"{cell.table}.txt"), None
    with (data / cell.collection / f"{cell.table}.csv").open() as file:
        rows = [[float(c) if c else np.nan for c in row] for row in csv.reader(file)]
    return np.array(rows), None


def read_transactions(file: Path) -> np.ndarray:
    """A matrix with a row for each line and a column for each item."""
    rows = [[int(item) for item in line.split()] for line in file.read_text().splitlines()]
    items = sorted(set().union(*rows))
    place = {item: n for n, item in enumerate(items)}
    table = np.zeros((len(rows), len(items)))
    for m, row in enumerate(rows):
        table[m, [place[item] for item in row]] = 1
    return table


# ---------------------------------------------------------------- one cell


def ours(
    seen: np.ndarray, truth: np.ndarray | None, K: int, seed: int, seconds: float, n_jobs: int
) -> dict:
    """Run our search; return wrong entries, their bound, seconds, and distance from the truth."""
    began = time.perf_counter()
    result = boolweave.factorize(seen, K, random_state=seed, n_jobs=n_jobs, max_time=seconds)
    elapsed = time.perf_counter() - began
    errors = factors_peers.wrong(seen, result.X, result.Y)
    answer = {"seed": seed, "max_time": seconds, "seconds": elapsed, "errors": errors}
    answer["bound"] = result.bound
    if truth is not None:
        product = factors_peers.boolean_product(result.X, result.Y)
        answer["from_truth"] = int(np.sum(product != truth))
    return answer


def warm_up(n_jobs: int) -> None:
    """Compile all kernels before the fits that are measured."""
    random = np.random.default_rng(0)
    for missing in (0.0, 0.1):
        table = np.where(random.random((60, 40)) < missing, np.nan, random.random((60, 40)) < 0.3)
        for K in (3, 30):
            boolweave.factorize(table, K, random_state=0, n_jobs=n_jobs, max_time=1)


def measure(cell: Cell, arguments: argparse.Namespace, kept: dict) -> dict:
    """Run our method and the others on one cell."""
    seen, truth = read(cell, arguments.data)
    known = ~np.isnan(seen)
    best, methods = cell.best, list(cell.methods)
    if truth is not None:
        best, methods = int(np.sum(seen[known] != truth[known])), ["planted factors"]
    line = {
        "collection": cell.collection, "table": cell.table, "K": cell.K,
        "shape": list(seen.shape), "observed": int(known.sum()), "ones": int(np.nansum(seen)),
        "best_published": best, "methods": methods, "proven_optimal": cell.optimal,
    }  # fmt: skip
    line["ours"] = [
        ours(seen, truth, cell.K, seed, arguments.seconds, arguments.threads)
        for seed in range(arguments.seeds)
    ]
    if cell.key in CURVES:
        budgets = [budget for budget in BUDGETS if budget < arguments.seconds]
        runs = [ours(seen, truth, cell.K, 0, budget, arguments.threads) for budget in budgets]
        line["curve"] = [*runs, line["ours"][0]]
    line["others"] = others(cell, seen, arguments, kept)
    return line


def others(cell: Cell, seen: np.ndarray, arguments: argparse.Namespace, kept: dict) -> dict:
    """The results of the other methods, from this run or an earlier one."""
    if arguments.peers == "none":
        return {}
    before = kept.get(cell.key, {})
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        problem = Path(folder) / "table.npy"
        np.save(problem, seen)
        for method in factors_peers.METHODS:
            if "errors" in before.get(method, {}):
                found[method] = before[method]
                continue
            limit = arguments.seconds if method == "FPMsBMF" else arguments.limit
            found[method] = factors_peers.run(method, problem, cell.K, limit, arguments.threads)
            found[method]["measured"] = now()
    return found


def kept_results(arguments: argparse.Namespace) -> dict:
    """The results of other methods in an earlier run by cell, with --peers kept."""
    file = arguments.output or RESULTS
    if arguments.peers != "kept" or not file.exists():
        return {}
    lines = json.loads(file.read_text())["cells"]
    return {
        (line["collection"], line["table"], line["K"]): {
            method: result | {"kept": True} for method, result in line["others"].items()
        }
        for line in lines
    }


# ---------------------------------------------------------------- all cells


def worst(line: dict) -> int:
    """The number of our wrong entries with the worst seed."""
    return max(run["errors"] for run in line["ours"])


def summarize(lines: list[dict]) -> dict:
    """Count how often the best published numbers are reached, and find the largest excess."""
    summary: dict = {}
    for collection in ("fewest-errors", "one-hot"):
        these = [line for line in lines if line["collection"] == collection]
        summary[collection] = {
            "cells": len(these),
            "reached": sum(worst(line) <= line["best_published"] for line in these),
            "better": sum(worst(line) < line["best_published"] for line in these),
        }
    excess = {
        f"{line['table']} K={line['K']}": factors_report.excess(worst(line), line)
        for line in lines
        if line["collection"] in summary
    }
    if excess:
        where = max(excess, key=excess.__getitem__)
        summary["worst_excess"] = {"cell": where, "excess": excess[where]}
    summary["proven"] = sum(all(r["bound"] == r["errors"] for r in line["ours"]) for line in lines)
    planted = [line for line in lines if line["collection"] == "planted"]
    exact = sum(max(run["from_truth"] for run in line["ours"]) == 0 for line in planted)
    summary["planted"] = {"cells": len(planted), "exact": exact}
    for line in lines:
        asso = line["others"].get("Asso", {}).get("errors")
        if line["collection"] == "fimi" and asso:
            summary["fewer_than_asso"] = {line["table"]: 1 - worst(line) / asso}
    return summary


def version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def conditions(arguments: argparse.Namespace) -> dict:
    """The settings of the measurement, and the versions of other packages."""
    packages = ("numpy", "scipy", "numba", "FPMsBMF")
    return {
        "seconds": arguments.seconds, "seeds": arguments.seeds, "threads": arguments.threads,
        "limit_of_others": arguments.limit, "peers": arguments.peers,
        "versions": {package: version(package) for package in packages},
    }  # fmt: skip


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=10, help="time limit of our fits")
    parser.add_argument("--seeds", type=int, default=1, help="fits of each cell; the worst counts")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="tables or collections")
    parser.add_argument("--limit", type=float, default=60, help="time limit of Asso and GreConD")
    parser.add_argument(
        "--peers", choices=("run", "kept", "none"), default="run",
        help="run the other methods, use their earlier results if there are any, or neither",
    )  # fmt: skip
    parser.add_argument("--output", type=Path, help=f"default, if all cells run: {RESULTS.name}")
    arguments = parser.parse_args()
    if "BOOLWEAVE_DATA" not in os.environ:
        parser.error("set BOOLWEAVE_DATA to the folder that holds fewest-errors, one-hot and fimi")
    arguments.data = Path(os.environ["BOOLWEAVE_DATA"])
    if arguments.output is None and arguments.only is None:
        arguments.output = RESULTS
    return arguments


def main() -> None:
    arguments = parse()
    warnings.simplefilter("ignore")
    cells = chosen(all_cells(arguments.data), arguments.only)
    kept = kept_results(arguments)
    report = conditions(arguments) | {"cells": []}
    warm_up(arguments.threads)
    print(factors_report.heading())
    for cell in cells:
        line = measure(cell, arguments, kept)
        report["cells"].append(line)
        print(factors_report.row(line), flush=True)
    report["summary"] = summarize(report["cells"])
    print(*factors_report.closing(report), sep="\n")
    if arguments.output:
        arguments.output.write_text(json.dumps(report, indent=1) + "\n")
        record(arguments.output, MEASURES)
        factors_report.draw(report, arguments.output.with_suffix(".png"))


if __name__ == "__main__":
    main()
