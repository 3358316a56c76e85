"""Reading and writing files.

`read` takes any file that holds a Boolean matrix and returns its observations; the functions of
`boolweave.io.write` write tables and matrices. A file that cannot be read raises `FileError`, whose
one line names file, line, column and remedy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from boolweave.io import files
from boolweave.io.atomic import replacing
from boolweave.io.files import FileError

if TYPE_CHECKING:
    from boolweave.io.delimited import Above
    from boolweave.io.dialect import Dialect
    from boolweave.observations import Absent, Duplicates, Observations

__all__ = ["FORMATS", "FileError", "Reading", "read", "replacing"]

FORMATS = ("csv", "parquet", "arrow", "mtx", "npz", "fimi", "movielens", "png")

_BY_SUFFIX = {
    ".csv": "csv", ".tsv": "csv", ".tab": "csv", ".txt": "csv", ".parquet": "parquet",
    ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow", ".mtx": "mtx",
    ".npz": "npz", ".npy": "npz", ".fimi": "fimi", ".png": "png",
}  # fmt: skip
_MOVIELENS = {"u.data", "ratings.dat", "ratings.csv"}
_PACKED = {".gz", ".zst", ".zstd"}


@dataclass(frozen=True, eq=False)
class Reading:
    """What a file held.

    Attributes
    ----------
    observations : Observations
    name : str
        What to call the file.
    format : str
        One of `FORMATS`.
    guess : str
        How it was read, in words.
    """

    observations: Observations
    name: str
    format: str
    guess: str


def read(
    source: str | Path | Sequence[str | Path],
    *,
    format: str | None = None,
    dialect: Dialect | None = None,
    above: Above | None = None,
    absent: Absent = "zero",
    duplicates: Duplicates = "error",
    max_memory: int | None = None,
) -> Reading:
    r"""Read a Boolean matrix from a file.

    Parameters
    ----------
    source : path, or several
        The file; "-" is standard input. It may be packed with gzip or zstd. Several files must be
        Parquet files of triples.
    format : str, optional
        One of `FORMATS`; left out, the content and the name tell.
    dialect : Dialect, optional
        What is known about a text table; the rest is guessed.
    above : "mean", "median" or a number, optional
        The table holds ratings, and those above it are ones.
    absent : {"zero", "missing"}
        What the entries are that a sparse matrix, pairs or transactions do not name.
    duplicates : {"error", "majority"}
        What to do where one entry is given as both 0 and 1.
    max_memory : int, optional
        Several files: entries that would take more bytes are kept in files and read from there.

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
    from boolweave.io.dialect import Dialect

    asked = dialect or Dialect()
    if format is not None and format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {format!r}")
    if not isinstance(source, str | Path) and len(source) > 1:
        return _parts(source, format, asked, above, duplicates, max_memory)
    if not isinstance(source, str | Path):
        (source,) = source
    if str(source) != "-" and Path(source).is_dir() and format in (None, "movielens"):
        return _movielens(Path(source), str(source), above)
    with files.local_copy(source) as (path, name):
        kind = format or _format_of(path, Path(name))
        if kind == "movielens" and Path(name).name in _MOVIELENS and path == Path(name):
            return _movielens(path, name, above)
        if kind in ("csv", "movielens"):
            if kind == "movielens":
                above = "mean" if above is None else above
                asked = Dialect(delimiter=asked.delimiter, layout="triples", columns=asked.columns)
            return _text(path, name, asked, above, absent, duplicates)
        return _other(path, name, kind, asked, above, absent, duplicates)


