"""Forged checkpoints, which are refused before compiled code uses them."""

import json
import warnings

import numpy as np
import pytest
from altering import parts_of, put_checkpoint
from crashing import Crash, fail_at, fields_of

from boolweave import BooleanMatrixFactorization
from boolweave.datasets import make_boolean
from boolweave.runtime.checkpoint import Recorder

RUNS = {
    "max-sum": {"method": "max-sum"},
    "sum-product": {"method": "sum-product"},
    "floats": {"method": "max-sum", "messages": "float32"},
    "decimation": {"method": "sum-product", "decimation": 0.3},
    "auto": {"method": "auto"},
}


@pytest.fixture(scope="module")
def planted():
    return make_boolean(30, 20, 2, flip=0.1, random_state=0).observations


def run(observations, name, place):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return BooleanMatrixFactorization(
            2, max_iter=40, n_init=2, random_state=0, checkpoint=place, **RUNS[name]
        ).fit(observations)


def stop(observations, name, place, n_steps):
    """Arrays and header of the checkpoint of a run after some steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recorder, "save_if_due", Recorder.save)
        fail_at(patch, [n_steps])
        with pytest.raises(Crash):
            run(observations, name, place)
    return parts_of(max(place.iterdir()))


@pytest.fixture(scope="module", params=RUNS)
def stopped(request, planted, tmp_path_factory):
    """The name of a run, and its checkpoint."""
    return request.param, *stop(planted, request.param, tmp_path_factory.mktemp("run"), 25)


def arrays_in(node):
    """The names of all arrays in a tree."""
    if isinstance(node, dict) and "array" in node:
        return [node["array"]]
    below = node.values() if isinstance(node, dict) else node if isinstance(node, list) else []
    return [name for part in below for name in arrays_in(part)]


def test_as_it_was_written(planted, stopped, tmp_path):
    name, arrays, header = stopped
    put_checkpoint(tmp_path, arrays, header)
    assert run(planted, name, tmp_path).n_iter_ > 0


CHANGES = {
    "longer": lambda a: np.concatenate([a, a]),
    "shorter": lambda a: a[:-1],
    "wider": lambda a: np.concatenate([a, a], axis=-1),
    "another type": lambda a: a.astype(np.complex128),
    "by columns": np.asfortranarray,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("field", ["to_row", "to_column", "sums"])
def test_messages_of_another_problem(planted, stopped, tmp_path, field, change):
    """Each array of the states in turn, with a checksum that is right."""
    name, arrays, header = stopped
    wrong = set()
    for messages in fields_of(header, "FloatMessages") + fields_of(header, "IntegerMessages"):
        wrong |= set(arrays_in(messages.get(field)))
    for key in wrong:
        changed = CHANGES[change](arrays[key]) if arrays[key].size else arrays[key]
        same = changed.flags.c_contiguous and changed.dtype == arrays[key].dtype
        if same and changed.shape == arrays[key].shape:
            continue
        put_checkpoint(tmp_path, {**arrays, key: changed}, header)
        with pytest.raises(ValueError, match="does not fit this version of boolweave") as error:
            run(planted, name, tmp_path)
        assert str(tmp_path) in str(error.value)
        assert "\n" not in str(error.value)
    assert wrong or (field == "sums" and name == "floats")


def test_a_field_of_another_problem(planted, tmp_path):
    arrays, header = stop(planted, "max-sum", tmp_path, 4)
    (field,) = fields_of(header, "InitialBeliefs")
    wrong = arrays_in(field)
    assert len(wrong) == 2
    for key in wrong:
        for change in CHANGES.values():
            put_checkpoint(tmp_path, {**arrays, key: change(arrays[key])}, header)
            with pytest.raises(ValueError, match="does not fit this version of boolweave"):
                run(planted, "max-sum", tmp_path)
    field["row_step"] = float("nan")
    put_checkpoint(tmp_path, arrays, header)
    with pytest.raises(ValueError, match="does not fit this version of boolweave"):
        run(planted, "max-sum", tmp_path)


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("Iterates", "state", None), ("Iterates", "residuals", 3), ("Iterates", "scores", ["a"]),
        ("Iterates", "best", [0.0]), ("Iterates", "best", {"State": {}}),
        ("Iterates", "best_score", "high"),
        ("State", "semiring", "other"), ("State", "messages", 0.5), ("Candidate", "result", None),
        ("Result", "n_iter", "many"), ("Result", "ending", "torn"),
        ("Result", "row_log_odds", 1.0), ("Result", "history", None),
        ("Model", "n_components", 3), ("Model", "row_prior", 7.0), ("Model", "product", "and"),
        ("Channel", "one_given_zero", -1.0), ("Starts", "finished", None),
        ("Starts", "n_tried", -1), ("State", "field", 3), ("State", "n_iter", "a"),
        ("State", "residual", None), ("State", "n_changed", [0]),
        ("State", "n_iter", {"int64": "x"}), ("Attempts", "n_failed", -1),
        ("Starts", "best", {"same": "1-blocks"}),
    ],
)  # fmt: skip
def test_frames_of_other_things(planted, stopped, tmp_path, kind, field, value):
    name, arrays, header = stopped
    header = json.loads(json.dumps(header))
    found = fields_of(header, kind)
    for parts in found:
        parts[field] = value
    put_checkpoint(tmp_path, arrays, header)
    assert found
    with pytest.raises(ValueError, match="does not fit this version of boolweave"):
        run(planted, name, tmp_path)


@pytest.mark.parametrize("frame", ["seed", "blocks"])
@pytest.mark.parametrize("value", [{}, {"value": "a"}, {"value": -1}, 7, None])
def test_numbers_that_are_none(planted, stopped, tmp_path, frame, value):
    name, arrays, header = stopped
    header = json.loads(json.dumps(header))
    node = {"WholeNumber": value}
    header["frames"] = [[n, node if n == frame else other] for n, other in header["frames"]]
    put_checkpoint(tmp_path, arrays, header)
    with pytest.raises(ValueError, match="does not fit this version of boolweave"):
        run(planted, name, tmp_path)
