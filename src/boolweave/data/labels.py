"""Names of rows and columns, and rows and columns by name or by number."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from itertools import chain, count
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from boolweave.data.cells import is_missing
from boolweave.runtime.checks import is_whole
from boolweave.runtime.warning import warn_user

if TYPE_CHECKING:
    from boolweave.data.observed import ObservedEntries
    from boolweave.runtime.types import Array

Labels = NDArray[np.str_]
Positions = NDArray[np.intp]

# Up to this many labels are searched one by one. For more, all labels are sorted once.
FEW = 8


def name_of(seen: ObservedEntries, position: int, axis: str) -> str:
    """The label of a row or column, or its number from 1."""
    labels = seen.row_labels if axis == "row" else seen.column_labels
    return f"{axis} {position + 1}" if labels is None else str(labels[position])


def name_for_labels(taken: Collection[str], wanted: str = "row") -> str:
    """A name for a column of row labels that no other column of a table has.

    Examples
    --------
    >>> from boolweave.data.labels import name_for_labels
    >>> name_for_labels(["tea", "rum"]), name_for_labels(["row", "row label"])
    ('row', 'row label 2')
    """
    names = chain([wanted, "row label"], (f"row label {n}" for n in count(2)))
    return next(name for name in names if name not in taken)


def check_labels(labels: Iterable[object] | None, length: int, axis: str) -> Labels | None:
    """Return `labels` as a (length,) array of distinct strings; None stays None."""
    if labels is None:
        return None
    if isinstance(labels, np.ndarray) and labels.ndim == 1 and labels.dtype.kind == "U":
        names: Labels = labels
    elif isinstance(labels, str) or not isinstance(labels, Iterable):
        raise TypeError(f"{axis} labels must be a sequence of names, but got {labels!r}")
    else:
        listed = list(labels)
        for position, label in enumerate(listed):
            if is_missing(label):
                raise ValueError(
                    f"{axis} labels must be names, but the label of {axis} {position} is missing; "
                    "name it or leave out the labels"
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
            "times; rename the repeats or leave out the labels"
        )
    return names


def checked_labels(
    row_labels: Iterable[object] | None,
    column_labels: Iterable[object] | None,
    shape: tuple[int, int],
) -> tuple[Labels | None, Labels | None]:
    """Return the labels of both axes as `check_labels` does."""
    rows = check_labels(row_labels, shape[0], "row")
    return rows, check_labels(column_labels, shape[1], "column")


def check_order(given: Labels | None, expected: Labels | None) -> None:
    """Raise unless columns have the names and the order of the fit, or one has no names.

    This is the rule of scikit-learn for data frames, and so are the first words of the message.
    """
    if given is None or expected is None or np.array_equal(given, expected):
        return
    unknown = sorted(set(given.tolist()) - set(expected.tolist()))
    if unknown:
        what = f"{unknown[0]!r} was not a column of fit"
        remedy = "pass the columns of fit under the same names"
    else:
        at = int(np.argmax(given != expected))
        what = f"column {at} is {str(given[at])!r}, but was {str(expected[at])!r} in fit"
        remedy = "put them in the order of observations_.column_labels"
    raise ValueError(
        "The feature names should match those that were passed during fit, in the same order: "
        f"{what}; {remedy}"
    )


def place_of(row: int, column: int, row_labels: Labels | None, column_labels: Labels | None) -> str:
    """Name a cell, by its labels if there are any."""
    row_name = int(row) if row_labels is None else repr(str(row_labels[row]))
    column_name = int(column) if column_labels is None else repr(str(column_labels[column]))
    return f"row {row_name}, column {column_name}"


# ---------------------------------------------------------------- positions


def number_by_appearance(keys: Array) -> tuple[NDArray[np.int64], Array]:
    """Number keys in the order of their first appearance, and list the different ones.

    Examples
    --------
    >>> import numpy as np
    >>> from boolweave.data.labels import number_by_appearance
    >>> number_by_appearance(np.array(["tea", "rum", "tea"]))
    (array([0, 1, 0]), array(['tea', 'rum'], dtype='<U3'))
    """
    distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.arange(len(order))
    return number[inverse], distinct[order]


def find_labels(
    wanted: Labels, labels: Labels, order: Positions | None = None
) -> tuple[Positions, NDArray[np.bool_]]:
    """Find the position of each wanted label, and whether it exists at all.

    `order` is ``np.argsort(labels)``, if it is known. The position of an unknown label is
    arbitrary.
    """
    if not len(labels):
        return np.zeros(len(wanted), dtype=np.intp), np.zeros(len(wanted), dtype=bool)
    if order is None:
        order = np.argsort(labels)
    slots = np.searchsorted(labels, wanted, sorter=order)
    at = order[np.minimum(slots, len(labels) - 1)]
    return at, labels[at] == wanted


def positions(
    wanted: object, observations: ObservedEntries, axis: Literal["row", "column"]
) -> Positions:
    """Positions of rows or columns of observations, given by number or by label, (n,).

    Text is a label. NumPy integers are positions. Other whole numbers, as in lists and in the
    columns of tables, are labels if the labels are whole numbers, and positions otherwise.
    """
    found = positions_of_any_shape(wanted, observations, axis)
    if found.ndim > 1:
        raise ValueError(f"{axis}s must be one-dimensional, got {found.ndim} dimensions")
    return np.atleast_1d(found)


def positions_of_any_shape(
    wanted: object, observations: ObservedEntries, axis: Literal["row", "column"]
) -> Positions:
    """The same as `positions`, in the shape of `wanted`."""
    size = observations.shape[0 if axis == "row" else 1]
    array = np.asarray(wanted)
    if array.dtype.kind in "OT" and all(isinstance(label, str) for label in array.ravel()):
        array = array.astype(np.str_)
    if array.dtype.kind == "U":
        return _by_label(array.ravel(), observations, axis).reshape(array.shape)
    if array.dtype.kind == "O" and all(is_whole(number) for number in array.ravel()):
        try:
            array = array.astype(np.int64)
        except OverflowError:
            longest = max(array.ravel(), key=abs)
            raise ValueError(f"{axis}s must be from 0 to {size - 1}, got {longest}") from None
    if array.dtype.kind not in "iu" and array.size:
        raise ValueError(f"{axis}s must be whole numbers or labels, got {array.dtype}")
    numbers = observations.row_numbers if axis == "row" else observations.column_numbers
    if numbers is not None and array.size:
        if not _are_positions(wanted):
            texts = array.ravel().astype(np.str_)
            try:
                return _by_label(texts, observations, axis).reshape(array.shape)
            except ValueError as error:
                stop = "" if str(error).endswith("?") else "."
                raise ValueError(
                    f"{error}{stop} The {axis}s are labelled by numbers; pass positions as an array"
                ) from None
        _warn_if_ambiguous(array, numbers, axis)
    array = array.astype(np.intp)
    outside = (array < 0) | (array >= size)
    if outside.any():
        raise ValueError(f"{axis}s must be from 0 to {size - 1}, got {array[outside][0]}")
    return array


def whole_numbers(labels: Labels) -> NDArray[np.int64] | None:
    """The labels as whole numbers, if all of them are whole numbers in their usual spelling.

    Examples
    --------
    >>> import numpy as np
    >>> from boolweave.data.labels import whole_numbers
    >>> whole_numbers(np.array(["7", "12"]))
    array([ 7, 12])
    >>> whole_numbers(np.array(["007", "Bond"])) is None
    True
    """
    if not len(labels) or not (labels[0][-1:].isdecimal() and labels[-1][-1:].isdecimal()):
        return None
    try:
        numbers = labels.astype(np.int64)
    except (ValueError, OverflowError):
        return None
    return numbers if np.array_equal(numbers.astype(labels.dtype), labels) else None


def _are_positions(wanted: object) -> bool:
    """Whether whole numbers come from NumPy, as those of `Observations.hide` and `np.arange` do."""
    while isinstance(wanted, list | tuple) and len(wanted):
        wanted = wanted[0]
    return isinstance(wanted, np.ndarray | np.generic)


def _warn_if_ambiguous(array: NDArray[np.integer], numbers: NDArray[np.int64], axis: str) -> None:
    """Warn if positions may have been meant as labels."""
    if not np.isin(array, numbers).all():
        return
    known = array[(array >= 0) & (array < len(numbers))]
    if len(known) and (numbers[known] != known).any():
        first = int(array.ravel()[0])
        warn_user(
            f"the {axis}s of this model are labelled by numbers, but an array of whole numbers "
            f"holds positions, counted from 0: {first} is not the {axis} labelled "
            f"{str(first)!r}; pass labels as a list or as text",
        )


def pairs(
    rows: object, columns: object, observations: ObservedEntries
) -> tuple[Positions, Positions]:
    """Positions of pairs of a row and a column, each given by number or by label.

    Rows and columns are broadcast as in NumPy: one row and C columns are C pairs, and rows (R, 1)
    and columns (C,) are all pairs (R, C). A single pair has the shape (1,).
    """
    m = np.atleast_1d(positions_of_any_shape(rows, observations, "row"))
    n = np.atleast_1d(positions_of_any_shape(columns, observations, "column"))
    try:
        at = np.broadcast_arrays(m, n)
    except ValueError:
        raise ValueError(
            "rows and cols form pairs and must have the same length, or shapes that broadcast, got "
            f"{_size(m)} and {_size(n)}; for all pairs of some rows and columns, pass rows of "
            "shape (R, 1) and cols of shape (C,)"
        ) from None
    return np.ascontiguousarray(at[0]), np.ascontiguousarray(at[1])


def one_pair(row: object, column: object, observations: ObservedEntries) -> tuple[int, int]:
    """The positions of one row and one column, each given by number or by label."""
    m, n = positions(row, observations, "row"), positions(column, observations, "column")
    if len(m) != 1 or len(n) != 1:
        raise ValueError(f"expected one row and one column, got {len(m)} and {len(n)}")
    return int(m[0]), int(n[0])


def _size(positions: Positions) -> str:
    return str(len(positions)) if positions.ndim == 1 else str(positions.shape)


def _by_label(wanted: Labels, observations: ObservedEntries, axis: str) -> Positions:
    labels = observations.row_labels if axis == "row" else observations.column_labels
    if labels is None:
        raise ValueError(f"the fitted data had no {axis} labels; pass {axis} numbers")
    if len(wanted) <= FEW:
        equal = [labels == label for label in wanted]
        at = np.array([np.argmax(same) for same in equal if len(same)], dtype=np.intp)
        known = np.array([same.any() for same in equal], dtype=bool)
    else:
        order = observations.row_order if axis == "row" else observations.column_order
        at, known = find_labels(wanted, labels, order)
    # Maximum number of labels that a wrong one is compared with, to suggest the right one; this
    # takes some tenths of a second.
    most_compared = 20_000
    if not known.all():
        name = str(wanted[~known][0])
        near = suggestion(name, labels[:most_compared].tolist())
        raise ValueError(f"there is no {axis} named {name!r} in the model{near}")
    return at


def suggestion(name: str, known: Sequence[str]) -> str:
    """Names similar to a wrong one, as the end of a message; empty if there are none.

    Examples
    --------
    >>> from boolweave.data.labels import suggestion
    >>> suggestion("beer", ["bear", "wasp"])
    "; did you mean 'bear'?"
    """
    by_letters = {each.casefold(): each for each in reversed(known)}
    wrong = name.casefold()
    near = difflib.get_close_matches(wrong, by_letters, n=3)
    # This many letters of a name are enough to suggest it.
    shortest_part = 4
    if len(wrong) >= shortest_part:  # a part of the name, as of a film without its year
        inside = sorted((each for each in by_letters if wrong in each), key=len)
        near = [*inside, *(each for each in near if each not in inside)][:3]
    found = [by_letters[each] for each in near]
    return f"; did you mean {' or '.join(map(repr, found))}?" if found else ""


def distinct(names: Sequence[str]) -> list[str]:
    """The names, with a number after each name that already occurred."""
    numbered: dict[str, None] = {}  # a set in order
    for name in names:
        number, new = 1, name
        while new in numbered:
            number += 1
            new = f"{name} ({number})"
        numbered[new] = None
    return list(numbered)
