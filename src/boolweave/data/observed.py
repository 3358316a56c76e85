"""What all observed entries have, in this process or on the workers of a cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from boolweave.data.labels import whole_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import ArrayLike, NDArray

    from boolweave.data.labels import Labels
    from boolweave.data.observations import Observations, RandomState
    from boolweave.data.ones import SparseObservations
    from boolweave.runtime.types import Array, Integers

    # The remaining observations; rows, columns, values and weights of the entries held out.
    HeldOut = tuple["ObservedEntries", Array, Array, Array, NDArray[np.float64] | None]


class ObservedEntries(ABC):
    """Size, labels and counts of a partly observed matrix, and access to its entries.

    `Observations` list the entries in this process, `SparseObservations` only the ones, because all
    else is zero. Entries on the workers of a cluster are fetched when they are needed.
    """

    zeros: ClassVar[Literal["exact", "collective"]] = "exact"  # in words, to be shown
    shape: tuple[int, int]
    row_labels: Labels | None
    column_labels: Labels | None

    @property
    @abstractmethod
    def n_observed(self) -> int:
        """Number of observed entries."""

    @property
    @abstractmethod
    def n_ones(self) -> int:
        """Number of observed ones."""

    @property
    @abstractmethod
    def entries_by_row(self) -> NDArray[np.int64]:
        """Where the entries of each row start, (M + 1,); blocks of rows are cut by them."""

    @property
    @abstractmethod
    def n_bytes_in_files(self) -> int:
        """Number of bytes of the entries that are read from files on access."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A hash of shape and entries."""

    @abstractmethod
    def take_rows(self, index: ArrayLike | slice) -> Observations:
        """Take some rows, in the order asked for."""

    @abstractmethod
    def to_local(self) -> Observations:
        """Return all entries in this process."""

    @abstractmethod
    def sum_over_rows(
        self, function: Callable[[Observations, Array], Array], by_row: Array
    ) -> Array:
        """Add up a function of the entries of some rows, and of an array (M, …), over all rows.

        The function is called once for each run of rows that is kept together.
        """

    # ------------------------------------------------------------ derived properties

    @property
    def n_listed(self) -> int:
        """Number of entries that are listed: all observed ones, unless zeros are implied."""
        return self.n_observed

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

    # ------------------------------------------------------------ entries, listed or implied

    def fetched(self) -> Observations | SparseObservations:
        """Return the entries in this process; zeros that are not listed stay so."""
        return self.to_local()

    def without_entries(self) -> Observations | SparseObservations:
        """Shape and labels alone, as observations of nothing."""
        from boolweave.data.observations import Observations

        return Observations.from_triples(
            [],
            [],
            [],
            shape=self.shape,
            row_labels=self.row_labels,
            column_labels=self.column_labels,
        )

    def held_out_parts(
        self,
        n_folds: int,
        random_state: RandomState = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Iterator[HeldOut]:
        """Hold out each of `n_folds` random parts of the entries in turn.

        Yields the remaining observations, and rows, columns, values and weights of the entries of
        the part. If zeros are not listed, a part consists of ones and of a sample of zeros;
        otherwise, all entries are divided into parts, of whole answers if there are `groups` of
        columns, and the weights are None.
        """
        for part in self.to_local().folds(n_folds, random_state, groups=groups):
            yield (*part, None)

    def known_cells(self, rows: Integers) -> tuple[Integers, Integers]:
        """Positions among some rows, and columns, of the entries that must not be recommended.

        These are the observed entries; if zeros are not listed, they are the ones.
        """
        own = self.take_rows(rows)
        return own.rows_of_entries(), own.indices
