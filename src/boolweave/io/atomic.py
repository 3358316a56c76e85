"""Files that are written beside their place and renamed: there is never half a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """A new binary file that takes the place of `path` when the block ends without an error.

    Until then, and for good if the block fails, the old file stays as it was.
    """
    target = Path(path)
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with beside.open("wb") as file:
            yield file
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
