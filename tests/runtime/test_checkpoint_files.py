"""Files of checkpoints: damaged, altered and foreign ones, disks that fail, how often."""

import errno
import os
import shutil
import subprocess
import sys
import time
import warnings
import zipfile
from dataclasses import dataclass

import numpy as np
import pytest
from altering import parts_of, rewrite
from crashing import fitted, stopped
from fitted import assert_same

from boolweave import BooleanMatrixFactorization, load
from boolweave.datasets import make_boolean
from boolweave.runtime import checkpoint
from boolweave.runtime.checkpoint import Checkpoint, CheckpointWarning, Recorder


@pytest.fixture(scope="module")
def planted():
    return make_boolean(50, 40, 3, flip=0.12, observed=0.8, random_state=1)


def test_a_truncated_checkpoint(planted, tmp_path):
    first, second = (tmp_path / name for name in stopped(planted.observations, tmp_path))
    second.write_bytes(second.read_bytes()[:-1000])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert Recorder(tmp_path, planted.observations, {}).resuming
    assert f"{second} is damaged; trying the previous checkpoint" in str(caught[0].message)
    for damaged in (b"", b"nothing of the kind", first.read_bytes()[:5000]):
        first.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"every checkpoint in .* is damaged; remove them"):
            fitted(planted.observations, {}, checkpoint=tmp_path)


def test_a_flipped_bit_is_noticed(planted, tmp_path):
    for name in stopped(planted.observations, tmp_path):
        content = bytearray((tmp_path / name).read_bytes())
        content[len(content) // 2] ^= 16
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match="damaged"):
        fitted(planted.observations, {}, checkpoint=tmp_path)


def rewrite_header(path, change):
    rewrite(path, lambda arrays, header: change(header))


def test_a_checkpoint_of_a_newer_version(planted, tmp_path):
    for name in stopped(planted.observations, tmp_path):
        rewrite_header(tmp_path / name, lambda header: header.update(version=99))
    with pytest.raises(
        ValueError, match=r"newer version of boolweave \(checkpoint version 99.*upgrade"
    ):
        fitted(planted.observations, {}, checkpoint=tmp_path)


@pytest.mark.parametrize("change", ["another array", "no checksum"])
def test_what_was_altered_is_noticed(planted, tmp_path, change):
    for name in stopped(planted.observations, tmp_path):
        with np.load(tmp_path / name) as stored:
            arrays = dict(stored)
        if change == "no checksum":
            del arrays["checksum"]
        else:
            largest = max((key for key in arrays if key != "header"), key=lambda k: arrays[k].size)
            arrays[largest] = arrays[largest] + 1
        np.savez(tmp_path / name, **arrays)
    with pytest.raises(ValueError, match=r"every checkpoint in .* is damaged"):
        fitted(planted.observations, {}, checkpoint=tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.update(frames=7),
        lambda header: header.update(frames=[["run"]]),
        lambda header: header.update(identity=[]),
        lambda header: header.update(version="two"),
        lambda header: header.update(version=2),
        lambda header: header.pop("frames"),
    ],
)
def test_headers_that_nobody_wrote(planted, tmp_path, change):
    for name in stopped(planted.observations, tmp_path):
        rewrite_header(tmp_path / name, change)
    with pytest.raises(ValueError, match=r"every checkpoint in .* is damaged"):
        fitted(planted.observations, {}, checkpoint=tmp_path)


def classes_in(node):
    """The names of classes, and of other kinds of nodes, in a tree."""
    if isinstance(node, list):
        return {name for item in node for name in classes_in(item)}
    if not isinstance(node, dict):
        return set()
    ((kind, content),) = node.items()
    parts = content.values() if isinstance(content, dict) else ()
    return {kind, *(name for part in parts for name in classes_in(part))}


def test_classes_have_bare_names_so_that_modules_can_move(planted, tmp_path):
    for name in stopped(planted.observations, tmp_path):
        _, header = parts_of(tmp_path / name)
        names = {name for _, node in header["frames"] for name in classes_in(node)}
        assert {"Starts", "Candidate", "State", "Result", "Model", "Channel"} <= names
        assert all(name.isidentifier() for name in names)


