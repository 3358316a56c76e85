"""Storage of large arrays in memory, or in files of which one block at a time is in memory.

A file is mapped into memory. The pages of a block are released when the block is done, and those of
the next block are read ahead meanwhile, so that a pass over all blocks reads and writes the file
sequentially and keeps two blocks of it in memory. (With a plain mapping, every page that was
touched stays in memory.) The file has no name: it disappears with its arrays, however the process
ends.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import numpy as np

from boolweave.runtime.warning import warn_user

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from boolweave.runtime.types import Array

    Shape = tuple[int, ...]

Item = TypeVar("Item")

# Number of items of a chunk of an array.
CHUNK = 1 << 18

# Maximum number of bytes that the system has not yet written, if they must leave its cache.
WRITTEN_LATER = 1 << 28

_PAGE = mmap.ALLOCATIONGRANULARITY


@dataclass(frozen=True)
class LazyArray:
    """An array that is read only when `read` is called."""

    shape: Shape
    dtype: np.dtype[Any]
    read: Callable[[], Array]

    @property
    def n_bytes(self) -> int:
        """The size of the array in bytes."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


class Memory:
    """A store of arrays in memory.

    Parameters
    ----------
    n_blocks : int, default=1
        Minimum number of blocks into which the rows are divided.
    """

    # The number of blocks that may be processed at once.
    most_threads = 1 << 30

    def __init__(self, n_blocks: int = 1) -> None:
        self.n_blocks = n_blocks

    def zeros(self, shapes: Sequence[Shape], dtype: DTypeLike) -> list[Array]:
        """Make arrays of these shapes."""
        return [np.zeros(shape, dtype=dtype) for shape in shapes]

    def load(self, arrays: Sequence[LazyArray]) -> list[Array]:
        """Read arrays into this store."""
        return [array.read() for array in arrays]


