"""The observed entries of a partly observed Boolean matrix."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boolweave.data.entries import CompressedRows, checked, row_index, select_rows
from boolweave.data.labels import Labels
from boolweave.data.observed import ObservedEntries
from boolweave.data.sources import Absent as Absent
from boolweave.data.sources import Duplicates as Duplicates
from boolweave.data.sources import Sources
from boolweave.runtime.checks import is_whole
from boolweave.runtime.storage import is_in_file, iterate_blocks, iterate_chunks
from boolweave.runtime.types import Array, Integers

# Number of entries that are processed at a time, where each needs some hundred bytes.
ENTRIES_PER_CHUNK = 1 << 16

RandomState = int | np.random.Generator | None
# The remaining observations, and the rows, columns and values of the hidden entries.
Split = tuple["Observations", NDArray[np.int64], Integers, NDArray[np.uint8]]


@dataclass(frozen=True, eq=False, repr=False)
class Observations(Sources, ObservedEntries):
    """The observed entries of a partly observed Boolean matrix, by rows (CSR).

    Row ``m`` has the entries ``indptr[m]:indptr[m + 1]`` of ``indices`` (their columns) and
    ``values``. Create observations with `from_data`, or with the method for the kind of data at
    hand. The arrays are read-only.

    Parameters
    ----------
    shape : (int, int)
        Number of rows M and of columns N.
    indptr : array of int64, shape (M + 1,)
        Where each row starts.
    indices : array of int32, or int64 if N >= 2**31, shape (n_observed,)
        Columns of the entries, strictly increasing within a row.
    values : array of uint8, shape (n_observed,)
        The observed values, 0 or 1.
    row_labels : array of str, shape (M,), optional
        Names of the rows, all different.
    column_labels : array of str, shape (N,), optional
        Names of the columns, all different.

    Examples
    --------
    >>> import numpy as np
    >>> Observations.from_data([[1, 0, np.nan], [np.nan, 1, 1]])
    Observations(2 rows × 3 columns, 4 of 6 entries observed, 75.0% ones)
    """

    shape: tuple[int, int]
    indptr: NDArray[np.int64]
    indices: Integers
    values: NDArray[np.uint8]
    row_labels: Labels | None = None
    column_labels: Labels | None = None

    def __post_init__(self) -> None:
        for name, field in checked(self._fields())._asdict().items():
            if isinstance(field, np.ndarray):
                field = field.view()  # the caller's own array stays writable
                field.flags.writeable = False
            object.__setattr__(self, name, field)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of shape and entries."""
        data = hashlib.blake2b(repr(self.shape).encode(), digest_size=16)
        for array in (self.indptr, self.indices, self.values):
            for part in iterate_chunks(array):
                data.update(np.ascontiguousarray(part).data)
        return data.hexdigest()

    def __repr__(self) -> str:
        n_rows, n_columns = self.shape
        return (
            f"Observations({n_rows} rows × {n_columns} columns, {self.n_observed} of "
            f"{n_rows * n_columns} entries observed, {self.share_of_ones:.1%} ones)"
        )

    @classmethod
    def _of(cls, entries: CompressedRows) -> Self:
        return cls(*entries)

    def _fields(self) -> CompressedRows:
        return CompressedRows(*(getattr(self, name) for name in CompressedRows._fields))

    # ------------------------------------------------------------ properties

    @property
    def n_observed(self) -> int:
        """Number of observed entries."""
        return len(self.values)

    @cached_property
    def n_ones(self) -> int:
        """Number of observed ones."""
        parts = iterate_chunks(self.values)
        return sum(int(np.count_nonzero(part)) for part in parts)

    @property
    def entries_by_row(self) -> NDArray[np.int64]:
        """Where the entries of each row start, (M + 1,)."""
        return self.indptr

    @property
    def n_bytes_in_files(self) -> int:
        """Number of bytes of the entries that are read from files on access."""
        return sum(array.nbytes for array in (self.indices, self.values) if is_in_file(array))

    def to_local(self) -> Observations:
        """Return all entries in this process, which these observations already are."""
        return self

    def sum_over_rows(
        self, function: Callable[[Observations, Array], Array], by_row: Array
    ) -> Array:
        """Call a function of all entries and of an array (M, …)."""
        return function(self, by_row)

    def rows_of_entries(self) -> NDArray[np.int64]:
        """Return the row of every entry, shape (n_observed,)."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.indptr))

    def cell_numbers(self) -> NDArray[np.int64]:
        """Return the number of the cell of every entry, row · N + column, shape (n_observed,)."""
        return self.rows_of_entries() * self.n_columns + self.indices

    def row_chunks(
        self,
    ) -> Iterator[tuple[int, int, Integers, NDArray[np.uint8]]]:
        """Yield runs of rows with some entries each: first row, end, columns and values.

        Memory of entries that are read from files is released after each run.
        """
        most = self.n_observed // ENTRIES_PER_CHUNK
        targets = np.arange(1, most + 1, dtype=np.int64) * ENTRIES_PER_CHUNK
        cuts = np.searchsorted(self.indptr, targets)
        cuts = np.unique([0, *cuts.tolist(), self.n_rows])
        runs = [
            (int(start), int(stop), self.indices[first:last], self.values[first:last])
            for start, stop in pairwise(cuts)
            for first, last in [self.indptr[[start, stop]]]
        ]
        return iterate_blocks(runs, lambda run: run[2:])

    def observed_per_line(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Count the observed entries of every row and of every column, (M,) and (N,)."""
        per_column = np.zeros(self.n_columns, dtype=np.int64)
        for _, _, columns, _ in self.row_chunks():
            per_column += np.bincount(columns, minlength=self.n_columns)
        return np.diff(self.indptr), per_column

    def to_dense(self) -> NDArray[np.float32]:
        """Return the matrix, shape (M, N), with NaN where nothing was observed."""
        if self.is_complete:
            return self.values.reshape(self.shape).astype(np.float32)
        dense = np.full(self.shape, np.nan, dtype=np.float32)
        dense[self.rows_of_entries(), self.indices] = self.values
        return dense

    # ------------------------------------------------------------ derived observations

    def transpose(self) -> Observations:
        """Exchange rows and columns, shape (N, M)."""
        from scipy.sparse import csr_array

        by_column = csr_array((self.values, self.indices, self.indptr), shape=self.shape).tocsc()
        return Observations(
            (self.n_columns, self.n_rows),
            by_column.indptr,
            by_column.indices,
            by_column.data,
            self.column_labels,
            self.row_labels,
        )

    def take_rows(self, index: ArrayLike | slice) -> Observations:
        """Take some rows, in the order asked for.

        Parameters
        ----------
        index : slice, indices of rows, shape (n,), or Booleans, shape (M,)
            The rows to take, as in indexing an array.

        Examples
        --------
        >>> Observations.from_data([[1, 0], [0, 0], [1, 1]]).take_rows([2, 0]).to_dense()
        array([[1., 1.],
               [1., 0.]], dtype=float32)
        """
        chosen = row_index(index)
        indptr, entries = select_rows(self.indptr, chosen)
        labels = None if self.row_labels is None else self.row_labels[chosen]
        return Observations(
            (len(indptr) - 1, self.n_columns),
            indptr,
            self.indices[entries],
            self.values[entries],
            labels,
            self.column_labels,
        )

    def hide(self, share: float, random_state: RandomState = None) -> Split:
        """Hide a random share of the entries, to test predictions on them.

        Parameters
        ----------
        share : float
            Fraction of the observed entries to hide, from 0 to 1.
        random_state : int, numpy Generator or None
            Random seed or generator of the choice.

        Returns
        -------
        kept : Observations, shape (M, N)
            The matrix without the hidden entries.
        hidden_rows, hidden_columns, hidden_values : arrays, shape (n_hidden,)
            The hidden entries, in order of rows and columns.

        Examples
        --------
        >>> observations = Observations.from_data([[1, 0, 1], [0, 0, 1]])
        >>> kept, rows, columns, values = observations.hide(0.5, random_state=0)
        >>> kept.n_observed, len(values)
        (3, 3)
        """
        if not 0 <= share <= 1:
            raise ValueError(f"share must be from 0 to 1, but got {share!r}; 0.1 hides 10%")
        hidden = np.zeros(self.n_observed, dtype=bool)
        n_hidden = round(share * self.n_observed)
        random = np.random.default_rng(random_state)
        hidden[random.choice(self.n_observed, n_hidden, replace=False, shuffle=False)] = True
        return self.split(hidden)

    def folds(self, n_folds: int, random_state: RandomState = None) -> Iterator[Split]:
        """Split the entries at random into `n_folds` parts and hide each part in turn.

        Parameters
        ----------
        n_folds : int
            Number of parts, from 2 to the number of observed entries; their sizes differ by at
            most one entry.
        random_state : int, numpy Generator or None
            Random seed or generator of the choice.

        Returns
        -------
        iterator of (kept, hidden_rows, hidden_columns, hidden_values)
            The same as from `hide`, once for each part.

        Examples
        --------
        >>> observations = Observations.from_data([[1, 0, 1], [0, 0, 1]])
        >>> [len(values) for _, _, _, values in observations.folds(3, random_state=0)]
        [2, 2, 2]
        """
        if not is_whole(n_folds) or not 2 <= n_folds <= self.n_observed:
            raise ValueError(
                f"n_folds must be from 2 to the number of observed entries, {self.n_observed}, "
                f"but got {n_folds!r}"
            )
        order = np.random.default_rng(random_state).permutation(self.n_observed)
        return (self.split(order % n_folds == fold) for fold in range(n_folds))

    def split(self, hidden: NDArray[np.bool_]) -> Split:
        """Split the entries into kept and `hidden` ones, (n_observed,), each in order."""
        n_hidden = np.zeros(self.n_rows, dtype=np.int64)
        for start, stop, _, _ in self.row_chunks():
            borders = self.indptr[start : stop + 1]
            before = np.cumsum(hidden[borders[0] : borders[-1]])
            n_hidden[start:stop] = np.diff(np.concatenate([[0], before])[borders - borders[0]])
        kept = ~hidden
        left = Observations(
            self.shape,
            self.indptr - np.concatenate([[0], np.cumsum(n_hidden)]),
            self.indices[kept],
            self.values[kept],
            self.row_labels,
            self.column_labels,
        )
        rows = np.repeat(np.arange(self.n_rows), n_hidden)
        return left, rows, self.indices[hidden], self.values[hidden]
