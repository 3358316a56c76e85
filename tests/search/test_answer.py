"""Answers of a search: the cheapest factors of tiny tables, and what is said of them."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_reference import (
    FALSE_ONE_WEIGHTS,
    Dense,
    cheapest,
    cost_of,
    loss_of,
    product_of,
    random_table,
)

from boolweave.datasets import make_boolean
from boolweave.search import answer
from boolweave.search.answer import fewest_errors, in_order, without_needless
from boolweave.search.bound import is_cheap
from boolweave.search.searching import Job, Options
from boolweave.search.solutions import enumerated

pytestmark = pytest.mark.usefixtures("little_work")


def search(dense, n_components, **more):
    return fewest_errors(Job(dense.observations, dense.pack()), n_components, **more)


def assert_sound(dense, n_components, found):
    """The cost is that of the factors, none is needless, and those come first that explain most."""
    X, Y = found.X, found.Y
    assert X.shape == (dense.values.shape[0], len(Y))
    assert Y.shape[1] == dense.values.shape[1]
    assert len(Y) <= n_components
    assert found.cost == pytest.approx(cost_of(dense, X, Y), abs=1e-9)
    lost = [loss_of(dense, X, Y, k) for k in range(len(Y))]
    np.testing.assert_allclose(found.redundancy, lost, atol=1e-9)
    assert (found.redundancy > 0).all()
    assert ((found.stability >= 0) & (found.stability <= 1)).all()
    assert found.stability.shape == (len(Y),)
    assert X.any(axis=0).all()
    assert Y.any(axis=1).all()
    for k in range(len(Y)):
        costs = [cost_of(dense, X[:, [*range(k), j]], Y[[*range(k), j]]) for j in range(k, len(Y))]
        assert costs[0] == pytest.approx(min(costs), abs=1e-9)
    if not dense.xor:
        tiles = [np.outer(x, y).astype(bool) for x, y in zip(X.T, Y, strict=True)]
        for a, b in permutations(tiles, 2):
            assert not (a <= b).all()


# ---------------------------------------------------------------- the cheapest of all


@pytest.mark.parametrize("n_components", [1, 2])
@pytest.mark.parametrize("xor", [False, True])
@pytest.mark.parametrize("false_one_weight", [*FALSE_ONE_WEIGHTS, np.inf])
@pytest.mark.parametrize("weights", [None, "quarters"])
def test_tiny_tables_by_brute_force(n_components, xor, false_one_weight, weights):
    for seed in range(2):
        dense = random_table(
            seed, (5, 4), missing=0.2 * seed, weights=weights,
            false_one_weight=false_one_weight, xor=xor,
        )  # fmt: skip
        found, best = search(dense, n_components, seed=seed), cheapest(dense, n_components)
        assert found.cost == pytest.approx(best, abs=1e-9)
        if np.isfinite(false_one_weight):
            assert_sound(dense, n_components, found)


@pytest.mark.parametrize("shape", [(5, 4), (3, 6)])
@pytest.mark.parametrize("xor", [False, True])
def test_all_factors_of_tiny_tables(shape, xor):
    for seed in range(4):
        dense = random_table(
            seed, shape, missing=0.1, weights="quarters", false_one_weight=0.3, xor=xor
        )
        for n_components in (1, 2):
            best = enumerated(dense.pack(), n_components)
            assert best.cost == pytest.approx(cheapest(dense, n_components), abs=1e-9)
            assert best.cost == pytest.approx(cost_of(dense, best.X, best.Y), abs=1e-9)
    assert enumerated(random_table(0, (9, 8), xor=xor).pack(), 3) is None  # too many


@settings(max_examples=15)
@given(st.integers(0, 2**20), st.integers(1, 5), st.booleans())
def test_answers_are_sound(seed, n_components, xor):
    kinds = {"missing": 0.1, "weights": [None, "whole", "quarters"][seed % 3]}
    dense = random_table(
        seed, (9, 8), xor=xor, false_one_weight=FALSE_ONE_WEIGHTS[seed // 3 % 3], **kinds
    )
    assert_sound(dense, n_components, search(dense, n_components, options=Options(n_init=2)))


@pytest.mark.parametrize("false_one_weight", [1.0, 0.3, np.inf])
def test_no_product_is_cheaper_than_the_bound(monkeypatch, false_one_weight):
    monkeypatch.setattr(answer, "is_cheap", is_cheap)
    n_proven = 0
    for seed in range(3):
        dense = random_table(seed, (6, 5), false_one_weight=false_one_weight)
        found, best = search(dense, 2), cheapest(dense, 2)
        assert 0 <= found.bound <= best + 1e-6
        assert found.bound <= found.cost
        n_proven += found.bound > best - 1e-6
    assert n_proven > 0


@pytest.mark.parametrize("product", ["or", "xor"])
@pytest.mark.parametrize(("shape", "n_components"), [((40, 30), 3), ((30, 70), 4)])
def test_planted_tables_are_found_exactly(product, shape, n_components):
    planted = make_boolean(*shape, n_components, product=product, random_state=1)
    dense = Dense(planted.observations.to_dense(), xor=product == "xor")
    found = search(dense, n_components)
    assert found.cost == 0
    assert_sound(dense, n_components, found)


def test_the_order_of_rows_and_columns_does_not_matter():
    random = np.random.default_rng(0)
    planted = make_boolean(24, 20, 3, flip=0.03, random_state=2)
    values = planted.observations.to_dense()
    costs = {
        search(Dense(values[random.permutation(24)][:, random.permutation(20)]), 3, seed=seed).cost
        for seed in range(3)
    }
    costs |= {search(Dense(values), 3).cost, search(Dense(values.T), 3).cost}
    assert len(costs) == 1


# ---------------------------------------------------------------- missing entries and weights


def test_missing_entries_cost_nothing():
    planted = make_boolean(24, 20, 2, random_state=2)
    values = planted.observations.to_dense()
    noisy = np.random.default_rng(0).random(values.shape) < 0.2
    flipped = np.where(noisy, 1 - values, values)
    assert search(Dense(flipped), 2).cost > 0
    assert search(Dense(np.where(noisy, np.nan, values)), 2).cost == 0
    assert search(Dense(flipped, np.where(noisy, 0.0, 1.0)), 2).cost == 0


@pytest.mark.parametrize("xor", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_an_entry_of_weight_0_is_as_one_that_is_missing(seed, xor):
    dense = random_table(seed, (5, 5), xor=xor)
    gone = np.random.default_rng(seed).random((5, 5)) < 0.2
    missing = Dense(np.where(gone, np.nan, dense.values), xor=xor)
    without = Dense(dense.values, np.where(gone, 0.0, 1.0), xor=xor)
    assert search(without, 2).cost == search(missing, 2).cost == cheapest(missing, 2)


@pytest.mark.parametrize("seed", range(3))
def test_a_row_of_weight_n_is_as_n_rows(seed):
    dense = random_table(seed, (4, 5), false_one_weight=0.3)
    times = np.array([1, 3, 2, 1])
    repeated = Dense(dense.values.repeat(times, axis=0), None, 0.3)
    weighted = Dense(dense.values, np.repeat(times[:, None], 5, axis=1).astype(float), 0.3)
    expected = cheapest(repeated, 2)
    assert search(repeated, 2).cost == pytest.approx(expected)
    assert search(weighted, 2).cost == pytest.approx(expected)


@pytest.mark.parametrize("xor", [False, True])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("weights", [None, "quarters"])
def test_from_below_there_is_no_false_one(seed, xor, weights):
    dense = random_table(seed, (12, 14), false_one_weight=np.inf, xor=xor, weights=weights)
    found = search(dense, 3)
    false = product_of(found.X, found.Y, xor) & (dense.values == 0) & (dense.each > 0)
    assert not false.any()
    assert found.cost == pytest.approx(cost_of(dense, found.X, found.Y))
    assert found.cost < dense.each[dense.values == 1].sum()


# ---------------------------------------------------------------- odd tables


@pytest.mark.parametrize("xor", [False, True])
@pytest.mark.parametrize("n_components", [1, 7, 70])
@pytest.mark.parametrize(
    "values",
    [
        np.zeros((5, 4)), np.ones((5, 4)), np.full((5, 4), np.nan), [[1, 0, 1]], [[1], [0]],
        [[0, 0]], [[1]], [[np.nan]], [[1, np.nan], [np.nan, 1]],
    ],
)  # fmt: skip
def test_tables_that_one_factor_explains(values, n_components, xor):
    dense = Dense(np.array(values, dtype=float), xor=xor)
    found = search(dense, n_components)
    assert found.cost == 0
    assert found.bound == 0
    ones = int((dense.values == 1).sum())
    assert min(ones, 1) <= len(found.Y) <= ones
    assert_sound(dense, n_components, found)


def test_nothing_weighs_anything():
    found = search(Dense(np.ones((3, 4)), np.zeros((3, 4))), 2)
    assert (found.cost, found.X.shape, found.Y.shape) == (0, (3, 0), (0, 4))


# ---------------------------------------------------------------- needless factors, order


def test_needless_factors_are_dropped():
    big, small = np.array([1, 1, 1, 0]), np.array([1, 0, 0, 0])
    X = np.array([big, small, big, 0 * big, [0, 0, 0, 1]], dtype=np.uint8).T
    Y = np.array([big, small, big, small, [0, 0, 0, 1]], dtype=np.uint8)
    table = Dense(product_of(X, Y, False).astype(float)).pack()
    kept = without_needless(table, X, Y)
    np.testing.assert_array_equal(kept[0], [[1, 0], [1, 0], [1, 0], [0, 1]])
    np.testing.assert_array_equal(kept[1], [[1, 1, 1, 0], [0, 0, 0, 1]])


def test_equal_factors_of_xor_go_together():
    """The loss of one of them alone is a gain of nothing but errors."""
    tile, other = np.array([1, 1, 0]), np.array([0, 1, 1])
    X = np.array([tile, other, tile], dtype=np.uint8).T
    table = Dense(np.outer(other, other).astype(float), xor=True).pack()
    kept = without_needless(table, X, X.T)
    np.testing.assert_array_equal(kept[0], other[:, None])
    np.testing.assert_array_equal(kept[1], other[None])


def test_factors_are_in_the_order_of_what_they_explain():
    tiles = np.zeros((3, 9), dtype=np.uint8)
    tiles[0, :2], tiles[1, 2:6], tiles[2, 6:] = 1, 1, 1
    table = Dense((tiles.T @ tiles).astype(float)).pack()
    np.testing.assert_array_equal(in_order(table, tiles.T, tiles)[1], tiles[[1, 2, 0]])


def test_all_searches_find_what_is_plain():
    tiles = np.eye(3, dtype=np.uint8).repeat([5, 4, 3], axis=1)
    values = (tiles.T @ tiles).astype(float)
    values[0, 11] = 1
    found = search(Dense(values), 3, options=Options(n_init=3))
    assert found.cost == 1
    np.testing.assert_array_equal(found.Y, tiles)
    np.testing.assert_array_equal(found.redundancy, [25, 16, 9])
    np.testing.assert_array_equal(found.stability, 1)
