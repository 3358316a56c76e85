"""The back ends whose messages are kept by the workers of a cluster.

Each worker calls the engine on its rows as if they were the whole matrix. The client fetches
messages and beliefs when it needs them, for a result or a checkpoint. If all zeros of a row are
treated at once, their messages to columns follow from counts and sums over all rows. These are
whole numbers, which are added up over the workers like the changes of column sums, so that the
result is the same bit for bit for any distribution of the rows.
"""

from __future__ import annotations

import weakref
from dataclasses import fields, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from boolweave.data.observations import Observations
from boolweave.data.observed import ObservedEntries
from boolweave.data.ones import Cells, SparseObservations
from boolweave.distributed.cluster import Cluster
from boolweave.distributed.entries import RemoteEntries
from boolweave.distributed.worker import writable
from boolweave.engine.backend import (
    AnyBackend,
    Beliefs,
    InitialBeliefs,
    KeptBeliefs,
    Messages,
    Problem,
    State,
    split_rows,
)
from boolweave.engine.integers import (
    IntegerBackend,
    IntegerMessages,
    Part,
    Score,
    integer_problem,
    random_field,
)
from boolweave.engine.zeros.backend import (
    SparseMessages,
    SparseProblem,
    SparseScore,
    sparse_problem,
    wide_start,
)
from boolweave.engine.zeros.listed import Listed
from boolweave.fit import memory
from boolweave.fit.backends import ImplicitZeroBackends, ListedBackends, backends_for
from boolweave.model.model import Model
from boolweave.runtime.storage import Memory
from boolweave.runtime.types import Floats

# Fields of IntegerMessages and of their Sums that are lists with an item for each block. The other
# fields are the same on every worker.
BY_BLOCK = ("to_row", "to_column", "rows", "converged_chunks", "ones")

Stored = TypeVar("Stored")


class RemoteMessages(Messages):
    """Messages that the workers keep as long as this object exists."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.key = next(cluster.keys)
        # The problem, beliefs and score of the last step.
        self.last: tuple[weakref.ref[Problem], RemoteBeliefs, Any] | None = None
        weakref.finalize(self, cluster.unused.append, ("state", self.key))

    def to_local(self) -> Messages:
        """Fetch the messages and their sums."""
        return self.integers()

    def integers(self, place: str = "") -> IntegerMessages:
        """Fetch the messages that are integers; `place` is the prefix of their attributes."""
        fetched = {
            field.name: self.cluster.call_all("messages", self.key, place + field.name)
            for field in fields(IntegerMessages)
        }
        return IntegerMessages(**{name: _joined(name, parts) for name, parts in fetched.items()})


class RemoteBeliefs:
    """Beliefs of an iterate, which the workers keep as long as this object exists."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.key = next(cluster.keys)
        weakref.finalize(self, cluster.unused.append, ("beliefs", self.key))

    @cached_property
    def rows(self) -> Floats:
        """Ξ (M, K), fetched."""
        return np.concatenate(self.cluster.call_all("row_beliefs", self.key))

    @cached_property
    def columns(self) -> Floats:
        """Υ (K, N), fetched from the first worker."""
        return writable(self.cluster.call_all("column_beliefs", self.key)[0])

    def to_local(self) -> Beliefs:
        """Fetch the beliefs."""
        return Beliefs(self.rows, self.columns)


