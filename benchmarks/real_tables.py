"""Wrong entries of given numbers of factors on real tables, compared with published numbers.

The ten tables with one column for each category, and the wrong entries of eleven methods at three
ranks each, are those of Avellaneda and Villemaire (2022); they are read from the folder `one-hot`
in $BOOLWEAVE_DATA. "MP" is their run of the message passing of Ravanbakhsh et al. A line shows the
published MP and the best of all methods, then max-sum of boolweave (the best of three starts, with
the default kind of messages, and with floats in all iterations) and its default method.

    BOOLWEAVE_DATA=... python benchmarks/real_tables.py
    BOOLWEAVE_DATA=... python benchmarks/real_tables.py --only zoo flare --floats
"""

from __future__ import annotations

import argparse
import csv
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from boolweave import BooleanMatrixFactorization

N_STARTS = 3


def cells(folder: Path) -> Iterator[tuple[str, int, int, int]]:
    """Table, number of factors, published MP, and the best of all published numbers."""
    with (folder / "published.csv").open() as file:
        for line in csv.DictReader(file):
            table, K = line.pop("table"), int(line.pop("K"))
            yield table, K, int(line["MP"]), min(map(int, line.values()))


def table(folder: Path, name: str) -> np.ndarray:
    """Zeros and ones, with NaN for missing entries."""
    with (folder / f"{name}.csv").open() as file:
        return np.array([[float(c) if c else np.nan for c in row] for row in csv.reader(file)])


def wrong(seen: np.ndarray, **how: object) -> tuple[int, float]:
    """Wrong entries of the product of the decoded factors, and seconds."""
    began = time.perf_counter()
    model = BooleanMatrixFactorization(random_state=0, **how).fit(seen)  # type: ignore[arg-type]
    seconds = time.perf_counter() - began
    Z = model.inverse_transform((model.row_log_odds_ > 0).astype(np.uint8))
    known = ~np.isnan(seen)
    return int(np.sum(Z[known] != seen[known])), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="TABLE")
    parser.add_argument("--floats", action="store_true", help="also with floats only (slow)")
    arguments = parser.parse_args()
    folder = Path(os.environ["BOOLWEAVE_DATA"]) / "one-hot"
    warnings.simplefilter("ignore")
    columns = ["max-sum", *(["floats"] if arguments.floats else []), "default"]
    print(f"{'table':14}{'K':>5}{'MP':>7}{'best':>7}", *(f"{name:>16}" for name in columns))
    reached, no_worse, n_cells = 0, 0, 0
    for name, K, published, best in cells(folder):
        if arguments.only and name not in arguments.only:
            continue
        seen = table(folder, name)
        paper = {"n_components": K, "method": "max-sum", "n_init": N_STARTS}
        found = [wrong(seen, **paper)]
        if arguments.floats:
            found.append(wrong(seen, **paper, messages="float32"))
        found.append(wrong(seen, n_components=K))
        n_cells += 1
        reached += found[0][0] <= published
        no_worse += found[-1][0] <= found[0][0]
        shown = (f"{errors:>8} {seconds:>5.1f} s" for errors, seconds in found)
        print(f"{name:14}{K:>5}{published:>7}{best:>7}", *shown, flush=True)
    print(f"max-sum reaches the published MP in {reached} of {n_cells} cells")
    print(f"the default has no more wrong entries than max-sum in {no_worse} of {n_cells} cells")


if __name__ == "__main__":
    main()
