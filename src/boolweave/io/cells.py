"""Cells of files: their spellings and codes, ratings, and the observations made from them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from boolweave.data.cells import MISSING, USUAL, USUAL_SPELLINGS, WRONG, CellWords
from boolweave.data.convert import check_room, from_coded_triples
from boolweave.data.entries import ContradictionError
from boolweave.data.labels import Labels
from boolweave.data.observations import Absent, Duplicates, Observations
from boolweave.data.ones import SparseObservations, is_large_and_sparse
from boolweave.data.splits import in_entry_order
from boolweave.io.files import FileError
from boolweave.runtime.types import Array, Integers

if TYPE_CHECKING:
    import polars as pl

Seen = Observations | SparseObservations

# What is said of a table whose first three columns would be row, column and value, if the same rows
# and columns did not have both ones and zeros.
TRIPLES = '; pass `layout="triples"` with `duplicates="majority"` if each line is an entry'
RATINGS = "if these are ratings, choose which are ones with `above` mean, median or NUMBER"


def is_cell(text: str, words: CellWords = USUAL) -> bool:
    """Whether a text can be a cell of a Boolean table."""
    return words.code(text) != WRONG


# Other spellings of the numbers 0 and 1, such as 01, +1, 1.00 and 1e0.
ZERO_OR_ONE = r"^\s*[+-]?0*[01]?(?:\.0*)?(?:[eE]0+)?\s*$"


def codes_of_column(column: pl.Series, words: CellWords) -> NDArray[np.uint8]:
    """Code the cells of a column, text or typed, as 0, 1, MISSING or WRONG.

    An empty cell is missing, unless the user gave it another meaning, as in a table of marks.
    """
    import polars as pl

    empty = column.is_null().to_numpy()
    blank = words.code("") if empty.any() else MISSING
    if column.dtype.is_numeric():
        codes = words.number_codes(column.cast(pl.Float64).fill_null(np.nan).to_numpy())
        codes[empty] = blank
        return codes
    codes = np.where(empty, np.uint8(blank), np.uint8(WRONG))
    if column.dtype == pl.String and not words.codes:  # mostly just these two
        for number in (0, 1):
            equal = (column == str(number)).fill_null(False).to_numpy()
            codes = np.where(equal, np.uint8(number), codes)
    if not (codes == WRONG).any():
        return codes
    cells = column.drop_nulls().unique()
    if column.dtype == pl.String and not words.codes:  # there may be millions of other texts
        usual = cells.str.strip_chars().str.to_lowercase().is_in(USUAL_SPELLINGS)
        cells = cells.filter(usual | cells.str.contains(ZERO_OR_ONE))
    for cell in cells.to_list():
        code = words.code(cell)
        if code != WRONG:
            codes[(column == cell).fill_null(False).to_numpy()] = code
    return codes


def ratings_of_texts(
    column: pl.Series, words: CellWords
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Ratings, NaN where missing, and a mask of the texts that are not numbers."""
    import polars as pl

    numbers = column.cast(pl.Float64, strict=False)
    if not words.codes and numbers.is_finite().all() and not numbers.null_count():
        return numbers.to_numpy(), np.zeros(len(numbers), dtype=bool)
    plain = column.fill_null("").str.strip_chars()
    ratings = plain.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy().copy()
    blank = [cell for cell in plain.unique().to_list() if words.is_blank(cell)]
    missing = plain.is_in(blank).to_numpy()
    ratings[missing] = np.nan
    return ratings, ~np.isfinite(ratings) & ~missing


# ---------------------------------------------------------------- times


def times_of_column(column: pl.Series, name: str) -> Array:
    """The times in a column: numbers, dates, or texts of numbers or of ISO dates, (n,)."""
    import polars as pl

    from boolweave.encoding.tables import iso_dates

    times = column.cast(pl.Datetime("us"), strict=False) if column.dtype.is_temporal() else column
    if column.dtype == pl.String:
        times = column.str.strip_chars().cast(pl.Float64, strict=False)
        if times.null_count() and (dates := iso_dates(column)).null_count() < times.null_count():
            times = dates
    elif not (column.dtype.is_temporal() or column.dtype.is_numeric()):
        times = pl.Series([None] * len(column), dtype=pl.Float64)
    if times.dtype.is_float():
        times = times.fill_nan(None)
    if times.null_count():
        at = int(times.is_null().arg_max() or 0)
        raise FileError(
            name,
            "expected a number or a date such as 2024-12-31 for the time of entry "
            f"{at + 1}, got {column[at]!r}; correct it",
            column=repr(column.name),
        )
    return times.to_numpy()


# ---------------------------------------------------------------- observations


@contextmanager
def naming_file(name: str) -> Iterator[None]:
    """Turn errors about data into errors about the file that holds them."""
    try:
        yield
    except FileError:
        raise
    except ContradictionError as error:
        raise TwiceError(name, str(error)) from None
    except (ValueError, TypeError) as error:
        raise FileError(name, str(error)) from None


class TwiceError(FileError):
    """An entry that is given as both 0 and 1."""


def observe(
    row: Integers,
    column: Integers,
    codes: NDArray[np.uint8],
    row_labels: Labels | None,
    column_labels: Labels | None,
    name: str,
    *,
    shape: tuple[int, int] | None = None,
    duplicates: Duplicates = "error",
    absent: Absent = "missing",
    zeros: str = "exact",
) -> Seen:
    """Make observations from coded triples; without a shape, the labels determine it.

    If absent entries are zeros, `zeros` says whether to list them: "exact", "collective" or "auto".
    """
    if shape is None:
        assert row_labels is not None and column_labels is not None
        shape = (len(row_labels), len(column_labels))
    only_ones = lists_only_ones(shape, len(row), absent, zeros)
    if absent == "zero" and not only_ones:
        check_size(shape, name)
    with naming_file(name):
        entries = from_coded_triples(
            row,
            column,
            codes,
            shape,
            row_labels,
            column_labels,
            duplicates=duplicates,
            absent="missing" if only_ones else absent,
        )
        if only_ones:
            return SparseObservations.from_listed(entries, row, column)
        return Observations(*entries)


def lists_only_ones(shape: tuple[int, int], n: int, absent: Absent, zeros: str) -> bool:
    """Whether the zeros of a matrix with n listed entries are not listed."""
    if absent == "missing":
        return False
    return zeros == "collective" or (zeros == "auto" and is_large_and_sparse(shape, n))


def observe_times(
    observations: Observations, row: Integers, column: Integers, times: list[pl.Series], name: str
) -> Array:
    """The times of coded triples, given in pieces, in the order of their observations."""
    import polars as pl

    return in_entry_order(observations, row, column, times_of_column(pl.concat(times), name))


def check_size(shape: tuple[int, int], name: str) -> None:
    """Raise FileError if a matrix has too many zeros to list."""
    try:
        check_room(shape, 'pass `absent="missing"` to use only the entries that the file holds')
    except MemoryError as error:
        raise FileError(name, str(error)) from None


# ---------------------------------------------------------------- names


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
    # Keys whose range is at most this are numbered by a lookup table; other keys are sorted.
    table_range = 50_000_000
    if int(keys.max()) - low < table_range:
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
