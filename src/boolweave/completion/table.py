"""The entries of a table by rows and by columns, and the features of its lines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from boolweave.completion.features import Pattern, pattern_of
from boolweave.completion.kernels.drawing import Lines, lines_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.data.observations import Observations
    from boolweave.runtime.types import Floats


# Numbers of entries are clipped at this many standard deviations from their mean, so that nothing
# is extrapolated to a line without entries among lines that all have many.
FAR = 2.5


@dataclass(frozen=True, eq=False)
class Features:
    """Features of the rows or of the columns: all that is known of them besides their values.

    `here` is used for entries that are fitted and `elsewhere` for entries that are predicted. They
    differ in the number of *other* entries of a line, which is one less for an entry of the fit.
    """

    here: NDArray[np.float64]  # (lines, F)
    elsewhere: NDArray[np.float64]  # (lines, F)
    n_pattern: int = 0  # number of features of the pattern of entries, which are the last ones

    @property
    def n_features(self) -> int:
        """Number of features F, including the constant and the number of entries."""
        return self.here.shape[1]

    @cached_property
    def products(self) -> NDArray[np.float64]:
        """Sums over lines of the products of two features, (F, F)."""
        return self.here.T @ self.here

    def take(self, lines: NDArray[np.intp]) -> Features:
        """The features of some lines."""
        return Features(self.here[lines], self.elsewhere[lines], self.n_pattern)

    def with_pattern(self, pattern: NDArray[np.float64]) -> Features:
        """These features, followed by those of the pattern of entries, (lines, P)."""
        here, elsewhere = (np.column_stack([part, pattern]) for part in (self.here, self.elsewhere))
        return Features(here, elsewhere, pattern.shape[1])


def make_features(
    counts: NDArray[np.int64], given: Floats | None = None, like: NDArray[np.float64] | None = None
) -> tuple[Features, NDArray[np.float64]]:
    """Features of lines: a constant, the number of entries, and those given (lines, G).

    Also return the mean and standard deviation (2,) by which the numbers of entries were scaled.
    For new lines, `like` gives those of the fit.
    """
    others = np.log1p(np.maximum(counts - 1, 0))
    if like is None:
        seen = others[counts > 0]
        like = np.array([seen.mean(), seen.std() or 1.0]) if len(seen) else np.array([0.0, 1.0])
    parts = [np.clip((log - like[0]) / like[1], -FAR, FAR) for log in (others, np.log1p(counts))]
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
    weights: NDArray[np.float64] | None  # (entries,)
    # Mean and standard deviation of the logarithms of the numbers of entries, of rows and columns.
    count_scales: tuple[NDArray[np.float64], NDArray[np.float64]]

    @classmethod
    def of(
        cls,
        observations: Observations,
        levels: NDArray[np.uint8] | None = None,
        weights: NDArray[np.float64] | None = None,
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
    rows: NDArray[np.intp]  # (rows with entries,)
    columns: NDArray[np.intp]  # (columns with entries,)
