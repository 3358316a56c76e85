"""Explanations of entries by a factorization: the factors responsible, and their evidence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from boolweave.data.frames import Frame, html_table
from boolweave.data.labels import name_of, one_pair
from boolweave.recommend.members import members, surest
from boolweave.recommend.words import NEUTRAL, Words, evidence, evidence_in_words, percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from boolweave.data.observed import ObservedEntries
    from boolweave.engine.result import Result


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
    """

    factor: int
    probability: float
    contribution: float
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    evidence: tuple[str, ...]
    n_observed: int
    sentence: str


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
        """Explain the value in one line."""
        if self.value and self.reasons:
            return "; ".join(reason.sentence for reason in self.reasons)
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
        because = evidence_in_words(
            name_of(seen, row, "row"), names, n_observed, size, f"factor {k + 1}", self.words
        )
        if k not in self._members:
            fitted = self.trained or result
            self._members[k] = members(fitted, k, "row"), members(fitted, k, "column")
        of_factor = self._members[k]
        return Reason(k + 1, both, share, *of_factor, names, n_observed, f"because {because}")
