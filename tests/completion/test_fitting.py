"""What ends a fit before it is finished."""

import itertools

import numpy as np
import pytest

from boolweave import BooleanCompletion
from boolweave.completion import fitting, tasks
from boolweave.completion.chain import Chain, make_members
from boolweave.completion.ensemble import Structure
from boolweave.completion.fitting import Plan
from boolweave.completion.table import Table
from boolweave.completion.tasks import OutOfTime, Runner
from boolweave.data.observations import Observations

RANDOM = np.random.default_rng(0)
OFFSETS = RANDOM.normal(size=(30, 1)) + RANDOM.normal(size=20)
CELLS = np.where(RANDOM.random(OFFSETS.shape) < 0.4, np.nan, RANDOM.normal(OFFSETS) > 0)
SEEN = Observations.from_dense(CELLS)


@pytest.mark.parametrize("max_time", [1e-6, 0.2])
def test_time_that_is_over_leaves_a_model(max_time):
    """The end of the time is no Ctrl-C, also where nothing was tried yet."""
    model = BooleanCompletion(max_time=max_time, n_jobs=1, random_state=0).fit(SEEN)
    assert not model.interrupted_ and len(model.members_) >= 1
    chance = model.predict_proba(SEEN.rows_of_entries(), SEEN.indices)
    assert np.isfinite(chance).all()


@pytest.mark.parametrize("max_time", [5, 40, 400])
def test_chains_end_with_the_time(monkeypatch, max_time):
    """If a sweep takes a second, each family has at most one sweep after the time limit."""
    now, sweep = [0.0], Chain.sweep

    def one_second(chain):
        sweep(chain)
        now[0] += 1

    monkeypatch.setattr(tasks.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(Chain, "sweep", one_second)
    monkeypatch.setattr(fitting, "compile_kernels", lambda table: None)
    model = BooleanCompletion(max_time=max_time, n_jobs=1, random_state=0).fit(SEEN)
    assert now[0] <= max_time + len(model.ensemble_.families)
    assert len(model.members_) >= 1 and not model.interrupted_


def test_a_pattern_for_which_there_is_no_time():
    rng = np.random.default_rng(0)
    values = np.where(rng.random((60, 60)) < 0.8, rng.integers(0, 2, (60, 60)), np.nan)
    values[:30, :30] = np.nan
    table, runner = Table.of(Observations.from_dense(values)), Runner(1)
    runner.limit(0.0)
    with pytest.raises(OutOfTime):
        table.find_pattern(runner.check)
    plans = [Plan(Structure(pattern=True), 1.0, [])]
    families, stopped = fitting.make_families(
        table, plans, 3, np.random.default_rng(0), runner, lambda text: None
    )
    assert families[0].structure == Structure() and len(families[0].members) == 1 and not stopped
    assert table.find_pattern(Runner().check).n_features >= 1


def test_ctrl_c_leaves_a_model(monkeypatch):
    """Ctrl-C after the first of the members, which come after the trials."""
    parts = []

    def check(self):
        if len(parts) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Runner, "limit", lambda self, seconds: parts.append(seconds))
    monkeypatch.setattr(Runner, "check", check)
    model = BooleanCompletion(n_layers=0, n_directions=0, n_jobs=1, random_state=0).fit(SEEN)
    assert model.interrupted_ and len(model.members_) == 1


@pytest.mark.parametrize(("share", "at_random"), [(0.9, True), (0.2, False)])
def test_members_of_few_entries_begin_at_random(monkeypatch, share, at_random):
    """Layers and larger tables begin where trials ended."""
    starts = []

    def watched(task):
        starts.append(task.start)
        return make_members(task)

    monkeypatch.setattr(fitting, "make_members", watched)
    rng = np.random.default_rng(1)
    seen = Observations.from_dense(
        np.where(rng.random((50, 40)) < share, np.nan, rng.random((50, 40)) < 0.5)
    )
    BooleanCompletion(n_layers=0, n_directions=1, n_jobs=1, random_state=0).fit(seen)
    assert len(starts) == 16 and all((start is None) == at_random for start in starts)


@pytest.mark.parametrize("n_members", [1, 2, 3, 7, 16])
@pytest.mark.parametrize("weights", [(1.0,), (0.8, 0.3), (0.5, 0.5), (0.3, 0.1, 0.9)])
def test_members_are_shared_out_for_the_least_variance(n_members, weights):
    """Against all ways to share them out."""
    numbers = fitting.shared_out(n_members, list(weights))
    total = max(n_members, len(weights))
    every = [
        some
        for some in itertools.product(range(1, total + 1), repeat=len(weights))
        if sum(some) == total
    ]
    least = min(sum(w**2 / n for w, n in zip(weights, some, strict=True)) for some in every)
    assert sum(numbers) == total and min(numbers) >= 1
    assert sum(w**2 / n for w, n in zip(weights, numbers, strict=True)) == pytest.approx(least)


@pytest.mark.filterwarnings("ignore:.*:boolweave.cautions.DegenerateDataWarning")
@pytest.mark.parametrize("value", [0, 1])
def test_a_table_of_one_value_is_not_too_certain(value):
    """Nine zeros do not say that ones are as rare as one in a thousand; ten thousand do."""
    sides = []
    for n in (3, 100):
        table = np.full((n, n), float(value))
        model = BooleanCompletion(1, 0, 2, n_directions=0, random_state=0).fit(table)
        sides.append(abs(value - model.predict_proba([0], [0])[0]))
    assert 0.01 < sides[0] < 0.15
    assert sides[1] < 0.001


def test_max_time_does_not_count_the_time_to_compile(monkeypatch):
    """Kernels are called once before the clock starts."""
    events = []
    compile_kernels, limit = fitting.compile_kernels, Runner.limit
    monkeypatch.setattr(
        fitting, "compile_kernels", lambda table: (events.append("compile"), compile_kernels(table))
    )
    monkeypatch.setattr(
        Runner, "limit", lambda self, s: (events.append(s and "clock"), limit(self, s))
    )
    model = BooleanCompletion(max_time=5, n_layers=0, n_members=1, random_state=0).fit(SEEN)
    assert events == ["compile", "clock", "clock"]
    model.partial_fit(SEEN)
    assert events[3:] == ["compile", "clock"]
    events.clear()
    BooleanCompletion(n_layers=0, n_directions=0, n_members=1, random_state=0).fit(SEEN)
    assert "compile" not in events
