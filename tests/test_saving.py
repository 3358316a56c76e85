"""Saved models: what is written comes back, and nothing else is read."""

import json
import os
import random
import signal
import subprocess
import sys
import time
import zipfile

import numpy as np
import pandas as pd
import pytest
from altering import arrays_of, part_of, put, rewrite, say, unreadable

import boolweave
from boolweave import BooleanMatrixFactorization, Channel, Observations, saving

SEEN = np.array([[1, 1, 0, np.nan], [1, np.nan, 0, 0], [0, 0, 1, 1]])
FITTED = (
    "components_", "row_log_odds_", "column_log_odds_", "row_prior_", "column_prior_", "n_iter_",
    "converged_", "interrupted_", "log_posterior_", "n_features_in_",
)  # fmt: skip


def fit(X=SEEN, **parameters):
    return BooleanMatrixFactorization(
        2, **{"method": "max-sum", "random_state": 0, **parameters}
    ).fit(X)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.npz"


@pytest.fixture
def saved(path):
    fit().save(path)
    return path


def same_channel(one, other):
    for name in ("one_given_zero", "one_given_one", "missing_given_zero", "missing_given_one"):
        a, b = getattr(one, name), getattr(other, name)
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"noise": 0.25, "n_init": 2, "damping": np.float64(0.5), "tol": 0.01, "n_jobs": 2},
        {"noise": Channel(0.1, [[0.6, 0.7, 0.8, 0.9]], 0.1, np.full((3, 4), 0.05))},
        {"row_prior": [0.2, 0.4], "column_prior": np.full((2, 4), 0.3)},
        {"row_prior": pd.DataFrame(np.full((3, 2), 0.25)), "column_prior": (0.1,)},
    ],
)
def test_round_trip(path, parameters):
    model = fit(**parameters)
    model.save(path)
    again = boolweave.load(path)
    assert isinstance(again, BooleanMatrixFactorization)
    for name in FITTED:
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
        assert np.asarray(getattr(again, name)).dtype == np.asarray(getattr(model, name)).dtype
    same_channel(again.noise_, model.noise_)
    assert set(again.history_) == set(model.history_)
    for name, values in model.history_.items():
        np.testing.assert_array_equal(again.history_[name], values)
    for name, value in model.get_params().items():
        if isinstance(value, Channel):
            same_channel(getattr(again, name), value)
        else:
            np.testing.assert_array_equal(getattr(again, name), value)
    np.testing.assert_array_equal(again.predict([0, 2], [3, 0]), model.predict([0, 2], [3, 0]))
    np.testing.assert_array_equal(
        again.predict_proba([0, 2], [3, 0]), model.predict_proba([0, 2], [3, 0])
    )
    np.testing.assert_array_equal(again.transform(SEEN), model.transform(SEEN))
    np.testing.assert_array_equal(again.get_feature_names_out(), model.get_feature_names_out())
    refit = again.fit(SEEN)
    np.testing.assert_array_equal(refit.row_log_odds_, model.row_log_odds_)


def test_labels_come_back(path):
    labels = {"row_labels": ["Zoë", "b", "c"], "column_labels": list("wxyz")}
    fit(Observations.from_dense(SEEN, **labels)).save(path)
    again = boolweave.load(str(path))
    assert again.observations_.row_labels.tolist() == labels["row_labels"]
    assert again.predict(["Zoë"], ["y"]) == 0
    np.testing.assert_array_equal(again.observations_.to_dense(), SEEN)


def test_feature_names_come_back(path):
    table = pd.DataFrame(SEEN, columns=list("wxyz"))
    fit(table).save(path)
    again = boolweave.load(path)
    assert again.feature_names_in_.tolist() == list("wxyz")
    assert again.transform(table).shape == (3, 2)


def test_a_random_generator_is_not_kept(path):
    fit(random_state=np.random.RandomState(3)).save(path)
    assert boolweave.load(path).random_state is None


def test_nothing_in_the_file_can_run(saved):
    with zipfile.ZipFile(saved) as archive:
        for name in archive.namelist():
            assert name.endswith(".npy")
            with archive.open(name) as member:
                np.lib.format.read_array(member, allow_pickle=False)


# ---------------------------------------------------------------- files that are not models


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04", b"\x93NUMPY", bytes(500)])
def test_foreign_bytes(path, content):
    path.write_bytes(content)
    assert "not a boolweave model, or it is damaged" in unreadable(path)


