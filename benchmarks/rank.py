"""The number of factors that is found for real tables, and whether it depends on the seed.

For every table and some seeds, `BooleanMatrixFactorization(random_state=seed)` chooses the rank. A
line shows the number of factors for each seed, and the length in bits of the shortest description
at the chosen rank, of the answer, and of 50 factors found by GreConD.

The tables of the package are always used. The access-control tables of Ene et al. (2008) are read
from the folder `role-mining` in $BOOLWEAVE_DATA, if that is set: a user and a permission in each
line, numbered from 1.

    python benchmarks/rank.py
    python benchmarks/rank.py --seeds 2 --only zoo senate-107
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from boolweave import Channel, Observations, factorize, select_rank
from boolweave.baselines import GreConD
from boolweave.datasets import CONGRESSES, load_paleo, load_senate, load_votes84, load_zoo
from boolweave.engine.result import Ending, Result
from boolweave.fit.judging import description_length
from boolweave.model.model import Model

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


def main() -> None:
    """Fit all tables and print the results."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="+", help="names of tables")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'table':>12} {'shape':>12} {'factors':>20} {'bits':>9} {'answer':>9} {'GreConD':>9}")
    for name, seen in tables():
        if chosen.only and name not in chosen.only:
            continue
        how = {"objective": "posterior"}
        answers = [factorize(seen, random_state=seed, **how) for seed in range(chosen.seeds)]
        found = " ".join(str(answer.model.n_components) for answer in answers)
        shortest = select_rank(seen, random_state=0).scores.min()
        answer = min(description_length(answer) for answer in answers)
        shape = f"{seen.shape[0]}×{seen.shape[1]}"
        print(
            f"{name:>12} {shape:>12} {found:>20} {shortest:>9.0f} {answer:>9.0f} "
            f"{bits_of_cover(seen):>9.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
