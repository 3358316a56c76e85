"""Text tables as whole records: quoted fields over several lines, comments, the line ``sep=;``.

Lines that are not records are replaced by empty lines, so that line numbers stay correct.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from boolweave.io import files
from boolweave.io.files import text_chunks

# The line above a table by which Excel states the delimiter.
_SEP = re.compile(rb'"?sep=(.)"?\r?(?=\n)', re.IGNORECASE)
# Number of bytes within which a quoted field must end; otherwise, its closing quotation mark was
# forgotten.
LONGEST = 4 * files.CHUNK_BYTES


def sep_line(path: Path) -> str | None:
    """The delimiter that the first line names, as in ``sep=;``."""
    with path.open("rb") as file:
        start = file.read(64).removeprefix(b"\xef\xbb\xbf").replace(b"\r", b"\n")
    found = _SEP.match(start)
    return found[1].decode("ascii", "replace") if found else None


def table_chunks(path: Path, name: str) -> Iterator[tuple[bytes, int]]:
    """Chunks of whole records of a table, and the number of lines before each chunk."""
    pending, before = b"", 0
    for content, lines_before in text_chunks(path, name, "a table"):
        if lines_before == 0 and (found := _SEP.match(content)):
            content = content[found.end() :]
        if not pending:
            before = lines_before
        pending += content
        pending = without_comments(pending, lambda line: line.count(b'"') % 2 == 1)
        if pending.count(b'"') % 2 and len(pending) < LONGEST:
            continue
        yield pending, before
        pending = b""
    if pending:
        yield pending, before


def without_comments(content: bytes, is_comment: Callable[[bytes], bool]) -> bytes:
    """The content with an empty line instead of each comment, which begins with #."""
    if not (content.startswith(b"#") or b"\n#" in content):
        return content
    lines, inside = content.split(b"\n"), False
    for i, line in enumerate(lines):
        if not inside and line.startswith(b"#") and is_comment(line.rstrip(b"\r")):
            lines[i] = b""
        else:
            inside ^= line.count(b'"') % 2 == 1
    return b"\n".join(lines)


def records(content: bytes) -> Iterator[tuple[bytes, int]]:
    """The records in whole lines, without line ends, and the number of lines before each.

    The last record may have a quoted field that does not end.
    """
    pending, start = b"", 0
    for number, line in enumerate(content.split(b"\n")[:-1]):
        if not pending:
            start = number
        pending += line + b"\n"
        if pending.count(b'"') % 2 == 0:
            yield pending.rstrip(b"\r\n"), start
            pending = b""
    if pending:
        yield pending.rstrip(b"\r\n"), start
