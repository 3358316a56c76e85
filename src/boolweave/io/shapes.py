"""Long tables among other columns: which of the columns hold the row, the column and the value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from boolweave.data.cells import WRONG, CellWords
from boolweave.io.dialect import is_heading

if TYPE_CHECKING:
    import polars as pl

# More columns than this are those of a wide table.
MOST_COLUMNS = 16
# Values have at most this many levels; a line with two more columns than that is no entry.
MOST_LEVELS, MOST_OTHERS = 12, 2
# A grid of all rows and all columns is filled to this fraction, and has this many of both.
FILLED, SMALLEST_GRID = 0.5, 5
# An item occurs in several lines, on average.
TIMES_AGAIN = 1.5

# What the codes of known publications mean: ones, zeros and missing.
CODE_BOOKS = {
    # Voteview: 1 to 3 yea, 4 to 6 nay, 7 to 9 present or not voting, 0 not a member.
    ("rollnumber", "icpsr", "cast_code"): ("1,2,3", "4,5,6", "0,7,8,9"),
    # Polis: 1 agree, -1 disagree, 0 pass.
    ("voter-id", "comment-id", "vote"): ("1", "-1", "0"),
}
# Names of columns that say who, which are rows, and of columns that say when.
_WHO = re.compile(
    r"user|voter|participant|person|people|employee|account|login|sign.?in|principal|customer"
    r"|respondent|patient|student|visitor",
    re.IGNORECASE,
)
_WHEN = re.compile(r"time|date|stamp|created|modified|since|until", re.IGNORECASE)


@dataclass(frozen=True)
class LongForm:
    """The columns of a table that has a line for each entry.

    Attributes
    ----------
    row, column : str
    value : str, optional
        The column of values; without one, each line is a one.
    levels : tuple of str
        The values, if they are not ones and zeros.
    """

    row: str
    column: str
    value: str | None = None
    levels: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the pairs or triples."""
        both = (self.row, self.column)
        return both if self.value is None else (*both, self.value)

    @property
    def code_book(self) -> CellWords | None:
        """What the values mean, if they are the codes of a known publication."""
        names = tuple(name.lower() for name in self.columns)
        meanings = next((means for book, means in CODE_BOOKS.items() if book == names), None)
        return None if meanings is None else CellWords.of(*(text.split(",") for text in meanings))

    def in_words(self) -> str:
        """Which reading was taken, and how to get the other one."""
        means = self.code_book
        said = ""
        if means is not None:
            kinds = (("ones", means.ones), ("zeros", means.zeros), ("missing", means.missing))
            said = "".join(f", {', '.join(cells)} are {kind}" for kind, cells in kinds)
        return f'{said}; pass `layout="wide"` if each line is a row of its own'

    def question(self) -> str:
        """What to say if the meaning of the values is not known."""
        shown, names = ", ".join(self.levels), ",".join(self.columns)
        return (
            f"each line seems to hold an entry, in row {self.row!r} and column {self.column!r}, "
            f"with the value {self.value!r} ({shown}), but which values are ones is not known; "
            f'pass `columns="{names}"` with `ones` and `zeros`, or with `above` for ratings, or '
            'pass `layout="wide"` if each line is a row of its own'
        )


def long_form(frame: pl.DataFrame, words: CellWords) -> LongForm | None:
    """Find the row, the column and the value in a table with a line for each entry.

    Rows and columns repeat, but not together, and other columns describe the one or the other, or
    are the same in all lines. Names of identifiers, or a grid with an entry at most places, are
    needed in addition.
    """
    if not 3 <= frame.width <= MOST_COLUMNS or frame.height < 2 * SMALLEST_GRID:
        return None
    lines = frame.unique()
    n_lines = lines.height
    counts = {name: lines[name].n_unique() for name in lines.columns}
    keys = [
        name
        for name, n in counts.items()
        if 1 < n < n_lines and not lines[name].null_count() and not _has_empty(lines[name])
    ]
    for row, column in _pairs(keys):
        is_grid = n_lines >= FILLED * counts[row] * counts[column]
        is_grid = is_grid and min(counts[row], counts[column]) >= SMALLEST_GRID
        again = n_lines >= TIMES_AGAIN * counts[row] and n_lines > counts[column]
        is_named = again and _is_id(row) and is_heading(column)
        if not (is_grid or is_named) or lines.select(row, column).n_unique() < n_lines:
            continue
        others = [name for name, n in counts.items() if n > 1 and name not in (row, column)]
        others = [name for name in others if not _WHEN.search(name)]
        others = [
            name
            for name in others
            if lines.select(row, name).n_unique() > counts[row]
            and lines.select(column, name).n_unique() > counts[column]
        ]
        values = [name for name in others if counts[name] <= MOST_LEVELS]
        if len(others) > MOST_OTHERS or len(values) > 1 or not (values or is_named):
            continue
        if not values:
            return LongForm(row, column)
        cells = sorted({str(cell) for cell in lines[values[0]].drop_nulls().to_list()})
        known = all(words.code(cell) != WRONG for cell in cells)
        form = LongForm(row, column, values[0], () if known else tuple(cells))
        if known or form.code_book is not None or not is_named:
            return form
        return LongForm(row, column)
    return None


def _has_empty(cells: pl.Series) -> bool:
    """Whether texts among the cells are empty; polars does not compare numbers with a text."""
    import polars as pl

    return cells.dtype == pl.String and bool((cells == "").any())


def _is_id(name: str) -> bool:
    from boolweave.encoding.choosing import is_id_name

    return is_heading(name) or is_id_name(name)


def _pairs(keys: list[str]) -> Iterator[tuple[str, str]]:
    """Pairs of columns: those of known publications, then those whose first name says who.

    Other identifiers follow, and then the rest.
    """
    by_name = {name.lower(): name for name in keys}
    for row, column, _ in CODE_BOOKS:
        if row in by_name and column in by_name:
            yield by_name[row], by_name[column]
    ordered = sorted(keys, key=lambda name: (not _WHO.search(name), not _is_id(name)))
    yield from ((row, column) for row in ordered for column in keys if row != column)
