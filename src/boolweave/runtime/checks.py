"""Checks of numbers that a user passes."""

from __future__ import annotations

from contextlib import suppress
from numbers import Real
from typing import Any

import numpy as np

# NumPy and compiled code count in machine integers, which end here.
LARGEST = 2**63 - 1


def is_whole(value: object) -> bool:
    """Whether a value is a whole number of Python or NumPy; True and 3.0 are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether a value is a real number of Python or NumPy; True is none."""
    return isinstance(value, Real) and not isinstance(value, bool)


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


def check_seconds(max_time: Any) -> float | None:
    """Return a time limit as a float; raise ValueError unless it is positive and finite, or None.

    Examples
    --------
    >>> from boolweave.runtime.checks import check_seconds
    >>> check_seconds(2)
    2.0
    """
    if max_time is None:
        return None
    with suppress(OverflowError):  # a whole number beyond all floats
        if is_number(max_time) and 0 < (seconds := float(max_time)) < np.inf:
            return seconds
    raise ValueError(
        f"max_time must be a positive number of seconds, got {max_time!r}; None sets no limit"
    )


def check_verbose(verbose: object) -> int:
    """Return the verbosity; raise ValueError unless it is a Boolean or a whole number >= 0."""
    if isinstance(verbose, bool | np.bool_):
        return int(verbose)
    return check_count("verbose", verbose, 0, "; 0 shows no progress, and 1 does")


def generator_of(random_state: Any) -> np.random.Generator:
    """NumPy's generator of a random state; raise ValueError unless it is one of NumPy's."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ValueError(
            "random_state must be None, a whole number >= 0 or a Generator of NumPy, got "
            f"{random_state!r}"
        ) from None


def seed_of(random_state: object) -> int:
    """Draw a seed below 2^31; raise ValueError unless `random_state` is one of scikit-learn's."""
    from sklearn.utils import check_random_state

    try:
        return int(check_random_state(random_state).randint(2**31))
    except (ValueError, TypeError):
        raise ValueError(
            "random_state must be None, a whole number from 0 to 2^32 - 1 or a RandomState of "
            f"NumPy, got {random_state!r}"
        ) from None
