"""Recommendations and explanations: views of a fitted model, without inference of their own.

Recommendations of any model, explanations by a factorization, the members of factors, and the words
for all of them belong here; explanations by a completion are in `boolweave.completion.answers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from boolweave.data.frames import (
    ROWS_SHOWN,
    Frame,
    html_table,
    is_matrix,
    names_of,
    only_row,
    polars_table,
)
from boolweave.data.labels import name_of, one_pair, positions
from boolweave.data.observed import ObservedEntries
from boolweave.engine.result import Result
from boolweave.runtime.checks import check_count
from boolweave.runtime.types import Integers
from boolweave.runtime.words import NEUTRAL, Words, counted

# ---------------------------------------------------------------- words and members

# Number of members of a factor that its sentence names.
NAMES_IN_SENTENCE = 4


def evidence(
    columns: NDArray[np.integer[Any]], observed: Integers, values: NDArray[np.uint8]
) -> tuple[NDArray[np.integer[Any]], int]:
    """The given columns in which a row has a one, and the number of those with any entry.

    `observed` are the columns of the entries of the row, and `values` the values of the entries.
    """
    with_one = columns[np.isin(columns, observed[values == 1])]
    return with_one, int(np.isin(columns, observed).sum())


def evidence_in_words(
    row: str, names: Sequence[str], n_observed: int, size: int, group: str, words: Words
) -> str:
    """Describe the evidence that a row belongs to a factor: the other columns where it has ones.

    Parameters
    ----------
    row : str
    names : sequence of str
        The other columns of the factor in which the row has ones.
    n_observed : int
        The number of other columns of the factor that were observed in the row.
    size : int
        The number of columns of the factor.
    group : str
        The name of the factor.
    words : Words

    Examples
    --------
    >>> from boolweave.recommend import NEUTRAL, evidence_in_words
    >>> evidence_in_words("Ann", ["tea", "milk"], 3, 4, "factor 1", NEUTRAL)
    'factor 1: Ann has 2 of its 3 other observed columns: tea, milk'
    """
    others, who = f"other observed {words.columns}", f"{group}: {row_in_words(row, words)}"
    if not n_observed:
        return f"{who} belongs to it, although none of its other {words.columns} was observed"
    if not names:
        return f"{who} {words.verb} none of its {others} ({n_observed:,})"
    if n_observed == 1:
        only = f"the only other observed one of its {size:,} {words.columns}"
        return f"{who} {words.verb} {names[0]}, {only}"
    listed = some_names(tuple(names))
    if len(names) == n_observed:
        many = "both" if n_observed == 2 else f"all {n_observed:,}"
        return f"{who} {words.verb} {many} of its {others}: {listed}"
    return f"{who} {words.verb} {len(names):,} of its {n_observed:,} {others}: {listed}"


def reason_in_words(row: str, names: Sequence[str], n_observed: int, words: Words) -> str:
    """Say why a row belongs to a factor in words that do not need the factor.

    The parameters are those of `evidence_in_words`.

    Examples
    --------
    >>> from boolweave.recommend import Words, reason_in_words
    >>> reason_in_words("Ann", ["tea", "milk", "cake"], 4, Words("likes"))
    'Ann likes tea and 2 more that this group likes'
    """
    who, verb = row_in_words(row, words), words.verb
    if len(names) > 2:
        return f"{who} {verb} {names[0]} and {len(names) - 1:,} more that this group {verb}"
    if names:
        return f"{who} {verb} {' and '.join(names)}, which this group {verb}"
    belongs = f"{who} seems to belong to a group that {verb} it"
    if not n_observed:
        return f"{belongs}, although none of the group's other {words.columns} was observed"
    return f"{belongs}, but {verb} none of its other observed {words.columns} ({n_observed:,})"


def row_in_words(row: str, words: Words) -> str:
    """The name of a row in a sentence, in which a bare number would be mistaken for a count."""
    return f"{words.row} {row}" if row.isdecimal() else row


def some_names(names: tuple[str, ...], n: int | None = None) -> str:
    """The first few names, and how many more there are out of n (by default, of those given)."""
    size = len(names) if n is None else n
    if size <= NAMES_IN_SENTENCE + 1:
        return ", ".join(names)
    return f"{', '.join(names[:NAMES_IN_SENTENCE])} and {size - NAMES_IN_SENTENCE} more"


def percent(share: float | None, digits: int = 0) -> str:
    """A probability in whole percent, or a share of things with one digit; None means of nothing.

    A probability is never 0% or 100%; a share is 0.0% or 100.0% only if it is exactly that.

    Examples
    --------
    >>> from boolweave.recommend import percent
    >>> percent(0.5), percent(0.9999), percent(0.0)
    ('50%', 'over 99%', 'under 1%')
    >>> percent(0.5, 1), percent(0.9999, 1), percent(0.0, 1)
    ('50.0%', 'over 99.9%', '0.0%')
    """
    if share is None:
        return "–"
    if not digits:
        return "over 99%" if share > 0.99 else "under 1%" if share < 0.01 else f"{share:.0%}"
    if 0.9995 <= share < 1:
        return "over 99.9%"
    return "under 0.1%" if 0 < share < 0.0005 else f"{share:.1%}"


def members(result: Result, k: int, axis: str) -> tuple[str, ...]:
    """Names of the rows or columns of factor k (from 0), the most certain first."""
    odds = result.row_log_odds[:, k] if axis == "row" else result.column_log_odds[k]
    return tuple(name_of(result.observations, int(i), axis) for i in surest(odds))


def surest(odds: NDArray[np.floating[Any]]) -> NDArray[np.intp]:
    """Positions of the members of a factor, the most certain first."""
    inside = np.flatnonzero(odds > 0)
    return inside[np.argsort(-odds[inside], kind="stable")]


# ---------------------------------------------------------------- recommendations


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
        Columns, the most probable first; −1 if a row has fewer than n unobserved columns whose
        probability is at least `least`.
    probabilities : array of shape (R, n)
        P(o = 1); NaN where the column is −1.
    least : float
        The least probability of a recommendation.
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
    'because Bo has tea, which this group has'
    """

    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    probabilities: NDArray[np.float64]
    explainer: Explains = field(repr=False)
    least: float = 0.0

    def above(self, least: float) -> Recommendations:
        """Those with at least this probability; the others are left out."""
        if not 0 <= least <= 1:
            raise ValueError(f"least must be a probability from 0 to 1, got {least!r}")
        likely = self.probabilities >= least
        columns = np.where(likely, self.columns, -1)
        chances = np.where(likely, self.probabilities, np.nan)
        return Recommendations(self.rows, columns, chances, self.explainer, least)

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
        # Numbers of rows and of columns of recommendations that a text shows.
        text_rows, text_columns = 5, 3
        for row, columns, chances in zip(
            self.rows[:text_rows], self.columns, self.probabilities, strict=False
        ):
            own = columns[columns >= 0]
            shown = [
                f"{name_of(seen, int(column), 'column')} {percent(chance)}"
                for column, chance in zip(own[:text_columns], chances, strict=False)
            ]
            more = f" and {len(own) - text_columns} more" if len(own) > text_columns else ""
            none = "because every column was observed"
            if self.least > 0:
                none = f"no unobserved column has a probability of {percent(self.least)} or more"
            what = ", ".join(shown) or f"nothing, {none}"
            lines.append(f"  {name_of(seen, int(row), 'row')}: {what}{more}")
        if n > text_rows:
            lines.append(f"  and {n - text_rows:,} more rows")
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

    There are at most as many as the table has columns.

    `predict` yields the probabilities of rows at all columns, some rows at a time: a slice of the
    rows, and an array (some, N), which is overwritten.
    """
    rows, place = np.unique(wanted, return_inverse=True)
    n = min(n, seen.shape[1])
    columns = np.full((len(rows), n), -1, dtype=np.intp)
    probabilities = np.full((len(rows), n), np.nan)
    for some, chances in predict(rows):
        chances[seen.known_cells(rows[some])] = -1  # below every probability
        for i, chance in enumerate(chances, some.start):
            best = largest(chance, n)
            best = best[chance[best] >= 0]
            columns[i, : len(best)] = best
            probabilities[i, : len(best)] = chance[best]
    return columns[place], probabilities[place]


def largest(values: NDArray[np.float64], n: int) -> NDArray[np.intp]:
    """Positions of the n largest values, by value and then by position, so that ties are fixed."""
    places = np.arange(len(values))
    if n < len(values):
        places = np.flatnonzero(values >= -np.partition(-values, n - 1)[n - 1])
    return places[np.argsort(-values[places], kind="stable")[:n]]


# ---------------------------------------------------------------- explanations by a factorization


@dataclass(frozen=True)
class Reason:
    """The contribution of one factor to an entry.

    Attributes
    ----------
    factor : int
        The number of the factor, from 1.
    probability : float
        The probability that both the row and the column belong to the factor.
    contribution : float
        The weight of this reason; the weights of all reasons add up to 1. With the OR product, it
        is the share of the factor in −log P(z = 0) = −Σ log(1 − p_k), where p_k is the probability
        that the row and the column both belong to factor k; with XOR, its share in Σ p_k.
    rows, columns : tuples of str
        Names of the members of the factor, the most certain first.
    evidence : tuple of str
        The other columns of the factor in which a 1 was observed in this row.
    n_observed : int
        The number of other columns of the factor that were observed in this row.
    sentence : str
    in_short : str
        The sentence in plain words, without the number of the factor.
    """

    factor: int
    probability: float
    contribution: float
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    evidence: tuple[str, ...]
    n_observed: int
    sentence: str
    in_short: str


@dataclass(frozen=True, repr=False)
class Explanation:
    """The explanation of an entry.

    Attributes
    ----------
    row, column : str
        Names of the row and the column.
    value : int
        The value according to the factors, 0 or 1.
    probability : float
        P(o = 1), the probability that a 1 would be observed.
    observed : int or None
        The observed value, if there is one.
    reasons : tuple of Reason
        The factors responsible, the strongest first; empty if the value is 0.
    sentence : str
    """

    row: str
    column: str
    value: int
    probability: float
    observed: int | None
    reasons: tuple[Reason, ...]
    sentence: str
    _frame: ClassVar[Frame] = Frame("polars")

    def reason(self) -> str:
        """Explain the value in one line, by the strongest reason."""
        if self.value and self.reasons:
            return self.reasons[0].in_short
        if self.reasons:  # an even number of factors under XOR
            return f"because its {len(self.reasons)} factors cancel out"
        return f"because no factor has both {self.row} and {self.column}"

    @property
    def table(self) -> Any:
        """A table with a line for each factor responsible, of the library of the fitted table."""
        return self._frame.table(self._lines())

    def _lines(self) -> dict[str, Any]:
        reasons = self.reasons
        return {
            "factor": np.array([reason.factor for reason in reasons], dtype=np.int64),
            "contribution": np.array([reason.contribution for reason in reasons], dtype=float),
            "probability": np.array([reason.probability for reason in reasons], dtype=float),
            "rows": np.array([len(reason.rows) for reason in reasons], dtype=np.int64),
            "columns": np.array([len(reason.columns) for reason in reasons], dtype=np.int64),
            "because": [reason.sentence for reason in reasons],
        }

    def __repr__(self) -> str:
        return f"Explanation({self.sentence})"

    def _repr_html_(self) -> str:
        lines = self._lines()
        shown = [
            [str(factor), f"{share:.0%}", percent(chance), str(rows), str(columns), why]
            for factor, share, chance, rows, columns, why in zip(*lines.values(), strict=True)
        ]
        return html_table(list(lines), shown, self.sentence)


@dataclass(frozen=True, eq=False)
class FactorExplainer:
    """An explainer of the entries of a factorization.

    Attributes
    ----------
    result : Result
        The result for the rows that are explained.
    words : Words
    trained : Result, optional
        The result of the fit, whose rows are the members of factors, if `result` is for new rows.
    """

    result: Result
    words: Words = NEUTRAL
    trained: Result | None = None

    @cached_property
    def _members(self) -> dict[int, tuple[tuple[str, ...], tuple[str, ...]]]:
        """The members of each factor that was a reason so far: its rows and its columns."""
        return {}

    @property
    def observations(self) -> ObservedEntries:
        """The observed entries, with labels if there are any."""
        return self.result.observations

    def predict_rows(self, rows: NDArray[np.intp]) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Yield P(o = 1) of rows at all columns, some rows at a time."""
        return self.result.predict_proba_rows(rows)

    def explain(self, row: Any, column: Any) -> Explanation:
        """Explain an entry, given by position or label."""
        return self.at(*one_pair(row, column, self.observations))

    def at(self, row: int, column: int) -> Explanation:
        """Explain the entry at a position."""
        result, seen = self.result, self.result.observations
        pair = np.array([row]), np.array([column])
        value, chance = int(result.predict(*pair)[0]), float(result.predict_proba(*pair)[0])
        both, shares = result.contributions(row, column)
        own = seen.take_rows([row])
        reasons = tuple(
            self._reason(int(k), row, column, float(both[k]), float(shares[k]), own)
            for k in np.argsort(-shares, kind="stable")
            if shares[k] > 0
        )
        observed = int(own.values[own.indices == column][0]) if column in own.indices else None
        names = name_of(seen, row, "row"), name_of(seen, column, "column")
        found = Explanation(*names, value, chance, observed, reasons, "")
        what = f"{names[0]}, {names[1]}: 1 with a probability of {percent(chance)}"
        return replace(found, sentence=f"{what}, {found.reason()}")

    def _reason(self, k: int, row: int, column: int, both: float, share: float, own: Any) -> Reason:
        result, seen = self.result, self.result.observations
        inside = surest(result.column_log_odds[k])
        others, n_observed = evidence(inside[inside != column], own.indices, own.values)
        names = tuple(name_of(seen, int(i), "column") for i in others)
        size = len(inside)
        who, group = name_of(seen, row, "row"), f"factor {k + 1}"
        sentences = (
            f"because {evidence_in_words(who, names, n_observed, size, group, self.words)}",
            f"because {reason_in_words(who, names, n_observed, self.words)}",
        )
        if k not in self._members:
            fitted = self.trained or result
            self._members[k] = members(fitted, k, "row"), members(fitted, k, "column")
        of_factor = self._members[k]
        return Reason(k + 1, both, share, *of_factor, names, n_observed, *sentences)


