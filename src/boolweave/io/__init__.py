"""Reading files that hold a Boolean matrix, and writing tables and matrices.

This package holds the formats, how they are guessed, and the errors that name file, line, column
and remedy (`FileError`). Options of the command line do not belong here, nor do models, which
`boolweave.saving` reads. Start with `read` below, then `text.py`; `write.py` does the writing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from boolweave.io import files
from boolweave.io.files import FileError
from boolweave.runtime.atomic import replacing

if TYPE_CHECKING:
    import polars as pl

    from boolweave.data.cells import Above, CellWords
    from boolweave.data.observations import Absent, Duplicates
    from boolweave.data.questions import Questions
    from boolweave.encoding.plan import Plan
    from boolweave.io.cells import Seen
    from boolweave.io.dialect import Dialect
    from boolweave.io.encoded import Encoded
    from boolweave.io.options import Options, Zeros
    from boolweave.io.origin import Origin
    from boolweave.runtime.types import Array

__all__ = ["FORMATS", "FileError", "Reading", "read", "read_columns", "replacing"]

FORMATS = ("csv", "parquet", "arrow", "xlsx", "mtx", "npz", "fimi", "movielens", "png")

_BY_SUFFIX = {
    ".csv": "csv", ".tsv": "csv", ".tab": "csv", ".txt": "csv", ".parquet": "parquet",
    ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow", ".mtx": "mtx",
    ".xlsx": "xlsx", ".xlsm": "xlsx", ".npz": "npz", ".npy": "npz", ".fimi": "fimi", ".png": "png",
}  # fmt: skip
# Ratings of MovieLens: names of files and their delimiters.
_MOVIELENS = {"u.data": "\t", "ratings.dat": "::", "ratings.csv": ","}
_PACKED = {".gz", ".zst", ".zstd"}


@dataclass(frozen=True, eq=False)
class Reading:
    """The contents of a file.

    Attributes
    ----------
    observations : Observations
    guess : str
        A description of how the file was read.
    times : array of shape (n_observed,), optional
        The time of each entry, if asked for: numbers or ``datetime64``.
    encoded : Encoded, optional
        The table whose columns were turned into zeros and ones, and the encoder.
    plan : Plan, optional
        How each column of a wide table was read.
    origin : Origin, optional
        The form of a wide table of zeros and ones, if `keep` asked for it.
    lists_entries : bool
        Whether the file lists only some entries: pairs, triples, transactions, a sparse matrix.
    name : str
        The name of the file in messages.
    format : str
        One of `FORMATS`.
    unused_words : list of (str, str)
        The given words that occur in no cell: "ones", "zeros" or "missing", and the word.
    """

    observations: Seen
    guess: str
    times: Array | None = None
    encoded: Encoded | None = None
    plan: Plan | None = None
    origin: Origin | None = None
    lists_entries: bool = False
    name: str = ""
    format: str = ""
    unused_words: Sequence[tuple[str, str]] = ()

    @property
    def is_wide_table(self) -> bool:
        """Whether the file was a wide table whose form was kept, to be written again."""
        return self.origin is not None or self.encoded is not None

    @property
    def groups(self) -> Questions | None:
        """The question of each column of an encoded table, (N,), whose answers are hidden whole."""
        return None if self.encoded is None else self.encoded.encoding.questions


def read(
    source: str | Path | Sequence[str | Path],
    *,
    format: str | None = None,
    dialect: Dialect | None = None,
    above: Above | None = None,
    absent: Absent | None = None,
    absent_default: Absent = "zero",
    duplicates: Duplicates = "error",
    times: str | None = None,
    max_memory: int | None = None,
    zeros: Zeros = "exact",
    words: CellWords | None = None,
    encode: str = "never",
    plan: Plan | None = None,
    keep: bool = False,
) -> Reading:
    r"""Read a Boolean matrix from a file.

    An option that does not apply to the kind of file is an error.

    Parameters
    ----------
    source : path, or several
        The file; "-" means standard input. It may be compressed with gzip or zstd. Several files
        must be Parquet files of triples.
    format : str, optional
        One of `FORMATS`. By default, it is recognized from the content and the name.
    dialect : Dialect, optional
        What is known about a text table; the rest is guessed.
    above : "mean", "median" or a number, optional
        The file holds ratings, and ratings above this number are ones. The mean and the median are
        those of all values in the file, in every format and layout.
    absent : {"zero", "missing"}, optional
        How to treat the entries that a sparse matrix, pairs, transactions or triples do not list.
        By default, entries that triples do not list are missing.
    absent_default : {"zero", "missing"}
        How to treat those of the other formats if `absent` is not given.
    duplicates : {"error", "majority"}
        What to do if an entry is given as both 0 and 1.
    times : str, optional
        For triples: the column that holds the time of each entry, by name or by number (from 1), as
        numbers or dates such as 2024-12-31. `Reading.times` has them in the order of the entries.
    max_memory : int, optional
        For several files: entries that would take more bytes are kept in files and read from there.
    zeros : {"exact", "collective", "auto"}
        If absent entries are zeros: "exact" lists each of them, "collective" lists only the ones
        (`boolweave.data.ones.SparseObservations`), and "auto" does the latter if the matrix is
        large and sparse.
    words : CellWords, optional
        The words for ones, zeros and missing cells in tables (`boolweave.data.cells.CellWords.of`).
    encode : {"never", "auto", "always"} or rules, default="never"
        What to do with a wide table whose cells are not all zeros and ones. "never" refuses it.
        "auto" turns its columns into zeros and ones as `boolweave.TableEncoder` does, but refuses a
        table that holds zeros and ones except for some mistakes. "always" does not look for
        mistakes. Rules such as "age=40,60;hobby=split:,;zip=category" set the encoding of single
        columns.
    plan : Plan, optional
        How each column of a wide table is read, for example the `Reading.plan` of another file
        with the same columns. Rules in `encode`, and `words`, override it.
    keep : bool, default=False
        Keep the form of a wide table, so that it can be written again with its missing entries
        filled in.

    Returns
    -------
    Reading

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from boolweave.io import read
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "votes.csv"
    >>> _ = file.write_text("name,tax,war\nAnn,yes,\nBo,no,yes\n")
    >>> read(file).observations
    Observations(2 rows × 2 columns, 3 of 4 entries observed, 66.7% ones)
    """
    from boolweave.data.cells import USUAL
    from boolweave.io.dialect import Dialect
    from boolweave.io.options import Options

    asked = dialect or Dialect()
    options = Options(
        asked,
        above,
        absent,
        absent_default,
        duplicates,
        times,
        zeros,
        words or USUAL,
        encode,
        plan,
        keep,
    )
    if format is not None and format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {format!r}")
    if not isinstance(source, str | Path):
        if len(source) > 1:
            return _parts(source, format, options, max_memory)
        (source,) = source
    with files.local_copy(source) as (path, name), files.without_panic(name):
        kind = format or _format_of(path, Path(name), asked)
        basket = _basket_delimiter(path) if kind == "csv" and not options.given() else None
        if format is None and basket is not None:
            kind, options = "fimi", replace(options, dialect=replace(asked, delimiter=basket))
        if kind == "movielens":
            options = _of_movielens(options, name)
        if times is not None and kind in ("csv", "parquet", "arrow", "xlsx"):
            options = _with_times(options, name)
        is_text = kind in ("csv", "movielens")
        with (
            files.in_utf8(path, name, asked.encoding)
            if is_text
            else contextlib.nullcontext((path, None)) as (text, encoding)
        ):
            if kind == "csv" and encoding is not None:
                options = replace(options, dialect=replace(options.dialect, encoding=encoding))
            reading = _read_one(text, name, kind, options)
        guess, unused = reading.guess, options.words.unused()
        if kind == "movielens":
            guess = f"MovieLens, ones are ratings above {options.above}"
        return replace(reading, guess=guess, name=name, format=kind, unused_words=unused)


def read_columns(source: str | Path) -> pl.DataFrame:
    r"""Read all columns of a text table, as texts, or of a Parquet, Arrow or Excel file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from boolweave.io import read_columns
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "users.csv"
    >>> _ = file.write_text("user,department\nAnn,Sales\nBo,IT\n")
    >>> read_columns(file)["department"].to_list()
    ['Sales', 'IT']
    """
    from boolweave.io.dialect import Dialect, guess_columns
    from boolweave.io.options import Options

    options = Options(Dialect())
    with files.local_copy(source) as (path, name), files.without_panic(name):
        kind = _format_of(path, Path(name), options.dialect)
        if kind in ("parquet", "arrow", "xlsx"):
            from boolweave.io.columnar import typed_frame

            return typed_frame(path, name, kind, options)
        if kind not in ("csv", "movielens"):
            raise FileError(name, f"expected a table with columns of any kind, got a {kind} file")
        from boolweave.io.text import read_fields

        dialect = guess_columns(path, name, options.dialect, options.words)
        frame = read_fields(path, name, dialect)
        frame.columns = list(dialect.names)
        return frame


def _of_movielens(options: Options, name: str) -> Options:
    """The options of a file of MovieLens: triples of ratings, with the time in the last column."""
    from boolweave.io.dialect import Dialect
    from boolweave.io.options import Options

    options.check(name, "MovieLens files", "above", "times")
    if options.times not in (None, "timestamp", "4"):
        raise FileError(
            name, f"`times`: expected timestamp, the fourth column, got {options.times!r}"
        )
    above = "mean" if options.above is None else options.above
    return Options(Dialect(layout="triples"), above, times=options.times and "4")


def _with_times(options: Options, name: str) -> Options:
    """The options of a file of triples with times, in which every entry has a time."""
    if options.absent == "zero":
        raise FileError(
            name,
            "`times` does not apply to zeros that the file does not list; pass "
            '`absent="missing"`, or leave out `times`',
        )
    asked = options.dialect
    return replace(options, dialect=replace(asked, layout=asked.layout or "triples"))


def _read_one(path: Path, name: str, kind: str, options: Options) -> Reading:
    """The contents of a file of a known kind, with a description and the times, if any."""
    if kind in ("csv", "movielens"):
        from boolweave.io.text import read_text

        return read_text(path, name, options)
    if kind in ("parquet", "arrow", "xlsx"):
        from boolweave.io.columnar import read_columnar

        return read_columnar(path, name, kind, options)
    from boolweave.io import formats

    readers = {
        "png": formats.read_picture,
        "fimi": formats.read_fimi,
        "mtx": formats.read_matrix_market,
        "npz": formats.read_numpy,
    }
    return readers[kind](path, name, options)


def _parts(
    sources: Sequence[str | Path], format: str | None, options: Options, max_memory: int | None
) -> Reading:
    from boolweave.io.columnar import read_parts

    name, needed = f"{len(sources)} files", "several files must be Parquet files of triples"
    if format not in (None, "parquet") or options.dialect.layout not in (None, "triples"):
        raise FileError(name, needed)
    options.check(name, "several files", "layout", "columns", "above", "duplicates")
    for source in sources:
        with files.local_copy(source) as (path, called):
            if path != Path(source) or not path.is_file() or files.magic(path) != "parquet":
                raise FileError(called, needed)
    with files.without_panic(name):
        observations = read_parts([Path(source) for source in sources], options, max_memory)
    return Reading(
        observations, "parquet, triples", lists_entries=True, name=name, format="parquet"
    )


def _format_of(path: Path, name: Path, asked: Dialect) -> str:
    """Recognize the format by the first bytes, then by the name, then by the lines."""
    from boolweave.io.dialect import Dialect
    from boolweave.io.excel import is_workbook

    mark = files.magic(path)
    stem = name.with_suffix("") if name.suffix.lower() in _PACKED else name
    by_name = _BY_SUFFIX.get(stem.suffix.lower())
    if mark == "npz" and (by_name == "xlsx" or is_workbook(path)):
        return "xlsx"
    if mark in {"parquet", "arrow", "png", "mtx", "npz", "npy"}:
        return "npz" if mark == "npy" else str(mark)
    if asked == Dialect() and _is_movielens(path, name.name):
        return "movielens"
    return by_name or ("fimi" if _looks_like_transactions(path) else "csv")


def _looks_like_transactions(path: Path) -> bool:
    """Whether lines hold increasing whole numbers, three or more in some line and one above 1."""
    import itertools

    longest, largest = 0, files.by_value("0")
    with path.open("rb") as file:
        for line in itertools.islice(file, 200):
            items = line.split()
            if not all(item.isdigit() for item in items) or b"," in line:
                return False
            numbers = [files.by_value(item.decode()) for item in items]
            if any(a >= b for a, b in itertools.pairwise(numbers)):
                return False
            longest, largest = max(longest, len(items)), max([largest, *numbers])
    return longest >= 3 and largest > files.by_value("1")


def _basket_delimiter(path: Path) -> str | None:
    """What separates the items of baskets, in lines of at least three different lengths.

    Items recur, but not in one line, and none is empty.
    """
    import itertools

    with path.open("rb") as file:
        lines = [line.strip() for line in itertools.islice(file, 200)]
    lines = [line for line in lines if line]
    if not lines or any(b'"' in line or b"\0" in line for line in lines):
        return None
    marks = (b",", b";", b"\t")
    if any(len({line.count(mark) for line in lines}) == 1 and mark in lines[0] for mark in marks):
        return None  # a table with as many fields in each line
    for mark in marks:
        baskets = [[item.strip() for item in line.split(mark)] for line in lines]
        items = [item for basket in baskets for item in basket]
        several = len({len(basket) for basket in baskets}) > 2 and b"" not in items
        again = len(items) >= 2 * len(set(items))
        if several and again and all(len(set(basket)) == len(basket) for basket in baskets):
            return mark.decode()
    return None


def _is_movielens(path: Path, name: str) -> bool:
    """Whether a file of this name has the fields of MovieLens in its first line.

    Other tables may be called ratings.csv, too.
    """
    if name not in _MOVIELENS:
        return False
    with path.open("rb") as file:
        line = file.readline(1000).decode("utf-8-sig", "replace").strip()
    fields = line.split(_MOVIELENS[name])
    if name == "ratings.csv":
        return fields == ["userId", "movieId", "rating", "timestamp"]
    return len(fields) == 4 and all(field.replace(".", "", 1).isdecimal() for field in fields)
