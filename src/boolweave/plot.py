"""Pictures of a matrix and its factors, with matplotlib.

Rows and columns are put into an order in which the factors appear as tiles. The figures are plain
`matplotlib.figure.Figure` objects, which need no display and do not use pyplot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from boolweave.engine.result import factor_order, tile_order
from boolweave.runtime.extras import need
from boolweave.runtime.words import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike, NDArray

    from boolweave.runtime.types import Floats

ONE, ZERO, MISSING = "#1f3a5f", "#f0d9b5", "#ffffff"
INK, FAINT = "#222222", "#8a8a8a"
# The colours of Okabe and Ito, which colour-blind people can distinguish.
FACTOR_COLOURS = (
    "#009e73", "#e69f00", "#cc79a7", "#56b4e9", "#d55e00", "#0072b2", "#7a5195", "#999999",
)  # fmt: skip

# Maximum number of cells of a matrix that a picture can show.
MOST_CELLS = 50_000_000

# Maximum number of characters of a bar in a text chart.
BAR = 40


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this size in inches; raise ImportError without matplotlib."""
    need("matplotlib", "a picture")
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", dpi=150)


def plot_tiles(
    panels: Mapping[str, ArrayLike],
    X: ArrayLike,
    Y: ArrayLike,
    *,
    title: str = "",
    row_name: str = "rows",
    column_name: str = "columns",
    value_names: Sequence[str] = ("1", "0", "not observed"),
    column_groups: ArrayLike | None = None,
    group_colours: Mapping[str, str] | None = None,
) -> Figure:
    """Draw matrices side by side, ordered so that the factors appear as tiles.

    Strips above and next to the matrices show which columns and rows belong to which factor.

    Parameters
    ----------
    panels : mapping of a title to an array of shape (M, N)
        Matrices of 0, 1 and NaN (missing).
    X, Y : arrays of shape (M, K) and (K, N)
        The factors, as zeros and ones; the first is called factor 1.
    title : str
        Title of the figure.
    row_name, column_name : str
        Nouns for rows and columns.
    value_names : three texts
        The meanings of 1, 0 and a missing entry.
    column_groups : N texts, optional
        A known grouping of the columns, shown as an additional strip.
    group_colours : mapping of a group to a colour, optional

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from boolweave.plot import plot_tiles
    >>> X, Y = np.eye(2, dtype=np.uint8), np.eye(2, dtype=np.uint8)
    >>> figure = plot_tiles({"identity": X @ Y}, X, Y)
    >>> figure.savefig("identity.png")
    """
    figure = new_figure(4.0 * len(panels) + 0.8, 7.6)
    from matplotlib.colors import ListedColormap, to_rgb

    left, right = np.asarray(X, dtype=np.uint8), np.asarray(Y, dtype=np.uint8)
    matrices = [np.asarray(panel, dtype=np.float32) for panel in panels.values()]
    ones = np.nan_to_num(matrices[-1])
    groups = None if column_groups is None else np.asarray(column_groups)
    weight = ones.mean(axis=0)
    if groups is not None:  # among columns with the same factors, by group and then by ones
        weight = weight - 2.0 * np.unique(groups, return_inverse=True)[1]
    rows, columns = tile_orders(left, right, ones.mean(axis=1), weight)
    colours = [FACTOR_COLOURS[k % len(FACTOR_COLOURS)] for k in range(left.shape[1])]
    top = _strips(right.T[columns], colours).transpose(1, 0, 2)
    if groups is not None:
        known = group_colours or {}
        colours_of_groups = [to_rgb(known.get(str(group), "#999999")) for group in groups[columns]]
        top = np.concatenate([np.array([colours_of_groups]), top])
    side = _strips(left[rows], colours)

    figure.get_layout_engine().set(w_pad=0.06, h_pad=0.04)  # type: ignore[call-arg, union-attr]
    # Membership strips thinner than this many inches cannot be read; thicker ones waste space.
    strip_inches = 0.11
    grid = figure.add_gridspec(
        2,
        2 * len(panels),
        width_ratios=[left.shape[1] * strip_inches, 3.6] * len(panels),
        height_ratios=[len(top) * strip_inches, 6.0],
        wspace=0.0,
        hspace=0.0,
    )
    palette = ListedColormap([ZERO, ONE, MISSING])
    for index, (name, matrix) in enumerate(zip(panels, matrices, strict=True)):
        shown = np.where(np.isnan(matrix), 2, matrix)[np.ix_(rows, columns)]
        axes = figure.add_subplot(grid[1, 2 * index + 1])
        axes.imshow(shown, cmap=palette, vmin=0, vmax=2, aspect="auto", interpolation="nearest")
        axes.set_xlabel(f"{shown.shape[1]} {column_name}", color=FAINT, fontsize=9)
        above = figure.add_subplot(grid[0, 2 * index + 1])
        above.imshow(top, aspect="auto", interpolation="nearest")
        above.set_title(name, fontsize=11, color=INK, loc="left")
        left_strip = figure.add_subplot(grid[1, 2 * index])
        left_strip.imshow(side, aspect="auto", interpolation="nearest")
        if index == 0:
            left_strip.set_ylabel(f"{shown.shape[0]} {row_name}", color=FAINT, fontsize=9)
        for each in (axes, above, left_strip):
            each.set_xticks([])
            each.set_yticks([])
            for spine in each.spines.values():
                spine.set_visible(each is axes)
                spine.set_color("#cccccc")
    edged = list(zip(value_names, (ONE, ZERO, MISSING), strict=True))
    plain = [(f"factor {k + 1}", c) for k, c in enumerate(colours[: len(FACTOR_COLOURS)])]
    present = set() if groups is None else set(groups.tolist())
    plain += [(group, c) for group, c in (group_colours or {}).items() if group in present]
    _add_legend(figure, edged, plain)
    if title:
        figure.suptitle(title, fontsize=13, color=INK, x=0.01, ha="left")
    return figure


