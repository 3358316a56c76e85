"""Tables as people have them, messy ones too, read from Python and by the command."""

import io as stdio
import json
import re
import zipfile
from functools import partial

import numpy as np
import polars as pl
import pytest
from commands import run_here
from read_files import message, table

from boolweave import io
from boolweave.cli.options import as_options
from boolweave.data.cells import CellWords
from boolweave.io.dialect import MARK, Dialect
from boolweave.io.files import chunks_of_lines
from boolweave.io.options import Options
from boolweave.io.origin import Speller, texts_by_row
from boolweave.io.text import read_text

NAN = np.nan
QUICK = ("-k", "2", "--method", "max-sum", "--jobs", "1", "-q")


def run(*arguments, cwd, code=0):
    done = run_here(*arguments, cwd=cwd)
    assert done.returncode == code, done.stderr.decode()
    return done


# ---------------------------------------------------------------- lines

MESSY = {
    "comments": '# made by hand\n#\nname,a,b\nAnn,1,0\n# 5" is no cell, is it\nBo,0,\n',
    "several lines": 'name,a,b\n"Ann\nof, London",1,0\n"Bo ""x""\n\n",0,\n',
    "sep": "sep=;\r\nname;a;b\r\nAnn;1;0\r\nBo;0;\r\n",
    "quoted sep": '"sep=|"\nname|a|b\nAnn|1|0\nBo|0|\n',
    "returns": "name,a,b\rAnn,1,0\rBo,0,\r",
    "mark and sep": "\ufeffsep=\t\nname\ta\tb\nAnn\t1\t0\nBo\t0\t\n",
    "a comment first": "# names, and more\nname,a,b\n\nAnn,1,0\n\nBo,0,NA\n",
}


@pytest.mark.parametrize("kind", MESSY)
@pytest.mark.parametrize("size", [None, 5, 17])
def test_messy_lines(put, kind, size, monkeypatch):
    if size:
        small = partial(chunks_of_lines, size=size)
        monkeypatch.setattr("boolweave.io.files.chunks_of_lines", small)
    seen = io.read(put(MESSY[kind])).observations
    np.testing.assert_array_equal(seen.to_dense(), [[1, 0], [0, NAN]])
    assert seen.column_labels.tolist() == ["a", "b"]
    first = "Ann\nof, London" if kind == "several lines" else "Ann"
    assert seen.row_labels[0] == first


@pytest.mark.parametrize("words", [("0", "1"), ("no", "yes"), ('"0"', '"1"'), (" 0", "1 ")])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_wide_tables_are_written_again(put, words, line_end):
    """In their own form, with new values."""
    cells = np.random.default_rng(0).integers(0, 3, (3, 12))
    header = ["name", *(f"q{j}" for j in range(12)), "remark"]
    notes = zip(["Ann", "NA", "Bö"], cells, ["", "NA", "b"], strict=True)
    lines = [[who, *((*words, "")[cell] for cell in row), what] for who, row, what in notes]
    content = "".join(",".join(line) + line_end for line in [header, *lines])
    path = put(content)
    options = Options(Dialect(labels="yes", drop=("remark",)), keep=True)
    wide = read_text(path, path.name, options)
    seen = wide.observations
    np.testing.assert_array_equal(seen.to_dense(), np.where(cells == 2, NAN, cells))
    assert seen.row_labels.tolist() == ["Ann", "NA", "Bö"]
    values = np.where(cells == 2, 1, cells).astype(np.uint8)
    ((filled, marked),) = wide.origin.frames([values], seen)
    assert filled.columns == header
    assert filled["remark"].to_list() == [None, "NA", "b"]
    np.testing.assert_array_equal(marked[:, 1:-1], cells == 2)
    written = filled[:, 1:-1].to_numpy()
    shown = np.array([word.strip(' "') for word in words])[values]
    assert (np.char.strip(written.astype(str)) == shown).all()