# ---------------------------------------------------------------- methods of both estimators

AnyExplanation = TypeVar("AnyExplanation")


class RecommenderMixin(Generic[AnyExplanation]):
    """Recommendations and explanations of a fitted estimator, which fills in `_explainer`."""

    def _explainer(self, rows: Any, words: dict[str, str]) -> tuple[Any, Frame | None]:
        """An explainer of rows of the fit or of new rows, and the form of its tables."""
        raise NotImplementedError

    def recommend(
        self, rows: Any, n: int = 10, *, least: float = 0.0, why: bool = False, **words: str
    ) -> Any:
        """Recommend the n unobserved columns of each row that are most probably 1.

        In a factorization with ``zeros="collective"``, only ones count as observed, because a zero
        is an entry that may become a one.

        Parameters
        ----------
        rows : positions, or labels if the fitted data had labels
            The rows may also be a matrix as in `transform`, whose new rows are folded in.
        n : int
            Number of columns for each row.
        least : float
            The least probability of a recommendation; a row may then have fewer than n.
        why : bool
            Whether the table has a column with reasons.
        **words
            As in `explain`.

        Returns
        -------
        DataFrame or Recommendations
            If `rows`, or else the fitted data, came as a table: a table of the same library with
            one line for each recommendation: row, rank, column, probability and why. Otherwise
            `Recommendations` with ``rows`` (R,), ``columns`` (R, n), ``probabilities`` (R, n),
            ``reasons``, and ``table``.
        """
        explainer, frame = self._explainer(rows, words)
        seen = explainer.observations
        at = np.arange(seen.n_rows) if is_matrix(rows) else positions(rows, seen, "row")
        found = recommend_at(explainer, at, n).above(least)
        return found if frame is None else found.in_form_of(frame, why=why)

    def explain(self, row: Any, col: Any, **words: str) -> AnyExplanation:
        """Explain the probability of an entry.

        A factorization names the factors that make the entry a one, with their members; a
        completion splits the log-odds into contributions of offsets, directions and factors.

        Parameters
        ----------
        row, col : position, or label if the fitted data had labels
            The row may also be a matrix of one row as in `transform`, which is folded in.
        **words
            The words of the sentences: `verb` is the verb between a row and a column where there is
            a one ("has"), and `rows` and `columns` are nouns for these ("rows", "columns").

        Returns
        -------
        Explanation or CompletionExplanation
        """
        explainer, frame = self._explainer(row, words)
        if is_matrix(row):
            row = only_row(explainer.observations)
        found: AnyExplanation = explainer.explain(row, col)
        if frame is not None:
            object.__setattr__(found, "_frame", frame)  # for its table
        return found
