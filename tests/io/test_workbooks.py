"""Workbooks that are large on paper only, damaged, or of another kind."""

import re
import zipfile

import pytest
import xlsxwriter

from boolweave.io import FileError, excel, read
from boolweave.io.dialect import Dialect

TABLE = [["name", "a", "b"], ["x", 1, 0], ["y", 0, 1]]
SHEET = "xl/worksheets/sheet1.xml"


@pytest.fixture
def book(tmp_path):
    """Write a workbook; `more` are further cells, and `change` turns a part into another."""

    def write(more=(), part=SHEET, change=None, table=TABLE):
        path = tmp_path / "book.xlsx"
        with xlsxwriter.Workbook(path) as file:
            sheet = file.add_worksheet()
            for i, row in enumerate(table):
                sheet.write_row(i, 0, row)
            for cell in more:
                sheet.write(*cell)
        if change is not None:
            with zipfile.ZipFile(path) as archive:
                parts = {name: archive.read(name) for name in archive.namelist()}
            changed = change(parts[part])
            assert changed != parts[part]
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                for name, content in parts.items():
                    if name != part or changed is not None:
                        archive.writestr(name, changed if name == part else content)
        return path

    return write


def reference(text):
    return lambda sheet: sheet.replace(b'r="B2"', f'r="{text}"'.encode())


def unplaced(sheet):
    """Cells without references, in a row far below."""
    return re.sub(rb'(<c) r="\w+"', rb"\1", sheet).replace(b'row r="2"', b'row r="4000000000"')


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (
            {"more": [(1_048_575, 16_383, 1)]},
            r"10 cells .* 1,048,576 rows and 16,384 columns.*1\.1 TB",
        ),
        (
            {"more": [(999_999, 99, 1)]},
            "10 cells are spread .* delete the cells far from the table",
        ),
        ({"change": reference("AAAAAAA1")}, "cells within 1,048,576 rows and 16,384 columns"),
        ({"change": reference("A" * 40 + "1")}, "cells within 1,048,576 rows"),
        ({"change": reference("B" + "9" * 30)}, "cells within 1,048,576 rows"),
        ({"change": reference("XFE1")}, "cells within 1,048,576 rows"),
        ({"change": reference("A-1")}, "cells within 1,048,576 rows"),
        ({"change": unplaced}, "cells within 1,048,576 rows"),
        ({"change": lambda sheet: sheet + b"<c" + b" " * 3 * excel.BLOCK}, "'Sheet1' is damaged"),
        ({"change": lambda sheet: sheet.decode().encode("utf-16")}, "'Sheet1' is damaged"),
        ({"change": lambda sheet: None}, "expected a workbook with the part .*sheet1.xml"),
        ({"part": "xl/workbook.xml", "change": lambda book: book[:99]}, "expected a workbook"),
        ({"part": "xl/workbook.xml", "change": lambda book: None}, "the part 'xl/workbook.xml'"),
        ({"table": [[]]}, "got an empty sheet"),
        ({"table": TABLE[:1]}, "got only the header"),
    ],
)
@pytest.mark.parametrize("labels", [None, "yes"])
def test_refused_before_it_is_read(book, how, words, labels):
    with pytest.raises(FileError, match=words):
        read(book(**how), dialect=Dialect(labels=labels))


def test_a_part_that_unpacks_to_much_more(book, monkeypatch):
    monkeypatch.setattr(excel, "LARGE_PART", 10**6)
    path = book(
        change=lambda sheet: sheet.replace(b"<sheetData>", b"<sheetData>" + b" " * 2 * 10**6)
    )
    with pytest.raises(FileError, match=r"sheet1\.xml' unpacks to 2 MB"):
        read(path)


