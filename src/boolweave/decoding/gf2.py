"""Linear algebra over the field of two elements, rows packed 64 bits to a word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Echelon:
    """A matrix after elimination: which bits follow from which.

    Attributes
    ----------
    pivots : (rank,) int array
        Columns whose bit follows from the free ones.
    free : (columns − rank,) int array
        The other columns, ascending.
    parity : (rank, columns − rank) uint8 array
        ``bit[pivots] = parity @ bit[free] mod 2`` for every word that the matrix maps to 0.
    """

    pivots: NDArray[np.int64]
    free: NDArray[np.int64]
    parity: NDArray[np.uint8]


def eliminate(matrix: NDArray[np.uint8]) -> Echelon:
    """Reduce a 0/1 matrix (rows, columns) to echelon form, pivots as far right as possible.

    A code whose message comes first in the word thus keeps it there.
    """
    n_rows, n_columns = matrix.shape
    n_words = -(-n_columns // 64)
    padded = np.zeros((n_rows, 64 * n_words), dtype=np.uint8)
    padded[:, :n_columns] = matrix
    packed = np.packbits(padded, axis=1, bitorder="little").view("<u8")
    pivots: list[int] = []
    rank = 0
    for column in range(n_columns - 1, -1, -1):
        if rank == n_rows:
            break
        word, bit = divmod(column, 64)
        ones = ((packed[:, word] >> np.uint64(bit)) & np.uint64(1)).astype(bool)
        below = np.flatnonzero(ones[rank:])
        if not len(below):
            continue
        pivot = rank + int(below[0])
        if pivot != rank:
            packed[[rank, pivot]] = packed[[pivot, rank]]
            ones[[rank, pivot]] = ones[[pivot, rank]]
        ones[rank] = False
        packed[ones] ^= packed[rank]
        pivots.append(column)
        rank += 1
    reduced = np.unpackbits(packed[:rank].view(np.uint8), axis=1, bitorder="little")
    free = np.setdiff1d(np.arange(n_columns), pivots)
    return Echelon(np.array(pivots, dtype=np.int64), free, reduced[:, free])


def multiply(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.uint8]:
    """``left @ right mod 2`` of 0/1 arrays, through floating-point BLAS: sums to 2²⁴ are exact."""
    product = left.astype(np.float32) @ right.astype(np.float32)
    return np.mod(product, 2).astype(np.uint8)
