"""New rows of a sparse matrix, with only those zeros that are needed to decode them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from boolweave.data.observations import Observations

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from boolweave.data.ones import Cells, SparseObservations
    from boolweave.runtime.types import Floats

# A row may have a factor if its ones outweigh this fraction of its zeros: other factors may cover
# some of the zeros.
SHARE_OF_ZEROS = 0.5


def with_some_zeros(
    seen: SparseObservations, bits: NDArray[np.uint8], evidence: tuple[float, float],
    prior: Floats, reach: NDArray[np.bool_] | None = None,
) -> tuple[Observations, NDArray[np.bool_]]:  # fmt: skip
    """The ones of all rows, and those zeros that are evidence against factors a row may have.

    Parameters
    ----------
    seen : SparseObservations, (M, N)
    bits : (N, K) array
        The column factor.
    evidence : (float, float)
        L of a zero and of a one.
    prior : (M, K) array
        Log-odds of the rows.
    reach : (N, K) array of bool, optional
        The columns whose zeros count; by default, those of the column factor.

    Returns
    -------
    observations : Observations, (M, N)
    possible : (M, K) array of bool
        The factors that each row may have. The others must be excluded, because the zeros that are
        evidence against them are left out.
    """
    from scipy.sparse import csr_array

    factors = csr_array(bits.astype(np.int32))
    hits = (_matrix(seen.ones, seen.n_columns) @ factors).toarray()
    misses = bits.sum(axis=0, dtype=np.int64) - hits
    possible = evidence[1] * hits + SHARE_OF_ZEROS * evidence[0] * misses + prior > 0
    whose = factors if reach is None else csr_array(reach.astype(np.int32))
    covered = csr_array(possible.astype(np.int32)) @ whose.T
    covered.data[:] = 1
    # 1: a zero; 2, 3: a one; 4, 5: missing
    codes = covered + 2 * _matrix(seen.ones, seen.n_columns)
    if len(seen.holes):
        codes = codes + 4 * _matrix(seen.holes, seen.n_columns)
    codes = csr_array(codes)
    codes.sort_indices()
    there = codes.data < 4
    indptr = np.concatenate([[0], np.cumsum(there)])[codes.indptr]
    values = (codes.data[there] >= 2).astype(np.uint8)
    return Observations(seen.shape, indptr, codes.indices[there], values), possible


def _matrix(cells: Cells, n_columns: int) -> csr_array:
    from scipy.sparse import csr_array

    ones = np.ones(len(cells), dtype=np.int32)
    return csr_array((ones, cells.columns, cells.indptr), shape=(len(cells.indptr) - 1, n_columns))
