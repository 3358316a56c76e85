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
    rows = []
    for name, result in report["planted"].items():
        if "failed" in result:
            rows.append([f"`{name}`" if "(" in name else name, result["failed"], "", ""])
            continue
        low, high = min(result["errors"]), max(result["errors"])
        error = f"{low:.4f}" if f"{low:.4f}" == f"{high:.4f}" else f"{low:.4f} to {high:.4f}"
        times = [f"{result[time]:.3g}" for time in ("first_s", "again_s")]
        rows.append([f"`{name}`" if "(" in name else name, *times, error])
    return markdown(["call", "new process, s", "same process, s", "error"], rows)


if __name__ == "__main__":
    made = {"steps": "speed:steps", "planted": "speed:planted"}
    fill("speed", {"steps": steps, "planted": planted}, made=made)
