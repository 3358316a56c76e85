"""Names of rows and columns in files, numbered in the order of their first appearance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from boolweave.data.labels import Labels
    from boolweave.runtime.types import Integers

# Keys whose range is at most this are numbered by a lookup table; other keys are sorted.
_TABLE_RANGE = 50_000_000


class Numbering:
    """The names of one axis that have appeared so far, all of one type."""

    def __init__(self) -> None:
        self._table: pl.DataFrame | None = None

    @property
    def dtype(self) -> pl.DataType | None:
        """Type of the names; None before the first names."""
        return None if self._table is None else self._table["key"].dtype

    def __len__(self) -> int:
        return 0 if self._table is None else self._table.height

    def number(self, keys: pl.Series) -> NDArray[np.int64]:
        """Number each key of a column without nulls; new ones get the next numbers."""
        import polars as pl

        if self._table is None:
            self._table = pl.DataFrame({"key": keys[:0], "code": pl.Series([], dtype=pl.Int64)})
        given = pl.DataFrame({"key": keys})
        new = given.unique(maintain_order=True).join(
            self._table, on="key", how="anti", maintain_order="left"
        )
        codes = np.arange(len(self), len(self) + new.height, dtype=np.int64)
        self._table = self._table.vstack(new.with_columns(pl.Series("code", codes)))
        found = given.join(self._table, on="key", how="left", maintain_order="left")
        return found["code"].to_numpy()

    def labels(self) -> Labels:
        """The names as text, in the order of their numbers."""
        keys = [] if self._table is None else self._table["key"].to_list()
        return np.array([str(key) for key in keys], dtype=np.str_)


def number_integers(keys: Integers) -> tuple[NDArray[np.int32], Labels]:
    """Number integer keys, all at once, and return their labels in that order."""
    if not len(keys):
        return np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.str_)
    keys = keys.astype(np.int64, copy=False)
    low, distinct = int(keys.min()), None
    if int(keys.max()) - low < _TABLE_RANGE:
        keys = keys - low
    else:
        distinct, keys = np.unique(keys, return_inverse=True)
    # Keys are written from the back, so that the first appearance of a key remains.
    first = np.full(int(keys.max()) + 1, len(keys), dtype=np.int64)
    first[keys[::-1]] = np.arange(len(keys) - 1, -1, -1)
    order = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(keys))]
    labels = (order + low if distinct is None else distinct[order]).astype(np.str_)
    first[order] = np.arange(len(order))
    return first.astype(np.int32)[keys], labels
