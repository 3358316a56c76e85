"""Solutions: which are kept, which tiles they have; and where a search begins."""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from search_reference import Dense, bits, cost_of, product_of, random_table

from boolweave.datasets import make_boolean
from boolweave.fit import learn
from boolweave.search import solutions, starts
from boolweave.search.solutions import Solution, add, distinct_tiles
from boolweave.search.table import bits_of, factors_of

TABLE = random_table(0, (20, 20))


def solution(cost, seed=0, n_flips=0, shape=(20, 20), K=3):
    """A solution with this cost; some bits of its product are flipped."""
    random = np.random.default_rng(seed)
    table = random_table(0, shape).pack()
    factors = factors_of(table, bits(random, shape[0], K), bits(random, K, shape[1]))
    made = Solution.of(cost, factors)
    covered = made.covered
    covered[:n_flips, 0] ^= np.uint64(1)
    return Solution(made.cost, made.X, made.Y, covered)


def test_the_best_are_kept():
    kept = []
    for seed, cost in enumerate([50, 40, 70, 10, 60, 20, 90, 30, 80, 5]):
        kept = add(kept, solution(cost, seed))
    assert [one.cost for one in kept] == [5, 10, 20, 30, 40, 50, 60, 70]
    assert len(kept) == solutions.N_KEPT


def test_of_two_similar_ones_the_better_is_kept():
    kept = add([], solution(100.0))
    assert [one.cost for one in add(kept, solution(90.0, n_flips=4))] == [90]
    assert [one.cost for one in add(kept, solution(110.0, n_flips=5))] == [100]
    assert [one.cost for one in add(kept, solution(110.0, n_flips=6))] == [100, 110]
    assert [one.cost for one in add(kept, solution(90.0, n_flips=5))] == [90, 100]
    assert [one.cost for one in kept] == [100]


def test_distinct_tiles():
    one, other = solution(1.0, seed=1), solution(2.0, seed=2)
    X, Y = one.X.copy(), one.Y.copy()
    X[:, 0], Y[1] = 0, 0  # no rows, or no columns: empty tiles
    empty = Solution(3.0, X, Y, one.covered)
    found = distinct_tiles([one, empty, other, one])
    np.testing.assert_array_equal(found[0], np.hstack([one.X, other.X]))
    np.testing.assert_array_equal(found[1], np.vstack([one.Y, other.Y]))
    X, Y = distinct_tiles([Solution(3.0, 0 * X, Y, one.covered)])
    assert (X.shape, Y.shape) == ((20, 0), (0, 20))


@pytest.mark.parametrize("product", ["or", "xor"])
def test_max_sum_finds_what_was_planted(product):
    planted = make_boolean(60, 50, 2, product=product, random_state=0)
    dense = Dense(planted.observations.to_dense(), xor=product == "xor")
    factors = starts.max_sum(dense.observations, dense.pack(), 2, 0.1, seed=0)
    assert cost_of(dense, *bits_of(factors)) == 0


def test_max_sum_on_a_sample_gives_factors_to_all_rows(monkeypatch):
    planted = make_boolean(400, 30, 2, random_state=0)
    dense = Dense(planted.observations.to_dense())
    monkeypatch.setattr(starts, "MOST_MESSAGES", 1000)
    assert len(starts._sample(dense.observations, 2, np.random.default_rng(0))) == 200
    X, Y = bits_of(starts.max_sum(dense.observations, dense.pack(), 2, 0.1, seed=0))
    assert X.shape == (400, 2)
    assert cost_of(dense, X, Y) == 0


@pytest.mark.parametrize("flip", [0.1, 0.004])
def test_a_start_has_the_best_rows_for_its_columns(flip):
    dense = random_table(3, (12, 9), missing=0.1)
    X, Y = bits_of(starts.max_sum(dense.observations, dense.pack(), 3, flip, seed=1))
    for row in range(12):
        for number in range(8):
            other = X.copy()
            other[row] = number >> np.arange(3) & 1
            assert cost_of(dense, other, Y) >= cost_of(dense, X, Y)


@pytest.mark.parametrize("n_components", [2, 5, 7])
def test_tiles_are_pruned_or_filled_up(n_components):
    one = solution(1.0, K=5)
    X, Y = bits_of(starts.pruned(TABLE.pack(), one.X, one.Y, n_components))
    assert (X.shape, Y.shape) == ((20, n_components), (n_components, 20))
    if n_components >= 5:
        np.testing.assert_array_equal(X[:, :5], one.X)
        np.testing.assert_array_equal(product_of(X, Y, False), product_of(one.X, one.Y, False))
    else:
        tiles = {x.tobytes() for x in one.X.T}
        assert {x.tobytes() for x in X.T} < tiles


def test_the_tiles_that_are_pruned_are_needless_ones():
    tiles = np.eye(3, dtype=np.uint8).repeat(3, axis=1)
    X, Y = np.vstack([tiles, tiles]).T, np.vstack([tiles, tiles])
    dense = Dense((tiles.T @ tiles).astype(float))
    assert cost_of(dense, *bits_of(starts.pruned(dense.pack(), X, Y, 3))) == 0


def test_starts_in_threads_leave_the_warnings_of_the_process_alone(monkeypatch):
    """The filters of warnings belong to the process: a thread that changes them for a while, and
    another one meanwhile, may leave them changed for good.
    """
    both, first_ended, fit = threading.Barrier(2), threading.Event(), learn.fit

    def overlapping(seen, settings, random):
        if both.wait(timeout=60):  # the number of the thread, in the order of arrival
            first_ended.wait(timeout=60)
        return fit(seen, settings, random)

    def start(seed):
        starts.max_sum(TABLE.observations, TABLE.pack(), 2, 0.1, seed=seed)
        first_ended.set()

    monkeypatch.setattr(learn, "fit", overlapping)
    before = list(warnings.filters)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(start, range(2)))
    assert list(warnings.filters) == before
