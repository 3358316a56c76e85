"""Ctrl-C ends a run early and keeps the best found so far."""

import json
import os
import signal
import subprocess
import sys
from itertools import count

import numpy as np
import pytest
from commands import run_here
from crashing import Noting
from problems import even_model, random_run, random_small, run_from
from reference import log_probability

from boolweave import BooleanMatrixFactorization, load, select_rank
from boolweave.datasets import make_boolean
from boolweave.engine import loop
from boolweave.engine.integers import IntegerBackend
from boolweave.fit import learn, rank
from boolweave.runtime.checkpoint import Checkpoint
from boolweave.runtime.run import Run


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interrupted_run_returns_the_best_so_far(n_jobs):
    planted = make_boolean(30, 30, 3, flip=0.1, random_state=0)

    def interrupt(iteration, residual, score):
        if iteration == 5:
            raise KeyboardInterrupt

    run = Run(progress=Noting(interrupt))
    result = random_run(planted.observations, even_model(3), run=run, n_jobs=n_jobs, tol=0.0)
    assert result.interrupted
    assert not result.converged
    assert result.n_iter == 5
    assert result.log_posterior == result.history["log_posterior"].max()
    undisturbed = random_run(planted.observations, even_model(3), max_iter=5, tol=0.0)
    np.testing.assert_array_equal(result.row_log_odds, undisturbed.row_log_odds)


