"""The workers of a Dask cluster: who keeps which rows, and how to talk to them.

A worker has an actor, `Rows`, that keeps a run of consecutive rows. For each iteration it is sent
one short message; only the changes of the column sums, integers, are added up over all workers, in
a tree, and every worker goes on with the same columns.
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
    Part = tuple[Any, ...]  # the entries of a run of rows, as `Rows` takes them

# Seconds until the scheduler is sure to know that a worker is gone whose connection broke, and
# between two looks at the scheduler while an answer does not come.
PATIENCE = 20.0
GLANCE = 2.0


class WorkerLost(RuntimeError):
    """A worker is gone, and with it the messages that it kept."""


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
        self.direct = True  # calls go to the workers, not by way of the scheduler
        self.runs: list[slice] = []  # the rows of each worker
        self.blocks: list[slice] = []  # and which of all blocks these are
        self.cuts: Cuts | None = None
        self.gone: list[tuple[str, int]] = []  # what the workers need not keep any longer
        self.keys = itertools.count()

    # ------------------------------------------------------------ dealing

    def deal(
        self, indptr: NDArray[np.int64], cuts: Cuts, entries_of: Callable[[list[slice]], list[Part]]
    ) -> bool:
        """Give every worker a run of blocks, all with about equally many entries.

        Returns False if they have these runs already. `entries_of` gives the entries of runs of
        rows, or futures of them.
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
            dealt = zip(self.runs, self.blocks, self.workers, entries_of(self.runs), strict=True)
            for run, share, worker, part in dealt:
                own = [(start - run.start, stop - run.start) for start, stop in cuts[share]]
                if isinstance(part[1], np.ndarray):  # it is here
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
        """The workers there are; if the last one was lost, another may be about to start."""
        with suppress(TimeoutError):
            self.client.wait_for_workers(1, timeout=PATIENCE)
        found = sorted(self.client.scheduler_info(n_workers=-1)["workers"])
        if not found:
            raise RuntimeError("the Dask client has no workers; start some, or use n_jobs")
        return found

    def _connect(self) -> None:
        """Tell the workers of each other; find out whether they can be reached from here."""
        arguments = [(rank, self.peers) for rank in range(len(self.peers))]
        self.direct = True
        try:
            self.client.sync(self._ask, "connect", arguments)
        except NoAnswer:
            self.direct = False
            self.ask_each("connect", arguments)

    def _send(self, part: tuple[Any, ...], worker: str) -> Any:
        """Bring something to a worker, not by way of the scheduler if it can be reached."""
        try:
            return self.client.scatter([part], workers=[worker], direct=True)[0]
        except OSError:
            return self.client.scatter([part], workers=[worker])[0]

    # ------------------------------------------------------------ during a run

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Keep the workers of a local cluster from ending with the Ctrl-C that ends a run.

        The terminal sends it to them, too, but they have what the run has found.
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

    def tidy(self) -> None:
        """Let the workers forget what nobody needs any longer, as they do in every step."""
        if self.actors:
            self.ask_all("forget", self.forgotten())

    def forgotten(self) -> list[tuple[str, int]]:
        """Take the list of what the workers need not keep any longer."""
        taken = self.gone[: len(self.gone)]
        del self.gone[: len(taken)]
        return taken

    def sum_over_rows(
        self, function: Callable[[Observations, Array], Array], by_row: Array
    ) -> Array:
        """Add up a function of the entries of some rows, and of an array (M, …), over all rows."""
        parts = [(function, by_row[run]) for run in self.runs]
        total: Array = np.sum(self.ask_each("apply", parts), axis=0)
        return total

    # ------------------------------------------------------------ talking to the workers

    def ask_all(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every actor with the same arguments."""
        return self.ask_each(method, [arguments] * len(self.actors))

    def ask_each(self, method: str, arguments: Sequence[Any]) -> list[Any]:
        """Call a method of every actor, each with arguments of its own."""
        with self._watched():
            return self.client.sync(self._ask, method, arguments)

    async def _ask(self, method: str, arguments: Sequence[Any]) -> list[Any]:
        """What the actors answer; an error of one of them is raised at once."""
        calls = [asyncio.ensure_future(self._call(n, method, a)) for n, a in enumerate(arguments)]
        waiting: set[asyncio.Future[Any]] = set(calls)
        try:
            while waiting:
                done, waiting = await asyncio.wait(
                    waiting, timeout=GLANCE, return_when=asyncio.FIRST_EXCEPTION
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
        except KeyError:  # another worker at the same address, which knows nothing of us
            raise WorkerLost(f"lost {address}, which was started again") from None
        if answer["status"] != "OK":
            raise answer["exception"]
        return answer["result"]

    def _lost(self) -> list[str]:
        left = self.client.scheduler_info(n_workers=-1)["workers"]
        return [worker for worker in self.workers if worker not in left]

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Turn whatever fails because a worker is gone into `WorkerLost`."""
        try:
            yield
        except WorkerLost:
            self._abandon()
            raise
        except Exception as error:
            until = time.monotonic() + PATIENCE
            while not (lost := self._lost()):
                if not _connection_broke(error) or time.monotonic() > until:
                    self._abandon()
                    raise
                time.sleep(0.1)
            self._abandon()
            raise WorkerLost(f"lost {', '.join(lost)}") from error

    def _abandon(self) -> None:
        """Those who wait for a lost worker wait in vain."""
        lost = self._lost()
        for worker, actor in zip(self.workers, self.actors, strict=False):
            if worker not in lost:
                actor.abandon()  # no answer is waited for


def _connection_broke(error: BaseException) -> bool:
    """Whether an error may mean that a worker is gone, and is not one of what the worker does."""
    from distributed.comm import CommClosedError
    from distributed.scheduler import KilledWorker

    if isinstance(error, NoAnswer | CommClosedError | ConnectionError | TimeoutError):
        return True
    if isinstance(error, KilledWorker | CancelledError):
        return True
    # Dask's own words where an actor is asked for, or a connection is not made in time.
    told = str(error).startswith("Worker holding Actor was lost")
    return told or (type(error) is OSError and error.errno is None)


def _share_out(n_entries: NDArray[np.int64], n_workers: int) -> list[slice]:
    """Which blocks each worker gets: runs of them, none empty, with about equally many entries."""
    middles = np.cumsum(n_entries) - n_entries / 2
    total = max(int(n_entries.sum()), 1)
    cuts = np.searchsorted(middles, np.arange(1, n_workers) * (total / n_workers)).tolist()
    for n in range(len(cuts)):  # at least one block each
        cuts[n] = min(
            max(cuts[n], (cuts[n - 1] if n else 0) + 1), len(n_entries) - n_workers + n + 1
        )
    return [slice(a, b) for a, b in itertools.pairwise([0, *cuts, len(n_entries)])]
