"""A table, bit-packed for the search."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from boolweave.data.observations import Observations
from boolweave.engine.kernels.bits import n_words, pack, unpack
from boolweave.model.products import Product
from boolweave.runtime.threads import cut
from boolweave.search.kernels.factors import Entries, Factors, Table, empty_factors, recount_all

Bits = NDArray[np.uint8]

# Maximum number of bits that are unpacked at a time.
AT_ONCE = 2**24


def pack_table(
    observations: Observations,
    false_one_weight: float = 1.0,
    product: Product = "or",
    weights: NDArray[np.float64] | None = None,
) -> Table:
    """Pack the observed entries by rows and by columns.

    Parameters
    ----------
    observations : Observations, shape (M, N)
    false_one_weight : float
        The cost of a false one relative to a missed one. Infinity, and any other weight so large
        that a false one never pays, becomes a weight just above that of all ones together.
    product : {"or", "xor"}
    weights : (M, N) array, optional
        The weight of each entry, at least 0; entries of weight 0 are not observed.
    """
    ones, zeros = packed_entries(observations)
    shape = observations.shape
    by_row, by_column = np.zeros((0, 0)), np.zeros((0, 0))
    if weights is not None:
        by_row = np.ascontiguousarray(weights, dtype=np.float64)
        by_column = np.ascontiguousarray(by_row.T)
        counts = pack(by_row > 0)
        ones, zeros = ones & counts, zeros & counts
    # Above this, a weight of false ones may be larger than all ones together.
    largest_factor = 1e9
    if false_one_weight > largest_factor:
        every = observations.n_ones if weights is None else float(by_row.sum())
        least = 1.0 if weights is None else float(by_row[by_row > 0].min(initial=np.inf))
        false_one_weight = min(false_one_weight, (every + 1.0) / min(1.0, least))
    return Table(
        Entries(ones, zeros, by_row),
        Entries(transposed(ones, shape[1]), transposed(zeros, shape[1]), by_column),
        float(false_one_weight),
        product == "xor",
    )


def packed_entries(observations: Observations) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Pack the ones and the zeros of the rows, some rows at a time: (M, words of N) each."""
    M, N = observations.shape
    ones, zeros = (np.zeros((M, n_words(N)), dtype=np.uint64) for _ in range(2))
    for rows in cut(M, N, AT_ONCE):
        part = observations.take_rows(rows).to_dense()
        ones[rows], zeros[rows] = pack(part == 1), pack(part == 0)
    return ones, zeros


def transposed(words: NDArray[np.uint64], n: int) -> NDArray[np.uint64]:
    """Transpose a packed matrix, (L, words of n) to (n, words of L), some columns at a time."""
    L = len(words)
    out = np.zeros((n, n_words(L)), dtype=np.uint64)
    for some in cut(words.shape[1], 64 * L, AT_ONCE):
        columns = slice(64 * some.start, min(64 * some.stop, n))
        out[columns] = pack(unpack(words[:, some], columns.stop - columns.start).T)
    return out


def shape_of(table: Table) -> tuple[int, int]:
    """The number of rows and columns."""
    return len(table.rows.ones), len(table.columns.ones)


def factors_of(table: Table, X: Bits, Y: Bits) -> Factors:
    """Pack factors: X (M, K), Y (K, N)."""
    factors = empty_factors(shape_of(table), X.shape[1])
    factors.rows.members[:] = pack(X)
    factors.columns.members[:] = pack(Y.T)
    factors.rows.patterns[:] = pack(Y)
    factors.columns.patterns[:] = pack(X.T)
    recount_all(factors, table.xor)
    return factors


def bits_of(factors: Factors) -> tuple[Bits, Bits]:
    """Unpack factors: X (M, K), Y (K, N)."""
    K, N = len(factors.rows.patterns), len(factors.columns.members)
    return unpack(factors.rows.members, K), unpack(factors.rows.patterns, N)
