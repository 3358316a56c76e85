"""The matrix as a report draws it, and lists of single entries.

A matrix that is too large to draw is averaged over blocks. Lists hold missing entries with their
predictions, and doubtful observed ones. Both are complete if a table has up to a million cells. In
a larger table, only entries that are spread evenly over it are examined, and M × N numbers are
never computed.
"""

from __future__ import annotations

import base64
import itertools
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from boolweave.data.labels import name_of
from boolweave.data.observations import SAMPLED_COLUMNS, Observations
from boolweave.data.observed import ObservedEntries
from boolweave.data.ones import SparseObservations
from boolweave.runtime.types import Array, Bits, Floats, Integers, Positions

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
    row_order: Positions
    column_order: Positions
    row_labels: list[str]
    column_labels: list[str]
    tiles: list[Tile]
    summarized: bool
    sampled: bool = False

    @property
    def drawn(self) -> tuple[Positions, Positions]:
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

    order: Positions
    cuts: Integers

    @classmethod
    def of(cls, order: Positions, most: int) -> Groups:
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

    def sampled(self) -> tuple[Positions, Integers]:
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
    orders: tuple[Positions, Positions],
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
    sampled = not whole and members is not None and seen.n_listed < seen.n_observed
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


def _sample(order: Positions, members: NDArray[np.bool_]) -> Positions:
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
    for row, column, value in seen.entries():
        drawn = (of_row[row] >= 0) & (of_column[column] >= 0)
        cell = of_row[row[drawn]] * shape[1] + of_column[column[drawn]]
        count += np.bincount(cell, minlength=len(count))
        ones += np.bincount(cell[value[drawn] == 1], minlength=len(ones))
    count += seen.implied_zeros_by_group(of_row, of_column, shape).ravel()
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


# ---------------------------------------------------------------- lists of entries

# Maximum number of entries that are examined.
MOST_JUDGED = 1 << 20

# Maximum number of entries of a list.
MOST_LISTED = 5000

# Up to this number of entries are listed as doubtful if their opposite is this probable, even if
# the model predicts them correctly.
LEAST_DOUBTFUL, LEAST_DOUBT = 200, 0.1


@dataclass(frozen=True, eq=False)
class EntryList:
    """The entries of a list, in order.

    Attributes
    ----------
    kind : {"holes", "doubtful", "missed", "false"}
    rows, columns : arrays of shape (n,)
        Positions in the table.
    observed : array of shape (n,), uint8
        The observed values, 255 for missing entries.
    chances : array of shape (n,)
        P(o = 1), the probability that a one would be observed.
    n_all : int
        Number of such entries in the table; for doubtful entries, the number of observed entries.
    is_sample : bool
        Whether only some of them were examined.
    """

    kind: str
    rows: Integers
    columns: Integers
    observed: Bits
    chances: Floats
    n_all: int
    is_sample: bool

    def __len__(self) -> int:
        return len(self.rows)

    def packed(self, rows: Lines, columns: Lines) -> dict[str, object]:
        """For JSON: numbers of lines, values and probabilities as deflated base64."""
        return {
            "kind": self.kind,
            "n": len(self),
            "rows": packed_array(rows.numbers(self.rows)),
            "columns": packed_array(columns.numbers(self.columns)),
            "observed": packed_array(self.observed),
            "chances": packed_array(self.chances.astype(np.float32)),
        }


def holes(seen: Seen, predict: Predict) -> EntryList | None:
    """The missing entries, the most probable ones first; None if nothing is missing."""
    n_holes = seen.n_rows * seen.n_columns - seen.n_observed
    if not n_holes:
        return None
    rows, columns = seen.missing_cells(MOST_JUDGED)
    chances = predicted(predict, rows, columns)
    order = np.argsort(-chances, kind="stable")[:MOST_LISTED]
    pairs, nothing = (rows[order], columns[order]), np.full(len(order), NOTHING, dtype=np.uint8)
    return EntryList("holes", *pairs, nothing, chances[order], n_holes, len(rows) < n_holes)


