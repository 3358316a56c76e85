"""Tables and pictures of the results of `completion.py`.

A cell is a table with a fraction of given entries. The first method of a cell is the one with the
best mean over splits. BooleanCompletion ("ours") may be within one standard error of it in one of
two senses:

- over entries: the difference is less than the standard error of the figure of the first method
  over the held-out entries of a split (mean over the splits);
- paired: the difference is less than the standard error, over the splits, of the difference between
  both methods on the same split. This is stricter, and imprecise if there are few splits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OURS = "BooleanCompletion"

# Figures, and whether higher is better.
FIGURES = {"accuracy": max, "log_loss": min, "auc": max, "ece": min}
JUDGED = ("log_loss", "auc")
NAMES = {"accuracy": "accuracy", "log_loss": "log-loss", "auc": "AUC", "ece": "ECE"}

# Kinds of tables by the beginning of their names.
KINDS = {
    "movietweetings": "MovieTweetings", "movielens": "MovieLens", "senate": "Senates",
    "votes84": "votes84", "planted": "planted",
}  # fmt: skip

GREY = "#555555"
COLOURS = {
    OURS: "#d62728", "BooleanMatrixFactorization": "#ff9896", "bias": "#7f7f7f",
    "GLRM logistic": "#1f77b4", "1-bit": "#17becf", "soft-impute": "#8c564b", "cmfrec": "#2ca02c",
    "myfm": "#9467bd", "implicit LMF": "#c7b299", "surprise SVD": "#bcbd22", "LightFM": "#e377c2",
}  # fmt: skip


# ---------------------------------------------------------------- cells


@dataclass(frozen=True)
class Cell:
    """All results of a cell by method and split, and the reasons why others have none."""

    data: str
    share: float
    results: dict[str, dict[int, dict]]
    left_out: dict[str, str]

    @property
    def name(self) -> str:
        return f"{self.data} {self.share:.0%}"

    @property
    def kind(self) -> str:
        return self.data.partition("-")[0]

    def mean(self, method: str, figure: str) -> float:
        """The mean of a figure over the splits."""
        return fmean(result[figure] for result in self.results[method].values())

    def comparable(self) -> list[str]:
        """The methods that have results for the largest number of splits."""
        most = max((len(runs) for runs in self.results.values()), default=0)
        return [method for method, runs in self.results.items() if len(runs) == most]

    def first(self, figure: str) -> str:
        """The method with the best mean; in a tie, ours."""
        best = FIGURES[figure](self.mean(method, figure) for method in self.comparable())
        those = [method for method in self.comparable() if self.mean(method, figure) == best]
        return OURS if OURS in those else those[0]


def cells_of(results: list[dict]) -> list[Cell]:
    """The results by cell, in their order."""
    cells: dict[tuple[str, float], Cell] = {}
    for result in results:
        place = (result["data"], result["share"])
        cell = cells.setdefault(place, Cell(*place, {}, {}))
        if "left_out" in result:
            cell.left_out[result["method"]] = result["left_out"]
        else:
            cell.results.setdefault(result["method"], {})[result["split"]] = result
    return [cell for cell in cells.values() if cell.results]


@dataclass(frozen=True)
class Verdict:
    """The difference between ours and the first method in a cell, and two standard errors."""

    first: str
    behind: float
    over_entries: float
    paired: float

    @property
    def is_first(self) -> bool:
        return self.first == OURS

    @property
    def sign(self) -> str:
        """A symbol: first, within one standard error in both senses, in one sense, or behind."""
        within = (self.behind <= self.over_entries) + (self.behind <= self.paired)
        return "first" if self.is_first else {2: "≈", 1: "~", 0: "−"}[within]


def verdict(cell: Cell, figure: str) -> Verdict | None:
    """Compare ours with the first method; None if ours does not have results for all splits."""
    if OURS not in cell.comparable():
        return None
    first = cell.first(figure)
    ours, theirs = cell.results[OURS], cell.results[first]
    sign = 1 if FIGURES[figure] is min else -1
    gaps = [sign * (ours[split][figure] - theirs[split][figure]) for split in ours]
    paired = stdev(gaps) / math.sqrt(len(gaps)) if len(gaps) > 1 else 0.0
    over_entries = fmean(result[f"{figure}_error"] for result in theirs.values())
    return Verdict(first, fmean(gaps), over_entries, paired)


# ---------------------------------------------------------------- printed


def line(result: dict) -> str:
    """A line that describes one result."""
    place = f"{result['data']:18}{result['share']:>5.0%}  split {result['split']}  "
    if "left_out" in result:
        return f"{place}{result['method']:28}{result['left_out']}"
    figures = "  ".join(f"{NAMES[f]} {result[f]:.4f}" for f in FIGURES)
    return f"{place}{result['method']:28}{figures}  {result['seconds']:.1f} s  {result['how']}"


def text(results: list[dict]) -> list[str]:
    """All cells with all methods, the best of each figure marked by a star, and the summary."""
    lines = []
    for cell in cells_of(results):
        firsts = {figure: cell.first(figure) for figure in FIGURES}
        lines += ["", f"{cell.name}" + " " * 4 + verdicts(cell)]
        for method in sorted(cell.results, key=lambda m: cell.mean(m, "log_loss")):
            shown = " ".join(
                f"{NAMES[f]} {cell.mean(method, f):.4f}{'*' if firsts[f] == method else ' '}"
                for f in FIGURES
            )
            n = len(cell.results[method])
            note = "" if method in cell.comparable() else f"  only {n} split{'s' * (n > 1)}"
            if cell.kind == "planted":
                note = f"  {cell.mean(method, 'from_truth'):.2%} wrong against the truth{note}"
            lines.append(f"  {method:28}{shown} {cell.mean(method, 'seconds'):7.1f} s{note}")
        lines += [f"  {m:28}{why}" for m, why in cell.left_out.items() if m not in cell.results]
    return [*lines, "", *summary(results)]


def verdicts(cell: Cell) -> str:
    """The verdicts of a cell in words."""
    parts = []
    for figure in JUDGED:
        found = verdict(cell, figure)
        if found is None:
            parts.append(f"{NAMES[figure]}: {cell.first(figure)} is first")
        elif found.is_first:
            parts.append(f"{NAMES[figure]}: ours is first")
        else:
            parts.append(
                f"{NAMES[figure]}: {found.first} is first, ours {found.behind:.4f} behind "
                f"(standard error {found.over_entries:.4f} over entries, {found.paired:.4f} paired)"
            )
    return "; ".join(parts)


def counts(cells: list[Cell], figure: str) -> dict[str, int]:
    """Count the cells in which ours is first, or within one standard error in each sense."""
    found = [v for v in (verdict(cell, figure) for cell in cells) if v is not None]
    return {
        "cells": len(found),
        "first": sum(v.is_first for v in found),
        "over_entries": sum(v.is_first or v.behind <= v.over_entries for v in found),
        "paired": sum(v.is_first or v.behind <= v.paired for v in found),
    }


def summary(results: list[dict]) -> list[str]:
    """The results of ours by kind of table, and the methods that are left out."""
    cells, lines = cells_of(results), []
    for kind, title in KINDS.items():
        these = [cell for cell in cells if cell.kind == kind]
        for figure in JUDGED:
            n = counts(these, figure)
            if n["cells"]:
                lines.append(
                    f"{title}, {NAMES[figure]}: first in {n['first']} of {n['cells']} cells; first "
                    f"or within one standard error in {n['over_entries']} (over entries), "
                    f"{n['paired']} (paired)"
                )
    return lines + left_out(cells)


def left_out(cells: list[Cell]) -> list[str]:
    """The methods without results in some cells, and why."""
    missing: dict[tuple[str, str], int] = {}
    for cell in cells:
        for method, why in cell.left_out.items():
            if method not in cell.results:
                missing[method, why] = missing.get((method, why), 0) + 1
    return [
        f"{method} is left out in {n} cell{'s' * (n > 1)}: {why}"
        for (method, why), n in missing.items()
    ]


def methods_of(cells: list[Cell]) -> list[str]:
    """The methods that have at least one result, in the usual order."""
    return [name for name in COLOURS if any(name in cell.results for cell in cells)]


# ---------------------------------------------------------------- the picture


def draw(results: list[dict], file: Path) -> None:
    """Draw the gaps between each method and the best of the others in each cell."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    cells = cells_of(results)
    if not cells:
        return
    with plt.rc_context({
        "font.size": 9, "axes.spines.top": False, "axes.spines.right": False,
        "axes.edgecolor": GREY, "xtick.color": GREY, "ytick.color": GREY, "axes.titlesize": 10,
        "axes.titlelocation": "left",
    }):  # fmt: skip
        height = max(3.0, 1.4 + 0.2 * len(cells))
        figure, panels = plt.subplots(
            1, 2, figsize=(11, height), sharey=True, layout="constrained", facecolor="white"
        )
        draw_gaps(panels[0], cells, "log_loss", "log-loss above the best")
        draw_gaps(panels[1], cells, "auc", "AUC below the best")
        panels[0].set_yticks(range(len(cells)), [cell.name for cell in cells])
        panels[0].set_ylim(len(cells) - 0.4, -0.6)
        handles, names = panels[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper left", ncols=6, frameon=False)
        figure.savefig(file, dpi=150)
        plt.close(figure)


# Beyond this gap the axis is logarithmic; points beyond the last tick are drawn at its end.
LINEAR, FURTHEST = 0.01, 0.3


def draw_gaps(axes: Axes, cells: list[Cell], figure: str, title: str) -> None:
    """Draw a row for each cell, with a point for each method."""
    for method in reversed(methods_of(cells)):
        points = []
        for place, cell in enumerate(cells):
            if method in cell.results:
                best = cell.mean(cell.first(figure), figure)
                gap = abs(cell.mean(method, figure) - best)
                points.append((min(gap, FURTHEST), place))
        ours = method == OURS
        axes.scatter(
            *zip(*points, strict=True), color=COLOURS[method], label=method, s=36 if ours else 20,
            marker="o" if ours else "s", alpha=1 if ours else 0.75, linewidths=0, zorder=3 + ours,
        )  # fmt: skip
    axes.set_xscale("symlog", linthresh=LINEAR, linscale=1.2)
    ticks = [0, 0.002, 0.005, 0.01, 0.03, 0.1, FURTHEST]
    axes.set_xticks(ticks, [*(f"{tick:g}" for tick in ticks[:-1]), f"≥ {FURTHEST:g}"])
    axes.minorticks_off()
    axes.set_xlim(-0.0005, FURTHEST * 1.1)
    axes.tick_params(axis="y", length=0, labelsize=8)
    for place in range(1, len(cells)):
        if cells[place].data != cells[place - 1].data:
            axes.axhline(place - 0.5, color="#dddddd", linewidth=0.7, zorder=0)
    axes.grid(axis="x", color="#eeeeee", zorder=0)
    axes.set_axisbelow(True)
    axes.set_title(title)
