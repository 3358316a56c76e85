"""Every command, on good files and bad ones."""

import json
import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from commands import run_here as run
from commands import run_process
from hypothesis import given, settings
from hypothesis import strategies as st
from terminals import interrupt_when_shown

import boolweave
from boolweave.cli.commands import filling
from boolweave.datasets import make_boolean
from boolweave.engine import footprint
from boolweave.fit import memory

LIKES = """name,tea,rum,gin,milk,cake
Ann,1,,0,1,1
Bo,yes,no,no,yes,yes
Cy,0,1,1,NA,0
Di,n,y,y,n,?
Ed,1,0,0,1,1
Fay,0,1,?,0,0
"""
COMMANDS = (
    "factorize", "complete", "cover", "predict", "recommend", "explain", "rank", "report",
    "explore", "compare", "decode", "group-test", "info", "demo", "transform", "pools",
)  # fmt: skip
QUICK = ("-k", "2", "--method", "max-sum", "--jobs", "1")


def answer(*arguments, cwd, stdin=None):
    done = run(*arguments, cwd=cwd, stdin=stdin)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def refused(*arguments, cwd, stdin=None, how=run):
    before = sorted(path.name for path in cwd.iterdir())
    done = how(*arguments, cwd=cwd, stdin=stdin)
    text = done.stderr.decode()
    assert done.returncode == 2, text
    assert done.stdout == b""
    lines = [line for line in text.splitlines() if line.startswith("boolweave: ")]
    assert len(lines) == 1 and "Traceback" not in text
    assert sorted(path.name for path in cwd.iterdir()) == before
    return lines[0]


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A folder with a table, a model of it, its factors and its report, made by one command."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "likes.csv").write_text(LIKES)
    done = run_process(
        "factorize", "likes.csv", *QUICK, "--model", "likes.npz", "--report", "likes.html",
        "-o", "factors.csv", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == b""
    assert b"first column holds labels" in done.stderr
    assert b"\x1b" not in done.stderr and b"iteration" not in done.stderr  # nobody watches it
    return folder


# ---------------------------------------------------------------- good files


def test_factorize_writes_factors_model_and_report(shop):
    factors = pl.read_csv(shop / "factors.csv")
    assert factors.columns == ["factor", "axis", "label", "probability"]
    groups = {
        frozenset(part["label"].to_list())
        for _, part in factors.filter(pl.col("axis") == "row").group_by("factor")
    }
    assert groups == {frozenset({"Ann", "Bo", "Ed"}), frozenset({"Cy", "Di", "Fay"})}
    assert boolweave.load(shop / "likes.npz").components_.shape == (2, 5)
    assert (shop / "likes.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert not list(shop.glob(".*"))


def test_factorize_full_and_json(shop):
    done = answer("factorize", "likes.csv", *QUICK, "--json", "--full", "-o", "all.csv", cwd=shop)
    found = json.loads(done)
    assert found["n_components"] == 2 and found["accuracy"] == 1.0
    assert {frozenset(f["columns"]) for f in found["factors"]} == {
        frozenset({"tea", "milk", "cake"}), frozenset({"rum", "gin"})
    }  # fmt: skip
    full = pl.read_csv(shop / "all.csv")
    assert full.height == 2 * (6 + 5)
    assert full["member"].sum() == 11


def test_complete_in_every_form(shop):
    text = answer("complete", "-", *QUICK, cwd=shop, stdin=LIKES.encode())
    lines = text.splitlines()
    assert lines[0] == "name,tea,rum,gin,milk,cake,filled by boolweave"
    assert lines[1] == "Ann,1,0,0,1,1,rum" and lines[2] == "Bo,yes,no,no,yes,yes,"
    assert lines[6] == "Fay,0,1,1,0,0,gin"
    holes = json.loads(answer("complete", "likes.csv", *QUICK, "--json", "-q", cwd=shop))["filled"]
    assert [(h["row"], h["column"], h["value"]) for h in holes] == [
        ("Ann", "rum", 0), ("Cy", "milk", 0), ("Di", "cake", 0), ("Fay", "gin", 1)
    ]  # fmt: skip
    done = run(
        "complete", "likes.csv", *QUICK, "--fill", "probabilities", "-o", "p.parquet", "-q",
        cwd=shop,
    )  # fmt: skip
    assert done.returncode == 0 and done.stderr == b""
    chance = pl.read_parquet(shop / "p.parquet")
    assert chance.filter(pl.col("row") == "Fay")["gin"].item() > 0.5
    both = answer("complete", "likes.csv", *QUICK, "--fill", "both", "--format", "tsv", cwd=shop)
    assert both.splitlines()[0] == "row\tcolumn\tvalue\tprobability"


@pytest.mark.parametrize(
    "arguments",
    [
        ["complete", "likes.csv", *QUICK],
        ["info", "-"],
        ["explain", "likes.npz", "Ann", "te"],
    ],
)
def test_the_same_as_in_a_process(shop, arguments):
    """What the tests call and what the shell calls print the same bytes and end the same way."""
    here, there = (how(*arguments, cwd=shop, stdin=LIKES.encode()) for how in (run, run_process))
    assert (here.returncode, here.stdout, here.stderr) == (
        there.returncode, there.stdout, there.stderr,
    )  # fmt: skip


def test_held_out_entries_are_judged(shop):
    found = json.loads(
        answer("complete", "likes.csv", *QUICK, "--hold-out", "0.2", "--json", cwd=shop)
    )
    assert found["held_out"] == 5 and 0 <= found["held_out_accuracy"] <= 1


def test_predict(shop):
    pairs = b"row,column\nAnn,rum\nFay,gin\n"
    table = answer("predict", "likes.npz", "-", cwd=shop, stdin=pairs).splitlines()
    assert table[0] == "row,column,value,probability"
    assert table[1].startswith("Ann,rum,0,") and table[2].startswith("Fay,gin,1,")
    excel = b'sep=;\r\nrow;column\r\n# two guests\r\n"Ann";rum\r\n\r\nFay;gin\r\n'
    assert answer("predict", "likes.npz", "-", cwd=shop, stdin=excel).splitlines() == table
    one = json.loads(
        answer("predict", "likes.npz", "--row", "Ann", "--column", "tea", "--json", cwd=shop)
    )
    assert one[0]["value"] == 1 and one[0]["probability"] > 0.5
    assert "did you mean 'Ann'" in refused(
        "predict", "likes.npz", "--row", "Anne", "--column", "tea", cwd=shop
    )
    assert "PAIRS" in refused("predict", "likes.npz", cwd=shop)


def test_recommend_and_explain(shop):
    both = ("recommend", "likes.npz", "Fay", "Cy", "-n", "1", "--json")
    done = run(*both, cwd=shop, text=True)
    assert [line["row"] for line in json.loads(done.stdout)] == ["Fay"]
    assert "nothing above 50% for Cy; --least 0 shows what is most probable" in done.stderr
    found = json.loads(answer(*both, "--least", "0", cwd=shop))
    assert [(r["row"], r["rank"], r["column"]) for r in found] == [
        ("Fay", 1, "gin"), ("Cy", 1, "milk")
    ]  # fmt: skip
    assert all(line["why"].startswith("because ") for line in found)
    assert answer("recommend", "likes.npz", "--least", "0", cwd=shop).count("\n") == 5
    text = answer("explain", "likes.npz", "Ann", "tea", cwd=shop)
    assert "Ann, tea: 1" in text and "because factor" in text
    reason = json.loads(answer("explain", "likes.npz", "Fay", "gin", "--json", cwd=shop))
    assert reason["observed"] is None and reason["value"] == 1
    assert set(reason["reasons"][0]["rows"]) == {"Cy", "Di", "Fay"}


def test_info(shop):
    text = answer("info", "likes.csv", cwd=shop)
    assert "comma-separated, wide" in text and "26" in text
    found = json.loads(answer("info", "likes.npz", "--json", cwd=shop))
    assert (found["n_rows"], found["n_columns"], found["observed"]) == (6, 5, 26)
    needed = memory.FitSize((6, 5), 26, 10, n_init=footprint.N_STARTS).n_bytes
    assert found["memory_bytes"] == needed
    assert found["row_labels"] == ["Ann", "Bo", "Cy"] and not any(" " in key for key in found)
    assert memory.format_bytes(needed) in text
    assert "Ann, Bo, Cy, ..." in text
    (shop / "three.csv").write_text("name,a,b\nx,1,0\ny,0,1\nz,1,1\n")
    assert "x, y, z\n" in answer("info", "three.csv", cwd=shop)


def test_info_says_which_columns_are_encoded_or_left_out(tmp_path):
    lines = [f"animal {i % 79},{i % 2},{i % 5 + 2}" for i in range(80)]
    (tmp_path / "zoo.csv").write_text("\n".join(lines))
    done = run("info", "zoo.csv", cwd=tmp_path)
    assert done.returncode == 0 and b"left out: 1 (79 different values" in done.stderr


def test_usage_shows_each_argument_once_and_in_capitals():
    for command in COMMANDS:
        lines = run(command, "--help").stdout.decode().splitlines()
        usage = next(line for line in lines if "Usage: " in line).split("[OPTIONS]")[1]
        assert not any(doubled in usage for doubled in ("[[", "...]", "...}")), usage
        assert usage == usage.upper()


def test_rank(shop, tmp_path):
    planted = make_boolean(40, 30, 2, flip=0.01, random_state=0).observations.to_dense()
    np.savetxt(tmp_path / "m.csv", planted, fmt="%d", delimiter=",")
    found = json.loads(answer("rank", "m.csv", "--max-rank", "3", "--json", "-q", cwd=tmp_path))
    assert [row["rank"] for row in found["ranks"]] == [1, 2, 3]
    assert found["best"] == 2


def test_report_of_a_model_with_held_out_entries(shop):
    (shop / "truth.csv").write_text("who,what,like\nAnn,rum,0\nFay,gin,1\n")
    done = run("report", "likes.npz", "-o", "page.html", "--held-out", "truth.csv", cwd=shop)
    assert done.returncode == 0, done.stderr.decode()
    assert "Calibration" in (shop / "page.html").read_text(encoding="utf-8")


def test_every_command_shows_an_example():
    for command in COMMANDS:
        done = run(command, "--help")
        assert done.returncode == 0
        assert f"Example: boolweave {command}" in " ".join(done.stdout.decode().split())


def test_help_and_shell_completion():
    done = run("--help")
    assert all(command in done.stdout.decode() for command in COMMANDS)
    assert b"--install-completion" in done.stdout
    shell = {
        "_BOOLWEAVE_COMPLETE": "complete_bash",
        "COMP_WORDS": "boolweave fac",
        "COMP_CWORD": "1",
    }
    completed = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv[0] = 'boolweave'\n"
         "from boolweave.cli import main; main()"],
        env={**os.environ, **shell}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert completed.stdout.split() == ["factorize"]


# ---------------------------------------------------------------- bad files and options


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("name,a,b\nx,1,0\ny,1,2\n", "bad.csv, line 3, column 'b'"),
        ("name,a,b\nx,1\n", "bad.csv, line 2: expected 3 field(s)"),
        ("", "bad.csv: expected a table, got an empty file"),
    ],
)
def test_bad_files_are_one_line_and_nothing_is_written(tmp_path, content, words):
    (tmp_path / "bad.csv").write_text(content)
    assert words in refused(
        "factorize", "bad.csv", *QUICK, "--model", "m.npz", "-o", "f.csv", cwd=tmp_path
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["complete", "none.csv"], "no such file"),
        (["complete", "likes.csv", "-o", "x.docx"], "--format"),
        (["complete", "likes.csv", "-o", "no/such/x.csv"], "no folder"),
        (["complete", "likes.csv", "--format", "npz"], "--output"),
        (["factorize", "likes.csv", "-k", "many"], "whole number or auto or few"),
        (["factorize", "likes.csv", "-k", "0"], "--n-components: expected a whole number"),
        (["factorize", "none.csv", "--damping", "7"], "--damping: expected a number in"),
        (["complete", "none.csv", "--noise", "7"], "--noise: expected a number in"),
        (["factorize", "likes.csv", "--nois", "0.1"], "did you mean --noise"),
        (["info", "likes.csv", "--no-heder"], "did you mean --no-header"),
        (["factorize", "likes.csv", "-k", "2", "--noise", "3"], "noise"),
        (["factorize", "likes.csv", "--model", "m.csv"], ".npz"),
        (["factorize", "likes.csv", "--report", "r.pdf"], ".html"),
        (["info", "likes.csv", "--above", "much"], "--above"),
        (["info", "likes.csv", "--columns", "x,y,z"], "no column 'x'"),
        (["info", "likes.csv", "--delimiter", "ab"], "--delimiter"),
        (["predict", "likes.csv", "--row", "Ann", "--column", "tea"], "not a boolweave model"),
        (
            ["report", "none.npz"],
            "none.npz: there is no such file; the option --model of factorize and of complete",
        ),
        (
            ["explain", "likes.npz", "Ann", "te"],
            "no column named 'te' in the model; did you mean 'tea'?",
        ),
        (["explain", "likes.npz", "Ann"], "'COLUMN'"),
        (["nonsense"], "nonsense"),
    ],
)
def test_bad_options(shop, arguments, words):
    assert words in refused(*arguments, cwd=shop)


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_bad_seed_is_refused_by_every_command(tmp_path, seed):
    for command in ("factorize", "complete", "cover", "rank", "explore", "compare"):
        text = refused(command, "none.csv", "--seed", seed, cwd=tmp_path)
        assert "Invalid value for '--seed' / '--random-state': " in text
    for command in (["pools", "9", "--prevalence", "0.1"], ["demo"]):
        assert "Invalid value for '--seed'" in refused(*command, "--seed", seed, cwd=tmp_path)


