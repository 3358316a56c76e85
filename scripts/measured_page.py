"""Pages of the documentation whose tables come from the results of a benchmark.

The text between ``<!-- table name -->`` and ``<!-- end -->`` is replaced by a table, or by nothing
if there are no results.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"<!-- table (\w+) -->\n.*?<!-- end -->", re.DOTALL)


def markdown(head: list[str], rows: list[list[str]], text: Collection[int] = (0,)) -> str:
    """A table; the columns in `text` hold text, the others hold numbers."""
    rule = ["---" if n in text else "---:" for n in range(len(head))]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, rule, *rows])


def fill(name: str, tables: Mapping[str, Callable[[dict], str]], page: str = "") -> None:
    """Fill a page of docs from benchmarks/results/<name>.json, and copy the picture.

    The page is docs/<name>.md unless `page` is another name. With --check on the command line,
    nothing is written, and the script fails if the page is out of date.
    """
    results = ROOT / "benchmarks" / "results" / f"{name}.json"
    path = ROOT / "docs" / f"{page or name}.md"
    report = json.loads(results.read_text(encoding="utf-8")) if results.exists() else None

    def block(found: re.Match[str]) -> str:
        begin, end = f"<!-- table {found[1]} -->\n", "<!-- end -->"
        return begin + end if report is None else f"{begin}\n{tables[found[1]](report)}\n\n{end}"

    old = path.read_text(encoding="utf-8")
    new = BLOCK.sub(block, old)
    if "--check" in sys.argv[1:]:
        outdated = (
            f"docs/{path.name} is out of date with benchmarks/results/{results.name}; run this "
            "script without --check"
        )
        sys.exit(outdated if new != old else 0)
    path.write_text(new, encoding="utf-8")
    if report is not None:
        shutil.copyfile(results.with_suffix(".png"), ROOT / "docs" / "pictures" / f"{name}.png")
