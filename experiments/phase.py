"""Completion error by rank and fraction of observed entries: the paper's phase diagram.

The factors are planted so that half of Z are ones, without noise; every method is given K. The
dashed line is the information bound, K(M + N − ln K + 1) entries. Additional runs have 1.5, 2 and 3
times as many entries as the bound. For 1-bit completion, the table has the best result of the
paper's values of β, as in the paper. The runs are done repeat by repeat, so that a script that is
stopped has a complete but less precise picture. BooleanCompletion, which is not in the paper, is
not part of the full picture: it fits about forty models instead of one, and 4000 such fits would
take days.

    python experiments/phase.py            # 200 × 200, minutes
    python experiments/phase.py --full     # 1000 × 1000, 20 ranks × 20 fractions × 10 repeats
    python experiments/phase.py --full --only max-sum auto
    python experiments/phase.py --full --only max-sum auto --curve    # the three lines alone
"""

from __future__ import annotations

import argparse

import numpy as np
from common import (
    conclude,
    extent,
    figure,
    grouped,
    listed,
    mean,
    run_all,
    save,
    seconds_of,
    start,
    with_earlier,
    write_csv,
)

MEASURES = ("model", "engine", "fit", "completion", "baselines")
COMPLETION = "BooleanCompletion"
METHODS = ("max-sum", "auto", COMPLETION, "GLRM", "GLRM, not regularised", "1-bit")
PAPER_BETAS = (0.1, 1.0, 10.0)
TIMES_BOUND = (1.5, 2.0, 3.0)
RECOVERED = 0.01


def one(task: dict) -> dict:
    """Compute the fraction of wrong entries of one method on one matrix, and its seconds.

    For auto, also compute the fraction that is expected to be wrong according to its posterior, the
    mean of min(p, 1 − p). With the right model and exact marginals, no method could do better.
    """
    from boolweave import BooleanCompletion, BooleanMatrixFactorization
    from boolweave.baselines import GLRM, OneBitCompletion
    from boolweave.datasets import make_boolean

    size, rank, method = task["size"], task["rank"], task["method"]
    given = {"observed": task["observed"], "random_state": task["repeat"]}
    planted = make_boolean(size, size, rank, **given)
    rows, columns = (i.ravel() for i in np.indices(planted.Z.shape))
    if method == COMPLETION:
        models = [BooleanCompletion(rank, random_state=task["repeat"])]
    elif method == "GLRM":
        models = [GLRM(rank, loss="logistic", random_state=0)]
    elif method == "GLRM, not regularised":
        models = [GLRM(rank, loss="logistic", regularization=0.0, random_state=0)]
    elif method == "1-bit":
        models = [OneBitCompletion(beta, rank=rank, random_state=0) for beta in PAPER_BETAS]
    else:
        models = [BooleanMatrixFactorization(rank, method=method, random_state=task["repeat"])]
    errors, seconds = [], 0.0
    for model in models:
        seconds += seconds_of(model.fit, planted.observations)
        errors.append(float(np.mean(model.predict(rows, columns) != planted.Z.ravel())))
    answer = {"error": min(errors), "seconds": seconds}
    if method == "auto":
        p = models[0].predict_proba(rows, columns, kind="latent")
        answer["expected"] = float(np.minimum(p, 1 - p).mean())
    return answer


def bound(size: int, rank: int) -> float:
    from boolweave.metrics import information_bound

    return information_bound(size, size, rank)


def tasks_of(run, methods: list[str]) -> tuple[list[dict], list[dict]]:
    """List the runs of the grid, and the runs at multiples of the bound."""
    size = run.pick(40, 200, 1000)
    ranks = run.pick((2,), (2, 4, 6, 8), range(2, 41, 2))
    shares = run.pick(
        (0.3,), (0.05, 0.1, 0.15, 0.2, 0.3, 0.4), [round(0.01 * i, 2) for i in range(1, 21)]
    )
    repeats = run.pick(1, 1, 10)
    curve_ranks, curve_repeats = run.pick((2,), (2, 4, 6), (5, 10, 20)), run.pick(1, 3, 10)
    grid = [
        {"size": size, "rank": rank, "observed": share, "repeat": repeat, "method": method}
        for repeat in range(repeats) for method in methods if repeat < 2 or method != "1-bit"
        for rank in ranks for share in shares
    ]  # fmt: skip
    curve = [
        {"size": size, "rank": rank, "observed": round(times * bound(size, rank)),
         "repeat": repeat, "method": method}
        for method in ("max-sum", "auto") if method in methods
        for times in TIMES_BOUND for rank in curve_ranks for repeat in range(curve_repeats)
        if times * bound(size, rank) < size * size
    ]  # fmt: skip
    return grid, curve


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--curve",
        action="store_true",
        help="the lines at multiples of the bound only; keep the grid",
    )


