"""Cells of a matrix: their codes, and the words for what may not stand in one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from numbers import Complex, Real
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from boolweave.data.words import MISSING as MISSING
from boolweave.data.words import USUAL, WRONG, Words, is_missing
from boolweave.runtime.types import Array

CELLS = "cells must be 0, 1 or missing (NaN)"

Place = Callable[[int], str]  # position of a cell in its array -> "row 3, column 'age'"


def check_option(name: str, value: object, options: Sequence[str]) -> None:
    """Raise unless `value` is one of the `options`."""
    if value not in options:
        expected = " or ".join(f'"{option}"' for option in options)
        raise ValueError(f"{name} must be {expected}, but got {value!r}")


# ---------------------------------------------------------------- cells


def codes_of(
    cells: Array, masked: NDArray[np.bool_] | None, place: Place, words: Words = USUAL
) -> Array:
    """Code cells as 0, 1 or MISSING, one byte each, in the shape of `cells`.

    The result may share the memory of `cells`. Masked cells are not looked at. Texts have the
    spellings of `boolweave.data.words`, and `words` says what others mean.
    """
    kind = cells.dtype.kind
    if kind in "OSUT":
        return _codes_of_objects(cells, masked, place, words)
    if words.said and kind in "biuf":
        return _codes_in_words(cells, masked, place, words)
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


def _codes_in_words(
    cells: Array, masked: NDArray[np.bool_] | None, place: Place, words: Words
) -> NDArray[np.uint8]:
    """Code numbers some of which the user has spoken of."""
    codes = words.number_codes(cells)
    if masked is not None:
        codes[masked] = MISSING
    if (codes == WRONG).any():
        position = int(np.argmax(codes == WRONG))
        _refuse_value(cells.flat[position].item(), place(position))
    return codes


def _codes_of_objects(
    cells: Array, masked: NDArray[np.bool_] | None, place: Place, words: Words
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
        if words.said and (code := words.code(cell)) != WRONG:
            codes[position] = code
            continue
        if isinstance(cell, Complex) and not isinstance(cell, Real):
            _refuse_complex(type(cell).__name__)
        if not isinstance(cell, Real | Decimal | np.bool_):
            # The words "argument must be a string or a number" are those of float() itself.
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
        "boolweave.TableEncoder, or say which cells are `ones`, `zeros` and `missing` in "
        "Observations.from_data"
    )


def _refuse_text(value: object, place: str) -> NoReturn:
    raise ValueError(
        f"{CELLS}, yes or no, but {place} holds the text {value!r}; turn categories into 0 and 1 "
        "with boolweave.TableEncoder, or say which cells are `ones`, `zeros` and `missing` in "
        "Observations.from_data"
    )


def _refuse_complex(kind: object) -> NoReturn:
    raise ValueError(f"Complex data not supported: {CELLS}, but got {kind}; pass `data.real`")


def _refuse_dtype(cells: Array, place: Place) -> NDArray[np.uint8]:
    """Raise for dates and the like; an array without a cell offends nobody."""
    if cells.size == 0:
        return np.empty(cells.shape, dtype=np.uint8)
    raise TypeError(
        f"{CELLS}, but {place(0)} holds {cells.flat[0]!s} of type {cells.dtype}; "
        "pass numbers or Booleans"
    )
