"""The log-odds of a pair as a sum of parts: plain data, and sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from boolweave.data.frames import Frame, html_table
from boolweave.recommend import percent

Kind = Literal["base", "row", "column", "pattern", "directions", "layers", "boolean"]


@dataclass(frozen=True)
class Alike:
    """A row or a column that is similar to another one.

    Attributes
    ----------
    name : str
    likeness : float
        From −1 to 1: the correlation of the contributions of directions to both, averaged over
        members.
    observed : int or None
        The observed value: for a row in the same column, for a column in the same row.
    """

    name: str
    likeness: float
    observed: int | None


@dataclass(frozen=True)
class FactorPart:
    """A Boolean factor that both the row and the column belong to.

    Attributes
    ----------
    layer : int
        Number of the layer, from 1; 0 in the plain Boolean model.
    factor : int
        Number of the factor in the layer, from 1.
    probability : float
        The probability that both belong to the factor.
    raises : bool
        Whether the factor makes a one more probable or less probable.
    rows, columns : tuples of str
        Names of some members, the most certain first.
    n_rows, n_columns : int
        Numbers of members.
    sentence : str
    evidence : str
        A sentence about the observed values of the row in the other columns of the factor.
    """

    layer: int
    factor: int
    probability: float
    raises: bool
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    n_rows: int
    n_columns: int
    sentence: str
    evidence: str


@dataclass(frozen=True)
class ExplanationPart:
    """One contribution to the log-odds of a pair.

    Attributes
    ----------
    kind : {"base", "row", "column", "pattern", "directions", "layers", "boolean"}
        "base" is the value for an average row and column; "pattern" is what follows from which
        entries were observed, whatever their values; "boolean" is the plain Boolean model.
    family : int
        Number of the family of models, from 1; 0 if the part does not belong to a single family.
    log_odds : float
        The contribution to the log-odds.
    factors : tuple of FactorPart
        For layers and the plain Boolean model: the factors that have both the row and the column.
    rows, columns : tuples of Alike
        For directions: the most similar rows that have an entry in the column, and the most similar
        columns that have an entry in the row.
    sentence : str
    """

    kind: Kind
    family: int
    log_odds: float
    factors: tuple[FactorPart, ...] = ()
    rows: tuple[Alike, ...] = ()
    columns: tuple[Alike, ...] = ()
    sentence: str = ""


@dataclass(frozen=True, repr=False)
class CompletionExplanation:
    """The log-odds of a pair as a sum of parts.

    All fields are plain data, so that ``dataclasses.asdict`` can be written as JSON.

    Attributes
    ----------
    row, column : str
        Names of the row and the column.
    value : int
        The more probable value, 0 or 1.
    probability : float
        P(o = 1), the probability that a 1 would be observed.
    log_odds : float
        log P(o = 1) / P(o = 0), the sum of the parts.
    observed : int or None
        The observed value, if there is one.
    parts : tuple of ExplanationPart
        The base first, then row and column, perhaps the pattern, then each family.
    notes : tuple of str
        Notes about a row or a column without entries.
    sentence : str
        The whole explanation in one line.
    """

    row: str
    column: str
    value: int
    probability: float
    log_odds: float
    observed: int | None
    parts: tuple[ExplanationPart, ...]
    notes: tuple[str, ...]
    sentence: str
    _frame: ClassVar[Frame] = Frame("polars")

    def __repr__(self) -> str:
        parts = " ".join(f"{part.log_odds:+.2f} {part.kind}" for part in self.parts)
        return (
            f"CompletionExplanation({self.row}, {self.column}: P(1) = {self.probability:.2f}, "
            f"log-odds {self.log_odds:+.2f} = {parts})"
        )

    @property
    def table(self) -> Any:
        """A table with one line for each part: part, log_odds, because.

        It belongs to the library of the fitted table, or to polars.
        """
        return self._frame.table(self._lines())

    def _lines(self) -> dict[str, Any]:
        return {
            "part": [part.kind for part in self.parts],
            "log_odds": np.array([part.log_odds for part in self.parts]),
            "because": [part.sentence.partition(": ")[2] for part in self.parts],
        }

    def _repr_html_(self) -> str:
        lines = [
            [kind, f"{odds:+.2f}", why]
            for kind, odds, why in zip(*self._lines().values(), strict=True)
        ]
        notes = "".join(f"; {note}" for note in self.notes)
        return html_table(["part", "log-odds", "because"], lines, self.sentences()[0] + notes)

    def sentences(self) -> tuple[str, ...]:
        """One sentence each for the probability, each part and each note."""
        return (
            f"{self.row}, {self.column}: 1 with a probability of {percent(self.probability)}, "
            f"log-odds {self.log_odds:+.2f}",
            *(part.sentence for part in self.parts),
            *self.notes,
        )

    def reason(self) -> str:
        """The strongest reason, in one line, for a one in this column rather than in others."""
        own = [part for part in self.parts if part.kind not in ("base", "row")]
        best = max(own, key=lambda part: part.log_odds)
        if best.log_odds > 0 and best.factors and best.factors[0].raises:
            return f"because {best.factors[0].evidence}"
        if best.log_odds > 0:
            return f"because {best.sentence.partition(': ')[2]}"
        return "because there is little evidence against it"
