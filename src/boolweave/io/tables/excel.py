"""Excel workbooks: reading and writing the first sheet with polars."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from numpy.typing import NDArray

from boolweave.io.files import expecting
from boolweave.runtime.extras import need

if TYPE_CHECKING:
    import polars as pl

    from boolweave.io.options import Options

# Background colour of the cells that were filled in.
COLOUR = "#FFE699"
MOST_ROWS = 1_048_575  # below the header


def is_workbook(path: Path) -> bool:
    """Whether a file is a workbook: a zip archive with sheets."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError):
        return False


def read_sheet(path: Path, name: str, options: Options) -> pl.DataFrame:
    """Read the first sheet as a typed table; by default, its first row is a header."""
    import polars as pl

    need("fastexcel", f"{name}: reading a workbook")
    with expecting(name, "a workbook", Exception):  # calamine's errors have no common class
        return pl.read_excel(
            path,
            engine="calamine",
            has_header=options.dialect.header is not False,
            infer_schema_length=None,
            raise_if_empty=False,
        )


def write_sheet(
    frames: Iterable[tuple[pl.DataFrame, NDArray[np.bool_] | None]], file: BinaryIO
) -> None:
    """Write a table, given in blocks of rows, as a workbook; marked cells are coloured."""
    import polars as pl
    import xlsxwriter

    pieces, marks = [], []
    for frame, marked in frames:
        pieces.append(frame)
        marks.append(np.zeros(frame.shape, dtype=bool) if marked is None else marked)
    table, filled = pl.concat(pieces), np.concatenate(marks)
    if table.height > MOST_ROWS:
        raise ValueError(
            f"expected at most {MOST_ROWS:,} rows, as a sheet of Excel has below its header, got "
            f"{table.height:,}; write .csv or .parquet"
        )
    with xlsxwriter.Workbook(file, {"in_memory": True}) as book:
        sheet = book.add_worksheet("Sheet1")
        table.write_excel(book, sheet, autofilter=False, table_style=None)
        colour = book.add_format({"bg_color": COLOUR})
        for i, j in np.argwhere(filled).tolist():
            sheet.write(i + 1, j, table[i, j], colour)
