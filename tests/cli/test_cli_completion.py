"""`complete` and what the other commands make of its model."""

import json
import re
from functools import partial
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from commands import run_here

import boolweave
from boolweave import BooleanCompletion, TableEncoder
from boolweave.cli.options import COMPLETION_OPTIONS
from boolweave.cli.results import judged
from boolweave.completion import selection
from boolweave.datasets import make_boolean
from boolweave.facts import CompletionFacts
from boolweave.io.dialect import MARK
from short import shorten_chains

QUICK = ("--members", 2, "--layers", 1, "-k", 2, "--jobs", 1)


run = partial(run_here, text=True)


def answer(*arguments, cwd):
    done = run(*arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def table():
    """Rows and columns with offsets, a planted block, and a row that nobody has seen."""
    random = np.random.default_rng(0)
    block = make_boolean(24, 14, 1, random_state=0).X
    odds = random.normal(size=(24, 1)) + random.normal(size=14) + 2 * (block - 0.5)
    cells = np.where(random.random(odds.shape) < 1 / (1 + np.exp(-odds)), 1.0, 0.0)
    cells[random.random(odds.shape) < 0.3] = np.nan
    cells[5] = np.nan
    return cells


@pytest.fixture(scope="module")
def folder(tmp_path_factory, table):
    folder = tmp_path_factory.mktemp("completion")
    columns = {f"i{j}": pl.Series(column).fill_nan(None) for j, column in enumerate(table.T)}
    frame = pl.DataFrame({"who": [f"u{i}" for i in range(len(table))], **columns})
    frame.with_columns(pl.all().exclude("who").cast(pl.Int8)).write_csv(folder / "t.csv")
    return folder


@pytest.fixture(scope="module")
def done(folder):
    """One fit, of which everything is kept that can be."""
    done = run(
        "complete", "t.csv", *QUICK, "--hold-out", 0.1, "--json", "-o", "filled.csv", "--model",
        "m.npz", "--report", "fit.html", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def test_holes_are_filled_and_the_rest_stays(done, folder, table):
    filled = pl.read_csv(folder / "filled.csv")
    assert filled.columns == ["who", *(f"i{j}" for j in range(table.shape[1])), MARK]
    assert filled["who"].to_list() == [f"u{i}" for i in range(len(table))]
    known = ~np.isnan(table)
    told = ["; ".join(f"i{j}" for j in np.flatnonzero(~row)) or None for row in known]
    assert filled[MARK].to_list() == told
    values = filled.drop("who", MARK).to_numpy()
    np.testing.assert_array_equal(values[known], table[known])
    holes = json.loads(done.stdout)["filled"]
    assert len(holes) == np.isnan(table).sum()
    model = boolweave.load(folder / "m.npz")
    rows, columns = np.nonzero(np.isnan(table))
    np.testing.assert_array_equal(values[rows, columns], model.predict(rows, columns))
    np.testing.assert_allclose(
        [hole["probability"] for hole in holes], model.predict_proba(rows, columns), atol=1e-6
    )


def test_the_choice_is_told(done, folder):
    found = json.loads(done.stdout)
    losses = {row["model"]: row["log_loss"] for row in found["selection"]}
    assert losses["blend"] <= min(losses.values()) + 0.01
    first, aside, line = done.stderr.splitlines()[-3:]
    right = {row["model"]: row["accuracy"] for row in found["selection"]}
    missing = f"{len(found['filled'])} of 336 entries were missing and predicted; "
    assert first.startswith(f"{missing}of entries hidden for a test, ")
    assert f" {right['blend']:.1%} were predicted correctly ({right['offsets']:.1%} from" in first
    assert not re.search("offset|layer|direction|log-loss", first + aside)
    expected = f"{losses['blend']:.4f}, with offsets alone {losses['offsets']:.4f}"
    details = f"details: {found['model']}; cross-validated log-loss {expected}; held-out log-loss "
    assert line.startswith(f"{details}{found['held_out_log_loss']:.3f}, calibration error ")
    assert re.match(r"held out: .* entries right", aside)
    model = boolweave.load(folder / "m.npz")
    assert (model.n_layers, model.n_components, model.n_members) == (1, 2, 2)
    assert model.absent == "missing" and model.provenance_["hold_out"] == 0.1


def test_a_page_of_the_fit_and_of_the_model(done, folder):
    page = (folder / "fit.html").read_text(encoding="utf-8")
    told = re.findall(r"<dt>([^<]*)</dt><dd>([^<]*)</dd>", page)
    facts = dict(reversed(told))  # figures first, then what their words mean
    found = json.loads(done.stdout)
    assert facts["held-out log-loss"] == f"{found['held_out_log_loss']:.4f}"
    assert facts["models averaged"] == str(found["n_members"])
    (folder / "truth.csv").write_text("who,what,value\nu5,i0,1\nu5,i1,0\n")
    said = run("report", "m.npz", "-o", "later.html", "--held-out", "truth.csv", cwd=folder)
    assert said.returncode == 0, said.stderr
    later = (folder / "later.html").read_text(encoding="utf-8")
    assert "Calibration on held-out entries" in later and 'id="offsets-row"' in later


def test_ratings_whose_pattern_says_something(tmp_path, monkeypatch):
    """People rate what they are drawn to; all is written if offsets use the pattern of entries."""
    shorten_chains(monkeypatch)
    monkeypatch.setattr(selection, "is_far_behind", lambda *_: True)
    random = np.random.default_rng(0)
    kinds = np.add.outer(np.arange(120), np.arange(1200)) % 2
    rated = np.argwhere(random.random(kinds.shape) < np.where(kinds, 0.004, 0.045))
    liked = random.random(len(rated)) < np.array([0.95, 0.1])[rated[:, 1] % 2]
    ratings = np.where(liked, 5, 2)
    lines = [f"{m}\t{n}\t{rating}" for (m, n), rating in zip(rated, ratings, strict=True)]
    (tmp_path / "ratings.tsv").write_text("\n".join(lines) + "\n")
    done = run(
        "complete", "ratings.tsv", "--above", 3, "--layers", 0, "--members", 2, "--jobs", 1,
        "--hold-out", 0.1, "-o", "filled.csv", "--report", "fit.html", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "details: offsets + pattern" in done.stderr
    alone = r"log-loss 0\.\d+, with offsets \+ pattern alone 0\.\d+; held-out log-loss "
    assert re.search(alone, done.stderr)
    page = (tmp_path / "fit.html").read_text()
    assert "from the totals of rows and columns alone." in page
    assert "<dt>held-out log-loss</dt>" in page


def test_models_of_answers_are_chosen_by_whole_answers(tmp_path):
    """Answers at random cannot be predicted, though each level follows from the other levels."""
    random = np.random.default_rng(0)
    answers = pl.DataFrame(
        {f"q{j}": random.choice([f"{level}{j}" for level in "abc"], 60) for j in range(4)}
    )
    answers.write_csv(tmp_path / "answers.csv")
    found = json.loads(
        answer(
            "complete", "answers.csv", "--layout", "wide", "--directions", 8, "--layers", 0,
            "--members", 1, "--jobs", 1, "--json", "--report", "page.html", cwd=tmp_path,
        )
    )  # fmt: skip
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert ".fit(data, groups=encoder.questions_)" in page
    encoder = TableEncoder().fit(answers)
    data = encoder.transform(answers)
    model = BooleanCompletion(n_directions=8, n_layers=0, n_members=1, n_jobs=1, random_state=0)
    model.fit(data, groups=encoder.questions_)
    honest = model.selection_[0]["log_loss"]
    assert found["selection"][0]["log_loss"] == pytest.approx(honest, rel=1e-12)
    assert honest > np.log(3) - 0.03
    entropy = -(np.log(1 / 3) + 2 * np.log(2 / 3)) / 3
    assert model.fit(np.asarray(data)).selection_[0]["log_loss"] < entropy - 0.03
    with pytest.raises(ValueError, match="groups must have a whole number for each of the 12"):
        model.fit(data, groups=[0, 1])


@pytest.mark.usefixtures("done")
def test_predict_and_info(folder):
    (one,) = json.loads(
        answer("predict", "m.npz", "--row", "u1", "--column", "i2", "--json", cwd=folder)
    )
    model = boolweave.load(folder / "m.npz")
    chance = model.predict_proba([1], [2])[0]
    assert one["probability"] == pytest.approx(chance, abs=1e-6)
    assert one["value"] == (chance > 0.5)
    found = json.loads(answer("info", "m.npz", "--json", cwd=folder))
    assert (found["n_rows"], found["n_columns"]) == (24, 14)
    assert found["observed"] == model.observations_.n_observed


@pytest.mark.usefixtures("done")
def test_recommend_says_why(folder):
    found = json.loads(answer("recommend", "m.npz", "u1", "u5", "-n", 2, "--json", cwd=folder))
    assert [(line["row"], line["rank"]) for line in found] == [
        ("u1", 1), ("u1", 2), ("u5", 1), ("u5", 2)
    ]  # fmt: skip
    assert all(line["why"].startswith("because ") and "\n" not in line["why"] for line in found)
    plain = answer("recommend", "m.npz", "u1", "-n", 2, "--no-why", cwd=folder).splitlines()
    assert plain[0] == "row,rank,column,probability" and len(plain) == 3


@pytest.mark.usefixtures("done")
def test_explain_in_words_and_numbers(folder):
    text = answer("explain", "m.npz", "u5", "i0", cwd=folder)
    assert text.startswith("u5, i0: ") and "u5 has no entries" in text and "column offset" in text
    parts = re.findall(r"^    ([+-]\d+\.\d\d) ", text, re.M)
    (total,) = re.findall(r"log-odds for a 1 .* in total ([+-]\d+\.\d\d):", text)
    assert sum(map(float, parts)) == pytest.approx(float(total), abs=0.005 * (len(parts) + 1))
    found = json.loads(answer("explain", "m.npz", "u5", "i0", "--json", cwd=folder))
    assert sum(part["log_odds"] for part in found["parts"]) == pytest.approx(found["log_odds"])
    assert found["observed"] is None and len(found["notes"]) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--layers", "2", "--method", "max-sum"], "--method is an option of a Boolean"),
        (["--layers", "many"], "--n-layers: expected a whole number or auto"),
        (["--layers", "-1"], "--n-layers: expected a whole number in [0, 2^63)"),
    ],
)
def test_bad_options_are_one_line(folder, options, words):
    done = run("complete", "t.csv", *options, cwd=folder)
    assert done.returncode == 2 and done.stdout == ""
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("boolweave: ")]
    assert words in line and "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["complete", "factorize"])
