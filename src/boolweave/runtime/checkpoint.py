"""What a long run needs to go on after a crash, written every few minutes.

A fit is a nest of loops: ranks, starts, learning, iterations. Each keeps its variables in a frame,
a dataclass that it opens with `Recorder.frame`. The open frames, from the outermost loop to the
innermost, are all that a run needs to go on, so that is what a checkpoint holds. On the way back a
loop finds its frame as it was and goes on from there; everything else is worked out again from the
same data and the same seed, so the end is the same bit for bit.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from boolweave.runtime.archives import Archive
from boolweave.runtime.checkpoint_files import Directory, Remote, store_at
from boolweave.runtime.storage import LazyArray, Memory

if TYPE_CHECKING:
    from numpy.typing import NDArray


FORMAT = "boolweave checkpoint"
# 1: without a checksum. 2: with one.
VERSION = 2
FIRST_SEALED = 2

# Seconds between two checkpoints, and the largest share of the time that writing them may take: if
# a checkpoint is large, they are written less often.
INTERVAL = 120.0
SHARE = 0.03

# Bytes of an array that is read only when it is needed.
LARGE = 1 << 20

# So many are kept: should the newest turn out to be damaged, the one before it serves.
KEPT = 2

Frame = TypeVar("Frame")


class Identified(Protocol):
    """Data that can be told from other data."""

    @property
    def fingerprint(self) -> str:
        """A text that is the same for the same data only."""
        ...


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written or removed; the run itself is none the worse for it."""


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often a long run keeps what it needs to go on.

    Parameters
    ----------
    path : path or URL
        A directory, or any URL that fsspec knows, such as ``s3://bucket/run``. It is made if it is
        not there, and empty again when the run is finished.
    interval : float, default=120
        Seconds between two checkpoints.
    share : float, default=0.03
        The largest share of the time that writing may take; it is done less often if need be.

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
            raise ValueError(f"interval must be a number of seconds from 0 up, got {self.interval}")
        if not 0 < self.share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, got {self.share}")

    def __fspath__(self) -> str:
        return str(self.path)


