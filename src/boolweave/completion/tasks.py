"""Running the tasks of a fit: in threads of this process, or on the workers of a Dask cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from boolweave.runtime.threads import threads


class OutOfTime(KeyboardInterrupt):
    """The time limit of a fit was reached; it ends as after Ctrl-C, with its result so far."""


class Runner:
    """Maps a function over tasks, in order, until the time limit is reached.

    Parameters
    ----------
    n_jobs : int, optional
        Number of threads.
    client : dask.distributed.Client, optional
        A client whose cluster runs the tasks instead of threads.
    """

    def __init__(self, n_jobs: int | None = None, client: Any = None) -> None:
        self.n_jobs, self.client = n_jobs, client
        self.end: float | None = None
        self._kept: dict[int, tuple[Any, Any]] = {}  # tables that workers have, by identity

    def limit(self, seconds: float | None) -> None:
        """Set the time limit of all tasks from now on."""
        self.end = None if seconds is None else time.monotonic() + seconds

    def check(self) -> None:
        """Raise OutOfTime if the time limit was reached."""
        if self.end is not None and time.monotonic() >= self.end:
            raise OutOfTime

    def __call__(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
        """Yield the result of each task; a task that has begun is not interrupted."""
        if self.client is not None:
            yield from self._on_client(function, tasks)
            return
        with threads(self.n_jobs) as pool:
            if pool is None:
                for task in tasks:
                    yield function(task)
                    self.check()
                return
            futures = [pool.submit(function, task) for task in tasks]
            try:
                for future in futures:
                    yield future.result()
                    self.check()
            finally:
                for future in futures:
                    future.cancel()

    def _on_client(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
        futures = []
        for task in tasks:
            table = self._scattered(task.table)
            futures.append(
                self.client.submit(
                    run_with_table, function, table, replace(task, table=None), pure=False
                )
            )
        try:
            for future in futures:
                yield future.result()
                self.check()
        finally:
            self.client.cancel(futures)

    def _scattered(self, table: Any) -> Any:
        """A table on all workers; it is kept alive, so that no other table gets its identity."""
        if id(table) not in self._kept:
            self._kept[id(table)] = (table, self.client.scatter(table, broadcast=True))
        return self._kept[id(table)][1]


def run_with_table(function: Callable[[Any], Any], table: Any, task: Any) -> Any:
    """Run a task whose table was sent separately."""
    return function(replace(task, table=table))
