"""The matrix as a report draws it: ordered, and averaged over blocks if it is too large."""

from __future__ import annotations

import base64
import itertools
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from boolweave.data.cells import MISSING
from boolweave.data.labels import name_of
from boolweave.data.observations import ENTRIES_PER_CHUNK
from boolweave.data.ones import SparseObservations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from boolweave.data.observations import Observations
    from boolweave.runtime.types import Array, Floats, Integers

    Bits = NDArray[np.uint8]
    Tile = dict[str, list[list[int]]]
    Seen = Observations | SparseObservations
    Predict = Callable[[Integers, Integers], Floats]

# A matrix up to this size is drawn entry by entry, a larger one as a grid of means.
MOST_CELLS = 1_000_000
MOST_ON_A_SIDE = 4000
GRID_SIDE = 400
# Number of rows and columns of each cell of such a grid that the mean probability is taken over.
SAMPLED = 3

# Fractions are sent as one byte: 0 to 254, and 255 where nothing was observed.
FULL, NOTHING = 254, 255


@dataclass(frozen=True, eq=False)
class Grid:
    """The matrix as it is drawn, with rows and columns in the order of the tiles.

    Attributes
    ----------
    observed, probability : arrays of shape (R, C), uint8
        Fraction of ones, and probability, in 254ths; 255 where nothing was observed.
    row_order, column_order : arrays of shape (n,)
        Positions of the rows and columns that are drawn, in their order.
    row_labels, column_labels : lists of str
    tiles : list of dict
        For each factor, the runs of rows and of columns that it covers, [first, last] each.
    summarized : bool
        Whether a cell stands for several entries.
    sampled : bool
        Whether only some rows and columns of each tile are drawn.
    """

    observed: Bits
    probability: Bits
    row_order: NDArray[np.intp]
    column_order: NDArray[np.intp]
    row_labels: list[str]
    column_labels: list[str]
    tiles: list[Tile]
    summarized: bool
    sampled: bool = False

    @property
    def drawn(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Positions of the rows and of the columns that are drawn one by one, possibly none."""
        none = np.zeros(0, dtype=np.intp)
        return (none, none) if self.summarized else (self.row_order, self.column_order)

    def packed(self) -> dict[str, object]:
        """For JSON: arrays as deflated base64, and labels if a cell stands for several entries."""
        return {
            "shape": list(self.observed.shape),
            "observed": packed_array(self.observed),
            "probability": packed_array(self.probability),
            "labels": [self.row_labels, self.column_labels] if self.summarized else None,
            "tiles": self.tiles,
            "summarized": self.summarized,
            "sampled": self.sampled,
        }


def packed_array(array: Array) -> str:
    """The bytes of an array as deflated base64."""
    return base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes(), 9)).decode()


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows or columns in the order in which they are drawn, divided into groups of neighbours.

    Attributes
    ----------
    order : array of shape (n,)
        Positions of all or some of them in the matrix.
    cuts : array of shape (groups + 1,)
        Borders of the groups in this order.
    """

    order: NDArray[np.intp]
    cuts: Integers

    @classmethod
    def of(cls, order: NDArray[np.intp], most: int) -> Groups:
        """At most `most` groups of about equal size."""
        n_groups = max(1, min(len(order), most))
        return cls(order, (np.arange(n_groups + 1) * len(order)) // n_groups)

    def __len__(self) -> int:
        return len(self.cuts) - 1

    def of_each(self, n: int) -> Integers:
        """The group of each of the n rows or columns of the matrix, (n,); −1 if it has none."""
        group = np.full(n, -1, dtype=np.int64)
        group[self.order] = np.repeat(np.arange(len(self)), np.diff(self.cuts))
        return group

    def sampled(self) -> tuple[NDArray[np.intp], Integers]:
        """Up to SAMPLED evenly spread positions of each group, and where each group begins."""
        last = np.diff(self.cuts)[:, None] - 1
        places = np.unique(self.cuts[:-1, None] + np.arange(SAMPLED) * last // (SAMPLED - 1))
        return self.order[places], np.searchsorted(places, self.cuts[:-1])

    def labels(self, seen: Seen, axis: str) -> list[str]:
        """The name of each group: that of its only member, or those of its first and last."""
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
    seen: Seen,
    orders: tuple[NDArray[np.intp], NDArray[np.intp]],
    predict: Predict,
    members: tuple[NDArray[np.bool_], NDArray[np.bool_]] | None = None,
) -> Grid:
    """Make the grid of a matrix; a matrix that is too large to draw is averaged over blocks.

    Parameters
    ----------
    seen : Observations or SparseObservations
    orders : (M,) and (N,) arrays
        Rows and columns in the order in which they are drawn.
    predict : function of rows and columns, (n,) each
        The probabilities that are drawn.
    members : (M, K) and (K, N) arrays, optional
        The rows and columns of the factors.
    """
    whole = seen.n_rows * seen.n_columns <= MOST_CELLS and max(seen.shape) <= MOST_ON_A_SIDE
    most = MOST_ON_A_SIDE if whole else GRID_SIDE
    # A mean over a large and sparse matrix would be almost zero everywhere.
    sampled = not whole and members is not None and isinstance(seen, SparseObservations)
    if sampled and members is not None:
        orders = _sample(orders[0], members[0]), _sample(orders[1], members[1].T)
    rows, columns = (Groups.of(order, most) for order in orders)
    factors = () if members is None else zip(members[0].T, members[1], strict=True)
    return Grid(
        observed=_observed(seen, rows, columns),
        probability=_probability(predict, rows, columns),
        row_order=rows.order,
        column_order=columns.order,
        row_labels=rows.labels(seen, "row"),
        column_labels=columns.labels(seen, "column"),
        tiles=[{"rows": rows.runs(x), "columns": columns.runs(y)} for x, y in factors],
        summarized=max(len(rows.order), len(columns.order)) > most,
        sampled=sampled,
    )


def _sample(order: NDArray[np.intp], members: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Some rows or columns of each factor, (n, K), evenly spread in the given order."""
    most = max(2, GRID_SIDE // max(1, members.shape[1]))
    drawn = np.zeros(len(order), dtype=bool)
    for k in range(members.shape[1]):
        own = np.flatnonzero(members[order, k])
        drawn[own[np.linspace(0, len(own) - 1, min(most, len(own))).astype(np.intp)]] = True
    return order[drawn] if drawn.any() else order[:GRID_SIDE]


def _observed(seen: Seen, rows: Groups, columns: Groups) -> Bits:
    shape = len(rows), len(columns)
    of_row, of_column = rows.of_each(seen.n_rows), columns.of_each(seen.n_columns)
    count, ones = np.zeros((2, shape[0] * shape[1]), dtype=np.int64)
    sparse = isinstance(seen, SparseObservations)
    for row, column, value in entries_of(seen):
        if sparse:
            drawn = (of_row[row] >= 0) & (of_column[column] >= 0)
            row, column, value = row[drawn], column[drawn], value[drawn]
        cell = of_row[row] * shape[1] + of_column[column]
        count += np.bincount(cell, minlength=len(count))
        ones += np.bincount(cell[value == 1], minlength=len(ones))
    if sparse:  # entries that are not listed are zeros
        missing = count - ones
        count = np.outer(np.diff(rows.cuts), np.diff(columns.cuts)).ravel() - missing
    share = np.round(FULL * ones / np.maximum(count, 1))
    return np.where(count > 0, share, NOTHING).astype(np.uint8).reshape(shape)


def _probability(predict: Predict, rows: Groups, columns: Groups) -> Bits:
    """The predicted probability; in a grid of means, the mean over a few entries of each cell."""
    out = np.empty((len(rows), len(columns)))
    chosen_rows, row_starts = rows.sampled()
    chosen_columns, starts = columns.sampled()
    widths = np.diff([*starts, len(chosen_columns)])
    for mean, some in zip(out, np.split(chosen_rows, row_starts[1:]), strict=True):
        pairs = np.repeat(some, len(chosen_columns)), np.tile(chosen_columns, len(some))
        chance = predict(*pairs).reshape(len(some), -1).mean(axis=0)
        mean[:] = np.add.reduceat(chance, starts) / widths
    return np.round(FULL * out).astype(np.uint8)


def entries_of(seen: Seen) -> Iterator[tuple[Integers, Integers, Bits]]:
    """Rows, columns and values of the entries, some at a time.

    If zeros are not listed, these are the ones and the missing cells.
    """
    if isinstance(seen, SparseObservations):
        for cells, code in ((seen.ones, 1), (seen.holes, MISSING)):
            for start in range(0, len(cells), ENTRIES_PER_CHUNK):
                at = np.arange(start, min(start + ENTRIES_PER_CHUNK, len(cells)))
                row = np.searchsorted(cells.indptr, at, side="right") - 1
                yield row, cells.columns[at], np.full(len(at), code, dtype=np.uint8)
        return
    for start, stop, columns, values in seen.row_chunks():
        per_row = np.diff(seen.indptr[start : stop + 1])
        yield np.repeat(np.arange(start, stop), per_row), columns, values
