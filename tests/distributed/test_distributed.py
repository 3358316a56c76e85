"""A Dask cluster of two processes: the same result bit for bit, also if workers are lost."""

import os
import signal
import warnings

import numpy as np
import pytest
import scipy.sparse
from crashing import before_step, stopped
from fitted import assert_same, local_client, whole_again

from boolweave import BooleanMatrixFactorization, Channel, Observations, load
from boolweave.datasets import make_boolean
from boolweave.distributed import DaskBooleanMatrixFactorization
from boolweave.distributed.entries import RemoteEntries
from boolweave.engine import backend
from boolweave.fit import memory
from boolweave.runtime.checkpoint import Checkpoint, Recorder

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client():
    with local_client(processes=True) as client:
        yield client


@pytest.fixture(scope="module")
def planted():
    return make_boolean(70, 60, 3, flip=0.1, observed=0.8, random_state=0)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(backend, "MIN_BLOCK", 600)  # five blocks on two workers


def both(observations, client, **parameters):
    parameters = {"n_components": 3, "random_state": 0, "max_iter": 80, **parameters}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        here = BooleanMatrixFactorization(**parameters).fit(observations)
        there = DaskBooleanMatrixFactorization(client=client, **parameters).fit(observations)
    return here, there


@pytest.mark.parametrize(
    "parameters",
    [
        {"method": "max-sum"},
        {"n_init": 2},
        {"method": "sum-product", "n_init": 1, "decimation": 0.5},
        {"product": "xor", "n_init": 1, "n_components": 2},
        {"n_components": "auto", "n_init": 1, "max_iter": 40},
    ],
    ids=str,
)
def test_the_same_bits(client, planted, parameters):
    assert_same(*both(planted.observations, client, **parameters))


def test_priors_of_rows_and_columns(client, planted):
    rows, columns = np.linspace(0.2, 0.8, 70)[:, None], np.linspace(0.7, 0.3, 60)[None]
    rows[3], columns[0, 5] = 0, 1  # known
    priors = {"row_prior": np.repeat(rows, 3, axis=1), "column_prior": columns}
    for method in ("max-sum", "sum-product"):
        assert_same(*both(planted.observations, client, method=method, n_init=1, **priors))


def test_sparse_blocks_and_the_current_client(client):
    sparse = make_boolean(90, 80, 2, flip=0.05, observed=0.3, random_state=1)
    assert_same(*both(sparse.observations, None, n_components=2, n_init=1))


def one_worker(client):
    return sorted(client.scheduler_info(n_workers=-1)["workers"])[0]


# More than 40 steps.
LONG = {"n_components": 3, "random_state": 0, "max_iter": 60, "n_init": 2, "tol": 0.0}


def kill_a_worker_in_step(monkeypatch, client, when):
    pids = client.run(os.getpid)
    before_step(monkeypatch, when, lambda: os.kill(pids[one_worker(client)], signal.SIGKILL))


@pytest.mark.parametrize("with_checkpoint", [True, False])
def test_a_worker_that_dies(client, planted, tmp_path, monkeypatch, with_checkpoint):
    here = BooleanMatrixFactorization(**LONG).fit(planted.observations)
    resumed = []

    def noted(*arguments):
        recorder = Recorder(*arguments)
        resumed.append(recorder.resuming)
        return recorder

    monkeypatch.setattr("boolweave.estimator.factorization.Recorder", noted)
    kill_a_worker_in_step(monkeypatch, client, 30)
    place = Checkpoint(tmp_path, interval=0, share=1) if with_checkpoint else None
    there = DaskBooleanMatrixFactorization(client=client, checkpoint=place, **LONG)
    with pytest.warns(UserWarning, match="lost tcp://.*; the run continues with the others"):
        there.fit(planted.observations)
    assert_same(here, there)
    assert type(there.observations_) is Observations
    assert resumed == [False, with_checkpoint]
    assert os.listdir(tmp_path) == []
    whole_again(client)


