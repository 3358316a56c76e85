"""The process that runs a command: its streams, its signals and its end."""

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
# Seconds. Programs that pass signals on, such as timeout, send the same signal twice.
SAME_INTERRUPTION = 1.0


class _Closed(io.BufferedIOBase):
    """A stand-in for a closed standard output: every attempt to write is an error."""

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        raise OSError(errno.EBADF, "it is closed; name a file with --output", "standard output")


def open_streams() -> None:
    """Replace streams that are closed, so that no other file gets their descriptors."""
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
        # File names and labels may hold characters that the encoding lacks; JSON reads them back.
        sys.stdout.reconfigure(errors="backslashreplace")


@contextmanager
def without_panic_reports() -> Iterator[None]:
    """Suppress what a panic in the compiled code of polars writes to standard error.

    The panic itself arrives as an exception, which is reported in one line like any other.
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
            printed = kept.read()
            if b"panicked at" not in printed:
                with suppress(OSError):
                    os.write(2, printed)


def catch_interruptions() -> None:
    """Make Ctrl-C an exception, as it usually is in Python, now that a command begins.

    If the same Ctrl-C arrives twice in quick succession, the second one must not interrupt the
    writing of the results.
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


@contextmanager
def interruptions_deferred() -> Iterator[None]:
    """Defer Ctrl-C, for ever in threads that begin meanwhile and in processes that they start."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # it would end the deferral in a thread that starts processes
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def interruptions_ignored() -> Iterator[None]:
    """Ignore Ctrl-C, for a few seconds in which nothing must be left half done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def end_on_signals() -> None:
    """Make SIGTERM and SIGHUP end the process like an error, after cleaning up."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # once is enough
    raise SystemExit(128 + number)


def end_at_once(code: int) -> NoReturn:
    """End the process without waiting for threads whose answers are no longer needed.

    This also ensures the exit code: after Ctrl-C, Python might otherwise end by the signal if an
    extension module saw the interruption first.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    atexit._run_exitfuncs()
    os._exit(code)


def ignore_output() -> None:
    """Close standard output, whose reader has ended, so that nothing is written at the end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
