"""The back end with messages as small integers: one byte in max-sum, two in sum-product.

It is for channels that are the same for every entry and not almost certain. Sums of integers are
exact, so that threads, blocks and clusters give the same result bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from weakref import ref

import numpy as np

from boolweave.engine.backend import (
    Beliefs,
    KeptBeliefs,
    State,
    check_columns,
    check_like,
    log_probability_of_priors,
    no_array,
    split_rows,
)
from boolweave.engine.field import Field
from boolweave.engine.floats import FloatBackend, FloatMessages, FloatProblem
from boolweave.engine.integer_blocks import (
    IntegerBlock,
    code_of,
    log_probability_of_zeros,
    make_blocks,
)
from boolweave.engine.integer_step import n_covered, step
from boolweave.engine.integer_sums import (
    IntegerMessages,
    IntegerProblem,
    Score,
    messages_of,
    no_sums,
    quantise,
    sums_of,
    unit_of,
)
from boolweave.engine.kernels import groups
from boolweave.engine.kernels import integer_sum_product as sum_product_kernels
from boolweave.engine.kernels.vectors import LANES
from boolweave.model.model import Model
from boolweave.runtime.storage import Files, Memory, iterate_blocks
from boolweave.runtime.threads import effective_jobs, pool_of, run_all

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.data.observations import Observations
    from boolweave.data.observed import ObservedEntries
    from boolweave.engine.backend import Semiring
    from boolweave.runtime.types import Array, Floats, Integers

# Number of messages that are converted at a time, as 32-bit floats.
CONVERTED = 1 << 16

# With at least this many factors, and if all entries are ones, the max-sum messages of an entry are
# stored together; see `kernels.zeros.ones`.
BY_ENTRY = 32

# Number of beliefs that are summed at a time.
AT_ONCE = 1 << 15


@dataclass(frozen=True, eq=False)
class Part:
    """A run of rows of a larger matrix, whose column sums are added up over all runs."""

    cuts: list[tuple[int, int]]  # blocks of the run
    first_row: int  # number of its first row in the matrix
    n_rows: int  # of the matrix
    reduce: Callable[[Array], Array]
    # how many of something there are in the runs above and in all, given how many in this one
    count_before: Callable[[int], tuple[int, int]] = lambda n: (0, n)


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
        seen = self.observations
        by_entry = (
            model.product == "or"
            and model.n_components >= BY_ENTRY
            and seen.n_ones == seen.n_observed
        )
        problem = integer_problem(seen, model, self.blocks, self.most_in_column)
        return replace(problem, by_entry=by_entry)

    # ------------------------------------------------------------ messages

    def random_start(self, problem: IntegerProblem, random: np.random.Generator) -> State:
        """Make neutral messages and a random field."""
        return self.start(problem, random_field(problem, self.observations.n_observed, random))

    def start(self, problem: IntegerProblem, field: Field | None = None) -> State:
        """Make neutral messages; beliefs are the priors and the field."""
        to_row, to_column = self._no_messages(problem), self._no_messages(problem)
        messages = IntegerMessages(to_row, to_column, no_sums(problem, "max-sum"))
        return State(messages, field=field)

    def _no_messages(self, problem: IntegerProblem) -> list[Integers]:
        messages = self.store.zeros(_shapes(problem, "max-sum"), np.uint8)
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
        scale = np.float32(problem.code.unit * sum_product_kernels.LOG_ODDS_STEPS)
        converted = self.store.zeros(_shapes(problem, "sum-product"), np.int16)
        blocks = zip(problem.blocks, packed, converted, strict=True)
        for block, array, out in iterate_blocks(blocks, lambda part: (part[0].codes, *part[1:])):
            if problem.is_by_entry(block):
                for k in range(problem.n_components):
                    out[:, k] = block.to_lanes(np.rint(array[: block.n_entries, k] * scale))
                continue
            zeros = problem.stored_zeros(block)[:, None, :].astype(np.float32)
            step = max(1, CONVERTED // max(1, out[:1].size))
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
        K, unit = problem.n_components, np.float32(problem.code.unit)
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
        like = [no_array(shape, kind) for shape in _shapes(problem, state.semiring)]
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
        step(
            problem, state, damping, lambda update: run_all(self.pool, update, groups), self.reduce,
            out,
        )  # fmt: skip

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
        sums, unit = messages_of(state).sums, np.float32(unit_of(problem.code, state.semiring))
        field, size = state.field, max(1, AT_ONCE // K)

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

        def covered(i: int) -> NDArray[np.int64]:
            return n_covered(problem, problem.blocks[i], sums.rows[i].words, sums.columns.words)

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
        return mean_evidence(problem, self.observations)


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
    code = code_of(model)
    return IntegerProblem(model, shape, priors[0], priors[1], base, code, blocks, most_in_column)


def random_field(problem: IntegerProblem, n_observed: int, random: np.random.Generator) -> Field:
    """First beliefs as if from random messages, with the size of a sum of n of them, √n."""
    code, (M, N) = problem.code, problem.shape
    evidence = code.unit * code.steps
    by_row, by_column = (evidence * np.sqrt(max(1.0, n_observed / max(1, n))) for n in (M, N))
    return Field.random(
        problem.shape, problem.n_components, (by_row, by_column), code.unit / 2, random
    )


def mean_evidence(problem: IntegerProblem, observations: ObservedEntries) -> float:
    """Mean evidence |L| of an observed entry."""
    if not observations.n_observed:
        return 0.0
    of_zero, of_one = np.abs(problem.code.levels[:2]).tolist()
    return float(of_zero + (of_one - of_zero) * observations.share_of_ones)


def _shapes(problem: IntegerProblem, semiring: Semiring) -> list[tuple[int, ...]]:
    """Shapes of the messages of every block, including the number beyond the last entry."""
    K = problem.n_components
    return [
        (block.n_entries + 1, K)
        if semiring == "max-sum" and problem.is_by_entry(block)
        else (block.n_groups, K, LANES)
        for block in problem.blocks
    ]
