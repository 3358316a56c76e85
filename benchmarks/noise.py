"""What noise rates of each column or row are worth: predictions, crowds and tests of skills.

Three tables are printed:

tables     Log-loss of held-out entries (a fifth; mean over splits) of `BooleanMatrixFactorization`
           with one pair of noise rates, of columns, of rows, and as the data choose ("auto").
crowds     Share of right labels of simulated workers, whose rates are drawn from beta
           distributions: the majority, Dawid–Skene, and `boolweave.crowd.consensus`; with
           crowd-kit (`pip install crowd-kit`) also its Dawid–Skene and GLAD.
skills     Tests with slip and guess rates between .05 and .3: how many Q-matrices `diagnosis`
           finds without a wrong entry, with the Q-matrices of the folder `diagnosis` in
           $BOOLWEAVE_DATA, and the seconds of a fit.

    python benchmarks/noise.py
    BOOLWEAVE_DATA=data python benchmarks/noise.py --only skills --seeds 20
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
import warnings
from pathlib import Path

import numpy as np

from boolweave import BooleanMatrixFactorization
from boolweave.crowd import consensus
from boolweave.datasets import load_paleo, load_senate, load_votes84, load_zoo
from boolweave.diagnosis import CognitiveDiagnosis
from boolweave.metrics import log_loss

TABLES = {
    "zoo": load_zoo,
    "votes84": load_votes84,
    "paleo": load_paleo,
    "senate-101": lambda: load_senate(101),
    "senate-107": lambda: load_senate(107),
}
WORDS = ("learn", "learn-columns", "learn-rows", "auto")

# Number of tasks and workers, answers of a task, share of the second class, and whether a sixth of
# the workers says the opposite.
CROWDS = [
    (400, 60, 8, 0.4, False),
    (400, 60, 5, 0.4, False),
    (400, 60, 8, 0.4, True),
    (800, 160, 10, 0.1, False),
    (100, 40, 40, 0.5, False),
]


def of_tables(seeds: int) -> None:
    """Print the log-loss of held-out entries."""
    print(f"{'table':>12}", *(f"{word:>14}" for word in WORDS), '  "auto" has rates of')
    for name, load in TABLES.items():
        observations = load().observations
        losses, lines = np.zeros((len(WORDS), seeds)), []
        for seed in range(seeds):
            kept, rows, columns, values = observations.hide(0.2, random_state=seed)
            for i, word in enumerate(WORDS):
                model = BooleanMatrixFactorization(noise=word, random_state=0).fit(kept)
                losses[i, seed] = log_loss(values, model.predict_proba(rows, columns))
            lines.append(("all", "columns", "rows")[np.ndim(model.noise_.one_given_one)])
        error = (
            (losses - losses[0]).std(axis=1, ddof=1) / np.sqrt(seeds) if seeds > 1 else losses[:, 0]
        )
        figures = (
            f"{mean:.4f} ±{e:.4f}" for mean, e in zip(losses.mean(axis=1), error, strict=True)
        )
        print(f"{name:>12}", *(f"{figure:>14}" for figure in figures), "", *lines, flush=True)


def simulated_crowd(
    n_tasks: int, n_workers: int, per_task: int, share: float, opposite: bool, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """The truth, and a table of answers (tasks, workers) with holes."""
    random = np.random.default_rng(seed)
    truth = (random.random(n_tasks) < share).astype(int)
    specificity, sensitivity = random.beta(4, 2, (2, n_workers))
    chance = np.where(truth[:, None] == 1, sensitivity, 1 - specificity)
    answers = (random.random(chance.shape) < chance).astype(float)
    if opposite:
        turned = random.choice(n_workers, n_workers // 6, replace=False)
        answers[:, turned] = 1 - answers[:, turned]
    ranks = random.random(answers.shape).argsort(axis=1).argsort(axis=1)
    return truth, np.where(ranks < per_task, answers, np.nan)


def dawid_skene(answers: np.ndarray) -> np.ndarray:
    """Labels by expectation-maximization without shrinkage, from the majority."""
    given, ones = ~np.isnan(answers), np.nan_to_num(answers)
    chance = np.nanmean(answers, axis=1)
    for _ in range(50):
        odds = np.log(chance.mean() / (1 - chance.mean()))
        rates = [
            ((weight @ ones) + 0.01) / ((weight @ given) + 0.02) for weight in (chance, 1 - chance)
        ]
        odds = odds + ones @ np.log(rates[0] / rates[1])
        odds = odds + (given - ones) @ np.log((1 - rates[0]) / (1 - rates[1]))
        chance = np.clip(1 / (1 + np.exp(-odds)), 1e-9, 1 - 1e-9)
    return chance > 0.5


def of_crowd_kit(name: str, triples: list[tuple[int, int, int]], n_tasks: int) -> np.ndarray:
    """Labels of a method of crowd-kit."""
    import pandas as pd
    from crowdkit import aggregation

    table = pd.DataFrame(triples, columns=["task", "worker", "label"])
    found = getattr(aggregation, name)().fit_predict(table)
    return found.reindex(range(n_tasks)).to_numpy() == 1


def of_crowds(seeds: int) -> None:
    """Print the share of right labels."""
    others = ("DawidSkene", "GLAD") if importlib.util.find_spec("crowdkit") else ()
    heads = ("majority", "Dawid–Skene", "consensus", *(f"kit {name}" for name in others))
    print(f"\n{'crowd':>34}", *(f"{head:>14}" for head in heads))
    for crowd in CROWDS:
        right = np.zeros((len(heads), seeds))
        for seed in range(seeds):
            truth, answers = simulated_crowd(*crowd, seed)
            tasks, workers = np.nonzero(~np.isnan(answers))
            values = answers[tasks, workers].astype(int)
            triples = list(zip(tasks.tolist(), workers.tolist(), values.tolist(), strict=True))
            labels = [np.nanmean(answers, axis=1) > 0.5, dawid_skene(answers)]
            labels.append(consensus(triples).labels == 1)
            labels += [of_crowd_kit(name, triples, len(truth)) for name in others]
            right[:, seed] = [np.mean(found == truth) for found in labels]
        n_tasks, n_workers, per_task, share, opposite = crowd
        name = (
            f"{n_tasks} × {n_workers}, {per_task} each, {share:.0%}{', liars' if opposite else ''}"
        )
        print(f"{name:>34}", *(f"{share:14.3f}" for share in right.mean(axis=1)), flush=True)


def of_skills(seeds: int) -> None:
    """Print how many Q-matrices are found."""
    folder = Path(os.environ["BOOLWEAVE_DATA"]) / "diagnosis"
    print(
        f"\n{'Q-matrix':>24} {'people':>7} {'skills':>12} {'exact':>9} {'off by':>7} {'seconds':>8}"
    )
    for file in sorted(folder.glob("qmatrix_oracle_*.csv")):
        q = np.loadtxt(file, delimiter=",", skiprows=1).astype(int)
        for n_people, correlation in ((1000, 0.0), (500, 0.0), (1000, 0.5)):
            exact, off, before = 0, [], time.perf_counter()
            for seed in range(seeds):
                random = np.random.default_rng(seed)
                common, own = random.standard_normal((n_people, 1)), random.standard_normal
                ability = np.sqrt(correlation) * common
                ability = ability + np.sqrt(1 - correlation) * own((n_people, q.shape[1]))
                slip, guess = random.uniform(0.05, 0.3, (2, len(q)))
                able = (ability > 0).astype(int) @ q.T == q.sum(axis=1)
                answers = random.random(able.shape) < np.where(able, 1 - slip, guess)
                model = CognitiveDiagnosis(q.shape[1], rule="dina", random_state=0).fit(answers)
                exact += sorted(map(tuple, model.q_.T)) == sorted(map(tuple, q.T))
                off += [np.abs(model.slip_ - slip).mean(), np.abs(model.guess_ - guess).mean()]
            seconds = (time.perf_counter() - before) / seeds
            kind = "independent" if correlation == 0 else "correlated"
            print(
                f"{file.stem:>24} {n_people:>7} {kind:>12} {exact:>3} of {seeds:>2} "
                f"{np.mean(off):7.3f} {seconds:8.2f}",
                flush=True,
            )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", choices=("tables", "crowds", "skills"))
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    if chosen.only in (None, "tables"):
        of_tables(chosen.seeds)
    if chosen.only in (None, "crowds"):
        of_crowds(chosen.seeds)
    if chosen.only == "skills" or (chosen.only is None and "BOOLWEAVE_DATA" in os.environ):
        of_skills(chosen.seeds)


if __name__ == "__main__":
    main()
