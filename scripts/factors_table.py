"""Fill docs/factors.md with the results of `benchmarks/factors.py`.

With --check, nothing is written, and the script fails if the page is out of date.

    python benchmarks/factors.py && python scripts/factors_table.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

from measured_page import fill, markdown

from factors_report import OTHERS, by, closing, other, readable, sign

TITLES = {"fewest-errors": "fewest errors", "one-hot": "one-hot"}


def summary(report: dict) -> str:
    """The conditions of the measurement, and the last lines of the benchmark."""
    seeds = "one seed" if report["seeds"] == 1 else f"{report['seeds']} seeds"
    head = f"With {report['seconds']:g} s a cell on {report['threads']} threads and {seeds}:"
    return "\n".join([head, "", *(f"- {line}" for line in closing(report))])


def measured_others(lines: list[dict]) -> list[str]:
    """The other methods that have an answer for at least one cell."""
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
    """The name of a table and its size; for a planted matrix, also the fraction of flips."""
    name = f"{line['shape'][0]} × {line['shape'][1]}"
    if line["collection"] == "planted":
        return f"planted, {name}, {line['best_published'] / line['observed']:.0%} flips"
    return f"{line['table']}, {name}"


def errors_of(line: dict) -> str:
    """The numbers of wrong entries of boolweave, one for each seed."""
    return ", ".join(dict.fromkeys(str(run["errors"]) for run in line["ours"]))


def seconds_of(line: dict) -> str:
    return f"{max(run['seconds'] for run in line['ours']):.1f}"


def picture(report: dict) -> str:
    caption = (
        "Left: how many percent more wrong entries than the best published number, for each table"
        " and K. Right: wrong entries against seconds on four tables"
    )
    return f"![{caption}](pictures/factors.png)"


STARTS = {
    "max-sum .1": "max-sum, 10% flips",
    "max-sum .02": "max-sum, 2% flips",
    "max-sum .004": "max-sum, 0.4% flips",
    "wide .1": "wide, 10% flips, pruned",
    "wide .02": "wide, 2% flips, pruned",
    "rows": "random rows as patterns",
    "chance": "random, the best of eight tiles for each factor",
}


def starts(report: dict) -> str:
    rows = [
        [
            STARTS[kind], *("–" if m is None else f"{m:+.1%}" for m in line["medians"]),
            f"{line['best']} of {report['cells']}",
        ]
        for kind, line in report["starts"].items()
    ]  # fmt: skip
    return markdown(["start", "K ≤ 12", "improved", "K > 12", "improved", "best"], rows)


TABLES = {"summary": summary, "picture": picture, "cells": cells, "rest": rest}


if __name__ == "__main__":
    fill("factors", TABLES)
    fill("starts", {"starts": starts}, "factors")
