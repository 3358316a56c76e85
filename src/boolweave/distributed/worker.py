"""What a worker of a Dask cluster does with its run of rows.

`Rows` lives in a worker as an actor. It calls the engine on its rows as if they were the whole
matrix. The changes of the column sums are added up over all workers in a tree: every second worker
gives its sum to the one before it, then every fourth, and so on; the whole goes back the same way.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.data.entries import rows_from_packed
from boolweave.data.observations import Observations
from boolweave.engine import integer_sums, integers
from boolweave.engine import loop as engine
from boolweave.engine.scoring import Parts, Scorer
from boolweave.fit import memory
from boolweave.fit.resuming import check_messages
from boolweave.runtime.storage import Memory

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.engine.field import Field
    from boolweave.engine.loop import Problem, State
    from boolweave.engine.result import Result
    from boolweave.model.model import Model


class NoAnswer(RuntimeError):
    """A worker does not answer; the scheduler will know whether it is gone."""


class Rows:
    """A run of rows on a worker, and the states of their messages.

    Parameters
    ----------
    part : tuple
        Shape, indptr, columns and values of the rows; or "packed", shape, rows above, and arrays
        of packed entries.
    cuts : list of (int, int)
        Their blocks.
    top : int
        How many rows of the matrix are above them.
    n_rows : int
        How many rows the matrix has.
    """

    def __init__(
        self, part: tuple[Any, ...], cuts: list[tuple[int, int]], top: int, n_rows: int
    ) -> None:
        from distributed import get_worker

        self.worker: Any = get_worker()
        n_threads = self.worker.state.nthreads
        self.pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None
        if part[0] == "packed":
            _, shape, first, parts = part
            part = rows_from_packed(np.concatenate(parts), shape, first_row=first)[:4]
        self.observations = Observations(part[0], *(np.array(array) for array in part[1:]))
        self.cuts, self.top, self.n_rows = cuts, top, n_rows
        self.rank = 0
        self.peers: list[tuple[str, Any]] = []
        self.blocks: tuple[integers.CompactBlock, ...] = ()
        self.stores: dict[int, Memory] = {}  # by the number of factors
        self.problems: dict[int, Problem] = {}
        self.scorers: dict[int, Scorer] = {}
        self.states: dict[int, State] = {}
        self.views: dict[int, dict[str, NDArray[Any]]] = {}
        self._kept: dict[str, tuple[dict[int, Any], ...]] = {
            "problem": (self.problems, self.scorers), "state": (self.states,),
            "view": (self.views,),
        }  # fmt: skip
        self._waiting: dict[tuple[int, int], asyncio.Future[Any]] = {}
        self._sending: set[asyncio.Future[None]] = set()
        self._n_reduced = 0
        self._abandoned = False

    # ------------------------------------------------------------ problems and states

    def connect(self, rank: int, peers: list[tuple[str, Any]]) -> None:
        """Address and key of all actors, and which of them this is."""
        self.rank, self.peers = rank, peers

    def sizes(self) -> tuple[NDArray[np.int64], int]:
        """Number of entries of each row, and of ones."""
        return np.diff(self.observations.indptr), self.observations.n_ones

    def entries(self, rows: NDArray[np.int64] | None = None) -> tuple[Any, Any]:
        """Columns and values, of all rows or of some."""
        seen = self.observations if rows is None else self.observations.take_rows(np.array(rows))
        return seen.indices, seen.values

    def pose(self, key: int, model: Model, code: integers.Code, room: dict[str, Any]) -> None:
        """A problem: the rows are the same, the model is another."""
        K = model.n_components
        if K not in self.stores:
            n_jobs = 1 if self.pool is None else self.pool._max_workers
            self.stores[K] = memory.store_for(self.observations, K, n_jobs=n_jobs, **room)
        if not self.blocks:
            made = integers.make_blocks(self.observations, code, self.cuts, self.stores[K])
            self.blocks = tuple(replace(block, top=self.top) for block in made)
        blocks = tuple(replace(block, levels=code.levels) for block in self.blocks)
        problem = engine.problem_of(self.observations, model, blocks, code, store=self.stores[K])
        self.problems[key] = replace(problem, share=self)
        self.scorers[key] = Scorer(self.problems[key], self.pool)

    def begin(self, key: int, problem: int, view: int, field: Field | None) -> None:
        """Messages that say nothing."""
        posed = self.problems[problem]
        if field is None:
            self.states[key] = engine.init_neutral(posed)
        else:
            self.states[key] = engine.init_from(posed, field)
        self._write_down(self.states[key], view)

    def renew(self, key: int, problem: int, view: int) -> None:
        """The beliefs that follow from the messages with the priors of a problem."""
        engine.believe(self.problems[problem], self.states[key])
        self._write_down(self.states[key], view)

    def _write_down(self, state: State, view: int) -> None:
        self.views[view] = {
            "row_belief": np.asarray(state.row_belief),
            "column_belief": np.asarray(state.column_belief),
        }

    def to_sum_product(self, key: int, new_key: int, problem: int) -> None:
        """Go on with sum-product."""
        self.states[new_key] = engine.to_sum_product(self.problems[problem], self.states[key])

    def put(self, key: int, problem: int, state: State) -> None:
        """A state from elsewhere, such as a checkpoint."""
        assert state.sums is not None
        check_messages(self.problems[problem], state)
        messages = {"to_row": own(state.to_row), "to_column": own(state.to_column)}
        self.states[key] = replace(state, sums=own(state.sums), **messages)

    def believe(self, key: int, rows: NDArray[Any], columns: NDArray[Any]) -> None:
        """Beliefs from elsewhere."""
        state = self.states[key]
        state.row_belief, state.column_belief = np.array(rows), np.array(columns)

    def get(self, kind: str, key: int, name: str) -> Any:
        """A part of a state or of a view; what is the same on all workers, from the first."""
        if kind == "state":
            return getattr(self.states[key], name)
        return None if name == "column_belief" and self.rank else self.views[key][name]

    def held(self) -> int:
        """Number of states whose messages are kept."""
        return len(self.states)

    def forget(self, gone: list[tuple[str, int]]) -> None:
        """What nobody needs any longer."""
        for kind, number in gone:
            for kept in self._kept[kind]:
                kept.pop(number, None)

    # ------------------------------------------------------------ work

    def step(
        self, key: int, problem: int, damping: float, view: int, gone: list[tuple[str, int]]
    ) -> tuple[float, tuple[float, float], tuple[int, int], Parts]:
        """One iteration: residual, expected ones, changes and the parts of the log-posterior."""
        self.forget(gone)
        state, posed = self.states[key], self.problems[problem]
        engine.step(posed, state, damping, self.pool)
        self._write_down(state, view)
        parts = self.scorers[problem].parts(state)
        return state.residual, state.expected_ones, state.n_changed, parts

    def parts(self, key: int, problem: int) -> Parts:
        """The parts of the log-posterior."""
        return self.scorers[problem].parts(self.states[key])

    def counts(self, result: Result) -> NDArray[np.int64]:
        """`Result.counts` of the rows here."""
        return result.counts(self.observations)

    # ------------------------------------------------------------ sums over all workers

    def reduce(self, array: NDArray[Any]) -> NDArray[Any]:
        """The sum over all workers, for each of them; the engine calls it."""
        self._n_reduced += 1
        if len(self.peers) == 1:
            return array
        loop = self.worker.loop.asyncio_loop
        return asyncio.run_coroutine_threadsafe(self._reduce(array, self._n_reduced), loop).result()

    async def _reduce(self, array: NDArray[Any], n: int) -> NDArray[Any]:
        stride, below = 1, []
        while stride < len(self.peers):
            if self.rank % (2 * stride):
                above = self.rank - stride
                sent = self._send(above, n, array)
                _, whole = await asyncio.gather(sent, self._receive(above, n))
                array = np.array(whole)
                break
            if self.rank + stride < len(self.peers):
                array = array + await self._receive(self.rank + stride, n)
                below.append(self.rank + stride)
            stride *= 2
        # If one of them is gone it is the client that will notice.
        self._sending = {asyncio.ensure_future(self._send(to, n, array)) for to in reversed(below)}
        return array

    async def _send(self, to: int, n: int, array: NDArray[Any]) -> None:
        address, key = self.peers[to]
        try:
            answer = await self.worker.rpc(address).actor_execute(
                function="take", actor=key, args=on_wire((self.rank, n, array)), kwargs={}
            )
        except (OSError, KeyError) as error:  # it is gone, or its actor is
            raise NoAnswer(f"{address} does not answer: {error!r}") from None
        if answer["status"] != "OK":
            raise answer["exception"]

    async def _receive(self, sender: int, n: int) -> Any:
        found = await self._slot(sender, n)
        del self._waiting[sender, n]
        return found

    async def take(self, sender: int, n: int, array: NDArray[Any]) -> None:
        """A sum from another worker."""
        self._slot(sender, n).set_result(array)

    def _slot(self, sender: int, n: int) -> asyncio.Future[Any]:
        if self._abandoned:
            raise NoAnswer("abandoned: a worker was lost")
        if (sender, n) not in self._waiting:
            self._waiting[sender, n] = asyncio.get_running_loop().create_future()
        return self._waiting[sender, n]

    async def abandon(self) -> None:
        """Another worker is gone; what waits for it waits in vain."""
        self._abandoned = True
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(NoAnswer("abandoned: a worker was lost"))


# What Ctrl-C did before `shield`.
_on_interrupt: Any = None


def shield() -> None:
    """Let this worker live on after a Ctrl-C in the terminal that it shares with its client."""
    global _on_interrupt
    if multiprocessing.parent_process() is not None:  # and no thread of the client
        _on_interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)


def unshield() -> None:
    """Undo `shield`."""
    if _on_interrupt is not None:
        signal.signal(signal.SIGINT, _on_interrupt)


def on_wire(arguments: Sequence[Any]) -> list[Any]:
    """The arguments of a call as Dask sends them; plain numbers need no wrapping, which is slow."""
    from distributed.protocol import to_serialize

    return [a if isinstance(a, int | float | str) else to_serialize(a) for a in arguments]


def own(value: Any) -> Any:
    """Arrays that came over the network can be read only; those of a state are written to."""
    if isinstance(value, list):
        return [own(item) for item in value]
    if isinstance(value, integer_sums.Sums | integer_sums.Side):
        return replace(value, **{name: own(part) for name, part in vars(value).items()})
    return np.array(value) if isinstance(value, np.ndarray) else value
