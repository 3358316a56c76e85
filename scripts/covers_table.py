"""Fill docs/covers.md with the results of `benchmarks/covers.py`.

With --check, nothing is written, and the script fails if the page is out of date.

    BOOLWEAVE_DATA=... python benchmarks/covers.py && python scripts/covers_table.py
"""

from __future__ import annotations

from measured_page import fill, markdown


def rows_of(report: dict, names: list[str]) -> str:
    rows = []
    for name in names:
        line = report["tables"][name]
        rows.append([
            name, " × ".join(map(str, line["shape"])), f"{line['grants']:,}",
            "–" if line["kernel"] is None else f"{line['kernel']:,}",
            f"{line['roles']:.0f}", f"{line['bound']:.0f}", str(line["planted"] or ""),
            f"{line['cpu_seconds']:.1f}",
        ])  # fmt: skip
    head = ["data set", "users × permissions", "grants", "kernel", "roles", "bound", "planted"]
    return markdown([*head, "seconds"], rows)


def single(report: dict) -> str:
    """All tables, published ones first."""
    return rows_of(report, list(report["tables"]))


def noisy(report: dict) -> str:
    rows = [
        [
            " × ".join(map(str, line["shape"])), str(line["planted"]),
            *(f"{line[kind]['roles']:.0f} ({line[kind]['found']})" for kind in ("exact", "noisy")),
        ]
        for line in report["noisy"]
    ]  # fmt: skip
    head = ["users × permissions", "planted", "roles of an exact cover", "roles with exceptions"]
    return markdown(head, rows)


if __name__ == "__main__":
    fill("covers", {"single": single, "noisy": noisy})
