"""Files that hold a matrix itself (Matrix Market, NumPy, pictures), and transactions."""

from __future__ import annotations

import json
import re
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray

from boolweave.data.cells import codes_above
from boolweave.data.convert import INDEX_ARRAYS, check_indices, check_rows, from_codes
from boolweave.data.entries import check_shape, index_dtype
from boolweave.data.observations import Observations
from boolweave.data.observed import ObservedEntries
from boolweave.data.ones import SparseObservations
from boolweave.io import Reading
from boolweave.io.cells import Seen, check_size, lists_only_ones, naming_file, observe
from boolweave.io.files import (
    CHUNK_BYTES,
    FileError,
    by_value,
    expecting,
    listed,
    magic,
    text_chunks,
)
from boolweave.io.options import Options
from boolweave.runtime.archives import Archive, read_array
from boolweave.runtime.extras import need
from boolweave.runtime.storage import LazyArray
from boolweave.runtime.tree import Unpacker
from boolweave.runtime.types import Array

_PLACE = re.compile(r"\brow (\d+), column (\d+)\b")


def read_matrix_market(path: Path, name: str, options: Options) -> Reading:
    """Read a Matrix Market file, in coordinate or array format."""
    with expecting(name, "a Matrix Market file", ValueError):
        matrix = read_market(path)
    try:
        return from_matrix(matrix, name, "Matrix Market", options)
    except FileError as error:  # such a file counts its rows and columns from 1, an array from 0
        error.args = (_PLACE.sub(_from_one, str(error)),)
        raise


def _from_one(place: re.Match[str]) -> str:
    return f"row {int(place[1]) + 1}, column {int(place[2]) + 1}"


def from_matrix(matrix: Any, name: str, kind: str, options: Options) -> Reading:
    """Convert a matrix in memory, with messages that name the file, and describe it."""
    sparse, only_ones = hasattr(matrix, "nnz"), False
    how: dict[str, Any] = {"absent": options.unlisted, "duplicates": options.duplicates}
    with naming_file(name):
        if sparse:
            options.check_matrix(name, "a sparse matrix", "above", "absent", "duplicates")
            words = f"{kind}, absent entries are {options.unlisted}"
            check_rows(matrix.shape, matrix.nnz)
            only_ones = lists_only_ones(matrix.shape, matrix.nnz, options.unlisted, options.zeros)
            if options.unlisted == "zero" and not only_ones:
                check_size(matrix.shape, name)
        else:
            options.check_matrix(name, "an array", "above")
            words = f"{kind}, an array"
        if options.above is None and only_ones:
            found = SparseObservations.from_sparse(matrix, duplicates=options.duplicates)
            return Reading(found, words, lists_entries=True)
        if options.above is None:
            return Reading(Observations.from_data(matrix, **how), words, lists_entries=sparse)
        matrix = matrix.tocoo() if sparse else matrix
        ratings = np.asarray(matrix.data if sparse else matrix)
        if ratings.dtype.kind not in "buif":
            raise ValueError(f"expected numbers, got {ratings.dtype}")
        codes = codes_above(ratings.astype(np.float64), options.above)
        if not sparse:
            return Reading(Observations(*from_codes(codes)), words)
        at = matrix.row, matrix.col
        how["zeros"] = options.zeros
        seen = observe(*at, codes, None, None, name, shape=matrix.shape, **how)
        return Reading(seen, words, lists_entries=True)


class _Arrays(dict[str, "Array"]):
    """Arrays by name; a missing array is an error in the file."""

    def __missing__(self, name: str) -> NoReturn:
        raise ValueError(f"it does not contain {name!r}")


def _check_members(path: Path, name: str) -> None:
    """Refuse a zip archive of other files than arrays, such as the tables of a download."""
    with zipfile.ZipFile(path) as archive:
        members = archive.namelist()
    if {"content.xml", "xl/workbook.bin"} & set(members):
        raise FileError(
            name, "expected a workbook (.xlsx), got one of another kind; save it as .xlsx"
        )
    if members and not any(member.endswith(".npy") for member in members):
        problem = f"expected one table, got a zip archive of {listed(members)}; unpack it"
        raise FileError(name, problem)