def test_foreign_arrays(path):
    with path.open("wb") as file:
        np.save(file, np.arange(5))
    assert "not a boolweave model" in unreadable(path)
    np.savez(path, a=np.arange(5))
    assert "not a boolweave model" in unreadable(path)
    np.savez(path, header=np.array(json.dumps({"format": "other", "version": 1})))
    assert "not a boolweave model" in unreadable(path)
    np.savez(path, header=np.array(json.dumps([1, 2])))
    assert "not a boolweave model" in unreadable(path)
    np.savez(path, header=np.array([{"format": saving.FORMAT}], dtype=object))
    assert "not a boolweave model" in unreadable(path)


def test_every_truncation_is_noticed(saved):
    content = saved.read_bytes()
    for length in range(0, len(content), max(1, len(content) // 60)):
        saved.write_bytes(content[:length])
        unreadable(saved)


def test_flipped_bytes_are_noticed_or_harmless(saved):
    """A byte that says nothing, a date for example, may change; arrays are under a checksum."""
    expected = boolweave.load(saved)
    content = saved.read_bytes()
    rng = np.random.default_rng(0)
    noticed = 0
    for place in rng.choice(len(content), 150, replace=False):
        damaged = bytearray(content)
        damaged[place] ^= 0xFF
        saved.write_bytes(bytes(damaged))
        try:
            again = boolweave.load(saved)
        except ValueError as error:
            assert str(saved) in str(error)
            noticed += 1
        else:
            for name in ("components_", "row_log_odds_", "column_log_odds_"):
                np.testing.assert_array_equal(getattr(again, name), getattr(expected, name))
    assert noticed > 50


def test_newer_files(saved):
    rewrite(saved, lambda arrays, header: header.update(version=saving.VERSION + 1))
    message = unreadable(saved)
    assert f"newer version of boolweave (file version {saving.VERSION + 1}" in message
    assert "upgrade boolweave" in message


def pop(place, name):
    return lambda arrays, header: part_of(header, place).pop(name)


WRONG = {
    "no beliefs": lambda arrays, header: arrays.pop("result/row_log_odds"),
    "no noise": lambda arrays, header: arrays.pop("result/model/channel/one_given_zero"),
    "no history": lambda arrays, header: arrays.pop("result/history/residual"),
    "no word of a history": pop("result/history", "residual"),
    "no shape": pop("observations", "shape"),
    "no number of iterations": pop("result", "n_iter"),
    "no parameters": pop("", "parameters"),
    "no tree": lambda arrays, header: header.pop("tree"),
    "a tree of another kind": lambda arrays, header: header.update(tree={"Result": {}}),
    "no version": lambda arrays, header: header.pop("version"),
    "version in words": lambda arrays, header: header.update(version="one"),
    "version 0": lambda arrays, header: header.update(version=0),
    "an older version": lambda arrays, header: header.update(version=saving.VERSION - 1),
    "an unknown part": lambda arrays, header: header.update(more=1),
    "parameters in a list": say("", parameters=[1]),
    "an unknown parameter": say("parameters", unknown=1),
    "a wrong parameter": say("parameters", damping="much"),
    "a parameter out of range": say("parameters", damping=-3.0),
    "a nested parameter": say("parameters", row_prior=[[0.5]]),
    "a parameter without an array": say("parameters", row_prior={"array": "parameters/row_prior"}),
    "an unknown array": put("extra", 3),
    "an unknown number": say("result", extra=3),
    "iterations below 0": say("result", n_iter=-1),
    "iterations in words": say("result", n_iter="many"),
    "iterations in fractions": say("result", n_iter={"float64": 1.5}),
    "marginals in numbers": say("result", marginal=1),
    "no posterior": say("result", log_posterior=float("nan")),
    "a posterior as text": say("result", log_posterior={"float64": "x"}),
    "other observations": say("result", observations={"same": "result/model"}),
    "beliefs of another array": say("result", row_log_odds={"array": "result/stability"}),
    "an object within itself": say("result", model={"same": "result"}),
    "an unknown class": say("result", model={"Popen": {}}),
    "another class": say("result", model={"Observations": {}}),
    "two classes": say("result", model={"Model": {}, "Channel": {}}),
    "values of 7": put("observations/values", np.full(10, 7, np.uint8)),
    "values of another length": put("observations/values", lambda a: a[:-1]),
    "columns beyond the last": put("observations/indices", lambda a: a + 2),
    "columns below the first": put("observations/indices", lambda a: a - 1),
    "columns as floats": put("observations/indices", lambda a: a.astype(float)),
    "rows that end before they begin": put("observations/indptr", lambda a: a[::-1].copy()),
    "a shape of three": say("observations", shape=[3, 4, 5]),
    "no kind of observations": say("", observations={}),
    "a shape below 0": say("observations", shape=[-3, 4]),
    "a vast shape": say("observations", shape=[3, 2**40]),
    "a shape of fractions": say("observations", shape=[3.0, 4.0]),
    "labels for others": put("observations/row_labels", ["a"]),
    "noise above 1": put("result/model/channel/one_given_zero", 3.0),
    "noise as text": put("result/model/channel/one_given_zero", "0.1"),
    "noise of another shape": put(
        "result/model/channel/one_given_zero", np.full((7, 7), 0.1)
    ),
    "no factors": say("result/model", n_components=0),
    "fewer factors": say("result/model", n_components=1),
    "another product": say("result/model", product="and"),
    "more column beliefs": put("result/column_log_odds", lambda a: np.vstack([a, a])),
    "longer column beliefs": put("result/column_log_odds", lambda a: np.hstack([a, a])),
    "row beliefs turned": put("result/row_log_odds", lambda a: a.T),
    "flat row beliefs": put("result/row_log_odds", np.ravel),
    "beliefs as text": put("result/row_log_odds", lambda a: a.astype(str)),
    "beliefs without a number": put("result/row_log_odds", lambda a: a * np.nan),
    "priors above 1": put("result/model/row_prior", 1.5),
    "priors without a number": put("result/model/column_prior", np.nan),
    "priors of others": put("result/model/row_prior", np.full((9, 2), 0.5)),
    "stability of others": put("result/stability", [1.0]),
    "stability above 1": put("result/stability", [1.0, 3.0]),
    "histories of two lengths": put("result/history/residual", lambda a: a[:-1]),
    "a history of text": put("result/history/residual", lambda a: a.astype(str)),
    "half of a search": say("", ranks={"RankSelection": {"best": 2}}),
    "an unknown ending": say("result", ending="tired"),
    "a bound without an error": say("result", bound=1.0),
    "an error without a history": say("result", cost=1.0, bound=1.0),
    "names of others": put("feature_names", ["a"]),
    "a table of another library": say("", table={"dict": {"library": "R", "label": None}}),
    "an origin as text": say("", provenance="boolweave factorize"),
    "an unknown origin": say("provenance", who="me"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_parts_that_do_not_fit_together(saved, wrong):
    """With the right checksum: the numbers themselves are looked at."""
    rewrite(saved, WRONG[wrong])
    assert "damaged" in unreadable(saved)


def test_damage_in_our_own_words(saved):
    rewrite(saved, lambda arrays, header: header.update(tree=5))
    assert "this model is damaged: its parts do not fit together; save it again" in unreadable(
        saved
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (say("", observations={}), "'observations' must be of one kind"),
        (say("observations", shape=[3, 4, 5]), "'shape' must be two numbers"),
    ],
)
def test_sides_in_our_own_words(saved, change, words):
    rewrite(saved, change)
    assert f"this model is damaged: {words}; save it again" in unreadable(saved)


@pytest.mark.parametrize(
    "change",
    [
        say("result", cost="few"), say("result", cost=-1.0), say("result", bound=None),
        say("result", bound=1e9), say("result", cost=None, bound=None),
        say("result", cost=None, bound=None, redundancy=None), say("result", redundancy=None),
        put("result/redundancy", [1.0]), put("result/redundancy", [1.0, np.nan]),
        put("result/model/channel/one_given_one", 1.0),
        put("result/model/channel/one_given_zero", np.full((3, 4), 0.1)),
        lambda arrays, header: arrays.pop("result/redundancy"),
        lambda arrays, header: arrays.pop("result/history/error"),
        say("parameters", max_iter=3),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("quick_search")
def test_errors_that_do_not_fit_together(path, change):
    BooleanMatrixFactorization(2, objective="errors", n_init=2, random_state=0).fit(SEEN).save(path)
    rewrite(path, lambda arrays, header: None)
    assert boolweave.load(path).error_ >= 0
    rewrite(path, change)
    assert "damaged" in unreadable(path)


RANKS = {"ranks": [1, 2], "scores": [2.0, 1.0], "errors": [0.0, 0.0]}
NUMBERS = {
    "best": 2, "criterion": "mdl", "interrupted": False, "costs": None, "missed": None,
    "false_ones": None, "without": 3.0,
}  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [
        {"best": 3}, {"best": 2.0}, {"criterion": "guess"}, {"scores": [1.0]},
        {"costs": [1.0, 0.0]}, {"ranks": [1.0, 2.0]}, {"errors": ["a", "b"]},
    ],
)  # fmt: skip
def test_a_search_that_does_not_fit_together(saved, wrong):
    def search(arrays, header, more):
        fields = {**NUMBERS, **RANKS, **more}
        for name, value in fields.items():
            if isinstance(value, list):
                arrays[f"ranks/{name}"] = np.array(value)
                fields[name] = {"array": f"ranks/{name}"}
        part_of(header, "")["ranks"] = {"RankSelection": fields}

    rewrite(saved, lambda arrays, header: search(arrays, header, {}))
    assert boolweave.load(saved).rank_selection_.best == 2
    rewrite(saved, lambda arrays, header: search(arrays, header, wrong))
    assert "damaged" in unreadable(saved)


# ---------------------------------------------------------------- the checksum


@pytest.mark.parametrize(
    "change",
    [
        put("result/row_log_odds", lambda a: -a),
        put("result/row_log_odds", lambda a: np.full_like(a, np.inf)),
        put("result/model/channel/one_given_zero", 0.2),
        put("observations/values", lambda a: 1 - a),
        lambda arrays, header: arrays.pop("result/stability"),
    ],
)
def test_what_shapes_cannot_tell_the_checksum_does(saved, change):
    with np.load(saved) as stored:
        arrays = dict(stored)
    change(arrays, None)
    np.savez(saved, **arrays)
    assert "damaged" in unreadable(saved)


def test_the_same_arrays_written_by_others_are_the_same_file(saved):
    with np.load(saved) as stored:
        arrays = dict(stored)
    np.savez(saved, **arrays)
    assert boolweave.load(saved).n_features_in_ == 4


def test_a_checksum_cannot_be_left_out(saved):
    np.savez(saved, **arrays_of(saved))
    assert "it does not contain 'checksum'" in unreadable(saved)


@pytest.mark.parametrize("parameters", [{"row_prior": [0.0, 0.5]}, {"decimation": 0.5}])
def test_what_was_known_may_be_certain(path, parameters):
    model = fit(**{"method": "sum-product", **parameters})
    assert np.isinf(model.row_log_odds_).any()
    model.save(path)
    np.testing.assert_array_equal(boolweave.load(path).row_log_odds_, model.row_log_odds_)


def test_parameters_that_could_not_be_loaded_are_not_saved(path):
    model = fit()
    model.set_params(damping=-1.0)
    with pytest.raises(ValueError, match="damping"):
        model.save(path)
    assert not path.exists()


def test_missing_files(tmp_path):
    with pytest.raises(FileNotFoundError):
        boolweave.load(tmp_path / "nothing.npz")
    with pytest.raises(ValueError, match="not a boolweave model"):
        boolweave.load(tmp_path)


def test_a_failing_save_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()

    def fail(file, arrays, compress):
        file.write(b"half a file")
        raise OSError("disk full")

    monkeypatch.setattr(saving, "write_arrays", fail)
    with pytest.raises(OSError, match="disk full"):
        fit(noise=0.3).save(saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


# Lets a process of its own save, for every line that it reads.
SAVER = """
import os, sys
import numpy as np
from boolweave import BooleanMatrixFactorization

table = np.tile([[1, 1, 0, 0], [0, 0, 1, 1]], (40, 30))
models = [
    BooleanMatrixFactorization(2, method="max-sum", noise=noise, random_state=0).fit(table)
    for noise in (0.1, 0.2)
]
print("ready", flush=True)
for _ in sys.stdin:
    child = os.fork()
    while child == 0:
        for model in models:
            model.save(sys.argv[1])
    print(child, flush=True)
    os.waitpid(child, 0)
"""


def test_kills_during_saves(path):
    """Whenever the saving process is killed, the file is one of those that it wrote, whole."""
    dice = random.Random(0)
    command = [sys.executable, "-c", SAVER, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout.readline().strip() == "ready"
        for _ in range(5):
            print(file=parent.stdin, flush=True)
            saving = int(parent.stdout.readline())
            deadline = time.monotonic() + 60
            while not path.exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(dice.uniform(0.0, 0.1))
            os.kill(saving, signal.SIGKILL)
            model = boolweave.load(path)
            assert float(model.noise_.one_given_zero) == model.noise
            assert model.noise in (0.1, 0.2)
    fit().save(path)
    assert list(path.parent.iterdir()) == [path]
