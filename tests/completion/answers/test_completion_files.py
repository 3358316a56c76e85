"""Saved ensembles: what is written comes back, and nothing else is read."""

from dataclasses import fields

import numpy as np
import pytest
from altering import arrays_of, declare_shapes, put, rewrite, say, unreadable
from completions import (
    all_pairs,
    fitted,
    model_of,
    planted,
    random_ensemble,
    random_observations,
)

from boolweave import BooleanCompletion, BooleanMatrixFactorization, io, load
from boolweave.completion.answers import saving
from boolweave.completion.answers.saving import is_completion
from boolweave.completion.chain import BINARY_CUTS
from boolweave.completion.ensemble import Ensemble, Family
from boolweave.io import FileError
from boolweave.runtime import archives

CUTS = np.array([-np.inf, -0.7, 0.4, np.inf])
PARAMETERS = {
    "n_components": "auto", "n_members": np.int64(3), "max_time": np.float32(0.5),
    "random_state": np.random.RandomState(0),
}  # fmt: skip
SELECTION = [
    {"model": name, "log_loss": np.float64(0.5), "standard_error": 0.1, "accuracy": 0.75,
     "weight": 1.0, "seconds": 2}
    for name in ("blend", "offsets", "offsets + 2 directions")
]  # fmt: skip


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.npz"


@pytest.fixture
def saved(path):
    model_of(random_ensemble(1), random_observations(1), SELECTION, **PARAMETERS).save(path)
    return path


def numbers_of(thing):
    """All arrays and numbers of an ensemble, in order."""
    if isinstance(thing, np.ndarray | int | float | str) or thing is None:
        return [thing]
    if not isinstance(thing, tuple) or hasattr(thing, "_fields"):
        names = getattr(thing, "_fields", None) or [field.name for field in fields(thing)]
        thing = [getattr(thing, name) for name in names]
    return [array for part in thing for array in numbers_of(part)]


def same(one, other):
    for a, b in zip(numbers_of(one), numbers_of(other), strict=True):
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
    model = model_of(ensemble, seen, SELECTION, **PARAMETERS)
    model.provenance_ = {"command": "boolweave complete", "hold_out": 0.1}
    model.save(path)
    again = load(path)
    same(again.ensemble_, ensemble)
    pairs = all_pairs((7, 9))
    np.testing.assert_array_equal(
        again.ensemble_.probabilities(*pairs), ensemble.probabilities(*pairs)
    )
    assert again.observations_.fingerprint == seen.fingerprint
    for name in ("row_labels", "column_labels"):
        np.testing.assert_array_equal(getattr(again.observations_, name), getattr(seen, name))
    np.testing.assert_array_equal(again.table_.levels, model.table_.levels)
    expected = {**BooleanCompletion(**PARAMETERS).get_params(), "random_state": None}
    assert again.get_params() == expected
    assert again.selection_ == SELECTION
    assert again.provenance_ == model.provenance_


def test_a_fit_with_members_of_fewer_layers(path):
    ensemble, _ = fitted()
    first, *others = ensemble.families[1].members
    members = (first._replace(layers=first.layers[:1]), *others)
    family = Family(ensemble.families[1].structure, members, 0.5)
    ensemble = Ensemble(ensemble.shape, (ensemble.families[0], family), None, 0.0)
    model_of(ensemble, planted()).save(path)
    same(load(path).ensemble_, ensemble)


def test_kinds_of_files(saved, tmp_path):
    assert is_completion(saved)
    other = tmp_path / "other.npz"
    BooleanMatrixFactorization(1, random_state=0).fit([[1, 0], [1, 0]]).save(other)
    assert not is_completion(other)
    with pytest.raises(FileError, match="not a boolweave model"):
        saving.load(other, BooleanCompletion)
    other.write_bytes(b"hello")
    with pytest.raises(FileError, match="not a boolweave model"):
        is_completion(other)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing.npz")
    with pytest.raises(FileNotFoundError):
        is_completion(tmp_path / "nothing.npz")


def test_observations_are_read_from_it_as_from_other_models(saved):
    assert io.read(saved).observations.fingerprint == random_observations(1).fingerprint


# ---------------------------------------------------------------- damage


