"""The command line with the fewest errors: which objective it takes, and what it says of it."""

import json
import os
import re

import numpy as np
import pytest
from commands import run_here
from terminals import interrupt_when_shown, on_terminal

import boolweave
from boolweave.datasets import make_boolean

FEW = ("-k", "2", "--max-time", "1", "--jobs", "1")


def run(*arguments, cwd, code=0):
    done = run_here(*arguments, cwd=cwd, text=True)
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("errors")
    planted = make_boolean(20, 15, 3, flip=0.05, observed=0.95, random_state=0)
    dense = planted.observations.to_dense()
    text = "\n".join(",".join("" if v != v else str(int(v)) for v in row) for row in dense)
    (folder / "t.csv").write_text(text + "\n")
    (folder / "exact.csv").write_text("1,1,0,0\n" * 3 + "0,0,1,1\n" * 3)
    return folder


def test_the_wrong_entries_are_told(folder):
    done = run(
        "factorize", "t.csv", *FEW, "--json", "--model", "t.npz", "--report", "t.html", cwd=folder
    )
    found, model = json.loads(done.stdout), boolweave.load(folder / "t.npz")
    X, Z = model.observations_.to_dense(), model.result_.Z
    missed, false = int(((X == 1) & (Z == 0)).sum()), int(((X == 0) & (Z == 1)).sum())
    assert found["objective"] == model.objective == "errors"
    assert (found["missed"], found["false_ones"]) == (missed, false)
    assert found["error"] == missed + false == model.error_
    assert found["error_bound"] == model.error_bound_
    assert [factor["redundancy"] for factor in found["factors"]] == model.redundancy_.tolist()
    stability = model.factor_stability_  # None if the time was enough for one search only
    shares = [None] * 2 if stability is None else stability.tolist()
    assert [factor["stability"] for factor in found["factors"]] == shares
    ones = "one" if false == 1 else "ones"
    told = f"{missed + false} wrong entries = {missed} missed + {false} false {ones}"
    assert told in done.stderr
    again = re.search(r"^stability: \d of 2 factors were found in every search", done.stderr, re.M)
    assert (again is None) == (stability is None)
    page = (folder / "t.html").read_text(encoding="utf-8")
    listed = re.findall(r"<dt>([^<]*)</dt><dd>([^<]*)</dd>", page)
    facts = dict(reversed(listed))  # figures first, then what their words mean
    assert facts["wrong entries"] == f"{missed + false} = {missed} missed + {false} false"
    bound = model.error_bound_  # 0 if the time was not enough to prove one
    least = f"{bound:g} (reached)" if bound == model.error_ else f"at least {bound:g}"
    assert facts.get("least possible error") == (least if bound else None)
    assert facts["objective"] == "errors"
    assert page.count("<dt>worth</dt>") == 2 + 1  # of each factor, and what it means


def test_optimal_is_said_where_it_is(folder):
    done = run("factorize", "exact.csv", *FEW, "-o", "f.csv", "--report", "e.html", cwd=folder)
    said = "0 wrong entries = 0 missed + 0 false ones; optimal: no 2 factors can do better"
    assert said in done.stderr
    assert "<dd>0 (reached)</dd>" in (folder / "e.html").read_text(encoding="utf-8")


def test_without_a_bound(folder):
    found = json.loads(run("factorize", "t.csv", *FEW, "--no-bound", "--json", cwd=folder).stdout)
    assert found["error_bound"] == 0 < found["error"]


def test_weights_of_false_ones(folder):
    done = run("factorize", "t.csv", *FEW, "--false-one-weight", "inf", "--json", cwd=folder)
    found = json.loads(done.stdout)
    assert found["false_ones"] == 0 and found["error"] == found["missed"] > 0
    assert "with --false-one-weight inf" in done.stderr


@pytest.mark.parametrize(
    ("more", "objective"),
    [
        ([], "errors"),
        (["--method", "max-sum"], "posterior"),
        (["--noise", "0.1"], "posterior"),
        (["--objective", "posterior"], "posterior"),
        (["--n-init", "1"], "errors"),
    ],
)
def test_the_objective_of_factorize(folder, more, objective):
    found = json.loads(run("factorize", "t.csv", *FEW, *more, "--json", "-q", cwd=folder).stdout)
    assert found["objective"] == objective
    assert (found["error"] is None) == (objective == "posterior")
    assert found["missed"] >= 0


