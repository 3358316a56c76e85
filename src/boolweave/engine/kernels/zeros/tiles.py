"""Loops over the cells of the tiles of decoded factors, without a matrix of these cells.

A row is covered in the columns of all its factors. An array with one number for each column marks
those of the current row, so that the work is the area of the tiles, and the memory that of one row.
"""

import numpy as np

from boolweave.engine.kernels.jit import njit
from boolweave.runtime.types import Array, Floats, Integers

_i64 = np.int64
_u64 = np.uint64

# A table for the position of the only 1 in a word: all runs of 6 bits of this constant differ, and
# a multiplication by a power of two brings another of them to the top.
_DE_BRUIJN = _u64(0x03F79D71B4CB0A89)
_NUMBERS = np.zeros(64, dtype=np.int64)
for _bit in range(64):
    _NUMBERS[(0x03F79D71B4CB0A89 << _bit & (1 << 64) - 1) >> 58] = _bit


@njit(nogil=True, cache=True, error_model="numpy")
def count_bits(words: Array, counts: Integers) -> None:
    """Set counts[i] to the number of ones in words[i]; words (n, W) uint64."""
    for i in range(words.shape[0]):
        n = _i64(0)
        for w in range(words.shape[1]):
            word = words[i, w]
            while word:
                word &= word - _u64(1)
                n += 1
        counts[i] = n


@njit(nogil=True, cache=True, error_model="numpy")
def list_bits(words: Array, indptr: Integers, out: Integers) -> None:
    """Write the positions of the ones in words[i] to `out`, beginning at indptr[i]."""
    for i in range(words.shape[0]):
        at = indptr[i]
        for w in range(words.shape[1]):
            word = words[i, w]
            while word:
                lowest = word & (~word + _u64(1))
                out[at] = w * 64 + _NUMBERS[(lowest * _DE_BRUIJN) >> _u64(58)]
                at += 1
                word ^= lowest


@njit(nogil=True, cache=True, error_model="numpy")
def list_rows(indptr: Integers, columns: Integers, places: Integers, out: Integers) -> None:
    """Write the rows of each column to `out`, beginning at places[column], which is advanced."""
    for i in range(indptr.shape[0] - 1):
        for j in range(indptr[i], indptr[i + 1]):
            out[places[columns[j]]] = i
            places[columns[j]] += 1


@njit(nogil=True, cache=True, error_model="numpy")
def count_above_zero(beliefs: Floats, counts: Integers) -> None:
    """Set counts[i + 1] to the number of positive beliefs in row i of (n, m)."""
    for i in range(beliefs.shape[0]):
        n = _i64(0)
        for j in range(beliefs.shape[1]):
            n += _i64(beliefs[i, j] > 0)
        counts[i + 1] = n


@njit(nogil=True, cache=True, error_model="numpy")
def list_above_zero(beliefs: Floats, indptr: Integers, columns: Integers) -> None:
    """Write the columns of the positive beliefs in row i of (n, m), beginning at indptr[i]."""
    for i in range(beliefs.shape[0]):
        at = indptr[i]
        if at == indptr[i + 1]:
            continue
        for j in range(beliefs.shape[1]):
            if beliefs[i, j] > 0:
                columns[at] = j
                at += 1


@njit(nogil=True, cache=True, error_model="numpy")
def count_covered_cells(
    row_starts: Integers, row_factors: Integers, starts: Integers, columns: Integers,
    marks: Array,
) -> np.int64:  # fmt: skip
    """Count the cells at which the product is 1.

    Row m has the factors row_factors[row_starts[m]:row_starts[m + 1]]; factor k has the columns
    columns[starts[k]:starts[k + 1]]. marks (N,) int64 is scratch memory, −1 everywhere.
    """
    total = _i64(0)
    for m in range(row_starts.shape[0] - 1):
        first, last = row_starts[m], row_starts[m + 1]
        if last - first == 1:
            k = row_factors[first]
            total += starts[k + 1] - starts[k]
            continue
        for f in range(first, last):
            k = row_factors[f]
            for i in range(starts[k], starts[k + 1]):
                n = columns[i]
                total += _i64(marks[n] != m)
                marks[n] = m
    return total


@njit(nogil=True, cache=True, error_model="numpy")
def find_covered(
    row_starts: Integers, row_factors: Integers, starts: Integers, columns: Integers,
    indptr: Integers, listed: Integers, marks: Array, out: Array,
) -> None:  # fmt: skip
    """Set out[i] to whether the product is 1 at the listed cell i.

    It is like `count_covered_cells`; indptr (rows + 1,) and listed (cells,) are rows and columns of
    the cells.
    """
    for m in range(row_starts.shape[0] - 1):
        if indptr[m] == indptr[m + 1]:
            continue
        for f in range(row_starts[m], row_starts[m + 1]):
            k = row_factors[f]
            for i in range(starts[k], starts[k + 1]):
                marks[columns[i]] = m
        for i in range(indptr[m], indptr[m + 1]):
            out[i] = marks[listed[i]] == m


