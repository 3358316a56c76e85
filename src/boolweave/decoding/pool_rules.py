"""The classical rules of group testing: COMP, DD and SCOMP. They trust every outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.decoding.pools import as_design, as_outcomes

if TYPE_CHECKING:
    import scipy.sparse
    from numpy.typing import ArrayLike, NDArray


def comp(design: Any, outcomes: ArrayLike) -> NDArray[np.uint8]:
    """Every item is positive that no negative pool contains.

    Parameters
    ----------
    design : (pools, items) array or sparse matrix of 0 and 1, or lists of items
    outcomes : (pools,) or (pools, columns) array of 0, 1 and NaN
        NaN: the pool was not tested.

    Returns
    -------
    (items,) or (items, columns) uint8 array

    Examples
    --------
    >>> from boolweave.decoding import comp
    >>> comp([[0, 1, 2], [2, 3]], outcomes=[1, 0])
    array([1, 1, 0, 0], dtype=uint8)
    """
    matrix = as_design(design)
    results = as_outcomes(outcomes, matrix.shape[0])
    return _shaped(_possible(matrix, results), outcomes)


def definite_defectives(design: Any, outcomes: ArrayLike) -> NDArray[np.uint8]:
    """DD: an item is positive if some positive pool has no other possible item (see `comp`).

    Parameters
    ----------
    design, outcomes
        As for `comp`.

    Returns
    -------
    (items,) or (items, columns) uint8 array

    Examples
    --------
    >>> from boolweave.decoding import definite_defectives
    >>> definite_defectives([[0, 1, 2], [2, 3], [0, 3]], outcomes=[1, 0, 0])
    array([0, 1, 0, 0], dtype=uint8)
    """
    matrix = as_design(design)
    results = as_outcomes(outcomes, matrix.shape[0])
    return _shaped(_definite(matrix, results, _possible(matrix, results)), outcomes)


def scomp(design: Any, outcomes: ArrayLike) -> NDArray[np.uint8]:
    """SCOMP: DD, then the item that explains most of the open positive pools, until none is open.

    Parameters
    ----------
    design, outcomes
        As for `comp`.

    Returns
    -------
    (items,) or (items, columns) uint8 array

    Examples
    --------
    >>> from boolweave.decoding import scomp
    >>> scomp([[0, 1, 2], [2, 3], [0, 3], [1, 3], [1, 2]], outcomes=[1, 0, 0, 1, 1])
    array([0, 1, 0, 0], dtype=uint8)
    """
    matrix = as_design(design)
    results = as_outcomes(outcomes, matrix.shape[0])
    possible = _possible(matrix, results)
    chosen = _definite(matrix, results, possible)
    transposed = matrix.T.tocsr().astype(np.int32)
    for column in range(results.shape[1]):
        candidates = possible[:, column].astype(bool)
        while True:
            covered = matrix.astype(np.int32) @ chosen[:, column].astype(np.int32) > 0
            open_pools = (results[:, column] == 1) & ~covered
            explains = np.where(candidates, transposed @ open_pools.astype(np.int32), 0)
            if not explains.any():
                break
            chosen[int(explains.argmax()), column] = 1
    return _shaped(chosen, outcomes)


def _possible(matrix: scipy.sparse.csr_array, results: NDArray[np.float64]) -> NDArray[np.uint8]:
    negative = (results == 0).astype(np.int32)
    return (matrix.T.astype(np.int32) @ negative == 0).astype(np.uint8)


def _definite(
    matrix: scipy.sparse.csr_array, results: NDArray[np.float64], possible: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    candidates = matrix.astype(np.int32) @ possible.astype(np.int32)
    alone = ((candidates == 1) & (results == 1)).astype(np.int32)
    return ((matrix.T.astype(np.int32) @ alone > 0) & (possible == 1)).astype(np.uint8)


def _shaped(items: NDArray[np.uint8], outcomes: ArrayLike) -> NDArray[np.uint8]:
    return items[:, 0] if np.ndim(outcomes) == 1 else items
