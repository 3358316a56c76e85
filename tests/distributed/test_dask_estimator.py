"""The estimator on a Dask cluster: scikit-learn's conventions, and the meaning of errors."""

import asyncio
import errno
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest
from crashing import after_task, before_step, stopped
from fitted import assert_same, local_client, whole_again
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from test_distributed import (  # noqa: F401 (fixtures)
    LONG,
    client,
    in_files,
    one_worker,
    planted,
    small_blocks,
    triples_of,
)

from boolweave import BooleanCompletion, BooleanMatrixFactorization, load
from boolweave.completion import selection
from boolweave.datasets import make_boolean
from boolweave.distributed import DaskBooleanMatrixFactorization
from boolweave.runtime import cluster

dask = pytest.importorskip("dask")
pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

HOW = {"n_components": 3, "n_init": 1, "max_iter": 40}


@pytest.fixture
def table(planted):  # noqa: F811
    return planted.observations.to_dense()


# ---------------------------------------------------------------- dask arrays in, dask arrays out


def test_fit_transform_of_a_dask_array(client, table):  # noqa: F811
    import dask.array

    lazy = dask.array.from_array(table, chunks=(25, 30))
    there = DaskBooleanMatrixFactorization(client=client, random_state=0, **HOW)
    factors = there.fit_transform(lazy)
    assert factors.chunks == ((25, 25, 20), (3,))
    here = BooleanMatrixFactorization(random_state=0, **HOW).fit(table)
    np.testing.assert_array_equal(factors.compute(), here.transform(table))


def test_fit_transform_of_a_dask_array_takes_no_weights(client, table):  # noqa: F811
    dask_array = pytest.importorskip("dask.array")
    model = DaskBooleanMatrixFactorization(2, client=client)
    with pytest.raises(ValueError, match="`sample_weight` weights errors"):
        model.fit_transform(dask_array.from_array(table), sample_weight=np.ones(len(table)))


def test_fit_transform_of_files(client, planted, tmp_path):  # noqa: F811
    files = in_files(triples_of(planted.observations), tmp_path)
    there = DaskBooleanMatrixFactorization(client=client, random_state=0, **HOW)
    here = BooleanMatrixFactorization(random_state=0, **HOW)
    np.testing.assert_array_equal(
        there.fit_transform(files), here.fit_transform(planted.observations)
    )


def test_predictions_of_a_dask_matrix(client, table):  # noqa: F811
    import dask.array

    lazy = dask.array.from_array(table, chunks=(25, 30))
    there = DaskBooleanMatrixFactorization(client=client, random_state=0, **HOW).fit(lazy)
    here = there.to_local()
    for name in ("predict", "predict_proba"):
        found = getattr(there, name)(lazy)
        assert found.chunks == ((25, 25, 20), (60,))
        np.testing.assert_array_equal(found.compute(), getattr(here, name)(table))


# ---------------------------------------------------------------- clones and seeds


def test_a_clone_has_the_same_client(client, table):  # noqa: F811
    prior = np.full((70, 3), 0.4)
    model = DaskBooleanMatrixFactorization(client=client, random_state=0, row_prior=prior, **HOW)
    copies = [clone(model), clone(make_pipeline(model))[0], clone(model.fit(table))]
    for copy in copies:
        assert copy.client is client is model.client
        assert copy.row_prior is not prior
        np.testing.assert_array_equal(copy.row_prior, prior)
        assert copy.get_params().keys() == model.get_params().keys()
        assert not hasattr(copy, "components_")
    assert_same(model, copies[0].fit(table))


def test_grid_search(client, table):  # noqa: F811
    models = (
        DaskBooleanMatrixFactorization(client=client, random_state=0, **HOW),
        BooleanMatrixFactorization(random_state=0, **HOW),
    )
    there, here = (GridSearchCV(m, {"n_components": [1, 3]}, cv=2).fit(table) for m in models)
    assert there.best_params_ == here.best_params_
    scores = (found.cv_results_["mean_test_score"] for found in (there, here))
    np.testing.assert_array_equal(*scores)


def test_the_same_random_numbers_as_on_one_machine(client, table):  # noqa: F811
    given = np.random.RandomState(3)
    here = BooleanMatrixFactorization(random_state=np.random.RandomState(3), **HOW).fit(table)
    there = DaskBooleanMatrixFactorization(client=client, random_state=given, **HOW)
    seen = []
    run = BooleanMatrixFactorization._run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            BooleanMatrixFactorization, "_run",
            lambda self, *rest: seen.append(self.random_state) or run(self, *rest),
        )  # fmt: skip
        there.fit(table)
    assert_same(here, there)
    assert seen == [given]
    assert there.random_state is given


