"""Hidden votes of the Senate, 101st to 107th Congress: the paper's figure.

Some of the votes are seen, the rest is predicted. The rank K is chosen on held-out votes among the
seen ones; beside it stands the error at the K that is best by the result, as in the paper.
"GLRM hinge" is the paper's: no offsets, quadratic regularisation, the best of its four strengths by
the same rule as K; "hardly regularised" is its weakest strength alone. "With offsets" each row and
column has an offset of its own besides.

    python experiments/senate.py            # three Congresses, minutes
    python experiments/senate.py --full     # all seven, K = 1 to 10
"""

from __future__ import annotations

from common import figure, grouped, mean, run_all, save, say, start, write_csv

METHODS = (
    "max-sum",
    "auto",
    "GLRM hinge",
    "GLRM hinge, with offsets",
    "GLRM logistic, with offsets",
)
OURS = ("max-sum", "auto")
HARDLY = "GLRM hinge, hardly regularised"  # the first strength of "GLRM hinge"
STRENGTHS = (0.01, 0.1, 1.0, 10.0)
SCALE_OF_VALIDATION = 0.1


def models(method: str, rank: int, seed: int) -> list:
    """The candidates at one rank."""
    from boolweave import BooleanMatrixFactorization
    from boolweave.baselines import GLRM

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
    """Held-out and hidden errors of every candidate at one rank."""
    from sklearn.base import clone

    from boolweave.datasets import load_senate

    votes = load_senate(task["congress"]).observations
    kept, rows, columns, values = votes.hide(1 - task["observed"], random_state=task["repeat"])
    inner, m, n, held_out = kept.hide(SCALE_OF_VALIDATION, random_state=task["repeat"])
    answers = []
    for model in models(task["method"], task["rank"], task["repeat"]):
        chosen_by = float((clone(model).fit(inner).predict(m, n) != held_out).mean())
        error = float((model.fit(kept).predict(rows, columns) != values).mean())
        answers.append({"held_out": chosen_by, "error": error})
    return {"answers": answers}


def main() -> None:
    run = start(__file__, __doc__)
    congresses = run.pick((107,), (101, 104, 107), range(101, 108))
    shares = run.pick((0.05,), (0.05, 0.2), (0.05, 0.2, 0.5))
    ranks = run.pick((1, 2), (1, 2, 3, 4), range(1, 11))
    methods = ("max-sum", "GLRM hinge") if run.scale == "tiny" else METHODS
    repeats = run.pick(1, 1, 3)
    tasks = [
        {"congress": congress, "observed": share, "method": method, "rank": rank, "repeat": repeat}
        for congress in congresses for share in shares for method in methods
        for rank in ranks for repeat in range(repeats)
    ]  # fmt: skip
    rows = run_all(run, one, tasks)
    rows += [
        {**row, "method": HARDLY, "answers": row["answers"][:1]}
        for row in rows if row["method"] == "GLRM hinge"
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
            "error": mean(group, "error"), "rank": mean(group, "rank"),
            "error_best_by_result": mean(group, "error_best_by_result"), "repeats": len(group),
        }
        for (congress, share, method), group in grouped(
            best, "congress", "observed", "method"
        ).items()
    ]  # fmt: skip
    write_csv(run, table)
    draw(run, table)
    say(run, verdict(table))


def verdict(table: list[dict]) -> str:
    """In how many Congresses our error at 5% is at most half of hinge's."""
    words = []
    for column, how in (("error", "held-out votes"), ("error_best_by_result", "the result")):
        by = {(r["congress"], r["method"]): r[column] for r in table if r["observed"] == 0.05}
        congresses = sorted({congress for congress, _ in by})
        for peer, name in ((HARDLY, "a hardly regularised hinge GLRM"), ("GLRM hinge", "the best")):
            ours = [min(by[c, m] for m in OURS if (c, m) in by) for c in congresses]
            ratios = [error / by[c, peer] for c, error in zip(congresses, ours, strict=True)]
            half = sum(ratio <= 0.5 for ratio in ratios)
            shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
            words.append(f"{half} of {len(ratios)} against {name} ({shown}; K by {how})")
    return "5% of the votes seen: at most half the error in " + ", ".join(words)


def draw(run, table: list[dict]) -> None:
    panels = grouped(table, "observed")
    drawn, axes = figure(4 * len(panels) + 1, 3.6, 1, len(panels), sharey=True)
    for axis, ((share,), part) in zip(axes[0], panels.items(), strict=True):
        for (method,), group in grouped(part, "method").items():
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
