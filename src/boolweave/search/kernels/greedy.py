"""Factors chosen one by one from known tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from boolweave.engine.kernels.jit import njit
from boolweave.search.kernels.bits import ONE, ZERO, lowest
from boolweave.search.kernels.factors import gains, install

if TYPE_CHECKING:
    from boolweave.search.kernels.bits import Words
    from boolweave.search.kernels.descent import Scratch
    from boolweave.search.kernels.factors import Factors, Table


@njit(cache=True, nogil=True)
def add_best(
    table: Table, factors: Factors, first: int, rows: Words, columns: Words, memory: Scratch
) -> None:  # fmt: skip
    """Set each factor from `first` on to the tile that saves most, with the others fixed.

    The tiles are `rows` (T, words of M) and `columns` (T, words of N). The factors from `first` on
    must be empty; they stay empty if no tile saves anything.
    """
    saved, tile = memory.saved, memory.tile
    for k in range(first, factors.rows.patterns.shape[0]):
        best, most = -1, 0.0
        for t in range(rows.shape[0]):
            gains(table, table.rows, factors.rows, k, columns[t], rows[t], saved)
            total = 0.0
            for j in range(rows.shape[1]):
                left = rows[t, j]
                while left != ZERO:
                    total += saved[64 * j + lowest(left)]
                    left &= left - ONE
            if total > most:
                best, most = t, total
        if best < 0:
            return
        tile.x[:] = rows[best]
        tile.y[:] = columns[best]
        install(table, factors, k, tile, memory.changed)
