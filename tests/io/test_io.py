"""Readers and writers: what they accept, what they say about what they do not."""

import bz2
import gzip
import io as stdio
import lzma
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.io
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from read_files import message, table

from boolweave import io
from boolweave.data.cells import CellWords
from boolweave.io import cells
from boolweave.io.dialect import Dialect
from boolweave.io.files import FileError, chunks_of_lines
from boolweave.runtime.atomic import replacing

NAN = np.nan
VOTES = "name,tax,war\nAnn,yes,\nBo,No,y\nCy,0,NA\n"
VOTES_TABLE = [[1, NAN], [0, 1], [0, NAN]]


# ---------------------------------------------------------------- wide


def test_wide_with_header_and_labels(put):
    reading = io.read(put(VOTES))
    seen = reading.observations
    np.testing.assert_array_equal(seen.to_dense(), VOTES_TABLE)
    assert seen.row_labels.tolist() == ["Ann", "Bo", "Cy"]
    assert seen.column_labels.tolist() == ["tax", "war"]
    assert reading.guess == (
        "comma-separated, wide, first line is a header, first column holds labels"
    )


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|", " "])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_delimiters_and_line_ends(put, delimiter, ending):
    lines = ["x,a,b,c", "r,1,0,1", "", "s,0,1,NA"]
    content = ending.join(line.replace(",", delimiter) for line in lines) + ending
    np.testing.assert_array_equal(table(put(content)), [[1, 0, 1], [0, 1, NAN]])


def test_plain_numbers_without_header(put):
    seen = io.read(put("1,0\n0,1\n1,1")).observations
    assert seen.row_labels is None and seen.column_labels is None
    np.testing.assert_array_equal(seen.to_dense(), [[1, 0], [0, 1], [1, 1]])


def test_every_spelling(put):
    content = "1,0\ntrue,FALSE\nYes,no\nY,n\n1.0,0.0\n,?\nNA,NaN\nnull,None\n"
    expected = [[1, 0]] * 5 + [[NAN, NAN]] * 3
    np.testing.assert_array_equal(table(put(content)), expected)
    numbers = "01,+1,1.00\n00,-0,1e0\n 1 ,0.,.0\n"
    np.testing.assert_array_equal(table(put(numbers)), [[1, 1, 1], [0, 0, 1], [1, 0, 0]])


@pytest.mark.parametrize("name", ["many.csv", "many.parquet"])
def test_a_cell_that_is_right_is_not_refused(put, name):
    """Among thousands of different cells, most of them wrong, the first wrong one is named."""
    cells = [*["0", "1", "yes", "NA"] * 50, "x", *map(str, range(2, 6000))]
    path = put("a,b\n" + "".join(f"1,{cell}\n" for cell in cells), "many.csv")
    if name.endswith("parquet"):
        path = path.with_name(name)
        pl.read_csv(path.with_name("many.csv"), infer_schema=False).write_parquet(path)
    assert "got 'x'" in message(path, dialect=Dialect(layout="wide", labels="no"))


def test_index_of_pandas_is_labels(put):
    seen = io.read(put(",a,b\n0,1,0\n1,0,1\n")).observations
    assert seen.row_labels.tolist() == ["0", "1"]
    assert seen.shape == (2, 2)


def test_labels_may_be_quoted_numbered_or_named_na(put):
    seen = io.read(put('who,"a, b",c\n"Lee, Ann",1,0\nNA,0,1\n"say ""hi""",1,1\n')).observations
    assert seen.row_labels.tolist() == ["Lee, Ann", "NA", 'say "hi"']
    assert seen.column_labels.tolist() == ["a, b", "c"]


def test_what_is_asked_for_is_not_guessed(put):
    path = put("0,1\n1,0\n")
    assert io.read(path, dialect=Dialect(header=True)).observations.shape == (1, 2)
    assert io.read(path, dialect=Dialect(labels="yes")).observations.shape == (2, 1)
    assert io.read(path, dialect=Dialect(labels="ignore")).observations.row_labels is None


def test_ratings_in_a_wide_table(put):
    path = put("u,a,b\nx,5,1\ny,,3\n")
    wide = Dialect(layout="wide")
    np.testing.assert_array_equal(table(path, above="mean", dialect=wide), [[1, 0], [NAN, 0]])
    np.testing.assert_array_equal(table(path, above=2, dialect=wide), [[1, 0], [NAN, 1]])


