"""The Boolean matrix product, with OR or XOR instead of the sum."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boolweave.runtime.threads import cut
from boolweave.runtime.types import Array, Integers

Product = Literal["or", "xor"]

PRODUCTS: tuple[Product, ...] = ("or", "xor")

# Rows are multiplied in chunks whose float32 sums take at most this many bytes.
CHUNK_BYTES = 16 * 2**20

# Number of terms of products at pairs that are computed at once.
PAIRS_AT_ONCE = 1 << 16


def check_product(product: str) -> None:
    """Raise ``ValueError`` unless `product` is "or" or "xor"."""
    if not isinstance(product, str) or product not in PRODUCTS:
        raise ValueError(f'product must be "or" or "xor", got {product!r}')


def as_bits(array: ArrayLike, name: str, ndim: int | None = 2) -> NDArray[np.uint8]:
    """Turn an array of 0 and 1 (any numeric or bool dtype) into uint8.

    Parameters
    ----------
    array : array_like of shape (A, B), or of any shape with ``ndim=None``
        Zeros and ones.
    name : str
        Name of the array in an error message.
    ndim : int, optional
        The expected number of dimensions.

    Returns
    -------
    ndarray of the same shape, uint8
    """
    given: Array = np.asarray(array)
    if ndim is not None and given.ndim != ndim:
        raise ValueError(
            f"{name} must have {ndim} dimensions, got {given.ndim}; reshape it to {ndim}-D"
        )
    if given.dtype == np.bool_:
        return given.astype(np.uint8)
    if given.dtype.kind not in "iuf":
        raise TypeError(
            f"{name} must hold 0 and 1, got dtype {given.dtype}; convert it to integers or bool"
        )
    wrong = (given != 0) & (given != 1)
    if wrong.any():
        place = "" if ndim is None else f" at {tuple(map(int, np.argwhere(wrong)[0]))}"
        raise ValueError(
            f"{name} must hold only 0 and 1, got {given[wrong][0]}{place}; compare probabilities "
            "with 0.5, or log-odds with 0, first"
        )
    return given.astype(np.uint8)


def boolean_product(X: ArrayLike, Y: ArrayLike, product: Product = "or") -> NDArray[np.uint8]:
    """Boolean product of two factors.

    Entry (m, n) is the OR, or the XOR, over k of ``X[m, k] AND Y[k, n]``.

    Parameters
    ----------
    X : array_like of shape (M, K)
        Row factor, zeros and ones.
    Y : array_like of shape (K, N)
        Column factor, zeros and ones.
    product : {"or", "xor"}
        How the K terms are combined.

    Returns
    -------
    ndarray of shape (M, N), uint8

    Examples
    --------
    >>> from boolweave.model.products import boolean_product
    >>> X, Y = [[1, 1], [0, 1]], [[1, 1, 0], [0, 1, 1]]
    >>> boolean_product(X, Y)
    array([[1, 1, 1],
           [0, 1, 1]], dtype=uint8)
    >>> boolean_product(X, Y, product="xor")
    array([[1, 0, 1],
           [0, 1, 1]], dtype=uint8)
    """
    check_product(product)
    rows, columns = as_bits(X, "X"), as_bits(Y, "Y")
    if rows.shape[1] != columns.shape[0]:
        raise ValueError(
            f"X has {rows.shape[1]} components (its columns) but Y has {columns.shape[0]} "
            "(its rows); expected the same number, X of shape (M, K) and Y of shape (K, N)"
        )
    n_rows, n_columns = rows.shape[0], columns.shape[1]
    out = np.empty((n_rows, n_columns), dtype=np.uint8)
    # float32 goes through BLAS, integers do not; sums of up to 2**24 terms are exact in it.
    right = columns.astype(np.float32)
    for some in cut(n_rows, 4 * n_columns, CHUNK_BYTES):
        sums = rows[some].astype(np.float32) @ right
        out[some] = sums > 0 if product == "or" else np.mod(sums, 2)
    return out


def product_at(
    X: Array, Y: Array, rows: Integers, columns: Integers, product: Product = "or"
) -> NDArray[np.uint8]:
    """The Boolean product at pairs of rows and columns, (n,).

    Positive values in X (M, K) and Y (K, N) count as 1, so that log-odds can be used like bits.
    """
    z = np.empty(len(rows), dtype=np.uint8)
    for pairs in cut(len(rows), len(Y), PAIRS_AT_ONCE):
        both = (X[rows[pairs]] > 0) & (Y[:, columns[pairs]] > 0).T
        z[pairs] = both.any(axis=1) if product == "or" else np.count_nonzero(both, axis=1) % 2
    return z
