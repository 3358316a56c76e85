"""From what users have (arrays, tables, sparse matrices, triples) to the observed entries.

Every kind of input goes through the same two steps: `codes_of` turns cells into one byte
each (0, 1 or MISSING) or names the first cell that is none of these, and then
`entries_from_codes` or `entries_from_triples` puts the observed ones in order.
"""

from __future__ import annotations

import sys
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boolweave.data.cells import MISSING, Labels, check_labels, check_option, codes_of, place_of
from boolweave.runtime.free_memory import free_memory, in_words
from boolweave.runtime.storage import iterate_chunks


class Entries(NamedTuple):
    """The fields of `Observations`, in its order."""

    shape: tuple[int, int]
    indptr: NDArray[np.int64]
    indices: NDArray[np.signedinteger[Any]]
    values: NDArray[np.uint8]
    row_labels: Labels | None
    column_labels: Labels | None


def index_dtype(n_columns: int) -> type[np.int32] | type[np.int64]:
    """Choose the type of column indices: 4 bytes wherever they suffice."""
    return np.int32 if n_columns < 2**31 else np.int64


def rows_increase(indptr: NDArray[Any], indices: NDArray[Any]) -> bool:
    """Whether the columns of every row are strictly increasing."""
    return look_at(indptr, indices)[2]


def look_at(indptr: NDArray[Any], indices: NDArray[Any]) -> tuple[int, int, bool]:
    """Smallest and largest column (0 and −1 if there is none), and `rows_increase`; in pieces."""
    ends: list[int] = []
    increase, first = True, 0
    begins = indptr[1:-1]
    for part in iterate_chunks(indices, overlap=1):
        ends += [int(part.min()), int(part.max())]
        increases = part[1:] > part[:-1]
        here = begins[slice(*np.searchsorted(begins, [first + 1, first + len(part)]))]
        increases[here - first - 1] = True  # a new row starts anew
        increase = increase and bool(increases.all())
        first += len(part) - 1
    return min(ends, default=0), max(ends, default=-1), increase


def entries_from_codes(
    codes: NDArray[Any], row_labels: Labels | None, column_labels: Labels | None
) -> Entries:
    """Take the entries of a matrix of codes, (M, N)."""
    n_rows, n_columns = codes.shape
    columns: NDArray[Any] = np.arange(n_columns, dtype=index_dtype(n_columns))
    observed = codes != MISSING
    indptr = np.zeros(n_rows + 1, dtype=np.int64)
    np.cumsum(np.count_nonzero(observed, axis=1), out=indptr[1:])
    if observed.all():
        indices, values = np.tile(columns, n_rows), codes.flatten()
    else:
        indices, values = np.broadcast_to(columns, codes.shape)[observed], codes[observed]
    return Entries((n_rows, n_columns), indptr, indices, values, row_labels, column_labels)


# ---------------------------------------------------------------- arrays


def from_dense(array: Any, row_labels: Any, column_labels: Any) -> Entries:
    """Take the entries of a 0/1/NaN array, a masked array or nested lists."""
    try:
        cells = np.asarray(array)
    except ValueError as error:
        raise ValueError(
            "expected a matrix, rows × columns, but the rows differ in length; "
            "give every row as many cells, with NaN for the missing ones"
        ) from error
    if cells.ndim != 2:
        remedy = "pass one matrix, rows × columns"
        if cells.ndim == 0:
            remedy += ", as an array, a table or a scipy.sparse matrix"
        if cells.ndim == 1:
            remedy = (
                "Reshape your data with `.reshape(1, -1)` if it is one row "
                "or `.reshape(-1, 1)` if it is one column"
            )
        raise ValueError(
            f"expected a 2-D array, but got {cells.ndim}-D data of type "
            f"{type(array).__name__} and shape {cells.shape}; {remedy}"
        )
    n_rows, n_columns = cells.shape
    row_labels = check_labels(row_labels, n_rows, "row")
    column_labels = check_labels(column_labels, n_columns, "column")

    def place(position: int) -> str:
        row, column = divmod(position, n_columns)
        return place_of(row, column, row_labels, column_labels)

    masked = None
    if isinstance(array, np.ma.MaskedArray) and array.mask is not np.ma.nomask:
        masked = np.ma.getmaskarray(array)
    return entries_from_codes(codes_of(cells, masked, place), row_labels, column_labels)


