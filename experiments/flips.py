"""Reconstruction error against the fraction of flipped entries: the paper's first figure.

The factors are planted and uniform, K = 5, and all entries are observed; every method is given K.
For Asso, the table has the best result of the paper's five thresholds, as in the paper, and the
result with the threshold that is chosen on held-out entries. The factors of NIMFA are binarized at
the thresholds that give the best result.

    python experiments/flips.py            # 300 × 300, minutes
    python experiments/flips.py --full     # 1000 × 1000, 10 repeats
    python experiments/flips.py --full --only auto
"""

from __future__ import annotations

import sys
from pathlib import Path

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
    standard_error,
    start,
    with_earlier,
    write_csv,
)

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

MEASURES = ("model", "engine", "fit", "baselines")
RANK = 5
OURS = ("max-sum", "sum-product", "auto")
METHODS = (*OURS, "NIMFA", "Asso, best of five", "Asso, held out")


def one(task: dict) -> dict:
    """Compute the error of the product of one method on one matrix, and its seconds."""
    from boolweave import BooleanMatrixFactorization
    from boolweave.baselines import PAPER_THRESHOLDS, Asso
    from boolweave.datasets import make_boolean
    from peers import nimfa_bmf

    planted = make_boolean(
        task["size"], task["size"], RANK, row_density=0.5, column_density=0.5,
        flip=task["flip"], random_state=task["repeat"],
    )  # fmt: skip
    seen, truth, method = planted.observations, planted.Z, task["method"]
    if method == "NIMFA":
        answer = nimfa_bmf(seen.to_dense(), truth, RANK)
        return {"error": answer.get("error"), "seconds": answer.get("processor_seconds")}
    if method.startswith("Asso"):
        thresholds = PAPER_THRESHOLDS if "best" in method else ("auto",)
        errors, seconds = [], 0.0
        for threshold in thresholds:
            model = Asso(RANK, threshold=threshold, random_state=0)
            seconds += seconds_of(model.fit, seen)
            errors.append(float(np.mean(model.inverse_transform() != truth)))
        return {"error": min(errors), "seconds": seconds}
    ours = BooleanMatrixFactorization(RANK, method=method, random_state=task["repeat"])
    seconds = seconds_of(ours.fit, seen)
    rows, columns = (i.ravel() for i in np.indices(truth.shape))
    return {
        "error": float(np.mean(ours.predict(rows, columns) != truth.ravel())),
        "seconds": seconds,
    }


def main() -> None:
    from peers import make_nimfa_environment

    run = start(__file__, __doc__, measures=MEASURES)
    size, repeats = run.pick(40, 300, 1000), run.pick(1, 3, 10)
    flips = run.pick((0.1,), (0.0, 0.1, 0.2, 0.3, 0.4), [round(0.05 * i, 2) for i in range(10)])
    methods = run.chosen(METHODS)
    if "NIMFA" in methods:
        missing = "tests do not install it" if run.scale == "tiny" else make_nimfa_environment()
        if missing:
            methods.remove("NIMFA")
            print(f"NIMFA is left out: {missing}")
    tasks = [
        {"size": size, "flip": flip, "repeat": repeat, "method": method}
        for repeat in range(repeats) for method in methods for flip in flips
    ]  # fmt: skip
    small = [
        {"size": 40, "flip": 0.1, "repeat": 0, "method": method}
        for method in methods if method != "NIMFA"  # a process of its own for each fit
    ]  # fmt: skip
    ran = run_all(run, one, tasks, warm_up=small)
    rows = [row for row in ran if row["error"] is not None]
    table = [
        {
            "method": method, "flip": flip, "error": mean(group, "error"),
            "standard_error": standard_error(group, "error"), "seconds": mean(group, "seconds"),
            "size": size, "repeats": len(group),
        }
        for (method, flip), group in grouped(rows, "method", "flip").items()
    ]  # fmt: skip
    table = with_earlier(run, table, METHODS)
    write_csv(run, table)
    drawn, axes = figure(7, 4)
    for (method,), group in grouped(table, "method").items():
        seconds = mean(group, "seconds")
        axes[0, 0].errorbar(
            [row["flip"] for row in group], [row["error"] for row in group],
            yerr=[row["standard_error"] for row in group], marker="o", capsize=2,
            label=f"{method} ({seconds:.2g} s)",
        )  # fmt: skip
    axes[0, 0].set(
        xlabel="share of flipped entries", ylabel="reconstruction error",
        title=f"{size} × {size}, K = {RANK}, {table[0]['repeats']} repeats; mean time of a fit",
    )  # fmt: skip
    axes[0, 0].legend()
    save(run, drawn)
    shown = {method: mean(group, "error") for (method,), group in grouped(table, "method").items()}
    words = listed([f"{error:.4f} with {method}" for method, error in shown.items()])
    levels = f"from {flips[0]:g} to {flips[-1]:g}"
    conclude(run, f"The mean error over noise levels {levels} is {words}.", extent(ran, tasks))


if __name__ == "__main__":
    main()