def test_a_run_without_a_seed_goes_on_with_the_one_it_began_with(client, table, tmp_path):  # noqa: F811
    place, copy = tmp_path / "there", tmp_path / "here"
    cluster = {"estimator": DaskBooleanMatrixFactorization, "client": client}
    assert stopped(table, place, 10, random_state=None, **cluster, **HOW)
    shutil.copytree(place, copy)
    there = DaskBooleanMatrixFactorization(client=client, checkpoint=place, **HOW).fit(table)
    assert_same(BooleanMatrixFactorization(checkpoint=copy, **HOW).fit(table), there)
    assert os.listdir(place) == []


# ---------------------------------------------------------------- what errors mean


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("5 rows and 3 factors need more"),
        RuntimeError("an actor abandoned what was lost"),
        OSError(errno.ENOSPC, "No space left on device"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_a_worker_is_not_waited_for(client, table, monkeypatch, error):  # noqa: F811
    def break_it():
        from boolweave.distributed.worker import Rows

        def start(self, *arguments):
            raise error

        Rows.unbroken, Rows.start = Rows.start, start

    def mend_it():
        from boolweave.distributed.worker import Rows

        Rows.start = Rows.unbroken

    def waited(seconds):
        raise AssertionError("took it for a lost worker")

    client.run(break_it)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(time, "sleep", waited)
            model = DaskBooleanMatrixFactorization(client=client, random_state=0, **HOW)
            with pytest.raises(type(error), match=str(error.args[-1])):
                model.fit(table)
    finally:
        client.run(mend_it)
    model.fit(table)


def test_a_worker_that_was_started_again_at_the_same_address(client, planted, monkeypatch):  # noqa: F811
    here = BooleanMatrixFactorization(**LONG).fit(planted.observations)

    def forget():
        client.run(
            lambda dask_worker: dask_worker.state.actors.clear(), workers=[one_worker(client)]
        )

    before_step(monkeypatch, 20, forget)
    there = DaskBooleanMatrixFactorization(client=client, **LONG)
    with pytest.warns(
        UserWarning, match="lost tcp://.*, which was started again; the run continues"
    ):
        there.fit(planted.observations)
    assert_same(here, there)


def kill(client, worker):  # noqa: F811
    os.kill(client.run(os.getpid, workers=[worker])[worker], signal.SIGKILL)


def test_the_only_worker_dies(planted, monkeypatch):  # noqa: F811
    """Until its nanny has started another one there is none."""
    here = BooleanMatrixFactorization(**LONG).fit(planted.observations)
    with local_client(n_workers=1, processes=True) as alone:
        before_step(monkeypatch, 20, lambda: kill(alone, one_worker(alone)))
        there = DaskBooleanMatrixFactorization(client=alone, **LONG)
        with pytest.warns(UserWarning, match="the run continues with the others"):
            there.fit(planted.observations)
    assert_same(here, there)


def test_a_worker_that_dies_after_the_fit(client, planted, tmp_path):  # noqa: F811
    """Its entries went with it, but the model can still be saved and used."""
    seen = planted.observations
    files = in_files(triples_of(seen), tmp_path)
    there = DaskBooleanMatrixFactorization(client=client, random_state=0, **HOW).fit(files)
    here = BooleanMatrixFactorization(random_state=0, **HOW).fit(seen)
    kill(client, one_worker(client))
    found = there.recommend([69, 0], n=3)
    np.testing.assert_array_equal(found.columns, here.recommend([69, 0], n=3).columns)
    there.save(tmp_path / "model.npz")
    loaded = load(tmp_path / "model.npz")
    assert_same(here, loaded)
    np.testing.assert_array_equal(loaded.observations_.to_dense(), seen.to_dense())
    whole_again(client)


# ---------------------------------------------------------------- faults

COMPLETION = {"n_members": 4, "n_layers": 0, "n_directions": 0, "random_state": 0}
SCHEDULER = """
import time, distributed
if __name__ == "__main__":
    options = {"processes": False, "dashboard_address": None, "protocol": "tcp://"}
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, **options) as cluster:
        print(cluster.scheduler_address, flush=True)
        time.sleep(600)
"""


@pytest.fixture
def impatient(monkeypatch):
    """New workers may take a while; a busy machine makes no worker that is well a lost one."""
    monkeypatch.setattr(cluster, "PATIENCE", 1)
    monkeypatch.setattr(cluster, "_limit", {"tcp": 600.0, "connect": 60.0}.get)


@pytest.fixture
def quick_choice(monkeypatch):
    """Completions without the model that this process fits alone, and with few trials."""
    monkeypatch.setattr(selection.Selection, "_try_plain", lambda self: None)
    monkeypatch.setattr(selection, "VERY_FEW_FOLDS", 2)
    monkeypatch.setattr(selection, "DIRECTION_STARTS", 1)


def completed(client):  # noqa: F811
    """All probabilities of a completion; warnings of lost workers do not matter."""
    seen = make_boolean(16, 12, 2, flip=0.1, observed=0.8, random_state=0).observations
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BooleanCompletion(client=client, **COMPLETION).fit(seen)
    return model.predict_proba(*np.nonzero(np.ones((16, 12))))


@pytest.fixture
def struck(client, monkeypatch):  # noqa: F811
    """A function that sends a signal to some workers; they are replaced after the test.

    One that it stops is lost when two queries of the scheduler find the same last sign of life,
    instead of after a time that would have to be longer than any pause of the others.
    """
    hit, stopped = [], set()
    usable = cluster.Watch._usable

    async def without_stopped(self):
        workers = await usable(self)
        return {one for one in workers if one not in stopped or self._silence[one][1] == 0}

    monkeypatch.setattr(cluster.Watch, "_usable", without_stopped)

    def strike(number, n_workers):
        for address, pid in list(client.run(os.getpid).items())[:n_workers]:
            hit.append(pid)
            if number == signal.SIGSTOP:
                stopped.add(address)
            os.kill(pid, number)

    yield strike
    for pid in hit:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    whole_again(client)


@pytest.mark.usefixtures("quick_choice", "impatient")
@pytest.mark.parametrize(
    ("number", "n_workers"), [(signal.SIGKILL, 2), (signal.SIGSTOP, 1)], ids=["killed", "frozen"]
)
def test_a_completion_whose_workers_are_lost(client, struck, monkeypatch, number, n_workers):  # noqa: F811
    """The tables that were sent to them are sent to others."""
    here = completed(None)
    after_task(monkeypatch, 1, lambda: struck(number, n_workers))
    np.testing.assert_array_equal(completed(client), here)


@pytest.mark.usefixtures("impatient")
def test_a_factorization_with_a_frozen_worker(client, planted, struck, monkeypatch):  # noqa: F811
    here = BooleanMatrixFactorization(**LONG).fit(planted.observations)
    before_step(monkeypatch, 20, lambda: struck(signal.SIGSTOP, 1))
    there = DaskBooleanMatrixFactorization(client=client, **LONG)
    with pytest.warns(UserWarning, match="lost tcp://.*; the run continues with the others"):
        there.fit(planted.observations)
    assert_same(here, there)


@pytest.mark.usefixtures("quick_choice", "impatient")
@pytest.mark.parametrize("estimator", ["factors", "completion"])
def test_a_client_that_is_closed(planted, monkeypatch, estimator):  # noqa: F811
    with local_client(n_workers=1) as alone:
        before_step(monkeypatch, 5, alone.close)
        after_task(monkeypatch, 1, alone.close)
        with pytest.raises(cluster.ClusterLost, match=r"was closed.*connect again"):
            if estimator == "factors":
                DaskBooleanMatrixFactorization(client=alone, **LONG).fit(planted.observations)
            else:
                completed(alone)


@pytest.mark.usefixtures("quick_choice")
def test_a_scheduler_that_dies(planted, monkeypatch):  # noqa: F811
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(cluster, "_limit", lambda name: 3.0)
    command = [sys.executable, "-c", SCHEDULER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            with distributed.Client(process.stdout.readline().strip(), timeout=3) as lonely:
                after_task(monkeypatch, 1, process.kill)
                with pytest.raises(cluster.ClusterLost, match="scheduler"):
                    completed(lonely)
                process.kill()  # on a busy machine, a late answer may have ended the first call
                process.wait()
                with pytest.raises(cluster.ClusterLost, match="scheduler"):
                    DaskBooleanMatrixFactorization(client=lonely, **LONG).fit(planted.observations)
        finally:
            process.kill()


class _Silent:
    """A client whose only worker sends no sign of life."""

    status, address = "running", "tcp://here"

    def __init__(self):
        self.scheduler = self

    async def identity(self):
        return {"workers": {"tcp://silent": {"last_seen": 1.0}}}


def test_silence_counts_only_while_somebody_listens(monkeypatch):
    """After a pause of this process, workers are not lost, which may have been well."""
    monkeypatch.setattr(cluster, "PATIENCE", 1)
    monkeypatch.setattr(cluster, "_limit", {"tcp": 4 * cluster.POLL_INTERVAL, "connect": 60.0}.get)
    watch = cluster.Watch(_Silent())
    seen = []
    with ThreadPoolExecutor(1) as pool:  # a browser of other tests has its loop in this thread
        for _ in range(3):
            watch._asked -= 3600
            seen.append(pool.submit(asyncio.run, watch._usable()).result())
    assert seen == [{"tcp://silent"}, {"tcp://silent"}, set()]


def test_losses_without_progress_come_to_an_end():
    watch = cluster.Watch(_Silent())
    attempts = []

    def lose():
        attempts.append(1)
        raise cluster.WorkerLost("lost tcp://a")

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 2}),
        pytest.warns(UserWarning, match="lost tcp://a; the run continues"),
        pytest.raises(cluster.ClusterLost, match=r"lost tcp://a; that was loss 3 .*more memory"),
    ):
        watch.repeated(lose)
    assert len(attempts) == 3


