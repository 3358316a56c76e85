"""The command line without a new process, which would load and compile everything again.

Streams are files of their own, as those of a process are, down to the numbers of the descriptors;
signals, warnings and the working directory are as they were when the command has ended. Tests of
the process itself (signals, closed streams, terminals, memory) start one.
"""

from __future__ import annotations

import io
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
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
    with chdir(cwd):
        return _run(words, _code_of_main, stdin, text)


def run_script_here(script: Path, *arguments: Any) -> subprocess.CompletedProcess[str]:
    """What a script of the project prints, and its exit code.

    Modules that stand beside it are forgotten afterwards: scripts of other folders have modules of
    the same name.
    """
    words = [str(script), *map(str, arguments)]
    before = set(sys.modules)
    with mock.patch.object(sys, "path", [str(script.parent), *sys.path]):
        try:
            return _run(words, lambda: _code_of_script(script), None, text=True)
        finally:
            for name in set(sys.modules) - before:
                file = getattr(sys.modules[name], "__file__", None)
                if file is not None and Path(file).parent == script.parent:
                    del sys.modules[name]


def _run(
    words: list[str], code_of: Callable[[], int], stdin: bytes | None, text: bool
) -> subprocess.CompletedProcess[Any]:
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as printed,
        tempfile.TemporaryFile() as said,
    ):
        given.write(stdin or b"")
        given.seek(0)
        with (
            mock.patch.object(sys, "argv", words),
            _signals_kept(),
            _streams(given, printed, said),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("default")
            for kind in UNSEEN:
                warnings.simplefilter("ignore", kind)
            code = code_of()
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
        words, cwd=cwd, input=stdin, capture_output=True, timeout=500, text=text, check=False
    )


def _code_of_main() -> int:
    try:
        main()
    except SystemExit as end:
        assert isinstance(end.code, int)
        return end.code
    raise AssertionError("the command line ends with an exit code")


def _code_of_script(script: Path) -> int:
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    except Exception:
        traceback.print_exc()
        return 1
    return 0


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


class Terminal(io.StringIO):
    def isatty(self):
        return True


def wide_terminal(monkeypatch):
    """Make standard error a wide terminal, and return it."""
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    return stream
