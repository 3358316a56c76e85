"""The command line as its parser runs it, and on a terminal with somebody who presses Ctrl-C."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress

from typer.testing import CliRunner

from boolweave.cli import app


def run(*arguments):
    """Run a command that must succeed."""
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == 0, (done.output, done.exception)
    return done


def complaint(*arguments):
    """The error of a command that must be refused, before it becomes one line."""
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert isinstance(done.exception, ValueError | OSError), done.output
    return str(done.exception)


def on_terminal(*arguments, cwd):
    """What a process shows on a terminal, without colours and moves of the cursor."""
    terminal, side = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "boolweave", *map(str, arguments)],
        cwd=cwd, stdout=side, stderr=subprocess.DEVNULL, env={**os.environ, "TERM": "dumb"},
    )  # fmt: skip
    os.close(side)
    shown = b""
    with suppress(OSError):  # what a terminal says at its end
        while piece := os.read(terminal, 4096):
            shown += piece
    os.close(terminal)
    assert process.wait(timeout=120) == 0, shown
    return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown.decode()).replace("\r\n", "\n")


def interrupt_when_shown(pattern, arguments, cwd):
    """Run a command, press Ctrl-C when its terminal shows a pattern: exit code and what it showed.

    The pattern must come within 200 seconds.
    """
    terminal, side = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "boolweave", *arguments],
        cwd=cwd, stderr=side, stdout=subprocess.PIPE, env={**os.environ, "TERM": "xterm"},
    )  # fmt: skip
    os.close(side)
    shown, sent, deadline = b"", False, time.monotonic() + 200
    try:
        while time.monotonic() < deadline:
            if select.select([terminal], [], [], 1)[0]:
                try:
                    piece = os.read(terminal, 4096)
                except OSError:
                    break
                shown += piece
            if not sent and re.search(pattern, shown):
                sent = True
                process.send_signal(signal.SIGINT)
            if process.poll() is not None and not select.select([terminal], [], [], 0)[0]:
                break
        code = process.wait(timeout=60)
    finally:
        process.kill()
        process.stdout.close()
        os.close(terminal)
    assert sent, shown
    return code, shown
