"""Hidden votes of the Senate, 101st to 107th Congress: the paper's figure.

Some of the votes are observed, and the others are predicted. The rank K is chosen on held-out votes
among the observed ones; the table also has the error for the K with the best result, as in the
paper.

The paper compares max-sum with uniform priors and GLRM with hinge loss, quadratic regularization
and no offsets. It does not state the strength of the regularization for the votes (for ratings, it
uses the best of four strengths by the result). Therefore each of the four strengths has a line of
its own, and for "GLRM hinge" the strength is chosen by the same rule as K. "With offsets", each row
and column also has an offset, which is not in the paper. BooleanCompletion is not in the paper
either; it is run with its default parameters, so that there is no K to choose.

    python experiments/senate.py            # K = 1 to 4, 5% and 20%, minutes
    python experiments/senate.py --full     # K = 1 to 10, 5, 20 and 50%
    python experiments/senate.py --full --only BooleanCompletion
"""

from __future__ import annotations

from common import (
    conclude,
    extent,
    figure,
    grouped,
    listed,
    mean,
    run_all,
    save,
    start,
    with_earlier,
    write_csv,
)

MEASURES = ("model", "engine", "fit", "completion", "baselines")
COMPLETION = "BooleanCompletion"
METHODS = (
    "max-sum",
    "auto",
    COMPLETION,
    "GLRM hinge",
    "GLRM hinge, with offsets",
    "GLRM logistic, with offsets",
)
STRENGTHS = (0.01, 0.1, 1.0, 10.0)
ONE_BY_ONE = {f"GLRM hinge, strength {strength:g}": i for i, strength in enumerate(STRENGTHS)}
WEAKEST = next(iter(ONE_BY_ONE))
SHARE_OF_VALIDATION = 0.1


def models(method: str, rank: int, seed: int) -> list:
    """Make the candidates of a method at one rank."""
    from boolweave import BooleanCompletion, BooleanMatrixFactorization
    from boolweave.baselines import GLRM

    if method == COMPLETION:
        return [BooleanCompletion(random_state=seed)]
    if method == "GLRM hinge":
        return [
            GLRM(rank, loss="hinge", regularization=s, offset=False, random_state=seed)
            for s in STRENGTHS
        ]
    if method.startswith("GLRM"):
        loss = method.split(",")[0].removeprefix("GLRM ")
        return [GLRM(rank, loss=loss, regularization=s, random_state=seed) for s in STRENGTHS]
    starts = {"n_init": 5} if method == "max-sum" else {}
    return [BooleanMatrixFactorization(rank, method=method, random_state=seed, **starts)]


def one(task: dict) -> dict:
    """Compute the errors of every candidate at one rank on held-out and on hidden votes.

    A method without a choice of ranks has one candidate, for which nothing is held out.
    """
    from sklearn.base import clone

    from boolweave.datasets import load_senate

    votes = load_senate(task["congress"]).observations
    kept, rows, columns, values = votes.hide(1 - task["observed"], random_state=task["repeat"])
    inner, m, n, held_out = kept.hide(SHARE_OF_VALIDATION, random_state=task["repeat"])
    answers = []
    for model in models(task["method"], task["rank"], task["repeat"]):
        chosen_by = 0.0
        if task["rank"] is not None:
            chosen_by = float((clone(model).fit(inner).predict(m, n) != held_out).mean())
        error = float((model.fit(kept).predict(rows, columns) != values).mean())
        answers.append({"held_out": chosen_by, "error": error})
    return {"answers": answers}


