"""The back end with messages as floats: for any channel, and for any number of factors.

A block of rows owns its messages. Blocks share only the column beliefs, a sum over blocks in a
fixed order, so that the result does not depend on the number of threads. At the end stands
Algorithm 1 of the paper as it is printed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from boolweave.engine.backend import (
    Beliefs,
    InitialBeliefs,
    KeptBeliefs,
    Messages,
    Problem,
    State,
    check_columns,
    check_like,
    from_steps,
    log_probability_of_priors,
    no_array,
    split_rows,
)
from boolweave.engine.kernels import max_sum, sum_product, variables
from boolweave.engine.kernels.rules import xor_of
from boolweave.engine.kernels.vectors import LANES
from boolweave.model.model import Model, evidence_of
from boolweave.model.odds import HARD_BELIEF
from boolweave.runtime.threads import pool_of, run_all
from boolweave.runtime.types import Array, Floats

if TYPE_CHECKING:
    from boolweave.data.observations import Observations

Doubles: TypeAlias = NDArray[np.float64]

# Number of entries in a chunk: its scratch arrays fit into the fastest caches for dozens of
# factors.
CHUNK = 512


@dataclass(frozen=True, eq=False)
class FloatBlock:
    """A run of consecutive rows with entries Ω of their own."""

    start: int
    stop: int
    indptr: NDArray[np.int64]  # (rows + 1,), from 0
    columns: NDArray[np.uint32]  # (entries,)
    evidence: Floats  # L, (entries,)

    def for_kernels(self) -> max_sum.Entries:
        """The block in the form of kernels."""
        return max_sum.Entries(self.indptr, self.columns, self.evidence)

    @property
    def rows(self) -> slice:
        """Which rows of the matrix these are."""
        return slice(self.start, self.stop)

    @property
    def n_entries(self) -> int:
        """Number of entries of Ω in these rows."""
        return len(self.columns)

    @property
    def chunks(self) -> tuple[int, int]:
        """The layout of the entries: number of chunks, and entries in each."""
        size = max(1, -(-min(CHUNK, self.n_entries) // LANES)) * LANES
        return -(-self.n_entries // size), size


@dataclass(frozen=True, eq=False)
class FloatProblem(Problem):
    """A problem whose entries may all have different evidence."""

    blocks: tuple[FloatBlock, ...]

    @property
    def n_entries(self) -> int:
        """|Ω|, the number of entries that carry evidence."""
        return sum(block.n_entries for block in self.blocks)


@dataclass(eq=False)
class FloatMessages(Messages):
    """Messages as floats, one (chunks, K, chunk) array per block."""

    to_row: list[Floats]  # Φ (max-sum) or e^Φ (sum-product)
    to_column: list[Floats]  # Ψ or e^Ψ

    def __post_init__(self) -> None:
        # the beliefs of the last step, and their problem
        self.last: tuple[ref[FloatProblem], Beliefs] | None = None


class FloatBackend:
    """Messages as floats in memory.

    Parameters
    ----------
    observations : Observations
    n_jobs : int, optional
        Number of threads.
    dtype : type, default=np.float32
        Type of messages and beliefs.
    """

    # Random floats are drawn in 64 bits; an entry has its column and its evidence, including those
    # of the last model; a variable also has priors and old beliefs.

    def __init__(
        self,
        observations: Observations,
        n_jobs: int | None = None,
        dtype: type[np.floating] = np.float32,
    ) -> None:
        check_columns(observations.shape[1])
        self.observations = observations
        self.pool = pool_of(n_jobs)
        self.dtype = dtype
        # the last score: problem, decoded bits, log-posterior
        self._scored: tuple[ref[FloatProblem], Array, Array, float] | None = None

    def problem(self, model: Model) -> FloatProblem:
        """Turn observations and model into log-odds over Ω, divided into blocks of rows.

        Ω is where log p(o|1) ≠ log p(o|0): the observed entries and, if erasure depends on the
        value, the missing ones.
        """
        indptr, columns, evidence, base = evidence_of(self.observations, model)
        blocks = []
        for start, stop in split_rows(indptr):
            first, last = indptr[start], indptr[stop]
            blocks.append(
                FloatBlock(
                    start,
                    stop,
                    indptr[start : stop + 1] - first,
                    columns[first:last],
                    evidence[first:last].astype(self.dtype),
                )
            )
        shape = self.observations.shape
        odds = [np.ascontiguousarray(o, dtype=self.dtype) for o in model.prior_log_odds(shape)]
        for prior in odds:
            base += log_probability_of_priors(prior, prior.size)
        return FloatProblem(model, shape, odds[0], odds[1], base, tuple(blocks))

    # ------------------------------------------------------------ messages

    def random_start(self, problem: FloatProblem, random: np.random.Generator) -> State:
        """Make random messages, log U − log(1 − U)."""
        size = (problem.n_entries, problem.n_components)
        return State(FloatMessages(*(pack(problem, random.logistic(size=size)) for _ in range(2))))

    def start(self, problem: FloatProblem, field: InitialBeliefs | None = None) -> State:
        """Make neutral messages; beliefs are the priors and the field."""
        nothing = np.zeros((problem.n_entries, problem.n_components))
        messages = FloatMessages(pack(problem, nothing), pack(problem, nothing))
        return State(messages, field=field)

    def to_sum_product(self, problem: FloatProblem, state: State) -> State:
        """Convert the messages of max-sum, so that sum-product can continue from them."""
        limit = float(np.log(sum_product.RATIO_LIMIT))
        before = messages_of(state)
        to_row, to_column = (
            [np.exp(np.clip(m, -limit, limit), dtype=np.float32) for m in side]
            for side in (before.to_row, before.to_column)
        )
        after = FloatMessages(to_row, to_column)
        return replace(state, messages=after, semiring="sum-product")

    def to_floats(
        self, problem: FloatProblem, state: State
    ) -> tuple[FloatBackend, FloatProblem, State]:
        """Return the arguments, which are floats already."""
        return self, problem, state

    def check(self, problem: FloatProblem, state: State) -> None:
        """Raise ValueError unless the messages of a stored state fit this problem."""
        if not isinstance(state.messages, FloatMessages):
            raise ValueError("expected messages that are floats")
        kind = np.float32 if state.semiring == "sum-product" else self.dtype
        for side in (state.messages.to_row, state.messages.to_column):
            check_like([no_array(shape, kind) for shape in _shapes(problem)], side)
            if any(np.isnan(array).any() for array in side):
                raise ValueError("expected numbers as messages, got NaN")

    # ------------------------------------------------------------ beliefs

    def beliefs(self, problem: FloatProblem, state: State) -> Beliefs:
        """Add the priors of the problem, the sums of the messages and the field."""
        messages = messages_of(state)
        if messages.last is None or messages.last[0]() is not problem:
            rows, columns = _first_sums(problem, state.field)
            sides = messages.to_row, messages.to_column
            for block, phi, psi in zip(problem.blocks, *sides, strict=True):
                if state.semiring == "sum-product":
                    phi, psi = sum_product.log_odds(phi), sum_product.log_odds(psi)
                of_columns = np.zeros_like(columns)
                max_sum.add_up(
                    block.for_kernels(),
                    max_sum.Messages(phi, psi),
                    max_sum.Sides(rows[block.rows], of_columns),
                )
                columns += of_columns
            messages.last = ref(problem), Beliefs(rows, columns)
        return messages.last[1]

    def keep_beliefs(
        self, problem: FloatProblem, state: State, before: KeptBeliefs | None
    ) -> Beliefs:
        """Keep the beliefs of this iterate, which are not changed by the next step."""
        return self.beliefs(problem, state)

    def log_posterior(self, problem: FloatProblem, state: State) -> float:
        """log p(X) + log p(Y) + Σ log p(o|z) of the factors that the beliefs decode to."""
        beliefs = self.beliefs(problem, state)
        rows, *of_rows = variables.decoded(beliefs.rows, problem.row_prior, HARD_BELIEF, True)
        columns, *of_columns = variables.decoded(
            beliefs.columns, problem.column_prior, HARD_BELIEF, False
        )
        last = self._scored
        if last is not None and last[0]() is not problem:
            last = None
        if last is not None and np.array_equal(rows, last[1]) and np.array_equal(columns, last[2]):
            return last[3]

        xor = xor_of(problem.model.product)

        def explained(block: FloatBlock) -> float:
            return variables.explained_evidence(xor, block.for_kernels(), rows[block.rows], columns)

        evidence = float(sum(run_all(self.pool, explained, problem.blocks)))
        priors = from_steps(np.add(of_rows, of_columns))
        score = problem.log_probability_of_zeros + evidence + priors
        self._scored = ref(problem), rows, columns, score
        return score

    def allows(self, model: Model) -> bool:
        """Whether messages of this kind can represent a model."""
        return True

    def mean_evidence(self, problem: FloatProblem) -> float:
        """Mean evidence |L| of an observed entry, the largest of all blocks."""
        means = [float(np.abs(b.evidence).mean()) for b in problem.blocks if b.n_entries]
        return max(means, default=0.0)

    # ------------------------------------------------------------ one iteration

    def step(self, problem: FloatProblem, state: State, damping: float) -> None:
        """Do one iteration over all entries; the messages of the state are replaced."""
        before, messages = self.beliefs(problem, state), messages_of(state)
        left = None if state.field is None else state.field.faded(damping)
        rows, columns = _first_sums(problem, left)
        row_input, column_input = before.rows, before.columns
        if state.semiring == "sum-product":
            row_input, column_input = odds_of(row_input), odds_of(column_input)

        def one_block(i: int) -> tuple[float, Floats, NDArray[np.float64]]:
            block = problem.blocks[i]
            column_sum = np.zeros_like(columns)
            expected_ones = np.zeros(2)
            arguments = (
                xor_of(problem.model.product),
                block.for_kernels(),
                self.dtype(damping),
                max_sum.Sides(row_input[block.rows], column_input),
                max_sum.Messages(messages.to_row[i], messages.to_column[i]),
                max_sum.Sides(rows[block.rows], column_sum),
            )
            if state.semiring == "sum-product":
                residual = sum_product.sum_product(*arguments, expected_ones)
            else:
                residual = max_sum.max_sum(*arguments)
            return residual, column_sum, expected_ones

        residual, ones = 0.0, np.zeros(2)
        # Sum in the order of the blocks, not of their completion: float sums depend on the order.
        for change, column_sum, block_ones in run_all(
            self.pool, one_block, range(len(problem.blocks))
        ):
            columns += column_sum
            residual = max(residual, float(change))
            ones += block_ones
        after = Beliefs(rows, columns)
        state.n_changed = _n_changed(before, after)
        messages.last = ref(problem), after
        state.field = left
        state.n_iter += 1
        state.residual = residual
        state.expected_ones = (float(ones[0]), float(ones[1]))


def messages_of(state: State) -> FloatMessages:
    """The messages of a state of this back end."""
    assert isinstance(state.messages, FloatMessages)
    return state.messages


def _n_changed(before: Beliefs, after: Beliefs) -> tuple[int, int]:
    """The number of decoded bits of X and of Y in which beliefs differ."""
    rows = np.count_nonzero((after.rows > 0) != (before.rows > 0))
    return int(rows), int(np.count_nonzero((after.columns > 0) != (before.columns > 0)))


def _shapes(problem: FloatProblem) -> list[tuple[int, int, int]]:
    """The shapes of the messages of every block."""
    sizes = (block.chunks for block in problem.blocks)
    return [(n_chunks, problem.n_components, size) for n_chunks, size in sizes]


def pack(problem: FloatProblem, messages: Floats) -> list[Floats]:
    """Convert messages (|Ω|, K), in the order of Ω by rows, to the layout of blocks."""
    packed, first = [], 0
    dtype = problem.row_prior.dtype
    for block, (n_chunks, K, size) in zip(problem.blocks, _shapes(problem), strict=True):
        flat = np.zeros((n_chunks * size, K), dtype)
        flat[: block.n_entries] = messages[first : first + block.n_entries]
        packed.append(np.ascontiguousarray(flat.reshape(n_chunks, size, K).transpose(0, 2, 1)))
        first += block.n_entries
    return packed


def unpack(problem: FloatProblem, packed: Iterable[Floats]) -> Floats:
    """Undo `pack`: (|Ω|, K)."""
    K = problem.n_components
    parts = [
        array.transpose(0, 2, 1).reshape(-1, K)[: block.n_entries]
        for block, array in zip(problem.blocks, packed, strict=True)
    ]
    return np.concatenate([np.zeros((0, K), problem.row_prior.dtype), *parts])


def _first_sums(problem: FloatProblem, field: InitialBeliefs | None) -> tuple[Floats, Floats]:
    """The sum of priors and field, to which messages are added."""
    rows, columns = problem.row_prior.copy(), problem.column_prior.copy()
    if field is not None:
        rows += field.of_rows(slice(None))
        columns += field.of_columns()
    return rows, columns


def odds_of(belief: Floats) -> Floats:
    """e^belief, within the range of floats; 0 and the largest float where it is certain."""
    limit = sum_product.BELIEF_LIMIT
    odds = np.exp(np.clip(belief, -limit, limit), dtype=np.float32)
    odds[belief <= -HARD_BELIEF / 2] = 0  # known: no evidence can change it
    odds[belief >= HARD_BELIEF / 2] = np.finfo(np.float32).max
    return odds


@dataclass(eq=False)
class SixArrays(Messages):
    """The messages of one time t, (|Ω|, K) each."""

    to_row: Doubles  # Φ
    to_column: Doubles  # Ψ
    from_row: Doubles  # Φ̂
    from_column: Doubles  # Ψ̂
    to_product: Doubles  # Γ̂
    from_product: Doubles  # Γ


class PrintedBackend(FloatBackend):
    """Messages as 64-bit floats in six arrays, all updated from time t; for the OR product.

    The other back ends compute one iteration as a sweep, in which Γ̂, Γ and the messages to
    variables follow from each other, and store two arrays only. That has the same fixed points in a
    third of the iterations; this is for those who want to see what the paper describes.
    """

    def __init__(self, observations: Observations) -> None:
        super().__init__(observations, dtype=np.float64)

    def random_start(self, problem: FloatProblem, random: np.random.Generator) -> State:
        """Make random messages of all six kinds, log U − log(1 − U)."""
        size = (problem.n_entries, problem.n_components)
        return State(SixArrays(*(random.logistic(size=size) for _ in range(6))))

    def beliefs(self, problem: FloatProblem, state: State) -> Beliefs:
        """Add the priors and the sums of the messages."""
        messages, (rows, columns, _) = _six(state), _entries(problem)
        M, N = problem.shape
        return Beliefs(
            problem.row_prior + _sums(rows, messages.to_row, M),
            problem.column_prior + _sums(columns, messages.to_column, N).T,
        )

    def step(self, problem: FloatProblem, state: State, damping: float) -> None:
        """Compute all messages of time t + 1 from those of time t; Φ̂ and Ψ̂ are damped.

        The residual is the largest change of Φ, as in the paper.
        """
        old, before = _six(state), self.beliefs(problem, state)
        rows, columns, evidence = _entries(problem)
        from_row = before.rows[rows] - old.to_row
        from_column = before.columns.T[columns] - old.to_column
        new = SixArrays(
            to_row=_to_variable(old.from_product, old.from_column),
            to_column=_to_variable(old.from_product, old.from_row),
            from_row=(1 - damping) * old.from_row + damping * from_row,
            from_column=(1 - damping) * old.from_column + damping * from_column,
            to_product=np.minimum(
                old.from_row + old.from_column, np.minimum(old.from_row, old.from_column)
            ),
            from_product=_from_product(evidence[:, None], old.to_product),
        )
        state.messages = new
        state.n_iter += 1
        state.residual = float(np.abs(new.to_row - old.to_row).max(initial=0.0))
        state.n_changed = _n_changed(before, self.beliefs(problem, state))


def _six(state: State) -> SixArrays:
    assert isinstance(state.messages, SixArrays)
    return state.messages


def _entries(problem: FloatProblem) -> tuple[NDArray[np.intp], NDArray[np.intp], Doubles]:
    """Rows, columns and evidence L of Ω."""
    blocks = problem.blocks
    rows = [np.repeat(np.arange(b.start, b.stop), np.diff(b.indptr)) for b in blocks]
    return (
        np.concatenate([np.zeros(0, np.intp), *rows]),
        np.concatenate([np.zeros(0, np.intp), *(b.columns.astype(np.intp) for b in blocks)]),
        np.concatenate([np.zeros(0), *(b.evidence for b in blocks)]),
    )


def _sums(lines: NDArray[np.intp], messages: Doubles, n_lines: int) -> Doubles:
    """The sums of the messages of each row, or of each column, (n_lines, K)."""
    n = len(lines)
    from scipy.sparse import csr_array

    total: Doubles = csr_array((np.ones(n), (lines, np.arange(n))), shape=(n_lines, n)) @ messages
    return total


def _to_variable(claim: Doubles, cavity: Doubles) -> Doubles:
    """(Γ + Ψ̂)₊ − (Ψ̂)₊, without rounding where Ψ̂ is certain."""
    message: Doubles = np.maximum(claim + np.minimum(cavity, 0), -np.maximum(cavity, 0))
    return message


def _from_product(evidence: Doubles, to_product: Doubles) -> Doubles:
    """Γ_k = min{ (−max_{j≠k} Γ̂_j)₊ , Σ_{j≠k} (Γ̂_j)₊ + L }.

    As the result lies between 0 and L, the terms of the sum can be clipped to |L|.
    """
    n, K = to_product.shape
    claims = np.clip(to_product, 0, np.abs(evidence))
    others_sum = claims.sum(axis=1, keepdims=True) - claims
    padded = np.concatenate([to_product, np.full((n, 1), -np.inf)], axis=1)  # K may be 1
    second, largest = np.partition(padded, [K - 1, K], axis=1)[:, K - 1 :].T[:, :, None]
    others = np.where(to_product == largest, second, largest)
    claim: Doubles = np.minimum(np.maximum(-others, 0), others_sum + evidence)
    return claim
