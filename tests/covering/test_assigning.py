"""Covers with few assignments, and the rules that they keep to, against integer programs."""

from __future__ import annotations

import numpy as np
import pytest
from cover_reference import best_cover, largest_rectangles
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from boolweave import Observations, cover
from boolweave.covering.assigning import least_assignments, no_roles
from boolweave.covering.kernels import assigning as kernels
from boolweave.covering.matrix import Matrix
from boolweave.engine.kernels.bits import pack, random_words, unpack

small = arrays(np.uint8, (4, 4), elements=st.integers(0, 1))
RULES = [
    {}, {"min_rows": 2}, {"min_columns": 2}, {"max_roles_per_row": 1}, {"max_roles_per_row": 2},
    {"max_rows": 2}, {"max_columns": 2}, {"conflicts": [[0, 1]]},
    {"conflicts": [[0, 1, 3], [1, 2]]}, {"min_rows": 2, "max_columns": 2},
    {"min_columns": 2, "max_roles_per_row": 2},
]  # fmt: skip


def obeys(found, min_rows=1, min_columns=1, max_rows=99, max_columns=99, max_roles_per_row=99,
          conflicts=()):  # fmt: skip
    """Whether every factor and every row keeps to the rules."""
    if not found.n_factors:
        return True
    rows, columns = found.X.sum(axis=0), found.Y.sum(axis=1)
    return (
        (rows >= min_rows).all() and (rows <= max_rows).all()
        and (columns >= min_columns).all() and (columns <= max_columns).all()
        and found.X.sum(axis=1).max() <= max_roles_per_row
        and all((found.Y[:, some].sum(axis=1) < 2).all() for some in conflicts)
    )  # fmt: skip


@pytest.mark.parametrize("objective", ["roles", "assignments"])
@pytest.mark.parametrize("rules", RULES, ids=str)
@settings(deadline=None, max_examples=8)
@given(matrix=small)
def test_the_best_cover_within_the_rules(objective, rules, matrix):
    found = cover(matrix, objective=objective, random_state=0, **rules)
    missed, factors, lines = best_cover(matrix, objective=objective, **rules)
    assert obeys(found, **rules)
    assert not len(found.false_ones) and len(found.missed) == missed
    np.testing.assert_array_equal(found.missed, np.argwhere((matrix == 1) & (found.Z == 0)))
    if objective == "roles":
        assert found.n_factors == factors and lines <= found.n_assignments <= lines + 1
    else:
        assert found.complexity == factors + lines
    if not missed:
        assert np.array_equal(found.Z, matrix)
        assert found.bound <= found.cost