def test_complete_is_for_what_is_not_seen(folder):
    options = ("--method", "max-sum", "--json", "-q")  # those of a factorization
    found = json.loads(run("complete", "t.csv", *FEW, *options, cwd=folder).stdout)
    assert found["objective"] == "posterior"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--objective", "errors", "--tol", "0.1"], "counts wrong entries and does not use --tol"),
        (["--false-one-weight", "2", "--noise", "0.1"], "--objective posterior does not count"),
        (["--false-one-weight", "0"], "--false-one-weight: expected a number in"),
        (["--no-bound", "--noise", "0.1"], "--no-bound leaves out a lower bound, which --obj"),
        (["--max-time", "-1"], "--max-time: expected a number in"),
        (["--max-memory", "10"], "fewest errors of 20 rows.*set --objective posterior"),
        (["--objective", "errors", "--local-cluster", "1"], "runs on one machine"),
        (["--objective", "most"], "objective"),
    ],
)
def test_one_line_and_a_remedy(folder, options, words):
    done = run("factorize", "t.csv", *FEW, *options, cwd=folder, code=2)
    assert done.stdout == ""
    assert re.search(words, done.stderr.splitlines()[-1]), done.stderr


def test_ctrl_c_writes_the_best_so_far(tmp_path):
    planted = make_boolean(150, 150, 8, flip=0.1, random_state=0).observations.to_dense()
    np.savetxt(tmp_path / "m.csv", planted, fmt="%d", delimiter=",")
    code, shown = interrupt_when_shown(
        rb"8 factors, round [1-9]\d*, lowest error [\d,]+",
        ["factorize", "m.csv", "-k", "8", "--n-init", "1000000", "--model", "m.npz", "-o", "f.csv"],
        tmp_path,
    )
    assert code == 130, shown
    assert b"best result so far" in shown
    model = boolweave.load(tmp_path / "m.npz")
    assert model.interrupted_ and model.error_ < planted.sum()
    assert not list(tmp_path.glob(".*"))


def test_nothing_but_words_in_a_pipe(folder):
    done = run("factorize", "t.csv", *FEW, cwd=folder)
    assert "\x1b" not in done.stderr and "round" not in done.stderr


def test_other_commands_use_the_model(folder):
    run("factorize", "t.csv", *FEW, "--model", "m.npz", "-q", "-o", os.devnull, cwd=folder)
    said = run("predict", "m.npz", "--row", "1", "--column", "2", cwd=folder).stdout
    assert said.startswith("row,column,")
    assert run("recommend", "m.npz", "1", "-n", "1", cwd=folder).stdout.startswith("row,rank,")
    said = run("explain", "m.npz", "1", "2", cwd=folder).stdout
    assert said.startswith("row 1, column 2: 1 with a probability of ")


# ---------------------------------------------------------------- the number of factors


def test_the_curve_of_errors(folder):
    how = ("rank", "t.csv", "--objective", "errors", "--jobs", "1", "--max-rank", "4")
    found = json.loads(run(*how, "--json", "-q", cwd=folder).stdout)
    assert [row["rank"] for row in found["ranks"]] == [1, 2, 3, 4]
    costs = [row["cost"] for row in found["ranks"]]
    assert costs == sorted(costs, reverse=True)
    assert costs == [row["missed"] + row["false_ones"] for row in found["ranks"]]
    first, *lines = on_terminal(*how, "-q", cwd=folder).strip().splitlines()
    assert first == "factors: description length in bits, lower is better"
    assert [line.split()[0] for line in lines[:4]] == ["1", "2", "3", "4"]
    assert sum("<- best" in line for line in lines[:4]) == 1
    assert sum("<- chosen" in line for line in lines[5:]) == 1
    assert lines[5] == "factors: fewest errors found, lower is better"
    assert [int(line.split()[1].replace(",", "")) for line in lines[6:]] == costs


def test_held_out_entries_do_not_choose_among_explanations(folder):
    done = run(
        "rank", "t.csv", "--objective", "errors", "--criterion", "heldout", cwd=folder, code=2
    )
    assert "criterion" in done.stderr and "Traceback" not in done.stderr
