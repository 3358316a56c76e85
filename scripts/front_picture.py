"""Draw docs/pictures/parties.png: the votes of the 107th Senate, ordered by two factors.

python scripts/front_picture.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import pyplot
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch

from boolweave import factorize
from boolweave.datasets import load_senate

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "pictures" / "parties.png"
YEA, NAY, NO_VOTE = "#26324d", "#f3e9d2", "#c3c3c3"
PARTIES = {"Democrat": "#2f6fd0", "Republican": "#cf3d3d", "Independent": "#7a7a7a"}


def order(first: np.ndarray, second: np.ndarray, ones: np.ndarray) -> np.ndarray:
    """Order members: of the first factor only, of neither, of both, of the second only."""
    return np.lexsort((-ones, 2 * second.astype(int) - first))


def main() -> None:
    senate = load_senate(107)
    votes = senate.observations.to_dense()
    found = factorize(senate.observations, n_components=2, random_state=0)
    rows = order(found.X[:, 0], found.X[:, 1], np.nanmean(votes, axis=1))
    columns = order(found.Y[0], found.Y[1], np.nanmean(votes, axis=0))
    parties = np.array(senate.column_groups)

    matplotlib.rcParams.update({"font.size": 13, "font.family": "DejaVu Sans"})
    figure, axes = pyplot.subplots(
        2, 2, figsize=(8, 6.4), height_ratios=[1, 22], layout="constrained"
    )
    figure.get_layout_engine().set(hspace=0.01, wspace=0.05)
    colours = ListedColormap([NAY, YEA])
    colours.set_bad(NO_VOTE)
    titles = (
        "633 roll calls × 102 senators,\nas they are in the file",
        "the same votes,\nordered by two factors",
    )
    for strip, picture, title, by_row, by_column in zip(
        axes[0], axes[1], titles,
        (np.arange(votes.shape[0]), rows), (np.arange(votes.shape[1]), columns), strict=True,
    ):  # fmt: skip
        strip.set_title(title, fontsize=14)
        names = list(PARTIES)
        numbers = [[names.index(party) for party in parties[by_column]]]
        strip.imshow(
            numbers, aspect="auto", cmap=ListedColormap(list(PARTIES.values())), vmin=0, vmax=2,
            interpolation="nearest",
        )  # fmt: skip
        picture.imshow(
            np.ma.masked_invalid(votes[np.ix_(by_row, by_column)]), aspect="auto", cmap=colours,
            interpolation="nearest",
        )  # fmt: skip
        for part in (strip, picture):
            part.set_xticks([])
            part.set_yticks([])
            part.spines[:].set_visible(False)
    axes[0, 0].set_ylabel("party", rotation=0, ha="right", va="center")
    axes[1, 0].set_ylabel("roll calls")
    for below in axes[1]:
        below.set_xlabel("senators")
    legend = [Patch(color=colour, label=name) for name, colour in PARTIES.items()]
    legend += [Patch(facecolor=YEA, label="yea"), Patch(facecolor=NAY, label="nay")]
    legend += [Patch(facecolor=NO_VOTE, label="no vote")]
    figure.legend(handles=legend, ncols=3, loc="outside lower center", frameon=False)
    figure.savefig(PICTURE, dpi=130, facecolor="white")


if __name__ == "__main__":
    main()
