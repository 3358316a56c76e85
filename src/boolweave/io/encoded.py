"""Tables whose columns are not all zeros and ones: how to recognize and encode them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from boolweave.data.cells import MISSING, WRONG, CellWords, no_answer_codes
from boolweave.data.convert import from_codes
from boolweave.data.observations import Observations
from boolweave.io import Reading
from boolweave.io.cells import RATINGS, naming_file
from boolweave.io.dialect import Dialect, is_heading
from boolweave.io.files import FileError
from boolweave.io.options import Options
from boolweave.runtime.words import counted

if TYPE_CHECKING:
    import polars as pl

    from boolweave.encoding import TableEncoder
    from boolweave.io.origin import TextForm

# A column was meant to be Boolean if at least this fraction of its known cells is 0/1 or yes/no.
MEANT = 0.5


@dataclass(frozen=True, eq=False)
class Encoded:
    """A table whose columns became zeros and ones.

    Attributes
    ----------
    encoder : TableEncoder
        Fitted to the columns of `table` named in `columns`.
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

    encoder: TableEncoder
    table: pl.DataFrame
    columns: list[str]
    label: str | None
    words: CellWords
    form: TextForm | None = None

    def in_words(self) -> tuple[str, str]:
        """A description, in two lines, of how the columns were encoded."""
        made = self.encoder.get_feature_names_out().tolist()
        kinds = self.encoder.kinds_
        used = [kind for kind in kinds if kind != "left out"]
        parts = [f"{used.count(kind)} {_plural(kind, used.count(kind))}" for kind in _KINDS]
        kinds_used = ", ".join(part for part in parts if not part.startswith("0 "))
        some = [name for name in made if name not in self.columns][:3]
        such = f", such as {', '.join(map(repr, some))}" if some else ""
        left = [f"{name} ({why})" for name, why in self.encoder.left_out_.items()]
        named = "" if self.label is None else f"; row labels: {self.label!r}"
        return (
            f"encoded {counted(len(used), 'column')} ({kinds_used}) as "
            f"{counted(len(made), '0/1 column')}{such}",
            f"left out: {_some(left) or 'nothing'}{named}",
        )


_KINDS = ("yes or no", "category", "number", "date", "several choices")


def _plural(kind: str, n: int) -> str:
    if kind == "several choices":
        return "with several choices"
    if n == 1 or kind == "yes or no":
        return kind
    return "categories" if kind == "category" else f"{kind}s"


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

    from boolweave.encoding import TableEncoder
    from boolweave.encoding.choosing import Rules, parse_rules
    from boolweave.encoding.encoder import ColumnsLeftOutWarning
    from boolweave.encoding.tables import without_blanks

    rules = Rules({})
    with naming_file(name):
        if options.encode not in ("auto", "always", "never"):
            rules = parse_rules(options.encode)
    dialect = replace(dialect, drop=(*dialect.drop, *rules.dropped))
    rules = rules.renamed(lambda column: dialect.names[dialect.position(column, name, "encode")])
    if dialect.labels is None and dialect.index is None and not dialect.use:
        free = frame.width > 1 and dialect.names[0] not in rules.columns
        free = free and 0 in replace(dialect, labels="no").cell_fields(name)
        named = free and _holds_names(frame.to_series(0), dialect, options.words)
        dialect = replace(dialect, labels="yes" if named else "no")
    label, cells = dialect.label_field(name), dialect.cell_fields(name)
    table = frame.select(pl.nth(cells))
    words = options.words
    clean = [without_blanks(column, words) for column in table.iter_columns()]
    meant = [_meant_as_boolean(column, words) for column in clean]
    if refused is not None and all(meant):
        raise refused
    encoder = TableEncoder(
        **rules.parameters, ones=words.ones, zeros=words.zeros, missing=words.missing
    )
    try:
        with naming_file(name), warnings.catch_warnings():
            warnings.simplefilter("ignore", ColumnsLeftOutWarning)
            bits = encoder.fit_transform(table)
    except FileError:
        if refused is not None and len(getattr(encoder, "left_out_", ())) == table.width:
            raise refused from None  # marks such as x for ones, and nothing else
        raise
    if refused is not None and set(encoder.kinds_) <= {"yes or no", "left out"}:
        raise refused
    codes = np.where(np.isnan(bits), MISSING, bits).astype(np.uint8)
    names = None
    if label is not None:
        keys = frame.to_series(label)
        names = [str(key) for key in keys.fill_null("").to_list()]
    with naming_file(name):
        seen = Observations(*from_codes(codes, names, encoder.get_feature_names_out()))
    encoded = Encoded(
        encoder, frame, table.columns, None if label is None else frame.columns[label], words, form
    )
    return Reading(seen, description or dialect.in_words(), encoded=encoded)


def _holds_names(column: pl.Series, dialect: Dialect, words: CellWords) -> bool:
    """Whether the first column holds row labels: all different, and not a measurement."""
    import polars as pl

    from boolweave.encoding.tables import as_numbers, counts_up

    cells = column.to_list()
    if column.null_count() or len(set(cells)) < len(cells) or len(cells) < 2:
        return False
    if dialect.header is not False and is_heading(column.name):
        return True
    numbers = as_numbers(column)
    if numbers is not None:
        unnamed = column.name.strip() in ("", "column 1")
        return unnamed or counts_up(numbers.to_numpy())
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
