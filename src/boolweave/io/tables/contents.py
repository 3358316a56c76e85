"""The results of the readers of tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from boolweave.io.files import FileError
from boolweave.runtime.progress import counted

if TYPE_CHECKING:
    import polars as pl

    from boolweave.data.cells import CellWords
    from boolweave.encoding import TableEncoder
    from boolweave.io.cells import Seen
    from boolweave.io.tables.origin import Origin, TextForm
    from boolweave.runtime.types import Array


class CellError(FileError):
    """A cell that is neither 0, 1 nor missing."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """A table whose columns became zeros and ones.

    Attributes
    ----------
    encoder : TableEncoder
        Fitted to the columns of `table` named in `columns`.
    table : polars.DataFrame
        All columns of the file.
    columns : list of str
        The columns that the encoder encoded or left out, in the order of the file.
    label : str, optional
        The column that holds the row labels.
    words : CellWords
        The words for ones, zeros and missing cells.
    form : TextForm, optional
        How the lines of a text table were written.
    """

    encoder: TableEncoder
    table: pl.DataFrame
    columns: list[str]
    label: str | None
    words: CellWords
    form: TextForm | None = None

    def in_words(self) -> tuple[str, str]:
        """A description, in two lines, of how the columns were encoded."""
        made = self.encoder.get_feature_names_out().tolist()
        kinds = self.encoder.kinds_
        used = [kind for kind in kinds if kind != "left out"]
        parts = [f"{used.count(kind)} {_plural(kind, used.count(kind))}" for kind in _KINDS]
        kinds_used = ", ".join(part for part in parts if not part.startswith("0 "))
        some = [name for name in made if name not in self.columns][:3]
        such = f", such as {', '.join(map(repr, some))}" if some else ""
        left = [f"{name} ({why})" for name, why in self.encoder.left_out_.items()]
        named = "" if self.label is None else f"; row labels: {self.label!r}"
        return (
            f"encoded {counted(len(used), 'column')} ({kinds_used}) as "
            f"{counted(len(made), '0/1 column')}{such}",
            f"left out: {_some(left) or 'nothing'}{named}",
        )


_KINDS = ("yes or no", "category", "number", "date", "several choices")


def _plural(kind: str, n: int) -> str:
    if kind == "several choices":
        return "with several choices"
    if n == 1 or kind == "yes or no":
        return kind
    return "categories" if kind == "category" else f"{kind}s"


def _some(items: list[str], most: int = 6) -> str:
    shown = ", ".join(items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"


@dataclass(frozen=True, eq=False)
class Contents:
    """The contents of a file, a description of how it was read, and the times, if any."""

    observations: Seen
    guess: str
    times: Array | None = None
    encoded: Encoded | None = None
    origin: Origin | None = None
    lists_entries: bool = False  # whether the file lists some entries, and not all of a matrix
