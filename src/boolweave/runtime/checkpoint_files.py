"""Where checkpoints are: numbered files in a directory, or under a URL.

Whatever goes wrong there is an OSError.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from boolweave.runtime import atomic
from boolweave.runtime.archives import write_arrays

_NAME = re.compile(r"checkpoint-(\d{6,})\.npz")
_HALF = r"\.?checkpoint-\d{6,}\.npz\.(\d+\.)*part"


def files_at(path: str) -> Directory | Remote:
    """The checkpoints in a directory, or under an fsspec URL."""
    return Remote(path) if "://" in path else Directory(path)


class Directory:
    """Numbered checkpoints in a directory."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._path.mkdir(parents=True, exist_ok=True)

    def numbers(self) -> list[int]:
        """Of the checkpoints that are there, the oldest first."""
        return _numbers(os.listdir(self._path) if self._path.exists() else [])

    def remove_abandoned(self) -> None:
        """Remove what a run left half-written when it was killed."""
        atomic.remove_abandoned(self._path, _HALF)

    def name(self, number: int) -> str:
        """Of the file of a checkpoint."""
        return str(self._path / _file_name(number))

    def open(self, number: int) -> BinaryIO:
        """For reading."""
        return open(self.name(number), "rb")

    def write(self, number: int, arrays: dict[str, Any]) -> None:
        """Write a checkpoint, whole or not at all."""
        self._path.mkdir(parents=True, exist_ok=True)  # somebody may have tidied up
        with atomic.replacing(self.name(number)) as file:
            write_arrays(file, arrays)

    def remove(self, number: int) -> None:
        """Remove a checkpoint, if it is still there."""
        Path(self.name(number)).unlink(missing_ok=True)


class Remote:
    """The same under an fsspec URL."""

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ImportError:
            raise ImportError(
                f"checkpoint={url!r} is a URL, which needs fsspec: pip install "
                "'boolweave[distributed]', or give a local directory"
            ) from None
        self._files, self._path = fsspec.core.url_to_fs(url)
        self._files.makedirs(self._path, exist_ok=True)

    def _names(self) -> list[str]:
        self._files.invalidate_cache()
        found = self._files.ls(self._path, detail=False)
        return [str(name).rstrip("/").rsplit("/", 1)[-1] for name in found]

    def numbers(self) -> list[int]:
        """Of the checkpoints that are there, the oldest first."""
        with _os_errors():
            return _numbers(self._names())

    def remove_abandoned(self) -> None:
        """Remove what a run left half-written when it was killed."""
        for name in self._names():
            if re.fullmatch(_HALF, name):
                self._files.rm(f"{self._path.rstrip('/')}/{name}")

    def name(self, number: int) -> str:
        """Of the file of a checkpoint."""
        return f"{self._path.rstrip('/')}/{_file_name(number)}"

    def open(self, number: int) -> BinaryIO:
        """For reading."""
        return self._files.open(self.name(number), "rb")

    def write(self, number: int, arrays: dict[str, Any]) -> None:
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
    """Each kind of remote file system has errors of its own for a network that fails."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}") from error


def _file_name(number: int) -> str:
    return f"checkpoint-{number:06d}.npz"


def _numbers(names: list[str]) -> list[int]:
    return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))
