"""Odd and broken files: each is read as it is meant, or refused in one short message."""

import gzip
import sys
import zipfile
import zlib
from io import BytesIO

import numpy as np
import polars as pl
import pytest
from read_files import message, table

from boolweave import io
from boolweave.io.dialect import Dialect
from boolweave.io.files import FileError

NPY = b"\x93NUMPY\x01\x00v\x00"
with zipfile.ZipFile(_empty := BytesIO(), "w") as _archive:
    _archive.writestr("xl/workbook.xml", "")
EMPTY_BOOK = _empty.getvalue()


def test_very_many_columns(put):
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, (3, 70_000))
    lines = [",".join(map(str, row)) for row in bits.tolist()]
    np.testing.assert_array_equal(table(put("\n".join(lines))), bits)
    header = ",".join(f'"gene {j}"' for j in range(70_000))
    seen = io.read(put("\n".join([header, *lines]))).observations
    assert seen.column_labels[-1] == "gene 69999"
    np.testing.assert_array_equal(seen.to_dense(), bits)
    text = message(put("\n".join([lines[0], lines[1][2:]])))
    assert "line 2: expected 70000 field(s)" in text


@pytest.mark.parametrize("name", ["t.csv", "t.fimi", "t.tsv"])
def test_carriage_returns_that_end_no_line(put, name):
    mixed = put("1 2 3\n1 2\r3 4\n", name)
    assert "line 2: expected lines that end with a newline" in message(mixed)
    late = "".join(f"{i},1,0\r\n" for i in range(300))
    assert io.read(put(late, "late.csv")).observations.shape == (300, 2)
    assert "line 301" in message(put(late + "7,1\r,0\n", "late.csv"))


def test_numbers_of_any_length_in_transactions(put):
    huge = "9" * 30
    seen = io.read(put(f"2 10 {huge}\n1{huge} 2\n", "t.fimi")).observations
    assert seen.column_labels.tolist() == ["2", "10", huge, "1" + huge]
    assert io.read(put("1 3²\n2\n", "t.fimi")).observations.column_labels.tolist() == [
        "1",
        "3²",
        "2",
    ]
    guessed = io.read(put(f"2 10 {'9' * 5000}\n1 2 3\n", "unnamed"))
    assert guessed.format == "fimi"


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("t.csv.gz", gzip.compress(b"1,0\n0,1\n")[:-3], "a gzip file"),
        ("t.parquet", b"PAR1" + bytes(20), "a parquet file"),
        ("t.xlsx", EMPTY_BOOK, "a workbook (.xlsx)"),
        ("t.png", b"\x89PNG" + bytes(20), "a PNG picture"),
        ("t.npy", NPY + b"{" * 118, "NumPy arrays without Python objects"),
    ],
    ids=["gzip", "parquet", "xlsx", "png", "npy"],
)
def test_other_libraries_give_the_cause_and_not_the_message(put, name, content, what):
    path = put(content, name)
    with pytest.raises(FileError) as caught:
        io.read(path)
    assert str(caught.value).endswith(f"expected {what}, but it cannot be read; recreate it")
    assert str(caught.value.__cause__)


@pytest.mark.parametrize(
    "content",
    [
        NPY + b"{'descr': '|u1', 'fortran_order': False, 'shape': (6, ".ljust(117) + b"\n",
        NPY + b"{'descr': '|u1', 'shape': (2, 2)".ljust(117) + b"\n" + b"\x01" * 4,
        NPY
        + b"{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999, 99999999), }".ljust(117)
        + b"\n",
        NPY
        + b"{'descr': '<U1', 'fortran_order': False, 'shape': (1, 1), }".ljust(117)
        + b"\n\xff\xff\xff\xff",
    ],
)
def test_broken_arrays(put, content):
    assert len(message(put(content, "broken.npy"))) < 1000


def test_broken_archives(put, tmp_path):
    np.savez_compressed(tmp_path / "good.npz", np.eye(9))
    good = (tmp_path / "good.npz").read_bytes()
    for change in (good[:60] + b"\xff" * 20 + good[80:], good[:-30]):
        message(put(change, "broken.npz"))
    directory = good.index(b"PK\x01\x02")
    version = good[: directory + 6] + b"\xf0" + good[directory + 7 :]
    method = good[: directory + 10] + b"\x63" + good[directory + 11 :]
    for change in (version, method):
        message(put(change, "broken.npz"))


def test_broken_pictures(put, tmp_path):
    image = pytest.importorskip("PIL.Image")
    image.fromarray(np.eye(9, dtype=np.uint8)).save(tmp_path / "good.png")
    good = (tmp_path / "good.png").read_bytes()
    side = (200_000).to_bytes(4, "big")
    header = b"IHDR" + side + side + good[24:29]
    bomb = good[:12] + header + zlib.crc32(header).to_bytes(4, "big") + good[33:]
    for content in (bomb, good[:40], good[:-20], good[:30] + b"\xff" * 8 + good[38:]):
        message(put(content, "broken.png"))


def test_broken_arrow_files(put, tmp_path):
    pl.DataFrame({"a": ["x", "y"] * 9, "b": [1, 0] * 9, "c": [1, 1] * 9}).write_ipc(
        tmp_path / "good.arrow"
    )
    good = bytearray((tmp_path / "good.arrow").read_bytes())
    rng = np.random.default_rng(0)
    refusals = 0
    for _ in range(300):  # some of them make polars panic
        broken = good.copy()
        broken[rng.integers(8, len(good))] ^= 1 << rng.integers(8)
        path = put(bytes(broken), "broken.arrow")
        try:
            io.read(path)
        except FileError as error:
            refusals += 1
            assert "broken.arrow" in str(error)
    assert refusals


def test_long_messages_are_cut(put):
    names = [f"a rather long name of column {j}" for j in range(3000)]
    path = put(",".join(names) + "\n" + ",".join(["1"] * 3000) + "\n")
    text = message(path, dialect=Dialect(columns=("who", "what", "like")))
    assert "column 0" in text and "3000 in total" in text
    assert len(text) < 1000
    label = "x" * 5000
    text = message(put(f"n,a\n{label},1\n{label},0\n"))
    assert '`labels="ignore"`' in text  # the remedy stays
    assert len(text) < 1000


def test_closed_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(FileError, match="standard input: it is closed"):
        io.read("-")