def test_byte_order_mark_and_encoding(put):
    def labels_of(path):
        return io.read(path).observations.row_labels.tolist()

    assert io.read(put(b"\xef\xbb\xbfx,a\nr,1\n")).observations.column_labels.tolist() == ["a"]
    late = "x,a\n" + "".join(f"r{i},1\n" for i in range(300)) + "Renée à Orléans,1\n"
    for encoding in ("utf-16", "utf-16-le", "latin-1", "cp1252"):
        assert io.read(put(late.encode(encoding))).observations.row_labels[-1] == "Renée à Orléans"
    wrong = Dialect(encoding="utf-8")
    assert "expected text in utf-8" in message(put(late.encode("latin-1")), dialect=wrong)
    words = "name,täglich €\nJürgen,1\nGroße,0\n"
    assert labels_of(put(words.encode("cp1252"))) == ["Jürgen", "Große"]
    french = "name,a\nHélène,1\nFrançois,0\n".encode("mac-roman")
    assert labels_of(put(french)) == ["Hélène", "François"]
    mac = put("x,a\nRenée,1\n".encode("mac-roman"))
    labels = io.read(mac, dialect=Dialect(encoding="mac-roman")).observations.row_labels
    assert labels.tolist() == ["Renée"]
    assert "no encoding 'no-such'" in message(mac, dialect=Dialect(encoding="no-such"))


def test_many_chunks_give_the_same(put, monkeypatch):
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 3, (60, 5))
    content = "\n".join(",".join([f"r{i}", *map("01?".__getitem__, row)])
                        for i, row in enumerate(cells))  # fmt: skip
    path = put(content)
    whole = table(path)
    monkeypatch.setattr("boolweave.io.files.chunks_of_lines", lambda p: chunks_of_lines(p, 17))
    np.testing.assert_array_equal(table(path), whole)
    np.testing.assert_array_equal(whole, np.where(cells == 2, NAN, cells))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "empty"),
        ("x,a,b\nr,1,0\ns,1\n", "line 3: expected 3 field(s)"),
        ("x,a,b\nr,1,0,1\n", "line 2: expected 3 field(s)"),
        ("x,a,b\nr,1,maybe\n", "line 2, column 'b': expected 0/1"),
        ("1,0\n0,7\n", "line 2, column 2"),
        ("x,a,b\nr,1,4.5\n", "`above`"),
        ("x,a,b\nr,1,0\nr,1,0\n", "line 3, column 1"),
        ('x,a,b\n"r,1,0\n', "quote"),
        ('x,a,b\nr"s",1,0\n', "quote"),
        (b"x,a,b\n\x00\x00,1,0\n", "binary"),
        (bz2.compress(b"x,a,b\nr,1,0\n"), "bunzip2"),
        (lzma.compress(b"x,a,b\nr,1,0\n"), "unxz"),
        ('[{"x":"r","a":1,"b":0}]', "got JSON; convert it"),
    ],
)
def test_wrong_wide_tables(put, content, words):
    assert words in message(put(content))


def test_a_zip_archive_of_tables_is_to_be_unpacked(tmp_path):
    path = tmp_path / "download.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("votes.csv", "x,a,b\nr,1,0\n")
    assert "a zip archive of votes.csv; unpack it" in message(path)


# ---------------------------------------------------------------- triples and pairs


def test_triples(put):
    reading = io.read(put("who,what,like\nAnn,tea,1\nBo,rum,yes\nAnn,rum,0\nBo,tea,NA\n"))
    np.testing.assert_array_equal(reading.observations.to_dense(), [[1, 0], [NAN, 1]])
    assert reading.observations.row_labels.tolist() == ["Ann", "Bo"]
    assert "triples" in reading.guess


@pytest.mark.parametrize(
    "dialect", [Dialect(columns=("roll", "who", "cast")), Dialect(layout="triples")]
)
def test_triples_that_were_asked_for_are_not_encoded_as_columns(put, dialect):
    path = put("roll,who,cast\n1,Ann,1\n1,Bo,6\n2,Ann,9\n")
    words = CellWords.of(ones=("1",), zeros=("6",), missing=())
    text = message(path, dialect=dialect, words=words, encode="auto")
    assert "line 4, column 'cast'" in text and "`missing=9`" in text