def test_a_run_begun_here_goes_on_there(client, planted, tmp_path):
    here = BooleanMatrixFactorization(**LONG).fit(planted.observations)
    assert stopped(planted.observations, tmp_path, 30, **LONG)
    there = DaskBooleanMatrixFactorization(client=client, checkpoint=tmp_path, **LONG)
    assert_same(here, there.fit(planted.observations))


def test_an_error_on_a_worker_is_no_lost_worker(client, planted, monkeypatch):
    from boolweave.distributed.cluster import Cluster

    each = Cluster.call_each

    def broken(self, method, arguments):
        if method == "step":  # the last worker knows no such state, the others wait for it
            arguments = [*arguments[:-1], (-1, *arguments[-1][1:])]
        return each(self, method, arguments)

    model = DaskBooleanMatrixFactorization(2, client=client, random_state=0)
    with monkeypatch.context() as patch:
        patch.setattr(Cluster, "call_each", broken)
        with pytest.raises(KeyError):
            model.fit(planted.observations)
    model.fit(planted.observations)  # nobody waits any longer


def test_floats_are_for_one_machine(client, planted):
    for wrong in ({"messages": "float32"}, {"noise": Channel(np.full((70, 60), 0.1), 0.9)}):
        model = DaskBooleanMatrixFactorization(2, client=client, **wrong)
        with pytest.raises(ValueError, match="a cluster needs integer messages"):
            model.fit(planted.observations)


# ---------------------------------------------------------------- collections


def test_a_dask_array(client, planted, tmp_path):
    import dask.array

    table = planted.observations.to_dense()
    lazy = dask.array.from_array(table, chunks=(25, 30))
    how = {"n_components": 3, "random_state": 0, "n_init": 1, "max_iter": 40}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        here = BooleanMatrixFactorization(**how).fit(table)
        there = DaskBooleanMatrixFactorization(client=client, **how).fit(lazy)
    assert_same(here, there)
    there.save(tmp_path / "model.npz")
    assert_same(here, load(tmp_path / "model.npz"))
    factors = there.transform(lazy)
    assert factors.chunks == ((25, 25, 20), (3,))
    np.testing.assert_array_equal(factors.compute(), here.transform(table))
    rows, columns = (index.ravel() for index in np.indices(table.shape))
    lazy_rows = dask.array.from_array(rows, chunks=1000)
    for kind in ("observed", "latent"):
        lazy_p = there.predict_proba(lazy_rows, columns, kind=kind)
        np.testing.assert_array_equal(lazy_p.compute(), here.predict_proba(rows, columns, kind))
    lazy_z = there.predict(lazy_rows, dask.array.from_array(columns, chunks=777))
    np.testing.assert_array_equal(lazy_z.compute(), here.predict(rows, columns))


def triples_of(seen, labels=False):
    rows, columns = seen.rows_of_entries(), seen.indices
    if labels:
        rows, columns = (
            [f"{name}{n}" for n in side] for name, side in (("r", rows), ("c", columns))
        )
    return {"user": rows, "item": columns, "liked": seen.values}


def in_files(table, folder, n_files=3):
    import polars

    files = []
    for n in range(n_files):
        files.append(folder / f"{n}.parquet")
        polars.DataFrame({name: part[n::n_files] for name, part in table.items()}).write_parquet(
            files[-1]
        )
    return files


def test_triples(client, planted, tmp_path):
    import dask.dataframe
    import pandas

    seen = planted.observations
    files = in_files(triples_of(seen), tmp_path)
    frame = dask.dataframe.from_pandas(pandas.DataFrame(triples_of(seen)), npartitions=3)
    model = DaskBooleanMatrixFactorization(2, client=client)
    for given in (files, [str(file) for file in files], frame):
        found = model._observe(given, reset=True)
        assert isinstance(found, RemoteEntries)
        assert (found.shape, found.n_observed, found.n_ones) == (
            seen.shape, seen.n_observed, seen.n_ones
        )  # fmt: skip
        np.testing.assert_array_equal(found.entries_by_row, seen.indptr)
        np.testing.assert_array_equal(found.to_local().to_dense(), seen.to_dense())
    with pytest.raises(ValueError, match=r"three columns, row, column and value, got 2"):
        model._observe(frame[["user", "item"]], reset=True)


