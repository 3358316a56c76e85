"""The order of factors: each covers as many as possible of the ones that are left."""

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
    """Order tiles greedily; also return how many ones each adds, in this order.

    Parameters
    ----------
    ones : (M, words of N) array
    rows, columns : (T, words of M) and (T, words of N) arrays
        The tiles.
    row_weight, column_weight : (M,) and (N,) arrays
        The weight of an entry is that of its row times that of its column.
    n_first : int
        This number of tiles come first, in the given order.
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
    # The gain of a tile can only fall, so the first tile of the queue is the best one if it is
    # still the first after its gain has been computed again.
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
