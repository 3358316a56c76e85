"""Several Parquet files, and the command line on a cluster."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import polars as pl
import pytest
from commands import run_process
from test_cli import answer, refused

from boolweave import io
from boolweave.datasets import make_boolean
from boolweave.io import columnar
from boolweave.runtime.storage import is_in_file

QUICK = ("-k", "2", "--method", "max-sum", "--jobs", "1")


def frame_of(observations, seed=0):
    order = np.random.default_rng(seed).permutation(observations.n_observed)
    rows, columns = observations.rows_of_entries()[order], observations.indices[order]
    return pl.DataFrame(
        {
            "user": [f"user {m}" for m in rows],
            "item": columns + 100,
            "liked": observations.values[order],
        }
    )


def write_parts(frame, folder, n_parts):
    folder.mkdir(exist_ok=True)
    paths = []
    for n in range(n_parts):
        size = -(-frame.height // n_parts)
        paths.append(folder / f"{n}.parquet")
        frame.slice(n * size, size).write_parquet(paths[-1], row_group_size=50)
    return paths


@pytest.fixture
def frame():
    return frame_of(make_boolean(40, 30, 2, flip=0.05, observed=0.6, random_state=0).observations)


def assert_equal(one, other):
    np.testing.assert_array_equal(one.row_labels, other.row_labels)
    np.testing.assert_array_equal(one.column_labels, other.column_labels)
    for name in ("indptr", "indices", "values"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        assert getattr(one, name).dtype == getattr(other, name).dtype


@pytest.mark.parametrize("piece", [7, 10**6])
@pytest.mark.parametrize("max_memory", [None, 10**6, 2000])
def test_as_if_it_were_one_file(frame, tmp_path, monkeypatch, piece, max_memory):
    monkeypatch.setattr(columnar, "LINES_AT_A_TIME", piece)
    frame.write_parquet(tmp_path / "all.parquet")
    whole = io.read(tmp_path / "all.parquet").observations
    paths = write_parts(frame, tmp_path / "big", 3)
    found = io.read(paths, max_memory=max_memory).observations
    assert_equal(whole, found)
    assert is_in_file(found.values) == (max_memory == 2000)


def test_ratings_in_several_files(frame, tmp_path):
    ratings = frame.with_columns(liked=pl.col("liked") * 3 + pl.col("item") % 2)
    ratings = ratings.with_columns(
        liked=pl.when(pl.col("item") == 105).then(None).otherwise(pl.col("liked"))
    )
    ratings.write_parquet(tmp_path / "all.parquet")
    paths = write_parts(ratings, tmp_path / "big", 2)
    for above in ("mean", "median", 2.5):
        whole = io.read(tmp_path / "all.parquet", above=above).observations
        assert_equal(whole, io.read(paths, above=above).observations)


def test_twice_the_same_entry(frame, tmp_path):
    first = frame.head(1)
    other = first.with_columns(liked=1 - pl.col("liked"))
    for piece in (None, 2000):
        paths = write_parts(pl.concat([frame, first]), tmp_path, 2)
        whole = io.read(paths, max_memory=piece).observations
        assert whole.n_observed == frame.height
        paths = write_parts(pl.concat([frame, other]), tmp_path, 2)
        with pytest.raises(io.FileError, match=r"2 files: .*given as both 0 and 1.*`duplicates"):
            io.read(paths, max_memory=piece)
        rest = io.read(paths, max_memory=piece, duplicates="majority").observations
        assert rest.n_observed == frame.height - 1


def test_bad_files(frame, tmp_path, monkeypatch):
    paths = write_parts(frame, tmp_path / "big", 2)

    def message(*given, **options):
        with pytest.raises(io.FileError) as error:
            io.read(given, **options)
        assert "\n" not in str(error.value)
        return str(error.value)

    (tmp_path / "t.csv").write_text("a,b,c\n1,2,1\n")
    assert "several files must be Parquet files of triples" in message(*paths, tmp_path / "t.csv")
    frame.rename({"liked": "like"}).write_parquet(tmp_path / "other.parquet")
    assert "no column 'liked'" in message(*paths, tmp_path / "other.parquet")
    frame.with_columns(item=pl.col("item").cast(pl.String)).write_parquet(tmp_path / "o.parquet")
    assert "differ in type: Int32 and String" in message(*paths, tmp_path / "o.parquet")
    frame.with_columns(user=None).write_parquet(tmp_path / "o.parquet")
    assert "expected a name in row 1, got null" in message(tmp_path / "o.parquet", *paths)
    (tmp_path / "o.parquet").write_bytes(b"PAR1 nonsense PAR1")
    assert "cannot be read" in message(*paths, tmp_path / "o.parquet")
    frame.with_columns(liked=7).write_parquet(tmp_path / "o.parquet")
    assert "expected 0, 1 or null, got 7 in row 1;" in message(*paths, tmp_path / "o.parquet")
    number = pl.int_range(frame.height)
    frame.with_columns(liked=pl.when(number == 8).then(7)).write_parquet(tmp_path / "o.parquet")
    monkeypatch.setattr(columnar, "LINES_AT_A_TIME", 5)
    assert "got 7 in row 9;" in message(*paths, tmp_path / "o.parquet")
    pairs = [write_pairs(frame, tmp_path)] * 2
    assert "three columns, row, column, value, but got 2" in message(*pairs)


def write_pairs(frame, folder):
    frame.select("user", "item").write_parquet(folder / "pairs.parquet")
    return folder / "pairs.parquet"


# ---------------------------------------------------------------- the command


def test_several_files_on_the_command_line(frame, tmp_path):
    frame.write_parquet(tmp_path / "all.parquet")
    paths = write_parts(frame, tmp_path / "big", 3)
    one = answer("complete", "all.parquet", *QUICK, "-q", cwd=tmp_path)
    several = answer("complete", *paths, *QUICK, "-q", "--max-memory", "100kB", cwd=tmp_path)
    assert one == several
    (tmp_path / "t.csv").write_text("a,b,c\n1,2,1\n")
    refused("factorize", *paths, "t.csv", cwd=tmp_path)


def test_a_local_cluster(frame, tmp_path):
    pytest.importorskip("distributed")
    paths = write_parts(frame, tmp_path / "big", 2)
    here = answer("factorize", *paths, *QUICK, "--json", "-q", cwd=tmp_path)
    done = run_process("factorize", *paths, *QUICK, "--json", "--local-cluster", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout) == json.loads(here)
    assert "dashboard: http://" in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def of_session(leader):
    """The processes of a session, except its leader."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            if os.getsid(int(name)) == leader and int(name) != leader:
                found.append(int(name))
    return found


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="lists processes")
@pytest.mark.parametrize("when", ["starting", "fitting"])
def test_an_interrupted_local_cluster(frame, tmp_path, when):
    """Ctrl-C goes to all processes of the terminal; none prints anything or is left."""
    pytest.importorskip("distributed")
    frame.write_parquet(tmp_path / "all.parquet")
    command = [sys.executable, "-m", "boolweave", "factorize", "all.parquet", *QUICK[:4]]
    command += ["--max-iter", "1000000", "--tol", "0", "--local-cluster", "1", "--model", "m.npz"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        if when == "starting":
            while len(of_session(process.pid)) < 2 and process.poll() is None:  # tracker and worker
                time.sleep(0.01)
        else:
            while not process.stderr.readline().startswith("dashboard: "):
                assert process.poll() is None
            time.sleep(1)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors and "distributed" not in errors
    until = time.monotonic() + 30
    while of_session(process.pid) and time.monotonic() < until:  # it ends after its parent
        time.sleep(0.1)
    assert of_session(process.pid) == []


def test_a_scheduler(frame, tmp_path):
    distributed = pytest.importorskip("distributed")
    frame.write_parquet(tmp_path / "all.parquet")
    here = answer("complete", "all.parquet", *QUICK, "-q", cwd=tmp_path)
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        given = ("--scheduler", cluster.scheduler_address)
        done = run_process("complete", "all.parquet", *QUICK, *given, cwd=tmp_path)
        assert done.returncode == 0 and done.stdout.decode() == here
        assert "dashboard: " in done.stderr.decode()
        cluster.scale(0)
        while cluster.scheduler.workers:
            time.sleep(0.1)
        assert "has no workers" in refused(
            "complete", "all.parquet", *given, cwd=tmp_path, how=run_process
        )


def test_no_scheduler(frame, tmp_path, monkeypatch):
    monkeypatch.setattr("boolweave.cli.common.SCHEDULER_TIMEOUT", 1.0)
    frame.write_parquet(tmp_path / "all.parquet")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"

    text = refused("complete", "all.parquet", "--scheduler", address, cwd=tmp_path)
    assert f"--scheduler: no answer from {address}" in text
    text = refused("complete", "all.parquet", "--scheduler", "nonsense://x", cwd=tmp_path)
    assert "--scheduler: no answer from nonsense://x" in text
    both = ("--scheduler", address, "--local-cluster", "2")
    assert "cannot be combined" in refused("complete", "all.parquet", *both, cwd=tmp_path)


def test_no_dask(monkeypatch):
    from boolweave.cli.common import client_of
    from boolweave.cli.options import Cluster

    monkeypatch.setitem(sys.modules, "distributed", None)
    for where, option in ((Cluster("tcp://x:1"), "--scheduler"), (Cluster(None, 2), "--local")):
        with (
            pytest.raises(ImportError, match=rf"{option}.* needs Dask: pip install .*\["),
            client_of(where, True),
        ):
            pass
