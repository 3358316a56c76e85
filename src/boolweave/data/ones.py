"""A matrix of zeros and ones in which only the ones are listed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boolweave.data.cells import MISSING
from boolweave.data.convert import check_room, from_sparse, is_sparse, stored
from boolweave.data.entries import (
    CompressedRows,
    cells_outside,
    check_shape,
    find_sorted,
    index_dtype,
    row_index,
    rows_from_codes,
    scan_columns,
    select_rows,
    spread,
)
from boolweave.data.labels import Labels, checked_labels
from boolweave.data.observations import ENTRIES_PER_CHUNK, Observations
from boolweave.data.observed import ObservedEntries
from boolweave.runtime.checks import generator_of, is_whole
from boolweave.runtime.types import Array, Integers

if TYPE_CHECKING:
    from boolweave.data.observations import Duplicates, RandomState
    from boolweave.data.observed import HeldOut


# It pays to treat all zeros at once if there are at least this many cells and at most this fraction
# of ones.
MANY_CELLS = 50_000_000
FEW_ONES = 0.1


def is_large_and_sparse(shape: tuple[int, int], n_ones: int) -> bool:
    """Whether a matrix has so many cells, and so few ones, that zeros should not be listed."""
    n_cells = shape[0] * shape[1]
    return n_cells >= MANY_CELLS and n_ones <= FEW_ONES * n_cells


def keeps_zeros_implicit(data: Any) -> bool:
    """Whether zeros of a user's data stay implicit unless a fit cannot do without them."""
    if not is_sparse(data):
        return isinstance(data, SparseObservations)
    return data.ndim == 2 and is_large_and_sparse(data.shape, data.nnz)


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of a matrix, by rows: row m has the columns ``columns[indptr[m]:indptr[m + 1]]``."""

    indptr: NDArray[np.int64]  # (M + 1,)
    columns: Integers  # (n,), strictly increasing in every row

    @classmethod
    def none(cls, n_rows: int) -> Cells:
        """An empty list of cells for a number of rows."""
        return cls(np.zeros(n_rows + 1, dtype=np.int64), np.zeros(0, dtype=np.int32))

    def __len__(self) -> int:
        return len(self.columns)

    def rows(self) -> NDArray[np.int64]:
        """The row of every cell, (n,)."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))

    def chunks(self) -> Iterator[tuple[NDArray[np.intp], Integers]]:
        """Yield rows and columns of the cells, some at a time."""
        for start in range(0, len(self), ENTRIES_PER_CHUNK):
            place = np.arange(start, min(start + ENTRIES_PER_CHUNK, len(self)))
            yield np.searchsorted(self.indptr, place, side="right") - 1, self.columns[place]

    def numbers(self, n_columns: int) -> NDArray[np.int64]:
        """The number of every cell, row · N + column, (n,), in increasing order."""
        return self.rows() * np.int64(n_columns) + self.columns

    def take_rows(self, index: Array | slice) -> Cells:
        """Take some rows, in the order asked for."""
        indptr, entries = select_rows(self.indptr, index)
        return Cells(indptr, self.columns[entries])

    def take_columns(self, taken: NDArray[np.bool_]) -> Cells:
        """Take some columns, (N,) bool, and renumber them."""
        inside = taken[self.columns]
        number = np.cumsum(taken, dtype=self.columns.dtype) - 1
        indptr = np.concatenate([[0], np.cumsum(inside)])[self.indptr]
        return Cells(indptr, number[self.columns[inside]])

    def by_columns(self, n_columns: int) -> Cells:
        """Exchange rows and columns."""
        from scipy.sparse import csr_array

        shape = len(self.indptr) - 1, n_columns
        held = np.zeros(len(self), dtype=np.int8)
        turned = csr_array((held, self.columns, self.indptr), shape=shape).tocsc()
        rows = turned.indices.astype(index_dtype(shape[0]), copy=False)
        return Cells(turned.indptr.astype(np.int64), rows)

    def joined(self, other: Cells) -> Cells:
        """The cells of both lists, which must be disjoint."""
        if not len(other):
            return self
        if not len(self):
            return other
        rows = np.concatenate([self.rows(), other.rows()])
        columns = np.concatenate([self.columns, other.columns])
        order = np.lexsort((columns, rows))
        return Cells(self.indptr + other.indptr, columns[order])


