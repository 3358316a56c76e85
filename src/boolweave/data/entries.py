"""Entries as single numbers, for their way to the worker that will keep them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.data import convert
from boolweave.data.cells import MISSING, codes_of, place_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Row, column and value of an entry in one number of 64 bits: so many for column and value, more
# where there are more columns.
_BITS = 32


def _bits(shape: tuple[int, int]) -> int:
    """How many bits column and value take; ValueError where they leave too few for the row."""
    bits = max(_BITS, (shape[1] - 1).bit_length() + 1)
    if bits + (shape[0] - 1).bit_length() > 63:
        raise ValueError(
            f"{shape[0]} rows and {shape[1]} columns are too many to number their entries in 63 "
            "bits; leave out empty rows and columns, or give their labels as text"
        )
    return bits


def pack(part: tuple[Any, ...], labels: tuple[Any, Any], shape: tuple[int, int]) -> Any:
    """The entries of a partition as numbers, checked as in `Observations.from_triples`."""
    row, _, _ = convert._positions(part[0], labels[0], shape[0], "row")
    column, _, _ = convert._positions(part[1], labels[1], shape[1], "column")
    codes = codes_of(np.asarray(part[2]), None, lambda n: place_of(row[n], column[n], *labels))
    packed = (row << _bits(shape)) | (column << 1) | codes
    return packed[codes != MISSING]


def count(
    packed: NDArray[np.int64], shape: tuple[int, int]
) -> tuple[NDArray[np.int64], int, int]:  # fmt: skip
    """Entries of each row, ones, and a fingerprint that does not depend on the order."""
    mixed = packed.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    fingerprint = int((mixed ^ (mixed >> np.uint64(32))).sum(dtype=np.uint64))
    per_row = np.bincount(packed >> _bits(shape), minlength=shape[0])
    return per_row, int((packed & 1).sum()), fingerprint


def split(
    packed: NDArray[np.int64], bounds: NDArray[np.int64], shape: tuple[int, int]
) -> list[NDArray[np.int64]]:
    """The entries of each run of rows of a matrix."""
    run = np.searchsorted(bounds, packed >> _bits(shape), side="right")
    order = np.argsort(run, kind="stable")
    cuts = np.searchsorted(run[order], np.arange(1, len(bounds) + 1))
    return np.split(packed[order], cuts)


def unpacked(
    shape: tuple[int, int], top: int, parts: list[NDArray[np.int64]]
) -> tuple[Any, ...]:  # fmt: skip
    """Shape, indptr, columns and values of a run of rows; `top` rows are above it."""
    packed = np.concatenate(parts)
    bits = _bits(shape)
    column = (packed >> 1) & (2 ** (bits - 1) - 1)
    row, codes = (packed >> bits) - top, (packed & 1).astype(np.uint8)
    try:
        found = convert.entries_from_triples(row, column, codes, shape, None, None, "error")
    except ValueError as error:
        raise ValueError(f"{error} (rows are counted from row {top})") from None
    return found[:4]
