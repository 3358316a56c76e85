"""Writing tables in several formats and whole matrices, always to a new file that is renamed."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from boolweave.data.labels import name_for_labels
from boolweave.io.dialect import MARK
from boolweave.io.origin import TextForm, with_mark, without_mark
from boolweave.runtime.atomic import into_stream, replacing
from boolweave.runtime.extras import need

if TYPE_CHECKING:
    import polars as pl

    from boolweave.data.observations import Observations

    Frames = Iterable[tuple[pl.DataFrame, NDArray[np.bool_]]]

TABLE_FORMATS = ("csv", "tsv", "parquet", "arrow", "json", "xlsx")
MATRIX_FORMATS = (*TABLE_FORMATS, "npz", "png")


def write_table(frame: pl.DataFrame, output: Path | None, kind: str) -> None:
    """Write a table to a file or to standard output."""
    write_pieces([frame], output, kind)


def write_pieces(frames: Iterable[pl.DataFrame], output: Path | None, kind: str) -> None:
    """Write a table given in at least one block of rows; text is written block by block."""
    with opened(output) as file:
        _put_table(frames, file, kind)


@contextmanager
def opened(output: Path | None) -> Iterator[BinaryIO]:
    """Open a file that replaces `output` once it is complete, or standard output."""
    stream = into_stream(_standard_output, "standard output") if output is None else None
    with stream or replacing(output or "-") as file:
        yield file


@contextmanager
def _standard_output() -> Iterator[BinaryIO]:
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


def _put_table(frames: Iterable[pl.DataFrame], file: BinaryIO, kind: str) -> None:
    if kind in ("csv", "tsv"):
        separator = "\t" if kind == "tsv" else ","
        for number, frame in enumerate(frames):
            frame.write_csv(file, separator=separator, include_header=number == 0)
        return
    if kind == "xlsx":
        from boolweave.io.excel import write_sheet

        write_sheet(((frame, None) for frame in frames), file)
        return
    import polars as pl

    whole = pl.concat(frames)
    if kind == "json":
        file.write(whole.write_json().encode() + b"\n")
        return
    content = io.BytesIO()  # polars does not always say why a file cannot be written
    if kind == "parquet":
        whole.write_parquet(content)
    else:
        whole.write_ipc(content)
    file.write(content.getbuffer())


def write_matrix(
    pieces: Iterable[NDArray[Any]], seen: Observations, output: Path | None, kind: str
) -> None:
    """Write a matrix (M, N), given in blocks of rows, with the labels of `seen`."""
    if kind == "npz":
        arrays: dict[str, Any] = {"matrix": np.concatenate(list(pieces))}
        with replacing(output or Path("-")) as file:
            np.savez_compressed(file, **arrays)
    elif kind == "png":
        need("PIL", "writing a PNG picture")
        from PIL import Image

        dark = [(255 * (1 - piece.astype(np.float64))).round().astype(np.uint8) for piece in pieces]
        with replacing(output or Path("-")) as file:
            Image.fromarray(np.concatenate(dark)).save(file, format="PNG")
    else:
        write_pieces(_frames(pieces, seen), output, kind)


def _frames(pieces: Iterable[NDArray[Any]], seen: Observations) -> Iterator[pl.DataFrame]:
    import polars as pl

    names = column_names(seen)
    first, start = name_for_labels(names), 0
    for piece in pieces:
        columns: dict[str, Any] = {}
        if seen.row_labels is not None:
            own = seen.row_labels[start : start + len(piece)]
            columns[first] = encodable(own.tolist())
        for j, column in enumerate(names):
            columns[column] = piece[:, j]
        start += len(piece)
        yield pl.DataFrame(columns)


def encodable(names: Iterable[str]) -> list[str]:
    """Names that UTF-8 can encode: a lone surrogate is replaced by its number."""
    return [name.encode("utf-8", "backslashreplace").decode() for name in names]


def column_names(seen: Observations) -> list[str]:
    """Labels of the columns, or their numbers from 1."""
    if seen.column_labels is not None:
        return encodable(seen.column_labels.tolist())
    return [f"column {j + 1}" for j in range(seen.n_columns)]


def row_names(seen: Observations) -> list[str]:
    """Labels of the rows, or their numbers from 1."""
    if seen.row_labels is not None:
        return encodable(seen.row_labels.tolist())
    return [f"row {i + 1}" for i in range(seen.n_rows)]


# ---------------------------------------------------------------- input tables again


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
        from boolweave.io.excel import write_sheet

        with opened(output) as file:
            write_sheet(((f, marked if mark else None) for f, marked in frames), file)
    elif kind in ("csv", "tsv"):
        form = form or _PLAIN
        delimiter = "\t" if kind == "tsv" else form.delimiter
        with opened(output) as file:
            if form.encoding is None:
                _put_text(frames, file, form, delimiter, mark)
            else:
                whole = io.BytesIO()
                _put_text(frames, whole, form, delimiter, mark)
                text = whole.getvalue().decode("utf-8")
                file.write(text.encode(form.encoding, "replace"))
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
            for line in form.header or [tuple(frame.columns)]:
                whole_line = len(line) >= frame.width  # a title above the names is shorter
                header = list(line)[: frame.width] + ([MARK] if mark and whole_line else [])
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
