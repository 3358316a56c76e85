"""The back end whose messages are kept by the workers of a cluster.

Each worker calls the engine on its rows as if they were the whole matrix. What the client needs of
messages and beliefs, such as a result or a checkpoint, is fetched when it is looked at.
"""

from __future__ import annotations

import weakref
from dataclasses import fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from boolweave.distributed.cluster import Cluster
from boolweave.distributed.entries import RemoteEntries
from boolweave.distributed.worker import own
from boolweave.engine.backend import Beliefs, KeptBeliefs, Messages, State, split_rows
from boolweave.engine.integer_blocks import is_uniform
from boolweave.engine.integer_sums import IntegerMessages, IntegerProblem, Score
from boolweave.engine.integers import (
    IntegerBackend,
    Part,
    integer_problem,
    mean_evidence,
    random_field,
)
from boolweave.fit import memory
from boolweave.runtime.storage import Memory

if TYPE_CHECKING:
    from boolweave.data.observed import ObservedEntries
    from boolweave.engine.backend import AnyBackend
    from boolweave.engine.field import Field
    from boolweave.engine.floats import FloatBackend, FloatProblem
    from boolweave.model.model import Model
    from boolweave.runtime.types import Floats

# Of IntegerMessages and of their Sums: lists with an item for each block. The rest is the same on
# every worker.
BY_BLOCK = ("to_row", "to_column", "rows", "resting", "ones")

Stored = TypeVar("Stored")


