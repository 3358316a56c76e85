"""All methods on the same folds."""

import io
import json
import os
import signal
import sys
import warnings
from threading import Timer

import numpy as np
import pytest

from boolweave import Channel
from boolweave.baselines import Comparison, compare, comparison, worker
from boolweave.baselines.comparison import MEASURES, METHODS, _parameters
from boolweave.datasets import make_boolean

SEEN = make_boolean(40, 30, 2, flip=0.02, observed=0.9, random_state=0).observations


@pytest.fixture
def run_here(monkeypatch):
    """Methods run in this process, which has loaded and compiled what they need."""

    def run(name, job, n_folds, on_fold):
        with monkeypatch.context() as patch, warnings.catch_warnings():
            patch.setattr(sys, "argv", ["worker", str(job)])
            patch.setattr(sys, "stdout", printed := io.StringIO())
            worker.main()
        folds = [json.loads(line) for line in printed.getvalue().splitlines()]
        for number in range(1, n_folds + 1):
            on_fold(name, number)
        return folds, ""

    monkeypatch.setattr(comparison, "_run", run)


@pytest.mark.usefixtures("run_here")
def test_every_method_once():
    """One split, whose errors come from leaving out rows; several folds are in the tests below."""
    told, split = [], SEEN.hide(0.3, random_state=0)
    found = compare(
        SEEN, n_components=2, splits=[split], n_jobs=1, on_fold=lambda name, fold: told.append(name)
    )
    assert not found.failures and told == list(found.folds)
    assert len(found.folds) == 12
    rows = {row["method"]: row for row in found.rows()}
    assert rows["boolweave max-sum"]["accuracy"] > 0.9
    assert rows["boolweave auto"]["accuracy"] > rows["majority"]["accuracy"] + 0.2
    assert rows["boolweave completion"]["accuracy"] > rows["majority"]["accuracy"] + 0.2
    assert rows["majority"]["auc"] == 0.5 and rows["majority"]["rank"] == 0
    assert all(row["megabytes"] >= 0 and row["seconds"] >= 0 for row in rows.values())
    for measure in ("accuracy", "precision", "recall", "ndcg", "map"):
        assert sum(measure in row["best_in"] for row in rows.values()) == 1
        assert all(0 <= row[measure] <= 1 and row[f"{measure}_error"] >= 0 for row in rows.values())
    assert rows["boolweave max-sum"]["map"] > rows["majority"]["map"] + 0.1
    assert found.plot().axes


def test_a_method_that_fails_does_not_take_the_others_along():
    found = compare(SEEN, methods=["boolweave auto", "majority"], n_folds=2, damping=7.0)
    assert list(found.folds) == ["majority"] and "damping" in found.failures["boolweave auto"]


def test_parameters_may_be_channels_and_arrays():
    flips = np.full(SEEN.shape, 0.05)
    flips[:, 0] = 0.2
    for given in (
        {"noise": Channel.symmetric(np.float64(0.05))},
        {
            "noise": Channel(one_given_zero=flips, one_given_one=1 - flips),
            "row_prior": np.full((SEEN.n_rows, 2), 0.3),
        },
    ):
        found = compare(
            SEEN, n_components=2, methods=["boolweave max-sum"], n_folds=2, n_jobs=1, **given
        )
        assert not found.failures
        assert found.mean("boolweave max-sum", "accuracy") > 0.8


def test_each_of_our_estimators_gets_the_parameters_that_it_has():
    given = {"max_time": 3.0, "damping": 0.5, "n_members": 4}
    got = {name: _parameters(name, "auto", None, 0, given).keys() & given for name in METHODS}
    assert got.pop("boolweave completion") == {"max_time", "n_members"}
    assert got.pop("boolweave auto") == got.pop("boolweave max-sum") == {"max_time", "damping"}
    assert not any(got.values())


# A pipe holds 64 KiB.
TALKATIVE = """
import sys
sys.stderr.write("much ado about nothing " * 20_000)
sys.stderr.flush()
"""


def in_every_new_process(folder, monkeypatch, source):
    (folder / "sitecustomize.py").write_text(source)
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


