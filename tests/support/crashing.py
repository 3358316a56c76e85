"""Runs that crash after some steps, and leave a checkpoint behind."""

import os
import random
import sys
import warnings
from itertools import count

import pytest

from boolweave import BooleanMatrixFactorization
from boolweave.completion.tasks import Runner
from boolweave.engine import loop
from boolweave.runtime.checkpoint import Recorder
from boolweave.runtime.run import Progress, Run


class Crash(Exception):
    """What stands for a kill within one process."""


class Noting(Progress):
    """Calls a function with what it is told about each iteration or round."""

    def __init__(self, function):
        self.iteration = self.round = function


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


def after_task(monkeypatch, n, action):
    """Let a completion do something after its n-th task."""
    run, calls = Runner.__call__, count(1)

    def watched(*arguments):
        for answer in run(*arguments):
            if next(calls) == n:
                action()
            yield answer

    monkeypatch.setattr(Runner, "__call__", watched)


def fail_at_round(monkeypatch, number, error=Crash, of=None):
    """Let the wait for one round of a search fail, or press Ctrl-C during it.

    The waits of the module `of` are counted; by default, all of them.
    """
    wait, left = Run.wait, number

    def wait_or_fail(run, running):
        nonlocal left
        left -= of is None or sys._getframe(1).f_globals["__name__"] == of.__name__
        if left == 0:
            left = -1
            if error is not KeyboardInterrupt:
                raise error
            run.interrupted = run.stop[0] = True
        wait(run, running)

    monkeypatch.setattr(Run, "wait", wait_or_fail)


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


def _objects_in(node):
    """All objects in the tree of a checkpoint: their classes and their fields."""
    if isinstance(node, list):
        for item in node:
            yield from _objects_in(item)
    elif isinstance(node, dict):
        for name, content in node.items():
            if isinstance(content, dict):
                yield name, content
                yield from _objects_in(list(content.values()))


def fields_of(header, kind):
    """The fields of the objects of a class, as the header of a checkpoint holds them."""
    return [fields for name, fields in _objects_in(header["frames"]) if name == kind]
