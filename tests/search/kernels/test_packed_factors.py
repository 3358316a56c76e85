"""Packed factors against dense ones: what they cover, what they cost, what is saved and lost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_reference import (
    bits,
    cost_of,
    counts,
    few_examples,
    gains_of,
    loss_of,
    packed,
    packed_tile,
    problems,
    with_tile,
)

from boolweave.engine.kernels.bits import pack, unpack
from boolweave.search.kernels.factors import (
    copy_factors,
    cost,
    empty_factors,
    empty_tile,
    gains,
    install,
    loss,
    recount_all,
)
from boolweave.search.table import bits_of, factors_of


def assert_consistent(table, factors, X, Y):
    """Both sides hold these factors and cover what a count from nothing says."""
    expected = factors_of(table, X, Y)
    for side, right in zip(factors, expected, strict=True):
        for name, part in side._asdict().items():
            np.testing.assert_array_equal(part, getattr(right, name), err_msg=name)


@few_examples
@given(problems())
def test_both_sides_hold_the_factors(problem):
    _, X, Y = problem
    _, factors = packed(problem)
    for found, expected in zip(bits_of(factors), (X, Y), strict=True):
        np.testing.assert_array_equal(found, expected)
    M, K = X.shape
    np.testing.assert_array_equal(unpack(factors.columns.patterns, M), X.T)
    np.testing.assert_array_equal(unpack(factors.columns.members, K), Y.T)


@few_examples
@given(problems())
def test_recount(problem):
    dense, X, Y = problem
    _, factors = packed(problem)
    by_rows, n_columns = counts(X, Y), Y.shape[1]
    once, twice = by_rows > 0, by_rows > 1
    if dense.xor:
        once, twice = by_rows % 2 == 1, np.zeros_like(once)
    np.testing.assert_array_equal(unpack(factors.rows.once, n_columns), once)
    np.testing.assert_array_equal(unpack(factors.rows.twice, n_columns), twice)
    np.testing.assert_array_equal(unpack(factors.columns.once, len(X)), once.T)
    np.testing.assert_array_equal(unpack(factors.columns.twice, len(X)), twice.T)


@few_examples
@given(problems())
def test_cost(problem):
    assert cost(*packed(problem)) == pytest.approx(cost_of(*problem), abs=1e-9)


@few_examples
@given(problems(), st.data())
def test_gains(problem, data):
    """On both sides, for any pattern and in any set of lines."""
    dense, X, Y = problem
    table, factors = packed(problem)
    k = data.draw(st.integers(0, len(Y) - 1))
    random = np.random.default_rng(data.draw(st.integers(0, 2**20)))
    for seen, entries, side, at in (
        (dense, table.rows, factors.rows, (X, Y)),
        (dense.T, table.columns, factors.columns, (Y.T, X.T)),
    ):
        L, n = seen.values.shape
        pattern, lines = bits(random, n), bits(random, L, share=0.8)
        saved = np.full(L, np.nan)
        gains(table, entries, side, k, pack(pattern[None])[0], pack(lines[None])[0], saved)
        expected = np.where(lines, gains_of(seen, *at, k, pattern), np.nan)
        np.testing.assert_allclose(saved, expected, atol=1e-9)


@few_examples
@given(problems(), st.data())
def test_loss(problem, data):
    _, X, Y = problem
    table, factors = packed(problem)
    k = data.draw(st.integers(0, len(Y) - 1))
    found = loss(table, factors, k, np.zeros(len(X)))
    assert found == pytest.approx(loss_of(*problem, k), abs=1e-9)


@few_examples
@given(problems(), st.integers(0, 2**20))
def test_install_keeps_both_sides_consistent(problem, seed):
    dense, X, Y = problem
    table, factors = packed(problem)
    shape, random = dense.values.shape, np.random.default_rng(seed)
    for _ in range(4):
        k = random.integers(len(Y))
        x, y = (bits(random, n, share=random.choice([0, 0.5])) for n in shape)
        x, y = (X[:, k], y) if random.random() < 0.3 else (x, y)
        before, changed = (X[:, k], Y[k]), empty_tile(shape)
        X, Y = with_tile(X, Y, k, x, y)
        is_new = install(table, factors, k, packed_tile(x, y), changed)
        assert is_new == any((a != b).any() for a, b in zip(before, (x, y), strict=True))
        assert_consistent(table, factors, X, Y)
        if is_new:
            both = packed_tile(before[0] | x, before[1] | y)
            np.testing.assert_array_equal(changed.x, both.x)
            np.testing.assert_array_equal(changed.y, both.y)


@few_examples
@given(problems())
def test_copies(problem):
    dense, X, Y = problem
    table, factors = packed(problem)
    copy = empty_factors(dense.values.shape, len(Y))
    copy_factors(factors, copy)
    factors.rows.members[:], factors.columns.once[:] = 0, 0
    assert_consistent(table, copy, X, Y)
    recount_all(copy, dense.xor)
    assert_consistent(table, copy, X, Y)
