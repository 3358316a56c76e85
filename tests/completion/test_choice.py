"""Folds, blending, tasks and thresholds."""

import time
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boolweave.completion.chain import Tried, first_cuts, moved_cuts
from boolweave.completion.ensemble import Structure
from boolweave.completion.selection import Candidate, Fold, Selection, Wanted, blend, make_folds
from boolweave.completion.table import Table, joined
from boolweave.completion.tasks import OutOfTime, Runner
from boolweave.data.observations import Observations
from boolweave.model.odds import sigmoid


def table_of(n_rows, n_columns, seed=0):
    return Table.of(
        Observations.from_dense(np.random.default_rng(seed).integers(0, 2, (n_rows, n_columns)))
    )


@pytest.mark.parametrize(
    ("shape", "n_folds", "size"),
    [((4, 4), 0, 0), ((20, 20), 4, 100), ((50, 70), 7, 500), ((200, 300), 1, 6000)],
)
def test_folds(shape, n_folds, size):
    table = table_of(*shape)
    folds = make_folds(table, np.random.default_rng(0))
    assert len(folds) == n_folds
    for fold in folds:
        assert len(fold.values) == size == table.n_entries - fold.table.n_entries
        dense = fold.table.observations.to_dense()
        assert np.isnan(dense[fold.rows, fold.columns]).all()
        truth = table.observations.to_dense()[fold.rows, fold.columns]
        np.testing.assert_array_equal(truth, fold.values)
        ones = table.observations.values.mean() * size
        assert abs(int(fold.values.sum()) - ones) < 1  # as many as in any other part
    if n_folds > 1:
        held = np.concatenate([fold.rows * shape[1] + fold.columns for fold in folds])
        assert len(np.unique(held)) == shape[0] * shape[1]


@pytest.mark.parametrize(("n_rows", "n_folds"), [(3, 4), (60, 4), (600, 7)])
def test_folds_of_whole_answers(n_rows, n_folds):
    """Of two questions with three levels each, a level is held out with the two others."""
    answers = np.random.default_rng(0).integers(0, 3, (n_rows, 2))
    table = Table.of(Observations.from_dense(np.eye(3)[answers].reshape(n_rows, 6)))
    folds = make_folds(table, np.random.default_rng(0), [0, 0, 0, 1, 1, 1])
    if n_rows == 3:
        assert not folds  # too few entries
        return
    assert len(folds) == n_folds
    for fold in folds:
        known = ~np.isnan(fold.table.observations.to_dense()).reshape(n_rows, 2, 3)
        assert (known.any(axis=2) == known.all(axis=2)).all()
        assert fold.values.mean() == pytest.approx(1 / 3)
    assert sum(len(fold.values) for fold in folds) == table.n_entries


def test_all_starts_of_trials_are_kept():
    """Members begin where trials ended; the first start of each fold is that of its layers."""
    folds = make_folds(table_of(20, 20), np.random.default_rng(0))
    of_fold = [fold.table for fold in folds]

    def run(function, trials):
        for number, trial in enumerate(trials):
            end = (of_fold.index(trial.table), number % 3)
            yield Tried(np.full((1, len(trial.rows)), 0.5), end)

    wanted = Wanted(0, 0, None, 1)
    search = Selection(folds, wanted, 1, np.random.default_rng(0), run, lambda text: None)
    search._try("directions", [Structure(0)], None, 3)
    ends = search.tried[0].draws
    assert ends == [(fold, start) for start in range(3) for fold in range(4)]


def test_counts_of_other_entries():
    """The features of an entry that is fitted count one entry less, its own."""
    table = Table.of(Observations.from_dense([[1, 0, 1], [1, np.nan, np.nan], [np.nan] * 3]))
    mean, deviation = table.count_scales[0]
    here, elsewhere = table.row_features.here[:, 1], table.row_features.elsewhere[:, 1]
    np.testing.assert_allclose(here * deviation + mean, np.log1p([2, 0, 0]))
    np.testing.assert_allclose(elsewhere * deviation + mean, np.log1p([3, 1, 0]))


