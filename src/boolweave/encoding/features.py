"""Encoding of a column as several columns of zeros and ones, and back: a class for each kind.

`encode` takes a clean series (`tables.without_blanks`) and returns an array (M, n) of 0, 1 and NaN;
`decode` takes such an array and returns M cells, None where it is missing or contradictory;
`most_probable` takes probabilities (M, n) and returns the M most likely cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from boolweave.data.cells import MISSING, WRONG, CellWords
from boolweave.encoding.scales import lower_end
from boolweave.encoding.tables import as_dates, as_numbers, form_in_words

if TYPE_CHECKING:
    import polars as pl

Bits: TypeAlias = NDArray[np.float32]
Cells: TypeAlias = list[object]

OTHER = "other"
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class Feature(Protocol):
    """The encoding of a column."""

    @property
    def name(self) -> str:
        """Name of the column."""

    @property
    def kind(self) -> str:
        """Kind of the column."""

    @property
    def names(self) -> list[str]:
        """Names of the n encoded columns."""

    def encode(self, column: pl.Series) -> Bits:
        """Encode a column of M cells as (M, n)."""

    def decode(self, bits: Bits) -> Cells:
        """Decode (M, n) to M cells."""

    def most_probable(self, chances: NDArray[np.float64]) -> Cells:
        """The M most likely cells, given the probabilities of ones, (M, n)."""


def number_text(number: float) -> str:
    """A number in its shortest spelling."""
    return f"{number:.12g}"


def whole(cell: object) -> object:
    """A whole number that a float holds exactly as an integer; other cells as they are."""
    exact = isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53
    return int(cell) if exact else cell  # type: ignore[call-overload]


def _missing_rows(bits: Bits, column: pl.Series) -> Bits:
    bits[column.is_null().to_numpy()] = np.nan
    return bits


def _pick(values: Sequence[object], bits: Bits) -> Cells:
    """The value whose column is one, if exactly one column is and nothing is missing."""
    certain = (bits == 1).sum(axis=1) == 1
    certain &= ~np.isnan(bits).any(axis=1)
    at = np.argmax(bits == 1, axis=1)
    return [values[j] if known else None for j, known in zip(at, certain, strict=True)]


# ---------------------------------------------------------------- kinds


@dataclass(frozen=True)
class Dropped:
    """A column that is left out, with the reason: labels, free text, a constant."""

    name: str
    reason: str
    kind: str = "text"

    @property
    def names(self) -> list[str]:
        """An empty list."""
        return []

    def encode(self, column: pl.Series) -> Bits:
        """Encode the column as no columns."""
        return np.empty((len(column), 0), dtype=np.float32)

    def decode(self, bits: Bits) -> Cells:
        """Return missing cells."""
        return [None] * len(bits)

    def most_probable(self, chances: NDArray[np.float64]) -> Cells:
        """Return missing cells."""
        return [None] * len(chances)


@dataclass(frozen=True)
class Boolean:
    """A column of ones and zeros in any spelling, which stays one column."""

    name: str
    words: CellWords
    one: object = 1
    zero: object = 0
    kind: str = "yes/no"

    @property
    def names(self) -> list[str]:
        """Its own name."""
        return [self.name]

    def encode(self, column: pl.Series) -> Bits:
        """Ones and zeros by their spelling."""
        bits = np.full((len(column), 1), np.nan, dtype=np.float32)
        for cell, code in cell_codes(column, self.words).items():
            if code == WRONG:
                raise ValueError(
                    f"expected 0/1 or yes/no in column {self.name!r}, as in fit, but got {cell!r}; "
                    "correct it, or define which cells are `ones`, `zeros` and `missing`"
                )
            if code != MISSING:
                bits[(column == cell).fill_null(False).to_numpy(), 0] = code
        return bits

    def decode(self, bits: Bits) -> Cells:
        """The most frequent spellings."""
        spelled = {1.0: self.one, 0.0: self.zero}
        return [spelled.get(float(bit)) for bit in bits[:, 0]]

    def most_probable(self, chances: NDArray[np.float64]) -> Cells:
        """The more likely spelling."""
        return [self.one if chance > 0.5 else self.zero for chance in chances[:, 0]]


def cell_codes(column: pl.Series, words: CellWords) -> dict[object, int]:
    """The code of each different cell, in the order of appearance: 0, 1, MISSING or WRONG."""
    cells = column.drop_nulls().unique(maintain_order=True).to_list()
    return {cell: words.code(int(cell) if isinstance(cell, bool) else cell) for cell in cells}


@dataclass(frozen=True)
class Category:
    """A column of levels: one column for each, and possibly one for all others."""

    name: str
    levels: tuple[object, ...]
    pooled: str = ""  # name of the rare levels; empty if there are none
    kind: str = "category"

    @property
    def values(self) -> tuple[object, ...]:
        """The levels, and the name of the others."""
        return (*self.levels, self.pooled) if self.pooled else self.levels

    @property
    def names(self) -> list[str]:
        """Names such as "colour = red"."""
        return [f"{self.name} = {level_text(value)}" for value in self.values]

    def encode(self, column: pl.Series) -> Bits:
        """A one for the level of each cell; none for a level that fit did not see."""
        texts = level_texts(column)
        number = {level_text(level): float(j) for j, level in enumerate(self.levels)}
        other = float(len(self.levels)) if self.pooled else -1.0
        at = texts.replace_strict(number, default=other).to_numpy()
        bits = (at[:, None] == np.arange(len(self.values))).astype(np.float32)
        return _missing_rows(bits, column)

    def decode(self, bits: Bits) -> Cells:
        """The only level whose column is one."""
        return _pick(self.values, bits)

    def most_probable(self, chances: NDArray[np.float64]) -> Cells:
        """The most likely level; the pooled rare ones only if there is no other."""
        n = len(self.levels) or len(self.values)
        return [self.values[j] for j in np.argmax(chances[:, :n], axis=1)]


@dataclass(frozen=True)
class Ordered:
    """A column of answers with an order: a column for each level but the lowest, nested."""

    name: str
    levels: tuple[object, ...]
    kind: str = "ordered"

    @property
    def names(self) -> list[str]:
        """Names such as "income ≥ $50,000"."""
        ends = [lower_end(level_text(level)) for level in self.levels[1:]]
        return [f"{self.name} {end if end[0] in '<>' else f'≥ {end}'}" for end in ends]

    def encode(self, column: pl.Series) -> Bits:
        """Compare each answer with the levels; a level that fit did not see is missing."""
        import polars as pl

        rank = {level_text(level): float(j) for j, level in enumerate(self.levels)}
        ranks = level_texts(column).replace_strict(rank, default=None, return_dtype=pl.Float64)
        bits = ranks.fill_null(0.0).to_numpy()[:, None] > np.arange(len(self.levels) - 1)
        return _missing_rows(bits.astype(np.float32), ranks)

    def decode(self, bits: Bits) -> Cells:
        """The level, unless its columns contradict each other."""
        return _pick_nested(self.levels, bits)

    def most_probable(self, chances: NDArray[np.float64]) -> Cells:
        """The most likely level."""
        return [self.levels[n] for n in _likeliest(chances)]


def _likeliest(chances: NDArray[np.float64]) -> NDArray[np.intp]:
    """The most likely number of thresholds that are passed, given the chance of each, (M, n)."""
    passed = np.minimum.accumulate(chances, axis=1)
    ends = np.pad(passed, ((0, 0), (1, 1)), constant_values=((0, 0), (1, 0)))
    return np.asarray(np.argmax(-np.diff(ends, axis=1), axis=1))


def _pick_nested(values: Sequence[object], bits: Bits) -> Cells:
    """The value whose thresholds are passed, if nothing is missing or contradictory."""
    known = [not np.isnan(row).any() and (np.diff(row) <= 0).all() for row in bits]
    return [
        values[int((row == 1).sum())] if sure else None
        for row, sure in zip(bits, known, strict=True)
    ]


@dataclass(frozen=True)
class Checkbox:
    """A column of marks: a label or nothing. An empty cell is a zero.

    Attributes
    ----------
    mark : object
        The cell of a checked box.
    blank : object
        The cell of an empty box, such as "Not selected"; None if it is empty.
    """

    name: str
    mark: object
    blank: object = None
    kind: str = "checkbox"

    @property
    def names(self) -> list[str]:
        """Its own name."""
        return [self.name]

    def encode(self, column: pl.Series) -> Bits:
        """A one for every cell with a mark, in any spelling."""
        marked = column.is_not_null()
        if self.blank is not None:
            marked &= level_texts(column).fill_null("") != level_text(self.blank)
        return marked.to_numpy().astype(np.float32)[:, None]

    def decode(self, bits: Bits) -> Cells:
        """The mark, or an empty cell."""
        return [self.mark if bit == 1 else self.blank for bit in bits[:, 0]]

    def most_probable(self, chances: NDArray[np.float64]) -> Cells:
        """The mark if it is probable."""
        return [self.mark if chance > 0.5 else self.blank for chance in chances[:, 0]]


def level_text(level: object) -> str:
    """A level as a text, numbers in their shortest spelling."""
    return number_text(level) if isinstance(level, float) else str(level)


def level_texts(column: pl.Series) -> pl.Series:
    """The cells of a column as texts, which distinguish the levels."""
    import polars as pl

    if column.dtype == pl.String:
        return column
    texts = [None if cell is None else level_text(cell) for cell in column.to_list()]
    return pl.Series(column.name, texts, dtype=pl.String)


@dataclass(frozen=True)
class Choices:
    """A column of cells that hold several choices: one column for each choice."""

    name: str
    separator: str
    choices: tuple[str, ...]
    pooled: str = ""
    joint: str = ""  # what is written between two choices
    kind: str = "choices"

    @property
    def names(self) -> list[str]:
        """Names such as "hobby: chess"."""
        more = [self.pooled] if self.pooled else []
        return [f"{self.name}: {choice}" for choice in [*self.choices, *more]]

    def encode(self, column: pl.Series) -> Bits:
        """A one for each choice in a cell."""
        number = {choice: j for j, choice in enumerate(self.choices)}
        bits = np.zeros((len(column), len(self.names)), dtype=np.float32)
        for i, parts in enumerate(split_choices(column, self.separator).to_list()):
            for part in parts or ():
                at = number.get(part, len(self.choices) if self.pooled else None)
                if at is not None:
                    bits[i, at] = 1
        return _missing_rows(bits, column)

    def decode(self, bits: Bits) -> Cells:
        """The choices whose columns are ones, with the separator between them."""
        choices = (*self.choices, self.pooled)
        known = ~np.isnan(bits).any(axis=1) & (bits == 1).any(axis=1)
        return [
            self._joined([choices[j] for j in np.flatnonzero(row == 1)]) if sure else None
            for row, sure in zip(bits, known, strict=True)
        ]

    def most_probable(self, chances: NDArray[np.float64]) -> Cells:
        """All choices with a probability above ½, or else the most likely one."""
        n = len(self.choices) or len(self.names)
        choices = (*self.choices, self.pooled)
        return [
            self._joined(
                [choices[j] for j in np.flatnonzero(row > 0.5)] or [choices[np.argmax(row)]]
            )
            for row in chances[:, :n]
        ]

    def _joined(self, choices: list[str]) -> str:
        return (self.joint or self.separator).join(choices)


def split_choices(column: pl.Series, separator: str) -> pl.Series:
    """The choices in each cell, without surrounding blanks."""
    import polars as pl

    parts = column.cast(pl.String).str.split(separator)
    return parts.list.eval(pl.element().str.strip_chars()).list.eval(
        pl.element().filter(pl.element() != "")
    )


@dataclass(frozen=True)
class Numbers:
    """A column of numbers: nested thresholds, or one column for each interval.

    Attributes
    ----------
    edges : tuple of float
        Increasing edges of the intervals, each of which includes its lower edge.
    nested : bool
        Whether there is a column for each edge, "age ≥ 40", or for each interval, "40 ≤ age < 60".
    values : tuple of float
        One value for each interval: the only one in it, or the median of those that fit saw there.
    exact : bool
        Whether each interval holds a single value.
    comma : bool
        Whether its numbers were written with decimal commas, and are written so again.
    spelled : tuple of str
        `values` as they were written, with currency and separators of thousands.
    """

    name: str
    edges: tuple[float, ...]
    nested: bool
    values: tuple[float, ...]
    exact: bool
    comma: bool = False
    spelled: tuple[str, ...] = ()
    kind: str = "number"

    @property
    def names(self) -> list[str]:
        """Names such as "age ≥ 40"."""
        if self.nested:
            return [f"{self.name} ≥ {number_text(edge)}" for edge in self.edges]
        if self.exact:
            return [f"{self.name} = {number_text(value)}" for value in self.values]
        inner = [
            f"{number_text(low)} ≤ {self.name} < {number_text(high)}"
            for low, high in pairwise(self.edges)
        ]
        low, high = number_text(self.edges[0]), number_text(self.edges[-1])
        return [f"{self.name} < {low}", *inner, f"{self.name} ≥ {high}"]

    def encode(self, column: pl.Series) -> Bits:
        """Compare each number with the edges."""
        numbers = as_numbers(column)
        if numbers is None:
            raise ValueError(
                f"expected numbers in column {self.name!r}, as in fit, but got "
                f"{_first_no_number(column)!r}; correct it, or define which cells are `missing`"
            )
        at = np.searchsorted(self.edges, numbers.fill_null(0.0).to_numpy(), side="right")
        positions = np.arange(len(self.names))
        bits = at[:, None] > positions if self.nested else at[:, None] == positions
        return _missing_rows(bits.astype(np.float32), column)

    def decode(self, bits: Bits) -> Cells:
        """The interval, or its number if it holds a single one."""
        intervals = self._in_words()
        if not self.nested:
            return _pick(intervals, bits)
        return _pick_nested(intervals, bits)

    def most_probable(self, chances: NDArray[np.float64]) -> Cells:
        """The number of the most likely interval, or the median of those seen in it."""
        if self.nested:
            at = _likeliest(chances)
        else:
            at = np.argmax(chances, axis=1)
        cells = self.spelled or [self._cell(value) for value in self.values]
        return [cells[n] for n in at]

    def _cell(self, number: float) -> object:
        return number_text(number).replace(".", ",") if self.comma else whole(number)

    def _in_words(self) -> Cells:
        if self.exact:
            return [self._cell(value) for value in self.values]
        inner = [f"[{number_text(a)}, {number_text(b)})" for a, b in pairwise(self.edges)]
        words = [f"< {number_text(self.edges[0])}", *inner, f"≥ {number_text(self.edges[-1])}"]
        if self.comma:
            words = [text.replace(", ", "; ").replace(".", ",") for text in words]
        return list(words)


def _first_no_number(column: pl.Series) -> object:
    import polars as pl

    for cell in column.drop_nulls().to_list():
        if as_numbers(pl.Series([cell])) is None:
            return cell
    return column.dtype


@dataclass(frozen=True)
class Dates:
    """A column of dates: each part of a date is a feature of its own."""

    name: str
    parts: tuple[tuple[str, Feature], ...]
    form: str | None = None  # of texts, in codes such as %d
    kind: str = "date"

    @property
    def names(self) -> list[str]:
        """Names such as "born month = March"."""
        return [name for _, feature in self.parts for name in feature.names]

    def encode(self, column: pl.Series) -> Bits:
        """Encode each part by its feature."""
        dates = as_dates(column, self.form)
        if dates is None:
            form = form_in_words(self.form) if self.form else "such as 2024-12-31"
            raise ValueError(
                f"expected dates {form} in column {self.name!r}, as in fit; correct them, or "
                "define which cells are `missing`"
            )
        return np.hstack([feature.encode(part_of(dates, part)) for part, feature in self.parts])

    def decode(self, bits: Bits) -> Cells:
        """The parts in words."""
        return self._joined(bits, lambda feature, own: feature.decode(own))

    def most_probable(self, chances: NDArray[np.float64]) -> Cells:
        """The most likely parts in words."""
        return self._joined(chances, lambda feature, own: feature.most_probable(own))

    def _joined(self, columns: Any, cells_of: Callable[[Feature, Any], Cells]) -> Cells:
        """Decode the columns of each part, and join the parts of each date."""
        pieces, start = [], 0
        for part, feature in self.parts:
            stop = start + len(feature.names)
            own = cells_of(feature, columns[:, start:stop])
            pieces.append([_in_words(part, cell) for cell in own])
            start = stop
        return [
            None if None in row else ", ".join(str(piece) for piece in row)
            for row in zip(*pieces, strict=True)
        ]


def _in_words(part: str, cell: object) -> str | None:
    if cell is None:
        return None
    return str(cell) if part in ("month", "weekday") else f"{part} {cell}"


def part_of(dates: pl.Series, part: str) -> pl.Series:
    """A part of dates: year and hour as numbers, month and weekday as names."""
    import polars as pl

    if part == "year":
        return dates.dt.year().cast(pl.Float64)
    if part == "hour":
        return dates.dt.hour().cast(pl.Float64)
    number = dates.dt.month() if part == "month" else dates.dt.weekday()
    names = MONTHS if part == "month" else WEEKDAYS
    return number.cast(pl.Int64).replace_strict(
        {j + 1: name for j, name in enumerate(names)}, default=None, return_dtype=pl.String
    )
