"""Features of rows and columns, and ratings, as numbers.

Some features need not be given: which entries of a line were observed, whatever their values.
People rate what they are drawn to, so the films that someone has rated say something about their
taste.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.data.cells import is_missing

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from scipy.sparse import csr_array

    from boolweave.data.observations import Observations

    Doubles = NDArray[np.float64]

# Maximum number of levels of ratings.
MOST_LEVELS = 50

# The pattern of entries: the maximum number of its features, the factor by which a singular value
# must exceed that of a random pattern, and the smallest table whose pattern is used.
MOST_PATTERN, ABOVE_CHANCE = 16, 1.02
LEAST_LINES, LEAST_ENTRIES = 20, 2000


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
        numbers = _as_numbers(column)
        if numbers is not None:
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


def _as_numbers(column: NDArray[Any]) -> Doubles | None:
    """A column as floats, with NaN for missing cells; None if it holds categories.

    In a table with columns of both kinds, numbers are Python objects.
    """
    if column.dtype.kind == "O":
        if not all(isinstance(cell, Real | np.bool_) or is_missing(cell) for cell in column):
            return None
        column = np.array([np.nan if is_missing(cell) else float(cell) for cell in column])
    return column.astype(np.float64) if column.dtype.kind in "biuf" else None


def levels_of(
    ratings: ArrayLike | None, seen: Observations
) -> tuple[NDArray[np.uint8] | None, int]:
    """The level of each entry, from 0, and the number of levels; None and 2 without ratings."""
    if ratings is None:
        return None, 2
    given = np.asarray(ratings, dtype=np.float64)
    whole = given.shape
    if whole == seen.shape:
        given = given[seen.rows_of_entries(), seen.indices]
    if given.shape != (seen.n_observed,):
        raise ValueError(
            f"ratings must be a table of shape {seen.shape}, or {seen.n_observed} numbers, one for "
            f"each observed entry, got shape {whole}"
        )
    if not np.isfinite(given).all():
        raise ValueError("ratings must have a number for each observed entry, got NaN or infinity")
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


@dataclass(frozen=True, eq=False)
class Pattern:
    """Which entries were observed, as F features of each line; 0 for lines without entries."""

    rows: Doubles  # (M, F)
    columns: Doubles  # (N, F)
    # The features of a row are the sum of the loadings of the columns in which it has entries,
    # divided by √(their number + usual), minus the center.
    loadings: Doubles  # (N, F)
    center: Doubles  # (F,)
    usual: float

    @property
    def n_features(self) -> int:
        """Number of features F."""
        return self.loadings.shape[1]

    def of_rows(self, observations: Observations) -> Doubles:
        """Features of new rows with entries in the same columns, (R, F)."""
        mask = _mask(observations)
        counts = np.diff(observations.indptr)
        sums = (mask @ self.loadings) / np.sqrt(counts + self.usual)[:, None]
        return np.asarray((sums - self.center) * (counts > 0)[:, None])


def pattern_of(observations: Observations) -> Pattern:
    """Leading singular vectors of the 0/1 table of observed entries, scaled by their numbers.

    The first one is left out, since numbers of entries are features anyway; so are those whose
    singular values could occur in a random pattern with the same numbers of entries.
    """
    from scipy.sparse.linalg import svds

    shape, mask = observations.shape, _mask(observations)
    filled = [np.flatnonzero(count) for count in _counts(mask)]
    n_lines = min(map(len, filled))
    if n_lines < LEAST_LINES or observations.n_observed < LEAST_ENTRIES:
        return _empty_pattern(shape)
    mask = mask[filled[0]][:, filled[1]]
    random = np.random.default_rng(0)  # not that of the fit, since this is a property of the table
    first = random.normal(size=n_lines)
    scales, scaled = _scaled(mask)
    left, values, right = svds(scaled, min(MOST_PATTERN + 1, n_lines - 1), v0=first)
    _, by_chance = _scaled(_shuffled(mask, random))
    chance = svds(by_chance, 2, v0=first, return_singular_vectors=False).min()
    order = np.argsort(-values)[1:]
    order = order[values[order] > ABOVE_CHANCE * chance]
    if not len(order):
        return _empty_pattern(shape)
    loadings = scales[1][:, None] * right[order].T
    rows = scales[0][:, None] * (mask @ loadings)
    columns = scales[1][:, None] * (mask.T @ (scales[0][:, None] * left[:, order]))
    center, size = rows.mean(axis=0), np.sqrt(np.mean((rows - rows.mean(axis=0)) ** 2))
    columns -= columns.mean(axis=0)
    return Pattern(
        _among((rows - center) / size, filled[0], shape[0]),
        _among(columns / np.sqrt(np.mean(columns**2)), filled[1], shape[1]),
        _among(loadings / size, filled[1], shape[1]),
        center / size,
        float(_counts(mask)[0].mean()),
    )


def _empty_pattern(shape: tuple[int, int]) -> Pattern:
    rows, columns = (np.zeros((n, 0)) for n in shape)
    return Pattern(rows, columns, columns, np.zeros(0), 1.0)


def _mask(observations: Observations) -> csr_array:
    """1 where there is an entry, (M, N)."""
    from scipy.sparse import csr_array

    ones = np.ones(observations.n_observed)
    return csr_array((ones, observations.indices, observations.indptr), shape=observations.shape)


def _counts(mask: csr_array) -> list[Doubles]:
    """Numbers of entries of rows and of columns."""
    return [np.asarray(mask.sum(axis=axis)) for axis in (1, 0)]


def _scaled(mask: csr_array) -> tuple[list[Doubles], csr_array]:
    """Scales of rows and columns, which balance lines with many and few entries; scaled mask."""
    from scipy.sparse import diags_array

    scales = [1 / np.sqrt(count + count.mean()) for count in _counts(mask)]
    return scales, diags_array(scales[0]) @ mask @ diags_array(scales[1])


def _shuffled(mask: csr_array, random: np.random.Generator) -> csr_array:
    """A random mask with about the same numbers of entries of rows and columns."""
    from scipy.sparse import csr_array

    columns = random.permutation(mask.indices)
    rows = np.repeat(np.arange(mask.shape[0]), np.diff(mask.indptr))
    found = csr_array((np.ones(len(rows)), (rows, columns)), shape=mask.shape)
    found.sum_duplicates()
    found.data[:] = 1
    return found


def _among(some: Doubles, places: NDArray[np.intp], n: int) -> Doubles:
    """Some lines in their places among n; all others are 0."""
    everything = np.zeros((n, some.shape[1]))
    everything[places] = some
    return everything
