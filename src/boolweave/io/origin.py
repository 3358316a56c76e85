"""The form of a wide table, which is kept to write it again with missing entries filled in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from boolweave.data.cells import CellWords, counterpart
from boolweave.io.dialect import MARK, Dialect, sampled
from boolweave.io.files import sep_line

if TYPE_CHECKING:
    import polars as pl

    from boolweave.data.observations import Observations
    from boolweave.io.encoded import Encoded
    from boolweave.runtime.types import Array, Integers

# If there are more spellings than this, they are not distinguished, and the usual ones are written.
MOST_SPELLINGS = 255


@dataclass(frozen=True, eq=False)
class TextForm:
    """How the lines of a text table were written.

    Attributes
    ----------
    delimiter, line_end : str
    header : tuple of tuples of str, optional
        The lines above the body, as they were written: titles, and one or two lines of names.
    preamble : bytes
        What precedes them: a byte order mark, a line such as ``sep=;``.
    encoding : str, optional
        The encoding, if it was not UTF-8.
    """

    delimiter: str
    line_end: str
    header: tuple[tuple[str, ...], ...] | None
    preamble: bytes
    encoding: str | None = None

    @classmethod
    def of(cls, path: Path, name: str, dialect: Dialect) -> TextForm:
        """Find the form from the beginning of a file."""
        with path.open("rb") as file:
            start = file.read(4096)
        mark = b"\xef\xbb\xbf" if start.startswith(b"\xef\xbb\xbf") else b""
        line_end = "\r\n" if b"\r\n" in start else "\n" if b"\n" in start else "\r"
        sep, header = sep_line(path), None
        if dialect.header:
            rows = sampled(path, name, dialect)[1]
            header = tuple(tuple(row) for row in rows[: dialect.n_above])
        preamble = mark + (b"" if sep is None else f"sep={sep}{line_end}".encode())
        return cls(dialect.delimiter or ",", line_end, header, preamble, dialect.encoding)


@dataclass(frozen=True, eq=False)
class Spellings:
    """How each cell was spelled: (M, N) indices of texts, and the texts."""

    numbers: NDArray[np.uint8]
    texts: tuple[str, ...]

    def of_ones_and_zeros(self, words: CellWords) -> list[tuple[str, str]]:
        """The most frequent spellings of zero and one in each column, or else in the table."""
        codes = np.array([words.code(text) for text in self.texts], dtype=np.uint8)
        n = len(self.texts)
        counts = np.array([np.bincount(column, minlength=n) for column in self.numbers.T])
        overall = self._most(counts.sum(axis=0), codes, {0: "0", 1: "1"})
        by_column = [self._most(count, codes, overall) for count in counts]
        return [(found[0], found[1]) for found in by_column]

    def _most(
        self, counts: NDArray[np.int64], codes: NDArray[np.uint8], usual: dict[int, str]
    ) -> dict[int, str]:
        found = {}
        for code in (0, 1):
            own = np.where(codes == code, counts, 0)
            if own.any():
                found[code] = self.texts[int(np.argmax(own))].strip()
        if len(found) == 1:
            ((code, text),) = found.items()
            if (other := counterpart(code, text)) is not None:
                found[1 - code] = other
        return usual | found


class Speller:
    """Number the texts of cells, chunk by chunk."""

    def __init__(self) -> None:
        self._number: dict[str, int] = {}
        self._parts: list[NDArray[np.uint8]] = []

    def add(self, texts: pl.Series, shape: tuple[int, int]) -> None:
        """Add the texts of a chunk, (some rows, N), given row by row, and numbered by columns."""
        import polars as pl

        texts = texts.gather(np.arange(len(texts)).reshape(shape).T.ravel())
        for text in texts.unique(maintain_order=True).to_list():
            self._number.setdefault(text, len(self._number))
        if len(self._number) <= MOST_SPELLINGS:
            numbers = texts.replace_strict(self._number, return_dtype=pl.UInt8).to_numpy()
            self._parts.append(numbers.reshape(shape[::-1]).T)

    def spellings(self) -> Spellings | None:
        """All spellings; None if there are too many, or only the usual ones."""
        if len(self._number) > MOST_SPELLINGS or self._number.keys() <= {"0", "1", ""}:
            return None
        return Spellings(np.concatenate(self._parts), tuple(self._number))


def texts_by_row(frame: pl.DataFrame) -> pl.Series:
    """The cells of a table of texts, row by row; nulls are empty texts."""
    import polars as pl

    if not frame.width:
        return pl.Series([], dtype=pl.String)
    return frame.select(pl.concat_list(pl.all())).to_series().explode().fill_null("")


@dataclass(frozen=True, eq=False)
class Origin:
    """A wide table as it was read, except for the values of its cells.

    Attributes
    ----------
    names : list of str
        Names of all columns, generated if the file has none.
    cells : list of int
        Positions of the columns that hold the matrix.
    others : polars.DataFrame
        The other columns, named by their positions.
    form : TextForm, optional
        The form of the lines of a text table.
    spellings : Spellings, optional
        The spellings of cells that are not written as 0 and 1.
    dtypes : list, optional
        The types of the cells in a typed table.
    words : CellWords
    """

    names: list[str]
    cells: list[int]
    others: pl.DataFrame
    words: CellWords
    form: TextForm | None = None
    spellings: Spellings | None = None
    dtypes: list[Any] | None = None

    def frames(
        self, pieces: Iterable[NDArray[np.uint8]], seen: Observations
    ) -> Iterator[tuple[pl.DataFrame, NDArray[np.bool_]]]:
        """The table with new values, (some rows, N) at a time, and a mask of the changed cells."""
        start, cells = 0, set(self.cells)
        spelled = None if self.spellings is None else self.spellings.of_ones_and_zeros(self.words)
        for piece in pieces:
            rows = slice(start, start + len(piece))
            changed = changed_cells(seen, piece, start)
            table = self._cells(piece, changed, rows, spelled)
            for i, name in enumerate(self.names):
                if i not in cells:
                    table.insert_column(i, self.others[str(i)][start : rows.stop].alias(name))
            start = rows.stop
            marked = np.zeros((len(piece), len(self.names)), dtype=bool)
            marked[:, self.cells] = changed
            yield table, marked

    def _cells(
        self,
        values: NDArray[np.uint8],
        changed: NDArray[np.bool_],
        rows: slice,
        spelled: list[tuple[str, str]] | None,
    ) -> pl.DataFrame:
        names = [self.names[i] for i in self.cells]
        if self.spellings is None or spelled is None:
            plain = _frame(values, names)
            if self.dtypes is None:
                return plain
            return plain.cast(dict(zip(names, self.dtypes, strict=True)))
        texts = np.array(self.spellings.texts, dtype=object)
        new = np.array(spelled, dtype=object).reshape(-1, 2)[np.arange(len(names)), values]
        return _frame(np.where(changed, new, texts[self.spellings.numbers[rows]]), names)


def _frame(values: Array, names: list[str]) -> pl.DataFrame:
    """A table of numbers or texts; of the rows if they are fewer, as each series takes time."""
    import polars as pl

    def series(name: str, line: Array) -> pl.Series:
        is_text = line.dtype == object
        return pl.Series(name, line.tolist(), pl.String) if is_text else pl.Series(name, line)

    if 0 < len(values) < len(names):
        lines = [series(str(i), line) for i, line in enumerate(values)]
        return pl.DataFrame(lines).transpose(column_names=names)
    return pl.DataFrame([series(*pair) for pair in zip(names, values.T, strict=True)])


def changed_cells(seen: Observations, values: NDArray[np.uint8], start: int) -> NDArray[np.bool_]:
    """Which values of a block of rows were missing or different, (some rows, N)."""
    row, column, value = entries_in_block(seen, slice(start, start + len(values)))
    changed = np.ones(values.shape, dtype=bool)
    changed[row, column] = values[row, column] != value
    return changed


def entries_in_block(
    seen: Observations, block: slice
) -> tuple[Integers, Integers, NDArray[np.uint8]]:
    """Row (relative to the block), column and value of the observed entries of a block of rows."""
    per_row = np.diff(seen.indptr[block.start : block.stop + 1])
    own = slice(seen.indptr[block.start], seen.indptr[block.stop])
    return np.repeat(np.arange(len(per_row)), per_row), seen.indices[own], seen.values[own]


def encoded_frames(
    encoded: Encoded, chances: Iterable[NDArray[np.float64]]
) -> Iterator[tuple[pl.DataFrame, NDArray[np.bool_]]]:
    """A table whose columns were encoded, with missing cells replaced by the most likely values.

    `chances` are P(1) of the encoded columns, (some rows, N) at a time.
    """
    import polars as pl

    start = 0
    for piece in chances:
        table = encoded.table[start : start + len(piece)]
        columns = [table[name] for name in encoded.columns]
        missing = encoded.encoding.missing_cells(encoded.encoding.encode(columns))
        marked = np.zeros(table.shape, dtype=bool)
        for j, likely in enumerate(encoded.encoding.most_probable(piece)):
            if not missing[:, j].any():
                continue
            column = columns[j]
            marked[:, table.columns.index(column.name)] = missing[:, j]
            filled = [
                cell if hole else old
                for cell, hole, old in zip(likely, missing[:, j], column.to_list(), strict=True)
            ]
            if column.dtype == pl.String:
                filled = [None if cell is None else str(cell) for cell in filled]
            table = table.with_columns(pl.Series(column.name, filled, strict=False))
        start += len(piece)
        yield table, marked


def with_mark(frame: pl.DataFrame, marked: NDArray[np.bool_]) -> pl.DataFrame:
    """The table with an additional column that lists the columns filled in in each row."""
    import polars as pl

    names = frame.columns
    filled = ["; ".join(names[j] for j in np.flatnonzero(row)) or None for row in marked]
    return frame.with_columns(pl.Series(MARK, filled, dtype=pl.String))


def without_mark(
    frame: pl.DataFrame, marked: NDArray[np.bool_]
) -> tuple[pl.DataFrame, NDArray[np.bool_]]:
    """The table without the additional column that an earlier run has written."""
    if frame.columns[-1:] != [MARK] or marked[:, -1].any():
        return frame, marked
    return frame[:, :-1], marked[:, :-1]