class ClusterBackend:
    """Messages as small integers on the workers of a cluster.

    Derived classes have other types of messages in this process (`kept_here`) and on workers
    (`remote`).

    Parameters
    ----------
    observations : ObservedEntries
    cluster : Cluster
    n_blocks : int
        Minimum number of blocks of rows.
    memory_options : dict
        Arguments of `memory.store_for` on each worker.
    n_jobs : int, optional
        Number of threads in this process.
    """

    kept_here: type[Messages] = IntegerMessages
    remote: type[RemoteMessages] = RemoteMessages

    def __init__(
        self,
        observations: ObservedEntries,
        cluster: Cluster,
        n_blocks: int,
        memory_options: dict[str, Any],
        n_jobs: int | None = None,
    ) -> None:
        self.observations, self.cluster, self.n_jobs = observations, cluster, n_jobs
        self._memory_options = memory_options
        self._keys_of_problems: weakref.WeakKeyDictionary[Problem, int] = (
            weakref.WeakKeyDictionary()
        )
        cuts = split_rows(observations.entries_by_row, n_blocks)
        if isinstance(observations, RemoteEntries):  # workers exchange them among themselves
            observations.distribute_to(cluster, cuts)
        else:
            cluster.distribute(
                observations.entries_by_row,
                cuts,
                lambda runs: [observations.fetched().arrays_of_rows(run) for run in runs],
            )

    def problem(self, model: Model) -> Any:
        """Make the problem of the observations and a model; its blocks are on the workers."""
        return integer_problem(self.observations, model)

    def _key(self, problem: Problem) -> int:
        """Send a problem to the workers, once, and return its number there."""
        if problem not in self._keys_of_problems:
            key, model = next(self.cluster.keys), problem.model
            parts = [
                (key, _of_rows(model, run, problem.shape), self._memory_options)
                for run in self.cluster.runs
            ]
            self.cluster.call_each("add_problem", parts)
            self._keys_of_problems[problem] = key
            weakref.finalize(problem, self.cluster.unused.append, ("problem", key))
        return self._keys_of_problems[problem]

    # ------------------------------------------------------------ messages

    def random_start(self, problem: Any, random: np.random.Generator) -> State:
        """Make neutral messages, and a random field."""
        return self.start(problem, random_field(problem, self.observations.n_observed, random))

    def start(self, problem: Problem, field: InitialBeliefs | None = None) -> State:
        """Make neutral messages; beliefs are the priors and the field."""
        messages, key = self.remote(self.cluster), self._key(problem)
        parts = [None if field is None else field.part(run) for run in self.cluster.runs]
        self.cluster.call_each("start", [(messages.key, key, part) for part in parts])
        return State(messages, field=field)

    def to_sum_product(self, problem: Problem, state: State) -> State:
        """Convert the messages of max-sum, so that sum-product can continue from them."""
        old, new = self._own(problem, state), self.remote(self.cluster)
        self.cluster.call_all("to_sum_product", old.key, new.key, self._key(problem))
        return replace(state, messages=new, semiring="sum-product")

    def to_floats(self, problem: Problem, state: State) -> tuple[AnyBackend, Problem, State]:
        """Fetch entries and messages of max-sum, and convert the messages to floats.

        This is called for small problems only.
        """
        assert self.cluster.cuts is not None
        whole = Part(self.cluster.cuts, 0, self.observations.shape[0], lambda array: array)
        local = IntegerBackend(self.observations.to_local(), self.n_jobs, part=whole)
        messages = self._own(problem, state).to_local()
        return local.to_floats(local.problem(problem.model), replace(state, messages=messages))

    def check(self, problem: Problem, state: State) -> None:
        """Raise ValueError unless the messages have the right blocks; workers check the rest."""
        messages = state.messages
        n_blocks = 0 if self.cluster.cuts is None else len(self.cluster.cuts)
        of_blocks: Any = getattr(messages, "of_ones", messages)
        if not isinstance(messages, self.kept_here) or len(of_blocks.to_row) != n_blocks:
            raise ValueError("other blocks")

    def _own(self, problem: Problem, state: State) -> RemoteMessages:
        """The messages of a state on the workers; those of a checkpoint are sent there first."""
        if isinstance(state.messages, self.kept_here):
            messages, key = self.remote(self.cluster), self._key(problem)
            parts = []
            for run, blocks in zip(self.cluster.runs, self.cluster.blocks, strict=True):
                field = None if state.field is None else state.field.part(run)
                part = self._part(state.messages, run, blocks)
                parts.append(replace(state, messages=part, field=field))
            self.cluster.call_each("put", [(messages.key, key, part) for part in parts])
            state.messages = messages
        assert isinstance(state.messages, RemoteMessages)
        return state.messages

    def _part(self, messages: Any, rows: slice, blocks: slice) -> Messages:
        """The messages of a range of rows, or of the blocks that contain these rows."""
        return part_of(messages, blocks)

    def _added(self, scores: list[Any]) -> Any:
        """The score of all rows."""
        return added(scores)

    # ------------------------------------------------------------ one iteration

    def step(self, problem: Problem, state: State, damping: float) -> None:
        """Do one iteration; the workers also store the beliefs and the score."""
        messages, key = self._own(problem, state), self._key(problem)
        kept = RemoteBeliefs(self.cluster)
        unused = self.cluster.take_unused()
        answers = self.cluster.call_all("step", messages.key, key, damping, kept.key, unused)
        state.residual = max(answer[0] for answer in answers)
        ones = np.sum([answer[1] for answer in answers], axis=0).tolist()
        state.expected_ones = (ones[0], ones[1])
        of_rows, of_columns = zip(*(answer[2] for answer in answers), strict=True)
        state.n_changed = sum(of_rows), of_columns[0]  # columns are the same for all
        messages.last = weakref.ref(problem), kept, self._added([answer[3] for answer in answers])
        state.field = None if state.field is None else state.field.faded(damping)
        state.n_iter += 1

    # ------------------------------------------------------------ beliefs

    def _last(self, problem: Problem, state: State) -> tuple[RemoteBeliefs, Any]:
        """Beliefs and score of a state in a problem, which the workers have stored."""
        messages = self._own(problem, state)
        if messages.last is None or messages.last[0]() is not problem:
            kept, key = RemoteBeliefs(self.cluster), self._key(problem)
            scores = self.cluster.call_all("record_beliefs", messages.key, key, kept.key)
            messages.last = weakref.ref(problem), kept, self._added(scores)
        return messages.last[1:]

    def beliefs(self, problem: Problem, state: State) -> Beliefs:
        """Fetch the beliefs of a state."""
        return self._last(problem, state)[0].to_local()

    def keep_beliefs(
        self, problem: Problem, state: State, before: KeptBeliefs | None
    ) -> RemoteBeliefs:
        """Let the workers keep the beliefs of this iterate."""
        return self._last(problem, state)[0]

    def log_posterior(self, problem: Any, state: State) -> float:
        """log p(X) + log p(Y) + Σ log p(o|z) of the factors that the beliefs decode to."""
        score: float = self._last(problem, state)[1].log_posterior(problem)
        return score

    def allows(self, model: Model) -> bool:
        """Whether messages of this kind can represent a model."""
        return model.channel.is_uniform

    def mean_evidence(self, problem: Any) -> float:
        """Mean evidence |L| of an observed entry."""
        mean: float = problem.mean_evidence(self.observations)
        return mean


