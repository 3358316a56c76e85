"""The workers of a Dask cluster: the distribution of rows among them, and calls to them.

Each worker has an actor, `Rows`, that keeps a range of consecutive rows. The client sends it one
short message in each iteration. Only the changes of the column sums, which are integers, are added
up over all workers, in a tree, so that all workers continue with the same columns.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.distributed.worker import NoAnswer, Rows, on_wire, shield, unshield

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.data.observations import Observations
    from boolweave.runtime.types import Array

    Cuts = list[tuple[int, int]]
    Part = tuple[Any, ...]  # the entries of a range of rows, in a form that `Rows` accepts

# Seconds after which the scheduler certainly knows that a worker with a broken connection is lost,
# and between two queries of the scheduler while there is no answer.
TIMEOUT = 20.0
POLL_INTERVAL = 2.0


class WorkerLost(RuntimeError):
    """A worker is lost, together with the messages that it kept."""


class Cluster:
    """The workers of a Dask client and the rows that they keep, for one set of observations.

    Parameters
    ----------
    client : distributed.Client
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self.workers: list[str] = []
        self.actors: list[Any] = []
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
        found = self._found()
        per_block = np.array([indptr[stop] - indptr[start] for start, stop in cuts])
        self.blocks = _share_out(per_block, min(len(found), len(cuts)))
        self.workers = found[: len(self.blocks)]
        self.runs = [slice(cuts[b.start][0], cuts[b.stop - 1][1]) for b in self.blocks]
        n_rows = len(indptr) - 1
        with self._watched():
            futures = []
            parts = zip(self.runs, self.blocks, self.workers, entries_of(self.runs), strict=True)
            for run, share, worker, part in parts:
                own = [(start - run.start, stop - run.start) for start, stop in cuts[share]]
                if isinstance(part[1], np.ndarray):  # it is in this process
                    part = self._send(part, worker)
                futures.append(
                    self.client.submit(
                        Rows, part, own, run.start, n_rows, actor=True, workers=[worker],
                        allow_other_workers=False, pure=False,
                    )
                )  # fmt: skip
            self.actors = [future.result() for future in futures]
        self.peers = [(actor._address, actor.key) for actor in self.actors]
        self._connect()
        self.cuts = cuts
        return True

    def _found(self) -> list[str]:
        """The present workers; if the last one was lost, wait in case another one starts."""
        with suppress(TimeoutError):
            self.client.wait_for_workers(1, timeout=TIMEOUT)
        found = sorted(self.client.scheduler_info(n_workers=-1)["workers"])
        if not found:
            raise RuntimeError(
                "the Dask client has no workers; start some, or use one machine with n_jobs"
            )
        return found

    def _connect(self) -> None:
        """Tell the workers about each other, and find out whether they can be reached directly."""
        arguments = [(rank, self.peers) for rank in range(len(self.peers))]
        self.direct = True
        try:
            self.client.sync(self._call_actors, "connect", arguments)
        except NoAnswer:
            self.direct = False
            self.call_each("connect", arguments)

    def _send(self, part: tuple[Any, ...], worker: str) -> Any:
        """Send data to a worker, directly if possible, otherwise through the scheduler."""
        try:
            return self.client.scatter([part], workers=[worker], direct=True)[0]
        except OSError:
            return self.client.scatter([part], workers=[worker])[0]

    # ------------------------------------------------------------ during a run

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Keep the workers of a local cluster alive after the Ctrl-C that ends a run.

        The terminal sends it to them, too, but they hold the results of the run.
        """
        from distributed import LocalCluster

        if not isinstance(self.client.cluster, LocalCluster):
            yield
            return
        self.client.run(shield, on_error="ignore")
        try:
            yield
        finally:
            self.client.run(unshield, on_error="ignore")

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
        with self._watched():
            return self.client.sync(self._call_actors, method, arguments)

    async def _call_actors(self, method: str, arguments: Sequence[Any]) -> list[Any]:
        """Return the answers of the actors; an error of one of them is raised at once."""
        calls = [asyncio.ensure_future(self._call(n, method, a)) for n, a in enumerate(arguments)]
        waiting: set[asyncio.Future[Any]] = set(calls)
        try:
            while waiting:
                done, waiting = await asyncio.wait(
                    waiting, timeout=POLL_INTERVAL, return_when=asyncio.FIRST_EXCEPTION
                )
                for call in done:
                    call.result()
                if waiting and not done:
                    info = await self.client.scheduler.identity(n_workers=-1)
                    if lost := [worker for worker in self.workers if worker not in info["workers"]]:
                        raise WorkerLost(f"lost {', '.join(lost)}")
        finally:
            for call in waiting:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
        return [call.result() for call in calls]

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

    def _lost(self) -> list[str]:
        left = self.client.scheduler_info(n_workers=-1)["workers"]
        return [worker for worker in self.workers if worker not in left]

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Raise `WorkerLost` instead of an error that is due to a lost worker."""
        try:
            yield
        except WorkerLost:
            self._abandon()
            raise
        except Exception as error:
            until = time.monotonic() + TIMEOUT
            while not (lost := self._lost()):
                if not _connection_broke(error) or time.monotonic() > until:
                    self._abandon()
                    raise
                time.sleep(0.1)
            self._abandon()
            raise WorkerLost(f"lost {', '.join(lost)}") from error

    def _abandon(self) -> None:
        """End the waiting of all workers that may wait for a lost one."""
        lost = self._lost()
        for worker, actor in zip(self.workers, self.actors, strict=False):
            if worker not in lost:
                actor.abandon()  # without waiting for an answer


def _connection_broke(error: BaseException) -> bool:
    """Whether an error may mean that a worker is lost, and is not an error of its own work."""
    from distributed.comm import CommClosedError
    from distributed.scheduler import KilledWorker

    if isinstance(error, NoAnswer | CommClosedError | ConnectionError | TimeoutError):
        return True
    if isinstance(error, KilledWorker | CancelledError):
        return True
    # The errors of Dask for a lost actor, and for a connection that timed out.
    actor_lost = str(error).startswith("Worker holding Actor was lost")
    return actor_lost or (type(error) is OSError and error.errno is None)


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