def main() -> None:
    run = start(__file__, __doc__, measures=MEASURES)
    congresses = run.pick((107,), range(101, 108), range(101, 108))
    shares = run.pick((0.05,), (0.05, 0.2), (0.05, 0.2, 0.5))
    ranks = run.pick((1, 2), (1, 2, 3, 4), range(1, 11))
    methods = run.chosen(("max-sum", "GLRM hinge") if run.scale == "tiny" else METHODS)
    repeats = run.pick({0.05: 1}, {0.05: 1, 0.2: 1}, {0.05: 3, 0.2: 1, 0.5: 1})
    tasks = [
        {"congress": congress, "observed": share, "method": method, "rank": rank, "repeat": repeat}
        for share in shares for repeat in range(repeats[share]) for congress in congresses
        for method in methods for rank in ((None,) if method == COMPLETION else ranks)
    ]  # fmt: skip
    ran = run_all(run, one, tasks)
    rows = ran + [
        {**row, "method": name, "answers": row["answers"][i : i + 1]}
        for name, i in ONE_BY_ONE.items() for row in ran if row["method"] == "GLRM hinge"
    ]  # fmt: skip
    best = []
    for (congress, share, method, _), group in grouped(
        rows, "congress", "observed", "method", "repeat"
    ).items():
        answers = [(a, row["rank"]) for row in group for a in row["answers"]]
        honest = min(answers, key=lambda pair: pair[0]["held_out"])
        best.append(
            {
                "congress": congress, "observed": share, "method": method,
                "error": honest[0]["error"], "rank": honest[1],
                "error_best_by_result": min(a["error"] for a, _ in answers),
            }
        )  # fmt: skip
    table = [
        {
            "congress": congress, "observed": share, "method": method,
            "error": mean(group, "error"),
            "rank": "" if method == COMPLETION else mean(group, "rank"),
            "error_best_by_result": mean(group, "error_best_by_result"), "repeats": len(group),
        }
        for (congress, share, method), group in grouped(
            best, "congress", "observed", "method"
        ).items()
    ]  # fmt: skip
    table = with_earlier(run, table, METHODS)
    write_csv(run, table)
    draw(run, table)
    conclude(run, verdict(table), extent(ran, tasks))


def verdict(table: list[dict]) -> str:
    """State in how many Congresses our error at 5% is at most half of that of GLRM hinge.

    The first comparison is that of the paper: max-sum, with the best K by the result. The second is
    that of a user: auto, with K, and the strength if there are several, chosen on held-out votes.
    """
    words = []
    for column, ours, how in (
        ("error_best_by_result", "max-sum", "K chosen by the result"),
        ("error", "auto", "K chosen on held-out votes"),
    ):
        by = {(r["congress"], r["method"]): r[column] for r in table if r["observed"] == 0.05}
        congresses = sorted({congress for congress, method in by if method == ours})
        if not all((congress, "GLRM hinge") in by for congress in congresses) or not congresses:
            continue
        parts = []
        for peer in (*ONE_BY_ONE, "GLRM hinge"):
            ratios = [by[c, ours] / by[c, peer] for c in congresses]
            half = sum(ratio <= 0.5 for ratio in ratios)
            name = "the best strength" if peer == "GLRM hinge" else peer.split(", ")[1]
            parts.append(f"{min(ratios):.2f} to {max(ratios):.2f} at {name} ({half})")
        words.append(
            f"With 5% of the votes seen, the error of {ours} ({how}) divided by that of hinge GLRM "
            f"is {listed(parts)}; in brackets, in how many of the {len(congresses)} Congresses it "
            "is at most half."
        )
    return " ".join(words) or "The methods were not compared."


def draw(run, table: list[dict]) -> None:
    panels = grouped(table, "observed")
    drawn, axes = figure(4 * len(panels) + 1, 3.6, 1, len(panels), sharey=True)
    for axis, ((share,), part) in zip(axes[0], panels.items(), strict=True):
        for (method,), group in grouped(part, "method").items():
            if method in ONE_BY_ONE and method != WEAKEST:
                continue
            congresses = [row["congress"] for row in group]
            (line,) = axis.plot(congresses, [row["error"] for row in group], "o-", label=method)
            by_result = [row["error_best_by_result"] for row in group]
            axis.plot(congresses, by_result, ":", color=line.get_color())
        axis.set(title=f"{share:.0%} of the votes seen", xlabel="Congress")
    axes[0, 0].set_ylabel("error on hidden votes\n(dotted: K by the result)")
    axes[0, -1].legend(fontsize=8)
    axes[0, 0].set_ylim(0, None)
    save(run, drawn)


if __name__ == "__main__":
    main()
