"""Runs of rows on the workers of a Dask cluster.

A worker has an actor, `Rows`, that keeps a run of consecutive rows: entries, messages, beliefs. For
each iteration it is sent one short message and calls the engine on its rows as if they were the
whole matrix; only the changes of the column sums, integers, are added up over all workers, in a
tree, and every worker goes on with the same columns. What the client needs of all this, such as
beliefs or a checkpoint, it fetches when it looks at it.
"""

from __future__ import annotations

import asyncio
import itertools
import time
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from boolweave.data.observations import Observations
from boolweave.distributed.worker import NoAnswer, Rows, on_wire, own, shield, unshield
from boolweave.engine import integers
from boolweave.engine import loop as engine
from boolweave.engine.lazy import Later
from boolweave.engine.scoring import Parts
from boolweave.fit import memory
from boolweave.runtime.storage import Memory

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.engine.field import Field
    from boolweave.engine.loop import Problem, State
    from boolweave.engine.result import Result
    from boolweave.model.model import Model

# Seconds until the scheduler is sure to know that a worker is gone whose connection broke, and
# between two looks at the scheduler while an answer does not come.
PATIENCE = 20.0
GLANCE = 2.0

# Of a State and of its Sums: one row of the array for each row of the matrix; a list with an item
# for each block. The rest is the same on every worker.
BY_ROW = ("row_belief",)
BY_BLOCK = ("to_row", "to_column", "rows", "still", "ones")


@dataclass(frozen=True, eq=False, repr=False)
class DealtObservations(Observations):
    """Observations whose rows are with the workers of a cluster, too."""

    cluster: Any = None

    @classmethod
    def to(cls, cluster: Cluster, observations: Observations) -> DealtObservations:
        """The same observations; the workers get their rows when there is a problem."""
        parts = {field.name: getattr(observations, field.name) for field in fields(Observations)}
        return cls(**parts, cluster=cluster)

    def to_local(self) -> Observations:
        """The same observations without the cluster."""
        parts = {field.name: getattr(self, field.name) for field in fields(Observations)}
        return Observations(**parts)


