"""The reading plan: a line for each column of a table, which can be printed, edited and obeyed."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from io import StringIO
from itertools import groupby
from os import PathLike
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from boolweave.runtime.words import counted, shortened

Kind: TypeAlias = Literal[
    "id", "yes/no", "category", "ordered", "choices", "checkbox", "number", "date", "text",
    "constant",
]  # fmt: skip
KINDS: tuple[str, ...] = get_args(Kind)
LEFT_OUT = "left out"
LABELS = "row labels"
# More columns in a row that are read alike are shown as one line.
_MANY_ALIKE = 20
# Between levels in a file.
_BETWEEN = " | "


@dataclass(frozen=True)
class ColumnPlan:
    """How one column of a table is read.

    Attributes
    ----------
    name : str
    kind : str
        One of `KINDS`.
    levels : tuple of str
        The answers, in their order; of yes/no and checkbox, the zero (if it has a word) and the
        one; of dates written as text, their form, such as "day.month.year".
    missing : tuple of str
        Cells that say that there is no answer, in addition to empty ones.
    encoding : str
        What becomes of the column: "row labels", "left out", "one column", "levels",
        "thresholds" or "bins" (of numbers with their edges, as in "bins:40,60"), "split:;" or
        "parts" of a date, as in "parts:month;weekday=Saturday,Sunday;hour=bins:9,17".
    question : str
        What the columns of one question have in common; empty if the column is a question itself.
    why : str
        The evidence.
    """

    name: str
    kind: str
    levels: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    encoding: str = ""
    question: str = ""
    why: str = ""

    @property
    def is_encoded(self) -> bool:
        """Whether the column becomes columns of zeros and ones."""
        return self.encoding not in (LEFT_OUT, LABELS)

    def as_dict(self) -> dict[str, object]:
        """The line with lists, for JSON."""
        line = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: list(v) if isinstance(v, tuple) else v for name, v in line.items()}


@dataclass(frozen=True)
class Plan:
    """How a table is read: a line for each of its columns.

    Attributes
    ----------
    columns : tuple of ColumnPlan
    of_model : bool
        Whether it is the plan of a model, by which new rows are read: their table may lack some
        columns, and others are left out.

    Examples
    --------
    >>> import polars
    >>> from boolweave import TableEncoder
    >>> answers = polars.DataFrame(
    ...     {"age": ["18-29", "> 60", "30-60"], "pet": ["cat", "dog", "cat"]}
    ... )
    >>> print(TableEncoder().fit(answers).plan_)
    column  kind      levels                missing  becomes
    age     ordered   18-29 | 30-60 | > 60           thresholds
    pet     category  cat | dog                      levels
    """

    columns: tuple[ColumnPlan, ...]
    of_model: bool = False

    def __iter__(self) -> Iterator[ColumnPlan]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __repr__(self) -> str:
        kinds = [line.kind for line in self.columns]
        parts = [f"{kinds.count(kind)} {kind}" for kind in KINDS if kind in kinds]
        return f"Plan({counted(len(kinds), 'column')}: {', '.join(parts)})"

    def __getitem__(self, name: str) -> ColumnPlan:
        return next(line for line in self.columns if line.name == name)

    @property
    def left_out(self) -> dict[str, str]:
        """The columns that are not encoded, with the reasons."""
        return {line.name: line.why for line in self.columns if not line.is_encoded}

    @property
    def taken_as_missing(self) -> dict[str, tuple[str, ...]]:
        """The cells of each column that say that there is no answer."""
        return {line.name: line.missing for line in self.columns if line.missing}

    def for_table(self, names: list[str]) -> Plan:
        """The plan of a table with these columns; an error names the first that does not fit."""
        planned = [line.name for line in self.columns]
        if self.of_model:
            by_name = dict(zip(planned, self.columns, strict=True))
            unknown = ColumnPlan("", "text", encoding=LEFT_OUT, why="the model does not have it")
            return Plan(tuple(by_name.get(name) or replace(unknown, name=name) for name in names))
        for number, (name, line) in enumerate(zip(names, planned, strict=False), start=1):
            if name != line:
                raise ValueError(
                    f"the plan does not fit the table: expected column {number} to be {line!r}, "
                    f"got {name!r}; make a plan of this table, or name the column as in the plan"
                )
        if len(planned) != len(names):
            raise ValueError(
                f"the plan does not fit the table: expected {len(planned)} columns, got "
                f"{len(names)}; make a plan of this table"
            )
        return self

    def write_csv(self, path: str | PathLike[str]) -> None:
        """Write the plan as a table that can be edited."""
        Path(path).write_text(self.as_csv(), encoding="utf-8-sig", newline="")

    @classmethod
    def read_csv(cls, path: str | PathLike[str]) -> Plan:
        """Read a plan that `write_csv` wrote, perhaps edited."""
        return cls.of_csv(Path(path).read_text(encoding="utf-8-sig"), str(path))

    def as_csv(self) -> str:
        """The plan as the text of a table."""
        names = [field.name for field in fields(ColumnPlan)]
        text = StringIO()
        writer = csv.writer(text)
        writer.writerow(names)
        for line in self.columns:
            writer.writerow(_as_text(getattr(line, name)) for name in names)
        return text.getvalue()

    @classmethod
    def of_csv(cls, text: str, source: str = "plan") -> Plan:
        """The plan in the text of a table; errors name its `source`."""
        rows = list(csv.DictReader(StringIO(text, newline="")))
        names = [field.name for field in fields(ColumnPlan)]
        if not rows or not {"name", "kind"} <= set(rows[0]):
            raise ValueError(f"{source}: expected a plan with the columns {', '.join(names)}")
        lines = []
        for number, row in enumerate(rows, start=2):
            if row["kind"] not in KINDS:
                raise ValueError(
                    f"{source}, line {number}: expected a kind among {', '.join(KINDS)}, got "
                    f"{row['kind']!r}"
                )
            cells = {name: (row.get(name) or "") for name in names}
            levels, missing = _as_cells(cells.pop("levels")), _as_cells(cells.pop("missing"))
            lines.append(ColumnPlan(**cells, levels=levels, missing=missing))
        return cls(tuple(lines))

    def __str__(self) -> str:
        """The plan as a table of text."""
        rows = [("column", "kind", "levels", "missing", "becomes")]
        for alike, members in groupby(self.columns, lambda line: replace(line, name="")):
            names = [line.name for line in members]
            if len(names) > _MANY_ALIKE:
                names = [f"{one_line(names[0], 16)} … {one_line(names[-1], 16)} ({len(names)})"]
            levels, missing = (_BETWEEN.join(cells) for cells in (alike.levels, alike.missing))
            becomes = f"{alike.encoding} ({alike.why})" if alike.why else alike.encoding
            rows += [(name, alike.kind, levels, missing, becomes) for name in names]
        cells = [[*map(one_line, row[:4]), row[4]] for row in rows]
        widths = [*(max(len(row[j]) for row in cells) for j in range(4)), 0]
        return "\n".join(
            "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
            for row in cells
        )


def one_line(text: str, most: int = 48) -> str:
    """A text as one short line, with its end, because options end a question."""
    return shortened(" ".join(text.split()), most)


def _as_text(value: str | tuple[str, ...]) -> str:
    if isinstance(value, str):
        return value
    odd = any("|" in cell or cell != cell.strip() or cell.startswith("[") for cell in value)
    return json.dumps(value, ensure_ascii=False) if odd else _BETWEEN.join(value)


def _as_cells(text: str) -> tuple[str, ...]:
    if text.startswith("["):
        return tuple(map(str, json.loads(text)))
    return tuple(cell.strip() for cell in text.split("|")) if text.strip() else ()