def test_triples_of_numbers_keep_their_names_and_order(put):
    seen = io.read(put("7,40,1\n3,20,0\n7,20,1\n")).observations
    assert seen.row_labels.tolist() == ["7", "3"]
    assert seen.column_labels.tolist() == ["40", "20"]


@pytest.mark.parametrize("key", ["007", "+7", "-0"])
def test_numbers_with_two_spellings_stay_apart(put, key):
    seen = io.read(put(f"{key},40,1\n{key.strip('+-0') or 0},20,0\n")).observations
    assert seen.shape == (2, 2)
    assert seen.row_labels[0] == key


def test_far_apart_numbers(put):
    seen = io.read(put(f"{2**40},5,1\n-9,{2**50},0\n")).observations
    assert seen.row_labels.tolist() == [str(2**40), "-9"]


def test_ratings(put):
    path = put("user,item,rating,time\n1,10,5,99\n1,20,1,99\n2,10,3,99\n")
    assert "`above`" in message(path)
    np.testing.assert_array_equal(table(path, above="mean"), [[1, 0], [0, NAN]])
    np.testing.assert_array_equal(table(path, above="median"), [[1, 0], [0, NAN]])
    np.testing.assert_array_equal(table(path, above=0.5), [[1, 1], [1, NAN]])
    text = put("user,item,rating\n1,10,5\n1,20,bad\n")
    assert "line 3" in message(text, above="mean", dialect=Dialect(layout="triples"))


def test_columns_by_name_and_by_number(put):
    path = put("time,like,who,what\n1,0,Ann,tea\n2,1,Bo,tea\n")
    by_name = io.read(path, dialect=Dialect(columns=("who", "what", "like"))).observations
    by_number = io.read(path, dialect=Dialect(columns=("3", "4", "2"))).observations
    np.testing.assert_array_equal(by_name.to_dense(), [[0], [1]])
    np.testing.assert_array_equal(by_number.to_dense(), by_name.to_dense())
    for wrong in ("whom", "0", "5"):  # numbers go from 1 to 4
        with pytest.raises(ValueError, match=f"no column '{wrong}'"):
            io.read(path, dialect=Dialect(columns=(wrong, "what", "like")))


def test_duplicates(put):
    path = put("r,a,b\nx,p,1\nx,p,0\nx,p,1\n", "twice.csv")
    assert '`duplicates="majority"`' in message(path)
    np.testing.assert_array_equal(table(path, duplicates="majority"), [[1]])
    np.testing.assert_array_equal(table(put("r,a,b\nx,p,1\nx,p,1\n")), [[1]])


def test_empty_key(put):
    assert "line 3, column 'a'" in message(put("r,a,b\nx,p,1\nx,,1\n"))


def test_pairs_are_ones(put):
    path = put("1   4\n 2   7\n1   7\n", "perm.txt")
    np.testing.assert_array_equal(table(path), [[1, 1], [0, 1]])
    np.testing.assert_array_equal(table(path, absent="missing"), [[1, 1], [NAN, 1]])


def test_sorted_pairs_are_recognized_further_down(put):
    lines = [f"{i % 2} {i // 2}" for i in range(4000)]
    path = put("\n".join(sorted(lines, key=lambda line: int(line.split()[1]))), "long.txt")
    assert "pairs" in io.read(path).guess


