"""Sparse matrices: checks of indices that SciPy omits, and conversion to entries."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from boolweave.data.cells import MISSING, check_option, codes_of
from boolweave.data.convert import Names, from_coded_triples
from boolweave.data.entries import CompressedRows, Shape, index_dtype, scan_columns
from boolweave.data.labels import Labels, checked_labels, place_of
from boolweave.runtime.free_memory import format_bytes, free_memory
from boolweave.runtime.types import Array

# The arrays of each format that locate the entries in `data`.
INDEX_ARRAYS = {
    "csr": ("indptr", "indices"),
    "csc": ("indptr", "indices"),
    "bsr": ("indptr", "indices"),
    "coo": ("row", "col"),
}

# A matrix with more rows than this, nearly all of them empty, is considered damaged, because every
# row takes some bytes even if it is empty.
_MOST_EMPTY_ROWS = 10_000_000
_EMPTY_FOR_EACH_ENTRY = 100

# Number of bytes of an entry while it is made, in addition to its column: code, value, and whether
# it was observed.
_MAKING = 3


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
    if shape[0] > max(_MOST_EMPTY_ROWS, _EMPTY_FOR_EACH_ENTRY * n_stored):
        raise ValueError(
            f"a matrix of {shape[0]} x {shape[1]} with {n_stored} entries consists almost entirely "
            "of empty rows; correct its shape, or leave out the empty rows"
        )


def check_room(shape: Shape, remedy: str) -> None:
    """Raise MemoryError if a matrix whose absent entries are zeros would not fit into memory."""
    n_bytes = shape[0] * shape[1] * (_MAKING + np.dtype(index_dtype(shape[1])).itemsize)
    free = free_memory()
    if free is not None and n_bytes > free:
        raise MemoryError(
            f"{shape[0]} rows × {shape[1]} columns take {format_bytes(n_bytes)} of memory if every "
            f"absent entry is an observed zero, but {format_bytes(free)} are free; {remedy}, or "
            "use fewer rows or columns"
        )


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
