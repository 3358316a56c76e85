"""Checkpoints: a run that was killed continues, with the result of an undisturbed one."""

import os
import random
import shutil
import subprocess
import sys

import numpy as np
import pytest
from crashing import Crash, crash_now_and_then, fail_at, fitted, stopped
from fitted import assert_same

from boolweave import Channel, load, select_rank
from boolweave.datasets import make_boolean
from boolweave.engine import backend
from boolweave.runtime.checkpoint import Recorder

CASES = {
    "max-sum": {"method": "max-sum", "n_init": 3},
    "max-sum, learning": {"method": "max-sum", "n_init": 2, "noise": "learn"},
    "auto": {"n_init": 4},
    "auto, decimation": {"n_init": 2, "decimation": 0.5},
    "sum-product": {"method": "sum-product", "n_init": 2, "decimation": 0.4},
    "float32": {"messages": "float32", "n_init": 3},
    "xor": {"product": "xor", "n_init": 3},
    "rank": {"n_components": "auto", "n_init": 1},
}


@pytest.fixture(scope="module")
def planted():
    return make_boolean(50, 40, 3, flip=0.12, observed=0.8, random_state=1)


@pytest.mark.parametrize("case", CASES)
def test_a_run_that_crashed_ends_where_another_does(planted, tmp_path, monkeypatch, case):
    monkeypatch.setattr(backend, "MIN_BLOCK", 300)  # several blocks
    undisturbed = fitted(planted.observations, CASES[case])
    crash_now_and_then(monkeypatch, seed=len(case), longest=300 if case == "rank" else 60)
    monkeypatch.setattr(Recorder, "save_if_due", every(3, Recorder.save))
    for n_crashes in range(1000):  # noqa: B007
        try:
            resumed = fitted(planted.observations, CASES[case], checkpoint=tmp_path)
            break
        except Crash:
            pass
    assert n_crashes >= 2
    assert_same(undisturbed, resumed)
    assert os.listdir(tmp_path) == []


def every(n, function):
    """Call it every n-th time only."""
    count = 0

    def sometimes(*arguments):
        nonlocal count
        count += 1
        if count % n == 0:
            function(*arguments)

    return sometimes


CHILD = """
import sys, time, warnings
from boolweave import BooleanMatrixFactorization
from boolweave.runtime.checkpoint import Checkpoint, CheckpointWarning, Recorder
from boolweave.datasets import make_boolean

warnings.simplefilter("ignore")
place, result = sys.argv[1:]
planted = make_boolean(60, 60, 3, flip=0.1, random_state=2)
save_if_due = Recorder.save_if_due
# time enough to be killed in
Recorder.save_if_due = lambda self: (save_if_due(self), time.sleep(0.01))
often = Checkpoint(place, interval=0.02, share=1)
model = BooleanMatrixFactorization(
    4, n_init=4, max_iter=150, tol=0.0, checkpoint=often, random_state=0
)
print("begun", flush=True)
model.fit(planted.observations)
model.save(result)
"""


def test_kill_minus_nine(tmp_path):
    undisturbed = fitted(
        make_boolean(60, 60, 3, flip=0.1, random_state=2).observations,
        {"n_components": 4, "n_init": 4, "max_iter": 150, "tol": 0.0},
    )
    place, result = tmp_path / "run", tmp_path / "model.npz"
    command = [sys.executable, "-c", CHILD, str(place), str(result)]
    dice = random.Random(0)
    n_killed = 0
    while not result.exists():
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert child.stdout.readline().strip() == "begun", child.stderr.read()
        try:
            pause = dice.uniform(0.1, 0.6) if n_killed < 2 else 120
            _, errors = child.communicate(timeout=pause)
            assert child.returncode == 0, errors
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            n_killed += 1
            assert n_killed <= 2, "the run does not end"
    assert n_killed == 2
    assert_same(undisturbed, load(result))
    assert os.listdir(place) == []


def test_the_last_two_are_kept(planted, tmp_path):
    names = stopped(planted.observations, tmp_path)
    assert len(names) == 2
    first, second = (int(name.removeprefix("checkpoint-").removesuffix(".npz")) for name in names)
    assert second == first + 1


