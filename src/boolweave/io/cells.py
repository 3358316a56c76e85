"""Cells of files: their spellings and codes, ratings, and the observations made from them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from boolweave.data.cells import MISSING, USUAL, USUAL_SPELLINGS, WRONG, CellWords
from boolweave.data.convert import from_coded_triples
from boolweave.data.observations import Absent, Duplicates, Observations
from boolweave.data.ones import SparseObservations, is_large_and_sparse
from boolweave.data.sparse import check_room
from boolweave.data.splits import in_entry_order
from boolweave.io.files import FileError

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from boolweave.data.labels import Labels
    from boolweave.runtime.types import Array, Integers

Seen = Observations | SparseObservations

RATINGS = "if these are ratings, choose which are ones with `above` mean, median or NUMBER"


def is_cell(text: str, words: CellWords = USUAL) -> bool:
    """Whether a text can be a cell of a Boolean table."""
    return words.code(text) != WRONG


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
    codes = np.where(empty, blank, WRONG).astype(np.uint8)
    cells = column.drop_nulls().unique()
    if column.dtype == pl.String and not words.codes:  # there may be millions of other texts
        cells = cells.filter(cells.str.strip_chars().str.to_lowercase().is_in(USUAL_SPELLINGS))
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
            name, "expected a number or a date such as 2024-12-31 for the time of entry "
            f"{at + 1}, got {column[at]!r}; correct it", column=repr(column.name),
        )  # fmt: skip
    return times.to_numpy()


# ---------------------------------------------------------------- observations


@contextmanager
def naming_file(name: str) -> Iterator[None]:
    """Turn errors about data into errors about the file that holds them."""
    try:
        yield
    except FileError:
        raise
    except (ValueError, TypeError) as error:
        raise FileError(name, str(error)) from None


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
            row, column, codes, shape, row_labels, column_labels,
            duplicates=duplicates, absent="missing" if only_ones else absent,
        )  # fmt: skip
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
