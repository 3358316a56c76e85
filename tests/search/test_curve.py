"""The curve of errors against the number of factors: what it finds, and how it ends early."""

import itertools
from contextlib import contextmanager
from functools import cache

import numpy as np
import pytest
from crashing import Crash, Noting, fail_at_round

from boolweave.data.observations import Observations
from boolweave.datasets import make_boolean
from boolweave.fit.judging import description_length
from boolweave.runtime.checkpoint import Checkpoint, Recorder
from boolweave.runtime.run import Run
from boolweave.search import answer, curve, searching
from boolweave.search.curve import Curve, Point, Tracing
from boolweave.search.result import result_of
from boolweave.search.searching import Job
from boolweave.search.solutions import Solution
from boolweave.search.starts import pruned
from boolweave.search.table import pack_table


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Tiny tables need no more work; no bound is computed."""
    monkeypatch.setattr(curve, "POOL_WORK", 3e6)
    monkeypatch.setattr(curve, "RANK_WORK", 2e6)
    monkeypatch.setattr(searching, "MOST_WORK", 1e9)
    monkeypatch.setattr(searching, "TASK_WORK", 5e6)
    monkeypatch.setattr(answer, "is_cheap", lambda *arguments: False)


def planted(shape=(40, 30), K=3, flip=0.03, **how):
    return make_boolean(*shape, K, flip=flip, random_state=K, **how)


@contextmanager
def job(seen, false_one_weight=1.0, product="or", weights=None, max_time=None, **how):
    with Run(max_time, **how) as run:
        yield Job(seen, pack_table(seen, false_one_weight, product, weights), run)


def search_rank(seen, ranks=None, seed=0, **how):
    with job(seen, **how) as searched:
        return curve.search_rank(searched, ranks, seed=seed)


def trace_curve(seen, ranks=None, **how):
    with job(seen, **how) as searched:
        return curve.trace_curve(searched, ranks)


def wrong(seen, Z):
    return ((seen == 1) & (Z == 0)), ((seen == 0) & (Z == 1))


# ---------------------------------------------------------------- what it finds


@pytest.mark.parametrize(("K", "flip", "how"), [
    (1, 0.0, {}), (3, 0.03, {}), (6, 0.02, {}), (3, 0.02, {"observed": 0.8}),
    (2, 0.02, {"product": "xor"}),
])  # fmt: skip
def test_the_planted_rank_is_chosen(K, flip, how):
    known = planted((60, 50), K, flip, **how)
    product = how.get("product", "or")
    selection, found = search_rank(known.observations, product=product, n_jobs=2)
    assert selection.best == K == len(found.Y)
    missed, false = wrong(known.observations.to_dense(), known.Z)
    assert selection.costs[selection.ranks == K] <= missed.sum() + false.sum()
    assert found.cost == selection.costs[selection.ranks == K]


def test_the_curve_falls_and_counts_what_it_says():
    known = planted((40, 30), 4, 0.05)
    selection = trace_curve(known.observations)
    assert (np.diff(selection.costs) <= 0).all()
    np.testing.assert_array_equal(selection.missed + selection.false_ones, selection.costs)
    np.testing.assert_array_equal(selection.ranks, np.arange(1, selection.ranks[-1] + 1))
    assert selection.ranks[-1] >= selection.best + curve.RANKS_BEYOND
    assert selection.best == selection.ranks[selection.scores.argmin()]
    empty = np.log2(41) + np.log2(31)
    assert (np.diff(selection.scores) <= empty + 1e-9).all()


def best_by_trying_all(seen, K):
    """The fewest errors of K factors of a table of four rows and four columns."""
    sets = np.array(list(itertools.product([0, 1], repeat=4)))
    tiles = (sets[:, None, :, None] & sets[None, :, None, :]).reshape(-1, 16)
    products = np.unique(tiles, axis=0)
    for _ in range(K - 1):
        products = np.unique((products[:, None] | tiles[None]).reshape(-1, 16), axis=0)
    return int((products != seen.ravel()).sum(axis=1).min())


def test_small_curves_are_the_best_possible():
    for seed in range(4):
        seen = np.random.default_rng(seed).integers(0, 2, (4, 4))
        selection = trace_curve(Observations.from_dense(seen), ranks=[1, 2])
        assert selection.costs.tolist() == [best_by_trying_all(seen, K) for K in (1, 2)]


def test_the_score_is_the_description_length_of_the_answer():
    known = planted((40, 30), 3, 0.03)
    selection, found = search_rank(known.observations, ranks=[3])
    result = result_of(found, known.observations)
    assert selection.scores[0] <= description_length(result) + 1e-9
    assert selection.scores[0] == pytest.approx(description_length(result), rel=0.01)


def test_entry_weights_and_the_weight_of_false_ones():
    known = planted((40, 30), 3, 0.05)
    seen = known.observations.to_dense()
    weights = np.random.default_rng(0).integers(0, 4, seen.shape).astype(float)
    how = {"weights": weights, "false_one_weight": 2.0}
    selection, found = search_rank(known.observations, ranks=[2, 3], **how)
    missed, false = wrong(seen, found.X.astype(int) @ found.Y > 0)
    assert found.cost == (weights * missed).sum() + 2 * (weights * false).sum()
    at = selection.ranks.tolist().index(selection.best)
    assert selection.costs[at] == found.cost
    assert selection.missed[at] == missed[weights > 0].sum()
    assert selection.false_ones[at] == false[weights > 0].sum()
    below = trace_curve(known.observations, ranks=[1, 3, 5], false_one_weight=np.inf)
    assert not below.false_ones.any() and below.missed[0] > below.missed[-1]


def test_given_ranks_and_no_others():
    known = planted((12, 5), 2, 0.05)
    selection = trace_curve(known.observations, ranks=[7, 2, 2])
    assert selection.ranks.tolist() == [2, 4]  # no more than there are different columns
    assert selection.costs[1] == 0 == selection.missed[1]


@pytest.mark.parametrize("value", [0, 1])
def test_a_constant_table(value):
    selection, found = search_rank(Observations.from_dense(np.full((6, 5), value)))
    assert selection.ranks.tolist() == [selection.best] == [1]
    assert selection.costs[0] == found.cost == 0


def test_it_depends_neither_on_threads_nor_on_the_seed():
    known = planted((40, 30), 3, 0.1)
    first, *others = [
        trace_curve(known.observations, n_jobs=n_jobs).table() for n_jobs in (1, 2, 3)
    ]
    assert others == [first, first]
    chosen = {search_rank(known.observations, seed=seed)[0].best for seed in (0, 7)}
    assert len(chosen) == 1


def test_long_steps_are_filled_in_beside_the_best(monkeypatch):
    known = planted((60, 50), 5, 0.02)
    monkeypatch.setattr(curve, "STEP", 1)  # each time twice as many
    selection = trace_curve(known.observations)
    assert selection.best == 5
    assert {4, 5, 6} <= set(selection.ranks.tolist())
    assert len(selection.ranks) < selection.ranks[-1]


def test_no_rank_is_worse_than_what_was_found_below():
    """Better factors that are added later hold for the ranks above, too."""
    known = planted((40, 30), 3, 0.03)
    table = pack_table(known.observations)
    traced = Curve(Job(known.observations, table), Tracing())
    traced.trace([1, 3, 5])
    before = traced.selection()
    seen = known.observations.to_dense().astype(np.uint8)
    traced.add(np.eye(40, dtype=np.uint8)[:, :1], seen[:1])  # no better than what there is
    assert traced.selection().table() == before.table()
    one = traced.state.points[0].solution
    for i, rank in ((1, 3), (2, 5)):  # as if nothing had been found beyond one factor
        solution = Solution.of(one.cost, pruned(table, one.X, one.Y, rank))
        traced.state.points[i] = Point(solution, traced._bits(solution))
    traced.add(known.X, known.Y)
    after = traced.selection()
    missed, false = wrong(seen, known.Z)
    assert after.costs.tolist() == [before.costs[0], *[missed.sum() + false.sum()] * 2]


# ---------------------------------------------------------------- time, Ctrl-C, progress, crashes


def test_time_ends_it():
    known = planted((60, 50), 4, 0.1)
    selection, found = search_rank(known.observations, max_time=1e-6)
    assert selection.ranks.tolist() == [1] and not selection.interrupted
    assert len(found.Y) == 1
    given = trace_curve(known.observations, ranks=[3, 5], max_time=1e-6)
    assert given.ranks.tolist() == [3]


@pytest.mark.parametrize(("module", "number"), [(searching, 1), (searching, 4), (curve, 4)])
def test_ctrl_c_judges_the_ranks_so_far(monkeypatch, module, number):
    known = planted((40, 30), 4, 0.1)
    fail_at_round(monkeypatch, number, KeyboardInterrupt, of=module)
    selection, found = search_rank(known.observations)
    assert selection.interrupted and found.interrupted
    assert selection.best in selection.ranks
    assert found.cost <= selection.costs[selection.ranks == selection.best]
    assert (np.diff(selection.costs) <= 0).all()


def test_progress_says_how_many_factors():
    seen = []
    trace_curve(planted().observations, progress=Noting(lambda *at: seen.append(at)))
    assert {1, 2, 3, 4} <= {factors for _, _, factors, _ in seen}


@cache
def undisturbed():
    """A table, and what a search finds in it that nothing stops."""
    seen = planted((40, 30), 3, 0.05).observations
    return seen, *search_rank(seen)


@pytest.mark.parametrize(("module", "number"), [(searching, 4), (curve, 3), (curve, 12)])
def test_it_goes_on_after_a_crash(tmp_path, module, number):
    seen, whole, answered = undisturbed()
    place = Checkpoint(tmp_path, interval=0, share=1)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Crash):
        patch.setattr(Recorder, "save_if_due", Recorder.save)
        fail_at_round(patch, number, of=module)
        search_rank(seen, recorder=Recorder(place, seen))
    assert list(tmp_path.iterdir())
    recorder = Recorder(place, seen)
    assert recorder.resuming
    again, found = search_rank(seen, recorder=recorder)
    assert again.table() == whole.table()
    np.testing.assert_array_equal(found.X, answered.X)


def test_a_state_of_another_table_is_refused(tmp_path):
    seen, other = planted((40, 30)).observations, planted((41, 30)).observations
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Crash):
        patch.setattr(Recorder, "save_if_due", Recorder.save)
        fail_at_round(patch, 3, of=curve)
        trace_curve(seen, recorder=Recorder(tmp_path, seen))
    with pytest.raises(ValueError, match="expected factors of this table"):
        trace_curve(other, recorder=Recorder(tmp_path, seen))
