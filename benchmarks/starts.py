"""Comparison of the kinds of starts of the search for the fewest errors.

    BOOLWEAVE_DATA=tables python benchmarks/starts.py

For every table and rank of `benchmarks/factors.py` with a published number, and for each kind of
start, the script computes the wrong entries after descent and after one task of local search, for
the better of two seeds, as excess over the best known number. Medians over the cells with at most
12 factors, and over those with more, are printed and go to results/starts.json;
`scripts/factors_table.py` puts them into the documentation.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import warnings
from pathlib import Path
from statistics import median

import numpy as np

import factors
from boolweave import Observations
from boolweave.search import searching, starts
from boolweave.search.kernels.descent import KEEP_TIES, descend, fill, improve, scratch
from boolweave.search.kernels.factors import empty_factors
from boolweave.search.table import bits_of, factors_of, pack_table, shape_of
from processes import RESULTS, record

LOW = 12
KINDS = ("max-sum .1", "max-sum .02", "max-sum .004", "wide .1", "wide .02", "rows", "chance")


NEVER = np.zeros(1, dtype=bool)


def first_factors(kind, seen, table, K, seed):
    """Make the first factors of a start, or None if this kind is not possible."""
    name, _, flip = kind.partition(" ")
    n_factors = int(np.ceil(searching.WIDE * K)) if name == "wide" else K
    if name in ("max-sum", "wide"):
        if not starts.can_use_max_sum(n_factors):
            return None
        found = starts.max_sum(seen, table, n_factors, float(flip), seed)
        return starts.pruned(table, *bits_of(found), K) if name == "wide" else found
    if name == "rows":  # the ones of random rows as patterns
        random = np.random.default_rng(seed)
        rows = random.choice(len(table.rows.ones), K, replace=len(table.rows.ones) < K)
        Y = (seen.to_dense()[rows] == 1).astype(np.uint8)
        return factors_of(table, np.zeros((len(table.rows.ones), K), dtype=np.uint8), Y)
    found = empty_factors(shape_of(table), K)
    words = np.array([2 * seed + 1], dtype=np.uint64)
    fill(table, found, scratch(shape_of(table), K), words, searching.N_TRIES, NEVER)
    return found


def costs(kind, seen, table, K, seed):
    """Return the cost after descent and after a task of local search."""
    found = first_factors(kind, seen, table, K, seed)
    if found is None:
        return None
    memory, words = scratch(shape_of(table), K), np.array([2 * seed + 1], dtype=np.uint64)
    descended, _ = descend(table, found, memory, words, np.int64(50), KEEP_TIES, NEVER)
    n_refits = int(searching.TASK_WORK / searching.work_of_refit(table))
    improved, _ = improve(
        table, found, empty_factors(shape_of(table), K), memory, words,
        n_refits, searching.TASK_TRIALS, searching.MOST_TRIALS * K, False, NEVER,
    )  # fmt: skip
    return descended, improved


def main() -> None:
    """Measure all cells and print the medians."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="tables or collections")
    chosen = parser.parse_args()
    excess = {(kind, size, n): [] for kind in KINDS for size in ("low", "high") for n in (0, 1)}
    wins = dict.fromkeys(KINDS, 0)
    n_cells = 0
    data = Path(os.environ["BOOLWEAVE_DATA"])
    for cell in factors.chosen(factors.all_cells(data), chosen.only):
        if cell.best is None:
            continue
        K, best = cell.K, cell.best
        seen = Observations.from_data(factors.read(cell, data)[0])
        table = pack_table(seen)
        size = "low" if K <= LOW else "high"
        reached = {}
        for kind in KINDS:
            found = [costs(kind, seen, table, K, seed) for seed in range(chosen.seeds)]
            if found[0] is None:
                continue
            for n in (0, 1):
                least = min(pair[n] for pair in found)
                excess[kind, size, n].append((least - best) / max(best, 1))
            reached[kind] = min(pair[1] for pair in found)
        n_cells += 1
        for kind, cost in reached.items():
            wins[kind] += cost == min(reached.values())
        print(cell.table, K, best, {kind: int(cost) for kind, cost in reached.items()}, flush=True)
    print(f"\n{'start':<14}{'K ≤ 12':>10}{'improved':>10}{'K > 12':>10}{'improved':>10}{'best':>8}")
    results = {"cells": n_cells, "starts": {}}
    for kind in KINDS:
        figures = [excess[kind, size, n] for size in ("low", "high") for n in (0, 1)]
        line = "".join(f"{median(some):>+10.1%}" if some else f"{'–':>10}" for some in figures)
        print(f"{kind:<14}{line}{wins[kind]:>5} of {n_cells}")
        medians = [median(some) if some else None for some in figures]
        results["starts"][kind] = {"medians": medians, "best": wins[kind]}
    if not chosen.only:
        file = RESULTS / "starts.json"
        file.write_text(json.dumps(results, indent=1) + "\n")
        record(file, ("search", "engine"))


if __name__ == "__main__":
    main()
