"""Messages in files: the same bits as in memory, in the memory that is allowed."""

import errno
import gc
import os
import re
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import pytest
from commands import run_here
from crashing import stopped
from fitted import assert_same

from boolweave import BooleanMatrixFactorization, Channel, Observations
from boolweave.datasets import make_boolean
from boolweave.engine import loop
from boolweave.fit import memory
from boolweave.runtime import storage
from boolweave.runtime.storage import Files

needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="reads /proc")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(memory, "SMALLEST_BLOCK", 16)


@pytest.fixture(scope="module")
def planted():
    return make_boolean(90, 60, 3, flip=0.1, observed=0.8, random_state=0).observations


@pytest.fixture
def made(monkeypatch):
    """What was asked of `Files`."""
    calls = []
    zeros = Files.zeros

    def noted(self, shapes, dtype):
        calls.append((len(shapes), np.dtype(dtype)))
        return zeros(self, shapes, dtype)

    monkeypatch.setattr(Files, "zeros", noted)
    return calls


def tight(shape, n_components, entries=100, n_init=1, method="auto", n_jobs=1, **_):
    """Memory for the factors and blocks of so many entries."""
    K = 8 if n_components == "auto" else n_components
    learns = method != "max-sum"
    factors = memory.FitSize(shape, 0, K, n_init=n_init, learns=learns, n_jobs=n_jobs).n_bytes
    return factors + memory.LEAST_ROOM * K * entries


