"""Histogram of the messages at iterations 2, 20 and 200 for K = 2: the paper's appendix C.

These are the messages to rows (Φ, as fractions of their bound |L|) of a random factorization with
all entries observed. Messages near 0 have no effect, as if their edges, and the loops that contain
these, were not part of the graph.

    python experiments/histogram.py            # 300 × 300
    python experiments/histogram.py --full     # 1000 × 1000
"""

from __future__ import annotations

import numpy as np
from common import conclude, figure, grouped, listed, run_all, save, start, write_csv

MEASURES = ("model", "engine")
ITERATIONS = (2, 20, 200)
BINS = 41
NEGLIGIBLE = 0.05  # messages below this fraction of their bound count as near zero


def one(task: dict) -> dict:
    """Compute histograms of the messages at the given iterations, as fractions."""
    from boolweave.datasets import make_boolean
    from boolweave.engine.floats import FloatBackend, unpack
    from boolweave.model.channel import Channel
    from boolweave.model.model import Model

    planted = make_boolean(task["size"], task["size"], 2, random_state=task["seed"])
    model = Model(n_components=2, channel=Channel.symmetric(0.1), row_prior=0.5, column_prior=0.5)
    backend = FloatBackend(planted.observations)
    problem = backend.problem(model)
    state = backend.random_start(problem, np.random.default_rng(task["seed"]))
    bound = float(np.log(0.9 / 0.1))
    edges = np.linspace(-1, 1, BINS + 1)
    shares, idle = [], []
    for iteration in range(1, max(ITERATIONS) + 1):
        backend.step(problem, state, 0.4)
        if iteration in ITERATIONS:
            to_row = np.clip(unpack(problem, state.messages.to_row) / bound, -1, 1)
            shares.append((np.histogram(to_row, edges)[0] / to_row.size).tolist())
            idle.append(float(np.mean(np.abs(to_row) < NEGLIGIBLE)))
    return {"shares": shares, "idle": idle}


def main() -> None:
    run = start(__file__, __doc__, by_method=False, measures=MEASURES)
    size = run.pick(30, 300, 1000)
    (answer,) = run_all(run, one, [{"size": size, "seed": 0}])
    centres = (np.arange(BINS) + 0.5) * 2 / BINS - 1
    table = [
        {"iteration": t, "message": float(centre), "share": share, "near_zero": idle, "size": size}
        for t, shares, idle in zip(ITERATIONS, answer["shares"], answer["idle"], strict=True)
        for centre, share in zip(centres, shares, strict=True)
    ]
    write_csv(run, table)
    drawn, axes = figure(10, 3, 1, 3, sharey=True)
    for axis, ((t,), group) in zip(axes[0], grouped(table, "iteration").items(), strict=True):
        axis.bar([row["message"] for row in group], [row["share"] for row in group], 2 / BINS)
        axis.set(
            title=f"iteration {t}: {group[0]['near_zero']:.0%} near zero", yscale="log",
            xlabel="message as a share of |L|",
        )  # fmt: skip
    axes[0, 0].set_ylabel("share of messages")
    save(run, drawn)
    words = [
        f"{idle:.0%} in iteration {t}" for t, idle in zip(ITERATIONS, answer["idle"], strict=True)
    ]
    which = f"messages below {NEGLIGIBLE:.0%} of their bound"
    conclude(run, f"The share of {which} is {listed(words)}.")


if __name__ == "__main__":
    main()
