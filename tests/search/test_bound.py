"""The lower bound against the cheapest product of all, found by trying every one."""

from itertools import product

import numpy as np
import pytest
import search_reference
from search_reference import Dense

from boolweave.search.bound import is_cheap, lower_bound
from boolweave.search.kernels.bounds import average_tile, best_patterns, gains_of

# Enough for tables of this size; the default would be spent on those where a gap remains.
WORK = 1e9


def cheapest(ones, zeros, n_components, false_one_weight=1.0, weights=None):
    """The least cost of all OR-products."""
    values = np.where(ones, 1.0, np.where(zeros, 0.0, np.nan))
    return search_reference.cheapest(Dense(values, weights, false_one_weight), n_components)


def random_table(seed):
    """A small table with missing entries, entry weights and a number of factors."""
    rng = np.random.default_rng(seed)
    shape = rng.integers(4, 9), rng.integers(4, 6)
    missing = rng.random(shape) < rng.choice([0, 0.2])
    ones = (rng.random(shape) < rng.uniform(0.3, 0.8)) & ~missing
    kind = seed % 3
    weights = None
    if kind == 1:
        weights = rng.integers(0, 4, shape).astype(float)
    elif kind == 2:
        weights = rng.exponential(size=shape)
    return ones, ~ones & ~missing, weights, int(rng.integers(1, 4))


@pytest.mark.parametrize("false_one_weight", [1.0, 0.5, 3.0, np.inf])
@pytest.mark.parametrize("seed", range(12))
def test_no_product_is_cheaper_than_the_bound(seed, false_one_weight):
    ones, zeros, weights, n_components = random_table(seed)
    best = cheapest(ones, zeros, n_components, false_one_weight, weights)
    for upper in (np.inf, best):
        bound = lower_bound(
            ones, zeros, n_components, false_one_weight, weights, upper=upper, max_work=WORK
        )
        assert 0 <= bound <= best * (1 + 1e-12)
        if weights is None:  # rounding up closes the gap
            assert bound == best


def test_a_bound_that_is_not_near_the_cost_ends_early():
    ones = np.random.default_rng(0).random((20, 9)) < 0.5
    early, late = (lower_bound(ones, ~ones, 3, max_work=WORK, near=near) for near in (1.0, 0.0))
    assert 0 < early < late


def test_good_and_bad_factors_to_start_from_give_valid_bounds():
    ones, zeros, weights, _ = random_table(4)
    best = cheapest(ones, zeros, 2, 1.0, weights)
    rng = np.random.default_rng(0)
    for _ in range(5):
        X = rng.random((len(ones), 2)) < 0.5
        Y = rng.random((2, ones.shape[1])) < 0.5
        bound = lower_bound(ones, zeros, 2, weights=weights, factors=(X, Y), max_work=WORK)
        assert 0 < bound <= best


def test_one_factor_is_solved_exactly():
    rng = np.random.default_rng(1)
    ones = rng.random((20, 9)) < 0.5
    weights = rng.exponential(size=ones.shape)
    best = cheapest(ones, ~ones, 1, weights=weights)
    assert lower_bound(ones, ~ones, 1, weights=weights) == pytest.approx(best, rel=1e-5)


def test_order_and_transposition_change_nothing():
    rng = np.random.default_rng(2)
    ones = rng.random((9, 6)) < 0.5
    bound = lower_bound(ones, ~ones, 2, max_work=WORK)
    assert bound == cheapest(ones, ~ones, 2)
    for _ in range(3):
        moved = ones[rng.permutation(9)][:, rng.permutation(6)]
        assert lower_bound(moved, ~moved, 2, max_work=WORK) == bound
        assert lower_bound(moved.T, ~moved.T, 2, max_work=WORK) == bound


def test_equal_rows_and_columns_count_as_often_as_they_are_there():
    ones, zeros, _, _ = random_table(15)
    row_count = np.arange(len(ones)) % 3 + 1
    column_count = np.arange(ones.shape[1]) % 2 + 1
    many = [part.repeat(row_count, axis=0).repeat(column_count, axis=1) for part in (ones, zeros)]
    weights = np.outer(row_count, column_count).astype(float)
    best = cheapest(ones, zeros, 2, weights=weights)
    assert best > 0
    assert lower_bound(*many, 2, max_work=WORK) == best
    assert lower_bound(ones, zeros, 2, weights=weights, max_work=WORK) == best


def test_rows_of_unequal_weights_are_not_merged():
    # Together the rows would pay 2; apart, each covers what is heavy in it, at .2.
    ones = np.array([[True, False], [True, False], [False, True]])
    weights = np.array([[1.0, 0.1], [0.1, 1.0], [1.0, 1.0]])
    best = cheapest(ones, ~ones, 1, weights=weights)
    assert lower_bound(ones, ~ones, 1, weights=weights) == pytest.approx(best, rel=1e-5)


