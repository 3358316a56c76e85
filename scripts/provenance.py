"""Where stored results come from: version, date, machine, command, and the code that they measure.

Benchmarks and experiments call `record` when they store a result. It writes these facts to
`made.json` in the folder of the result, with a hash of each folder of code that was measured.
Comments, docstrings and layout do not change a hash.

    python scripts/provenance.py            # puts the facts into the lines of the pages
    python scripts/provenance.py --check    # fails if a page is out of date
    python scripts/provenance.py --stale    # lists results that are older than their code

On a page, such a line stands between ``<!-- made speed -->`` and ``<!-- end -->``, where speed is a
result in benchmarks/results; ``full/circles`` would be one in experiments/results, and
``speed:steps`` a part of a result.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import re
import sys
import time
import tokenize
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = {"": ROOT / "benchmarks" / "results", "full/": ROOT / "experiments" / "results" / "full",
           "quick/": ROOT / "experiments" / "results" / "quick"}  # fmt: skip
LINE = re.compile(r"<!-- made ([\w/:,]+) -->\n.*?<!-- end -->", re.DOTALL)
STARTED = time.time()
WHOLE = "all"  # the part of a result that was made at once


# ---------------------------------------------------------------- recorded by the scripts


def record(result: Path, rooms: Sequence[str], parts: Sequence[str] = ()) -> None:
    """Note what made a result, or some parts of it; a result that is made at once has no parts.

    `rooms` are the folders and modules of the library that it measures. The script itself always
    belongs to the code.
    """
    script = Path(sys.argv[0]).resolve().relative_to(ROOT).as_posix()
    facts = {
        "version": version(),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "command": " ".join(["python", script, *without_places(sys.argv[1:])]),
        "code": code_of(rooms),
    }
    file = result.parent / "made.json"
    made = read(file)
    kept = made.get(result.stem, {}) if parts else {}
    made[result.stem] = kept | dict.fromkeys(parts or [WHOLE], facts)
    beside = file.with_suffix(".part")
    beside.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    beside.replace(file)


def version() -> str:
    text = (ROOT / "src" / "boolweave" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "(.*)"$', text, re.MULTILINE)
    assert found is not None
    return found[1]


def machine() -> str:
    """The processor and its number of cores."""
    name = platform.processor() or platform.machine()
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        name = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)[1]  # type: ignore[index]
    except (OSError, TypeError):
        pass
    # An underscore would begin emphasis on a page.
    return f"{name.replace('_', '-')}, {os.cpu_count()} cores"


def without_places(arguments: Sequence[str]) -> Iterator[str]:
    """Options as they were given, with the last part of a path only."""
    for argument in arguments:
        word = Path(argument).name if Path(argument).is_absolute() else argument
        yield f"'{word}'" if " " in word else word


# ---------------------------------------------------------------- the code


def code_of(rooms: Sequence[str]) -> dict[str, str | None]:
    """Hashes of this script, and of folders and modules of the library.

    Code that has changed since the script started has none: nobody knows which of it was measured.
    """
    script = Path(sys.argv[0]).resolve().relative_to(ROOT).as_posix()
    sources = (script, *(f"src/boolweave/{room}" for room in rooms))
    return {s: None if changed_since_start(s) else hash_of(s) for s in sources}


def changed_since_start(source: str) -> bool:
    return any(file.stat().st_mtime > STARTED for file in files_of(source))


def files_of(source: str) -> list[Path]:
    path = ROOT / source
    return sorted(path.rglob("*.py")) if path.is_dir() else [path] if path.exists() else []


@cache
def hash_of(source: str) -> str | None:
    """The hash of the code of a module or a folder below the root; None if it is gone."""
    files = files_of(source)
    if not files:
        return None
    code = hashlib.sha256()
    for file in files:
        code.update(file.relative_to(ROOT).as_posix().encode())
        code.update(words_of(file.read_text(encoding="utf-8")).encode())
    return code.hexdigest()[:16]


def words_of(text: str) -> str:
    """The tokens of a module without spaces, comments and strings that stand by themselves.

    Versions of Python divide formatted strings differently, but only spaces and doubled braces show
    it.
    """
    layout = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    lines: list[list[tokenize.TokenInfo]] = [[]]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NEWLINE:
            lines.append([])
        elif token.type not in layout:
            lines[-1].append(token)
    kept = [line for line in lines if [token.type for token in line] != [tokenize.STRING]]
    words = "\n".join("".join(token.string for token in line) for line in kept)
    return re.sub(r"[ \t]", "", words).replace("{{", "{").replace("}}", "}")


def stale() -> Iterator[str]:
    """A line for each stored result whose code has changed, or of which nothing is known."""
    for folder in FOLDERS.values():
        made = read(folder / "made.json")
        for result in results(folder):
            place = result.relative_to(ROOT).as_posix()
            parts = made.get(result.stem)
            if parts is None:
                yield f"{place}: not known what made it"
                continue
            reasons: dict[str, list[str]] = {}
            for name, facts in parts.items():
                code = facts["code"]
                changed = [s for s, value in code.items() if value is None or hash_of(s) != value]
                if changed or not code:
                    why = ", ".join(changed) + " changed" if code else "its code was not recorded"
                    reasons.setdefault(f"{facts['date']}, {why}", []).append(name)
            for reason, names in reasons.items():
                which = "" if names == [WHOLE] else f" ({', '.join(names)})"
                yield f"{place}{which}: {reason}"


def results(folder: Path) -> list[Path]:
    """The stored results of a folder; those of experiments are tables."""
    kind = "*.csv" if list(folder.glob("*.csv")) else "*.json"
    return [file for file in sorted(folder.glob(kind)) if file.name != "made.json"]


# ---------------------------------------------------------------- on the pages


def line_of(name: str) -> str:
    """The facts of a result, or of some of its parts, in one small line."""
    name, _, chosen = name.partition(":")
    prefix = name[: name.rfind("/") + 1]
    parts = read(FOLDERS[prefix] / "made.json")[name.removeprefix(prefix)]
    if chosen:
        by_part = {part: parts.get(part, parts.get(WHOLE)) for part in chosen.split(",")}
        parts = {part: facts for part, facts in by_part.items() if facts is not None}
    groups = grouped(parts)
    if len(groups) > 3:  # ranges instead of details
        versions, dates, machines, commands = (
            sorted(set(facts)) for facts in zip(*groups, strict=True)
        )
        script = " ".join(commands[0].split()[:2])
        span = (" and ".join(versions), f"{dates[0]} to {dates[-1]}", "; ".join(machines), script)
        groups = {span: [WHOLE]}
    texts = []
    for (release, date, computer, command), names in groups.items():
        which = ""
        if len(groups) > 1:
            which = ("other parts" if names == [WHOLE] else ", ".join(names)) + ": "
        texts.append(f"{which}boolweave {release}, {date}, {computer}, `{command}`")
    return f"<small>Measured: {'; '.join(texts)}</small>"


def grouped(parts: dict[str, dict]) -> dict[tuple[str, str, str, str], list[str]]:
    """The parts of a result that were made together, by their facts."""
    groups: dict[tuple[str, str, str, str], list[str]] = {}
    for name, facts in parts.items():
        key = facts["version"], facts["date"], facts["machine"], facts["command"]
        groups.setdefault(key, []).append(name)
    return groups


def filled(page: str) -> str:
    """A page with its lines brought up to date."""
    return LINE.sub(lambda m: f"<!-- made {m[1]} -->\n\n{line_of(m[1])}\n\n<!-- end -->", page)


def read(file: Path) -> dict[str, dict[str, dict]]:
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def update(path: Path, fill: Callable[[str], str], script: str) -> None:
    """Bring a page up to date; with --check, fail if it is not, and write nothing."""
    old = path.read_text(encoding="utf-8")
    new = fill(old)
    if "--check" not in sys.argv[1:]:
        path.write_text(new, encoding="utf-8")
    elif new != old:
        sys.exit(f"{path.name} is out of date with the stored results; run scripts/{script}")


def main() -> None:
    if "--stale" in sys.argv[1:]:
        print(*(list(stale()) or ["All results were made by the present code."]), sep="\n")
        return
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        update(page, filled, "provenance.py")


if __name__ == "__main__":
    main()
