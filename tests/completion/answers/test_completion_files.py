"""Saved ensembles: what is written comes back, and nothing else is read."""

import json
from dataclasses import fields

import numpy as np
import pytest
from altering import declare_shapes, refused_or_used
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
from boolweave.runtime.archives import write_arrays

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


def unreadable(path):
    with pytest.raises(FileError, match=r"model\.npz: ") as caught:
        load(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(path))
    return str(caught.value)


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


def tree_at(header, place):
    """A node in the tree of a header; objects and dictionaries are passed through."""
    node = header["tree"]
    for step in place:
        if isinstance(node, dict):
            ((_, node),) = node.items()
        node = node[step]
    return node


def say(*place, value):
    def change(arrays, header):
        node = tree_at(header, place[:-1])
        if isinstance(node, dict):
            ((_, node),) = node.items()
        node[place[-1]] = value

    return change


FIRST, SECOND = (("ensemble", "families", i) for i in range(2))
MEMBER = "ensemble/families/0/members/0"
LAYER = "ensemble/families/1/members/0/layers/0"
WRONG = {
    "no members": say(*FIRST, "members", value=[]),
    "members as text": say(*FIRST, "members", value="000"),
    "fewer layers": say(*SECOND, "structure", "n_layers", value=1),
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
    "an ensemble of another shape": say("ensemble", "shape", value=[9, 7]),
    "another array of a member": say(*FIRST, "members", 0, "rows", value={"array": "plain/rows"}),
    "a selection as text": say("selection", value="offsets"),
    "a selection of texts": say("selection", value=["offsets"]),
    "an unknown field": say("more", value=1),
    "an unknown parameter": say("parameters", "rank", value=1),
    "a wrong parameter": say("parameters", "n_members", value="all"),
    "a selection without a blend": say("selection", 0, "model", value="offsets"),
    "a loss as text": say("selection", 1, "log_loss", value="0.5"),
    "levels of ratings": say("n_levels", value=3),
    "weights of entries": say("weights", value=True),
    "an origin as text": say("provenance", value="boolweave complete"),
    "a table of another library": say("table", value={"dict": {"library": "R", "label": None}}),
    "parameters as a list": say("parameters", value=[]),
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
    "a strength without a number": say(
        *SECOND, "members", 0, "layers", 0, "strength", value=float("inf")
    ),
    "plain chances below 0": put("ensemble/plain/rows", lambda a: -a - 1),
    "plain factors of others": put("ensemble/plain/columns", lambda a: a[1:]),
    "observed twos": put("observations/values", lambda a: a + 2),
    "observed elsewhere": put("observations/indices", lambda a: a + 100),
    "another shape": say("observations", "shape", value=[8, 10]),
    "labels of others": put("observations/row_labels", lambda a: a[1:]),
}


WRONG_PATTERN = {
    "no pattern": say("ensemble", "pattern", value=None),
    "a pattern that may be used": say(*FIRST, "structure", "pattern", value="perhaps"),
    "rows of no usual size": say("ensemble", "pattern", "usual", value=0),
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
    rewrite(saved, lambda arrays, header: None, seal=False)
    assert "it does not contain 'checksum'" in unreadable(saved)
    saved.write_bytes(content)
    rewrite(saved, lambda arrays, header: header.update(version=saving.VERSION + 1))
    assert "newer version of boolweave" in unreadable(saved)
    rewrite(saved, lambda arrays, header: header.update(version=0))
    assert "not a boolweave model" in unreadable(saved)


def test_binary_cuts_come_back(saved):
    member = load(saved).ensemble_.families[0].members[0]
    np.testing.assert_array_equal(member.cuts, BINARY_CUTS)


def used(model):
    """Whether all answers of a model are probabilities; also written, read and shown again."""
    seen = model.observations_
    pairs = all_pairs(seen.shape)
    answers = [
        model.predict_proba(*pairs), model.transform(seen), model.recommend([0], n=1).probabilities,
        *model.predict_interval(*pairs), model.score(seen), model.explain(0, 0).probability,
    ]  # fmt: skip
    return all(((answer >= 0) & (answer <= 1)).all() for answer in map(np.asarray, answers))


ALTERED = {
    "two families and a plain model": random_ensemble(1, (4, 5), n_members=2),
    "levels": random_ensemble(3, (4, 5), n_members=1, cuts=CUTS, cut=2),
    "a pattern": random_ensemble(6, (4, 5), n_members=1, n_pattern=2),
    "a plain model": Ensemble((4, 5), (), random_ensemble(4, (4, 5), product="xor").plain, -0.1),
}


@pytest.mark.parametrize("kind", ALTERED)
def test_altered_files_are_refused_or_behave(path, kind):
    """One array or one value of the header is altered, and the file sealed again."""
    seen = random_observations(1, (4, 5))
    model = model_of(ALTERED[kind], seen, SELECTION, n_members=2, random_state=0)
    model.save(path)
    n_refused = refused_or_used(path, used, list(ALTERED).index(kind))
    assert n_refused > 60


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