@pytest.mark.parametrize(
    "parameters",
    [{"n_init": 2}, {"product": "xor", "n_components": 2}, {"n_components": "auto"}],
    ids=str,
)
def test_entries_that_never_pass_through_the_client(
    client, planted, tmp_path, monkeypatch, parameters
):
    how = {"n_components": 3, "random_state": 0, "n_init": 1, "max_iter": 40, **parameters}
    seen = planted.observations
    here = BooleanMatrixFactorization(**how).fit(seen)
    files = in_files(triples_of(seen), tmp_path)
    fetched = []
    to_local = RemoteEntries.to_local
    monkeypatch.setattr(RemoteEntries, "to_local", lambda self: fetched.append(1) or to_local(self))
    there = DaskBooleanMatrixFactorization(client=client, **how).fit(files)
    assert_same(here, there)
    rows, columns = seen.rows_of_entries()[:50], seen.indices[:50]
    np.testing.assert_array_equal(
        there.predict_proba(rows, columns), here.predict_proba(rows, columns)
    )
    assert fetched == []
    keys = {key for _, key in there.observations_.cluster.peers}

    def n_states(dask_worker):
        actors = dask_worker.state.actors
        return [len(actors[key].states) for key in keys & actors.keys()]

    assert list(client.run(n_states).values()) == [[0], [0]]
    there.save(tmp_path / "model.npz")
    assert fetched
    loaded = load(tmp_path / "model.npz")
    assert_same(here, loaded)
    np.testing.assert_array_equal(loaded.observations_.to_dense(), seen.to_dense())


def test_labels_and_repeated_entries(client, planted, tmp_path):
    seen = planted.observations
    table = triples_of(seen, labels=True)
    twice = {name: np.concatenate([part, part[:99]]) for name, part in table.items()}
    files = in_files(twice, tmp_path)
    how = {"n_components": 3, "random_state": 0, "n_init": 1, "max_iter": 30}
    there = DaskBooleanMatrixFactorization(client=client, **how)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        there.fit(files)
        found = there.observations_
        local = found.to_local()
        here = BooleanMatrixFactorization(**how).fit(local)
    assert found.n_observed == seen.n_observed and found.n_ones == seen.n_ones
    assert sorted(local.row_labels) == sorted(set(table["user"]))
    order = [int(label[1:]) for label in local.row_labels]
    across = [int(label[1:]) for label in local.column_labels]
    np.testing.assert_array_equal(local.to_dense(), seen.to_dense()[np.ix_(order, across)])
    assert_same(here, there)
    some = found.take_rows([69, 3, 40, 3])
    np.testing.assert_array_equal(some.to_dense(), local.to_dense()[[69, 3, 40, 3]])
    files = in_files({**twice, "liked": np.append(seen.values, 1 - seen.values[:99])}, tmp_path)
    with pytest.raises(ValueError, match="given as both 0 and 1"):
        DaskBooleanMatrixFactorization(client=client, **how).fit(files)
    files = in_files({**table, "liked": seen.values + 1}, tmp_path)
    with pytest.raises(ValueError, match="2"):
        DaskBooleanMatrixFactorization(client=client, **how).fit(files)


def test_a_worker_that_dies_with_its_entries(client, planted, tmp_path, monkeypatch):
    seen = planted.observations
    here = BooleanMatrixFactorization(**LONG).fit(seen)
    files = in_files(triples_of(seen), tmp_path)
    kill_a_worker_in_step(monkeypatch, client, 30)
    place = Checkpoint(tmp_path / "run", interval=0, share=1)
    there = DaskBooleanMatrixFactorization(client=client, checkpoint=place, **LONG)
    with pytest.warns(UserWarning, match="lost tcp://.*; the run continues with the others"):
        there.fit(files)
    assert_same(here, there)
    whole_again(client)