# ---------------------------------------------------------------- triples


def from_triples(
    rows: Any,
    columns: Any,
    values: Any,
    shape: tuple[int, int] | None,
    row_labels: Any,
    column_labels: Any,
    duplicates: str,
) -> Entries:
    """Take the entries of three arrays of one length: rows, columns (indices or labels), values."""
    check_option("duplicates", duplicates, ("error", "majority"))
    cells = np.asarray(values)
    n_rows, n_columns = (None, None) if shape is None else check_shape(shape)
    row, row_labels, n_rows = _positions(rows, row_labels, n_rows, "row")
    column, column_labels, n_columns = _positions(columns, column_labels, n_columns, "column")
    if cells.ndim != 1 or not len(row) == len(column) == len(cells):
        raise ValueError(
            "rows, columns and values must be 1-D and of one length, but they have "
            f"the shapes {row.shape}, {column.shape} and {cells.shape}; "
            "pass one of each for every triple"
        )

    def place(position: int) -> str:
        return place_of(row[position], column[position], row_labels, column_labels)

    masked = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
    codes = codes_of(cells, masked, place)
    return entries_from_triples(
        row, column, codes, (n_rows, n_columns), row_labels, column_labels, duplicates
    )


def check_shape(shape: Any) -> tuple[int, int]:
    """Return `shape` as two whole numbers from 0 on."""
    try:
        n_rows, n_columns = (int(length) for length in shape)
        if n_rows >= 0 and n_columns >= 0 and (n_rows, n_columns) == tuple(shape):
            return n_rows, n_columns
    except (TypeError, ValueError):
        pass
    raise ValueError(f"shape must be two whole numbers, (rows, columns), but got {shape!r}")


def _positions(
    index: Any, labels: Any, length: int | None, axis: str
) -> tuple[NDArray[np.int64], Labels | None, int]:
    """Turn indices or labels of one axis into indices; tell its labels and its length too."""
    array = np.asarray(index)
    if array.ndim != 1:
        raise ValueError(f"{axis}s must be 1-D, one for each triple, but got shape {array.shape}")
    if array.dtype.kind == "O" and all(isinstance(item, str) for item in array):
        array = array.astype(np.str_)
    if labels is not None:
        labels = labels if isinstance(labels, np.ndarray) else list(labels)
        length = len(labels) if length is None else length
        labels = check_labels(labels, length, axis)
    if array.dtype.kind in "UT" and array.size:
        return _positions_of_labels(array.astype(np.str_), labels, length, axis)
    array = _whole_numbers(array, axis)
    if length is None:
        length = int(array.max()) + 1 if array.size else 0
    outside = (array < 0) | (array >= length)
    if outside.any():
        position = int(np.argmax(outside))
        raise ValueError(
            f"{axis} indices must be from 0 to {length - 1}, but triple {position} has "
            f"{axis} {int(array[position])}; correct the index, or the shape or labels if given"
        )
    return array.astype(np.int64, copy=False), labels, length


def _whole_numbers(array: NDArray[Any], axis: str) -> NDArray[Any]:
    if array.dtype.kind in "iu" or array.size == 0:
        return array if array.size else np.empty(0, dtype=np.int64)
    if array.dtype.kind == "O" and all(isinstance(item, Integral) for item in array):
        return array.astype(np.int64)
    if array.dtype.kind == "f":
        broken = ~np.isfinite(array) | (np.floor(array) != array)
        if not broken.any():
            return array
        position = int(np.argmax(broken))
    else:
        broken_items = (i for i, item in enumerate(array) if not isinstance(item, str | Integral))
        position = next(broken_items, 0)
    error = ValueError if array.dtype.kind == "f" else TypeError
    raise error(
        f"{axis}s must be all whole numbers or all labels (text), but triple {position} has "
        f"{axis} {array.tolist()[position]!r}; convert the {axis}s to integers or to text"
    )


