"""The command line without a new process, which would load and compile everything again.

Streams are files of their own, as those of a process are, down to the numbers of the descriptors;
signals, warnings and the working directory are as they were when the command has ended. Tests of
the process itself (signals, closed streams, terminals, memory) start one.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from typing import Any, BinaryIO
from unittest import mock

from boolweave.cli import main

# Warnings that Python does not show by itself.
UNSEEN = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_here(
    *arguments: Any, cwd: Any = ".", stdin: bytes | None = None, text: bool = False
) -> subprocess.CompletedProcess[Any]:
    """What ``boolweave`` with these arguments prints, and its exit code."""
    words = ["boolweave", *map(str, arguments)]
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as printed,
        tempfile.TemporaryFile() as said,
    ):
        given.write(stdin or b"")
        given.seek(0)
        with (
            chdir(cwd),
            mock.patch.object(sys, "argv", words),
            _signals_kept(),
            _streams(given, printed, said),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("default")
            for kind in UNSEEN:
                warnings.simplefilter("ignore", kind)
            code = _code_of_main()
        out, err = (_contents(file) for file in (printed, said))
    if text:
        return subprocess.CompletedProcess(words, code, out.decode(), err.decode())
    return subprocess.CompletedProcess(words, code, out, err)


def run_process(
    *arguments: Any, cwd: Any = ".", stdin: bytes | None = None, text: bool = False
) -> subprocess.CompletedProcess[Any]:
    """The same in a process of its own."""
    words = [sys.executable, "-m", "boolweave", *map(str, arguments)]
    return subprocess.run(
        words, cwd=cwd, input=stdin, capture_output=True, timeout=240, text=text, check=False
    )


def _code_of_main() -> int:
    try:
        main()
    except SystemExit as end:
        assert isinstance(end.code, int)
        return end.code
    raise AssertionError("the command line ends with an exit code")


@contextmanager
def _signals_kept() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _streams(given: BinaryIO, printed: BinaryIO, said: BinaryIO) -> Iterator[None]:
    """Put three files in the place of the standard streams."""
    own, kept = (sys.stdin, sys.stdout, sys.stderr), [os.dup(number) for number in range(3)]
    for stream in own[1:]:
        stream.flush()
    try:
        for number, file in enumerate((given, printed, said)):
            os.dup2(file.fileno(), number)
        sys.stdin, sys.stdout, sys.stderr = _text(0), _text(1), _text(2)
        yield
    finally:
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            if stream not in own:
                stream.close()
        sys.stdin, sys.stdout, sys.stderr = own
        for number, copy in enumerate(kept):
            os.dup2(copy, number)
            os.close(copy)


def _text(number: int) -> io.TextIOWrapper:
    raw = io.FileIO(number, "r" if number == 0 else "w", closefd=False)
    file = io.BufferedReader(raw) if number == 0 else io.BufferedWriter(raw)
    errors = "backslashreplace" if number == 2 else "strict"
    return io.TextIOWrapper(file, encoding="utf-8", errors=errors)


def _contents(file: BinaryIO) -> bytes:
    file.seek(0)
    return file.read()
