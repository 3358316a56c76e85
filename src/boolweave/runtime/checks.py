"""Checks of numbers that a user passes."""

from __future__ import annotations

import numpy as np

# NumPy and compiled code count in machine integers, which end here.
LARGEST = 2**63 - 1


def is_whole(value: object) -> bool:
    """Whether a value is a whole number of Python or NumPy; True and 3.0 are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_count(name: str, value: object, least: int = 1, remedy: str = "") -> int:
    """Return a parameter as an int; raise ValueError unless it is a whole number >= `least`.

    It must also be below 2^63.

    Examples
    --------
    >>> from boolweave.runtime.checks import check_count
    >>> check_count("n", 3)
    3
    >>> check_count("n", True)
    Traceback (most recent call last):
    ValueError: n must be a whole number >= 1, got True
    """
    if not is_whole(value) or value < least:  # type: ignore[operator]
        raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}{remedy}")
    if value > LARGEST:  # type: ignore[operator]
        raise ValueError(f"{name} must be a whole number below 2^63, got {value}{remedy}")
    return int(value)  # type: ignore[call-overload, no-any-return]
