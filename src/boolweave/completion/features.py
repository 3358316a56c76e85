"""Features of rows and columns, and ratings, as numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from boolweave.data.observations import Observations

# Maximum number of levels of ratings.
MOST_LEVELS = 50


def encoded_features(given: Any, n_lines: int, name: str) -> NDArray[np.float64] | None:
    """Features of lines as numbers (lines, G) with mean 0; each category becomes a column.

    Examples
    --------
    >>> encoded_features([["a"], ["b"], ["a"], ["b"]], 4, "row_features")[:, 0].tolist()
    [0.5, -0.5, 0.5, -0.5]
    """
    if given is None:
        return None
    array = np.asarray(given)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or len(array) != n_lines:
        raise ValueError(f"{name} must have {n_lines} lines, but has the shape {array.shape}")
    columns = []
    for column in array.T:
        if column.dtype.kind in "biuf":
            numbers = column.astype(np.float64)
            if not np.isfinite(numbers).all():
                raise ValueError(
                    f"{name} must be finite numbers or categories; fill in missing values"
                )
            columns.append(numbers)
        else:
            texts = np.array([str(cell) for cell in column])
            columns += [(texts == level).astype(np.float64) for level in np.unique(texts)]
    table = np.column_stack(columns) if columns else np.zeros((n_lines, 0))
    return np.asarray(table - table.mean(axis=0))


def levels_of(
    ratings: ArrayLike | None, seen: Observations
) -> tuple[NDArray[np.uint8] | None, int]:
    """The level of each entry, from 0, and the number of levels; None and 2 without ratings."""
    if ratings is None:
        return None, 2
    given = np.asarray(ratings, dtype=np.float64)
    if given.shape != (seen.n_observed,) or not np.isfinite(given).all():
        raise ValueError(
            f"ratings must be {seen.n_observed} numbers, one for each observed entry, got shape "
            f"{given.shape}"
        )
    levels, level = np.unique(given, return_inverse=True)
    if len(levels) > MOST_LEVELS:
        raise ValueError(
            f"ratings must have at most {MOST_LEVELS} different values, got {len(levels)}; round "
            "them"
        )
    lowest_one = level[seen.values == 1].min(initial=len(levels))
    highest_zero = level[seen.values == 0].max(initial=-1)
    if lowest_one <= highest_zero:
        raise ValueError(
            "ones must be the entries above some rating, but a zero is rated "
            f"{levels[highest_zero]:g} and a one {levels[lowest_one]:g}; cut the ratings at one "
            "number"
        )
    return level.astype(np.uint8), max(2, len(levels))