def plot_scores(
    numbers: NDArray[np.int64],
    scores: NDArray[np.float64],
    errors: NDArray[np.float64],
    best: int,
    *,
    x_label: str,
    y_label: str,
    below: tuple[str, NDArray[np.float64]] | None = None,
) -> Figure:
    """Draw scores with error bars against whole numbers, and mark the best number.

    The values of `below` are drawn in the same way below the scores.
    """
    need("matplotlib", "a picture")
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    n_parts = 1 if below is None else 2
    figure = Figure(figsize=(6, 3.6 * n_parts), layout="constrained")
    parts = figure.subplots(n_parts, sharex=True, squeeze=False)[:, 0]
    parts[0].errorbar(numbers, scores, yerr=errors, marker="o", capsize=3)
    parts[0].set_ylabel(y_label)
    if below is not None:
        parts[1].plot(numbers, below[1], marker="o")
        parts[1].set_ylabel(below[0])
        parts[1].set_ylim(bottom=0)
    for axes in parts:
        axes.axvline(best, color="0.6", linestyle="--", zorder=0)
    place = {"xycoords": ("data", "axes fraction"), "xytext": (4, 0), "va": "top"}
    parts[0].annotate(f"best: {best}", (best, 0.97), textcoords="offset points", **place)
    parts[-1].set_xlabel(x_label)
    parts[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def tile_orders(
    X: ArrayLike, Y: ArrayLike, row_weight: ArrayLike, column_weight: ArrayLike
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Orders of rows and of columns in which the factors appear as tiles, the largest first.

    Among rows or columns with the same factors, those with larger weights come first.
    """
    left, right = np.asarray(X), np.asarray(Y)
    by_size = factor_order(left, right)  # not always the order of their numbers
    return tile_order(left[:, by_size], row_weight), tile_order(right[by_size].T, column_weight)


def _strips(members: NDArray[np.uint8], colours: Sequence[str]) -> Floats:
    """A picture (n, K, 3) with the colour of each factor where a row or column belongs to it."""
    from matplotlib.colors import to_rgb

    return np.where(members[:, :, None] > 0, [to_rgb(colour) for colour in colours], 1.0)


def _add_legend(
    figure: Figure, edged: Sequence[tuple[str, str]], plain: Sequence[tuple[str, str]]
) -> None:
    """Add a legend at the bottom; the colours in `edged` need a border to be visible."""
    from matplotlib.patches import Patch

    patches = [Patch(facecolor=c, edgecolor="#bbbbbb", label=name) for name, c in edged]
    patches += [Patch(facecolor=c, label=name) for name, c in plain]
    style: dict[str, Any] = {"frameon": False, "fontsize": 9, "labelcolor": INK}
    style |= {"handlelength": 1.0, "handleheight": 1.0, "columnspacing": 1.4}
    figure.legend(handles=patches, loc="outside lower center", ncols=len(patches), **style)


def plot_members(sides: Mapping[str, tuple[NDArray[np.float64], Sequence[str]]]) -> Figure:
    """Draw the members of all factors: probabilities (n, K) and n names for each side.

    Names are written next to the lines if they are few enough to be read.

    Examples
    --------
    >>> import numpy as np
    >>> from boolweave.plot import plot_members
    >>> figure = plot_members({"rows": (np.eye(2), ["Ann", "Bo"])})
    >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
    ['Ann', 'Bo']
    """
    longest = max(len(names) for _, names in sides.values())
    # Maximum number of names next to a picture; more could not be read.
    names_drawn = 120
    height = float(np.clip(0.15 * min(longest, names_drawn), 2.5, 18.0)) + 0.9
    figure = new_figure(4.4 * len(sides), height)
    from matplotlib.colors import LinearSegmentedColormap

    palette = LinearSegmentedColormap.from_list("membership", [ZERO, ONE])
    picture = None
    all_axes = figure.subplots(1, len(sides), squeeze=False)[0]
    for axes, (side, (chance, names)) in zip(all_axes, sides.items(), strict=True):
        picture = axes.imshow(
            chance, cmap=palette, vmin=0, vmax=1, aspect="auto", interpolation="nearest"
        )
        axes.set_title(f"{len(names):,} {side}", fontsize=11, color=INK, loc="left")
        axes.set_xticks(range(chance.shape[1]), [str(k + 1) for k in range(chance.shape[1])])
        axes.set_xlabel("factor", color=FAINT, fontsize=9)
        if len(names) <= names_drawn:
            axes.set_yticks(range(len(names)), [shortened(name, 32) for name in names], fontsize=7)
        else:
            axes.set_yticks([])
    if picture is not None:
        figure.colorbar(picture, ax=list(all_axes), label="probability of membership")
    return figure


def plot_run(values: NDArray[np.float64], y_label: str, x_label: str) -> Figure:
    """Draw one number for each iteration of a run, from 1.

    Examples
    --------
    >>> import numpy as np
    >>> from boolweave.plot import plot_run
    >>> plot_run(np.array([3.0, 2.0]), "error", "round").axes[0].get_xlabel()
    'round'
    """
    figure = new_figure(6, 3.6)
    from matplotlib.ticker import MaxNLocator

    axes = figure.subplots()
    axes.plot(
        np.arange(1, len(values) + 1), values, color=ONE, marker="." if len(values) < 50 else ""
    )
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def plot_bars(
    names: Sequence[str], values: NDArray[np.float64], errors: NDArray[np.float64], label: str
) -> Figure:
    """Draw a bar with an error bar for each name; the smallest one is darker.

    Examples
    --------
    >>> import numpy as np
    >>> from boolweave.plot import plot_bars
    >>> figure = plot_bars(["a", "b"], np.array([0.4, 0.3]), np.array([0.1, 0.1]), "log-loss")
    >>> figure.axes[0].get_xlabel()
    'log-loss'
    """
    figure = new_figure(7, 0.3 * len(names) + 1.2)
    axes = figure.subplots()
    colours = [ONE if value == values.min() else ZERO for value in values]
    places = np.arange(len(names))
    axes.barh(places, values, xerr=errors, color=colours, edgecolor=FAINT, capsize=2)
    axes.set_yticks(places, [shortened(name, 60) for name in names], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(label)
    return figure


def draw_kind(
    kinds: Mapping[str, Callable[[Any], Figure]], model: Any, what: str, path: str | Path | None
) -> Figure:
    """Draw a fitted model in one of several ways, and save the picture to `path`, if given."""
    if what not in kinds:
        raise ValueError(f"what must be one of {', '.join(kinds)}, got {what!r}")
    figure = kinds[what](model)
    if path is not None:
        figure.savefig(path)
    return figure


def text_curve(
    numbers: NDArray[np.int64],
    values: NDArray[np.float64],
    best: int,
    title: str,
    what: str,
    mark: str = "best",
    elbow: int | None = None,
) -> list[str]:
    r"""A text chart of values: a bar for each number, starting at the smallest value.

    The best number is marked, and the elbow if it is another one.

    Examples
    --------
    >>> import numpy as np
    >>> from boolweave.plot import text_curve
    >>> values = np.array([30.0, 10.0, 20.0])
    >>> print("\n".join(text_curve(np.arange(1, 4), values, 2, "bits", "factors")))
    factors: bits
      1     30  ########################################
      2     10    <- best
      3     20  ####################
    """
    low, high = float(values.min()), float(values.max())
    width = max(3, *(len(str(number)) for number in numbers.tolist()))
    figures = [f"{value:,.6g}" for value in values.tolist()]
    space = max(map(len, figures)) + 2
    lines = [f"{what}: {title}"]
    for number, value, figure in zip(numbers.tolist(), values.tolist(), figures, strict=True):
        bar = "#" * round(BAR * (value - low) / ((high - low) or 1.0))
        marked = f"  <- {mark}" if number == best else "  <- elbow" if number == elbow else ""
        lines.append(f"{number:>{width}} {figure:>{space + 2}}  {bar}{marked}".rstrip())
    return lines
