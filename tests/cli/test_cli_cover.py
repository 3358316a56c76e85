"""The command cover as a process: tables, JSON, sentences on a terminal, bad input."""

import json
import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from terminals import on_terminal
from test_cli import answer, refused, run

from boolweave import Observations, cover
from boolweave.cli.commands.covering import _in_sentences, _summary
from boolweave.engine.result import Ending

GRANTS = "user,permission\n" + "".join(
    f"{user},{permission}\n"
    for user, permissions in [
        ("Ann", "read write"),
        ("Bo", "read write deploy log"),
        ("Cy", "deploy log"),
        ("Di", "read"),
    ]
    for permission in permissions.split()
)
WIDE = "user,read,write,deploy\nAnn,1,1,0\nBo,1,,0\nCy,0,0,1\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "grants.csv").write_text(GRANTS)
    (tmp_path / "wide.csv").write_text(WIDE)
    return tmp_path


def test_roles_changes_and_curve(folder):
    done = run(
        "cover", "grants.csv", "--coverage", 0.8, "-o", "roles.csv", "--changes", "changes.csv",
        "--curve", "curve.parquet", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    assert "2 roles cover 88.9% of 9 ones, 0 false ones" in done.stderr.decode()
    roles = pl.read_csv(folder / "roles.csv")
    assert roles.columns == ["role", "axis", "label"]
    first = roles.filter(role=1)
    assert first.filter(axis="row")["label"].to_list() == ["Ann", "Bo"]
    assert first.filter(axis="column")["label"].to_list() == ["read", "write"]
    assert pl.read_csv(folder / "changes.csv").rows() == [("Di", "loses", "read")]
    curve = pl.read_parquet(folder / "curve.parquet")
    assert curve["roles"].to_list() == [1, 2]
    assert curve["coverage"].to_list() == pytest.approx([4 / 9, 8 / 9])


def test_json(folder):
    found = json.loads(answer("cover", "grants.csv", "--false-ones", 1, "--json", cwd=folder))
    assert (found["n_roles"], found["coverage"], found["false_ones"]) == (2, 1.0, 1)
    assert found["changes"] == [{"row": "Di", "change": "gains", "column": "write"}]
    assert [role["columns"] for role in found["roles"]] == [["read", "write"], ["deploy", "log"]]
    assert [point["roles"] for point in found["curve"]] == [1, 2]
    exact = json.loads(answer("cover", "grants.csv", "--json", cwd=folder))
    assert exact["n_roles"] == exact["bound"] == 3 and not exact["changes"]


def test_missing_entries_of_a_wide_table_may_be_covered(folder):
    found = json.loads(answer("cover", "wide.csv", "--json", cwd=folder))
    assert found["n_roles"] == 2 and found["false_ones"] == 0
    assert found["roles"][0]["rows"] == ["Ann", "Bo"]


def test_fixed_roles_and_limits(folder):
    (folder / "fixed.csv").write_text("role,permission\nops,log\nops,deploy\nops,read\n")
    how = ("--fixed", "fixed.csv", "--max-rows", 2, "--max-columns", 1, "--json")
    found = json.loads(answer("cover", "grants.csv", *how, cwd=folder))
    first, *others = found["roles"]
    assert first["fixed"] and set(first["columns"]) == {"read", "deploy", "log"}
    assert first["rows"] == ["Bo"]
    assert all(len(role["rows"]) <= 2 and len(role["columns"]) <= 1 for role in others)
    assert found["coverage"] == 1


def test_names_of_fixed_roles(folder):
    (folder / "pairs.csv").write_text("role,permission\nops,log\nops,deploy\n")
    (folder / "wide-roles.csv").write_text("role,read,write,deploy,log\nops,0,0,1,1\n")
    for name in ("pairs.csv", "wide-roles.csv"):
        how = ("--fixed", name, "--report", "page.html", "-o", "roles.csv")
        assert run("cover", "grants.csv", *how, cwd=folder).returncode == 0
        roles = pl.read_csv(folder / "roles.csv")
        assert roles.columns == ["role", "name", "axis", "label"]
        assert set(roles.select("role", "name").rows()) == {(1, "ops"), (2, None), (3, None)}
        assert 'class="name" value="ops"' in (folder / "page.html").read_text()
        found = json.loads(answer("cover", "grants.csv", "--fixed", name, "--json", cwd=folder))
        assert [(role["name"], role["fixed"]) for role in found["roles"]] == [
            ("ops", True), (None, False), (None, False),
        ]  # fmt: skip


def test_sentences_name_fixed_roles():
    fixed = Observations.from_dense([[0, 1]], row_labels=["ops"])
    found = cover([[1, 1]], fixed=fixed, closed=True, random_state=0)
    first, _, second, *_ = _in_sentences(found)
    assert first == "Role 1 (ops, fixed): 1 row (row 1) has 1 column (column 2)."
    assert second == "Role 2: 1 row (row 1) has 2 columns (column 1, column 2)."
    nameless = _in_sentences(cover([[1, 1]], fixed=[[0, 1]], closed=True, random_state=0))
    assert nameless[0].startswith("Role 1 (fixed): ")


def test_files_that_list_entries_are_not_made_dense(folder):
    """Two million rows and as many columns."""
    n = 2_000_000
    text = f"%%MatrixMarket matrix coordinate pattern general\n{n} {n} 30000\n"
    lines = [f"{200 * (i // 3) + 1} {(1, 77, n)[i % 3]}\n" for i in range(30000)]
    (folder / "big.mtx").write_text(text + "".join(lines))
    found = json.loads(answer("cover", "big.mtx", "--json", "-q", cwd=folder))
    assert found["n_roles"] == 1 and found["ones"] == 30000
    assert found["roles"][0]["columns"] == ["column 1", "column 77", f"column {n}"]


def test_transactions_and_pairs_agree(folder):
    table = np.random.default_rng(0).random((20, 12)) < 0.4
    (folder / "items.fimi").write_text(
        "".join(" ".join(str(j) for j in np.flatnonzero(row)) + "\n" for row in table)
    )
    (folder / "pairs.csv").write_text(
        "user,item\n" + "".join(f"u{i},i{j}\n" for i, j in np.argwhere(table))
    )
    fimi, pairs = (
        json.loads(answer("cover", name, "--json", cwd=folder))
        for name in ("items.fimi", "pairs.csv")
    )
    assert fimi["n_roles"] == pairs["n_roles"] and fimi["ones"] == pairs["ones"] == table.sum()


def test_sentences_on_a_terminal(folder):
    shown = on_terminal("cover", "grants.csv", "-k", 1, cwd=folder)
    assert "Role 1: 2 rows (Ann, Bo) have 2 columns (read, write).\n" in shown
    assert "It covers 44.4% of the ones.\n" in shown
    assert "Di loses read.\n" in shown


def test_rules(folder):
    (folder / "conflicts.csv").write_text("read,deploy\nwrite, log\n")
    rules = ("--min-rows", 2, "--max-roles-per-row", 1, "--conflicts", "conflicts.csv")
    done = run("cover", "grants.csv", *rules, "--objective", "assignments", "--json", cwd=folder)
    found = json.loads(done.stdout)
    assert [role["rows"] for role in found["roles"]] == [["Bo", "Cy"], ["Ann", "Di"]]
    assert found["conflicts"] == 2 and found["objective"] == "assignments"
    changes = {(line["row"], line["change"], line["column"]) for line in found["changes"]}
    assert ("Ann", "loses", "write") in changes and ("Bo", "should lose", "deploy") in changes
    said = done.stderr.decode()
    assert "the rules leave 3 ones uncovered" in said and "1 row has conflicting columns" in said
    closed = json.loads(answer("cover", "grants.csv", "--closed", "--json", cwd=folder))
    assert closed["complexity"] > closed["n_roles"] + 9


def test_rules_that_leave_ones_uncovered():
    found = cover([[1, 1, 0], [1, 1, 0], [0, 0, 1]], min_rows=2, random_state=0)
    assert "; the rules leave 1 one uncovered: see the changes" in _summary(found)
    assert ("row 3", "loses", "column 3") in found.changes().rows()


EXPORT = """UserID,Name,Department,City,Entitlement
u1,Ann,Sales,Berlin,crm
u1,Ann,Sales,Berlin,mail
u2,Bo,Sales,Berlin,crm
u2,Bo,Sales,Berlin,mail
u3,Cy,Sales,Rome,mail
u4,Di,IT,Rome,mail
u4,Di,IT,Rome,build
u5,Ed,IT,Berlin,mail
u5,Ed,IT,Berlin,build
"""


def test_an_export_with_attributes(folder):
    (folder / "export.csv").write_text(EXPORT)
    (folder / "old.csv").write_text("role,permission\nmailer,mail\nmailer,build\nmailer,crm\n")
    words = (
        "cover", "export.csv", "--columns", "UserID,Entitlement", "--row-attributes", "export.csv",
        "--existing", "old.csv",
    )  # fmt: skip
    files = ("--review", "review.csv", "-o", "roles.csv", "--report", "page.html")
    done = run(*words, *files, cwd=folder)
    assert done.returncode == 0, done.stderr.decode()
    assert '<td class="text">mailer</td>' in (folder / "page.html").read_text()
    review = {line["description"]: line for line in pl.read_csv(folder / "review.csv").to_dicts()}
    assert set(review) == {"Sales in Berlin: 2 of 2", "IT: 2 of 2", "Cy: 1 of 1"}
    assert review["IT: 2 of 2"]["existing_role"] == "mailer"
    assert review["IT: 2 of 2"]["columns_removed"] == "crm"
    roles = pl.read_csv(folder / "roles.csv")
    assert set(roles["name"]) == {"Sales in Berlin", "IT", "Cy"}
    found = json.loads(answer(*words, "--json", cwd=folder))
    assert [line["description"] for line in found["review"]] == list(review)


def test_sentences_about_one_row_and_many_columns():
    table = np.zeros((2, 5001))
    table[0, :5000], table[1, 5000] = 1, 1
    found = cover(table, n_components=1, random_state=0)
    first = _in_sentences(found)[0]
    assert first.startswith("Role 1: 1 row (row 1) has 5,000 columns (column 1, column 2, ")
    assert first.endswith(", column 8, ...).")
    assert _summary(found).startswith("1 role covers 99.9% of 5,001 ones")
    assert _summary(found).endswith("; the requested cover needs at least 2 roles")
    every = cover(table, random_state=0)
    assert _summary(every).startswith("2 roles cover 100.0% of 5,001 ones")
    assert "interrupted" not in _summary(every)
    assert _summary(replace(every, ending=Ending.INTERRUPTED)).endswith("the best cover so far")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--coverage", 0], "coverage must be a fraction of the ones"),
        (["--false-ones", "few"], "--false-ones: expected a number, got 'few'"),
        (["--max-rows", 0], "--max-rows"),
        (["--fixed", "wrong.csv"], "fixed has the column 'fly', which the matrix does not have"),
        (["--changes", "changes.docx"], "--changes: expected a name that ends in"),
        (["--conflicts", "wrong.csv"], "conflicts: there is no column named 'role'"),
        (["--conflicts", "no.csv"], "no.csv"),
        (["--min-rows", 3, "--max-rows", 2], "min_rows must be at most max_rows, 2, but got 3"),
        (["--existing", "wrong.csv"], "fixed has the column 'fly'"),
        (["--row-attributes", "wrong.csv"], "row_attributes must have a value for each of the 4"),
        (["--curve", "no/curve.csv"], "--curve: there is no folder"),
    ],
)  # fmt: skip
def test_bad_input(folder, arguments, message):
    (folder / "wrong.csv").write_text("role,permission\nops,fly\n")
    assert message in refused("cover", "grants.csv", *arguments, cwd=folder)


def test_help_speaks_of_roles(folder):
    shown = answer("cover", "--help", cwd=folder).replace("A role is a factor", "")
    assert "fewest roles" in shown and "factor" not in shown.lower()


def test_report(folder):
    words = ["cover", "grants.csv", "--coverage", "0.8", "-o", "r.csv", "--report", "r.html"]
    done = run(*words, cwd=folder)
    assert done.returncode == 0 and b"report: r.html" in done.stderr
    page = (folder / "r.html").read_text("utf-8")
    assert "<h1>grants.csv</h1>" in page and "Two roles cover 88.9% of the 9 ones" in page
    assert "One of the ones is not covered, as the required coverage allows." in page
    assert '<strong class="trouble">' not in page
    shown = re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL)
    assert 'value="Role 1"' in shown and "<dt>fewest roles</dt>" in shown
    texts = re.sub(r"<[^>]*>", " ", shown)
    assert "factor" not in texts.lower()
    assert f"<code>boolweave {' '.join(words)}</code>" in page
    assert "--report: expected a name" in refused(*words[:-1], "r.pdf", cwd=folder)
