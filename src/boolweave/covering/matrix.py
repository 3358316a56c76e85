"""The matrix to be covered, and the requirements for its cover.

A matrix holds its ones and its missing entries; all other entries are zeros.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from boolweave.covering.kernels.first_fit import Limits
from boolweave.covering.kernels.reducing import Allowed, Ones
from boolweave.data.convert import is_sparse
from boolweave.data.labels import find_labels, positions
from boolweave.data.observations import Absent, Observations
from boolweave.engine.kernels.bits import Words, n_words, pack, unpack
from boolweave.runtime.checks import check_count, is_number, is_whole
from boolweave.runtime.threads import cut
from boolweave.search.table import Bits

# Number of cells that are processed at once.
CELLS_AT_ONCE = 1 << 24

NO_LIMITS = Limits(1 << 60, 1 << 60)
NO_LEAST = Limits(1, 1)

Objective = Literal["roles", "assignments"]


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
        observations = Observations.from_sparse(data, absent="missing")
        found = cls.of_observations(observations, "zero")
        stored = data.tocoo()
        if stored.data.dtype.kind != "f" or not np.isnan(stored.data).any():
            return found
        where = np.isnan(stored.data)
        missing = _pattern(stored.row[where], stored.col[where], observations.shape)
        known = _pattern(observations.rows_of_entries(), observations.indices, observations.shape)
        missing = sparse.csr_array(missing - missing.multiply(known))
        missing.eliminate_zeros()
        return cls(observations, found.ones, missing)

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
    parts = [
        sparse.csr_array(np.isnan(observations.take_rows(rows).to_dense()), dtype=np.int8)
        for rows in cut(*observations.shape, CELLS_AT_ONCE)
    ]
    return sparse.csr_array(sparse.vstack(parts, format="csr"))


def packed(matrix: sparse.csr_array) -> Words:
    """Pack the entries of a sparse matrix by rows: (M, words of N)."""
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return packed_at(rows, matrix.indices.astype(np.int64), matrix.shape)


def packed_at(rows: NDArray[np.int64], columns: NDArray[np.int64], shape: tuple[int, int]) -> Words:
    """Pack a matrix with ones at these positions by rows: (M, words of N)."""
    words = np.zeros((shape[0], n_words(shape[1])), dtype=np.uint64)
    place = rows * words.shape[1] + (columns >> 6)
    bits = np.uint64(1) << (columns & 63).astype(np.uint64)
    np.bitwise_or.at(words.reshape(-1), place, bits)
    return words


# ---------------------------------------------------------------- equal lines


@dataclass(frozen=True, eq=False)
class Merged:
    """A matrix in which equal rows and equal columns are merged, mostly without empty ones.

    Attributes
    ----------
    shape : (int, int)
        The number of different rows and columns, M' and N'.
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
        cls,
        matrix: Matrix,
        fixed: Bits,
        rows: bool = True,
        columns: bool = True,
        fixed_rows: Bits | None = None,
        with_empty: bool = False,
    ) -> Merged:
        """Merge equal rows, or equal columns, or both.

        Parameters
        ----------
        matrix : Matrix, shape (M, N)
        fixed : (F, N) array
            The columns of the fixed factors; columns are equal only if they are in the same ones.
        rows, columns : bool
            Whether equal rows, and equal columns, are merged.
        fixed_rows : (M, F) array, optional
            The rows of the fixed factors; if given, rows are equal only if they are in the same
            factors.
        with_empty : bool
            Whether rows and columns without ones stay.
        """
        parts = [matrix.ones] if matrix.missing is None else [matrix.ones, matrix.missing]
        kept_rows, row_of, row_weight = _merged(
            parts, None if fixed_rows is None else fixed_rows.T, rows, with_empty
        )
        by_column = [part[kept_rows].T.tocsr() for part in parts]  # with rows in order
        kept_columns, column_of, column_weight = _merged(by_column, fixed, columns, with_empty)
        left = [part[kept_columns] for part in by_column]
        across = [part.T.tocsr() for part in left]
        ones, columns_allowed = packed(across[0]), packed(left[0])
        rows_allowed = ones
        if len(left) > 1:
            rows_allowed = ones | packed(across[1])
            columns_allowed = columns_allowed | packed(left[1])
        return cls(
            (len(kept_rows), len(kept_columns)),
            row_of,
            column_of,
            row_weight,
            column_weight,
            ones,
            Allowed(rows_allowed, columns_allowed),
            pack(fixed[:, kept_columns]),
            kept_rows,
        )

    def list_ones(self, active: Words) -> Ones:
        """List the active ones (M', words of N') by rows."""
        M, N = self.shape
        ones = [np.zeros((2, 0), dtype=np.int64)]
        for some in cut(M, N, CELLS_AT_ONCE):
            ones.append(np.array(np.nonzero(unpack(active[some], N))))
            ones[-1][0] += some.start
        rows, columns = np.concatenate(ones, axis=1)
        start = np.searchsorted(rows, np.arange(M + 1)).astype(np.int64)
        return Ones(start, rows, columns)

    def expanded(self, rows: Words, columns: Words) -> tuple[Bits, Bits]:
        """Unmerge tiles, (T, words of M') and (T, words of N'), to X (M, T) and Y (T, N)."""
        X = _expanded(unpack(rows, self.shape[0]), self.row_of).T
        return np.ascontiguousarray(X), _expanded(unpack(columns, self.shape[1]), self.column_of)