def test_messages_of_workers_in_files(client, planted, monkeypatch):
    seen = planted.observations
    how = {"n_components": 3, "random_state": 0, "n_init": 1, "max_iter": 40}
    monkeypatch.setattr(memory, "SMALLEST_BLOCK", 16)
    least = memory.FitSize(seen.shape, 0, 3, n_init=1).n_bytes + 64 * 3 * 100
    with pytest.raises(MemoryError, match="for the factors and a block of messages"):
        DaskBooleanMatrixFactorization(client=client, **how, max_memory=1000).fit(seen)

    class SmallBlocks(distributed.WorkerPlugin):  # also for workers that join later
        def setup(self, worker):
            memory.SMALLEST_BLOCK = 16

    client.register_plugin(SmallBlocks(), name="small blocks")
    here, there = both(seen, client, **how, max_memory=least)
    assert_same(here, there)


def test_shares_of_blocks():
    from boolweave.distributed.cluster import _share_out

    random = np.random.default_rng(0)
    for n_blocks in (1, 2, 5, 32, 100):
        for n_workers in range(1, min(n_blocks, 40) + 1):
            n_entries = random.integers(0, 1000, n_blocks)
            shares = _share_out(n_entries, n_workers)
            assert [b.start for b in shares] == [0, *(b.stop for b in shares[:-1])]
            assert shares[-1].stop == n_blocks and len(shares) == n_workers
            assert all(b.stop > b.start for b in shares)
    equal = _share_out(np.full(32, 10), 4)
    assert [b.stop for b in equal] == [8, 16, 24, 32]


# ---------------------------------------------------------------- all zeros of a row at once


@pytest.fixture(scope="module")
def few_ones():
    made = make_boolean(
        120, 80, 3, row_density=0.2, column_density=0.2, flip=(0.01, 0.15), random_state=3
    )
    table = made.observations.to_dense().astype(float)
    table[5, 7] = table[90, 70] = np.nan
    return scipy.sparse.csr_array(np.where(table == 0, 0, table))


@pytest.mark.parametrize("parameters", [{"method": "max-sum", "noise": 0.05}, {}], ids=str)
def test_zeros_at_once(client, few_ones, parameters):
    """Covered zeros, too, are listed evenly over all workers, and their sums have the same bits."""
    parameters = {"zeros": "collective", "n_init": 1, "max_iter": 25, **parameters}
    here, there = both(few_ones, client, **parameters)
    assert there.result_.zeros == "collective"
    assert here.result_.counts(here.observations_)[0, 1] > 0
    assert_same(here, there)
    local = there.to_local()
    assert local.result_.zeros == "collective"
    np.testing.assert_array_equal(local.transform(few_ones), here.transform(few_ones))


def test_zeros_at_once_when_a_worker_dies(client, few_ones, tmp_path, monkeypatch):
    """The others go on from a checkpoint of messages, sums and listed zeros."""
    how = {**LONG, "zeros": "collective", "method": "max-sum", "noise": 0.05, "n_init": 1}
    here = BooleanMatrixFactorization(**how).fit(few_ones)
    kill_a_worker_in_step(monkeypatch, client, 12)
    place = Checkpoint(tmp_path, interval=0, share=1)
    there = DaskBooleanMatrixFactorization(client=client, checkpoint=place, **how)
    with pytest.warns(UserWarning, match="the run continues with the others"):
        there.fit(few_ones)
    assert_same(here, there)
    whole_again(client)


def test_zeros_at_once_need_the_ones_here(client):
    dask_array = pytest.importorskip("dask.array")
    model = DaskBooleanMatrixFactorization(2, client=client, zeros="collective")
    with pytest.raises(ValueError, match=r"pass a scipy\.sparse matrix"):
        model.fit(dask_array.zeros((8, 6), chunks=(4, 6)))
