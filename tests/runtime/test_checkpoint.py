"""Checkpoints: a run that was killed goes on, and ends where an undisturbed one does."""

import errno
import json
import os
import random
import shutil
import subprocess
import sys
import time
import warnings
import zipfile
from dataclasses import dataclass

import numpy as np
import pytest
from fitted import assert_same

from boolweave import BooleanMatrixFactorization, Channel, load, select_rank
from boolweave.datasets import make_boolean
from boolweave.engine import loop as engine
from boolweave.runtime import checkpoint_files
from boolweave.runtime.archives import write_arrays
from boolweave.runtime.checkpoint import Checkpoint, CheckpointWarning, Recorder


class Crash(Exception):
    """What stands for a kill within one process."""


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


def fitted(observations, parameters, **more):
    model = BooleanMatrixFactorization(
        **{"n_components": 3, "max_iter": 90, "random_state": 0, **parameters, **more}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(observations)


def crash_now_and_then(monkeypatch, seed, longest=60):
    """Let the engine fail after a random number of steps, and again after it was called anew."""
    dice, step = random.Random(seed), engine.step
    left = dice.randrange(1, longest)

    def crashing_step(*arguments):
        nonlocal left
        left -= 1
        if left == 0:
            left = dice.randrange(1, longest)
            raise Crash
        step(*arguments)

    monkeypatch.setattr(engine, "step", crashing_step)


@pytest.mark.parametrize("case", CASES)
def test_a_run_that_crashed_ends_where_another_does(planted, tmp_path, monkeypatch, case):
    monkeypatch.setattr(engine, "MIN_BLOCK", 300)  # several blocks
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
            pause = dice.uniform(0.1, 0.6) if n_killed < 3 else 120
            _, errors = child.communicate(timeout=pause)
            assert child.returncode == 0, errors
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            n_killed += 1
            assert n_killed <= 3, "the run does not end"
    assert n_killed == 3
    assert_same(undisturbed, load(result))
    assert os.listdir(place) == []


def stopped(observations, place, **parameters):
    """Leave a checkpoint behind, as a crash does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recorder, "save_if_due", Recorder.save)
        crash_now_and_then(patch, seed=0, longest=30)  # after 27 steps
        with pytest.raises(Crash):
            fitted(observations, {}, checkpoint=place, **parameters)
    return sorted(os.listdir(place))


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
    with pytest.raises(ValueError, match=rf"another problem \({what}.*give another place") as error:
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


def test_a_truncated_checkpoint(planted, tmp_path):
    first, second = (tmp_path / name for name in stopped(planted.observations, tmp_path))
    second.write_bytes(second.read_bytes()[:-1000])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert Recorder.at(tmp_path, planted.observations, {}).resuming
    assert f"{second} is damaged; trying the checkpoint before it" in str(caught[0].message)
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
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files if name != "checksum"}
    header = json.loads(str(arrays["header"]))
    change(header)
    with open(path, "wb") as file:
        write_arrays(file, {**arrays, "header": np.array(json.dumps(header))})


def test_a_checkpoint_of_a_newer_version(planted, tmp_path):
    for name in stopped(planted.observations, tmp_path):
        rewrite_header(tmp_path / name, lambda header: header.update(version=99))
    with pytest.raises(ValueError, match=r"newer boolweave \(checkpoint version 99.*upgrade"):
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


def test_checkpoints_of_the_first_version_had_no_checksum(planted, tmp_path):
    for name in stopped(planted.observations, tmp_path):
        rewrite_header(tmp_path / name, lambda header: header.update(version=1))
        with np.load(tmp_path / name) as stored:
            arrays = {key: stored[key] for key in stored.files if key != "checksum"}
        np.savez(tmp_path / name, **arrays)
    resumed = fitted(planted.observations, {}, checkpoint=tmp_path)
    assert_same(fitted(planted.observations, {}), resumed)


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.update(frames=7),
        lambda header: header.update(frames=[["run"]]),
        lambda header: header.update(objects=[["x", 3]]),
        lambda header: header.update(identity=[]),
        lambda header: header.update(version="two"),
        lambda header: header.pop("objects"),
    ],
)
def test_headers_that_nobody_wrote(planted, tmp_path, change):
    for name in stopped(planted.observations, tmp_path):
        rewrite_header(tmp_path / name, change)
    with pytest.raises(ValueError, match=r"every checkpoint in .* is damaged"):
        fitted(planted.observations, {}, checkpoint=tmp_path)


@pytest.mark.parametrize(
    "foreign",
    ["os:system", "boolweave.fit.learn:fit", "boolweave.nothing:X", "boolweave.model.model:X"],
)
def test_nothing_but_dataclasses_of_this_package_is_made(planted, tmp_path, foreign):
    def change(header):
        header["objects"][0][0] = foreign

    for name in stopped(planted.observations, tmp_path):
        rewrite_header(tmp_path / name, change)
    with pytest.raises(ValueError, match="does not fit this version of boolweave"):
        fitted(planted.observations, {}, checkpoint=tmp_path)


def test_frames_of_another_order(planted, tmp_path):
    for name in stopped(planted.observations, tmp_path):
        rewrite_header(tmp_path / name, lambda header: header["frames"].pop(1))
    with pytest.raises(ValueError, match="does not fit this version of boolweave; remove it from"):
        fitted(planted.observations, {}, checkpoint=tmp_path)


def test_other_files_in_the_directory_stay(planted, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    assert "notes.txt" in stopped(planted.observations, tmp_path)
    fitted(planted.observations, {}, checkpoint=tmp_path)
    assert os.listdir(tmp_path) == ["notes.txt"]


@pytest.mark.parametrize("url", [False, True])
def test_half_written_files_of_a_killed_run_are_swept_away(planted, tmp_path, url):
    import fsspec

    place = "memory://boolweave-test/half" if url else str(tmp_path)
    files, path = fsspec.core.url_to_fs(place)
    half = "checkpoint-000007.npz.part" if url else ".checkpoint-000007.npz.4711.part"
    files.makedirs(path, exist_ok=True)
    for name in (half, "my.part"):
        files.pipe_file(f"{path}/{name}", b"half")
    fitted(planted.observations, {"n_init": 1}, checkpoint=place)
    assert [name.rsplit("/", 1)[-1] for name in files.ls(path, detail=False)] == ["my.part"]


def test_ctrl_c_leaves_the_checkpoint(planted, tmp_path, monkeypatch):
    step, left = engine.step, 70

    def interrupted_step(*arguments):
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt
        step(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(engine, "step", interrupted_step)
        patch.setattr(Recorder, "save_if_due", Recorder.save)
        model = fitted(planted.observations, {}, checkpoint=tmp_path)
    assert model.interrupted_
    assert len(os.listdir(tmp_path)) == 2
    resumed = fitted(planted.observations, {}, checkpoint=tmp_path)
    assert_same(fitted(planted.observations, {}), resumed)


def test_a_url(planted):
    import fsspec

    place = "memory://boolweave-test/run"
    files = fsspec.filesystem("memory")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recorder, "save_if_due", Recorder.save)
        crash_now_and_then(patch, seed=0, longest=30)  # after 27 steps
        with pytest.raises(Crash):
            fitted(planted.observations, {}, checkpoint=place)
    assert len(files.ls("/boolweave-test/run")) == 2
    resumed = fitted(planted.observations, {}, checkpoint=place)
    assert_same(fitted(planted.observations, {}), resumed)
    assert files.ls("/boolweave-test/run") == []


@pytest.mark.parametrize("criterion", ["mdl", "heldout"])
def test_select_rank(planted, tmp_path, monkeypatch, criterion):
    how = {"ranks": [1, 2, 3], "criterion": criterion, "random_state": 0, "n_init": 2}
    undisturbed = select_rank(planted.observations, max_iter=60, **how)
    recorder_writes = every(1 if criterion == "heldout" else 7, Recorder.save)
    monkeypatch.setattr(Recorder, "save_if_due", lambda self: self._store and recorder_writes(self))
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
    assert int(n_failed) > 10
    assert f"the checkpoint in {place} could not be written (" in message
    assert "File too large" in message and "the run goes on" in message
    undisturbed = fitted(planted.observations, {"n_components": n_components, "n_init": 1})
    assert_same(undisturbed, load(result))
    assert os.listdir(place) == []


@pytest.mark.parametrize("url", [False, True])
def test_when_there_is_room_again(planted, tmp_path, monkeypatch, url):
    place = "memory://boolweave-test/full" if url else str(tmp_path)
    kind = checkpoint_files.Remote if url else checkpoint_files.Directory
    write, n_calls = checkpoint_files.write_arrays, 0

    def failing(*arguments):
        nonlocal n_calls
        n_calls += 1
        if n_calls % 3:
            if url:  # file systems have errors of their own
                raise RuntimeError("the bucket is full")
            raise OSError(errno.ENOSPC, "No space left on device")
        write(*arguments)

    monkeypatch.setattr(checkpoint_files, "write_arrays", failing)
    recorder = Recorder.at(Checkpoint(place, interval=0, share=1), planted.observations, {})
    for n_saved in (0, 0, 1, 1, 1, 2):
        recorder._due = 0.0
        if recorder.n_saved == n_saved:
            with pytest.warns(CheckpointWarning, match=r"bucket is full|No space left"):
                recorder.save_if_due()
        else:
            recorder.save_if_due()
        assert recorder.n_saved == n_saved
    assert kind(place).numbers() == [1, 2]
    recorder.finish()
    assert kind(place).numbers() == []


def test_what_is_no_fault_of_the_disk_is_an_error(planted, tmp_path):
    recorder = Recorder.at(Checkpoint(tmp_path, interval=0), planted.observations, {})
    with recorder.frame("loose", lambda: Loose(print)), pytest.raises(TypeError):
        recorder.save_if_due()


def test_a_checkpoint_that_cannot_be_removed_does_not_lose_the_result(
    planted, tmp_path, monkeypatch
):
    def forbidden(self, number):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    undisturbed = fitted(planted.observations, {})
    monkeypatch.setattr(checkpoint_files.Directory, "remove", forbidden)
    often = Checkpoint(tmp_path, interval=0, share=1)
    model = BooleanMatrixFactorization(3, max_iter=90, random_state=0, checkpoint=often)
    with pytest.warns(CheckpointWarning, match="could not be removed .* the run is finished"):
        model.fit(planted.observations)
    assert_same(undisturbed, model)


def test_a_checkpoint_that_somebody_removed(planted, tmp_path, monkeypatch):
    recorder = Recorder.at(tmp_path, planted.observations, {})
    for _ in range(2):
        recorder.save()
    monkeypatch.setattr(checkpoint_files.Directory, "numbers", lambda self: [1, 2, 3])
    recorder.finish()
    assert os.listdir(tmp_path) == []


def test_a_directory_that_somebody_removed(planted, tmp_path):
    place = tmp_path / "run"
    recorder = Recorder.at(Checkpoint(place, interval=0), planted.observations, {})
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

    monkeypatch.setattr(checkpoint_files, "write_arrays", greedy)
    recorder = Recorder.at(Checkpoint(tmp_path, interval=0), planted.observations, {})
    with pytest.warns(CheckpointWarning, match="Unable to allocate"):
        recorder.save_if_due()


# ---------------------------------------------------------------- the recorder itself


def test_how_often(tmp_path, planted, monkeypatch):
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    recorder = Recorder.at(Checkpoint(tmp_path, interval=100), planted.observations, {})
    write = checkpoint_files.Directory.write

    def slow_write(*arguments):
        nonlocal now
        now += 30.0
        write(*arguments)

    monkeypatch.setattr(checkpoint_files.Directory, "write", slow_write)
    for later, expected in ((99, 0), (100, 1), (131, 1), (1129, 1), (1131, 2)):
        now = later
        recorder.save_if_due()
        assert recorder.n_saved == expected


@dataclass
class Loose:
    """A frame that holds what it should not."""

    function: object


def test_what_a_checkpoint_cannot_hold(tmp_path, planted):
    recorder = Recorder.at(tmp_path, planted.observations, {})
    with (
        recorder.frame("loose", lambda: Loose(print)),
        pytest.raises(TypeError, match="cannot hold a builtin_function_or_method"),
    ):
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
    [({"interval": -1}, "seconds from 0 up, got -1"), ({"share": 0}, "above 0 and at most 1")],
)
def test_bad_numbers(wrong, message):
    with pytest.raises(ValueError, match=message):
        Checkpoint("somewhere", **wrong)


def test_a_saved_model_remembers_the_place(planted, tmp_path):
    model = fitted(planted.observations, {}, checkpoint=Checkpoint(tmp_path / "run", interval=5))
    model.save(tmp_path / "model.npz")
    assert load(tmp_path / "model.npz").checkpoint == str(tmp_path / "run")
