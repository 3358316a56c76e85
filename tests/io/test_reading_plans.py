"""Files as people have them, each beside the plan by which it should be read.

A file that is misread is added to the folder `plans` with the plan that it should have; nothing
else needs to be written.
"""

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from commands import run_here
from read_files import message

from boolweave import TableEncoder, io
from boolweave.encoding.plan import KINDS, Plan
from boolweave.encoding.scales import in_order
from boolweave.io.dialect import Dialect

FOLDER = Path(__file__).parent / "plans"
FILES = sorted(path for path in FOLDER.iterdir() if not path.name.endswith(".plan.csv"))


def plan_beside(path):
    return Plan.read_csv(path.with_name(f"{path.stem}.plan.csv"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_file_has_the_expected_plan(path):
    reading = io.read(path, encode="auto")
    assert reading.plan.columns == plan_beside(path).columns


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_file_is_read_alike_by_its_plan(path):
    first = io.read(path, encode="auto").observations
    again = io.read(path, encode="auto", plan=plan_beside(path)).observations
    np.testing.assert_array_equal(again.to_dense(), first.to_dense())
    for axis in ("row_labels", "column_labels"):
        np.testing.assert_array_equal(getattr(again, axis), getattr(first, axis))


PIECES = b"", b",", b"\n", b'"', b"#", b"\xff", b"-9", b"1e999", b"0", b"Yes", b"|", b"5'3\""


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_file_is_read_alike_by_its_plan_or_refused(tmp_path, seed):
    dice = random.Random(seed)
    content = dice.choice(FILES).read_bytes()
    for _ in range(dice.randint(1, 4)):
        start = dice.randrange(len(content) + 1)
        stop = start + dice.choice([0, 1, 20, 400])
        content = content[:start] + dice.choice(PIECES) + content[stop:]
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    try:
        reading = io.read(path, encode="auto")
    except io.FileError:
        return
    if reading.encoded is not None:
        plan = Plan.of_csv(reading.plan.as_csv())
        assert plan.columns == reading.plan.columns
        again = io.read(path, encode="auto", plan=plan).observations
        np.testing.assert_array_equal(again.to_dense(), reading.observations.to_dense())


def test_one_level_has_no_order():
    assert in_order(["A"], "grade") is None and in_order(["B", "A"], "grade") == ["B", "A"]


def test_the_corpus_has_every_kind_of_column():
    assert {line.kind for path in FILES for line in plan_beside(path)} == set(KINDS)


@pytest.fixture
def survey(tmp_path):
    path = tmp_path / "survey.csv"
    path.write_bytes((FOLDER / "survey.csv").read_bytes())
    return path


def run(*arguments, cwd, code=0):
    done = run_here(*arguments, cwd=cwd)
    assert done.returncode == code, done.stderr.decode()
    return done


def test_info_prints_and_writes_the_plan(survey):
    done = run("info", "survey.csv", "--plan", "plan.csv", cwd=survey.parent)
    written = Plan.read_csv(survey.with_name("plan.csv"))
    assert written.columns == plan_beside(FOLDER / "survey.csv").columns
    assert str(written) in done.stdout.decode()
    columns = json.loads(run("info", "survey.csv", "--json", cwd=survey.parent).stdout)["columns"]
    assert columns == [line.as_dict() for line in written]


def test_commands_obey_an_edited_plan(survey):
    run("info", "survey.csv", "--plan", "plan.csv", cwd=survey.parent)
    plan = survey.with_name("plan.csv")
    lines = pl.read_csv(plan, infer_schema_length=0)
    gender = pl.col("name") == "Gender"
    lines.with_columns(
        kind=pl.when(gender).then(pl.lit("yes/no")).otherwise("kind"),
        levels=pl.when(gender).then(pl.lit("Male | Female")).otherwise("levels"),
        encoding=pl.when(gender).then(pl.lit("one column"))
        .when(pl.col("name") == "Location").then(pl.lit("left out")).otherwise("encoding"),
    ).write_csv(plan)  # fmt: skip
    quick = ("-k", "2", "--method", "max-sum", "--jobs", "1", "--max-time", "1", "--json")
    done = run("factorize", "survey.csv", "--plan", "plan.csv", *quick, cwd=survey.parent)
    assert json.loads(done.stdout)["columns"] == 27 - 1 - 4
    encoded = io.read(survey, encode="auto", plan=Plan.read_csv(plan)).observations
    table = pl.read_csv(survey, infer_schema_length=0)
    j = encoded.column_labels.tolist().index("Gender")
    np.testing.assert_array_equal(encoded.to_dense()[:, j], table["Gender"] == "Female")


def test_options_override_single_columns_of_a_plan(survey):
    plan = plan_beside(FOLDER / "survey.csv")
    names = io.read(survey, encode="Age=category", plan=plan).observations.column_labels.tolist()
    assert "Age = 18-29" in names and "Age ≥ 30" not in names
    assert "How often do you fly? ≥ Once a year or less" in names


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("Gender,", "Sex,", "expected column 6 to be 'Sex', got 'Gender'"),
        ("Gender,category", "Gender,sort", "line 7: expected a kind among id, yes/no"),
        ("RespondentID,id,,,row labels,,\r\n", "", "expected column 1 to be 'Do you have"),
        ("Gender,category,Female | Male,,levels", "Gender,category,,,levels", "column 'Gender'"),
        ("Gender,category,Female | Male,,levels", "Gender,id,,,row labels", "one column of row la"),
        ("name,kind", "who,kind", "expected a plan with the columns name, kind"),
    ],
)
def test_a_plan_that_does_not_fit_is_one_clear_error(survey, old, new, words):
    run("info", "survey.csv", "--plan", "plan.csv", cwd=survey.parent)
    plan = survey.with_name("plan.csv")
    text = plan.read_bytes().decode("utf-8")
    assert old in text
    plan.write_bytes(text.replace(old, new, 1).encode("utf-8"))
    done = run("factorize", "survey.csv", "--plan", "plan.csv", cwd=survey.parent, code=2)
    said = done.stderr.decode()
    assert words in said and len(said.splitlines()) == 1


