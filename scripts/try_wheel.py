"""Test a wheel in empty environments: the core, each extra by itself, and its type information.

    python scripts/try_wheel.py dist/*.whl --python python3.13 --extras core plot --types

Every Python and every extra gets an environment of its own, in which `scripts/smoke.py` runs.
With --time, the first answer of each public call of `scripts/public_calls.py` is timed, with an
empty cache, in a process of its own: from the start of the process, with and without other work of
the machine (seconds, and seconds of the processor), and the second call.
With --types, `scripts/typed_user.py` must pass ``mypy --strict`` with the wheel, and run.
With --lowest, the packages that the wheel needs have the lowest versions that it allows; such old
versions have no wheels for the newest Python.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent
CORE = "core"
TIMED = ("factorize", "complete", "fit", "sparse_fit", "cover", "group_testing", "decode")


def main() -> None:
    parser = argparse.ArgumentParser(description="Test a wheel in empty environments.")
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--python", nargs="+", default=[sys.executable])
    parser.add_argument("--extras", nargs="+", default=[CORE])
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--types", action="store_true")
    parser.add_argument("--lowest", action="store_true")
    given = parser.parse_args()
    wheel = given.wheel.resolve(strict=True)
    for python in given.python:
        for extra in given.extras:
            wanted = [] if extra == CORE else [extra]
            pinned = lowest(wanted) if given.lowest else []
            try_in_empty_environment(python, wheel, wanted, pinned, [["smoke.py", *wanted]])
        if given.time:
            checks = [["public_calls.py", name] for name in TIMED]
            try_in_empty_environment(python, wheel, [], [], checks)
        if given.types:
            checks = [["-m", "mypy", "--strict", "typed_user.py"], ["typed_user.py"]]
            try_in_empty_environment(python, wheel, [], ["mypy"], checks)


def lowest(extras: list[str]) -> list[str]:
    """Requirements of the core and of the extras, pinned at their lower bounds."""
    project = tomllib.loads((SCRIPTS.parent / "pyproject.toml").read_text(encoding="utf-8"))
    names = project["project"]["optional-dependencies"]
    needed = project["project"]["dependencies"] + [one for extra in extras for one in names[extra]]
    return [re.sub(",<.*", "", one).replace(">=", "==") for one in needed]


def try_in_empty_environment(
    python: str, wheel: Path, extras: list[str], others: list[str], checks: list[list[str]]
) -> None:
    """Install a wheel, and run scripts in a folder without the package."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run([python, "-m", "venv", folder / "env"], folder)
        own = folder / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
        what = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
        pip = ["-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-input"]
        run([own, *pip, what, *others], folder)
        for script in ("smoke.py", "typed_user.py", "public_calls.py"):
            (folder / script).write_bytes((SCRIPTS / script).read_bytes())
        for number, check in enumerate(checks):
            run([own, *check], folder, NUMBA_CACHE_DIR=str(folder / f"cache {number}"))


def run(command: list[str | Path], folder: Path, **more: str) -> None:
    """Run a program without PYTHONPATH; if it fails, the script ends."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    code = subprocess.run(command, cwd=folder, env=clean | more, check=False).returncode
    if code:
        sys.exit(f"try_wheel.py: exit code {code} of {' '.join(map(str, command))}")


if __name__ == "__main__":
    main()
