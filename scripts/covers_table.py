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


def assignments(report: dict) -> str:
    """Both objectives beside the lowest complexity that was published."""
    rows = [
        [
            line["name"],
            *(str(line["roles"][key]) for key in ("roles", "complexity")),
            *(f"{line['assignments'][key]:.0f}" for key in ("roles", "complexity", "bound")),
            f"{line['assignments']['cpu_seconds']:.1f}", str(line["published"]),
        ]
        for line in report["assignments"]
    ]  # fmt: skip
    head = ["data set", "fewest roles", "complexity", "roles", "least complexity", "bound"]
    return markdown([*head, "seconds", "published"], rows)


if __name__ == "__main__":
    pages = {"single": single, "noisy": noisy, "assignments": assignments}
    fill(
        "covers",
        pages,
        made={
            "single": "covers:tables",
            "noisy": "covers:noisy",
            "assignments": "covers:assignments",
        },
    )
