"""Numbers, times and long texts in words, and the words for rows and columns."""

from __future__ import annotations

import time
from dataclasses import dataclass

# Seconds, and the fraction of the work, after which the remaining time can be estimated: the first
# seconds may have been spent on compiling.
SOONEST = 2.0
LEAST_SHARE = 0.001


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

    @property
    def row(self) -> str:
        """The noun for one row: a regular plural without its s."""
        return self.rows.removesuffix("s")

    @property
    def column(self) -> str:
        """The noun for one column."""
        return self.columns.removesuffix("s")


# Words that fit every table.
NEUTRAL = Words()


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """A number of things; the plural has an s unless another one is given.

    Examples
    --------
    >>> from boolweave.runtime.words import counted
    >>> counted(1, "row"), counted(2000, "entry", "entries")
    ('1 row', '2,000 entries')
    """
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def shortened(text: str, most: int = 600) -> str:
    """A text of at most `most` characters; a longer one keeps its beginning and its end.

    By default, it is an error message that takes a few lines of a terminal.

    Examples
    --------
    >>> from boolweave.runtime.words import shortened
    >>> shortened("How old are you? 18 to 29", 12)
    'How ol…to 29'
    """
    return text if len(text) <= most else f"{text[: most // 2]}…{text[1 - most // 2 :]}"


def time_left(began: float, share: float, bound: str) -> str:
    """The time left in words, once it can be estimated; `began` is a time of the monotonic clock.

    `bound` says how certain that is.

    Examples
    --------
    >>> import time
    >>> from boolweave.runtime.words import time_left
    >>> time_left(time.monotonic() - 30, 0.25, "about ")
    'about 1:30 left'
    """
    seconds = time.monotonic() - began
    if share < LEAST_SHARE or seconds < SOONEST:
        return ""
    left = round(seconds * (1 - min(share, 1)) / share)
    hours, rest = divmod(left, 3600)
    clock = f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"
    return f"{bound}{clock} left"
