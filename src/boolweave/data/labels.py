"""Rows and columns by number or by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Positions = NDArray[np.intp]

# So few labels are looked for one by one. For more, all labels are sorted, once.
FEW = 8


def check_order(given: NDArray[np.str_] | None, expected: NDArray[np.str_] | None) -> None:
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


def positions(wanted: ArrayLike, observations: Any, axis: Literal["row", "column"]) -> Positions:
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


def _by_label(wanted: NDArray[np.str_], observations: Any, axis: str) -> Positions:
    labels = observations.row_labels if axis == "row" else observations.column_labels
    if labels is None:
        raise ValueError(f"the fitted data had no {axis} labels; give {axis} numbers")
    if len(wanted) <= FEW:
        found = [np.flatnonzero(labels == label)[:1] for label in wanted]
        known = np.array([len(at) > 0 for at in found], dtype=bool)
        at = np.concatenate([*found, np.empty(0, dtype=np.intp)])
    else:
        order = observations.row_order if axis == "row" else observations.column_order
        slots = np.searchsorted(labels, wanted, sorter=order)
        at = order[np.minimum(slots, len(labels) - 1)]
        known = labels[at] == wanted
    if not known.all():
        raise ValueError(f"there is no {axis} named {str(wanted[~known][0])!r}")
    return at.astype(np.intp)
