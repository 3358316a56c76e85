"""Cells of a matrix: their meaning, their codes, and the errors about invalid cells.

Spellings of ones, zeros and missing values, and ratings, are read alike in files and in tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from numbers import Complex, Real
from typing import TYPE_CHECKING, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from boolweave.runtime.types import Array


CELLS = "cells must be 0, 1 or missing (NaN)"

Place = Callable[[int], str]  # position of a cell in its array -> "row 3, column 'age'"

Above: TypeAlias = str | float  # "mean", "median" or a number: ratings above it are ones
# Cells that mean one, zero or missing according to the user: one cell or several.
GivenCells: TypeAlias = object | Iterable[object] | None

MISSING = 2  # the code of a missing cell, in addition to 0 and 1
WRONG = 9  # the code of a cell that is none of the three

ONES = ("1", "true", "yes", "y", "1.0")
ZEROS = ("0", "false", "no", "n", "0.0")
BLANKS = ("", "na", "n/a", "nan", "null", "none", "?")
_USUAL = {**dict.fromkeys(ONES, 1), **dict.fromkeys(ZEROS, 0), **dict.fromkeys(BLANKS, MISSING)}
USUAL_SPELLINGS = tuple(_USUAL)

# The word for zero that belongs to a word for one.
_OPPOSITES = {"yes": "no", "y": "n", "true": "false", "1": "0", "1.0": "0.0"}

# Numbers that questionnaires use for "no answer", "does not apply" or "refused"; the largest number
# of a column must be among the first of them.
_NO_ANSWER = (9, 99, 999, 9999, 88, 77, 98), (7, 8, 97, 997, 998)
_NEGATIVE = (-1, -2, -7, -8, -9, -97, -98, -99, -999, -9999)
# The same in words.
_NO_ANSWER_WORDS = re.compile(
    r"(i )?(would )?(rather|prefer) not (to )?(say|answer|disclose|specify).*"
    r"|no (answer|response|data)|refused?( to answer)?|declined?( to (answer|state|say))?"
    r"|(i )?(do not|don't|dont) know\.?|not (applicable|asked|answered|available|stated)\b.*"
    r"|dk(/na)?|n\.? ?/? ?a\.?|.*\(n/?a\)|k\. ?a\.?"
    r"|keine angaben?|wei(ß|ss) (ich )?nicht|skipped|unknown|missing|[-–—.]+|#n/a|ns/nr"
    r"|#(null|value|ref|div/0|name|num)[!?]"
)
# A code is clearly separate from the answers: this many times as large as the largest of them.
_APART = 1.5


def is_missing(cell: object) -> bool:
    """Whether a Python object stands for a missing value: None, NaN, NaT or the NA of pandas."""
    return (
        cell is None
        or type(cell).__name__ in ("NAType", "NaTType")
        or (isinstance(cell, Real) and cell != cell)
    )


def key_of(cell: object) -> str:
    """The lookup key of a cell: no surrounding blanks, lower case, one spelling of each number."""
    text = str(cell).strip().lower()
    if text and (text[0].isdigit() or text[0] in "+-."):
        try:
            number = float(text)
        except ValueError:
            return text
        return f"{number:.15g}" if number else "0"
    return text


def listed(cells: GivenCells) -> tuple[str, ...]:
    """The different keys of one cell or several."""
    if cells is None:
        return ()
    if isinstance(cells, str | bytes) or not isinstance(cells, Iterable):
        cells = [cells]
    return tuple(dict.fromkeys(key_of(cell) for cell in cells))


@dataclass(frozen=True)
class CellWords:
    """Spellings of ones, zeros and missing cells, in addition to the usual ones.

    The usual spellings are 1, true, yes, y; 0, false, no, n; and an empty cell, NA, N/A, NaN, null,
    none and ?, in lower or upper case. The spellings given here take precedence, so that
    ``ones=[2]``, ``zeros=[1]`` changes the usual meaning of 1. Numbers are compared by value.

    Attributes
    ----------
    ones, zeros, missing : tuple of str
        Keys, as `key_of` makes them; use `CellWords.of` for cells as they are written in a table.
    found : set of str
        The keys among them that occurred in the cells that were coded so far.
    """

    ones: tuple[str, ...] = ()
    zeros: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    found: set[str] = field(default_factory=set, compare=False, repr=False)

    @classmethod
    def of(
        cls, ones: GivenCells = None, zeros: GivenCells = None, missing: GivenCells = None
    ) -> CellWords:
        """Make the spellings of a user; the same cell cannot mean two things."""
        words = cls(listed(ones), listed(zeros), listed(missing))
        meaning: dict[str, str] = {}
        for name in ("ones", "zeros", "missing"):
            for key in getattr(words, name):
                if key in meaning:
                    raise ValueError(
                        f"{key!r} is both in `{meaning[key]}` and in `{name}`, but a cell can have "
                        "only one meaning; remove it from one of them"
                    )
                meaning[key] = name
        return words

    @cached_property
    def codes(self) -> dict[str, int]:
        """The code of each cell for which the user gave a meaning, by its key."""
        return {
            **dict.fromkeys(self.ones, 1),
            **dict.fromkeys(self.zeros, 0),
            **dict.fromkeys(self.missing, MISSING),
        }

    def code(self, cell: object) -> int:
        """The code of a cell: 0, 1, MISSING or, for any other cell, WRONG."""
        if is_missing(cell):
            return MISSING
        text = cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)
        if self.codes and (key := key_of(text)) in self.codes:
            self.found.add(key)
            return self.codes[key]
        return _USUAL.get(key_of(text), WRONG)

    def unused(self) -> list[tuple[str, str]]:
        """The words that did not occur: "ones", "zeros" or "missing", and the key."""
        return [
            (name, key)
            for name in ("ones", "zeros", "missing")
            for key in getattr(self, name)
            if key not in self.found
        ]

    def is_blank(self, cell: object) -> bool:
        """Whether a cell stands for a missing value."""
        return self.code(cell) == MISSING

    def number_codes(self, numbers: Array) -> NDArray[np.uint8]:
        """The codes of an array of numbers or Booleans, in its shape; NaN is missing."""
        codes = np.full(numbers.shape, WRONG, dtype=np.uint8)
        for key, code in ({"0": 0, "1": 1} | self.codes).items():
            try:
                equal = numbers == float(key)
            except ValueError:  # a word
                continue
            codes[equal] = code
            if key in self.codes and equal.any():
                self.found.add(key)
        if numbers.dtype.kind == "f":
            codes[np.isnan(numbers)] = MISSING
        return codes


USUAL = CellWords()


def counterpart(code: int, word: str) -> str | None:
    """The word for the other value, given a word for a one or zero, in the same case, if known.

    Examples
    --------
    >>> from boolweave.data.cells import counterpart
    >>> counterpart(1, "Yes"), counterpart(0, "FALSE"), counterpart(1, "ja")
    ('No', 'TRUE', None)
    """
    words = _OPPOSITES if code == 1 else {zero: one for one, zero in _OPPOSITES.items()}
    other = words.get(word.lower())
    if other is None:
        return None
    return other.upper() if word.isupper() else other.title() if word[:1].isupper() else other


def no_answer_codes(numbers: Iterable[float]) -> list[int]:
    """The numbers of a column that look like codes for "no answer", such as 9, 99 or −1.

    All numbers must be whole numbers, and at least one number must remain.

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
    while high and max(distinct[top - 1], 0) * _APART > high[0]:  # not separate: one more answer
        top, high = top + 1, high[1:]
    low = [number for number in distinct[:top] if number < 0]
    answers = distinct[len(low) : top]
    apart = bool(low and answers) and answers[0] - low[-1] >= 2 and answers[-1] != -low[0]
    if not apart or not all(number in _NEGATIVE for number in low):  # such as −2, −1, 0 or −1, 1
        low = []
    return [int(number) for number in [*low, *high]]


