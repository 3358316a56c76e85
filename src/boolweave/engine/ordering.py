"""An order of rows and columns in which the tiles of the factors lie together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def factor_order(X: ArrayLike, Y: ArrayLike) -> NDArray[np.intp]:
    """Factors by the size of their tiles, the largest first, shape (K,).

    Parameters
    ----------
    X, Y : arrays of shape (M, K) and (K, N)
        The factors, zeros and ones.
    """
    size = np.asarray(X, dtype=np.int64).sum(axis=0) * np.asarray(Y, dtype=np.int64).sum(axis=1)
    return np.argsort(-size, kind="stable")


def tile_order(members: ArrayLike, weight: ArrayLike | None = None) -> NDArray[np.intp]:
    """An order of items in which those with the same factors are next to each other.

    Memberships are sorted as a reflected Gray code, in which neighbours differ little: the first
    and the second factor become one run each, the third at most two.

    Parameters
    ----------
    members : array of shape (n, K)
        Whether an item belongs to a factor, with the columns in order of importance.
    weight : array of shape (n,), optional
        Among items with the same factors, those with larger weights come first.

    Returns
    -------
    array of shape (n,)

    Examples
    --------
    >>> tile_order([[0, 1], [1, 0], [1, 1], [0, 0]]).tolist()
    [1, 2, 0, 3]
    """
    bits = np.asarray(members, dtype=np.uint8)
    n = len(bits)
    last = np.zeros(n) if weight is None else -np.asarray(weight, dtype=np.float64)
    # The bits of the rank of a word in the Gray code are the running XOR of the bits of the word.
    # Here ones come first: 1 - rank bit sorts in the reverse order of the code.
    rank = 1 - np.bitwise_xor.accumulate(bits, axis=1)
    return np.lexsort((last, *rank.T[::-1]))
