"""Fill docs/speed.md with the results of `benchmarks/speed.py`.

With --check, nothing is written, and the script fails if the page is out of date.

    python benchmarks/speed.py && python scripts/speed_table.py
"""

from __future__ import annotations

from measured_page import fill, markdown


def steps(report: dict) -> str:
    rows = []
    for step in report["steps"]:
        if "failed" in step:
            rows.append([step["label"], str(step["K"]), step["failed"], *[""] * 6])
            continue
        one, two = (step["threads"][n] for n in ("1", "2"))
        max_sum = one["max-sum"]
        ms = max_sum["best_s"] * 1e3
        gain = max_sum["wall_s"] / two["max-sum"]["wall_s"]
        rows.append([
            step["label"], str(step["K"]), f"{ms:.3g}" if ms < 1000 else f"{ms:.0f}",
            f"{max_sum['ns_each']:.2f}", f"{one['triad_ns']:.2f}", f"{max_sum['triads']:.1f}",
            f"{one['sum-product']['ns_each']:.2f}", f"{gain:.2f}", f"{step['bytes_each']:.1f}",
        ])  # fmt: skip
    head = ["problem", "K", "ms", "ns", "triad, ns", "triads", "sum-product, ns", "two threads"]
    return markdown([*head, "bytes"], rows)


def planted(report: dict) -> str:
    ours = report["planted"]["boolweave, 1 thread"]["time_s"]
    rows = []
    for name, result in report["planted"].items():
        seconds = result.get("time_s", result.get("longer_than_s"))
        if seconds is None:
            rows.append([name, result.get("failed", "–"), "", ""])
            continue
        error = f"{result['arrived']} runs ≤ 0.001" if "runs" in result else ""
        if result.get("error") is not None:
            error = f"{result['error']:.4f}"
        scaled = " (scaled to 200 iterations)" if result.get("scaled_from") else ""
        more = "more than " if "time_s" not in result else ""
        ratio = f"{more}{seconds / ours:.0f}" if seconds > 10 * ours else f"{seconds / ours:.1f}"
        rows.append([name + scaled, f"{more}{seconds:.3g}", error, ratio])
    return markdown(["program", "seconds", "error", "times boolweave's"], rows)


if __name__ == "__main__":
    fill("speed", {"steps": steps, "planted": planted})
