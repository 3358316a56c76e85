"""The answer: a `Result` with the entries that it covers and misses, and a lower bound.

Its factors are in an order in which each covers as many as possible of the ones that are left.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from boolweave.covering.kernels.tiles import differences, remove_within, weight_within
from boolweave.covering.matrix import Matrix, Objective, Requirements
from boolweave.covering.reviewing import Description, changes_of, review_of
from boolweave.data.frames import Frame, polars_table
from boolweave.engine.kernels.bits import Words, pack
from boolweave.engine.result import Ending, Result
from boolweave.model.model import Model
from boolweave.runtime.types import Array
from boolweave.search.result import channel_of, error_worth, log_posterior
from boolweave.search.table import Bits


def _no_pairs() -> NDArray[np.int64]:
    return np.zeros((0, 2), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Cover(Result):
    """A cover: factors, and the ones that they cover.

    It is a `Result`, with ``X`` (M, K) and ``Y`` (K, N). Fixed factors come first; each of the
    others covers as many as possible of the remaining ones. ``cost`` is the number of factors, or,
    with ``objective="assignments"``, the complexity, and ``bound`` is a proven lower bound of it
    for covers with the required properties: if both are equal, no cover has a lower cost.

    Attributes
    ----------
    n_factors : int
        Number of factors.
    n_assignments : int
        Number of rows of factors plus number of columns of factors: the ones of X and Y.
    complexity : int
        The sum of both, known as the weighted structural complexity of roles.
    objective : "roles" or "assignments"
        Whether ``cost`` is the number of factors or the complexity.
    conflicts : list of (row, column, column)
        Rows that have two conflicting columns, and of these first the one to take from them.
    descriptions : tuple of Description or None
        The rows of each factor in the words of `row_attributes`: ``str`` gives "Sales in Berlin: 41
        of 43", and ``name`` "Sales in Berlin".
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
    most_factors : int or None
        The number of factors that were allowed; None if it was not limited.
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
    missed: NDArray[np.int64] = field(default_factory=_no_pairs)
    false_ones: NDArray[np.int64] = field(default_factory=_no_pairs)
    curve: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    missing: sparse.csr_array | None = field(default=None)
    most_missed: int = 0
    most_factors: int | None = None
    objective: Objective = "roles"
    conflicts: list[tuple[int, int, int]] = field(default_factory=list, repr=False)
    descriptions: tuple[Description | None, ...] = ()

    @property
    def n_factors(self) -> int:
        """The number of factors; an empty result has one without rows."""
        return len(self.curve)

    @property
    def n_assignments(self) -> int:
        """The number of rows and columns of all factors."""
        return int(self.X.sum(dtype=np.int64) + self.Y.sum(dtype=np.int64))

    @property
    def complexity(self) -> int:
        """The number of factors and of their rows and columns."""
        return self.n_factors + self.n_assignments

    def __repr__(self) -> str:
        return (
            f"Cover({self._size}, at least {self.bound:g}, {self.coverage:.1%} of "
            f"{self.n_ones:,} ones covered, {len(self.false_ones):,} false ones)"
        )

    @property
    def coverage(self) -> float:
        """The fraction of the ones that is covered; 1 if there are none."""
        return (self.n_ones - len(self.missed)) / self.n_ones if self.n_ones else 1.0

    def name_of_factor(self, k: int) -> str | None:
        """The name of factor k, counted from 0: the given one, or one from its description."""
        if k < len(self.fixed_names):
            return self.fixed_names[k]
        description = self.description_of(k)
        return None if description is None else description.name

    def description_of(self, k: int) -> Description | None:
        """The description of factor k, counted from 0, by attributes of its rows."""
        return self.descriptions[k] if k < len(self.descriptions) else None

    def changes(self, *, frame: Frame | None = None) -> Any:
        """List what the cover changes, in a table with one line for each change.

        Parameters
        ----------
        frame : Frame, optional
            The form of the table; by default, it is a polars table.

        Returns
        -------
        DataFrame
            A table with the columns row, change and column. A row loses a one that is not covered,
            gains a zero that is, and should lose a one whose column conflicts with another one.

        Examples
        --------
        >>> from boolweave import cover
        >>> found = cover([[1, 1, 0], [1, 1, 0], [0, 0, 1]], n_components=1)
        >>> found.changes().rows()
        [('row 3', 'loses', 'column 3')]
        """
        lines = changes_of(self)
        return polars_table(lines) if frame is None else frame.table(lines)

    def review(self, existing: Any = None, *, frame: Frame | None = None) -> Any:
        """List what to look at before the factors are used, in a table with a line for each.

        Parameters
        ----------
        existing : array, table, sparse matrix or Observations, shape (F, N), optional
            The columns of factors that exist already, as `fixed` of `cover`.
        frame : Frame, optional
            The form of the table; by default, it is a polars table.

        Returns
        -------
        DataFrame
            A table with the columns role (from 1), name, description, rows and columns (their
            numbers), covered_by_it_alone (the number of ones that no other factor covers),
            held_by_few (whether it has one or two rows), closest_role and overlap (the factor whose
            columns are most alike, and the share of the columns of both that they have in common).
            With `existing`, also existing_role (the existing factor that is most alike, if any),
            columns_added and columns_removed.

        Examples
        --------
        >>> from boolweave import cover
        >>> found = cover([[1, 1, 0], [1, 1, 0], [0, 0, 1]], random_state=0)
        >>> found.review(existing=[[1, 0, 0]])["columns_added"].to_list()
        ['column 2', None]
        """
        lines = review_of(self, existing)
        return polars_table(lines) if frame is None else frame.table(lines)

    def _member_lines(self, full: bool) -> dict[str, Array]:
        """The columns of the table of `members`, with a column `name` if given factors have names.

        The name of other factors is empty.
        """
        lines = super()._member_lines(full)
        if self.fixed_names or self.descriptions:
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
    descriptions: tuple[Description | None, ...] = (),
) -> Cover:
    """Make the answer from factors X (M, K), Y (K, N) and the number of ones each adds, (K,)."""
    K, n_ones = len(Y), matrix.n_ones
    missed, false = differences_of(matrix, X, Y)
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
        model=Model(len(Y), channel),
        observations=matrix.observations,
        row_log_odds=np.where(X, size, -size),
        column_log_odds=np.where(Y, size, -size),
        log_posterior=log_posterior(counts, channel, X.size + Y.size),
        ending=ending,
        n_iter=0,
        history={"coverage": curve},
        cost=float(K if required.objective == "roles" else K + int(X.sum()) + int(Y.sum())),
        bound=float(bound),
        n_fixed=len(required.fixed),
        fixed_names=required.fixed_names,
        n_ones=n_ones,
        missed=missed,
        false_ones=false,
        curve=curve,
        missing=matrix.missing,
        most_missed=required.most_missed,
        most_factors=required.most_factors,
        objective=required.objective,
        conflicts=_conflicts_of_rows(matrix, required),
        descriptions=descriptions,
    )


def _conflicts_of_rows(matrix: Matrix, required: Requirements) -> list[tuple[int, int, int]]:
    """Rows with two conflicting columns; the one to take away comes first: few rows have it."""
    n_rows = np.bincount(matrix.ones.indices, minlength=matrix.shape[1])
    found = []
    for columns in required.conflicts:
        held = matrix.ones[:, columns].tocsr()
        held.sort_indices()
        for row in np.flatnonzero(np.diff(held.indptr) > 1):
            some = columns[held.indices[held.indptr[row] : held.indptr[row + 1]]]
            kept, *others = some[np.lexsort((some, -n_rows[some]))].tolist()
            found += [(int(row), other, kept) for other in sorted(others)]
    return sorted(set(found))


def differences_of(matrix: Matrix, X: Bits, Y: Bits) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
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
