"""The options of a caller about a file, and which of them apply to which kind of file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from boolweave.data.cells import USUAL, Above, CellWords
from boolweave.data.observations import Absent, Duplicates
from boolweave.io.dialect import Dialect
from boolweave.io.files import FileError

if TYPE_CHECKING:
    from boolweave.encoding.plan import Plan

Zeros = Literal["auto", "exact", "collective"]

_OF_DIALECT = (
    "delimiter", "encoding", "layout", "header", "header_row", "sheet", "labels", "columns",
    "use", "drop", "index",
)  # fmt: skip
_OF_DATA = ("above", "absent", "duplicates", "times")
_WORDS = ("ones", "zeros", "missing")
# Options of every text table.
OF_TEXT = ("delimiter", "encoding", "header", "header_row")
BY_LAYOUT = {
    "wide": ("layout", "labels", "above", "use", "drop", "index", "encode", "plan", *_WORDS),
    "triples": ("layout", "columns", "above", "absent", "duplicates", "times", *_WORDS),
    "pairs": ("layout", "columns", "absent", "duplicates"),
}


@dataclass(frozen=True)
class Options:
    """The parameters of `boolweave.io.read` that say how to interpret a file."""

    dialect: Dialect = field(default_factory=Dialect)
    above: Above | None = None
    absent: Absent | None = None
    absent_default: Absent = "zero"
    duplicates: Duplicates = "error"
    times: str | None = None
    zeros: Zeros = "exact"  # applies to every file: how zeros will be treated
    words: CellWords = USUAL
    encode: str = "never"  # or "auto", "always" or rules: what to do with columns that are not 0/1
    plan: Plan | None = None  # how the columns of a wide table are read
    keep: bool = False  # whether to keep the form of a wide table, to write it again

    @property
    def unlisted(self) -> Absent:
        """How to treat entries that a sparse matrix, pairs or transactions do not list."""
        return self.absent or self.absent_default

    def given(self) -> list[str]:
        """The names of the options that the caller has set."""
        plain, usual = Dialect(), Options()
        return [
            *(name for name in _OF_DIALECT if getattr(self.dialect, name) != getattr(plain, name)),
            *(name for name in _OF_DATA if getattr(self, name) != getattr(usual, name)),
            *(name for name in _WORDS if getattr(self.words, name)),
            *(["plan"] if self.plan is not None and not self.plan.of_model else []),
            *(["encode"] if self.encode not in ("never", "auto") else []),
        ]

    def check(self, name: str, kind: str, *takes: str) -> None:
        """Raise FileError for options that would be ignored, as they do not apply to the file."""
        for option in self.given():
            if option not in takes:
                shown = option
                if option == "header" and not self.dialect.header:
                    shown = "header=False"
                raise FileError(name, f"`{shown}` does not apply to {kind}; leave it out")

    def check_matrix(self, name: str, kind: str, *takes: str) -> None:
        """Do the same for files that hold a matrix itself, whose layout can only be wide."""
        if self.dialect.layout not in (None, "wide"):
            raise FileError(
                name,
                f'`layout="{self.dialect.layout}"` does not apply to {kind}, which is the matrix '
                "itself; leave it out",
            )
        self.check(name, kind, "layout", *takes)


# ---------------------------------------------------------------- results


class CellError(FileError):
    """A cell that is neither 0, 1 nor missing."""
