"""The answer: a `Result` with the entries that it covers and misses, and a lower bound.

Its factors are in an order in which each covers as many as possible of the ones that are left.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from boolweave.covering.kernels.tiles import differences, remove_within, weight_within
from boolweave.covering.matrix import Matrix, Requirements
from boolweave.engine.kernels.bits import Words, pack
from boolweave.engine.result import Ending, Result
from boolweave.model.model import Model
from boolweave.runtime.types import Array
from boolweave.search.result import PRIOR, channel_of, error_worth, log_posterior
from boolweave.search.table import Bits


def _no_pairs() -> NDArray[np.int64]:
    return np.zeros((0, 2), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Cover(Result):
    """A cover: factors, and the ones that they cover.

    It is a `Result`, with ``X`` (M, K) and ``Y`` (K, N). Fixed factors come first; each of the
    others covers as many as possible of the remaining ones. ``cost`` is the number of factors, and
    ``bound`` is a proven lower bound of it for covers with the required properties: if both are
    equal, no cover has fewer factors.

    Attributes
    ----------
    n_fixed : int
        Number of factors that were given.
    fixed_names : tuple of str
        The names of the given factors; empty if they have none.
    n_ones : int
        The number of ones of the matrix.
    missed : (n, 2) array
        Row and column of each one that is not covered.
    false_ones : (n, 2) array
        Row and column of each zero that is covered.
    curve : (K,) array
        The fraction of the ones that the first 1, 2, …, K factors cover.
    coverage : float
        The fraction of the ones that all factors cover.
    most_missed : int
        The number of ones that may be missed according to the required coverage.
    missing : csr_array or None
        The missing entries; all entries that are neither missing nor ones are zeros.

    Examples
    --------
    >>> from boolweave import cover
    >>> found = cover([[1, 1, 0], [1, 1, 1], [0, 0, 1]], n_components=1)
    >>> found.X.T, found.Y  # the rows and the columns of the factor
    (array([[1, 1, 0]], dtype=uint8), array([[1, 1, 0]], dtype=uint8))
    >>> found.missed  # rows and columns of the ones that are not covered
    array([[1, 2],
           [2, 2]])
    >>> round(found.coverage, 2)
    0.67
    """

    n_fixed: int = 0
    fixed_names: tuple[str, ...] = ()
    n_ones: int = 0
    missed: NDArray[np.int64] = field(default_factory=_no_pairs, repr=False)
    false_ones: NDArray[np.int64] = field(default_factory=_no_pairs, repr=False)
    curve: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0), repr=False)
    missing: sparse.csr_array | None = field(default=None, repr=False)
    most_missed: int = 0

    @property
    def coverage(self) -> float:
        """The fraction of the ones that is covered; 1 if there are none."""
        return (self.n_ones - len(self.missed)) / self.n_ones if self.n_ones else 1.0

    def name_of_factor(self, k: int) -> str | None:
        """The name of factor k, counted from 0, if it was given with one."""
        return self.fixed_names[k] if k < len(self.fixed_names) else None

    def _member_lines(self, full: bool) -> dict[str, Array]:
        """The columns of the table of `members`, with a column `name` if given factors have names.

        The name of other factors is empty.
        """
        lines = super()._member_lines(full)
        if self.fixed_names:
            names = [self.name_of_factor(k - 1) or "" for k in lines["factor"].tolist()]
            lines = {"factor": lines["factor"], "name": np.array(names, dtype=np.str_), **lines}
        return lines


def cover_of(
    matrix: Matrix,
    required: Requirements,
    X: Bits,
    Y: Bits,
    gained: NDArray[np.int64],
    bound: int,
    ending: Ending,
) -> Cover:
    """Make the answer from factors X (M, K), Y (K, N) and the number of ones each adds, (K,)."""
    K, n_ones = len(Y), matrix.n_ones
    missed, false = _differences(matrix, X, Y)
    M, N = matrix.shape
    n_missing = 0 if matrix.missing is None else matrix.missing.nnz
    n_zeros = M * N - n_ones - n_missing
    counts = np.array(
        [[n_zeros - len(false), len(false)], [len(missed), n_ones - len(missed)]], dtype=np.float64
    )
    channel = channel_of(counts)
    size = np.float32(max(error_worth(channel), np.log(2 * max(1, K) + 1)))
    curve = np.cumsum(gained) / n_ones if n_ones else np.ones(K)
    if not K:  # a result has at least one factor, which is empty
        X, Y = np.zeros((M, 1), dtype=np.uint8), np.zeros((1, N), dtype=np.uint8)
    return Cover(
        model=Model(len(Y), channel, PRIOR, PRIOR, "or"),
        observations=matrix.observations,
        row_log_odds=np.where(X, size, -size),
        column_log_odds=np.where(Y, size, -size),
        log_posterior=log_posterior(counts, channel, X.size + Y.size),
        ending=ending,
        n_iter=0,
        history={"coverage": curve},
        cost=float(K),
        bound=float(bound),
        n_fixed=len(required.fixed),
        fixed_names=required.fixed_names,
        n_ones=n_ones,
        missed=missed,
        false_ones=false,
        curve=curve,
        missing=matrix.missing,
        most_missed=required.most_missed,
    )


def _differences(matrix: Matrix, X: Bits, Y: Bits) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The missed ones and the false ones, (n, 2) each."""
    members = sparse.csr_array(X)
    empty = np.zeros(len(X) + 1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    parts = [*_indices(members), pack(Y), *_indices(matrix.ones)]
    parts += empty if matrix.missing is None else _indices(matrix.missing)
    sizes = differences(*parts, _no_pairs(), _no_pairs())
    missed, false = (np.zeros((size, 2), dtype=np.int64) for size in sizes)
    differences(*parts, missed, false)
    return missed, false


def _indices(matrix: sparse.csr_array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)


# ---------------------------------------------------------------- the order of factors


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
