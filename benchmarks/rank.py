"""The number of factors that is found for real tables, and whether it depends on the seed.

For every table and some seeds, `BooleanMatrixFactorization(random_state=seed)` chooses the rank. A
line shows the number of factors for each seed, and the length in bits of the shortest description
at the chosen rank, of the answer, and of 50 factors found by GreConD.

The tables of the package are always used. The access-control tables of Ene et al. (2008) are read
from the folder `role-mining` in $BOOLWEAVE_DATA, if that is set: a user and a permission in each
line, numbered from 1.

With --observed, most entries are hidden instead, and a line shows which fraction of them is
predicted correctly: by a constant, by 1, 2, 3 and 5 factors, and by the number that is found; the
last line of a table is the mean of its splits. The tables are votes84, two Senates and the ratings
above the mean in `movietweetings/ratings.dat` in $BOOLWEAVE_DATA; each is split by every seed.

    python benchmarks/rank.py
    python benchmarks/rank.py --seeds 2 --only zoo senate-107
    python benchmarks/rank.py --observed --seeds 3
    python benchmarks/rank.py --observed --only votes84 --shares 0.05 --first 30 --seeds 30
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from boolweave import (
    BooleanMatrixFactorization,
    Channel,
    Observations,
    factorize,
    select_rank,
)
from boolweave.baselines import GreConD
from boolweave.datasets import CONGRESSES, load_paleo, load_senate, load_votes84, load_zoo
from boolweave.engine.result import Ending, Result
from boolweave.fit.judging import description_length
from boolweave.model.model import Model

# The share of the entries that is kept.
SHARES = {
    "votes84": (0.05, 0.1, 0.2, 0.5),
    "senate-101": (0.05, 0.1),
    "senate-102": (0.05, 0.1),
    "movietweetings": (0.1, 0.5),
}
GIVEN = (1, 2, 3, 5)

ROLES = ("hc", "domino", "fire1", "fire2", "apj")
N_COVER = 50


def tables() -> Iterator[tuple[str, Observations]]:
    """Names and observations, the small ones first."""
    yield "zoo", load_zoo().observations
    yield "votes84", load_votes84().observations
    yield "paleo", load_paleo().observations
    for congress in CONGRESSES:
        yield f"senate-{congress}", load_senate(congress).observations
    folder = os.environ.get("BOOLWEAVE_DATA")
    for name in ROLES if folder else ():
        path = Path(str(folder)) / "role-mining" / f"{name}.txt"
        at = np.loadtxt(path, dtype=np.int64) - 1
        dense = np.zeros(at.max(axis=0) + 1, dtype=np.uint8)
        dense[tuple(at.T)] = 1
        yield name, Observations.from_dense(dense)


def bits_of_cover(seen: Observations) -> float:
    """The description length of factors by GreConD."""
    cover = GreConD(N_COVER, missing="zero").fit(seen)
    X, Y = (np.where(side, 1.0, -1.0) for side in (cover.row_factors_, cover.components_))
    model = Model(len(Y), Channel.symmetric(0.1))
    return description_length(Result(model, seen, X, Y, 0.0, Ending.CONVERGED, 0, {}))


def ratings() -> Observations:
    """Ratings of films on Twitter: 1 if above the mean."""
    path = Path(os.environ["BOOLWEAVE_DATA"]) / "movietweetings" / "ratings.dat"
    lines = path.read_text().splitlines()
    user, film, rating = np.array([line.split("::")[:3] for line in lines], dtype=np.int64).T
    places = [np.unique(side, return_inverse=True)[1] for side in (user, film)]
    return Observations.from_triples(*places, rating > rating.mean())


def print_predictions(
    seeds: range, only: list[str] | None, chosen_shares: list[float] | None
) -> None:
    """Print the share of right predictions of hidden entries, and the mean over the splits."""
    heads = ("constant", *(f"K = {k}" for k in GIVEN), "auto", "factors")
    print(f"{'table':>14} {'observed':>8} {'split':>5}", *(f"{head:>8}" for head in heads))
    for name, shares in SHARES.items():
        if (only and name not in only) or (
            name == "movietweetings" and "BOOLWEAVE_DATA" not in os.environ
        ):
            continue
        table = ratings() if name == "movietweetings" else dict(tables())[name]
        for share in chosen_shares or shares:
            lines = []
            for seed in seeds:
                kept, rows, columns, values = table.hide(1 - share, random_state=seed)
                right = [np.mean(values == (kept.share_of_ones > 0.5))]
                for k in (*GIVEN, "auto"):
                    model = BooleanMatrixFactorization(k, random_state=0).fit(kept)
                    right.append(np.mean(model.predict(rows, columns) == values))
                figures = (f"{share:8.3f}" for share in right)
                n_factors = len(model.components_)
                print(f"{name:>14} {share:8.0%} {seed:>5}", *figures, f"{n_factors:>8}", flush=True)
                lines.append(right)
            means = (f"{mean:8.4f}" for mean in np.mean(lines, axis=0))
            print(f"{name:>14} {share:8.0%}  mean", *means, flush=True)


def main() -> None:
    """Fit all tables and print the results."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first split of --observed")
    parser.add_argument("--shares", type=float, nargs="+", help="observed shares of --observed")
    parser.add_argument("--only", nargs="+", help="names of tables")
    parser.add_argument("--observed", action="store_true", help="predict hidden entries")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    if chosen.observed:
        splits = range(chosen.first, chosen.first + chosen.seeds)
        print_predictions(splits, chosen.only, chosen.shares)
        return
    print(f"{'table':>12} {'shape':>12} {'factors':>20} {'bits':>9} {'answer':>9} {'GreConD':>9}")
    for name, seen in tables():
        if chosen.only and name not in chosen.only:
            continue
        how = {"objective": "posterior"}
        answers = [factorize(seen, random_state=seed, **how) for seed in range(chosen.seeds)]
        found = " ".join(str(answer.model.n_components) for answer in answers)
        shortest = select_rank(seen, random_state=0, **how).scores.min()
        answer = min(description_length(answer) for answer in answers)
        shape = f"{seen.shape[0]}×{seen.shape[1]}"
        print(
            f"{name:>12} {shape:>12} {found:>20} {shortest:>9.0f} {answer:>9.0f} "
            f"{bits_of_cover(seen):>9.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