def test_blend_is_the_least_log_loss():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=4000) * 2 + 0.5
    values = (rng.random(4000) < sigmoid(truth)).astype(np.uint8)
    good, noise = truth + rng.normal(size=4000), rng.normal(size=4000)
    weights = blend(np.column_stack([good, noise]), values)
    assert 0.6 < weights[1] < 0.95 and 0 <= weights[2] < 0.1 and abs(weights[0]) < 0.15

    def loss(w):
        v = w[0] + w[1] * good + w[2] * noise
        gaps = (w - [0, 0.5, 0.5]) / 0.2
        return np.sum(np.logaddexp(0, v) - values * v) + gaps @ gaps / 2

    for step in np.eye(3) * 0.02:
        assert loss(weights) <= loss(weights + step) + 1e-6
        if (weights - step)[2] >= 0:
            assert loss(weights) <= loss(weights - step) + 1e-6


def test_few_entries_hardly_move_the_blend():
    weights = blend(np.array([[2.0], [-2.0]]), np.array([0, 1], np.uint8))
    np.testing.assert_allclose(weights, [0, 1], atol=0.35)


def chosen_of(values, wanted=None, **odds):
    """What is chosen of models that gave these log-odds of held-out entries."""
    table, nowhere = table_of(5, 5), np.zeros(len(values), np.intp)
    fold = Fold(table, nowhere, nowhere, values, np.ones(len(values)))
    wanted = Wanted(wanted, None, None, None)
    search = Selection([fold], wanted, 1, np.random.default_rng(0), map, lambda text: None)
    for name, of_model in odds.items():
        kind = name.rstrip("0123456789")
        structure = Structure(int(name[len(kind) :] or 0))
        search.tried.append(Candidate(name, kind, structure, of_model, 0.0))
    return [candidate.name for candidate in search._blended().chosen]


def test_the_simplest_that_is_not_surely_worse():
    rng = np.random.default_rng(2)
    first, second = rng.normal(size=(2, 2000))
    values = (rng.random(2000) < sigmoid(first + second)).astype(np.uint8)
    noise = rng.normal(size=2000)
    residual = (values - sigmoid(0.7 * first)) * 2.0
    lucky = 0.7 * first + 0.04 * residual * (rng.random(2000) < 0.02)  # better by less than 2 nats
    offsets = 0.7 * first
    assert chosen_of(values, directions0=offsets, directions8=lucky) == ["directions0"]
    assert chosen_of(values, 8, directions0=offsets, directions8=lucky) == ["directions8"]
    assert chosen_of(values, directions0=offsets, directions2=lucky) == ["directions2"]
    assert chosen_of(values, directions0=lucky, directions2=offsets) == ["directions0"]
    better = first + 0.6 * second
    assert chosen_of(values, directions0=offsets, directions8=better) == ["directions8"]
    both = chosen_of(values, directions0=offsets, layers=0.7 * second)
    assert both == ["directions0", "layers"]
    loud = chosen_of(values, directions0=offsets, layers=30 * second)  # a weight of 0.02
    assert loud == ["directions0"]
    alike = chosen_of(values, directions0=offsets, layers=offsets + 0.01 * noise)
    assert alike == ["directions0"]
    plain = chosen_of(values, directions0=offsets, plain=first + second, layers=0.5 * second)
    assert plain == ["plain"]


def test_a_gain_that_is_mostly_luck_is_no_reason():
    """Ahead by 3 nats, but by less than 1.5 standard errors of the difference."""
    values = np.array([1, 0] * 500, np.uint8)
    sides = np.where(values == 1, 1.0, -1.0)
    offsets = np.zeros(1000)
    guess = np.where(np.arange(1000) < 540, 0.2, -0.2) * sides  # right 540 times of 1000
    assert chosen_of(values, directions0=offsets, directions8=guess) == ["directions0"]
    sure = np.where(np.arange(1000) < 580, 0.3, -0.3) * sides
    assert chosen_of(values, directions0=offsets, directions8=sure) == ["directions8"]


@dataclass(frozen=True)
class Task:
    table: object
    number: int
    end: float | None = None


def square(task):
    return task.number**2