def read_numpy(path: Path, name: str, options: Options) -> Reading:
    """Read a boolweave model, a SciPy sparse matrix, or a single array."""
    # Damage can show up anywhere: in zip, in zlib, in the headers of arrays.
    with expecting(name, "NumPy arrays without Python objects", Exception):
        if magic(path) == "npy":
            arrays = _Arrays(array=read_array(path))
        else:
            _check_members(path, name)
            with Archive(path) as stored:
                arrays = _Arrays({key: stored[key] for key in stored.names})
    if "header" in arrays and any(key.startswith("observations/") for key in arrays):
        options.check_matrix(name, "a boolweave model")
        errors = ValueError, TypeError, LookupError, AttributeError
        with expecting(name, "a boolweave model", *errors):
            return Reading(_of_model(arrays), "the observations of a boolweave model")
    if "format" in arrays:
        with expecting(name, "a SciPy sparse matrix", ValueError, TypeError):
            matrix = from_arrays(arrays)
        return from_matrix(matrix, name, "NumPy", options)
    if len(arrays) != 1:
        raise FileError(
            name,
            "expected a boolweave model, a SciPy sparse matrix or a single array, got "
            f"{'the arrays ' + listed(list(arrays)) if arrays else 'no arrays'}",
        )
    return from_matrix(next(iter(arrays.values())), name, "NumPy", options)


def _of_model(arrays: _Arrays) -> Seen:
    """The observations in a model file."""
    ((_, fields),) = json.loads(str(arrays["header"]))["tree"].items()
    lazy = {
        key: LazyArray(array.shape, array.dtype, partial(np.asarray, array))
        for key, array in arrays.items()
    }
    unpacker = Unpacker(lazy, (Observations, SparseObservations))
    seen: Seen = unpacker.value(ObservedEntries, fields["observations"], "observations")
    return seen


def from_arrays(arrays: _Arrays) -> Any:
    """The matrix that `scipy.sparse.save_npz` wrote; raise ValueError if the arrays are wrong."""
    import scipy.sparse

    stated: Any = arrays["format"][()]
    kind = stated.decode("ascii") if isinstance(stated, bytes) else str(stated)
    shape = check_shape(arrays["shape"].tolist())
    data = arrays["data"]
    if kind == "dia":
        offsets = _whole(arrays, "offsets")
        _expect(data.ndim == 2 and len(data) == len(offsets), "every diagonal needs an offset")
        _expect(
            not len(offsets) or (-shape[0] < offsets.min() and offsets.max() < shape[1]),
            "a diagonal is outside the matrix",
        )
        return scipy.sparse.dia_array((data, offsets), shape=shape)
    _expect(kind in INDEX_ARRAYS, f"there is no format {kind[:20]!r}")
    where = [_whole(arrays, name) for name in INDEX_ARRAYS[kind]]
    if kind == "bsr":
        _expect(data.ndim == 3 and min(data.shape[1:]) > 0, "data must be a list of blocks")
        height, width = data.shape[1:]
        _expect(
            shape[0] % height == 0 and shape[1] % width == 0,
            f"blocks of {height} x {width} do not fill a matrix of {shape[0]} x {shape[1]}",
        )
    else:
        _expect(data.ndim == 1, "data must be a list of numbers")
    check_indices(kind, where, data, shape)
    make = getattr(scipy.sparse, f"{kind}_array")
    return make((data, tuple(where)) if kind == "coo" else (data, *where[::-1]), shape=shape)


def _whole(arrays: _Arrays, name: str) -> Array:
    array = arrays[name]
    _expect(array.ndim == 1 and array.dtype.kind in "iu", f"{name} must be whole numbers")
    return array


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


# ---------------------------------------------------------------- transactions


def read_fimi(path: Path, name: str, options: Options) -> Reading:
    """Read one transaction per line: its items, separated by blanks; items keep their names."""
    options.check(name, "transactions", "delimiter", "absent")
    delimiter = None if options.dialect.delimiter in (None, " ") else options.dialect.delimiter
    separator = None if delimiter is None else delimiter.encode()
    index: dict[bytes, int] = {}
    rows: list[NDArray[np.int64]] = []
    columns: list[NDArray[np.int64]] = []
    n_rows = 0
    for content, _ in text_chunks(path, name, "transactions"):
        for line in content.split(b"\n"):
            items = [item for field in line.split(separator) if (item := field.strip())]
            if items:
                codes = {index.setdefault(item, len(index)) for item in items}
                columns.append(np.fromiter(codes, np.int64, len(codes)))
                rows.append(np.full(len(codes), n_rows))
                n_rows += 1
    if not n_rows:
        raise FileError(name, "expected one transaction per line, got an empty file")
    try:
        names = [item.decode("utf-8") for item in index]
    except UnicodeDecodeError:
        raise FileError(name, "expected items in UTF-8; convert the file") from None
    row, column = np.concatenate(rows), np.concatenate(columns)
    if all(item.isdigit() for item in index):  # sort them as numbers
        order = sorted(range(len(names)), key=lambda i: by_value(names[i]))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        column, names = place[column], [names[i] for i in order]
    absent = options.unlisted
    seen = observe(
        row,
        column,
        np.ones(len(row), np.uint8),
        None,
        np.array(names, dtype=np.str_),
        name,
        shape=(n_rows, len(names)),
        absent=absent,
        zeros=options.zeros,
    )
    return Reading(seen, f"transactions, absent entries are {absent}", lists_entries=True)


