"""Names of rows and columns, and rows and columns by name or by number."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from boolweave.data.words import is_missing

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from boolweave.data.observed import ObservedEntries

Labels = NDArray[np.str_]
Positions = NDArray[np.intp]

# So few labels are looked for one by one. For more, all labels are sorted, once.
FEW = 8

# Labels that a wrong one is compared with, to suggest the right one: some tenths of a second.
MOST_COMPARED = 20_000


def name_of(seen: ObservedEntries, position: int, axis: str) -> str:
    """The label of a row or column, or its number from 1."""
    labels = seen.row_labels if axis == "row" else seen.column_labels
    return f"{axis} {position + 1}" if labels is None else str(labels[position])


def check_labels(labels: Iterable[object] | None, length: int, axis: str) -> Labels | None:
    """Return `labels` as a (length,) array of distinct strings; None stays None."""
    if labels is None:
        return None
    if isinstance(labels, np.ndarray) and labels.ndim == 1 and labels.dtype.kind == "U":
        names: Labels = labels
    elif isinstance(labels, str):
        raise TypeError(f"{axis} labels must be a sequence of names, but got one text, {labels!r}")
    else:
        listed = list(labels)
        for position, label in enumerate(listed):
            if is_missing(label):
                raise ValueError(
                    f"{axis} labels must be names, but the label of {axis} {position} is missing; "
                    "name it or leave the labels out"
                )
        names = np.array([str(label) for label in listed], dtype=np.str_)
    if len(names) != length:
        raise ValueError(
            f"expected {length} {axis} labels, one for each {axis}, but got {len(names)}; "
            f"pass as many labels as there are {axis}s"
        )
    distinct, counts = np.unique(names, return_counts=True)
    if len(distinct) < length:
        repeated = int(np.argmax(counts > 1))
        raise ValueError(
            f"{axis} labels must differ, but {str(distinct[repeated])!r} occurs {counts[repeated]} "
            "times; rename the repeats or leave the labels out"
        )
    return names


def check_order(given: Labels | None, expected: Labels | None) -> None:
    """Raise unless columns are named as those of the fit, in their order; or one has no names.

    The rule is scikit-learn's for data frames, and so are the first words.
    """
    if given is None or expected is None or np.array_equal(given, expected):
        return
    unknown = sorted(set(given.tolist()) - set(expected.tolist()))
    if unknown:
        what = f"{unknown[0]!r} was not among the columns of fit"
        remedy = "give the columns of fit, by the same names"
    else:
        at = int(np.argmax(given != expected))
        what = f"column {at + 1} is {str(given[at])!r}, but was {str(expected[at])!r} in fit"
        remedy = "put them in that order, which is observations_.column_labels"
    raise ValueError(
        "The feature names should match those that were passed during fit, in the same order: "
        f"{what}; {remedy}"
    )


def place_of(row: int, column: int, row_labels: Labels | None, column_labels: Labels | None) -> str:
    """Name a cell, by its labels where there are any."""
    row_name = int(row) if row_labels is None else repr(str(row_labels[row]))
    column_name = int(column) if column_labels is None else repr(str(column_labels[column]))
    return f"row {row_name}, column {column_name}"


# ---------------------------------------------------------------- positions


def find_labels(
    wanted: Labels, labels: Labels, order: Positions | None = None
) -> tuple[Positions, NDArray[np.bool_]]:
    """Find the position of each wanted label, and whether it is among the labels at all.

    `order` is ``np.argsort(labels)``, if it is known. The position of an unknown label means
    nothing.
    """
    if not len(labels):
        return np.zeros(len(wanted), dtype=np.intp), np.zeros(len(wanted), dtype=bool)
    if order is None:
        order = np.argsort(labels)
    slots = np.searchsorted(labels, wanted, sorter=order)
    at = order[np.minimum(slots, len(labels) - 1)]
    return at, labels[at] == wanted


def positions(
    wanted: ArrayLike, observations: ObservedEntries, axis: Literal["row", "column"]
) -> Positions:
    """Positions of rows or columns of observations, given by number or by label."""
    size = observations.shape[0 if axis == "row" else 1]
    array = np.atleast_1d(np.asarray(wanted))
    if array.ndim != 1:
        raise ValueError(f"{axis}s must be one-dimensional, got {array.ndim} dimensions")
    if array.dtype.kind in "OT" and all(isinstance(label, str) for label in array):
        array = array.astype(np.str_)
    if array.dtype.kind == "U":
        return _by_label(array, observations, axis)
    if array.dtype.kind not in "iu" and array.size:
        raise ValueError(f"{axis}s must be whole numbers or labels, got {array.dtype}")
    array = array.astype(np.intp)
    outside = (array < 0) | (array >= size)
    if outside.any():
        raise ValueError(f"{axis}s must be from 0 to {size - 1}, got {array[outside][0]}")
    return array


def pairs(
    rows: ArrayLike, columns: ArrayLike, observations: ObservedEntries
) -> tuple[Positions, Positions]:
    """Positions of pairs of a row and a column, each given by number or by label."""
    m, n = positions(rows, observations, "row"), positions(columns, observations, "column")
    if len(m) != len(n):
        raise ValueError(
            f"rows and cols are pairs and must have one length, got {len(m)} and {len(n)}"
        )
    return m, n


def _by_label(wanted: Labels, observations: ObservedEntries, axis: str) -> Positions:
    labels = observations.row_labels if axis == "row" else observations.column_labels
    if labels is None:
        raise ValueError(f"the fitted data had no {axis} labels; give {axis} numbers")
    if len(wanted) <= FEW:
        equal = [labels == label for label in wanted]
        at = np.array([np.argmax(same) for same in equal if len(same)], dtype=np.intp)
        known = np.array([same.any() for same in equal], dtype=bool)
    else:
        order = observations.row_order if axis == "row" else observations.column_order
        at, known = find_labels(wanted, labels, order)
    if not known.all():
        name = str(wanted[~known][0])
        near = _suggestion(name, labels)
        raise ValueError(f"there is no {axis} named {name!r} in the model{near}")
    return at


def _suggestion(name: str, labels: Labels) -> str:
    """Labels that a wrong one may stand for, among the first ones where there are many."""
    near = difflib.get_close_matches(name, labels[:MOST_COMPARED].tolist(), n=3)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