def doubtful(seen: Seen, predict: Predict, grid: Grid) -> EntryList | None:
    """Observed entries in the order of their probability, the least probable first.

    These are all entries that the model would have predicted wrong, and some more, of which it is
    not certain, if there are few of them; None if it is certain of all. In a matrix that lists only
    its ones, they are ones, and zeros that are drawn.
    """
    step = max(1, -(-seen.n_listed // MOST_JUDGED))
    rows, columns, values, chances, doubts = (
        np.zeros(0, dtype=kind) for kind in (np.int64, np.int64, np.uint8, float, float)
    )
    for row, column, value in _judged(seen, grid, step):
        chance = predicted(predict, row, column)
        rows, columns = np.concatenate([rows, row]), np.concatenate([columns, column])
        values, chances = np.concatenate([values, value]), np.concatenate([chances, chance])
        doubts = np.concatenate([doubts, np.where(value == 1, 1 - chance, chance)])
        best = np.argsort(-doubts, kind="stable")[:MOST_LISTED]
        rows, columns, values, chances, doubts = (
            array[best] for array in (rows, columns, values, chances, doubts)
        )
    n_wrong, n_uncertain = (np.count_nonzero(doubts > least) for least in (0.5, LEAST_DOUBT))
    n = max(int(n_wrong), min(int(n_uncertain), LEAST_DOUBTFUL))
    if not n:
        return None
    entries = rows[:n], columns[:n], values[:n], chances[:n]
    return EntryList(
        "doubtful", *entries, seen.n_observed, step > 1 or seen.n_listed < seen.n_observed
    )


def _judged(seen: Seen, grid: Grid, step: int) -> Iterator[tuple[Integers, Integers, Bits]]:
    """Every `step`-th of the listed entries, and some zeros if zeros are not listed."""
    begin = 0
    for row, column, value in seen.entries():
        chosen = slice((-begin) % step, None, step)
        begin += len(row)
        yield row[chosen], column[chosen].astype(np.intp), value[chosen]
    drawn = grid.row_order[:SAMPLED_COLUMNS]
    most = max(1, MOST_JUDGED // max(1, len(drawn)))
    row, column = seen.implied_zeros(drawn, grid.column_order[:most])
    yield row, column, np.zeros(len(row), dtype=np.uint8)


def listed(kind: str, pairs: NDArray[np.int64], value: int, predict: Predict) -> EntryList:
    """A list of given pairs, (n, 2), all with the same observed value."""
    rows, columns = pairs[:MOST_LISTED].T
    observed, chances = np.full(len(rows), value, np.uint8), predicted(predict, rows, columns)
    return EntryList(kind, rows, columns, observed, chances, len(pairs), False)


def predicted(predict: Predict, rows: Integers, columns: Integers) -> Floats:
    """Probabilities at pairs, (n,), some at a time."""
    out = np.empty(len(rows))
    # Number of pairs that are predicted at a time.
    chunk = 1 << 15
    for start in range(0, len(rows), chunk):
        some = slice(start, start + chunk)
        out[some] = predict(rows[some], columns[some])
    return out


class Lines:
    """Rows, or columns, in the order of their numbers on the page.

    Parameters
    ----------
    seen : Observations or SparseObservations, shape (M, N)
    axis : {"row", "column"}
    drawn : array of shape (n,)
        Positions of the lines that get the first numbers.
    members : array of shape (M or N, K), optional
        The factors to which they belong.
    offsets : array of shape (M or N,), optional
        The offsets of a completion.
    """

    def __init__(
        self,
        seen: ObservedEntries,
        axis: str,
        drawn: Integers,
        members: NDArray[np.bool_] | None = None,
        offsets: Floats | None = None,
    ) -> None:
        self.seen, self.axis, self.members, self.offsets = seen, axis, members, offsets
        self._numbers = {position: number for number, position in enumerate(drawn.tolist())}

    def numbers(self, positions: Integers) -> NDArray[np.int32]:
        """The numbers of lines, (n,); new lines are added."""
        known = self._numbers
        found = [known.setdefault(position, len(known)) for position in positions.tolist()]
        return np.array(found, dtype=np.int32)

    def table(self) -> dict[str, object]:
        """For JSON: names, and factors (numbered from 0) or offsets, by number."""
        at = np.array(list(self._numbers), dtype=np.intp)
        table: dict[str, object] = {
            "names": [name_of(self.seen, position, self.axis) for position in at.tolist()]
        }
        if self.members is not None:
            table["factors"] = [np.flatnonzero(own).tolist() for own in self.members[at]]
        if self.offsets is not None:
            table["offsets"] = self.offsets[at].round(3).tolist()
        return table