class ClusterMachine:
    """The machine of a fit on a cluster: messages are with the workers, each has `max_memory`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._room: dict[str, Any] = {}

    def room(self, observations: ObservedEntries, n_components: int, **how: Any) -> Memory:
        """In how many blocks the rows are cut, for the workers to keep within `max_memory`."""
        self._room = {name: value for name, value in how.items() if name != "n_jobs"}
        max_memory = how["max_memory"]
        if max_memory is None:
            return Memory()
        fixed = {name: value for name, value in self._room.items() if name != "max_memory"}
        size = memory.FitSize(observations.shape, observations.n_observed, n_components, **fixed)
        return Memory(size.n_blocks(max_memory))

    def backend(
        self, observations: ObservedEntries, integers: bool, n_jobs: int | None, store: Memory
    ) -> AnyBackend:
        """Make the back end, whose messages must be integers."""
        if not integers:
            raise ValueError(
                "a cluster needs integer messages, but here they are floats; use one machine"
            )
        return ClusterBackend(observations, self.cluster, store.n_blocks, self._room, n_jobs)


class ClusterBackend:
    """Messages as small integers with the workers of a cluster.

    Parameters
    ----------
    observations : ObservedEntries
    cluster : Cluster
    n_blocks : int
        In how many blocks the rows are cut, at the least.
    room : dict
        What `memory.store_for` is told on each worker.
    n_jobs : int, optional
        Number of threads for what is done here.
    """

    def __init__(
        self,
        observations: ObservedEntries,
        cluster: Cluster,
        n_blocks: int,
        room: dict[str, Any],
        n_jobs: int | None = None,
    ) -> None:
        self.observations, self.cluster, self.n_jobs = observations, cluster, n_jobs
        self._room = room
        self._posed: weakref.WeakKeyDictionary[IntegerProblem, int] = weakref.WeakKeyDictionary()
        _deal(observations, cluster, split_rows(observations.entries_by_row, n_blocks))

    def problem(self, model: Model) -> IntegerProblem:
        """Pose the problem of the observations and a model; blocks are with the workers."""
        return integer_problem(self.observations, model)

    def _key(self, problem: IntegerProblem) -> int:
        """Tell the workers of a problem, once; the number by which they know it."""
        if problem not in self._posed:
            key = next(self.cluster.keys)
            shape = problem.shape
            models = [_of_rows(problem.model, run, shape) for run in self.cluster.runs]
            self.cluster.ask_each("pose", [(key, model, self._room) for model in models])
            self._posed[problem] = key
            weakref.finalize(problem, self.cluster.gone.append, ("problem", key))
        return self._posed[problem]

    # ------------------------------------------------------------ messages

    def random_start(self, problem: IntegerProblem, random: np.random.Generator) -> State:
        """Make messages that say nothing, and a random field."""
        return self.start(problem, random_field(problem, self.observations.n_observed, random))

    def start(self, problem: IntegerProblem, field: Field | None = None) -> State:
        """Make messages that say nothing; beliefs are the priors and the field."""
        messages, key = RemoteMessages(self.cluster), self._key(problem)
        parts = [None if field is None else field.part(run) for run in self.cluster.runs]
        self.cluster.ask_each("start", [(messages.key, key, part) for part in parts])
        return State(messages, field=field)

    def to_sum_product(self, problem: IntegerProblem, state: State) -> State:
        """Convert the messages of max-sum, for sum-product to go on from them."""
        old, new = self._own(problem, state), RemoteMessages(self.cluster)
        self.cluster.ask_all("to_sum_product", old.key, new.key, self._key(problem))
        return replace(state, messages=new, semiring="sum-product")

    def to_floats(
        self, problem: IntegerProblem, state: State
    ) -> tuple[FloatBackend, FloatProblem, State]:
        """Fetch entries and messages of max-sum, and convert these to floats: there are few."""
        local = self._local()
        messages = self._own(problem, state).to_local()
        return local.to_floats(local.problem(problem.model), replace(state, messages=messages))

    def _local(self) -> IntegerBackend:
        """The same with all entries in this process."""
        assert self.cluster.cuts is not None
        part = Part(self.cluster.cuts, 0, self.observations.shape[0], lambda array: array)
        return IntegerBackend(self.observations.to_local(), self.n_jobs, part=part)

    def check(self, problem: IntegerProblem, state: State) -> None:
        """Raise ValueError unless the messages have the right blocks; workers check the rest."""
        messages = state.messages
        n_blocks = 0 if self.cluster.cuts is None else len(self.cluster.cuts)
        if not isinstance(messages, IntegerMessages) or len(messages.to_row) != n_blocks:
            raise ValueError("other blocks")

    def _own(self, problem: IntegerProblem, state: State) -> RemoteMessages:
        """The workers' messages of a state; those of a checkpoint, which are here, go there."""
        if isinstance(state.messages, IntegerMessages):
            messages, key = RemoteMessages(self.cluster), self._key(problem)
            parts = []
            for run, blocks in zip(self.cluster.runs, self.cluster.blocks, strict=True):
                field = None if state.field is None else state.field.part(run)
                parts.append(replace(state, messages=_part_of(state.messages, blocks), field=field))
            self.cluster.ask_each("put", [(messages.key, key, part) for part in parts])
            state.messages = messages
        assert isinstance(state.messages, RemoteMessages)
        return state.messages

    # ------------------------------------------------------------ one iteration

    def step(self, problem: IntegerProblem, state: State, damping: float) -> None:
        """Do one iteration; the workers also write down the beliefs and the score."""
        messages, key = self._own(problem, state), self._key(problem)
        kept = RemoteBeliefs(self.cluster)
        forgotten = self.cluster.forgotten()
        answers = self.cluster.ask_all("step", messages.key, key, damping, kept.key, forgotten)
        state.residual = max(answer[0] for answer in answers)
        ones = np.sum([answer[1] for answer in answers], axis=0).tolist()
        state.expected_ones = (ones[0], ones[1])
        of_rows, of_columns = zip(*(answer[2] for answer in answers), strict=True)
        state.n_changed = sum(of_rows), of_columns[0]  # columns are the same for all
        messages.last = weakref.ref(problem), kept, _added([answer[3] for answer in answers])
        state.field = None if state.field is None else state.field.faded(damping)
        state.n_iter += 1

    # ------------------------------------------------------------ beliefs

    def _last(self, problem: IntegerProblem, state: State) -> tuple[RemoteBeliefs, Score]:
        """Beliefs and score of a state in a problem, written down by the workers."""
        messages = self._own(problem, state)
        if messages.last is None or messages.last[0]() is not problem:
            kept, key = RemoteBeliefs(self.cluster), self._key(problem)
            scores = self.cluster.ask_all("believe", messages.key, key, kept.key)
            messages.last = weakref.ref(problem), kept, _added(scores)
        return messages.last[1:]

    def beliefs(self, problem: IntegerProblem, state: State) -> Beliefs:
        """Fetch the beliefs of a state."""
        return self._last(problem, state)[0].to_local()

    def keep_beliefs(
        self, problem: IntegerProblem, state: State, before: KeptBeliefs | None
    ) -> RemoteBeliefs:
        """Let the workers keep the beliefs of this iterate."""
        return self._last(problem, state)[0]

    def log_posterior(self, problem: IntegerProblem, state: State) -> float:
        """log p(X) + log p(Y) + Σ log p(o|z) of the factors that the beliefs decode to."""
        return self._last(problem, state)[1].log_posterior(problem)

    def allows(self, model: Model) -> bool:
        """Whether messages of this kind can be those of a model."""
        return is_uniform(model)

    def mean_evidence(self, problem: IntegerProblem) -> float:
        """What an observed entry says on average, |L|."""
        return mean_evidence(problem, self.observations)


