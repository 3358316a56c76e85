"""Tables with types, from Parquet, Arrow and Excel: wide, triples or pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from boolweave.data.cells import MISSING, USUAL, WRONG, Above, CellWords, codes_above, threshold
from boolweave.data.convert import from_codes
from boolweave.data.entries import index_dtype, pack, row_of, rows_from_packed, split
from boolweave.data.observations import Observations
from boolweave.io import Reading
from boolweave.io.cells import (
    TRIPLES,
    Numbering,
    TwiceError,
    codes_of_column,
    is_cell,
    naming_file,
    observe,
    observe_times,
)
from boolweave.io.dialect import Dialect, Layout, about_pairs, is_heading
from boolweave.io.encoded import encode_frame, plain_plan, remedy_for
from boolweave.io.excel import read_sheet
from boolweave.io.files import FileError, expecting, listed, magic, without_panic
from boolweave.io.options import BY_LAYOUT, CellError, Options
from boolweave.io.origin import Origin, Speller, texts_by_row
from boolweave.io.shapes import long_form
from boolweave.runtime.storage import Files, Memory, iterate_blocks, iterate_chunks, release_pages

if TYPE_CHECKING:
    import polars as pl


def read_columnar(path: Path, name: str, kind: str, options: Options) -> Reading:
    """Read a typed table, with its layout and its times."""
    return read_frame(typed_frame(path, name, kind, options), name, kind, options)


def typed_frame(path: Path, name: str, kind: str, options: Options) -> pl.DataFrame:
    """All columns of a typed table."""
    import polars as pl

    if kind == "xlsx":
        return read_sheet(path, name, options)
    with expecting(name, f"a {kind} file", pl.exceptions.PolarsError, OSError):
        if kind == "parquet":
            return pl.read_parquet(path, glob=False)
        return pl.read_ipc(path) if magic(path) == "arrow" else pl.read_ipc_stream(path)


def read_frame(frame: pl.DataFrame, name: str, kind: str, options: Options) -> Reading:
    """Read a typed table from a file of this kind."""
    layout = options.dialect.layout or _layout_of(frame, options)
    asked = replace(options.dialect, names=tuple(frame.columns))
    if options.encode not in ("auto", "never") or options.plan is not None:
        options.check(name, f"a {kind} file to encode", *_own(kind), *BY_LAYOUT["wide"])
        return encode_frame(frame, name, asked, options, f"{kind}, wide")
    options.check(name, f"a {kind} file of {layout} layout", *_own(kind), *BY_LAYOUT[layout])
    read = _wide if layout == "wide" else _long
    try:
        return read(frame, name, kind, layout, options)
    except (CellError, TwiceError) as error:
        if options.encode == "never" or options.above is not None:
            raise
        free = not (options.dialect.layout or asked.columns or asked.picks or asked.labels)
        form = long_form(frame, options.words) if free and asked.index is None else None
        if form is not None and form.levels and form.code_book is None:
            raise FileError(name, form.question()) from None
        if form is not None:
            layout = "pairs" if form.value is None else "triples"
            dialect = replace(options.dialect, columns=form.columns)
            known = replace(options, dialect=dialect, words=form.code_book or options.words)
            reading = _long(frame, name, kind, layout, known)
            return replace(reading, guess=reading.guess + form.in_words())
        said = TRIPLES if isinstance(error, TwiceError) else ""
        columns = free and not all(map(is_heading, frame.columns[:2]))
        if layout != "wide" and not (said and columns):
            raise
        return encode_frame(frame, name, asked, options, f"{kind}, wide{said}", error)


def _own(kind: str) -> tuple[str, ...]:
    return ("header", "header_row", "sheet") if kind == "xlsx" else ()


def _first_row(kind: str, options: Options) -> int:
    """The number of the first row of cells, from 1; in a workbook, the header is a row, too."""
    if kind != "xlsx" or options.dialect.header is False:
        return 1
    return 1 + (options.dialect.header_row or 1)


def _layout_of(frame: pl.DataFrame, options: Options) -> Layout:
    if options.dialect.columns:
        return "pairs" if len(options.dialect.columns) == 2 else "triples"
    if not 2 <= frame.width <= 4 or options.dialect.picks:
        return "wide"
    # Boxes that are often empty are no names of rows or columns.
    if any(10 * frame[column].null_count() > frame.height for column in frame.columns[:2]):
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


def _long(frame: pl.DataFrame, name: str, kind: str, layout: Layout, options: Options) -> Reading:
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
        row,
        column,
        codes,
        axes[0].labels(),
        axes[1].labels(),
        name,
        duplicates=options.duplicates,
        absent=absent,
        zeros=options.zeros,
    )
    when = None
    if options.times is not None:
        times = frame.to_series(asked.position(options.times, name, "times"))
        when = observe_times(observations.to_local(), row, column, [times], name)
    guess = f"{kind}, {layout}{about_pairs(options.dialect, asked)}"
    return Reading(observations, guess, when, lists_entries=True)


def _wide(frame: pl.DataFrame, name: str, kind: str, layout: Layout, options: Options) -> Reading:
    """A row of the matrix for each row of the table."""
    import polars as pl

    asked, above = replace(options.dialect, names=tuple(frame.columns)), options.above
    first = frame.to_series(0) if frame.width else pl.Series([], dtype=pl.Int8)
    text = first.dtype in (pl.String, pl.Categorical)
    if asked.labels is None and asked.index is None and not asked.use:
        # Names hardly repeat, unlike categories.
        named = text and 2 * first.n_unique() > len(first) and not _all_cells(first, options.words)
        asked = replace(asked, labels="yes" if named else "no")
    label, cells = asked.label_field(name), asked.cell_fields(name)
    row_labels = (
        None
        if label is None
        else ["" if key is None else str(key) for key in frame.to_series(label)]
    )
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
    return Reading(seen, f"{kind}, {layout}", plan=plain_plan(asked, name), origin=origin)


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
    speller.add(texts_by_row(table.with_columns(pl.all().cast(pl.String))), table.shape)
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


# ---------------------------------------------------------------- several files


# Number of lines that are read at a time.
LINES_AT_A_TIME = 1 << 20

# Bytes of memory for each entry while it is sorted, and afterwards.
_SORTING = 64
_KEPT = 5

# Maximum number of rows and columns as long as their number is unknown.
_LARGEST = (2**31, 2**31)


def read_parts(paths: Sequence[Path], options: Options, max_memory: int | None) -> Observations:
    """The observations of all files together, kept in files if they exceed `max_memory` bytes."""
    counts = [_height(path) for path in paths]
    names = _columns(paths, options.dialect.columns)
    limit = _threshold(paths, names[2], options.above)
    n_lines = sum(counts)
    fits = max_memory is None or n_lines * _SORTING <= max_memory
    store = Memory() if fits else Files(1)
    axes = Numbering(), Numbering()
    try:
        (packed,) = store.zeros([(n_lines,)], np.int64)
    except MemoryError:
        longest = paths[int(np.argmax(counts))]
        raise FileError(
            str(longest),
            f"its {max(counts)} lines are too many for the memory; allow files with `max_memory`",
        ) from None
    n = 0
    for path, count in zip(paths, counts, strict=True):
        for start, frame in _frames(path, names, count):
            part = _pack(frame, str(path), axes, limit, start + 1)
            packed[n : n + len(part)] = part
            release_pages(packed[n : n + len(part)])
            n += len(part)
    row_labels, column_labels = (axis.labels() for axis in axes)
    shape = len(row_labels), len(column_labels)
    most = n_lines if max_memory is None else max(1, max_memory // _SORTING)
    runs = list(_runs(packed[:n], shape[0], most, store))
    del packed
    total = sum(len(part) for _, _, part in runs)
    kept = Memory() if fits or total * _KEPT <= (max_memory or 0) // 4 else store
    (indices,) = kept.zeros([(total,)], index_dtype(shape[1]))
    (values,) = kept.zeros([(total,)], np.uint8)
    indptr, n = [np.zeros(1, dtype=np.int64)], 0
    for first, last, part in iterate_blocks(runs, lambda run: run[2:]):
        entries = part if fits else np.array(part)
        with naming_file(f"{len(paths)} files"):
            found = rows_from_packed(
                entries,
                (last - first, shape[1]),
                row_labels,
                column_labels,
                options.duplicates,
                first,
            )
        end = n + len(found.indices)
        indices[n:end], values[n:end] = found.indices, found.values
        for array in (indices[n:end], values[n:end]):
            release_pages(array)
        indptr.append(n + found.indptr[1:])
        n = end
    return Observations(
        shape, np.concatenate(indptr), indices[:n], values[:n], row_labels, column_labels
    )


def _frames(path: Path, names: list[str], count: int) -> Iterator[tuple[int, pl.DataFrame]]:
    """The columns of a file that are asked for, some lines at a time, and the lines before."""
    import polars as pl

    for start in range(0, count, LINES_AT_A_TIME):
        with _readable(path):
            lines = pl.scan_parquet(path, glob=False).select(names)
            frame = lines.slice(start, LINES_AT_A_TIME).collect()
        if frame.height != min(LINES_AT_A_TIME, count - start):
            raise FileError(str(path), f"expected {count} lines, got fewer; recreate it")
        yield start, frame


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn what polars raises while it reads a file into a `FileError` that names the file."""
    import polars as pl

    what = "a Parquet file, because there are several files"
    kinds = pl.exceptions.PolarsError, OSError
    with without_panic(str(path)), expecting(str(path), what, *kinds):
        yield


