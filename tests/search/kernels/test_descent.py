"""All factors: the cost falls, what is returned is the cost of what is left; pruning."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_reference import (
    PLAIN,
    Dense,
    bits,
    cost_of,
    few_examples,
    generator,
    loss_of,
    packed,
    problems,
)
from test_packed_factors import assert_consistent

from boolweave.search.kernels.descent import (
    DROP_TIES,
    KEEP_TIES,
    TAKE_TIES,
    descend,
    fill,
    improve,
    prune,
    scratch,
    size,
)
from boolweave.search.kernels.factors import cost, empty_factors
from boolweave.search.table import bits_of

SMALL = ((1, 1), (1, 5), (4, 3), (6, 5), (3, 66), (65, 3))
seeds = st.integers(0, 2**20)
NEVER = np.zeros(1, dtype=np.bool_)


def searched(
    problem, seed, most_work=20, least_trials=4, most_trials=1000, simplify=False, stop=NEVER
):
    """What `improve` returns, and the factors that it leaves."""
    dense, _, Y = problem
    table, factors = packed(problem)
    shape = dense.values.shape
    memory, kept = scratch(shape, len(Y)), empty_factors(shape, len(Y))
    trials = most_work, least_trials, most_trials
    found, work = improve(
        table, factors, kept, memory, generator(seed), *trials, simplify, stop
    )  # fmt: skip
    return found, work, table, factors


@few_examples
@given(problems(4, SMALL), seeds, st.sampled_from([DROP_TIES, KEEP_TIES, TAKE_TIES]))
def test_descend_never_raises_the_cost(problem, seed, ties):
    dense, _, Y = problem
    table, factors = packed(problem)
    memory, random = scratch(dense.values.shape, len(Y)), generator(seed)
    before = cost_of(*problem)
    for _ in range(3):
        now, work = descend(table, factors, memory, random, np.int64(1), ties, NEVER)
        assert work == len(Y)
        assert cost(table, factors) <= before + 1e-9
        assert now == pytest.approx(cost_of(dense, *bits_of(factors)), abs=1e-9)
        before = now
    assert sorted(memory.order) == list(range(len(Y)))


@few_examples
@given(problems(4, SMALL), seeds)
def test_descend_ends_where_no_factor_alone_can_be_better(problem, seed):
    dense, _, Y = problem
    table, factors = packed(problem)
    memory, random = scratch(dense.values.shape, len(Y)), generator(seed)
    now, _ = descend(table, factors, memory, random, np.int64(50), DROP_TIES, NEVER)
    again, work = descend(table, factors, memory, random, np.int64(50), DROP_TIES, NEVER)
    assert again == pytest.approx(now, abs=1e-9)
    assert work == len(Y)


@few_examples
@given(problems(4, SMALL), seeds)
def test_improve_returns_the_cost_of_what_it_leaves(problem, seed):
    dense = problem[0]
    found, work, table, factors = searched(problem, seed)
    assert found == pytest.approx(cost_of(dense, *bits_of(factors)), abs=1e-9)
    assert found <= cost_of(*problem) + 1e-9
    assert found == pytest.approx(0, abs=1e-9) or work >= 20
    assert_consistent(table, factors, *bits_of(factors))


@few_examples
@given(problems(4, SMALL), seeds)
def test_improve_with_the_same_random_numbers_finds_the_same(problem, seed):
    (first, *_, one), (second, *_, other) = (searched(problem, seed) for _ in range(2))
    assert first == second
    for a, b in zip(bits_of(one), bits_of(other), strict=True):
        np.testing.assert_array_equal(a, b)


@few_examples
@given(problems(4, SMALL), seeds)
def test_simpler_factors_of_the_same_cost_are_taken(problem, seed):
    def cost_and_size(n_trials):
        found, *_, factors = searched(problem, seed, 10**6, 0, n_trials, simplify=True)
        assert size(factors) == sum(int(part.sum()) for part in bits_of(factors))
        return round(found, 9), size(factors)

    assert cost_and_size(10) <= cost_and_size(0)


def test_improve_stops():
    random = np.random.default_rng(0)
    problem = Dense(bits(random, 9, 8).astype(float)), bits(random, 9, 2), bits(random, 2, 8)
    found, work, _, factors = searched(
        problem, 0, 10**12, 10**12, 10**12, stop=np.ones(1, dtype=np.bool_)
    )
    assert found == cost_of(problem[0], *bits_of(factors))
    assert work <= 50 * 2


def test_improve_ends_after_so_many_trials():
    random = np.random.default_rng(0)
    problem = Dense(bits(random, 9, 8).astype(float)), bits(random, 9, 2), bits(random, 2, 8)
    works = [searched(problem, 0, 10**12, 0, n)[1] for n in (0, 1, 10)]
    assert works == sorted(set(works))
    assert works[0] <= 50 * 2
    assert searched(problem, 0, 0, 10, 10)[1] == works[-1]


@pytest.mark.parametrize("xor", [False, True])
def test_improve_leaves_a_local_optimum(xor):
    """Both factors have the one tile, and no way downhill leads to the other."""
    tiles = np.eye(2, dtype=np.uint8).repeat(3, axis=1)
    values = tiles.T @ tiles
    X, Y = tiles[[0, 0]].T, tiles[[0, 0]]
    dense = Dense(values.astype(float), xor=xor)
    table, factors = packed((dense, X, Y))
    now, _ = descend(
        table, factors, scratch((6, 6), 2), generator(1), np.int64(50), KEEP_TIES, NEVER
    )
    assert now == 9
    found, *_, factors = searched((dense, X, Y), 1, 400, 40)
    assert found == 0
    np.testing.assert_array_equal(sorted(bits_of(factors)[0].T.tolist()), tiles[::-1])


@few_examples
@given(problems(4, SMALL), seeds)
def test_fill_costs_less_with_each_factor(problem, seed):
    dense, X, Y = problem
    table, factors = packed((dense, np.zeros_like(X), np.zeros_like(Y)))
    fill(table, factors, scratch(dense.values.shape, len(Y)), generator(seed), 2, NEVER)
    X, Y = bits_of(factors)
    assert_consistent(table, factors, X, Y)
    costs = [cost_of(dense, X[:, :k], Y[:k]) for k in range(min(len(Y), 5) + 1)]
    assert (np.diff(costs) <= 1e-9).all()
    wrong = (dense.values == 1) & (dense.each > 0)
    assert costs[-1] < costs[0] or not wrong.any() or dense.false_one_weight > 1


@few_examples
@given(problems(5, SMALL).filter(lambda problem: not PLAIN or len(problem[2]) <= 5), st.data())
def test_prune_drops_what_is_missed_least(problem, data):
    dense, X, Y = problem
    table, factors = packed(problem)
    n_left = data.draw(st.integers(max(0, len(Y) - 6), len(Y)))
    alive = prune(table, factors, n_left)
    assert alive.sum() == n_left
    left = list(range(len(Y)))
    while len(left) > n_left:
        lost = [loss_of(dense, X[:, left], Y[left], i) for i in range(len(left))]
        # Of equals the first, whatever the last bit of a sum of weights says.
        left.pop(int(np.argmin(np.round(lost, 9))))
    expected = np.isin(np.arange(len(Y)), left)
    if dense.false_one_weight == 0.3:  # ties hang on the last bit
        total = cost_of(dense, X[:, alive], Y[alive])
        assert total == pytest.approx(cost(table, factors), abs=1e-9)
        return
    np.testing.assert_array_equal(alive, expected)
    assert_consistent(table, factors, X * alive, Y * alive[:, None])
