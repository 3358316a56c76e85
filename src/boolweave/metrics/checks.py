"""Checks of the arguments of measures, which are converted to arrays of the same shape."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boolweave.model.products import as_bits
from boolweave.runtime.types import Array


def same_shape(
    first: ArrayLike, second: ArrayLike, first_name: str, second_name: str
) -> tuple[Array, Array]:
    """Both as arrays; raise unless they have the same shape."""
    a, b = np.asarray(first), np.asarray(second)
    if a.shape != b.shape:
        raise ValueError(
            f"{first_name} and {second_name} must have the same shape, got {a.shape} and {b.shape}"
        )
    return a, b


def known_entries(
    truth: ArrayLike, estimate: ArrayLike, truth_name: str, estimate_name: str
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Both as flat bits, restricted to entries whose truth is known: not NaN, None or masked."""
    a, b = same_shape(truth, estimate, truth_name, estimate_name)
    if a.dtype.kind == "O":
        a = a.astype(np.float64)  # None becomes NaN
    known = ~np.ma.getmaskarray(np.ma.asanyarray(truth))
    if a.dtype.kind == "f":
        known &= ~np.isnan(a)
    return as_bits(a[known], truth_name, None), as_bits(b[known], estimate_name, None)


def bits_and_probabilities(
    y: ArrayLike, p: ArrayLike
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """`y` as bits and `p` as probabilities, both flat; raise if they are not."""
    bits, probability = bits_and_numbers(y, p)
    wrong = ~((probability >= 0) & (probability <= 1))
    if wrong.any():
        raise ValueError(
            f"p must hold probabilities between 0 and 1, got {probability[wrong][0]}; "
            "turn log-odds into probabilities first"
        )
    return bits, probability


def bits_and_scores(y: ArrayLike, p: ArrayLike) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """`y` as bits with at least one 1, and `p` as numbers without NaN, both flat, or raise."""
    bits, score = bits_and_numbers(y, p)
    if np.isnan(score).any():
        raise ValueError(
            f"p must hold scores, got nan at entry {int(np.argmax(np.isnan(score)))}; "
            "pass a number for every entry"
        )
    if not bits.any():
        raise ValueError(
            "y must hold at least one 1, got none; without it there is nothing to find"
        )
    return bits, score


def bits_and_numbers(y: ArrayLike, p: ArrayLike) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """`y` as bits and `p` as floats, both flat, with at least one entry, or raise."""
    truth, given = same_shape(y, p, "y", "p")
    numbers = given.astype(np.float64).ravel()
    if truth.size == 0:
        raise ValueError("y and p must hold at least one entry, got none")
    return as_bits(truth, "y", None).ravel().astype(bool), numbers
