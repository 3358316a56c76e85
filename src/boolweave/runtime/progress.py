"""Progress of a run on a terminal; nothing anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Told after each iteration: its number, the residual, the log-posterior.
OnIteration = Callable[[int, float, float], None]

# Told after each round of a search: its number, the least error so far, the number of factors.
OnRound = Callable[[int, float, int], None]


@contextmanager
def progress(total: int | None, verbose: int | bool = True) -> Iterator[OnIteration | None]:
    """Show iteration, residual, log-posterior and time left on standard error.

    Parameters
    ----------
    total : int or None
        Most iterations of one start; None where it is not known.
    verbose : int or bool
        Nothing is shown where this is 0, nor where standard error is not a terminal.

    Yields
    ------
    callback or None
        To be called with iteration, residual and log-posterior; None where nothing is shown. An
        iteration that is not after the last one begins a new start.

    Examples
    --------
    >>> with progress(100, verbose=0) as on_iteration:
    ...     print(on_iteration)
    None
    """
    if not verbose or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("iteration {task.completed:.0f}"),
        TextColumn("residual {task.fields[residual]:.2g}"),
        TextColumn("log-posterior {task.fields[score]:,.1f}"),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=5)
    with bar:
        task = bar.add_task("start 1", total=total, residual=float("inf"), score=float("nan"))
        start, last = 1, 0

        def on_iteration(iteration: int, residual: float, score: float) -> None:
            nonlocal start, last
            if iteration <= last:
                start += 1
                bar.reset(task, description=f"start {start}")
            last = iteration
            bar.update(task, completed=iteration, residual=residual, score=score)

        yield on_iteration


@contextmanager
def search_progress(max_time: float | None, verbose: int | bool = True) -> Iterator[OnRound | None]:
    """Show the round of a search, its least error so far and the time on standard error.

    Parameters
    ----------
    max_time : float or None
        Seconds after which the search ends.
    verbose : int or bool
        Nothing is shown where this is 0, nor where standard error is not a terminal.

    Yields
    ------
    callback or None
        To be called with the number of a round, the least error so far and the number of factors;
        None where nothing is shown.

    Examples
    --------
    >>> with search_progress(10.0, verbose=0) as on_round:
    ...     print(on_round)
    None
    """
    if not verbose or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    limit = "" if max_time is None else f"of {max_time:g} s"
    columns = (
        SpinnerColumn(),
        TextColumn("round {task.completed:.0f}"),
        TextColumn("{task.fields[factors]} factors, least error {task.fields[error]:,.10g}"),
        TimeElapsedColumn(),
        TextColumn(limit),
    )
    line = Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=5)
    with line:
        task = line.add_task("", total=None, error=float("inf"), factors=0)

        def on_round(number: int, error: float, factors: int) -> None:
            line.update(task, completed=number, error=error, factors=factors)

        yield on_round


@contextmanager
def task_progress(verbose: int | bool = True) -> Iterator[Callable[[str], None]]:
    """Show what is being done, and for how long, on standard error.

    Parameters
    ----------
    verbose : int or bool
        Nothing is shown where this is 0, nor where standard error is not a terminal.

    Yields
    ------
    callback
        To be called with a line of text about what was done last.

    Examples
    --------
    >>> with task_progress(verbose=0) as say:
    ...     say("nothing is shown")
    """
    if not verbose or not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    line = Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=5)
    with line:
        task = line.add_task("starting", total=None)
        yield lambda text: line.update(task, description=text)
