"""Numba's `njit`, also where compiled code cannot be kept.

Numba keeps compiled code beside the source or in the user's cache directory, and refuses to
compile at all if it can write to neither: a package installed by somebody else, a home directory
that is read-only. Then kernels are compiled anew in every process, which takes some seconds.
"""

from collections.abc import Callable
from typing import Any

import numba


def njit(*, cache: bool = False, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """As `numba.njit`, with `cache` wherever there is a place for it."""

    def compiled_when_called(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(cache=cache, **options)(function)
        except RuntimeError as error:
            if "no locator available" not in str(error):
                raise
            return numba.njit(**options)(function)

    return compiled_when_called
