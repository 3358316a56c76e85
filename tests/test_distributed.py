"""On a Dask cluster of two processes: the same answer bit for bit, whatever happens to workers."""

import os
import signal
import warnings

import numpy as np
import pytest

from boolweave import BooleanMatrixFactorization, Channel, Observations, load
from boolweave import message_passing as engine
from boolweave.checkpoint import Checkpoint, Recorder
from boolweave.datasets import make_boolean
from boolweave.distributed import DaskBooleanMatrixFactorization
from test_checkpoint import assert_same

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def planted():
    return make_boolean(70, 60, 3, flip=0.1, observed=0.8, random_state=0)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(engine, "MIN_BLOCK", 600)  # five blocks on two workers


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


def test_sparse_blocks_and_the_current_client(client):
    sparse = make_boolean(90, 80, 2, flip=0.05, observed=0.3, random_state=1)
    assert_same(*both(sparse.observations, None, n_components=2, n_init=1))


def one_worker(client):
    return sorted(client.scheduler_info(n_workers=-1)["workers"])[0]


# More than 40 steps.
LONG = {"n_components": 3, "random_state": 0, "max_iter": 60, "n_init": 2, "tol": 0.0}


def kill_a_worker_in_step(monkeypatch, client, when):
    step, count, pids = engine.step, 0, client.run(os.getpid)

    def deadly_step(*arguments):
        nonlocal count
        count += 1
        if count == when:
            os.kill(pids[one_worker(client)], signal.SIGKILL)
        step(*arguments)

    monkeypatch.setattr(engine, "step", deadly_step)


@pytest.mark.filterwarnings("ignore:the messages still changed")
@pytest.mark.parametrize("with_checkpoint", [True, False])
def test_a_worker_that_dies(client, planted, tmp_path, monkeypatch, with_checkpoint):
    here = BooleanMatrixFactorization(**LONG).fit(planted.observations)
    resumed = []
    at = Recorder.at

    def noted(*arguments):
        recorder = at(*arguments)
        resumed.append(recorder.resuming)
        return recorder

    monkeypatch.setattr(Recorder, "at", noted)
    kill_a_worker_in_step(monkeypatch, client, 30)
    place = Checkpoint(tmp_path, interval=0, share=1) if with_checkpoint else None
    there = DaskBooleanMatrixFactorization(client=client, checkpoint=place, **LONG)
    with pytest.warns(UserWarning, match="lost tcp://.*; the run goes on with the others"):
        there.fit(planted.observations)
    assert_same(here, there)
    assert type(there.observations_) is Observations
    assert resumed == [False, with_checkpoint]
    assert os.listdir(tmp_path) == []
    client.wait_for_workers(2)


@pytest.mark.filterwarnings("ignore:the messages still changed")
def test_a_run_begun_here_goes_on_there(client, planted, tmp_path, monkeypatch):
    here = BooleanMatrixFactorization(**LONG).fit(planted.observations)
    step, left = engine.step, 30

    def failing_step(*arguments):
        nonlocal left
        left -= 1
        if left == 0:
            raise ZeroDivisionError
        step(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(engine, "step", failing_step)
        patch.setattr(Recorder, "beat", Recorder.save)
        with pytest.raises(ZeroDivisionError):
            BooleanMatrixFactorization(checkpoint=tmp_path, **LONG).fit(planted.observations)
    there = DaskBooleanMatrixFactorization(client=client, checkpoint=tmp_path, **LONG)
    assert_same(here, there.fit(planted.observations))


def test_an_error_on_a_worker_is_no_lost_worker(client, planted, monkeypatch):
    from boolweave.cluster import Cluster

    each = Cluster._each

    def broken(self, method, arguments):
        if method == "step":  # the last worker knows no such state, the others wait for it
            arguments = [*arguments[:-1], (-1, *arguments[-1][1:])]
        return each(self, method, arguments)

    model = DaskBooleanMatrixFactorization(2, client=client, random_state=0)
    with monkeypatch.context() as patch:
        patch.setattr(Cluster, "_each", broken)
        with pytest.raises(KeyError):
            model.fit(planted.observations)
    model.fit(planted.observations)  # nobody waits any longer


def test_floats_are_for_one_machine(client, planted):
    for wrong in ({"messages": "float32"}, {"noise": Channel(np.full((70, 60), 0.1), 0.9)}):
        model = DaskBooleanMatrixFactorization(2, client=client, **wrong)
        with pytest.raises(ValueError, match="a cluster needs messages that are integers"):
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


def test_triples(client, planted, tmp_path):
    import dask.dataframe
    import pandas
    import polars

    seen = planted.observations
    triples = {"user": seen.rows_of_entries(), "item": seen.indices, "liked": seen.values}
    halves = [{name: part[half::2] for name, part in triples.items()} for half in (0, 1)]
    files = []
    for n, half in enumerate(halves):
        files.append(tmp_path / f"{n}.parquet")
        polars.DataFrame(half).write_parquet(files[-1])
    frame = dask.dataframe.from_pandas(pandas.DataFrame(triples), npartitions=3)
    model = DaskBooleanMatrixFactorization(2, client=client)
    for given in (files, [str(file) for file in files], frame):
        found = model._observe(given, reset=True)
        assert isinstance(found, Observations)
        np.testing.assert_array_equal(found.to_dense(), seen.to_dense())
    with pytest.raises(ValueError, match=r"three columns, row, column and value, got 2"):
        model._observe(frame[["user", "item"]], reset=True)