def both(observations, max_memory=None, **parameters):
    parameters = {"n_components": 3, "random_state": 0, "max_iter": 60, **parameters}
    max_memory = max_memory or tight(observations.shape, **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        here = BooleanMatrixFactorization(**parameters).fit(observations)
        there = BooleanMatrixFactorization(max_memory=max_memory, **parameters).fit(observations)
    return here, there


@pytest.mark.parametrize(
    "parameters",
    [
        {"method": "max-sum"},
        {"n_init": 3},
        {"n_init": 1, "n_jobs": 3},
        {"method": "sum-product", "n_init": 1, "decimation": 0.5},
        {"product": "xor", "n_init": 1, "n_components": 2},
        {"n_components": "auto", "n_init": 1, "max_iter": 40},
    ],
    ids=str,
)
def test_the_same_bits(planted, parameters, made):
    assert_same(*both(planted, **parameters))
    assert max(n for n, _ in made) >= 20  # in memory there is one block


def test_sparse_blocks(made):
    sparse = make_boolean(300, 80, 2, flip=0.05, observed=0.3, random_state=1).observations
    assert_same(*both(sparse, n_components=2, n_init=1))
    assert {kind for _, kind in made} == {np.dtype(np.uint8), np.dtype(np.int16)}


def test_what_fits_stays_in_memory(planted, made):
    assert_same(*both(planted, max_memory="1GiB", n_init=1))
    assert made == []


def test_without_the_cache_of_the_system(planted, monkeypatch):
    how = {"n_components": 3, "random_state": 0, "n_init": 1}
    here = BooleanMatrixFactorization(**how).fit(planted)
    monkeypatch.setattr(memory, "free_memory", lambda: 1)
    dropped, written = [], []
    monkeypatch.setattr(os, "posix_fadvise", lambda *part: dropped.append(part))
    monkeypatch.setattr(os, "fdatasync", lambda file: written.append(file))
    monkeypatch.setattr(storage, "WRITTEN_LATER", 1 << 16)
    there = BooleanMatrixFactorization(**how, max_memory=tight(planted.shape, **how)).fit(planted)
    assert_same(here, there)
    assert len(dropped) > 1000
    assert sum(part[1:3] == (0, 0) for part in dropped) == len(written) > 3  # the whole file


@needs_proc
def test_no_file_is_left(planted, made, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    step, seen = loop.iterate, []

    def watched(*arguments):
        seen.append((os.listdir(tmp_path), files_without_a_name()))
        if len(seen) == 12:
            raise ZeroDivisionError
        step(*arguments)

    gc.collect()  # files of the tests before
    before = files_without_a_name()
    monkeypatch.setattr(loop, "iterate", watched)
    with pytest.raises(ZeroDivisionError):
        BooleanMatrixFactorization(3, n_init=1, max_memory=tight((90, 60), 3)).fit(planted)
    assert made
    assert all(names == [] and open_files > before for names, open_files in seen)
    gc.collect()
    assert files_without_a_name() == before


@needs_proc
def test_no_file_waits_for_the_garbage_collector(planted, made):
    how = {"n_components": 3, "n_init": 1, "random_state": 0, "max_iter": 20}
    gc.collect()
    before = files_without_a_name()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            BooleanMatrixFactorization(**how, max_memory=tight((90, 60), **how)).fit(planted)
        assert made
        assert files_without_a_name() == before
    finally:
        gc.enable()


def files_without_a_name():
    links = []
    for name in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:  # the listing itself
            continue
    return sum(link.endswith(" (deleted)") for link in links)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_killed_run_goes_on_in_files(planted, made, monkeypatch, tmp_path):
    how = {"n_components": 3, "random_state": 0, "max_iter": 50, "n_init": 2, "tol": 0.0}
    here = BooleanMatrixFactorization(**how).fit(planted)
    out_of_core = {**how, "checkpoint": tmp_path, "max_memory": tight((90, 60), 3, n_init=2)}
    stopped(planted, n_steps=30, **out_of_core)
    made.clear()
    monkeypatch.setattr(Files, "LEAST", 1)
    monkeypatch.setattr("boolweave.runtime.checkpoint.LARGE", 1)
    with pytest.raises(ValueError, match=r"max_memory=\d+, not None"):
        BooleanMatrixFactorization(**how, checkpoint=tmp_path).fit(planted)
    there = BooleanMatrixFactorization(**out_of_core).fit(planted)
    assert_same(here, there)
    assert made[0][0] > 32  # what was read from the checkpoint


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("entries", [100, None])
@pytest.mark.parametrize(("before", "after"), [(1, 8), (8, 1)])
def test_a_run_in_files_goes_on_with_another_number_of_threads(
    planted, monkeypatch, tmp_path, before, after, entries
):
    how = {"n_components": 3, "random_state": 0, "max_iter": 50, "n_init": 2, "tol": 0.0}
    here = BooleanMatrixFactorization(**how).fit(planted)
    if entries is None:  # enough for one thread to have all in memory, but not for eight
        limit = memory.FitSize(
            planted.shape, planted.n_observed, 3, n_init=2, n_jobs=4, finish=False
        ).n_bytes
    else:
        limit = tight((90, 60), 3, n_init=2, n_jobs=8, entries=entries)
    asked, allowed = [], memory.store_for

    def noted(*arguments, **rest):
        asked.append((rest["n_jobs"], allowed(*arguments, **rest)))
        return asked[-1][1]

    monkeypatch.setattr(memory, "store_for", noted)
    how |= {"max_memory": limit, "checkpoint": tmp_path}
    stopped(planted, n_steps=30, n_jobs=before, **how)
    (_, first), = asked  # fmt: skip
    n_blocks = first.n_blocks
    there = BooleanMatrixFactorization(**how, n_jobs=after).fit(planted)
    assert_same(here, there)
    assert asked[1][0] == after
    assert asked[-1][1].n_blocks == n_blocks
    if before < after:  # not more than the limit allows with these blocks
        assert 1 <= asked[-1][0] < after
        assert allowed(planted, 3, max_memory=limit, messages="uint8", method="auto", learns=True,
                       n_init=2, n_jobs=asked[-1][0]).n_blocks <= n_blocks  # fmt: skip


# ---------------------------------------------------------------- entries from files


def on_disk(observations, folder):
    arrays = []
    for name in ("indptr", "indices", "values"):
        np.save(folder / f"{name}.npy", getattr(observations, name))
        arrays.append(np.load(folder / f"{name}.npy", mmap_mode="r"))
    return Observations(observations.shape, *arrays), arrays


def test_entries_are_not_copied(planted, tmp_path):
    mapped, arrays = on_disk(planted, tmp_path)
    assert np.shares_memory(mapped.indices, arrays[1])
    assert storage.is_in_file(mapped.indices) and storage.is_in_file(mapped.values[5:9])
    assert not storage.is_in_file(planted.values)
    sparse = mapped.take_rows(np.arange(40))  # a copy
    assert not storage.is_in_file(sparse.values)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("observed", [1.0, 0.9, 0.3])
def test_entries_from_files(observed, tmp_path):
    seen = make_boolean(120, 50, 2, flip=0.1, observed=observed, random_state=2).observations
    mapped, _ = on_disk(seen, tmp_path)
    here, there = both(seen, n_components=2, n_init=1)
    again = BooleanMatrixFactorization(
        2, n_init=1, random_state=0, max_iter=60, max_memory=tight(seen.shape, 2)
    )
    assert_same(here, again.fit(mapped))
    assert_same(here, there)


def test_a_private_mapping_keeps_its_changes(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(10**6, dtype=np.uint8))
    array = np.load(tmp_path / "a.npy", mmap_mode="c")
    array[:] = 1
    storage.release_pages(array)
    assert array.all()


def test_chunks():
    for n in (0, 1, 2, 9, 10, 11, 20, 21):
        array = np.arange(n)
        parts = list(storage.iterate_chunks(array, size=10))
        assert np.concatenate([array[:0], *parts]).tolist() == array.tolist()
        overlapping = list(storage.iterate_chunks(array, overlap=1, size=10))
        joined = [array[:1], *(part[1:] for part in overlapping)]
        assert np.concatenate(joined).tolist() == array.tolist()
        assert all(len(part) for part in parts + overlapping)


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_columns_are_checked_in_chunks(size, monkeypatch):
    from boolweave.data import entries

    monkeypatch.setattr(
        entries,
        "iterate_chunks",
        lambda array, overlap: storage.iterate_chunks(array, overlap, size),
    )
    indptr = np.array([0, 2, 2, 5, 6])
    good = np.array([1, 3, 0, 2, 9, 4])
    assert entries.scan_columns(indptr, good) == (0, 9, True)
    for bad in ([3, 3, 0, 2, 9, 4], [1, 3, 0, 9, 9, 4], [1, 3, 2, 0, 9, 4]):
        assert not entries.scan_columns(indptr, np.array(bad))[2]
    assert entries.scan_columns(np.array([0]), good[:0]) == (0, -1, True)


# ---------------------------------------------------------------- what can go wrong


def test_errors(planted, monkeypatch):
    for bad in ("much", "0", -1):
        with pytest.raises(ValueError, match="max_memory"):
            BooleanMatrixFactorization(2, max_memory=bad).fit(planted)
    with pytest.raises(MemoryError, match=r"more than `max_memory=1 kB`; raise it, or use fewer"):
        BooleanMatrixFactorization(2, max_memory=1000).fit(planted)
    floats = BooleanMatrixFactorization(
        2, noise=Channel(np.full((90, 60), 0.1), 0.9), max_memory="50kB"
    )
    with pytest.raises(MemoryError, match="only if they are integers"):
        floats.fit(planted)
    disk = storage.shutil.disk_usage("/")._replace(free=10)
    monkeypatch.setattr(storage.shutil, "disk_usage", lambda folder: disk)
    with pytest.raises(OSError, match="set TMPDIR to a directory on a larger disk"):
        BooleanMatrixFactorization(3, n_init=1, max_memory=tight((90, 60), 3)).fit(planted)


def test_a_full_disk(planted, monkeypatch):
    def full(file, n_bytes):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(storage, "_allocate", full)
    with pytest.raises(OSError, match=r"no room for .* GiB of messages .*set TMPDIR"):
        BooleanMatrixFactorization(3, n_init=1, max_memory=tight((90, 60), 3)).fit(planted)


def test_a_disk_that_is_memory(tmp_path):
    device = os.stat(tmp_path).st_dev
    numbers = f"{os.major(device)}:{os.minor(device)}"
    mounts = tmp_path / "mountinfo"
    for kind, expected in (("tmpfs", True), ("ext4", False)):
        mounts.write_text(
            f"1 0 0:999 / / rw - overlay o rw\n2 1 {numbers} / /t rw shared:2 - {kind} x rw\n"
        )
        assert storage._is_in_memory(tmp_path, mounts) is expected
    assert not storage._is_in_memory(tmp_path, tmp_path / "nothing")


def test_the_command_line(planted, tmp_path):
    import polars

    table = tmp_path / "table.csv"
    dense = planted.to_dense()
    polars.DataFrame(dense, schema=[f"c{n}" for n in range(60)]).fill_nan(None).write_csv(table)
    run = ["factorize", table, "-k", "3", "-q"]
    run += ["--objective", "posterior"]  # whose messages may be in files
    plain = run_here(*run)
    # with blocks of at least 4096 entries
    files = run_here(*run, "--max-memory", "900kB")
    assert files.returncode == plain.returncode == 0
    assert files.stdout == plain.stdout
    little = run_here(*run, "--max-memory", "1kB", text=True)
    assert little.returncode == 2
    assert re.fullmatch(r"boolweave: .* more than --max-memory 1kB; .*\n", little.stderr)


# ---------------------------------------------------------------- memory, measured

MEASURE = """
import sys
import numpy as np
from boolweave import BooleanMatrixFactorization, Observations

def peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))

folder, allowed = sys.argv[1], sys.argv[2]
names = ("indptr", "indices", "values")
arrays = [np.load(f"{folder}/{name}.npy", mmap_mode="r") for name in names]
how = {"n_components": 10, "method": "max-sum", "max_iter": 3, "tol": 0.0, "random_state": 0}
BooleanMatrixFactorization(**how).fit(np.eye(30))  # compiled
open("/proc/self/clear_refs", "w").write("5")  # the peak so far is forgotten
before = peak()
seen = Observations((8_000, 2_000), *arrays)
model = BooleanMatrixFactorization(**how, max_memory=None if allowed == "None" else int(allowed))
model.fit(seen)
print(peak() - before)
"""


@pytest.mark.slow
@needs_proc
def test_no_more_memory_than_allowed(tmp_path):
    seen = make_boolean(8_000, 2_000, 10, flip=0.1, observed=0.25, random_state=0).observations
    on_disk(seen, tmp_path)
    needed = memory.FitSize(seen.shape, seen.n_observed, 10, method="max-sum", learns=False).n_bytes
    allowed = needed // 3

    def run(limit):
        command = [sys.executable, "-W", "ignore", "-c", MEASURE, str(tmp_path), str(limit)]
        return int(subprocess.run(command, capture_output=True, check=True).stdout)

    assert run(None) > 2 * allowed
    assert run(allowed) <= allowed