@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"min_rows": 2},
        {"min_columns": 2},
        {"min_rows": 2, "min_columns": 2},
        {"max_roles_per_row": 1},
        {"conflicts": [[0, 1]]},
        {"max_columns": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("objective", ["roles", "assignments"])
@settings(deadline=None, max_examples=5)
@given(
    matrix=arrays(np.uint8, (3, 4), elements=st.integers(0, 1)),
    most_missed=st.integers(0, 2),
    most_false=st.integers(0, 2),
)
@example(np.array([[0, 1, 1, 1], [0, 1, 0, 0], [1, 1, 1, 0]]), 0, 2)  # false ones in one place only
@example(np.array([[1, 1, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0]]), 0, 2)
def test_the_best_cover_with_exceptions(objective, rules, matrix, most_missed, most_false):
    n_ones = int(matrix.sum())
    if n_ones <= most_missed:
        return
    coverage = (n_ones - most_missed) / n_ones
    found = cover(matrix, coverage, most_false, objective=objective, random_state=0, **rules)
    missed, factors, lines = best_cover(
        matrix, objective=objective, most_missed=most_missed, most_false=most_false, **rules
    )
    assert obeys(found, **rules) and len(found.false_ones) <= most_false
    np.testing.assert_array_equal(found.missed, np.argwhere((matrix == 1) & (found.Z == 0)))
    assert max(0, len(found.missed) - most_missed) == missed
    least = factors if objective == "roles" else factors + lines
    # Of a thousand tables with false ones, some get a role too many.
    assert least <= found.cost <= least + (objective == "roles" and most_false > 0)
    if not missed:
        assert found.bound <= least


@settings(deadline=None, max_examples=20)
@given(arrays(np.uint8, (6, 7), elements=st.sampled_from([0, 1, 1])))
def test_no_assignment_is_needless(matrix):
    for objective in ("roles", "assignments"):
        found = cover(matrix, objective=objective, random_state=0)
        assert np.array_equal(found.Z, matrix)
        for factor, side in ((found.X, 0), (found.Y, 1)):
            for place in np.argwhere(factor):
                fewer = factor.copy()
                fewer[tuple(place)] = 0
                X, Y = (fewer, found.Y) if side == 0 else (found.X, fewer)
                assert not np.array_equal((X @ Y) > 0, matrix)


def test_a_closed_cover_gives_every_factor_to_every_row_that_it_fits():
    matrix = (np.random.default_rng(0).random((20, 12)) < 0.6).astype(np.uint8)
    closed, sparing = (cover(matrix, closed=c, random_state=0) for c in (True, False))
    fits = (matrix @ closed.Y.T) == closed.Y.sum(axis=1)
    np.testing.assert_array_equal(closed.X, fits)
    assert closed.n_factors == sparing.n_factors and closed.complexity > sparing.complexity
    rectangles = set(largest_rectangles(matrix[:, :5] == 1))
    small_cover = cover(matrix[:, :5], closed=True, random_state=0)
    for x, y in zip(small_cover.X.T, small_cover.Y, strict=True):
        assert (tuple(np.flatnonzero(x)), tuple(np.flatnonzero(y))) in rectangles


def test_a_matrix_that_is_too_large_keeps_its_closed_cover(monkeypatch):
    matrix = (np.random.default_rng(0).random((8, 6)) < 0.6).astype(np.uint8)
    closed = cover(matrix, closed=True, random_state=0)
    monkeypatch.setattr("boolweave.covering.assigning.MOST_CELLS", 7)
    for objective in ("roles", "assignments"):
        with pytest.warns(
            UserWarning, match="no search for fewer assignments .*`closed=True`"
        ) as w:
            found = cover(matrix, objective=objective, random_state=0)
        assert np.array_equal(found.X, closed.X) and np.array_equal(found.Y, closed.Y)
        assert [warning.filename for warning in w] == [__file__]
    with pytest.raises(ValueError, match="at most 7 entries after equal rows and columns"):
        cover(matrix, min_rows=2)


def test_equal_rows_and_columns_count_as_often_as_they_occur():
    matrix = np.repeat(np.repeat([[1, 1, 0], [0, 1, 1], [1, 1, 1]], 5, axis=0), 4, axis=1)
    found = cover(matrix, objective="assignments", random_state=0)
    assert np.array_equal(found.Z, matrix)
    assert found.cost == found.complexity == found.n_factors + found.X.sum() + found.Y.sum()
    assert found.complexity == cover(matrix[::-1, ::-1], objective="assignments").complexity


def test_fixed_factors_stay_and_are_held_where_they_help():
    matrix = np.array([[1, 1, 1, 0], [1, 1, 0, 0], [0, 1, 1, 1]])
    fixed = [[1, 1, 0, 0], [0, 0, 0, 1]]
    for objective in ("roles", "assignments"):
        found = cover(matrix, fixed=fixed, objective=objective, random_state=0)
        assert np.array_equal(found.Z, matrix) and found.Y[:2].tolist() == fixed


def test_rows_with_conflicting_columns_are_listed():
    seen = Observations.from_dense(
        [[1, 1, 1], [1, 0, 1], [0, 1, 0]], column_labels=["pay", "approve", "read"]
    )
    found = cover(seen, conflicts=[["pay", "approve"]], random_state=0)
    assert np.array_equal(found.Z, seen.to_dense())
    assert found.conflicts == [(0, 1, 0)]
    assert not (found.Y[:, 0] & found.Y[:, 1]).any()


@settings(deadline=None, max_examples=30)
@given(arrays(np.uint8, (3, 4), elements=st.integers(0, 1)))
def test_the_bound_of_assignments(matrix):
    if matrix.any():
        _, factors, lines = best_cover(matrix, objective="assignments")
        assert least_assignments(Matrix.of_data(matrix)) <= factors + lines


@settings(deadline=None, max_examples=20)
@given(arrays(np.uint8, (6, 8), elements=st.integers(0, 1)), st.integers(1, 2**40))
def test_what_the_search_keeps_is_what_its_factors_say(matrix, seed):
    """After any number of steps, counts and bits are those of the product of the factors."""
    ones = pack(matrix), pack(matrix.T)
    weight = np.arange(1, 7), np.arange(1, 9)
    limits = np.array([1, 99, 99])
    whole = np.array([0, 20, 0, 0, 1, 1000])
    conflicts = np.zeros((8, 1), dtype=np.uint64)
    roles = no_roles(ones, ones, weight, (limits, limits), conflicts, whole, 20)
    random = random_words(np.random.default_rng(seed))
    kernels.cover_left(roles, random)
    kernels.anneal(roles, random, 50, 2.0, 10**9, np.zeros(1, dtype=bool))
    X, Y = (unpack(side.lines, n) for side, n in zip(roles.sides, matrix.shape, strict=True))
    count = X.T.astype(int) @ Y
    np.testing.assert_array_equal(roles.n_covering, count)
    assert np.array_equal(count > 0, matrix > 0)
    for side, turned in zip(roles.sides, (count, count.T), strict=True):
        np.testing.assert_array_equal(unpack(side.left, turned.shape[1]), 0 * turned)
        np.testing.assert_array_equal(unpack(side.once, turned.shape[1]), turned == 1)
    cost = X.any(axis=1).sum() + (X @ weight[0]).sum() + (Y @ weight[1]).sum()
    assert kernels.cost_of(roles) == cost
