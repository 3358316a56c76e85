"""Matrix Market files, which are parsed here because SciPy's reader crashes on some bad ones."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from boolweave.data.entries import index_dtype
from boolweave.data.sparse import check_rows
from boolweave.io.files import CHUNK_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