@pytest.mark.parametrize(
    "foreign",
    ["os:system", "system", "boolweave.fit.learn:fit", "boolweave.model.model:X", "Observations"],
)
def test_nothing_but_expected_classes_is_made(planted, tmp_path, foreign):
    def change(header):
        for frame in header["frames"]:
            if frame[0] == "run":
                ((_, fields),) = frame[1].items()
                fields["state"] = {foreign: {}}

    for name in stopped(planted.observations, tmp_path):
        rewrite_header(tmp_path / name, change)
    with pytest.raises(ValueError, match="does not fit this version of boolweave"):
        fitted(planted.observations, {}, checkpoint=tmp_path)


def test_frames_of_another_order(planted, tmp_path):
    for name in stopped(planted.observations, tmp_path):
        rewrite_header(tmp_path / name, lambda header: header["frames"].pop(1))
    with pytest.raises(ValueError, match="does not fit this version of boolweave; remove it from"):
        fitted(planted.observations, {}, checkpoint=tmp_path)


# ---------------------------------------------------------------- a disk that is full

FULL = """
import resource, sys, warnings
from boolweave import BooleanMatrixFactorization
from boolweave.runtime.checkpoint import Checkpoint, CheckpointWarning
from boolweave.datasets import make_boolean

place, result, n_components = sys.argv[1:]
planted = make_boolean(50, 40, 3, flip=0.12, observed=0.8, random_state=1)
model = BooleanMatrixFactorization(
    n_components if n_components == "auto" else int(n_components), n_init=1, max_iter=90,
    random_state=0, checkpoint=Checkpoint(place, interval=0, share=1),
)
warnings.simplefilter("ignore")
model.fit(planted.observations)  # compiled kernels go to files, too
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, hard))  # writing more fails
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model.fit(planted.observations)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
model.save(result)
failed = [str(w.message) for w in caught if w.category is CheckpointWarning]
print(len(failed), failed[0])
"""


@pytest.mark.parametrize("n_components", [3, "auto"])
def test_a_full_disk_does_not_end_the_fit(planted, tmp_path, n_components):
    place, result = tmp_path / "run", tmp_path / "model.npz"
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(place), str(result), str(n_components)],
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    n_failed, message = done.stdout.split(" ", 1)
    assert int(n_failed) > 1  # it tried again
    assert f"the checkpoint in {place} could not be written (" in message
    assert "File too large" in message and "the run continues" in message
    undisturbed = fitted(planted.observations, {"n_components": n_components, "n_init": 1})
    assert_same(undisturbed, load(result))
    assert os.listdir(place) == []


def test_when_there_is_room_again(planted, tmp_path, monkeypatch):
    write, n_calls = checkpoint.write_arrays, 0

    def failing(*arguments):
        nonlocal n_calls
        n_calls += 1
        if n_calls % 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(*arguments)

    monkeypatch.setattr(checkpoint, "write_arrays", failing)
    recorder = Recorder(Checkpoint(tmp_path, interval=0, share=1), planted.observations, {})
    for n_saved in (0, 0, 1, 1, 1, 2):
        recorder._due = 0.0
        if recorder.n_saved == n_saved:
            with pytest.warns(CheckpointWarning, match="No space left"):
                recorder.save_if_due()
        else:
            recorder.save_if_due()
        assert recorder.n_saved == n_saved
    assert checkpoint.Directory(str(tmp_path)).numbers() == [1, 2]
    recorder.finish()
    assert checkpoint.Directory(str(tmp_path)).numbers() == []


def test_what_is_no_fault_of_the_disk_is_an_error(planted, tmp_path):
    recorder = Recorder(Checkpoint(tmp_path, interval=0), planted.observations, {})
    with recorder.frame("loose", lambda: Loose(print)), pytest.raises(TypeError):
        recorder.save_if_due()