def _positions_of_labels(
    names: Labels, labels: Labels | None, length: int | None, axis: str
) -> tuple[NDArray[np.int64], Labels, int]:
    distinct, first, inverse = np.unique(names, return_index=True, return_inverse=True)
    if labels is None:  # numbered in the order of first appearance
        order = np.argsort(first)
        labels = distinct[order]
        number = np.empty(len(order), dtype=np.int64)
        number[order] = np.arange(len(order))
        if length is not None and length != len(labels):
            raise ValueError(
                f"shape asks for {length} {axis}s, but the triples name {len(labels)}; "
                f"pass {axis}_labels with all {length} names, or no shape"
            )
        return number[inverse], labels, len(labels)
    sorter = np.argsort(labels)
    slot = np.searchsorted(labels, distinct, sorter=sorter)
    number = sorter[np.minimum(slot, len(labels) - 1)] if len(labels) else slot
    known = labels[number] == distinct if len(labels) else np.zeros(len(distinct), dtype=bool)
    if not known.all():
        position = int(first[~known].min())
        raise ValueError(
            f"every {axis} must be among the {axis}_labels, but triple {position} has {axis} "
            f"{str(names[position])!r}; add it to {axis}_labels or leave them out"
        )
    return number[inverse], labels, len(labels)


def entries_from_triples(
    rows: NDArray[Any],
    columns: NDArray[Any],
    codes: NDArray[Any],
    shape: tuple[int, int],
    row_labels: Labels | None,
    column_labels: Labels | None,
    duplicates: str,
) -> Entries:
    """Take the entries of coded triples in any order, each (n,); missing ones are left out."""
    n_rows, n_columns = shape
    if 2 * n_rows * n_columns > np.iinfo(np.int64).max:
        raise ValueError(f"a matrix of shape {shape} is too large to number its cells")
    # One number holds row, column and value, so that one plain sort puts all three in order.
    packed = (rows.astype(np.int64) * n_columns + columns) * 2 + codes
    if (codes == MISSING).any():
        packed = packed[codes != MISSING]
    if not (packed[1:] >= packed[:-1]).all():
        packed.sort()
    cells, values = packed >> 1, (packed & 1).astype(np.uint8)
    is_first = np.ones(len(cells), dtype=bool)
    np.not_equal(cells[1:], cells[:-1], out=is_first[1:])
    if not is_first.all():
        starts = np.flatnonzero(is_first)
        counts = np.diff(starts, append=len(cells))
        ones = np.add.reduceat(values, starts, dtype=np.int64)
        disagree = (ones > 0) & (ones < counts)
        if duplicates == "error" and disagree.any():
            group = int(np.argmax(disagree))
            row, column = divmod(int(cells[starts[group]]), n_columns)
            raise ValueError(
                f"{place_of(row, column, row_labels, column_labels)} is given as both 0 and 1 "
                f"({counts[group] - ones[group]} and {ones[group]} times); remove the wrong ones, "
                'or pass duplicates="majority"'
            )
        decided = 2 * ones != counts
        cells = cells[starts][decided]
        values = (2 * ones > counts)[decided].astype(np.uint8)
    indptr = np.searchsorted(cells, np.arange(n_rows + 1, dtype=np.int64) * n_columns)
    if n_columns == 0:
        indptr = np.zeros(n_rows + 1, dtype=np.int64)
    indices = (cells % max(n_columns, 1)).astype(index_dtype(n_columns))
    return Entries(shape, indptr.astype(np.int64), indices, values, row_labels, column_labels)


# ---------------------------------------------------------------- sparse matrices


def is_sparse(data: object) -> bool:
    """Whether `data` comes from scipy.sparse; does not load scipy for anything else."""
    if "scipy.sparse" not in sys.modules:
        return False
    from scipy.sparse import issparse

    return bool(issparse(data))