@dataclass(frozen=True, eq=False)
class DealtBlock:
    """As much of a block as the client knows."""

    start: int
    stop: int
    n_entries: int
    n_observed: int
    levels: NDArray[np.float64]
    index: ClassVar[NDArray[Any]] = np.zeros(0)
    codes: ClassVar[NDArray[Any]] = np.zeros(0)


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
        self.gone: list[tuple[str, int]] = []  # what the workers need not keep any longer
        self._cuts: list[tuple[int, int]] | None = None
        self._room: dict[str, Any] = {}
        self._keys = itertools.count()
        self._posed: weakref.WeakKeyDictionary[Problem, int] = weakref.WeakKeyDictionary()

    # ------------------------------------------------------------ dealing

    def room(self, observations: Observations, n_components: int, **how: Any) -> Memory:
        """What the workers may take; in how many blocks that is, at least, for the engine."""
        self._room = how
        if how["max_memory"] is None:
            return Memory()
        fixed = {name: value for name, value in how.items() if name != "max_memory"}
        size = memory.FitSize(observations.shape, observations.n_observed, n_components, **fixed)
        return Memory(size.n_blocks(how["max_memory"]))

    def deal(
        self, observations: Observations, code: integers.Code, cuts: list[tuple[int, int]]
    ) -> tuple[DealtBlock, ...]:
        """Give every worker a run of blocks, all with about equally many entries."""
        if self._cuts != cuts:
            self._deal(observations, cuts)
        n_entries = _per_block(observations, cuts).tolist()
        blocks = zip(cuts, n_entries, strict=True)
        return tuple(DealtBlock(*cut, n, n, code.levels) for cut, n in blocks)

    def _deal(self, observations: Observations, cuts: list[tuple[int, int]]) -> None:
        found = self._found()
        self.blocks = _share_out(_per_block(observations, cuts), min(len(found), len(cuts)))
        self.workers = found[: len(self.blocks)]
        self.runs = [slice(cuts[b.start][0], cuts[b.stop - 1][1]) for b in self.blocks]
        with self._watched():
            futures = []
            remote: Any = observations if hasattr(observations, "rows_for") else None
            parts = [None] * len(self.runs) if remote is None else remote.rows_for(self.runs)
            for run, share, worker, part in zip(
                self.runs, self.blocks, self.workers, parts, strict=True
            ):
                own = [(start - run.start, stop - run.start) for start, stop in cuts[share]]
                if part is None:
                    part = self._send(_rows_of(observations, run), worker)
                futures.append(
                    self.client.submit(
                        Rows, part, own, run.start, observations.shape[0], actor=True,
                        workers=[worker], allow_other_workers=False, pure=False,
                    )
                )  # fmt: skip
            self.actors = [future.result() for future in futures]
        self.peers = [(actor._address, actor.key) for actor in self.actors]
        self._connect()
        if remote is not None:
            per_row, n_ones = zip(*self._all("sizes"), strict=True)
            remote.dealt(list(per_row), list(n_ones))
        self._cuts = cuts
        self._posed = weakref.WeakKeyDictionary()

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
            self._each("connect", arguments)

    def _send(self, part: tuple[Any, ...], worker: str) -> Any:
        """Bring something to a worker, not by way of the scheduler if it can be reached."""
        try:
            return self.client.scatter([part], workers=[worker], direct=True)[0]
        except OSError:
            return self.client.scatter([part], workers=[worker])[0]

    def _pose(self, problem: Problem) -> int:
        """Tell the workers of a problem, once; the number by which they know it."""
        if problem not in self._posed:
            key = next(self._keys)
            shape = problem.shape
            models = [_of_rows(problem.model, run, shape) for run in self.runs]
            self._each("pose", [(key, model, problem.code, self._room) for model in models])
            self._posed[problem] = key
            weakref.finalize(problem, self.gone.append, ("problem", key))
        return self._posed[problem]

    # ------------------------------------------------------------ what the engine asks for

    def begin(self, problem: Problem, field: Field | None) -> State:
        """Messages that say nothing, on the workers."""
        held, view = Held(self), Snapshot(self)
        arguments = [
            (held.key, self._pose(problem), view.key, None if field is None else field.part(run))
            for run in self.runs
        ]
        self._each("begin", arguments)
        state = self._state_of(held, "max-sum", None, None)
        state.field = field
        self._show(state, held, view)
        return state

    def believe(self, problem: Problem, state: State) -> None:
        """Give a state the beliefs that follow from its messages with the priors of a problem."""
        held, view = self._adopted(problem, state), Snapshot(self)
        self._all("renew", held.key, self._pose(problem), view.key)
        self._show(state, held, view)

    @staticmethod
    def _show(state: State, held: Held, view: Snapshot) -> None:
        """The beliefs of a state are those that the workers have written down last."""
        state.row_belief = Distant(view, "row_belief")  # type: ignore[assignment]
        state.column_belief = Distant(view, "column_belief")  # type: ignore[assignment]
        held.view = weakref.ref(view)

    def to_sum_product(self, problem: Problem, state: State) -> State:
        """The messages of a state as sum-product ones."""
        old, new = self._adopted(problem, state), Held(self)
        self._all("to_sum_product", old.key, new.key, self._pose(problem))
        after = self._state_of(new, "sum-product", state.row_belief, state.column_belief)
        kept = ("n_iter", "residual", "n_changed", "expected_ones", "field")
        return replace(after, **{name: getattr(state, name) for name in kept})

    def step(self, problem: Problem, state: State, damping: float) -> None:
        """One iteration; the state's beliefs are then with the workers."""
        held = self._adopted(problem, state)
        view = Snapshot(self)
        key = self._pose(problem)
        answers = self._all("step", held.key, key, damping, view.key, self._taken())
        state.residual = max(answer[0] for answer in answers)
        ones = np.sum([answer[1] for answer in answers], axis=0).tolist()
        state.expected_ones = (ones[0], ones[1])
        of_rows, of_columns = zip(*(answer[2] for answer in answers), strict=True)
        state.n_changed = sum(of_rows), of_columns[0]  # columns are the same for all
        view.parts = key, _added([answer[3] for answer in answers])
        self._show(state, held, view)
        state.field = None if state.field is None else state.field.faded(damping)
        state.n_iter += 1

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
            self._all("forget", self._taken())

    def _taken(self) -> list[tuple[str, int]]:
        taken = self.gone[: len(self.gone)]
        del self.gone[: len(taken)]
        return taken

    def parts(self, problem: Problem, state: State) -> Parts:
        """The parts of the log-posterior, of all rows."""
        key, view = self._pose(problem), getattr(state.row_belief, "owner", None)
        if view is not None and view.parts[0] == key:
            return view.parts[1]
        held = self._adopted(problem, state)
        return _added(self._all("parts", held.key, key))

    def counts(self, result: Result) -> NDArray[np.int64]:
        """`Result.counts` of all rows."""
        slim = replace(result, observations=None, history={}, stability=None)  # type: ignore[arg-type]
        shape = len(slim.row_log_odds), slim.column_log_odds.shape[1]
        parts = [
            replace(
                slim, model=_of_rows(slim.model, run, shape), row_log_odds=slim.row_log_odds[run]
            )
            for run in self.runs
        ]
        return np.sum(self._each("counts", [(part,) for part in parts]), axis=0)

    # ------------------------------------------------------------ states, here and there

    def _state_of(self, held: Held, semiring: Any, rows: Any, columns: Any) -> State:
        to_row, to_column, sums = (Distant(held, name) for name in ("to_row", "to_column", "sums"))
        parts: dict[str, Any] = {"to_row": to_row, "to_column": to_column, "sums": sums}
        return engine.State(semiring, row_belief=rows, column_belief=columns, **parts)

    def _adopted(self, problem: Problem, state: State) -> Held:
        """The workers' messages of a state; what is here, as after a checkpoint, goes there."""
        messages: Any = state.to_row
        if not isinstance(messages, Distant):
            held = Held(self)
            nothing: dict[str, Any] = {"row_belief": None, "column_belief": None}
            whole = replace(state, **nothing)
            parts = [self._part_of(whole, n) for n in range(len(self.runs))]
            key = self._pose(problem)
            self._each("put", [(held.key, key, part) for part in parts])
            there = self._state_of(held, state.semiring, state.row_belief, state.column_belief)
            for name in ("to_row", "to_column", "sums"):
                setattr(state, name, getattr(there, name))
        else:
            held = messages.owner
        view = getattr(state.row_belief, "owner", None)
        if view is None or held.view() is not view:
            rows, columns = np.asarray(state.row_belief), np.asarray(state.column_belief)
            self._each("believe", [(held.key, rows[run], columns) for run in self.runs])
        return held

    def _part_of(self, whole: Any, n: int) -> Any:
        """What worker `n` keeps of a State or of its Sums."""
        parts = {}
        for field in fields(whole):
            value = getattr(whole, field.name)
            if field.name == "sums" and value is not None:
                value = self._part_of(value, n)
            elif field.name == "field" and value is not None:
                value = value.part(self.runs[n])
            elif field.name in BY_BLOCK:
                value = value[self.blocks[n]]
            elif field.name in BY_ROW and value is not None:
                value = value[self.runs[n]]
            parts[field.name] = value
        return type(whole)(**parts)

    @staticmethod
    def joined(name: str, parts: list[Any]) -> Any:
        """Inverse of `_part_of`, of what is called `name`."""
        if name in BY_BLOCK:
            return [own(item) for part in parts for item in part]
        if name in BY_ROW and parts[0] is not None:
            return np.concatenate(parts)
        if name != "sums":
            return own(parts[0])
        names = [field.name for field in fields(parts[0])]
        return type(parts[0])(
            **{
                name: Cluster.joined(name, [getattr(part, name) for part in parts])
                for name in names
            }
        )

    # ------------------------------------------------------------ talking to the workers

    def _all(self, method: str, *arguments: Any) -> list[Any]:
        return self._each(method, [arguments] * len(self.actors))

    def _each(self, method: str, arguments: Sequence[Any]) -> list[Any]:
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