@pytest.mark.parametrize("packer", ["gz", "zst"])
def test_packed(put, packer):
    raw = VOTES.encode()
    if packer == "gz":
        packed = gzip.compress(raw)
    else:
        pyarrow = pytest.importorskip("pyarrow")
        packed = pyarrow.compress(raw, codec="zstd", asbytes=True)
    np.testing.assert_array_equal(table(put(packed, f"votes.csv.{packer}")), VOTES_TABLE)
    message(put(packed[: len(packed) // 2], f"broken.csv.{packer}"))


def test_standard_input(put, monkeypatch):
    monkeypatch.setattr(sys, "stdin", stdio.TextIOWrapper(stdio.BytesIO(VOTES.encode())))
    reading = io.read("-")
    assert reading.name == "standard input"
    np.testing.assert_array_equal(reading.observations.to_dense(), VOTES_TABLE)


# ---------------------------------------------------------------- other formats


def test_parquet_and_arrow(tmp_path):
    wide = pl.DataFrame({"name": ["Ann", "Bo"], "tax": [True, None], "war": [False, True]})
    long = pl.DataFrame({"r": ["Ann", "Bo"], "c": [7, 9], "v": [1, 0]})
    for frame, expected in ((wide, [[1, 0], [NAN, 1]]), (long, [[1, NAN], [NAN, 0]])):
        frame.write_parquet(tmp_path / "t.parquet")
        frame.write_ipc(tmp_path / "t.arrow")
        for name in ("t.parquet", "t.arrow"):
            np.testing.assert_array_equal(table(tmp_path / name), expected)
    ratings = pl.DataFrame({"r": [1, 2], "c": [7, 9], "v": [4.5, 1.0]})
    ratings.write_parquet(tmp_path / "t.parquet")
    assert "`above`" in message(tmp_path / "t.parquet")
    np.testing.assert_array_equal(table(tmp_path / "t.parquet", above=2), [[1, NAN], [NAN, 0]])
    (tmp_path / "t.parquet").write_bytes(b"PAR1 nonsense")
    message(tmp_path / "t.parquet")


def test_numbers_beside_categories_in_typed_files(tmp_path):
    """Whether each line holds an entry is asked of columns of every type."""
    names, kinds = [f"r{n}" for n in range(12)], ["x", "y", "z"] * 4
    likes = {"tea": [0, 1] * 6, "milk": [1, 0, 0] * 4, "rum": [0, 0, 1, 1] * 3}
    answers = pl.DataFrame({"name": names, **likes, "kind": kinds})
    answers.write_parquet(tmp_path / "t.parquet")
    answers.write_ipc(tmp_path / "t.arrow")
    for name in ("t.parquet", "t.arrow"):
        seen = io.read(tmp_path / name, encode="auto").observations
        assert list(seen.column_labels) == [*likes, "kind = x", "kind = y", "kind = z"]
        assert seen.n_ones == 6 + 4 + 6 + 12


def test_matrix_market_and_numpy(tmp_path):
    matrix = scipy.sparse.coo_array(([1, 0, 1], ([0, 0, 1], [0, 1, 1])), shape=(2, 3))
    scipy.io.mmwrite(tmp_path / "m.mtx", matrix)
    scipy.sparse.save_npz(tmp_path / "m.npz", matrix.tocsr())
    np.savez(tmp_path / "a.npz", matrix.toarray())
    np.save(tmp_path / "a.npy", matrix.toarray())
    for name in ("m.mtx", "m.npz", "a.npz", "a.npy"):
        np.testing.assert_array_equal(table(tmp_path / name), [[1, 0, 0], [0, 1, 0]])
    np.testing.assert_array_equal(
        table(tmp_path / "m.mtx", absent="missing"), [[1, 0, NAN], [NAN, 1, NAN]]
    )
    (tmp_path / "bad.mtx").write_text("%%MatrixMarket matrix coordinate real general\n2 2 9\n1 1\n")
    message(tmp_path / "bad.mtx")
    head = "%%MatrixMarket matrix coordinate real general\n"
    (tmp_path / "bad.mtx").write_text(head + "2 3 1\n1 3 7\n")
    assert "row 1, column 3 holds 7" in message(tmp_path / "bad.mtx")  # as the file counts
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 nonsense")
    message(tmp_path / "bad.npz")
    np.save(tmp_path / "five.npy", np.array([[5, 0]]))
    assert "holds 5" in message(tmp_path / "five.npy")


def test_transactions(put):
    path = put("1 3 9\n1 2\n\n3 9 10\n", "shop.dat")
    reading = io.read(path)
    assert reading.format == "fimi"
    assert reading.observations.column_labels.tolist() == ["1", "2", "3", "9", "10"]
    np.testing.assert_array_equal(
        reading.observations.to_dense(), [[1, 0, 1, 1, 0], [1, 1, 0, 0, 0], [0, 0, 1, 1, 1]]
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("u.data", "1\t7\t5\t88\n2\t7\t1\t88\n"),
        ("ratings.dat", "1::7::5::88\n2::7::1::88\n"),
        ("ratings.csv", "userId,movieId,rating,timestamp\n1,7,5,88\n2,7,1,88\n"),
        ("other.dat", "1::7::5::88\n2::7::1::88\n"),
    ],
)
def test_movielens(put, name, content):
    path = put(content, name)
    reading = io.read(path, format="movielens")
    np.testing.assert_array_equal(reading.observations.to_dense(), [[1], [0]])
    if name != "other.dat":
        np.testing.assert_array_equal(table(path), [[1], [0]])
        np.testing.assert_array_equal(table(path, above=0), [[1], [1]])


def test_pictures(tmp_path):
    image = pytest.importorskip("PIL.Image")
    bits = np.array([[1, 0, 1], [0, 1, 0]], dtype=np.uint8)
    image.fromarray((255 * (1 - bits)).astype(np.uint8)).convert("1").save(tmp_path / "bit.png")
    image.fromarray((200 - 150 * bits).astype(np.uint8)).save(tmp_path / "grey.png")
    for name in ("bit.png", "grey.png"):
        np.testing.assert_array_equal(table(tmp_path / name), bits)
    np.testing.assert_array_equal(table(tmp_path / "grey.png", above=100), 1 - bits)
    image.new("RGB", (2, 2), (255, 0, 0)).save(tmp_path / "red.png")
    assert "coloured" in message(tmp_path / "red.png")
    (tmp_path / "bad.png").write_bytes(b"\x89PNG nonsense")
    message(tmp_path / "bad.png")


def test_no_such_file_and_folders(tmp_path):
    assert "no such file" in message(tmp_path / "nothing.csv")
    assert "got a folder" in message(tmp_path)
    with pytest.raises(ValueError, match="format must be one of"):
        io.read(tmp_path / "x.csv", format="xls")


# ---------------------------------------------------------------- whatever comes


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_in_one_line(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("fuzz") / "any.csv"
    path.write_bytes(content)
    try:
        io.read(path)
    except FileError as error:
        assert "\n" not in str(error)


CELL = st.sampled_from(["0", "1", "yes", "NA", "", "a", "7", "1.5", '"a,b"', '"', 'a"b', " 1", "é"])


@given(
    st.lists(st.lists(CELL, min_size=1, max_size=4), min_size=1, max_size=6),
    st.sampled_from([",", "\t", ";", " "]),
    st.sampled_from([None, "mean", 0.5]),
)
def test_any_table_is_read_or_refused(tmp_path_factory, rows, delimiter, above):
    path = tmp_path_factory.mktemp("fuzz") / "any.csv"
    path.write_text("\n".join(delimiter.join(row) for row in rows), encoding="utf-8")
    for layout in (None, "wide", "triples"):
        try:
            io.read(path, dialect=Dialect(layout=layout), above=above)
        except FileError as error:
            assert "any.csv" in str(error)


# ---------------------------------------------------------------- writing


def test_a_failed_write_leaves_the_old_file(tmp_path):
    target = tmp_path / "answer.csv"
    target.write_text("old")

    def fail():
        with replacing(target) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["answer.csv"]


def by_hand(names):
    """The number of each name, and the names in the order of their first appearance."""
    order = list(dict.fromkeys(names))
    return [order.index(name) for name in names], [str(name) for name in order]


@given(st.lists(st.integers(-5, 5) | st.sampled_from([2**40, -(2**40)]), max_size=30))
def test_integers(numbers):
    found, labels = cells.number_integers(np.array(numbers, dtype=np.int64))
    assert (found.tolist(), labels.tolist()) == by_hand(numbers)


@given(st.lists(st.lists(st.sampled_from("abcdef"), min_size=1), max_size=5))
def test_texts_in_several_parts(parts):
    numbering = cells.Numbering()
    found = [number for part in parts for number in numbering.number(pl.Series(part)).tolist()]
    numbers, labels = by_hand([name for part in parts for name in part])
    assert found == numbers
    assert numbering.labels().tolist() == labels
    assert len(numbering) == len(labels)


PROGRAM = Path(__file__).parents[1] / "support" / "guarded.py"


def guarded(first, count):
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-X", "faulthandler", PROGRAM, str(first), str(count)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no guards on Windows")
def test_the_guards_are_there():
    assert guarded(0, 0).returncode < 0


@pytest.mark.slow
def test_random_fits():
    done = guarded(0, 80)
    assert done.returncode == 0, f"{done.stdout[-200:]}\n{done.stderr[-3000:]}"
    assert "done, " in done.stdout