class Recorder:
    """The open frames of a run; `save` writes them down, `frame` finds them again.

    Parameters
    ----------
    checkpoint : Checkpoint, optional
        None: nothing is written.
    identity : dict of str
        What tells this problem from others, as `identity_of` makes it.
    given : dict
        Objects that are not written, because who resumes has them too, by name.
    """

    def __init__(
        self,
        checkpoint: Checkpoint | None = None,
        identity: dict[str, str] | None = None,
        given: dict[str, Any] | None = None,
    ) -> None:
        self.n_saved = 0
        self._checkpoint = checkpoint
        self._identity = identity or {}
        self._given = given or {}
        self.store = Memory()  # where large arrays of frames are kept
        # What raises where a frame, by its name, does not fit the run that is to go on with it.
        self.checks: dict[str, Callable[[Any], None]] = {}
        self._open: list[tuple[str, Any]] = []
        self._waiting: list[tuple[str, Any]] = []  # names, and nodes for the reader
        self._reader: _Reader | None = None
        self._store = None if checkpoint is None else store_at(str(checkpoint.path))
        if self._store is not None:
            self._store.sweep()
            self._waiting = self._load(self._store)
            self._due = time.monotonic() + self._interval

    @classmethod
    def at(
        cls,
        place: str | Path | Checkpoint | None,
        observations: Identified,
        parameters: dict[str, Any],
    ) -> Recorder:
        """The recorder of a fit; one that writes nothing where no place is given."""
        if place is None:
            return cls()
        checkpoint = place if isinstance(place, Checkpoint) else Checkpoint(place)
        identity = identity_of(observations, parameters)
        return cls(checkpoint, identity, {"observations": observations})

    @property
    def resuming(self) -> bool:
        """Whether the frame of a loop further in is still waiting: that loop was under way."""
        return bool(self._waiting)

    @contextmanager
    def frame(self, name: str, fresh: Callable[[], Frame]) -> Iterator[Frame]:
        """The variables of a loop: as they were, on the way back into it, or `fresh` ones."""
        if self._waiting:
            stored, node = self._waiting.pop(0)
            if stored != name:
                raise ValueError(
                    f"the checkpoint was in {stored!r} where this run is in {name!r}: it does not "
                    f"fit this version of boolweave; remove it from {self._where} to begin again"
                )
            value = self._value(node, self.checks.get(name))
        else:
            value = fresh()
        self._open.append((name, value))
        try:
            yield value
        finally:
            self._open.pop()

    def _value(self, node: Any, check: Callable[[Any], None] | None) -> Any:
        assert self._reader is not None
        try:
            value = self._reader.value(node, self.store)
            if check is not None:
                check(value)
        except (OSError, MemoryError):
            raise
        except Exception as error:  # what was written by others fails anywhere
            what = " ".join(str(error).split())[:200]
            raise ValueError(
                f"the checkpoint in {self._where} does not fit this version of boolweave "
                f"({what}); remove it to begin again"
            ) from None
        if not self._waiting:
            self._reader = None
        return value

    def save_if_due(self) -> None:
        """Save, if it is time to; the frames must be such that the innermost loop can go on.

        Where that fails, as on a full disk, the run goes on without, and tries again later.
        """
        if self._store is None or time.monotonic() < self._due:
            return
        try:
            self.save()
        except (OSError, MemoryError) as error:
            warnings.warn(
                f"the checkpoint in {self._where} could not be written ({error}); the run goes on, "
                "and tries again later. Make room there, or be prepared to begin again after a "
                "crash.",
                CheckpointWarning,
                stacklevel=2,
            )

    def save(self) -> None:
        """Write the open frames, and drop all checkpoints but the last `KEPT`."""
        assert self._store is not None
        assert self._checkpoint is not None
        began = time.monotonic()
        writer = _Writer(self._given)
        header = {
            "format": FORMAT,
            "version": VERSION,
            "identity": self._identity,
            "frames": [[name, writer.node(value)] for name, value in self._open],
            "objects": writer.objects,
        }
        arrays = {"header": np.array(json.dumps(header)), **writer.arrays}
        try:
            numbers = self._store.numbers()
            self._store.write(max(numbers, default=0) + 1, arrays)
            self.n_saved += 1
            for old in numbers[: len(numbers) + 1 - KEPT]:
                with suppress(OSError):  # the next one tries again
                    self._store.remove(old)
        finally:
            now = time.monotonic()
            self._due = now + max(self._interval, (now - began) / self._checkpoint.share)

    def finish(self) -> None:
        """Remove the checkpoints: the run is at its end."""
        if self._store is None:
            return
        try:
            for number in self._store.numbers():
                self._store.remove(number)
        except OSError as error:  # no reason to lose the result
            warnings.warn(
                f"the checkpoints in {self._where} could not be removed ({error}); the run is "
                "finished and does not need them: remove them before another run is kept there",
                CheckpointWarning,
                stacklevel=2,
            )

    @property
    def _interval(self) -> float:
        return 0.0 if self._checkpoint is None else self._checkpoint.interval

    @property
    def _where(self) -> str:
        return "" if self._checkpoint is None else str(self._checkpoint.path)

    def _load(self, store: Directory | Remote) -> list[tuple[str, Any]]:
        """The frames of the newest checkpoint that can be read; none if there is no checkpoint."""
        numbers = store.numbers()
        for number in reversed(numbers):
            try:
                header, arrays = _read(store, number)
            except (FileNotFoundError, PermissionError):
                raise
            except Exception:  # damage shows anywhere: in zip, the arrays' headers, the JSON
                warnings.warn(
                    f"{store.name(number)} is damaged; trying the checkpoint before it",
                    stacklevel=4,
                )
                continue
            if header["version"] > VERSION:
                raise ValueError(
                    f"{store.name(number)} was written by a newer boolweave (checkpoint version "
                    f"{header['version']}, this one reads up to {VERSION}); upgrade boolweave, or "
                    "remove it to begin again"
                )
            self._same_problem(store.name(number), header["identity"])
            self._reader = _Reader(self._given, header["objects"], arrays)
            return [(name, node) for name, node in header["frames"]]
        if numbers:
            raise ValueError(
                f"every checkpoint in {self._where} is damaged; remove them to begin again"
            )
        return []

    def _same_problem(self, name: str, stored: dict[str, str]) -> None:
        here = self._identity
        different = [key for key in here if stored.get(key) != here[key]]
        if different:
            key = different[0]
            old, new = stored.get(key, "missing"), here[key]
            what = "other data" if key == "data" else f"{key}={old}, not {new}"
            raise ValueError(
                f"{name} is a checkpoint of another problem ({what}); give another place for "
                "checkpoint=, or remove it to begin again"
            )


class Unrecorded(Recorder):
    """Keeps nothing: for a short run that is done again rather than resumed."""

    def save_if_due(self) -> None:
        """Do nothing."""


def identity_of(observations: Identified, parameters: dict[str, Any]) -> dict[str, str]:
    """What tells a problem from others: a hash of its data, and its parameters as text."""
    texts = {name: _text(value) for name, value in parameters.items()}
    return {"data": observations.fingerprint, **texts}


def _text(value: Any) -> str:
    """A parameter as text, an array by its hash."""
    if is_dataclass(value) and not isinstance(value, type):
        return repr({field.name: _text(getattr(value, field.name)) for field in fields(value)})
    if np.ndim(value) and not isinstance(value, str):
        array = np.ascontiguousarray(value, dtype=np.float64)
        return f"array {array.shape} {hashlib.blake2b(array.data, digest_size=16).hexdigest()}"
    return repr(value.item() if isinstance(value, np.ndarray | np.generic) else value)


# ---------------------------------------------------------------- frames as arrays and JSON


