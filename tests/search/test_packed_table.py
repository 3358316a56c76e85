"""A table packed for the search, against its dense form."""

import numpy as np
import pytest
from hypothesis import given
from search_reference import Dense, few_examples, random_table, tables

from boolweave.engine.kernels.bits import pack, unpack
from boolweave.search import table as packing
from boolweave.search.table import bits_of, factors_of, pack_table, shape_of, transposed


@few_examples
@given(tables())
def test_entries_of_both_sides(dense):
    table = dense.pack()
    assert shape_of(table) == dense.values.shape
    for seen, entries in ((dense, table.rows), (dense.T, table.columns)):
        counts, n = seen.each > 0, seen.values.shape[1]
        np.testing.assert_array_equal(unpack(entries.ones, n), (seen.values == 1) & counts)
        np.testing.assert_array_equal(unpack(entries.zeros, n), (seen.values == 0) & counts)
        if dense.weights is not None:
            np.testing.assert_array_equal(entries.weights, seen.weights)
            assert entries.weights.flags.c_contiguous
        else:
            assert entries.weights.shape == (0, 0)
    assert (table.false_weight, table.xor) == (dense.false_one_weight, dense.xor)


@pytest.mark.parametrize("at_once", [1, 1000, 10**6])
@pytest.mark.parametrize("shape", [(1, 200), (130, 3), (70, 150)])
def test_some_rows_or_columns_at_a_time(monkeypatch, at_once, shape):
    monkeypatch.setattr(packing, "AT_ONCE", at_once)
    dense = random_table(0, shape, missing=0.2)
    ones, table = dense.values == 1, dense.pack()
    np.testing.assert_array_equal(table.rows.ones, pack(ones))
    np.testing.assert_array_equal(table.columns.ones, pack(ones.T))
    np.testing.assert_array_equal(transposed(pack(ones), shape[1]), pack(ones.T))


@pytest.mark.parametrize("weights", [None, "whole", "quarters"])
def test_with_an_infinite_weight_one_false_one_costs_more_than_all_missed_ones(weights):
    dense = random_table(1, (6, 7), weights=weights, false_one_weight=np.inf)
    each = dense.each
    least = each[(dense.values == 0) & (each > 0)].min()
    assert dense.pack().false_weight * least > each[dense.values == 1].sum()
    assert np.isfinite(dense.pack().false_weight)


def test_nothing_observed():
    table = pack_table(Dense(np.full((3, 2), np.nan)).observations, np.inf)
    assert not table.rows.ones.any()
    assert not table.columns.zeros.any()
    assert table.false_weight == 1


def test_factors_come_back():
    table = random_table(0, (5, 70)).pack()
    random = np.random.default_rng(0)
    X, Y = random.integers(0, 2, (5, 66), np.uint8), random.integers(0, 2, (66, 70), np.uint8)
    for found, expected in zip(bits_of(factors_of(table, X, Y)), (X, Y), strict=True):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == np.uint8