# ---------------------------------------------------------------- Ctrl-C

CHILD = """
import sys, threading, warnings
import distributed
from boolweave.engine import backend, loop
from boolweave.datasets import make_boolean
from boolweave.distributed import DaskBooleanMatrixFactorization

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    backend.MIN_BLOCK = 600
    planted = make_boolean(70, 60, 3, flip=0.1, observed=0.8, random_state=0)
    step, n_steps = loop.iterate, 0

    def announced_step(*arguments):
        global n_steps
        n_steps += 1
        if n_steps == 5:
            print("looping", flush=True)
        step(*arguments)

    loop.iterate = announced_step
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        model = DaskBooleanMatrixFactorization(
            3, client=client, random_state=0, max_iter=10**9, tol=0.0, method="max-sum"
        )
        model.fit(planted.observations)
        model.save(sys.argv[1])
        print(model.interrupted_, flush=True)
"""


def test_an_interrupt_of_the_client(client, planted, monkeypatch):  # noqa: F811
    before_step(monkeypatch, 5, lambda: signal.raise_signal(signal.SIGINT))
    model = DaskBooleanMatrixFactorization(3, client=client, random_state=0, method="max-sum")
    assert model.fit(planted.observations).interrupted_
    assert model.n_iter_ == 4


def test_an_interrupt_from_a_terminal(tmp_path):
    """It goes to all processes of the command, the workers among them."""
    script, path = tmp_path / "child.py", tmp_path / "model.npz"
    script.write_text(CHILD)
    child = subprocess.Popen(
        [sys.executable, str(script), str(path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert child.stdout.readline().strip() == "looping", child.stderr.read()
        os.killpg(child.pid, signal.SIGINT)
        output, errors = child.communicate(timeout=120)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
    assert output.strip() == "True", errors
    assert load(path).interrupted_


def test_which_errors_may_mean_a_lost_worker():
    from concurrent.futures import CancelledError

    from distributed.comm import CommClosedError

    from boolweave.runtime.cluster import NoAnswer, connection_broke

    for error in (
        NoAnswer("abandoned"),
        CommClosedError("closed"),
        ConnectionRefusedError(errno.ECONNREFUSED, "refused"),
        TimeoutError("timed out"),
        OSError("Timed out trying to connect to tcp://nowhere after 30 s"),
        CancelledError(),
        RuntimeError("Worker holding Actor was lost.  Status: cancelled"),
    ):
        assert connection_broke(error), error
    for error in (
        MemoryError("10 factors"),
        ValueError("lost"),
        KeyError("actor"),
        FileNotFoundError(errno.ENOENT, "No such file", "a.parquet"),
    ):
        assert not connection_broke(error), error


def test_the_fewest_errors_are_for_one_machine(client):  # noqa: F811
    model = DaskBooleanMatrixFactorization(2, client=client, objective="errors")
    with pytest.raises(ValueError, match=r"one machine.*set `objective=\"posterior\"`"):
        model.fit(np.eye(4))
