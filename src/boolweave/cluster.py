"""Blocks of rows on the workers of a Dask cluster.

A worker has an actor, `Rows`, that keeps its blocks and their messages and runs `compact.update`
on them, as a thread does. In each iteration it is told the beliefs of the columns and of its rows;
the changes of the column sums, integers, are added up in a tree of workers.
"""

from __future__ import annotations

import itertools
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave import compact
from boolweave.observations import Observations
from boolweave.storage import Memory

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Seconds until the scheduler is sure to know that a worker is gone whose connection broke.
PATIENCE = 20.0

PARTS = ("to_row", "to_column", "still", "ones")


@dataclass(frozen=True, eq=False, repr=False)
class DealtObservations(Observations):
    """Observations whose blocks of rows are with the workers of a cluster."""

    cluster: Any = None

    @classmethod
    def to(cls, cluster: Cluster, observations: Observations) -> DealtObservations:
        """The same observations; the workers get their blocks when there is a problem."""
        parts = {field.name: getattr(observations, field.name) for field in fields(Observations)}
        return cls(**parts, cluster=cluster)


class WorkerLost(RuntimeError):
    """A worker is gone, and with it the messages that it kept."""


class Rows:
    """What lives on a worker: blocks, and for every state the messages of each block."""

    def __init__(self, blocks: dict[int, compact.CompactBlock]) -> None:
        self.blocks = {i: _as_made(block) for i, block in blocks.items()}
        self.states: dict[int, dict[int, list[NDArray[Any]]]] = {}  # as in PARTS
        self.total: NDArray[Any] = np.zeros((0, 0))

    def begin(self, key: int, problem: Any) -> None:
        """Messages that say nothing."""
        problem.blocks = list(self.blocks.values())
        to_row, to_column = compact.no_messages(problem), compact.no_messages(problem)
        self._keep(key, to_row, to_column)

    def _keep(self, key: int, to_row: list[Any], to_column: list[Any]) -> None:
        self.states[key] = {
            i: [
                phi,
                psi,
                np.zeros(block.n_chunks, dtype=bool),
                np.zeros((block.n_chunks, 2), np.int64),
            ]
            for (i, block), phi, psi in zip(self.blocks.items(), to_row, to_column, strict=True)
        }

    def put(self, key: int, parts: dict[int, list[NDArray[Any]]]) -> None:
        """Messages from elsewhere."""
        self.states[key] = {i: [np.array(part) for part in parts[i]] for i in self.blocks}

    def get(self, key: int, part: int) -> dict[int, NDArray[Any]]:
        """One of PARTS of all blocks."""
        return {i: held[part] for i, held in self.states[key].items()}

    def drop(self, key: int) -> None:
        """Let the messages of a state go."""
        self.states.pop(key, None)

    def update(
        self, key: int, told: compact.Told, rows: NDArray[Any], row_moved: NDArray[Any]
    ) -> tuple[int, NDArray[Any], dict[int, NDArray[np.float64]]]:
        """One iteration: largest change, changes of row sums, expected ones of each block.

        `rows` and `row_moved` are those of all blocks here, one after the other.
        """
        told = replace(
            told, columns=np.array(told.columns), column_moved=np.array(told.column_moved)
        )
        rows, row_moved = np.array(rows), np.array(row_moved)
        row_sums = np.zeros(rows.shape, dtype=told.sum_type)
        members, first = [], 0
        for i, block in self.blocks.items():
            here = slice(first, first + block.stop - block.start)
            first = here.stop
            members.append(
                compact.Member(
                    block, rows[here], row_moved[here], row_sums[here], *self.states[key][i]
                )
            )
        change, self.total = compact.update(told, members)
        return change, row_sums, {m: held[3].sum(axis=0) for m, held in self.states[key].items()}

    def absorb(self, other: Any, last: bool) -> NDArray[Any] | None:
        """Add the column sum of another worker to the one here; it is returned if it is whole."""
        self.total = self.total + other.column_sum().result()
        return self.total if last else None

    def column_sum(self) -> NDArray[Any]:
        """The change of the column sums, (K, N)."""
        return self.total

    def to_sum_product(self, key: int, new_key: int, problem: Any) -> NDArray[Any]:
        """Go on with sum-product; the sums of the new messages by row of these blocks."""
        problem.blocks = list(self.blocks.values())
        sides = [[held[side] for held in self.states[key].values()] for side in (0, 1)]
        to_row, to_column = (compact.to_sum_product(problem, side) for side in sides)
        self._keep(new_key, to_row, to_column)
        sums = compact.sums_of(problem, "sum-product", to_row, to_column)
        self.total = sums.columns
        return np.concatenate([sums.rows[block.rows] for block in problem.blocks])

    def covered(self, problem: Any, row_words: Any, column_words: Any) -> NDArray[np.int64]:
        """`compact.covered` of all blocks together."""
        row_words, column_words = np.array(row_words), np.array(column_words)
        total, first = np.zeros(3, dtype=np.int64), 0
        for block in self.blocks.values():
            last = first + block.stop - block.start
            total += compact.covered(problem, block, row_words[first:last], column_words)
            first = last
        return total