def from_sparse(
    matrix: Any, absent: str, row_labels: Any, column_labels: Any, duplicates: str
) -> Entries:
    """Take the entries of a scipy.sparse array or matrix in any format."""
    check_option("absent", absent, ("zero", "missing"))
    check_option("duplicates", duplicates, ("error", "majority"))
    if not is_sparse(matrix):
        raise TypeError(
            f"expected a scipy.sparse array or matrix, but got {type(matrix).__name__}; "
            "use Observations.from_data for other kinds of input"
        )
    if matrix.ndim != 2:
        raise ValueError(
            f"expected a 2-D sparse array, but got shape {matrix.shape}; Reshape your data "
            "with `.reshape(1, -1)` if it is one row"
        )
    shape = int(matrix.shape[0]), int(matrix.shape[1])
    _check_stored(matrix, shape)
    if absent == "zero":
        check_room(shape, 'pass absent="missing" if only stored entries were observed')
    row_labels = check_labels(row_labels, shape[0], "row")
    column_labels = check_labels(column_labels, shape[1], "column")
    if absent == "missing" and matrix.format == "csr":
        entries = _from_tidy_csr(matrix, shape, row_labels, column_labels)
        if entries is not None:
            return entries
    rows, columns, data = _stored(matrix)

    def place(position: int) -> str:
        return place_of(rows[position], columns[position], row_labels, column_labels)

    codes = codes_of(data, None, place)
    entries = entries_from_triples(
        rows, columns, codes, shape, row_labels, column_labels, duplicates
    )
    if absent == "missing":
        return entries
    cells = np.zeros(shape, dtype=np.uint8)
    cells[rows, columns] = MISSING  # stays so where only NaN is stored, or a majority is a tie
    cells[np.repeat(np.arange(shape[0]), np.diff(entries.indptr)), entries.indices] = entries.values
    return entries_from_codes(cells, row_labels, column_labels)


def _check_stored(matrix: Any, shape: tuple[int, int]) -> None:
    """Raise ValueError for indices out of range: the conversions of scipy would follow them."""
    if matrix.format in ("csr", "csc", "bsr"):
        height, width = matrix.blocksize if matrix.format == "bsr" else (1, 1)
        sides = shape[0] // height, shape[1] // width
        check_compressed(
            matrix.indptr, matrix.indices, len(matrix.data),
            sides[::-1] if matrix.format == "csc" else sides,
        )  # fmt: skip
    elif matrix.format == "coo":
        check_coordinates(matrix.row, matrix.col, len(matrix.data), shape)


def check_compressed(
    indptr: NDArray[Any], indices: NDArray[Any], n_data: int, sides: tuple[int, int]
) -> None:
    """Raise ValueError unless runs of indices, one for each of `sides[0]`, are below `sides[1]`."""
    if len(indptr) != sides[0] + 1 or indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any():
        raise ValueError(
            f"indptr of a sparse matrix must have {sides[0] + 1} numbers that begin with 0 and do "
            "not decrease; make the matrix anew"
        )
    stored = int(indptr[-1])
    if stored > len(indices) or stored > n_data:
        raise ValueError(
            f"indptr of a sparse matrix goes up to {stored}, but there are {len(indices)} indices "
            f"and {n_data} values; make the matrix anew"
        )
    _check_range(indices[:stored], sides[1])


def check_coordinates(
    rows: NDArray[Any], columns: NDArray[Any], n_data: int, shape: tuple[int, int]
) -> None:
    """Raise ValueError unless every value has a row and a column of the matrix."""
    if not len(rows) == len(columns) == n_data:
        raise ValueError(
            f"a sparse matrix has {len(rows)} rows, {len(columns)} columns and {n_data} values, "
            "but must have as many of each; make it anew"
        )
    _check_range(rows, shape[0])
    _check_range(columns, shape[1])


def _check_range(indices: NDArray[Any], size: int) -> None:
    if len(indices) and (indices.min() < 0 or indices.max() >= size):
        raise ValueError(
            f"indices of a sparse matrix must be from 0 to {size - 1}, but go from "
            f"{indices.min()} to {indices.max()}; correct them or the shape"
        )


# Bytes of an entry while it is made, beside its column: code, value, whether it was observed.
_MAKING = 3


def check_room(shape: tuple[int, int], remedy: str) -> None:
    """Raise MemoryError if a matrix whose absent entries are zeros would not fit into memory."""
    n_bytes = shape[0] * shape[1] * (_MAKING + np.dtype(index_dtype(shape[1])).itemsize)
    free = free_memory()
    if free is not None and n_bytes > free:
        raise MemoryError(
            f"{shape[0]} rows × {shape[1]} columns take {in_words(n_bytes)} of memory if every "
            f"absent entry is an observed zero, but {in_words(free)} are free; {remedy}, or take "
            "fewer rows or columns"
        )


def _from_tidy_csr(
    matrix: Any, shape: tuple[int, int], row_labels: Labels | None, column_labels: Labels | None
) -> Entries | None:
    """Take the entries of a CSR matrix as they stand, without a copy; None if not in order."""
    indptr, stored = matrix.indptr, int(matrix.indptr[-1])
    indices, data = matrix.indices[:stored], matrix.data[:stored]

    def place(position: int) -> str:
        row = int(np.searchsorted(indptr, position, side="right")) - 1
        return place_of(row, indices[position], row_labels, column_labels)

    codes = codes_of(data, None, place)
    if (codes == MISSING).any() or not rows_increase(indptr, indices):
        return None
    indptr = indptr.astype(np.int64, copy=False)
    indices = indices.astype(index_dtype(shape[1]), copy=False)
    return Entries(shape, indptr, indices, codes, row_labels, column_labels)


def _stored(matrix: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Rows, columns and values of all that is stored: zeros and duplicates too."""
    if matrix.format != "dia":
        triples = matrix.tocoo(copy=False)
        return triples.row, triples.col, triples.data
    # scipy drops the zeros of stored diagonals on conversion; data[d, j] is cell (j - offset, j).
    columns = np.broadcast_to(np.arange(matrix.data.shape[1]), matrix.data.shape)
    rows = columns - matrix.offsets[:, np.newaxis]
    inside = (rows >= 0) & (rows < matrix.shape[0]) & (columns < matrix.shape[1])
    return rows[inside], columns[inside], matrix.data[inside]


# ---------------------------------------------------------------- tables


def is_table(data: object) -> bool:
    """Whether `data` is a table that narwhals knows, eager or lazy."""
    if isinstance(data, np.ndarray | list | tuple):
        return False
    import narwhals.stable.v1 as nw

    frame: Any = nw.from_native(data, pass_through=True)
    return isinstance(frame, nw.DataFrame | nw.LazyFrame)


def from_table(table: Any) -> Entries:
    """Take the entries of a wide table; its names become labels."""
    import narwhals.stable.v1 as nw

    names: list[Any] = []
    if not hasattr(table, "collect"):  # a lazy table would have to work to tell its names
        names = list(getattr(table, "column_names", getattr(table, "columns", [])))
    # Checked first, because narwhals refuses repeated names in words of its own.
    check_labels(names, len(names), "column")
    names_count = names == list(range(len(names)))  # the default of pandas, no real names
    try:
        frame: nw.DataFrame[Any] = nw.from_native(table, eager_only=True)
    except TypeError as error:
        raise TypeError(
            f"expected a table in memory (pandas, polars, Arrow), but got {type(table).__name__}; "
            "collect a lazy table first, and use Observations.from_data for other kinds of input"
        ) from error
    row_labels: Any = _index_labels(nw.maybe_get_index(frame))
    text = (nw.String, nw.Categorical, nw.Enum)
    if row_labels is None and names and isinstance(frame.schema[names[0]], text):
        row_labels = frame.get_column(names[0]).to_list()
        names = names[1:]
    if not names:
        return from_dense(np.empty((len(frame), 0), dtype=np.uint8), row_labels, None)
    # The columns from the end, because a name that is no text could not be selected by itself.
    frame = frame.select(nw.nth(*range(len(frame.columns) - len(names), len(frame.columns))))
    # Booleans become numbers first: with nulls they would become Python objects.
    cells = frame.with_columns(nw.selectors.boolean().cast(nw.Int8)).to_numpy()
    return from_dense(cells, row_labels, None if names_count else names)


def _index_labels(index: Any) -> list[object] | None:
    """Take the labels in the index of a pandas table; None without one, or if it only counts."""
    if index is None:
        return None
    counts = type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1
    return None if counts else list(index)
