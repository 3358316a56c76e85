"""Writing tables in several formats and whole matrices, always to a new file that is renamed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from boolweave.data.labels import name_for_labels
from boolweave.runtime.atomic import into_stream, replacing
from boolweave.runtime.extras import need

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from boolweave.data.observations import Observations

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
    with into_stream(_standard_output) if output is None else replacing(output) as file:
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
        from boolweave.io.tables.excel import write_sheet

        write_sheet(((frame, None) for frame in frames), file)
        return
    import polars as pl

    whole = pl.concat(frames)
    if kind == "parquet":
        whole.write_parquet(file)
    elif kind == "arrow":
        whole.write_ipc(file)
    else:
        file.write(whole.write_json().encode() + b"\n")


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
