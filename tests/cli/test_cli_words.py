"""Words of the command line: what it says about a fit, and how options are named."""

import inspect
import json
import os
import re
import shlex
import shutil
import sys
import warnings
from dataclasses import fields

import numpy as np
import polars as pl
import pytest
from commands import run_here

import boolweave
from boolweave import BooleanMatrixFactorization, Channel, Observations, TableEncoder
from boolweave.cli.common import warnings_as_lines
from boolweave.cli.options import (
    FIT_OPTIONS,
    ReadingOptions,
    Writing,
    as_options,
    grouped,
)
from boolweave.cli.output import print_paragraph
from boolweave.report.page import render_report

QUICK = ("-k", "2", "--method", "max-sum", "--jobs", "1")


def run(*arguments, cwd):
    done = run_here(*arguments, cwd=cwd, text=True)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    rng = np.random.default_rng(0)
    rare = np.zeros((60, 40), int)
    rare[:8, :6], rare[30:36, 20:25] = 1, 1  # two tiles, 78 ones
    rare[rng.integers(40, 60, 25), rng.integers(26, 40, 25)] = 1  # and some that no tile has
    columns = {f"c{j}": rare[:, j] for j in range(40)}
    pl.DataFrame(columns).write_csv(folder / "rare.csv")
    pairs = [f"u{i},i{j}" for i in range(6) for j in range(6) if (i < 3) == (j < 3)]
    (folder / "pairs.csv").write_text("user,item\n" + "\n".join(pairs) + "\n")
    (folder / "nothing.csv").write_text("name,a,b\nx,,\ny,,\n")
    return folder


# ---------------------------------------------------------------- what the factors are worth


def test_rare_ones(folder):
    """The headline says which ones are covered, and what a table of zeros would have."""
    done = run("factorize", "rare.csv", *QUICK, "--json", "--hold-out", "0.1", cwd=folder)
    found = json.loads(done.stdout)
    kept = found["n_ones"]
    assert 0.6 < found["ones_covered"] < 0.9 and found["false_ones"] == 0
    assert found["accuracy"] > found["constant_accuracy"] == 1 - kept / found["observed"] > 0.95
    assert found["held_out"] == 240 and 0 <= found["held_out_ones_covered"] <= 1
    line, aside = done.stderr.splitlines()[-2:]
    share, ones = re.fullmatch(
        r"2 factors: (\d+\.\d)% of (\d+) ones covered, 0 false ones; "
        r"9\d\.\d% of 2,160 observed entries right \(all zeros: 9\d\.\d%\)", line
    ).groups()  # fmt: skip
    assert (share, int(ones)) == (f"{100 * found['ones_covered']:.1f}", kept)
    assert re.fullmatch(r"held out: .* of 240 entries right \(all zeros: 9\d\.\d%\)", aside)


def test_the_report_says_the_same(folder):
    run("factorize", "rare.csv", *QUICK, "--report", "rare.html", "-o", "f.csv", cwd=folder)
    page = (folder / "rare.html").read_text(encoding="utf-8")
    facts = dict(re.findall(r"<dt>([^<]*)</dt><dd>([^<]*)</dd>", page))
    model = BooleanMatrixFactorization(2, method="max-sum", random_state=0).fit(
        pl.read_csv(folder / "rare.csv")
    )
    table = model.observations_
    Z = model.predict(table.rows_of_entries(), table.indices)
    covered = Z[table.values == 1].mean()
    assert facts["observed ones covered"] == f"{covered:.1%}"
    assert facts["observed zeros predicted as ones"] == "0"
    right, zeros = (table.values == Z).mean(), 1 - table.share_of_ones
    assert facts["observed entries right"] == f"{right:.1%} (all zeros: {zeros:.1%})"


def test_ones_only_are_warned_of_with_an_option_that_helps(folder):
    done = run("complete", "pairs.csv", *QUICK, "--model", "ones.npz", cwd=folder)
    assert boolweave.load(folder / "ones.npz").absent == "missing"  # as the file was read
    assert "warning: all 18 observed entries are 1" in done.stderr
    assert "--absent zero" in done.stderr
    assert "100.0% of 18 observed entries right (all ones: 100.0%)" in done.stderr
    done = run("complete", "pairs.csv", *QUICK, "--absent", "zero", cwd=folder)
    assert "warning" not in done.stderr


def test_nothing_observed_is_warned_of(folder):
    done = run("complete", "nothing.csv", *QUICK, cwd=folder)
    assert "warning: no entry was observed" in done.stderr
    assert "set --absent zero" in done.stderr
    assert "2 factors, 2 empty: no observed entries" in done.stderr


