"""Matrices of 0, 1 and NaN for tests of observations, and what observations of them must be."""

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from boolweave.data.ones import SparseObservations

NAN = np.nan
MATRIX = np.array([[1, 0, NAN], [NAN, 1, 1], [NAN, NAN, NAN], [0, 0, 1]])


def same(observations, dense):
    """Whether the observations are those of a 0/1/NaN matrix, entry by entry."""
    dense = np.asarray(dense, dtype=float)
    np.testing.assert_array_equal(observations.to_dense(), dense)
    rows, columns = np.nonzero(~np.isnan(dense))
    np.testing.assert_array_equal(observations.rows_of_entries(), rows)
    np.testing.assert_array_equal(observations.indices, columns)
    np.testing.assert_array_equal(observations.values, dense[rows, columns])
    assert observations.shape == dense.shape
    assert observations.indptr.dtype == np.int64
    assert observations.indices.dtype == np.int32
    assert observations.values.dtype == np.uint8


def partly_observed(min_side=0, max_side=7):
    """Matrices of 0, 1 and NaN of all shapes and densities."""
    return hnp.arrays(
        np.float64,
        hnp.array_shapes(min_dims=2, max_dims=2, min_side=min_side, max_side=max_side),
        elements=st.sampled_from([0.0, 1.0, NAN]),
    )


def stored(dense, name, kind="array"):
    """A sparse matrix that stores what is not NaN, zeros too."""
    rows, columns = np.nonzero(~np.isnan(dense))
    make = getattr(sp, f"coo_{kind}")
    values = dense[rows, columns]
    return make((values, (rows, columns)), shape=dense.shape).asformat(name)


def codes_at_random(shape, random, ones=0.2, missing=0.1):
    """A matrix of 0, 1 and NaN."""
    drawn = random.random(shape)
    return np.where(drawn < ones, 1.0, np.where(drawn < ones + missing, np.nan, 0.0))


def sparse_of(table):
    """A dense table with NaN as observations that list no zeros."""
    stored = sp.coo_array(np.where(table == 0, 0.0, np.where(np.isnan(table), 2, 1)))
    stored.data = np.where(stored.data == 2, np.nan, 1.0)
    return SparseObservations.from_sparse(stored)


def or_product(X, Y):
    """The OR product of bits (M, K) and (K, N)."""
    return (X.astype(int) @ Y.astype(int)) > 0
