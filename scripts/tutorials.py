"""Tutorials: scripts that are run to make pages and notebooks with their output and pictures.

A tutorial is a script in `docs/tutorials` in the percent format, which Jupyter, VS Code and Spyder
can read: `# %%` begins a code cell, and `# %% [markdown]` begins a text cell. Lines `# > ...` at
the end of a code cell hold its expected output. They are not part of pages and notebooks, which
show the actual output; the tests compare the two. A cell with the tag "gallery" draws the picture
for the gallery.

The output and the pictures of a script are cached in `.tutorials` under a hash of its code, of the
package and of the libraries that it uses, so that a script is run again only if its output may have
changed.

    python scripts/tutorials.py                  run changed scripts; show times and differences
    python scripts/tutorials.py --update         also write the output into the scripts
    python scripts/tutorials.py senate films     run only these
"""

from __future__ import annotations

import argparse
import ast
import base64
import contextlib
import hashlib
import inspect
import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "tutorials"
CACHE = ROOT / ".tutorials"
LIBRARIES = ("numpy", "scipy", "numba", "scikit-learn", "polars", "matplotlib", "distributed")
MARKER = re.compile(r"^# %%(?P<rest>.*)$")
EXPECTED = "# >"
OUTCOMES = "outcomes.json"
DOTS_PER_INCH = 144
AT_ONCE = 2
MOST_SECONDS = 600


@dataclass(frozen=True)
class Cell:
    """A cell of a script: its kind, its text, its tags, and its expected output."""

    kind: str  # "code" or "markdown"
    line: int  # of the first line of its text
    text: str
    tags: tuple[str, ...] = ()
    expected: str = ""


@dataclass(frozen=True)
class Outcome:
    """The output and the pictures of a cell."""

    output: str
    pictures: tuple[Path, ...]
    captions: tuple[str, ...]


@dataclass(frozen=True)
class Tutorial:
    """The cells of a script, and the outcome of each cell."""

    name: str
    cells: tuple[Cell, ...]
    outcomes: tuple[Outcome, ...]
    seconds: float  # processor time of the run

    @property
    def title(self) -> str:
        return self.cells[0].text.splitlines()[0].removeprefix("# ")

    @property
    def summary(self) -> str:
        """The first paragraph, for the gallery."""
        return " ".join(self.cells[0].text.split("\n\n")[1].split())

    @property
    def gallery(self) -> tuple[Path, str]:
        """The picture for the gallery, and its caption."""
        drawn = [
            (cell, outcome)
            for cell, outcome in zip(self.cells, self.outcomes, strict=True)
            if outcome.pictures
        ]
        if not drawn:
            raise ValueError(f"{self.name} must draw at least one picture, got none")
        _, outcome = next(((c, o) for c, o in drawn if "gallery" in c.tags), drawn[0])
        return outcome.pictures[0], outcome.captions[0]


def scripts() -> list[Path]:
    return sorted(FOLDER.glob("*.py"))


# ---------------------------------------------------------------- cells


def parse(source: str) -> list[Cell]:
    """The cells of a script in the percent format."""
    lines = source.splitlines()
    starts = [at for at, line in enumerate(lines) if MARKER.match(line)]
    if not starts or any(line.strip() for line in lines[: starts[0]]):
        raise ValueError("a tutorial must begin with a line '# %% [markdown]'")
    cells = []
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        rest = MARKER.match(lines[start])["rest"]  # type: ignore[index]
        tags = re.search(r"tags=(\[.*?\])", rest)
        body = lines[start + 1 : end]
        if "[markdown]" in rest:
            cells.append(Cell("markdown", start + 2, _uncommented(body)))
        else:
            code, expected = _split_expected(body)
            names = tuple(ast.literal_eval(tags[1])) if tags else ()
            cells.append(Cell("code", start + 2, code, names, expected))
    if cells[0].kind != "markdown" or not cells[0].text.startswith("# "):
        raise ValueError("a tutorial must begin with a text cell that has a title")
    return cells


def _uncommented(lines: list[str]) -> str:
    for line in lines:
        if line.strip() and not line.startswith("#"):
            raise ValueError(f"a text cell must consist of comments, got {line!r}")
    return "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines).strip()


def _split_expected(lines: list[str]) -> tuple[str, str]:
    """The code of a cell, and the text of its lines `# > ...`."""
    expected = [line for line in lines if line.startswith(EXPECTED)]
    code = [line for line in lines if not line.startswith(EXPECTED)]
    texts = [line.removeprefix(EXPECTED).removeprefix(" ").rstrip() for line in expected]
    return "\n".join(code).strip("\n"), "\n".join(texts)


