"""One factor at a time against its dense twin: lines, tiles in turn, refits, first tiles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_reference import (
    Dense,
    best_rows,
    bits_of_tile,
    cost_of,
    few_examples,
    gains_of,
    generator,
    packed,
    packed_tile,
    problems,
    with_tile,
)

from boolweave.engine.kernels.bits import pack, unpack
from boolweave.search.kernels.descent import (
    DROP_TIES,
    KEEP_TIES,
    TAKE_TIES,
    alternate,
    best_members,
    refit,
    seed,
)
from boolweave.search.kernels.factors import cost, empty_tile
from boolweave.search.table import bits_of

TIES = {"drop": DROP_TIES, "keep": KEEP_TIES, "take": TAKE_TIES}
ties_names = st.sampled_from(sorted(TIES))


def alternate_by_definition(dense, X, Y, k, x, y, ties):
    """Rows and columns in turn, until no more is saved."""
    before = -1.0
    while True:
        x, saved = best_rows(dense, X, Y, k, y, ties, x)
        if saved <= before + 1e-9:
            return x, y, saved
        before = saved
        y, saved = best_rows(dense.T, Y.T, X.T, k, x, ties, y)
        if saved <= before + 1e-9:
            return x, y, saved
        before = saved


@few_examples
@given(problems(), st.data(), ties_names)
def test_best_members(problem, data, ties):
    dense, X, Y = problem
    table, factors = packed(problem)
    k = data.draw(st.integers(0, len(Y) - 1))
    for seen, entries, side, at in (
        (dense, table.rows, factors.rows, (X, Y)),
        (dense.T, table.columns, factors.columns, (Y.T, X.T)),
    ):
        pattern, present = at[1][data.draw(st.integers(0, len(Y) - 1))], at[0][:, k]
        chosen = pack(present[None])[0]
        saved = best_members(
            table, entries, side, k, pack(pattern[None])[0], TIES[ties], chosen
        )  # fmt: skip
        expected, most = best_rows(seen, *at, k, pattern, ties, present)
        np.testing.assert_array_equal(unpack(chosen[None], len(present))[0], expected)
        assert saved == pytest.approx(most, abs=1e-9)


@few_examples
@given(problems(), st.data(), ties_names)
def test_alternate(problem, data, ties):
    dense, X, Y = problem
    table, factors = packed(problem)
    k = data.draw(st.integers(0, len(Y) - 1))
    tile = packed_tile(X[:, k], Y[k])
    saved = alternate(table, factors, k, tile, TIES[ties])
    x, y = bits_of_tile(tile, dense.values.shape)
    *expected, most = alternate_by_definition(dense, X, Y, k, X[:, k], Y[k], ties)
    np.testing.assert_array_equal(x, expected[0])
    np.testing.assert_array_equal(y, expected[1])
    assert saved == pytest.approx(most, abs=1e-9)
    M, N = dense.values.shape
    empty = cost_of(dense, *with_tile(X, Y, k, np.zeros(M), np.zeros(N)))
    assert cost_of(dense, *with_tile(X, Y, k, x, y)) == pytest.approx(empty - saved, abs=1e-9)


@few_examples
@given(problems(), st.data(), ties_names)
def test_refit_never_raises_the_cost(problem, data, ties):
    dense, X, Y = problem
    table, factors = packed(problem)
    k = data.draw(st.integers(0, len(Y) - 1))
    before, tile = cost(table, factors), empty_tile(dense.values.shape)
    changed = refit(table, factors, k, tile, empty_tile(dense.values.shape), TIES[ties])
    after = bits_of(factors)
    assert cost_of(dense, *after) == pytest.approx(cost(table, factors), abs=1e-9)
    assert cost(table, factors) <= before + 1e-9
    different = [bool((new != old).any()) for new, old in zip(after, (X, Y), strict=True)]
    assert changed == any(different)
    rest = [np.delete(part, k, axis) for part, axis in ((after[0], 1), (after[1], 0))]
    np.testing.assert_array_equal(rest[0], np.delete(X, k, axis=1))
    np.testing.assert_array_equal(rest[1], np.delete(Y, k, axis=0))


@few_examples
@given(problems(), st.data())
def test_seed(problem, data):
    """A first tile never costs, and none is found only if the others leave nothing to do."""
    dense, X, Y = problem
    table, factors = packed(problem)
    k = data.draw(st.integers(0, len(Y) - 1))
    M, N = dense.values.shape
    tile = empty_tile((M, N))
    found = seed(table, factors, k, generator(data.draw(st.integers(0, 2**20))), tile)
    gain = np.array([gains_of(dense, X, Y, k, one) for one in np.eye(N)])
    assert found == (gain > 0).any()
    if found:
        without = cost_of(dense, *with_tile(X, Y, k, np.zeros(M), np.zeros(N)))
        x, y = bits_of_tile(tile, (M, N))
        assert cost_of(dense, *with_tile(X, Y, k, x, y)) <= without + 1e-9


def test_a_first_tile_finds_the_only_tile():
    values = np.zeros((6, 7))
    values[np.ix_([1, 2, 4], [0, 3, 5])] = 1
    table, factors = packed((Dense(values), np.zeros((6, 1)), np.zeros((1, 7))))
    tile = empty_tile((6, 7))
    for number in range(10):
        assert seed(table, factors, 0, generator(number), tile)
        np.testing.assert_array_equal(np.outer(*bits_of_tile(tile, (6, 7))), values)
