"""Excel workbooks: reading and writing a sheet with polars."""

from __future__ import annotations

import functools
import io
import logging
import math
import re
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from boolweave.io.dialect import Dialect, count_titles, with_names
from boolweave.io.files import FileError, expecting
from boolweave.runtime.extras import need
from boolweave.runtime.free_memory import format_bytes, free_memory

if TYPE_CHECKING:
    import polars as pl

    from boolweave.io.options import Options

# Number of rows by which the header is recognized.
SAMPLE_ROWS = 40
# Background colour of the cells that were filled in.
COLOUR = "#FFE699"
MOST_ROWS = 1_048_575  # below the header
MOST_COLUMNS = 16_384

# A part of a workbook that is larger than this, unpacked, and this many times as large as packed,
# was made to fill the memory; sheets are about 20 times as large.
LARGE_PART = 10**8
MOST_PACKED = 200
# A table with more places than this, of which hardly one in a hundred holds something, has a
# forgotten cell far away.
FEW_CELLS = 10**7
MOST_EMPTY = 100
CELL_BYTES = 64  # for each place while it is read
BLOCK = 1 << 20  # bytes of a sheet that are looked at at a time

# The tag of a row or a cell, its reference, and the rest of the tag.
_TAG = re.compile(
    rb"<(?:\w+:)?(row|c)(?=[\s/>])(?:[^<>]*?\sr\s*=\s*[\"']([^\"'<>]*)[\"'])?([^<>]*)>"
)
_DIGITS = b"0123456789"

# Python would print what these say about odd sheets.
for _library in ("calamine", "fastexcel"):
    logging.getLogger(_library).addHandler(logging.NullHandler())


