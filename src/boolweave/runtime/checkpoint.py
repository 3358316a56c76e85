"""Checkpoints: every few minutes, a long run saves its state, so that it can resume after a crash.

A fit consists of nested loops: ranks, starts, learning, iterations. Each keeps its variables in a
frame, a dataclass that it opens with `Recorder.frame`. The open frames, from the outermost loop to
the innermost, are all that a run needs to resume, so a checkpoint consists of them. In a resumed
run, a loop finds its frame as it was and continues from there; everything else is computed again
from the same data and the same seed, so that the result is the same bit for bit.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from boolweave.runtime import atomic
from boolweave.runtime.archives import Archive, write_arrays
from boolweave.runtime.storage import LazyArray, Memory
from boolweave.runtime.tree import Checks, Node, Packer, Unpacker
from boolweave.runtime.types import Array
from boolweave.runtime.warning import warn_user

FORMAT = "boolweave checkpoint"
VERSION = 3

# Arrays with at least this many bytes are read only when they are needed.
LARGE = 1 << 20

# The number of checkpoints that are kept: if the newest is damaged, the one before it is read.
KEPT = 2

_NAME = re.compile(r"checkpoint-(\d{6,})\.npz")
_ABANDONED = r"\.checkpoint-\d{6,}\.npz\.(\d+\.)*part"

Frame = TypeVar("Frame")


class Identified(Protocol):
    """Data that can be distinguished from other data."""

    @property
    def fingerprint(self) -> str:
        """A text that is the same only for the same data."""
        ...


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written or removed; the run itself continues."""


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often a long run writes checkpoints.

    Parameters
    ----------
    path : path
        A directory. It is created if necessary, and it is empty again when the run is finished.
    interval : float, default=120
        Seconds between two checkpoints.
    share : float, default=0.03
        Maximum fraction of the time for writing; checkpoints are written less often if necessary.

    Examples
    --------
    >>> import tempfile
    >>> from boolweave import BooleanMatrixFactorization
    >>> from boolweave.runtime.checkpoint import Checkpoint
    >>> often = Checkpoint(tempfile.mkdtemp(), interval=10)
    >>> model = BooleanMatrixFactorization(1, checkpoint=often).fit([[1, 0], [1, 0]])
    """

    path: str | Path
    interval: float = 120.0
    share: float = 0.03

    def __post_init__(self) -> None:
        if "://" in str(self.path):
            raise ValueError(
                f"checkpoint must be a directory, got the address {str(self.path)!r}; mount that "
                "storage as a directory, or use a local one"
            )
        if not self.interval >= 0:
            raise ValueError(f"interval must be a non-negative number, got {self.interval}")
        if not 0 < self.share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, got {self.share}")

    def __fspath__(self) -> str:
        return str(self.path)


@dataclass(frozen=True)
class WholeNumber:
    """A frame that is one number, not below 0."""

    value: int

    def __post_init__(self) -> None:
        if self.value < 0:
            raise ValueError(f"expected a whole number from 0 up, got {self.value}")


class Recorder:
    """The open frames of a run: `save` writes them, and `frame` restores them.

    Parameters
    ----------
    place : path or Checkpoint, optional
        The place of the checkpoints; without it, nothing is written.
    observations : Identified
        The data, which are not written, because a resumed run has them, too.
    parameters : dict
        Parameters that distinguish runs with the same data.

    Attributes
    ----------
    store : Memory
        Where large arrays of frames are kept.
    checks : dict
        For the classes in frames, functions that raise if an object does not fit the run.
    """

    def __init__(
        self,
        place: str | Path | Checkpoint | None = None,
        observations: Identified | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> None:
        self.n_saved = 0
        self.store = Memory()
        self.checks: Checks = {}
        self._classes: dict[str, type] = {}
        self._open: list[tuple[str, object]] = []
        self._waiting: list[tuple[str, Node]] = []
        self._reader: Unpacker | None = None
        self._given: dict[str, object] = {"observations": observations}
        self._files: Directory | None = None
        self._checkpoint = place if isinstance(place, Checkpoint) else Checkpoint(place or "")
        self._path = self._checkpoint.path
        if place is not None and observations is not None:
            texts = {name: _text(value) for name, value in (parameters or {}).items()}
            self._identity = {"data": observations.fingerprint, **texts}
            self._files = Directory(str(self._path))
            self._files.remove_abandoned()
            self._waiting = self._load(self._files)
            self._due = time.monotonic() + self._checkpoint.interval

    def register(self, *classes: type) -> None:
        """Announce classes of objects for which annotations name a base class or a protocol."""
        self._classes |= {kind.__name__: kind for kind in classes}

    @property
    def resuming(self) -> bool:
        """Whether the frame of an inner loop is still to be restored."""
        return bool(self._waiting)

    @contextmanager
    def frame(
        self, name: str, fresh: Callable[[], Frame], kind: type[Frame] | None = None
    ) -> Iterator[Frame]:
        """Open the variables of a loop: restored ones in a resumed run, or `fresh` ones.

        They are of the class `kind`, which may be left out if it is `fresh` itself.
        """
        if self._waiting:
            depth, (stored, node) = len(self._open), self._waiting.pop(0)
            if stored != name:
                raise ValueError(
                    f"expected a checkpoint of {name!r}, got one of {stored!r}, which does not fit "
                    f"this version of boolweave; remove it from {self._path} to begin again"
                )
            value: Frame = self._restored(kind or fresh, node, f"{depth}-{name}")
        else:
            value = fresh()
        self._open.append((name, value))
        try:
            yield value
        finally:
            self._open.pop()

    def _restored(self, kind: Any, node: Node, place: str) -> Any:
        assert self._reader is not None
        reader = self._reader
        reader.store, reader.classes, reader.checks = self.store, self._classes, self.checks
        try:
            value = reader.value(kind, node, place)
        except (OSError, MemoryError):
            raise
        except Exception as error:  # foreign data can fail anywhere
            what = " ".join(str(error).split())[:200]
            raise ValueError(
                f"the checkpoint in {self._path} does not fit this version of boolweave "
                f"({what}); remove it to begin again"
            ) from None
        if not self._waiting:
            self._reader = None
        return value

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Save nothing that happens inside; a resumed run does it again."""
        files, self._files = self._files, None
        try:
            yield
        finally:
            self._files = files

    def save_if_due(self) -> None:
        """Save if the interval has passed; the innermost loop must be able to resume its frame.

        If that fails, for example on a full disk, the run continues and tries again later.
        """
        if self._files is None or time.monotonic() < self._due:
            return
        try:
            self.save()
        except (OSError, MemoryError) as error:
            warn_user(
                f"the checkpoint in {self._path} could not be written ({error}); the run continues "
                "and tries again later. Make room there, or expect to begin again after a "
                "crash.",
                CheckpointWarning,
            )

    def save(self) -> None:
        """Write the open frames, and remove all checkpoints but the last `KEPT`."""
        if self._files is None:
            return
        began = time.monotonic()
        packer = Packer(self._given)
        frames = [
            [name, packer.node(value, f"{depth}-{name}")]
            for depth, (name, value) in enumerate(self._open)
        ]
        header = {
            "format": FORMAT,
            "version": VERSION,
            "identity": self._identity,
            "frames": frames,
        }
        arrays = {"header": np.array(json.dumps(header)), **packer.arrays}
        try:
            numbers = self._files.numbers()
            self._files.write(max(numbers, default=0) + 1, arrays)
            self.n_saved += 1
            for old in numbers[: len(numbers) + 1 - KEPT]:
                with suppress(OSError):  # the next one tries again
                    self._files.remove(old)
        finally:
            now = time.monotonic()
            least = (now - began) / self._checkpoint.share
            self._due = now + max(self._checkpoint.interval, least)

    def finish(self) -> None:
        """Remove the checkpoints at the end of the run."""
        if self._files is None:
            return
        try:
            for number in self._files.numbers():
                self._files.remove(number)
        except OSError as error:  # no reason to lose the result
            warn_user(
                f"the checkpoints in {self._path} could not be removed ({error}); the run is "
                "finished and does not need them; remove them before you use this place again",
                CheckpointWarning,
            )

    def _load(self, files: Directory) -> list[tuple[str, Node]]:
        """Read the frames of the newest intact checkpoint, if there is one."""
        numbers = files.numbers()
        for number in reversed(numbers):
            try:
                header, arrays = _read(files, number)
            except (FileNotFoundError, PermissionError):
                raise
            except Exception:  # damage can show up anywhere: in zip, headers of arrays, JSON
                warn_user(f"{files.name(number)} is damaged; trying the previous checkpoint")
                continue
            if header["version"] > VERSION:
                raise ValueError(
                    f"{files.name(number)} was written by a newer version of boolweave (checkpoint "
                    f"version {header['version']}; this one reads up to {VERSION}); upgrade "
                    "boolweave, or remove it to begin again"
                )
            self._check_identity(files.name(number), header["identity"])
            self._reader = Unpacker(arrays, given=self._given)
            return [(name, node) for name, node in header["frames"]]
        if numbers:
            raise ValueError(
                f"every checkpoint in {self._path} is damaged; remove them to begin again"
            )
        return []

    def _check_identity(self, name: str, stored: dict[str, str]) -> None:
        for key, here in self._identity.items():
            if stored.get(key) != here:
                old = stored.get(key, "missing")
                what = "other data" if key == "data" else f"{key}={old}, not {here}"
                raise ValueError(
                    f"{name} is a checkpoint of another problem ({what}); set another place with "
                    "checkpoint=, or remove it to begin again"
                )


