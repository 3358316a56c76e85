"""Text tables as chunks of whole lines, checked and parsed by polars.

A delimiter or a newline inside quotes does not count, quotes enclose whole fields, and every record
has as many fields as the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.io.dialect import Dialect, is_comment
from boolweave.io.files import FileError, decoded, expecting, open_quote
from boolweave.io.tables.records import table_chunks, without_comments

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

_NEWLINE, _RETURN, _QUOTE = 10, 13, 34
# Replaces a delimiter of several characters, which polars does not support.
_UNIT = "\x1f"
_RUN_OF_BLANKS = re.compile(rb"[ \t]+")
_BLANKS_AT_ENDS = re.compile(rb" ?(\r?\n) ?")


class NotPlain(Exception):
    """The file holds something other than plain numbers."""


@dataclass(frozen=True)
class Chunk:
    """Whole records of a file that have passed the checks."""

    content: bytes
    first: int  # number of its first line
    lines: NDArray[np.int64]  # numbers of the first lines of the records that are not blank
    blank: NDArray[np.bool_]  # which records are blank
    quoted: bool
    plain: bool  # no number in it has two spellings, such as 7 and 007


# ---------------------------------------------------------------- chunks


def checked_chunks(path: Path, name: str, dialect: Dialect) -> Iterator[Chunk]:
    """The chunks of a file, with quotes and the number of fields of every record checked."""
    header_left = bool(dialect.header)
    delimiter = dialect.delimiter or ","

    def of_other_fields(line: bytes) -> bool:
        return is_comment(line.decode("utf-8", "replace"), delimiter, dialect.n_fields)

    for content, lines_before in table_chunks(path, name):
        content = without_comments(content, of_other_fields)
        if len(delimiter) > 1:
            content = content.replace(delimiter.encode(), _UNIT.encode())
        if delimiter == " " and b'"' not in content:
            content = _BLANKS_AT_ENDS.sub(b"\\1", _RUN_OF_BLANKS.sub(b" ", content)).lstrip(b" ")
        chunk, ends = _check(content, name, dialect, lines_before)
        if header_left and len(chunk.lines):
            header_left = False
            skip = int(np.flatnonzero(~chunk.blank)[0]) + 1
            cut = int(ends[skip - 1]) + 1
            chunk = Chunk(
                content[cut:], chunk.first + content.count(b"\n", 0, cut), chunk.lines[1:],
                chunk.blank[skip:], chunk.quoted, chunk.plain,
            )  # fmt: skip
        if len(chunk.lines):
            yield chunk


def _check(
    content: bytes, name: str, dialect: Dialect, lines_before: int
) -> tuple[Chunk, NDArray[np.intp]]:
    """The chunk, and where its records end."""
    buffer = np.frombuffer(content, dtype=np.uint8)
    newline, field_end = buffer == _NEWLINE, buffer == ord(_separator(dialect))
    quoted = b'"' in content
    line_ends = np.flatnonzero(newline)
    if quoted:
        _check_quotes(buffer, newline, field_end, name, lines_before)
    borders, ends = np.flatnonzero(newline | field_end), np.flatnonzero(newline)
    starts = np.concatenate([[0], ends[:-1] + 1])
    line_of = lines_before + 1 + np.searchsorted(line_ends, starts)
    length = ends - starts
    blank = (length == 0) | ((length == 1) & (buffer[starts] == _RETURN))
    found = np.diff(np.searchsorted(borders, ends), prepend=-1)
    wrong = (found != dialect.n_fields) & ~blank
    if wrong.any():
        at = int(np.argmax(wrong))
        raise FileError(
            name,
            f"expected {dialect.n_fields} field(s), as in the first line, got {found[at]}; "
            "correct the line, or set the delimiter with `delimiter`",
            line=int(line_of[at]),
        )
    plain = _one_spelling(buffer, borders)
    return Chunk(content, lines_before + 1, line_of[~blank], blank, quoted, plain), ends


def _separator(dialect: Dialect) -> str:
    """The delimiter as polars sees it."""
    delimiter = dialect.delimiter or ","
    return _UNIT if len(delimiter) > 1 else delimiter


def _one_spelling(buffer: NDArray[np.uint8], borders: NDArray[np.intp]) -> bool:
    """Whether no field begins like a number with two spellings: 007, +7, -0."""
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
    """Check that quotes enclose whole fields; delimiters and newlines in them do not count."""
    ends = np.flatnonzero(newline)
    quote = buffer == _QUOTE
    inside = (np.cumsum(quote, dtype=np.uint8) & 1).astype(bool)  # parity survives the overflow

    def line_of(position: int) -> int:
        return lines_before + int(np.searchsorted(ends, position)) + 1

    newline &= ~inside
    field_end &= ~inside
    border = newline | field_end | quote
    opening, closing = quote & inside, quote & ~inside
    before = np.concatenate([[True], border[:-1]])
    after = np.concatenate([(border | (buffer == _RETURN))[1:], [True]])
    stray = (opening & ~before) | (closing & ~after)
    if stray.any():
        at = int(np.argmax(stray))
        if closing[at]:  # where the field began: its quote mark may have been forgotten
            began = int(np.flatnonzero(opening[:at])[-1])
            if line_of(began) < line_of(at):
                raise open_quote(name, line_of(began))
        raise FileError(
            name,
            'expected quotes around whole fields, got one inside; write it as "" in a quoted field',
            line=line_of(at),
        )
    if inside[-1]:
        raise open_quote(name, line_of(int(np.flatnonzero(opening)[-1])))


def parse(
    chunk: Chunk, name: str, dialect: Dialect, kinds: dict[str, Any], blanks: list[str] | None
) -> pl.DataFrame:
    """Parse the lines of a chunk into a table; raise NotPlain if a number was expected."""
    import polars as pl

    try:
        with expecting(name, "a table as text", pl.exceptions.PolarsError):
            frame = pl.read_csv(
                chunk.content.lstrip(b"\r\n"),
                has_header=False,
                schema=kinds,
                separator=_separator(dialect),
                quote_char='"' if chunk.quoted else None,
                null_values=blanks,
            )
    except FileError:
        for number, line in enumerate(chunk.content.split(b"\n"), start=chunk.first):
            decoded(line, name, number)  # it may be the encoding
        if any(kind != pl.String for kind in kinds.values()):
            raise NotPlain from None
        raise
    blank = chunk.blank[int(np.argmin(chunk.blank)) :]  # without those at the beginning
    if frame.height == len(blank):
        return frame.filter(~blank) if blank.any() else frame
    if frame.height != len(chunk.lines):
        raise FileError(name, f"expected {len(chunk.lines)} lines, got {frame.height}")
    return frame