def main() -> None:
    run = start(__file__, __doc__, options, measures=MEASURES)
    quickly = tuple(method for method in METHODS if method != COMPLETION)
    methods = run.chosen(run.pick(METHODS, METHODS, quickly))
    grid, curve = tasks_of(run, methods)
    tasks = curve if run.options.curve else curve + grid
    rows = run_all(run, one, tasks)
    curve_rows = [row for row in rows if row["observed"] > 1]  # a number of entries
    grid_rows = [row for row in rows if row["observed"] <= 1]
    table = [
        {
            "kind": kind, "method": method, "size": size, "rank": rank,
            "observed_share": share if share <= 1 else share / size**2,
            "times_bound": (share * size**2 if share <= 1 else share) / bound(size, rank),
            "error": mean(group, "error"),
            "expected": mean(group, "expected") if "expected" in group[0] else "",
            "seconds": mean(group, "seconds"), "repeats": len(group),
        }
        for kind, part in (("grid", grid_rows), ("curve", curve_rows))
        for (method, size, rank, share), group in grouped(
            part, "method", "size", "rank", "observed"
        ).items()
    ]  # fmt: skip
    table = with_earlier(run, table, METHODS, parts=("kind", "method"))
    write_csv(run, table)
    methods = [method for method in METHODS if any(row["method"] == method for row in table)]
    draw(run, [row for row in table if row["kind"] == "grid"], methods)
    words = listed([reach(table, method) for method in methods])
    needed = f"An error below {RECOVERED:g} takes this many times the bound: {words}."
    shown = [at_twice_the_bound(table), needed, minutes(rows, methods)]
    conclude(run, " ".join(filter(None, shown)), extent(rows, tasks))


def at_twice_the_bound(table: list[dict]) -> str:
    """Describe the errors of max-sum and auto at twice the bound, by rank."""
    rows = [r for r in table if r["kind"] == "curve" and abs(r["times_bound"] - 2) < 0.01]
    errors = {(row["method"], row["rank"]): row["error"] for row in rows}
    words = [
        f"{errors['max-sum', rank]:.4f} and {errors['auto', rank]:.4f} for K = {rank}"
        for rank in sorted({row["rank"] for row in rows})
        if ("max-sum", rank) in errors and ("auto", rank) in errors
    ]
    both = "At twice the bound, the errors of max-sum and auto are"
    return f"{both} {listed(words)}." if words else ""


def minutes(rows: list[dict], methods: list[str]) -> str:
    """List the processor time of the fits of each method, in minutes."""
    spent = {method: [r["seconds"] for r in rows if r["method"] == method] for method in methods}
    words = [
        f"{sum(s) / 60:.2g} minutes for {len(s)} fits of {method}"
        for method, s in spent.items()
        if s
    ]
    return f"This took {listed(words)}, on one processor." if words else ""


def reach(table: list[dict], method: str) -> str:
    """State how many times the bound a method needs, as the median over ranks."""
    needed = []
    rows = [row for row in table if row["kind"] == "grid" and row["method"] == method]
    for group in grouped(rows, "rank").values():
        enough = [row["times_bound"] for row in group if row["error"] < RECOVERED]
        needed.append(min(enough, default=float("inf")))
    middle = float(np.median(needed))
    if not np.isfinite(middle):
        return f"more than was tried with {method}"
    return f"{middle:.1f} with {method}"


def draw(run, table: list[dict], methods: list[str]) -> None:
    drawn, axes = figure(3.2 * len(methods) + 1, 3.4, 1, len(methods), sharey=True)
    for axis, method in zip(axes[0], methods, strict=True):
        rows = [row for row in table if row["method"] == method]
        ranks = sorted({row["rank"] for row in rows})
        shares = sorted({row["observed_share"] for row in rows})
        every = 1 + len(ranks) // 10
        errors = np.full((len(shares), len(ranks)), np.nan)
        for row in rows:
            place = shares.index(row["observed_share"]), ranks.index(row["rank"])
            errors[place] = row["error"]
        image = axis.imshow(errors, origin="lower", aspect="auto", vmin=0, vmax=0.5, cmap="magma_r")
        limit = [bound(rows[0]["size"], k) / rows[0]["size"] ** 2 for k in ranks]
        places = np.interp(limit, [0, *shares], range(-1, len(shares)))
        axis.plot(range(len(ranks)), places, "k--")
        axis.set_ylim(-0.5, len(shares) - 0.5)
        axis.set(title=method, xlabel="rank K")
        axis.set_xticks(range(0, len(ranks), every), ranks[::every])
        axis.set_yticks(range(len(shares)), [f"{share:g}" for share in shares])
    axes[0, 0].set_ylabel("share of entries seen")
    drawn.colorbar(image, ax=axes, label="error")
    save(run, drawn)


if __name__ == "__main__":
    main()
