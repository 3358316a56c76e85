"""Parts of a matrix against the whole matrix, and lower bounds against all rectangles."""

from __future__ import annotations

import numpy as np
import pytest
from cover_reference import are_neighbours, largest_independent, largest_rectangles, least_cover
from scipy.optimize import linprog

from boolweave import cover
from boolweave.covering import exact
from boolweave.covering.exact import _Search, _subset
from boolweave.covering.matrix import Matrix, Merged
from boolweave.covering.parts import (
    Part,
    fewest,
    fractional_bound,
    independent_ones,
    maximal_cliques,
)
from boolweave.engine.kernels.bits import unpack
from boolweave.runtime.run import Run

NEVER = np.zeros(1, dtype=bool)


def some_part(seed, shape=(12, 70), n_ones=15):
    """A part of a random matrix with missing entries: ones at the given positions."""
    random = np.random.default_rng(seed)
    drawn = random.random(shape)
    table = np.where(drawn < 0.4, 1.0, np.where(drawn < 0.5, np.nan, 0.0))
    # Merged leaves out rows and columns without ones.
    table = table[np.ix_((table == 1).any(axis=1), (table == 1).any(axis=0))]
    nothing = np.zeros((0, table.shape[1]), dtype=np.uint8)
    merged = Merged.of(Matrix.of_data(table), nothing, False, False)
    ones = merged.list_ones(merged.ones)
    chosen = np.sort(random.choice(len(ones.rows), n_ones, replace=False))
    at = list(zip(ones.rows[chosen], ones.columns[chosen], strict=True))
    return table, at, Part.of(merged, _subset(ones, chosen))


@pytest.mark.parametrize("seed", range(6))
def test_a_part_has_the_rows_and_columns_of_its_ones(seed):
    table, at, part = some_part(seed)
    rows, columns = (np.unique([one[axis] for one in at]) for axis in (0, 1))
    allowed = table[np.ix_(rows, columns)] != 0
    assert part.shape == allowed.shape
    np.testing.assert_array_equal(unpack(part.allowed.rows, len(columns)), allowed)
    np.testing.assert_array_equal(unpack(part.allowed.columns, len(rows)), allowed.T)
    np.testing.assert_array_equal(part.in_row, allowed.sum(axis=1))
    np.testing.assert_array_equal(part.in_column, allowed.sum(axis=0))
    own = part.ones
    assert list(zip(rows[own.rows], columns[own.columns], strict=True)) == at
    for line in range(len(rows)):
        assert (own.rows[own.start[line] : own.start[line + 1]] == line).all()
    active = np.zeros_like(allowed)
    active[own.rows, own.columns] = True
    np.testing.assert_array_equal(unpack(part.active, len(columns)), active)


@pytest.mark.parametrize("seed", range(6))
def test_neighbours_within_a_part_are_those_of_the_matrix(seed):
    table, at, part = some_part(seed)
    near = np.array([[are_neighbours(table != 0, e, f) for f in at] for e in at])
    np.testing.assert_array_equal(part.neighbours(), near)
    np.testing.assert_array_equal(part.count(NEVER), near.sum(axis=1))
    found = independent_ones(part, part.count(NEVER), len(at), np.random.default_rng(seed), NEVER)
    assert found == largest_independent(near)


@pytest.mark.parametrize("n", range(3, 7))
def test_the_fractional_bound_of_a_crown(n):
    """It is that of the linear program with all largest rectangles, and that is a bound."""
    crown = 1 - np.eye(n, dtype=np.uint8)
    merged = Merged.of(Matrix.of_data(crown), np.zeros((0, n), dtype=np.uint8))
    part = Part.of(merged, merged.list_ones(merged.ones))
    fractions = _least_fractions(crown.astype(bool))
    found = fractional_bound(part, part.ones.rows, part.count(NEVER), 1, Run())
    assert found == np.ceil(fractions - 1e-6) <= least_cover(crown)
    assert fractional_bound(part, part.ones.rows, part.count(NEVER), n, Run()) == n


@pytest.mark.parametrize("seed", range(12))
def test_the_fractional_bound_of_a_part(seed):
    """Each one is a clique of its own at first; missing entries may be covered."""
    table, at, part = some_part(seed, (6, 7), 8)
    active = np.zeros(table.shape, dtype=bool)
    active[tuple(np.transpose(at))] = True
    found = fractional_bound(part, np.arange(len(at)), part.count(NEVER), 1, Run())
    assert found == np.ceil(_least_fractions(active, table != 0) - 1e-6)
    assert found <= least_cover(active, table != 0)


def _least_fractions(ones, allowed=None):
    """The fewest fractions of all largest rectangles that cover all ones."""
    columns = []
    for rectangle in largest_rectangles(ones if allowed is None else allowed):
        inside = np.zeros_like(ones)
        inside[np.ix_(*rectangle)] = True
        columns.append(inside[ones].astype(float))
    A = np.transpose(columns)
    return linprog(np.ones(A.shape[1]), A_ub=-A, b_ub=-np.ones(len(A))).fun


def test_a_clique_for_each_row_is_not_the_end():
    """By rows, the ones of this dense table form 18 cliques, which rounds do not improve."""
    table = np.random.default_rng(0).random((18, 18)) < 0.7
    found = cover(table, random_state=0)
    assert found.coverage == 1 and not len(found.false_ones)
    assert found.bound <= found.cost <= 15


def test_planted_factors_of_a_dense_table():
    """Greedy tiles lead to the planted factors; an order by rows or by columns to far more."""
    random = np.random.default_rng(0)
    X, Y = random.random((200, 60)) < 0.1, random.random((60, 200)) < 0.1
    assert cover(X @ Y, closed=True, random_state=0).cost <= 60


def test_an_integer_program_without_a_proof_is_not_lost(monkeypatch):
    """Its cover is the answer if no other has fewer factors."""
    table = np.random.default_rng(1).random((9, 9)) < 0.6
    merged = Merged.of(Matrix.of_data(table), np.zeros((0, 9), dtype=np.uint8))
    part = Part.of(merged, merged.list_ones(merged.ones))
    best, least = fewest(maximal_cliques(part.neighbours(), NEVER), len(part.ones.rows))
    assert best.max() + 1 == least
    monkeypatch.setattr(exact, "fewest", lambda *_: (best, least - 1))
    search = _Search(merged, 0, 0.0, Run())  # no rounds of first fit
    alone = min(n for *_, n in search._starts(part, part.count(NEVER)))
    clique, n, bound = search._cover_part(part)
    assert n == least < alone and bound == least - 1
    np.testing.assert_array_equal(clique, best)
