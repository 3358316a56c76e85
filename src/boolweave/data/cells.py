"""Cells of a matrix: their codes, and the words for what may not stand in one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from numbers import Complex, Real
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from boolweave.runtime.types import Array

MISSING = 2  # the code of a missing cell, beside 0 and 1
CELLS = "cells must be 0, 1 or missing (NaN)"

Place = Callable[[int], str]  # position of a cell in its array -> "row 3, column 'age'"


def check_option(name: str, value: object, options: Sequence[str]) -> None:
    """Raise unless `value` is one of the `options`."""
    if value not in options:
        expected = " or ".join(f'"{option}"' for option in options)
        raise ValueError(f"{name} must be {expected}, but got {value!r}")


def is_missing(cell: object) -> bool:
    """Whether a Python object stands for nothing: None, NaN or the NA of pandas."""
    return (
        cell is None or type(cell).__name__ == "NAType" or (isinstance(cell, Real) and cell != cell)
    )


# ---------------------------------------------------------------- cells


def codes_of(cells: Array, masked: NDArray[np.bool_] | None, place: Place) -> Array:
    """Code cells as 0, 1 or MISSING, one byte each, in the shape of `cells`.

    The result may share the memory of `cells`. Masked cells are not looked at.
    """
    kind = cells.dtype.kind
    if kind == "O":
        return _codes_of_objects(cells, masked, place)
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


def _codes_of_objects(
    cells: Array, masked: NDArray[np.bool_] | None, place: Place
) -> NDArray[np.uint8]:
    codes = np.full(cells.size, MISSING, dtype=np.uint8)
    hidden = np.zeros(cells.size, dtype=bool) if masked is None else masked.ravel()
    for position, cell in enumerate(cells.flat):
        if hidden[position] or is_missing(cell):
            continue
        if isinstance(cell, str | bytes):
            _refuse_text(cell, place(position))
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
        f"{CELLS}, but {place} holds {value!r}; turn the data into 0 and 1, "
        "for example with `data > 0`, and unknown cells into NaN"
    )


def _refuse_text(value: object, place: str) -> NoReturn:
    raise ValueError(
        f"{CELLS}, but {place} holds the text {value!r}; turn text into numbers, "
        'for example with `.astype(float)` or `data == "yes"`'
    )


def _refuse_complex(kind: object) -> NoReturn:
    raise ValueError(f"Complex data not supported: {CELLS}, but got {kind}; pass `data.real`")


def _refuse_dtype(cells: Array, place: Place) -> NDArray[np.uint8]:
    """Raise for text, dates and the like; an array without a cell offends nobody."""
    if cells.size == 0:
        return np.empty(cells.shape, dtype=np.uint8)
    if cells.dtype.kind == "S":
        _refuse_text(cells.flat[0].item(), place(0))
    if cells.dtype.kind in "UT":
        # NumPy writes the numbers beside a text as texts too: name the one that is no number.
        texts = cells.astype(np.str_)
        position = int(np.argmax(~np.isin(texts, ["0", "1", "0.0", "1.0", "nan"])))
        _refuse_text(str(texts.flat[position]), place(position))
    raise TypeError(
        f"{CELLS}, but {place(0)} holds {cells.flat[0]!s} of type {cells.dtype}; "
        "pass numbers or Booleans"
    )
