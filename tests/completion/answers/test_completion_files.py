"""Saved ensembles: what is written comes back, and nothing else is read."""

import json
import zipfile
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from completions import all_pairs, fitted, planted, random_ensemble, random_observations

from boolweave import io
from boolweave.completion.answers import saving
from boolweave.completion.answers.saving import is_completion, load, save
from boolweave.completion.chain import BINARY_CUTS, Member
from boolweave.completion.ensemble import Ensemble, Family, PlainBoolean
from boolweave.completion.features import Pattern
from boolweave.io import FileError
from boolweave.runtime.archives import write_arrays

STORED = Path(__file__).parents[2] / "stored"
CUTS = np.array([-np.inf, -0.7, 0.4, np.inf])
PARAMETERS = {
    "n_components": "auto", "n_members": np.int64(16), "max_time": None, "verbose": 0.5,
    "random_state": np.random.RandomState(0), "client": object(), "levels": (1, 2, 3),
}  # fmt: skip
SELECTION = [{"name": "offsets", "log_loss": np.float64(0.5), "kept": True}, {"name": "plain"}]
FITTED = {"count_scales": np.array([[0.1, 2.0], [1 / 3, 1.0]]), "n_dropped": 3, "note": None}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.npz"


@pytest.fixture
def saved(path):
    save(random_ensemble(1), random_observations(1), PARAMETERS, SELECTION, path, FITTED)
    return path


def arrays_of(thing):
    """All arrays and numbers of an ensemble, in order."""
    if isinstance(thing, np.ndarray | int | float | str) or thing is None:
        return [thing]
    if not isinstance(thing, tuple) or hasattr(thing, "_fields"):
        names = getattr(thing, "_fields", None) or [field.name for field in fields(thing)]
        thing = [getattr(thing, name) for name in names]
    return [array for part in thing for array in arrays_of(part)]


def same(one, other):
    for a, b in zip(arrays_of(one), arrays_of(other), strict=True):
        np.testing.assert_array_equal(a, b)
        assert np.asarray(a).dtype == np.asarray(b).dtype


@pytest.mark.parametrize(
    "ensemble",
    [
        random_ensemble(1),
        random_ensemble(2, product="xor", n_members=1),
        random_ensemble(3, cuts=CUTS, cut=2),
        Ensemble((7, 9), (), random_ensemble(4).plain, -0.1),
        Ensemble((7, 9), random_ensemble(5).families[:1], None, 1 / 3),
        random_ensemble(6, n_pattern=2),
    ],
)
@pytest.mark.parametrize("labels", [True, False])
def test_round_trip(path, ensemble, labels):
    seen = random_observations(1, labels=labels)
    save(ensemble, seen, PARAMETERS, SELECTION, path, FITTED)
    again = load(path)
    same(again.ensemble, ensemble)
    pairs = all_pairs((7, 9))
    np.testing.assert_array_equal(
        again.ensemble.probabilities(*pairs), ensemble.probabilities(*pairs)
    )
    assert again.observations.fingerprint == seen.fingerprint
    for name in ("row_labels", "column_labels"):
        np.testing.assert_array_equal(getattr(again.observations, name), getattr(seen, name))
    assert again.parameters == {
        **PARAMETERS, "random_state": None, "client": None, "levels": [1, 2, 3]
    }  # fmt: skip
    assert again.selection == SELECTION
    assert (again.fitted["n_dropped"], again.fitted["note"]) == (3, None)
    np.testing.assert_array_equal(again.fitted["count_scales"], FITTED["count_scales"])


def test_a_fit_with_members_of_fewer_layers(path):
    ensemble, _ = fitted()
    first, *others = ensemble.families[1].members
    members = (first._replace(layers=first.layers[:1]), *others)
    family = Family(ensemble.families[1].structure, members, 0.5)
    ensemble = Ensemble(ensemble.shape, (ensemble.families[0], family), None, 0.0)
    save(ensemble, planted(), {}, [], path)
    same(load(path).ensemble, ensemble)


