"""Speed of completion: messages with a channel per entry, fits compared with tuned GLRM, memory.

    python benchmarks/completion_speed.py                   # 10^5 ratings, and the other parts
    python benchmarks/completion_speed.py --million         # also 10^6 ratings
    python benchmarks/completion_speed.py --only examples   # this part; others stay as they are

messages   nanoseconds per entry and factor, the smallest of four runs
fits       synthetic ratings: offsets, six directions, numbers of entries per row and column as in
           ratings of films, and more entries where ratings are good
examples   fits with default parameters to half of the votes of a Senate, and to half of
           MovieTweetings if $BOOLWEAVE_DATA has it: processor time, memory, model file, new rows

Results are stored in results/completion_speed.json; `scripts/completion_table.py` puts them into
the documentation.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from boolweave import BooleanCompletion, Observations
from boolweave.baselines import GLRM
from boolweave.completion.layers import BooleanLayer, LayerEntries
from boolweave.completion.table import Table
from boolweave.engine.backend import State
from boolweave.engine.integers import step
from boolweave.metrics import log_loss
from processes import answer_of, memory_now, peak_memory, record

RESULTS = Path(__file__).parent / "results" / "completion_speed.json"
PARTS = ("messages", "fits", "examples")
SHAPES = {100_000: (943, 1682), 1_000_000: (6040, 3706)}

# How much more probable a rating is if it would be a good one, in log-odds per unit of taste.
DRAWN = 3.0


def ratings(n: int) -> tuple[Observations, tuple[np.ndarray, ...]]:
    """Make ratings, of which a twentieth is held out as rows, columns and values."""
    rng = np.random.default_rng(0)
    M, N = SHAPES[n]
    active, popular = rng.lognormal(0, 1, M), rng.lognormal(0, 1.3, N)
    u, v = rng.normal(0, 0.35, (M, 6)), rng.normal(0, 0.5, (N, 6))
    key = np.zeros(0, dtype=np.int64)
    while len(key) < n:
        m = rng.choice(M, n, p=active / active.sum())
        c = rng.choice(N, n, p=popular / popular.sum())
        # people rate what they like: so which ratings there are says something about tastes
        rated = rng.random(n) < 1 / (1 + np.exp(-DRAWN * (u[m] * v[c]).sum(axis=1)))
        key = np.unique(np.concatenate([key, m[rated] * N + c[rated]]))
    m, c = np.divmod(rng.permutation(key)[:n], N)
    mean = rng.normal(0, 0.6, M)[m] + rng.normal(0, 0.7, N)[c] + (u[m] * v[c]).sum(axis=1)
    values = (mean + rng.normal(size=n) > -0.2).astype(np.uint8)
    hidden = rng.random(n) < 0.05
    seen = Observations.from_triples(m[~hidden], c[~hidden], values[~hidden], shape=(M, N))
    return seen, (m[hidden], c[hidden], values[hidden])


def messages(n: int, n_components: int = 4, n_steps: int = 20) -> dict[str, float]:
    """Nanoseconds per entry and factor of a step with one channel, and with one per entry."""
    seen, _ = ratings(n)
    entries = LayerEntries(Table.of(seen))
    layer = BooleanLayer(entries, n_components, 0.8, np.random.default_rng(0))
    mean = np.zeros(seen.n_observed, dtype=np.float32)
    layer.update(mean, mean, np.array([-np.inf, 0.0, np.inf]), 3)
    own = layer.problem
    problems = {"one channel": replace(own, per_entry=None), "a channel per entry": own}
    least = dict.fromkeys(problems, np.inf)
    for _ in range(4):
        for name, problem in problems.items():
            state = State(layer.state.messages, semiring="sum-product")
            begun = time.thread_time()
            for i in range(n_steps):
                # With another damping in each step, no entry is skipped as unchanged.
                step(problem, state, 0.5 + 0.01 * (i % 2), _all_of(problem), lambda sums: sums)
            took = (time.thread_time() - begun) / n_steps
            least[name] = min(least[name], took * 1e9 / (seen.n_observed * n_components))
    return {name: float(value) for name, value in least.items()}


def _all_of(problem):
    return lambda update: [update(list(range(len(problem.blocks))))]


def fits(n: int, n_jobs: int) -> list[dict[str, float | str]]:
    """Seconds and held-out log-loss of ours and of the tuned GLRM."""
    seen, (rows, columns, values) = ratings(n)
    rows_out = []
    for name, model in (
        ("BooleanCompletion", BooleanCompletion(random_state=0, n_jobs=n_jobs)),
        ("GLRM logistic", GLRM(absent="missing", random_state=0)),
    ):
        begun, cpu = time.perf_counter(), time.process_time()
        model.fit(seen)
        row = {
            "ratings": n,
            "method": name,
            "seconds": time.perf_counter() - begun,
            "seconds of cores": time.process_time() - cpu,
            "log-loss": log_loss(values, model.predict_proba(rows, columns)),
        }
        print(row, flush=True)
        rows_out.append(row)
    return rows_out


def example(name: str) -> dict[str, float]:
    """One fit with default parameters, in a process of its own because of its memory."""
    import completion

    kept = completion.tables()[name].load()[0].hide(0.5, random_state=0)[0]
    BooleanCompletion(n_members=2, random_state=0).fit(kept.take_rows(slice(60)))  # compiles
    before, begun = memory_now(), time.process_time()
    model = BooleanCompletion(random_state=0, n_jobs=1).fit(kept)
    answer = {
        "entries": kept.n_observed, "rows": kept.shape[0], "columns": kept.shape[1],
        "cpu_s": time.process_time() - begun, "memory_mb": (peak_memory() - before) / 1e6,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.npz")
        answer["file_mb"] = (Path(folder) / "model.npz").stat().st_size / 1e6
    if name.startswith("senate"):
        new = kept.take_rows(slice(200))
        model.transform(new)
        begun = time.process_time()
        model.transform(new)
        answer["new_row_ms"] = (time.process_time() - begun) / 200 * 1e3
    return answer


def examples() -> dict[str, dict]:
    found = {}
    for name in ("senate-107", "movietweetings"):
        if name == "movietweetings" and "BOOLWEAVE_DATA" not in os.environ:
            continue
        found[name] = answer_of([sys.executable, __file__, "--example", name])
        print(name, found[name], flush=True)
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--only", nargs="+", choices=PARTS, help="some of the parts")
    options.add_argument("--example", help=argparse.SUPPRESS)
    options.add_argument("--million", action="store_true", help="also 10^6 ratings")
    options.add_argument("--threads", type=int, default=2)
    given = options.parse_args()
    if given.example:
        print(json.dumps(example(given.example)))
        return
    parts = given.only or PARTS
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if "messages" in parts:
        found["messages"] = messages(1_000_000 if given.million else 100_000)
        one, each = found["messages"].values()
        ratio = each / one
        print(f"ns per entry and factor: {one:.2f} one channel, {each:.2f} per entry: {ratio:.2f}")
    if "fits" in parts:
        BooleanCompletion(n_members=2, random_state=0).fit(ratings(100_000)[0].take_rows(slice(60)))
        sizes = (100_000, 1_000_000)[: 2 if given.million else 1]
        found["fits"] = [line for n in sizes for line in fits(n, given.threads)]
    if "examples" in parts:
        found["examples"] = examples()
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    record(RESULTS, ("completion", "engine", "baselines"), given.only or ())


if __name__ == "__main__":
    main()
