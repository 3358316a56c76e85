"""Running the tasks of a fit: in threads of this process, or on the workers of a Dask cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

from boolweave.runtime.cluster import Watch, WorkerLost
from boolweave.runtime.run import OutOfTime
from boolweave.runtime.threads import threads

# What is left of a time limit that was reached, because other limits must be above 0.
LEAST_LEFT = 1e-3


def check_time(end: float | None) -> None:
    """Raise OutOfTime if it is later than `end`, a time of `time.monotonic`."""
    if end is not None and time.monotonic() >= end:
        raise OutOfTime


class Runner:
    """Maps a function over tasks, in order, until the time limit is reached.

    Tasks are dataclasses with the fields `table` and `end`, the time at which they have to end.

    Parameters
    ----------
    n_jobs : int, optional
        Number of threads.
    client : dask.distributed.Client, optional
        A client whose cluster runs the tasks instead of threads.
    """

    def __init__(self, n_jobs: int | None = None, client: Any = None) -> None:
        self.n_jobs = n_jobs
        self.watch = None if client is None else Watch(client)
        self.end: float | None = None
        self._kept: dict[int, tuple[Any, Any]] = {}  # tables that workers have, by identity

    def limit(self, seconds: float | None) -> None:
        """Set the time limit of all tasks from now on."""
        self.end = None if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float | None:
        """Seconds until the time limit, a little above 0 after it; None without one."""
        return None if self.end is None else max(LEAST_LEFT, self.end - time.monotonic())

    def check(self) -> None:
        """Raise OutOfTime if the time limit was reached."""
        check_time(self.end)

    def shielded(self) -> AbstractContextManager[None]:
        """A context in which a Ctrl-C that the workers receive, too, does not end them."""
        return nullcontext() if self.watch is None else self.watch.shielded()

    def __call__(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
        """Yield the result of each task; no task begins after the time limit."""
        if self.watch is not None:
            yield from self._on_client(function, tasks)
            return
        if self.end is not None:
            tasks = [replace(task, end=self.end) for task in tasks]
        with threads(self.n_jobs) as pool:
            if pool is None:
                for task in tasks:
                    self.check()
                    yield function(task)
                return
            self.check()
            futures = [pool.submit(function, task) for task in tasks]
            try:
                for i, future in enumerate(futures):
                    if self.left == LEAST_LEFT:  # those that have begun are used
                        for other in futures[i:]:
                            other.cancel()
                    if future.cancelled():
                        raise OutOfTime
                    yield future.result()
            finally:
                for future in futures:
                    future.cancel()

    def _on_client(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
        """Yield results from the workers; tasks whose worker or table is lost are repeated."""
        assert self.watch is not None
        left = list(tasks)
        futures: list[Any] = []
        try:
            while left:
                try:
                    futures = futures or self._submitted(function, left)
                    if not futures[0].done():
                        self.check()
                    (answer,) = self.watch.gather(futures[:1])
                except WorkerLost as loss:
                    self.watch.lost(loss)
                    self._kept.clear()
                    futures = []
                    continue
                self.watch.n_lost = 0
                del left[0], futures[0]
                if answer is OutOfTime:
                    raise OutOfTime
                yield answer
        finally:
            futures.clear()  # what has not begun is cancelled

    def _submitted(self, function: Callable[[Any], Any], tasks: list[Any]) -> list[Any]:
        """Send the tables of tasks to the workers, once, and submit the tasks."""
        assert self.watch is not None
        self.watch.usable()
        end = None if self.left is None else time.time() + self.left
        for task in tasks:  # a table is kept alive, so that no other one gets its identity
            if id(task.table) not in self._kept:
                self._kept[id(task.table)] = (task.table, self.watch.send(task.table))
        submitted = []
        for task in tasks:
            table, rest = self._kept[id(task.table)][1], replace(task, table=None)
            given = run_with_table, function, table, rest, end
            submitted.append(self.watch.submit(*given, pure=False))
        return submitted


def run_with_table(function: Callable[[Any], Any], table: Any, task: Any, end: float | None) -> Any:
    """Run a task whose table was sent separately, until the clock of the machine shows `end`.

    OutOfTime is returned: an interrupt that is raised would end the worker.
    """
    own = None if end is None else time.monotonic() + end - time.time()
    try:
        return function(replace(task, table=table, end=own))
    except OutOfTime:
        return OutOfTime
