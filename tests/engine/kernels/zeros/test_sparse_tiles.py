"""Cells of tiles counted and listed, against the product as a dense matrix."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matrices import codes_at_random, or_product, sparse_of

from boolweave.engine.prediction import FixedColumns, counts
from boolweave.engine.zeros.tiles import NEGLIGIBLE, Tiles
from boolweave.model.channel import Channel
from boolweave.model.model import Model
from boolweave.model.odds import sigmoid
from boolweave.runtime.threads import pool_of


def drawn(shape, K, seed, density=0.3):
    random = np.random.default_rng(seed)
    table = codes_at_random(shape, random)
    rows = np.where(random.random((shape[0], K)) < density, 1, -1) * random.uniform(0.2, 4)
    columns = np.where(random.random((K, shape[1])) < density, 1, -1) * random.uniform(0.2, 4)
    return table, rows.astype("f4"), columns.astype("f4")


def words_of(bits):
    """Bits (n, K) in words of 64, (n, ⌈K/64⌉)."""
    padded = np.zeros((len(bits), -(-bits.shape[1] // 64) * 64), dtype=np.uint8)
    padded[:, : bits.shape[1]] = bits
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint64)


def counted(table, z):
    return [[int(((table == o) & (z == v)).sum()) for v in (0, 1)] for o in (0, 1)]


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 12), st.integers(1, 15), st.integers(1, 9), st.integers(0, 10**6))
def test_counts(M, N, K, seed):
    table, rows, columns = drawn((M, N), K, seed)
    seen = sparse_of(table)
    z = or_product(rows > 0, columns > 0)
    tiles = Tiles.of_beliefs(rows, columns)
    assert tiles.n_cells() == z.sum()
    assert tiles.counts(seen).tolist() == counted(table, z)
    model = Model(K, Channel.symmetric(0.1))
    decoded, marginal = (FixedColumns(model, columns, of) for of in (False, True))
    assert counts(seen, rows, decoded).tolist() == counted(table, z)
    terms = sigmoid(rows).T[:, :, None] * sigmoid(columns)[:, None, :]
    likely = 1 - np.prod(1 - np.where(terms < NEGLIGIBLE, 0, terms), axis=0)
    assert counts(seen, rows, marginal).tolist() == counted(table, likely > 0.5)


@pytest.mark.parametrize("seed", range(4))
def test_covered_zeros_are_listed(seed):
    table, rows, columns = drawn((20, 30), 4, seed)
    seen, z = sparse_of(table), or_product(rows > 0, columns > 0)
    tiles = Tiles.of_beliefs(rows, columns)
    found = tiles.covered_zeros(seen, 10**6)
    listed = np.zeros((20, 30), dtype=bool)
    listed[found.rows(), found.columns] = True
    np.testing.assert_array_equal(listed, z & (table == 0))
    some = tiles.covered_zeros(seen, 10)
    assert 0 < len(some) <= 10
    assert listed[some.rows(), some.columns].all()


# As plain Python, a product of words that is meant to overflow gives a warning.
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("K", [1, 5, 64, 65, 130])
def test_tiles_of_bits_are_those_of_beliefs(K):
    _, rows, columns = drawn((20, 30), K, K)
    words = words_of(rows > 0)
    found = Tiles.of_bits([words[:7], words[7:]], words_of(columns.T > 0), K, pool_of(2))
    expected = Tiles.of_beliefs(rows, columns)
    assert found.shape == expected.shape
    for side in ("by_row", "by_factor"):
        for part in ("indptr", "columns"):
            np.testing.assert_array_equal(
                getattr(getattr(found, side), part), getattr(getattr(expected, side), part)
            )


def test_no_factors_and_empty_matrices():
    table, rows, columns = drawn((4, 5), 2, 0)
    tiles = Tiles.of_beliefs(-np.abs(rows), columns)
    assert tiles.n_cells() == 0
    assert len(tiles.covered_zeros(sparse_of(table), 5)) == 0