def test_a_part_to_hold_out_that_is_less_than_an_entry(tmp_path, command):
    """Refused before the fit; otherwise its figures would fail after it."""
    (tmp_path / "t.csv").write_text("a,b\n1,0\n0,\n")
    given = ("--hold-out", 0.1, "-o", "answer.csv", "--report", "page.html")
    done = run_here(command, "t.csv", *given, cwd=tmp_path, text=True)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith("boolweave: --hold-out 0.1 is less than one of 3 observed entries; give")
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


@pytest.mark.parametrize("command", ["complete", "factorize"])
def test_nothing_can_be_held_out_of_a_table_without_entries(tmp_path, command):
    (tmp_path / "t.csv").write_text("a,b\n,\n,\n")
    given = ("--hold-out", 0.1, "-o", "answer.csv")
    done = run_here(command, "t.csv", *given, cwd=tmp_path, text=True)
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("boolweave: ")]
    assert "--hold-out: expected a table with observed entries, got none; check how" in line
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_options_are_parameters_of_the_estimator():
    known = boolweave.BooleanCompletion().get_params()
    given = COMPLETION_OPTIONS.given({"n_layers": "auto", "n_directions": "3", "n_members": 4})
    assert given == {"n_layers": "auto", "n_directions": 3, "n_members": 4}
    assert set(given) | {"n_components", "random_state", "n_jobs"} <= set(known)