FIRST, SECOND = "ensemble/families/0", "ensemble/families/1"
MEMBER, LAYER = f"{FIRST}/members/0", f"{SECOND}/members/0/layers/0"
WRONG = {
    "no members": say(FIRST, members=[]),
    "members as text": say(FIRST, members="000"),
    "fewer layers": say(f"{SECOND}/structure", n_layers=1),
    "a weight below 0": say(FIRST, weight=-0.1),
    "a weight without a number": say(FIRST, weight=float("nan")),
    "an intercept as text": say("ensemble", intercept="0"),
    "a cut of 0": say("ensemble", cut=0),
    "a cut above all levels": say("ensemble", cut=2),
    "another structure": say(f"{FIRST}/structure", n_directions=5),
    "directions below 0": say(f"{FIRST}/structure", n_directions=-1),
    "an unknown structure": say(f"{FIRST}/structure", rank=5),
    "an unknown product": say("ensemble/plain", product="and"),
    "noise above 1": say("ensemble/plain", one_given_one=1.5),
    "no plain model": say("ensemble", plain=None),
    "fewer families": say("ensemble", families=[]),
    "families as a number": say("ensemble", families=3),
    "an ensemble of another shape": say("ensemble", shape=[9, 7]),
    "another array of a member": say(MEMBER, rows={"array": "plain/rows"}),
    "a selection as text": say("", selection="offsets"),
    "a selection of texts": say("", selection=["offsets"]),
    "an unknown field": say("", more=1),
    "an unknown parameter": say("parameters", rank=1),
    "a wrong parameter": say("parameters", n_members="all"),
    "a selection without a blend": say("selection/0", model="offsets"),
    "a loss as text": say("selection/1", log_loss="0.5"),
    "levels of ratings": say("", n_levels=3),
    "weights of entries": say("", weights=True),
    "an origin as text": say("", provenance="boolweave complete"),
    "a table of another library": say("", table={"dict": {"library": "R", "label": None}}),
    "parameters as a list": say("", parameters=[]),
    "no ensemble": lambda arrays, header: header["tree"]["StoredCompletion"].pop("ensemble"),
    "no rows": lambda arrays, header: arrays.pop(f"{MEMBER}/rows"),
    "an unknown array": lambda arrays, header: arrays.update(more=np.zeros(2)),
    "rows as doubles": put(f"{MEMBER}/rows", lambda a: a.astype(float)),
    "rows turned": put(f"{MEMBER}/rows", lambda a: a.T),
    "rows without a number": put(f"{MEMBER}/rows", lambda a: a * np.float32(np.nan)),
    "fewer columns": put("ensemble/families/1/members/2/columns", lambda a: a[1:]),
    "variances below 0": put(f"{MEMBER}/row_variance", lambda a: -a - 1),
    "priors of 0": put(f"{MEMBER}/priors/1", lambda a: a * 0),
    "cuts that fall": put(f"{MEMBER}/cuts", lambda a: a[::-1]),
    "cuts without ends": put(f"{MEMBER}/cuts", np.zeros_like),
    "chances above 1": put(f"{LAYER}/rows", lambda a: a + 1),
    "layers of others": put(f"{LAYER}/columns", lambda a: a[:, 1:]),
    "a strength without a number": say(LAYER, strength=float("inf")),
    "plain chances below 0": put("ensemble/plain/rows", lambda a: -a - 1),
    "plain factors of others": put("ensemble/plain/columns", lambda a: a[1:]),
    "observed twos": put("observations/values", lambda a: a + 2),
    "observed elsewhere": put("observations/indices", lambda a: a + 100),
    "another shape": say("observations", shape=[8, 10]),
    "labels of others": put("observations/row_labels", lambda a: a[1:]),
}


WRONG_PATTERN = {
    "no pattern": say("ensemble", pattern=None),
    "a pattern that may be used": say(f"{FIRST}/structure", pattern="perhaps"),
    "rows of no usual size": say("ensemble/pattern", usual=0),
    "features of other rows": put("ensemble/pattern/rows", lambda a: a[1:]),
    "loadings of other features": put("ensemble/pattern/loadings", lambda a: a[:, 1:]),
    "too few coefficients": put(f"{MEMBER}/priors/0", lambda a: a[:3]),
}


@pytest.mark.parametrize("wrong", WRONG_PATTERN)
def test_a_pattern_that_does_not_fit(path, wrong):
    model_of(random_ensemble(1, n_pattern=2), random_observations(1)).save(path)
    load(path)
    rewrite(path, WRONG_PATTERN[wrong])
    assert "damaged" in unreadable(path)


@pytest.mark.parametrize("wrong", WRONG)
def test_what_does_not_fit_together(saved, wrong):
    rewrite(saved, lambda arrays, header: None)
    load(saved)
    rewrite(saved, WRONG[wrong])
    assert "damaged" in unreadable(saved)


def test_checksums_and_versions(saved):
    content = saved.read_bytes()
    np.savez(saved, **arrays_of(saved))
    assert "it does not contain 'checksum'" in unreadable(saved)
    saved.write_bytes(content)
    rewrite(saved, lambda arrays, header: header.update(version=saving.VERSION + 1))
    assert "newer version of boolweave" in unreadable(saved)
    rewrite(saved, lambda arrays, header: header.update(version=0))
    assert "not a boolweave model" in unreadable(saved)


def test_binary_cuts_come_back(saved):
    member = load(saved).ensemble_.families[0].members[0]
    np.testing.assert_array_equal(member.cuts, BINARY_CUTS)


@pytest.mark.parametrize(
    "name", [f"{MEMBER}/rows", "observations/indices", "ensemble/plain/columns"]
)
def test_an_array_is_refused_by_its_header(saved, name, monkeypatch):
    """A small file can claim to hold, and hold, an array of gigabytes, which is never read."""
    declare_shapes(saved, {name: (7 * 10**8,)})
    read = archives._fill
    monkeypatch.setattr(
        archives, "_fill", lambda target, file: read(target, file) if len(target) < 1e6 else 1 / 0
    )
    assert "damaged" in unreadable(saved)


def test_an_array_that_does_not_fit_into_memory(saved, monkeypatch):
    declare_shapes(saved, {"ensemble/plain/rows": (7, 10**8), "ensemble/plain/columns": (10**8, 9)})
    monkeypatch.setattr(archives, "free_memory", lambda: 10**9)
    with pytest.raises(MemoryError, match="in the file does not fit into memory"):
        load(saved)