def test_interrupted_before_the_first_iteration_was_done(monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    small = random_small(0, (4, 5, 2))
    messages = small.random_messages(0)
    monkeypatch.setattr(loop, "iterate", interrupt)
    result = run_from(small, messages)
    assert result.interrupted
    assert result.n_iter == 0
    a = small.prior_log_odds[0]
    np.testing.assert_allclose(result.row_log_odds, a + messages[0].sum(axis=1))
    direct = log_probability(
        result.X, result.Y, small.row_prior, small.column_prior, small.given, small.product
    )
    assert result.log_posterior == pytest.approx(direct)


@pytest.mark.parametrize("semiring", ["max-sum", "sum-product"])
def test_interrupted_while_beliefs_are_kept(monkeypatch, semiring):
    """The arrays of the beliefs kept before are used again: half of them are the next ones."""
    seen = make_boolean(40, 30, 3, flip=0.1, random_state=0).observations
    keep, calls = IntegerBackend.keep_beliefs, count(1)

    def interrupted(self, problem, state, before):
        if next(calls) == 4:
            before.rows[:20] = 7
            raise KeyboardInterrupt
        return keep(self, problem, state, before)

    def run(**how):
        backend = IntegerBackend(seen)
        problem = backend.problem(even_model(3))
        state = backend.random_start(problem, np.random.default_rng(0))
        if semiring == "sum-product":
            state = backend.to_sum_product(problem, state)
        return loop.run(backend, problem, state, seen, tol=0.0, **how)

    with monkeypatch.context() as patch:
        patch.setattr(IntegerBackend, "keep_beliefs", interrupted)
        found = run()
    assert found.interrupted
    undisturbed = run(max_iter=found.n_iter)
    np.testing.assert_array_equal(found.row_log_odds, undisturbed.row_log_odds)
    assert found.log_posterior == undisturbed.log_posterior


CHILD = """
from boolweave import BooleanMatrixFactorization
from boolweave.engine import loop
from boolweave.datasets import make_boolean

planted = make_boolean(200, 200, 3, flip=0.1, random_state=0)
step = loop.iterate

def announced_step(backend, problem, at, *options):
    step(backend, problem, at, *options)
    if at.state.n_iter == 3:
        print("looping", flush=True)

loop.iterate = announced_step
model = BooleanMatrixFactorization(3, max_iter=10**9, tol=0.0, n_jobs=2, random_state=0)
model.fit(planted.observations)
print(model.interrupted_, model.converged_, model.n_iter_ >= 2, model.components_.shape)
"""


def test_a_real_interrupt():
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout.readline().strip() == "looping"
        child.send_signal(signal.SIGINT)
        output, errors = child.communicate(timeout=120)
    finally:
        child.kill()
    assert output.strip() == "True False True (3, 200)", errors


def ctrl_c_at(monkeypatch, module, name, call):
    """Send the signal of Ctrl-C to this process at the n-th call of a function."""
    function, calls = getattr(module, name), count(1)

    def interrupted(*arguments):
        if next(calls) == call:
            signal.raise_signal(signal.SIGINT)
        return function(*arguments)

    monkeypatch.setattr(module, name, interrupted)


@pytest.mark.filterwarnings("ignore::boolweave.fit.learn.UninformativeWarning")
@pytest.mark.parametrize(
    ("when", "n_components"), [(3, 6), (45, 6), (250, 6), (10, "auto"), (300, "auto")]
)
def test_a_model_saved_after_ctrl_c_in_its_starts_can_be_loaded(
    tmp_path, monkeypatch, when, n_components
):
    """In the first of the short starts of a default fit, in another one, in a trial, or later."""
    planted = make_boolean(60, 50, 4, flip=0.15, random_state=0)
    ctrl_c_at(monkeypatch, loop, "iterate", when)
    model = BooleanMatrixFactorization(n_components, random_state=0).fit(planted.observations)
    assert model.interrupted_
    model.save(tmp_path / "model.npz")
    loaded = load(tmp_path / "model.npz")
    assert loaded.interrupted_
    assert loaded.factor_stability_.shape == (len(loaded.components_),)
    assert ((loaded.factor_stability_ >= 0) & (loaded.factor_stability_ <= 1)).all()


def test_ctrl_c_when_all_but_the_stability_is_done(monkeypatch):
    planted = make_boolean(30, 30, 3, flip=0.1, random_state=0)
    undisturbed = BooleanMatrixFactorization(3, random_state=0).fit(planted.observations)
    with_stability, calls = learn.with_stability, []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return with_stability(*arguments)

    monkeypatch.setattr(learn, "with_stability", interrupted)
    model = BooleanMatrixFactorization(3, random_state=0).fit(planted.observations)
    assert model.interrupted_
    np.testing.assert_array_equal(model.row_log_odds_, undisturbed.row_log_odds_)
    np.testing.assert_array_equal(model.factor_stability_, undisturbed.factor_stability_)


def test_ctrl_c_leaves_the_checkpoint_of_a_search_by_held_out_entries(tmp_path, monkeypatch):
    """In the fourth fit of the second rank; a checkpoint is written after each rank."""
    planted = make_boolean(40, 40, 2, flip=0.05, random_state=0)
    how = {"ranks": [1, 2, 3], "criterion": "heldout", "random_state": 0, "n_init": 1}
    often = Checkpoint(tmp_path, interval=0, share=1)
    with monkeypatch.context() as patch:
        ctrl_c_at(patch, rank, "fit", 8)
        found = select_rank(planted.observations, checkpoint=often, **how)
    assert found.interrupted and found.ranks.tolist() == [1]
    assert len(os.listdir(tmp_path)) == 1
    resumed = select_rank(planted.observations, checkpoint=tmp_path, **how)
    assert not resumed.interrupted
    assert str(resumed) == str(select_rank(planted.observations, **how))
    assert os.listdir(tmp_path) == []


def test_ctrl_c_in_the_rank_command(tmp_path, monkeypatch):
    table = tmp_path / "table.csv"
    planted = make_boolean(20, 20, 2, random_state=0).observations.to_dense()
    np.savetxt(table, planted, fmt="%d", delimiter=",")
    ctrl_c_at(monkeypatch, rank, "fit", 3)
    done = run_here("rank", table, "--objective", "posterior", "--json", text=True)
    assert done.returncode == 130, done.stderr
    answer = json.loads(done.stdout)
    assert answer["interrupted"]
    assert [row["rank"] for row in answer["ranks"]] == [1, 2]