# ---------------------------------------------------------------- parts of rows


def part_of(whole: Stored, blocks: slice) -> Stored:
    """The part of IntegerMessages, or of their Sums, that a worker keeps."""
    parts = {field.name: getattr(whole, field.name) for field in fields(whole)}  # type: ignore[arg-type]
    for name, value in parts.items():
        if name in BY_BLOCK:
            parts[name] = value[blocks]
        elif name == "sums":
            parts[name] = part_of(value, blocks)
    return type(whole)(**parts)


def _joined(name: str, parts: list[Any]) -> Any:
    """Undo `part_of` for the field called `name`."""
    if name in BY_BLOCK:
        return [writable(item) for part in parts for item in part]
    if name != "sums":
        return writable(parts[0])
    names = [field.name for field in fields(parts[0])]
    return type(parts[0])(
        **{name: _joined(name, [getattr(part, name) for part in parts]) for name in names}
    )


def _of_rows(model: Model, run: slice, shape: tuple[int, int]) -> Model:
    """The model of a range of rows."""
    prior = np.asarray(model.row_prior)
    by_row = prior.ndim == 2 and prior.shape[0] == shape[0] > 1
    return replace(model, row_prior=prior[run]) if by_row else model


def added(scores: list[Score]) -> Score:
    """The score of all rows; the part of the columns is the same on all workers."""
    covered = np.sum([score.covered for score in scores], axis=0)
    return Score(covered, np.sum([score.rows for score in scores], axis=0), scores[0].columns)