def test_wrong_cells_of_wide_tables_are_named(put):
    found = message(put("a,b,c,d\n0,1,1,0\n0,1,2,0\n"))
    assert "line 3, column 'c': expected 0/1" in found


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('x,a,b\n"r,1,0\ns,1,0\n', "line 2: expected a quoted text to end"),
        ('x,a,b\nq,0,1\n"r,1,0\n"s",1,0\n', "line 3: expected a quoted text to end"),
        ('x,a,b\n"q\nq",0,1\n"r\nr",1,7\n', "line 4, column 'b'"),
        ('x,a,b\n"q\nq",0,1\nr,1\n', "line 4: expected 3 field(s)"),
        ("# note\nx,a,b\nr,1,7\n", "line 3, column 'b'"),
    ],
)
def test_lines_are_named_rightly(put, content, words):
    assert words in message(put(content))


def test_a_name_may_begin_with_a_hash(put):
    seen = io.read(put("#name,a,b\n#1,1,0\n#2,0,1\n")).observations
    assert seen.row_labels.tolist() == ["#1", "#2"]


# ---------------------------------------------------------------- words and columns


def test_empty_cells_as_zeros(put, tmp_path):
    """A table of marks, in which a cell is a cross or empty, as text and with types."""
    marks = put("name,tea,rum\nAnn,x,\nBo,,X\nCy,x,x\n")
    pl.read_csv(marks).write_parquet(tmp_path / "marks.parquet")
    ones = pl.DataFrame({"name": ["Ann", "Bo", "Cy"], "tea": [1, None, 1], "rum": [None, 1, 1]})
    ones.write_parquet(tmp_path / "ones.parquet")
    for path in (marks, tmp_path / "marks.parquet", tmp_path / "ones.parquet"):
        words = CellWords.of("x", "")
        read = io.read(path, words=words)
        np.testing.assert_array_equal(read.observations.to_dense(), [[1, 0], [0, 1], [1, 1]])
        assert ("zeros", "") not in read.unused_words
    full = put("name,tea,rum\nAnn,x,x\n")
    assert io.read(full, words=CellWords.of("x", "")).unused_words == [("zeros", "")]


def test_lines_that_end_with_a_delimiter(put):
    """There is no column behind the last delimiter, and `complete` does not fill it in."""
    lines = ["name,tea,rum,", "Ann,1,0,", "Bo,1,,", "Cy,0,1,", "Di,0,1,"]
    path = put("\n".join(lines) + "\n")
    seen = io.read(path).observations
    assert seen.column_labels.tolist() == ["tea", "rum"] and seen.n_observed == 7
    done = run("complete", path, *QUICK, "--no-mark", cwd=path.parent)
    written = done.stdout.decode().splitlines()
    assert [*written[:2], *written[3:]] == [*lines[:2], *lines[3:]]
    assert re.fullmatch("Bo,1,[01],", written[2])
    many = put("\n".join([*lines[:2], *(f"n{i},1,0," for i in range(400)), "z,1,0,7"]) + "\n")
    assert "line 1, column 4: expected a name for the last column" in message(many)


def test_words_in_files(put):
    content = "name,a,b\nAnn,ja,NEIN\nBo,-,Ja\nCy,nein,99\n"
    words = CellWords.of(ones="ja", zeros="nein", missing=["-", 99])
    np.testing.assert_array_equal(table(put(content), words=words), [[1, 0], [NAN, 1], [0, NAN]])
    typed = put("", "t.parquet")
    pl.read_csv(stdio.StringIO(content)).write_parquet(typed)
    np.testing.assert_array_equal(table(typed, words=words), [[1, 0], [NAN, 1], [0, NAN]])
    triples = put("u,i,v\na,x,gut\nb,x,schlecht\n", "triples.csv")
    dialect = Dialect(layout="triples")
    said = CellWords.of(ones="gut", zeros="schlecht")
    np.testing.assert_array_equal(table(triples, words=said, dialect=dialect), [[1], [0]])
    assert "`missing` does not apply" in message(
        put("1 2 3\n1 2\n", "t.fimi"), words=CellWords.of(missing=9)
    )


