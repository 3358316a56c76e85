"""Rows and columns by number or by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


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


def positions(
    wanted: ArrayLike, size: int, labels: NDArray[np.str_] | None, what: str
) -> NDArray[np.intp]:
    """Positions of rows or columns given by number or by label."""
    array = np.atleast_1d(np.asarray(wanted))
    if array.ndim != 1:
        raise ValueError(f"{what}s must be one-dimensional, got {array.ndim} dimensions")
    if array.dtype.kind in "OT" and all(isinstance(label, str) for label in array):
        array = array.astype(np.str_)
    if array.dtype.kind == "U":
        if labels is None:
            raise ValueError(f"the fitted data had no {what} labels; give {what} numbers")
        order = np.argsort(labels)
        at = order[np.minimum(np.searchsorted(labels, array, sorter=order), size - 1)]
        unknown = labels[at] != array
        if unknown.any():
            raise ValueError(f"there is no {what} named {str(array[unknown][0])!r}")
        return at.astype(np.intp)
    if array.dtype.kind not in "iu" and array.size:
        raise ValueError(f"{what}s must be whole numbers or labels, got {array.dtype}")
    array = array.astype(np.intp)
    outside = (array < 0) | (array >= size)
    if outside.any():
        raise ValueError(f"{what}s must be from 0 to {size - 1}, got {array[outside][0]}")
    return array
