"""Thousands of broken files, the same every time: each is read, or refused in one line.

`fuzzing.py` breaks and reads them, in processes of its own.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "support" / "fuzzing.py"

# How many files of each kind, one process for each line.
READERS = {
    "text": {"corpus": 0, "text": 800, "market": 500, "arrays": 800, "picture": 400, "alist": 300},
    "columnar": {"columnar": 500},
    "model": {"model": 400, "checkpoint": 150},
}
COMMANDS = {
    "text": {"text": 80, "market": 30, "arrays": 50, "picture": 30, "model": 60, "alist": 30},
    "columnar": {"columnar": 30},
}

# Polars ends the process, and nothing can be done about it, where a page of a Parquet file asks for
# more memory than there is. That may happen to so many of a thousand files.
OUT_OF_MEMORY = "memory allocation of"
MOST_ABORTS = 4


def broken(counts, *options):
    """Break so many files of each kind: how many of each were read and refused."""
    command = [sys.executable, PROGRAM, *(f"{kind}={n}" for kind, n in counts.items()), *options]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
    first, n_aborts, said = [], 0, ""
    while True:
        done = subprocess.run(
            [*command, *first], capture_output=True, env=environment, timeout=280, check=False
        )
        errors = done.stderr.decode(errors="replace")
        said += done.stdout.decode(errors="replace")
        last = re.findall(r"^\w+ -?\d+ .*$", errors, flags=re.MULTILINE)[-1]
        if done.returncode >= 0 or "columnar" not in last or OUT_OF_MEMORY not in errors:
            break
        n_aborts += 1
        first = ["--first", str(int(last.split()[1]) + 1)]
    assert done.returncode >= 0, f"{last}: a crash, {done.returncode}\n{errors[-2000:]}"
    assert done.returncode == 0 and "---" not in said, f"{said[-4000:]}\n{errors[-500:]}"
    assert n_aborts <= 1 + MOST_ABORTS * sum(counts.values()) / 1000
    found = re.findall(r"^(\w+): (\d+) read, (\d+) refused, 0 wrong$", said, flags=re.MULTILINE)
    return {kind: (int(n_read), int(n_refused)) for kind, n_read, n_refused in found}


@pytest.mark.slow
@pytest.mark.parametrize("kinds", READERS)
def test_broken_files(kinds):
    found = broken(READERS[kinds])
    assert list(found) == list(READERS[kinds])
    for kind, (n_read, n_refused) in found.items():
        assert n_refused > 0
        assert n_read > 0 or kind == "corpus"


@pytest.mark.slow
@pytest.mark.parametrize("kinds", COMMANDS)
def test_broken_files_on_the_command_line(kinds):
    found = broken(COMMANDS[kinds], "--commands", "--first", "0")
    assert list(found) == list(COMMANDS[kinds])
    for n_read, n_refused in found.values():
        assert n_read > 0
        assert n_refused > 0
