"""The results of `speed.py` in lines, and their picture."""

from __future__ import annotations

from pathlib import Path

# Targets: the maximum time of an iteration with one thread, in triads.
GOALS = {"dense": 2.0, ", 100 a row": 4.0, ", 10 a row": 6.0}


def lines(report: dict) -> list[str]:
    """All results in words; `scripts/speed_table.py` makes the tables of the documentation."""
    first = {name: found.get("wall_s", float("nan")) for name, found in report["first_fit"].items()}
    return [
        *map(step_line, report["steps"]),
        *ratios(report["steps"]),
        *(planted_line(name, result) for name, result in report.get("planted", {}).items()),
        f"first fit of a process: {first['empty_cache']:.1f} s with compilation (goal: 8 s of one "
        f"core), {first['warm_cache']:.1f} s from the cache",
    ]


def step_line(step: dict) -> str:
    """The time of an iteration with one thread, and the memory, per entry and factor."""
    if "failed" in step:
        return f"{step['label']}: {step['failed']}"
    max_sum, sum_product = (step["threads"]["1"][kind] for kind in ("max-sum", "sum-product"))
    goal = next((f", goal {goal:g}" for name, goal in GOALS.items() if name in step["label"]), "")
    return (
        f"{step['label']}: {max_sum['ns_each']:.2f} ns = {max_sum['triads']:.1f} triads{goal}; "
        f"sum-product {sum_product['ns_each']:.2f} ns; {step['bytes_each']:.2f} bytes, estimated "
        f"at {step['expected_memory']:.0%} of that"
    )


def ratios(steps: list[dict]) -> list[str]:
    """The speed-up by two threads, and the growth of the time beyond 10⁶ entries."""
    done = [step for step in steps if "failed" not in step]
    found = []
    for step in done:
        one, two = (step["threads"][n]["max-sum"]["wall_s"] for n in ("1", "2"))
        if step["entries"] >= 10**6:
            found.append(f"{step['label']}: two threads are {one / two:.2f} times as fast")
    for kind in ("100 a row", "10 a row"):
        costs = {
            step["entries"]: step["threads"]["1"]["max-sum"]["ns_each"]
            for step in done
            if step["label"].endswith(", " + kind)
        }
        for entries, cost in costs.items():
            if entries > 10**6 and 10**6 in costs:
                ratio = cost / costs[10**6]
                found.append(f"{kind}: one of {entries:.0e} entries takes {ratio:.2f} × one of 1e6")
    return found


def planted_line(name: str, result: dict) -> str:
    """The time of whole calls on the planted problem, and their errors.

    The error of others is that with the threshold that is best compared with the truth.
    """
    if "failed" in result:
        return f"{name}: {result['failed']}"
    errors = ", ".join(dict.fromkeys(f"{error:.4f}" for error in result["errors"]))
    return (
        f"{name}: {result['first_s']:.2f} s of a core in a new process, {result['again_s']:.2f} s "
        f"in the same one, error {errors}, {result['peak_mb']:.0f} MB"
    )


def draw(report: dict, file: Path) -> None:
    """Draw the time of an iteration against the number of entries, on logarithmic axes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 5), layout="constrained")
    colours = {"100 a row": "C0", "10 a row": "C1"}
    triads: dict[int, float] = {}
    for kind, colour in colours.items():
        steps = [s for s in report["steps"] if s["label"].endswith(", " + kind)]
        steps = [s for s in steps if "failed" not in s]
        for n_threads, style in (("1", "-o"), ("2", "--s")):
            points = [(s["entries"], s["threads"][n_threads]) for s in steps]
            axes.loglog(
                [entries for entries, _ in points],
                [one["max-sum"]["best_s"] for _, one in points],
                style, color=colour, label=f"{kind}, {n_threads} thread{'s' * (n_threads == '2')}",
            )  # fmt: skip
            if n_threads == "1":
                triads |= {e: one["triad_ns"] * 1e-9 * e * steps[0]["K"] for e, one in points}
    order = sorted(triads)
    axes.loglog(order, [triads[e] for e in order], ":", color="0.4", label="triad, 1 thread")
    axes.set_xlabel("observed entries")
    axes.set_ylabel("seconds for one iteration of max-sum, K = 10")
    axes.grid(which="both", alpha=0.25)
    axes.legend()
    figure.savefig(file, dpi=150)
    plt.close(figure)
