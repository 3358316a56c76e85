"""The protocol of observed entries, which may be in this process or on the workers of a cluster."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from boolweave.data.labels import whole_numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from boolweave.data.labels import Labels
    from boolweave.data.observations import Observations
    from boolweave.runtime.types import Array


class ObservedEntries(Protocol):
    """Size, labels and counts of a partly observed matrix, and access to its entries.

    `Observations` keep the entries in this process; entries on the workers of a cluster fulfil the
    same protocol and are fetched only by `take_rows` and `to_local`.
    """

    shape: tuple[int, int]
    row_labels: Labels | None
    column_labels: Labels | None

    @property
    def n_observed(self) -> int:
        """Number of observed entries."""
        ...

    @property
    def n_ones(self) -> int:
        """Number of observed ones."""
        ...

    @property
    def entries_by_row(self) -> NDArray[np.int64]:
        """Where the entries of each row start, (M + 1,); blocks of rows are cut by them."""
        ...

    @property
    def n_bytes_in_files(self) -> int:
        """Number of bytes of the entries that are read from files on access."""
        ...

    @property
    def fingerprint(self) -> str:
        """A hash of shape and entries."""
        ...

    def take_rows(self, index: ArrayLike | slice) -> Observations:
        """Take some rows, in the order asked for."""
        ...

    def to_local(self) -> Observations:
        """Return all entries in this process."""
        ...

    def sum_over_rows(
        self, function: Callable[[Observations, Array], Array], by_row: Array
    ) -> Array:
        """Add up a function of the entries of some rows, and of an array (M, …), over all rows.

        The function is called once for each run of rows that is kept together.
        """
        ...

    # ------------------------------------------------------------ derived properties

    @property
    def n_rows(self) -> int:
        """Number of rows, M."""
        return self.shape[0]

    @property
    def n_columns(self) -> int:
        """Number of columns, N."""
        return self.shape[1]

    @property
    def is_complete(self) -> bool:
        """Whether every entry is observed."""
        return self.n_observed == self.n_rows * self.n_columns

    @property
    def share_of_ones(self) -> float:
        """Fraction of ones among the observed entries; 0 if there are no entries."""
        return self.n_ones / max(self.n_observed, 1)

    @cached_property
    def row_order(self) -> NDArray[np.intp]:
        """Positions of the rows in the order of their labels, (M,)."""
        return np.argsort(self.row_labels)  # type: ignore[arg-type]

    @cached_property
    def column_order(self) -> NDArray[np.intp]:
        """Positions of the columns in the order of their labels, (N,)."""
        return np.argsort(self.column_labels)  # type: ignore[arg-type]

    @cached_property
    def row_numbers(self) -> NDArray[np.int64] | None:
        """Labels of the rows as whole numbers, (M,), if all of them are whole numbers."""
        return None if self.row_labels is None else whole_numbers(self.row_labels)

    @cached_property
    def column_numbers(self) -> NDArray[np.int64] | None:
        """Labels of the columns as whole numbers, (N,), if all of them are whole numbers."""
        return None if self.column_labels is None else whole_numbers(self.column_labels)
