"""Pictures of a matrix and its factors, with matplotlib.

Rows and columns are put into an order in which the factors show as tiles. The figures are plain
`matplotlib.figure.Figure` objects: they need no display, and pyplot is not touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.engine.ordering import factor_order, tile_order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike, NDArray

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
    column_groups: Sequence[str] | None = None,
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
    column_groups : sequence of N texts, optional
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
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    left, right = np.asarray(X, dtype=np.uint8), np.asarray(Y, dtype=np.uint8)
    by_size = factor_order(left, right)
    matrices = [np.asarray(panel, dtype=np.float32) for panel in panels.values()]
    ones = np.nan_to_num(matrices[-1])
    groups = None if column_groups is None else np.asarray(column_groups)
    rows = tile_order(left[:, by_size], ones.mean(axis=1))
    columns = _column_order(right[by_size], ones, groups)
    colours = [FACTOR_COLOURS[k % len(FACTOR_COLOURS)] for k in range(left.shape[1])]

    n_strips = left.shape[1] + (groups is not None)
    figure = Figure(figsize=(4.0 * len(panels) + 0.8, 7.6), layout="constrained", dpi=150)
    figure.get_layout_engine().set(w_pad=0.06, h_pad=0.04)  # type: ignore[call-arg, union-attr]
    grid = figure.add_gridspec(
        2,
        2 * len(panels),
        width_ratios=[left.shape[1] * STRIP_INCHES, 3.6] * len(panels),
        height_ratios=[n_strips * STRIP_INCHES, 6.0],
        wspace=0.0,
        hspace=0.0,
    )
    palette = ListedColormap([ZERO, ONE, MISSING])
    top = _strips(right.T[columns], colours).transpose(1, 0, 2)
    if groups is not None:
        top = np.concatenate([_group_strip(groups[columns], group_colours or {}), top])
    side = _strips(left[rows], colours)
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
    names = [
        Patch(facecolor=colour, edgecolor="#bbbbbb", label=label)
        for colour, label in zip((ONE, ZERO, MISSING), value_names, strict=True)
    ]
    names += [Patch(facecolor=c, label=f"factor {k + 1}") for k, c in enumerate(colours[:8])]
    if groups is not None and group_colours:
        present = set(groups.tolist())
        names += [
            Patch(facecolor=c, label=group)
            for group, c in group_colours.items()
            if group in present
        ]
    figure.legend(
        handles=names, loc="outside lower center", ncols=len(names), frameon=False, fontsize=9,
        handlelength=1.0, handleheight=1.0, columnspacing=1.4, labelcolor=INK,
    )  # fmt: skip
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
) -> Figure:
    """Draw scores with error bars against whole numbers and mark the best number."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.add_subplot()
    axes.errorbar(numbers, scores, yerr=errors, marker="o", capsize=3)
    axes.axvline(best, color="0.6", linestyle="--", zorder=0)
    axes.annotate(
        f"best: {best}", (best, 0.97), xycoords=("data", "axes fraction"),
        xytext=(4, 0), textcoords="offset points", va="top",
    )  # fmt: skip
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def _column_order(
    Y: NDArray[np.uint8], ones: NDArray[np.float32], groups: NDArray[Any] | None
) -> NDArray[np.intp]:
    """Columns by factors, then by group, then by how many ones they have."""
    weight = ones.mean(axis=0)
    if groups is not None:
        weight = weight - 2.0 * np.unique(groups, return_inverse=True)[1]
    return tile_order(Y.T, weight)


def _strips(members: NDArray[np.uint8], colours: Sequence[str]) -> NDArray[np.float64]:
    """A picture (n, K, 3) with the colour of each factor where a thing belongs to it."""
    picture = np.ones((*members.shape, 3))
    for k, colour in enumerate(colours):
        picture[members[:, k] > 0, k] = _rgb(colour)
    return picture


def _group_strip(groups: NDArray[Any], colours: Mapping[str, str]) -> NDArray[np.float64]:
    """A picture (1, n, 3) of the groups' colours; grey where a group has none."""
    return np.array([[_rgb(colours.get(str(group), "#999999")) for group in groups]])


def _rgb(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue
