"""Constructors of observations: from arrays, wide and long tables, sparse matrices, triples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from boolweave.data import convert, sparse
from boolweave.data.cells import (
    Above,
    CellWords,
    GivenCells,
    check_option,
    codes_above,
    codes_of,
    is_missing,
)
from boolweave.data.entries import CompressedRows, check_shape
from boolweave.data.labels import Labels, number_by_appearance, place_of
from boolweave.runtime.types import Array, Integers

if TYPE_CHECKING:
    from boolweave.data.observations import Observations

Absent = Literal["zero", "missing"]
Duplicates = Literal["error", "majority"]


class Sources:
    """The constructors of `boolweave.Observations`."""

    @classmethod
    def _of(cls, entries: CompressedRows) -> Self:
        """Make observations from checked entries."""
        raise NotImplementedError

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
        from boolweave.data.observations import Observations
        from boolweave.data.ones import SparseObservations

        words = CellWords.of(ones, zeros, missing)
        if isinstance(data, Observations | SparseObservations):
            _without_words(words, "observations")
            return data.to_local()
        if sparse.is_sparse(data):
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
            _from_long(
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
        return cls._of(sparse.from_sparse(matrix, absent, row_labels, column_labels, duplicates))

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


def _without_words(words: CellWords, kind: str) -> None:
    if words.codes:
        raise ValueError(
            f"`ones`, `zeros` and `missing` do not apply to {kind}, which holds 0, 1 and NaN; "
            "leave them out"
        )


# ---------------------------------------------------------------- long tables


def _from_long(
    table: Any,
    names: tuple[str, str, str | None],
    above: Above | None,
    named: bool,
    absent: str | None,
    duplicates: str,
    words: CellWords,
) -> CompressedRows:
    """Take the entries of a long table whose columns for row, column and value have these names."""
    rows, columns, values = names
    m, row_labels, n_rows = _axis(_column_of(table, rows), rows, named, "row")
    n, column_labels, n_columns = _axis(_column_of(table, columns), columns, named, "column")
    codes = np.ones(len(m), dtype=np.uint8)
    if values is not None:
        labels = row_labels, column_labels
        codes = _codes(_column_of(table, values), values, above, words, (m, n), labels)
    elif above is not None or words.codes:
        raise ValueError(
            "`above`, `ones`, `zeros` and `missing` need values: name their column with `values`"
        )
    absent = absent or ("zero" if values is None else "missing")
    shape = check_shape((n_rows, n_columns))
    if absent == "zero":
        sparse.check_room(
            shape, 'pass `absent="missing"` to use only the entries that the table holds'
        )
    return convert.from_coded_triples(
        m, n, codes, shape, row_labels, column_labels, duplicates=duplicates, absent=absent
    )


def _column_of(table: Any, name: str) -> Array:
    """A column of a table in memory."""
    frame = convert.in_memory(table, "for arrays, use Observations.from_triples")
    if name not in frame.columns:
        known = ", ".join(map(repr, frame.columns[:10]))
        raise ValueError(f"the table has no column {name!r}; there are {known}")
    return frame.get_column(name).to_numpy()


def _axis(keys: Array, name: str, named: bool, axis: str) -> tuple[Integers, Labels | None, int]:
    """The position of each key, and the labels and the length of the axis."""
    if not named:
        if keys.dtype.kind not in "iuf" and len(keys):
            raise ValueError(
                f"expected positions, counted from 0, in {name!r}, but got {keys.tolist()[0]!r}; "
                'leave out `ids`, or pass `ids="names"`'
            )
        return convert.positions_of(keys, None, None, axis)
    if keys.dtype.kind == "f":
        empty = np.isnan(keys)
        # Whole numbers become floats in a column that has, or had, nulls.
        if not empty.any() and (keys == np.floor(keys)).all():
            keys = keys.astype(np.int64)
    elif keys.dtype.kind == "O":
        empty = np.array([is_missing(key) for key in keys], dtype=bool)
        keys = np.array([str(key) for key in keys], dtype=np.str_)
    elif keys.dtype.kind in "mM":
        empty = np.isnat(keys)
        if np.datetime_data(keys.dtype)[0] == "ns":  # as labels, they would be numbers
            keys = keys.astype(f"{keys.dtype.kind}8[us]")
    else:
        empty = np.zeros(len(keys), dtype=bool)
    if empty.any():
        raise ValueError(
            f"expected a name in every line of {name!r}, but that of line {int(np.argmax(empty))} "
            "is missing; fill it in or remove the line"
        )
    numbers, distinct = number_by_appearance(keys)
    labels = np.array([str(key) for key in distinct.tolist()], dtype=np.str_)
    return numbers, labels, len(labels)


def _codes(
    values: Array,
    name: str,
    above: Above | None,
    words: CellWords,
    at: tuple[Integers, Integers],
    labels: tuple[Labels | None, Labels | None],
) -> Array:
    """0, 1 or MISSING for each value."""

    def place(position: int) -> str:
        return place_of(at[0][position], at[1][position], *labels)

    if above is None:
        return codes_of(values, None, place, words)
    if words.ones or words.zeros:
        raise ValueError("`above` defines which values are ones; leave out `ones` and `zeros`")
    if isinstance(above, str) and above not in ("mean", "median"):
        raise ValueError(f'above must be "mean", "median" or a number, but got {above!r}')
    numbers = np.empty(len(values))
    for position, value in enumerate(values.tolist()):
        try:
            numbers[position] = np.nan if words.is_blank(value) else float(value)
        except (TypeError, ValueError):
            raise ValueError(
                f"expected numbers in {name!r}, which `above` compares, but {place(position)} "
                f"holds {value!r}; define which values are `missing`, or leave out `above`"
            ) from None
    return codes_above(numbers, above)
