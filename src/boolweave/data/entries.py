"""Entries as single numbers, and the compressed rows that come from sorting those.

Row, column and value of an entry are packed into one number of 64 bits, so that one plain sort puts
all three in order, and so that entries travel to a file or to another process as one array.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from boolweave.data.cells import MISSING
from boolweave.data.labels import Labels, place_of
from boolweave.runtime.storage import iterate_chunks
from boolweave.runtime.types import Array, Integers

Packed = NDArray[np.int64]  # (n,) entries as numbers

# Bits of column and value; more where there are more columns.
COLUMN_BITS = 32


class CompressedRows(NamedTuple):
    """The fields of `Observations`, in its order."""

    shape: tuple[int, int]
    indptr: NDArray[np.int64]
    indices: Integers
    values: NDArray[np.uint8]
    row_labels: Labels | None = None
    column_labels: Labels | None = None


def index_dtype(n_columns: int) -> type[np.int32] | type[np.int64]:
    """Choose the type of column indices: 4 bytes wherever they suffice."""
    return np.int32 if n_columns < 2**31 else np.int64


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
        increases[here - first - 1] = True  # a new row starts anew
        increase = increase and bool(increases.all())
        first += len(part) - 1
    return min(ends, default=0), max(ends, default=-1), increase


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


def _column_bits(shape: tuple[int, int]) -> int:
    """How many bits column and value take; ValueError where they leave too few for the row."""
    bits = max(COLUMN_BITS, (shape[1] - 1).bit_length() + 1)
    if bits + (shape[0] - 1).bit_length() > 63:
        raise ValueError(
            f"{shape[0]} rows and {shape[1]} columns are too many to number their entries in 63 "
            "bits; leave out empty rows and columns, or give their labels as text"
        )
    return bits


def pack(rows: Integers, columns: Integers, codes: Array, shape: tuple[int, int]) -> Packed:
    """Put row, column and value of each entry into one number; missing entries are left out."""
    packed = rows.astype(np.int64)
    packed <<= _column_bits(shape)
    packed |= np.left_shift(columns, 1, dtype=np.int64, casting="unsafe")
    packed |= codes
    known = codes != MISSING
    return packed if known.all() else packed[known]


def row_of(packed: Packed, shape: tuple[int, int]) -> Packed:
    """Tell the row of each packed entry."""
    return packed >> _column_bits(shape)


def rows_from_packed(
    packed: Packed,
    shape: tuple[int, int],
    row_labels: Labels | None = None,
    column_labels: Labels | None = None,
    duplicates: str = "error",
    first_row: int = 0,
) -> CompressedRows:
    """Put packed entries in order and merge those of the same cell; `packed` is used up.

    With `first_row`, they are those of a run of rows that begins there, and `shape` is its shape.
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
            raise ValueError(
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


def count(packed: Packed, shape: tuple[int, int]) -> tuple[NDArray[np.int64], int, int]:
    """Count entries of each row and ones; tell a fingerprint that the order does not change."""
    mixed = packed.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    fingerprint = int((mixed ^ (mixed >> np.uint64(32))).sum(dtype=np.uint64))
    per_row = np.bincount(row_of(packed, shape), minlength=shape[0])
    return per_row, int((packed & 1).sum()), fingerprint


def split(packed: Packed, bounds: Integers, shape: tuple[int, int]) -> list[Packed]:
    """Part packed entries into runs of rows; every run but the first begins at one of `bounds`."""
    run = np.searchsorted(bounds, row_of(packed, shape), side="right")
    order = np.argsort(run, kind="stable")
    cuts = np.searchsorted(run[order], np.arange(1, len(bounds) + 1))
    return np.split(packed[order], cuts)
