"""What a caller says about a file, and which of it has a meaning for which kind of file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from boolweave.data.observations import Absent, Duplicates
from boolweave.data.words import USUAL, Above, Words
from boolweave.io.dialect import Dialect
from boolweave.io.files import FileError

Zeros = Literal["auto", "exact", "collective"]

_OF_DIALECT = ("delimiter", "layout", "header", "labels", "columns", "use", "drop", "index")
_OF_DATA = ("above", "absent", "duplicates", "times")
_WORDS = ("ones", "zeros", "missing")
BY_LAYOUT = {
    "wide": ("layout", "labels", "above", "use", "drop", "index", "encode", *_WORDS),
    "triples": ("layout", "columns", "above", "absent", "duplicates", "times", *_WORDS),
    "pairs": ("layout", "columns", "absent", "duplicates"),
}


@dataclass(frozen=True)
class Options:
    """The parameters of `boolweave.io.read` that say how a file is to be understood."""

    dialect: Dialect = field(default_factory=Dialect)
    above: Above | None = None
    absent: Absent | None = None
    absent_default: Absent = "zero"
    duplicates: Duplicates = "error"
    times: str | None = None
    zeros: Zeros = "exact"  # has a meaning for every file: how zeros will be treated
    words: Words = USUAL
    encode: str = "never"  # "auto", "always" or rules: what becomes of columns that are no 0/1
    keep: bool = False  # whether to keep how a wide table looked, to be written again

    @property
    def unnamed(self) -> Absent:
        """What the entries are that a sparse matrix, pairs or transactions do not name."""
        return self.absent or self.absent_default

    def given(self) -> list[str]:
        """The names of the options that the caller has set."""
        plain, usual = Dialect(), Options()
        return [
            *(name for name in _OF_DIALECT if getattr(self.dialect, name) != getattr(plain, name)),
            *(name for name in _OF_DATA if getattr(self, name) != getattr(usual, name)),
            *(name for name in _WORDS if getattr(self.words, name)),
            *(["encode"] if self.encode not in ("never", "auto") else []),
        ]

    def check(self, name: str, kind: str, *takes: str) -> None:
        """Refuse options that would be ignored, because they mean nothing for this kind of file."""
        for option in self.given():
            if option not in takes:
                shown = option
                if option == "header" and not self.dialect.header:
                    shown = "header=False"
                raise FileError(name, f"`{shown}` has no meaning for {kind}; leave it out")

    def check_matrix(self, name: str, kind: str, *takes: str) -> None:
        """The same for files that hold a matrix as such: it is wide, and nothing else."""
        if self.dialect.layout not in (None, "wide"):
            raise FileError(
                name,
                f'`layout="{self.dialect.layout}"` has no meaning for {kind}, which is the matrix '
                "itself; leave it out",
            )
        self.check(name, kind, "layout", *takes)
