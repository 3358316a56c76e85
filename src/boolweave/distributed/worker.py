"""The part of a fit that runs on a worker of a Dask cluster.

`Rows` is an actor on a worker. It calls the engine on its range of rows as if it were the whole
matrix. The changes of the column sums are added up over all workers in a tree: every second worker
sends its sum to the one before it, then every fourth, and so on; the total is sent back the same
way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from boolweave.data.entries import rows_from_packed
from boolweave.data.observations import Observations
from boolweave.data.ones import SparseObservations
from boolweave.engine.backend import Beliefs, InitialBeliefs, State
from boolweave.engine.integers import IntegerBackend, IntegerMessages, Part, Score, Sums
from boolweave.engine.quantization import Variables
from boolweave.engine.zeros.backend import SparseBackend, SparseMessages, SparseScore
from boolweave.engine.zeros.listed import Listed
from boolweave.fit import memory
from boolweave.fit.backends import backends_for
from boolweave.model.model import Model
from boolweave.runtime.cluster import NoAnswer
from boolweave.runtime.types import Array

Backend = IntegerBackend | SparseBackend


def unpacked_rows(shape: tuple[int, int], first_row: int, parts: list[Array]) -> Observations:
    """The entries of a range of rows from packed numbers, sorted and without duplicates."""
    return Observations(*rows_from_packed(np.concatenate(parts), shape, first_row=first_row)[:4])


class Rows:
    """A range of rows on a worker, and the states of their messages.

    Parameters
    ----------
    part : tuple
        A function that makes the observations of the rows, and its arguments, as from
        `Observations.arrays_of_rows`.
    cuts : list of (int, int)
        First and last row of each block.
    first_row : int
        Position of the first row in the matrix.
    n_rows : int
        Number of rows of the matrix.
    """

    def __init__(
        self, part: tuple[Any, ...], cuts: list[tuple[int, int]], first_row: int, n_rows: int
    ) -> None:
        from distributed import get_worker

        self.worker: Any = get_worker()
        self.n_threads: int = self.worker.state.nthreads
        make, *arguments = part
        self.observations: Observations | SparseObservations = make(
            *(np.array(a) if isinstance(a, np.ndarray) else a for a in arguments)
        )
        self.part = Part(cuts, first_row, n_rows, self.reduce, self.count_before)
        self.rank = 0
        self.peers: list[tuple[str, Any]] = []
        # By the number of factors; a back end is dropped with the last problem that uses it.
        self.backends: WeakValueDictionary[int, Backend] = WeakValueDictionary()
        self.problems: dict[int, tuple[Backend, Any]] = {}
        self.states: dict[int, State] = {}
        self.kept: dict[int, Beliefs] = {}
        self._waiting: dict[tuple[int, int], asyncio.Future[Any]] = {}
        self._sending: set[asyncio.Future[None]] = set()
        self._n_reduced = 0
        self._abandoned = False

    # ------------------------------------------------------------ problems and messages

    def connect(self, rank: int, peers: list[tuple[str, Any]]) -> None:
        """Store the address and key of all actors, and the position of this one among them."""
        self.rank, self.peers = rank, peers

    def sizes(self) -> tuple[NDArray[np.int64], int]:
        """Number of entries of each row, and number of ones."""
        return np.diff(self.observations.entries_by_row), self.observations.n_ones

    def entries(self, rows: NDArray[np.int64] | None = None) -> tuple[Array, Array]:
        """Columns and values of the entries of all rows, or of some."""
        observations = self.observations
        local = observations.to_local() if rows is None else observations.take_rows(np.array(rows))
        return local.indices, local.values

    def apply(self, function: Callable[[Any, Array], Array], part: Array) -> Array:
        """Call a function with the entries and with the rows of an array that belong to them."""
        return function(self.observations, writable(part))

    def add_problem(self, key: int, model: Model, memory_options: dict[str, Any]) -> None:
        """Make a problem of these rows and a model, under a key."""
        K = model.n_components
        backend: Any = self.backends.get(K)
        if backend is None:
            store = memory.store_for(self.observations, K, n_jobs=self.n_threads, **memory_options)
            make = backends_for(self.observations).make
            backend = make(self.observations, True, self.n_threads, store, self.part)
            self.backends[K] = backend
        self.problems[key] = backend, backend.problem(model)

    def start(self, key: int, problem_key: int, field: InitialBeliefs | None) -> None:
        """Make neutral messages."""
        backend, problem = self.problems[problem_key]
        self.states[key] = backend.start(problem, field)

    def to_sum_product(self, key: int, new_key: int, problem_key: int) -> None:
        """Convert messages, so that sum-product can continue from them."""
        backend, problem = self.problems[problem_key]
        self.states[new_key] = backend.to_sum_product(problem, self.states[key])

    def put(self, key: int, problem_key: int, state: State) -> None:
        """Store a state that comes from elsewhere, such as a checkpoint."""
        backend, problem = self.problems[problem_key]
        backend.check(problem, state)
        self.states[key] = replace(state, messages=writable(state.messages))

    def messages(self, key: int, name: str) -> Any:
        """An attribute of the messages of a state; a dot separates nested attributes."""
        return attrgetter(name)(self.states[key].messages)

    def forget(self, unused: list[tuple[str, int]]) -> None:
        """Delete what is no longer needed."""
        kept: dict[str, dict[int, Any]] = {
            "problem": self.problems,
            "state": self.states,
            "beliefs": self.kept,
        }
        for kind, number in unused:
            kept[kind].pop(number, None)

    # ------------------------------------------------------------ work

    def step(
        self,
        key: int,
        problem_key: int,
        damping: float,
        beliefs: int,
        unused: list[tuple[str, int]],
    ) -> tuple[float, tuple[float, float], tuple[int, int], Score | SparseScore]:
        """Do one iteration; return residual, expected ones, changes and the score."""
        self.forget(unused)
        backend, problem = self.problems[problem_key]
        state = self.states[key]
        backend.step(problem, state, damping)
        score = self.record_beliefs(key, problem_key, beliefs)
        return state.residual, state.expected_ones, state.n_changed, score

    def record_beliefs(self, key: int, problem_key: int, beliefs: int) -> Score | SparseScore:
        """Store the beliefs of a state in a problem; return the score."""
        backend, problem = self.problems[problem_key]
        self.kept[beliefs] = backend.keep_beliefs(problem, self.states[key], None)
        return backend.score(problem, self.states[key])

    def row_beliefs(self, key: int) -> Array:
        """The beliefs of the rows of this worker."""
        return self.kept[key].rows

    def column_beliefs(self, key: int) -> Array | None:
        """The beliefs of the columns, the same on all workers; only the first worker sends them."""
        return None if self.rank else self.kept[key].columns

    # ------------------------------------------------------------ sums over all workers

    def reduce(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of an array over all workers; the engine calls this on each of them."""
        self._n_reduced += 1
        if len(self.peers) == 1:
            return array
        loop = self.worker.loop.asyncio_loop
        return asyncio.run_coroutine_threadsafe(self._reduce(array, self._n_reduced), loop).result()

    def count_before(self, n: int) -> tuple[int, int]:
        """Sum of n over the workers before this one, and over all workers."""
        counts = np.zeros(len(self.peers), dtype=np.int64)
        counts[self.rank] = n
        counts = self.reduce(counts)
        return int(counts[: self.rank].sum()), int(counts.sum())

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
        # If one of them is lost, the client will notice.
        self._sending = {asyncio.ensure_future(self._send(to, n, array)) for to in reversed(below)}
        return array

    async def _send(self, to: int, n: int, array: NDArray[Any]) -> None:
        address, key = self.peers[to]
        try:
            answer = await self.worker.rpc(address).actor_execute(
                function="take", actor=key, args=on_wire((self.rank, n, array)), kwargs={}
            )
        except (OSError, KeyError) as error:  # the worker is lost, or its actor
            raise NoAnswer(f"{address} does not answer: {error!r}") from None
        if answer["status"] != "OK":
            raise answer["exception"]

    async def _receive(self, sender: int, n: int) -> Any:
        received = await self._slot(sender, n)
        del self._waiting[sender, n]
        return received

    async def take(self, sender: int, n: int, array: NDArray[Any]) -> None:
        """Receive a sum from another worker."""
        self._slot(sender, n).set_result(array)

    def _slot(self, sender: int, n: int) -> asyncio.Future[Any]:
        if self._abandoned:
            raise NoAnswer("abandoned: a worker was lost")
        if (sender, n) not in self._waiting:
            self._waiting[sender, n] = asyncio.get_running_loop().create_future()
        return self._waiting[sender, n]

    async def abandon(self) -> None:
        """End all waiting, because another worker is lost."""
        self._abandoned = True
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(NoAnswer("abandoned: a worker was lost"))


def on_wire(arguments: Sequence[Any]) -> list[Any]:
    """The arguments of a call, serialized; plain numbers need no wrapping, which is slow."""
    from distributed.protocol import to_serialize

    return [a if isinstance(a, int | float | str) else to_serialize(a) for a in arguments]


def writable(value: Any) -> Any:
    """Copy arrays that came over the network, which are read-only, so that they can be changed."""
    if isinstance(value, list):
        return [writable(item) for item in value]
    if isinstance(value, IntegerMessages | Sums | Variables | SparseMessages | Listed):
        return type(value)(*(writable(getattr(value, field.name)) for field in fields(value)))
    return np.array(value) if isinstance(value, np.ndarray) else value
