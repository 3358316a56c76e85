"""Ctrl-C ends a run early and keeps the best found so far."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from problems import even_model, random_run, random_small, run_from
from reference import log_probability

from boolweave import BooleanMatrixFactorization, load, select_rank
from boolweave.datasets import make_boolean
from boolweave.engine import loop
from boolweave.fit import learn


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interrupted_run_returns_the_best_so_far(n_jobs):
    planted = make_boolean(30, 30, 3, flip=0.1, random_state=0)

    def interrupt(iteration, residual, score):
        if iteration == 5:
            raise KeyboardInterrupt

    result = random_run(
        planted.observations, even_model(3), on_iteration=interrupt, n_jobs=n_jobs, tol=0.0
    )
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


CHILD = """
from boolweave import BooleanMatrixFactorization
from boolweave.engine import loop
from boolweave.datasets import make_boolean

planted = make_boolean(200, 200, 3, flip=0.1, random_state=0)
step = loop.iterate

def announced_step(backend, problem, at, damping):
    step(backend, problem, at, damping)
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


# Says when it is in the n-th of the short starts of a default fit, in a trial, or at the end.
STARTS = """
import signal, sys, warnings
from boolweave import BooleanMatrixFactorization
from boolweave.engine import loop
from boolweave.datasets import make_boolean

warnings.simplefilter("ignore")
when, n_components, path = int(sys.argv[1]), sys.argv[2], sys.argv[3]
planted = make_boolean(60, 50, 4, flip=0.15, random_state=0)
step, n_steps = loop.iterate, 0

def announced_step(*arguments):
    global n_steps
    step(*arguments)
    n_steps += 1
    if n_steps == when:
        print("looping", flush=True)
        signal.pause()  # until the signal comes

loop.iterate = announced_step
k = n_components if n_components == "auto" else int(n_components)
model = BooleanMatrixFactorization(k, random_state=0).fit(planted.observations)
model.save(path)
print(model.interrupted_)
"""


@pytest.mark.parametrize(
    ("when", "n_components"), [(3, "6"), (45, "6"), (250, "6"), (10, "auto"), (300, "auto")]
)
def test_a_model_saved_after_ctrl_c_in_its_starts_can_be_loaded(tmp_path, when, n_components):
    path = tmp_path / "model.npz"
    child = subprocess.Popen(
        [sys.executable, "-c", STARTS, str(when), n_components, str(path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert child.stdout.readline().strip() == "looping", child.stderr.read()
        child.send_signal(signal.SIGINT)
        output, errors = child.communicate(timeout=120)
    finally:
        child.kill()
    assert output.strip() == "True", errors
    loaded = load(path)
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


# Ctrl-C in the fourth fit of the second rank; a checkpoint is written after each rank.
HELD_OUT = """
import signal, sys, warnings
from boolweave import select_rank
from boolweave.fit import learn
from boolweave.fit import rank
from boolweave.runtime.checkpoint import Checkpoint
from boolweave.datasets import make_boolean

warnings.simplefilter("ignore")
planted = make_boolean(40, 40, 2, flip=0.05, random_state=0)
fit, n_fits = rank.fit, 0

def announced_fit(*arguments):
    global n_fits
    n_fits += 1
    if n_fits == 8:
        print("looping", flush=True)
        signal.pause()
    return fit(*arguments)

rank.fit = announced_fit
found = select_rank(
    planted.observations, ranks=[1, 2, 3], criterion="heldout", random_state=0, n_init=1,
    checkpoint=Checkpoint(sys.argv[1], interval=0, share=1),
)
print(found.interrupted, found.ranks.tolist())
"""


def test_ctrl_c_leaves_the_checkpoint_of_a_search_by_held_out_entries(tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", HELD_OUT, str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert child.stdout.readline().strip() == "looping", child.stderr.read()
        child.send_signal(signal.SIGINT)
        output, errors = child.communicate(timeout=120)
    finally:
        child.kill()
    assert output.strip() == "True [1]", errors
    assert len(os.listdir(tmp_path)) == 1
    planted = make_boolean(40, 40, 2, flip=0.05, random_state=0)
    how = {"ranks": [1, 2, 3], "criterion": "heldout", "random_state": 0, "n_init": 1}
    resumed = select_rank(planted.observations, checkpoint=tmp_path, **how)
    assert not resumed.interrupted
    assert str(resumed) == str(select_rank(planted.observations, **how))
    assert os.listdir(tmp_path) == []


RANK_COMMAND = """
import sys
from boolweave import cli
from boolweave.fit import rank

fit, n_fits = rank.fit, 0

def interrupted_fit(*arguments):
    global n_fits
    n_fits += 1
    if n_fits == 3:
        raise KeyboardInterrupt
    return fit(*arguments)

rank.fit = interrupted_fit
cli.main()
"""


def test_ctrl_c_in_the_rank_command(tmp_path):
    table = tmp_path / "table.csv"
    planted = make_boolean(20, 20, 2, random_state=0).observations.to_dense()
    np.savetxt(table, planted, fmt="%d", delimiter=",")
    done = subprocess.run(
        [sys.executable, "-c", RANK_COMMAND, "rank", str(table), "--json"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 130, done.stderr
    answer = json.loads(done.stdout)
    assert answer["interrupted"]
    assert [row["rank"] for row in answer["ranks"]] == [1, 2]
