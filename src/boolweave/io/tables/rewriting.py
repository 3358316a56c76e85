"""Writing an input table again, in its own form, with marks for cells that were filled in."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from numpy.typing import NDArray

from boolweave.io.dialect import MARK
from boolweave.io.tables.origin import TextForm, with_mark, without_mark
from boolweave.io.write import opened, write_pieces

if TYPE_CHECKING:
    import polars as pl

    Frames = Iterable[tuple[pl.DataFrame, NDArray[np.bool_]]]

_PLAIN = TextForm(",", "\n", (), b"")


def write_again(
    frames: Frames, output: Path | None, kind: str, form: TextForm | None, mark: bool
) -> None:
    """Write a completed table in its own form: delimiter, names, line ends, order of columns.

    If `mark`, an additional column lists the columns that were filled in; in a workbook, such
    cells are coloured.
    """
    frames = (without_mark(*pair) for pair in frames)
    if kind == "xlsx":
        from boolweave.io.tables.excel import write_sheet

        with opened(output) as file:
            write_sheet(((f, marked if mark else None) for f, marked in frames), file)
    elif kind in ("csv", "tsv"):
        form = form or _PLAIN
        delimiter = "\t" if kind == "tsv" else form.delimiter
        with opened(output) as file:
            _put_text(frames, file, form, delimiter, mark)
    else:
        write_pieces(_marked(frames, mark), output, kind)


def _marked(frames: Frames, mark: bool) -> Iterator[pl.DataFrame]:
    for frame, marked in frames:
        yield with_mark(frame, marked) if mark else frame


def _put_text(frames: Frames, file: BinaryIO, form: TextForm, delimiter: str, mark: bool) -> None:
    file.write(form.preamble)
    mark = mark and form.header is not None  # a column needs a name
    for number, (frame, marked) in enumerate(frames):
        if number == 0 and form.header is not None:
            header = list(form.header or frame.columns)[: frame.width] + ([MARK] if mark else [])
            file.write(_line(header, delimiter, form.line_end))
        whole = with_mark(frame, marked) if mark else frame
        if len(delimiter) > 1:
            for row in whole.rows():
                file.write(
                    _line(["" if c is None else str(c) for c in row], delimiter, form.line_end)
                )
        else:
            whole.write_csv(
                file, separator=delimiter, include_header=False, line_terminator=form.line_end
            )


def _line(fields: list[str], delimiter: str, line_end: str) -> bytes:
    if len(delimiter) > 1:
        return (delimiter.join(fields) + line_end).encode()
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator=line_end).writerow(fields)
    return text.getvalue().encode("utf-8", "backslashreplace")