@pytest.mark.parametrize(
    ("n_observed", "words"), [(19, "no entries could be held out"), (1000, "allow more time")]
)
def test_why_models_were_not_compared(n_observed, words):
    seen = SimpleNamespace(n_observed=n_observed)
    model = SimpleNamespace(selection_=[], observations_=seen)
    assert words in judged(CompletionFacts(model))


def test_a_survey_speaks_of_answers(tmp_path):
    random = np.random.default_rng(0)
    home = random.choice(["flat", "house", "boat"], 90)
    likes = pl.DataFrame(
        {
            "home": home,
            "pet": [{"flat": "cat", "house": "dog", "boat": "fish"}[each] for each in home],
            "car": random.choice(["yes", "no"], 90),
        }
    )
    likes.write_csv(tmp_path / "likes.csv")
    given = "complete", "likes.csv", "--layout", "wide", "--directions", 0, "--layers", 0
    files = "--hold-out", 0.2, "--members", 1, "--jobs", 1, "--report", "page.html", "-o", "f.csv"
    done = run(*given, *files, "--json", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert found["held_out_answers"] == 54
    assert found["held_out_answers_right"] > found["held_out_most_frequent_right"]
    words = run(*given, *files, cwd=tmp_path).stderr
    right = (
        f"held out: {found['held_out_answers_right']:.1%} of 54 answers right (the most frequent"
    )
    assert right in words
    loss = f"held-out log-loss per answer {found['held_out_log_loss']:.3f}, calibration error"
    assert loss in words
    assert "; of answers hidden for a test, " in words
    assert "cross-validated log-loss per answer " in words
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<dt>held-out log-loss per answer</dt>" in page
    assert f"Of 54 held-out answers, {found['held_out_answers_right']:.1%} were" in page


def test_features_of_rows(tmp_path):
    """They decide about a row without entries, in the fit and among new rows, in any order."""
    random = np.random.default_rng(0)
    ones = random.random((40, 6)) < np.repeat([[0.9], [0.1]], 20, axis=0)
    names = [f"{c}{i}" for c in "ab" for i in range(20)]
    table = [
        ",".join([name, *row])
        for name, row in zip(names, ones.astype(int).astype(str), strict=True)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["who,x,y,z,u,v,w", *table]) + "\n")
    kinds = [f"{c}{i},{'old' if c == 'a' else 'new'},{i % 3}" for i in range(20) for c in "ba"]
    (tmp_path / "kinds.csv").write_text("\n".join(["who,kind,size", *kinds]) + "\n")
    given = "complete", "t.csv", "--members", 1, "--directions", 0, "--layers", 0, "--jobs", 1
    fit = *given, "--model", "m.npz", "-o", "f.csv", "--row-features"
    assert answer(*fit, "kinds.csv", cwd=tmp_path) == ""
    (tmp_path / "new.csv").write_text("who,x,y\nnew,,\nold,,\n")
    (tmp_path / "of_new.csv").write_text("who,kind,size\nold,old,1\nnew,new,1\n")
    asked = "transform", "m.npz", "new.csv", "--json"
    new, old = json.loads(answer(*asked, "--row-features", "of_new.csv", cwd=tmp_path))
    assert new["row"] == "new" and old["x"] > new["x"] + 0.2
    same = json.loads(answer(*asked, cwd=tmp_path))
    assert same[0]["x"] == pytest.approx(same[1]["x"], abs=1e-5)
    (tmp_path / "few.csv").write_text("who,kind,size\na0,old,1\n")
    (tmp_path / "hole.csv").write_text("who,kind,size\nold,old,\nnew,new,1\n")
    (tmp_path / "twice.csv").write_text("who,kind\nold,old\nold,new\n")
    for command, words in (
        (
            (*fit, "few.csv"),
            "few.csv: expected the names of all rows in the first column, but 'a1'",
        ),
        ((*asked, "--row-features", "hole.csv"), "expected a number in each line of column 'size'"),
        ((*asked, "--row-features", "twice.csv"), "expected each row once in the first column"),
        (
            ("complete", "t.csv", "--method", "max-sum", "--row-features", "kinds.csv"),
            "--row-features is an option of a completion",
        ),
    ):
        done = run(*command, cwd=tmp_path)
        assert done.returncode == 2
        assert words in done.stderr