@dataclass(frozen=True, eq=False, repr=False)
class SparseObservations(ObservedEntries):
    """A matrix in which every cell that is not listed is an observed zero.

    It takes memory only for its ones and its missing cells. Create one with `from_sparse` or
    `from_listed`.

    Parameters
    ----------
    shape : (int, int)
        Number of rows M and of columns N.
    ones : Cells
        The cells with an observed one.
    missing : Cells, optional
        The cells without an observation; by default, there are none.
    row_labels, column_labels : arrays of str, shapes (M,) and (N,), optional
        Names, all different.

    Examples
    --------
    >>> import scipy.sparse
    >>> from boolweave.data.ones import SparseObservations
    >>> SparseObservations.from_sparse(scipy.sparse.csr_array([[0, 1, 0], [1, 1, 0]]))
    SparseObservations(2 rows × 3 columns, 3 ones, 0 missing, all else zero)
    """

    zeros: ClassVar[Literal["exact", "collective"]] = "collective"
    shape: tuple[int, int]
    ones: Cells
    missing: Cells | None = None  # None is replaced by an empty list
    row_labels: Labels | None = None
    column_labels: Labels | None = None

    def __post_init__(self) -> None:
        shape = check_shape(self.shape)
        missing = Cells.none(shape[0]) if self.missing is None else self.missing
        rows, columns = checked_labels(self.row_labels, self.column_labels, shape)
        found = {
            "shape": shape,
            "ones": _checked("ones", self.ones, shape),
            "missing": _checked("missing", missing, shape),
            "row_labels": rows,
            "column_labels": columns,
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)
        few, many = sorted((self.ones, missing), key=len)
        if len(few) and find_sorted(many.numbers(shape[1]), few.numbers(shape[1]))[1].any():
            raise ValueError("a cell must not be both a one and missing; list it once")

    def __repr__(self) -> str:
        n_rows, n_columns = self.shape
        return (
            f"SparseObservations({n_rows} rows × {n_columns} columns, {self.n_ones} ones, "
            f"{len(self.holes)} missing, all else zero)"
        )

    # ------------------------------------------------------------ constructors

    @classmethod
    def from_sparse(
        cls,
        matrix: Any,
        *,
        row_labels: Any = None,
        column_labels: Any = None,
        duplicates: Duplicates = "error",
    ) -> Self:
        """Take the ones of a scipy.sparse array or matrix of any format.

        Parameters
        ----------
        matrix : scipy.sparse array or matrix, shape (M, N)
            Stored entries of 0, 1 or NaN (missing). Entries that are not stored are zeros.
        row_labels, column_labels : sequences of M and of N names, optional
        duplicates : {"error", "majority"}
            As in `Observations.from_sparse`.

        Examples
        --------
        >>> import scipy.sparse
        >>> from boolweave.data.ones import SparseObservations
        >>> owns = scipy.sparse.coo_array(([1, float("nan")], ([0, 1], [2, 0])), shape=(2, 3))
        >>> SparseObservations.from_sparse(owns).n_observed
        5
        """
        listed = from_sparse(matrix, "missing", row_labels, column_labels, duplicates)
        return cls.from_listed(listed, *stored(matrix)[:2])

    @classmethod
    def from_data(cls, data: Any) -> SparseObservations:
        """Take the ones of any kind of matrix; `SparseObservations` pass through."""
        if isinstance(data, SparseObservations):
            return data
        if is_sparse(data):
            return cls.from_sparse(data)
        return cls.from_observations(Observations.from_data(data))

    @classmethod
    def from_arrays(cls, shape: tuple[int, int], *arrays: Array) -> Self:
        """Undo `arrays_of_rows`."""
        return cls(shape, Cells(*arrays[:2]), Cells(*arrays[2:]))

    @classmethod
    def from_listed(cls, listed: CompressedRows, rows: Integers, columns: Integers) -> Self:
        """Take the ones of listed entries; cells that were not given at all are zeros.

        rows, columns (n,): all cells that were given, in any order and with repetitions; those that
        are not among the listed entries are missing.
        """
        ones = _ones(listed.indptr, listed.indices, listed.values)
        missing = _missing((rows, columns), listed)
        return cls(listed.shape, ones, missing, listed.row_labels, listed.column_labels)

    @classmethod
    def from_observations(cls, seen: Observations) -> Self:
        """Take the ones of observations; entries that they do not contain are missing."""
        ones = _ones(seen.indptr, seen.indices, seen.values)
        missing = None
        if not seen.is_complete:
            check_room(seen.shape, 'pass `zeros="exact"`')
            there = np.zeros(seen.shape, dtype=bool)
            there[seen.rows_of_entries(), seen.indices] = True
            indptr = np.concatenate([[0], np.cumsum(seen.n_columns - np.diff(seen.indptr))])
            missing = Cells(indptr, np.nonzero(~there)[1])
        return cls(seen.shape, ones, missing, seen.row_labels, seen.column_labels)

    # ------------------------------------------------------------ properties

    @property
    def holes(self) -> Cells:
        """The missing cells."""
        assert self.missing is not None
        return self.missing

    @property
    def n_observed(self) -> int:
        """Number of observed entries: all cells that are not missing."""
        return self.shape[0] * self.shape[1] - len(self.holes)

    @property
    def n_ones(self) -> int:
        """Number of observed ones."""
        return len(self.ones)

    @property
    def n_listed(self) -> int:
        """Number of entries that are listed: the ones."""
        return len(self.ones)

    @property
    def entries_by_row(self) -> NDArray[np.int64]:
        """Where the ones of each row start, (M + 1,)."""
        return self.ones.indptr

    @property
    def n_bytes_in_files(self) -> int:
        """Number of bytes in files, which is 0."""
        return 0

    @cached_property
    def fingerprint(self) -> str:
        """A hash of shape and cells."""
        data = hashlib.blake2b(repr(("sparse", self.shape)).encode(), digest_size=16)
        for cells in (self.ones, self.holes):
            for array in (cells.indptr, cells.columns):
                data.update(np.ascontiguousarray(array).data)
        return data.hexdigest()

    def observed_per_line(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Count the observed entries of every row and of every column, (M,) and (N,)."""
        n_rows, n_columns = self.shape
        missing = np.bincount(self.holes.columns, minlength=n_columns)
        return n_columns - np.diff(self.holes.indptr), n_rows - missing

    @cached_property
    def not_zero(self) -> Cells:
        """The ones and the missing cells."""
        return self.ones.joined(self.holes)

    def as_ones(self) -> Observations:
        """Only the ones, as observations in which all else is missing; nothing is copied."""
        values = np.ones(self.n_ones, dtype=np.uint8)
        return Observations(self.shape, self.ones.indptr, self.ones.columns, values)

    def entries(self) -> Iterator[tuple[Integers, Integers, NDArray[np.uint8]]]:
        """Yield rows, columns and values of the ones, some at a time."""
        for rows, columns in self.ones.chunks():
            yield rows, columns, np.ones(len(rows), dtype=np.uint8)

    def implied_zeros(self, rows: Integers, columns: Integers) -> tuple[Integers, Integers]:
        """Find the zeros that are not listed among some rows and columns."""
        chosen = [cells.take_rows(rows) for cells in (self.ones, self.holes)]
        listed = [(cells.rows(), cells.columns) for cells in chosen]
        return cells_outside(rows, columns, self.n_columns, listed)

    def implied_zeros_in(self, X: Array, Y: Array) -> NDArray[np.int64]:
        """Count the zeros that are not listed inside tiles, X (M, K) and Y (K, N): (K,)."""
        inside = X.sum(axis=0, dtype=np.int64) * Y.sum(axis=1, dtype=np.int64)
        for cells in (self.ones, self.holes):
            for rows, columns in cells.chunks():
                inside -= (X[rows] & Y[:, columns].T).sum(axis=0)
        return inside

    def implied_zeros_by_group(
        self, of_row: Integers, of_column: Integers, shape: tuple[int, int]
    ) -> NDArray[np.int64]:
        """Count the zeros that are not listed in each pair of a group of rows and of columns.

        of_row (M,), of_column (N,): the group of each; those with −1 do not count.
        """
        sizes = (
            np.bincount(group[group >= 0], minlength=n)
            for group, n in zip((of_row, of_column), shape, strict=True)
        )
        inside = np.outer(*sizes)
        for cells in (self.ones, self.holes):
            for rows, columns in cells.chunks():
                drawn = (of_row[rows] >= 0) & (of_column[columns] >= 0)
                np.subtract.at(inside, (of_row[rows[drawn]], of_column[columns[drawn]]), 1)
        return inside

    def missing_cells(self, most: int) -> tuple[Integers, Integers]:
        """Rows and columns of missing cells, up to `most` of them, evenly spread."""
        chosen = spread(len(self.holes), most)
        rows = np.searchsorted(self.holes.indptr, chosen, side="right") - 1
        return rows, self.holes.columns[chosen].astype(np.intp)

    def known_cells(self, rows: Integers) -> tuple[Integers, Integers]:
        """Positions among some rows, and columns, of the ones."""
        ones = self.ones.take_rows(rows)
        return ones.rows(), ones.columns

    # ------------------------------------------------------------ derived observations

    def fetched(self) -> SparseObservations:
        """Return these observations, which are in this process."""
        return self

    def held_out_parts(
        self,
        n_folds: int,
        random_state: RandomState = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Iterator[HeldOut]:
        """Hold out parts of the ones, each with a sample of zeros, as `folds` does."""
        if groups is not None:
            raise ValueError(
                "groups are for entries that are all listed, but the zeros of this matrix are not; "
                'pass `zeros="exact"`'
            )
        return self.folds(n_folds, random_state)

    def folds(
        self, n_folds: int, random_state: RandomState = None
    ) -> Iterator[tuple[SparseObservations, Array, Array, Array, NDArray[np.float64]]]:
        """Split the ones at random into `n_folds` parts; hide each part and a sample of zeros.

        Parameters
        ----------
        n_folds : int
            Number of parts, from 2 to the number of ones.
        random_state : int, numpy Generator or None
            Random seed or generator of the choice.

        Returns
        -------
        iterator of (kept, rows, columns, values, weights)
            The remaining observations, in which the hidden cells are missing, and the hidden cells:
            the ones of a part, and about as many zeros, whose weights add up to the number of zeros
            in a part of all zeros.

        Examples
        --------
        >>> import scipy.sparse
        >>> from boolweave.data.ones import SparseObservations
        >>> seen = SparseObservations.from_sparse(scipy.sparse.eye_array(100))
        >>> kept, rows, columns, values, weights = next(seen.folds(5, random_state=0))
        >>> kept.n_ones, int(values.sum()), round(float(weights.sum()))
        (80, 20, 2000)
        """
        if not is_whole(n_folds) or not 2 <= n_folds <= self.n_ones:
            raise ValueError(
                f"n_folds must be from 2 to the number of ones, {self.n_ones}, but got {n_folds!r}"
            )
        random = generator_of(random_state)
        order = random.permutation(self.n_ones)
        return (self._split(order % n_folds == fold, n_folds, random) for fold in range(n_folds))

    def _split(
        self, hidden: NDArray[np.bool_], n_folds: int, random: np.random.Generator
    ) -> tuple[SparseObservations, Array, Array, Array, NDArray[np.float64]]:
        """Hide some of the ones, (n_ones,), and about as many zeros."""
        n_columns = self.n_columns
        ones, holes = self.ones.numbers(n_columns), self.holes.numbers(n_columns)
        n_zeros = self.n_observed - self.n_ones
        n_drawn = min(n_zeros, int(hidden.sum()))
        # Cells that are not zeros are drawn as well, and then left out.
        n_cells = self.n_rows * n_columns
        n_tried = min(n_cells, -(-n_drawn * n_cells // max(1, n_zeros)))
        zeros = np.setdiff1d(random.integers(0, max(1, n_cells), n_tried), ones)
        zeros = np.setdiff1d(zeros, holes)
        cells = np.concatenate([ones[hidden], zeros])
        values = np.repeat(np.array([1, 0], dtype=np.uint8), [int(hidden.sum()), len(zeros)])
        weights = np.where(values == 1, 1.0, n_zeros / n_folds / max(1, len(zeros)))
        kept = replace(
            self,
            ones=_cells_of(ones[~hidden], self.shape),
            missing=_cells_of(np.sort(np.concatenate([holes, cells])), self.shape),
        )
        rows, columns = np.divmod(cells, n_columns)
        return kept, rows, columns, values, weights

    def take_rows(self, index: ArrayLike | slice) -> Observations:
        """Take some rows, in the order asked for, with all their zeros."""
        return self.some_rows(index)._with_zeros()

    def some_rows(self, index: ArrayLike | slice) -> SparseObservations:
        """Take some rows, in the order asked for, without listing zeros."""
        chosen = row_index(index, self.shape[0])
        ones = self.ones.take_rows(chosen)
        labels = None if self.row_labels is None else self.row_labels[chosen]
        return replace(
            self,
            shape=(len(ones.indptr) - 1, self.n_columns),
            ones=ones,
            missing=self.holes.take_rows(chosen),
            row_labels=labels,
        )

    def release_rows(self, rows: slice) -> None:
        """Release nothing, because no entries are in files."""

    def without_entries(self) -> SparseObservations:
        """Shape and labels alone: no ones, and nothing is missing."""
        return replace(self, ones=Cells.none(self.n_rows), missing=None)

    def arrays_of_rows(self, rows: slice) -> tuple[Any, ...]:
        """What another process needs to make these rows: a function, and its arguments."""
        part = self.some_rows(rows)
        arrays = (a for cells in (part.ones, part.holes) for a in (cells.indptr, cells.columns))
        return SparseObservations.from_arrays, part.shape, *arrays

    def some_columns(self, taken: NDArray[np.bool_]) -> SparseObservations:
        """Take some columns, (N,) bool, without listing zeros."""
        labels = None if self.column_labels is None else self.column_labels[taken]
        return replace(
            self,
            shape=(self.n_rows, int(taken.sum())),
            ones=self.ones.take_columns(taken),
            missing=self.holes.take_columns(taken),
            column_labels=labels,
        )

    def to_local(self) -> Observations:
        """Return all entries, including zeros; raise MemoryError if there are too many."""
        check_room(self.shape, "use methods that do not need every zero")
        return self._with_zeros()

    def _with_zeros(self) -> Observations:
        codes = np.zeros(self.shape, dtype=np.uint8)
        codes[self.ones.rows(), self.ones.columns] = 1
        codes[self.holes.rows(), self.holes.columns] = MISSING
        return Observations(*rows_from_codes(codes, self.row_labels, self.column_labels))

    def sum_over_rows(self, function: Callable[..., Array], by_row: Array) -> Array:
        """Call a function of these observations and of an array (M, …)."""
        return function(self, by_row)


def _ones(indptr: NDArray[np.int64], columns: Integers, values: NDArray[np.uint8]) -> Cells:
    """The entries whose value is 1; nothing is copied if all are."""
    one = values == 1
    if one.all():
        return Cells(indptr, columns)
    return Cells(np.concatenate([[0], np.cumsum(one)])[indptr], columns[one])


def _missing(stored: tuple[Integers, Integers], listed: CompressedRows) -> Cells | None:
    """The cells that are stored but not among the entries: as NaN, or as a tie of 0 and 1."""
    if len(stored[0]) == len(listed.indices):
        return None
    n_columns, (rows, columns) = listed.shape[1], stored
    known = Cells(listed.indptr, listed.indices).numbers(n_columns)
    return _cells_of(np.setdiff1d(rows.astype(np.int64) * n_columns + columns, known), listed.shape)


def _cells_of(numbers: Integers, shape: tuple[int, int]) -> Cells:
    """Cells from their numbers, row · N + column, in increasing order."""
    rows, columns = np.divmod(numbers, max(1, shape[1]))
    counts = np.bincount(rows, minlength=shape[0])
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Cells(indptr, columns.astype(index_dtype(shape[1])))


def _checked(name: str, cells: Cells, shape: tuple[int, int]) -> Cells:
    """The cells in their types, read-only; raise ValueError if they do not fit the shape."""
    n_rows, n_columns = shape
    indptr = np.asarray(cells.indptr).astype(np.int64, copy=False)
    columns: Integers = np.asarray(cells.columns).astype(index_dtype(n_columns), copy=False)
    rising = len(indptr) == n_rows + 1 and not (indptr[1:] < indptr[:-1]).any()
    if not rising or indptr[0] != 0 or indptr[-1] != len(columns):
        raise ValueError(
            f"{name}: indptr must have {n_rows + 1} numbers that increase from 0 to "
            f"{len(columns)}, the number of cells; create it with SparseObservations.from_sparse"
        )
    lowest, highest, increase = scan_columns(indptr, columns)
    if lowest < 0 or highest >= n_columns or not increase:
        raise ValueError(
            f"{name}: columns must increase strictly in every row, from 0 to {n_columns - 1}; "
            "create it with SparseObservations.from_sparse"
        )
    indptr, columns = indptr.view(), columns.view()  # the caller's own arrays stay writable
    indptr.flags.writeable = columns.flags.writeable = False
    return Cells(indptr, columns)
