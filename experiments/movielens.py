"""Accuracy on MovieLens by the fraction of observed ratings: the paper's table, K = 2.

A rating above the mean is a one. MovieLens must not be redistributed: pass the folder of your copy
with --data, or let the script download a data set (--download ml-100k).

The first lines are the paper's methods with its settings. If the paper reports the regularization
with the best result, so does "best by result" here. The other methods choose their parameters on
held-out ratings. BooleanCompletion is not in the paper. All methods except the ordinal GLRM get
only bits, not ratings.

    python experiments/movielens.py --data ml-100k
    python experiments/movielens.py --data ml-1m --full
    python experiments/movielens.py --data ml-100k --only BooleanCompletion
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path

import numpy as np
from common import (
    RESULTS,
    conclude,
    figure,
    grouped,
    listed,
    run_all,
    save,
    seconds_of,
    start,
    with_earlier,
    write_csv,
)

MEASURES = ("model", "engine", "fit", "baselines")
SHARES = (0.01, 0.05, 0.1, 0.2, 0.5, 0.95)
METHODS = (
    "max-sum", "auto", "GLRM ordinal hinge, best by result", "GLRM logistic, best by result",
    "1-bit, best by result", "auto, rank learned", "GLRM ordinal hinge", "GLRM logistic", "1-bit",
    "row and column bias", "majority", "BooleanCompletion",
)  # fmt: skip
PAPER = {
    ("ml-100k", "max-sum"): (52, 60, 63, 65, 67, 70),
    ("ml-100k", "GLRM ordinal hinge, best by result"): (48, 58, 63, 67, 69, 70),
    ("ml-100k", "GLRM logistic, best by result"): (45, 50, 62, 63, 62, 67),
    ("ml-100k", "1-bit, best by result"): (50, 53, 61, 65, 70, 72),
    ("ml-1m", "max-sum"): (56, 65, 67, 69, 71, 71),
    ("ml-1m", "GLRM ordinal hinge, best by result"): (48, 65, 68, 70, 71, 72),
    ("ml-1m", "GLRM logistic, best by result"): (46, 63, 63, 63, 63, 62),
}
RANK = 2


def candidates(method: str, seed: int) -> list:
    """The models of a method; "by result" are those of which the paper reports the best."""
    from boolweave import BooleanCompletion, BooleanMatrixFactorization
    from boolweave.baselines import GLRM, BiasModel, Majority, OneBitCompletion

    loss = {"GLRM ordinal hinge": "ordinal", "GLRM logistic": "logistic"}.get(method.split(",")[0])
    if loss and "by result" in method:
        return [
            GLRM(RANK, loss=loss, regularization=s, offset=False, random_state=seed)
            for s in (0.01, 0.1, 1.0, 10.0)
        ]
    if loss:
        return [GLRM(loss=loss, random_state=seed)]
    if method == "1-bit, best by result":
        return [
            OneBitCompletion(beta, rank=RANK, offset=False, random_state=seed)
            for beta in (0.1, 1.0, 10.0)
        ]
    other = {
        "1-bit": OneBitCompletion(random_state=seed),
        "row and column bias": BiasModel(random_state=seed),
        "majority": Majority(),
        "BooleanCompletion": BooleanCompletion(random_state=seed),
        "auto, rank learned": BooleanMatrixFactorization(random_state=seed),
    }
    return [other.get(method) or BooleanMatrixFactorization(RANK, method=method, random_state=seed)]


def one(task: dict) -> dict:
    """Compute the accuracy of the best candidate on hidden ratings, and the seconds of all."""
    from boolweave.data.observations import Observations
    from boolweave.datasets import read_movielens

    read = read_movielens(task["data"])
    ratings = read.ratings
    shape = (len(read.users), len(read.films))
    bits = (ratings > ratings.mean()).astype(np.uint8)
    votes = Observations.from_triples(
        read.rows, read.columns, bits, shape=shape, duplicates="majority"
    )
    kept, rows, columns, values = votes.hide(1 - task["observed"], random_state=task["repeat"])
    of_entry = dict(zip(zip(read.rows, read.columns, strict=True), ratings, strict=True))
    entries = zip(kept.rows_of_entries(), kept.indices, strict=True)
    given = np.array([of_entry[entry] for entry in entries])
    right, seconds = [], 0.0
    for model in candidates(task["method"], task["repeat"]):
        options = {"ratings": given} if getattr(model, "loss", "") == "ordinal" else {}
        seconds += seconds_of(model.fit, kept, **options)
        right.append(float(np.mean(model.predict(rows, columns) == values)))
    return {"accuracy": max(right), "seconds": seconds}


def data_folder(options) -> Path | None:
    from boolweave.datasets import fetch_movielens

    if options.data is not None:
        return options.data
    try:
        return fetch_movielens(options.download, RESULTS.parent / "data")
    except (OSError, ValueError) as error:
        print(f"movielens is left out: {error}", file=sys.stderr)
        return None


def main() -> None:
    def more(parser: ArgumentParser) -> None:
        parser.add_argument("--data", type=Path, help="folder of your copy of the data")
        parser.add_argument("--download", default="ml-100k", help="data set to download (ml-100k)")
        parser.add_argument("--name", help="ml-100k or ml-1m, if the folder has another name")

    run = start(__file__, __doc__, more, measures=MEASURES)
    folder = data_folder(run.options)
    if folder is None:
        return
    name = run.options.name or folder.resolve().name
    tiny = ("max-sum", "GLRM ordinal hinge", "row and column bias")
    methods = run.chosen(run.pick(tiny, METHODS, METHODS))
    tasks = [
        {"data": str(folder), "method": method, "observed": share, "repeat": repeat}
        for method in methods for share in run.pick((0.5,), SHARES, SHARES)
        for repeat in range(run.pick(1, 1, 3))
    ]  # fmt: skip
    rows = run_all(run, one, tasks)
    table = []
    for (method,), group in grouped(rows, "method").items():
        line = {"data": name, "method": method}
        for (share,), part in grouped(group, "observed").items():
            line[f"{share:.0%}"] = float(np.mean([row["accuracy"] for row in part]))
            published = PAPER.get((name, method))
            place = SHARES.index(share)
            line[f"paper {share:.0%}"] = published[place] / 100 if published else ""
        times = [row["seconds"] for row in group]
        table.append({**line, "least_seconds": min(times), "most_seconds": max(times)})
    table = with_earlier(run, table, METHODS)
    write_csv(run, table)
    seen = shares_of(table)
    draw(run, name, table)
    lines = [
        f"{line['method']} gets these shares of the hidden ratings right: "
        + listed([f"{line[key]:.1%} with {key} seen" for key in seen])
        for line in table if line["method"] in ("max-sum", "BooleanCompletion")
    ]  # fmt: skip
    conclude(run, f"On {name}, {'; '.join(lines)}.")


def shares_of(table: list[dict]) -> list[str]:
    """The names of the columns with accuracies, such as "5%"."""
    return [key for key in table[0] if key.endswith("%") and not key.startswith("paper")]


def draw(run, name: str, table: list[dict]) -> None:
    """Draw the accuracies: solid lines for the paper's methods, dashed lines for the others."""
    seen = shares_of(table)
    drawn, axes = figure(8.5, 4)
    for i, line in enumerate(table):
        style = "o-" if "by result" in line["method"] or line["method"] == "max-sum" else "o--"
        shares = [float(key[:-1]) / 100 for key in seen]
        axes[0, 0].plot(
            shares, [line[key] for key in seen], style, label=line["method"],
            color=f"C{i}" if i < 10 else ("black", "gray")[i - 10], markersize=4,
        )  # fmt: skip
    axes[0, 0].set(xlabel="share of the ratings seen", ylabel="accuracy", xscale="log", title=name)
    axes[0, 0].set_xticks(shares, seen)
    axes[0, 0].legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    save(run, drawn)


if __name__ == "__main__":
    main()
