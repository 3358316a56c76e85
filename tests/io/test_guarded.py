"""Compiled code stays within its arrays: fits next to memory that nobody may touch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "support" / "guarded.py"


def guarded(first, count):
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-X", "faulthandler", PROGRAM, str(first), str(count)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no guards on Windows")
def test_the_guards_are_there():
    assert guarded(0, 0).returncode < 0


@pytest.mark.slow
def test_random_fits():
    done = guarded(0, 80)
    assert done.returncode == 0, f"{done.stdout[-200:]}\n{done.stderr[-3000:]}"
    assert "done, " in done.stdout
