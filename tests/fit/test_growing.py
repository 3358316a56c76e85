"""Factors one by one: tiles of what is not explained yet."""

import numpy as np
import pytest

from boolweave.data.observations import Observations
from boolweave.datasets import make_boolean
from boolweave.fit import first_factors
from boolweave.fit.first_factors import Sample, with_tiles
from boolweave.model.products import boolean_product


def nothing(shape):
    return np.zeros((shape[0], 0)), np.zeros((0, shape[1]))


def tiles_apart(product="or", flip=0.0):
    """Three tiles that do not overlap, on 60 × 40."""
    X, Y = np.zeros((60, 3), dtype=np.uint8), np.zeros((3, 40), dtype=np.uint8)
    for k, (rows, columns) in enumerate(
        [((0, 25), (0, 15)), ((25, 45), (15, 25)), ((45, 60), (25, 33))]
    ):
        X[slice(*rows), k] = 1
        Y[k, slice(*columns)] = 1
    Z = boolean_product(X, Y, product)
    noise = np.random.default_rng(0).random(Z.shape) < flip
    return X, Y, np.where(noise, 1 - Z, Z)


@pytest.mark.parametrize("product", ["or", "xor"])
@pytest.mark.parametrize("observed", [1.0, 0.3], ids=["dense", "sparse"])
def test_tiles_are_found_largest_first(product, observed):
    X, Y, seen = tiles_apart(product, flip=0.02)
    table = np.where(np.random.default_rng(1).random(seen.shape) < observed, seen, np.nan)
    sample = Sample.of(Observations.from_dense(table))
    rows, columns = with_tiles(sample, *nothing(seen.shape), 3, product)
    assert np.mean((rows > 0) != X) < 0.02
    np.testing.assert_array_equal(columns > 0, Y)
    assert np.abs(rows).max() <= first_factors.MOST_LOG_ODDS


def test_a_new_tile_explains_what_the_others_do_not():
    X, Y, seen = tiles_apart()
    sample = Sample.of(Observations.from_dense(seen))
    given = np.where(X[:, [0, 2]], 2.0, -2.0), np.where(Y[[0, 2]], 2.0, -2.0)
    rows, columns = with_tiles(sample, *given, 1, "or")
    np.testing.assert_array_equal(rows[:, :2], given[0])  # as they were
    np.testing.assert_array_equal(rows[:, 2] > 0, X[:, 1])
    np.testing.assert_array_equal(columns[2] > 0, Y[1])


def test_where_all_is_explained_a_new_factor_is_empty():
    X, Y, seen = tiles_apart()
    sample = Sample.of(Observations.from_dense(seen))
    rows, columns = with_tiles(sample, X, Y, 2, "or")
    assert not (rows[:, 3:] > 0).any() and not (columns[3:] > 0).any()


def test_of_a_large_table_only_some_rows_are_looked_at(monkeypatch):
    X, Y, seen = tiles_apart()
    monkeypatch.setattr(first_factors, "ENTRIES", 20 * 40)
    sample = Sample.of(Observations.from_dense(seen))
    assert len(sample.rows) == 20 and sample.observations.shape == (20, 40)
    rows, columns = with_tiles(sample, *nothing(seen.shape), 3, "or")
    np.testing.assert_array_equal(columns > 0, Y)
    np.testing.assert_array_equal(rows[sample.rows] > 0, X[sample.rows])
    others = np.setdiff1d(np.arange(60), sample.rows)
    np.testing.assert_array_equal(rows[others], 0)


def test_the_order_of_sums_does_not_matter():
    """Gains are whole numbers: rows in another order give the same tiles, to the last bit."""
    planted = make_boolean(70, 50, 4, flip=0.1, random_state=0)
    order = np.random.default_rng(0).permutation(50)
    table = planted.observations.to_dense()
    found = [
        with_tiles(Sample.of(Observations.from_dense(seen)), *nothing(seen.shape), 4, "or")
        for seen in (table, table[:, order])
    ]
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1][:, order], found[1][1])


@pytest.mark.parametrize("value", [0, 1])
def test_a_constant_table(value):
    sample = Sample.of(Observations.from_dense(np.full((6, 5), value)))
    rows, columns = with_tiles(sample, *nothing((6, 5)), 1, "or")
    np.testing.assert_array_equal(boolean_product(rows > 0, columns > 0), value)


def test_a_table_without_entries():
    sample = Sample.of(Observations.from_dense(np.full((3, 4), np.nan)))
    rows, columns = with_tiles(sample, *nothing((3, 4)), 1, "or")
    assert not (rows > 0).any() and not (columns > 0).any()
