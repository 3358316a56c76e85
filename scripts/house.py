"""How heavy the house is: lines, files, layouts by hand, modules that a call passes through.

    python scripts/house.py

A module counts as passed through if one of its functions is called; what happens when modules are
imported does not count. The import chain is the longest one of imports at the top of modules.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "boolweave"
SENTINEL = re.compile(r"isinstance\([^()]*(?:\([^()]*\)[^()]*)*SparseObservations")


def modules_called(call: Callable[[], object]) -> set[str]:
    """The modules of the package whose functions a call runs, in all threads."""
    call()  # so that everything is imported
    called: set[str] = set()
    here = str(PACKAGE)

    def note(frame, event, _) -> None:
        code = frame.f_code
        if event == "call" and code.co_name != "<module>" and code.co_filename.startswith(here):
            called.add(code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return called


def imports() -> dict[str, set[str]]:
    """The modules of the package that each module imports when it is imported."""
    names = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    found = {}
    for name, path in names.items():
        targets = set()
        for node in ast.parse(path.read_text("utf-8")).body:  # not inside functions and conditions
            if isinstance(node, ast.ImportFrom) and node.module:
                targets |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Import):
                targets |= {alias.name for alias in node.names}
        found[name] = (targets & names.keys()) - {name}
    return found


def longest_chain() -> list[str]:
    """The longest chain of modules, each of which imports the next one."""
    graph, open_ = imports(), set()

    @cache
    def chain(name: str) -> tuple[str, ...]:
        open_.add(name)
        longest = max((chain(other) for other in graph[name] - open_), key=len, default=())
        open_.discard(name)
        return (name, *longest)

    return list(max(map(chain, graph), key=len))


def numbers() -> dict[str, int]:
    """What is counted, with its name."""
    sources = {path: path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    tests = [path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py")]
    upper = re.compile(r"^_?[A-Z][A-Z0-9_]+(?=\s*(?::[^=\n]+)?=[^=])", re.MULTILINE)
    return {
        "lines of src": sum(len(text.splitlines()) for text in sources.values()),
        "files of src": len(sources),
        "lines of tests": sum(len(text.splitlines()) for text in tests),
        "constants of modules": sum(len(upper.findall(text)) for text in sources.values()),
        "fmt: skip": sum(text.count("# fmt: skip") for text in sources.values()),
        "isinstance of SparseObservations": sum(
            len(SENTINEL.findall(text)) for text in sources.values()
        ),
        "longest chain of imports": len(longest_chain()),
    }


def passages() -> dict[str, int]:
    """The number of modules that a plain fit and a command pass through."""
    from boolweave import BooleanMatrixFactorization, cli
    from boolweave.datasets import load_zoo

    table = load_zoo().observations.to_dense()
    fit = modules_called(lambda: BooleanMatrixFactorization(3, random_state=0).fit(table))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "zoo.csv")
        path.write_text("\n".join(",".join(map(str, row)) for row in table.astype(int)), "utf-8")

        def command() -> None:
            output = str(path.with_name("factors.csv"))
            with contextlib.redirect_stderr(io.StringIO()):
                cli.app(["factorize", str(path), "-k", "3", "-o", output], standalone_mode=False)

        factorized = modules_called(command)
    return {
        "modules of a plain fit": len(fit),
        "modules of `boolweave factorize file.csv`": len(factorized),
    }


def main() -> None:
    """Print the numbers."""
    warnings.simplefilter("ignore")
    for name, number in {**numbers(), **passages()}.items():
        print(f"{number:>8,}  {name}")


if __name__ == "__main__":
    main()
