"""Words for results: names, counts, percentages, and what a row has of a factor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from boolweave.runtime.types import Integers

# Number of members of a factor that its sentence names.
NAMES_IN_SENTENCE = 4


@dataclass(frozen=True)
class Words:
    """The words for a one, rows and columns in reasons.

    Attributes
    ----------
    verb : str
        The verb between a row and a column where there is a one: "has", "liked", "voted for".
    rows, columns : str
        Plural nouns for rows and columns: "users" and "films".
    """

    verb: str = "has"
    rows: str = "rows"
    columns: str = "columns"


# Words that fit every table.
NEUTRAL = Words()


def evidence(
    columns: NDArray[np.integer[Any]], observed: Integers, values: NDArray[np.uint8]
) -> tuple[NDArray[np.integer[Any]], int]:
    """The given columns in which a row has a one, and the number of those with any entry.

    `observed` are the columns of the entries of the row, and `values` the values of the entries.
    """
    with_one = columns[np.isin(columns, observed[values == 1])]
    return with_one, int(np.isin(columns, observed).sum())


def evidence_in_words(
    row: str, names: Sequence[str], n_observed: int, size: int, group: str, words: Words
) -> str:
    """Describe the evidence that a row belongs to a factor: the other columns where it has ones.

    Parameters
    ----------
    row : str
    names : sequence of str
        The other columns of the factor in which the row has ones.
    n_observed : int
        The number of other columns of the factor that were observed in the row.
    size : int
        The number of columns of the factor.
    group : str
        The name of the factor.
    words : Words

    Examples
    --------
    >>> from boolweave.recommend.words import NEUTRAL, evidence_in_words
    >>> evidence_in_words("Ann", ["tea", "milk"], 3, 4, "factor 1", NEUTRAL)
    'factor 1: Ann has 2 of its 3 other observed columns: tea, milk'
    """
    if row.isdecimal():  # a bare number would be mistaken for a count
        row = f"{words.rows.removesuffix('s')} {row}"
    others, who = f"other observed {words.columns}", f"{group}: {row}"
    if not n_observed:
        return f"{who} belongs to it, although none of its other {words.columns} was observed"
    if not names:
        return f"{who} {words.verb} none of its {others} ({n_observed:,})"
    if n_observed == 1:
        only = f"the only other observed one of its {size:,} {words.columns}"
        return f"{who} {words.verb} {names[0]}, {only}"
    listed = some_names(tuple(names))
    if len(names) == n_observed:
        many = "both" if n_observed == 2 else f"all {n_observed:,}"
        return f"{who} {words.verb} {many} of its {others}: {listed}"
    return f"{who} {words.verb} {len(names):,} of its {n_observed:,} {others}: {listed}"


def some_names(names: tuple[str, ...], n: int | None = None) -> str:
    """The first few names, and how many more there are out of n (by default, of those given)."""
    size = len(names) if n is None else n
    if size <= NAMES_IN_SENTENCE + 1:
        return ", ".join(names)
    return f"{', '.join(names[:NAMES_IN_SENTENCE])} and {size - NAMES_IN_SENTENCE} more"


def percent(chance: float) -> str:
    """A probability in words, rounded to whole percent, but never 0% or 100%.

    Examples
    --------
    >>> from boolweave.recommend import percent
    >>> percent(0.5), percent(0.9999), percent(0.0)
    ('50%', 'over 99%', 'under 1%')
    """
    if chance > 0.99:
        return "over 99%"
    return "under 1%" if chance < 0.01 else f"{chance:.0%}"