def _height(path: Path) -> int:
    import polars as pl

    with _readable(path):
        return int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())


def _columns(paths: Sequence[Path], wanted: tuple[str, ...]) -> list[str]:
    """Names of the columns that hold row, column and value; the same in every file."""
    import polars as pl

    names: list[str] = []
    for path in paths:
        with _readable(path):
            found = pl.scan_parquet(path, glob=False).collect_schema().names()
        if not names:
            asked = Dialect(layout="triples", columns=wanted, names=tuple(found))
            names = [found[at] for at in asked.picked(str(path))]
        missing = [name for name in names if name not in found]
        if missing:
            raise FileError(str(path), f"there is no column {missing[0]!r}; it has {listed(found)}")
    return names


def _threshold(paths: Sequence[Path], name: str, above: Above | None) -> float | None:
    """The number above which a rating is a one."""
    if above is None or not isinstance(above, str):
        return above
    import polars as pl

    ratings = pl.col(name).cast(pl.Float64).fill_nan(None)
    wanted = ratings.mean() if above == "mean" else ratings.median()
    try:
        found = pl.scan_parquet(list(paths), glob=False).select(wanted).collect().item()
    except (pl.exceptions.PolarsError, OSError):
        for path in paths:  # find the file that cannot be read
            with _readable(path):
                pl.scan_parquet(path, glob=False).select(wanted).collect()
        raise
    return float("nan") if found is None else float(found)