@pytest.mark.parametrize("kind", ["csv", "parquet", "encoded", "ratings", "triples"])
def test_words_that_do_not_occur(put, kind):
    """Whatever the kind of table, and whether its cells are texts, numbers or encoded."""
    content, how = "a,b\n1,5\n5,99\n", {}
    if kind == "encoded":
        content, how = "a,b,c\n1,5,x\n5,99,y\n1,1,z\n1,5,x\n", {"encode": "always"}
    if kind == "triples":
        content, how = "u,i,v\na,x,5\na,y,99\n", {"dialect": Dialect(layout="triples")}
    given = {} if kind == "ratings" else {"ones": [5, 6], "zeros": "exact"}
    words, path = CellWords.of(missing=[99, "-"], **given), put(content)
    if kind == "ratings":
        how = {"above": 3}
    if kind == "parquet":
        path = put("", "t.parquet")
        pl.read_csv(stdio.StringIO(content)).write_parquet(path)
    unused = [("missing", "-")]
    if given:
        unused = [("ones", "6"), ("zeros", "exact"), *unused]
    assert io.read(path, words=words, **how).unused_words == unused


def test_ratings_with_codes_for_no_answer(put):
    path = put("u,a,b\nx,5,1\ny,99,3\n")
    said, wide = CellWords.of(missing=99), Dialect(layout="wide")
    seen = table(path, above=2, words=said, dialect=wide)
    np.testing.assert_array_equal(seen, [[1, 0], [NAN, 1]])


def test_columns_are_picked(put, tmp_path):
    content = "id,a,note,b,c\n7,1,hello,0,1\n9,0,world,1,0\n"
    pick = Dialect(index="id", drop=("note",), use=("c", "a", "note"))
    pl.read_csv(stdio.StringIO(content)).write_parquet(tmp_path / "t.parquet")
    for path in (put(content), tmp_path / "t.parquet"):
        seen = io.read(path, dialect=pick).observations
        assert seen.column_labels.tolist() == ["a", "c"]
        assert seen.row_labels.tolist() == ["7", "9"]
        np.testing.assert_array_equal(seen.to_dense(), [[1, 1], [0, 0]])
        assert "there is no column 'd'" in message(path, dialect=Dialect(use=("d",)))
        assert "no column is left" in message(path, dialect=Dialect(use=("a",), drop=("2",)))


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        ("x,a,b\nr,1,0\ns,0,9\nt,1,1\n", "if 9 stands for a missing value, pass `missing=9`"),
        ("x,a,b\nr,1,0\ns,0,1\nt,99,1\nu,0,1\n", "pass `missing=99`"),
        ("x,a,b\nr,3,1\ns,2,1\nt,99,5\nu,1,4\n", "pass `missing=99`"),
        ("x,a,b\nr,1,-9\ns,0,1\nt,1,0\n", "pass `missing=-9`"),
    ],
)
def test_a_hint_never_makes_a_one_of_no_answer(put, content, hint):
    path = put(content)
    text = message(path, dialect=Dialect(layout="wide"))
    assert hint in text and "above" not in text
    assert hint.replace("pass `missing=", "use --missing ").strip("`") in as_options(text)


def test_codes_for_no_answer_are_taken_as_missing_and_said(put):
    path = put("q,c,n\n1,red,0\n5,red,1\n2,blue,9\n4,blue,1\n3,red,0\n")
    done = run("info", path, cwd=path.parent)
    assert "taken as missing: 9 in n" in done.stderr.decode()
    assert np.isnan(io.read(path, encode="auto").observations.to_dense()[2, -1])
    run("info", path, "--layout", "wide", "--missing", "9", cwd=path.parent)


# ---------------------------------------------------------------- columns of any kind


