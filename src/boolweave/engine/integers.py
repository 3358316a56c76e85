"""The back end with messages as small integers: one byte in max-sum, two in sum-product.

It is for channels that are the same for every entry and not almost certain. Sums of integers are
updated by the changes of the messages. They are exact, so that threads, blocks and clusters give
the same result bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from boolweave.data.observed import ObservedEntries
from boolweave.engine.backend import (
    Beliefs,
    InitialBeliefs,
    KeptBeliefs,
    Messages,
    Problem,
    Semiring,
    State,
    check_columns,
    check_like,
    from_steps,
    log_probability_of_priors,
    no_array,
    split_rows,
)
from boolweave.engine.floats import FloatBackend, FloatMessages, FloatProblem
from boolweave.engine.kernels import groups, integer_max_sum, integer_sum_product, variables
from boolweave.engine.kernels.max_sum import Messages as KernelMessages
from boolweave.engine.kernels.rules import Xor, xor_of
from boolweave.engine.kernels.vectors import LANES
from boolweave.engine.kernels.zeros import ones as ones_kernels
from boolweave.engine.quantization import (
    LARGEST_EVIDENCE,
    NARROW,
    IntegerBlock,
    Prior,
    Quantization,
    Variables,
    make_blocks,
    quantization_of,
    requantise,
)
from boolweave.model.model import Model
from boolweave.runtime.storage import Files, Memory, iterate_blocks, release_pages
from boolweave.runtime.threads import effective_jobs, pool_of, run_all
from boolweave.runtime.types import Array, Floats, Integers

if TYPE_CHECKING:
    from boolweave.data.observations import Observations

# With at least this many factors, and if all entries are ones, the max-sum messages of an entry are
# stored together; see `kernels.zeros.ones`.
BY_ENTRY = 32


@dataclass(frozen=True, eq=False)
class Part:
    """A run of rows of a larger matrix, whose column sums are added up over all runs."""

    cuts: list[tuple[int, int]]  # blocks of the run
    first_row: int  # number of its first row in the matrix
    n_rows: int  # of the matrix
    reduce: Callable[[Array], Array]
    # how many of something there are in the runs above and in all, given how many in this one
    count_before: Callable[[int], tuple[int, int]] = lambda n: (0, n)


@dataclass(frozen=True, eq=False)
class IntegerProblem(Problem):
    """A problem in which all entries have the same evidence, unless `per_entry` is given."""

    quantization: Quantization
    blocks: tuple[IntegerBlock, ...]
    most_in_column: int  # no column of the whole matrix has more entries than this
    # By block, if evidence differs from entry to entry; only for sum-product
    per_entry: tuple[integer_sum_product.PerEntry, ...] | None = None
    by_entry: bool = False  # whether max-sum messages are (entries + 1, K), in sparse blocks

    def is_by_entry(self, block: IntegerBlock) -> bool:
        """Whether the max-sum messages of each entry of a block are stored together."""
        return self.by_entry and not block.dense

    @cached_property
    def quantised_row_prior(self) -> Prior:
        """The prior of rows."""
        return Prior(self.row_prior, self.n_components)

    @cached_property
    def quantised_column_prior(self) -> Prior:
        """The prior of columns."""
        return Prior(np.ascontiguousarray(self.column_prior.T), self.n_components)

    def stored_zeros(self, block: IntegerBlock) -> NDArray[np.uint8]:
        """Neutral max-sum messages in their stored form, (groups, 16)."""
        if self.model.product == "xor":
            return np.full((block.n_groups, LANES), integer_max_sum.XOR_OFFSET, dtype=np.uint8)
        return block.to_lanes(
            np.array([integer_max_sum.OR_STEPS, 0, 0], dtype=np.uint8)[block.codes]
        )

    def offsets(self, block: IntegerBlock, semiring: Semiring) -> NDArray[np.float32]:
        """The offsets of the stored messages of every entry, (entries,)."""
        if semiring == "sum-product":
            return np.zeros(block.n_entries, dtype=np.float32)
        return block.from_lanes(self.stored_zeros(block)[:, None, :])[:, 0].astype(np.float32)

    def shapes(self, semiring: Semiring) -> list[tuple[int, ...]]:
        """Shapes of the messages of every block, including the number beyond the last entry."""
        K = self.n_components
        return [
            (block.n_entries + 1, K)
            if semiring == "max-sum" and self.is_by_entry(block)
            else (block.n_groups, K, LANES)
            for block in self.blocks
        ]

    def mean_evidence(self, observations: ObservedEntries) -> float:
        """Mean evidence |L| of an observed entry."""
        if not observations.n_observed:
            return 0.0
        of_zero, of_one = np.abs(self.quantization.levels[:2]).tolist()
        return float(of_zero + (of_one - of_zero) * observations.share_of_ones)


@dataclass(eq=False)
class Sums:
    """Sums of messages, which are updated by changes of messages, and what can be skipped."""

    rows: list[Variables]  # by block
    columns: Variables
    converged_chunks: list[NDArray[np.bool_]]  # by block: which chunks did not change
    ones: list[NDArray[np.int64]]  # by block: expected ones of each chunk, (chunks, 2), in 2⁻²⁰
    last_setting: tuple[float, ...] | None = None  # levels and damping
    n_steps: int = 0
    n_changes: int = 0  # of decoded bits, in all steps


@dataclass(eq=False)
class IntegerMessages(Messages):
    """Messages as small integers, and their sums.

    One array for each block, (groups, K, 16), or (entries + 1, K): see `IntegerProblem.by_entry`.
    """

    to_row: list[Integers]
    to_column: list[Integers]
    sums: Sums

    def __post_init__(self) -> None:
        # the problem whose priors are in the quantised beliefs of `sums`
        self.quantised_for: IntegerProblem | None = None


@dataclass(frozen=True, eq=False)
class Score:
    """The contribution of the rows of a problem, or of some of them, to the log-posterior."""

    covered: NDArray[np.int64]  # (3,) entries of each code that the decoded product makes 1
    rows: NDArray[np.int64]  # (2,) prior log-odds of the ones of X, in steps
    columns: NDArray[np.int64]  # (2,) and of Y

    def log_posterior(self, problem: IntegerProblem) -> float:
        """Add evidence and priors to the log-probability of zeros."""
        priors = from_steps(self.rows + self.columns)
        return float(
            problem.log_probability_of_zeros + self.covered @ problem.quantization.levels + priors
        )


class IntegerBackend:
    """Messages as small integers, in memory or in files.

    Parameters
    ----------
    observations : Observations
    n_jobs : int, optional
        Number of threads.
    store : Memory, optional
        Where messages are kept.
    part : Part, optional
        The rows of a larger matrix to which the observations belong; by default, all rows.
    """

    def __init__(
        self,
        observations: Observations,
        n_jobs: int | None = None,
        store: Memory | None = None,
        part: Part | None = None,
    ) -> None:
        check_columns(observations.shape[1])
        self.observations = observations
        self.n_jobs = n_jobs
        self.pool = pool_of(n_jobs)
        self.store = store or Memory()
        self.reduce = (lambda array: array) if part is None else part.reduce
        cuts = split_rows(observations.indptr, self.store.n_blocks) if part is None else part.cuts
        first_row = 0 if part is None else part.first_row
        self.blocks = make_blocks(observations, cuts, self.store, first_row)
        in_column = sum(block.most_in_column for block in self.blocks)
        self.most_in_column = in_column if part is None else part.n_rows
        # the last score: problem, messages, their number of changes; and the score itself
        self._scored: tuple[ref[IntegerProblem], ref[IntegerMessages], int, Score] | None = None

    def problem(self, model: Model) -> IntegerProblem:
        """Make the problem of the observations and a model."""
        observations = self.observations
        by_entry = (
            model.product == "or"
            and model.n_components >= BY_ENTRY
            and observations.n_ones == observations.n_observed
        )
        problem = integer_problem(observations, model, self.blocks, self.most_in_column)
        return replace(problem, by_entry=by_entry)

    # ------------------------------------------------------------ messages

    def random_start(self, problem: IntegerProblem, random: np.random.Generator) -> State:
        """Make neutral messages and a random field."""
        return self.start(problem, random_field(problem, self.observations.n_observed, random))

    def start(self, problem: IntegerProblem, field: InitialBeliefs | None = None) -> State:
        """Make neutral messages; beliefs are the priors and the field."""
        to_row, to_column = self._no_messages(problem), self._no_messages(problem)
        messages = IntegerMessages(to_row, to_column, no_sums(problem, "max-sum"))
        return State(messages, field=field)

    def _no_messages(self, problem: IntegerProblem) -> list[Integers]:
        messages = self.store.zeros(problem.shapes("max-sum"), np.uint8)
        blocks = zip(problem.blocks, messages, strict=True)
        for block, array in iterate_blocks(blocks, lambda part: (part[0].codes, part[1])):
            if not problem.is_by_entry(block):
                array[...] = problem.stored_zeros(block)[:, None, :]
        return messages

    def to_sum_product(self, problem: IntegerProblem, state: State) -> State:
        """Convert the messages of max-sum, so that sum-product can continue from them."""
        before = messages_of(state)
        sides = before.to_row, before.to_column
        to_row, to_column = (self._converted(problem, side) for side in sides)
        sums = sums_of(problem, "sum-product", to_row, to_column)
        sums.columns.sums = self.reduce(sums.columns.sums)
        after = IntegerMessages(to_row, to_column, sums)
        return replace(state, messages=after, semiring="sum-product")

    def _converted(self, problem: IntegerProblem, packed: list[Integers]) -> list[Integers]:
        """Max-sum messages as sum-product ones, in 16 bits."""
        scale = np.float32(problem.quantization.unit * integer_sum_product.LOG_ODDS_STEPS)
        converted = self.store.zeros(problem.shapes("sum-product"), np.int16)
        blocks = zip(problem.blocks, packed, converted, strict=True)
        # Number of messages that are converted at a time, as 32-bit floats.
        n_at_once = 1 << 16
        for block, array, out in iterate_blocks(blocks, lambda part: (part[0].codes, *part[1:])):
            if problem.is_by_entry(block):
                for k in range(problem.n_components):
                    out[:, k] = block.to_lanes(np.rint(array[: block.n_entries, k] * scale))
                continue
            zeros = problem.stored_zeros(block)[:, None, :].astype(np.float32)
            step = max(1, n_at_once // max(1, out[:1].size))
            for start in range(0, len(out), step):
                some = slice(start, start + step)
                out[some] = np.rint((array[some] - zeros[some]) * scale)
        return converted

    def to_floats(
        self, problem: IntegerProblem, state: State
    ) -> tuple[FloatBackend, FloatProblem, State]:
        """Convert max-sum to float messages: the back end, its problem and its state."""
        backend = FloatBackend(self.observations, self.n_jobs)
        floats = backend.problem(problem.model)
        messages = messages_of(state)
        sides = messages.to_row, messages.to_column
        after = FloatMessages(*(self._as_floats(problem, floats, side) for side in sides))
        return backend, floats, State(after, n_iter=state.n_iter)

    def _as_floats(
        self, problem: IntegerProblem, floats: FloatProblem, packed: list[Integers]
    ) -> list[Floats]:
        """Messages of all blocks, converted factor by factor, which takes little extra memory."""
        K, unit = problem.n_components, np.float32(problem.quantization.unit)
        values = np.empty(floats.n_entries, dtype=np.float32)
        sizes = [block.chunks for block in floats.blocks]
        out = self.store.zeros([(n_chunks, K, size) for n_chunks, size in sizes], np.float32)
        offsets = [problem.offsets(block, "max-sum") for block in problem.blocks]
        for k in range(K):
            first = 0
            for block, array, offset in zip(problem.blocks, packed, offsets, strict=True):
                odds = (block.from_lanes(array[:, k : k + 1])[:, 0] - offset) * unit
                odds = odds[block.codes != groups.MISSING]
                values[first : first + len(odds)] = odds
                first += len(odds)
            first = 0
            for part, messages in zip(floats.blocks, out, strict=True):
                flat = np.zeros(messages.shape[0] * messages.shape[2], dtype=np.float32)
                flat[: part.n_entries] = values[first : first + part.n_entries]
                messages[:, k] = flat.reshape(messages.shape[0], messages.shape[2])
                first += part.n_entries
        return out

    def check(self, problem: IntegerProblem, state: State) -> None:
        """Raise ValueError unless the messages of a stored state fit this problem."""
        if not isinstance(state.messages, IntegerMessages):
            raise ValueError("expected messages that are integers")
        kind = np.int16 if state.semiring == "sum-product" else np.uint8
        like = [no_array(shape, kind) for shape in problem.shapes(state.semiring)]
        check_like(like, state.messages.to_row)
        check_like(like, state.messages.to_column)
        check_like(no_sums(problem, state.semiring), state.messages.sums)

    # ------------------------------------------------------------ one iteration

    def step(
        self, problem: IntegerProblem, state: State, damping: float, out: Beliefs | None = None
    ) -> None:
        """Do one iteration over all entries; the messages of the state are replaced.

        The beliefs afterwards are written to `out`; its columns are the transpose of (N, K).
        """
        n_groups = min(effective_jobs(self.n_jobs), self.store.most_threads, len(problem.blocks))
        n_groups = max(1, n_groups)
        numbers = range(len(problem.blocks))
        groups: list[Iterable[int]] = [numbers[g::n_groups] for g in range(n_groups)]
        if not isinstance(self.store, Files):  # a thread takes the next block when it is free
            groups = [iter(numbers)] * n_groups

        def run(update: Callable[[Iterable[int]], Updated]) -> Iterable[Updated]:
            return run_all(self.pool, update, groups)

        step(problem, state, damping, run, self.reduce, out)

    # ------------------------------------------------------------ beliefs

    def beliefs(self, problem: IntegerProblem, state: State) -> Beliefs:
        """Add the priors of the problem, the sums of the messages and the field."""
        return self.keep_beliefs(problem, state, None)

    def keep_beliefs(
        self, problem: IntegerProblem, state: State, before: KeptBeliefs | None
    ) -> Beliefs:
        """Write the beliefs of this iterate to the arrays that were kept before, if any.

        Priors, field and sums are added in the order of `variables.quantise_and_decode`, so that
        the beliefs are the same to the last bit.
        """
        (M, N), K = problem.shape, problem.n_components
        if before is None:
            rows, columns = np.empty((M, K), np.float32), np.empty((K, N), np.float32)
        else:
            rows, columns = before.rows, before.columns
        sums = messages_of(state).sums
        unit = np.float32(problem.quantization.unit_in(state.semiring))
        # Number of beliefs that are summed at a time.
        at_once = 1 << 15
        field, size = state.field, max(1, at_once // K)

        def of_block(i: int) -> None:
            block, side = problem.blocks[i], sums.rows[i]
            totals, prior = side.table(side.sums), problem.row_prior
            for first in range(block.start, block.stop, size):  # parts that fit into the cache
                some = slice(first, min(block.stop, first + size))
                odds, n = rows[some], some.stop - some.start
                odds[...] = prior if len(prior) == 1 else prior[some]
                if field is not None:
                    odds += field.of_rows(some)
                odds += totals[some.start - block.start :][:n].astype(np.float32) * unit

        list(run_all(self.pool, of_block, range(len(problem.blocks))))
        columns[...] = problem.column_prior
        if field is not None:
            columns += field.of_columns()
        columns.T[...] += sums.columns.table(sums.columns.sums).astype(np.float32) * unit
        return Beliefs(rows, columns)

    def log_posterior(self, problem: IntegerProblem, state: State) -> float:
        """log p(X) + log p(Y) + Σ log p(o|z) of the factors that the beliefs decode to."""
        return self.score(problem, state).log_posterior(problem)

    def score(self, problem: IntegerProblem, state: State) -> Score:
        """The log-posterior in parts; counted again only if a decoded bit has changed."""
        quantise(problem, state)
        messages, last = messages_of(state), self._scored
        sums = messages.sums
        if last is not None and last[:3] == (ref(problem), ref(messages), sums.n_changes):
            return last[3]
        xor = xor_of(problem.model.product)

        def covered(i: int) -> NDArray[np.int64]:
            block = problem.blocks[i]
            counts = variables.count_covered(
                xor, block.for_kernels, sums.rows[i].words, sums.columns.words
            )
            for array in block.arrays:
                release_pages(array)
            return np.array([*counts, 0])

        by_code = sum(run_all(self.pool, covered, range(len(problem.blocks))), np.zeros(3, int))
        of_rows = sum((side.totals for side in sums.rows), np.zeros(2, dtype=np.int64))
        score = Score(by_code, of_rows, sums.columns.totals.copy())
        self._scored = ref(problem), ref(messages), sums.n_changes, score
        return score

    def allows(self, model: Model) -> bool:
        """Whether messages of this kind can represent a model."""
        return model.channel.is_uniform

    def mean_evidence(self, problem: IntegerProblem) -> float:
        """Mean evidence |L| of an observed entry."""
        return problem.mean_evidence(self.observations)


# ---------------------------------------------------------------- shared with the cluster


def integer_problem(
    observations: ObservedEntries,
    model: Model,
    blocks: tuple[IntegerBlock, ...] = (),
    most_in_column: int = 0,
) -> IntegerProblem:
    """Make the problem of observations and a model; a cluster has its blocks elsewhere."""
    shape, K = observations.shape, model.n_components
    base = log_probability_of_zeros(observations, model)
    priors = []
    for odds, n in zip(model.prior_log_odds(shape), shape, strict=True):
        varies = tuple(slice(1) if step == 0 else slice(None) for step in odds.strides)
        priors.append(np.ascontiguousarray(odds[varies], dtype=np.float32))
        base += log_probability_of_priors(priors[-1], n * K)
    quantization = quantization_of(model)
    return IntegerProblem(
        model, shape, priors[0], priors[1], base, quantization, blocks, most_in_column
    )


def log_probability_of_zeros(observations: ObservedEntries, model: Model) -> float:
    """Σ log p(o | z = 0) over all entries, including missing ones if their probability is given."""
    ones = observations.n_ones
    given_zero, _ = model.channel.log_probabilities_by_value()
    total = ones * given_zero[1] + (observations.n_observed - ones) * given_zero[0]
    n_missing = observations.shape[0] * observations.shape[1] - observations.n_observed
    missing = model.channel.missing_given_zero
    if missing is not None and n_missing:
        total += n_missing * float(np.log(np.asarray(missing)))
    return float(total)


def random_field(
    problem: IntegerProblem, n_observed: int, random: np.random.Generator
) -> InitialBeliefs:
    """First beliefs as if from random messages, with the size of a sum of n of them, √n."""
    quantization, (M, N) = problem.quantization, problem.shape
    evidence = quantization.unit * quantization.steps
    by_row, by_column = (evidence * np.sqrt(max(1.0, n_observed / max(1, n))) for n in (M, N))
    return InitialBeliefs.random(
        problem.shape, problem.n_components, (by_row, by_column), quantization.unit / 2, random
    )


def messages_of(state: State) -> IntegerMessages:
    """The messages of a state of this back end."""
    assert isinstance(state.messages, IntegerMessages)
    return state.messages


# ---------------------------------------------------------------- sums of messages


def no_sums(problem: IntegerProblem, semiring: Semiring) -> Sums:
    """Make the sums of neutral messages."""
    K = problem.n_components
    of_rows, of_columns = _sum_types(problem, semiring)
    return Sums(
        rows=[Variables.of(block.stop - block.start, K, of_rows) for block in problem.blocks],
        columns=Variables.of(problem.shape[1], K, of_columns),
        converged_chunks=[np.zeros(block.n_chunks, dtype=bool) for block in problem.blocks],
        ones=[np.zeros((block.n_chunks, 2), dtype=np.int64) for block in problem.blocks],
    )


def _sum_types(problem: IntegerProblem, semiring: Semiring) -> tuple[type[np.signedinteger], ...]:
    """Types for rows and columns: int32, or int64 if the sum of a row or column could overflow.

    This assumes that all messages change from one limit to the other. Max-sum sums of many short
    rows have 16 bits.
    """
    in_row = max((int(np.diff(block.indptr).max(initial=0)) for block in problem.blocks), default=0)
    in_column = problem.most_in_column
    largest = 2 * LARGEST_EVIDENCE * integer_sum_product.LOG_ODDS_STEPS
    kind = np.int32 if max(in_row, in_column) * largest < 2**31 else np.int64
    # With fewer variables than this, compiling a kernel for sums of 16 bits takes more time than it
    # saves.
    worth_it = 1 << 18
    many = problem.shape[0] * problem.n_components >= worth_it
    narrow = many and semiring == "max-sum" and in_row * integer_max_sum.LARGEST_MOVE <= NARROW
    return np.int16 if narrow else kind, kind


def sums_of(
    problem: IntegerProblem, semiring: Semiring, to_row: list[Integers], to_column: list[Integers]
) -> Sums:
    """Add up given messages."""
    sums = no_sums(problem, semiring)
    columns = sums.columns
    blocks = zip(problem.blocks, to_row, to_column, sums.rows, strict=True)
    for block, phi, psi, side in iterate_blocks(blocks, lambda part: (*part[0].arrays, *part[1:3])):
        offsets = problem.offsets(block, semiring)
        row_of = np.repeat(np.arange(block.stop - block.start), np.diff(block.indptr))
        for array, line, of in ((phi, row_of, side), (psi, block.columns, columns)):
            out = of.table(of.sums).T
            for k in range(problem.n_components):
                values = block.from_lanes(array[:, k : k + 1])[:, 0] - offsets
                out[k] += np.bincount(line, values, out.shape[1]).astype(out.dtype)
    return sums


def quantise(problem: IntegerProblem, state: State) -> None:
    """Give the variables of a state the quantised beliefs that it has in this problem."""
    messages = messages_of(state)
    if messages.quantised_for is problem:
        return
    sums, field = messages.sums, state.field
    scale = problem.quantization.scale(state.semiring)
    scratch = variables.scratch_for(problem.n_components)

    def renew(side: Variables, prior: Prior, of_field: Floats | None) -> int:
        unsent = side.changed.copy()
        n_changed = requantise(side, prior, scale, scratch, of_field)
        side.changed |= unsent
        return n_changed

    for block, side in zip(problem.blocks, sums.rows, strict=True):
        of_rows = None if field is None else field.of_rows(block.rows)
        sums.n_changes += renew(side, problem.quantised_row_prior.of(block.rows), of_rows)
    of_columns = None if field is None else field.of_columns().T
    sums.n_changes += renew(sums.columns, problem.quantised_column_prior, of_columns)
    messages.quantised_for = problem


# ---------------------------------------------------------------- one iteration


# Largest change, changed bits of the rows, changes of the column sums.
Updated = tuple[float, int, Integers]


def step(
    problem: IntegerProblem,
    state: State,
    damping: float,
    run: Callable[[Callable[[Iterable[int]], Updated]], Iterable[Updated]],
    reduce: Callable[[Integers], Integers],
    out: Beliefs | None = None,
) -> None:
    """Do one iteration; the state is replaced by the next, whose beliefs are written to `out`.

    `run` maps a function over groups of blocks, each with column sums of its own; integer sums do
    not depend on the grouping. `reduce` adds up the changes of column sums over all parts of the
    matrix. The residual is the largest change, relative to |L| (max-sum) or in log-odds.
    """
    messages, quantization = messages_of(state), problem.quantization
    sums = messages.sums
    quantise(problem, state)
    field = None if state.field is None else state.field.faded(damping)
    setting = (*quantization.levels.tolist(), damping)
    # With other evidence, all messages may change again.
    if sums.last_setting != setting or problem.per_entry is not None:
        for side in (*sums.rows, sums.columns):
            side.changed[:] = True
        sums.last_setting = setting
    # Its multiples fill the unit interval evenly.
    golden = 0.6180339887498949
    iteration = Iteration(
        xor_of(problem.model.product),
        state.semiring,
        quantization,
        damping,
        int((sums.n_steps + 1) * golden % 1.0 * integer_max_sum.DAMPING_STEPS),
        quantization.scale(state.semiring),
        sums.columns,
        problem.quantised_row_prior,
        field,
        problem.per_entry,
        None if out is None else out.rows,
    )

    def one_group(numbers: Iterable[int]) -> Updated:
        return update(iteration, problem.blocks, messages, numbers)

    change, n_changed, column_sums = 0.0, 0, None
    for moved, changed, column_sum in run(one_group):
        change = max(change, moved)
        n_changed += changed
        column_sums = (
            column_sum if column_sums is None else np.add(column_sums, column_sum, out=column_sums)
        )
    if column_sums is None:  # there are no blocks
        column_sums = np.zeros_like(sums.columns.sums)
    sums.columns.sums += reduce(column_sums)
    scratch = variables.scratch_for(problem.n_components)
    of_field = None if field is None else field.of_columns().T
    kept = None if out is None else out.columns.T
    of_columns = requantise(
        sums.columns, problem.quantised_column_prior, iteration.scale, scratch, of_field, kept
    )
    state.n_changed = n_changed, of_columns
    sums.n_changes += sum(state.n_changed)
    if state.semiring == "max-sum":
        state.residual = change
    else:  # one step may be due to rounding
        state.residual = damping * max(0.0, change - 1) / integer_sum_product.LOG_ODDS_STEPS
    ones = sum((ones.sum(axis=0) for ones in sums.ones), np.zeros(2))
    seen_one, seen_zero = (ones / integer_sum_product.ONES_STEPS).tolist()
    state.expected_ones = (seen_one, seen_zero)
    sums.n_steps += 1
    state.field = field
    state.n_iter += 1


@dataclass(frozen=True, eq=False)
class Iteration:
    """The data that all blocks share in an iteration."""

    xor: Xor
    semiring: Literal["max-sum", "sum-product"]
    quantization: Quantization
    damping: float
    phase: int  # in 0 … 127
    scale: variables.Scale
    columns: Variables
    row_prior: Prior
    field: InitialBeliefs | None  # as it is after the step
    per_entry: tuple[integer_sum_product.PerEntry, ...] | None = None  # by block
    row_beliefs: Floats | None = None  # (M, K), where to write them


def update(
    iteration: Iteration,
    blocks: Sequence[IntegerBlock],
    messages: IntegerMessages,
    numbers: Iterable[int],
) -> Updated:
    """Update the messages of some blocks, by their numbers, and the beliefs of their rows.

    Several threads may share an iterator of numbers, if all arrays are in memory. Returns the
    largest change (in max-sum relative to |L|, in sum-product in steps), the number of changed bits
    of the rows, and the changes of the column sums.
    """
    max_sum, sums = iteration.semiring == "max-sum", messages.sums
    columns = _Columns(iteration)
    n_factors = columns.beliefs.shape[1]
    decoding = variables.scratch_for(n_factors)
    if max_sum:
        damping = integer_max_sum.damping_of(iteration.damping)
        scratch = integer_max_sum.scratch_for(n_factors)
        of_ones = ones_kernels.scratch_for(n_factors)
    else:
        steps = integer_max_sum.damping_of(iteration.damping).steps
        by = integer_sum_product.Damping(steps, iteration.phase)
        more = integer_sum_product.scratch_for(n_factors)
    change, n_changed = 0.0, 0

    def arrays_of(i: int) -> tuple[Array, ...]:
        """The large arrays of a block, which may be in files."""
        return (*blocks[i].arrays, messages.to_row[i], messages.to_column[i])

    if not isinstance(numbers, Iterator):
        numbers = iterate_blocks(numbers, arrays_of)
    for i in numbers:
        block, rows = blocks[i], sums.rows[i]
        to_row, to_column = messages.to_row[i].reshape(-1), messages.to_column[i].reshape(-1)
        by_entry = max_sum and messages.to_row[i].ndim == 2
        entries = (block.for_kernels, rows.for_kernels(), columns.of(block, by_entry))
        at_entries = (KernelMessages(to_row, to_column), sums.converged_chunks[i])
        if by_entry:  # ones alone
            bound = int(iteration.quantization.bounds[1])
            moved = ones_kernels.max_sum_of_ones(
                *entries, columns.wide, *at_entries, bound, damping, of_ones
            )
        elif max_sum:
            bounds = iteration.quantization.bounds
            moved = integer_max_sum.max_sum(
                iteration.xor, *entries, *at_entries, bounds, damping, scratch
            )
        else:
            evidence = None if iteration.per_entry is None else iteration.per_entry[i]
            moved = integer_sum_product.sum_product(
                iteration.xor,
                *entries,
                *at_entries,
                iteration.quantization.small,
                by,
                sums.ones[i],
                *more,
                evidence,
            )
        change = max(change, float(moved))
        of_field = None if iteration.field is None else iteration.field.of_rows(block.rows)
        prior = iteration.row_prior.of(block.rows)
        out = None if iteration.row_beliefs is None else iteration.row_beliefs[block.rows]
        n_changed += requantise(rows, prior, iteration.scale, decoding, of_field, out)
    return change, n_changed, columns.changes()


Layout = Literal["dense", "apart", "together"]


class _Columns:
    """Beliefs of the columns in the layouts of blocks, and the changes of their sums.

    There are three layouts. "dense" is (K, N). The others are (N, stride), with each column at a
    multiple of 16 bytes: the changes are "apart" from the beliefs, or "together" with them, if they
    are in 16 bits and both are in the same cache lines; with ten entries per row, that saves an
    eighth of the time. In max-sum, changes are in 16 bits as long as no sum can overflow; if
    messages are by entry, always: the kernel moves full sums to wide ones.
    """

    def __init__(self, iteration: Iteration) -> None:
        self.iteration = iteration
        self.beliefs = iteration.columns.table(iteration.columns.beliefs)
        self.half = groups.padded(self.beliefs.shape[1])
        self._move = int(integer_max_sum.LARGEST_MOVE * min(1.0, iteration.damping + 1 / 128)) + 1
        self._beliefs: dict[Layout, NDArray[np.int16]] = {}
        self._changes: dict[tuple[Layout, bool], Array] = {}  # and whether in 16 bits
        self._reach = {"dense": 0, "together": 0}  # the largest possible sum in 16 bits so far
        self._taken = np.zeros_like(iteration.columns.sums)  # in the layout of the column sums

    @cached_property
    def wide(self) -> ones_kernels.Wide:
        """Where sums of 16 bits go that are full."""
        counts = np.zeros(len(self.beliefs), dtype=np.int32)
        return ones_kernels.Wide(self._taken, counts, NARROW // self._move)

    def of(self, block: IntegerBlock, by_entry: bool) -> groups.Variables:
        """The columns in the layout of a block, whose messages may be by entry."""
        reach = 0 if by_entry else block.most_in_column * self._move
        narrow = self.iteration.semiring == "max-sum" and reach <= NARROW
        layout: Layout = "dense" if block.dense else "together" if narrow else "apart"
        if layout not in self._beliefs:
            self._beliefs[layout] = self._zeros(layout, np.dtype(np.int16))
            self._table(layout, self._beliefs[layout])[...] = self.beliefs
        if (layout, narrow) not in self._changes:
            kind = np.dtype(np.int16) if narrow else self._taken.dtype
            together = layout == "together"
            self._changes[layout, narrow] = (
                self._beliefs[layout][self.half :] if together else self._zeros(layout, kind)
            )
        changes = self._changes[layout, narrow]
        if narrow:
            if self._reach[layout] + reach > NARROW:
                self._take(layout, changes)
                self._table(layout, changes)[...] = 0
                self._reach[layout] = 0
            self._reach[layout] += reach
        changed = self.iteration.columns.changed
        return groups.Variables(self._stride(layout), self._beliefs[layout], changes, changed)

    def _stride(self, layout: Layout) -> int:
        return {"dense": len(self.beliefs), "apart": self.half, "together": 2 * self.half}[layout]

    def _zeros(self, layout: Layout, kind: np.dtype[Any]) -> Array:
        n_columns, n_factors = self.beliefs.shape
        size = n_columns * (n_factors if layout == "dense" else self._stride(layout))
        return groups.arrays_apart([(size + self.half + groups.SLACK, kind)])[0]

    def _table(self, layout: Layout, flat: Array) -> Array:
        """An array of one of the layouts as (N, K)."""
        n_columns, n_factors = self.beliefs.shape
        if layout == "dense":
            return flat[: self.beliefs.size].reshape(n_factors, n_columns).T
        stride = self._stride(layout)
        return flat[: n_columns * stride].reshape(n_columns, stride)[:, :n_factors]

    def _take(self, layout: Layout, changes: Array) -> None:
        groups.add_table(self._table(layout, changes), self._taken)

    def changes(self) -> Array:
        """The changes of the sums by all blocks."""
        for (layout, _), changes in self._changes.items():
            self._take(layout, changes)
        return self._taken
