"""Fill docs/completion-benchmark.md and docs/completion.md with the results of benchmarks.

These are `benchmarks/completion.py` and `benchmarks/completion_speed.py`.

With --check, nothing is written, and the script fails if the page is out of date.

    python benchmarks/completion.py && python scripts/completion_table.py
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from statistics import fmean

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

from measured_page import ROOT, fill, markdown

from completion_report import (
    FIGURES,
    JUDGED,
    KINDS,
    NAMES,
    OURS,
    Cell,
    cells_of,
    counts,
    left_out,
    methods_of,
    verdict,
)

# Results of BooleanCompletion on splits that were not used for its design.
FRESH = ROOT / "benchmarks" / "results" / "completion_fresh.json"

# The calibration error, and what remains of it.
CALIBRATION = ("ece", "ece_shifted", "ece_stretched", "ece_by_chance")

SHORT = {"BooleanMatrixFactorization": "Boolean MF", "GLRM logistic": "GLRM"}


def conditions(report: dict) -> str:
    """The conditions of the measurement, and in how many cells ours is first."""
    cells = cells_of(report["results"])
    splits = {len(runs) for cell in cells for runs in cell.results.values()}
    threads = {result["threads"] for result in report["results"]}
    head = (
        f"There is {counted(splits, 'split')} of each cell; a fit has {counted(threads, 'thread')} "
        f"and at most {report['limit']:g} s."
    )
    lines = [standings(cells), "", head, "", *(f"- {line}" for line in left_out(cells))]
    return "\n".join(lines).strip()


def counted(numbers: set[int], noun: str) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low} to {high} {noun}s" if low < high else f"{low} {noun}{'s' * (low != 1)}"


def standings(cells: list[Cell]) -> str:
    """In how many cells ours is first, or within one standard error of the first, by kind."""
    paired = any(len(runs) > 1 for cell in cells for runs in cell.results.values())
    senses = {"first": "first", "over_entries": "first or within one standard error"}
    if paired:
        senses["paired"] = "the same, paired"
    head = ["", "cells"]
    head += [f"{NAMES[figure]}: {words}" for figure in JUDGED for words in senses.values()]
    rows = []
    for kind, title in KINDS.items():
        these = [cell for cell in cells if cell.kind == kind]
        found = [counts(these, figure) for figure in JUDGED]
        if found[0]["cells"]:
            figures = [str(number[sense]) for number in found for sense in senses]
            rows.append([title, str(found[0]["cells"]), *figures])
    return markdown(head, rows)


def by_cell(report: dict, figure: str) -> str:
    """A figure of every method in every cell, as the mean over splits; the best is bold."""
    cells = cells_of(report["results"])
    methods = methods_of(cells)
    rows = []
    for cell in cells:
        row = [cell.name, *(shown(cell, method, figure) for method in methods)]
        if figure in JUDGED:
            found = verdict(cell, figure)
            row.append("" if found is None else found.sign)
        rows.append(row)
    head = ["", *(SHORT.get(method, method) for method in methods)]
    return markdown([*head, "ours"] if figure in JUDGED else head, rows)


def from_truth(report: dict) -> str:
    """Percentage of wrong decisions on planted tables, compared with the matrix without flips."""
    cells = [cell for cell in cells_of(report["results"]) if cell.kind == "planted"]
    methods = methods_of(cells)
    rows = [
        [
            cell.name,
            *(
                f"{100 * cell.mean(method, 'from_truth'):.2f}" if method in cell.results else "–"
                for method in methods
            ),
        ]
        for cell in cells
    ]
    return markdown(["", *(SHORT.get(method, method) for method in methods)], rows)


def shown(cell: Cell, method: str, figure: str) -> str:
    if method not in cell.results:
        return "–"
    number = cell.mean(method, figure)
    text = f"{100 * number:.1f}" if figure == "accuracy" else f"{number:.4f}"
    return f"**{text}**" if cell.first(figure) == method else text


def calibration(report: dict) -> str:
    """What the calibration error of BooleanCompletion comes from, in every cell."""
    head = [
        "", "given", "predicted", "error", "best intercept", "best intercept and slope", "by chance"
    ]  # fmt: skip
    rows = []
    for cell in cells_of(report["results"]):
        runs = list(cell.results.get(OURS, {}).values())
        if runs and all("ece_by_chance" in run for run in runs):
            counts = [f"{runs[0][count]:,}" for count in ("n_train", "n_test")]
            figures = [f"{cell.mean(OURS, figure):.4f}" for figure in CALIBRATION]
            rows.append([cell.name, *counts, *figures])
    return markdown(head, rows)


def fresh(report: dict) -> str:
    """All figures of BooleanCompletion on splits that were not used for its design."""
    other = json.loads(FRESH.read_text(encoding="utf-8"))
    rows = []
    for cell in cells_of(other["results"]):
        figures = [
            f"{cell.mean(OURS, figure) * (100 if figure == 'accuracy' else 1):{form}}"
            for figure, form in (("accuracy", ".1f"), ("log_loss", ".4f"), ("auc", ".4f"))
        ]
        before = [known for known in cells_of(report["results"]) if known.name == cell.name]
        first = [f"{known.mean(OURS, 'log_loss'):.4f}" for known in before]
        errors = [f"{cell.mean(OURS, figure):.4f}" for figure in CALIBRATION]
        rows.append([cell.name, *figures, *first, *errors])
    head = [
        "", "accuracy, %", "log-loss", "AUC", "log-loss of the first split", "calibration error",
        "best intercept", "best intercept and slope", "by chance",
    ]  # fmt: skip
    return markdown(head, rows)


def seconds(report: dict) -> str:
    """Mean seconds of a fit, including the choice of parameters, by kind of table."""
    every = cells_of(report["results"])
    methods = methods_of(every)
    rows = []
    for kind, title in KINDS.items():
        cells = [cell for cell in every if cell.kind == kind]
        if cells:
            rows.append([title, *(mean_seconds(cells, method) for method in methods)])
    return markdown(["", *(SHORT.get(method, method) for method in methods)], rows)


def mean_seconds(cells: list[Cell], method: str) -> str:
    """Mean processor seconds if they were measured, because they depend less on other processes."""
    runs = [run for cell in cells for run in cell.results.get(method, {}).values()]
    measured = [run["processor_seconds"] for run in runs if "processor_seconds" in run]
    found = measured or [run["seconds"] for run in runs]
    return f"{fmean(found):.1f}" if found else "–"


def picture(report: dict) -> str:
    words = "How far each method is from the best in each cell: log-loss (left) and AUC (right)"
    return f"![{words}](pictures/completion.png)"


TABLES = {
    "summary": conditions, "picture": picture, "from_truth": from_truth, "seconds": seconds,
    "calibration": calibration, "fresh": fresh,
    **{figure: partial(by_cell, figure=figure) for figure in FIGURES},
}  # fmt: skip


def fits(report: dict) -> str:
    """Whole fits to simulated ratings."""
    rows = [
        [f"{line['ratings']:,}", line["method"], f"{line['seconds']:.0f}",
         f"{line['seconds of cores']:.0f}", f"{line['log-loss']:.4f}"]
        for line in report["fits"]
    ]  # fmt: skip
    return markdown(["ratings", "method", "seconds", "processor seconds", "log-loss"], rows, {1})


EXAMPLES = {
    "senate-107": "half of the votes of the 107th Senate",
    "movietweetings": "half of the ratings of MovieTweetings",
}


def examples(report: dict) -> str:
    """Time and memory of fits with default parameters."""
    rows = []
    for name, line in report["examples"].items():
        size = f"{line['entries']:,} entries, {line['rows']:,} × {line['columns']:,}"
        new_row = f"{line['new_row_ms']:.2f} ms" if "new_row_ms" in line else "–"
        rows.append([
            f"{EXAMPLES[name]} ({size})", f"{line['cpu_s']:.0f} s", f"{line['memory_mb']:.0f} MB",
            f"{line['file_mb']:.1f} MB", new_row,
        ])  # fmt: skip
    head = ["", "processor time", "memory in addition to the libraries", "model file", "a new row"]
    return markdown(head, rows)


if __name__ == "__main__":
    fill("completion", TABLES, "completion-benchmark", {"fresh": "completion_fresh"})
    made = {"fits": "completion_speed:fits", "examples": "completion_speed:examples"}
    fill("completion_speed", {"fits": fits, "examples": examples}, "completion", made)
