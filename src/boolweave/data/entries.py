"""Entries as single numbers, and the compressed rows that result from sorting them.

Row, column and value of an entry are packed into one number of 64 bits, so that one plain sort puts
all three in order, and so that entries go to a file or to another process as one array.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boolweave.data.cells import MISSING
from boolweave.data.labels import Labels, checked_labels, place_of
from boolweave.runtime.storage import iterate_chunks
from boolweave.runtime.types import Array, Integers

Shape: TypeAlias = tuple[int, int]
Packed = NDArray[np.int64]  # (n,) entries as numbers


class ContradictionError(ValueError):
    """An entry that is given as both 0 and 1."""


class CompressedRows(NamedTuple):
    """The fields of `Observations`, in its order."""

    shape: Shape
    indptr: NDArray[np.int64]
    indices: Integers
    values: NDArray[np.uint8]
    row_labels: Labels | None = None
    column_labels: Labels | None = None


def index_dtype(n_columns: int) -> type[np.int32] | type[np.int64]:
    """Choose the type of column indices: 4 bytes if they suffice."""
    return np.int32 if n_columns < 2**31 else np.int64


def check_shape(shape: Iterable[Any]) -> Shape:
    """Return `shape` as two non-negative whole numbers."""
    try:
        n_rows, n_columns = (int(length) for length in shape)
        if n_rows >= 0 and n_columns >= 0 and (n_rows, n_columns) == tuple(shape):
            return n_rows, n_columns
    except (TypeError, ValueError):
        pass
    raise ValueError(f"shape must be two whole numbers, (rows, columns), but got {shape!r}")


def scan_columns(indptr: Array, indices: Array) -> tuple[int, int, bool]:
    """Find the smallest and largest column, and whether columns increase strictly in every row.

    Without entries these are 0, −1 and True.
    """
    ends: list[int] = []
    increase, first = True, 0
    begins = indptr[1:-1]
    for part in iterate_chunks(indices, overlap=1):
        ends += [int(part.min()), int(part.max())]
        increases = part[1:] > part[:-1]
        here = begins[slice(*np.searchsorted(begins, [first + 1, first + len(part)]))]
        increases[here - first - 1] = True  # the order begins again with every row
        increase = increase and bool(increases.all())
        first += len(part) - 1
    return min(ends, default=0), max(ends, default=-1), increase


def row_index(index: ArrayLike | slice, n_rows: int) -> Array | slice:
    """An index of rows: a slice, or a 1-D array of positions or Booleans; raise if it is not."""
    if isinstance(index, slice):
        return index
    array = np.asarray(index)
    if array.ndim != 1:
        raise ValueError(f"index must be 1-D, but has shape {array.shape}; pass a list")
    if not array.size:
        return array.astype(np.intp)
    if array.dtype.kind == "b":
        if len(array) != n_rows:
            raise ValueError(
                f"index must have {n_rows} Booleans, one for each row, got {len(array)}"
            )
    elif array.dtype.kind not in "iu":
        raise ValueError(f"index must hold positions of rows or Booleans, got {array.dtype}")
    elif not (-n_rows <= array.min() and array.max() < n_rows):
        raise IndexError(
            f"index must be at least {-n_rows} and below {n_rows}, the number of rows, got "
            f"{array.min()} to {array.max()}"
        )
    return array


def select_rows(indptr: Array, index: Array | slice) -> tuple[NDArray[np.int64], Integers]:
    """The indptr of some rows, in the given order, and the positions of their entries."""
    starts = indptr[:-1][index]
    lengths = indptr[1:][index] - starts
    chosen = np.concatenate([[0], np.cumsum(lengths)])
    return chosen, np.repeat(starts - chosen[:-1], lengths) + np.arange(chosen[-1])


def spread(n: int, most: int) -> NDArray[np.intp]:
    """Up to `most` positions among n, evenly spread."""
    return np.arange(n) if n <= most else np.linspace(0, n - 1, max(1, most)).astype(np.intp)


def cells_outside(
    rows: Integers, columns: Integers, n_columns: int, listed: Iterable[tuple[Integers, Integers]]
) -> tuple[Integers, Integers]:
    """Rows and columns of the cells of some rows and columns that are not listed.

    The lists have a position among `rows`, and a column from 0 to n_columns − 1, for each cell.
    """
    place = np.full(n_columns, -1, dtype=np.int64)
    place[columns] = np.arange(len(columns))
    outside = np.ones((len(rows), len(columns)), dtype=bool)
    for row, column in listed:
        inside = place[column] >= 0
        outside[row[inside], place[column[inside]]] = False
    m, n = np.nonzero(outside)
    return rows[m], columns[n]


def find_sorted(numbers: Integers, wanted: Integers) -> tuple[Integers, NDArray[np.bool_]]:
    """The position of each wanted number among increasing numbers, and whether it is there."""
    if not len(numbers):
        return np.zeros(len(wanted), dtype=np.intp), np.zeros(len(wanted), dtype=bool)
    at = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
    return at, numbers[at] == wanted


def checked(rows: CompressedRows) -> CompressedRows:
    """Return the fields of observations in their types; raise ValueError if they are invalid."""
    n_rows, n_columns = shape = check_shape(rows.shape)
    indptr = _typed(rows.indptr, np.int64, "indptr")
    indices = _typed(rows.indices, index_dtype(n_columns), "indices")
    values = _typed(rows.values, np.uint8, "values")
    n_entries = len(indices)
    if len(indptr) != n_rows + 1 or indptr[0] != 0 or indptr[-1] != n_entries:
        raise ValueError(
            f"indptr must have {n_rows + 1} numbers from 0 to {n_entries}, the number of entries, "
            f"but has {len(indptr)}; create observations with Observations.from_data"
        )
    if (indptr[1:] < indptr[:-1]).any():
        raise ValueError("indptr must not decrease; create observations with from_data")
    if len(values) != n_entries:
        raise ValueError(
            f"values and indices must have the same length, got {len(values)} and {n_entries}"
        )
    lowest, highest, increase = scan_columns(indptr, indices)
    if n_entries and (lowest < 0 or highest >= n_columns):
        raise ValueError(
            f"indices must be from 0 to {n_columns - 1}, but go from {lowest} to {highest}; "
            "correct them or the shape"
        )
    if not increase:
        raise ValueError(
            "indices must be strictly increasing within each row; "
            "use Observations.from_triples for entries in any order"
        )
    largest = max((part.max() for part in iterate_chunks(values)), default=0)
    if largest > 1:
        raise ValueError(f"values must be 0 or 1, but hold {largest}")
    labels = checked_labels(rows.row_labels, rows.column_labels, shape)
    return CompressedRows(shape, indptr, indices, values, *labels)


def _typed(array: ArrayLike, dtype: type[np.generic], name: str) -> Array:
    """Return `array` as a 1-D array of `dtype`; raise if that would change a number."""
    given = np.asarray(array)
    if given.ndim != 1:
        raise ValueError(f"{name} must be 1-D, but has shape {given.shape}")
    typed = given.astype(dtype, copy=False)
    if typed is not given and not np.array_equal(typed, given):
        raise ValueError(f"{name} must fit into {np.dtype(dtype)}, but holds other numbers")
    return typed


def rows_from_codes(
    codes: Array, row_labels: Labels | None = None, column_labels: Labels | None = None
) -> CompressedRows:
    """Take the entries of a matrix of codes, (M, N)."""
    n_rows, n_columns = codes.shape
    columns: Integers = np.arange(n_columns, dtype=index_dtype(n_columns))
    observed = codes != MISSING
    indptr = np.zeros(n_rows + 1, dtype=np.int64)
    np.cumsum(np.count_nonzero(observed, axis=1), out=indptr[1:])
    if observed.all():
        indices, values = np.tile(columns, n_rows), codes.flatten()
    else:
        indices, values = np.broadcast_to(columns, codes.shape)[observed], codes[observed]
    return CompressedRows((n_rows, n_columns), indptr, indices, values, row_labels, column_labels)


# ---------------------------------------------------------------- packed


def _column_bits(shape: Shape) -> int:
    """Number of bits of column and value; raise ValueError if too few remain for the row."""
    # Number of bits for column and value; more are used if there are more columns.
    column_bits = 32
    bits = max(column_bits, (shape[1] - 1).bit_length() + 1)
    if bits + (shape[0] - 1).bit_length() > 63:
        raise ValueError(
            f"{shape[0]} rows and {shape[1]} columns are too many to number their entries in 63 "
            "bits; leave out empty rows and columns, or give their labels as text"
        )
    return bits


def pack(rows: Integers, columns: Integers, codes: Array, shape: Shape) -> Packed:
    """Pack row, column and value of each entry into one number; missing entries are left out."""
    packed = rows.astype(np.int64)
    packed <<= _column_bits(shape)
    packed |= np.left_shift(columns, 1, dtype=np.int64, casting="unsafe")
    packed |= codes
    known = codes != MISSING
    return packed if known.all() else packed[known]


def row_of(packed: Packed, shape: Shape) -> Packed:
    """Return the row of each packed entry."""
    return packed >> _column_bits(shape)


def rows_from_packed(
    packed: Packed,
    shape: Shape,
    row_labels: Labels | None = None,
    column_labels: Labels | None = None,
    duplicates: str = "error",
    first_row: int = 0,
) -> CompressedRows:
    """Sort packed entries and merge those of the same cell; `packed` is overwritten.

    With `first_row`, the entries belong to a run of rows that begins there, and `shape` is the
    shape of that run.
    """
    n_rows, n_columns = shape
    bits = _column_bits((first_row + n_rows, n_columns)) - 1  # without the value
    if not (packed[1:] >= packed[:-1]).all():
        packed.sort()
    values = (packed & 1).astype(np.uint8)
    packed >>= 1
    is_first = np.ones(len(packed), dtype=bool)
    np.not_equal(packed[1:], packed[:-1], out=is_first[1:])
    if not is_first.all():
        starts = np.flatnonzero(is_first)
        counts = np.diff(starts, append=len(packed))
        ones = np.add.reduceat(values, starts, dtype=np.int64)
        disagree = (ones > 0) & (ones < counts)
        if duplicates == "error" and disagree.any():
            group = int(np.argmax(disagree))
            row, column = divmod(int(packed[starts[group]]), 1 << bits)
            raise ContradictionError(
                f"{place_of(row, column, row_labels, column_labels)} is given as both 0 and 1 "
                f"({counts[group] - ones[group]} and {ones[group]} times); remove the wrong ones, "
                'or pass `duplicates="majority"`'
            )
        decided = 2 * ones != counts
        packed = packed[starts][decided]
        values = (2 * ones > counts)[decided].astype(np.uint8)
    ends = np.arange(first_row, first_row + n_rows + 1, dtype=np.int64) << bits
    indptr = np.searchsorted(packed, ends).astype(np.int64, copy=False)
    packed &= (1 << bits) - 1
    indices: Integers = packed.astype(index_dtype(n_columns))
    return CompressedRows(shape, indptr, indices, values, row_labels, column_labels)


def count(packed: Packed, shape: Shape) -> tuple[NDArray[np.int64], int, int]:
    """Count the entries of each row and the ones, and hash all entries regardless of order."""
    mixed = packed.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    fingerprint = int((mixed ^ (mixed >> np.uint64(32))).sum(dtype=np.uint64))
    per_row = np.bincount(row_of(packed, shape), minlength=shape[0])
    return per_row, int((packed & 1).sum()), fingerprint


def split(packed: Packed, bounds: Integers, shape: Shape) -> list[Packed]:
    """Split packed entries into runs of rows; all runs but the first begin at `bounds`."""
    run = np.searchsorted(bounds, row_of(packed, shape), side="right")
    order = np.argsort(run, kind="stable")
    cuts = np.searchsorted(run[order], np.arange(1, len(bounds) + 1))
    return np.split(packed[order], cuts)
