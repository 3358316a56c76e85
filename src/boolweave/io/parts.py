"""Triples in several Parquet files, read piece by piece.

The names of rows and columns are numbered in the order of their first appearance, as in a single
file. Each entry becomes one number of 64 bits: row, column, value. If they do not all fit into the
memory limit, they are written to a file, divided there into runs of rows, and sorted run by run;
the observations are then read from files, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from boolweave.data.cells import Above
from boolweave.data.entries import index_dtype, pack, row_of, rows_from_packed, split
from boolweave.data.observations import Observations
from boolweave.io.cells import naming_file
from boolweave.io.columnar import codes_of_cells, numbered
from boolweave.io.dialect import Dialect
from boolweave.io.files import FileError, expecting, listed, without_panic
from boolweave.io.keys import Numbering
from boolweave.io.options import Options
from boolweave.runtime.storage import Files, Memory, iterate_blocks, iterate_chunks, release_pages

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

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
            str(longest), f"its {max(counts)} lines are too many for the memory; allow files with "
            "`max_memory`"
        ) from None  # fmt: skip
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
                entries, (last - first, shape[1]), row_labels, column_labels,
                options.duplicates, first,
            )  # fmt: skip
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
    frame: pl.DataFrame, file: str, axes: tuple[Numbering, Numbering], above: float | None,
    first_row: int,
) -> NDArray[np.int64]:  # fmt: skip
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
