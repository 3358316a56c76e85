"""The order of factors: each time the one that covers most of what is left."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from boolweave.covering.kernels.counting import remove_within, weight_within

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.search.kernels.bits import Words


def greedy_order(
    ones: Words,
    rows: Words,
    columns: Words,
    row_weight: NDArray[np.int64],
    column_weight: NDArray[np.int64],
    n_first: int = 0,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Order tiles by what they add; also return how many ones each adds, in this order.

    Parameters
    ----------
    ones : (M, words of N) array
    rows, columns : (T, words of M) and (T, words of N) arrays
        The tiles.
    row_weight, column_weight : (M,) and (N,) arrays
        An entry counts as often as its row times its column.
    n_first : int
        So many tiles come first, in their order.
    """
    left = ones.copy()
    order, gains = [], []

    def gain(t: int) -> int:
        return int(weight_within(left, rows[t], columns[t], row_weight, column_weight))

    def take(t: int, gained: int) -> None:
        order.append(t)
        gains.append(gained)
        remove_within(left, rows[t], columns[t])

    for t in range(n_first):
        take(t, gain(t))
    # What a tile adds can only fall: the first of the queue is the best if it is still the first
    # after its gain was counted anew.
    queue = [(-gain(t), t) for t in range(n_first, len(rows))]
    heapq.heapify(queue)
    while queue:
        _, t = heapq.heappop(queue)
        now = gain(t)
        if queue and (-now, t) > queue[0]:
            heapq.heappush(queue, (-now, t))
        else:
            take(t, now)
    return np.array(order, dtype=np.int64), np.array(gains, dtype=np.int64)