def is_workbook(path: Path) -> bool:
    """Whether a file is a workbook: a zip archive with sheets."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError):
        return False


def read_sheet(path: Path, name: str, options: Options) -> pl.DataFrame:
    """Read a sheet, by default the first, as a typed table; its first row is a header."""
    import polars as pl

    need("fastexcel", f"{name}: reading a workbook")
    header, header_row = options.dialect.header is not False, options.dialect.header_row
    above = header_row - 1 if header and header_row is not None else None
    names: list[str] = []
    # Errors of zip, of XML and of calamine, which reads the sheet, have no common class.
    with expecting(name, "a workbook (.xlsx)", Exception):
        sheet = _checked_sheet(path, name, options.dialect.sheet)
        if header and header_row is None:
            above, names = _header_of(path, sheet)
        frame = pl.read_excel(
            path,
            sheet_name=sheet,
            engine="calamine",
            has_header=header,
            read_options={} if above is None else {"header_row": above},
            drop_empty_cols=not names,
            infer_schema_length=None,
            raise_if_empty=False,
        )
    if not frame.width:
        raise FileError(name, "expected a table, got an empty sheet")
    if not frame.height:
        raise FileError(
            name,
            "expected rows below the header, got only the header; add them, or pass "
            "`header=False` if the first row is not a header",
        )
    if len(names) == frame.width:
        return frame.rename(dict(zip(frame.columns, names, strict=True)))
    names = [old if header and old[:11] != "__UNNAMED__" else "" for old in frame.columns]
    return frame.rename(dict(zip(frame.columns, _named(names), strict=True)))


def _header_of(path: Path, sheet: str) -> tuple[int | None, list[str]]:
    """The row of names, from 0, and the names if there are titles above or several rows of names.

    They are found as in a text table.
    """
    import polars as pl

    sample = pl.read_excel(
        path,
        sheet_name=sheet,
        engine="calamine",
        has_header=False,
        read_options={"n_rows": SAMPLE_ROWS, "dtypes": "string"},
        drop_empty_rows=False,
        drop_empty_cols=False,
        raise_if_empty=False,
    )
    filled = [
        (number, ["" if cell is None else str(cell) for cell in row])
        for number, row in enumerate(sample.rows())
        if any(cell not in (None, "") for cell in row)
    ]
    rows = [row for _, row in filled]
    if not rows:
        return None, []
    n_titles = count_titles(rows, sheet, Dialect())
    found = with_names(Dialect(layout="wide", header=True), rows[n_titles:])
    if not n_titles and found.header_lines == 1:
        return None, []
    return filled[n_titles + found.header_lines - 1][0], list(found.names)


def _named(names: list[str]) -> list[str]:
    """The names of the columns; those without a name are named by their numbers."""
    named = [name if name.strip() else f"column {j + 1}" for j, name in enumerate(names)]
    return (
        named if len(set(named)) == len(named) else [f"column {j + 1}" for j in range(len(names))]
    )


def _checked_sheet(path: Path, name: str, wanted: str | None) -> str:
    """Return the name of the wanted or the first sheet; refuse one that memory cannot hold.

    calamine allocates the whole rectangle between the first and the last cell, and an allocation
    that fails ends the process.
    """
    with zipfile.ZipFile(path) as archive:
        for part in archive.infolist():
            if part.file_size > max(LARGE_PART, MOST_PACKED * part.compress_size):
                size = format_bytes(part.file_size)
                problem = f"expected a workbook, but its part {part.filename!r} unpacks to {size}"
                raise FileError(name, f"{problem}; save it again")
        sheet, place = _sheet(archive, name, wanted)
        extent = _Extent()
        with archive.open(place) as content:
            while block := content.read(BLOCK):
                if not extent.add(block):
                    raise FileError(name, f"the sheet {sheet!r} is damaged; save it again")
    if problem := extent.problem():
        raise FileError(name, problem)
    return sheet


def _sheet(archive: zipfile.ZipFile, name: str, wanted: str | None) -> tuple[str, str]:
    """Return the name of the wanted, or of the first, sheet with cells, and its place."""
    places = {place.replace("\\", "/").lower(): place for place in archive.namelist()}

    def existing(place: str) -> str:
        if place.lower() not in places:
            raise FileError(name, f"expected a workbook with the part {place!r}; save it again")
        return places[place.lower()]

    book, relations = (
        ElementTree.fromstring(archive.read(existing(place)))
        for place in ("xl/workbook.xml", "xl/_rels/workbook.xml.rels")
    )
    target = {
        relation.get("Id"): relation.get("Target", "").replace("\\", "/").removeprefix("/")
        for relation in relations
        if relation.get("Type", "").endswith("/worksheet")
    }
    sheets = []
    for element in book.iter():
        key = next((value for field, value in element.items() if field.endswith("}id")), None)
        if element.tag.rpartition("}")[2] == "sheet" and key in target:
            sheets.append((element.get("name", ""), target[key]))
    for sheet, place in sheets:
        if wanted in (None, sheet):
            return sheet, existing(place if place.startswith("xl/") else f"xl/{place}")
    if sheets:
        names = ", ".join(sheet for sheet, _ in sheets)
        raise FileError(name, f"`sheet`: there is no sheet {wanted!r}, but {names}")
    raise FileError(name, "expected a workbook with a table, got one without sheets of cells")


class _Extent:
    """The rectangle between the first and the last cell of a sheet, read as text in blocks."""

    def __init__(self) -> None:
        self._rest = b""  # the beginning of a tag
        self._row = self._column = 0  # of the last tag; a cell without a reference is next to it
        self._n_cells = 0
        self._first, self._last = (math.inf, math.inf), (0, 0)

    def add(self, block: bytes) -> bool:
        """Add the next block; return whether it is text, with tags of a usual length."""
        text = self._rest + block
        cut = text.rfind(b"<")
        self._rest = text[cut:] if cut >= 0 and text.find(b">", cut) < 0 else b""
        row, column, (top, left), (bottom, right) = self._row, self._column, self._first, self._last
        for kind, reference, end in _TAG.findall(text, 0, len(text) - len(self._rest)):
            if kind == b"row":
                row, column = _whole_number(reference) if reference else row + 1, 0
                continue
            column += 1
            if reference:
                letters = reference.rstrip(_DIGITS)
                row, column = _whole_number(reference[len(letters) :]), _column_number(letters)
            if end[-1:] != b"/":  # not an empty cell
                self._n_cells += 1
                top, left = min(top, row), min(left, column)
                bottom, right = max(bottom, row), max(right, column)
        self._row, self._column = row, column
        self._first, self._last = (top, left), (bottom, right)
        return len(self._rest) <= BLOCK and b"\0" not in block

    def problem(self) -> str:
        """Return why the sheet cannot be read, or an empty text."""
        height, width = (
            int(last - first) + 1 if self._n_cells else 0
            for first, last in zip(self._first, self._last, strict=True)
        )
        if self._last[0] > MOST_ROWS + 1 or self._last[1] > MOST_COLUMNS:
            limits = f"{MOST_ROWS + 1:,} rows and {MOST_COLUMNS:,} columns"
            return f"expected cells within {limits}, got the reference of another; save it again"
        needed, free = CELL_BYTES * height * width, free_memory()
        if height * width > max(FEW_CELLS, MOST_EMPTY * self._n_cells) or (
            free is not None and needed > max(free, CELL_BYTES * FEW_CELLS)
        ):
            return (
                f"its {self._n_cells:,} cells are spread over {height:,} rows and {width:,} "
                f"columns, which would take {format_bytes(needed)}; delete the cells far from the "
                "table, or save it as .csv"
            )
        return ""


def _whole_number(digits: bytes) -> int:
    return int(digits) if digits.isdigit() and len(digits) < 9 else 10**9


@functools.cache
def _column_number(letters: bytes) -> int:
    """The number of a column, from 1, given its letters: 28 for AB."""
    if not (letters.isalpha() and len(letters) < 5):
        return 10**9
    return functools.reduce(lambda number, letter: 26 * number + letter - 64, letters.upper(), 0)


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
    whole = io.BytesIO()  # an archive that cannot be written complains when it is forgotten
    with xlsxwriter.Workbook(whole, {"in_memory": True}) as book:
        sheet = book.add_worksheet("Sheet1")
        table.write_excel(book, sheet, autofilter=False, table_style=None)
        colour = book.add_format({"bg_color": COLOUR})
        for i, j in np.argwhere(filled).tolist():
            sheet.write(i + 1, j, table[i, j], colour)
    file.write(whole.getbuffer())
