"""Tables with types, from Parquet, Arrow and Excel: wide, triples or pairs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from boolweave.data.cells import MISSING, USUAL, WRONG, Above, CellWords, codes_above, threshold
from boolweave.data.convert import from_codes
from boolweave.data.observations import Observations
from boolweave.io.cells import (
    codes_of_column,
    is_cell,
    naming_file,
    observe,
    observe_times,
)
from boolweave.io.dialect import Dialect, Layout, about_pairs
from boolweave.io.files import FileError, expecting, magic
from boolweave.io.keys import Numbering
from boolweave.io.options import BY_LAYOUT, Options
from boolweave.io.tables.contents import CellError, Contents
from boolweave.io.tables.encoded import encode_frame, remedy_for
from boolweave.io.tables.excel import read_sheet
from boolweave.io.tables.origin import Origin, Speller

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray


def read_columnar(path: Path, name: str, kind: str, options: Options) -> Contents:
    """Read a typed table, with its layout and its times."""
    import polars as pl

    if kind == "xlsx":
        return read_frame(read_sheet(path, name, options), name, kind, options)
    with expecting(name, f"a {kind} file", pl.exceptions.PolarsError, OSError):
        if kind == "parquet":
            frame = pl.read_parquet(path, glob=False)
        else:
            frame = pl.read_ipc(path) if magic(path) == "arrow" else pl.read_ipc_stream(path)
        return read_frame(frame, name, kind, options)


def read_frame(frame: pl.DataFrame, name: str, kind: str, options: Options) -> Contents:
    """Read a typed table from a file of this kind."""
    layout = options.dialect.layout or _layout_of(frame, options)
    asked = replace(options.dialect, names=tuple(frame.columns))
    if options.encode not in ("auto", "never"):
        options.check(name, f"a {kind} file to encode", *_own(kind), *BY_LAYOUT["wide"])
        return encode_frame(frame, name, asked, options, f"{kind}, wide")
    options.check(name, f"a {kind} file of {layout} layout", *_own(kind), *BY_LAYOUT[layout])
    read = _wide if layout == "wide" else _long
    try:
        return read(frame, name, kind, layout, options)
    except CellError as error:
        if options.encode == "never" or options.above is not None or layout != "wide":
            raise
        return encode_frame(frame, name, asked, options, f"{kind}, wide", error)


def _own(kind: str) -> tuple[str, ...]:
    return ("header",) if kind == "xlsx" else ()


def _first_row(kind: str, options: Options) -> int:
    """The number of the first row of cells, from 1; in a workbook, the header is a row, too."""
    return 2 if kind == "xlsx" and options.dialect.header is not False else 1


def _layout_of(frame: pl.DataFrame, options: Options) -> Layout:
    if options.dialect.columns:
        return "pairs" if len(options.dialect.columns) == 2 else "triples"
    if not 2 <= frame.width <= 4 or options.dialect.picks:
        return "wide"
    keys = [not _all_cells(frame[column], options.words) for column in frame.columns[:2]]
    if frame.width == 2:  # pairs have no ratings: if ratings are expected, the numbers are ratings
        ratings = options.above is not None and frame.to_series(1).dtype.is_numeric()
        return "pairs" if all(keys) and not ratings else "wide"
    return "triples" if keys[1] else "wide"


def _all_cells(series: pl.Series, words: CellWords) -> bool:
    import polars as pl

    if words.codes:
        return all(words.code(cell) != WRONG for cell in series.unique())
    if series.dtype == pl.Boolean:
        return True
    if series.dtype.is_float():
        return bool(series.drop_nulls().drop_nans().is_in([0.0, 1.0]).all())
    if series.dtype.is_integer():
        return bool(series.drop_nulls().is_in([0, 1]).all())
    if series.dtype == pl.String:
        return all(text is None or is_cell(text) for text in series.unique())
    return False


def _long(frame: pl.DataFrame, name: str, kind: str, layout: Layout, options: Options) -> Contents:
    """Triples, with their times if any, or pairs."""
    asked = Dialect(layout=layout, columns=options.dialect.columns, names=tuple(frame.columns))
    at = asked.picked(name)
    axes, first = (Numbering(), Numbering()), _first_row(kind, options)
    row, column = (
        numbered(keys, frame.to_series(i), name, first) for keys, i in zip(axes, at, strict=False)
    )
    codes, absent = np.ones(frame.height, np.uint8), options.unlisted
    if layout == "triples":
        codes = codes_of_cells(frame.to_series(at[2]), name, options.above, options.words, first)
        absent = options.absent or "missing"
    observations = observe(
        row, column, codes, axes[0].labels(), axes[1].labels(), name,
        duplicates=options.duplicates, absent=absent, zeros=options.zeros,
    )  # fmt: skip
    when = None
    if options.times is not None:
        times = frame.to_series(asked.position(options.times, name, "times"))
        when = observe_times(observations.to_local(), row, column, [times], name)
    guess = f"{kind}, {layout}{about_pairs(options.dialect, asked)}"
    return Contents(observations, guess, when, lists_entries=True)


def _wide(frame: pl.DataFrame, name: str, kind: str, layout: Layout, options: Options) -> Contents:
    """A row of the matrix for each row of the table."""
    import polars as pl

    asked, above = replace(options.dialect, names=tuple(frame.columns)), options.above
    first = frame.to_series(0) if frame.width else pl.Series([], dtype=pl.Int8)
    text = first.dtype in (pl.String, pl.Categorical)
    if asked.labels is None and asked.index is None and not asked.use:
        named = text and not _all_cells(first, options.words)
        asked = replace(asked, labels="yes" if named else "no")
    label, cells = asked.label_field(name), asked.cell_fields(name)
    row_labels = None if label is None else [str(key) for key in frame.to_series(label).to_list()]
    whole, frame = frame, frame.select(pl.nth(cells)) if cells else frame[:, :0]
    if isinstance(above, str):  # one number for all columns
        everything = [_ratings(column, name, options.words) for column in frame.iter_columns()]
        above = threshold(np.concatenate([*everything, np.empty(0)]), above)
    codes = np.empty(frame.shape if frame.width else (len(first), 0), np.uint8)
    for j, column in enumerate(frame.iter_columns()):
        codes[:, j] = codes_of_cells(column, name, above, options.words, _first_row(kind, options))
    with naming_file(name):
        seen = Observations(*from_codes(codes, row_labels, frame.columns))
    origin = _origin(whole, cells, options) if options.keep and options.above is None else None
    return Contents(seen, f"{kind}, {layout}", origin=origin)


def _origin(frame: pl.DataFrame, cells: list[int], options: Options) -> Origin:
    """The form of a typed table; if some of its cells are texts, all are treated as texts."""
    import polars as pl

    own = set(cells)
    others = frame.select(
        frame.to_series(i).alias(str(i)) for i in range(frame.width) if i not in own
    )
    table = frame.select(pl.nth(cells)) if cells else frame[:, :0]
    dtypes: list[pl.DataType] = list(table.dtypes)
    plain = all(dtype.is_numeric() or dtype == pl.Boolean for dtype in dtypes)
    if plain and not options.words.codes:
        return Origin(frame.columns, cells, others, options.words, dtypes=dtypes)
    speller = Speller()
    speller.add(table.with_columns(pl.all().cast(pl.String)))
    spelled = speller.spellings()
    return Origin(frame.columns, cells, others, options.words, spellings=spelled)


# ---------------------------------------------------------------- columns


def numbered(
    numbering: Numbering, keys: pl.Series, name: str, first_row: int = 1
) -> NDArray[np.int64]:
    """Number the names in a column, none of which may be missing."""
    if keys.null_count():
        at = first_row + int(keys.is_null().arg_max() or 0)
        raise FileError(
            name, f"expected a name in row {at}, got null; fill it in", column=repr(keys.name)
        )
    return numbering.number(keys)


def codes_of_cells(
    series: pl.Series, name: str, above: Above | None, words: CellWords = USUAL, first_row: int = 1
) -> NDArray[np.uint8]:
    """0, 1 or MISSING for the cells of a typed column; errors count its rows from `first_row`."""
    if above is not None:
        return codes_above(_ratings(series, name, words), above)
    codes = codes_of_column(series, words)
    if (codes == WRONG).any():
        at = int(np.argmax(codes == WRONG))
        raise CellError(
            name,
            f"expected 0, 1 or null, got {series[at]!r} in row {first_row + at}; "
            f"{remedy_for(series[at], series, words)}",
            column=repr(series.name),
        )
    return codes


def _ratings(series: pl.Series, name: str, words: CellWords) -> NDArray[np.float64]:
    """The numbers of a typed column, NaN where there is no number."""
    import polars as pl

    if not series.dtype.is_numeric():
        raise FileError(name, f"expected numbers, got {series.dtype}", column=repr(series.name))
    numbers: NDArray[np.float64] = series.cast(pl.Float64).fill_null(np.nan).to_numpy()
    if words.missing:
        numbers = np.where(words.number_codes(numbers) == MISSING, np.nan, numbers)
    return numbers
