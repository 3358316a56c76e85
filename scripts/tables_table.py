"""Fill docs/tables.md with the results of `benchmarks/tables.py`.

With --check, nothing is written, and the script fails if the page is out of date.

    BOOLWEAVE_DATA=... python benchmarks/tables.py && python scripts/tables_table.py
"""

from __future__ import annotations

from measured_page import fill, markdown


def answers(report: dict) -> str:
    """What the model said and what was true, and how many answers are right, by split."""
    names = ("reported", "log_loss", "calibration", "right", "mode", "forest")
    lines = report["answers"]
    means = {name: sum(line[name] for line in lines) / len(lines) for name in names}
    rows = [
        [str(line["split"]), *(f"{line[name]:.3f}" for name in names[:3]),
         *(f"{line[name]:.1%}" for name in names[3:])]
        for line in [*lines, {"split": "mean", **means}]
    ]  # fmt: skip
    head = ["split", "log-loss it said", "log-loss", "calibration error", "answers right",
            "most frequent answer", "random forest per question"]  # fmt: skip
    return markdown(head, rows)


if __name__ == "__main__":
    fill("tables", {"answers": answers}, made={"answers": "tables:answers"})
