"""Ctrl-C ends a run early and keeps the best found so far."""

import signal
import subprocess
import sys

import numpy as np
import pytest

from boolweave import message_passing
from boolweave.datasets import make_boolean
from problems import even_model, random_run, random_small, run_from
from reference import log_probability


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
    monkeypatch.setattr(message_passing, "step", interrupt)
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
import signal
from boolweave import BooleanMatrixFactorization, message_passing
from boolweave.datasets import make_boolean

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job would ignore it
planted = make_boolean(200, 200, 3, flip=0.1, random_state=0)
step = message_passing.step

def announced_step(problem, state, *rest):
    step(problem, state, *rest)
    if state.n_iter == 3:
        print("looping", flush=True)

message_passing.step = announced_step
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
