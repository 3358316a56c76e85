"""The classical rules of group testing: COMP, DD and SCOMP, which trust every outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from boolweave.decoding.pools import as_design, as_outcomes

if TYPE_CHECKING:
    import scipy.sparse
    from numpy.typing import ArrayLike, NDArray

    from boolweave.decoding.pools import Design


def comp(design: Design, outcomes: ArrayLike) -> NDArray[np.uint8]:
    """Declare every item positive that is in no negative pool (COMP).

    Parameters
    ----------
    design : (pools, items) array or sparse matrix of 0 and 1, or lists of items
    outcomes : (pools,) or (pools, columns) array of 0, 1 and NaN
        NaN means that the pool was not tested.

    Returns
    -------
    (items,) or (items, columns) uint8 array

    Examples
    --------
    >>> from boolweave.decoding import comp
    >>> comp([[0, 1, 2], [2, 3]], outcomes=[1, 0])
    array([1, 1, 0, 0], dtype=uint8)
    """
    _, _, possible, _ = _classify(design, outcomes)
    return _shaped(possible, outcomes)


def definite_defectives(design: Design, outcomes: ArrayLike) -> NDArray[np.uint8]:
    """Declare an item positive if some positive pool has no other possible item (DD).

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
    _, _, _, definite = _classify(design, outcomes)
    return _shaped(definite, outcomes)


def scomp(design: Design, outcomes: ArrayLike) -> NDArray[np.uint8]:
    """Extend DD by the items that explain most unexplained positive pools (SCOMP).

    Items are added one by one until all positive pools are explained.

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
    counts, results, possible, chosen = _classify(design, outcomes)
    for column in range(results.shape[1]):
        while True:
            covered = counts @ chosen[:, column] > 0
            open_pools = (results[:, column] == 1) & ~covered
            explains = np.where(possible[:, column], counts.T @ open_pools, 0)
            if not explains.any():
                break
            chosen[int(explains.argmax()), column] = True
    return _shaped(chosen, outcomes)


def _classify(
    design: Design, outcomes: ArrayLike
) -> tuple[scipy.sparse.csr_array, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    """The design, the outcomes, items in no negative pool, and items alone in a positive pool."""
    counts = as_design(design).astype(np.int32)
    results = as_outcomes(outcomes, counts.shape[0])
    possible = counts.T @ (results == 0) == 0
    alone = (counts @ possible == 1) & (results == 1)
    return counts, results, possible, (counts.T @ alone > 0) & possible


def _shaped(items: NDArray[np.bool_], outcomes: ArrayLike) -> NDArray[np.uint8]:
    """The items as 0 and 1, (items,) if the outcomes had one dimension."""
    return (items[:, 0] if np.ndim(outcomes) == 1 else items).astype(np.uint8)