class RemoteSparseMessages(RemoteMessages):
    """Messages of ones and of listed zeros, and sums of zeros, that the workers keep."""

    def to_local(self) -> SparseMessages:
        """Fetch all of them."""

        def parts_of(name: str) -> list[Any]:
            return self.cluster.call_all("messages", self.key, name)

        return SparseMessages(
            self.integers("of_ones."),
            np.concatenate(parts_of("rows")),
            writable(parts_of("columns")[0]),
            np.concatenate(parts_of("row_steps")),
            writable(parts_of("column_steps")[0]),
            Listed.joined(parts_of("listed")),
        )


class SparseClusterBackend(ClusterBackend):
    """A `ClusterBackend` with messages of ones and sums of zeros."""

    observations: SparseObservations
    kept_here = SparseMessages
    remote = RemoteSparseMessages

    @cached_property
    def _ones(self) -> Observations:
        return self.observations.as_ones()

    @cached_property
    def ones_by_column(self) -> Cells:
        """The ones by columns."""
        return self.observations.ones.by_columns(self.observations.n_columns)

    def problem(self, model: Model) -> SparseProblem:
        """Make the problem of the observations and a model; its blocks are on the workers."""
        return sparse_problem(
            self.observations, model, lambda model: integer_problem(self._ones, model)
        )

    def random_start(self, problem: SparseProblem, random: np.random.Generator) -> State:
        """Make neutral messages; first beliefs come from ones drawn at random."""
        return self.start(problem, wide_start(self, problem, random))

    def to_floats(self, problem: Problem, state: State) -> tuple[AnyBackend, Problem, State]:
        """Return the arguments, as `SparseBackend` does."""
        return self, problem, state

    def _part(self, messages: Any, rows: slice, blocks: slice) -> SparseMessages:
        return SparseMessages(
            part_of(messages.of_ones, blocks),
            messages.rows[rows],
            messages.columns,
            messages.row_steps[rows],
            messages.column_steps,
            messages.listed.take_rows(rows),
        )

    def _added(self, scores: list[Any]) -> SparseScore:
        n_zeros = sum(score.n_zeros for score in scores)
        return SparseScore(added([score.of_ones for score in scores]), n_zeros)

    def allows(self, model: Model) -> bool:
        """Whether messages of this kind can represent a model."""
        return super().allows(model) and model.product == "or"


# The back end that lets those of the workers do the work.
ON_CLUSTER = {ListedBackends: ClusterBackend, ImplicitZeroBackends: SparseClusterBackend}


class ClusterBackends:
    """The back ends of a fit on a cluster: workers keep the messages, each within `max_memory`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._memory_options: dict[str, Any] = {}

    def choose_store(
        self, observations: ObservedEntries, n_components: int, **options: Any
    ) -> Memory:
        """Choose the number of blocks of rows so that each worker stays within `max_memory`."""
        self._memory_options = {name: value for name, value in options.items() if name != "n_jobs"}
        fixed = dict(self._memory_options)
        max_memory = fixed.pop("max_memory")
        if max_memory is None:
            return Memory()
        size = memory.FitSize.of(observations, n_components, **fixed)
        return Memory(size.n_blocks(max_memory))

    def make(
        self, observations: ObservedEntries, integers: bool, n_jobs: int | None, store: Memory
    ) -> AnyBackend:
        """Make the back end, whose messages must be integers."""
        if not integers:
            raise ValueError(
                "a cluster needs integer messages, but this fit needs floats; use one machine"
            )
        kind = ON_CLUSTER[backends_for(observations)]
        return kind(observations, self.cluster, store.n_blocks, self._memory_options, n_jobs)
