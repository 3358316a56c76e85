"""The entries of a table by rows and by columns, and the features of its lines.

Features of rows and columns, and ratings, are turned into numbers. Some features need not be given:
which entries of a line were observed, whatever their values. People rate what they are drawn to, so
the films that someone has rated say something about their taste.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boolweave.completion.kernels.drawing import Lines, lines_of
from boolweave.data.cells import is_missing
from boolweave.data.labels import Labels, find_labels
from boolweave.data.observations import Observations
from boolweave.runtime.types import Doubles, Floats, Positions
from boolweave.runtime.words import shortened

if TYPE_CHECKING:
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import LinearOperator


@dataclass(frozen=True, eq=False)
class Features:
    """Features of the rows or of the columns: all that is known of them besides their values.

    `here` is used for entries that are fitted and `elsewhere` for entries that are predicted. They
    differ in the number of *other* entries of a line, which is one less for an entry of the fit.
    """

    here: Doubles  # (lines, F)
    elsewhere: Doubles  # (lines, F)
    n_pattern: int = 0  # number of features of the pattern of entries, which are the last ones

    @property
    def n_features(self) -> int:
        """Number of features F, including the constant and the number of entries."""
        return self.here.shape[1]

    @cached_property
    def products(self) -> Doubles:
        """Sums over lines of the products of two features, (F, F)."""
        return self.here.T @ self.here

    def take(self, lines: Positions) -> Features:
        """The features of some lines."""
        return Features(self.here[lines], self.elsewhere[lines], self.n_pattern)

    def with_pattern(self, pattern: Doubles) -> Features:
        """These features, followed by those of the pattern of entries, (lines, P)."""
        here, elsewhere = (np.column_stack([part, pattern]) for part in (self.here, self.elsewhere))
        return Features(here, elsewhere, pattern.shape[1])


def make_features(
    counts: NDArray[np.int64], given: Floats | None = None, like: Doubles | None = None
) -> tuple[Features, Doubles]:
    """Features of lines: a constant, the number of entries, and those given (lines, G).

    Also return the mean and standard deviation (2,) by which the numbers of entries were scaled.
    For new lines, `like` gives those of the fit.
    """
    others = np.log1p(np.maximum(counts - 1, 0))
    if like is None:
        seen = others[counts > 0]
        like = np.array([seen.mean(), seen.std() or 1.0]) if len(seen) else np.array([0.0, 1.0])
    # Numbers of entries are clipped at this many standard deviations from their mean, so that
    # nothing is extrapolated to a line without entries among lines that all have many.
    far = 2.5
    parts = [np.clip((log - like[0]) / like[1], -far, far) for log in (others, np.log1p(counts))]
    more = np.zeros((len(counts), 0)) if given is None else np.asarray(given, dtype=np.float64)
    here, elsewhere = (np.column_stack([np.ones(len(counts)), part, more]) for part in parts)
    return Features(here, elsewhere), like


@dataclass(frozen=True, eq=False)
class Table:
    """Everything that stays fixed while a model is fitted to entries."""

    observations: Observations  # its values are 0 and 1
    levels: NDArray[np.uint8]  # (entries,) the values, or the numbers of ordered levels
    row_features: Features
    column_features: Features
    n_levels: int
    weights: Doubles | None  # (entries,)
    # Mean and standard deviation of the logarithms of the numbers of entries, of rows and columns.
    count_scales: tuple[Doubles, Doubles]

    @classmethod
    def of(
        cls,
        observations: Observations,
        levels: NDArray[np.uint8] | None = None,
        weights: Doubles | None = None,
        row_features: Floats | None = None,
        column_features: Floats | None = None,
        n_levels: int = 2,
    ) -> Table:
        """Make a table from observations and the parameters of a fit."""
        by_row, by_column = observations.observed_per_line()
        rows, row_scale = make_features(by_row, row_features)
        columns, column_scale = make_features(by_column, column_features)
        seen = observations.values if levels is None else levels
        scales = (row_scale, column_scale)
        return cls(observations, seen, rows, columns, n_levels, weights, scales)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        return self.observations.shape

    @property
    def n_entries(self) -> int:
        """Number of entries."""
        return self.observations.n_observed

    @cached_property
    def by_row(self) -> Lines:
        """The entries row by row."""
        seen = self.observations
        place = np.arange(self.n_entries, dtype=np.int64)
        other = seen.indices.astype(np.int32, copy=False)
        return lines_of(seen.indptr, other, self.levels, place)

    @cached_property
    def by_column(self) -> Lines:
        """The entries column by column."""
        seen = self.observations
        place = np.argsort(seen.indices, kind="stable").astype(np.int64)
        indptr = np.concatenate([[0], np.cumsum(seen.observed_per_line()[1])])
        rows = seen.rows_of_entries()[place].astype(np.int32)
        return lines_of(indptr, rows, self.levels[place], place)

    @cached_property
    def pattern(self) -> Pattern:
        """Which entries were observed, as features of rows and columns."""
        return pattern_of(self.observations)

    def find_pattern(self, check: Callable[[], None]) -> Pattern:
        """Find the pattern of entries; `check` is called again and again, and may raise."""
        if "pattern" not in self.__dict__:
            self.__dict__["pattern"] = pattern_of(self.observations, check)
        return self.pattern

    def features(self, with_pattern: bool) -> tuple[Features, Features]:
        """The features of rows and of columns, with or without those of the pattern of entries."""
        return self._with_pattern if with_pattern else (self.row_features, self.column_features)

    @cached_property
    def _with_pattern(self) -> tuple[Features, Features]:
        return (
            self.row_features.with_pattern(self.pattern.rows),
            self.column_features.with_pattern(self.pattern.columns),
        )

    @cached_property
    def filled(self) -> Filled:
        """The lines that have entries, as a table of their own."""
        seen = self.observations
        counts = seen.observed_per_line()
        rows, columns = (np.flatnonzero(of_lines) for of_lines in counts)
        if (len(rows), len(columns)) == seen.shape:
            return Filled(self, rows, columns)
        place = np.zeros(seen.n_columns, dtype=seen.indices.dtype)
        place[columns] = np.arange(len(columns))
        indptr = np.concatenate([[0], np.cumsum(counts[0][rows])])
        fewer = type(seen)((len(rows), len(columns)), indptr, place[seen.indices], seen.values)
        own = replace(
            self,
            observations=fewer,
            row_features=self.row_features.take(rows),
            column_features=self.column_features.take(columns),
        )
        return Filled(own, rows, columns)

    def part(self, kept: NDArray[np.bool_]) -> Table:
        """The table with only some of its entries, a mask (entries,)."""
        fewer = self.observations.split(~kept)[0]
        extra = [f.here[:, 2:] for f in (self.row_features, self.column_features)]
        weights = None if self.weights is None else self.weights[kept]
        return Table.of(fewer, self.levels[kept], weights, extra[0], extra[1], self.n_levels)


class Filled(NamedTuple):
    """The table of the lines that have entries, and where these lines are in the whole table."""

    table: Table
    rows: Positions  # (rows with entries,)
    columns: Positions  # (columns with entries,)


# ---------------------------------------------------------------- features and ratings as numbers

# Maximum number of levels of ratings.
MOST_LEVELS = 50

# The pattern of entries: the maximum number of its features, the factor by which a singular value
# must exceed that of a random pattern, and the smallest table whose pattern is used.
MOST_PATTERN, ABOVE_CHANCE = 16, 1.02
LEAST_LINES, LEAST_ENTRIES = 20, 2000


class FeatureColumn(NamedTuple):
    """How a column of features becomes numbers: a category each, or one scaled number."""

    levels: tuple[str, ...]  # categories; empty for a number
    largest: float  # numbers are divided by their largest size, so that squares are finite
    center: float
    deviation: float  # 0 if the numbers were equal up to rounding
    means: tuple[float, ...]  # of the encoded columns in the fit

    @classmethod
    def of(cls, column: NDArray[Any]) -> FeatureColumn:
        """The encoding of a column, in which encoded columns have the mean 0."""
        numbers = _as_numbers(column)
        levels: tuple[str, ...] = ()
        largest, center, deviation = 1.0, 0.0, 0.0
        if numbers is None:
            levels = tuple(np.unique([str(cell) for cell in column]).tolist())
        elif len(numbers):
            largest = float(np.abs(numbers).max()) or 1.0
            scaled = numbers / largest
            center = float(scaled.mean())
            spread = float((scaled - center).std())
            # Numbers with a smaller spread, as a fraction of the largest one, are equal.
            rounding = 1e-12
            deviation = spread if spread > rounding else 0.0
        made = cls(levels, largest, center, deviation, ())
        encoded = made._raw(column)
        means = encoded.mean(axis=0) if len(encoded) else np.zeros(encoded.shape[1])
        return made._replace(means=tuple(means.tolist()))

    def encoded(self, column: NDArray[Any]) -> Doubles:
        """The encoded column, (lines, 1), or one column for each category."""
        return self._raw(column) - np.array(self.means)

    def _raw(self, column: NDArray[Any]) -> Doubles:
        if self.levels:
            texts = np.array([str(cell) for cell in column])
            return np.column_stack([(texts == level).astype(np.float64) for level in self.levels])
        numbers = _as_numbers(column)
        assert numbers is not None
        if not self.deviation:
            return np.zeros((len(numbers), 1))
        with np.errstate(over="ignore"):  # a new number may be much larger than those of the fit
            scaled = (numbers / self.largest - self.center) / self.deviation
        # No number of a fit is as many standard deviations from the mean, and the probabilities of
        # new ones hardly change beyond: but their products would be infinite, and then NaN.
        far = 1e6
        return np.clip(scaled, -far, far)[:, None]


class FeatureEncoding(NamedTuple):
    """Features of lines as numbers with mean 0 in the fit; each category becomes a column.

    Numbers are divided by their standard deviation, so that their units do not matter. New lines
    are encoded alike; a new category is none of the known ones.

    Examples
    --------
    >>> encoding = FeatureEncoding.of([["a"], ["b"], ["a"], ["b"]], 4, "row_features")
    >>> encoding.encoded([["b"], ["c"]], 2, "row_features").tolist()
    [[-0.5, 0.5], [-0.5, -0.5]]
    """

    columns: tuple[FeatureColumn, ...] | None  # None without features

    @classmethod
    def of(cls, given: Any, n_lines: int, name: str) -> FeatureEncoding:
        """The encoding of the features of a fit."""
        if given is None:
            return cls(None)
        return cls(
            tuple(FeatureColumn.of(column) for column in _feature_table(given, n_lines, name).T)
        )

    def encoded(self, given: Any, n_lines: int, name: str) -> Doubles | None:
        """Features of lines as numbers, (lines, G); None if none are given."""
        if given is None:
            return None
        if self.columns is None:
            raise ValueError(
                f"{name} were not given to fit, so that the model does not know them; leave them "
                "out, or fit with them"
            )
        table = _feature_table(given, n_lines, name)
        if table.shape[1] != len(self.columns):
            raise ValueError(
                f"{name} must have {len(self.columns)} columns, as in fit, but there are "
                f"{table.shape[1]}; pass them in the same form"
            )
        parts = []
        for number, (known, column) in enumerate(zip(self.columns, table.T, strict=True), start=1):
            if not known.levels and _as_numbers(column) is None:
                raise ValueError(
                    f"column {number} of {name} must hold numbers, as in fit, but it holds text"
                )
            parts.append(known.encoded(column))
        return np.hstack(parts) if parts else np.zeros((n_lines, 0))


def _feature_table(given: Any, n_lines: int, name: str) -> NDArray[Any]:
    """The features as an array with two axes, whose numbers are finite."""
    try:
        array = np.asarray(given)
    except ValueError:
        raise ValueError(f"{name} must have the same number of features in all lines") from None
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or len(array) != n_lines:
        raise ValueError(f"{name} must have {n_lines} lines, but has the shape {array.shape}")
    for column in array.T:
        numbers = _as_numbers(column)
        if numbers is not None and not np.isfinite(numbers).all():
            raise ValueError(f"{name} must be finite numbers or categories; fill in missing values")
    return array


def _as_numbers(column: NDArray[Any]) -> Doubles | None:
    """A column as floats, with NaN for missing cells; None if it holds categories.

    In a table with columns of both kinds, numbers are Python objects.
    """
    if column.dtype.kind == "O":
        if not all(isinstance(cell, Real | np.bool_) or is_missing(cell) for cell in column):
            return None
        column = np.array([np.nan if is_missing(cell) else _as_float(cell) for cell in column])
    with np.errstate(over="ignore"):  # a longer float may become infinite
        return column.astype(np.float64) if column.dtype.kind in "biuf" else None


def _as_float(number: Real | np.bool_) -> float:
    try:
        return float(number)
    except OverflowError:
        return np.inf


def levels_of(
    ratings: ArrayLike | None, seen: Observations
) -> tuple[NDArray[np.uint8] | None, int]:
    """The level of each entry, from 0, and the number of levels; None and 2 without ratings."""
    if ratings is None:
        return None, 2
    try:
        given = np.asarray(ratings)
        given = given.astype(np.float64, casting="unsafe" if given.dtype == object else "same_kind")
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            "ratings must be numbers, one for each observed entry, got "
            f"{shortened(' '.join(repr(ratings).split()), 60)}; number categories in their order"
        ) from None
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
    # A level of its own for the zeros, or the ones, that were not observed.
    n_levels, first = len(levels), 0
    if highest_zero < 0:
        n_levels, first = n_levels + 1, 1
    elif lowest_one == n_levels:
        n_levels += 1
    return (level + first).astype(np.uint8), max(2, n_levels)


# ---------------------------------------------------------------- which entries were observed


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


def pattern_of(observations: Observations, check: Callable[[], None] | None = None) -> Pattern:
    """Leading singular vectors of the 0/1 table of observed entries, scaled by their numbers.

    The first one is left out, since numbers of entries are features anyway; so are those whose
    singular values could occur in a random pattern with the same numbers of entries.

    `check` is called before every product of a matrix and a vector, and may raise.
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
    left, values, right = svds(
        _checked(scaled, check), min(MOST_PATTERN + 1, n_lines - 1), v0=first
    )
    _, by_chance = _scaled(_shuffled(mask, random))
    chance = svds(_checked(by_chance, check), 2, v0=first, return_singular_vectors=False).min()
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