def _per_block(observations: Observations, cuts: list[tuple[int, int]]) -> NDArray[np.int64]:
    """Number of entries of each block."""
    indptr = observations.indptr
    return np.array([indptr[stop] - indptr[start] for start, stop in cuts], dtype=np.int64)


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


def _rows_of(observations: Observations, run: slice) -> tuple[Any, ...]:
    """Shape, indptr, columns and values of some rows."""
    first, last = observations.indptr[[run.start, run.stop]]
    shape = (run.stop - run.start, observations.shape[1])
    indptr = observations.indptr[run.start : run.stop + 1] - first
    return shape, indptr, observations.indices[first:last], observations.values[first:last]


def _of_rows(model: Model, run: slice, shape: tuple[int, int]) -> Model:
    """The same model for some of the rows."""
    prior = np.asarray(model.row_prior)
    by_row = prior.ndim == 2 and prior.shape[0] == shape[0] > 1
    return replace(model, row_prior=prior[run]) if by_row else model


def _added(parts: list[Parts]) -> Parts:
    """The columns' part is the same on all workers."""
    covered, rows = (
        np.sum([getattr(p, name) for p in parts], axis=0) for name in ("covered", "rows")
    )
    return Parts(covered, rows, parts[0].columns)


# ---------------------------------------------------------------- what is with the workers


class Held:
    """The messages of a state, kept by the workers for as long as this lives."""

    kind = "state"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.key = next(cluster._keys)
        self.view: Any = lambda: None  # of the beliefs that the workers have with them
        weakref.finalize(self, cluster.gone.append, (self.kind, self.key))


class Snapshot(Held):
    """Beliefs after an iteration, kept likewise."""

    kind = "view"
    parts: tuple[int, Any] = (-1, None)  # of the log-posterior, and for which problem


class Distant(Later):
    """Something that the workers keep, each its part; fetched when it is looked at, once."""

    def __init__(self, owner: Held, name: str) -> None:
        self.owner = owner
        self.name = name
        self._here: Any = None

    def to_local(self) -> Any:
        """The whole of it."""
        if self.owner.kind == "state":  # it changes with every iteration
            return self._fetch()
        if self._here is None:
            self._here = self._fetch()
        return self._here

    def _fetch(self) -> Any:
        cluster = self.owner.cluster
        parts = cluster._all("get", self.owner.kind, self.owner.key, self.name)
        return cluster.joined(self.name, parts)
