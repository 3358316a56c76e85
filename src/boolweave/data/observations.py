"""The observed entries of a partly observed Boolean matrix."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boolweave.data import convert
from boolweave.data.cells import Above, CellWords, GivenCells, check_option
from boolweave.data.entries import (
    CompressedRows,
    cells_outside,
    checked,
    row_index,
    select_rows,
    spread,
)
from boolweave.data.labels import Labels
from boolweave.data.observed import ObservedEntries
from boolweave.data.questions import Questions
from boolweave.runtime.checks import generator_of, is_number, is_whole
from boolweave.runtime.storage import is_in_file, iterate_blocks, iterate_chunks, release_pages
from boolweave.runtime.types import Array, Integers

# Number of entries that are processed at a time, where each needs some hundred bytes.
ENTRIES_PER_CHUNK = 1 << 16

# Number of columns of a sample of the cells of a large matrix.
SAMPLED_COLUMNS = 1 << 12

Absent = Literal["zero", "missing"]
Duplicates = Literal["error", "majority"]
RandomState = int | np.random.Generator | None
# The remaining observations, and the rows, columns and values of the hidden entries.
Split = tuple["Observations", NDArray[np.int64], Integers, NDArray[np.uint8]]


@dataclass(frozen=True, eq=False, repr=False)
class Observations(ObservedEntries):
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

    # ------------------------------------------------------------ constructors

    @classmethod
    def from_data(
        cls,
        data: Any,
        *,
        absent: Absent = "zero",
        duplicates: Duplicates = "error",
        ones: GivenCells = None,
        zeros: GivenCells = None,
        missing: GivenCells = None,
    ) -> Observations:
        """Make observations from any kind of matrix; `Observations` pass through.

        Parameters
        ----------
        data : array, nested lists, table, scipy.sparse array or matrix, or Observations
            The matrix, shape (M, N). See `from_dense`, `from_table` and `from_sparse`. A table is
            always treated as a wide one, each column of which is a column of the matrix; for
            triples, use `from_triples` or `from_long`. All zeros of `SparseObservations` are
            listed.
        absent : {"zero", "missing"}
            How to treat the entries that a sparse matrix does not store.
        duplicates : {"error", "majority"}
            What to do if a sparse matrix stores both 0 and 1 for an entry.
        ones, zeros, missing : cell or sequence of cells, optional
            Additional spellings of ones, zeros and missing cells in an array or a table, as texts
            or numbers, such as ``missing=["-", 99]``. Other cells keep their usual meaning: 1,
            true, yes and y are ones, 0, false, no and n are zeros, and NA, N/A, null, none, ? and
            empty texts are missing, in lower or upper case. The command line reads files by the
            same rules.

        Examples
        --------
        >>> import scipy.sparse
        >>> from boolweave import Observations
        >>> likes = scipy.sparse.coo_array(([1, 0], ([0, 1], [2, 0])), shape=(2, 3))
        >>> Observations.from_data(likes, absent="missing").to_dense()
        array([[nan, nan,  1.],
               [ 0., nan, nan]], dtype=float32)
        >>> votes = [["ja", "nein"], ["-", "JA"]]
        >>> Observations.from_data(votes, ones="ja", zeros="nein", missing="-").to_dense()
        array([[ 1.,  0.],
               [nan,  1.]], dtype=float32)
        """
        check_option("absent", absent, ("zero", "missing"))
        check_option("duplicates", duplicates, ("error", "majority"))
        words = CellWords.of(ones, zeros, missing)
        if isinstance(data, ObservedEntries):
            _without_words(words, "observations")
            return data.to_local()
        if convert.is_sparse(data):
            _without_words(words, "a sparse matrix")
            return Observations.from_sparse(data, absent=absent, duplicates=duplicates)
        if convert.is_table(data):
            return Observations._of(convert.from_table(data, words))
        return Observations._of(convert.from_dense(data, None, None, words))

    @classmethod
    def from_dense(
        cls,
        array: ArrayLike,
        *,
        row_labels: Iterable[object] | None = None,
        column_labels: Iterable[object] | None = None,
    ) -> Self:
        """Make observations from an array.

        Parameters
        ----------
        array : array_like, shape (M, N)
            Cells of 0, 1 or NaN (missing), of any Boolean or numeric type. The masked cells of
            a masked array are missing; in an array of Python objects, None is missing, too.
        row_labels, column_labels : sequences of M and of N names, optional
            Names, all different.

        Examples
        --------
        >>> from boolweave import Observations
        >>> votes = [[1, 0], [None, 1]]
        >>> Observations.from_dense(votes, column_labels=["tax", "war"])
        Observations(2 rows × 2 columns, 3 of 4 entries observed, 66.7% ones)
        """
        return cls._of(convert.from_dense(array, row_labels, column_labels))

    @classmethod
    def from_table(
        cls,
        table: Any,
        *,
        ones: GivenCells = None,
        zeros: GivenCells = None,
        missing: GivenCells = None,
    ) -> Self:
        """Make observations from a wide table: pandas, polars, Arrow or similar.

        Parameters
        ----------
        table : table in memory, M rows
            Columns of Booleans, of numbers 0 and 1, or of words such as yes and no; nulls and NaN
            are missing. Column names become column labels. Row labels come from the first column,
            if that holds text other than such words and there is no pandas index with a name or
            with text; otherwise from the index of a pandas table, unless it only counts the rows.
            For categories and numbers, use `boolweave.TableEncoder`.
        ones, zeros, missing : cell or sequence of cells, optional
            Additional spellings of ones, zeros and missing cells, as in `from_data`.

        Examples
        --------
        >>> import polars
        >>> from boolweave import Observations
        >>> table = polars.DataFrame({"name": ["Ann", "Bo"], "tax": [1, 0], "war": [None, True]})
        >>> observations = Observations.from_table(table)
        >>> observations.row_labels.tolist(), observations.column_labels.tolist()
        (['Ann', 'Bo'], ['tax', 'war'])
        """
        return cls._of(convert.from_table(table, CellWords.of(ones, zeros, missing)))

    @classmethod
    def from_long(
        cls,
        table: Any,
        rows: str,
        columns: str,
        values: str | None = None,
        *,
        above: Above | None = None,
        ids: Literal["names", "positions"] = "names",
        absent: Absent | None = None,
        duplicates: Duplicates = "error",
        ones: GivenCells = None,
        zeros: GivenCells = None,
        missing: GivenCells = None,
    ) -> Self:
        """Make observations from a long table, which has one line for each entry.

        Parameters
        ----------
        table : table in memory, n lines: pandas, polars, Arrow or similar
        rows, columns : str
            The columns of the table that hold the row and the column of each entry.
        values : str, optional
            The column that holds the values: 0 and 1, words such as yes and no, or ratings.
            Without it, every line is a one.
        above : "mean", "median" or a number, optional
            The values are ratings, and ratings above this number are ones.
        ids : {"names", "positions"}
            What `rows` and `columns` hold: names, which may be numbers and become labels in the
            order of first appearance; or positions, which are whole numbers counted from 0.
        absent : {"zero", "missing"}, optional
            How to treat the entries that the table does not list. By default, they are missing if
            there are values, and zeros if every line is a one.
        duplicates : {"error", "majority"}
            What to do if an entry is given as both 0 and 1; with "majority", a tie is missing.
        ones, zeros, missing : cell or sequence of cells, optional
            Additional spellings of ones, zeros and missing values, as in `from_data`; with `above`,
            only `missing` applies.

        Examples
        --------
        >>> import polars
        >>> from boolweave import Observations
        >>> seen = {"user": [7, 7, 9], "film": ["Alien", "Fargo", "Alien"], "stars": [5, 2, 4]}
        >>> likes = Observations.from_long(polars.DataFrame(seen), "user", "film", "stars", above=3)
        >>> likes.row_labels.tolist(), likes.column_labels.tolist()
        (['7', '9'], ['Alien', 'Fargo'])
        >>> likes.to_dense()
        array([[ 1.,  0.],
               [ 1., nan]], dtype=float32)
        """
        check_option("ids", ids, ("names", "positions"))
        check_option("absent", absent or "zero", ("zero", "missing"))
        check_option("duplicates", duplicates, ("error", "majority"))
        words = CellWords.of(ones, zeros, missing)
        return cls._of(
            convert.from_long(
                table, (rows, columns, values), above, ids == "names", absent, duplicates, words
            )
        )

    @classmethod
    def from_sparse(
        cls,
        matrix: Any,
        *,
        absent: Absent = "zero",
        row_labels: Iterable[object] | None = None,
        column_labels: Iterable[object] | None = None,
        duplicates: Duplicates = "error",
    ) -> Self:
        """Make observations from a scipy.sparse array or matrix of any format.

        Parameters
        ----------
        matrix : scipy.sparse array or matrix, shape (M, N)
            Stored entries of 0, 1 or NaN (missing). A stored zero is an observed zero; the
            formats BSR and DIA store whole blocks and diagonals, with all their zeros.
        absent : {"zero", "missing"}
            How to treat the entries that are not stored. With "zero", the result has M × N entries,
            minus those stored as NaN, and takes 5 bytes for each.
        row_labels, column_labels : sequences of M and of N names, optional
            Names, all different.
        duplicates : {"error", "majority"}
            Entries that are stored more than once are merged if they agree, and never summed. If
            they disagree, raise an error or take the majority; a tie is missing.

        Notes
        -----
        With ``absent="missing"``, the arrays of a CSR matrix in canonical order are not copied, so
        do not change the matrix afterwards.

        Examples
        --------
        >>> import scipy.sparse
        >>> from boolweave import Observations
        >>> owns = scipy.sparse.csr_array([[0, 1, 0], [1, 1, 0]])
        >>> Observations.from_sparse(owns).n_observed
        6
        >>> Observations.from_sparse(owns, absent="missing").n_observed
        3
        """
        return cls._of(convert.from_sparse(matrix, absent, row_labels, column_labels, duplicates))

    @classmethod
    def from_triples(
        cls,
        rows: ArrayLike,
        columns: ArrayLike,
        values: ArrayLike,
        *,
        shape: tuple[int, int] | None = None,
        row_labels: Iterable[object] | None = None,
        column_labels: Iterable[object] | None = None,
        duplicates: Duplicates = "error",
    ) -> Self:
        """Make observations from triples of row, column and value, in any order.

        Parameters
        ----------
        rows, columns : array_like, shape (n,)
            Either indices, which are whole numbers counted from 0, or labels, which are texts.
            Labels are numbered in the order of first appearance, or in the order of `row_labels`
            and `column_labels`.
        values : array_like, shape (n,)
            0, 1 or NaN (missing).
        shape : (int, int), optional
            Number of rows M and of columns N; by default, as many as occur in the triples.
        row_labels, column_labels : sequences of M and of N names, optional
            Names, all different.
        duplicates : {"error", "majority"}
            Triples of the same entry are merged if they agree. If they disagree, raise an error
            that names the entry, or take the majority; a tie is missing.

        Examples
        --------
        >>> from boolweave import Observations
        >>> users, items = ["Ann", "Bo", "Ann"], ["tea", "tea", "rum"]
        >>> observations = Observations.from_triples(users, items, [True, False, False])
        >>> observations.to_dense()
        array([[ 1.,  0.],
               [ 0., nan]], dtype=float32)
        >>> observations.column_labels.tolist()
        ['tea', 'rum']
        """
        return cls._of(
            convert.from_triples(
                rows, columns, values, shape, row_labels, column_labels, duplicates
            )
        )

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

    def entries(self) -> Iterator[tuple[Integers, Integers, NDArray[np.uint8]]]:
        """Yield rows, columns and values of the listed entries, some at a time."""
        for start, stop, columns, values in self.row_chunks():
            per_row = np.diff(self.indptr[start : stop + 1])
            yield np.repeat(np.arange(start, stop), per_row), columns, values

    def missing_cells(self, most: int) -> tuple[Integers, Integers]:
        """Rows and columns of the missing cells; in a large matrix, of those among `most` cells.

        These cells are those of some rows and columns, evenly spread.
        """
        rows, columns = np.arange(self.n_rows), np.arange(self.n_columns)
        if self.n_rows * self.n_columns > most:
            columns = spread(self.n_columns, SAMPLED_COLUMNS)
            rows = spread(self.n_rows, most // len(columns))
        return cells_outside(rows, columns, self.n_columns, [self.known_cells(rows)])

    def implied_zeros(self, rows: Integers, columns: Integers) -> tuple[Integers, Integers]:
        """Find the zeros that are not listed among some rows and columns; here there are none."""
        return rows[:0], columns[:0]

    def implied_zeros_in(self, X: Array, Y: Array) -> NDArray[np.int64]:
        """Count the zeros that are not listed inside tiles, X (M, K) and Y (K, N): (K,)."""
        return np.zeros(len(Y), dtype=np.int64)

    def implied_zeros_by_group(
        self, of_row: Integers, of_column: Integers, shape: tuple[int, int]
    ) -> NDArray[np.int64]:
        """Count the zeros that are not listed in each pair of a group of rows and of columns."""
        return np.zeros(shape, dtype=np.int64)

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
        chosen = row_index(index, self.shape[0])
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

    def some_rows(self, index: ArrayLike | slice) -> Observations:
        """Take some rows, in the order asked for, in the same form; all entries are listed here."""
        return self.take_rows(index)

    def release_rows(self, rows: slice) -> None:
        """Release the memory of entries that were read from files."""
        entries = slice(*self.indptr[[rows.start, rows.stop]])
        for array in (self.indices, self.values):
            release_pages(array[entries])

    def arrays_of_rows(self, rows: slice) -> tuple[Any, ...]:
        """What another process needs to make these rows: a function, and its arguments."""
        first, last = self.indptr[[rows.start, rows.stop]]
        shape = rows.stop - rows.start, self.n_columns
        indptr = self.indptr[rows.start : rows.stop + 1] - first
        return Observations, shape, indptr, self.indices[first:last], self.values[first:last]

    def answers_of_entries(self, groups: ArrayLike | None = None) -> NDArray[np.int64]:
        """Number the answers to which the entries belong, (n_observed,), from 0 without gaps.

        Parameters
        ----------
        groups : array of whole numbers, shape (N,), optional
            The question of each column, such as `TableEncoder.groups_`. The entries of one row in
            the columns of one question are one answer; by default, each entry is one.

        Examples
        --------
        >>> observations = Observations.from_data([[1, 0, 1], [0, 1, 1]])
        >>> observations.answers_of_entries([0, 0, 1])
        array([0, 0, 1, 2, 2, 3])
        """
        if groups is None:
            return np.arange(self.n_observed)
        of_question = Questions.of(groups, self.n_columns).groups
        _, of_column = np.unique(of_question, return_inverse=True)
        cells = self.rows_of_entries() * self.n_columns + of_column[self.indices]
        return np.unique(cells, return_inverse=True)[1].astype(np.int64, copy=False)

    def hide(
        self, share: float, random_state: RandomState = None, *, groups: ArrayLike | None = None
    ) -> Split:
        """Hide a random share of the entries, to test predictions on them.

        Parameters
        ----------
        share : float
            Fraction of the observed entries to hide, from 0 to 1.
        random_state : int, numpy Generator or None
            Random seed or generator of the choice.
        groups : array of whole numbers, shape (N,), optional
            The question of each column, such as `TableEncoder.groups_`. Whole answers are hidden,
            all entries of a row that belong to one question, and `share` is a fraction of the
            answers. Otherwise the level of a category could be read off the other levels.

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
        >>> kept, *_ = observations.hide(0.25, random_state=4, groups=[0, 0, 1])
        >>> kept.to_dense()
        array([[ 1.,  0.,  1.],
               [nan, nan,  1.]], dtype=float32)
        """
        if not is_number(share) or not 0 <= share <= 1:
            raise ValueError(f"share must be from 0 to 1, but got {share!r}; 0.1 hides 10%")
        answers = self.answers_of_entries(groups)
        n_answers = int(answers.max(initial=-1)) + 1
        hidden = np.zeros(n_answers, dtype=bool)
        n_hidden = round(share * n_answers)
        random = generator_of(random_state)
        hidden[random.choice(n_answers, n_hidden, replace=False, shuffle=False)] = True
        return self.split(hidden[answers])

    def folds(
        self, n_folds: int, random_state: RandomState = None, *, groups: ArrayLike | None = None
    ) -> Iterator[Split]:
        """Split the entries at random into `n_folds` parts and hide each part in turn.

        Parameters
        ----------
        n_folds : int
            Number of parts, from 2 to the number of observed entries; their sizes differ by at
            most one entry.
        random_state : int, numpy Generator or None
            Random seed or generator of the choice.
        groups : array of whole numbers, shape (N,), optional
            The question of each column, as for `hide`. The parts consist of whole answers, whose
            numbers differ by at most one.

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
        part = self.random_parts(n_folds, random_state, groups)
        return (self.split(part == fold) for fold in range(n_folds))

    def random_parts(
        self, n: int, random_state: RandomState, groups: ArrayLike | None, name: str = "n_folds"
    ) -> NDArray[np.int64]:
        """The part of each entry, (n_observed,), for `folds`; errors call their number `name`."""
        answers = self.answers_of_entries(groups)
        n_answers = int(answers.max(initial=-1)) + 1
        if not is_whole(n) or not 2 <= n <= n_answers:
            what = "observed entries" if groups is None else "answers"
            raise ValueError(
                f"{name} must be from 2 to the number of {what}, {n_answers}, but got {n!r}"
            )
        return (generator_of(random_state).permutation(n_answers) % n)[answers]

    def split(self, hidden: NDArray[np.bool_]) -> Split:
        """Split the entries into kept and `hidden` ones, (n_observed,), each in order."""
        hidden = np.asarray(hidden)
        if hidden.dtype != np.bool_ or hidden.shape != (self.n_observed,):
            raise ValueError(
                f"hidden must have one Boolean for each of the {self.n_observed} observed entries, "
                f"but got {hidden.dtype} of shape {hidden.shape}"
            )
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


def _without_words(words: CellWords, kind: str) -> None:
    if words.codes:
        raise ValueError(
            f"`ones`, `zeros` and `missing` do not apply to {kind}, which holds 0, 1 and NaN; "
            "leave them out"
        )
