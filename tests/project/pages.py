"""Code blocks of Markdown pages: found, and run in the order in which they stand."""

from __future__ import annotations

import contextlib
import doctest
import io
import itertools
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

FENCE = re.compile(
    r"^(?:<!-- (?P<note>[^\n]*?) -->\n\n?)?```(?P<head>[^\n]*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
SHELLS = ("sh", "bash", "console")


@dataclass(frozen=True)
class Block:
    line: int  # of its first line of text
    language: str
    title: str  # the name of a file, if the block shows one
    note: str  # the comment before it
    text: str

    @property
    def has_output(self) -> bool:
        """Whether it says what is printed."""
        return self.note == "output" or self.text.startswith(">>>")


def blocks_of(page: Path) -> list[Block]:
    content = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(content):
        language, _, rest = match["head"].partition(" ")
        title = re.fullmatch(r'title="(.*)"', rest)
        line = content.count("\n", 0, match.start("text")) + 1
        found.append(
            Block(line, language, title[1] if title else "", match["note"] or "", match["text"])
        )
    return found


def fault_of(block: Block) -> str | None:
    """What is wrong with a block that is neither run nor says why it is not."""
    if block.note.startswith("not run:"):
        return None if block.note.removeprefix("not run:").strip() else "gives no reason"
    if block.note not in {"", "output"}:
        return f"has a comment before it that means nothing: {block.note}"
    if block.language in {"python", "text", *SHELLS}:
        return None
    return f"is {block.language or 'of no language'}: expected python, sh or text"


class Run:
    """Runs the blocks of a page in a directory, Python blocks in one namespace.

    A `text` block with a title is a file that the page shows; one after `<!-- output -->` is what
    the blocks before it print.
    """

    def __init__(self, page: Path, folder: Path, names: dict[str, Any]) -> None:
        self.page, self.folder, self.names = page, folder, {"__name__": "__page__", **names}
        self.printed = ""
        programs = folder / ".programs"
        programs.mkdir()
        command = programs / "boolweave"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m boolweave "$@"\n')
        command.chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}

    def block(self, block: Block) -> None:
        if block.note.startswith("not run:"):
            return
        if block.language == "python":
            self.python(block)
        elif block.language in SHELLS:
            self.shell(block)
        elif block.note == "output":
            missing = [line for line in block.text.splitlines() if line not in self.printed]
            assert not missing, f"{missing} is not in what was printed:\n{self.printed}"
        elif block.title:
            (self.folder / block.title).write_text(block.text, encoding="utf-8")

    def python(self, block: Block) -> None:
        if block.text.startswith(">>>"):
            parsed = doctest.DocTestParser().get_doctest(
                block.text, self.names, self.page.name, str(self.page), block.line
            )
            report: list[str] = []
            failed, _ = doctest.DocTestRunner().run(parsed, out=report.append, clear_globs=False)
            self.names.update(parsed.globs)
            assert not failed, "".join(report)
            return
        # Empty lines in front, so that errors show the line of the page.
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            exec(compile("\n" * (block.line - 1) + block.text, self.page, "exec"), self.names)
        self.printed += told.getvalue()

    def shell(self, block: Block) -> None:
        lines = [line.removeprefix("$ ") for line in block.text.splitlines()]
        for alone, group in itertools.groupby(lines, lambda line: words_of(line) is not None):
            if alone:
                for line in group:
                    self.command(line)
            else:
                self.script("\n".join(group))
        for name in re.findall(r"(?:-o|--model|--report|--plot) (\S+)", "\n".join(lines)):
            assert (self.folder / name).exists(), f"{name} was not written"

    def command(self, line: str) -> None:
        """Runs one command of boolweave here, where it is loaded and compiled already."""
        code, told = run_here(words_of(line) or [])
        assert code == 0, f"{line}\n{told}"
        self.printed += told

    def script(self, script: str) -> None:
        done = subprocess.run(
            ["sh", "-ec", script], cwd=self.folder, env=self.environment, timeout=850,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert done.returncode == 0, f"{script}\n{done.stdout}"
        self.printed += done.stdout


def words_of(line: str) -> list[str] | None:
    """The words of a command of boolweave that needs neither a shell nor processes of its own."""
    if not line.startswith("boolweave ") or "cluster" in line or "scheduler" in line:
        return None
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&$")
    lexer.whitespace_split = True
    words = list(lexer)
    return None if any(set(word) <= set("();<>|&$") for word in words) else words


def run_here(words: list[str]) -> tuple[int, str]:
    """The exit code of a command, and what it printed to both streams."""
    from boolweave.__main__ import main

    signals = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as told,
        contextlib.redirect_stdout(told),
        contextlib.redirect_stderr(told),
        mock.patch.object(sys, "argv", words),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")
        try:
            code = main()
        except SystemExit as end:
            code = end.code
        finally:
            for number, handler in signals.items():
                signal.signal(number, handler)
        told.seek(0)
        return int(code or 0), told.read()
