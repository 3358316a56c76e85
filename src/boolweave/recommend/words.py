"""Words for what was found: names, counts, shares and what a row has of a factor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from boolweave.runtime.types import Integers

# How many members of a factor its sentence names.
NAMES_IN_SENTENCE = 4


@dataclass(frozen=True)
class Words:
    """What reasons call a one, rows and columns.

    Attributes
    ----------
    verb : str
        What a row does to the columns where it has ones: "has", "liked", "voted for".
    rows, columns : str
        What rows and columns are: "users" and "films".
    """

    verb: str = "has"
    rows: str = "rows"
    columns: str = "columns"


# Words that fit everything.
NEUTRAL = Words()


def evidence(
    columns: NDArray[np.integer[Any]], observed: Integers, values: NDArray[np.uint8]
) -> tuple[NDArray[np.integer[Any]], int]:
    """Those of some columns in which a row has a one, and in how many of them it has any entry.

    `observed` are the columns of the entries of the row, `values` what was seen in them.
    """
    with_one = columns[np.isin(columns, observed[values == 1])]
    return with_one, int(np.isin(columns, observed).sum())


def evidence_in_words(
    row: str, names: Sequence[str], n_observed: int, size: int, group: str, words: Words
) -> str:
    """What speaks for a row in a factor: the other columns of the factor in which it has ones.

    Parameters
    ----------
    row : str
    names : sequence of str
        Those columns.
    n_observed : int
        In how many of the other columns anything was observed in the row.
    size : int
        How many columns the factor has.
    group : str
        What the factor is called.
    words : Words

    Examples
    --------
    >>> from boolweave.recommend.words import NEUTRAL, evidence_in_words
    >>> evidence_in_words("Ann", ["tea", "milk"], 3, 4, "factor 1", NEUTRAL)
    'factor 1: Ann has tea, milk of its 3 other columns that were observed'
    """
    others, who = f"other {words.columns} that were observed", f"{group}: {row}"
    if not n_observed:
        return f"{who} belongs to it, though none of its other {words.columns} was observed"
    if not names:
        return f"{who} {words.verb} none of its {others}, of which there are {n_observed:,}"
    if n_observed == 1:
        only = f"the only other one of its {size:,} {words.columns} that was observed"
        return f"{who} {words.verb} {names[0]}, {only}"
    told = some_names(tuple(names))
    if len(names) == n_observed:
        many = "both" if n_observed == 2 else f"all {n_observed:,}"
        return f"{who} {words.verb} {many} of its {others}: {told}"
    return f"{who} {words.verb} {told} of its {n_observed:,} {others}"


def some_names(names: tuple[str, ...], n: int | None = None) -> str:
    """The first few names, and how many more there are of n, or of those given."""
    size = len(names) if n is None else n
    if size <= NAMES_IN_SENTENCE + 1:
        return ", ".join(names)
    return f"{', '.join(names[:NAMES_IN_SENTENCE])} and {size - NAMES_IN_SENTENCE} more"


def percent(chance: float) -> str:
    """A probability in words: no more digits than it deserves, and never 0% or 100%.

    Examples
    --------
    >>> from boolweave.recommend import percent
    >>> percent(0.5), percent(0.9999), percent(0.0)
    ('50%', 'over 99%', 'under 1%')
    """
    if chance > 0.99:
        return "over 99%"
    return "under 1%" if chance < 0.01 else f"{chance:.0%}"
