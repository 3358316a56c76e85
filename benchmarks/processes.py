"""Processes and environments of the benchmarks, and the memory of a process.

This file is also imported in the environments of other programs, so that it uses only the standard
library.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "scripts"))
from provenance import filled as filled  # noqa: E402  (beside the pages that show results)
from provenance import record as record  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def python_of(name: str) -> Path:
    """The interpreter of an environment in .bench/."""
    return ROOT / ".bench" / f"{name}-venv" / "bin" / "python"


def install(name: str, *packages: str) -> str | None:
    """Create an environment with these packages if it does not exist; return an error or None."""
    python = python_of(name)
    if python.exists():
        return None
    folder = python.parent.parent
    pip = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", *packages]
    for command in ([sys.executable, "-m", "venv", "--clear", str(folder)], pip):
        code, _, complaint = run(command)
        if code != 0:
            shutil.rmtree(folder, ignore_errors=True)
            return f"does not install: {complaint}"
    return None


def run(
    command: Sequence[str], timeout: float | None = None, environment: dict[str, str] | None = None
) -> tuple[int | None, str, str]:
    """Run a command; return its exit code, its output, and the last line of its complaints.

    The exit code is None if the command was stopped after `timeout` seconds.
    """
    variables = os.environ | (environment or {})
    try:
        done = subprocess.run(
            command, env=variables, capture_output=True, timeout=timeout, check=False
        )
        code: int | None = done.returncode
        printed, complaints = done.stdout, done.stderr
    except subprocess.TimeoutExpired as stopped:
        code, printed, complaints = None, stopped.stdout or b"", stopped.stderr or b""
    lines = complaints.decode(errors="replace").strip().splitlines()
    return code, printed.decode(errors="replace"), (lines or ["no message"])[-1]


def answer_of(
    command: Sequence[str], timeout: float | None = None, environment: dict[str, str] | None = None
) -> dict:
    """Run a command whose last line is JSON; a failure is returned, not raised.

    Linear algebra has one thread, unless `environment` says otherwise.
    """
    code, printed, complaint = run(command, timeout, ONE_THREAD | (environment or {}))
    if code is None:
        return {"failed": f"did not end within {timeout:.0f} s", "longer_than_s": timeout}
    return {"failed": complaint} if code else json.loads(printed.strip().splitlines()[-1])


def memory_now() -> int:
    """The memory of this process in bytes."""
    return _status("VmRSS:")


def peak_memory() -> int:
    """The peak memory of this process in bytes.

    On Linux, getrusage would include the memory of the parent process at the time when it started
    this process.
    """
    return _status("VmHWM:")


def _status(field: str) -> int:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024


def now() -> str:
    """The time of a measurement."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def load_before(console) -> float:
    """The load of the machine; a warning is printed to a rich console if it is busy."""
    load = os.getloadavg()[0]
    if load > 0.5:
        console.print(f"[yellow]The machine is busy (load {load:.1f}): times will be too long.")
    return load
