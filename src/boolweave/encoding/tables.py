"""Conversion of any table to columns of polars, and of columns back to the kind of the input."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from itertools import product
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.data.cells import is_missing

if TYPE_CHECKING:
    import polars as pl

    from boolweave.data.cells import CellWords
    from boolweave.runtime.types import Array

# A number with a decimal comma, which may have points between thousands, one with commas between
# thousands, and what may stand around one.
DECIMAL_COMMA = r"^[+-]?([0-9]+|[0-9]{1,3}(\.[0-9]{3})+)(,[0-9]+)?$"
THOUSANDS = r"^[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?$"
AROUND = r"[$€£¥%\s]|\b(USD|EUR|GBP)\b"

# Forms of dates and of times behind them: their look, and their formats in the order of trial.
_DATES = (
    (r"[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{4}", ("%d.%m.%Y",)),
    (r"[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{2}", ("%d.%m.%y",)),
    (r"[0-9]{1,2}/[0-9]{1,2}/[0-9]{4}", ("%m/%d/%Y", "%d/%m/%Y")),
    (r"[0-9]{1,2}/[0-9]{1,2}/[0-9]{2}", ("%m/%d/%y", "%d/%m/%y")),
    (r"[0-9]{1,2}-[0-9]{1,2}-[0-9]{4}", ("%d-%m-%Y", "%m-%d-%Y")),
    (r"[0-9]{4}/[0-9]{1,2}/[0-9]{1,2}", ("%Y/%m/%d",)),
    (r"[0-9]{1,2}-[A-Z][a-z]{2}-[0-9]{2}", ("%d-%b-%y",)),
    (r"[0-9]{1,2}[- ][A-Z][a-z]{2}[- ][0-9]{4}", ("%d-%b-%Y", "%d %b %Y")),
    (r"[A-Z][a-z]+ [0-9]{1,2},? [0-9]{4}", ("%B %d, %Y", "%b %d, %Y", "%B %d %Y", "%b %d %Y")),
)
_TIMES = (
    ("", ""),
    (r" [0-9]{1,2}:[0-9]{2}", " %H:%M"),
    (r" [0-9]{1,2}:[0-9]{2}:[0-9]{2}", " %H:%M:%S"),
    (r" [0-9]{1,2}:[0-9]{2} [AP]M", " %I:%M %p"),
    (r" [0-9]{1,2}:[0-9]{2}:[0-9]{2} [AP]M", " %I:%M:%S %p"),
)
# A date in the form of ISO 8601, with or without a time, and what `date` prints without the zone.
_ISO_LOOK = r"^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([ T][0-9]{1,2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?Z?)?$"
_ISO, _UNIX = "%Y-%m-%d", "%b %d %H:%M:%S %Y"
# The words for the codes of a form, in which a plan shows it.
_FORM_WORDS = {
    "%Y": "year", "%y": "yy", "%m": "month", "%d": "day", "%B": "Month", "%b": "Mon", "%H": "hour",
    "%I": "hour12", "%M": "minute", "%S": "second", "%p": "AM",
}  # fmt: skip
# The time zone behind a time, which is read as clocks showed it there.
_ZONE = r" (UTC|GMT|CET|CEST|[ECMP][SD]T)([+-][0-9]{1,2}(:?[0-9]{2})?)?$"
# What `date` prints: Wed Jun 18 08:16:54 CEST 2014.
_UNIX_DATE = r"^[A-Z][a-z]{2} ([A-Z][a-z]{2} +[0-9]+ [0-9:]{8}) [A-Z+0-9]+ ([0-9]{4})$"

# Dates have years of at most four digits: libraries fail in different ways for others.
_DAYS = (-719_528, 2_932_896)  # 0000-01-01 and 9999-12-31, counted from 1970-01-01
_PER_DAY = {"ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def columns_of(table: Any, names: list[str]) -> list[pl.Series]:
    """The columns of a table or of an array (M, N) as series of polars with these names."""
    import narwhals.stable.v1 as nw
    import polars as pl

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
        unit = getattr(column.dtype, "time_unit", "ms")
        if column.dtype in (pl.Date, pl.Datetime):
            per_day = 1 if column.dtype == pl.Date else _PER_DAY[unit]
            _check_days(column.name, (column.to_physical() // per_day).drop_nulls().to_numpy())
    return columns


def _check_days(name: str, days: Array) -> None:
    if len(days) and not (_DAYS[0] <= days.min() and days.max() <= _DAYS[1]):
        raise ValueError(
            f"column {name!r} contains dates that are not between the years 0 and 9999; use null "
            "for unknown dates"
        )


def _of_narwhals(name: str, column: Any) -> pl.Series:
    import polars as pl

    native = column.to_native()
    if isinstance(native, pl.Series):
        if native.dtype in (pl.Categorical, pl.Enum):
            native = native.cast(pl.String)
        if native.dtype == pl.Object:  # of which polars knows no operation
            return _series(name, np.fromiter(native, dtype=object, count=len(native)))
        return native.alias(name)
    if getattr(column.dtype, "time_zone", None):  # the time that clocks showed there
        column = column.dt.replace_time_zone(None)
    return _series(name, column.to_numpy())


def _series(name: str, cells: Array) -> pl.Series:
    """A column of numbers, Booleans, dates, times or texts; mixed cells become texts."""
    import polars as pl

    if cells.dtype.kind in "biuf":
        wide = cells.dtype.itemsize > 8  # more digits than polars has
        return pl.Series(name, np.ascontiguousarray(cells, np.float64 if wide else None))
    if cells.dtype.kind == "M":
        _check_days(name, cells[~np.isnat(cells)].astype("M8[D]").astype(np.int64))
    if cells.dtype.kind in "mM":
        return pl.Series(name, cells.astype(f"{cells.dtype.kind}8[us]"))
    values = [None if is_missing(cell) else cell for cell in cells.tolist()]
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, bool) for value in known):
        return pl.Series(name, values, dtype=pl.Boolean)
    if all(isinstance(value, Real) for value in known):
        try:
            numbers = [None if value is None else float(value) for value in values]
        except OverflowError:
            raise ValueError(
                f"column {name!r} contains a number beyond {np.finfo(float).max:.2g}; treat the "
                "column as a category, with its numbers as texts"
            ) from None
        return pl.Series(name, numbers, dtype=pl.Float64)
    if all(isinstance(value, date) for value in known):
        moments = [None if value is None else _moment(value) for value in values]
        return pl.Series(name, moments, dtype=pl.Datetime("us"))
    if all(isinstance(value, time | timedelta) for value in known):
        return pl.Series(name, values)
    return pl.Series(name, [None if v is None else _text(v) for v in values], dtype=pl.String)


def _moment(day: date) -> datetime:
    """A date as its beginning; a time as clocks showed it."""
    if isinstance(day, datetime):
        return day.replace(tzinfo=None)
    return datetime(day.year, day.month, day.day)


def _text(cell: object) -> str:
    """A cell as a text that UTF-8 can encode."""
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "backslashreplace")
    return str(cell).encode("utf-8", "backslashreplace").decode()


def counts_up(numbers: Array) -> bool:
    """Whether each number is one more than the number before."""
    with np.errstate(over="ignore"):
        return bool((np.diff(numbers) == 1).all())


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
        plain = column.str.replace_all(AROUND, "")
        known = plain.drop_nulls()
        if has_thousands(known):
            plain = plain.str.replace_all(",", "", literal=True)
        elif has_decimal_comma(known):
            plain = plain.str.replace_all(".", "", literal=True)
            plain = plain.str.replace(",", ".", literal=True)
        numbers = plain.cast(pl.Float64, strict=False)
        if numbers.null_count() > column.null_count():
            return None
    return numbers if numbers.drop_nulls().is_finite().all() else None


def has_thousands(texts: pl.Series) -> bool:
    """Whether all commas in these texts stand between thousands."""
    with_comma = texts.filter(texts.str.contains(",", literal=True))
    return bool(len(with_comma)) and bool(with_comma.str.contains(THOUSANDS).all())


def has_decimal_comma(texts: pl.Series) -> bool:
    """Whether these texts are numbers, some of them with a decimal comma."""
    commas = bool(texts.str.contains(",", literal=True).any())
    return commas and bool(texts.str.contains(DECIMAL_COMMA).all())


def as_dates(column: pl.Series, form: str | None = None) -> pl.Series | None:
    """A column of texts or dates as dates; None if a text is not a date in a usual form.

    Texts have the given form, by default that of `date_form`.
    """
    import polars as pl

    if column.dtype in (pl.Date, pl.Datetime):
        dates = column
        if getattr(column.dtype, "time_zone", None):
            dates = column.dt.replace_time_zone(None)
        return dates.cast(pl.Datetime("us"))
    form = date_form(column) if form is None else form
    if form is None or column.dtype != pl.String:
        return None
    dates = _dates_in(column.str.replace(_ZONE, ""), form)
    return None if dates.null_count() > column.null_count() else dates


def date_form(column: pl.Series) -> str | None:
    """The form of all dates in a column of texts, in codes such as %d; None if there is none."""
    import polars as pl

    if column.dtype != pl.String:
        return None
    column = column.str.replace(_ZONE, "")
    known = column.drop_nulls()
    forms: tuple[str, ...] = ()
    if known.str.contains(_ISO_LOOK).all():
        forms = (_ISO,)
    elif known.str.contains(_UNIX_DATE).all():
        forms = (_UNIX,)
    else:
        for (look, dates), (clock, time_form) in product(_DATES, _TIMES):
            if known.str.contains(f"^{look}{clock}$").all():
                forms = tuple(form + time_form for form in dates)
                break
    return next((form for form in forms if not _dates_in(known, form).null_count()), None)


def _dates_in(texts: pl.Series, form: str) -> pl.Series:
    """Texts without time zones as dates; null for those of another form."""
    if form == _ISO:
        return iso_dates(texts)
    if form == _UNIX:
        texts = texts.str.replace(_UNIX_DATE, "$1 $2").str.replace_all(" +", " ")
    return texts.str.to_datetime(form, time_unit="us", strict=False)


def form_in_words(form: str) -> str:
    """The form of dates in words.

    Examples
    --------
    >>> form_in_words("%d.%m.%Y %H:%M")
    'day.month.year hour:minute'
    """
    for code, word in _FORM_WORDS.items():
        form = form.replace(code, word)
    return form


def form_of_words(words: str) -> str:
    """The form of dates, given in words."""
    code_of = {word: code for code, word in _FORM_WORDS.items()}
    either = "|".join(sorted(code_of, key=len, reverse=True))
    return re.sub(either, lambda found: code_of[found[0]], words)


def iso_dates(texts: pl.Series) -> pl.Series:
    """ISO dates, with or without a time of day after a blank or a T; null for other texts."""
    plain = texts.str.strip_chars().str.replace(" ", "T").str.strip_suffix("Z")
    plain = plain.str.replace(r"^([0-9-]+)$", "${1}T00:00").str.replace(r"(T\d+:\d+)$", "${1}:00")
    return plain.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", time_unit="us", strict=False)


def table_like(like: str, names: list[str], columns: list[list[object]], index: Any) -> Any:
    """Columns as a table of pandas, polars or Arrow, or as an array of objects (M, N)."""
    if like in ("polars", "pyarrow"):
        import polars as pl

        if like == "polars":
            return pl.DataFrame(
                [pl.Series(n, c, strict=False) for n, c in zip(names, columns, strict=True)]
            )
        plain = pl.DataFrame([pl.Series(str(j), c, strict=False) for j, c in enumerate(columns)])
        return plain.to_arrow().rename_columns(names)  # a NUL in a name is a panic
    if like == "pandas":
        import pandas as pd

        return pd.DataFrame(dict(zip(names, columns, strict=True)), index=index)
    cells = np.empty((len(columns[0]) if columns else 0, len(columns)), dtype=object)
    for j, column in enumerate(columns):
        cells[:, j] = column
    return cells
