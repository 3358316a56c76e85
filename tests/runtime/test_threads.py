"""Threads that share a list of items."""

import threading

import numpy as np
import pytest

from boolweave.runtime.threads import effective_jobs, n_threads, pool_of, run_all


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_answers_are_in_order(n_jobs):
    pool = pool_of(n_jobs)
    assert n_threads(pool) == n_jobs
    for items in ([], [5], range(20), iter([3, 1, 2])):
        given = list(items)
        assert list(run_all(pool, lambda item: 2 * item, iter(given))) == [2 * i for i in given]


def test_all_threads_work():
    both = threading.Barrier(2, timeout=60)  # which only two threads at once can pass
    assert len(list(run_all(pool_of(2), lambda item: both.wait(), range(4)))) == 4


def test_an_exception_ends_the_run():
    taken = []

    def fail(item):
        taken.append(item)
        raise ValueError(f"item {item}")

    with pytest.raises(ValueError, match="item"):
        run_all(pool_of(2), fail, range(1000))
    assert len(taken) <= 2


def test_a_number_of_threads_is_an_int_of_python():
    """One of NumPy overflows when bytes are counted with it."""
    assert type(effective_jobs(np.int8(3))) is int
