"""Kernels are compiled by one of the processes that share the tests; the others wait for it.

Two processes that start together need the same kernels. Without this both would compile them, and
numba's list of what a file holds would lose what one of the two wrote.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import time
from pathlib import Path
from typing import IO, Any

LONGEST_WAIT = 200.0  # seconds; a process may have been killed while its child holds the lock


def compile_once(folder: Path) -> None:
    """From now on this process waits for others that compile the function it needs."""
    from boolweave.engine.kernels import jit

    load, save = jit._Cache.load_overload, jit._Cache.save_overload
    held: dict[Any, IO[str]] = {}  # cache of a function: the lock, while it is compiled here

    def load_or_wait(self: Any, signature: Any, target_context: Any) -> Any:
        found = load(self, signature, target_context)
        if found is not None or self in held:
            return found
        held[self] = _locked(folder / _name(self))
        found = load(self, signature, target_context)  # somebody may have compiled it meanwhile
        if found is not None:
            held.pop(self).close()
        return found

    def save_and_let_go(self: Any, signature: Any, compiled: Any) -> None:
        try:
            save(self, signature, compiled)
        finally:
            if self in held:
                held.pop(self).close()

    jit._Cache.load_overload, jit._Cache.save_overload = load_or_wait, save_and_let_go


def _name(cache: Any) -> str:
    place = f"{cache.cache_path}/{cache._impl.filename_base}"
    return hashlib.sha256(place.encode()).hexdigest()[:16]


def _locked(path: Path) -> IO[str]:
    """The open file, which nobody else has locked then; closing it lets others go on."""
    file = path.open("w")
    end = time.monotonic() + LONGEST_WAIT
    while time.monotonic() < end:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        time.sleep(0.05)
    return file