def _pack(
    frame: pl.DataFrame,
    file: str,
    axes: tuple[Numbering, Numbering],
    above: float | None,
    first_row: int,
) -> NDArray[np.int64]:
    """The entries of some lines, each as one number; missing ones are left out.

    Errors count the lines from `first_row`.
    """
    sides = []
    for axis, keys in zip(axes, frame.iter_columns(), strict=False):
        if axis.dtype not in (None, keys.dtype):
            kinds = f"{axis.dtype} and {keys.dtype}"
            raise FileError(file, f"the files differ in type: {kinds}", column=repr(keys.name))
        sides.append(numbered(axis, keys, file, first_row))
        if len(axis) > _LARGEST[0]:
            raise FileError(file, "more than 2³¹ rows or columns", column=repr(keys.name))
    codes = codes_of_cells(frame.to_series(2), file, above, first_row=first_row)
    return pack(sides[0], sides[1], codes, _LARGEST)


def _runs(
    packed: NDArray[np.int64], n_rows: int, most: int, store: Memory
) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
    """First row, end, and entries of runs of rows, each with about `most` entries."""
    if len(packed) <= most:
        yield 0, n_rows, packed
        return
    counts = np.zeros(n_rows, dtype=np.int64)
    for part in iterate_chunks(packed):
        counts += np.bincount(row_of(part, _LARGEST), minlength=n_rows)
    ends = np.cumsum(counts)
    targets = np.arange(most, len(packed), most, dtype=np.int64)
    cuts = np.unique([0, *np.searchsorted(ends, targets).tolist(), n_rows])
    sizes = np.add.reduceat(counts, cuts[:-1])
    by_run = store.zeros([(int(size),) for size in sizes], np.int64)
    filled = np.zeros(len(sizes), dtype=np.int64)
    for part in iterate_chunks(packed):
        for r, chosen in enumerate(split(part, cuts[1:-1], _LARGEST)):
            if len(chosen):
                by_run[r][filled[r] : filled[r] + len(chosen)] = chosen
                filled[r] += len(chosen)
                release_pages(by_run[r])
    for r, entries in enumerate(by_run):
        yield int(cuts[r]), int(cuts[r + 1]), entries