def survey(n=30):
    rows = ["id,age,colour,hobby,member,comment"]
    for i in range(n):
        hobby = ["chess;tea", "tea", "chess", ""][i % 4]
        age = "" if i == 3 else 20 + (7 * i) % 50
        member = "" if i == 5 else ["yes", "no"][i % 2]
        rows.append(f"p{i},{age},{['red', 'blue', 'green'][i % 3]},{hobby},{member},so it is {i}")
    return "\n".join(rows) + "\n"


def test_factorize_encodes_and_says_so(put):
    path = put(survey())
    done = run("factorize", path, "-k", "2", "--max-time", "1", "--jobs", "1", cwd=path.parent)
    lines = done.stderr.decode().splitlines()
    assert lines[0].endswith("first line is a header, first column holds labels")
    assert lines[1].startswith(
        "encoded 4 columns (1 yes/no, 1 category, 1 choices, 1 number) as 10 0/1 "
    )
    assert lines[2] == "left out: comment (all values differ); row labels: 'id'"
    assert lines[3].startswith("change this with a reading plan (info FILE --plan")
    assert "factor" in lines[4]
    assert b",column," in done.stdout
    seen = io.read(path, encode="auto").observations
    assert seen.shape == (30, 10) and seen.row_labels[3] == "p3"
    at = seen.column_labels.tolist().index("colour = red")
    np.testing.assert_array_equal(seen.to_dense()[:, at], [i % 3 == 0 for i in range(30)])
    assert np.isnan(seen.to_dense()[3, :4]).all()


def test_encode_rules(put):
    path = put(survey())
    found = run(
        "info", path, "--json", "--encode", "age=40,60;hobby=split:;;comment=drop;colour=drop",
        cwd=path.parent,
    )  # fmt: skip
    assert json.loads(found.stdout)["n_columns"] == 3 + 2 + 1
    names = io.read(path, encode="age=thresholds:40,60").observations.column_labels.tolist()
    assert names[:2] == ["age ≥ 40", "age ≥ 60"]
    by_number = io.read(path, encode="2=thresholds:40,60;3=category;6=drop").observations
    assert by_number.column_labels.tolist() == names
    said = run("info", path, "--encode", "age", cwd=path.parent, code=2).stderr.decode()
    assert said.startswith("boolweave: --encode: expected auto, never or valid rules")
    for rule, words in [
        ("never", "expected 0/1"), ("agee=40", "no column 'agee'"),
        ("colour=3,4", "does not hold only numbers"), ("age", "expected column=RULE"),
    ]:  # fmt: skip
        assert words in message(path, encode=rule)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("x,a,b\nr,1,0\ns,0,maybe\nt,1,1\n", "line 3, column 'b'"),
        ("x,a,b\nr,1,0\ns,0,2\nt,1,1\n", "line 3, column 'b'"),
        ("x,a,b\nr,1,0\nr,1,1\nt,1,1\n", "every row to have its own label"),
        ("x,a,b\nr,1,maybe\n", "line 2, column 'b'"),
    ],
)
def test_mistakes_in_zeros_and_ones_are_not_encoded(put, content, words):
    assert words in message(put(content), encode="auto")


def test_tables_that_look_like_others(put):
    triples = put("colour,size,age\nred,small,31\nblue,large,64\nred,large,52\nblue,small,33\n")
    assert "colour = red" in io.read(triples, encode="auto").observations.column_labels
    ratings = put("user,item,rating\n1,10,5\n1,20,1\n2,10,3\n")
    assert "`above`" in message(ratings, encode="auto")
    groups = put("sex,tea,rum\n" + "m,1,0\nf,0,1\n" * 4)
    names = io.read(groups, encode="auto").observations.column_labels.tolist()
    assert names == ["sex = f", "sex = m", "tea", "rum"]
    comma = put("town;height;warm\nA;1,5;yes\nB;2,25;no\nA;3,75;yes\nB;1,5;no\nA;2;yes\n")
    wide = Dialect(layout="wide")
    names = io.read(comma, encode="auto", dialect=wide).observations.column_labels.tolist()
    assert "height ≥ 2.25" in names
    votes = put("".join(f"{'rd'[i % 2]},{'yn'[i % 2]},{'ny?'[i % 3]},y,n\n" for i in range(12)))
    names = io.read(votes, encode="auto").observations.column_labels.tolist()
    assert names == ["1 = d", "1 = r", "2", "3", "4", "5"]
    likert = put("q1,q2\n" + "".join(f"{1 + i % 5},{1 + i % 3}\n" for i in range(20)))
    assert io.read(likert, encode="always").observations.shape == (20, 6)


