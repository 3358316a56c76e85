"""The matrix to be covered: its ones and its missing entries; all other entries are zeros."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from boolweave.covering.kernels.reducing import Allowed, Ones
from boolweave.data.observations import Observations
from boolweave.data.sparse import is_sparse
from boolweave.search.kernels.bits import n_words, pack, unpack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.data.observations import Absent
    from boolweave.search.kernels.bits import Words

    Bits = NDArray[np.uint8]

# Number of cells that are processed at once.
CELLS_AT_ONCE = 1 << 24


@dataclass(frozen=True, eq=False)
class Matrix:
    """A matrix of zeros, ones and missing entries, (M, N).

    Attributes
    ----------
    observations : Observations
        The given entries; for a sparse matrix, those that it stores.
    ones : csr_array
        The ones, with columns in order.
    missing : csr_array or None
        The missing entries, if there are any.
    """

    observations: Observations
    ones: sparse.csr_array
    missing: sparse.csr_array | None

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and columns."""
        return self.observations.shape

    @property
    def n_ones(self) -> int:
        """The number of ones."""
        return int(self.ones.nnz)

    @classmethod
    def of_data(cls, data: Any) -> Matrix:
        """Take any kind of matrix; entries that a sparse matrix does not store are zeros.

        Such zeros take no memory. A stored NaN is missing, and so are entries that `Observations`
        do not contain.
        """
        if not is_sparse(data):
            return cls.of_observations(Observations.from_data(data), "missing")
        seen = Observations.from_sparse(data, absent="missing")
        found = cls.of_observations(seen, "zero")
        stored = data.tocoo()
        if stored.data.dtype.kind != "f" or not np.isnan(stored.data).any():
            return found
        where = np.isnan(stored.data)
        missing = _pattern(stored.row[where], stored.col[where], seen.shape)
        known = _pattern(seen.rows_of_entries(), seen.indices, seen.shape)
        missing = sparse.csr_array(missing - missing.multiply(known))
        missing.eliminate_zeros()
        return cls(seen, found.ones, missing)

    @classmethod
    def of_observations(cls, observations: Observations, absent: Absent) -> Matrix:
        """Take observations; entries that they do not contain are zeros or missing."""
        is_one = observations.values == 1
        rows = observations.rows_of_entries()[is_one]
        ones = _pattern(rows, observations.indices[is_one], observations.shape)
        missing = None
        if absent == "missing" and not observations.is_complete:
            missing = _complement(observations)
        return cls(observations, ones, missing)


def _pattern(rows: Any, columns: Any, shape: tuple[int, int]) -> sparse.csr_array:
    """Ones at these positions, in order and without duplicates."""
    pattern = sparse.csr_array((np.ones(len(rows), dtype=np.int8), (rows, columns)), shape=shape)
    pattern.data[:] = 1
    pattern.sort_indices()
    return pattern


