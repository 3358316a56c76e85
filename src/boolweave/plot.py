"""Pictures of a matrix and its factors, with matplotlib.

Rows and columns are put into an order in which the factors show as tiles. The figures are plain
`matplotlib.figure.Figure` objects: they need no display, and pyplot is not touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from boolweave.engine.ordering import factor_order, tile_order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike, NDArray

    from boolweave.runtime.types import Floats

ONE, ZERO, MISSING = "#1f3a5f", "#f0d9b5", "#ffffff"
INK, FAINT = "#222222", "#8a8a8a"
# Okabe and Ito's colours, which the colour-blind can tell apart.
FACTOR_COLOURS = (
    "#009e73", "#e69f00", "#cc79a7", "#56b4e9", "#d55e00", "#0072b2", "#7a5195", "#999999",
)  # fmt: skip

# Membership strips thinner than this many inches cannot be read, thicker ones take space.
STRIP_INCHES = 0.11


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
    """Draw matrices side by side, rows and columns ordered so that factors show as tiles.

    Strips above and beside the matrices show which columns and rows belong to which factor.

    Parameters
    ----------
    panels : mapping of a title to an array of shape (M, N)
        Matrices of 0, 1 and NaN (missing).
    X, Y : arrays of shape (M, K) and (K, N)
        The factors, zeros and ones; the first is called factor 1.
    title : str
        Stands above the figure.
    row_name, column_name : str
        What rows and columns are.
    value_names : three texts
        What 1, 0 and a missing entry mean.
    column_groups : N texts, optional
        A known grouping of the columns, shown as one more strip.
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
    from matplotlib.colors import ListedColormap, to_rgb
    from matplotlib.figure import Figure

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
        own = [to_rgb(known.get(str(group), "#999999")) for group in groups[columns]]
        top = np.concatenate([np.array([own]), top])
    side = _strips(left[rows], colours)

    figure = Figure(figsize=(4.0 * len(panels) + 0.8, 7.6), layout="constrained", dpi=150)
    figure.get_layout_engine().set(w_pad=0.06, h_pad=0.04)  # type: ignore[call-arg, union-attr]
    grid = figure.add_gridspec(
        2,
        2 * len(panels),
        width_ratios=[left.shape[1] * STRIP_INCHES, 3.6] * len(panels),
        height_ratios=[len(top) * STRIP_INCHES, 6.0],
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
        beside = figure.add_subplot(grid[1, 2 * index])
        beside.imshow(side, aspect="auto", interpolation="nearest")
        if index == 0:
            beside.set_ylabel(f"{shown.shape[0]} {row_name}", color=FAINT, fontsize=9)
        for each in (axes, above, beside):
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
    """Draw scores with error bars against whole numbers and mark the best number.

    `below` names values that are drawn in the same way below the scores.
    """
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
    parts[0].annotate(
        f"best: {best}", (best, 0.97), xycoords=("data", "axes fraction"),
        xytext=(4, 0), textcoords="offset points", va="top",
    )  # fmt: skip
    parts[-1].set_xlabel(x_label)
    parts[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def tile_orders(
    X: ArrayLike, Y: ArrayLike, row_weight: ArrayLike, column_weight: ArrayLike
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Orders of rows and of columns in which the factors show as tiles, the largest first.

    Among rows or columns with the same factors, the heavier come first.
    """
    left, right = np.asarray(X), np.asarray(Y)
    by_size = factor_order(left, right)  # not always the order of the factors' numbers
    return tile_order(left[:, by_size], row_weight), tile_order(right[by_size].T, column_weight)


def _strips(members: NDArray[np.uint8], colours: Sequence[str]) -> Floats:
    """A picture (n, K, 3) with the colour of each factor where a row or column belongs to it."""
    from matplotlib.colors import to_rgb

    return np.where(members[:, :, None] > 0, [to_rgb(colour) for colour in colours], 1.0)


def _add_legend(
    figure: Figure, edged: Sequence[tuple[str, str]], plain: Sequence[tuple[str, str]]
) -> None:
    """Add a line of names and their colours below; those of `edged` need a border to be seen."""
    from matplotlib.patches import Patch

    patches = [Patch(facecolor=c, edgecolor="#bbbbbb", label=name) for name, c in edged]
    patches += [Patch(facecolor=c, label=name) for name, c in plain]
    figure.legend(
        handles=patches, loc="outside lower center", ncols=len(patches), frameon=False, fontsize=9,
        handlelength=1.0, handleheight=1.0, columnspacing=1.4, labelcolor=INK,
    )  # fmt: skip
