"""Parts of a matrix against the whole matrix."""

from __future__ import annotations

import numpy as np
import pytest
from cover_reference import are_neighbours, largest_independent

from boolweave.covering.exact import _subset
from boolweave.covering.matrix import Matrix, Merged
from boolweave.covering.parts import Part, independent_ones
from boolweave.search.kernels.bits import unpack


def some_part(seed, shape=(12, 70), n_ones=15):
    """A part of a random matrix with missing entries: ones at the given positions."""
    random = np.random.default_rng(seed)
    drawn = random.random(shape)
    table = np.where(drawn < 0.4, 1.0, np.where(drawn < 0.5, np.nan, 0.0))
    table = table[:, (table == 1).any(axis=0)]  # Merged leaves the others out
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
    np.testing.assert_array_equal(part.count(), near.sum(axis=1))
    found = independent_ones(part, part.count(), len(at), np.random.default_rng(seed))
    assert found == largest_independent(near)