# ---------------------------------------------------------------- pictures


def read_picture(path: Path, name: str, options: Options) -> Reading:
    """Read a 1-bit or grey picture: dark pixels are ones, transparent pixels are missing."""
    options.check_matrix(name, "a picture", "above")
    need("PIL", f"{name}: reading a picture")
    from PIL import Image

    # A damaged picture can fail anywhere in Pillow; its warnings are about large pictures.
    with expecting(name, "a PNG picture", Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Image.open(path) as picture:
            mode = picture.mode
            if mode not in {"1", "L", "LA", "I", "I;16"} and not _grey_palette(picture):
                raise FileError(
                    name,
                    f"expected a 1-bit or grey picture, got a coloured one (mode {mode}); "
                    "convert it to grey first",
                )
            full = picture.convert("LA")
            if mode in {"I", "I;16"}:
                grey = np.asarray(picture, dtype=np.float64) / 257
            else:
                grey = np.asarray(full.getchannel(0), dtype=np.float64)
            alpha = np.asarray(full.getchannel(1))
    seen = np.where(alpha == 0, np.nan, grey)
    middle_grey = 127.5
    if options.above is None:
        codes, words = codes_above(-seen, -middle_grey), "picture, dark pixels are ones"
    else:
        codes = codes_above(seen, options.above)
        words = f"picture, ones are pixels brighter than {options.above}"
    return Reading(Observations(*from_codes(codes)), words)


def _grey_palette(picture: Any) -> bool:
    if picture.mode not in {"P", "RGB", "RGBA"}:
        return False
    colour = np.asarray(picture.convert("RGB"))
    return bool((colour == colour[..., :1]).all())


# ---------------------------------------------------------------- Matrix Market


_CHARACTERS = b"0123456789+-.eEnaNAifIFtyTY \t\r\n"  # those of numbers, including nan and infinity
_FIELDS = ("real", "double", "integer", "unsigned-integer", "pattern")
_SYMMETRIES = ("general", "symmetric", "skew-symmetric")


@dataclass(frozen=True)
class _Head:
    """The contents of the first lines."""

    coordinates: bool
    pattern: bool
    symmetry: str
    shape: tuple[int, int]
    n_entries: int  # number of lines that follow
    n_lines: int  # number of lines read so far

    @property
    def width(self) -> int:
        """Number of numbers in a line."""
        if not self.coordinates:
            return 1
        return 2 if self.pattern else 3


def read_market(path: Path) -> Any:
    """Read a sparse matrix or an array; raise ValueError, with the line, if the file is bad."""
    with path.open("rb") as file:
        head = _read_head(file)
        size = path.stat().st_size
        if 2 * head.width * head.n_entries > size:
            raise ValueError(f"it announces {head.n_entries} entries, more than it can hold")
        if head.coordinates:
            check_rows(head.shape, head.n_entries)
            return _coordinates(file, head)
        return _array(file, head)


def _read_head(file: BinaryIO) -> _Head:
    words = file.readline(1000).decode("latin-1").lower().split()
    if len(words) != 5 or words[0] != "%%matrixmarket":
        raise ValueError("line 1: expected %%MatrixMarket matrix and three more words")
    _, thing, layout, field, symmetry = words
    if thing != "matrix" or layout not in ("coordinate", "array"):
        raise ValueError(
            f"line 1: expected matrix coordinate or array, got {thing[:20]} {layout[:20]}"
        )
    if field not in _FIELDS or (field == "pattern" and layout == "array"):
        raise ValueError(f"line 1: expected zeros and ones, got {field[:20]} numbers")
    if symmetry not in _SYMMETRIES:
        raise ValueError(f"line 1: expected general or symmetric, got {symmetry[:20]}")
    n_lines, line = 2, file.readline()
    while line and (line.startswith(b"%") or not line.strip()):
        n_lines, line = n_lines + 1, file.readline()
    sparse = layout == "coordinate"
    numbers = line[:200].split()
    if (
        len(line) > 200
        or len(numbers) != (3 if sparse else 2)
        or not all(number.isdigit() for number in numbers)
    ):
        what = "rows, columns and entries" if sparse else "rows and columns"
        raise ValueError(f"line {n_lines}: expected the numbers of {what}")
    rows, columns, *entries = (int(number) for number in numbers)
    if symmetry != "general" and rows != columns:
        raise ValueError(f"a {symmetry} matrix must be square, but this one is {rows} x {columns}")
    if not sparse:
        triangle = {"symmetric": rows * (rows + 1) // 2, "skew-symmetric": rows * (rows - 1) // 2}
        entries = [triangle.get(symmetry, rows * columns)]
    return _Head(sparse, field == "pattern", symmetry, (rows, columns), entries[0], n_lines)


def _lines(file: BinaryIO, head: _Head) -> Iterator[NDArray[np.float64]]:
    """The numbers below the head, (lines, width), a chunk of the file at a time."""
    n_lines, n_found = head.n_lines, 0
    while lines := file.readlines(CHUNK_BYTES):
        numbers = _parsed(lines, head.width)
        if numbers is None:
            good = (_is_line(line, head.width) for line in lines)
            wrong = next((n for n, is_good in enumerate(good) if not is_good), len(lines) - 1)
            raise ValueError(f"line {n_lines + wrong + 1}: expected {head.width} numbers")
        n_found += len(numbers)
        if n_found > head.n_entries:
            break
        yield numbers
        n_lines += len(lines)
    if n_found != head.n_entries:
        more = "more" if n_found > head.n_entries else n_found
        raise ValueError(f"expected {head.n_entries} entries, got {more}")


def _parsed(lines: list[bytes], width: int) -> NDArray[np.float64] | None:
    """The numbers in lines that are not blank, (n, width); None if a line has another width."""
    text = b"".join(lines)
    blank = np.frombuffer(text, dtype=np.uint8) <= ord(" ")
    begins = ~blank
    begins[1:] &= blank[:-1]
    ends = np.cumsum([len(line) for line in lines])
    in_line = np.add.reduceat(begins, np.concatenate([[0], ends[:-1]]), dtype=np.int64)
    if text.translate(None, _CHARACTERS) or not np.isin(in_line, (0, width)).all():
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # NumPy before 2.3 warns of words
        try:
            numbers = np.fromstring(text if in_line.any() else b"", dtype=np.float64, sep=" ")
        except ValueError:
            return None
    return numbers.reshape(-1, width) if len(numbers) == in_line.sum() else None


def _is_line(line: bytes, width: int) -> bool:
    """Whether a line is blank or holds `width` numbers."""
    try:
        numbers = [float(word) for word in line.split()]
    except ValueError:
        return False
    return len(numbers) in (0, width) and not line.translate(None, _CHARACTERS)


def _coordinates(file: BinaryIO, head: _Head) -> Any:
    import scipy.sparse

    kind = index_dtype(max(head.shape) + 1)
    parts: list[tuple[NDArray[Any], ...]] = []
    for numbers in _lines(file, head):
        at = []
        for side, name, size in zip((0, 1), ("row", "column"), head.shape, strict=True):
            place = numbers[:, side]
            wrong = ~((place >= 1) & (place <= size) & (place == np.floor(place)))
            if wrong.any():
                raise ValueError(
                    f"expected {name}s from 1 to {size}, got {place[np.argmax(wrong)]:.15g}"
                )
            at.append((place - 1).astype(kind))
        values = np.ones(len(numbers), np.uint8) if head.pattern else _small(numbers[:, 2])
        parts.append((*at, values))
    empty = (np.zeros(0, kind), np.zeros(0, kind), np.zeros(0, np.uint8))
    row, column, values = (np.concatenate(part) for part in zip(empty, *parts, strict=True))
    if head.symmetry != "general":
        other = row != column
        mirrored = values[other]
        mirrored = -mirrored.astype(np.float64) if head.symmetry != "symmetric" else mirrored
        row, column = np.concatenate([row, column[other]]), np.concatenate([column, row[other]])
        values = np.concatenate([values, mirrored])
    return scipy.sparse.coo_array((values, (row, column)), shape=head.shape)


def _small(values: NDArray[np.float64]) -> NDArray[Any]:
    """Zeros and ones in one byte each; other numbers as they are."""
    ones = values == 1
    return ones.view(np.uint8) if (ones | (values == 0)).all() else values.copy()


def _array(file: BinaryIO, head: _Head) -> NDArray[Any]:
    """Read an array that is written column by column."""
    parts = [_small(numbers[:, 0]) for numbers in _lines(file, head)]
    values = np.concatenate([np.zeros(0, np.uint8), *parts])
    if head.symmetry == "general":
        return values.reshape(head.shape[::-1]).T
    skew = head.symmetry == "skew-symmetric"
    below = np.zeros(head.shape)
    below.T[np.triu_indices(head.shape[0], int(skew))] = values  # its columns, one after another
    above = np.triu(below.T, 1)
    return below - above if skew else below + above
