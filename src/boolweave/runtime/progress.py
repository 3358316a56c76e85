"""Progress of a run, shown only on a terminal, its time limit, and numbers in words."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from threading import Event
from typing import Any, TypeVar

Answer = TypeVar("Answer")

# Called after each iteration with its number, the residual and the log-posterior.
OnIteration = Callable[[int, float, float], None]

# Called before each rank of a search with the rank, the best rank so far and the likely last one.
OnRank = Callable[[int, int | None, int], None]

# Called after each round of a search with its number, the smallest error so far, the number of
# factors, and the fraction of the maximum work that is done, if there is such a limit.
OnRound = Callable[[int, float, int, float | None], None]

# Called with a line of text about the current step.
Say = Callable[[str], None]

# Seconds, and the fraction of the work, after which the remaining time can be estimated: the first
# seconds may have been spent on compiling.
SOONEST = 2.0
LEAST_SHARE = 0.001

# Seconds after which a thread that waits for another looks at the time and at Ctrl-C, which not
# every system lets interrupt a wait.
LOOK_AFTER = 0.05


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """A number of things; the plural has an s unless another one is given.

    Examples
    --------
    >>> from boolweave.runtime.progress import counted
    >>> counted(1, "row"), counted(2000, "entry", "entries")
    ('1 row', '2,000 entries')
    """
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def silent(text: str) -> None:
    """Show nothing."""


def on_rank_of(on_iteration: object) -> OnRank:
    """The callback for ranks of the object that is called after iterations, if it has one."""
    found = getattr(on_iteration, "on_rank", None)
    return found if callable(found) else lambda rank, best, last: None


class Deadline:
    """A time limit of a run, after which it ends with its best answer, as after Ctrl-C.

    A run that calls the deadline after each iteration is interrupted after the first late one. A
    run that has no iterations is a function that `call` runs in a thread, or some that `wait` waits
    for; their loops look at `stop`.
    The time to compile kernels, once on each machine, does not count; it is measured in the context
    of the deadline, and only in this process.

    Attributes
    ----------
    passed : bool
        Whether the time limit ended the run, and not Ctrl-C.
    interrupted : bool
        Whether Ctrl-C ended a function that was called.
    stop : (1,) array of bool
        Is set when the function is to end.

    Examples
    --------
    >>> from boolweave.runtime.progress import Deadline
    >>> with Deadline(60.0) as deadline:
    ...     deadline(1, 0.5, -10.0)
    >>> deadline.passed
    False
    """

    def __init__(self, seconds: float | None, on_iteration: OnIteration | None = None) -> None:
        import numpy as np
        from numba.core.event import TimingListener

        from boolweave.runtime.checks import check_seconds

        self.passed = self.interrupted = False
        self.stop = np.zeros(1, dtype=np.bool_)
        self._began = time.monotonic()
        self._seconds = check_seconds(seconds)
        self._end = self._seconds  # of the present function
        self._on_iteration = on_iteration
        self._compiling = TimingListener()
        self.on_rank = on_rank_of(on_iteration)

    def __enter__(self) -> Deadline:
        from numba.core.event import register

        register("numba:compile", self._compiling)
        return self

    def __exit__(self, *error: object) -> None:
        from numba.core.event import unregister

        unregister("numba:compile", self._compiling)

    def __call__(self, iteration: int, residual: float, log_posterior: float) -> None:
        """Pass the iteration on to `on_iteration`; raise KeyboardInterrupt if the time is over."""
        if self._on_iteration is not None:
            self._on_iteration(iteration, residual, log_posterior)
        if self.left() == 0:
            self.passed = True
            raise KeyboardInterrupt

    def left(self) -> float | None:
        """The seconds until the time is over; None if there is no limit."""
        return None if self._end is None else max(0.0, self._end - self._spent())

    def _spent(self) -> float:
        compiling = self._compiling.duration if self._compiling.done else 0.0
        return time.monotonic() - self._began - compiling

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

    def begin(self, share: float = 1.0) -> None:
        """Give what follows a share of the time that is left."""
        self.stop[0] = self.interrupted
        if self._seconds is not None:
            self._end = share * self._seconds + (1 - share) * self._spent()

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
            except KeyboardInterrupt:
                self.interrupted = self.stop[0] = True


@contextmanager
def _display(verbose: int | bool, *columns: str) -> Iterator[Any]:
    """Open a progress display of rich on standard error; None if nothing is shown.

    Nothing is shown if `verbose` is 0, or if standard error is not a terminal. A column is
    "spinner", "bar", "elapsed" or a template of text.
    """
    if not verbose or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    kinds = {"spinner": SpinnerColumn, "bar": BarColumn, "elapsed": TimeElapsedColumn}
    shown = [kinds[column]() if column in kinds else TextColumn(column) for column in columns]
    console = Console(stderr=True)
    with Progress(*shown, console=console, transient=True, refresh_per_second=5) as display:
        yield display


@contextmanager
def progress(total: int | None, verbose: int | bool = True) -> Iterator[RunProgress | None]:
    """Show the progress of a run, its log-posterior and the time left on standard error.

    Parameters
    ----------
    total : int or None
        Maximum number of iterations of all starts together; None if it is not known.
    verbose : int or bool
        Nothing is shown if this is 0, or if standard error is not a terminal.

    Yields
    ------
    callback or None
        A function of iteration, residual and log-posterior; None if nothing is shown. An iteration
        whose number is not larger than the last one begins a new start. Its `on_rank` is to be
        called before each rank of a search over ranks.

    Examples
    --------
    >>> with progress(100, verbose=0) as on_iteration:
    ...     print(on_iteration)
    None
    """
    columns = (
        "{task.description}",
        "bar",
        "iteration {task.fields[iteration]}",
        "residual {task.fields[residual]:.2g}",
        "log-posterior {task.fields[score]:,.1f}",
        "elapsed",
        "{task.fields[left]}",
    )
    with _display(verbose, *columns) as display:
        yield None if display is None else RunProgress(display, total)


class RunProgress:
    """The progress of a run in a rich progress bar, over all its starts or all its ranks."""

    def __init__(self, bar: Any, total: int | None) -> None:
        self._bar, self._total, self._began = bar, total, time.monotonic()
        self._start, self._last, self._done = 1, 0, 0
        # The work of the ranks that are done, and of all ranks; None without a search over ranks.
        self._ranks: tuple[float, float] | None = None
        self._task = bar.add_task(
            "start 1", total=total, iteration=0, residual=float("inf"), score=float("nan"), left=""
        )

    def __call__(self, iteration: int, residual: float, score: float) -> None:
        """Show an iteration."""
        self._done += 1
        if iteration <= self._last:
            self._start += 1
            if self._ranks is None:
                self._bar.update(self._task, description=f"start {self._start}")
        self._last = iteration
        at: dict[str, Any] = {"iteration": iteration, "residual": residual, "score": score}
        if self._ranks is None and self._total is not None:
            self._done = min(self._done, self._total)
            left = time_left(self._began, self._done / self._total, "at most ")
            at |= {"completed": self._done, "left": left}
        self._bar.update(self._task, **at)

    def on_rank(self, rank: int, best: int | None, last: int) -> None:
        """Show which rank is tried; the time of a rank is proportional to the rank."""
        done, whole = rank * (rank - 1) / 2, last * (last + 1) / 2 + (best or 1)
        self._ranks = done, whole
        words = counted(rank, "factor")
        words += "" if best is None else f", best so far {best}"
        self._bar.update(
            self._task, description=words, total=whole, completed=done,
            left=time_left(self._began, done / whole, "about "),
        )  # fmt: skip


def time_left(began: float, share: float, how: str) -> str:
    """The time left in words, once it can be estimated; `began` is a time of the monotonic clock.

    Examples
    --------
    >>> import time
    >>> from boolweave.runtime.progress import time_left
    >>> time_left(time.monotonic() - 30, 0.25, "about ")
    'about 1:30 left'
    """
    seconds = time.monotonic() - began
    if share < LEAST_SHARE or seconds < SOONEST:
        return ""
    left = round(seconds * (1 - min(share, 1)) / share)
    hours, rest = divmod(left, 3600)
    clock = f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"
    return f"{how}{clock} left"


@contextmanager
def search_progress(max_time: float | None, verbose: int | bool = True) -> Iterator[OnRound | None]:
    """Show the round of a search, its smallest error so far and the time left, as `progress` does.

    `max_time` is the number of seconds after which the search ends.
    """
    last = "{task.fields[left]}" if max_time is None else f"of {max_time:g} s"
    began = time.monotonic()
    with _display(verbose, "spinner", "{task.description}", "elapsed", last) as display:
        if display is None:
            yield None
            return
        task = display.add_task("starting", total=None, left="")

        def on_round(number: int, error: float, factors: int, share: float | None = None) -> None:
            many = counted(factors, "factor")
            words = f"{many}, round {number}, lowest error {error:,.10g}"
            left = time_left(began, share or 0.0, "at most ")
            display.update(task, description=words, left=left)

        yield on_round


@contextmanager
def task_progress(verbose: int | bool = True) -> Iterator[Say]:
    """Yield a function that shows a line of text about the current step, as `progress` does."""
    with _display(verbose, "spinner", "{task.description}", "elapsed") as display:
        if display is None:
            yield silent
            return
        task = display.add_task("starting", total=None)
        yield lambda text: display.update(task, description=text)
