"""Text tables, wide or triples, parsed by polars a chunk of lines at a time.

The fast way parses numbers. Where a file does not hold plain numbers it is read once more as text,
which is slower but knows every spelling and can name the cell that is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.data.observations import Observations
from boolweave.io.dialect import BLANKS, CELLS, CODES, Dialect, not_utf8, open_quote
from boolweave.io.files import FileError, bare_return, chunks_of_lines
from boolweave.io.options import Above

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

MISSING, WRONG = 2, 9
_NEWLINE, _RETURN, _QUOTE = 10, 13, 34
# Stands for a delimiter of several characters, which polars does not split at.
_UNIT = "\x1f"
_BARE_RETURN = re.compile(rb"\r(?!\n)")
_RUN_OF_BLANKS = re.compile(rb"[ \t]+")
_BLANKS_AT_ENDS = re.compile(rb" ?(\r?\n) ?")
NUMERIC_BLANKS = ["", "NA", "NaN", "nan", "?", "na", "N/A", "null", "None", "none"]


class NotPlain(Exception):
    """The file holds something else than plain numbers."""


@dataclass(frozen=True)
class Chunk:
    """Whole lines of a file that have passed the checks."""

    content: bytes
    lines: NDArray[np.int64]  # numbers of the lines that are not blank
    blank: NDArray[np.bool_]  # which lines are
    quoted: bool
    plain: bool  # no number in it has two spellings, such as 7 and 007


# ---------------------------------------------------------------- chunks


def checked_chunks(path: Path, name: str, dialect: Dialect) -> Iterator[Chunk]:
    """The chunks of a file, with quotes and the number of fields of every line checked."""
    n_lines = 0
    header_left = bool(dialect.header)
    delimiter = dialect.delimiter or ","
    for content in chunks_of_lines(path):
        if b"\x00" in content:
            raise FileError(name, "expected a table as text, got binary data")
        if b"\r" in content and (bare := _BARE_RETURN.search(content)):
            raise bare_return(name, n_lines + content.count(b"\n", 0, bare.start()) + 1)
        if len(delimiter) > 1:
            content = content.replace(delimiter.encode(), _UNIT.encode())
        if delimiter == " " and b'"' not in content:
            content = _BLANKS_AT_ENDS.sub(b"\\1", _RUN_OF_BLANKS.sub(b" ", content)).lstrip(b" ")
        chunk = _check(content, name, dialect, n_lines)
        n_lines += len(chunk.blank)
        if header_left and len(chunk.lines):
            header_left = False
            skip = int(np.flatnonzero(~chunk.blank)[0]) + 1
            rest = chunk.content.split(b"\n", skip)[skip]
            chunk = Chunk(rest, chunk.lines[1:], chunk.blank[skip:], chunk.quoted, chunk.plain)
        if len(chunk.lines):
            yield chunk


def _check(content: bytes, name: str, dialect: Dialect, lines_before: int) -> Chunk:
    buffer = np.frombuffer(content, dtype=np.uint8)
    delimiter = ord(_UNIT if len(dialect.delimiter or ",") > 1 else dialect.delimiter or ",")
    newline = buffer == _NEWLINE
    field_end = buffer == delimiter
    quoted = b'"' in content
    if quoted:
        _check_quotes(buffer, newline, field_end, name, lines_before)
    borders = np.flatnonzero(newline | field_end)
    plain = _one_spelling(buffer, borders)
    if _all_lines_alike(buffer, borders, dialect.n_fields):
        n_lines = len(borders) // dialect.n_fields
        lines = np.arange(lines_before + 1, lines_before + n_lines + 1)
        return Chunk(content, lines, np.zeros(n_lines, dtype=bool), quoted, plain)
    ends = np.flatnonzero(newline)
    starts = np.concatenate([[0], ends[:-1] + 1])
    length = ends - starts
    blank = (length == 0) | ((length == 1) & (buffer[starts] == _RETURN))
    found = np.diff(np.searchsorted(borders, ends), prepend=-1)
    wrong = (found != dialect.n_fields) & ~blank
    if wrong.any():
        at = int(np.argmax(wrong))
        raise FileError(
            name,
            f"expected {dialect.n_fields} field(s), as in the first line, got {found[at]}; "
            "correct the line, or name the delimiter with --delimiter",
            line=lines_before + at + 1,
        )
    return Chunk(content, np.flatnonzero(~blank) + lines_before + 1, blank, quoted, plain)


def _all_lines_alike(buffer: NDArray[np.uint8], borders: NDArray[np.intp], n_fields: int) -> bool:
    """Whether every `n_fields`-th border, and no other, ends a line that is not blank."""
    if len(borders) % n_fields:
        return False
    is_end = (buffer[borders] == _NEWLINE).reshape(-1, n_fields)
    alike = bool(is_end[:, -1].all() and not is_end[:, :-1].any())
    # With one field to a line, a blank line looks like the others.
    return alike and (n_fields > 1 or bool((np.diff(borders, prepend=-1) > 2).all()))


def _one_spelling(buffer: NDArray[np.uint8], borders: NDArray[np.intp]) -> bool:
    """Whether no field begins as a number with two spellings does: 007, +7, -0."""
    fields = np.concatenate([[0], borders[:-1] + 1])
    first = buffer[fields]
    if (first == ord("+")).any():
        return False
    zero = fields[(first == ord("0")) | (first == ord("-"))]
    second = buffer[zero + 1]
    is_digit = (second >= ord("0")) & (second <= ord("9"))
    return not (is_digit & ((buffer[zero] == ord("0")) | (second == ord("0")))).any()


def _check_quotes(
    buffer: NDArray[np.uint8],
    newline: NDArray[np.bool_],
    field_end: NDArray[np.bool_],
    name: str,
    lines_before: int,
) -> None:
    """Quotes enclose whole fields within a line; delimiters in them do not count."""
    ends = np.flatnonzero(newline)
    quote = buffer == _QUOTE
    inside = (np.cumsum(quote, dtype=np.uint8) & 1).astype(bool)  # parity survives the overflow
    open_end = newline & inside
    if open_end.any():
        at = int(np.searchsorted(ends, int(np.argmax(open_end))))
        raise open_quote(name, lines_before + at + 1)
    field_end &= ~inside
    border = newline | field_end | quote
    opening, closing = quote & inside, quote & ~inside
    before = np.concatenate([[True], border[:-1]])
    after = np.concatenate([(border | (buffer == _RETURN))[1:], [True]])
    stray = (opening & ~before) | (closing & ~after)
    if stray.any():
        at = int(np.searchsorted(ends, int(np.argmax(stray))))
        raise FileError(
            name,
            'expected quote marks around whole fields, got one inside; write it as "" in a quoted '
            "field",
            line=lines_before + at + 1,
        )


def parse(
    chunk: Chunk, name: str, dialect: Dialect, kinds: dict[str, Any], blanks: list[str] | None
) -> pl.DataFrame:
    """The lines of a chunk as a table; raises NotPlain where a number was expected."""
    import polars as pl

    delimiter = dialect.delimiter or ","
    try:
        frame = pl.read_csv(
            chunk.content,
            has_header=False,
            schema=kinds,
            separator=_UNIT if len(delimiter) > 1 else delimiter,
            quote_char='"' if chunk.quoted else None,
            null_values=blanks,
        )
    except pl.exceptions.PolarsError as error:
        _find_bad_bytes(chunk, name)
        if any(kind != pl.String for kind in kinds.values()):
            raise NotPlain from None
        raise FileError(
            name, f"expected a table as text, but it cannot be read ({str(error).splitlines()[0]})"
        ) from None
    if frame.height == len(chunk.blank):
        return frame.filter(~chunk.blank) if chunk.blank.any() else frame
    if frame.height != len(chunk.lines):
        raise FileError(name, f"expected {len(chunk.lines)} lines, got {frame.height}")
    return frame


def _find_bad_bytes(chunk: Chunk, name: str) -> None:
    lines = [line for line in chunk.content.split(b"\n") if line.strip(b"\r")]
    for number, line in zip(chunk.lines.tolist(), lines, strict=False):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise not_utf8(name, number, error) from None


# ---------------------------------------------------------------- cells


def codes_of_texts(texts: pl.Series) -> NDArray[np.uint8]:
    """0, 1, MISSING or WRONG for each text."""
    plain = texts.fill_null("")
    codes = np.full(len(plain), WRONG, dtype=np.uint8)
    for text in plain.unique().to_list()[:1000]:
        code = CODES.get(text.strip().lower())
        if code is not None:
            codes[(plain == text).to_numpy()] = code
    return codes


def numbers_of_texts(texts: pl.Series) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Ratings, NaN where missing; and which texts are no numbers."""
    import polars as pl

    plain = texts.fill_null("").str.strip_chars()
    numbers = plain.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy().copy()
    missing = plain.str.to_lowercase().is_in(list(BLANKS)).to_numpy()
    numbers[missing] = np.nan
    return numbers, ~np.isfinite(numbers) & ~missing


