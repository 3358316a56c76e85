"""The course of a search: threads, seeds, when it ends, and what it says on the way."""

from itertools import count

import numpy as np
import pytest
from crashing import Noting, fail_at_round
from search_reference import assert_same, cost_of, random_table

from boolweave.runtime.checkpoint import Recorder
from boolweave.runtime.run import Run
from boolweave.search import searching
from boolweave.search.answer import fewest_errors
from boolweave.search.searching import Job, Options, Search, Searching

pytestmark = pytest.mark.usefixtures("little_work")

TABLE = random_table(5, (14, 12), missing=0.05)


def search(dense=TABLE, n_components=3, options=None, seed=0, max_time=None, **how):
    with Run(max_time, **how) as run:
        job = Job(dense.observations, dense.pack(), run)
        return fewest_errors(job, n_components, options or Options(), seed)


def run_search(options, seed=0):
    """The state of a search at its end."""
    return Search(Job(TABLE.observations, TABLE.pack()), 3, options, seed).run(Searching())


# ---------------------------------------------------------------- threads and seeds


@pytest.mark.parametrize("kind", ["or", "xor", "weights"])
def test_any_number_of_threads_finds_the_same(kind):
    dense = random_table(
        6, (14, 12), xor=kind == "xor", weights="quarters" if kind == "weights" else None
    )
    one, two, four = (search(dense, seed=3, n_jobs=n) for n in (1, 2, 4))
    assert_same(one, two)
    assert_same(one, four)


def test_a_seed_finds_the_same_again_and_another_one_begins_elsewhere():
    assert_same(search(seed=1), search(seed=1))
    first = [run_search(Options(n_init=1), seed).history[0] for seed in range(6)]
    assert len(set(first)) > 1


# ---------------------------------------------------------------- when it ends


@pytest.mark.parametrize("n_init", [1, 2, 3])
def test_so_many_independent_searches(n_init):
    found = search(options=Options(n_init=n_init))
    assert found.n_searches == n_init
    assert len(found.history) == found.n_rounds
    assert set(found.stability) <= {n / n_init for n in range(n_init + 1)}


def test_independent_searches_end_when_some_agree():
    """Without `n_init`, and before there are as many as there may be."""
    found = search(random_table(0, (5, 5)), 1)
    assert found.n_searches == searching.N_AGREE


def test_a_search_gains_nothing_for_one_round_more_than_it_needed(monkeypatch):
    """Each search finds the answer in its first round; as all agree, no other one follows."""
    monkeypatch.setattr(searching, "PATIENCE", 6)
    monkeypatch.setattr(searching, "TASK_WORK", 50e6)
    found = search(random_table(0, (5, 5)), 1)
    assert found.n_rounds == 3 * searching.N_AGREE


def test_the_work_is_limited(monkeypatch):
    monkeypatch.setattr(searching, "PATIENCE", 10**6)
    options = Options(most_work=4e7)
    at = run_search(options)
    assert at.n_rounds < 10**4
    assert 1 <= len(at.winners) <= searching.MOST_SEARCHES
    # The work of one round comes on top.
    assert at.work < 1.5 * options.most_work


def test_it_ends_at_no_cost():
    found = search(random_table(0, (3, 3)), 3)
    assert found.cost == 0
    assert (found.n_searches, found.n_rounds) == (1, 1)


def test_the_best_cost_never_rises():
    found = search(options=Options(n_init=2))
    assert (np.diff(found.history) <= 0).all()
    assert found.cost <= found.history[-1]


@pytest.mark.parametrize("max_time", [1e-9, 0.05])
def test_an_answer_comes_however_short_the_time_is(monkeypatch, max_time):
    monkeypatch.setattr(searching, "PATIENCE", 10**6)
    found = search(max_time=max_time)
    assert found.cost == cost_of(TABLE, found.X, found.Y)
    assert found.n_rounds >= 1
    assert not found.interrupted


def test_a_limit_of_time_replaces_that_of_work(monkeypatch):
    """With a clock that is at its end after some rounds."""
    monkeypatch.setattr(searching, "N_AGREE", 10**6)
    rounds = []

    def clock():
        return 1e9 if len(rounds) > 60 else 0.0

    monkeypatch.setattr("boolweave.runtime.run.time.monotonic", clock)
    note = Noting(lambda *at: rounds.append(at))
    found = search(options=Options(most_work=1.0), max_time=1e6, progress=note)
    monkeypatch.undo()
    assert len(rounds) == found.n_rounds > 60
    assert found.cost == cost_of(TABLE, found.X, found.Y)


# ---------------------------------------------------------------- reports and Ctrl-C


def test_reports_tell_how_far_it_is():
    told: list[tuple] = []
    found = search(options=Options(n_init=2), progress=Noting(lambda *at: told.append(at)))
    numbers, costs, factors, shares = zip(*told, strict=True)
    assert numbers == tuple(range(1, found.n_rounds + 1))
    assert costs == tuple(found.history) and set(factors) == {3}
    assert shares[0] > 0 and (np.diff(shares) > 0).all()


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("place", ["wait", "first wait", "report", "save"])
def test_an_interrupted_search_returns_the_best_so_far(monkeypatch, place, n_jobs):
    n_rounds, n_calls, recorder = 1 if place == "first wait" else 3, count(1), Recorder()

    def interrupt(*arguments):
        if next(n_calls) == n_rounds:
            raise KeyboardInterrupt

    if "wait" in place:
        fail_at_round(monkeypatch, n_rounds, KeyboardInterrupt)
    if place == "save":
        monkeypatch.setattr(recorder, "save_if_due", interrupt)
    progress = Noting(interrupt) if place == "report" else None
    found = search(n_jobs=n_jobs, progress=progress, recorder=recorder)
    assert found.interrupted and not found.passed
    assert found.n_rounds == n_rounds
    assert found.cost == cost_of(TABLE, found.X, found.Y) <= found.history[-1]


def test_interrupted_before_there_is_anything(monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(Search, "_tasks", interrupt)
    with pytest.raises(KeyboardInterrupt):
        search()
