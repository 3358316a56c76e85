"""Table, closing lines and picture of `factors.py`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OTHERS = ("Asso", "GreConD", "FPMsBMF")

WIDTHS = (31, 5, 12, 11, 34, 9, 9, 15, 9, 3)

# Colours that colour-blind people can distinguish (Okabe and Ito).
COLOURS = {"boolweave": "#0072B2", "Asso": "#E69F00", "GreConD": "#009E73", "FPMsBMF": "#CC79A7"}
MARKERS = {"boolweave": "o", "Asso": "s", "GreConD": "^", "FPMsBMF": "D"}
GREY = "#666666"

# The axis of excess is linear up to this many percent on either side, logarithmic beyond.
LINEAR_PERCENT = 5.0


# ---------------------------------------------------------------- the table


def heading() -> str:
    names = ("table", "K", "ours", "published", "by", *OTHERS, "seconds", "")
    return align(names)


def align(cells: tuple[str, ...]) -> str:
    """One line of the table, with names aligned left and numbers aligned right."""
    parts = [
        f"{cell:<{width}}" if n in (0, 4) else f"{cell:>{width - 2}}  "
        for n, (cell, width) in enumerate(zip(cells, WIDTHS, strict=True))
    ]
    return "".join(parts).rstrip()


def row(line: dict) -> str:
    runs = line["ours"]
    best = line["best_published"]
    return align((
        f"{line['collection']}/{line['table']}"[: WIDTHS[0] - 1],
        str(line["K"]),
        " ".join(str(run["errors"]) for run in runs),
        "–" if best is None else str(best),
        by(line),
        *(other(line, name) for name in OTHERS),
        f"{max(run['seconds'] for run in runs):.1f}",
        sign(line),
    ))  # fmt: skip


def by(line: dict) -> str:
    """The first method with the best published number, how many others, and "(opt.)" if optimal."""
    if not line["methods"]:
        return ""
    more = f" +{len(line['methods']) - 1}" if len(line["methods"]) > 1 else ""
    return line["methods"][0] + more + (" (opt.)" if line["proven_optimal"] else "")


def other(line: dict, name: str) -> str:
    """The wrong entries of another method, or the reason why there is no result."""
    result = line["others"].get(name, {"left_out": "not run"})
    return str(result["errors"]) if "errors" in result else result["left_out"].split(":")[0]


def sign(line: dict) -> str:
    """Compare our worst seed with the best published number: + is better, − is worse, = is equal.

    If there is no published number, it is compared with the best of the other methods.
    """
    found = [r["errors"] for r in line["others"].values() if "errors" in r]
    against = (
        line["best_published"] if line["best_published"] is not None else min(found, default=None)
    )
    if against is None:
        return ""
    errors = max(run["errors"] for run in line["ours"])
    return "=" if errors == against else "+" if errors < against else "−"


def excess(errors: int, line: dict) -> float:
    """The relative excess of `errors` over the best published number; 0 counts as 1."""
    return (errors - line["best_published"]) / max(line["best_published"], 1)


def closing(report: dict) -> list[str]:
    """The summary in words."""
    summary = report["summary"]
    few, hot, planted = summary["fewest-errors"], summary["one-hot"], summary["planted"]
    parts = []
    if few["cells"]:
        parts.append(f"best known reached in {few['reached']} of {few['cells']}")
    if hot["cells"]:
        parts.append(f"no worse than the best published in {hot['reached']} of {hot['cells']}")
    if "worst_excess" in summary:
        one = summary["worst_excess"]
        parts.append(f"worst excess {one['excess']:+.1%} ({one['cell']})")
    lines = ["; ".join(parts)] if parts else []
    if few["better"] + hot["better"]:
        lines.append(
            f"fewer wrong entries than the best published in {few['better'] + hot['better']}"
        )
    if summary["proven"]:
        lines.append(f"proven here to be the fewest possible in {summary['proven']}")
    for table, share in summary.get("fewer_than_asso", {}).items():
        amount = f"{abs(share):.0%} {'fewer' if share >= 0 else 'more'}"
        lines.append(f"{table}: {amount} wrong entries than Asso at its best threshold")
    if planted["cells"]:
        lines.append(f"planted matrices found exactly: {planted['exact']} of {planted['cells']}")
    if report["seeds"] > 1:
        lines.append(f"of {report['seeds']} seeds the worst counts in each cell")
    left_out = {
        reason
        for line in report["cells"]
        if (reason := line["others"].get("FPMsBMF", {}).get("left_out")) == "not installed"
    }
    lines += ["FPMsBMF is left out: not installed" for _ in left_out]
    return lines


# ---------------------------------------------------------------- the picture


def draw(report: dict, file: Path) -> None:
    """Draw the excess over the best published number, and wrong entries against seconds."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    published = [
        line for line in report["cells"] if line["collection"] in ("fewest-errors", "one-hot")
    ]
    curves = [line for line in report["cells"] if "curve" in line]
    with plt.rc_context({
        "font.size": 9, "axes.spines.top": False, "axes.spines.right": False,
        "axes.edgecolor": GREY, "xtick.color": GREY, "ytick.color": GREY, "axes.titlesize": 10,
        "axes.titlelocation": "left",
    }):  # fmt: skip
        height = max(4.0, 1.2 + 0.2 * len(published), 2.3 * len(curves))
        figure = plt.figure(figsize=(11, height), layout="constrained", facecolor="white")
        left, right = figure.subfigures(1, 2, width_ratios=(1.45, 1))
        draw_excess(left.subplots(), published)
        if curves:
            panels = right.subplots(len(curves), 1, squeeze=False)[:, 0]
            for axes, line in zip(panels, curves, strict=True):
                draw_curve(axes, line)
            panels[-1].set_xlabel("seconds")
        figure.savefig(file, dpi=150)
        plt.close(figure)


