"""How often one run of max-sum ends far from the planted factors, and what that depends on.

Matrices of 200 × 200 with 5 factors are planted, of which 0, 5, 10 or 15% of the entries are
flipped, each matrix with a seed of its own, and fitted once by each variant. A fit is stuck if over
1% of the entries of its product differ from the planted one.

    python benchmarks/stuck.py                   # 120 matrices; results/stuck.json
    python benchmarks/stuck.py --only paper      # one variant, which takes most of the time
    python benchmarks/stuck.py --first 1000      # other matrices; stores nothing
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import defaultdict
from functools import partial
from typing import Any

import numpy as np

from boolweave import BooleanMatrixFactorization
from boolweave.data.observations import Observations
from boolweave.datasets import make_boolean
from boolweave.engine import loop
from boolweave.engine.backend import InitialBeliefs
from boolweave.engine.floats import FloatBackend, PrintedBackend
from boolweave.engine.integers import IntegerBackend
from boolweave.fit.settings import Settings
from processes import RESULTS, record

FLIPS = (0.0, 0.05, 0.10, 0.15)
STUCK = 0.01
MATRICES = 120
SIZE, K = 200, 5
MODEL = Settings(K).first_model()


def one_run(kind: type, by_field: bool, observations: Observations, seed: int) -> dict[str, Any]:
    """Products of the last iterate and of the best one, and the number of iterations."""
    backend, random = kind(observations), np.random.default_rng([seed, 1])
    problem = backend.problem(MODEL)
    if by_field and kind is FloatBackend:  # that of integers has one itself
        evidence = float(np.log(9))  # |L| with 10% flips
        deviation = evidence * np.sqrt(SIZE)
        field = InitialBeliefs.random(
            (SIZE, SIZE), K, (deviation, deviation), evidence / 200, random
        )
        state = backend.start(problem, field)
    else:
        state = backend.random_start(problem, random)
    best = loop.run(backend, problem, state, observations)
    last = backend.beliefs(problem, state)
    return {
        "last": (last.rows > 0) @ (last.columns > 0),
        "best": best.Z == 1,
        "n_iter": best.n_iter,
    }


def one_fit(options: dict, observations: Observations, seed: int) -> dict[str, Any]:
    """The same of the estimator, whose answer is the best iterate."""
    model = BooleanMatrixFactorization(K, method="max-sum", random_state=seed, **options)
    result = model.fit(observations).result_
    return {"best": result.Z == 1, "n_iter": result.n_iter}


VARIANTS = {
    "paper": partial(one_run, PrintedBackend, False),
    "float_messages": partial(one_run, FloatBackend, False),
    "float_field": partial(one_run, FloatBackend, True),
    "byte_field": partial(one_run, IntegerBackend, True),
    "max_sum": partial(one_fit, {}),
    "max_sum_damped": partial(one_fit, {"damping": 0.2}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", action="append", choices=list(VARIANTS), help="only this one")
    parser.add_argument("--matrices", type=int, default=MATRICES, help="number of matrices")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    lines: dict[str, dict] = {
        name: {"stuck": defaultdict(list), "n_iter": [], "seconds": []}
        for name in chosen.only or VARIANTS
    }
    for seed in range(chosen.first, chosen.first + chosen.matrices):
        planted = make_boolean(SIZE, SIZE, K, flip=FLIPS[seed % len(FLIPS)], random_state=seed)
        for name, line in lines.items():
            begin = time.process_time()
            answer = VARIANTS[name](planted.observations, seed)
            line["seconds"].append(time.process_time() - begin)
            line["n_iter"].append(answer["n_iter"])
            for which in answer.keys() & {"best", "last"}:
                if np.mean(answer[which] != planted.Z) > STUCK:
                    line["stuck"][which].append(seed)
        print(seed, {name: len(line["stuck"]["best"]) for name, line in lines.items()}, flush=True)
    for name, line in lines.items():
        line["n_iter"], line["seconds"] = np.median(line["n_iter"]), np.median(line["seconds"])
        counts = {which: len(line["stuck"][which]) for which in ("last", "best")}
        print(f"{name:<16}{counts}, {line['n_iter']:.0f} iterations, {line['seconds']:.3f} s")
    if chosen.first == 0 and chosen.matrices == MATRICES:
        file = RESULTS / "stuck.json"
        before = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps(before | lines, indent=1) + "\n")
        record(file, ("engine", "fit"), list(lines))


if __name__ == "__main__":
    main()