def is_no_answer(text: str) -> bool:
    """Whether a cell says in words that there is no answer.

    Examples
    --------
    >>> [is_no_answer(text) for text in ("Prefer not to answer", "k.A.", "-", "No", "Not at all")]
    [True, True, True, False, False]
    """
    plain = " ".join(text.lower().replace("\u2019", "'").split())
    return _NO_ANSWER_WORDS.fullmatch(plain) is not None


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
    """1 where a rating is above the threshold, 0 where it is not, MISSING where there is none."""
    codes = (ratings > threshold(ratings, above)).astype(np.uint8)
    codes[np.isnan(ratings)] = MISSING
    return codes


def check_option(name: str, value: object, options: Sequence[str]) -> None:
    """Raise unless `value` is one of the `options`."""
    if not isinstance(value, str) or value not in options:
        expected = " or ".join(f'"{option}"' for option in options)
        raise ValueError(f"{name} must be {expected}, but got {value!r}")


# ---------------------------------------------------------------- cells


def codes_of(
    cells: Array, masked: NDArray[np.bool_] | None, place: Place, words: CellWords = USUAL
) -> Array:
    """Code cells as 0, 1 or MISSING, one byte each, in the shape of `cells`.

    The result may share the memory of `cells`. Masked cells are ignored. Texts have the spellings
    of `boolweave.data.cells`, and `words` gives the meaning of others.
    """
    kind = cells.dtype.kind
    if kind in "OSUT":
        return _codes_of_objects(cells, masked, place, words)
    if words.codes and kind in "biuf":
        return _codes_of_numbers(cells, masked, place, words)
    if kind == "c":
        _refuse_complex(cells.dtype)
    if kind not in "biuf":
        return _refuse_dtype(cells, place)
    missing = masked
    if kind == "f":
        missing = np.isnan(cells) if masked is None else np.isnan(cells) | masked
    if kind == "b":
        codes = cells.view(np.uint8)
    else:
        wrong = (cells != 0) & (cells != 1)
        if missing is not None:
            wrong &= ~missing
        if wrong.any():
            position = int(np.argmax(wrong))
            _refuse_value(cells.flat[position].item(), place(position))
        codes = (cells == 1).view(np.uint8) if kind == "f" else cells.astype(np.uint8, copy=False)
    if missing is not None and missing.any():
        codes = np.where(missing, np.uint8(MISSING), codes)
    return codes