@njit(nogil=True, cache=True, error_model="numpy")
def list_covered_zeros(
    row_starts: Integers, row_factors: Integers, starts: Integers, columns: Integers,
    indptr: Integers, listed: Integers, every: int, n_before: int, marks: Array, counts: Integers,
    found: Integers,
) -> None:  # fmt: skip
    """Write the columns of every `every`-th covered cell that is not listed to `found`, by rows.

    It is like `count_covered_cells`. indptr (rows + 1,) and listed (cells,) are the cells that are
    not zeros, and n_before is the number of covered zeros in the rows above these. counts (rows,)
    becomes the number of cells found in each row, whose columns are in no particular order.
    """
    n_found, seen = _i64(0), _i64(n_before)
    n_rows = row_starts.shape[0] - 1
    for m in range(n_rows):
        first, last = row_starts[m], row_starts[m + 1]
        before = n_found
        if first < last:
            for i in range(indptr[m], indptr[m + 1]):
                marks[listed[i]] = m
        for f in range(first, last):
            k = row_factors[f]
            for i in range(starts[k], starts[k + 1]):
                n = columns[i]
                if marks[n] != m:
                    marks[n] = m
                    if seen % every == 0 and n_found < found.shape[0]:
                        found[n_found] = n
                        n_found += 1
                    seen += 1
        counts[m] = n_found - before


@njit(nogil=True, cache=True, error_model="numpy")
def count_likely_cells(
    row_starts: Integers, row_factors: Integers, row_chances: Floats, starts: Integers,
    columns: Integers, chances: Floats, negligible: float, indptr: Integers, listed: Integers,
    out: Array,
) -> np.int64:  # fmt: skip
    """Count the cells with P(z = 1) > ½; set out[i] to whether the listed cell i is one of them.

    It is like `find_covered`, but rows belong to factors, and columns to a factor, with a
    probability, the largest of a factor first: P(z = 1) = 1 − Π (1 − x y) over the terms that are
    not negligible.
    """
    n_columns = _i64(0)
    for i in range(columns.shape[0]):
        n_columns = max(n_columns, _i64(columns[i]) + 1)
    for i in range(listed.shape[0]):
        n_columns = max(n_columns, _i64(listed[i]) + 1)
    rest, marks = np.ones(n_columns), np.full(n_columns, -1)
    touched = np.empty(n_columns, _i64)
    total = _i64(0)
    for m in range(row_starts.shape[0] - 1):
        n_touched = 0
        for f in range(row_starts[m], row_starts[m + 1]):
            k, x = row_factors[f], row_chances[f]
            for i in range(starts[k], starts[k + 1]):
                if x * chances[i] < negligible:
                    break
                n = columns[i]
                if marks[n] != m:
                    marks[n] = m
                    rest[n] = 1.0
                    touched[n_touched] = n
                    n_touched += 1
                rest[n] *= 1.0 - x * chances[i]
        for i in range(n_touched):
            total += _i64(rest[touched[i]] < 0.5)
        for i in range(indptr[m], indptr[m + 1]):
            n = listed[i]
            out[i] = marks[n] == m and rest[n] < 0.5
    return total


@njit(nogil=True, cache=True, error_model="numpy")
def count_alone(
    row_starts: Integers, row_factors: Integers, starts: Integers, columns: Integers,
    indptr: Integers, ones: Integers, kept: Array, marks: Array, out: Integers,
) -> None:  # fmt: skip
    """Set out[k], (K, 2), to the numbers of ones and of cells that no other kept factor covers.

    It is like `find_covered`; kept (K,) tells which factors count.
    """
    owner = np.empty(marks.shape[0], _i64)  # the factor of a cell, or −1 if it has several
    for m in range(row_starts.shape[0] - 1):
        for f in range(row_starts[m], row_starts[m + 1]):
            k = row_factors[f]
            if not kept[k]:
                continue
            for i in range(starts[k], starts[k + 1]):
                n = columns[i]
                if marks[n] != m:
                    marks[n] = m
                    owner[n] = k
                    out[k, 1] += 1
                elif owner[n] >= 0:
                    out[owner[n], 1] -= 1
                    owner[n] = -1
        for i in range(indptr[m], indptr[m + 1]):
            n = ones[i]
            if marks[n] == m and owner[n] >= 0:
                out[owner[n], 0] += 1