def test_all_fields_are_known():
    """A new field of these classes has to be saved, too."""
    of_ensemble = ["shape", "families", "plain", "intercept", "cut", "pattern"]
    assert [f.name for f in fields(Ensemble)] == of_ensemble
    assert [f.name for f in fields(Pattern)] == [*saving._PATTERN, "usual"]
    assert [f.name for f in fields(Family)] == ["structure", "members", "weight"]
    assert [f.name for f in fields(PlainBoolean)] == ["rows", "columns", *saving._OF_PLAIN]
    assert len(Member._fields) == 7


def test_kinds_of_files(saved, tmp_path):
    assert is_completion(saved)
    other = tmp_path / "other.npz"
    other.write_bytes((STORED / "model-version-1.npz").read_bytes())
    assert not is_completion(other)
    with pytest.raises(FileError, match="not a boolweave model"):
        load(other)
    other.write_bytes(b"hello")
    with pytest.raises(FileError, match="not a boolweave model"):
        is_completion(other)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing.npz")
    with pytest.raises(FileNotFoundError):
        is_completion(tmp_path / "nothing.npz")


def test_observations_are_read_from_it_as_from_other_models(saved):
    assert io.read(saved).observations.fingerprint == random_observations(1).fingerprint


def test_nothing_in_the_file_can_run(saved):
    with zipfile.ZipFile(saved) as archive:
        for name in archive.namelist():
            with archive.open(name) as member:
                np.lib.format.read_array(member, allow_pickle=False)


# ---------------------------------------------------------------- damage


def unreadable(path):
    with pytest.raises(FileError, match=r"model\.npz: ") as caught:
        load(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(path))
    return str(caught.value)


def test_every_truncation_is_noticed(saved):
    content = saved.read_bytes()
    for length in range(0, len(content), len(content) // 30):
        saved.write_bytes(content[:length])
        unreadable(saved)


def test_flipped_bytes_are_noticed_or_harmless(saved):
    expected, content = load(saved), saved.read_bytes()
    noticed = 0
    for place in np.random.default_rng(0).choice(len(content), 60, replace=False):
        damaged = bytearray(content)
        damaged[place] ^= 0xFF
        saved.write_bytes(bytes(damaged))
        try:
            again = load(saved)
        except FileError as error:
            assert str(saved) in str(error)
            noticed += 1
        else:
            same(again.ensemble, expected.ensemble)
    assert noticed > 20


def rewrite(path, change, seal=True):
    """Write the file again after `change` of its arrays and header, with the right checksum."""
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files if name != "checksum"}
    header = json.loads(str(arrays["header"]))
    change(arrays, header)
    arrays["header"] = np.array(json.dumps(header))
    if seal:
        with open(path, "wb") as file:
            write_arrays(file, arrays)
    else:
        np.savez(path, **arrays)


def put(name, make):
    def change(arrays, header):
        arrays[name] = make(arrays[name])

    return change


def say(*place, value):
    def change(arrays, header):
        inside = header
        for step in place[:-1]:
            inside = inside[step]
        inside[place[-1]] = value

    return change


