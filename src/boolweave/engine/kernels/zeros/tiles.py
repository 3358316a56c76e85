"""Loops over the tiles of decoded factors, cell by cell, without a matrix of them.

A row is covered in the columns of all its factors. Columns are marked in an array of one number for
each: the work is the area of the tiles, the memory that of one row.
"""

import numpy as np

from boolweave.engine.kernels.jit import njit
from boolweave.runtime.types import Array, Floats, Integers

_i64 = np.int64
_u64 = np.uint64

# The number of the only bit of a word that is 1: every 6 bits in a row of this constant differ, and
# multiplied by a power of two it has others of them on top.
_DE_BRUIJN = _u64(0x03F79D71B4CB0A89)
_NUMBERS = np.zeros(64, dtype=np.int64)
for _bit in range(64):
    _NUMBERS[(0x03F79D71B4CB0A89 << _bit & (1 << 64) - 1) >> 58] = _bit


@njit(nogil=True, cache=True, error_model="numpy")
def count_bits(words: Array, counts: Integers) -> None:
    """counts[i] = how many bits of words[i] are 1; words (n, W) uint64."""
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
    """Write the numbers of the bits of words[i] that are 1, from indptr[i] on."""
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
    """Write the rows of each column one after another, from places[column] on, which advances."""
    for i in range(indptr.shape[0] - 1):
        for j in range(indptr[i], indptr[i + 1]):
            out[places[columns[j]]] = i
            places[columns[j]] += 1


@njit(nogil=True, cache=True, error_model="numpy")
def count_above_zero(beliefs: Floats, counts: Integers) -> None:
    """counts[i + 1] = how many of the beliefs (n, m) of i are above 0."""
    for i in range(beliefs.shape[0]):
        n = _i64(0)
        for j in range(beliefs.shape[1]):
            n += _i64(beliefs[i, j] > 0)
        counts[i + 1] = n


@njit(nogil=True, cache=True, error_model="numpy")
def list_above_zero(beliefs: Floats, indptr: Integers, columns: Integers) -> None:
    """Write where the beliefs (n, m) are above 0: those of i from indptr[i] on."""
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
    """How many cells the product makes 1 in all.

    Row m has the factors row_factors[row_starts[m]:row_starts[m + 1]]; factor k has the columns
    columns[starts[k]:starts[k + 1]]. marks (N,) int64: room for marks, all −1.
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
    """out[i] = whether the product makes the listed cell i a 1.

    As `count_covered_cells`; indptr (rows + 1,), listed (cells,): the columns of the cells.
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
) -> np.int64:  # fmt: skip
    """Write the covered cells that are not listed to `found`, by rows; every so many of them.

    As `count_covered_cells`. indptr (rows + 1,), listed (cells,): cells that are no zeros.
    n_before: how many there are in rows above these. counts (rows,): how many there are of each row
    afterwards. Columns of a row come in no order. Returns how many there are; `found` may be too
    short, then the rest is left out.
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
    return n_found


@njit(nogil=True, cache=True, error_model="numpy")
def count_likely_cells(
    row_starts: Integers, row_factors: Integers, row_chances: Floats, starts: Integers,
    columns: Integers, chances: Floats, negligible: float, indptr: Integers, listed: Integers,
    out: Array,
) -> np.int64:  # fmt: skip
    """How many cells are 1 with a probability above ½, in all; out[i]: whether listed cell i is.

    As `find_covered`, with the probability of every row to be of each of its factors, and of every
    column to be of the factor, the largest first: P(z = 1) = 1 − Π (1 − x y) over terms that are
    not negligible. out has as many numbers as `listed`.
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
    """out[k] = how many ones, and how many cells, no other factor covers, (K, 2).

    As `find_covered`; kept (K,): which factors there are. marks (N,) int64: room, all −1.
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