def test_compare(shop):
    some = ("--only", "boolweave max-sum, row and column bias,majority", "-k", 2, "--jobs", 1)
    found = json.loads(answer("compare", "likes.csv", *some, "--folds", 2, "--json", cwd=shop))
    assert [row["method"] for row in found["methods"]][1:] == ["row and column bias", "majority"]
    assert found["methods"][0]["rank"] == 2 and found["failures"] == {}
    assert {"accuracy", "log_loss", "auc", "calibration", "seconds", "megabytes"} <= set(
        found["methods"][0]
    )
    assert {"precision", "recall", "ndcg", "map", "map_error"} <= set(found["methods"][0])
    assert found["top"] == 10
    shown = ("--folds", 2, "--plot", "c.svg", "--ranking", "--top", 3, "-q", "--jobs", 1)
    done = run("compare", "likes.csv", "--only", "row and column bias,majority", *shown, cwd=shop)
    assert done.returncode == 0 and b"\xc2\xb1" in done.stdout and done.stderr == b""
    lines = done.stdout.decode().splitlines()
    headings = [line.split() for line in lines if "method" in line]
    assert headings[0][1:5] == ["accuracy", "log-loss", "AUC", "ECE"]
    assert headings[1] == ["method", "precision@3", "recall@3", "nDCG@3", "MAP@3"]
    assert len(lines) == 2 * 3 + 3 + 3 and max(map(len, lines)) <= 140
    assert sum("by log-loss" in line for line in lines) == 1, lines
    assert (shop / "c.svg").read_text(encoding="utf-8").lstrip().startswith("<?xml")
    (shop / "c.svg").unlink()


