"""The command line on a terminal, with somebody who presses Ctrl-C."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time


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
