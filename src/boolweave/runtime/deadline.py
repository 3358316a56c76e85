"""The end of a run after a given time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from boolweave.runtime.progress import on_rank_of

if TYPE_CHECKING:
    from boolweave.runtime.progress import OnIteration


class Deadline:
    """A time limit that interrupts a run, like Ctrl-C, after the first late iteration.

    The run then ends with its best answer, which exists, because an iteration has been done.

    Attributes
    ----------
    passed : bool
        Whether the time limit interrupted the run, and not Ctrl-C.

    Examples
    --------
    >>> from boolweave.runtime.deadline import Deadline
    >>> deadline = Deadline(60.0)
    >>> deadline(1, 0.5, -10.0)
    >>> deadline.passed
    False
    """

    def __init__(self, seconds: float | None, on_iteration: OnIteration | None = None) -> None:
        self.passed = False
        self._end = None if seconds is None else time.monotonic() + seconds
        self._on_iteration = on_iteration
        self.on_rank = on_rank_of(on_iteration)

    def __call__(self, iteration: int, residual: float, log_posterior: float) -> None:
        """Pass the iteration on to `on_iteration`; raise KeyboardInterrupt if the time is over."""
        if self._on_iteration is not None:
            self._on_iteration(iteration, residual, log_posterior)
        if self._end is not None and time.monotonic() >= self._end:
            self.passed = True
            raise KeyboardInterrupt