def test_a_plan_that_is_no_text_is_one_clear_error(survey):
    survey.with_name("plan.csv").write_bytes(b"name,kind\n\xf4\x00,id\n")
    done = run("factorize", "survey.csv", "--plan", "plan.csv", cwd=survey.parent, code=2)
    assert done.stderr.decode() == (
        "boolweave: --plan: plan.csv is not text in UTF-8; save the plan as CSV in UTF-8\n"
    )


def test_only_wide_tables_have_plans(tmp_path, survey):
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("user,item\n" + "".join(f"u{i % 7},i{i % 5}\n" for i in range(30)))
    done = run("info", "pairs.csv", "--plan", "plan.csv", cwd=tmp_path, code=2)
    assert "--plan: expected a wide table" in done.stderr.decode()
    assert json.loads(run("info", "pairs.csv", "--json", cwd=tmp_path).stdout)["columns"] == []
    missing = run("info", "survey.csv", "--plan", "no/such/plan.csv", cwd=tmp_path, code=2)
    assert "no/such/plan.csv" in missing.stderr.decode()


def test_zeros_and_ones_have_a_plan(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("name,tax,war,note\nAnn,1,,x\nBo,0,1,y\nCy,1,1,z\n")
    reading = io.read(path, encode="auto", dialect=io.dialect.Dialect(drop=("note",)))
    assert [(line.name, line.kind, line.encoding) for line in reading.plan] == [
        ("name", "id", "row labels"), ("tax", "yes/no", "one column"),
        ("war", "yes/no", "one column"), ("note", "text", "left out"),
    ]  # fmt: skip
    again = io.read(path, plan=reading.plan).observations
    np.testing.assert_array_equal(again.to_dense(), reading.observations.to_dense())


def test_an_encoder_obeys_the_plan_of_another(tmp_path):
    table = pl.read_csv(FOLDER / "survey.csv", infer_schema_length=0)
    with pytest.warns(UserWarning, match=r"left out|taken as missing"):
        first = TableEncoder().fit(table)
    again = TableEncoder(plan=first.plan_).fit(table)
    assert again.plan_.columns == first.plan_.columns
    np.testing.assert_array_equal(again.transform(table), first.transform(table))
    first.plan_.write_csv(tmp_path / "plan.csv")
    kept = TableEncoder(plan=tmp_path / "plan.csv").fit(table)
    assert kept.plan_.columns == first.plan_.columns
    with pytest.raises(ValueError, match="expected 11 columns, got 10"):
        TableEncoder(plan=first.plan_).fit(table[:, :10])


def test_repeated_names_are_numbered_and_crosses_are_checkboxes(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("who,a,a\nAnn,x,\nBo,,x\nCy,,\n")
    reading = io.read(path, encode="auto")
    assert reading.observations.column_labels.tolist() == ["a", "a (2)"]
    np.testing.assert_array_equal(reading.observations.to_dense(), [[1, 0], [0, 1], [0, 0]])
    assert "got 'x'" in message(path, encode="never")


def test_dates_of_other_files_are_read_in_the_form_of_the_plan(tmp_path):
    """A day that could be a month is a day where the plan says so, and parts can be changed."""
    days = [f"{day:02}/03/2024" for day in range(1, 29)]
    path, other = tmp_path / "t.csv", tmp_path / "other.csv"
    for file, dates in ((path, days), (other, days[1:12])):
        lines = [f"p{n},{day},{'no' if n % 2 else 'yes'},3{n % 4}" for n, day in enumerate(dates)]
        file.write_text("\n".join(["who,when,likes,age", *lines, ""]))
    plan = io.read(path, encode="auto").plan
    assert (plan["when"].levels, plan["when"].encoding) == (("day/month/year",), "parts:weekday")
    first = io.read(other, encode="auto").plan["when"]
    assert first.levels == ("month/day/year",)  # nothing in it says otherwise
    again = io.read(other, encode="auto", plan=plan).observations
    expected = io.read(path, encode="auto").observations
    assert again.column_labels.tolist() == expected.column_labels.tolist()
    np.testing.assert_array_equal(again.to_dense()[:, :7], expected.to_dense()[1:12, :7])

    def with_dates(**changes):
        return Plan(tuple(replace(c, **changes) if c.kind == "date" else c for c in plan))

    for parts, words in (
        ("parts:weekday=Saturday,Sunday", None),
        ("parts:month;weekday=Monday,other;hour=bins:9,17", None),
        ("parts:year=thresholds:2023|2024", None),
        ("parts:century", "expected parts of dates such as 'parts:month;weekday"),
        ("parts:hour", "expected parts of dates such as"),
    ):
        edited = with_dates(encoding=parts)
        if words is not None:
            assert words in message(path, encode="auto", plan=edited)
            continue
        reading = io.read(path, encode="auto", plan=edited)
        assert reading.plan.columns == edited.columns
    wrong = with_dates(levels=("year-month-day",))
    assert "does not hold dates 'year-month-day'" in message(path, encode="auto", plan=wrong)


def test_yes_and_no_in_other_languages_are_written_again(tmp_path):
    path = tmp_path / "t.csv"
    cells = ["Oui", "Non", "Oui", "", "Non", "Oui"] * 2
    path.write_text("qui,café,prix\n" + "".join(f"p{i},{c},{i}\n" for i, c in enumerate(cells)))
    (line,) = [line for line in io.read(path, encode="auto").plan if line.name == "café"]
    assert (line.kind, line.levels) == ("yes/no", ("Non", "Oui"))
    with pytest.warns(UserWarning, match="left out"):
        encoder = TableEncoder().fit(pl.read_csv(path))
    again = encoder.inverse_transform(np.array([[1.0], [0.0]]))
    assert again["café"].to_list() == ["Oui", "Non"]


def test_votes_without_the_columns_that_describe_participants(tmp_path):
    """A statement with which all agree is constant; the others are votes nevertheless."""
    path = tmp_path / "votes.csv"
    rows = [
        f"p{i},{i % 3},{i % 2 * 2 - 1},{1 - i % 3 % 2 * 2},{'' if i % 5 else 1}" for i in range(20)
    ]
    path.write_text("\n".join(["participant,n-votes,0,1,2", *rows, ""]))
    reading = io.read(path, encode="auto", dialect=Dialect(drop=("n-votes",)))
    kinds = [line.kind for line in reading.plan]
    assert kinds == ["id", "text", "yes/no", "yes/no", "constant"]
    assert reading.observations.to_dense()[:4, 0].tolist() == [0, 1, 0, 1]