def test_without_a_seed_the_run_goes_on_with_the_one_it_began_with(planted, tmp_path):
    stopped(planted.observations, tmp_path, random_state=None)
    resumed = [
        fitted(planted.observations, {}, checkpoint=place, random_state=None)
        for place in (copied(tmp_path, "a"), copied(tmp_path, "b"))
    ]
    assert_same(*resumed)


def copied(place, name):
    target = place.parent / f"{place.name}-{name}"
    shutil.copytree(place, target)
    return target


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"n_components": 4}, "n_components=3, not 4"),
        ({"n_components": "auto"}, "n_components=3, not 'auto'"),
        ({"damping": 0.5}, r"damping=0\.4, not 0\.5"),
        ({"random_state": 1}, "random_state=0, not 1"),
        ({"noise": Channel(0.1, 0.8)}, "noise='learn', not {"),
        ({"row_prior": np.full((50, 3), 0.4)}, r"row_prior='learn', not array \(50, 3\)"),
    ],
)
def test_a_checkpoint_of_other_parameters(planted, tmp_path, change, what):
    names = stopped(planted.observations, tmp_path)
    with pytest.raises(ValueError, match=rf"another problem \({what}.*set another place") as error:
        fitted(planted.observations, change, checkpoint=tmp_path)
    assert names[-1] in str(error.value)
    assert sorted(os.listdir(tmp_path)) == names


def test_a_checkpoint_of_other_data(planted, tmp_path):
    stopped(planted.observations, tmp_path)
    other = make_boolean(50, 40, 3, flip=0.12, observed=0.8, random_state=2)
    with pytest.raises(ValueError, match=r"another problem \(other data\)"):
        fitted(other.observations, {}, checkpoint=tmp_path)


def test_threads_and_verbosity_do_not_make_another_problem(planted, tmp_path):
    stopped(planted.observations, tmp_path)
    resumed = fitted(planted.observations, {}, checkpoint=tmp_path, n_jobs=2, verbose=1)
    assert_same(fitted(planted.observations, {}), resumed)


def test_other_files_in_the_directory_stay(planted, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    assert "notes.txt" in stopped(planted.observations, tmp_path)
    fitted(planted.observations, {}, checkpoint=tmp_path)
    assert os.listdir(tmp_path) == ["notes.txt"]


def test_half_written_files_of_a_killed_run_are_swept_away(planted, tmp_path):
    for name in (".checkpoint-000007.npz.4711.part", "my.part"):
        (tmp_path / name).write_bytes(b"half")
    fitted(planted.observations, {"n_init": 1}, checkpoint=tmp_path)
    assert os.listdir(tmp_path) == ["my.part"]


def test_ctrl_c_leaves_the_checkpoint(planted, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        fail_at(patch, [70], KeyboardInterrupt)
        patch.setattr(Recorder, "save_if_due", Recorder.save)
        model = fitted(planted.observations, {}, checkpoint=tmp_path)
    assert model.interrupted_
    assert len(os.listdir(tmp_path)) == 2
    resumed = fitted(planted.observations, {}, checkpoint=tmp_path)
    assert_same(fitted(planted.observations, {}), resumed)


def test_a_url_is_no_directory(planted):
    with pytest.raises(ValueError, match=r"must be a directory, got the address 's3://bucket/run'"):
        fitted(planted.observations, {}, checkpoint="s3://bucket/run")


@pytest.mark.parametrize("criterion", ["mdl", "heldout"])
def test_select_rank(planted, tmp_path, monkeypatch, criterion):
    how = {"ranks": [1, 2, 3], "criterion": criterion, "random_state": 0, "n_init": 2}
    undisturbed = select_rank(planted.observations, max_iter=60, **how)
    recorder_writes = every(1 if criterion == "heldout" else 7, Recorder.save)
    monkeypatch.setattr(Recorder, "save_if_due", lambda self: self._files and recorder_writes(self))
    crash_now_and_then(monkeypatch, seed=0, longest=900 if criterion == "heldout" else 60)
    for n_crashes in range(100):  # noqa: B007
        try:
            resumed = select_rank(planted.observations, max_iter=60, checkpoint=tmp_path, **how)
            break
        except Crash:
            pass
    assert n_crashes >= 1
    assert str(undisturbed) == str(resumed)
    assert os.listdir(tmp_path) == []
