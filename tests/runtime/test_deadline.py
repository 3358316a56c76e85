"""A run with `max_time` ends with the best answer so far; the clock here counts iterations."""

import warnings
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from numba.core import event

from boolweave import BooleanMatrixFactorization, load, select_rank
from boolweave.datasets import make_boolean
from boolweave.engine import loop
from boolweave.engine.result import Ending
from boolweave.runtime import run

PLANTED = make_boolean(30, 25, 3, flip=0.05, random_state=0).observations


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """Every look at the clock is a second later, the first of them the start; compiling is free."""
    seconds = iter(range(10**6))
    clocks = SimpleNamespace(monotonic=lambda: next(seconds), perf_counter=lambda: 0.0)
    monkeypatch.setattr(run, "time", clocks)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", ["auto", "max-sum", "sum-product"])
@pytest.mark.parametrize("n_components", [3, "auto"])
@pytest.mark.parametrize("max_time", [0.5, 7])
def test_the_best_so_far_is_kept(method, n_components, max_time):
    model = BooleanMatrixFactorization(
        n_components, method=method, max_time=max_time, random_state=0, tol=0.0
    ).fit(PLANTED)
    assert model.result_.ending is Ending.OUT_OF_TIME
    assert not model.interrupted_ and not model.converged_
    assert 1 <= model.n_iter_ <= np.ceil(max_time)
    if n_components == "auto":
        assert not model.rank_selection_.interrupted
    np.testing.assert_array_equal(model.predict([0], [0]), model.result_.Z[:1, 0])


def test_enough_time_changes_nothing():
    plain = BooleanMatrixFactorization(3, random_state=0).fit(PLANTED)
    timed = BooleanMatrixFactorization(3, random_state=0, max_time=10**5).fit(PLANTED)
    assert timed.result_.ending is plain.result_.ending
    np.testing.assert_array_equal(timed.row_log_odds_, plain.row_log_odds_)
    np.testing.assert_array_equal(plain.row_factors_, plain.row_log_odds_ > 0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_checkpoint_is_removed_and_the_model_is_kept(tmp_path):
    model = BooleanMatrixFactorization(
        3, random_state=0, max_time=3, checkpoint=tmp_path / "run"
    ).fit(PLANTED)
    assert list((tmp_path / "run").iterdir()) == []
    model.save(tmp_path / "model.npz")
    loaded = load(tmp_path / "model.npz")
    assert loaded.max_time == 3
    assert loaded.result_.ending is Ending.OUT_OF_TIME


def test_the_remedy_is_more_time():
    with pytest.warns(UserWarning, match="Raise `max_time`, which is 2 seconds"):
        BooleanMatrixFactorization(3, method="max-sum", max_time=2, random_state=0).fit(PLANTED)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BooleanMatrixFactorization(3, method="max-sum", max_time=999, random_state=0).fit(PLANTED)


@pytest.mark.parametrize("criterion", ["mdl", "heldout"])
def test_ranks_tried_in_time_are_judged(criterion):
    n_fits = {"mdl": 30, "heldout": 300}[criterion]
    found = select_rank(
        PLANTED, range(1, 9), criterion, max_time=n_fits, max_iter=20, random_state=0
    )
    assert 1 <= len(found.ranks) < 8
    assert not found.interrupted


def test_no_rank_was_judged_in_time():
    with pytest.raises(
        ValueError, match="1 seconds passed before one rank was judged; raise `max_time`"
    ):
        select_rank(PLANTED, range(1, 9), "heldout", max_time=1, random_state=0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("whole", [False, True])
def test_the_time_to_compile_does_not_count(monkeypatch, whole):
    """The first iteration takes an hour, for compiling alone or as a whole."""
    now, iterate = [0.0], loop.iterate
    clocks = SimpleNamespace(monotonic=lambda: now[0], perf_counter=lambda: now[0])
    monkeypatch.setattr(run, "time", clocks)

    def slow(*arguments):
        if now[0] == 0.0:
            with nullcontext() if whole else event.trigger_event("numba:compile"):
                now[0] += 3600.0
        now[0] += 1.0
        iterate(*arguments)

    monkeypatch.setattr(loop, "iterate", slow)
    listeners = len(event._registered["numba:compile"])
    model = BooleanMatrixFactorization(3, max_time=4.5, random_state=0, tol=0.0).fit(PLANTED)
    assert model.result_.ending is Ending.OUT_OF_TIME
    assert now[0] == 3600 + (1 if whole else 5)
    assert len(event._registered["numba:compile"]) == listeners


def test_what_is_compiled_is_said_on_a_terminal(monkeypatch):
    said = []
    monkeypatch.setattr(run.Display, "say", lambda self, text, share=None: said.append(text))

    def _sum_rows():
        pass

    details = {"dispatcher": SimpleNamespace(py_func=_sum_rows)}
    for is_terminal in (False, True):
        monkeypatch.setattr(run.sys.stderr, "isatty", lambda is_terminal=is_terminal: is_terminal)
        with (
            run.Run(verbose=1),
            event.trigger_event("numba:compile", details),
            event.trigger_event("numba:compile", details),  # a part of the same
        ):
            pass
    assert said == ["compiling for this machine, once: sum rows"]


@pytest.mark.parametrize("wrong", [0, -1, "10", float("nan"), pytest.param(10**400, id="huge")])
def test_seconds_are_above_zero(wrong):
    with pytest.raises(ValueError, match="max_time"):
        BooleanMatrixFactorization(3, max_time=wrong).fit(PLANTED)
