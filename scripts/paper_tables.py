"""Put the numbers of experiments/results/ into docs/paper.md, and the pictures into docs/pictures.

The results are those of a full run if there is one, otherwise those of a quick run. A table
replaces the text between ``<!-- table name -->`` and ``<!-- end -->``, and the line that sums up an
experiment replaces the text between ``<!-- line name -->`` and ``<!-- end -->``. What made a
result stands below its table, or below its line if there is no table.

    python scripts/paper_tables.py            # after `make figures`
    python scripts/paper_tables.py --check    # fail if the page is out of date
"""

from __future__ import annotations

import csv
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from provenance import line_of, update

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "experiments" / "results"
PAGE = ROOT / "docs" / "paper.md"
PICTURES = ROOT / "docs" / "pictures"
BLOCK = re.compile(r"<!-- (table|line) (\w+) -->\n.*?<!-- end -->", re.DOTALL)
MISSING = "Not run yet: `make figures` writes this."


def result(name: str) -> Path:
    """A file with results: of the full run if there is one, unless the quick run is asked for.

    The full phase diagram has only our methods; the quick one, with all methods, is phase_quick.
    """
    if "_quick." in name:
        return RESULTS / "quick" / name.replace("_quick.", ".")
    full = RESULTS / "full" / name
    return full if full.exists() else RESULTS / "quick" / name


def made_by(name: str) -> str:
    """The result behind a table or line, as `provenance.line_of` names it."""
    file = result(f"{name.replace('senate_ratios', 'senate')}.csv")
    return f"{file.parent.name}/{file.stem}"


def rows_of(name: str) -> list[dict[str, str]]:
    with result(f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def markdown(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def table_of_errors(rows: list[dict[str, str]], down: str, across: str, form: str = ".4f") -> str:
    """A table of errors with one line for each `down` and one column for each `across`."""
    columns = unique(rows, across)
    cells = {(row[down], row[across]): f"{float(row['error']):{form}}" for row in rows}
    lines = [[name, *(cells.get((name, c), "–") for c in columns)] for name in unique(rows, down)]
    return markdown([down, *columns], lines)


def flips() -> str:
    rows = rows_of("flips")
    seconds: dict[str, list[float]] = {}
    for row in rows:
        seconds.setdefault(row["method"], []).append(float(row["seconds"]))
    times = [[name, f"{sum(v) / len(v):.2g}"] for name, v in seconds.items()]
    means = markdown(["method", "mean seconds of a fit"], times)
    return f"{table_of_errors(rows, 'method', 'flip')}\n\n{means}"


def phase() -> str:
    rows = [row for row in rows_of("phase") if row["kind"] == "curve"]
    for row in rows:
        row["times the bound"] = f"{float(row['times_bound']):.1f}"
        row["method and rank"] = f"{row['method']}, K = {row['rank']}"
    rows += [
        {**row, "error": row["expected"], "method and rank": f"expected by auto, K = {row['rank']}"}
        for row in rows if row["expected"]
    ]  # fmt: skip
    return table_of_errors(rows, "method and rank", "times the bound")


def senate() -> str:
    rows = rows_of("senate")
    for row in rows:
        row["case"] = f"{ordinal(row['congress'])}, {float(row['observed']):.0%}"
        both = (float(row["error"]), float(row["error_best_by_result"]))
        row["both"] = f"{both[0]:.3f}\u00a0/\u00a0{both[1]:.3f}"  # on one line
    methods = [name for name in unique(rows, "method") if "strength" not in name]
    cells = {(row["case"], row["method"]): row["both"] for row in rows}
    return markdown(
        ["Congress, votes seen", *methods],
        [[case, *(cells[case, method] for method in methods)] for case in unique(rows, "case")],
    )


def senate_ratios() -> str:
    """Ratios of the errors of max-sum and GLRM hinge by strength: 5% observed, K by the result."""
    rows = [row for row in rows_of("senate") if row["observed"] == "0.05"]
    errors = {(r["congress"], r["method"]): float(r["error_best_by_result"]) for r in rows}
    congresses = unique(rows, "congress")
    table = []
    for peer in (name for name in unique(rows, "method") if name.startswith("GLRM hinge")):
        ratios = [errors[c, "max-sum"] / errors[c, peer] for c in congresses]
        half = sum(ratio <= 0.5 for ratio in ratios)
        name = "GLRM hinge, the best strength" if peer == "GLRM hinge" else peer
        table.append([name, *(f"{ratio:.2f}" for ratio in ratios), str(half)])
    return markdown(["against", *map(ordinal, congresses), "at most half"], table)


def unique(rows: list[dict[str, str]], name: str) -> list[str]:
    return list(dict.fromkeys(row[name] for row in rows))


def ordinal(number: str) -> str:
    return number + {"1": "st", "2": "nd", "3": "rd"}.get(number[-1], "th")


def movielens() -> str:
    rows = rows_of("movielens")
    shares = [key for key in rows[0] if key.endswith("%") and not key.startswith("paper")]

    def cell(row: dict[str, str], share: str) -> str:
        paper = row[f"paper {share}"]
        ours = f"{float(row[share]):.1%}"
        return f"{ours} (paper: {float(paper):.0%})" if paper else ours

    return markdown(
        ["method", *shares, "seconds"],
        [
            [row["method"], *(cell(row, share) for share in shares),
             f"{seconds(row['least_seconds'])}–{seconds(row['most_seconds'])}"]
            for row in rows
        ],
    )  # fmt: skip


def seconds(value: str) -> str:
    """Seconds with two digits, never as a power of ten."""
    return f"{float(value):.2g}" if float(value) < 99.5 else f"{float(value):.0f}"


def circles() -> str:
    rows = rows_of("circles")
    for row in rows:
        more = ", regularised" if row["regularised"] == "True" else ""
        row["panel"] = f"K = {row['rank']}, ρ = {row['rho']}{more}"
    return table_of_errors(rows, "panel", "method", ".3f")


def histogram() -> str:
    rows = {row["iteration"]: row["near_zero"] for row in rows_of("histogram")}
    return markdown(
        ["iteration", "messages near zero"], [[t, f"{float(v):.0%}"] for t, v in rows.items()]
    )


TABLES: dict[str, Callable[[], str]] = {
    "flips": flips, "phase": phase, "senate": senate, "senate_ratios": senate_ratios,
    "movielens": movielens,
    "circles": circles, "histogram": histogram,
}  # fmt: skip


def filled(page: str) -> str:
    def block(match: re.Match[str]) -> str:
        kind, name = match.groups()
        try:
            if kind == "table":
                text = TABLES[name]()
            else:
                text = result(f"{name}.txt").read_text(encoding="utf-8").strip()
            if kind == "table" or name not in TABLES:
                text += f"\n\n{line_of(made_by(name))}"
        except FileNotFoundError:
            text = MISSING
        return f"<!-- {kind} {name} -->\n\n{text}\n\n<!-- end -->"

    return BLOCK.sub(block, page)


def main() -> None:
    update(PAGE, filled, "paper_tables.py")
    if "--check" in sys.argv[1:]:
        return
    PICTURES.mkdir(exist_ok=True)
    names = {picture.name for picture in RESULTS.glob("*/*.png")} | {"phase_quick.png"}
    for name in sorted(names):
        shutil.copyfile(result(name), PICTURES / name)


if __name__ == "__main__":
    main()