class _Writer:
    """Frames as JSON nodes and arrays; what is shared is written once."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.arrays: dict[str, Any] = {}
        self.objects: list[Any] = []
        self._alive: list[Any] = []  # an id tells objects apart only as long as they live
        self._nodes: dict[int, Any] = {id(value): {"given": name} for name, value in given.items()}

    def node(self, value: Any) -> Any:
        if value is None or type(value) in (bool, int, float):
            return value
        if isinstance(value, str):  # of an enumeration its text
            return str(value)
        if id(value) in self._nodes:
            return self._nodes[id(value)]
        local = value.to_local() if hasattr(value, "to_local") else value
        if local is not value:  # arrays that are kept elsewhere
            self._alive += [local, value]
            self._nodes[id(value)] = self.node(local)
            return self._nodes[id(value)]
        node: dict[str, Any]
        if isinstance(value, np.ndarray | np.generic):
            name = f"array-{len(self.arrays)}"
            self.arrays[name] = value
            node = {"array" if isinstance(value, np.ndarray) else "number": name}
        elif isinstance(value, list | tuple):
            return {type(value).__name__: [self.node(item) for item in value]}
        elif isinstance(value, dict):
            return {"dict": {name: self.node(item) for name, item in value.items()}}
        elif is_dataclass(value) and not isinstance(value, type):
            kind = type(value)
            parts = {field.name: self.node(getattr(value, field.name)) for field in fields(value)}
            self.objects.append([f"{kind.__module__}:{kind.__qualname__}", parts])
            node = {"object": len(self.objects) - 1}
        else:
            raise TypeError(f"a checkpoint cannot hold a {type(value).__name__}")
        self._nodes[id(value)] = node
        return node


class _Reader:
    """Inverse of `_Writer`; only dataclasses of this package are made."""

    def __init__(
        self, given: dict[str, Any], objects: list[Any], arrays: dict[str, LazyArray]
    ) -> None:
        self._given = given
        self._objects = objects
        self._arrays = arrays
        self._made: dict[int, Any] = {}
        self._read: dict[str, Any] = {}
        self._store = Memory()

    def value(self, node: Any, store: Memory | None = None) -> Any:
        """What a node stands for; the arrays of lists go to the store."""
        self._store = store or self._store
        if not isinstance(node, dict):
            return node
        ((kind, content),) = node.items()
        if kind == "given":
            return self._given[content]
        if kind == "array":
            if content not in self._read:
                self._read[content] = self._arrays[content].read()
            return self._read[content]
        if kind == "number":
            return self._arrays[content].read()[()]
        if kind == "dict":
            return {name: self.value(item) for name, item in content.items()}
        if kind == "object":
            if content not in self._made:
                self._made[content] = self._make(*self._objects[content])
            return self._made[content]
        names = [item["array"] for item in content if isinstance(item, dict) and "array" in item]
        new = [name for name in names if name not in self._read]
        if kind == "list" and content and len(new) == len(content):
            kept = self._store.load([self._arrays[name] for name in new])
            self._read |= dict(zip(new, kept, strict=True))
        return {"list": list, "tuple": tuple}[kind](self.value(item) for item in content)

    def _make(self, name: str, parts: dict[str, Any]) -> Any:
        module, _, qualified = name.partition(":")
        if not module.startswith("boolweave."):
            raise TypeError(f"unexpected {name}")
        kind = getattr(importlib.import_module(module), qualified)
        if not (isinstance(kind, type) and is_dataclass(kind)):
            raise TypeError(f"unexpected {name}")
        return kind(**{field: self.value(node) for field, node in parts.items()})


def _read(store: Directory | Remote, number: int) -> tuple[dict[str, Any], dict[str, LazyArray]]:
    """The header, and the arrays: large ones are read to see that they are whole, and again later.

    So no more than one of them is in memory before it is known where it is to be kept.
    """

    def again(name: str) -> NDArray[Any]:
        with store.open(number) as file, Archive(file) as stored:
            return stored[name]

    arrays = {}
    with store.open(number) as file, Archive(file) as stored:
        for name in stored.names:
            array = stored[name]
            small = array.nbytes < LARGE
            make = (lambda a=array: a) if small else partial(again, name)
            arrays[name] = LazyArray(array.shape, array.dtype, make)
        sealed = stored.sealed
    header = json.loads(str(arrays.pop("header").read()))
    version = header["version"]
    if header["format"] != FORMAT or type(version) is not int or version < 1:
        raise ValueError("not a checkpoint")
    if version <= VERSION:
        if version >= FIRST_SEALED and not sealed:
            raise ValueError("the checksum is missing")
        _check_header(header)
    return header, arrays


def _check_header(header: dict[str, Any]) -> None:
    """Raise ValueError unless frames and objects are such as `_Writer` makes them."""
    named = [*header["frames"], *header["objects"]]
    if not all(type(pair) is list and len(pair) == 2 and type(pair[0]) is str for pair in named):
        raise ValueError("frames and objects must have names")
    if not all(type(parts) is dict for _, parts in header["objects"]):
        raise ValueError("objects must have fields")
    if type(header["identity"]) is not dict:
        raise ValueError("the identity must have names")
