"""Writing: tables in several formats, whole matrices, factors; always beside and renamed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from boolweave.model.odds import sigmoid
from boolweave.runtime.atomic import into_stream, is_stream, replacing

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from boolweave.data.observations import Observations

TABLE_FORMATS = ("csv", "tsv", "parquet", "arrow", "json")
MATRIX_FORMATS = (*TABLE_FORMATS, "npz", "png")

_BY_SUFFIX = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet", ".pq": "parquet",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow", ".json": "json", ".npz": "npz",
    ".png": "png",
}  # fmt: skip


def output_format(
    output: Path | None, asked: str | None, known: tuple[str, ...], option: str = "--output"
) -> str:
    """The format asked for, or that of the suffix, or CSV; raises where it cannot be written."""
    if asked is not None:
        if asked not in known:
            raise ValueError(f"--format: expected one of {', '.join(known)}, got {asked!r}")
        return asked
    if output is None or (is_stream(output) and output.suffix.lower() not in _BY_SUFFIX):
        return "csv"
    found = _BY_SUFFIX.get(output.suffix.lower())
    if found not in known:
        suffixes = ", ".join(s for s, kind in _BY_SUFFIX.items() if kind in known)
        raise ValueError(
            f"{option}: expected a name that ends in {suffixes}, got {str(output)!r}; "
            "rename it or say the format with --format"
        )
    return str(found)


def check_folder(output: Path | None, option: str = "--output") -> None:
    """Refuse a place that cannot be written to, before the work is done."""
    if output is None:
        return
    if output.is_dir():
        raise ValueError(f"{option}: {str(output)!r} is a folder; name a file in it")
    if is_stream(output):
        return
    folder = Path(os.path.realpath(output) if output.is_symlink() else output).parent
    if not folder.is_dir():
        raise ValueError(f"{option}: there is no folder {str(folder)!r}; make it first")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{option}: the folder {str(folder)!r} does not allow writing")


def write_table(frame: pl.DataFrame, output: Path | None, kind: str) -> None:
    """A table to a file, or to standard output."""
    write_pieces([frame], output, kind)


def write_pieces(frames: Iterable[pl.DataFrame], output: Path | None, kind: str) -> None:
    """A table in pieces of rows, one at least; as text, each is written before the next is made."""
    with into_stream(_standard_output) if output is None else replacing(output) as file:
        _put_table(frames, file, kind)


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
    """A matrix (M, N), in pieces of rows, with the labels of `seen`."""
    if kind == "npz":
        arrays: dict[str, Any] = {"matrix": np.concatenate(list(pieces))}
        with replacing(output or Path("-")) as file:
            np.savez_compressed(file, **arrays)
    elif kind == "png":
        from PIL import Image

        dark = [(255 * (1 - piece.astype(np.float64))).round().astype(np.uint8) for piece in pieces]
        with replacing(output or Path("-")) as file:
            Image.fromarray(np.concatenate(dark)).save(file, format="PNG")
    else:
        write_pieces(_frames(pieces, seen), output, kind)


def _frames(pieces: Iterable[NDArray[Any]], seen: Observations) -> Iterator[pl.DataFrame]:
    import polars as pl

    names = column_names(seen)
    first = "row" if "row" not in names else "row label"
    start = 0
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
    """Names that UTF-8 can hold: half a character (a lone surrogate) becomes its number."""
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


def factor_table(model: Any, *, full: bool) -> pl.DataFrame:
    """Factors in long form: factor, axis, label, member, probability; the members, or everyone."""
    import polars as pl

    seen = model.observations_
    parts = []
    for axis, names, odds, inside in (
        ("row", row_names(seen), model.row_log_odds_.T, model.row_log_odds_.T > 0),
        ("column", column_names(seen), model.column_log_odds_, model.components_ > 0),
    ):
        labels = np.array(names, dtype=object)
        for k in range(len(odds)):
            chosen = np.arange(len(labels)) if full else np.flatnonzero(inside[k])
            chance = sigmoid(odds[k, chosen])
            parts.append(
                pl.DataFrame(
                    {
                        "factor": pl.Series([k + 1] * len(chosen), dtype=pl.Int32),
                        "axis": pl.Series([axis] * len(chosen), dtype=pl.String),
                        "label": pl.Series(labels[chosen].tolist(), dtype=pl.String),
                        "member": pl.Series(inside[k, chosen].astype(np.uint8), dtype=pl.UInt8),
                        "probability": pl.Series(chance.round(6), dtype=pl.Float64),
                    }
                )
            )
    table = pl.concat(parts)
    order = pl.col("axis").replace_strict({"row": 0, "column": 1})
    table = table.sort("factor", order, maintain_order=True)
    return table if full else table.drop("member")
