"""The row step: all sets of few factors are tried; of many, none is worse than what came in."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_reference import (
    Dense,
    bits,
    costs_of_entries,
    few_examples,
    problems,
    product_of,
    tables,
)

from boolweave.engine.kernels.bits import pack, unpack
from boolweave.search.kernels.factors import MOST_EXACT, best_sets

SMALL = ((1, 1), (1, 5), (4, 3), (2, 66), (5, 6))


def best_sets_of(dense, X, Y):
    """The rows of X after the row step, and their costs."""
    table, members = dense.pack(), pack(X)
    costs = best_sets(table.rows, table.false_weight, dense.xor, pack(Y), members)
    return unpack(members, len(Y)), costs


def costs_of_rows(dense, X, Y):
    return costs_of_entries(dense, product_of(X, Y, dense.xor)).sum(axis=1)


def assert_costs_are_right(dense, X, Y, found, costs):
    np.testing.assert_allclose(costs, costs_of_rows(dense, found, Y), atol=1e-9)
    before = costs_of_rows(dense, X, Y)
    assert (costs <= before + 1e-9).all()
    kept = (found == X).all(axis=1)
    assert (kept | (costs < before)).all()  # others only where they are better


@few_examples
@given(problems(4, SMALL).filter(lambda problem: len(problem[2]) <= 4))
def test_few_factors_by_brute_force(problem):
    dense, X, Y = problem
    found, costs = best_sets_of(*problem)
    assert_costs_are_right(*problem, found, costs)
    all_sets = np.array(list(product((0, 1), repeat=len(Y))))
    of_sets = [costs_of_rows(dense, np.tile(one, (len(X), 1)), Y) for one in all_sets]
    np.testing.assert_allclose(costs, np.min(of_sets, axis=0), atol=1e-9)
    for row in np.flatnonzero((found != X).any(axis=1)):
        best = np.isclose(np.array(of_sets)[:, row], costs[row], atol=1e-9)
        assert found[row].sum() == all_sets[best].sum(axis=1).min()


@few_examples
@given(tables(SMALL), st.integers(0, 2**20), st.sampled_from([MOST_EXACT + 1, 65]))
def test_many_factors_are_never_worse(dense, seed, K):
    random = np.random.default_rng(seed)
    M, N = dense.values.shape
    X, Y = bits(random, M, K, share=0.1), bits(random, K, N, share=0.3)
    found, costs = best_sets_of(dense, X, Y)
    assert_costs_are_right(dense, X, Y, found, costs)
    flipped = [found ^ (np.arange(K) == k).astype(np.uint8) for k in range(K)]
    flips = [costs_of_rows(dense, one, Y) for one in flipped]
    nothing = costs_of_rows(dense, np.zeros_like(X), Y)
    assert (costs <= np.min([nothing, *flips], axis=0) + 1e-9).all()


@pytest.mark.parametrize("xor", [False, True])
def test_descent_exchanges_two_factors(xor):
    """The way to the better of two patterns leads over none where both together cost more."""
    K = MOST_EXACT + 1
    values = np.array([[1.0, 1, 1, 1, 0, 0, 0, 0]])
    Y = np.zeros((K, 8), dtype=np.uint8)
    Y[0, [0, 1, 2, 4]] = 1
    Y[1, [0, 1, 2, 3, 5]] = 1
    Y[2, :4] = 1
    X = np.zeros((1, K), dtype=np.uint8)
    X[0, 1] = 1
    found, costs = best_sets_of(Dense(values, xor=xor), X, Y)
    assert np.flatnonzero(found).tolist() == [2] and costs[0] == 0


def test_both_ways_find_unions_of_patterns():
    random = np.random.default_rng(0)
    for K in (MOST_EXACT - 3, MOST_EXACT + 1):
        Y = bits(random, K, 10, share=0.25)
        X = bits(random, 3, K, share=0.2)
        dense = Dense(product_of(X, Y, False).astype(float))
        _, costs = best_sets_of(dense, np.zeros_like(X), Y)
        np.testing.assert_array_equal(costs, 0)
