"""The most probable columns that were not observed in a row."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from boolweave.data.frames import ROWS_SHOWN, html_table, names_of, polars_table
from boolweave.data.labels import name_of
from boolweave.data.ones import SparseObservations
from boolweave.recommend.words import percent
from boolweave.runtime.checks import check_count
from boolweave.runtime.progress import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from boolweave.data.frames import Frame
    from boolweave.data.observed import ObservedEntries
    from boolweave.runtime.types import Integers

# Numbers of rows and of columns of recommendations that a text shows.
TEXT_ROWS, TEXT_COLUMNS = 5, 3


class Why(Protocol):
    """An explanation, which gives its reason in one line."""

    def reason(self) -> str:
        """Explain the value in one line."""
        ...


class Explains(Protocol):
    """An explainer of pairs by position, which knows their names and probabilities."""

    @property
    def observations(self) -> ObservedEntries:
        """The observed entries, with labels if there are any."""
        ...

    def at(self, row: int, column: int) -> Why:
        """Explain the entry at a position."""
        ...

    def predict_rows(self, rows: NDArray[np.intp]) -> Iterable[tuple[slice, NDArray[np.float64]]]:
        """Yield P(o = 1) of rows at all columns, some rows at a time."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class Recommendations:
    """The most probable unobserved columns of some rows, with reasons.

    Attributes
    ----------
    rows : array of shape (R,)
        The requested rows.
    columns : array of shape (R, n)
        Columns, the most probable first; −1 if a row has fewer than n unobserved columns.
    probabilities : array of shape (R, n)
        P(o = 1); NaN where the column is −1.
    reasons : tuple of R tuples of n texts
        One line each, empty where the column is −1. They are computed on first use.
    table : polars.DataFrame
        One line for each recommendation, by name: row, rank, column, probability.

    Examples
    --------
    >>> from boolweave import BooleanMatrixFactorization, Observations
    >>> likes = Observations.from_dense(
    ...     [[1, 1, 0], [1, None, 0], [0, 0, 1]],
    ...     row_labels=["Ann", "Bo", "Cy"],
    ...     column_labels=["tea", "milk", "rum"],
    ... )
    >>> model = BooleanMatrixFactorization(2, objective="errors", random_state=0).fit(likes)
    >>> found = model.recommend(["Bo"], n=1, why=True)
    >>> found.columns
    array([[1]])
    >>> found.reasons[0][0]
    'because factor 1: Bo has tea, the only other observed one of its 2 columns'
    """

    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    probabilities: NDArray[np.float64]
    explainer: Explains = field(repr=False)

    def explain(self, i: int, j: int) -> Any:
        """Explain the j-th recommendation of the i-th requested row, both from 0."""
        column = int(self.columns[i, j])
        if column < 0:
            n = int(np.count_nonzero(self.columns[i] >= 0))
            raise IndexError(f"there are {n} recommendations for this row, got the position {j}")
        return self.explainer.at(int(self.rows[i]), column)

    @cached_property
    def reasons(self) -> tuple[tuple[str, ...], ...]:
        """The reasons for each recommendation."""
        return tuple(
            tuple(
                self.explain(i, j).reason() if column >= 0 else ""
                for j, column in enumerate(columns)
            )
            for i, columns in enumerate(self.columns)
        )

    @property
    def table(self) -> Any:
        """A polars table with one line for each recommendation, by name."""
        return polars_table(self._lines(None, why=False))

    def in_form_of(self, frame: Frame, *, why: bool = False) -> Any:
        """The same as a table of another library, with reasons if asked for."""
        return frame.table(self._lines(frame, why=why))

    def _lines(self, frame: Frame | None, *, why: bool) -> dict[str, Any]:
        """Columns of the table."""
        i, j = np.nonzero(self.columns >= 0)
        seen, at = self.explainer.observations, (self.rows[i], self.columns[i, j])
        names: Any = names_of if frame is None else frame.names
        lines = {
            "row": names(seen, "row", at[0]),
            "rank": j + 1,
            "column": names(seen, "column", at[1]),
            "probability": self.probabilities[i, j],
        }
        if why:
            lines["why"] = [self.reasons[a][b] for a, b in zip(i, j, strict=True)]
        return lines

    def __repr__(self) -> str:
        n = len(self.rows)
        lines = [f"Recommendations for {counted(n, 'row')}"]
        seen = self.explainer.observations
        for row, columns, chances in zip(
            self.rows[:TEXT_ROWS], self.columns, self.probabilities, strict=False
        ):
            own = columns[columns >= 0]
            shown = [
                f"{name_of(seen, int(column), 'column')} {percent(chance)}"
                for column, chance in zip(own[:TEXT_COLUMNS], chances, strict=False)
            ]
            more = f" and {len(own) - TEXT_COLUMNS} more" if len(own) > TEXT_COLUMNS else ""
            what = ", ".join(shown) or "nothing, because every column was observed"
            lines.append(f"  {name_of(seen, int(row), 'row')}: {what}{more}")
        if n > TEXT_ROWS:
            lines.append(f"  and {n - TEXT_ROWS:,} more rows")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        lines = self._lines(None, why=False)
        shown = [
            [str(row), str(rank), str(column), percent(chance)]
            for row, rank, column, chance in zip(
                *(values[:ROWS_SHOWN] for values in lines.values()), strict=True
            )
        ]
        n = len(lines["rank"])
        more = f", of which the first {ROWS_SHOWN} are shown" if n > ROWS_SHOWN else ""
        return html_table(list(lines), shown, f"{n:,} recommendations{more}")


def recommend_at(explainer: Explains, rows: NDArray[np.intp], n: int) -> Recommendations:
    """The n most probable unobserved columns of rows by position, with reasons."""
    check_count("n", n)
    found = best_unseen(explainer.predict_rows, explainer.observations, rows, n)
    return Recommendations(rows, *found, explainer)


def best_unseen(
    predict: Callable[[NDArray[np.intp]], Iterable[tuple[slice, NDArray[np.float64]]]],
    seen: ObservedEntries,
    wanted: NDArray[np.intp],
    n: int,
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Columns (R, n) and probabilities (R, n) of `Recommendations` for R wanted rows.

    `predict` yields the probabilities of rows at all columns, some rows at a time: a slice of the
    rows, and an array (some, N), which is overwritten.
    """
    rows, place = np.unique(wanted, return_inverse=True)
    columns = np.full((len(rows), n), -1, dtype=np.intp)
    probabilities = np.full((len(rows), n), np.nan)
    for some, chances in predict(rows):
        chances[known_cells(seen, rows[some])] = -1  # below every probability
        for i, chance in enumerate(chances, some.start):
            best = largest(chance, n)
            best = best[chance[best] >= 0]
            columns[i, : len(best)] = best
            probabilities[i, : len(best)] = chance[best]
    return columns[place], probabilities[place]


def known_cells(seen: ObservedEntries, rows: Integers) -> tuple[Integers, Integers]:
    """Positions among some rows, and columns, of the entries that must not be recommended.

    These are the observed entries; if zeros are not listed, they are the ones.
    """
    if isinstance(seen, SparseObservations):
        ones = seen.ones.take_rows(rows)
        return ones.rows(), ones.columns
    own = seen.take_rows(rows)
    return own.rows_of_entries(), own.indices


def largest(values: NDArray[np.float64], n: int) -> NDArray[np.intp]:
    """Positions of the n largest values, by value and then by position, so that ties are fixed."""
    places = np.arange(len(values))
    if n < len(values):
        places = np.flatnonzero(values >= -np.partition(-values, n - 1)[n - 1])
    return places[np.argsort(-values[places], kind="stable")[:n]]