def _parts(
    sources: Sequence[str | Path], format: str | None, asked: Dialect, above: Above | None,
    duplicates: Duplicates, max_memory: int | None,
) -> Reading:  # fmt: skip
    from boolweave.io.parts import read_parts

    name = f"{len(sources)} files"
    if format not in (None, "parquet") or asked.layout not in (None, "triples"):
        raise FileError(name, "several files must be Parquet files of triples")
    for source in sources:
        with files.local_copy(source) as (path, called):
            if path != Path(source) or not path.is_file() or files.magic(path) != "parquet":
                raise FileError(called, "several files must be Parquet files of triples")
    observations = read_parts(
        [Path(source) for source in sources], columns=asked.columns, above=above,
        duplicates=duplicates, max_memory=max_memory,
    )  # fmt: skip
    return Reading(observations, name, "parquet", "parquet, triples")


def _format_of(path: Path, name: Path) -> str:
    """By the first bytes, then by the name, then by looking at the lines."""
    mark = files.magic(path)
    if mark in {"parquet", "arrow", "png", "mtx", "npz", "npy"}:
        return "npz" if mark == "npy" else str(mark)
    if name.name in _MOVIELENS:
        return "movielens"
    stem = name.with_suffix("") if name.suffix.lower() in _PACKED else name
    if stem.suffix.lower() in _BY_SUFFIX:
        return _BY_SUFFIX[stem.suffix.lower()]
    return "fimi" if _looks_like_transactions(path) else "csv"


def _looks_like_transactions(path: Path) -> bool:
    """Lines of whole numbers that increase, three or more of them somewhere, one above 1."""
    import itertools

    longest, largest = 0, 0
    with path.open("rb") as file:
        for line in itertools.islice(file, 200):
            items = line.split()
            if not all(item.isdigit() for item in items) or b"," in line:
                return False
            numbers = [int(item) for item in items]
            if any(a >= b for a, b in itertools.pairwise(numbers)):
                return False
            longest, largest = max(longest, len(items)), max([largest, *numbers])
    return longest >= 3 and largest > 1


def _text(
    path: Path,
    name: str,
    asked: Dialect,
    above: Above | None,
    absent: Absent,
    duplicates: Duplicates,
) -> Reading:
    from boolweave.io.delimited import read_wide
    from boolweave.io.dialect import guess
    from boolweave.io.triples import read_triples

    found = guess(path, name, asked, above is not None)
    if found.layout == "wide":
        observations = read_wide(path, name, found, above)
    else:
        observations = read_triples(path, name, found, above, duplicates, absent)
    return Reading(observations, name, "csv", found.in_words())


def _other(
    path: Path, name: str, kind: str, asked: Dialect, above: Above | None, absent: Absent,
    duplicates: Duplicates,
) -> Reading:  # fmt: skip
    from boolweave.io import formats

    if kind in ("parquet", "arrow"):
        observations, layout = formats.read_columnar(
            path, name, kind, layout=asked.layout, columns=asked.columns, labels=asked.labels,
            above=above, duplicates=duplicates, absent=absent,
        )  # fmt: skip
        return Reading(observations, name, kind, f"{kind}, {layout}")
    if kind == "png":
        return Reading(
            formats.read_picture(path, name, above), name, kind, "picture, dark pixels are ones"
        )
    if kind == "fimi":
        observations = formats.read_fimi(path, name, absent)
    elif kind == "mtx":
        observations = formats.read_matrix_market(path, name, absent, duplicates)
    else:
        observations = formats.read_numpy(path, name, absent, duplicates)
    words = {"fimi": "transactions", "mtx": "Matrix Market", "npz": "NumPy"}[kind]
    return Reading(observations, name, kind, f"{words}, absent entries are {absent}")


def _movielens(path: Path, name: str, above: Above | None) -> Reading:
    from boolweave.io.delimited import bits_above
    from boolweave.io.triples import observe
    from boolweave.movielens import read_movielens

    try:
        ratings = read_movielens(path)
    except (ValueError, FileNotFoundError) as error:
        raise FileError(name, str(error)) from None
    limit = "mean" if above is None else above
    observations = observe(
        ratings.rows, ratings.columns, bits_above(ratings.ratings, limit),
        ratings.users, ratings.films, name,
    )  # fmt: skip
    return Reading(observations, name, "movielens", f"MovieLens, ones are ratings above {limit}")
