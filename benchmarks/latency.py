"""Seconds until an answer: commands, and public calls when nothing is compiled and when it is.

    python benchmarks/latency.py [PART ...]

Parts are `commands`, which start the command line and ask a stored model, and `calls`, which are
the public calls of `scripts/public_calls.py`, each in processes of its own: with an empty cache of
compiled code, then with the code that the first process left, and a second call in that process. A
new part is one function more in `PARTS`, which yields lines of the same form. The table is written
to standard output, with seconds of the processor beside those of the clock, which other work on the
machine prolongs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from files import measure

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
TABLE = "name,tea,rum,gin,milk\nAnn,1,,0,1\nBo,1,0,0,1\nCy,0,1,1,\nDi,0,1,1,0\n"


class Line(NamedTuple):
    """What was asked, in which state, its seconds, and the most that they may be."""

    what: str
    state: str
    seconds: float
    cpu_seconds: float
    at_most: float


def commands(folder: Path) -> Iterator[Line]:
    """Questions, an error before the fit, and answers of stored models."""
    table = folder / "likes.csv"
    table.write_text(TABLE)
    models = {"factorize": folder / "factors.npz", "complete": folder / "completion.npz"}
    for command, path in models.items():
        measure(command, str(table), "--model", str(path), "-q", "-o", str(folder / "answer.csv"))
    for words in (["--help"], ["--version"], ["info", str(table)]):
        used = measure(*words)
        yield Line(f"boolweave {words[0]}", "", used["seconds"], used["cpu_seconds"], 0.4)
    for command, path in models.items():
        for words in (
            ["predict", "--row", "Ann", "--column", "rum"], ["recommend", "Ann"],
            ["explain", "Ann", "rum"],
        ):  # fmt: skip
            used = measure(words[0], str(path), *words[1:])
            state = f"model of {command}"
            yield Line(f"boolweave {words[0]}", state, used["seconds"], used["cpu_seconds"], 0.8)


def calls(folder: Path) -> Iterator[Line]:
    """Public calls: the first one on a machine, the first one in a process, and the second one."""
    sys.path.insert(0, str(SCRIPTS))
    from public_calls import timed_calls

    for name in timed_calls():
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / f"cache of {name}")}
        program = [sys.executable, str(SCRIPTS / "public_calls.py"), name]
        for state, most in (("nothing compiled", 8.0), ("compiled", 2.5)):
            done = subprocess.run(
                program, env=environment, check=True, capture_output=True, text=True
            )
            told = json.loads(done.stdout)
            yield Line(name, state, told["first"], told["processor"], most)
        yield Line(name, "second call", told["second"], told["processor_of_second"], float("inf"))


PARTS: dict[str, Callable[[Path], Iterator[Line]]] = {"commands": commands, "calls": calls}


def main() -> None:
    parser = argparse.ArgumentParser(description="Seconds until an answer.")
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], metavar="PART")
    given = parser.parse_args()
    print(f"{'':24}{'':24}{'seconds':>10}{'processor':>10}{'at most':>10}")
    for part in given.parts or PARTS:
        with tempfile.TemporaryDirectory() as name:
            for line in PARTS[part](Path(name)):
                numbers = (line.seconds, line.cpu_seconds, line.at_most)
                told = "".join(f"{number:>10.2f}" for number in numbers)
                print(f"{line.what:24}{line.state:24}{told}", flush=True)


if __name__ == "__main__":
    main()