# ---------------------------------------------------------------- the file that went in


def test_complete_writes_the_file_that_went_in(put):
    content = (
        '\ufeffsep=;\r\nName;Tee;"Rum; braun";Notiz;Gin\r\n'
        'Ann;Ja;;"zwei\r\nZeilen";nein\r\nBo;nein;JA;x;Ja\r\n# von Hand\r\n'
        "Cy;Ja;nein;y;-\r\nDi;nein;Ja;;Ja\r\n"
    )
    path = put(content)
    how = ("--ones", "ja", "--zeros", "nein", "--missing", "-", "--drop", "Notiz")
    done = run("complete", path, *QUICK, *how, cwd=path.parent)
    lines = done.stdout.decode().split("\r\n")
    assert lines[0] == "\ufeffsep=;"
    assert lines[1] == f'Name;Tee;"Rum; braun";Notiz;Gin;{MARK}'
    assert lines[2:4] == ['Ann;Ja;nein;"zwei', 'Zeilen";nein;"Rum; braun"']
    assert lines[4:] == ["Bo;nein;JA;x;Ja;", "Cy;Ja;nein;y;nein;Gin", "Di;nein;Ja;;Ja;", ""]
    run("complete", path, *QUICK, *how, "--no-mark", "-o", "again.csv", cwd=path.parent)
    again = (path.parent / "again.csv").read_bytes().decode().split("\r\n")
    assert again[1] == 'Name;Tee;"Rum; braun";Notiz;Gin' and again[4] == "Bo;nein;JA;x;Ja"
    (path.parent / "marked.csv").write_bytes(done.stdout)
    seen = io.read(path.parent / "marked.csv", words=CellWords.of(ones="ja", zeros="nein"),
                   dialect=Dialect(drop=("Notiz",)))  # fmt: skip
    assert seen.observations.shape == (4, 3) and seen.observations.is_complete


def test_of_equally_frequent_spellings_the_first_is_used():
    ones, zeros = ["1", "yes", "y", "true", "T"], ["0", "no", "n", "false", "F"]
    speller = Speller()
    cells = pl.DataFrame({"a": ones + zeros, "b": zeros[::-1] + ones[::-1]})
    speller.add(texts_by_row(cells), cells.shape)
    spellings = speller.spellings()
    assert spellings.texts == (*ones, *zeros)
    assert spellings.of_ones_and_zeros(CellWords()) == [("0", "1"), ("0", "1")]


def test_complete_without_header_and_from_parquet(put, tmp_path):
    path = put("1|0|\n0|1|1\n1|0|0\n0|1|1\n", "plain.txt")
    assert run("complete", path, *QUICK, cwd=tmp_path).stdout == b"1|0|0\n0|1|1\n1|0|0\n0|1|1\n"
    typed = pl.DataFrame({"a": [True, False, True], "who": list("xyz"), "b": [False, True, None]})
    typed.write_parquet(tmp_path / "t.parquet")
    run("complete", "t.parquet", *QUICK, "--index", "who", "-o", "out.parquet", cwd=tmp_path)
    out = pl.read_parquet(tmp_path / "out.parquet")
    assert out.columns == ["a", "who", "b", MARK] and out.dtypes[:3] == typed.dtypes
    assert out["b"].to_list() == [False, True, False] and out[MARK].to_list() == [None, None, "b"]


