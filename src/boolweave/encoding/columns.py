"""The columns of a table as zeros and ones, and back, by a plan: all that needs no scikit-learn."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.data.cells import CellWords
from boolweave.data.labels import distinct
from boolweave.data.questions import Form, Questions
from boolweave.encoding.choosing import (
    Settings,
    choose,
    is_marked,
    no_answers,
    of_plan,
    plan_of,
    vote,
    vote_columns,
    without_cells,
)
from boolweave.encoding.features import (
    Bits,
    Category,
    Checkbox,
    Dates,
    Feature,
    Numbers,
    Ordered,
)
from boolweave.encoding.plan import Plan
from boolweave.encoding.rules import Rule
from boolweave.encoding.tables import without_blanks

if TYPE_CHECKING:
    import polars as pl

# What separates the option from the question in the name of a column.
_OPTION = re.compile(r"^(.+)(?:: | - | \[|_|\.)\S.*$", re.DOTALL)


@dataclass(frozen=True, eq=False)
class Columns:
    """The encoding of all columns of a table.

    Attributes
    ----------
    features : tuple of Feature
        One for each column of the table.
    plan : Plan
        The same in words.
    words : CellWords
    """

    features: tuple[Feature, ...]
    plan: Plan
    words: CellWords

    @classmethod
    def fit(
        cls,
        columns: Sequence[pl.Series],
        settings: Settings,
        rules: Mapping[str, Rule],
        plan: Plan | None = None,
    ) -> Columns:
        """Choose the encoding of each column; a plan decides where it has a line."""
        usual = Rule()
        clean = [without_blanks(column, settings.words) for column in columns]
        if plan is not None:
            plan = plan.for_table([column.name for column in clean])
        votes = vote_columns(clean, settings.words)
        n_marked = sum(is_marked(c, settings.words) for j, c in enumerate(clean) if j not in votes)
        features, lines = [], []
        for number, column in enumerate(clean):
            rule = rules.get(column.name, usual)
            if plan is not None and rule == usual:
                line = plan.columns[number]
                feature = of_plan(line, without_cells(column, line.missing), settings)
                lines.append(replace(plan_of(feature), missing=line.missing, why=line.why))
                if line.question:
                    lines[-1] = replace(lines[-1], question=line.question)
            elif number in votes and rule == usual:
                feature, codes = vote(column)
                lines.append(replace(plan_of(feature), missing=codes))
            else:
                codes = no_answers(column, rule, settings.words)
                feature = choose(without_cells(column, codes), rule, settings, n_marked)
                lines.append(replace(plan_of(feature), missing=codes))
            features.append(feature)
        if plan is None:
            questions = _questions(features)
            lines = [replace(line, question=q) for line, q in zip(lines, questions, strict=True)]
        return cls(tuple(features), Plan(tuple(lines)), settings.words)

    @property
    def names(self) -> list[str]:
        """Names of the encoded columns; those that are not distinct are numbered."""
        return distinct([name for feature in self.features for name in feature.names])

    @property
    def groups(self) -> list[int]:
        """The number of the question to which each encoded column belongs, from 0.

        The columns of a category, of thresholds or of choices belong to one question, and so do
        checkboxes of one question. One of them tells something about the others.
        """
        numbers: list[int] = []
        last: tuple[object, ...] = ()
        group = -1
        for number, (feature, line) in enumerate(zip(self.features, self.plan, strict=True)):
            key = ("question", line.question) if line.question else ("column", number)
            if feature.names and key != last:
                group, last = group + 1, key
            numbers += [group] * len(feature.names)
        return numbers

    @property
    def questions(self) -> Questions:
        """The same, with what is known about the columns of one answer."""
        forms = [form for feature in self.features for form in _forms(feature)]
        return Questions.of_forms(forms, self.groups)

    def encode(self, columns: Sequence[pl.Series]) -> Bits:
        """Encode columns (M cells each) as (M, n) zeros, ones and NaN."""
        pieces = [
            feature.encode(without_cells(without_blanks(column, self.words), line.missing))
            for feature, line, column in zip(self.features, self.plan, columns, strict=True)
        ]
        for question, members in groupby(
            range(len(pieces)), lambda j: self.plan.columns[j].question
        ):
            boxes = [j for j in members if isinstance(self.features[j], Checkbox)]
            if question and len(boxes) > 1:  # nothing is checked at all: no answer
                blank = np.logical_and.reduce([columns[j].is_null().to_numpy() for j in boxes])
                blank &= ~np.logical_or.reduce([pieces[j][:, 0] == 1 for j in boxes])
                for j in boxes:
                    pieces[j][blank] = np.nan
        return np.hstack(pieces)

    def missing_cells(self, bits: Bits) -> np.ndarray:
        """Which cells of the table have no answer, (M, number of columns)."""
        return np.column_stack([np.isnan(part).any(axis=1) for part in self.split(bits)])

    def decode(self, bits: Bits) -> list[list[object]]:
        """The cells of each column."""
        return [f.decode(part) for f, part in zip(self.features, self.split(bits), strict=True)]

    def most_probable(self, chances: Any) -> list[list[object]]:
        """The most likely cells of each column, given P(1) of the encoded entries, (M, n)."""
        parts = self.split(chances)
        return [f.most_probable(part) for f, part in zip(self.features, parts, strict=True)]

    def split(self, bits: Any) -> list[Any]:
        """The encoded columns (M, n) of each column."""
        ends = np.cumsum([len(feature.names) for feature in self.features])
        return list(np.split(bits, ends[:-1], axis=1))


def _forms(feature: Feature) -> list[tuple[Form | None, int]]:
    """The forms of the encoded columns of a column, and how many columns have each."""
    if isinstance(feature, Dates):
        return [form for _, part in feature.parts for form in _forms(part)]
    form: Form | None = None
    if isinstance(feature, Ordered) or (isinstance(feature, Numbers) and feature.nested):
        form = "thresholds"
    elif isinstance(feature, Category | Numbers):
        form = "levels"
    return [(form, len(feature.names))]


def _questions(features: Sequence[Feature]) -> list[str]:
    """The question of each checkbox: what its name shares with that of a neighbour."""

    def stem(j: int) -> str:
        inside = 0 <= j < len(features) and isinstance(features[j], Checkbox)
        found = _OPTION.match(features[j].name) if inside else None
        return found[1] if found else ""

    return [
        stem(j) if stem(j) and stem(j) in (stem(j - 1), stem(j + 1)) else ""
        for j in range(len(features))
    ]
