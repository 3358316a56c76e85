"""The matrix as a report draws it: ordered, and summed up where it is too large."""

from __future__ import annotations

import base64
import html
import itertools
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from boolweave.data.labels import name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from boolweave.data.observations import Observations
    from boolweave.runtime.types import Floats, Integers

    Bits = NDArray[np.uint8]
    Tile = dict[str, list[list[int]]]
    Predict = Callable[[Integers, Integers], Floats]

# A matrix up to this size is drawn entry by entry; a larger one as a grid of means.
MOST_CELLS = 1_000_000
MOST_ON_A_SIDE = 4000
GRID_SIDE = 400
# Rows and columns of each cell of such a grid over whose entries the probability is averaged.
SAMPLED = 3

# Shares are sent as one byte: 0 to 254, and 255 where nothing was observed.
FULL, NOTHING = 254, 255


@dataclass(frozen=True, eq=False)
class Grid:
    """The matrix as it is drawn, rows and columns in the order of the tiles.

    Attributes
    ----------
    observed, probability : arrays of shape (R, C), uint8
        Share of ones, and probability, in 254ths; 255 where nothing was observed.
    row_labels, column_labels : lists of str
    tiles : list of dict
        For each factor, the runs of rows and of columns that it covers, [first, last] each.
    summarised : bool
        Whether a cell stands for several entries.
    """

    observed: Bits
    probability: Bits
    row_labels: list[str]
    column_labels: list[str]
    tiles: list[Tile]
    summarised: bool

    def packed(self) -> dict[str, object]:
        """For JSON: arrays as deflated base64, labels escaped for plotly, which reads tags."""
        return {
            "shape": list(self.observed.shape),
            "observed": _packed(self.observed),
            "probability": _packed(self.probability),
            "rows": [html.escape(label) for label in self.row_labels],
            "columns": [html.escape(label) for label in self.column_labels],
            "tiles": self.tiles,
            "summarised": self.summarised,
        }


def _packed(array: Bits) -> str:
    return base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes(), 9)).decode()


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows or columns in the order in which they are drawn, cut into groups of neighbours.

    Attributes
    ----------
    order : array of shape (n,)
        Positions in the matrix.
    cuts : array of shape (groups + 1,)
        Borders of the groups in this order.
    """

    order: NDArray[np.intp]
    cuts: Integers

    @classmethod
    def of(cls, order: NDArray[np.intp], most: int) -> Groups:
        """At most so many groups, of about equal size."""
        n_groups = max(1, min(len(order), most))
        return cls(order, (np.arange(n_groups + 1) * len(order)) // n_groups)

    def __len__(self) -> int:
        return len(self.cuts) - 1

    def of_each(self) -> Integers:
        """The group of each row or column of the matrix, (n,)."""
        group = np.empty(len(self.order), np.int64)
        group[self.order] = np.repeat(np.arange(len(self)), np.diff(self.cuts))
        return group

    def sampled(self) -> tuple[NDArray[np.intp], Integers]:
        """Up to SAMPLED positions of each group, evenly spread; and where each group begins."""
        last = np.diff(self.cuts)[:, None] - 1
        places = np.unique(self.cuts[:-1, None] + np.arange(SAMPLED) * last // (SAMPLED - 1))
        return self.order[places], np.searchsorted(places, self.cuts[:-1])

    def labels(self, seen: Observations, axis: str) -> list[str]:
        """The name of each group: of its only member, or of its first and last."""
        labels = []
        for start, stop in itertools.pairwise(self.cuts):
            label = name_of(seen, int(self.order[start]), axis)
            if stop - start > 1:
                last = name_of(seen, int(self.order[stop - 1]), axis)
                label = f"{label} … {last} ({stop - start} {axis}s)"
            labels.append(label)
        return labels

    def runs(self, inside: NDArray[np.bool_]) -> list[list[int]]:
        """Runs of groups of which at least half belong to a factor: [first, last] each."""
        share = np.add.reduceat(inside[self.order].astype(float), self.cuts[:-1])
        member = np.concatenate([[False], share >= 0.5 * np.diff(self.cuts), [False]])
        change = np.flatnonzero(member[1:] != member[:-1])
        return [[int(a), int(b) - 1] for a, b in zip(change[::2], change[1::2], strict=True)]


def make_grid(
    seen: Observations,
    orders: tuple[NDArray[np.intp], NDArray[np.intp]],
    predict: Predict,
    members: tuple[NDArray[np.bool_], NDArray[np.bool_]] | None = None,
) -> Grid:
    """Sum up what is too large to draw.

    Parameters
    ----------
    seen : Observations
    orders : (M,) and (N,) arrays
        Rows and columns in the order in which they are drawn.
    predict : function of rows and columns, (n,) each
        The probabilities that are drawn.
    members : (M, K) and (K, N) arrays, optional
        Which rows and columns the factors have.
    """
    whole = seen.n_rows * seen.n_columns <= MOST_CELLS and max(seen.shape) <= MOST_ON_A_SIDE
    most = MOST_ON_A_SIDE if whole else GRID_SIDE
    rows, columns = (Groups.of(order, most) for order in orders)
    factors = () if members is None else zip(members[0].T, members[1], strict=True)
    return Grid(
        observed=_observed(seen, rows, columns),
        probability=_probability(predict, rows, columns),
        row_labels=rows.labels(seen, "row"),
        column_labels=columns.labels(seen, "column"),
        tiles=[{"rows": rows.runs(x), "columns": columns.runs(y)} for x, y in factors],
        summarised=not whole,
    )


def _observed(seen: Observations, rows: Groups, columns: Groups) -> Bits:
    shape = len(rows), len(columns)
    row_group, column_group = rows.of_each(), columns.of_each()
    count, ones = np.zeros((2, shape[0] * shape[1]), dtype=np.int64)
    for row, column, value in entries_of(seen):
        cell = row_group[row] * shape[1] + column_group[column]
        count += np.bincount(cell, minlength=len(count))
        ones += np.bincount(cell[value == 1], minlength=len(ones))
    share = np.round(FULL * ones / np.maximum(count, 1))
    return np.where(count > 0, share, NOTHING).astype(np.uint8).reshape(shape)


def _probability(predict: Predict, rows: Groups, columns: Groups) -> Bits:
    """What is predicted; in a grid of means, the mean over a few entries of each cell."""
    out = np.empty((len(rows), len(columns)))
    chosen_rows, row_starts = rows.sampled()
    chosen_columns, starts = columns.sampled()
    widths = np.diff([*starts, len(chosen_columns)])
    for mean, some in zip(out, np.split(chosen_rows, row_starts[1:]), strict=True):
        pairs = np.repeat(some, len(chosen_columns)), np.tile(chosen_columns, len(some))
        chance = predict(*pairs).reshape(len(some), -1).mean(axis=0)
        mean[:] = np.add.reduceat(chance, starts) / widths
    return np.round(FULL * out).astype(np.uint8)


def entries_of(seen: Observations) -> Iterator[tuple[Integers, Integers, Bits]]:
    """Rows, columns and values of the entries, some at a time."""
    for start, stop, columns, values in seen.row_chunks():
        per_row = np.diff(seen.indptr[start : stop + 1])
        yield np.repeat(np.arange(start, stop), per_row), columns, values