def _deal(observations: ObservedEntries, cluster: Cluster, cuts: list[tuple[int, int]]) -> None:
    """Give the workers the entries of their rows, from here or from each other."""
    if isinstance(observations, RemoteEntries):
        observations.deal_to(cluster, cuts)
        return
    seen = observations.to_local()

    def rows_of(run: slice) -> tuple[Any, ...]:
        first, last = seen.indptr[[run.start, run.stop]]
        shape = (run.stop - run.start, seen.shape[1])
        indptr = seen.indptr[run.start : run.stop + 1] - first
        return shape, indptr, seen.indices[first:last], seen.values[first:last]

    cluster.deal(seen.indptr, cuts, lambda runs: [rows_of(run) for run in runs])


# ---------------------------------------------------------------- what is with the workers


class RemoteMessages(Messages):
    """Messages that the workers keep for as long as this lives."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.key = next(cluster.keys)
        # beliefs and score after the last step, and for which problem
        self.last: tuple[weakref.ref[IntegerProblem], RemoteBeliefs, Score] | None = None
        weakref.finalize(self, cluster.gone.append, ("state", self.key))

    def to_local(self) -> IntegerMessages:
        """Fetch the messages and their sums."""
        parts = {
            field.name: self.cluster.ask_all("messages", self.key, field.name)
            for field in fields(IntegerMessages)
        }
        return IntegerMessages(**{name: _joined(name, found) for name, found in parts.items()})


class RemoteBeliefs:
    """Beliefs of an iterate, which the workers keep for as long as this lives."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.key = next(cluster.keys)
        weakref.finalize(self, cluster.gone.append, ("beliefs", self.key))

    @cached_property
    def rows(self) -> Floats:
        """Ξ (M, K), fetched."""
        return np.concatenate(self.cluster.ask_all("row_beliefs", self.key))

    @cached_property
    def columns(self) -> Floats:
        """Υ (K, N), fetched from the first worker."""
        return own(self.cluster.ask_all("column_beliefs", self.key)[0])

    def to_local(self) -> Beliefs:
        """Fetch the beliefs."""
        return Beliefs(self.rows, self.columns)


def _part_of(whole: Stored, blocks: slice) -> Stored:
    """What a worker keeps of IntegerMessages or of their Sums."""
    parts = {field.name: getattr(whole, field.name) for field in fields(whole)}  # type: ignore[arg-type]
    for name, value in parts.items():
        if name in BY_BLOCK:
            parts[name] = value[blocks]
        elif name == "sums":
            parts[name] = _part_of(value, blocks)
    return type(whole)(**parts)


def _joined(name: str, parts: list[Any]) -> Any:
    """Undo `_part_of` for the field called `name`."""
    if name in BY_BLOCK:
        return [own(item) for part in parts for item in part]
    if name != "sums":
        return own(parts[0])
    names = [field.name for field in fields(parts[0])]
    return type(parts[0])(
        **{name: _joined(name, [getattr(part, name) for part in parts]) for name in names}
    )


def _of_rows(model: Model, run: slice, shape: tuple[int, int]) -> Model:
    """The same model for some of the rows."""
    prior = np.asarray(model.row_prior)
    by_row = prior.ndim == 2 and prior.shape[0] == shape[0] > 1
    return replace(model, row_prior=prior[run]) if by_row else model


def _added(scores: list[Score]) -> Score:
    """The score of all rows; the columns' part is the same on all workers."""
    covered = np.sum([score.covered for score in scores], axis=0)
    return Score(covered, np.sum([score.rows for score in scores], axis=0), scores[0].columns)