@pytest.mark.parametrize("n_jobs", [None, 3])
def test_tasks_come_back_in_order(n_jobs):
    tasks = [Task(None, i) for i in range(20)]
    assert list(Runner(n_jobs)(square, tasks)) == [i**2 for i in range(20)]


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_time_is_over_after_the_task_that_runs(n_jobs):
    runner = Runner(n_jobs)
    runner.limit(0.05)
    done = []
    with pytest.raises(OutOfTime):
        for answer in runner(
            lambda task: time.sleep(0.1) or task.number, [Task(None, i) for i in range(50)]
        ):
            done.append(answer)
    assert done == list(range(len(done))) and 1 <= len(done) < 10


def test_thresholds_find_their_places():
    rng = np.random.default_rng(1)
    mean = rng.normal(size=20_000)
    truth = np.array([-np.inf, -1.2, -0.4, 0.0, 0.8, np.inf])
    levels = (np.digitize(mean + rng.normal(size=20_000), truth[1:-1])).astype(np.uint8)
    seen = Observations.from_dense((levels >= 3).astype(float).reshape(100, 200))
    cuts = first_cuts(Table.of(seen, levels, n_levels=5))
    assert cuts[3] == 0
    for _ in range(20):
        cuts = moved_cuts(cuts, mean, 1.0, levels)
    np.testing.assert_allclose(cuts[1:-1], truth[1:-1], atol=0.05)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_joined_entries(seed):
    """Against dense arrays: the new value counts where both have one."""
    rng = np.random.default_rng(seed)
    first, second = (
        np.where(rng.random(shape) < 0.5, np.nan, rng.integers(0, 2, shape).astype(float))
        for shape in ((3, 4), tuple(rng.integers(1, 6, 2)))
    )
    expected = np.full((max(3, len(second)), max(4, second.shape[1])), np.nan)
    expected[:3, :4] = first
    part = expected[: len(second), : second.shape[1]]
    part[~np.isnan(second)] = second[~np.isnan(second)]
    found = joined(Observations.from_dense(first), Observations.from_dense(second))
    np.testing.assert_array_equal(found.to_dense(), expected)


def test_memory_is_known_beforehand(monkeypatch):
    import tracemalloc

    from boolweave.completion import fitting
    from boolweave.completion.chain import MemberTask, make_members
    from boolweave.runtime import free_memory

    table, wanted = table_of(300, 200), Wanted(4, 2, 4, None)
    structure = fitting.Structure(4, 2, 4, 0.8)
    make_members(MemberTask(table_of(8, 9), structure, 0))  # compiles
    tracemalloc.start()
    members = [make_members(MemberTask(table, structure, seed)) for seed in range(3)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    needed = fitting.needed_memory(table, wanted, len(members))
    assert 0.3 * needed < peak < 1.2 * needed
    monkeypatch.setattr(free_memory, "free_memory", lambda: needed - 1)
    with pytest.raises(MemoryError, match="lower n_members"):
        fitting.check_memory(table, wanted, len(members))
    monkeypatch.setattr(free_memory, "free_memory", lambda: needed)
    fitting.check_memory(table, wanted, len(members))


@pytest.mark.parametrize("large", [False, True])
def test_members_are_shared_out(monkeypatch, large):
    """In turns between the families; many entries: two of each chain, and all are different."""
    from boolweave.completion import fitting

    monkeypatch.setattr(fitting, "LARGE", 10 if large else 10_000)
    table = table_of(12, 10)
    plans = [fitting.Plan(fitting.Structure(n), 0.5, []) for n in (0, 1)]
    begun = []
    monkeypatch.setattr(
        fitting,
        "make_members",
        lambda task, make=fitting.make_members: begun.append(1) or make(task),
    )
    families, stopped = fitting.make_families(
        table, plans, 7, np.random.default_rng(0), Runner(None), lambda text: None
    )
    assert not stopped and [len(family.members) for family in families] == [4, 3]
    assert len(begun) == (4 if large else 7)
    for family in families:
        assert len({member.rows.tobytes() for member in family.members}) == len(family.members)
