"""Text tables, wide or long (triples and pairs), read a chunk of lines at a time.

The fast path parses numbers. If a file does not hold plain numbers, it is read again as text, which
is slower but knows every spelling and can name the cell that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.data.cells import MISSING, WRONG, Above, codes_above
from boolweave.data.convert import from_codes
from boolweave.data.observations import Observations
from boolweave.io.cells import (
    codes_of_column,
    observe,
    observe_times,
    ratings_of_texts,
)
from boolweave.io.delimited import NotPlain, checked_chunks, parse
from boolweave.io.dialect import Dialect, about_pairs, guess, guess_columns, is_heading
from boolweave.io.files import FileError
from boolweave.io.keys import Numbering, number_integers
from boolweave.io.options import BY_LAYOUT, Options
from boolweave.io.tables.contents import CellError, Contents
from boolweave.io.tables.encoded import encode_frame, remedy_for
from boolweave.io.tables.origin import Origin, Speller, TextForm

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from boolweave.data.labels import Labels
    from boolweave.runtime.types import Array, Integers

CELLS = "expected 0/1, true/false, yes/no, y/n or nothing (empty, NA, NaN, ?)"
NUMERIC_BLANKS = ["", "NA", "NaN", "nan", "?", "na", "N/A", "null", "None", "none"]


def read_text(path: Path, name: str, options: Options) -> Contents:
    """Read a text table, with its times and its form; options that are not given are guessed."""
    if options.encode not in ("auto", "never"):
        return _encoded(path, name, options)
    found = guess(path, name, options.dialect, options.above is not None, options.words)
    kind = f"a table of {'wide layout' if found.layout == 'wide' else found.layout}"
    options.check(name, kind, "delimiter", "header", *BY_LAYOUT[found.layout or "wide"])
    read = _read_wide if found.layout == "wide" else _read_long
    try:
        try:
            contents = read(path, name, found, options, plain=not options.words.codes)
        except NotPlain:
            contents = read(path, name, found, options, plain=False)
    except (CellError, LabelError) as error:
        asked = options.dialect.columns or options.dialect.layout in ("triples", "pairs")
        if options.encode == "never" or options.above is not None or asked:
            raise
        if not _may_be_columns(found):
            raise
        return _encoded(path, name, options, error)
    _check_lines(contents.observations.n_rows, found, name)
    return contents


def _check_lines(n_lines: int, found: Dialect, name: str) -> None:
    """Raise for a file that has only a header."""
    if found.header and not n_lines:
        raise FileError(
            name, "expected lines below the header, got only the header; add them, or pass "
            "`header=False` if the first line holds data",
        )  # fmt: skip


def _may_be_columns(found: Dialect) -> bool:
    """Whether a table whose cells are not zeros and ones may have columns of other kinds."""
    if found.layout == "wide":
        return True
    # Values of triples are numbers, mostly ratings. But if the first two columns do not have usual
    # headings of names, and the third holds numbers, they are two columns of categories.
    headings = [is_heading(found.names[i]) for i in found.picked()[:2]]
    return found.layout == "triples" and bool(found.header) and not all(headings)


def _encoded(path: Path, name: str, options: Options, refused: FileError | None = None) -> Contents:
    """Read a table whose columns may hold anything, and encode it as zeros and ones."""
    options.check(name, "a table to encode", "delimiter", "header", *BY_LAYOUT["wide"])
    dialect = guess_columns(path, name, options.dialect, options.words)
    frame = read_fields(path, name, dialect)
    _check_lines(frame.height, dialect, name)
    frame.columns = list(dialect.names)
    form = TextForm.of(path, name, dialect) if options.keep else None
    return encode_frame(frame, name, dialect, options, "", refused, form)


def read_fields(path: Path, name: str, dialect: Dialect) -> pl.DataFrame:
    """All fields of a table as texts, in the columns f0, f1, ..."""
    import polars as pl

    kinds: dict[str, Any] = {f"f{i}": pl.String for i in range(dialect.n_fields)}
    pieces = [
        parse(chunk, name, dialect, kinds, None) for chunk in checked_chunks(path, name, dialect)
    ]
    return pl.concat(pieces) if pieces else pl.DataFrame(schema=kinds)


def _read_wide(path: Path, name: str, dialect: Dialect, options: Options, plain: bool) -> Contents:
    """Read a table with one line for each row of the matrix."""
    import polars as pl

    above, label, cells = options.above, dialect.label_field(name), dialect.cell_fields(name)
    tables: list[Array] = [np.empty((0, len(cells)), np.uint8 if above is None else np.float64)]
    labels: list[str] = []
    lines: list[int] = []
    other = sorted(set(range(dialect.n_fields)) - set(cells))
    others, speller = [pl.DataFrame(schema={str(i): pl.String for i in other})], Speller()
    for numbers, frame, table in _parsed(path, name, dialect, options, (), cells, plain):
        tables.append(table)
        if dialect.empty_end and not _is_empty(frame[f"f{dialect.n_fields - 1}"]):
            raise FileError(
                name, "expected a name for the last column, because it is not empty; name it",
                line=1, column=dialect.n_fields,
            )  # fmt: skip
        if options.keep:
            others.append(frame.select(pl.col(f"f{i}").alias(str(i)) for i in other))
            if not plain:
                speller.add(frame.select(f"f{i}" for i in cells))
        if label is not None:
            if plain and frame[f"f{label}"].null_count():
                raise NotPlain  # a row may well be named NA
            labels += frame[f"f{label}"].fill_null("").to_list()
            lines += numbers.tolist()
    codes = np.concatenate(tables)
    if above is not None:
        codes = codes_above(codes, above)
    _check_row_labels(labels, lines, name, 1 + (label or 0))
    names = [dialect.names[i] for i in cells] if dialect.header else None
    seen = Observations(*from_codes(codes, None if label is None else labels, names))
    origin = None
    if options.keep and above is None:
        form, spelled = TextForm.of(path, name, dialect), speller.spellings()
        kept = pl.concat(others)
        origin = Origin(list(dialect.names), cells, kept, options.words, form, spelled)
    return Contents(seen, dialect.in_words(), origin=origin)


def _read_long(path: Path, name: str, dialect: Dialect, options: Options, plain: bool) -> Contents:
    """Read row, column and value in each line, or only row and column of the ones; and times."""
    at, above = dialect.picked(), options.above
    timed = None if options.times is None else dialect.position(options.times, name, "times")
    times: list[pl.Series] = []
    axes = _Keys(), _Keys()
    values: list[Array] = [np.empty(0, np.uint8 if above is None else np.float64)]
    for lines, frame, table in _parsed(path, name, dialect, options, at[:2], at[2:], plain):
        for keys, i in zip(axes, at, strict=False):
            series = frame[f"f{i}"]
            if series.null_count():
                if plain:
                    raise NotPlain
                line = int(lines[series.is_null().arg_max() or 0])
                raise FileError(
                    name, "expected the name of a row or column, got an empty field; fill it in or "
                    "remove the line", line=line, column=repr(dialect.names[i]),
                )  # fmt: skip
            keys.add(series)
        values.append(table[:, 0] if at[2:] else np.ones(len(frame), np.uint8))
        if timed is not None:
            times.append(frame[f"f{timed}"].alias(dialect.names[timed]))
    (row, row_labels), (column, column_labels) = (keys.numbered() for keys in axes)
    codes = np.concatenate(values)
    if above is not None:
        codes = codes_above(codes, above)
    absent = options.unlisted if dialect.layout == "pairs" else options.absent or "missing"
    observations = observe(
        row, column, codes, row_labels, column_labels, name,
        duplicates=options.duplicates, absent=absent, zeros=options.zeros,
    )  # fmt: skip
    when = None
    if times:
        when = observe_times(observations.to_local(), row, column, times, name)
    words = dialect.in_words() + about_pairs(options.dialect, dialect)
    return Contents(observations, words, when, lists_entries=True)


def _is_empty(column: pl.Series) -> bool:
    return bool((column.fill_null("").str.strip_chars() == "").all())


class _Keys:
    """The names of rows or of columns: either always numbers or always texts."""

    def __init__(self) -> None:
        self._parts: list[Integers] = []
        self._texts: Numbering | None = None

    def add(self, keys: pl.Series) -> None:
        """Add the names of one chunk."""
        if keys.dtype.is_integer():
            numbers = keys.to_numpy()
            small = len(numbers) and numbers.min() >= -(2**31) and numbers.max() < 2**31
            self._parts.append(numbers.astype(np.int32) if small else numbers)
        else:
            self._texts = self._texts or Numbering()
            self._parts.append(self._texts.number(keys))

    def numbered(self) -> tuple[Integers, Labels]:
        """The number of each key, and the labels in that order; the keys are discarded."""
        keys = np.concatenate([np.empty(0, np.int32), *self._parts])
        self._parts = []
        return number_integers(keys) if self._texts is None else (keys, self._texts.labels())


# ---------------------------------------------------------------- cells


def _parsed(
    path: Path,
    name: str,
    dialect: Dialect,
    options: Options,
    keys: Sequence[int],
    cells: Sequence[int],
    plain: bool,
) -> Iterator[tuple[NDArray[np.int64], pl.DataFrame, Array]]:
    """Yield the line numbers, fields, and cells (codes or ratings) of each chunk.

    The fields at `keys` and `cells` are parsed as numbers if they are `plain`.
    """
    import polars as pl

    above = options.above
    kinds: dict[str, Any] = {f"f{i}": pl.String for i in range(dialect.n_fields)}
    if plain:
        kinds |= {f"f{i}": pl.UInt8 if above is None else pl.Float64 for i in cells}
        kinds |= {f"f{i}": pl.Int64 for i in keys}
    for chunk in checked_chunks(path, name, dialect):
        if plain and keys and not chunk.plain:
            raise NotPlain
        frame = parse(chunk, name, dialect, kinds, NUMERIC_BLANKS if plain else None)
        values = frame.select(f"f{i}" for i in cells)
        if plain:
            yield chunk.lines, frame, _cells_of_numbers(values, above)
        else:
            yield chunk.lines, frame, _cells_of_texts(values, chunk.lines, name, dialect, options)


def _cells_of_numbers(values: pl.DataFrame, above: Above | None) -> Array:
    n_nulls = sum(values.null_count().row(0)) if values.width else 0
    if n_nulls:
        values = values.fill_null(MISSING if above is None else np.nan)
    table = values.to_numpy()
    if np.isinf(table).any() if above is not None else np.count_nonzero(table > 1) != n_nulls:
        raise NotPlain
    return table


def _cells_of_texts(
    values: pl.DataFrame, lines: NDArray[np.int64], name: str, dialect: Dialect, options: Options
) -> Array:
    above, words = options.above, options.words
    table = np.empty(values.shape, np.uint8 if above is None else np.float64)
    wrong = np.zeros(values.shape, dtype=bool)
    for j, column in enumerate(values.iter_columns()):
        if above is None:
            table[:, j] = codes_of_column(column, words)
            wrong[:, j] = table[:, j] == WRONG
        else:
            table[:, j], wrong[:, j] = ratings_of_texts(column, words)
    if wrong.any():
        i, j = (int(at) for at in np.argwhere(wrong)[0])
        field = int(values.columns[j][1:])
        column_name = repr(dialect.names[field]) if dialect.header else field + 1
        text = values[i, j]
        shown = repr(text if text is None or len(text) <= 40 else text[:37] + "...")
        problem = f"expected a number, got {shown}"
        if above is None:
            problem = f"{CELLS}, got {shown}; {remedy_for(text, values.to_series(j), words)}"
        raise CellError(name, problem, line=int(lines[i]), column=column_name)
    return table


class LabelError(FileError):
    """The first column was taken for row labels, but some of them are equal."""


def _check_row_labels(labels: list[str], lines: list[int], name: str, column: int) -> None:
    seen: dict[str, int] = {}
    for label, line in zip(labels, lines, strict=True):
        if label in seen:
            # A label that occurs twice is a mistake. A value that occurs often is a category.
            kind = LabelError if 2 * len(set(labels)) <= len(labels) else FileError
            raise kind(
                name,
                f"expected every row to have its own label, got {label!r} as in line {seen[label]};"
                ' rename one of them, or pass `labels="ignore"` to leave the first column out',
                line=line,
                column=column,
            )
        seen[label] = line
