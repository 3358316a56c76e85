"""Archives of arrays (.npz): each array is checked before it is created, and all of them together.

NumPy's own reader trusts the header of an array about its size. Here the header must agree with the
available bytes, which must fit into memory, and no Python objects are read. An archive written by
`write_arrays` has a checksum over the names, sizes and CRCs of its arrays, which detects arrays
that were exchanged, altered or removed.
"""

from __future__ import annotations

import hashlib
import json
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from boolweave.runtime.free_memory import format_bytes, free_memory
from boolweave.runtime.storage import release_pages
from boolweave.runtime.types import Array

CHECKSUM = "checksum"

# Booleans, integers, floats, complex numbers and text: other kinds of arrays are never written.
_KINDS = "biufcUS"


class ArrayHeader(NamedTuple):
    """Shape and type of an array in a file."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_column: bool


class Archive:
    """An open .npz file: its arrays by name, read one by one.

    Parameters
    ----------
    file : path or open binary file
        A path must not change until the archive is closed.

    Raises
    ------
    Whatever zip, zlib and NumPy raise for damaged files; ValueError, with the reason, for intact
    files that are not such archives.
    """

    def __init__(self, file: str | Path | BinaryIO) -> None:
        self._zip = zipfile.ZipFile(file)
        self._members: dict[str, zipfile.ZipInfo] = {}
        for member in self._zip.infolist():
            name = member.filename.removesuffix(".npy")
            if name == member.filename:
                raise ValueError(f"{name!r} in it is not an array")
            if name in self._members:
                raise ValueError(f"it holds the array {name!r} twice")
            self._members[name] = member
        self.sealed = CHECKSUM in self._members
        if self.sealed:
            stated = self[CHECKSUM]
            members = [info for name, info in self._members.items() if name != CHECKSUM]
            if stated.shape != () or str(stated[()]) != _digest(members):
                raise ValueError("the checksum does not match: the file was altered")
            del self._members[CHECKSUM]

    @property
    def names(self) -> list[str]:
        """Names of the arrays, without the checksum."""
        return list(self._members)

    def __getitem__(self, name: str) -> Array:
        """Read one of the arrays; its CRC is checked."""
        member = self._members[name]
        with self._zip.open(member) as file:
            return _read_array(file, member.file_size)  # type: ignore[arg-type]

    def size(self, name: str) -> int:
        """Number of bytes of one of the arrays with its header."""
        return self._members[name].file_size

    def header(self, name: str) -> ArrayHeader:
        """Read the shape and the type of one of the arrays, and not the array itself."""
        member = self._members[name]
        with self._zip.open(member) as file:
            return _read_header(file, member.file_size)  # type: ignore[arg-type]

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *error: object) -> None:
        self._zip.close()


def write_arrays(file: BinaryIO, arrays: Mapping[str, Any], *, compress: bool = False) -> None:
    """Write arrays as `np.savez` does, with a checksum over them.

    Arrays that are kept in files are not kept in memory.
    """
    kind = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", kind, allowZip64=True) as archive:
        for name, value in arrays.items():
            _write_array(archive, name, value)
        _write_array(archive, CHECKSUM, _digest(archive.infolist()))


def _write_array(archive: zipfile.ZipFile, name: str, value: Any) -> None:
    array = np.asanyarray(value)
    with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
        np.lib.format.write_array(entry, array, allow_pickle=False)
    release_pages(array)


def _digest(members: list[zipfile.ZipInfo]) -> str:
    listed = sorted([member.filename, member.file_size, member.CRC] for member in members)
    return hashlib.blake2b(json.dumps(listed).encode(), digest_size=16).hexdigest()


def read_array(path: Path) -> Array:
    """Read a single array (.npy); see `Archive` for the errors."""
    with path.open("rb") as file:
        return _read_array(file, path.stat().st_size)


def _read_header(file: BinaryIO, size: int) -> ArrayHeader:
    """Read the header of an array that takes up all `size` bytes of the file."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, by_column, dtype = np.lib.format.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, by_column, dtype = np.lib.format.read_array_header_2_0(file)
    else:
        raise ValueError(f"arrays of the format {version[0]}.{version[1]} are not supported")
    if dtype.kind not in _KINDS or dtype.itemsize == 0:
        raise ValueError(f"expected numbers or text, got an array of the type {dtype}")
    left = size - file.tell()
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != left:
        raise ValueError(f"an array of shape {shape} and type {dtype} does not take {left} bytes")
    return ArrayHeader(shape, dtype, by_column)


def _read_array(file: BinaryIO, size: int) -> Array:
    """Read an array that takes up all `size` bytes of the file."""
    shape, dtype, by_column = _read_header(file, size)
    # A larger array is only read if there is enough memory.
    large = 1 << 28
    if size > large and (free := free_memory()) is not None and size > free:
        raise MemoryError(
            f"an array of {format_bytes(size)} in the file does not fit into memory, of which "
            f"{format_bytes(free)} are free"
        )
    array = np.empty(math.prod(shape), dtype=dtype)
    if array.size:
        _fill(array.view(np.uint8).data, file)
    if file.read(1):
        raise ValueError("there are more bytes after an array")
    array = array.astype(dtype.newbyteorder("="), copy=False)
    if dtype.kind == "b" and array.view(np.uint8).max(initial=0) > 1:
        raise ValueError("a Boolean in it is neither 0 nor 1")
    last_character = 0x10FFFF
    if dtype.kind == "U" and array.view(np.uint32).max(initial=0) > last_character:
        raise ValueError("a text in it contains an invalid character")
    return array.reshape(shape[::-1]).T if by_column else array.reshape(shape)


def _fill(target: memoryview, file: BinaryIO) -> None:
    # Number of bytes that are read at a time.
    at_a_time = 1 << 24
    while target:
        n_read = file.readinto(target[:at_a_time])  # type: ignore[attr-defined]
        if not n_read:
            raise EOFError("the file ends within an array")
        target = target[n_read:]