def test_empty_factors_are_told(folder):
    (folder / "tile.csv").write_text("1,1,0,0\n" * 4 + "0,0,0,0\n" * 4)
    done = run(
        "factorize", "tile.csv", "-k", "3", "--objective", "posterior", "--jobs", "1", "--json",
        "--model", "tile.npz", cwd=folder,
    )  # fmt: skip
    fitted = boolweave.load(folder / "tile.npz")
    full = (fitted.row_log_odds_ > 0).any(0) & fitted.components_.any(1)
    assert full.sum() < 3
    assert json.loads(done.stdout)["n_empty"] == 3 - full.sum()
    assert f"3 factors, {3 - full.sum()} empty: 100.0% of 8 ones covered" in done.stderr


# ---------------------------------------------------------------- what was run


def code_of(page):
    return re.findall(r"<pre[^>]*><code>(.*?)</code></pre>", page, re.DOTALL)


def test_answers_are_held_out_whole(folder):
    """A level that is held out cannot be read off the other levels of its question."""
    random = np.random.default_rng(0)
    answers = pl.DataFrame({
        "pet": random.choice(["cat", "dog", "fish", "bird"], 60),
        "home": random.choice(["flat", "house", "boat"], 60),
        "car": random.choice(["yes", "no"], 60),
        "garden": random.choice(["yes", "no"], 60),
    })  # fmt: skip
    answers.write_csv(folder / "answers.csv")
    given = ("factorize", "answers.csv", *QUICK, "--layout", "wide", "--json")
    files = ("--model", "answers.npz", "--report", "answers.html")
    done = run(*given, "--hold-out", 0.25, *files, cwd=folder)
    encoder = TableEncoder().fit(answers)
    data = Observations.from_data(encoder.transform(answers))
    model = boolweave.load(folder / "answers.npz")
    known = ~np.isnan(model.observations_.to_dense())
    for group in np.unique(encoder.groups_):
        levels = known[:, encoder.groups_ == group]
        assert (levels.any(axis=1) == levels.all(axis=1)).all()
        assert 0 < levels[:, 0].sum() < 60
    found = json.loads(done.stdout)
    assert found["held_out"] + found["observed"] == data.n_observed == 60 * (4 + 3 + 1 + 1)
    kept, *_ = data.hide(0.25, random_state=0, groups=encoder.questions_)
    np.testing.assert_array_equal(kept.to_dense(), model.observations_.to_dense())
    page = (folder / "answers.html").read_text(encoding="utf-8")
    hide = "kept, *held_out = data.hide(0.25, random_state=0, groups=encoder.questions_)\n"
    assert hide in code_of(page)[1]
    few = run_here(*given, "--hold-out", 0.001, cwd=folder, text=True)
    assert few.returncode == 2
    assert "--hold-out 0.001 is less than one of the answers; give" in few.stderr


def test_the_report_repeats_the_run(folder):
    words = [
        "complete", "pairs.csv", "--absent", "zero", "--hold-out", "0.25", "--seed", "3",
        "--method", "max-sum", "--report", "my page.html", "--model", "pairs.npz", "-o", "c.csv",
    ]  # fmt: skip
    run(*words, cwd=folder)
    first = (folder / "my page.html").read_text(encoding="utf-8")
    command, python = code_of(first.replace("&#39;", "'"))
    assert shlex.split(command) == ["boolweave", *words]
    assert python == (
        "kept, *held_out = data.hide(0.25, random_state=3)\n"
        "BooleanMatrixFactorization(n_components='auto', method='max-sum', random_state=3)"
        ".fit(kept)"
    )
    # The model remembers, and so does a page made of it later.
    model = boolweave.load(folder / "pairs.npz")
    assert model.provenance_ == {"command": command, "hold_out": 0.25}
    run("report", "pairs.npz", "-o", "later.html", cwd=folder)
    later = (folder / "later.html").read_text(encoding="utf-8").replace("&#39;", "'")
    assert code_of(later) == [command, python]
    # What is shown does what it says.
    data = boolweave.Observations.from_data(model.observations_.to_dense())
    found = BooleanMatrixFactorization(n_components="auto", method="max-sum", random_state=3)
    np.testing.assert_array_equal(found.fit(data).components_, model.components_)


def test_a_fit_in_python_shows_its_call():
    prior = np.full((6, 1), 0.4)
    model = BooleanMatrixFactorization(
        2, noise=Channel(0.1, 0.8), row_prior=prior, random_state=0, n_jobs=1
    ).fit(np.kron(np.eye(2), np.ones((3, 4))))
    (python,) = code_of(render_report(model))
    assert python == (
        "BooleanMatrixFactorization(n_components=2, "
        "noise=Channel(one_given_zero=0.1, one_given_one=0.8), random_state=0, "
        "row_prior=row_prior).fit(data)"
    )


