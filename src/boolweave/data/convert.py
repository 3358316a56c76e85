"""Conversion of arrays, tables, sparse matrices and triples into observed entries.

Every kind of input goes through the same two steps: `codes_of` turns cells into one byte
each (0, 1 or MISSING) or names the first cell that is none of these, and then
`rows_from_codes` or `rows_from_packed` puts the observed entries in order.
"""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from boolweave.data.cells import MISSING, USUAL, WRONG, CellWords, check_option, codes_of
from boolweave.data.entries import (
    CompressedRows,
    Packed,
    Shape,
    check_shape,
    pack,
    rows_from_codes,
    rows_from_packed,
)
from boolweave.data.labels import (
    Labels,
    check_labels,
    checked_labels,
    find_labels,
    number_by_appearance,
    place_of,
)
from boolweave.runtime.types import Array, Integers

if TYPE_CHECKING:
    import narwhals.stable.v1 as nw
    from numpy.typing import ArrayLike

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
