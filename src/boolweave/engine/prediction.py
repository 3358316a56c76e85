"""Predictions from the log-odds of two factors: P(z = 1) and decoded values of entries.

Row log-odds are (M, K) and column log-odds (K, N) throughout. Work and memory are proportional to
the entries asked for, not to the matrix: probabilities are computed for some rows and columns at a
time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from boolweave.data.ones import SparseObservations
from boolweave.engine.kernels import predicting, variables
from boolweave.engine.kernels.groups import Block
from boolweave.engine.zeros import tiles
from boolweave.model.odds import sigmoid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.data.observations import Observations
    from boolweave.model.products import Product
    from boolweave.runtime.types import Array, Floats, Integers

# Number of values that are computed at a time, each with a few times 8 bytes of scratch memory.
VALUES_AT_A_TIME = 1 << 16


def latent_at(
    row_log_odds: Array, column_log_odds: Floats, rows: Integers, columns: Integers,
    product: Product, marginal: bool = True,
) -> NDArray[np.float64]:  # fmt: skip
    """P(z = 1) at pairs of rows and columns, (n,); without `marginal`, of the decoded factors."""
    n, (K, n_columns) = len(rows), column_log_odds.shape
    out = np.empty(n)
    # If there are more pairs than columns, all columns are computed once.
    all_columns = by_column(column_log_odds, marginal) if n >= n_columns else None
    for start, stop in _cuts(n, K):
        begins = np.ones(stop - start, dtype=bool)
        np.not_equal(rows[start + 1 : stop], rows[start : stop - 1], out=begins[1:])
        here = rows[start:stop][begins]  # a row is computed once for a run of its pairs
        if all_columns is None:
            y = by_column(column_log_odds[:, columns[start:stop]], marginal)
            column = np.arange(stop - start)
        else:
            y, column = all_columns, np.asarray(columns[start:stop], dtype=np.int64)
        predicting.chances_of_pairs(
            product == "xor", np.cumsum(begins) - 1, column, by_row(row_log_odds[here], marginal),
            y, out[start:stop],
        )  # fmt: skip
    return out


def latent_rows(
    row_log_odds: Floats, column_log_odds: Floats, product: Product, marginal: bool = True,
    rows: Integers | None = None,
) -> Iterator[tuple[slice, NDArray[np.float64]]]:  # fmt: skip
    """`latent_at` all columns, of all rows or of those asked for, some of them at a time.

    Yields a slice of them, and an array (some, N).
    """
    y = by_column(column_log_odds, marginal)
    n_rows = len(row_log_odds if rows is None else rows)
    for start, stop in _cuts(n_rows, max(y.shape)):
        some = slice(start, stop)
        odds = row_log_odds[some if rows is None else rows[some]]
        out = np.empty((len(odds), len(y)))
        predicting.chances_of_rows(product == "xor", by_row(odds, marginal), y, out)
        yield some, out


def counts(
    observations: Observations | SparseObservations, row_log_odds: Floats, column_log_odds: Floats,
    product: Product, marginal: bool,
) -> NDArray[np.int64]:  # fmt: skip
    """Count entries by observed value (first axis) and predicted value (second axis): (2, 2).

    A 1 is predicted if P(z = 1) > ½, as by `latent_at`. In addition to the factors, this needs
    memory only for the columns: 8 bytes for each factor and column, or for every 64 factors. If
    zeros are not listed, the cells of tiles are counted: `boolweave.engine.zeros.tiles`.
    """
    if isinstance(observations, SparseObservations):
        return tiles.counts(row_log_odds, column_log_odds, observations, marginal)
    covered = np.zeros(2, dtype=np.int64)
    xor, indptr = product == "xor", observations.indptr
    by_variable = by_row if marginal else words_of
    y = by_column(column_log_odds) if marginal else words_of(column_log_odds.T)
    for first, last, columns, values in observations.row_chunks():
        for start, stop in _cuts(last - first, len(column_log_odds), first):
            x = by_variable(row_log_odds[start:stop])
            entries = slice(*(indptr[[start, stop]] - indptr[first]))
            own = columns[entries], values[entries]
            if marginal:
                covered += predicting.count_likely(xor, indptr[start : stop + 1], *own, x, y)
            else:
                block = Block(None, start, indptr[start : stop + 1] - indptr[start], *own)
                covered += variables.count_covered(True if xor else None, block, x, y)
    ones = observations.n_ones
    seen = np.array([observations.n_observed - ones, ones])
    return np.stack([seen - covered, covered], axis=1)


# ---------------------------------------------------------------- rows and columns, in pieces


def _cuts(n: int, size: int, first: int = 0) -> Iterator[tuple[int, int]]:
    """Runs of n items from `first` on; each item has `size` numbers, and each run is a piece."""
    step = max(1, VALUES_AT_A_TIME // max(1, size))
    for start in range(first, first + n, step):
        yield start, min(start + step, first + n)


def by_row(log_odds: Array, marginal: bool = True) -> NDArray[np.float64]:
    """Probabilities of log-odds (n, K), or decoded bits, row by row in memory."""
    out = np.empty(log_odds.shape)
    for start, stop in _cuts(*log_odds.shape):
        part = log_odds[start:stop]
        out[start:stop] = sigmoid(part) if marginal else part > 0
    return out


def by_column(log_odds: Floats, marginal: bool = True) -> NDArray[np.float64]:
    """The same as `by_row` for log-odds of columns, (K, n); the result is (n, K)."""
    return by_row(log_odds.T, marginal)


def words_of(log_odds: Floats) -> NDArray[np.uint64]:
    """Decoded bits of log-odds (n, K), 64 to a word: (n, ⌈K/64⌉)."""
    n, K = log_odds.shape
    packed = np.zeros((n, -(-K // 64) * 8), dtype=np.uint8)
    for start, stop in _cuts(n, K):
        bits = np.packbits(log_odds[start:stop] > 0, axis=1)
        packed[start:stop, : bits.shape[1]] = bits
    return packed.view(np.uint64)