FIRST = ("ensemble", "families", 0)
WRONG = {
    "no members": say(*FIRST, "layers", value=[]),
    "more members": say(*FIRST, "layers", value=[0, 0, 0, 0]),
    "layers as text": say(*FIRST, "layers", value="000"),
    "more layers": say("ensemble", "families", 1, "layers", value=[2, 2, 3]),
    "a weight below 0": say(*FIRST, "weight", value=-0.1),
    "a weight without a number": say(*FIRST, "weight", value=float("nan")),
    "an intercept as text": say("ensemble", "intercept", value="0"),
    "a cut of 0": say("ensemble", "cut", value=0),
    "a cut above all levels": say("ensemble", "cut", value=2),
    "another structure": say(*FIRST, "structure", "n_directions", value=5),
    "directions below 0": say(*FIRST, "structure", "n_directions", value=-1),
    "an unknown structure": say(*FIRST, "structure", "rank", value=5),
    "an unknown product": say("ensemble", "plain", "product", value="and"),
    "noise above 1": say("ensemble", "plain", "one_given_one", value=1.5),
    "no plain model": say("ensemble", "plain", value=None),
    "fewer families": say("ensemble", "families", value=[]),
    "families as a number": say("ensemble", "families", value=3),
    "a selection as text": say("selection", value="offsets"),
    "a selection of texts": say("selection", value=["offsets"]),
    "an unknown field": say("more", value=1),
    "another array of the estimator": say("fitted_arrays", value=["levels"]),
    "parameters as a list": say("parameters", value=[]),
    "no ensemble": lambda arrays, header: header.pop("ensemble"),
    "no rows": lambda arrays, header: arrays.pop("family/0/rows"),
    "an unknown array": lambda arrays, header: arrays.update(more=np.zeros(2)),
    "rows as doubles": put("family/0/rows", lambda a: a.astype(float)),
    "rows turned": put("family/0/rows", lambda a: a.transpose(0, 2, 1)),
    "rows without a number": put("family/0/rows", lambda a: a * np.float32(np.nan)),
    "fewer columns": put("family/1/columns", lambda a: a[:, 1:]),
    "variances below 0": put("family/0/row_variance", lambda a: -a - 1),
    "priors of 0": put("family/0/row_prior", lambda a: a * 0),
    "cuts that fall": put("family/0/cuts", lambda a: a[:, ::-1]),
    "cuts without ends": put("family/0/cuts", np.zeros_like),
    "chances above 1": put("family/1/layers/rows", lambda a: a + 1),
    "layers of others": put("family/1/layers/columns", lambda a: a[:, :, 1:]),
    "more strengths": put("family/1/layers/strength", lambda a: np.tile(a, 2)),
    "plain chances below 0": put("plain/rows", lambda a: -a - 1),
    "plain factors of others": put("plain/columns", lambda a: a[1:]),
    "observed twos": put("observations/values", lambda a: a + 2),
    "observed elsewhere": put("observations/indices", lambda a: a + 100),
    "another shape": put("observations/shape", lambda a: a + 1),
    "labels of others": put("observations/row_labels", lambda a: a[1:]),
}


WRONG_PATTERN = {
    "no pattern": say("ensemble", "pattern", value=None),
    "a pattern that may be used": say(*FIRST, "structure", "pattern", value="perhaps"),
    "rows of no usual size": say("ensemble", "pattern", "usual", value=0),
    "features of other rows": put("pattern/rows", lambda a: a[1:]),
    "loadings of other features": put("pattern/loadings", lambda a: a[:, 1:]),
    "too few coefficients": put("family/0/row_coefficients", lambda a: a[:, :3]),
}


@pytest.mark.parametrize("wrong", WRONG_PATTERN)
def test_a_pattern_that_does_not_fit(path, wrong):
    save(random_ensemble(1, n_pattern=2), random_observations(1), {}, [], path)
    load(path)
    rewrite(path, WRONG_PATTERN[wrong])
    assert "damaged" in unreadable(path)


def test_files_of_version_1_have_no_pattern(saved):
    def as_before(arrays, header):
        header["version"] = 1
        del header["ensemble"]["pattern"]
        for family in header["ensemble"]["families"]:
            del family["structure"]["pattern"]

    rewrite(saved, as_before)
    same(load(saved).ensemble, random_ensemble(1))


@pytest.mark.parametrize("wrong", WRONG)
def test_what_does_not_fit_together(saved, wrong):
    rewrite(saved, lambda arrays, header: None)
    load(saved)
    rewrite(saved, WRONG[wrong])
    assert "damaged" in unreadable(saved)


def test_checksums_and_versions(saved):
    content = saved.read_bytes()
    rewrite(saved, lambda arrays, header: None, seal=False)
    assert "it does not contain 'checksum'" in unreadable(saved)
    saved.write_bytes(content)
    rewrite(saved, say("version", value=saving.VERSION + 1))
    assert "newer version of boolweave" in unreadable(saved)
    rewrite(saved, say("version", value=0))
    assert "not a boolweave model" in unreadable(saved)


def test_a_failing_save_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()

    def fail(file, arrays, compress):
        file.write(b"half a file")
        raise OSError("disk full")

    monkeypatch.setattr(saving, "write_arrays", fail)
    with pytest.raises(OSError, match="disk full"):
        save(random_ensemble(2), random_observations(1), {}, [], saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_binary_cuts_come_back(saved):
    member = load(saved).ensemble.families[0].members[0]
    np.testing.assert_array_equal(member.cuts, BINARY_CUTS)
