"""Long tables among other columns, lists in a cell, baskets and sheets."""

import random

import numpy as np
import polars as pl
import pytest
from commands import run_here
from read_files import message

from boolweave import io
from boolweave.io.dialect import Dialect

RIGHTS = [f"{system}_{right}" for system in ("CRM", "ERP", "GIT") for right in ("READ", "ADMIN")]


def access(n_users=30):
    """Lines of an export of access rights: the user, two facts about the user, and the right."""
    dice = random.Random(0)
    for i in range(n_users):
        department = dice.choice(["Sales", "IT"])
        for right in sorted(dice.sample(RIGHTS, dice.randint(1, 4))):
            yield (f"u{i}", f"Person {i}", department, right)


def written(path, rows):
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    return path


def held(observations):
    dense = observations.to_dense()
    rows, columns = np.nonzero(dense == 1)
    return set(zip(observations.row_labels[rows], observations.column_labels[columns], strict=True))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_users_and_entitlements_among_other_columns(tmp_path, suffix):
    names, rows = ("UserID", "Name", "Department", "Entitlement"), list(access())
    path = tmp_path / f"access.{suffix}"
    if suffix == "csv":
        written(path, [names, *rows])
    else:
        pl.DataFrame(rows, schema=names, orient="row").write_parquet(path)
    reading = io.read(path, encode="auto")
    assert held(reading.observations) == {(row[0], row[3]) for row in rows}
    assert 'pass `layout="wide"` if each line is a row of its own' in reading.guess
    wide = io.read(path, encode="auto", dialect=Dialect(layout="wide"))
    assert "Department = IT" in wide.observations.column_labels


def test_codes_of_roll_calls_are_known(tmp_path):
    dice = random.Random(1)
    votes = {(n, 40 + i): dice.choice([1, 1, 6, 6, 9]) for n in range(1, 13) for i in range(8)}
    rows = [(101, "Senate", n, i, code, dice.random()) for (n, i), code in votes.items()]
    head = ("congress", "chamber", "rollnumber", "icpsr", "cast_code", "prob")
    reading = io.read(written(tmp_path / "votes.csv", [head, *rows]), encode="auto")
    dense = reading.observations.to_dense()
    expected = {1: 1.0, 6: 0.0, 9: np.nan}
    for (n, i), code in votes.items():
        np.testing.assert_equal(dense[n - 1, i - 40], expected[code])
    assert "1, 2, 3 are ones, 4, 5, 6 are zeros" in reading.guess


def test_unknown_codes_are_asked_for(tmp_path):
    dice = random.Random(2)
    rows = [(f"s{i}", f"e{j}", dice.randint(1, 5), j % 3) for i in range(12) for j in range(6)]
    path = written(tmp_path / "exams.csv", [("pupil", "sheet", "points", "room"), *rows])
    said = run_here("info", path, cwd=tmp_path)
    assert said.returncode == 2
    words = said.stderr.decode()
    assert "'points' (1, 2, 3, 4, 5)" in words and "--columns pupil,sheet,points" in words
    done = run_here("info", path, "--columns", "pupil,sheet,points", "--above", "3", cwd=tmp_path)
    assert done.returncode == 0


