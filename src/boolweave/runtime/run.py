"""What surrounds a search: its time limit, Ctrl-C, progress, checkpoints and threads.

A `Run` is made by the call of a user and passed down to every loop of the search. `drive` is the
loop: it takes steps until there are none left, the time is over, or Ctrl-C is pressed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from threading import Event
from typing import Any, TypeVar

import numpy as np

from boolweave.runtime.checkpoint import Recorder
from boolweave.runtime.checks import check_seconds
from boolweave.runtime.words import counted, time_left

Answer = TypeVar("Answer")
State = TypeVar("State")

# Seconds after which a thread that waits for another looks at the time and at Ctrl-C, which not
# every system lets interrupt a wait.
LOOK_AFTER = 0.05


class OutOfTime(KeyboardInterrupt):
    """The time limit of a run was reached; it ends as after Ctrl-C, with its best answer."""


class Progress:
    """What a run tells about itself; by default, nobody is told."""

    def iteration(self, number: int, residual: float, log_posterior: float) -> None:
        """Tell how an iteration went; a number that is not larger begins a new start."""

    def rank(self, rank: int, best: int | None, last: int) -> None:
        """Tell the rank that is tried next, the best one so far and the likely last one."""

    def round(self, number: int, error: float, n_components: int, share: float | None) -> None:
        """Tell the lowest error after a round, and the share of the work, if that is known."""

    def say(self, text: str, share: float | None = None) -> None:
        """Tell the current step in words, and the share of the work, if that is known."""


class Display(Progress):
    """The progress of a run in a line on standard error, which is gone at the end.

    `total` is the maximum number of iterations, and `max_time` the time limit, if they are known.
    """

    def __init__(self, total: int | None = None, max_time: float | None = None) -> None:
        from rich import progress
        from rich.console import Console

        self.bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.TimeElapsedColumn(),
            progress.TextColumn("{task.fields[left]}"),
            console=Console(stderr=True),
            transient=True,
            refresh_per_second=5,
        )
        self._total, self._began = total, time.monotonic()
        self._limit = None if max_time is None else f"of {max_time:g} s"
        self._start, self._last, self._n_iterations = 1, 0, 0
        # The rank that is tried, in words, and the share of the work of the ranks before it.
        self._rank: tuple[str, float] | None = None
        self._task = self.bar.add_task("starting", total=None, left=self._limit or "")

    def iteration(self, number: int, residual: float, log_posterior: float) -> None:
        """Show an iteration."""
        self._n_iterations += 1
        self._start += number <= self._last
        self._last = number
        words, share, bound = f"start {self._start}", None, "at most "
        if self._rank is not None:
            (words, share), bound = self._rank, "about "
        elif self._total is not None:
            share = min(self._n_iterations / self._total, 1.0)
        words += f", iteration {number}, residual {residual:.2g}"
        self._show(f"{words}, log-posterior {log_posterior:,.1f}", share, bound)

    def rank(self, rank: int, best: int | None, last: int) -> None:
        """Show which rank is tried; the time of a rank is proportional to the rank."""
        share = rank * (rank - 1) / (last * (last + 1) + 2 * (best or 1))
        words = counted(rank, "factor") + ("" if best is None else f", best so far {best}")
        self._rank = words, share
        self._show(words, share, "about ")

    def round(self, number: int, error: float, n_components: int, share: float | None) -> None:
        """Show the lowest error after a round."""
        words = f"{counted(n_components, 'factor')}, round {number}"
        self._show(f"{words}, lowest error {error:,.10g}", share, "at most ")

    def say(self, text: str, share: float | None = None) -> None:
        """Show a line of text about the current step."""
        self._show(text, share, "about ")

    def _show(self, text: str, share: float | None, bound: str) -> None:
        left = self._limit or time_left(self._began, share or 0.0, bound)
        done: dict[str, Any] = {} if share is None else {"total": 1.0, "completed": share}
        self.bar.update(self._task, description=text, left=left, **done)


class Run:
    """The time limit of a search, its progress, its checkpoints and its threads.

    A search ends with its best answer when the time is over, or after Ctrl-C. One that has steps is
    driven by `drive`. One that has none is a function that `call` runs in a thread, or some that
    `wait` waits for; their loops look at `stop`. The time to compile kernels, once on each machine,
    does not count; it is measured in the context of the run, and only in this process.

    Parameters
    ----------
    max_time : float, optional
        Time limit in seconds.
    progress : Progress, optional
        It is told how the search goes.
    recorder : Recorder, optional
        It saves the state of the search; if it has a saved state, the search continues from there.
    n_jobs : int, optional
        Number of threads.
    verbose : int or bool
        Whether progress is shown on standard error, if that is a terminal.
    total : int, optional
        With `verbose`: the maximum number of iterations of all starts together, if it is known.

    Attributes
    ----------
    passed, interrupted : bool
        Whether the time limit was reached, and whether Ctrl-C was pressed.
    stop : (1,) array of bool
        Is set when the search is to end.

    Examples
    --------
    >>> from boolweave.runtime.run import Run, drive
    >>> with Run(max_time=60.0) as run:
    ...     drive(lambda numbers: bool(numbers.pop()), [0, 1, 2], run)
    True
    >>> run.passed
    False
    """

    def __init__(
        self,
        max_time: float | None = None,
        progress: Progress | None = None,
        recorder: Recorder | None = None,
        n_jobs: int | None = None,
        *,
        verbose: int | bool = 0,
        total: int | None = None,
    ) -> None:
        self.max_time, self.n_jobs = check_seconds(max_time), n_jobs
        self.progress, self.recorder = progress or Progress(), recorder or Recorder()
        self.passed = self.interrupted = False
        self.stop = np.zeros(1, dtype=np.bool_)
        self._began, self._compiling = time.monotonic(), _Compiling()
        self._end = self.max_time  # of the present part of the search
        self._shown, self._open = (verbose, total), ExitStack()

    def __enter__(self) -> Run:
        from numba.core import event

        event.Listener.register(_Compiling)
        listening = event.install_listener("numba:compile", self._compiling)  # type: ignore[arg-type]
        self._open.enter_context(listening)
        verbose, total = self._shown
        if verbose and sys.stderr.isatty():
            self.progress = display = Display(total, self.max_time)
            self._compiling.tell = display.say
            self._open.enter_context(display.bar)
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def left(self) -> float | None:
        """The seconds until the time is over; None if there is no limit."""
        return None if self._end is None else max(0.0, self._end - self._spent())

    def _spent(self) -> float:
        return time.monotonic() - self._began - self._compiling.seconds()

    def check(self) -> None:
        """Raise OutOfTime if the time is over."""
        if self.left() == 0:
            self.passed = self.stop[0] = True
            raise OutOfTime

    def begin(self, share: float = 1.0) -> None:
        """Give what follows a share of the time that is left."""
        self.stop[0] = self.interrupted
        if self.max_time is not None:
            self._end = share * self.max_time + (1 - share) * self._spent()

    def interrupt(self, reason: KeyboardInterrupt) -> None:
        """Note that the time limit or Ctrl-C ends the search."""
        self.stop[0] = True
        self.interrupted = self.interrupted or not isinstance(reason, OutOfTime)

    def call(self, function: Callable[[], Answer], share: float = 1.0) -> Answer:
        """Call a function in a thread; set `stop` when the time is over, or at Ctrl-C.

        The function gets a share of the time that is left. It ends soon after Ctrl-C was pressed
        during an earlier one.
        """
        self.begin(share)
        awaited = Event()  # Ctrl-C while the thread starts would end the program

        def begun() -> Answer:
            awaited.wait()
            return function()

        with ThreadPoolExecutor(1, "boolweave") as pool:
            try:
                running = pool.submit(begun)
                self.wait([running], awaited.set)
            finally:
                awaited.set()
            return running.result()

    def wait(self, running: Sequence[Future[Any]], begin: Callable[[], None] | None = None) -> None:
        """Wait for functions in threads; set `stop` when the time is over, or at Ctrl-C.

        Functions that wait for it may start when `begin` is called.
        """
        is_running = True
        while is_running:
            try:
                if begin is not None:
                    begin()
                if self.left() == 0:
                    self.passed = self.stop[0] = True
                is_running = bool(wait(running, timeout=LOOK_AFTER).not_done)
            except KeyboardInterrupt as reason:
                self.interrupt(reason)
        # A function that looks at the time itself may end just before the thread that waits looks.
        self.passed = self.passed or self.left() == 0


def drive(step: Callable[[State], bool], state: State, run: Run) -> bool:
    """Take steps until there is none left, the time is over, or Ctrl-C is pressed.

    A step changes the state and returns True; if there is nothing to do, it returns False. Between
    two steps, the recorder of the run may save the state. The answer is whether the steps came to
    their end.
    """
    try:
        while not run.stop[0] and step(state):
            run.check()
            run.recorder.save_if_due()
    except KeyboardInterrupt as reason:
        run.interrupt(reason)
    return not run.stop[0]


class _Compiling:
    """The time in which at least one thread compiles kernels: a listener to numba's events.

    `tell` is told what is compiled.
    """

    def __init__(self) -> None:
        self.tell: Callable[[str], None] | None = None
        self._n_open, self._since, self._done = 0, 0.0, 0.0

    def notify(self, event: Any) -> None:
        """Take note of the beginning or the end of a compilation."""
        (self.on_start if event.is_start else self.on_end)(event)

    def on_start(self, event: Any) -> None:
        if self._n_open == 0:
            self._since = time.perf_counter()
            if self.tell is not None:
                name = event.data["dispatcher"].py_func.__name__.replace("_", " ").strip()
                self.tell(f"compiling for this machine, once: {name}")
        self._n_open += 1

    def on_end(self, event: object) -> None:
        self._n_open -= 1
        if self._n_open == 0:
            self._done += time.perf_counter() - self._since

    def seconds(self) -> float:
        """The seconds so far."""
        return self._done + (time.perf_counter() - self._since if self._n_open else 0.0)
