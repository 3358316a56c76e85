"""Conversion of arrays, tables, sparse matrices and triples into observed entries.

Every kind of input goes through the same two steps: `codes_of` turns cells into one byte
each (0, 1 or MISSING) or names the first cell that is none of these, and then
`rows_from_codes` or `rows_from_packed` puts the observed entries in order.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boolweave.data.cells import (
    MISSING,
    USUAL,
    WRONG,
    Above,
    CellWords,
    check_option,
    codes_above,
    codes_of,
    is_missing,
)
from boolweave.data.entries import (
    CompressedRows,
    Packed,
    Shape,
    check_shape,
    find_sorted,
    index_dtype,
    pack,
    rows_from_codes,
    rows_from_packed,
    scan_columns,
)
from boolweave.data.labels import (
    Labels,
    check_labels,
    checked_labels,
    find_labels,
    number_by_appearance,
    place_of,
)
from boolweave.runtime.free_memory import check_free, format_bytes
from boolweave.runtime.types import Array, Integers

if TYPE_CHECKING:
    import narwhals.stable.v1 as nw

    from boolweave.data.observations import Observations

Names: TypeAlias = Iterable[object] | None


# ---------------------------------------------------------------- arrays


def from_dense(
    array: ArrayLike, row_labels: Names, column_labels: Names, words: CellWords = USUAL
) -> CompressedRows:
    """Take the entries of a 0/1/NaN array, a masked array or nested lists."""
    try:
        cells = np.asarray(array)
    except ValueError as error:
        raise ValueError(
            "expected a matrix, rows × columns, but the rows differ in length; "
            "give every row the same number of cells, with NaN for missing ones"
        ) from error
    _check_two_dimensions(cells, type(array).__name__)
    labels = checked_labels(row_labels, column_labels, cells.shape)

    def place(position: int) -> str:
        row, column = divmod(position, cells.shape[1])
        return place_of(row, column, *labels)

    masked = None
    if isinstance(array, np.ma.MaskedArray) and array.mask is not np.ma.nomask:
        masked = np.ma.getmaskarray(array)
    return rows_from_codes(codes_of(cells, masked, place, words), *labels)


def from_codes(
    codes: Array, row_labels: Names = None, column_labels: Names = None
) -> CompressedRows:
    """Take the entries of a matrix of codes 0, 1 and MISSING, (M, N)."""
    _check_two_dimensions(codes, "ndarray")
    return rows_from_codes(codes, *checked_labels(row_labels, column_labels, codes.shape))


def _check_two_dimensions(cells: Array, kind: str) -> None:
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
            f"{kind} and shape {cells.shape}; {remedy}"
        )


# ---------------------------------------------------------------- triples


def from_triples(
    rows: ArrayLike,
    columns: ArrayLike,
    values: ArrayLike,
    shape: Shape | None,
    row_labels: Names,
    column_labels: Names,
    duplicates: str,
) -> CompressedRows:
    """Take the entries of three arrays of one length: rows, columns (indices or labels), values."""
    check_option("duplicates", duplicates, ("error", "majority"))
    row, column, codes, shape, labels = _coded(
        rows, columns, values, shape, row_labels, column_labels
    )
    return rows_from_packed(pack(row, column, codes, shape), shape, *labels, duplicates)


def pack_triples(
    triples: tuple[ArrayLike, ArrayLike, ArrayLike],
    labels: tuple[Labels | None, Labels | None],
    shape: Shape,
) -> Packed:
    """Pack the entries of three arrays, checked as in `from_triples`, for another process."""
    row, column, codes, _, _ = _coded(*triples, shape, *labels)
    return pack(row, column, codes, shape)


def from_coded_triples(
    rows: Integers,
    columns: Integers,
    codes: Array,
    shape: Shape,
    row_labels: Labels | None,
    column_labels: Labels | None,
    *,
    duplicates: str = "error",
    absent: str = "missing",
) -> CompressedRows:
    """Take the entries of indices and codes, (n,) in any order, and zeros for all others."""
    packed = pack(rows, columns, codes, shape)
    entries = rows_from_packed(packed, shape, row_labels, column_labels, duplicates)
    if absent == "missing":
        return entries
    cells = np.zeros(shape, dtype=np.uint8)
    # Cells for which only NaN is stored, or 0 and 1 equally often, stay missing.
    cells[rows, columns] = MISSING
    cells[np.repeat(np.arange(shape[0]), np.diff(entries.indptr)), entries.indices] = entries.values
    return rows_from_codes(cells, row_labels, column_labels)


def _coded(
    rows: ArrayLike,
    columns: ArrayLike,
    values: ArrayLike,
    shape: Shape | None,
    row_labels: Names,
    column_labels: Names,
) -> tuple[Integers, Integers, Array, Shape, tuple[Labels | None, Labels | None]]:
    """Turn triples into indices and codes, and find their shape and labels."""
    cells = np.asarray(values)
    n_rows, n_columns = (None, None) if shape is None else check_shape(shape)
    row, row_names, n_rows = positions_of(rows, row_labels, n_rows, "row")
    column, column_names, n_columns = positions_of(columns, column_labels, n_columns, "column")
    if cells.ndim != 1 or not len(row) == len(column) == len(cells):
        raise ValueError(
            "rows, columns and values must be 1-D and of the same length, but they have "
            f"the shapes {row.shape}, {column.shape} and {cells.shape}; "
            "pass one of each for every triple"
        )

    def place(position: int) -> str:
        return place_of(row[position], column[position], row_names, column_names)

    masked = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
    codes = codes_of(cells, masked, place)
    return row, column, codes, (n_rows, n_columns), (row_names, column_names)


def positions_of(
    index: ArrayLike, names: Names, length: int | None, axis: str
) -> tuple[Integers, Labels | None, int]:
    """Turn indices or labels of one axis into indices, and find its labels and its length."""
    array = np.asarray(index)
    if array.ndim != 1:
        raise ValueError(f"{axis}s must be 1-D, one for each triple, but got shape {array.shape}")
    if array.dtype.kind == "O" and all(isinstance(item, str) for item in array):
        array = array.astype(np.str_)
    labels = None
    if names is not None:
        names = names if isinstance(names, np.ndarray) else list(names)
        length = len(names) if length is None else length
        labels = check_labels(names, length, axis)
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


def _whole_numbers(array: Array, axis: str) -> Array:
    """Return numbers as they are, others as integers; raise if one is not a whole number."""
    if array.dtype.kind in "iu":
        return array
    if array.dtype.kind == "f":
        whole = np.isfinite(array) & (np.floor(array) == array)
    else:
        whole = np.array([isinstance(item, Integral) for item in array], dtype=bool)
    if whole.all():
        return array if array.dtype.kind == "f" else array.astype(np.int64)
    others = ~whole
    if array.dtype.kind == "O":  # a text is fine among texts
        others &= [not isinstance(item, str) for item in array]
    position = int(np.argmax(others))
    error = ValueError if array.dtype.kind == "f" else TypeError
    raise error(
        f"{axis}s must be all whole numbers or all labels (text), but triple {position} has "
        f"{axis} {array.tolist()[position]!r}; convert the {axis}s to integers or to text"
    )


def _positions_of_labels(
    names: Labels, labels: Labels | None, length: int | None, axis: str
) -> tuple[Integers, Labels, int]:
    numbers, distinct = number_by_appearance(names)
    if labels is None:
        if length is not None and length != len(distinct):
            raise ValueError(
                f"shape has {length} {axis}s, but the triples name {len(distinct)}; "
                f"pass {axis}_labels with all {length} names, or leave out the shape"
            )
        return numbers, distinct, len(distinct)
    at, known = find_labels(distinct, labels)
    if not known.all():
        position = int(np.argmin(known[numbers]))
        raise ValueError(
            f"every {axis} must be among the {axis}_labels, but triple {position} has {axis} "
            f"{str(names[position])!r}; add it to {axis}_labels, or leave out {axis}_labels"
        )
    return at[numbers], labels, len(labels)


# ---------------------------------------------------------------- tables


def is_table(data: object) -> bool:
    """Whether `data` is a table that narwhals knows, eager or lazy."""
    if isinstance(data, np.ndarray | list | tuple):
        return False
    import narwhals.stable.v1 as nw

    try:
        frame: Any = nw.from_native(data, pass_through=True)
    except ValueError:  # columns of the same name; `from_table` has an error that says so
        return True
    return isinstance(frame, nw.DataFrame | nw.LazyFrame)


def in_memory(table: Any, remedy: str) -> nw.DataFrame[Any]:
    """The narwhals table of a table in memory; the remedy is part of the error for others."""
    import narwhals.stable.v1 as nw

    try:
        return nw.from_native(table, eager_only=True)
    except TypeError as error:
        raise TypeError(
            f"expected a table in memory (pandas, polars, Arrow), but got {type(table).__name__}; "
            f"{remedy}"
        ) from error


def from_table(table: Any, words: CellWords = USUAL) -> CompressedRows:
    """Take the entries of a wide table; its names become labels."""
    import narwhals.stable.v1 as nw

    names: list[Any] = []
    if not hasattr(table, "collect"):  # a lazy table would have to compute its names
        names = list(getattr(table, "column_names", getattr(table, "columns", [])))
    # This is checked first, because narwhals has its own error for repeated names.
    check_labels(names, len(names), "column")
    names_count = names == list(range(len(names)))  # the default of pandas, not real names
    frame = in_memory(
        table, "collect a lazy table first, and use Observations.from_data for other kinds of input"
    )
    row_labels: Any = _index_labels(nw.maybe_get_index(frame))
    if has_label_column(frame, words):
        row_labels, names = frame.get_column(names[0]).to_list(), names[1:]
    if not names:
        return from_dense(np.empty((len(frame), 0), dtype=np.uint8), row_labels, None)
    # Columns are counted from the end, because a name that is not text could not be selected.
    frame = frame.select(nw.nth(*range(len(frame.columns) - len(names), len(frame.columns))))
    # Booleans become numbers first, because with nulls they would become Python objects.
    cells = frame.with_columns(nw.selectors.boolean().cast(nw.Int8)).to_numpy()
    return from_dense(cells, row_labels, None if names_count else names, words)


def has_label_column(frame: Any, words: CellWords = USUAL) -> bool:
    """Whether the first column of a narwhals table holds the labels of the rows: text, not cells.

    The index of a pandas table takes precedence, unless it consists of whole numbers without a
    name. That is the usual index, of which a selection of rows keeps only some numbers.
    """
    import narwhals.stable.v1 as nw

    index: Any = nw.maybe_get_index(frame)
    if _index_labels(index) is not None and (
        index.name is not None or index.dtype.kind not in "iu"
    ):
        return False
    if not frame.columns:
        return False
    first = frame.get_column(frame.columns[0])
    if not isinstance(first.dtype, nw.String | nw.Categorical | nw.Enum):
        return False
    return len(first) == 0 or any(words.code(cell) == WRONG for cell in set(first.to_list()))


def _index_labels(index: Any) -> list[object] | None:
    """The labels in the index of a pandas table; None if it has none or only counts the rows."""
    if index is None:
        return None
    counts = type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1
    return None if counts else list(index)


# ---------------------------------------------------------------- long tables


def from_long(
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
        check_room(shape, 'pass `absent="missing"` to use only the entries that the table holds')
    return from_coded_triples(
        m, n, codes, shape, row_labels, column_labels, duplicates=duplicates, absent=absent
    )


def _column_of(table: Any, name: str) -> Array:
    """A column of a table in memory."""
    frame = in_memory(table, "for arrays, use Observations.from_triples")
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
        return positions_of(keys, None, None, axis)
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
            f"expected a name in every row of {name!r}, but that of row {int(np.argmax(empty))} "
            "is missing; fill it in or remove the row"
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


# ---------------------------------------------------------------- sparse matrices


# The arrays of each format that locate the entries in `data`.
INDEX_ARRAYS = {
    "csr": ("indptr", "indices"),
    "csc": ("indptr", "indices"),
    "bsr": ("indptr", "indices"),
    "coo": ("row", "col"),
}


def is_sparse(data: object) -> bool:
    """Whether `data` comes from scipy.sparse; does not load scipy for anything else."""
    if "scipy.sparse" not in sys.modules:
        return False
    from scipy.sparse import issparse

    return bool(issparse(data))


def from_sparse(
    matrix: Any, absent: str, row_labels: Names, column_labels: Names, duplicates: str
) -> CompressedRows:
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
    if matrix.format in INDEX_ARRAYS:
        where = [getattr(matrix, name) for name in INDEX_ARRAYS[matrix.format]]
        check_indices(matrix.format, where, matrix.data, shape)
    if absent == "zero":
        check_room(shape, 'pass `absent="missing"` if only stored entries were observed')
    labels = checked_labels(row_labels, column_labels, shape)
    if absent == "missing" and matrix.format == "csr":
        entries = _from_tidy_csr(matrix, shape, *labels)
        if entries is not None:
            return entries
    rows, columns, data = stored(matrix)
    codes = codes_of(data, None, lambda n: place_of(rows[n], columns[n], *labels))
    return from_coded_triples(
        rows, columns, codes, shape, *labels, duplicates=duplicates, absent=absent
    )


def check_indices(kind: str, where: Sequence[Array], data: Array, shape: Shape) -> None:
    """Raise ValueError for indices out of range, which the conversions of SciPy would follow.

    `where` are the `INDEX_ARRAYS` of a sparse matrix of this format.
    """
    if kind == "coo":
        rows, columns = where
        if not len(rows) == len(columns) == len(data):
            raise ValueError(
                f"a sparse matrix has {len(rows)} rows, {len(columns)} columns and {len(data)} "
                "values, but must have the same number of each; create it again"
            )
        _check_range(rows, shape[0])
        _check_range(columns, shape[1])
        return
    indptr, indices = where
    height, width = data.shape[1:] if kind == "bsr" else (1, 1)
    n_runs, n_indices = shape[0] // height, shape[1] // width
    if kind == "csc":
        n_runs, n_indices = n_indices, n_runs
    if len(indptr) != n_runs + 1 or indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any():
        raise ValueError(
            f"indptr of a sparse matrix must have {n_runs + 1} numbers that begin with 0 and do "
            "not decrease; create the matrix again"
        )
    n_stored = int(indptr[-1])
    if n_stored > min(len(indices), len(data)):
        raise ValueError(
            f"indptr of a sparse matrix goes up to {n_stored}, but there are {len(indices)} "
            f"indices and {len(data)} values; create the matrix again"
        )
    _check_range(indices[:n_stored], n_indices)


def _check_range(indices: Array, size: int) -> None:
    if len(indices) and (indices.min() < 0 or indices.max() >= size):
        raise ValueError(
            f"indices of a sparse matrix must be from 0 to {size - 1}, but go from "
            f"{indices.min()} to {indices.max()}; correct them or the shape"
        )


def check_rows(shape: Shape, n_stored: int) -> None:
    """Raise ValueError for a matrix that consists almost entirely of empty rows."""
    # A matrix with more rows than this, nearly all of them empty, is considered damaged, because
    # every row takes some bytes even if it is empty.
    most_empty_rows = 10_000_000
    empty_for_each_entry = 100
    if shape[0] > max(most_empty_rows, empty_for_each_entry * n_stored):
        raise ValueError(
            f"a matrix of {shape[0]} x {shape[1]} with {n_stored} entries consists almost entirely "
            "of empty rows; correct its shape, or leave out the empty rows"
        )


def check_room(shape: Shape, remedy: str) -> None:
    """Raise MemoryError if a matrix whose absent entries are zeros would not fit into memory."""
    # Number of bytes of an entry while it is made, in addition to its column: code, value, and
    # whether it was observed.
    making = 3
    n_bytes = shape[0] * shape[1] * (making + np.dtype(index_dtype(shape[1])).itemsize)
    problem = (
        f"{shape[0]} rows × {shape[1]} columns take {format_bytes(n_bytes)} of memory if every "
        "absent entry is an observed zero"
    )
    check_free(n_bytes, problem, f"{remedy}, or use fewer rows or columns")


def _from_tidy_csr(
    matrix: Any, shape: Shape, row_labels: Labels | None, column_labels: Labels | None
) -> CompressedRows | None:
    """Take the entries of a CSR matrix without a copy; None if they are not in order."""
    indptr, n_stored = matrix.indptr, int(matrix.indptr[-1])
    indices, data = matrix.indices[:n_stored], matrix.data[:n_stored]

    def place(position: int) -> str:
        row = int(np.searchsorted(indptr, position, side="right")) - 1
        return place_of(row, indices[position], row_labels, column_labels)

    codes = codes_of(data, None, place)
    if (codes == MISSING).any() or not scan_columns(indptr, indices)[2]:
        return None
    indptr = indptr.astype(np.int64, copy=False)
    indices = indices.astype(index_dtype(shape[1]), copy=False)
    return CompressedRows(shape, indptr, indices, codes, row_labels, column_labels)


def stored(matrix: Any) -> tuple[Array, Array, Array]:
    """Rows, columns and values of all stored cells, including zeros and duplicates."""
    if matrix.format != "dia":
        triples = matrix.tocoo(copy=False)
        return triples.row, triples.col, triples.data
    # SciPy drops the zeros of stored diagonals on conversion; data[d, j] is cell (j - offset, j).
    columns = np.broadcast_to(np.arange(matrix.data.shape[1]), matrix.data.shape)
    rows = columns - matrix.offsets[:, np.newaxis]
    inside = (rows >= 0) & (rows < matrix.shape[0]) & (columns < matrix.shape[1])
    return rows[inside], columns[inside], matrix.data[inside]


# ---------------------------------------------------------------- weights


# An entry that counts more often than this leaves nothing to learn from all others.
LARGEST_WEIGHT = 1e12


def entry_weights(sample_weight: object, observations: Observations) -> NDArray[np.float64]:
    """The weight of every observed entry, in the order of `observations.values`.

    Parameters
    ----------
    sample_weight : array of shape (M,) or (M, N), table, or sparse matrix of shape (M, N)
        One weight for each row or for each entry, finite and non-negative. A sparse matrix holds
        the weights of some entries, and all others have the weight 1.
    observations : Observations, shape (M, N)

    Returns
    -------
    (n_observed,) array

    Examples
    --------
    >>> from boolweave import Observations
    >>> from boolweave.data.convert import entry_weights
    >>> entry_weights([2, 1], Observations.from_data([[1, 0], [float("nan"), 1]]))
    array([2., 2., 1.])
    """
    if is_sparse(sample_weight):
        return _of_stored(sample_weight, observations)
    weights = _numbers(np.asarray(cast("ArrayLike", sample_weight)))
    if weights.size and not weights.any():
        raise ValueError(
            "sample_weight must have a weight above zero, got only zeros, with which no entry "
            "counts; leave it out"
        )
    if weights.shape == (observations.n_rows,):
        _check(weights, lambda place: f"row {place}")
        return np.repeat(weights, np.diff(observations.indptr))
    _check_shape(weights.shape, observations)
    _check(
        weights.ravel(),
        lambda place: place_of(
            place // observations.n_columns, place % observations.n_columns, None, None
        ),
    )
    return weights[observations.rows_of_entries(), observations.indices]


def _of_stored(matrix: Any, observations: Observations) -> NDArray[np.float64]:
    """The weights of a sparse matrix; entries that it does not store have the weight 1."""
    _check_shape(matrix.shape, observations)
    matrix = matrix.tocoo()
    data = _numbers(matrix.data)
    rows, columns = matrix.row.astype(np.int64), matrix.col.astype(np.int64)
    _check(data, lambda place: place_of(rows[place], columns[place], None, None))
    place = rows * observations.n_columns + columns
    order = np.argsort(place, kind="stable")
    place, data = place[order], data[order]
    twice = np.flatnonzero(np.diff(place) == 0)
    if len(twice):
        where = place_of(*divmod(int(place[twice[0]]), observations.n_columns), None, None)
        raise ValueError(f"sample_weight stores {where} more than once; store each weight once")
    at, known = find_sorted(place, observations.cell_numbers())
    weights = np.ones(len(known))
    weights[known] = data[at[known]]
    return weights


def _numbers(array: NDArray[np.generic]) -> NDArray[np.float64]:
    if array.dtype.kind == "O":
        with suppress(TypeError, ValueError):
            array = array.astype(np.float64)
    if array.dtype.kind not in "biuf":
        raise ValueError(
            f"sample_weight must hold numbers, one for each row or entry, got {array.dtype}; "
            "leave out labels and other text"
        )
    return array.astype(np.float64)


def _check_shape(shape: tuple[int, ...], observations: Observations) -> None:
    if shape != observations.shape:
        (n_rows, n_columns) = observations.shape
        raise ValueError(
            f"sample_weight must have a weight for each row, shape ({n_rows},), or for each "
            f"entry, shape ({n_rows}, {n_columns}), like the data; got shape {shape}"
        )


def _check(weights: NDArray[np.float64], name_of: Callable[[int], str]) -> None:
    wrong = np.flatnonzero(~((weights >= 0) & (weights <= LARGEST_WEIGHT)))
    if len(wrong):
        raise ValueError(
            f"sample_weight must be at least 0 and at most {LARGEST_WEIGHT:g}, got "
            f"{weights[wrong[0]]:g} at {name_of(int(wrong[0]))} (counted from 0); use the weight 0 "
            "for entries that must not count"
        )