def test_complete_without_a_table(shop, tmp_path, monkeypatch):
    asked = "complete", shop / "likes.csv", *QUICK, "--fill", "none"
    assert answer(*asked, "--model", "m.npz", cwd=tmp_path) == ""
    assert answer("predict", "m.npz", "--row", "Ann", "--column", "rum", cwd=tmp_path)
    assert json.loads(answer(*asked, "--json", cwd=tmp_path))["filled"] == []
    assert "add --model or --report" in refused(*asked, cwd=tmp_path)
    assert "--output" in refused(*asked, "--model", "x.npz", "-o", "t.csv", cwd=tmp_path)
    monkeypatch.setattr(filling, "MANY", 4)
    done = run(*asked[:-1], "both", cwd=tmp_path)
    assert b"writing 4 entries; if you only need the model, use --fill none" in done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--top", "0"], "--top"),
        (["--only", "majorty"], "--only: expected names among boolweave completion"),
        (["--folds", "1"], "folds"),
        (["--folds", "100"], "--folds: expected at most"),
        (["--plot", "c.txt"], "--plot"),
        (["--method", "max-sum"], "--method"),
        (["--damping", "7"], "--damping: expected a number in"),
    ],
)
def test_compare_refuses(shop, options, words):
    assert words in refused("compare", "likes.csv", *options, cwd=shop)