def refuse_cell(
    name: str, line: int, column: object, text: str | None, above: Above | None
) -> None:
    """Raise the error for a cell that is neither 0, 1 nor missing, or no number."""
    shown = repr(text if text is None or len(text) <= 40 else text[:37] + "...")
    if above is not None:
        raise FileError(name, f"expected a number, got {shown}", line=line, column=column)
    remedy = "correct it"
    try:
        float(text or "")
        remedy = "if these are ratings, say which are ones with --above mean, median or NUMBER"
    except ValueError:
        pass
    raise FileError(name, f"{CELLS}, got {shown}; {remedy}", line=line, column=column)


def threshold(ratings: NDArray[np.float64], above: Above) -> float:
    """The number above which a rating is a one."""
    known = ratings[~np.isnan(ratings)]
    if not len(known):
        return 0.0
    if above == "mean":
        return float(known.mean())
    if above == "median":
        return float(np.median(known))
    return float(above)


def bits_above(ratings: NDArray[np.float64], above: Above) -> NDArray[np.uint8]:
    """1 where a rating is above the threshold, 0 where not, MISSING where there is none."""
    bits = (ratings > threshold(ratings, above)).astype(np.uint8)
    bits[np.isnan(ratings)] = MISSING
    return bits


# ---------------------------------------------------------------- wide