def _checked(matrix: csr_array, check: Callable[[], None] | None) -> LinearOperator:
    """A matrix that calls `check` before it is multiplied by a vector."""
    from scipy.sparse.linalg import LinearOperator

    def times(factor: csr_array) -> Callable[[Doubles], Doubles]:
        def product(vectors: Doubles) -> Doubles:
            if check is not None:
                check()
            return factor @ vectors

        return product

    forth, back = times(matrix), times(matrix.T)
    return LinearOperator(
        matrix.shape, matvec=forth, rmatvec=back, matmat=forth, rmatmat=back, dtype=matrix.dtype
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


def _among(some: Doubles, places: Positions, n: int) -> Doubles:
    """Some lines in their places among n; all others are 0."""
    everything = np.zeros((n, some.shape[1]))
    everything[places] = some
    return everything


# ---------------------------------------------------------------- more entries, rows and columns


def joined(before: Observations, new: Observations) -> Observations:
    """The entries of both; if both have an entry, the new value counts.

    If both have labels, lines are matched by them and new ones are appended; otherwise they are
    matched by position.

    Examples
    --------
    >>> from boolweave import Observations
    >>> first = Observations.from_data([[1, 0], [0, float("nan")]])
    >>> joined(first, Observations.from_data([[float("nan")] * 3, [1, float("nan"), 1]])).to_dense()
    array([[ 1.,  0., nan],
           [ 1., nan,  1.]], dtype=float32)
    """
    sides = []
    for axis in (0, 1):
        old_labels = (before.row_labels, before.column_labels)[axis]
        new_labels = (new.row_labels, new.column_labels)[axis]
        sides.append(_placed(old_labels, new_labels, before.shape[axis], new.shape[axis]))
    (rows, n_rows, row_labels), (columns, n_columns, column_labels) = sides
    m = np.concatenate([before.rows_of_entries(), rows[new.rows_of_entries()]])
    n = np.concatenate([before.indices, columns[new.indices]]).astype(np.int64)
    values = np.concatenate([before.values, new.values])
    key = m * n_columns + n
    _, last = np.unique(key[::-1], return_index=True)
    kept = len(key) - 1 - last
    labels: dict[str, Any] = {"row_labels": row_labels, "column_labels": column_labels}
    shape = n_rows, n_columns
    return Observations.from_triples(m[kept], n[kept], values[kept], shape=shape, **labels)


def _placed(
    old: Labels | None, new: Labels | None, n_old: int, n_new: int
) -> tuple[Positions, int, Labels | None]:
    """Positions of the new lines among all, their number, and the labels of all."""
    if old is None or new is None:
        if old is not None and n_new > n_old:
            raise ValueError(
                f"the lines of the model have labels, but {n_new - n_old} new ones have none; pass "
                "observations with labels"
            )
        return np.arange(n_new), max(n_old, n_new), old
    at, known = find_labels(new, old)
    positions = at.copy()
    positions[~known] = n_old + np.arange(np.count_nonzero(~known))
    labels: Labels = np.concatenate([old, new[~known]])
    return positions, len(labels), labels
