"""The requirements for a cover: checks of the parameters of `boolweave.cover`."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.covering.exact import NO_LIMITS
from boolweave.covering.kernels.first_fit import Limits
from boolweave.covering.matrix import Matrix
from boolweave.data.labels import find_labels
from boolweave.runtime.checks import check_count, is_whole

if TYPE_CHECKING:
    from boolweave.search.table import Bits


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
    """

    most_missed: int
    most_false: int
    most_factors: int | None
    fixed: Bits
    limits: Limits
    fixed_names: tuple[str, ...] = ()

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
        return cls(
            n_ones - int(np.ceil(_share(coverage) * n_ones - 1e-9)),
            _most_false(false_ones, n_ones),
            most,
            roles,
            Limits(
                _limit("max_rows", max_rows) or NO_LIMITS.rows,
                _limit("max_columns", max_columns) or NO_LIMITS.columns,
            ),
            names,
        )


def _share(coverage: Any) -> float:
    if _is_number(coverage) and 0 < coverage <= 1:
        return float(coverage)
    raise ValueError(
        f"coverage must be a fraction of the ones, above 0 and at most 1, but got {coverage!r}"
    )


def _most_false(false_ones: Any, n_ones: int) -> int:
    """The maximum number of false ones: a whole number, or a fraction of the number of ones."""
    if is_whole(false_ones):
        if false_ones >= 0:
            return int(false_ones)
    elif _is_number(false_ones) and 0 <= false_ones < 1:
        return int(float(false_ones) * n_ones + 1e-9)
    raise ValueError(
        "false_ones must be a non-negative whole number, or a fraction of the ones below 1, but "
        f"got {false_ones!r}"
    )


def _limit(name: str, value: object) -> int | None:
    return None if value is None else check_count(name, value, remedy="; None sets no limit")


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _fixed(fixed: Any, matrix: Matrix) -> tuple[Bits, tuple[str, ...]]:
    """The columns of the fixed factors, (F, N), matched by name if both matrices have names.

    Also returns the names of the factors, or nothing.
    """
    N = matrix.shape[1]
    if fixed is None:
        return np.zeros((0, N), dtype=np.uint8), ()
    if isinstance(fixed, list | tuple | np.ndarray) and np.ndim(fixed) == 1 and len(fixed):
        fixed = [fixed]
    given = Matrix.of_data(fixed)
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
        raise ValueError(
            f"fixed factor {int(np.argmax(empty)) + 1} has no columns; leave it out"
        )  # fmt: skip
    labels = given.observations.row_labels
    return roles, () if labels is None else tuple(map(str, labels))
