"""The files of checkpoints: numbered, in a directory or under a URL.

All errors of these files are OSErrors.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np

from boolweave.runtime import atomic
from boolweave.runtime.archives import write_arrays
from boolweave.runtime.extras import need
from boolweave.runtime.types import Array

_NAME = re.compile(r"checkpoint-(\d{6,})\.npz")
_ABANDONED = r"\.?checkpoint-\d{6,}\.npz\.(\d+\.)*part"

Arrays = Mapping[str, Array | np.generic]


def files_at(path: str) -> Directory:
    """Return the checkpoints in a directory, or under an fsspec URL."""
    return Remote(path) if "://" in path else Directory(path)


class Directory:
    """Numbered checkpoints in a directory."""

    def __init__(self, path: str) -> None:
        self._path = str(Path(path))
        os.makedirs(path, exist_ok=True)

    def numbers(self) -> list[int]:
        """Return the numbers of the checkpoints that are there, the oldest first."""
        matches = map(_NAME.fullmatch, self._names())
        return sorted(int(match[1]) for match in matches if match)

    def name(self, number: int) -> str:
        """Return the path of a checkpoint."""
        return f"{self._path}/checkpoint-{number:06d}.npz"

    def _names(self) -> list[str]:
        return os.listdir(self._path) if os.path.exists(self._path) else []

    def remove_abandoned(self) -> None:
        """Remove what a run left half-written when it was killed."""
        atomic.remove_abandoned(Path(self._path), _ABANDONED)

    def open(self, number: int) -> BinaryIO:
        """Open a checkpoint for reading."""
        return open(self.name(number), "rb")

    def write(self, number: int, arrays: Arrays) -> None:
        """Write a checkpoint, whole or not at all."""
        os.makedirs(self._path, exist_ok=True)  # somebody may have removed it
        with atomic.replacing(self.name(number)) as file:
            write_arrays(file, arrays)

    def remove(self, number: int) -> None:
        """Remove a checkpoint, if it is still there."""
        with suppress(FileNotFoundError):
            os.remove(self.name(number))


class Remote(Directory):
    """Numbered checkpoints under an fsspec URL."""

    def __init__(self, url: str) -> None:
        need("fsspec", f"checkpoint={url!r} is a URL, which")
        import fsspec

        self._files, path = fsspec.core.url_to_fs(url)
        self._path = path.rstrip("/")
        self._files.makedirs(self._path, exist_ok=True)

    def _names(self) -> list[str]:
        with _os_errors():
            self._files.invalidate_cache()
            found = self._files.ls(self._path, detail=False)
        return [str(name).rstrip("/").rsplit("/", 1)[-1] for name in found]

    def remove_abandoned(self) -> None:
        """Remove what a run left half-written when it was killed."""
        for name in self._names():
            if re.fullmatch(_ABANDONED, name):
                self._files.rm(f"{self._path}/{name}")

    def open(self, number: int) -> BinaryIO:
        """Open a checkpoint for reading."""
        return self._files.open(self.name(number), "rb")

    def write(self, number: int, arrays: Arrays) -> None:
        """Write a checkpoint, whole or not at all."""
        part = self.name(number) + ".part"
        with _os_errors():
            with self._files.open(part, "wb") as file:
                write_arrays(file, arrays)
            self._files.mv(part, self.name(number))

    def remove(self, number: int) -> None:
        """Remove a checkpoint, if it is still there."""
        with _os_errors(), suppress(FileNotFoundError):
            self._files.rm(self.name(number))


@contextmanager
def _os_errors() -> Iterator[None]:
    """Turn the errors of a remote file system into OSErrors."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
