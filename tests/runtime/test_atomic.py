"""Files that are replaced as a whole: killed writers, and several writers at once."""

import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from boolweave import BooleanMatrixFactorization, Observations, load
from boolweave.io.write import write_matrix
from boolweave.runtime.atomic import remove_abandoned, replacing

# Writes half of a file, says so, and waits to be killed.
CHILD = """
import sys, time
from boolweave.runtime.atomic import replacing

with replacing(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("half", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def writer():
    """Start processes that are in the middle of writing a file."""
    children = []

    def start(target):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(target)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        children.append(child)
        assert child.stdout.readline().strip() == "half"
        return child

    yield start
    for child in children:
        child.kill()
        child.communicate()


def test_what_a_killed_save_left_behind_is_removed_by_the_next(tmp_path, writer):
    target = tmp_path / "model.npz"
    model = BooleanMatrixFactorization(1, random_state=0).fit([[1, 0], [1, 0]])
    for name in ("other.npz", "model.npz.npz"):
        writer(tmp_path / name).kill()
    killed = writer(target)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    left = sorted(os.listdir(tmp_path))
    assert [name for name in left if name.startswith(f".model.npz.{killed.pid}")]
    model.save(target)
    left = [name for name in left if not name.startswith(f".model.npz.{killed.pid}")]
    assert sorted(os.listdir(tmp_path)) == sorted([*left, "model.npz"])  # only those of this file
    assert len(left) == 2
    load(target)


def test_what_is_still_being_written_is_left_alone(tmp_path, writer):
    target = tmp_path / "answer.csv"
    slow = writer(target)
    with replacing(target) as file:
        file.write(b"quick")
    assert target.read_bytes() == b"quick"
    assert len(os.listdir(tmp_path)) == 2
    slow.communicate("go on\n")
    assert slow.returncode == 0
    assert target.read_bytes() == b"half"
    assert os.listdir(tmp_path) == ["answer.csv"]


def test_two_threads_write_the_same_file(tmp_path):
    target = tmp_path / "answer.csv"
    both = threading.Barrier(2)

    def write(content):
        with replacing(target) as file:
            both.wait(60)
            file.write(content)
            both.wait(60)

    contents = [b"one", b"a longer one"]
    workers = [threading.Thread(target=write, args=(content,)) for content in contents]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert target.read_bytes() in contents
    assert os.listdir(tmp_path) == ["answer.csv"]


def test_a_file_that_was_removed_before_it_was_locked(tmp_path, monkeypatch):
    from boolweave.runtime import atomic

    lock, removed = atomic._lock, []

    def late(file):
        if not removed:
            removed.append(file.name)
            os.unlink(file.name)
        lock(file)

    monkeypatch.setattr(atomic, "_lock", late)
    with replacing(tmp_path / "answer.csv") as file:
        file.write(b"all")
    assert (tmp_path / "answer.csv").read_bytes() == b"all"
    assert removed


def test_a_finished_file_is_locked_until_it_has_its_name(tmp_path, monkeypatch):
    target, rename = tmp_path / "answer.csv", Path.replace

    def late(part, new):
        if part.name.endswith(".part"):
            remove_abandoned(tmp_path, r"\..*\.part")  # another process begins to write
        return rename(part, new)

    monkeypatch.setattr(Path, "replace", late)
    with replacing(target) as file:
        file.write(b"all")
    assert target.read_bytes() == b"all"


def test_the_next_writer_may_use_the_same_name_at_once(tmp_path, monkeypatch):
    target, rename, parts = tmp_path / "answer.csv", Path.replace, []

    def quick(part, new):
        renamed = rename(part, new)
        part.write_bytes(b"of another thread")
        parts.append(part)
        return renamed

    monkeypatch.setattr(Path, "replace", quick)
    with replacing(target) as file:
        file.write(b"all")
    assert [part.read_bytes() for part in parts] == [b"of another thread"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit for the size of files")
@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow", "json", "xlsx", "npz", "png"])
def test_an_error_of_the_disk_names_the_file(tmp_path, kind):
    import resource

    path, seen = tmp_path / f"table.{kind}", Observations.from_dense(np.eye(40))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, limits[1]))
    try:
        with pytest.raises(OSError) as caught:
            write_matrix([np.eye(40)], seen, path, kind)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(path))
    assert list(tmp_path.iterdir()) == []


def test_other_errors_stay_as_they_are(tmp_path):
    for error in (ValueError("no"), OSError("no number"), FileNotFoundError(2, "gone", "input")):
        with pytest.raises(type(error)) as caught, replacing(tmp_path / "t.csv"):
            raise error
        assert caught.value is error
    assert error.filename == "input"
