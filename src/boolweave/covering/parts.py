"""Ones that are covered together, and a lower bound of the number of factors that they need."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from boolweave.covering import cliques
from boolweave.covering.kernels.counting import count_neighbours
from boolweave.covering.kernels.independence import (
    N_WORDS,
    nothing_chosen,
    search_independent,
    take,
)
from boolweave.covering.kernels.reducing import Allowed, Ones
from boolweave.covering.matrix import CELLS_AT_ONCE, packed_at
from boolweave.search.kernels.bits import pack, sizes_of, unpack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.covering.kernels.reducing import Indices
    from boolweave.covering.matrix import Merged
    from boolweave.search.kernels.bits import Words

# Maximum number of words that are read to count neighbours; each takes a nanosecond or less.
COUNTING_WORK = 1e10

# The search for ones of which no two can share a factor: the work after which it ends, the work
# without improvement after which it ends, at most and per one, in units of a few nanoseconds, and
# the number of steps between two looks at them.
INDEPENDENT_WORK = 2e9
INDEPENDENT_IDLE = 3e8
IDLE_PER_ONE = 1e5
STEPS_AT_ONCE = 200


@dataclass(frozen=True, eq=False)
class Part:
    """Some ones of a merged matrix, within the m rows and n columns that have any of them.

    Attributes
    ----------
    shape : (int, int)
        The numbers of rows and columns, m and n.
    allowed : Allowed
        The ones and the missing entries of the matrix within these rows and columns.
    ones : Ones
        The positions of the ones within them, in the given order.
    """

    shape: tuple[int, int]
    allowed: Allowed
    ones: Ones

    @classmethod
    def of(cls, merged: Merged, ones: Ones) -> Part:
        """Take some ones of a merged matrix."""
        rows, at_row = np.unique(ones.rows, return_inverse=True)
        columns, at_column = np.unique(ones.columns, return_inverse=True)
        allowed = Allowed(
            _within(merged.allowed.rows[rows], merged.shape[1], columns),
            _within(merged.allowed.columns[columns], merged.shape[0], rows),
        )
        start = np.searchsorted(at_row, np.arange(len(rows) + 1)).astype(np.int64)
        own = Ones(start, at_row.astype(np.int64), at_column.astype(np.int64))
        return cls((len(rows), len(columns)), allowed, own)

    @cached_property
    def active(self) -> Words:
        """The ones, packed: (m, words of n)."""
        return packed_at(self.ones.rows, self.ones.columns, self.shape)

    @cached_property
    def in_row(self) -> Indices:
        """The number of allowed entries of each row, (m,)."""
        return sizes_of(self.allowed.rows)

    @cached_property
    def in_column(self) -> Indices:
        """The number of allowed entries of each column, (n,)."""
        return sizes_of(self.allowed.columns)

    def neighbours(self) -> NDArray[np.bool_]:
        """A mask (E, E) of the pairs of ones that can share a factor."""
        allowed = unpack(self.allowed.rows, self.shape[1]).astype(bool)
        return cliques.neighbours_of(allowed, self.ones.rows, self.ones.columns)

    def count(self) -> Indices:
        """The number of neighbours of each one (E,), or an upper bound if counting takes long."""
        ones = self.ones
        count = self.in_row[ones.rows] * self.in_column[ones.columns]
        words = np.minimum(self.in_row[ones.rows], self.active.shape[1])
        if (self.in_column[ones.columns] * words).sum() < COUNTING_WORK:
            count_neighbours(self.allowed, self.active, ones, count)
        return count


def independent_ones(
    part: Part, count: Indices, most: int, random: np.random.Generator
) -> int:  # fmt: skip
    """Find many ones of which no two can share a factor, and return their number.

    `count` (E,) is the number of neighbours of each one, and `most` is a number that cannot be
    exceeded.
    """
    chosen = nothing_chosen(len(part.ones.rows))
    state = random.integers(1, 2**63, size=1, dtype=np.uint64)
    take(part.allowed, part.active, part.ones, chosen, np.argsort(count, kind="stable"))
    idle = min(INDEPENDENT_IDLE, IDLE_PER_ONE * len(count))
    best, improved_at = int(chosen.n[0]), 0
    while best < most and chosen.n[N_WORDS] < min(INDEPENDENT_WORK, improved_at + idle):
        now = search_independent(
            part.allowed, part.active, part.ones, chosen, state, STEPS_AT_ONCE
        )  # fmt: skip
        if now > best:
            best, improved_at = now, int(chosen.n[N_WORDS])
    return best


def _within(words: Words, n: int, chosen: Indices) -> Words:
    """Some of the n columns of packed lines: (L, words of n) to (L, words of the chosen ones)."""
    step = max(1, CELLS_AT_ONCE // n)
    parts = [
        pack(unpack(words[start : start + step], n)[:, chosen])
        for start in range(0, len(words), step)
    ]
    return np.concatenate(parts)