def test_a_checkpoint_that_cannot_be_removed_does_not_lose_the_result(
    planted, tmp_path, monkeypatch
):
    def forbidden(self, number):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    undisturbed = fitted(planted.observations, {})
    monkeypatch.setattr(checkpoint.Directory, "remove", forbidden)
    often = Checkpoint(tmp_path, interval=0, share=1)
    model = BooleanMatrixFactorization(3, max_iter=90, random_state=0, checkpoint=often)
    with pytest.warns(CheckpointWarning, match="could not be removed .* the run is finished"):
        model.fit(planted.observations)
    assert_same(undisturbed, model)


def test_a_checkpoint_that_somebody_removed(planted, tmp_path, monkeypatch):
    recorder = Recorder(tmp_path, planted.observations, {})
    for _ in range(2):
        recorder.save()
    monkeypatch.setattr(checkpoint.Directory, "numbers", lambda self: [1, 2, 3])
    recorder.finish()
    assert os.listdir(tmp_path) == []


def test_a_directory_that_somebody_removed(planted, tmp_path):
    place = tmp_path / "run"
    recorder = Recorder(Checkpoint(place, interval=0), planted.observations, {})
    recorder.save()
    shutil.rmtree(place)
    recorder._due = 0.0
    recorder.save_if_due()
    assert os.listdir(place) == ["checkpoint-000001.npz"]
    shutil.rmtree(place)
    recorder.finish()


def test_no_memory_for_a_checkpoint_does_not_end_the_fit(planted, tmp_path, monkeypatch):
    def greedy(*arguments):
        raise MemoryError("Unable to allocate 3 TiB")

    monkeypatch.setattr(checkpoint, "write_arrays", greedy)
    recorder = Recorder(Checkpoint(tmp_path, interval=0), planted.observations, {})
    with pytest.warns(CheckpointWarning, match="Unable to allocate"):
        recorder.save_if_due()


# ---------------------------------------------------------------- the recorder itself


def test_how_often(tmp_path, planted, monkeypatch):
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    recorder = Recorder(Checkpoint(tmp_path, interval=100), planted.observations, {})
    write = checkpoint.Directory.write

    def slow_write(*arguments):
        nonlocal now
        now += 30.0
        write(*arguments)

    monkeypatch.setattr(checkpoint.Directory, "write", slow_write)
    for later, expected in ((99, 0), (100, 1), (131, 1), (1129, 1), (1131, 2)):
        now = later
        recorder.save_if_due()
        assert recorder.n_saved == expected


@dataclass
class Loose:
    """A frame that holds what it should not."""

    function: object


def test_what_a_checkpoint_cannot_hold(tmp_path, planted):
    recorder = Recorder(tmp_path, planted.observations, {})
    wrong = pytest.raises(TypeError, match="cannot hold a builtin_function_or_method")
    with recorder.frame("loose", lambda: Loose(print)), wrong:
        recorder.save()
    assert os.listdir(tmp_path) == []


def test_a_checkpoint_is_an_ordinary_zip_of_arrays(planted, tmp_path):
    name = stopped(planted.observations, tmp_path)[-1]
    with zipfile.ZipFile(tmp_path / name) as archive:
        assert "header.npy" in archive.namelist()
    with np.load(tmp_path / name, allow_pickle=False) as stored:
        assert {stored[key].dtype.kind for key in stored.files} <= set("Uufib")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"interval": -1}, "non-negative number, got -1"), ({"share": 0}, "above 0 and at most 1")],
)
def test_bad_numbers(wrong, message):
    with pytest.raises(ValueError, match=message):
        Checkpoint("somewhere", **wrong)


def test_a_saved_model_remembers_the_place(planted, tmp_path):
    model = fitted(planted.observations, {}, checkpoint=Checkpoint(tmp_path / "run", interval=5))
    model.save(tmp_path / "model.npz")
    assert load(tmp_path / "model.npz").checkpoint == str(tmp_path / "run")