def _codes_of_numbers(
    cells: Array, masked: NDArray[np.bool_] | None, place: Place, words: CellWords
) -> NDArray[np.uint8]:
    """Code numbers for some of which the user gave a meaning."""
    codes = words.number_codes(cells)
    if masked is not None:
        codes[masked] = MISSING
    if (codes == WRONG).any():
        position = int(np.argmax(codes == WRONG))
        _refuse_value(cells.flat[position].item(), place(position))
    return codes


def _codes_of_objects(
    cells: Array, masked: NDArray[np.bool_] | None, place: Place, words: CellWords
) -> NDArray[np.uint8]:
    codes = np.full(cells.size, MISSING, dtype=np.uint8)
    hidden = np.zeros(cells.size, dtype=bool) if masked is None else masked.ravel()
    known: dict[str | bytes, int] = {}
    for position, cell in enumerate(cells.ravel().tolist()):
        if hidden[position] or is_missing(cell):
            continue
        if isinstance(cell, str | bytes):
            if cell not in known:
                known[cell] = words.code(cell)
            if known[cell] == WRONG:
                _refuse_text(cell, place(position))
            codes[position] = known[cell]
            continue
        if words.codes and (code := words.code(cell)) != WRONG:
            codes[position] = code
            continue
        if isinstance(cell, Complex) and not isinstance(cell, Real):
            _refuse_complex(type(cell).__name__)
        if not isinstance(cell, Real | Decimal | np.bool_):
            # Scikit-learn's checks expect the text "argument must be a string or a number", which
            # is that of float().
            raise TypeError(
                f"{CELLS}: argument must be a string or a number, but {place(position)} holds "
                f"an object of type {type(cell).__name__}; convert the array with `.astype(float)`"
            )
        if cell == 0 or cell == 1:
            codes[position] = cell == 1
        elif cell == cell:  # a Decimal may be NaN
            _refuse_value(cell, place(position))
    return codes.reshape(cells.shape)


def _refuse_value(value: object, place: str) -> NoReturn:
    raise ValueError(
        f"{CELLS}, but {place} holds {value!r}; turn the data into 0 and 1 with "
        "boolweave.TableEncoder, or define which cells are `ones`, `zeros` and `missing` in "
        "Observations.from_data"
    )


def _refuse_text(value: object, place: str) -> NoReturn:
    raise ValueError(
        f"{CELLS}, yes or no, but {place} holds the text {value!r}; turn categories into 0 and 1 "
        "with boolweave.TableEncoder, or define which cells are `ones`, `zeros` and `missing` in "
        "Observations.from_data"
    )


def _refuse_complex(kind: object) -> NoReturn:
    raise ValueError(f"Complex data not supported: {CELLS}, but got {kind}; pass `data.real`")


def _refuse_dtype(cells: Array, place: Place) -> NDArray[np.uint8]:
    """Raise an error for dates and the like; an array without cells is accepted."""
    if cells.size == 0:
        return np.empty(cells.shape, dtype=np.uint8)
    raise TypeError(
        f"{CELLS}, but {place(0)} holds {cells.flat[0]!s} of type {cells.dtype}; "
        "pass numbers or Booleans"
    )
