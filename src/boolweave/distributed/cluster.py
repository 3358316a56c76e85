"""The workers of a Dask cluster: the distribution of rows among them, and calls to them.

Each worker has an actor, `Rows`, that keeps a range of consecutive rows. The client sends it one
short message in each iteration. Only the changes of the column sums, which are integers, are added
up over all workers, in a tree, so that all workers continue with the same columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boolweave.data.observations import Observations
from boolweave.distributed.worker import Rows, on_wire
from boolweave.runtime.cluster import ClusterLost, NoAnswer, Watch, WorkerLost, fetched
from boolweave.runtime.types import Array

Cuts = list[tuple[int, int]]
Part = tuple[Any, ...]  # the entries of a range of rows, in a form that `Rows` accepts


class Cluster:
    """The workers of a Dask client and the rows that they keep, for one set of observations.

    Parameters
    ----------
    watch : Watch
        Calls to the workers of a client.
    """

    def __init__(self, watch: Watch) -> None:
        self.watch, self.client = watch, watch.client
        self.workers: list[str] = []
        self.actors: list[Any] = []
        self._futures: list[Any] = []  # they keep the actors if this is not the default client
        self.peers: list[tuple[str, Any]] = []  # address and key of each actor
        self.direct = True  # whether calls go directly to the workers, not through the scheduler
        self.runs: list[slice] = []  # the rows of each worker
        self.blocks: list[slice] = []  # the blocks of each worker
        self.cuts: Cuts | None = None
        self.unused: list[tuple[str, int]] = []  # what the workers no longer need to keep
        self.keys = itertools.count()

    # ------------------------------------------------------------ distribution of rows

    def distribute(
        self, indptr: NDArray[np.int64], cuts: Cuts, entries_of: Callable[[list[slice]], list[Part]]
    ) -> bool:
        """Give every worker a range of blocks, all with about the same number of entries.

        Return False if the workers already have these ranges. `entries_of` returns the entries of
        ranges of rows, or futures of them.
        """
        if self.cuts == cuts:
            return False
        workers = self.watch.usable()
        per_block = np.array([indptr[stop] - indptr[start] for start, stop in cuts])
        self.blocks = _share_out(per_block, min(len(workers), len(cuts)))
        self.workers = workers[: len(self.blocks)]
        self.runs = [slice(cuts[b.start][0], cuts[b.stop - 1][1]) for b in self.blocks]
        n_rows = len(indptr) - 1
        futures = []
        parts = zip(self.runs, self.blocks, self.workers, entries_of(self.runs), strict=True)
        for run, share, worker, part in parts:
            blocks_of_run = [(start - run.start, stop - run.start) for start, stop in cuts[share]]
            if isinstance(part[2], np.ndarray):  # it is in this process
                (part,) = self.watch.results(partial(self._send, part, worker), needed=[worker])
            futures.append(
                self.client.submit(
                    Rows,
                    part,
                    blocks_of_run,
                    run.start,
                    n_rows,
                    actor=True,
                    workers=[worker],
                    allow_other_workers=False,
                    pure=False,
                )
            )
        self._futures = futures
        fetch = [partial(fetched, future) for future in futures]
        self.actors = self.watch.results(*fetch, needed=self.workers)
        self.peers = [(actor._address, actor.key) for actor in self.actors]
        self._connect()
        self.cuts = cuts
        return True

    def _connect(self) -> None:
        """Tell the workers about each other, and find out whether they can be reached directly."""
        arguments = [(rank, self.peers) for rank in range(len(self.peers))]
        self.direct = True
        try:
            self.watch.raw_results(*self._calls("connect", arguments), needed=self.workers)
        except NoAnswer:
            self.direct = False
            self.call_each("connect", arguments)

    async def _send(self, part: tuple[Any, ...], worker: str) -> Any:
        """Send data to a worker, directly if possible, otherwise through the scheduler."""
        send = partial(self.client.scatter, [part], workers=[worker], asynchronous=True)
        try:
            return (await send(direct=True))[0]
        except OSError:
            return (await send())[0]

    # ------------------------------------------------------------ during a run

    def clean_up(self) -> None:
        """Let the workers delete what is no longer needed, as they do in every step."""
        if self.actors:
            self.call_all("forget", self.take_unused())

    def take_unused(self) -> list[tuple[str, int]]:
        """Return the list of what the workers no longer need to keep, and empty it."""
        taken = self.unused[: len(self.unused)]
        del self.unused[: len(taken)]
        return taken

    def sum_over_rows(
        self, function: Callable[[Observations, Array], Array], by_row: Array
    ) -> Array:
        """Add up a function of the entries of some rows, and of an array (M, …), over all rows."""
        parts = [(function, by_row[run]) for run in self.runs]
        total: Array = np.sum(self.call_each("apply", parts), axis=0)
        return total

    # ------------------------------------------------------------ calls to the workers

    def call_all(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every actor with the same arguments."""
        return self.call_each(method, [arguments] * len(self.actors))

    def call_each(self, method: str, arguments: Sequence[Any]) -> list[Any]:
        """Call a method of every actor, each with its own arguments."""
        try:
            return self.watch.results(*self._calls(method, arguments), needed=self.workers)
        except ClusterLost:
            raise
        except Exception:
            for actor in self.actors:  # end the waiting of those that may wait for a lost one
                with suppress(RuntimeError):
                    actor.abandon()  # without waiting for an answer
            raise

    def _calls(self, method: str, arguments: Sequence[Any]) -> list[Any]:
        return [partial(self._call, n, method, a) for n, a in enumerate(arguments)]

    async def _call(self, n: int, method: str, arguments: Sequence[Any]) -> Any:
        address, key = self.peers[n]
        message = {"function": method, "actor": key, "args": on_wire(arguments), "kwargs": {}}
        try:
            if self.direct:
                answer = await self.client.rpc(address).actor_execute(**message)
            else:
                message["op"] = "actor_execute"
                answer = await self.client.scheduler.proxy(worker=address, msg=message)
        except OSError as error:
            raise NoAnswer(f"{address} does not answer: {error!r}") from error
        except KeyError:  # another worker at the same address, without our actor
            raise WorkerLost(f"lost {address}, which was started again") from None
        if answer["status"] != "OK":
            raise answer["exception"]
        return answer["result"]


def _share_out(n_entries: NDArray[np.int64], n_workers: int) -> list[slice]:
    """The range of blocks of each worker, none empty, with about the same number of entries."""
    middles = np.cumsum(n_entries) - n_entries / 2
    total = max(int(n_entries.sum()), 1)
    cuts = np.searchsorted(middles, np.arange(1, n_workers) * (total / n_workers)).tolist()
    for n in range(len(cuts)):  # at least one block each
        cuts[n] = min(
            max(cuts[n], (cuts[n - 1] if n else 0) + 1), len(n_entries) - n_workers + n + 1
        )
    return [slice(a, b) for a, b in itertools.pairwise([0, *cuts, len(n_entries)])]
