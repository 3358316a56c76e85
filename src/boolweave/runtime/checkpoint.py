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
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np

from boolweave.runtime.archives import Archive
from boolweave.runtime.checkpoint_files import Directory, files_at
from boolweave.runtime.storage import LazyArray, Memory
from boolweave.runtime.warning import warn_user

if TYPE_CHECKING:
    from numpy.typing import NDArray


FORMAT = "boolweave checkpoint"
VERSION = 2

# Seconds between two checkpoints, and the maximum fraction of the time for writing them: large
# checkpoints are written less often.
INTERVAL = 120.0
SHARE = 0.03

# Arrays with at least this many bytes are read only when they are needed.
LARGE = 1 << 20

# The number of checkpoints that are kept: if the newest is damaged, the one before it is read.
KEPT = 2

Frame = TypeVar("Frame")

# JSON: null, a number, a text, a list or a dictionary.
Node: TypeAlias = Any


class Identified(Protocol):
    """Data that can be distinguished from other data."""

    @property
    def fingerprint(self) -> str:
        """A text that is the same only for the same data."""
        ...


@runtime_checkable
class Lazy(Protocol):
    """A reference to arrays that are kept elsewhere."""

    def to_local(self) -> object:
        """Fetch the arrays."""
        ...


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written or removed; the run itself continues."""


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often a long run writes checkpoints.

    Parameters
    ----------
    path : path or URL
        A directory, or any URL that fsspec supports, such as ``s3://bucket/run``. It is created if
        necessary, and it is empty again when the run is finished.
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
    interval: float = INTERVAL
    share: float = SHARE

    def __post_init__(self) -> None:
        if not self.interval >= 0:
            raise ValueError(f"interval must be a non-negative number, got {self.interval}")
        if not 0 < self.share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, got {self.share}")

    def __fspath__(self) -> str:
        return str(self.path)


class Recorder:
    """The open frames of a run: `save` writes them, and `frame` restores them.

    Parameters
    ----------
    place : path, URL or Checkpoint, optional
        The place of the checkpoints; without it, nothing is written.
    observations : Identified
        The data, which are not written, because a resumed run has them, too.
    parameters : dict
        Parameters that distinguish runs with the same data.

    Attributes
    ----------
    store : Memory
        Where large arrays of frames are kept.
    classes : dict
        The classes of which frames may consist, by name; see `register`.
    checks : dict
        For the name of a frame, a function that raises if the frame does not fit the run.
    """

    def __init__(
        self,
        place: str | Path | Checkpoint | None = None,
        observations: Identified | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> None:
        self.n_saved = 0
        self.store = Memory()
        self.classes: dict[str, type] = {}
        self.checks: dict[str, Callable[[Any], None]] = {}
        self._open: list[tuple[str, object]] = []
        self._waiting: list[tuple[str, Node]] = []
        self._reader: _Reader | None = None
        self._given: dict[str, object] = {"observations": observations}
        self._files: Directory | None = None
        self._checkpoint = place if isinstance(place, Checkpoint) else Checkpoint(place or "")
        self._path = self._checkpoint.path
        if place is not None and observations is not None:
            texts = {name: _text(value) for name, value in (parameters or {}).items()}
            self._identity = {"data": observations.fingerprint, **texts}
            self._files = files_at(str(self._path))
            self._files.remove_abandoned()
            self._waiting = self._load(self._files)
            self._due = time.monotonic() + self._checkpoint.interval

    def register(self, *classes: type) -> None:
        """Allow dataclasses as parts of frames; checkpoints refer to them by their bare names."""
        self.classes |= {kind.__name__: kind for kind in classes}

    @property
    def resuming(self) -> bool:
        """Whether the frame of an inner loop is still to be restored."""
        return bool(self._waiting)

    @contextmanager
    def frame(self, name: str, fresh: Callable[[], Frame]) -> Iterator[Frame]:
        """Open the variables of a loop: restored ones in a resumed run, or `fresh` ones."""
        if self._waiting:
            stored, node = self._waiting.pop(0)
            if stored != name:
                raise ValueError(
                    f"expected a checkpoint of {name!r}, got one of {stored!r}, which does not fit "
                    f"this version of boolweave; remove it from {self._path} to begin again"
                )
            value = self._value(node, self.checks.get(name))
        else:
            value = fresh()
        self._open.append((name, value))
        try:
            yield value
        finally:
            self._open.pop()

    def _value(self, node: Node, check: Callable[[Any], None] | None) -> Any:
        assert self._reader is not None
        self._reader.store, self._reader.classes = self.store, self.classes
        try:
            value = self._reader.value(node)
            if check is not None:
                check(value)
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
        writer = _Writer(self._given, self.classes)
        header = {
            "format": FORMAT,
            "version": VERSION,
            "identity": self._identity,
            "frames": [[name, writer.node(value)] for name, value in self._open],
            "objects": writer.objects,
        }
        arrays = {"header": np.array(json.dumps(header)), **writer.arrays}
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
            self._reader = _Reader(self._given, header["objects"], arrays)
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


# ---------------------------------------------------------------- frames as arrays and JSON


class _Writer:
    """Conversion of frames to JSON nodes and arrays; shared objects are written once."""

    def __init__(self, given: dict[str, object], classes: dict[str, type]) -> None:
        self.arrays: dict[str, NDArray[Any] | np.generic] = {}
        self.objects: list[tuple[str, dict[str, Node]]] = []
        self._classes = classes
        self._alive: list[object] = []  # an id is unique only as long as its object lives
        self._nodes: dict[int, Node] = {id(value): {"given": name} for name, value in given.items()}

    def node(self, value: object) -> Node:
        if value is None or type(value) in (bool, int, float):
            return value
        if isinstance(value, str):  # an enumeration is written as its text
            return str(value)
        if isinstance(value, list | tuple):
            return {type(value).__name__: [self.node(item) for item in value]}
        if isinstance(value, dict):
            return {"dict": {name: self.node(item) for name, item in value.items()}}
        if id(value) not in self._nodes:
            self._nodes[id(value)] = self._new_node(value)
        return self._nodes[id(value)]

    def _new_node(self, value: object) -> Node:
        local = value.to_local() if isinstance(value, Lazy) else value
        if local is not value:
            self._alive += [local, value]
            return self.node(local)
        if isinstance(value, np.ndarray | np.generic):
            name = f"array-{len(self.arrays)}"
            self.arrays[name] = value
            return {"array" if isinstance(value, np.ndarray) else "number": name}
        kind = type(value).__name__
        if self._classes.get(kind) is not type(value) or not is_dataclass(value):
            raise TypeError(f"a checkpoint cannot hold a {kind}")
        parts = {field.name: self.node(getattr(value, field.name)) for field in fields(value)}
        self.objects.append((kind, parts))
        return {"object": len(self.objects) - 1}


class _Reader:
    """Conversion of JSON nodes and arrays to frames; creates only objects of registered classes."""

    def __init__(
        self,
        given: dict[str, object],
        objects: list[tuple[str, dict[str, Node]]],
        arrays: dict[str, LazyArray],
    ) -> None:
        self.store = Memory()
        self.classes: dict[str, type] = {}
        self._given = given
        self._objects = objects
        self._arrays = arrays
        self._made: dict[int, object] = {}
        self._loaded: dict[str, NDArray[Any]] = {}

    def value(self, node: Node) -> Any:
        """Make the object of a node; the arrays of lists go to the store."""
        if not isinstance(node, dict):
            return node
        ((kind, content),) = node.items()
        if kind == "given":
            return self._given[content]
        if kind == "array":
            if content not in self._loaded:
                self._loaded[content] = self._arrays[content].read()
            return self._loaded[content]
        if kind == "number":
            return self._arrays[content].read()[()]
        if kind == "dict":
            return {name: self.value(item) for name, item in content.items()}
        if kind == "object":
            if content not in self._made:
                self._made[content] = self._make(*self._objects[content])
            return self._made[content]
        names = [item["array"] for item in content if isinstance(item, dict) and "array" in item]
        new = [name for name in names if name not in self._loaded]
        if kind == "list" and content and len(new) == len(content):
            loaded = self.store.load([self._arrays[name] for name in new])
            self._loaded |= dict(zip(new, loaded, strict=True))
        return {"list": list, "tuple": tuple}[kind](self.value(item) for item in content)

    def _make(self, name: str, parts: dict[str, Node]) -> object:
        kind = self.classes.get(name)
        if kind is None:
            raise TypeError(f"unexpected {name}")
        return kind(**{field: self.value(node) for field, node in parts.items()})


def _read(files: Directory, number: int) -> tuple[dict[str, Any], dict[str, LazyArray]]:
    """Read the header and the arrays; large ones are only checked, and read again when needed.

    So at most one of them is in memory before it is known where they will be kept.
    """

    def again(name: str) -> NDArray[Any]:
        with files.open(number) as file, Archive(file) as stored:
            return stored[name]

    arrays = {}
    with files.open(number) as file, Archive(file) as stored:
        for name in stored.names:
            array = stored[name]
            small = array.nbytes < LARGE
            make = (lambda a=array: a) if small else partial(again, name)
            arrays[name] = LazyArray(array.shape, array.dtype, make)
        sealed = stored.sealed
    header = json.loads(str(arrays.pop("header").read()))
    version = header["version"]
    if header["format"] != FORMAT or type(version) is not int or version < VERSION:
        raise ValueError("not a checkpoint")
    if version == VERSION:
        if not sealed:
            raise ValueError("the checksum is missing")
        _check_header(header)
    return header, arrays


def _check_header(header: dict[str, Any]) -> None:
    """Raise ValueError unless frames and objects have the form that `_Writer` gives them."""
    named = [*header["frames"], *header["objects"]]
    if not all(type(pair) is list and len(pair) == 2 and type(pair[0]) is str for pair in named):
        raise ValueError("frames and objects must have names")
    if not all(type(parts) is dict for _, parts in header["objects"]):
        raise ValueError("objects must have fields")
    if type(header["identity"]) is not dict:
        raise ValueError("the identity must have names")