def read_wide(path: Path, name: str, dialect: Dialect, above: Above | None) -> Observations:
    """A line for each row of the matrix."""
    try:
        return _read_wide(path, name, dialect, above, plain=above is None)
    except NotPlain:
        return _read_wide(path, name, dialect, above, plain=False)


def _read_wide(
    path: Path, name: str, dialect: Dialect, above: Above | None, plain: bool
) -> Observations:
    import polars as pl

    first = dialect.n_labels
    labelled = dialect.labels == "yes"
    names = dialect.names[first:]
    kinds: dict[str, Any] = {f"f{i}": pl.String for i in range(dialect.n_fields)}
    if plain:
        kinds.update({f"f{i}": pl.UInt8 for i in range(first, dialect.n_fields)})
    parts: list[NDArray[Any]] = [np.empty((0, len(names)), np.uint8)]
    labels: list[str] = []
    lines: list[NDArray[np.int64]] = []
    for chunk in checked_chunks(path, name, dialect):
        frame = parse(chunk, name, dialect, kinds, NUMERIC_BLANKS if plain else None)
        cells = frame.drop("f0") if first else frame
        lines.append(chunk.lines)
        if labelled:
            if plain and frame["f0"].null_count():
                raise NotPlain  # a row may well be named NA
            labels += frame["f0"].fill_null("").to_list()
        if plain:
            nulls = int(sum(cells.null_count().row(0)))
            if nulls:
                cells = cells.with_columns(pl.all().fill_null(MISSING))
            codes = cells.to_numpy()
            if (codes.size and codes.max() > MISSING) or (codes == MISSING).sum() != nulls:
                raise NotPlain
            parts.append(codes)
        else:
            parts.append(_wide_cells(cells, chunk.lines, names, name, dialect, above))
    table = np.concatenate(parts)
    if above is not None:
        table = bits_above(table.astype(np.float64).ravel(), above).reshape(table.shape)
    if labelled:
        _check_row_labels(labels, np.concatenate([*lines, np.empty(0, np.int64)]), name)
    return Observations.from_dense(
        np.ma.masked_equal(table, MISSING) if (table == MISSING).any() else table,
        row_labels=labels if labelled else None,
        column_labels=names if dialect.header else None,
    )


def _wide_cells(
    cells: pl.DataFrame, lines: NDArray[np.int64], names: tuple[str, ...], name: str,
    dialect: Dialect, above: Above | None,
) -> NDArray[Any]:  # fmt: skip
    table = np.empty(cells.shape, np.uint8 if above is None else np.float64)
    wrong = np.zeros(cells.shape, dtype=bool)
    for j, column in enumerate(cells.iter_columns()):
        if above is None:
            table[:, j] = codes_of_texts(column)
            wrong[:, j] = table[:, j] == WRONG
        else:
            table[:, j], wrong[:, j] = numbers_of_texts(column)
    if wrong.any():
        i, j = (int(at) for at in np.argwhere(wrong)[0])
        column_name = repr(names[j]) if dialect.header else j + 1 + dialect.n_labels
        refuse_cell(name, int(lines[i]), column_name, cells[i, j], above)
    return table


def _check_row_labels(labels: list[str], lines: NDArray[np.int64], name: str) -> None:
    seen: dict[str, int] = {}
    for label, line in zip(labels, lines.tolist(), strict=True):
        if label in seen:
            raise FileError(
                name,
                f"expected every row to have its own label, got {label!r} as in line {seen[label]};"
                " rename one of them, or say --labels ignore to leave the first column out",
                line=line,
                column=1,
            )
        seen[label] = line