def updated(source: str, outcomes: tuple[Outcome, ...]) -> str:
    """The script with the actual output of its cells as their expected output."""
    lines = source.splitlines()
    for cell, outcome in reversed(list(zip(parse(source), outcomes, strict=True))):
        if cell.kind == "code":
            start = cell.line - 1
            later = (at for at in range(start, len(lines)) if MARKER.match(lines[at]))
            printed = [f"{EXPECTED} {line}".rstrip() for line in plain_lines(outcome.output)]
            end = next(later, len(lines))
            last = [""] if end < len(lines) else []
            lines[start:end] = [*cell.text.splitlines(), *printed, *last]
    return "\n".join(lines) + "\n"


def plain_lines(output: str) -> list[str]:
    """Lines without trailing spaces, and without empty lines at the beginning and the end."""
    return "\n".join(line.rstrip() for line in output.splitlines()).strip("\n").splitlines()


# ---------------------------------------------------------------- running


def run_cells(script: Path, folder: Path) -> None:
    """Run a script in this process, and write the outcomes of its cells to `folder`."""
    os.environ["MPLBACKEND"] = "agg"
    import matplotlib.pyplot as plt

    # Warnings would be printed between the output, so a tutorial must not cause any.
    warnings.simplefilter("error", UserWarning)
    warnings.filterwarnings("ignore", "FigureCanvasAgg is non-interactive")
    warnings.filterwarnings("ignore", "Port .* is already in use")  # of Dask
    names: dict[str, Any] = {"__name__": "__main__", "__file__": str(script)}
    outcomes = []
    for cell in parse(script.read_text(encoding="utf-8")):
        printed = io.StringIO()
        figures = []
        if cell.kind == "code":
            with contextlib.redirect_stdout(printed):
                last = _execute(cell, script, names)
            figures = [plt.figure(number) for number in plt.get_fignums()]
            figures += [last] if type(last).__name__ == "Figure" and last not in figures else []
        pictures = []
        for figure in figures:
            pictures.append(f"{len(outcomes):02d}-{len(pictures)}.png")
            figure.savefig(folder / pictures[-1], dpi=DOTS_PER_INCH, metadata={"Software": None})
        captions = [_caption(figure) for figure in figures]
        plt.close("all")
        outcomes.append({"output": printed.getvalue(), "pictures": pictures, "captions": captions})
    whole = {"seconds": time.process_time(), "cells": outcomes}
    (folder / OUTCOMES).write_text(json.dumps(whole), encoding="utf-8")


def _execute(cell: Cell, script: Path, names: dict[str, Any]) -> Any:
    """Run a cell; return the value of its last line, if that is an expression."""
    # Empty lines are put before the text, so that errors show the line number in the script.
    tree = ast.parse("\n" * (cell.line - 1) + cell.text, str(script))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, script, "exec"), names)
    return eval(compile(ast.Expression(last.value), script, "eval"), names) if last else None


def _caption(figure: Any) -> str:
    """The title of a picture, for readers who cannot see it."""
    titles = [figure.get_suptitle()]
    for axes in figure.axes:
        titles += [axes.get_title("left"), axes.get_title("center")]
    return "; ".join(" ".join(title.split()) for title in titles if title.strip())


def key_of(script: Path) -> str:
    """A hash of everything on which the output of a script depends."""
    found = find_spec("boolweave")
    assert found is not None and found.origin is not None
    package = Path(found.origin).parent
    total = hashlib.sha256()
    for library in LIBRARIES:
        total.update(f"{library} {metadata.version(library)}\n".encode())
    total.update(inspect.getsource(run_cells).encode())
    for file in (*sorted(package.rglob("*.py")), *sorted(package.rglob("*.npz"))):
        total.update(file.name.encode() + b"\0" + file.read_bytes())
    for cell in parse(script.read_text(encoding="utf-8")):  # texts may change without a run
        total.update(f"{cell.kind}\0{cell.text if cell.kind == 'code' else ''}\0".encode())
    return total.hexdigest()[:24]


