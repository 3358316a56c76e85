"""Tiles chosen by a linear program, against all subsets of few tiles."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_reference import bits, cost_of, few_examples, random_table, tables

from boolweave.search import starts
from boolweave.search.starts import choose

SHAPES = ((1, 6), (5, 1), (5, 6), (8, 7))


def random_tiles(seed, shape, n_tiles=7):
    random = np.random.default_rng(seed)
    return (
        bits(random, shape[0], n_tiles, share=0.4),
        bits(random, n_tiles, shape[1], share=0.4),
    )


def least_cost(dense, X, Y, n_components):
    """The cost of the best set of at most K tiles."""
    return min(
        cost_of(dense, X[:, list(chosen)], Y[list(chosen)])
        for n in range(n_components + 1)
        for chosen in combinations(range(len(Y)), n)
    )


@few_examples
@given(tables(SHAPES).filter(lambda dense: not dense.xor), st.integers(0, 999), st.integers(1, 5))
def test_no_other_tiles_are_cheaper(dense, seed, n_components):
    X, Y = random_tiles(seed, dense.values.shape)
    choice = choose(dense.pack(), X, Y, n_components)
    assert choice.is_whole
    assert len(choice.tiles) <= n_components
    assert sorted(set(choice.tiles)) == list(choice.tiles)
    found = cost_of(dense, X[:, choice.tiles], Y[choice.tiles])
    assert found == pytest.approx(least_cost(dense, X, Y, n_components), abs=1e-7)


@pytest.mark.parametrize(("seed", "n_components"), [(4, 3), (6, 4), (7, 3)])
def test_whole_numbers_are_searched_for_where_shares_are_halves(seed, n_components):
    dense = random_table(seed, (8, 7))
    tiles = random_tiles(seed, (8, 7), 9)
    with pytest.MonkeyPatch.context() as patch:
        halves = []
        patch.setattr(starts, "_whole", lambda program, shares: halves.append(shares) or shares)
        choose(dense.pack(), *tiles, n_components)
    assert ((halves[0] > 0.1) & (halves[0] < 0.9)).sum() >= 4
    chosen = choose(dense.pack(), *tiles, n_components).tiles
    found = cost_of(dense, tiles[0][:, chosen], tiles[1][chosen])
    assert found == least_cost(dense, *tiles, n_components)


def assert_all_tiles_stay(choice, n_tiles):
    assert not choice.is_whole
    assert list(choice.tiles) == list(range(n_tiles))


@pytest.mark.parametrize("limit", ["MOST_CELLS", "MOST_NUMBERS", "MOST_STEPS"])
def test_too_large_a_program(monkeypatch, limit):
    monkeypatch.setattr(starts, limit, 1)
    X, Y = random_tiles(0, (8, 7))
    assert_all_tiles_stay(choose(random_table(0, (8, 7)).pack(), X, Y, 2), 7)


def test_too_many_shares_between_0_and_1():
    X, Y = random_tiles(0, (20, 20), 60)
    assert_all_tiles_stay(choose(random_table(0, (20, 20)).pack(), X, Y, 4), 60)


def test_the_work_grows_with_the_program():
    table = random_table(0, (8, 7)).pack()
    few, many = (choose(table, *random_tiles(0, (8, 7), n), 2).work for n in (3, 9))
    assert 0 < few < many