def test_a_command_does_not_give_away_who_logs_in(monkeypatch):
    from boolweave.cli.common import command_line

    words = ["boolweave", "factorize", "a b.csv", "--checkpoint", "s3://key:secret@host/x"]
    monkeypatch.setattr(sys, "argv", words)
    assert command_line() == "boolweave factorize 'a b.csv' --checkpoint s3://host/x"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("choose which are ones with `above` mean", "choose which are ones with --above mean"),
        ('remove one, or pass `duplicates="majority"`', "remove one, or use --duplicates majority"),
        ("or pass `header=False` if", "or use --no-header if"),
        ("or pass `closed=True`, which", "or use --closed, which"),
        ("allow files with `max_memory`", "allow files with --max-memory"),
        ("with `data > 0` or `.astype(float)`", "with `data > 0` or `.astype(float)`"),
    ],
)
def test_parameters_of_readers_are_options_on_the_command_line(message, said):
    assert as_options(message) == said


# ---------------------------------------------------------------- groups of options


def test_options_of_a_fit_are_parameters_of_the_estimator():
    assert set(FIT_OPTIONS.parameters) == set(BooleanMatrixFactorization().get_params())
    options = FIT_OPTIONS.options()
    names = {name for name, parameter in FIT_OPTIONS.parameters.items() if parameter.options}
    # Commands have their own options for these, and `transform` has --probabilities.
    assert set(FIT_OPTIONS.parameters) - names == {"absent", "verbose", "output"}
    # `--zeros` is an option for words in cells, so the parameter `zeros` has an option of its own.
    assert set(options) == names - {"zeros"} | {"zero_treatment"}
    assert FIT_OPTIONS.given({"zero_treatment": "exact"}) == {"zeros": "exact"}
    unset = {name: option.default for name, option in options.items()}
    assert FIT_OPTIONS.given(unset) == {"random_state": 0, "n_jobs": -1}
    for name in names:
        for word in FIT_OPTIONS.parameters[name].words:
            BooleanMatrixFactorization(**{"n_components": 2, name: word})._validate_params()


def test_numbers_and_words():
    given = {"n_components": "3", "noise": "0.1", "row_prior": "learn", "n_init": "auto"}
    expected = {"n_components": 3, "noise": 0.1, "row_prior": "learn", "n_init": "auto"}
    assert FIT_OPTIONS.given({**given, "max_iter": 5}) == {**expected, "max_iter": 5}
    with pytest.raises(ValueError, match="--n-init: expected a whole number or auto"):
        FIT_OPTIONS.given({"n_init": "1.5"})


def test_groups_become_options_and_come_back():
    said = []

    def command(source: str, *, writing: Writing, more: int = 3, reading: ReadingOptions) -> None:
        said.append((source, writing, more, reading))

    shown = grouped(command)
    names = list(inspect.signature(shown).parameters)
    expected = [field.name for group in (Writing, ReadingOptions) for field in fields(group)]
    assert sorted(names) == sorted(["source", "more", "debug", *expected])
    values = {name: p.default for name, p in inspect.signature(shown).parameters.items()}
    shown(**{**values, "source": "x.csv", "quiet": True, "layout": "pairs"})
    assert said == [("x.csv", Writing(quiet=True), 3, ReadingOptions(layout="pairs"))]


def test_parameters_in_warnings_become_options(capsys):
    with warnings_as_lines(quiet=False):
        warnings.warn('Raise `max_iter`, which is 5,\nor set `absent="zero"`', stacklevel=1)
    words = "warning: Raise --max-iter, which is 5, or set --absent zero\n"
    assert capsys.readouterr().err == words


def test_rank_holds_out_whole_answers(tmp_path):
    random = np.random.default_rng(0)
    level = random.choice(["a", "b", "c"], (40, 3))
    answers = pl.DataFrame({f"q{j}": [f"{each}{j}" for each in level[:, j]] for j in range(3)})
    answers.write_csv(tmp_path / "answers.csv")
    given = "rank", "answers.csv", "--layout", "wide", "--criterion", "heldout", "--max-rank", 1
    done = run(*given, "--seed", 0, "--json", cwd=tmp_path)
    encoder = TableEncoder().fit(answers)
    bits = encoder.transform(answers)
    wanted = {"ranks": [1], "criterion": "heldout", "random_state": 0}
    whole = boolweave.select_rank(bits, groups=encoder.questions_, **wanted)
    (line,) = json.loads(done.stdout)["ranks"]
    assert line["log_loss_lower_is_better"] == pytest.approx(whole.scores[0])
    assert whole.scores[0] != boolweave.select_rank(bits, **wanted).scores[0]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_long_messages_fit_a_terminal(monkeypatch, capsys, is_terminal):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda *_, **__: os.terminal_size((40, 24)))
    message = "left out: " + ", ".join(f"column {i} (all values differ)" for i in range(6))
    print_paragraph(message, False)
    lines = capsys.readouterr().err.splitlines()
    assert " ".join(line.strip() for line in lines) == message
    assert max(map(len, lines)) <= 40 if is_terminal else len(lines) == 1
    print_paragraph(message, True)
    assert capsys.readouterr().err == ""