@settings(max_examples=12)
@given(
    st.one_of(
        st.binary(max_size=120),
        st.lists(
            st.sampled_from(["0", "1", "a", ",", "\n", '"', "?", ";", "\t", "é", "2"]), max_size=60
        ).map(lambda parts: "".join(parts).encode()),
    )
)
def test_fuzzed_tables_never_break_the_command(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "any.csv").write_bytes(content)
    done = run("info", "any.csv", cwd=folder)
    assert done.returncode in (0, 2), done.stderr
    if done.returncode == 2:
        assert done.stdout == b"" and done.stderr.startswith(b"boolweave: ")
        assert done.stderr.count(b"\n") == 1


# ---------------------------------------------------------------- Ctrl-C and progress


def test_ctrl_c_writes_the_best_so_far(tmp_path):
    planted = make_boolean(150, 150, 5, flip=0.2, random_state=0).observations.to_dense()
    np.savetxt(tmp_path / "m.csv", planted, fmt="%d", delimiter=",")
    (tmp_path / "f.csv").write_text("old")
    code, shown = interrupt_when_shown(
        rb"iteration [1-9]\d*, residual .*, log-posterior -?\d",
        ["factorize", "m.csv", "-k", "5", "--method", "max-sum", "--tol", "0", "--max-iter",
         "10000000", "--model", "m.npz", "-o", "f.csv"],
        tmp_path,
    )  # fmt: skip
    assert code == 130, shown
    assert b"best result so far" in shown
    assert pl.read_csv(tmp_path / "f.csv").columns[0] == "factor"
    assert boolweave.load(tmp_path / "m.npz").interrupted_
    assert not list(tmp_path.glob(".*"))
