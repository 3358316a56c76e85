"""What cells say: spellings of ones, zeros and nothing, and ratings; in files and tables alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from boolweave.runtime.types import Array

Above: TypeAlias = str | float  # "mean", "median" or a number: ratings above it are ones
# What a user says that ones, zeros or missing cells look like: one of them, or several.
Said: TypeAlias = object | Iterable[object] | None

MISSING = 2  # the code of a missing cell, beside 0 and 1
WRONG = 9  # the code of a cell that is none of the three

ONES = ("1", "true", "yes", "y", "1.0")
ZEROS = ("0", "false", "no", "n", "0.0")
BLANKS = ("", "na", "n/a", "nan", "null", "none", "?")
_USUAL = {**dict.fromkeys(ONES, 1), **dict.fromkeys(ZEROS, 0), **dict.fromkeys(BLANKS, MISSING)}

# Numbers that questionnaires use for "no answer", "does not apply" or "refused"; the largest one
# must be among the first.
_NO_ANSWER = (9, 99, 999, 9999, 88, 77, 98), (7, 8, 97, 997, 998)
_NEGATIVE = (-1, -2, -7, -8, -9, -97, -98, -99, -999, -9999)
# A code stands apart from the answers: it is so much larger than the largest of them.
_APART = 1.5


def is_missing(cell: object) -> bool:
    """Whether a Python object stands for nothing: None, NaN, NaT or the NA of pandas."""
    return (
        cell is None
        or type(cell).__name__ in ("NAType", "NaTType")
        or (isinstance(cell, Real) and cell != cell)
    )


def key_of(cell: object) -> str:
    """A cell as it is looked up: no blanks around it, small letters, one spelling of a number."""
    text = str(cell).strip().lower()
    if text and (text[0].isdigit() or text[0] in "+-."):
        try:
            number = float(text)
        except ValueError:
            return text
        return f"{number:.15g}" if number else "0"
    return text


def listed(said: Said) -> tuple[str, ...]:
    """The keys of what a user said: one cell, or several."""
    if said is None:
        return ()
    if isinstance(said, str | bytes) or not isinstance(said, Iterable):
        said = [said]
    return tuple(dict.fromkeys(key_of(cell) for cell in said))


@dataclass(frozen=True)
class Words:
    """What a one, a zero and a missing cell look like, beside the usual spellings.

    The usual ones are 1, true, yes, y; 0, false, no, n; and an empty cell, NA, N/A, NaN, null, none
    and ?, in small or capital letters. What is said here comes first, so that ``ones=[2]``,
    ``zeros=[1]`` turns the usual meaning of 1 round. Numbers are compared by value.

    Attributes
    ----------
    ones, zeros, missing : tuple of str
        Keys, as `key_of` makes them; use `Words.of` for cells as they stand in a table.
    """

    ones: tuple[str, ...] = ()
    zeros: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @classmethod
    def of(cls, ones: Said = None, zeros: Said = None, missing: Said = None) -> Words:
        """Take what a user says; the same cell cannot mean two things."""
        words = cls(listed(ones), listed(zeros), listed(missing))
        told = [
            (key, name) for name in ("ones", "zeros", "missing") for key in getattr(words, name)
        ]
        meaning: dict[str, str] = {}
        for key, name in told:
            if key in meaning:
                raise ValueError(
                    f"{key!r} is said to be among `{meaning[key]}` and among `{name}`; a cell "
                    "means one thing, so leave it out of one of them"
                )
            meaning[key] = name
        return words

    @cached_property
    def said(self) -> dict[str, int]:
        """The code of each cell that the user spoke of, by its key."""
        return {
            **dict.fromkeys(self.ones, 1),
            **dict.fromkeys(self.zeros, 0),
            **dict.fromkeys(self.missing, MISSING),
        }

    def code(self, cell: object) -> int:
        """0, 1, MISSING or, for any other cell, WRONG."""
        if is_missing(cell):
            return MISSING
        text = cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)
        usual = _USUAL.get(text.strip().lower(), WRONG)
        return self.said.get(key_of(text), usual) if self.said else usual

    def is_blank(self, cell: object) -> bool:
        """Whether a cell stands for nothing."""
        return self.code(cell) == MISSING

    def number_codes(self, numbers: Array) -> NDArray[np.uint8]:
        """The codes of an array of numbers or Booleans, in its shape; NaN is missing."""
        codes = np.full(numbers.shape, WRONG, dtype=np.uint8)
        for key, code in ({"0": 0, "1": 1} | self.said).items():
            try:
                codes[numbers == float(key)] = code
            except ValueError:  # a word
                continue
        if numbers.dtype.kind == "f":
            codes[np.isnan(numbers)] = MISSING
        return codes


USUAL = Words()


def no_answer_codes(numbers: Iterable[float]) -> list[int]:
    """The numbers of a column that look like codes for "no answer": 9, 99 or −1 apart from others.

    All numbers must be whole, and those that remain must be one at least.

    Examples
    --------
    >>> no_answer_codes([1, 2, 3, 4, 5, 99]), no_answer_codes([0, 1, 9]), no_answer_codes([7, 8, 9])
    ([99], [9], [])
    """
    distinct = sorted({float(number) for number in numbers if number == number})
    if len(distinct) < 2 or not all(number.is_integer() for number in distinct):
        return []
    top = len(distinct)
    if distinct[-1] in _NO_ANSWER[0]:
        while top > 1 and any(distinct[top - 1] in codes for codes in _NO_ANSWER):
            top -= 1
    high = distinct[top:]
    while high and max(distinct[top - 1], 0) * _APART > high[0]:  # not apart: one more answer
        top, high = top + 1, high[1:]
    low = [number for number in distinct[:top] if number < 0]
    answers = distinct[len(low) : top]
    apart = bool(low and answers) and answers[0] - low[-1] >= 2 and answers[-1] != -low[0]
    if not apart or not all(number in _NEGATIVE for number in low):  # such as −2, −1, 0 or −1, 1
        low = []
    return [int(number) for number in [*low, *high]]


# ---------------------------------------------------------------- ratings


def threshold(ratings: NDArray[np.float64], above: Above) -> float:
    """The number above which a rating is a one."""
    known = ratings[~np.isnan(ratings)]
    if not len(known):
        return 0.0
    if above == "mean":
        return float(known.mean())
    if above == "median":
        return float(np.median(known))
    return float(above)


def codes_above(ratings: NDArray[np.float64], above: Above) -> NDArray[np.uint8]:
    """1 where a rating is above the threshold, 0 where not, MISSING where there is none."""
    codes = (ratings > threshold(ratings, above)).astype(np.uint8)
    codes[np.isnan(ratings)] = MISSING
    return codes
