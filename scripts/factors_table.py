"""Fill docs/factors.md from what `benchmarks/factors.py` measured.

Between ``<!-- table name -->`` and ``<!-- end -->`` whatever stands is replaced, and the picture is
copied; without results nothing stands there. With --check nothing is written; it fails if the page
is behind.

    python benchmarks/factors.py && python scripts/factors_table.py
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

from factors_report import OTHERS, by, closing, other, readable, sign

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "factors.json"
PAGE = ROOT / "docs" / "factors.md"
PICTURE = ROOT / "docs" / "pictures" / "factors.png"
BLOCK = re.compile(r"<!-- table (\w+) -->\n.*?<!-- end -->", re.DOTALL)

TITLES = {"fewest-errors": "fewest errors", "one-hot": "one-hot"}


def markdown(head: list[str], rows: list[list[str]], text: set[int]) -> str:
    """A table; the columns in `text` hold words, the others numbers."""
    rule = ["---" if n in text else "---:" for n in range(len(head))]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, rule, *rows])


def summary(report: dict) -> str:
    """When and how was measured, and the closing lines of the benchmark."""
    seeds = "one seed" if report["seeds"] == 1 else f"{report['seeds']} seeds"
    head = (
        f"Measured on {report['date'][:10]} with boolweave {report['versions']['boolweave']}: "
        f"{report['seconds']:g} s a cell on {report['threads']} threads, {seeds}."
    )
    return "\n".join([head, "", *(f"- {line}" for line in closing(report))])


def measured_others(lines: list[dict]) -> list[str]:
    """The other methods that have an answer anywhere."""
    return [
        name for name in OTHERS if any("errors" in line["others"].get(name, {}) for line in lines)
    ]


def cells(report: dict) -> str:
    """The cells with published numbers."""
    lines = [line for line in report["cells"] if line["collection"] in TITLES]
    names = measured_others(lines)
    rows = [
        [
            f"{readable(line['table'])}, {TITLES[line['collection']]}", str(line["K"]),
            errors_of(line), str(line["best_published"]), by(line).replace("*", r"\*"), sign(line),
            *(other(line, name) for name in names), seconds_of(line),
        ]
        for line in lines
    ]  # fmt: skip
    head = ["table", "K", "boolweave", "best published", "by", "", *names, "seconds"]
    return markdown(head, rows, {0, 4, 5})


def rest(report: dict) -> str:
    """Mushroom and the planted matrices."""
    lines = [line for line in report["cells"] if line["collection"] not in TITLES]
    names = measured_others(lines)
    rows = []
    for line in lines:
        known, truth = line["best_published"], line["ours"][0].get("from_truth")
        rows.append([
            name_of(line), str(line["K"]),
            errors_of(line), "–" if known is None else str(known),
            "–" if truth is None else str(max(run["from_truth"] for run in line["ours"])),
            *(other(line, name) for name in names), seconds_of(line),
        ])  # fmt: skip
    head = ["table", "K", "boolweave", "planted factors", "product ≠ planted", *names, "seconds"]
    return markdown(head, rows, {0})


def name_of(line: dict) -> str:
    """A table by its size, and a planted matrix also by the share of entries that were flipped."""
    name = f"{line['shape'][0]} × {line['shape'][1]}"
    if line["collection"] == "planted":
        return f"planted, {name}, {line['best_published'] / line['observed']:.0%} flips"
    return f"{line['table']}, {name}"


def errors_of(line: dict) -> str:
    """Our wrong entries, those of each seed."""
    return ", ".join(dict.fromkeys(str(run["errors"]) for run in line["ours"]))


def seconds_of(line: dict) -> str:
    return f"{max(run['seconds'] for run in line['ours']):.1f}"


def picture(report: dict) -> str:
    said = (
        "Left: how many percent more wrong entries than the best published number, for each table"
    )
    said += " and K. Right: wrong entries against seconds on four tables"
    return f"![{said}](pictures/{PICTURE.name})"


TABLES = {"summary": summary, "picture": picture, "cells": cells, "rest": rest}


def filled(page: str) -> str:
    """The page with the results that there are."""
    if not RESULTS.exists():
        return BLOCK.sub(r"<!-- table \1 -->\n<!-- end -->", page)
    report = json.loads(RESULTS.read_text(encoding="utf-8"))
    return BLOCK.sub(
        lambda found: f"<!-- table {found[1]} -->\n\n{TABLES[found[1]](report)}\n\n<!-- end -->",
        page,
    )


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    new = filled(page)
    if "--check" in sys.argv[1:]:
        behind = "docs/factors.md is behind benchmarks/results/factors.json: run this script"
        sys.exit(behind if new != page else 0)
    PAGE.write_text(new, encoding="utf-8")
    if RESULTS.exists():
        shutil.copyfile(RESULTS.with_suffix(".png"), PICTURE)


if __name__ == "__main__":
    main()