def _complement(observations: Observations) -> sparse.csr_array:
    """The entries that were not observed."""
    M, N = observations.shape
    step = max(1, CELLS_AT_ONCE // max(1, N))
    parts = [
        sparse.csr_array(
            np.isnan(observations.take_rows(slice(start, start + step)).to_dense()), dtype=np.int8
        )
        for start in range(0, M, step)
    ]
    return sparse.csr_array(sparse.vstack(parts, format="csr"))


def packed(matrix: sparse.csr_array) -> Words:
    """Pack the entries of a sparse matrix by rows: (M, words of N)."""
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return packed_at(rows, matrix.indices.astype(np.int64), matrix.shape)


def packed_at(
    rows: NDArray[np.int64], columns: NDArray[np.int64], shape: tuple[int, int]
) -> Words:  # fmt: skip
    """Pack a matrix with ones at these positions by rows: (M, words of N)."""
    words = np.zeros((shape[0], n_words(shape[1])), dtype=np.uint64)
    place = rows * words.shape[1] + (columns >> 6)
    bits = np.uint64(1) << (columns & 63).astype(np.uint64)
    np.bitwise_or.at(words.reshape(-1), place, bits)
    return words


# ---------------------------------------------------------------- equal lines


@dataclass(frozen=True, eq=False)
class Merged:
    """A matrix in which equal rows and equal columns are merged, without empty rows and columns.

    Attributes
    ----------
    shape : (int, int)
        The number of different rows and columns that have ones, M' and N'.
    row_of, column_of : (M,) and (N,) arrays
        The merged row or column of each row and column; −1 for those that are left out.
    row_weight, column_weight : (M',) and (N',) arrays
        The number of rows or columns that were merged.
    ones, allowed
        The ones by rows (M', words of N'); the ones and the missing entries by rows and by columns.
    fixed : (F, words of N')
        The columns of the fixed factors.
    first_rows : (M',) array
        The first of the rows that were merged.
    """

    shape: tuple[int, int]
    row_of: NDArray[np.int64]
    column_of: NDArray[np.int64]
    row_weight: NDArray[np.int64]
    column_weight: NDArray[np.int64]
    ones: Words
    allowed: Allowed
    fixed: Words
    first_rows: NDArray[np.int64]

    @classmethod
    def of(
        cls, matrix: Matrix, fixed: Bits, rows: bool = True, columns: bool = True,
        own: Bits | None = None,
    ) -> Merged:  # fmt: skip
        """Merge equal rows, or equal columns, or both.

        Parameters
        ----------
        matrix : Matrix, shape (M, N)
        fixed : (F, N) array
            The columns of the fixed factors; columns are equal only if they are in the same ones.
        rows, columns : bool
            Whether equal rows, and equal columns, are merged.
        own : (M, F) array, optional
            The rows of the fixed factors; if given, rows are equal only if they are in the same
            factors.
        """
        parts = [matrix.ones] if matrix.missing is None else [matrix.ones, matrix.missing]
        kept_rows, row_of, row_weight = _merged(parts, None if own is None else own.T, rows)
        by_column = [part[kept_rows].T.tocsr() for part in parts]  # with rows in order
        kept_columns, column_of, column_weight = _merged(by_column, fixed, columns)
        left = [part[kept_columns] for part in by_column]
        across = [part.T.tocsr() for part in left]
        ones, columns_allowed = packed(across[0]), packed(left[0])
        rows_allowed = ones
        if len(left) > 1:
            rows_allowed = ones | packed(across[1])
            columns_allowed = columns_allowed | packed(left[1])
        return cls(
            (len(kept_rows), len(kept_columns)), row_of, column_of, row_weight, column_weight,
            ones, Allowed(rows_allowed, columns_allowed), pack(fixed[:, kept_columns]), kept_rows,
        )  # fmt: skip

    def list_ones(self, active: Words) -> Ones:
        """List the active ones (M', words of N') by rows."""
        rows, columns = [], []
        step = max(1, CELLS_AT_ONCE // max(1, self.shape[1]))
        for start in range(0, self.shape[0], step):
            r, c = np.nonzero(unpack(active[start : start + step], self.shape[1]))
            rows.append(r + start)
            columns.append(c)
        row = np.concatenate([np.zeros(0, dtype=np.int64), *rows]).astype(np.int64)
        column = np.concatenate([np.zeros(0, dtype=np.int64), *columns]).astype(np.int64)
        begin = np.searchsorted(row, np.arange(self.shape[0] + 1)).astype(np.int64)
        return Ones(begin, row, column)

    def expanded(self, rows: Words, columns: Words) -> tuple[Bits, Bits]:
        """Unmerge tiles, (T, words of M') and (T, words of N'), to X (M, T) and Y (T, N)."""
        X = _expanded(unpack(rows, self.shape[0]), self.row_of).T
        return np.ascontiguousarray(X), _expanded(unpack(columns, self.shape[1]), self.column_of)


def _expanded(bits: Bits, line_of: NDArray[np.int64]) -> Bits:
    with_none = np.concatenate([bits, np.zeros((len(bits), 1), dtype=np.uint8)], axis=1)
    return with_none[:, line_of]


def _merged(
    parts: list[sparse.csr_array], more: Bits | None, merge: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The first of each set of equal lines, the set of each line, and the sizes of the sets.

    `parts` are the ones and the missing entries of the lines. In addition, the columns of `more`
    (F, lines) of equal lines must be equal.
    """
    ones = parts[0]
    line_of = np.full(ones.shape[0], -1, dtype=np.int64)
    first: list[int] = []
    found: dict[tuple[bytes, ...], int] = {}
    extra = None if more is None else np.ascontiguousarray(more.T)
    for line in np.flatnonzero(np.diff(ones.indptr)):
        if merge:
            key = tuple(
                part.indices[part.indptr[line] : part.indptr[line + 1]].tobytes() for part in parts
            )
            if extra is not None:
                key = (*key, extra[line].tobytes())
            at = found.setdefault(key, len(first))
        else:
            at = len(first)
        if at == len(first):
            first.append(int(line))
        line_of[line] = at
    weight = np.bincount(line_of[line_of >= 0], minlength=len(first)).astype(np.int64)
    return np.array(first, dtype=np.int64), line_of, weight
