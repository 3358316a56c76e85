"""Tables and the picture of the results of `speed.py`."""

from __future__ import annotations

import sys
from pathlib import Path

# Targets: the maximum time of an iteration with one thread, in triads.
GOALS = {"dense": 2.0, ", 100 a row": 4.0, ", 10 a row": 6.0}


def print_tables(report: dict) -> None:
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else max(150, Console().width))
    console.print(steps_table(report["steps"]))
    for line in ratios(report["steps"]):
        console.print(line, highlight=False)
    console.print(planted_table(report["planted"]))
    first = report["first_fit"]
    console.print(
        f"First fit of a process: {show(first['empty_cache'].get('wall_s'), '.1f')} s with "
        f"compilation ({show(first['empty_cache'].get('cpu_s'), '.1f')} s of one core; goal 8), "
        f"{show(first['warm_cache'].get('wall_s'), '.1f')} s from the cache."
    )


def show(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def goal_of(label: str) -> float | None:
    return next((goal for name, goal in GOALS.items() if name in label), None)


def steps_table(steps: list[dict]):
    from rich.table import Table

    table = Table(title="One iteration; ns and triads are per observed entry and factor")
    table.add_column("problem", no_wrap=True)
    for name in (
        "K", "threads", "triad ns", "max-sum ms", "median", "ns", "triads", "goal",
        "sum-product ns", "÷ max-sum", "bytes", "expected ÷", "peak MB",
    ):  # fmt: skip
        table.add_column(name, justify="right")
    for step in steps:
        if "failed" in step:
            table.add_row(step["label"], str(step["K"]), step["failed"])
            continue
        goal = goal_of(step["label"])
        for n_threads, one in step["threads"].items():
            alone = str(n_threads) == "1"
            max_sum, sum_product = one["max-sum"], one["sum-product"]
            table.add_row(
                step["label"] if alone else "",
                str(step["K"]) if alone else "",
                str(n_threads),
                f"{one['triad_ns']:.2f}",
                f"{max_sum['best_s'] * 1e3:.3g}",
                f"{max_sum['median_s'] * 1e3:.3g}",
                f"{max_sum['ns_each']:.2f}",
                f"{max_sum['triads']:.1f}",
                show(goal if alone else None, ".0f"),
                f"{sum_product['ns_each']:.2f}",
                f"{sum_product['ns_each'] / max_sum['ns_each']:.2f}",
                f"{step['bytes_each']:.2f}" if alone else "",
                f"{step['expected_memory']:.2f}" if alone else "",
                f"{step['peak_mb']:.0f}" if alone else "",
                end_section=not alone,
            )
    return table


def ratios(steps: list[dict]) -> list[str]:
    """The speed-up by two threads, and the growth of the time beyond 10⁶ entries."""
    done = [step for step in steps if "failed" not in step]
    lines = []
    for step in done:
        times = {str(n): one["max-sum"]["wall_s"] for n, one in step["threads"].items()}
        if step["entries"] >= 10**6:
            lines.append(f"{step['label']}: two threads {times['1'] / times['2']:.2f} × one")
    for kind in ("100 a row", "10 a row"):
        costs = {}
        for step in done:
            if step["label"].endswith(", " + kind):
                one = next(iter(step["threads"].values()))
                costs[step["entries"]] = one["max-sum"]["ns_each"]
        for entries, cost in costs.items():
            if entries > 10**6 and 10**6 in costs:
                ratio = cost / costs[10**6]
                lines.append(f"{kind}: an entry of {entries:.0e} costs {ratio:.2f} × one of 1e6")
    return lines


def planted_table(planted: dict[str, dict]):
    from rich.table import Table

    table = Table(title="Planted 1000 × 1000, K = 5, 10% flips: boolweave to an error of 0.001")
    table.add_column("program")
    for name in ("time s", "iterations", "error", "boolweave is faster ×", "peak MB"):
        table.add_column(name, justify="right")
    ours = planted.get("boolweave, 1 thread", {}).get("time_s")
    for name, result in planted.items():
        seconds = result.get("time_s", result.get("longer_than_s"))
        if "runs" in result:
            iterations = ", ".join(str(run["iterations"]) for run in result["runs"])
            error = f"{result['arrived']} arrive"
        else:
            counted = result.get("scaled_from") or result.get("iterations") or "–"
            iterations = str(counted[0] if isinstance(counted, list) else counted)
            error = show(result.get("error"), ".4f")
        scaled = "*" if result.get("scaled_from") else ""
        if "failed" in result:
            error = result["failed"]
        faster = seconds / ours if ours and seconds else None
        table.add_row(
            name,
            show(seconds, ".3f") + scaled,
            iterations,
            error,
            show(faster, ".3g"),
            show(result.get("peak_mb"), ".0f"),
        )
    table.caption = (
        "* scaled to 200 iterations. Others are judged at the threshold that is best against the "
        "truth, which no user has."
    )
    return table


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
            points = [
                (s["entries"], {str(n): one for n, one in s["threads"].items()}[n_threads])
                for s in steps
            ]
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
