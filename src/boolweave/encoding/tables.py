"""Conversion of any table to columns of polars, and of columns back to the kind of the input."""

from __future__ import annotations

from datetime import date, time, timedelta
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.data.cells import is_missing

if TYPE_CHECKING:
    import polars as pl

    from boolweave.data.cells import CellWords
    from boolweave.runtime.types import Array

# A number with a decimal comma.
_DECIMAL_COMMA = r"^[+-]?\d+(,\d+)?$"


def columns_of(table: Any, names: list[str]) -> list[pl.Series]:
    """The columns of a table or of an array (M, N) as series of polars with these names."""
    import narwhals.stable.v1 as nw

    if isinstance(table, np.ndarray):
        columns = [_series(name, table[:, j]) for j, name in enumerate(names)]
    else:
        frame: nw.DataFrame[Any] = nw.from_native(table, eager_only=True)
        columns = [
            _of_narwhals(name, frame.select(nw.nth(j)).get_column(frame.columns[j]))
            for j, name in enumerate(names)
        ]
    for column in columns:
        if column.dtype.is_float() and column.is_infinite().any():
            raise ValueError(
                f"column {column.name!r} contains infinity; use NaN for unknown numbers"
            )
    return columns


def _of_narwhals(name: str, column: Any) -> pl.Series:
    import polars as pl

    native = column.to_native()
    if isinstance(native, pl.Series):
        if native.dtype in (pl.Categorical, pl.Enum):
            native = native.cast(pl.String)
        return native.alias(name)
    return _series(name, column.to_numpy())


def _series(name: str, cells: Array) -> pl.Series:
    """A column of numbers, Booleans, dates, times or texts; mixed cells become texts."""
    import polars as pl

    if cells.dtype.kind in "biuf":
        return pl.Series(name, np.ascontiguousarray(cells))
    if cells.dtype.kind in "mM":
        return pl.Series(name, cells.astype(f"{cells.dtype.kind}8[us]"))
    values = [None if is_missing(cell) else cell for cell in cells.tolist()]
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, bool) for value in known):
        return pl.Series(name, values, dtype=pl.Boolean)
    if all(isinstance(value, Real) for value in known):
        numbers = [None if value is None else float(value) for value in values]
        return pl.Series(name, numbers, dtype=pl.Float64)
    if all(isinstance(value, date) for value in known):
        return pl.Series(name, values).cast(pl.Datetime("us"))
    if all(isinstance(value, time | timedelta) for value in known):
        return pl.Series(name, values)
    return pl.Series(name, [None if v is None else str(v) for v in values], dtype=pl.String)


def without_blanks(column: pl.Series, words: CellWords) -> pl.Series:
    """The column with nulls for missing values, and without blanks around texts."""
    import polars as pl

    if column.dtype.is_float():
        column = column.fill_nan(None)
    if column.dtype == pl.String:
        column = column.str.strip_chars()
    elif not (column.dtype.is_numeric() and words.missing):
        return column
    blank = [cell for cell in column.drop_nulls().unique().to_list() if words.is_blank(cell)]
    if not blank:
        return column
    return column.set(column.is_in(blank).fill_null(False), None)


def as_numbers(column: pl.Series) -> pl.Series | None:
    """A column of texts or numbers as floats; None if a text is not a number."""
    import polars as pl

    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        return column.cast(pl.Float64)
    if column.dtype != pl.String:
        return None
    numbers = column.cast(pl.Float64, strict=False)
    if numbers.null_count() > column.null_count():
        if not column.drop_nulls().str.contains(_DECIMAL_COMMA).all():
            return None
        numbers = column.str.replace(",", ".").cast(pl.Float64, strict=False)
    return numbers if numbers.drop_nulls().is_finite().all() else None


def as_dates(column: pl.Series) -> pl.Series | None:
    """A column of texts or dates as dates; None if a text is not a date such as 2024-12-31."""
    import polars as pl

    if column.dtype in (pl.Date, pl.Datetime):
        dates = column
        if getattr(column.dtype, "time_zone", None):
            dates = column.dt.replace_time_zone(None)
        return dates.cast(pl.Datetime("us"))
    if column.dtype != pl.String:
        return None
    day = r"^\d{4}-\d{1,2}-\d{1,2}([ T]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?Z?)?$"
    european = r"^\d{1,2}\.\d{1,2}\.\d{4}$"
    known = column.drop_nulls()
    if known.str.contains(european).all():
        dates = column.str.to_datetime("%d.%m.%Y", time_unit="us", strict=False)
    elif known.str.contains(day).all():
        dates = iso_dates(column)
    else:
        return None
    return None if dates.null_count() > column.null_count() else dates


def iso_dates(texts: pl.Series) -> pl.Series:
    """ISO dates, with or without a time of day after a blank or a T; null for other texts."""
    plain = texts.str.strip_chars().str.replace(" ", "T").str.strip_suffix("Z")
    plain = plain.str.replace(r"^([0-9-]+)$", "${1}T00:00").str.replace(r"(T\d+:\d+)$", "${1}:00")
    return plain.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", time_unit="us", strict=False)


def table_like(like: str, names: list[str], columns: list[list[object]], index: Any) -> Any:
    """Columns as a table of pandas, polars or Arrow, or as an array of objects (M, N)."""
    if like in ("polars", "pyarrow"):
        import polars as pl

        table = pl.DataFrame(
            [pl.Series(n, c, strict=False) for n, c in zip(names, columns, strict=True)]
        )
        return table if like == "polars" else table.to_arrow()
    if like == "pandas":
        import pandas as pd

        return pd.DataFrame(dict(zip(names, columns, strict=True)), index=index)
    cells = np.empty((len(columns[0]) if columns else 0, len(columns)), dtype=object)
    for j, column in enumerate(columns):
        cells[:, j] = column
    return cells