def tutorial(script: Path) -> Tutorial:
    """A tutorial with its output, from the cache if possible; otherwise, the script is run."""
    folder = CACHE / f"{script.stem}-{key_of(script)}"
    with _locked(CACHE / f"{script.stem}.lock"):
        if not (folder / OUTCOMES).exists():
            for old in CACHE.glob(f"{script.stem}-*"):
                shutil.rmtree(old)
            folder.mkdir(parents=True)
            _run_apart(script, folder)
        stored = json.loads((folder / OUTCOMES).read_text(encoding="utf-8"))
    outcomes = tuple(
        Outcome(
            each["output"],
            tuple(folder / name for name in each["pictures"]),
            tuple(each["captions"]),
        )
        for each in stored["cells"]
    )
    cells = tuple(parse(script.read_text(encoding="utf-8")))
    return Tutorial(script.stem, cells, outcomes, stored["seconds"])


def tutorials() -> list[Tutorial]:
    """All tutorials; two scripts are run at a time."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(tutorial, scripts()))


def _run_apart(script: Path, folder: Path) -> None:
    """Run a script in a process of its own, in an empty directory."""
    scratch = folder / "scratch"
    scratch.mkdir()
    done = subprocess.run(
        [sys.executable, str(Path(__file__)), "--run", str(script), str(folder)],
        cwd=scratch, capture_output=True, text=True, timeout=MOST_SECONDS,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    shutil.rmtree(scratch)
    if done.returncode:
        raise RuntimeError(f"{script.name} must run without an error:\n{done.stderr}")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Lock a file, so that one process runs a script and the others wait for its outcome."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        with contextlib.suppress(ImportError):  # there is no fcntl on Windows
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


# ---------------------------------------------------------------- pages and notebooks


def picture_name(name: str, picture: Path) -> str:
    """The path of a picture relative to the pages."""
    return f"pictures/{name}-{picture.name}"


def page(shown: Tutorial) -> str:
    """A tutorial in Markdown."""
    parts = []
    for cell, outcome in zip(shown.cells, shown.outcomes, strict=True):
        if cell.kind == "markdown":
            parts.append(cell.text)
            continue
        parts.append(f"```python\n{cell.text}\n```")
        if printed := plain_lines(outcome.output):
            parts.append("```text\n" + "\n".join(printed) + "\n```")
        for picture, caption in zip(outcome.pictures, outcome.captions, strict=True):
            parts.append(f"![{caption}]({picture_name(shown.name, picture)})")
    links = f"[the script]({shown.name}.py) or [the notebook]({shown.name}.ipynb)"
    parts.append(f"---\n\nDownload {links} of this page.")
    return "\n\n".join(parts) + "\n"


def notebook(shown: Tutorial) -> str:
    """A tutorial as a Jupyter notebook, with its output."""
    import nbformat
    from nbformat import v4

    cells = []
    for number, (cell, outcome) in enumerate(zip(shown.cells, shown.outcomes, strict=True)):
        if cell.kind == "markdown":
            cells.append(v4.new_markdown_cell(without_links(cell.text), id=f"cell-{number}"))
            continue
        outputs = [v4.new_output("stream", text=outcome.output)] if outcome.output else []
        for picture in outcome.pictures:
            png = base64.b64encode(picture.read_bytes()).decode()
            outputs.append(v4.new_output("display_data", data={"image/png": png}))
        tags = {"tags": list(cell.tags)} if cell.tags else {}
        cells.append(
            v4.new_code_cell(cell.text, id=f"cell-{number}", metadata=tags, outputs=outputs)
        )
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    made = v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.validate(made)
    return nbformat.writes(made) + "\n"


def without_links(text: str) -> str:
    """A text without links to pages of the site, because a notebook is not part of the site."""
    return re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]+\)", r"\1", text)


# ---------------------------------------------------------------- the command


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the tutorials that have changed.")
    parser.add_argument("names", nargs="*", help="names of tutorials; by default, all are run")
    parser.add_argument("--update", action="store_true", help="write the output into the scripts")
    parser.add_argument("--run", nargs=2, metavar=("SCRIPT", "FOLDER"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.run:
        run_cells(Path(asked.run[0]), Path(asked.run[1]))
        return
    for script in [FOLDER / f"{name}.py" for name in asked.names] or scripts():
        done = tutorial(script)
        print(f"{script.name}: {done.seconds:.1f} s of processor time")
        for cell, outcome in zip(done.cells, done.outcomes, strict=True):
            if cell.expected.splitlines() != plain_lines(outcome.output) and not asked.update:
                print(f"  the output of the cell at line {cell.line} is:\n{outcome.output}")
        if asked.update:
            source = script.read_text(encoding="utf-8")
            script.write_text(updated(source, done.outcomes), encoding="utf-8")


if __name__ == "__main__":
    main()
