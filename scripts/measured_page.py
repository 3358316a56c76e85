"""Pages of the documentation whose tables come from the results of a benchmark.

The text between ``<!-- table name -->`` and ``<!-- end -->`` is replaced by a table and a line that
says what measured it, or by nothing if there are no results yet.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import MappingProxyType

from provenance import filled, line_of, update

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"<!-- table (\w+) -->\n.*?<!-- end -->", re.DOTALL)


def markdown(head: list[str], rows: list[list[str]], text: Collection[int] = (0,)) -> str:
    """A table; the columns in `text` hold text, the others hold numbers."""
    rule = ["---" if n in text else "---:" for n in range(len(head))]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, rule, *rows])


def fill(
    name: str,
    tables: Mapping[str, Callable[[dict], str]],
    page: str = "",
    made: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Fill a page of docs from benchmarks/results/<name>.json, and copy the picture beside it.

    The page is docs/<name>.md unless `page` is another name. With --check on the command line,
    nothing is written, and the script fails if the page is out of date. `made` names what
    `provenance.line_of` shows below a table, if that is not the whole result.
    """
    results = ROOT / "benchmarks" / "results" / f"{name}.json"
    report = json.loads(results.read_text(encoding="utf-8")) if results.exists() else None

    def block(match: re.Match[str]) -> str:
        begin, end = match[0].partition("\n")[0] + "\n", "<!-- end -->"
        if match[1] not in tables:
            return match[0]
        by = made.get(match[1], name)
        parts = [part for part in by.partition(":")[2].split(",") if part]
        if report is None or not set(parts) <= set(report):
            return begin + end
        return f"{begin}\n{tables[match[1]](report)}\n\n{line_of(by)}\n\n{end}"

    path = ROOT / "docs" / f"{page or name}.md"
    update(path, lambda old: filled(BLOCK.sub(block, old)), Path(sys.argv[0]).name)
    picture = results.with_suffix(".png")
    if picture.exists() and "--check" not in sys.argv[1:]:
        shutil.copyfile(picture, ROOT / "docs" / "pictures" / picture.name)