def _expanded(bits: Bits, line_of: NDArray[np.int64]) -> Bits:
    with_none = np.concatenate([bits, np.zeros((len(bits), 1), dtype=np.uint8)], axis=1)
    return with_none[:, line_of]


def _merged(
    parts: list[sparse.csr_array], more: Bits | None, merge: bool, with_empty: bool
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
    for line in np.flatnonzero(with_empty | (np.diff(ones.indptr) > 0)):
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


# ---------------------------------------------------------------- requirements


@dataclass(frozen=True, eq=False)
class Requirements:
    """The requirements for a cover.

    Attributes
    ----------
    most_missed, most_false : int
        Maximum numbers of missed ones and of false ones.
    most_factors : int or None
        Maximum number of factors, including fixed ones.
    fixed : (F, N) array
        The columns of the fixed factors, which the cover must contain.
    limits : Limits
        Maximum numbers of rows and columns of the other factors.
    fixed_names : tuple of str
        The names of the fixed factors; empty if they have none.
    least : Limits
        Minimum numbers of rows and columns of the other factors.
    most_of_row : int
        Maximum number of factors of a row.
    conflicts : tuple of (n,) arrays
        Sets of columns of which no other factor may have two.
    objective : "roles" or "assignments"
        Whether the number of factors counts first, or factors and assignments together.
    closed : bool
        Whether factors get every row and column that they can have without a false one.
    """

    most_missed: int
    most_false: int
    most_factors: int | None
    fixed: Bits
    limits: Limits
    fixed_names: tuple[str, ...] = ()
    least: Limits = NO_LEAST
    most_of_row: int = NO_LIMITS.rows
    conflicts: tuple[NDArray[np.intp], ...] = ()
    objective: Objective = "roles"
    closed: bool = False

    @property
    def has_rules(self) -> bool:
        """Whether there are rules beyond maximum numbers of rows and columns of a factor."""
        no_most = self.most_of_row == NO_LIMITS.rows
        return not (self.least == NO_LEAST and no_most and not self.conflicts)

    @classmethod
    def of(
        cls,
        matrix: Matrix,
        coverage: float = 1.0,
        false_ones: float = 0,
        n_components: int | None = None,
        fixed: Any = None,
        max_rows: int | None = None,
        max_columns: int | None = None,
        min_rows: int | None = None,
        min_columns: int | None = None,
        max_roles_per_row: int | None = None,
        conflicts: Any = None,
        objective: str = "roles",
        closed: bool = False,
    ) -> Requirements:
        """Check the parameters of `boolweave.cover`; raise ValueError or TypeError."""
        roles, names = _fixed(fixed, matrix)
        most = _limit("n_components", n_components)
        if most is not None and most < len(roles):
            raise ValueError(
                f"n_components must be at least the number of fixed factors, {len(roles)}, but got "
                f"{most}; allow more factors, or fix fewer"
            )
        n_ones = matrix.n_ones
        least = Limits(_limit("min_rows", min_rows) or 1, _limit("min_columns", min_columns) or 1)
        limits = Limits(
            _limit("max_rows", max_rows) or NO_LIMITS.rows,
            _limit("max_columns", max_columns) or NO_LIMITS.columns,
        )
        for name, low, high in zip(Limits._fields, least, limits, strict=True):
            if low > high:
                raise ValueError(
                    f"min_{name} must be at most max_{name}, {high}, but got {low}; no factor "
                    "could have as many"
                )
        if objective not in get_args(Objective):
            raise ValueError(f"objective must be 'roles' or 'assignments', but got {objective!r}")
        required = cls(
            n_ones - _least_covered(coverage, n_ones),
            _most_false(false_ones, n_ones),
            most,
            roles,
            limits,
            names,
            least,
            _limit("max_roles_per_row", max_roles_per_row) or NO_LIMITS.rows,
            _conflicts(conflicts, matrix),
            cast("Objective", objective),
            closed,
        )
        if closed and (required.has_rules or objective != "roles"):
            raise ValueError(
                "closed=True gives every factor all rows that it fits, with objective='roles' and "
                "without min_rows, min_columns, max_roles_per_row and conflicts; leave these out"
            )
        return required


def _least_covered(coverage: Any, n_ones: int) -> int:
    """The smallest number of ones whose share of all ones, as a float, is not below `coverage`."""
    if is_number(coverage) and 0 < coverage <= 1:
        least = int(np.ceil(float(coverage) * n_ones))
        return least - 1 if least and (least - 1) / n_ones >= float(coverage) else least
    raise ValueError(
        f"coverage must be a fraction of the ones, above 0 and at most 1, but got {coverage!r}"
    )


def _most_false(false_ones: Any, n_ones: int) -> int:
    """The maximum number of false ones: a whole number, or a fraction of the number of ones."""
    if is_whole(false_ones):
        if false_ones >= 0:
            return int(false_ones)
    elif is_number(false_ones) and 0 <= false_ones < 1:
        return int(float(false_ones) * n_ones + 1e-9)
    raise ValueError(
        "false_ones must be a non-negative whole number, or a fraction of the ones below 1, but "
        f"got {false_ones!r}"
    )


def _limit(name: str, value: object) -> int | None:
    return None if value is None else check_count(name, value, remedy="; None sets no limit")


def _conflicts(conflicts: Any, matrix: Matrix) -> tuple[NDArray[np.intp], ...]:
    """The columns of each set of conflicting columns, given by number or by name."""
    sets = []
    try:
        all_given = [] if conflicts is None else list(conflicts)
    except TypeError:
        raise ValueError(
            f"conflicts must be a list of lists of columns, got {conflicts!r}"
        ) from None
    for given in all_given:
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise ValueError(
                f"conflicts must be pairs or sets of columns, but one of them is {given!r}; pass a "
                "list of lists"
            )
        try:
            columns = np.unique(positions(list(given), matrix.observations, "column"))
        except ValueError as error:
            raise ValueError(f"conflicts: {error}") from None
        if len(columns) < 2:
            raise ValueError(
                f"conflicts must be sets of at least two columns, but one of them is {given!r}"
            )
        sets.append(columns)
    return tuple(sets)


def _fixed(fixed: Any, matrix: Matrix) -> tuple[Bits, tuple[str, ...]]:
    """The columns of the fixed factors, (F, N), matched by name if both matrices have names.

    Also returns the names of the factors, or nothing.
    """
    N = matrix.shape[1]
    if fixed is None:
        return np.zeros((0, N), dtype=np.uint8), ()
    if isinstance(fixed, list | tuple | np.ndarray) and np.ndim(fixed) == 1 and len(fixed):
        fixed = [fixed]
    try:
        given = Matrix.of_data(fixed)
    except (TypeError, ValueError) as error:
        raise type(error)(f"fixed: {error}") from None
    roles = np.zeros((given.shape[0], N), dtype=np.uint8)
    factor, column = given.ones.nonzero()
    names, known = given.observations.column_labels, matrix.observations.column_labels
    if names is not None and known is not None:
        at, found = find_labels(names, known)
        used = np.unique(column)
        if not found[used].all():
            unknown = str(names[used[~found[used]][0]])
            raise ValueError(
                f"fixed has the column {unknown!r}, which the matrix does not have; use the names "
                "of its columns"
            )
        column = at[column]
    elif given.shape[1] != N:
        raise ValueError(
            f"fixed must have {N} columns, as many as the matrix, but has {given.shape[1]}; pass a "
            "row of zeros and ones for each factor"
        )
    roles[factor, column] = 1
    if given.missing is not None:
        raise ValueError("fixed must be zeros and ones, but has missing entries; fill them in")
    empty = ~roles.any(axis=1)
    if empty.any():
        raise ValueError(f"fixed factor {int(np.argmax(empty)) + 1} has no columns; leave it out")
    labels = given.observations.row_labels
    return roles, () if labels is None else tuple(map(str, labels))