def test_nothing_is_proven_where_enough_factors_or_no_ones_are():
    ones = np.random.default_rng(3).random((30, 6)) < 0.5
    assert lower_bound(ones, ~ones, 6) == 0
    nothing = np.zeros((4, 5), bool)
    assert lower_bound(nothing, ~nothing, 2) == 0
    assert lower_bound(nothing, nothing, 2) == 0
    assert lower_bound(~nothing, nothing, 1) == 0


def test_a_wide_table_is_bounded_in_blocks():
    rng = np.random.default_rng(4)
    product_ = (rng.random((60, 3)) < 0.3).astype(int) @ (rng.random((3, 50)) < 0.3) > 0
    flips = rng.random(product_.shape) < 0.1
    ones = product_ ^ flips
    assert not is_cheap(ones, ~ones, 3)
    assert 0 < lower_bound(ones, ~ones, 3, max_work=WORK) <= flips.sum()


def test_equal_rows_of_different_weight_are_not_cheap():
    ones = np.kron(np.eye(5), np.ones((8, 8))) > 0
    weights = np.random.default_rng(0).random(ones.shape)
    assert is_cheap(ones, ~ones, 3) and is_cheap(ones, ~ones, 3, 1.0, np.full(ones.shape, 2.0))
    assert not is_cheap(ones, ~ones, 3, 1.0, weights)


def test_what_is_cheap():
    rng = np.random.default_rng(5)
    small = rng.random((200, 12)) < 0.5
    assert is_cheap(small, ~small, 3)
    assert is_cheap(small.T, ~small.T, 3)
    large = rng.random((200, 60)) < 0.5
    assert not is_cheap(large, ~large, 3)
    assert is_cheap(large, ~large, 60)
    huge = np.zeros((3000, 1000), bool)
    assert not is_cheap(huge, ~huge, 3)


def test_prices_are_made_valid_whatever_they_were():
    rng = np.random.default_rng(6)
    is_one = rng.random((7, 5)) < 0.5
    one = np.where(is_one, rng.integers(1, 50, (7, 5)), 0).astype(float)
    zero = np.where(is_one, 0, rng.integers(1, 50, (7, 5))).astype(float)
    too_much = tuple(100 * rng.random(shape) for shape in [(7, 5), (7, 5, 5), (7, 5)])
    (price, pair, cost, column_gain), is_given_up, constant = gains_of(one, zero, too_much, 3)
    assert (price <= one).all()
    assert (pair.sum(axis=2) + cost <= zero).all()
    assert not pair[is_one].any()
    assert (column_gain <= zero.sum(axis=0)).all()
    slack = (one - price).sum(axis=0)
    assert (is_given_up == (column_gain > slack)).all()
    assert constant == price.sum() + np.minimum(column_gain, slack).sum()


def row_gain(gains, i, pattern):
    """What row i gains from a pattern, a set of columns, as the formula says."""
    price, pair, cost, _ = gains
    kept = sum(max(0, price[i, e] - sum(pair[i, j, e] for j in pattern)) for e in pattern)
    return kept - sum(cost[i, j] for j in pattern)


@pytest.mark.parametrize("n_low", [2, 4, 5])
def test_the_best_pattern_of_every_prefix_is_found(n_low):
    rng = np.random.default_rng(n_low)
    is_one = rng.random((6, 5)) < 0.5
    gains = tuple(
        array.astype(np.int32)
        for array in (
            np.where(is_one, rng.integers(0, 20, (6, 5)), 0),
            np.where(is_one[:, None, :] & ~is_one[:, :, None], rng.integers(0, 5, (6, 5, 5)), 0),
            np.where(is_one, 0, rng.integers(0, 8, (6, 5))),
            rng.integers(0, 5, 5),
        )
    )
    value = np.empty(1 << (5 - n_low), np.int32)
    place = np.empty(len(value), np.int64)
    best_patterns(gains, n_low, np.arange(len(value)), value, place)
    total = np.empty(32)
    for number in range(32):
        pattern = [j for j in range(5) if number >> j & 1]
        rows = [max(0, row_gain(gains, i, pattern)) for i in range(6)]
        total[number] = sum(rows) + sum(gains[3][j] for j in pattern)
    by_prefix = total.reshape(len(value), -1)
    assert value.tolist() == by_prefix.max(axis=1).tolist()
    assert by_prefix[np.arange(len(value)), place].tolist() == value.tolist()

    number = int(total.argmax())
    pattern = [j for j in range(5) if number >> j & 1]
    cover, together, used = average_tile(gains, np.array([number]), np.ones(1))
    assert np.flatnonzero(used).tolist() == pattern
    rows = [i for i in range(6) if row_gain(gains, i, pattern) > 0]
    for i, e in product(range(6), range(5)):
        left = gains[0][i, e] - sum(gains[1][i, j, e] for j in pattern)
        is_covered = i in rows and e in pattern and (left > 0 or gains[0][i, e] == 0)
        assert cover[i, e] == is_covered
        if gains[0][i, e] > 0:
            assert together[i, :, e].tolist() == [is_covered and j in pattern for j in range(5)]