def _as_made(block: compact.CompactBlock) -> compact.CompactBlock:
    """Arrays that may be written to where they may at home: kernels are compiled once."""
    index, codes = np.array(block.index), np.array(block.codes)
    for array in (index, codes):
        array.flags.writeable = False
    return replace(block, indptr=np.array(block.indptr), index=index, codes=codes)


class Cluster:
    """The same blocks on the workers of a Dask client, for one set of observations.

    Parameters
    ----------
    client : distributed.Client
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self.workers: list[str] = []
        self.actors: list[Any] = []
        self.shares: list[list[int]] = []  # the blocks of each worker
        self._dealt: Any = None
        self._keys = itertools.count()

    def deal(self, blocks: tuple[Any, ...]) -> None:
        """Give every worker blocks with about equally many entries."""
        if self._dealt is not None and self._dealt is blocks[0].codes:
            return
        found = sorted(self.client.scheduler_info(n_workers=-1)["workers"])
        if not found:
            raise RuntimeError("the Dask client has no workers; start some, or use n_jobs")
        loads = [0] * min(len(found), len(blocks))
        self.shares = [[] for _ in loads]
        for i in sorted(range(len(blocks)), key=lambda i: -blocks[i].n_entries):
            least = loads.index(min(loads))
            loads[least] += blocks[i].n_entries
            self.shares[least].append(i)
        self.shares = [sorted(share) for share in self.shares]
        self.workers = found[: len(loads)]
        with self._watched():
            futures = [
                self.client.submit(
                    Rows, {i: blocks[i] for i in share}, actor=True, workers=[worker],
                    allow_other_workers=False, pure=False,
                )
                for worker, share in zip(self.workers, self.shares, strict=True)
            ]  # fmt: skip
            self.actors = [future.result() for future in futures]
        self._dealt = blocks[0].codes

    def begin(self, problem: Any) -> tuple[Part, Part, Part, Part]:
        """Messages that say nothing, on the workers: as the four PARTS."""
        self.deal(problem.blocks)
        held = Held(self)
        self._all("begin", held.key, _without_blocks(problem))
        return held.parts()

    def adopt(self, problem: Any, state: Any) -> None:
        """Send messages that are here, such as those of a checkpoint, to the workers."""
        self.deal(problem.blocks)
        if isinstance(state.to_row, Part):
            return
        held = Held(self)
        parts = (state.to_row, state.to_column, state.sums.still, state.sums.ones)
        by_block = [list(part) for part in zip(*parts, strict=True)]
        shares = [{i: by_block[i] for i in share} for share in self.shares]
        self._each("put", [(held.key, share) for share in shares])
        state.to_row, state.to_column, state.sums.still, state.sums.ones = held.parts()

    def to_sum_product(self, problem: Any, state: Any) -> tuple[Part, Part, compact.Sums]:
        """The messages of a state as sum-product ones, and their sums."""
        self.adopt(problem, state)
        new = Held(self)
        known = _without_blocks(problem)
        parts = self._all("to_sum_product", state.to_row.held.key, new.key, known)
        to_row, to_column, still, ones = new.parts()
        known.blocks = []
        sums = compact.no_sums(known)
        self._scatter_rows(problem.blocks, sums.rows, parts)
        columns: Any = sums.columns + self._column_sum()
        held: Any = {"still": still, "ones": ones}
        return to_row, to_column, replace(sums, columns=columns, **held)

    def update(
        self, blocks: tuple[Any, ...], told: compact.Told, to_row: Any, rows: Any,
        row_moved: Any, sums: Any,
    ) -> tuple[int, list[NDArray[np.float64]]]:  # fmt: skip
        """One iteration: the largest change, and the expected ones of each block."""
        key = to_row.held.key
        parts = self._each(
            "update",
            [
                (key, told, self._of(blocks, share, rows), self._of(blocks, share, row_moved))
                for share in self.shares
            ],
        )
        self._scatter_rows(blocks, sums.rows, [part[1] for part in parts])
        sums.columns += self._column_sum()
        ones = {i: value for part in parts for i, value in part[2].items()}
        return max(part[0] for part in parts), [ones[i] for i in sorted(ones)]

    def covered(self, problem: Any, row_words: Any, column_words: Any) -> NDArray[np.int64]:
        """How many entries of each code the decoded product makes 1, (3,)."""
        self.deal(problem.blocks)
        known = _without_blocks(problem)
        words = [self._of(problem.blocks, share, row_words) for share in self.shares]
        parts = self._each("covered", [(known, part, column_words) for part in words])
        return np.sum(parts, axis=0)

    @staticmethod
    def _of(blocks: Any, share: list[int], array: Any) -> Any:
        return np.concatenate([array[blocks[i].rows] for i in share])

    def _scatter_rows(self, blocks: Any, sums: NDArray[Any], parts: list[NDArray[Any]]) -> None:
        for share, part in zip(self.shares, parts, strict=True):
            first = 0
            for i in share:
                last = first + blocks[i].stop - blocks[i].start
                sums[blocks[i].rows] += part[first:last]
                first = last

    def _column_sum(self) -> NDArray[Any]:
        """The sum over the workers, in a tree: each round half of them take over another's."""
        if len(self.actors) == 1:
            return self._all("column_sum")[0]
        stride, n = 1, len(self.actors)
        while True:
            last = 2 * stride >= n
            first = range(0, n - stride, 2 * stride)
            pairs = [(self.actors[a], self.actors[a + stride]) for a in first]
            with self._watched():
                waiting = [into.absorb(other, last) for into, other in pairs]
                totals = [future.result() for future in waiting]
            if last:
                return totals[0]
            stride *= 2

    def _all(self, method: str, *arguments: Any) -> list[Any]:
        return self._each(method, [arguments] * len(self.actors))

    def _each(self, method: str, arguments: Sequence[Any]) -> list[Any]:
        with self._watched():
            pairs = zip(self.actors, arguments, strict=True)
            waiting = [getattr(actor, method)(*given) for actor, given in pairs]
            return [future.result() for future in waiting]

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Turn whatever fails because a worker is gone into `WorkerLost`."""
        try:
            yield
        except Exception as error:
            until = time.monotonic() + PATIENCE
            while True:
                left = self.client.scheduler_info(n_workers=-1)["workers"]
                lost = [worker for worker in self.workers if worker not in left]
                if lost:
                    raise WorkerLost(f"lost {', '.join(lost)}") from error
                if not _connection_broke(error) or time.monotonic() > until:
                    raise
                time.sleep(0.1)


def _connection_broke(error: BaseException) -> bool:
    lost = "actor" in str(error).lower() or "lost" in str(error).lower()
    return lost or isinstance(error, OSError | TimeoutError) or "Killed" in type(error).__name__


class Held:
    """The messages of a state, kept by the workers for as long as this lives."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.key = next(cluster._keys)
        weakref.finalize(self, _let_go, list(cluster.actors), self.key)

    def parts(self) -> tuple[Part, Part, Part, Part]:
        """The four PARTS."""
        return Part(self, 0), Part(self, 1), Part(self, 2), Part(self, 3)


def _let_go(actors: list[Any], key: int) -> None:
    for actor in actors:
        try:
            actor.drop(key)
        except Exception:  # gone, and the messages with it
            return


class Part(Sequence[Any]):
    """One of PARTS of every block: fetched when it is looked at."""

    def __init__(self, held: Held, part: int) -> None:
        self.held = held
        self.part = part

    def to_local(self) -> list[NDArray[Any]]:
        """The arrays of all blocks, in order."""
        found: dict[int, NDArray[Any]] = {}
        for part in self.held.cluster._all("get", self.held.key, self.part):
            found.update(part)
        return [np.array(found[i]) for i in sorted(found)]

    def __len__(self) -> int:
        return sum(len(share) for share in self.held.cluster.shares)

    def __getitem__(self, index: Any) -> Any:
        return self.to_local()[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.to_local())


def _without_blocks(problem: Any) -> SimpleNamespace:
    """What a worker needs to know of a problem; it has its blocks."""
    return SimpleNamespace(
        code=problem.code,
        shape=problem.shape,
        n_components=problem.n_components,
        model=SimpleNamespace(product=problem.model.product),
        store=Memory(),
    )
