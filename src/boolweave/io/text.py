"""Text tables, wide or long (triples and pairs), read once, a chunk of lines at a time, as texts.

What a text means, a number or a word, is decided by expressions on all texts of a chunk. If a table
is not as it should be, it is read again, line by line, to name the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import NDArray

from boolweave.data.cells import WRONG, codes_above
from boolweave.data.convert import from_codes
from boolweave.data.labels import Labels
from boolweave.data.observations import Observations
from boolweave.io import Reading
from boolweave.io.cells import (
    TRIPLES,
    Numbering,
    TwiceError,
    codes_of_column,
    number_integers,
    observe,
    observe_times,
    ratings_of_texts,
)
from boolweave.io.dialect import (
    Dialect,
    Layout,
    about_pairs,
    guess,
    guess_columns,
    is_comment,
    is_heading,
)
from boolweave.io.encoded import encode_frame, plain_plan, remedy_for
from boolweave.io.files import (
    FileError,
    decoded,
    open_quote,
    records,
    table_chunks,
    without_comments,
)
from boolweave.io.options import BY_LAYOUT, OF_TEXT, CellError, Options
from boolweave.io.origin import Origin, Speller, TextForm, texts_by_row
from boolweave.io.shapes import MOST_COLUMNS, long_form
from boolweave.runtime.types import Array, Integers

if TYPE_CHECKING:
    import polars as pl

CELLS = "expected 0/1, true/false, yes/no, y/n or nothing (empty, NA, NaN, ?)"

_NEWLINE, _RETURN, _QUOTE = 10, 13, 34
# Replaces a delimiter of several characters, which polars does not support.
_UNIT = "\x1f"
_RUN_OF_BLANKS = re.compile(rb"[ \t]+")
_BLANKS_AT_ENDS = re.compile(rb" ?(\r?\n) ?")
_QUOTED = re.compile(r'"(?:[^"]|"")*"')


def read_text(path: Path, name: str, options: Options) -> Reading:
    """Read a text table, with its times and its form; options that are not given are guessed."""
    if options.encode not in ("auto", "never") or options.plan is not None:
        return _encoded(path, name, options)
    dialect = guess(path, name, options.dialect, options.above is not None, options.words)
    kind = f"a table of {'wide layout' if dialect.layout == 'wide' else dialect.layout}"
    options.check(name, kind, *OF_TEXT, *BY_LAYOUT[dialect.layout or "wide"])
    read = _read_wide if dialect.layout == "wide" else _read_long
    try:
        reading = read(TextTable(path, name, dialect), options)
    except (CellError, LabelError, TwiceError) as error:
        asked = options.dialect.columns or options.dialect.layout in ("triples", "pairs")
        if options.encode == "never" or options.above is not None or asked:
            raise
        among = None if options.dialect.layout else _long_among(path, name, options)
        if among is not None:
            return among
        if not _may_be_columns(dialect):
            raise
        reading = _encoded(path, name, options, error)
        said = TRIPLES if isinstance(error, TwiceError) else ""
        return replace(reading, guess=reading.guess + said)
    _check_lines(reading.observations.n_rows, dialect, name)
    return reading


def _check_lines(n_lines: int, dialect: Dialect, name: str) -> None:
    """Raise for a file that has only a header."""
    if dialect.header and not n_lines:
        raise FileError(
            name,
            "expected lines below the header, got only the header; add them, or pass "
            "`header=False` if the first line holds data",
        )


def _long_among(path: Path, name: str, options: Options) -> Reading | None:
    """Read a table with a line for each entry, among other columns; None if it is another table."""
    dialect = guess_columns(path, name, options.dialect, options.words)
    if dialect.picks or dialect.index is not None or dialect.labels is not None:
        return None
    if not dialect.header or not 3 <= dialect.n_fields <= MOST_COLUMNS:
        return None
    frame = read_fields(path, name, dialect)
    frame.columns = list(dialect.names)
    form = long_form(frame, options.words)
    if form is None:
        return None
    if form.levels and form.code_book is None:
        raise FileError(name, form.question())
    layout: Layout = "pairs" if form.value is None else "triples"
    dialect = replace(dialect, layout=layout, columns=form.columns)
    options = replace(options, dialect=dialect, words=form.code_book or options.words)
    reading = _read_long(TextTable(path, name, dialect), options)
    return replace(reading, guess=dialect.in_words() + form.in_words())


def _may_be_columns(dialect: Dialect) -> bool:
    """Whether a table whose cells are not zeros and ones may have columns of other kinds."""
    if dialect.layout == "wide":
        return True
    # Values of triples are numbers, mostly ratings. But if the first two columns do not have usual
    # headings of names, and the third holds numbers, they are two columns of categories.
    headings = [is_heading(dialect.names[i]) for i in dialect.picked()[:2]]
    return dialect.layout == "triples" and bool(dialect.header) and not all(headings)


def _encoded(path: Path, name: str, options: Options, refused: FileError | None = None) -> Reading:
    """Read a table whose columns may hold anything, and encode it as zeros and ones."""
    options.check(name, "a table to encode", *OF_TEXT, *BY_LAYOUT["wide"])
    dialect = guess_columns(path, name, options.dialect, options.words)
    frame = read_fields(path, name, dialect)
    _check_lines(frame.height, dialect, name)
    frame.columns = list(dialect.names)
    form = TextForm.of(path, name, dialect) if options.keep else None
    return encode_frame(frame, name, dialect, options, "", refused, form)


def read_fields(path: Path, name: str, dialect: Dialect) -> pl.DataFrame:
    """All fields of a table as texts, in the columns f0, f1, ..."""
    import polars as pl

    table = TextTable(path, name, dialect)
    pieces = [table.frame(content) for content in table.chunks()]
    empty = pl.DataFrame(schema={f"f{i}": pl.String for i in range(dialect.n_fields)})
    return pl.concat(pieces) if pieces else empty


# ---------------------------------------------------------------- wide tables


def _read_wide(table: TextTable, options: Options) -> Reading:
    """Read a table with one line for each row of the matrix."""
    import polars as pl

    name, dialect, above = table.name, table.dialect, options.above
    width, label, cells = dialect.n_fields, dialect.label_field(name), dialect.cell_fields(name)
    is_cell = np.isin(np.arange(width), cells)
    other = [
        i for i in np.flatnonzero(~is_cell).tolist() if options.keep or i in (label, width - 1)
    ]
    blocks: list[Array] = [np.empty((0, len(cells)), np.uint8 if above is None else np.float64)]
    others = [pl.DataFrame(schema={str(i): pl.String for i in other})]
    speller, n_rows = Speller(), 0
    for content in table.chunks():
        texts = table.texts(content)
        height = len(texts) // width
        others.append(pl.DataFrame({str(i): texts.gather_every(width, i) for i in other}))
        if dialect.empty_end and (others[-1][str(width - 1)].str.strip_chars() != "").any():
            raise FileError(
                name,
                "expected a name for the last column, because it is not empty; name it",
                line=1,
                column=width,
            )
        values = texts if is_cell.all() else texts.filter(pl.Series(np.tile(is_cell, height)))
        block, wrong = _parsed(values, options)
        if wrong.any():
            row, cell = divmod(int(np.argmax(wrong)), len(cells))
            column = values.gather_every(len(cells), cell)
            raise _about_cell(table, n_rows + row, cells[cell], column[row], column, options)
        blocks.append(block.reshape(height, len(cells)))
        if options.keep:
            speller.add(values, (height, len(cells)))
        n_rows += height
    codes = np.concatenate(blocks)
    if above is not None:
        codes = codes_above(codes, above)
    kept = pl.concat(others)
    labels = None if label is None else kept[str(label)].to_list()
    if labels is not None:
        _check_row_labels(labels, table, 1 + (label or 0))
    names = [dialect.names[i] for i in cells] if dialect.header else None
    observations = Observations(*from_codes(codes, labels, names))
    origin = None
    if options.keep and above is None:
        form, spelled = TextForm.of(table.path, name, dialect), speller.spellings()
        kept = kept.with_columns(pl.all().replace({"": None}))
        origin = Origin(list(dialect.names), cells, kept, options.words, form, spelled)
    plan = plain_plan(dialect, name)
    return Reading(observations, dialect.in_words(), plan=plan, origin=origin)


class LabelError(FileError):
    """The first column was taken for row labels, but some of them are equal."""


def _check_row_labels(labels: list[str], table: TextTable, column: int) -> None:
    first: dict[str, int] = {}
    for row, label in enumerate(labels):
        if first.setdefault(label, row) != row:
            # A label that occurs twice is a mistake. A value that occurs often is a category.
            kind = LabelError if 2 * len(set(labels)) <= len(labels) else FileError
            raise kind(
                table.name,
                f"expected every row to have its own label, got {label!r} as in line "
                f"{table.line_of(first[label])}; rename one of them, or pass "
                '`labels="ignore"` to leave the first column out',
                line=table.line_of(row),
                column=column,
            )


# ---------------------------------------------------------------- triples and pairs


def _read_long(table: TextTable, options: Options) -> Reading:
    """Read row, column and value in each line, or only row and column of the ones; and times."""
    name, dialect, above = table.name, table.dialect, options.above
    fields = dialect.picked()
    timed = None if options.times is None else dialect.position(options.times, name, "times")
    times: list[pl.Series] = []
    axes = _Keys(), _Keys()
    values: list[Array] = [np.empty(0, np.uint8 if above is None else np.float64)]
    n_lines = 0
    for content in table.chunks():
        frame = table.frame(content)
        for keys, i in zip(axes, fields, strict=False):
            series = frame[f"f{i}"]
            if series.null_count():
                raise FileError(
                    name,
                    "expected the name of a row or column, got an empty field; fill it in or "
                    "remove the line",
                    line=table.line_of(n_lines + (series.is_null().arg_max() or 0)),
                    column=repr(dialect.names[i]),
                )
            keys.add(series)
        if fields[2:]:
            column = frame[f"f{fields[2]}"]
            block, wrong = _parsed(column, options)
            if wrong.any():
                line = int(np.argmax(wrong))
                raise _about_cell(table, n_lines + line, fields[2], column[line], column, options)
        else:
            block = np.ones(frame.height, np.uint8)
        values.append(block)
        if timed is not None:
            times.append(frame[f"f{timed}"].alias(dialect.names[timed]))
        n_lines += frame.height
    (row, row_labels), (column_numbers, column_labels) = (keys.numbered() for keys in axes)
    codes = np.concatenate(values)
    if above is not None:
        codes = codes_above(codes, above)
    absent = options.unlisted if dialect.layout == "pairs" else options.absent or "missing"
    observations = observe(
        row,
        column_numbers,
        codes,
        row_labels,
        column_labels,
        name,
        duplicates=options.duplicates,
        absent=absent,
        zeros=options.zeros,
    )
    when = None
    if times:
        when = observe_times(observations.to_local(), row, column_numbers, times, name)
    words = dialect.in_words() + about_pairs(options.dialect, dialect)
    return Reading(observations, words, when, lists_entries=True)


class _Keys:
    """The names of rows or of columns, as numbers as long as all of them are numbers."""

    def __init__(self) -> None:
        self._parts: list[Integers] = []
        self._texts: Numbering | None = None

    def add(self, keys: pl.Series) -> None:
        """Add the names of one chunk, as texts."""
        import polars as pl

        if self._texts is None:
            numbers = keys.cast(pl.Int64, strict=False)
            # Some numbers have several spellings, which are different names: 7, 007, +7.
            spelled = keys.str.starts_with("0") & (keys != "0")
            spelled |= keys.str.starts_with("+") | keys.str.starts_with("-0")
            if not numbers.null_count() and not spelled.any():
                small = len(numbers) and numbers.is_between(-(2**31), 2**31 - 1).all()
                self._parts.append(numbers.cast(pl.Int32 if small else pl.Int64).to_numpy())
                return
            before, labels = self.numbered()
            self._texts = Numbering()
            self._texts.number(pl.Series(labels.tolist(), dtype=pl.String))
            self._parts.append(before)
        self._parts.append(self._texts.number(keys))

    def numbered(self) -> tuple[Integers, Labels]:
        """The number of each key, and the labels in that order; the keys are discarded."""
        keys = np.concatenate([np.empty(0, np.int32), *self._parts])
        self._parts = []
        return number_integers(keys) if self._texts is None else (keys, self._texts.labels())


# ---------------------------------------------------------------- cells


def _parsed(texts: pl.Series, options: Options) -> tuple[Array, NDArray[np.bool_]]:
    """Codes or ratings of cells, and which of them are neither."""
    if options.above is not None:
        return ratings_of_texts(texts, options.words)
    codes = codes_of_column(texts, options.words)
    return codes, codes == WRONG


def _about_cell(
    table: TextTable, row: int, field: int, text: str, column: pl.Series, options: Options
) -> CellError:
    """The error for a cell that is not 0, 1 or missing, or not a rating."""
    dialect = table.dialect
    shown = repr(text if text is None or len(text) <= 40 else text[:37] + "...")
    problem = f"expected a number, got {shown}"
    if options.above is None:
        problem = f"{CELLS}, got {shown}; {remedy_for(text, column, options.words)}"
    named = repr(dialect.names[field]) if dialect.header else field + 1
    return CellError(table.name, problem, line=table.line_of(row), column=named)


@dataclass(frozen=True)
class TextTable:
    """The records of a text table below its header, in chunks and one by one."""

    path: Path
    name: str
    dialect: Dialect

    @property
    def separator(self) -> str:
        """The delimiter as polars sees it."""
        delimiter = self.dialect.delimiter or ","
        return _UNIT if len(delimiter) > 1 else delimiter

    def chunks(self) -> Iterator[bytes]:
        """Whole records, none of them blank, with as many fields as the header.

        A delimiter or a newline inside quotes does not count, and quotes enclose whole fields.
        """
        lines_left = self.dialect.n_above
        for content, _ in self._tidy_chunks():
            if content[:1] in b"\r\n" or b"\n\n" in content or b"\n\r\n" in content:
                content = b"".join(record + b"\n" for record, _ in records(content) if record)
            while lines_left and content:
                lines_left -= 1
                end = content.index(b"\n")
                while content.count(b'"', 0, end) % 2:
                    end = content.index(b"\n", end + 1)
                content = content[end + 1 :]
            if content:
                if not self._is_regular(content):
                    self._refuse()
                yield content

    def texts(self, content: bytes) -> pl.Series:
        """The fields of a chunk, record by record; an empty field is an empty text."""
        import polars as pl

        if b'"' in content:
            return texts_by_row(self.frame(content))
        plain = content.replace(b"\r\n", b"\n").replace(self.separator.encode(), b"\n")
        try:
            return pl.Series([plain[:-1].decode("utf-8")]).str.split("\n").explode()
        except UnicodeDecodeError:
            self._refuse()

    def frame(self, content: bytes) -> pl.DataFrame:
        """The fields of a chunk in the columns f0, f1, ...; an empty field is null."""
        import polars as pl

        try:
            return pl.read_csv(
                content,
                has_header=False,
                schema={f"f{i}": pl.String for i in range(self.dialect.n_fields)},
                separator=self.separator,
                quote_char='"' if b'"' in content else None,
            )
        except pl.exceptions.PolarsError:
            self._refuse()

    def line_of(self, row: int) -> int:
        """The number of the first line of a record, given its number from 0."""
        return next(islice(self._lines(), row, None))[0]

    def _tidy_chunks(self) -> Iterator[tuple[bytes, int]]:
        """Chunks of whole records without comments, and the number of lines before each."""
        delimiter = self.dialect.delimiter or ","

        def of_other_fields(line: bytes) -> bool:
            return is_comment(line.decode("utf-8", "replace"), delimiter, self.dialect.n_fields)

        for content, lines_before in table_chunks(self.path, self.name):
            content = without_comments(content, of_other_fields)
            if len(delimiter) > 1:
                content = content.replace(delimiter.encode(), _UNIT.encode())
            if delimiter == " " and b'"' not in content:
                content = _BLANKS_AT_ENDS.sub(b"\\1", _RUN_OF_BLANKS.sub(b" ", content))
                content = content.lstrip(b" ")
            yield content, lines_before

    def _is_regular(self, content: bytes) -> bool:
        """Whether all records have as many fields as the header, and quotes enclose whole ones."""
        buffer = np.frombuffer(content, dtype=np.uint8)
        newline = buffer == _NEWLINE
        border = newline | (buffer == ord(self.separator))
        if b'"' in content:
            quote = buffer == _QUOTE
            inside = (np.cumsum(quote, dtype=np.uint8) & 1).astype(bool)  # parity survives overflow
            border &= ~inside
            beside = border | quote
            before = np.concatenate([[True], beside[:-1]])
            after = np.concatenate([(beside | (buffer == _RETURN))[1:], [True]])
            if inside[-1] or (quote & ~np.where(inside, before, after)).any():
                return False
        ends_line = newline[border]  # (n fields,), which should be False, ..., False, True, ...
        last = ends_line[self.dialect.n_fields - 1 :: self.dialect.n_fields]
        n_lines = np.count_nonzero(ends_line)
        return n_lines * self.dialect.n_fields == len(ends_line) and bool(last.all())

    # ------------------------------------------------------------ line by line

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """The number of the first line of each record that is not blank, and the record."""
        lines = (
            (lines_before + number + 1, record)
            for content, lines_before in self._tidy_chunks()
            for record, number in records(content)
            if record
        )
        return islice(lines, self.dialect.n_above, None)

    def _refuse(self) -> NoReturn:
        """Raise the error about the first record that is not regular."""
        for line, record in self._lines():
            n_fields = self._count_fields(decoded(record, self.name, line), line)
            if n_fields != self.dialect.n_fields:
                raise FileError(
                    self.name,
                    f"expected {self.dialect.n_fields} field(s), as in the first line, got "
                    f"{n_fields}; correct the line, or set the delimiter with `delimiter`",
                    line=line,
                )
        raise FileError(self.name, "expected a table as text, but it cannot be read; recreate it")

    def _count_fields(self, record: str, line: int) -> int:
        """The number of fields of a record; raise if quotes do not enclose whole fields."""
        n_fields, start = 1, 0
        while True:
            end = record.find(self.separator, start)
            end = len(record) if end < 0 else end
            stray = record.find('"', start, end)
            if stray == start:
                quoted = _QUOTED.match(record, start)
                end = quoted.end() if quoted else len(record)
                stray = -1 if end == len(record) or record[end] == self.separator else end - 1
                if quoted is None or (stray >= 0 and "\n" in quoted[0]):
                    # Its quotation mark at the end may have been forgotten.
                    raise open_quote(self.name, line + record.count("\n", 0, start))
            if stray >= 0:
                raise FileError(
                    self.name,
                    "expected quotes around whole fields, got one inside; "
                    'write it as "" in a quoted field',
                    line=line + record.count("\n", 0, stray),
                )
            if end == len(record):
                return n_fields
            n_fields, start = n_fields + 1, end + 1