def draw_excess(axes: Axes, lines: list[dict]) -> None:
    """Draw a row for each cell: the excess over the best published number in percent."""
    places = list(range(len(lines)))
    for name in (*reversed(OTHERS), "boolweave"):
        points = []
        for place, line in zip(places, lines, strict=True):
            errors = (
                max(run["errors"] for run in line["ours"])
                if name == "boolweave"
                else line["others"].get(name, {}).get("errors")
            )
            if errors is not None:
                points.append((100 * excess(errors, line), place))
        if points:
            ours = name == "boolweave"
            axes.scatter(
                *zip(*points, strict=True), marker=MARKERS[name], color=COLOURS[name], label=name,
                s=34 if ours else 22, alpha=1 if ours else 0.75, linewidths=0, zorder=3 + ours,
            )  # fmt: skip
    axes.axvline(0, color=GREY, linewidth=1, zorder=1)
    axes.set_xscale("symlog", linthresh=LINEAR_PERCENT, linscale=1.2)
    low, high = axes.get_xlim()
    ticks = [-20, -5, 0, 5, 20, 100, 500, 2500]
    low, high = min(1.2 * low, -5), max(1.2 * high, 5)
    axes.set_xlim(low, high)
    ticks = [tick for tick in ticks if low <= tick <= high]
    axes.set_xticks(ticks, [f"{tick:+d}%" if tick else "0" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks(places, [f"{readable(line['table'])}  {line['K']}" for line in lines])
    axes.tick_params(axis="y", length=0, labelsize=8)
    axes.set_ylim(len(lines) - 0.4, -0.6)
    for place in places[1:]:
        before, here = lines[place - 1], lines[place]
        if here["collection"] != before["collection"]:
            axes.axhline(place - 0.5, color=GREY, linewidth=0.8, zorder=0)
        elif here["table"] != before["table"]:
            axes.axhline(place - 0.5, color="#dddddd", linewidth=0.7, zorder=0)
    axes.grid(axis="x", color="#eeeeee", zorder=0)
    axes.set_axisbelow(True)
    axes.set_title("Wrong entries compared with the best published, by table and K", pad=22)
    handles, names = axes.get_legend_handles_labels()
    axes.legend(
        handles[::-1], names[::-1], loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=4,
        frameon=False, borderaxespad=0.1, handletextpad=0.1, columnspacing=1.2,
    )  # fmt: skip


def draw_curve(axes: Axes, line: dict) -> None:
    """Draw wrong entries against seconds for one table.

    Ours has several time limits. Methods that end by themselves have a point at that time (Asso
    after all thresholds). For FPMsBMF, which has repeated starts, all improvements are drawn.
    """
    for name in OTHERS:
        result = line["others"].get(name, {})
        if "errors" not in result:
            continue
        points = [(result["seconds"], result["errors"])]
        if name == "FPMsBMF":
            points = [(h["seconds"], h["errors"]) for h in result["history"]] + points
        axes.step(
            *zip(*points, strict=True), where="post", marker=MARKERS[name], markersize=5,
            color=COLOURS[name], linewidth=1,
        )  # fmt: skip
    points = [(run["seconds"], run["errors"]) for run in sorted(line["curve"], key=seconds_of)]
    axes.plot(
        *zip(*points, strict=True), marker="o", color=COLOURS["boolweave"], linewidth=1.6,
        markersize=5, zorder=3,
    )  # fmt: skip
    if line["best_published"] is not None:
        axes.axhline(line["best_published"], color=GREY, linewidth=1, linestyle=(0, (4, 3)))
        axes.annotate(
            f"best published {line['best_published']}", (0.99, line["best_published"]),
            xycoords=("axes fraction", "data"), xytext=(0, -3), textcoords="offset points",
            fontsize=8, color=GREY, ha="right", va="top",
        )  # fmt: skip
    axes.set_xscale("log")
    axes.margins(y=0.18)
    low, high = axes.get_xlim()
    axes.set_xticks([tick for tick in (0.01, 0.1, 0.5, 1, 2, 5, 10, 20) if low <= tick <= high])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.grid(color="#eeeeee")
    axes.set_axisbelow(True)
    axes.set_title(f"{readable(line['table'])}, K = {line['K']}: wrong entries")


def seconds_of(run: dict) -> float:
    return run["seconds"]


def readable(table: str) -> str:
    """The usual name of a table."""
    return {"votes_w_missing": "votes", "chess_krvskp": "chess"}.get(table, table)