class Files(Memory):
    """A store of arrays in files without a name, in the directory for temporary files.

    Parameters
    ----------
    n_blocks : int
        Minimum number of blocks into which the rows are divided.
    cached : bool, default=True
        Whether the system may keep the files in its page cache. Otherwise pages leave the cache as
        soon as they are on the disk.
    """

    most_threads = 8

    # Arrays with fewer bytes in total stay in memory.
    LEAST = 1 << 20

    def __init__(self, n_blocks: int, *, cached: bool = True) -> None:
        super().__init__(n_blocks)
        self.cached = cached

    def zeros(self, shapes: Sequence[Shape], dtype: DTypeLike) -> list[Array]:
        """Make arrays of these shapes in one file, each beginning at a page."""
        kind = np.dtype(dtype)
        sizes = [int(np.prod(shape, dtype=np.int64)) * kind.itemsize for shape in shapes]
        starts = [0, *accumulate(-(-size // _PAGE) * _PAGE for size in sizes)]
        mapping = _Mapping.of_size(max(starts[-1], _PAGE), self.cached)
        return [
            np.ndarray(shape, kind, buffer=mapping, offset=start)
            for shape, start in zip(shapes, starts, strict=False)
        ]

    def load(self, arrays: Sequence[LazyArray]) -> list[Array]:
        """Read arrays into a file if they are large, keeping one at a time in memory."""
        alike = len({array.dtype for array in arrays}) == 1
        if not alike or sum(array.n_bytes for array in arrays) < self.LEAST:
            return super().load(arrays)
        kept = self.zeros([array.shape for array in arrays], arrays[0].dtype)
        for target, source in zip(kept, arrays, strict=True):
            target[...] = source.read()
            release_pages(target)
        return kept


class _Mapping(mmap.mmap):
    """A file without a name, mapped into memory."""

    file: BinaryIO
    cached: bool
    dropped: int  # number of bytes since it last waited

    @classmethod
    def of_size(cls, n_bytes: int, cached: bool) -> _Mapping:
        file = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the mapping)
        try:
            _allocate(file, n_bytes)
        except OSError as error:
            file.close()
            raise OSError(
                error.errno,
                f"no room for {n_bytes / 2**30:.3g} GiB of messages ({error.strerror}); set TMPDIR "
                "to a directory on a larger disk",
                tempfile.gettempdir(),
            ) from None
        mapping = cls(file.fileno(), n_bytes)
        mapping.file, mapping.cached, mapping.dropped = file, cached, 0
        weakref.finalize(mapping, file.close)
        return mapping

    def drop(self, start: int, length: int) -> None:
        """Remove a part of the file from the system's page cache.

        Pages that are not on the disk yet stay, and the call starts writing them. If there are
        many of those, it waits until they are written and removes them, too.
        """
        if self.cached or not hasattr(os, "posix_fadvise"):
            return
        file = self.file.fileno()
        os.posix_fadvise(file, start, length, os.POSIX_FADV_DONTNEED)
        self.dropped += length
        if self.dropped > WRITTEN_LATER:
            os.fdatasync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            self.dropped = 0


def _allocate(file: BinaryIO, n_bytes: int) -> None:
    """Reserve space on the disk, because a mapped file that cannot grow would kill the process."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, n_bytes)
    else:
        file.truncate(n_bytes)


# ---------------------------------------------------------------- one after another


def iterate_blocks(
    items: Iterable[Item], arrays_of: Callable[[Item], Iterable[Array]]
) -> Iterator[Item]:
    """Yield the items; read the arrays of the next item ahead and release those of the last.

    If the arrays are in memory, this only yields the items.
    """
    waiting = list(items)
    if not any(is_in_file(array) for item in waiting for array in arrays_of(item)):
        yield from waiting
        return
    for n, item in enumerate(waiting):
        for following in waiting[n + 1 : n + 2]:
            for array in arrays_of(following):
                _advise(array, "MADV_WILLNEED")
        yield item
        for array in arrays_of(item):
            release_pages(array)


def iterate_chunks(array: Array, overlap: int = 0, size: int = CHUNK) -> Iterator[Array]:
    """Yield consecutive parts; each begins with the last `overlap` items of the previous one.

    Every part has new items, unless the array has no more than `overlap` items.
    """
    starts = range(0, max(len(array) - overlap, min(len(array), 1)), size)
    chunks = [array[start : start + size + overlap] for start in starts]
    return iterate_blocks(chunks, lambda chunk: (chunk,))


def release_pages(array: Array) -> None:
    """Release the memory of an array if it is part of a file; it is read again when needed."""
    _advise(array, "MADV_DONTNEED")


def _advise(array: Array, advice: str) -> None:
    mapping = _mapping_of(array)
    if mapping is None or array.nbytes == 0 or not hasattr(mmap, advice):
        return
    first = array.ctypes.data - np.frombuffer(mapping, dtype=np.uint8, count=1).ctypes.data
    start = first // _PAGE * _PAGE
    length = min(first + array.nbytes, len(mapping)) - start
    mapping.madvise(getattr(mmap, advice), start, length)
    if advice == "MADV_DONTNEED" and isinstance(mapping, _Mapping):
        mapping.drop(start, length)


def is_in_file(array: Array) -> bool:
    """Whether an array is part of a file that is mapped into memory."""
    return _mapping_of(array) is not None


def _mapping_of(array: object) -> mmap.mmap | None:
    """Find the mapping of which an array is part, if its pages can be released without loss."""
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap):  # changes of a private one are in memory only
            return None if array.mode == "c" else array._mmap  # type: ignore[attr-defined, no-any-return]
        array = array.base
    return array if isinstance(array, _Mapping) else None


# ---------------------------------------------------------------- the disk


def check_disk(n_bytes: int) -> None:
    """Raise if the directory for temporary files is too small; warn if it is in memory."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if n_bytes > free:
        raise OSError(
            f"messages need {n_bytes / 2**30:.3g} GiB in {folder}, which has "
            f"{free / 2**30:.3g} GiB free; set TMPDIR to a directory on a larger disk"
        )
    if _is_in_memory(Path(folder)):
        warn_user(
            f"{folder}, where messages are kept because of `max_memory`, is itself in memory; set "
            "TMPDIR to a directory on a disk"
        )


def _is_in_memory(folder: Path, mounts: Path = Path("/proc/self/mountinfo")) -> bool:
    """Whether files in a directory are kept in memory (tmpfs); False if it is not known."""
    device = os.stat(folder).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}" if hasattr(os, "major") else ""
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return False
    for line in lines:
        before, _, after = line.partition(" - ")
        if before.split()[2:3] == [wanted]:
            return after.split()[0] in ("tmpfs", "ramfs")
    return False