def _text(value: Any) -> str:
    """Write a parameter as text, an array as its hash."""
    if is_dataclass(value) and not isinstance(value, type):
        return repr({field.name: _text(getattr(value, field.name)) for field in fields(value)})
    if np.ndim(value) and not isinstance(value, str):
        array = np.ascontiguousarray(value, dtype=np.float64)
        return f"array {array.shape} {hashlib.blake2b(array.data, digest_size=16).hexdigest()}"
    return repr(value.item() if isinstance(value, np.ndarray | np.generic) else value)


# ---------------------------------------------------------------- files


class Directory:
    """Numbered checkpoints in a directory."""

    def __init__(self, path: str) -> None:
        self._path = str(Path(path))
        os.makedirs(path, exist_ok=True)

    def numbers(self) -> list[int]:
        """Return the numbers of the checkpoints that are there, the oldest first."""
        names = os.listdir(self._path) if os.path.exists(self._path) else []
        matches = map(_NAME.fullmatch, names)
        return sorted(int(match[1]) for match in matches if match)

    def name(self, number: int) -> str:
        """Return the path of a checkpoint."""
        return f"{self._path}/checkpoint-{number:06d}.npz"

    def remove_abandoned(self) -> None:
        """Remove what a run left half-written when it was killed."""
        atomic.remove_abandoned(Path(self._path), _ABANDONED)

    def write(self, number: int, arrays: Mapping[str, Array]) -> None:
        """Write a checkpoint, whole or not at all."""
        os.makedirs(self._path, exist_ok=True)  # somebody may have removed it
        with atomic.replacing(self.name(number)) as file:
            write_arrays(file, arrays)

    def remove(self, number: int) -> None:
        """Remove a checkpoint, if it is still there."""
        with suppress(FileNotFoundError):
            os.remove(self.name(number))


def _read(files: Directory, number: int) -> tuple[dict[str, Any], dict[str, LazyArray]]:
    """Read the header and the arrays; large ones are only checked, and read again when needed.

    So at most one of them is in memory before it is known where they will be kept.
    """

    def again(name: str) -> Array:
        with Archive(files.name(number)) as stored:
            return stored[name]

    arrays = {}
    with Archive(files.name(number)) as stored:
        for name in stored.names:
            array = stored[name]
            small = array.nbytes < LARGE
            make = (lambda a=array: a) if small else partial(again, name)
            arrays[name] = LazyArray(array.shape, array.dtype, make)
    header = json.loads(str(arrays.pop("header").read()))
    version = header["version"]
    if header["format"] != FORMAT or type(version) is not int or version < VERSION:
        raise ValueError("not a checkpoint")
    if version == VERSION:
        frames, identity = header["frames"], header["identity"]
        pairs = all(type(pair) is list and len(pair) == 2 for pair in frames)
        if not (stored.sealed and pairs and type(identity) is dict):
            raise ValueError("without a checksum, frames or an identity")
    return header, arrays
