"""The command `boolweave`, also as ``python -m boolweave``.

Loading the command line takes a moment, during which there is nothing to clean up and nothing
catches an interruption. Until a command begins, Ctrl-C therefore ends the process at once.
"""

import os
import signal
from contextlib import suppress
from types import FrameType

INTERRUPTED = 130


def _end_at_once(number: int, frame: FrameType | None) -> None:
    with suppress(OSError):
        os.write(2, b"boolweave: interrupted\n")
    os._exit(INTERRUPTED)


def main() -> None:
    """Load the command line and run it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # background jobs ignore it
        signal.signal(signal.SIGINT, _end_at_once)
    from boolweave.cli import main as run
    from boolweave.cli.process import end_at_once

    try:
        run()
    except SystemExit as end:
        if end.code == INTERRUPTED:
            end_at_once(INTERRUPTED)
        raise


if __name__ == "__main__":  # the workers of a local cluster import this module, too
    main()
