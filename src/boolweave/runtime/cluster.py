"""Calls to a Dask cluster that end, whatever happens to its workers, its scheduler or its client.

While there is no answer, the scheduler is asked which workers are there, and when each of them sent
its last sign of life. Whoever calls repeats what was lost (`WorkerLost`) until workers were lost
too often or the cluster is gone (`ClusterLost`). All limits are settings of Dask:

- ``distributed.comm.timeouts.tcp`` (30 s): a worker that is silent for three times as long counts
  as lost;
- ``distributed.comm.timeouts.connect`` (30 s): the wait for a scheduler that does not answer; three
  times as long a wait for a new worker if the last one was lost;
- ``distributed.scheduler.allowed-failures`` (3): losses without progress between them.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import multiprocessing
import signal
import time
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from boolweave.runtime.warning import warn_user

# Seconds between two queries of the scheduler while there is no answer, and while something must
# change before the next attempt.
POLL_INTERVAL, SHORT_INTERVAL = 2.0, 0.1

# The number of such time-outs after which a silent worker counts as lost, and new workers are no
# longer awaited. One is too few for a worker that starts and imports its code on a busy machine.
PATIENCE = 3

Call = Callable[[], Awaitable[Any]]
Answer = TypeVar("Answer")


class WorkerLost(RuntimeError):
    """A worker is lost, together with what it kept."""


class ClusterLost(RuntimeError):
    """A cluster cannot be used any more."""


class NoAnswer(RuntimeError):
    """A worker does not answer; the scheduler knows whether it is lost."""


class Watch:
    """Calls to the workers of a Dask client, which are watched until they are answered.

    Parameters
    ----------
    client : distributed.Client

    Attributes
    ----------
    only : list of str
        If some workers are silent, the others, on which tasks must run; otherwise empty.
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self.only: list[str] = []
        self.n_lost = 0  # losses since the last progress
        self._scheduler = getattr(client.scheduler, "address", "?")
        # For each worker its last sign of life, by the clock of the scheduler, and the seconds
        # since then in which the scheduler could be asked; the time of the last query.
        self._silence: dict[str, tuple[float, float]] = {}
        self._asked = 0.0

    # ------------------------------------------------------------ losses

    def repeated(
        self, attempt: Callable[[], Answer], progress_after: float = float("inf")
    ) -> Answer:
        """Call a function, and again if a worker is lost meanwhile.

        An attempt that takes longer than `progress_after` seconds makes progress that is not lost.
        """
        while True:
            began = time.monotonic()
            try:
                return attempt()
            except WorkerLost as loss:
                if time.monotonic() - began > progress_after:
                    self.n_lost = 0
                self.lost(loss)

    def lost(self, loss: WorkerLost) -> None:
        """Count a loss before what was lost is repeated; raise ClusterLost if they are too many."""
        import dask

        self.n_lost += 1
        if self.n_lost > dask.config.get("distributed.scheduler.allowed-failures"):
            raise ClusterLost(
                f"{loss}; that was loss {self.n_lost} without progress in between, and the last "
                "attempt. Look for the cause in the logs of the workers, which often need more "
                "memory; a factorization with `checkpoint` makes progress in spite of losses"
            ) from loss
        warn_user(f"{loss}; the run continues with the others")

    def usable(self) -> list[str]:
        """The workers that answer; if there is none, wait in case one starts."""
        until = time.monotonic() + PATIENCE * _limit("connect")
        while not (workers := self._run(self._usable)):
            if time.monotonic() > until:
                raise ClusterLost(
                    f"the Dask scheduler at {self._scheduler} has no workers that answer; start "
                    "some, or use one machine with n_jobs"
                )
            time.sleep(SHORT_INTERVAL)
        self.only = sorted(workers) if len(workers) < len(self._silence) else []
        return sorted(workers)

    # ------------------------------------------------------------ tasks

    def send(self, data: Any) -> Any:
        """Send an object to a worker; others fetch it from there when they need it.

        If it were sent to all and one of them is frozen, the scheduler could not do that again.
        """
        workers = self.usable()
        options = {"workers": workers, "hash": False, "asynchronous": True}
        return self.results(partial(self.client.scatter, [data], **options), needed=workers)[0][0]

    def submit(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Submit a task to any of the workers."""
        workers = self.only or None
        try:
            return self.client.submit(function, *arguments, workers=workers, **options)
        except Exception as error:  # an argument was lost, or the client closed
            self._check_client()
            self._explain(error, ())
            raise

    def gather(self, futures: list[Any]) -> list[Any]:
        """Fetch the results of tasks."""
        return self.results(*(partial(fetched, future) for future in futures), needed=self.only)

    # ------------------------------------------------------------ calls

    def results(self, *calls: Call, needed: Collection[str] = ()) -> list[Any]:
        """The results of calls in the loop of the client; an error of one is raised at once.

        Raise WorkerLost if one of the needed workers is lost. If none is needed, because Dask
        repeats elsewhere what a lost worker did, only silent workers count.
        """
        try:
            return self.raw_results(*calls, needed=needed)
        except (WorkerLost, ClusterLost):
            raise
        except Exception as error:
            self._explain(error, needed)
            raise

    def raw_results(self, *calls: Call, needed: Collection[str] = ()) -> list[Any]:
        """As `results`, but errors of connections are raised as they are."""
        answers: list[Any] = self._run(partial(self._all, calls, needed))
        return answers

    def _run(self, call: Call) -> Any:
        """Run a coroutine in the loop of the client, which ends if the client is closed."""
        self._check_client()
        coroutine: Any = call()
        loop = self.client.loop.asyncio_loop
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        except RuntimeError:  # the loop has just ended
            coroutine.close()
            raise ClusterLost(self._closed()) from None
        try:
            while not concurrent.futures.wait([future], timeout=POLL_INTERVAL).done:
                self._check_client()
            return future.result()
        except ClusterLost:
            raise
        except Exception:
            self._check_client()
            raise
        finally:
            if not loop.is_closed():
                future.cancel()

    async def _all(self, calls: Collection[Call], needed: Collection[str]) -> list[Any]:
        tasks = [asyncio.ensure_future(call()) for call in calls]
        waiting: set[asyncio.Future[Any]] = set(tasks)
        try:
            while waiting:
                done, waiting = await asyncio.wait(
                    waiting, timeout=POLL_INTERVAL, return_when=asyncio.FIRST_EXCEPTION
                )
                for task in done:
                    task.result()
                if waiting:
                    await self._check_workers(needed)
        finally:
            for task in tasks:  # those of a frozen worker may never end, and are not awaited
                task.add_done_callback(lambda task: task.cancelled() or task.exception())
                task.cancel()
        return [task.result() for task in tasks]

    async def _check_workers(self, needed: Collection[str]) -> None:
        usable = await self._usable()
        lost = [worker for worker in needed or self._silence if worker not in usable]
        if lost or not usable:
            raise WorkerLost(f"lost {', '.join(lost) or 'all workers'}")

    async def _usable(self) -> set[str]:
        """Ask the scheduler for the workers that have sent a sign of life lately."""
        limit = _limit("connect")
        until = time.monotonic() + limit
        while True:
            try:
                left = max(until - time.monotonic(), SHORT_INTERVAL)
                info = await asyncio.wait_for(self.client.scheduler.identity(), left)
                break
            except (OSError, TimeoutError, AttributeError):  # it is None once the client is closed
                if time.monotonic() >= until or self._is_closed():
                    raise ClusterLost(
                        f"the Dask scheduler at {self._scheduler} does not answer; connect to a "
                        "running one and repeat the fit"
                    ) from None
                await asyncio.sleep(SHORT_INTERVAL)
        # A process that was suspended has not heard its workers, who may have been well.
        now = time.monotonic()
        passed = min(now - self._asked, 2 * POLL_INTERVAL)
        self._asked = now
        silence = {}
        for worker, known in info["workers"].items():
            sign, seconds = self._silence.get(worker, (None, 0.0))
            same = sign == known["last_seen"]
            silence[worker] = known["last_seen"], seconds + passed if same else 0.0
        self._silence = silence
        limit = PATIENCE * _limit("tcp")
        return {worker for worker, (_, seconds) in silence.items() if seconds < limit}

    def _explain(self, error: Exception, needed: Collection[str]) -> None:
        """Raise WorkerLost or ClusterLost if an error is due to a loss; the scheduler knows."""
        from distributed.scheduler import KilledWorker

        if isinstance(error, KilledWorker):
            raise ClusterLost(
                "several workers died while they ran the same task; look for the cause in their "
                "logs (often they need more memory)"
            ) from error
        broken = connection_broke(error)
        if not needed:
            if broken:
                raise WorkerLost("lost a worker and what it kept") from error
            return
        until = time.monotonic() + _limit("tcp")
        while True:
            usable = self._run(self._usable)
            if lost := [worker for worker in needed if worker not in usable]:
                raise WorkerLost(f"lost {', '.join(lost)}") from error
            if not broken:
                return
            if time.monotonic() > until:
                raise WorkerLost("lost the connection to a worker") from error
            time.sleep(SHORT_INTERVAL)

    def _is_closed(self) -> bool:
        return self.client.status not in ("running", "connecting")

    def _check_client(self) -> None:
        if self._is_closed():
            raise ClusterLost(self._closed())

    def _closed(self) -> str:
        return (
            f"the Dask client of {self._scheduler} was closed, or has lost its scheduler; connect "
            "again and repeat the fit"
        )

    # ------------------------------------------------------------ Ctrl-C

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Keep the workers of a local cluster alive after the Ctrl-C that ends a run.

        The terminal sends it to them, too, but they hold the results of the run.
        """
        from distributed import LocalCluster

        if not isinstance(self.client.cluster, LocalCluster):
            yield
            return
        self.repeated(partial(self._tell, shield))
        try:
            yield
        finally:
            with suppress(WorkerLost, ClusterLost):
                self._tell(unshield)

    def _tell(self, function: Callable[[], None]) -> None:
        """Call a function on all workers that answer."""
        workers = self.usable()
        options = {"workers": workers, "on_error": "ignore", "asynchronous": True}
        self.results(partial(self.client.run, function, **options), needed=workers)


async def fetched(future: Any) -> Any:
    """Wait for a task and fetch its result."""
    return await future


def _limit(name: str) -> float:
    """A time-out of Dask in seconds."""
    import dask
    from dask.utils import parse_timedelta

    seconds: float = parse_timedelta(dask.config.get(f"distributed.comm.timeouts.{name}"), "s")
    return seconds


def connection_broke(error: BaseException) -> bool:
    """Whether an error may mean that a worker is lost, and is not an error of its own work."""
    from distributed.comm import CommClosedError

    if isinstance(error, NoAnswer | CommClosedError | ConnectionError | TimeoutError):
        return True
    if isinstance(error, concurrent.futures.CancelledError):
        return True
    # The errors of Dask for a lost actor, and for a connection that timed out.
    actor_lost = str(error).startswith("Worker holding Actor was lost")
    return actor_lost or (type(error) is OSError and error.errno is None)


# ---------------------------------------------------------------- on the workers

# The handler of Ctrl-C before `shield`.
_on_interrupt: Any = None


def shield() -> None:
    """Ignore Ctrl-C in the terminal that this worker shares with its client."""
    global _on_interrupt
    if multiprocessing.parent_process() is not None:  # not a thread of the client
        _on_interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)


def unshield() -> None:
    """Undo `shield`."""
    if _on_interrupt is not None:
        signal.signal(signal.SIGINT, _on_interrupt)
