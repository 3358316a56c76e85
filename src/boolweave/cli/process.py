"""The process around a command: its streams, its signals, how it ends."""

from __future__ import annotations

import atexit
import errno
import io
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130
TERMINATED = 143
# Seconds: programs that pass signals on, such as timeout, send the same one twice.
SAME_INTERRUPTION = 1.0


class _Closed(io.BufferedIOBase):
    """Stands for a standard output that is closed: every attempt to write is an error."""

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        raise OSError(errno.EBADF, "standard output is closed; name a file with --output")


def open_streams() -> None:
    """Stand in for streams that are closed, so that no other file gets their numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(_Closed(), encoding="utf-8", write_through=True)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names of files and labels may hold what the encoding cannot; JSON reads it back.
        sys.stdout.reconfigure(errors="backslashreplace")


@contextmanager
def without_panic_reports() -> Iterator[None]:
    """Keep to ourselves what a panic in compiled code of polars writes to standard error.

    The panic itself comes as an exception, and is told in one line like the others.
    """
    sys.stderr.flush()
    own = os.dup(2)
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(own, 2)
            os.close(own)
            kept.seek(0)
            said = kept.read()
            if b"panicked at" not in said:
                with suppress(OSError):
                    os.write(2, said)


def catch_interruptions() -> None:
    """Make Ctrl-C an exception, as it usually is in Python, now that a command begins.

    The same Ctrl-C that comes again at once must not end the writing of what was found.
    """
    if threading.current_thread() is threading.main_thread() and callable(
        signal.getsignal(signal.SIGINT)
    ):
        last = float("-inf")

        def interrupt(number: int, frame: FrameType | None) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= SAME_INTERRUPTION:
                last = now
                signal.default_int_handler(number, frame)

        signal.signal(signal.SIGINT, interrupt)


def end_on_signals() -> None:
    """Make SIGTERM and SIGHUP end the process as an error does, with everything cleaned up."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # once is enough
    raise SystemExit(128 + number)


def end_at_once(code: int) -> NoReturn:
    """End the process without waiting for threads, whose answers nobody wants any more.

    After Ctrl-C Python might also end by the signal instead of with the exit code, if an extension
    module saw the interruption first.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    atexit._run_exitfuncs()
    os._exit(code)


def ignore_output() -> None:
    """Give up standard output, whose reader went away, so that nothing is written at the end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
