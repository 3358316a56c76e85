"""`boolweave compare` by time."""

import json

import numpy as np
import pytest
from commands import run_here


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop")
    rng = np.random.default_rng(0)
    users, films = np.divmod(rng.permutation(20 * 15)[:200], 15)
    likes = (users % 3 == films % 3) ^ (rng.random(200) < 0.1)
    days = np.datetime64("2024-01-01") + rng.integers(0, 365, 200)
    lines = (
        f"u{a},f{b},{int(c)},{d}\n" for a, b, c, d in zip(users, films, likes, days, strict=True)
    )
    (folder / "likes.csv").write_text("user,film,like,date\n" + "".join(lines))
    return folder


def run(folder, *options):
    command = ["compare", "likes.csv", "--only", "majority", *map(str, options)]
    return run_here(*command, cwd=folder, text=True)


def test_the_last_of_each_row(shop):
    done = run(shop, "--split", "last", "--times", "date", "--per-row", 3, "--ranking", "-q")
    assert done.returncode == 0 and done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0] == "likes.csv, the last 3 entries of each row"
    # Error bars for what is predicted, none for what was measured once.
    assert lines[2].count("±") == 4 and lines[-1].count("±") == 4


def test_periods(shop):
    done = run(shop, "--split", "time", "--times", 4, "--folds", 2, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["split"], found["folds"]) == ("time", 2)
    (row,) = found["methods"]
    assert 0 < row["accuracy"] < 1 and row["seconds_error"] is not None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--split", "last"], "--split last needs the column of times"),
        (["--times", "date"], "--times needs --split last"),
        (["--split", "last", "--times", "date", "--folds", "2"], "leave out --folds"),
        (["--per-row", "2"], "--per-row needs --split last"),
        (["--split", "time", "--times", "day"], "--times: there is no column 'day'"),
        (["--split", "time", "--times", "date", "--folds", "150"], "ask for fewer folds"),
        (["--split", "last", "--times", "date", "--per-row", "99"], "per_row must be less"),
    ],
)
def test_bad_splits(shop, options, words):
    done = run(shop, *options)
    assert (done.returncode, done.stdout) == (2, "")
    said = [line for line in done.stderr.splitlines() if line.startswith("boolweave: ")]
    assert len(said) == 1 and words in said[0]


def test_says_who_wins(shop):
    only = ["--only", "row and column bias,majority", "--folds", 3]
    done = run(shop, *only)
    assert done.returncode == 0, done.stderr
    by_loss, by_accuracy = done.stdout.splitlines()[-2:]
    assert "log-loss: " in by_loss and " ± " in by_loss and "of 3 splits." in by_loss
    assert "accuracy: " in by_accuracy
    found = json.loads(run(shop, *only, "--json").stdout)
    rows = {row["method"]: row for row in found["methods"]}
    for verdict in found["verdicts"]:
        measure = verdict["measure"]
        gap = rows[verdict["winner"]][measure] - rows[verdict["runner_up"]][measure]
        assert verdict["difference"] == pytest.approx(abs(gap))
        assert verdict["clear"] == (verdict["difference"] > 2 * verdict["error"])
    alone = run(shop, "--folds", 2)
    assert "wins" not in alone.stdout and "winner" not in alone.stdout


def test_an_interrupted_comparison_is_written(shop, monkeypatch):
    from boolweave.baselines import comparison

    def interrupted(name, *arguments):
        if name == "majority":
            return folds(name, *arguments)
        raise KeyboardInterrupt

    folds = comparison._run
    monkeypatch.setattr(comparison, "_run", interrupted)
    done = run(shop, "--only", "majority,row and column bias", "--folds", 2, "--json")
    assert done.returncode == 130
    found = json.loads(done.stdout)
    assert found["interrupted"] and [row["method"] for row in found["methods"]] == ["majority"]
    assert "interrupted: this is the comparison of 1 of 2 methods\n" in done.stderr