@pytest.mark.timeout(120)
def test_a_method_may_talk_as_much_as_it_likes(tmp_path, monkeypatch):
    in_every_new_process(tmp_path, monkeypatch, TALKATIVE)
    found = compare(SEEN, methods=["majority"], n_folds=2)
    assert list(found.folds) == ["majority"] and not found.failures


def test_means_and_errors_by_hand():
    other = dict.fromkeys(MEASURES, 1.0)
    folds = {"a": (0.5, 0.7), "b": (0.9,)}
    found = Comparison(
        {name: [{**other, "accuracy": x} for x in values] for name, values in folds.items()}, {}
    )
    assert found.mean("a", "accuracy") == pytest.approx(0.6)
    assert found.standard_error("a", "accuracy") == pytest.approx(0.1)
    assert np.isnan(found.standard_error("b", "accuracy"))  # nobody told it
    found.folds["b"][0]["accuracy_error"] = 0.3
    assert found.standard_error("b", "accuracy") == 0.3
    assert found.best("accuracy") == "b" and found.best("rank") is None
    assert np.isfinite(found.rows()[0]["accuracy_error"])


def test_bad_calls():
    with pytest.raises(ValueError, match="methods must be among"):
        compare(SEEN, methods=["nonsense"])
    with pytest.raises(ValueError, match="n_folds"):
        compare(SEEN, n_folds=1)
    with pytest.raises(ValueError, match="top must be a whole number >= 1, got 0"):
        compare(SEEN, top=0)
    for unknown in ("method", "n_member"):
        with pytest.raises(TypeError, match=f"unexpected argument '{unknown}'; expected param"):
            compare(SEEN, **{unknown: "auto"})


def losses(**by_method):
    folds = {name: [{"log_loss": x, "auc": -x} for x in own] for name, own in by_method.items()}
    return Comparison(folds, {})


def test_verdicts_are_paired():
    """The folds differ by far more than the methods do, which says nothing about the methods."""
    found = losses(a=[0.2, 0.5, 0.9], b=[0.21, 0.51, 0.91], c=[0.3, 0.6, 1.2]).verdict()
    assert (found.winner, found.runner_up, found.n_won, found.n_splits) == ("a", "b", 3, 3)
    assert found.difference == pytest.approx(0.01) and found.error == pytest.approx(0, abs=1e-12)
    assert found.is_clear and "a wins by log-loss: 0.533, 0.010 ± 0.000 lower than b" in str(found)
    higher = losses(a=[0.2, 0.5], b=[0.3, 0.7]).verdict("auc")
    assert "a wins by area under the curve: -0.350, 0.150 ± 0.050 higher than b" in str(higher)


def test_verdicts_that_are_none():
    tie = losses(a=[0.2, 0.5, 0.4], b=[0.3, 0.3, 0.51]).verdict()
    assert not tie.is_clear and str(tie).startswith("no clear winner by log-loss: a has 0.367")
    single = losses(a=[0.2], b=[0.3]).verdict()
    assert not single.is_clear and "one split does not show" in str(single)
    assert losses(a=[0.2]).verdict() is None
    assert losses(a=[0.2], b=[float("nan")]).verdict() is None


def test_ctrl_c_keeps_the_methods_that_are_done(tmp_path, monkeypatch):
    """Also if only this process gets the signal, while the next method does not print anything."""
    run, lines = comparison._run, comparison._lines

    def sleep_if_not_majority(name, *arguments):
        if name != "majority":
            in_every_new_process(tmp_path, monkeypatch, "import time; time.sleep(600)")
            monkeypatch.setattr(comparison, "_lines", wait_and_press)
        return run(name, *arguments)

    def wait_and_press(process):
        Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        return lines(process)

    monkeypatch.setattr(comparison, "_run", sleep_if_not_majority)
    methods = ["majority", "boolweave completion"]
    found = compare(SEEN, methods=methods, n_folds=2)
    assert found.interrupted and list(found.folds) == ["majority"] and not found.failures
    with pytest.raises(KeyboardInterrupt):
        compare(SEEN, methods=methods[1:], n_folds=2)
