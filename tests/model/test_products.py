"""The Boolean product against the definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import boolean_product_by_definition

from boolweave.model import products
from boolweave.model.products import boolean_product


@given(
    sizes=st.tuples(*[st.integers(0, 7)] * 3),
    product=st.sampled_from(["or", "xor"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_equals_the_definition(sizes, product, seed):
    rng = np.random.default_rng(seed)
    M, K, N = sizes
    X, Y = rng.integers(0, 2, (M, K)), rng.integers(0, 2, (K, N))
    Z = boolean_product(X, Y, product)
    assert Z.dtype == np.uint8
    np.testing.assert_array_equal(Z, boolean_product_by_definition(X, Y, product))


@pytest.mark.parametrize("product", ["or", "xor"])
def test_chunks_change_nothing(monkeypatch, product):
    rng = np.random.default_rng(0)
    X, Y = rng.integers(0, 2, (50, 6)), rng.integers(0, 2, (6, 30))
    whole = boolean_product(X, Y, product)
    monkeypatch.setattr(products, "CHUNK_BYTES", 4 * 30 * 7)  # 7 rows at a time
    np.testing.assert_array_equal(boolean_product(X, Y, product), whole)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float32])
def test_takes_every_dtype(dtype):
    X = np.array([[1, 0], [1, 1]], dtype=dtype)
    np.testing.assert_array_equal(boolean_product(X, X), [[1, 0], [1, 1]])


@pytest.mark.parametrize("dtype", [np.uint8, bool])
def test_does_not_change_or_share_its_input(dtype):
    X = np.ones((2, 1), dtype=dtype)
    Z = boolean_product(X, X.T)
    Z[:] = 0
    assert X.all()


@pytest.mark.parametrize(
    ("X", "Y", "product", "error", "words"),
    [
        ([[1]], [[1]], "and", ValueError, '"or" or "xor", got \'and\''),
        ([[1, 0]], [[1]], "or", ValueError, "2 components .* but Y has 1"),
        ([[2]], [[1]], "or", ValueError, r"X must hold only 0 and 1, got 2 at \(0, 0\)"),
        ([[1]], [[float("nan")]], "or", ValueError, "Y must hold only 0 and 1, got nan"),
        ([[0.5]], [[1]], "xor", ValueError, "got 0.5"),
        ([["a"]], [[1]], "or", TypeError, "X must hold 0 and 1, got dtype"),
        ([1], [[1]], "or", ValueError, "X must have 2 dimensions, got 1"),
    ],
)
def test_bad_input(X, Y, product, error, words):
    with pytest.raises(error, match=words):
        boolean_product(X, Y, product)
