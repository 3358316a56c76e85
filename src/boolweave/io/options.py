"""What a caller says about a file, and which of it has a meaning for which kind of file."""

from __future__ import annotations

from dataclasses import dataclass, field

from boolweave.data.observations import Absent, Duplicates
from boolweave.io.dialect import Dialect
from boolweave.io.files import FileError

Above = str | float  # "mean", "median" or a number

WIDE = ("layout", "labels", "above")
TRIPLES = ("layout", "columns", "above", "absent", "duplicates")
PAIRS = ("layout", "columns", "absent", "duplicates")
BY_LAYOUT = {"wide": WIDE, "triples": TRIPLES, "pairs": PAIRS}


@dataclass(frozen=True)
class Options:
    """How to read a file, as far as the caller says.

    Attributes
    ----------
    dialect : Dialect
        About text tables, and the layout and columns of other tables.
    above : "mean", "median" or a number, optional
        Values are ratings, and those above it are ones. The mean and the median are those of all
        values in the file.
    absent : {"zero", "missing"}, optional
        What the entries are that the file does not name.
    absent_default : {"zero", "missing"}
        The same for sparse matrices, pairs and transactions if `absent` is left out.
    duplicates : {"error", "majority"}
        What to do where one entry is given as both 0 and 1.
    """

    dialect: Dialect = field(default_factory=Dialect)
    above: Above | None = None
    absent: Absent | None = None
    absent_default: Absent = "zero"
    duplicates: Duplicates = "error"

    @property
    def unnamed(self) -> Absent:
        """What the entries are that a sparse matrix, pairs or transactions do not name."""
        return self.absent or self.absent_default

    def given(self) -> list[str]:
        """The names of the options that the caller has set."""
        asked = self.dialect
        is_set = {
            "delimiter": asked.delimiter is not None,
            "layout": asked.layout is not None,
            "header": asked.header is not None,
            "labels": asked.labels is not None,
            "columns": bool(asked.columns),
            "above": self.above is not None,
            "absent": self.absent is not None,
            "duplicates": self.duplicates != "error",
        }
        return [option for option, yes in is_set.items() if yes]

    def check(self, name: str, kind: str, *takes: str) -> None:
        """Refuse options that would be ignored, because they mean nothing for this kind of file."""
        for option in self.given():
            if option not in takes:
                shown = f"--{option}"
                if option == "header" and not self.dialect.header:
                    shown = "--no-header"
                raise FileError(name, f"{shown} has no meaning for {kind}; leave it out")

    def check_matrix(self, name: str, kind: str, *takes: str) -> None:
        """The same for files that hold a matrix as such: it is wide, and nothing else."""
        if self.dialect.layout not in (None, "wide"):
            raise FileError(
                name,
                f"--layout {self.dialect.layout} has no meaning for {kind}, which is the matrix "
                "itself; leave it out",
            )
        self.check(name, kind, "layout", *takes)
