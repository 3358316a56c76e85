"""Threads over blocks of rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sized
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from boolweave.runtime.checks import is_whole

# Minimum number of rows that a thread processes at a time, and maximum number of pieces of rows.
LEAST_ROWS = 4096
MOST_PIECES = 16

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def effective_jobs(n_jobs: int | None) -> int:
    """Return the number of threads: None is 1, −1 all cores, −2 all but one, and so on.

    Only the cores that this process may use count.
    """
    if n_jobs is None:
        return 1
    # Far more threads than any machine has cores; memory is allocated for each.
    most_threads = 4096
    if not is_whole(n_jobs) or n_jobs == 0 or n_jobs > most_threads:
        raise ValueError(
            "n_jobs must be a whole number other than 0: 1 for one thread, -1 for all cores, and "
            f"at most {most_threads:,}, got {n_jobs!r}"
        )
    n_jobs = int(n_jobs)  # an integer of NumPy overflows where memory is counted
    return n_jobs if n_jobs > 0 else max(1, _n_cores() + 1 + n_jobs)


def _n_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # fewer than the machine has, as in a batch job
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads(n_jobs: int | None) -> AbstractContextManager[ThreadPoolExecutor | None]:
    """A context with a pool of threads, or with None if one thread is enough."""
    return pool_of(n_jobs) or nullcontext()


def run_all(
    pool: ThreadPoolExecutor | None, function: Callable[[Item], Answer], items: Iterable[Item]
) -> Iterable[Answer]:
    """`function` of every item in order, in the threads of the pool if there is one.

    A single item is not worth another thread. A thread takes the next item when it is free: that
    takes less time than a task for every item. After an exception no further item is taken.
    """
    if pool is None or (isinstance(items, Sized) and len(items) == 1):
        return map(function, items)
    numbered = list(enumerate(items))
    left, answers = iter(numbered), dict[int, Answer]()

    def one_thread() -> None:
        try:
            for number, item in left:
                answers[number] = function(item)
        finally:
            list(left)

    running = [pool.submit(one_thread) for _ in range(min(n_threads(pool), len(numbered)))]
    try:
        for thread in running:
            thread.result()
    finally:
        list(left)
    return [answers[number] for number in range(len(numbered))]


def pieces(n: int, pool: ThreadPoolExecutor | None) -> list[slice]:
    """Divide n rows or columns into pieces for the threads of a pool; one piece without a pool."""
    return cut(n, 1, max(LEAST_ROWS, -(-n // MOST_PIECES)) if pool else n)


def cut(n: int, width: int, most: int) -> list[slice]:
    """Divide n lines of `width` cells into pieces of at most `most` cells, or of single lines."""
    size = max(1, most // max(1, width))
    return [slice(first, min(n, first + size)) for first in range(0, n, size)]


def balanced_runs(indptr: NDArray[np.int64], n: int) -> list[slice]:
    """Divide rows into at most n runs with about equally many entries.

    The entries of row m are those from indptr[m] to indptr[m + 1].
    """
    n_entries = int(indptr[-1])
    cuts = np.searchsorted(indptr, np.arange(1, n) * (n_entries / n)).tolist()
    return [slice(a, b) for a, b in pairwise([0, *cuts, len(indptr) - 1]) if b > a]


def n_threads(pool: ThreadPoolExecutor | None) -> int:
    """The number of threads of a pool."""
    return 1 if pool is None else pool._max_workers


def pool_of(n_jobs: int | None) -> ThreadPoolExecutor | None:
    """A pool of threads that lives as long as its object, or None if one thread is enough."""
    n = effective_jobs(n_jobs)
    return ThreadPoolExecutor(n, thread_name_prefix="boolweave") if n > 1 else None
