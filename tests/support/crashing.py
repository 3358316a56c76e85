"""Runs that crash after some steps, and leave a checkpoint behind."""

import os
import random
import warnings
from itertools import count

import pytest

from boolweave import BooleanMatrixFactorization
from boolweave.engine import loop
from boolweave.runtime.checkpoint import Recorder


class Crash(Exception):
    """What stands for a kill within one process."""


def fail_at(monkeypatch, steps, error=Crash):
    """Let the engine fail at these steps, each counted from the failure before it."""
    steps, step = iter(steps), loop.iterate
    left = next(steps)

    def failing_step(*arguments):
        nonlocal left
        left -= 1
        if left == 0:
            left = next(steps, 0)
            raise error
        step(*arguments)

    monkeypatch.setattr(loop, "iterate", failing_step)


def before_step(monkeypatch, n, action):
    """Let the engine do something before its n-th step."""
    step, calls = loop.iterate, count(1)

    def watched(*arguments):
        if next(calls) == n:
            action()
        step(*arguments)

    monkeypatch.setattr(loop, "iterate", watched)


def crash_now_and_then(monkeypatch, seed, longest=60):
    """Let the engine fail after a random number of steps, and again after it was called anew."""
    dice = random.Random(seed)
    fail_at(monkeypatch, iter(lambda: dice.randrange(1, longest), None))


def fitted(observations, parameters, estimator=BooleanMatrixFactorization, **more):
    model = estimator(
        **{"n_components": 3, "max_iter": 90, "random_state": 0, **parameters, **more}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(observations)


def stopped(observations, checkpoint, n_steps=27, **parameters):
    """Leave a checkpoint behind, as a crash does; the names of its files, the newest last."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recorder, "save_if_due", Recorder.save)
        fail_at(patch, [n_steps])
        with pytest.raises(Crash):
            fitted(observations, {}, checkpoint=checkpoint, **parameters)
    return sorted(os.listdir(checkpoint)) if os.path.isdir(checkpoint) else []
