"""Warnings that point to the code of the user."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

# The packages between a warning and the user: this one, and those that call its methods for it.
_BETWEEN = ("boolweave", "contextlib", "sklearn")


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning at the line of the user's code that called the package.

    Parameters
    ----------
    message : str
    category : type
    """
    frame: FrameType | None = sys._getframe(1)
    level = 2  # that of the function that calls this one
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in _BETWEEN:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