def test_not_enough_memory(book, monkeypatch):
    monkeypatch.setattr(excel, "free_memory", lambda: 500)
    monkeypatch.setattr(excel, "FEW_CELLS", 1)
    with pytest.raises(FileError, match=r"9 cells .* would take 576 bytes"):
        read(book())


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"change": lambda sheet: sheet.replace(b"A1:C3", b"A1:XFD1048576")},
        {"change": lambda sheet: re.sub(rb' r="\w+"', b"", sheet)},  # no references at all
        {"change": lambda sheet: sheet.replace(b'r="B2"', b"r = 'B2'")},
        {"change": lambda sheet: sheet.replace(b"</row></", b'<c r="XFD3" s="1"/></row></')},
        {"part": "xl/_rels/workbook.xml.rels",
         "change": lambda relations: relations.replace(b'"worksheets', b'"/xl/worksheets')},
    ],
)  # fmt: skip
def test_read_like_any_other(book, how, monkeypatch):
    for block in (excel.BLOCK, 400):  # tags at the end of a block
        monkeypatch.setattr(excel, "BLOCK", block)
        found = read(book(**how)).observations
        assert found.to_dense().tolist() == [[1, 0], [0, 1]]
        assert found.column_labels.tolist() == ["a", "b"]


def test_charts_come_first(tmp_path):
    with xlsxwriter.Workbook(tmp_path / "book.xlsx") as file:
        chart = file.add_chart({"type": "bar"})
        file.add_chartsheet().set_chart(chart)
        sheet = file.add_worksheet("B&W")
        for i, row in enumerate(TABLE):
            sheet.write_row(i, 0, row)
        chart.add_series({"values": "='B&W'!$B$2:$B$3"})
    assert read(tmp_path / "book.xlsx").observations.shape == (2, 2)


def test_columns_without_names(book):
    table = [["name", "", " "], *TABLE[1:]]
    assert read(book(table=table)).observations.column_labels.tolist() == ["column 2", "column 3"]
    inline = b'<c r="B1" t="inlineStr"><is><t></t></is></c>'
    path = book(change=lambda sheet: re.sub(rb'<c r="B1".*?</c>', inline, sheet))
    assert read(path).observations.column_labels.tolist() == ["column 2", "b"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("old.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500), r"old workbook \(\.xls\)"),
        ("secret.xlsx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500), "without a password"),
        ("calc.ods", {"mimetype": b"x", "content.xml": b"<x/>"}, r"save it as \.xlsx"),
        ("binary.xlsb", {"xl/workbook.bin": b"x"}, r"save it as \.xlsx"),
        ("cut.xlsx", b"PK\x03\x04" + bytes(50), r"expected a workbook \(\.xlsx\)"),
        ("other.xlsx", {"a.txt": b"x"}, r"expected a workbook with the part 'xl/workbook\.xml'"),
    ],
)
def test_other_kinds(tmp_path, name, content, words):
    path = tmp_path / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            for member, text in content.items():
                archive.writestr(member, text)
    with pytest.raises(FileError, match=words):
        read(path)


SURVEY = [
    ["Respondent ID", "Which do you own?", "", "Age", ""],
    ["", "Car", "Boat", "Response", ""],
    *(
        [100 + 7 * i, "Car" if i % 2 else "", "Boat" if i % 3 else "", 20 + i % 9]
        for i in range(12)
    ),
]


@pytest.mark.parametrize("above", [[], [["The survey of 2024"]], [["The survey"], [], ["of 2024"]]])
def test_titles_and_two_rows_of_names(book, above):
    """They are found as in a text table; numbers below keep their type."""
    reading = read(book(table=[*above, *SURVEY]), encode="auto")
    kinds = {line.name: line.kind for line in reading.plan}
    boxes = {"Which do you own?: Car": "checkbox", "Which do you own?: Boat": "checkbox"}
    assert kinds == {"Respondent ID": "id", **boxes, "Age": "number"}
    assert reading.observations.n_rows == 12


def test_titles_above_zeros_and_ones(book):
    seen = read(book(table=[["Table 1"], *TABLE])).observations
    assert (seen.row_labels.tolist(), seen.column_labels.tolist()) == (["x", "y"], ["a", "b"])
    assert seen.to_dense().tolist() == [[1, 0], [0, 1]]