def test_complete_fills_columns_of_any_kind(put):
    path = put(survey())
    done = run("complete", path, *QUICK, "--encode", "age=40", cwd=path.parent)
    before, after = (pl.read_csv(text, infer_schema=False) for text in (path, done.stdout))
    assert after.columns == [*before.columns, MARK]
    for name in ("id", "colour", "comment"):
        assert after[name].to_list() == before[name].to_list()
    for name in ("age", "member", "hobby"):
        known = before[name].is_not_null()
        assert after[name].filter(known).to_list() == before[name].filter(known).to_list()
        assert after[name].null_count() == 0
    assert after[MARK][3] == "age; hobby" and after[MARK][5] == "member"
    assert after["member"][5] in ("yes", "no") and float(after["age"][3]) > 0


# ---------------------------------------------------------------- workbooks


def test_workbooks_in_and_out(put, tmp_path):
    fastexcel = pytest.importorskip("fastexcel")
    pytest.importorskip("xlsxwriter")
    assert fastexcel
    path = put("name,tea,rum,gin\nAnn,yes,,no\nBo,no,yes,yes\nCy,yes,no,no\nDi,no,yes,yes\n")
    run("complete", path, *QUICK, "-o", "out.xlsx", cwd=tmp_path)
    sheet = pl.read_excel(tmp_path / "out.xlsx", engine="calamine")
    assert sheet.columns == ["name", "tea", "rum", "gin"]
    assert sheet.row(0) == ("Ann", "yes", "no", "no")
    with zipfile.ZipFile(tmp_path / "out.xlsx") as book:
        assert b"FFE699" in book.read("xl/styles.xml").upper()
        cells = book.read("xl/worksheets/sheet1.xml").decode()
    styles = dict(re.findall(r'r="([A-D][2-5])" s="(\d+)"', cells))
    assert [cell for cell, style in styles.items() if style == styles["C2"]] == ["C2"]
    seen = io.read(tmp_path / "out.xlsx").observations
    assert seen.row_labels.tolist() == ["Ann", "Bo", "Cy", "Di"] and seen.is_complete
    run("factorize", "out.xlsx", *QUICK, "-o", "factors.xlsx", cwd=tmp_path)
    assert pl.read_excel(tmp_path / "factors.xlsx").columns[:2] == ["factor", "axis"]
    (tmp_path / "bad.xlsx").write_bytes((tmp_path / "out.xlsx").read_bytes()[:900])
    assert "bad.xlsx" in message(tmp_path / "bad.xlsx")
    sheet.with_columns(rum=pl.Series([1, 0, 2, 1])).write_excel(tmp_path / "two.xlsx")
    # A person looks for the row whose number Excel shows.
    assert "column 'rum': expected 0, 1 or null, got 2 in row 4;" in message(tmp_path / "two.xlsx")


def test_workbooks_need_their_packages(tmp_path, monkeypatch):
    from boolweave.cli.output import output_format
    from boolweave.io import excel
    from boolweave.runtime import extras

    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install .*\[excel\]'"):
        excel.read_sheet(tmp_path / "x.xlsx", "x.xlsx", None)
    with pytest.raises(ImportError, match=r"pip install .*\[excel\]'"):
        output_format(tmp_path / "x.xlsx", None, ("xlsx",))


def test_categories_in_the_first_column_are_not_taken_for_names(tmp_path):
    votes = {"party": ["left", "right"] * 3, **{name: [1, 0, 1, 1, 0, 0] for name in "abcd"}}
    table = pl.DataFrame(votes)
    table.write_parquet(tmp_path / "votes.parquet")
    table.write_csv(tmp_path / "votes.csv")
    for name in ("votes.parquet", "votes.csv"):
        found = io.read(tmp_path / name, encode="auto").observations
        assert found.row_labels is None
        assert found.column_labels.tolist()[:3] == ["party = left", "party = right", "a"]
