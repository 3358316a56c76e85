"""Saved models: what is written comes back, and nothing else is read."""

import json
import zipfile

import numpy as np
import pandas as pd
import pytest

import boolweave
from boolweave import BooleanMatrixFactorization, Channel, Observations, model_file

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


def unreadable(path):
    with pytest.raises(ValueError, match=r"model\.npz (is|was)") as caught:
        boolweave.load(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04", b"\x93NUMPY", bytes(500)])
def test_foreign_bytes(path, content):
    path.write_bytes(content)
    assert "is not a boolweave model, or it is damaged" in unreadable(path)


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
    np.savez(path, header=np.array([{"format": model_file.FORMAT}], dtype=object))
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


def rewrite(path, change):
    """Write the file again after `change` of its arrays and header."""
    with np.load(path) as stored:
        arrays = dict(stored)
    header = json.loads(str(arrays["header"]))
    change(arrays, header)
    arrays["header"] = np.array(json.dumps(header))
    np.savez(path, **arrays)


def test_newer_files(saved):
    rewrite(saved, lambda arrays, header: header.update(version=model_file.VERSION + 1))
    message = unreadable(saved)
    assert f"newer boolweave (file version {model_file.VERSION + 1}" in message
    assert "upgrade boolweave" in message


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays, header: arrays.pop("components_"),
        lambda arrays, header: arrays.pop("noise/one_given_zero"),
        lambda arrays, header: arrays.pop("observations/shape"),
        lambda arrays, header: header["fitted"].pop("n_iter_"),
        lambda arrays, header: header.pop("parameters"),
        lambda arrays, header: header.pop("version"),
        lambda arrays, header: header.update(version="one"),
        lambda arrays, header: header.update(parameters=[1]),
        lambda arrays, header: header["parameters"].update(unknown={"value": 1}),
        lambda arrays, header: arrays.update({"observations/values": np.full(10, 7)}),
        lambda arrays, header: arrays.update({"noise/one_given_zero": np.array(3.0)}),
    ],
)
def test_incomplete_files(saved, change):
    rewrite(saved, change)
    assert "damaged" in unreadable(saved)


def test_missing_files(tmp_path):
    with pytest.raises(FileNotFoundError):
        boolweave.load(tmp_path / "nothing.npz")
    with pytest.raises(ValueError, match="not a boolweave model"):
        boolweave.load(tmp_path)


def test_a_failing_save_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()

    def fail(file, **arrays):
        file.write(b"half a file")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises(OSError, match="disk full"):
        fit(noise=0.3).save(saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]
