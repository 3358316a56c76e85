"""Files that are written beside their place and renamed: there is never half a file.

What is being written is called ".NAME.PROCESS.part" and is locked by its writer. A process that was
killed leaves such a file behind, but no lock; the next one that writes the same file removes it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """A new binary file that takes the place of `path` when the block ends without an error.

    Until then, and for good if the block fails, the old file stays as it was.
    """
    target = Path(path)
    remove_abandoned(target.parent, rf"\.{re.escape(target.name)}\.\d+(\.\d+)?\.part")
    beside, file = _new_part(target)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # on the disk before it takes the place of an older one
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


def remove_abandoned(folder: Path, pattern: str) -> None:
    """Remove the files of a folder with such names, but none that somebody is still writing."""
    with suppress(OSError):
        for name in os.listdir(folder):
            if re.fullmatch(pattern, name):
                _remove_unless_locked(folder / name)


def _new_part(target: Path) -> tuple[Path, BinaryIO]:
    """A file of its own beside the target, even where threads write the same target at once."""
    for n in count():
        own = f"{os.getpid()}.{n}" if n else f"{os.getpid()}"
        beside = target.with_name(f".{target.name}.{own}.part")
        try:
            file = beside.open("xb")
        except FileExistsError:
            continue
        with suppress(OSError):  # not every file system has locks
            _lock(file)
        if beside.exists():  # nobody removed it before it was locked
            return beside, file
        file.close()
    raise AssertionError


if sys.platform == "win32":

    def _lock(file: BinaryIO) -> None:
        """Nothing: Windows removes no file that somebody has open."""

    def _remove_unless_locked(path: Path) -> None:
        with suppress(OSError):
            path.unlink()

else:
    import fcntl

    def _lock(file: BinaryIO) -> None:
        """Lock a file until it is closed or its process ends."""
        fcntl.flock(file, fcntl.LOCK_EX)

    def _remove_unless_locked(path: Path) -> None:
        with suppress(OSError), path.open("rb+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