CATEGORIES = [("ABC"[i % 3], "mf"[i % 2], "xyz"[i // 7 % 3]) for i in range(40)]
PANEL = [(f"L{i}", 1990 + j, i * 7.3 + j, i * j + 0.5, i - j) for i in range(9) for j in range(9)]


@pytest.mark.parametrize(
    "rows",
    [[("town", "sex", "drinks"), *CATEGORIES], [("land", "year", "gdp", "pop", "rain"), *PANEL]],
    ids=["categories", "panel"],
)
def test_other_tables_stay_wide(tmp_path, rows):
    reading = io.read(written(tmp_path / "t.csv", rows), encode="auto")
    assert reading.observations.n_rows == len(rows) - 1 and reading.encoded is not None


def test_lists_in_a_cell(tmp_path):
    of_user = {}
    for user, _, _, right in access():
        of_user.setdefault(user, []).append(right)
    rows = [(user, "; ".join(rights)) for user, rights in of_user.items()]
    reading = io.read(written(tmp_path / "lists.csv", [("user", "rights"), *rows]), encode="auto")
    pairs = {(user, f"rights: {right}") for user, rights in of_user.items() for right in rights}
    assert held(reading.observations) == pairs


def test_baskets_of_different_lengths(tmp_path):
    path = tmp_path / "baskets.csv"
    path.write_text("milk,bread\nbeer\nmilk,eggs,beer\nbread,milk\nbeer,eggs\nmilk\nbread\n")
    seen = io.read(path).observations
    assert seen.shape == (7, 4) and seen.n_ones == 12
    path.write_text("name,a,b\nAnn,1,0\nBo,1\nCy,1,0,1\n")  # a mistake, not baskets
    assert "line 3: expected 3 field(s)" in message(path)


def test_sheets_and_titles_of_a_workbook(tmp_path):
    xlsxwriter = pytest.importorskip("xlsxwriter")
    pytest.importorskip("fastexcel")
    book = xlsxwriter.Workbook(tmp_path / "b.xlsx")
    book.add_worksheet("About").write(0, 0, "made by hand")
    sheet = book.add_worksheet("Data")
    rows = [["Our guests"], ["who", "tea", "rum"], ["Ann", 1, 0], ["Bo", 0, 1], ["Cy", 1, "no"]]
    for i, row in enumerate(rows):
        sheet.write_row(i, 0, row)
    book.close()
    asked = Dialect(sheet="Data", header_row=2)
    seen = io.read(tmp_path / "b.xlsx", dialect=asked).observations
    assert seen.column_labels.tolist() == ["tea", "rum"]
    np.testing.assert_array_equal(seen.to_dense(), [[1, 0], [0, 1], [1, 0]])
    said = message(tmp_path / "b.xlsx", dialect=Dialect(sheet="data"))
    assert "there is no sheet 'data', but About, Data" in said
    assert "`sheet` does not apply" in message(
        written(tmp_path / "t.csv", [("a", "b"), (1, 0)]), dialect=Dialect(sheet="Data")
    )


def test_votes_of_a_conversation_are_agreement_and_disagreement(tmp_path):
    dice = random.Random(2)
    votes = {(p, c): dice.choice([1, 1, -1, 0]) for p in range(12) for c in range(8)}
    head = ("timestamp", "datetime", "comment-id", "voter-id", "vote")
    rows = [
        (1700000000 + 61 * k, f"Tue Nov 14 22:13:{k % 60:02} UTC 2023", c, p, vote)
        for k, ((p, c), vote) in enumerate(votes.items())
    ]
    reading = io.read(written(tmp_path / "votes.csv", [head, *rows]), encode="auto")
    seen = reading.observations
    assert (seen.row_labels.tolist(), seen.n_columns) == ([str(p) for p in range(12)], 8)
    expected = {1: 1.0, -1: 0.0, 0: np.nan}
    dense = seen.to_dense()
    for (p, c), vote in votes.items():
        np.testing.assert_equal(dense[p, c], expected[vote])
    assert "1 are ones, -1 are zeros, 0 are missing" in reading.guess


def test_users_are_rows_whatever_the_order_of_columns(tmp_path):
    head = ("GroupName", "GroupId", "UserPrincipalName", "DisplayName", "UserType")
    rows = [(right, f"id-{right}", f"{u}@x.org", name, "Member") for u, name, _, right in access()]
    seen = io.read(written(tmp_path / "members.csv", [head, *rows]), encode="auto").observations
    assert held(seen) == {(row[2], row[0]) for row in rows}


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_categories_beside_yes_and_no_are_no_triples(tmp_path, suffix):
    """The same two categories have both ones and zeros, so they are no row and no column."""
    dice = random.Random(3)
    names = ("Gender", "Region", "Smoker", "Owns a car")
    kinds = ("Female", "Male"), ("North", "South", "West"), (0, 1), (0, 1)
    rows = [tuple(map(dice.choice, kinds)) for _ in range(40)]
    path = tmp_path / f"t.{suffix}"
    if suffix == "csv":
        written(path, [names, *rows])
    else:
        pl.DataFrame(rows, schema=names, orient="row").write_parquet(path)
    reading = io.read(path, encode="auto")
    assert [line.kind for line in reading.plan] == ["category", "category", "yes/no", "yes/no"]
    assert 'pass `layout="triples"` with `duplicates="majority"`' in reading.guess
    assert "given as both 0 and 1" in message(path)  # without encoding, these can only be triples
    pairs = written(
        tmp_path / "votes.csv", [("user", "item", "value"), ("a", "b", 0), ("a", "b", 1)]
    )
    assert "given as both 0 and 1" in message(pairs, encode="auto")
