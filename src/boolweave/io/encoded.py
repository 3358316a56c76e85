"""Tables whose columns are not all zeros and ones: how to recognize and encode them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from boolweave.data.cells import MISSING, WRONG, CellWords, no_answer_codes
from boolweave.data.convert import from_codes
from boolweave.data.observations import Observations
from boolweave.encoding.plan import KINDS, LABELS, LEFT_OUT, ColumnPlan, Plan, one_line
from boolweave.io import Reading
from boolweave.io.cells import RATINGS, naming_file
from boolweave.io.dialect import Dialect, is_heading
from boolweave.io.files import FileError
from boolweave.io.options import Options
from boolweave.runtime.words import counted

if TYPE_CHECKING:
    import polars as pl

    from boolweave.encoding.columns import Columns
    from boolweave.io.origin import TextForm

# A column was meant to be Boolean if at least this fraction of its known cells is 0/1 or yes/no.
MEANT = 0.5


@dataclass(frozen=True, eq=False)
class Encoded:
    """A table whose columns became zeros and ones.

    Attributes
    ----------
    encoding : Columns
        The encoding of the columns of `table` named in `columns`.
    table : polars.DataFrame
        All columns of the file.
    columns : list of str
        The columns that the encoder encoded or left out, in the order of the file.
    label : str, optional
        The column that holds the row labels.
    words : CellWords
        The words for ones, zeros and missing cells.
    form : TextForm, optional
        How the lines of a text table were written.
    """

    encoding: Columns
    table: pl.DataFrame
    columns: list[str]
    label: str | None
    words: CellWords
    form: TextForm | None = None

    @property
    def plan(self) -> Plan:
        """A line for each column of the file."""
        lines = {line.name: line for line in self.encoding.plan}
        if self.label is not None:
            lines[self.label] = ColumnPlan(self.label, "id", encoding=LABELS)
        return Plan(tuple(lines.get(name) or _not_used(name) for name in self.table.columns))

    def in_words(self) -> tuple[str, ...]:
        """A description, in a few lines, of how the columns were encoded."""
        made, plan = self.encoding.names, self.encoding.plan
        used = [line.kind for line in plan if line.is_encoded]
        parts = [f"{used.count(kind)} {kind}" for kind in KINDS if kind in used]
        some = [one_line(name) for name in made if name not in self.columns][:3]
        such = f", such as {', '.join(map(repr, some))}" if some else ""
        left_out = plan.left_out.items()
        left = [f"{one_line(name)} ({why})" for name, why in left_out if name != self.label]
        named = "" if self.label is None else f"; row labels: {self.label!r}"
        columns_by_codes: dict[str, list[str]] = {}
        for name, cells in plan.taken_as_missing.items():
            columns_by_codes.setdefault(", ".join(cells), []).append(one_line(name))
        codes = [
            f"{cells} in {names[0] if len(names) == 1 else counted(len(names), 'column')}"
            for cells, names in columns_by_codes.items()
        ]
        return (
            f"encoded {counted(len(used), 'column')} ({', '.join(parts)}) as "
            f"{counted(len(made), '0/1 column')}{such}",
            f"left out: {_some(left) or 'nothing'}{named}",
            *([f"taken as missing: {_some(codes)}"] if codes else []),
        )


def plain_plan(dialect: Dialect, name: str) -> Plan:
    """The plan of a wide table that holds zeros and ones."""
    label, cells = dialect.label_field(name), frozenset(dialect.cell_fields(name))
    return Plan(
        tuple(
            ColumnPlan(column, "id", encoding=LABELS)
            if number == label
            else ColumnPlan(column, "yes/no", ("0", "1"), encoding="one column")
            if number in cells
            else _not_used(column)
            for number, column in enumerate(dialect.names)
        )
    )


def _not_used(column: str) -> ColumnPlan:
    return ColumnPlan(column, "text", encoding=LEFT_OUT, why="as asked")


def _some(items: list[str], most: int = 6) -> str:
    shown = ", ".join(items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"


def encode_frame(
    frame: pl.DataFrame,
    name: str,
    dialect: Dialect,
    options: Options,
    description: str,
    refused: FileError | None = None,
    form: TextForm | None = None,
) -> Reading:
    """The observations of a wide table whose columns may hold anything.

    `refused` is the reason why the table could not be read as zeros and ones; it is raised if the
    table seems to be meant to hold these. `form` is how the lines of a text table were written, and
    `description` says how another kind of table was read.
    """
    import polars as pl

    from boolweave.encoding.choosing import Settings as EncoderSettings
    from boolweave.encoding.choosing import vote_columns
    from boolweave.encoding.columns import Columns
    from boolweave.encoding.rules import Rules, parse_rules, rules_of
    from boolweave.encoding.tables import columns_of, without_blanks

    rules = Rules({})
    with naming_file(name):
        if options.encode not in ("auto", "always", "never"):
            rules = parse_rules(options.encode)
    plan = options.plan
    if plan is not None:
        with naming_file(name):
            plan = plan.for_table(frame.columns)
        dialect = _with_labels(dialect, plan, name)
    dialect = replace(dialect, drop=(*dialect.drop, *rules.dropped))
    rules = rules.renamed(lambda column: dialect.names[dialect.position(column, name, "encode")])
    if dialect.labels is None and dialect.index is None and not dialect.use:
        free = frame.width > 1 and dialect.names[0] not in rules.columns
        free = free and 0 in replace(dialect, labels="no").cell_fields(name)
        if free and _holds_names(frame.to_series(0), dialect, options.words):
            dialect = replace(dialect, labels="yes")
    label, cells = dialect.label_field(name), dialect.cell_fields(name)
    table = frame.select(pl.nth(cells))
    words = options.words
    clean = [without_blanks(column, words) for column in table.iter_columns()]
    meant = [_meant_as_boolean(column, words) for column in clean]
    has_votes = bool(vote_columns(clean, words))
    if refused is not None and all(meant) and not has_votes:
        raise refused
    with naming_file(name):
        given = rules.parameters
        chosen = rules_of(
            table.columns,
            given.get("numbers", "auto"),
            given.get("bins"),
            given.get("separators"),
            given.get("categories"),
        )
        columns = columns_of(table, table.columns)
        lines = None if plan is None else Plan(tuple(plan[name] for name in table.columns))
        encoding = Columns.fit(columns, EncoderSettings(words=words), chosen, lines)
        if label is None and dialect.labels is None and not dialect.use:
            label = _label_among(encoding.plan, table, frame)
            if label is not None:
                dialect = replace(dialect, index=frame.columns[label])
    used = [line.kind for line in encoding.plan if line.is_encoded]
    # Names and texts beside zeros and ones are left out; a single line does not tell what they are.
    lost = frame.height == 1 or any(
        is_meant and not line.is_encoded
        for is_meant, line in zip(meant, encoding.plan, strict=True)
    )
    mistaken = set(used) <= {"yes/no"} and not has_votes and (lost or not used)
    if refused is not None and mistaken:
        raise refused
    if not used:
        left = _some([f"{column} ({why})" for column, why in encoding.plan.left_out.items()])
        raise FileError(name, f"no column is left to encode; left out: {left}")
    bits = encoding.encode(columns)
    codes = np.where(np.isnan(bits), MISSING, bits).astype(np.uint8)
    names = None
    if label is not None:
        keys = frame.to_series(label)
        names = [str(key) for key in keys.fill_null("").to_list()]
    with naming_file(name):
        seen = Observations(*from_codes(codes, names, encoding.names))
    encoded = Encoded(
        encoding, frame, table.columns, None if label is None else frame.columns[label], words, form
    )
    read_as = description or dialect.in_words()
    return Reading(seen, read_as, encoded=encoded, plan=encoded.plan)


def _with_labels(dialect: Dialect, plan: Plan, name: str) -> Dialect:
    """The dialect with the column of row labels that a plan names, unless the caller names one."""
    labels = [line.name for line in plan if line.encoding == LABELS]
    if len(labels) > 1:
        raise FileError(
            name,
            f"expected one column of row labels in the plan, got {', '.join(labels)}; "
            f"make the encoding of the others {LEFT_OUT!r}",
        )
    if dialect.labels is not None or dialect.index is not None:
        return dialect
    return replace(dialect, index=labels[0]) if labels else replace(dialect, labels="no")


def _label_among(plan: Plan, table: pl.DataFrame, frame: pl.DataFrame) -> int | None:
    """The position of the first column of identifiers that all differ; names of these precede."""
    from boolweave.encoding.choosing import is_id_name

    for line in sorted(plan, key=lambda line: not is_id_name(line.name)):
        column = table[line.name]
        if line.kind == "id" and not column.null_count() and column.n_unique() == len(column):
            return frame.columns.index(line.name)
    return None


def _holds_names(column: pl.Series, dialect: Dialect, words: CellWords) -> bool:
    """Whether the first column holds row labels: all different, and not a measurement."""
    import polars as pl

    from boolweave.encoding.tables import as_dates, as_numbers, counts_up

    cells = column.to_list()
    if column.null_count() or len(set(cells)) < len(cells) or len(cells) < 2:
        return False
    if dialect.header is not False and is_heading(column.name):
        return True
    numbers = as_numbers(column)
    if numbers is not None:
        unnamed = column.name.strip() in ("", "column 1")
        return unnamed or counts_up(numbers.to_numpy())
    if as_dates(column) is not None:
        return False
    return column.dtype == pl.String and all(words.code(cell) == WRONG for cell in cells)


def _meant_as_boolean(column: pl.Series, words: CellWords) -> bool:
    """Whether most cells of a clean column are ones and zeros, so that all should be."""
    from boolweave.encoding.choosing import boolean_codes

    known = column.drop_nulls()
    codes = boolean_codes(known, words)
    right = [cell for cell, code in codes.items() if code != WRONG]
    return (known.is_in(right).sum() if right else 0) >= MEANT * len(known)


def remedy_for(cell: object, column: pl.Series, words: CellWords) -> str:
    """The remedy for a cell that is neither 0 nor 1, which never turns a missing answer into 1."""
    number = _number(cell)
    if number is None:
        return "correct it, or define its meaning with `ones`, `zeros` or `missing`"
    cells = [other for other in column.drop_nulls().unique().to_list() if not words.is_blank(other)]
    numbers = [n for other in cells if (n := _number(other)) is not None]
    codes = no_answer_codes(numbers)
    odd = {other for other in numbers if other not in (0, 1)}
    if not codes and number.is_integer() and len(odd) == 1 and len(cells) > 1:
        codes = [int(number)]
    if not codes:
        return RATINGS
    shown = ",".join(map(str, codes))
    return f"if {shown} stands for a missing value, pass `missing={shown}`; otherwise correct it"


def _number(cell: object) -> float | None:
    try:
        number = float(str(cell))
    except ValueError:
        return None
    return number if np.isfinite(number) else None
