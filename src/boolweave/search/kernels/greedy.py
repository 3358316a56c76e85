"""Factors chosen one by one from known tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from boolweave.engine.kernels.jit import njit
from boolweave.search.kernels.factors import gain_of_tile, install

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
    tile = memory.tile
    for k in range(first, factors.rows.patterns.shape[0]):
        best, most = -1, 0.0
        for t in range(rows.shape[0]):
            gain = gain_of_tile(table, factors, k, rows[t], columns[t], memory.saved)
            if gain > most:
                best, most = t, gain
        if best < 0:
            return
        tile.x[:] = rows[best]
        tile.y[:] = columns[best]
        install(table, factors, k, tile, memory.changed)
