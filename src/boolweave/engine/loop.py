"""The engine: init → step → converged? over blocks of rows.

`Problem` is fixed, `State` changes, `Result` is what comes out. A block of rows owns its messages
and its rows' beliefs; blocks share only the column beliefs, a sum over blocks that is added up in
their order. So it does not matter how many threads work on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from boolweave.engine import integer_step, integer_sums, integers
from boolweave.engine.evidence import evidence_of
from boolweave.engine.field import Field
from boolweave.engine.kernels import max_sum, sum_product
from boolweave.engine.result import Ending, Result
from boolweave.engine.scoring import Scorer, log_posterior
from boolweave.model.model import Model
from boolweave.model.odds import HARD_BELIEF, with_infinities
from boolweave.runtime.checkpoint import Recorder
from boolweave.runtime.storage import Memory
from boolweave.runtime.threads import run_all, threads

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from numpy.typing import NDArray

    from boolweave.data.observations import Observations

    Floats = NDArray[np.floating[Any]]

Semiring = Literal["max-sum", "sum-product"]

# Entries in a chunk: its scratch arrays stay in the fastest caches for some dozens of factors.
CHUNK = 512

# More blocks than this do not help: a machine has not many more cores, and each block has a column
# sum (K, N) of its own. Fewer entries than MIN_BLOCK are not worth a thread; more than MAX_BLOCK
# are cut further, for a cluster to deal them out.
MAX_BLOCKS = 32
MIN_BLOCK = 2**16
MAX_BLOCK = 2**24

# A run has at least so many iterations: with another model, or other first beliefs, the messages
# need some before their changes tell whether they have settled.
LEAST_ITERATIONS = 3

# Columns are numbered in 32 bits without sign; rows and entries in 64.
MOST_COLUMNS = 2**32


@dataclass(frozen=True, eq=False)
class Block:
    """A run of consecutive rows with entries Ω of their own."""

    start: int
    stop: int
    indptr: NDArray[np.int64]  # (rows + 1,), from 0
    columns: NDArray[np.uint32]  # (entries,)
    evidence: Floats  # L, (entries,)

    def for_kernels(self) -> max_sum.Entries:
        """As kernels take it."""
        return max_sum.Entries(self.indptr, self.columns, self.evidence)

    @property
    def rows(self) -> slice:
        """Which rows of the matrix these are."""
        return slice(self.start, self.stop)

    @property
    def n_entries(self) -> int:
        """Number of entries of Ω in these rows."""
        return len(self.columns)


@dataclass(frozen=True, eq=False)
class Problem:
    """All that stays fixed during a run, as log-odds."""

    model: Model
    shape: tuple[int, int]
    blocks: tuple[Any, ...]  # Block, or integers.CompactBlock where there is a code
    # a (M, K) and b (K, N); where there is a code, with 1 for what they do not depend on
    row_prior: Floats
    column_prior: Floats
    # log p(X = 0, Y = 0, O | Z = 0), from where log-posteriors are counted
    log_probability_of_zeros: float
    code: integers.Code | None = None  # messages are small integers; None: floats
    cluster: Any = None  # who keeps the messages and does the work; None: it is done here
    share: Any = None  # on a worker of a cluster: who adds up columns over all of them
    store: Memory = field(default_factory=Memory)  # where messages are kept

    @cached_property
    def settling_priors(self) -> tuple[integer_sums.Prior, integer_sums.Prior]:
        """Of rows and of columns, as messages that are integers need them."""
        K = self.n_components
        by_column = np.ascontiguousarray(self.column_prior.T)
        return integer_sums.Prior(self.row_prior, K), integer_sums.Prior(by_column, K)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The float type of messages and beliefs."""
        return self.row_prior.dtype

    @property
    def n_components(self) -> int:
        """K."""
        return self.model.n_components

    @property
    def n_entries(self) -> int:
        """|Ω|, the number of entries that carry evidence."""
        return sum(block.n_entries for block in self.blocks)


@dataclass(eq=False)
class State:
    """All that changes from one iteration to the next."""

    semiring: Semiring
    # Φ (max-sum) or e^Φ (sum-product), one (chunks, K, chunk) array per block; integers where the
    # problem has a code
    to_row: list[NDArray[Any]]
    to_column: list[NDArray[Any]]  # Ψ or e^Ψ, likewise
    row_belief: Floats  # Ξ (M, K); where messages are integers, worked out when looked at
    column_belief: Floats  # Υ (K, N), likewise
    n_iter: int = 0
    # Largest change of a message, to a row or to a column, in the last step: in max-sum as a share
    # of its bound |L|, in sum-product in log-odds
    residual: float = np.inf
    n_changed: tuple[int, int] = (0, 0)  # decoded bits of X and of Y that the last step changed
    # Sum-product: the sum of P(z = 1 | o) over the entries with L > 0, and with L < 0.
    expected_ones: tuple[float, float] = (0.0, 0.0)
    sums: integer_sums.Sums | None = None  # of the messages, where they are integers
    field: Field | None = None  # the rest of the first beliefs


@dataclass(eq=False)
class Run:
    """What `run` has done so far: enough to go on with it, together with the problem."""

    state: State
    residuals: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    changes: list[int] = field(default_factory=list)  # of decoded bits
    # log-posterior of the iterate to return, its Ξ and Υ
    best: tuple[float, Any, Any] = (-np.inf, None, None)


# ---------------------------------------------------------------- the problem


def make_problem(
    observations: Observations,
    model: Model,
    dtype: type[np.floating[Any]] = np.float32,
    code: integers.Code | None = None,
    store: Memory | None = None,
) -> Problem:
    """Turn observations and model into log-odds over Ω, cut into blocks of rows.

    Ω is where log p(o|1) ≠ log p(o|0): the observed entries and, where the erasure depends on the
    value, the missing ones. With a `code` (of `integers.code_for`) messages will be integers, with
    the workers of the `cluster` of the observations if they have one, or in the `store`.
    """
    store = store or Memory()
    if observations.shape[1] > MOST_COLUMNS:
        raise ValueError(
            f"at most {MOST_COLUMNS} columns are possible, got {observations.shape[1]}; exchange "
            "rows and columns"
        )
    cluster = getattr(observations, "cluster", None)
    if code is None:
        if cluster is not None:
            raise ValueError("a cluster needs messages that are integers; here they are floats")
        indptr, columns, evidence, base = evidence_of(observations, model)
    else:
        indptr = observations.entries_by_row
        cuts = split_rows(indptr, store.n_blocks)
        if cluster is not None:
            parts = cluster.deal(observations, code, cuts)
        else:
            parts = integers.make_blocks(observations, code, cuts, store)
        return problem_of(observations, model, parts, code, dtype, cluster=cluster, store=store)
    blocks = []
    for start, stop in split_rows(indptr):
        first, last = indptr[start], indptr[stop]
        blocks.append(
            Block(
                start,
                stop,
                indptr[start : stop + 1] - first,
                columns[first:last],
                evidence[first:last].astype(dtype),
            )
        )
    return problem_of(observations, model, tuple(blocks), None, dtype, base)


def problem_of(
    observations: Observations,
    model: Model,
    blocks: tuple[Any, ...],
    code: integers.Code | None,
    dtype: type[np.floating[Any]] = np.float32,
    base: float | None = None,
    **where: Any,
) -> Problem:
    """Add the priors; `base` is the log-probability of the observations where Z = 0."""
    shape = observations.shape
    if base is None:
        base = integers.log_probability_of_zeros(observations, model)
    priors = []
    for odds in model.prior_log_odds(shape):
        own = _without_repeats(odds) if code is not None else odds
        own = np.ascontiguousarray(own, dtype=dtype)
        repeats = odds.size / max(1, own.size)
        soft = np.abs(own) < HARD_BELIEF
        base -= repeats * float(np.logaddexp(0.0, own[soft], dtype=np.float64).sum())
        priors.append(own)
    return Problem(model, shape, blocks, priors[0], priors[1], base, code, **where)


def _without_repeats(array: Floats) -> Floats:
    """The array with 1 for the axes along which it was broadcast."""
    return array[tuple(slice(1) if step == 0 else slice(None) for step in array.strides)]


def with_model(problem: Problem, observations: Observations, model: Model) -> Problem:
    """The same observations with another model, messages of the same kind."""
    if problem.code is None:
        return make_problem(observations, model, problem.dtype.type)
    code = integers.code_of(model)
    blocks = tuple(replace(block, levels=code.levels) for block in problem.blocks)
    where = {"cluster": problem.cluster, "share": problem.share, "store": problem.store}
    return problem_of(observations, model, blocks, code, problem.dtype.type, **where)


def split_rows(indptr: NDArray[np.int64], at_least: int = 1) -> list[tuple[int, int]]:
    """Cut the rows into blocks of about equally many entries, however many threads there are.

    There will be more than MAX_BLOCKS where `at_least` asks for them, or where they would be large.
    """
    n_rows = len(indptr) - 1
    n_entries = int(indptr[-1])
    n_blocks = max(1, min(MAX_BLOCKS, n_entries // MIN_BLOCK), n_entries // MAX_BLOCK)
    n_blocks = min(max(n_blocks, at_least), max(n_rows, 1))
    targets = np.arange(1, n_blocks) * (n_entries / n_blocks)
    cuts = [0, *(int(cut) for cut in np.searchsorted(indptr, targets)), n_rows]
    return [(a, b) for a, b in pairwise(cuts) if b > a]


# ---------------------------------------------------------------- the messages


def chunks_of(block: Block) -> tuple[int, int]:
    """How the entries of a block are laid out: number of chunks, entries in each."""
    size = max(1, min(CHUNK, block.n_entries))
    return -(-block.n_entries // size), size


def pack(problem: Problem, messages: Floats) -> list[Floats]:
    """Messages (|Ω|, K), in the order of Ω by rows, to the arrays that blocks hold."""
    packed, first = [], 0
    for block in problem.blocks:
        n_chunks, size = chunks_of(block)
        flat = np.zeros((n_chunks * size, problem.n_components), problem.dtype)
        flat[: block.n_entries] = messages[first : first + block.n_entries]
        by_chunk = flat.reshape(n_chunks, size, problem.n_components)
        packed.append(np.ascontiguousarray(by_chunk.transpose(0, 2, 1)))
        first += block.n_entries
    return packed


def unpack(problem: Problem, packed: Iterable[Floats]) -> Floats:
    """Inverse of `pack`: (|Ω|, K)."""
    parts = [
        array.transpose(0, 2, 1).reshape(-1, problem.n_components)[: block.n_entries]
        for block, array in zip(problem.blocks, packed, strict=True)
    ]
    return np.concatenate(parts) if parts else np.zeros((0, problem.n_components), problem.dtype)


def init(problem: Problem, random_state: np.random.Generator) -> State:
    """Random messages, and the beliefs that follow from them.

    log U − log(1 − U) as floats. Integer messages begin as nothing, with a random field in the
    place of their sums (see `boolweave.engine.field`).
    """
    if problem.code is not None:
        return init_from(problem, integers.random_field(problem, random_state))
    shape = (problem.n_entries, problem.n_components)
    to_row = pack(problem, random_state.logistic(size=shape))
    to_column = pack(problem, random_state.logistic(size=shape))
    return state_from_messages(problem, to_row, to_column)


def init_from(problem: Problem, field: Field) -> State:
    """Messages that say nothing, beliefs that are the priors and a field."""
    return _without_messages(problem, field)


def init_neutral(problem: Problem) -> State:
    """Messages that say nothing, beliefs that are the priors."""
    return _without_messages(problem, None)


def _without_messages(problem: Problem, field: Field | None) -> State:
    if problem.cluster is not None:
        return problem.cluster.begin(problem, field)
    to_row: Any
    to_column: Any
    if problem.code is not None:
        to_row, to_column = integers.no_messages(problem), integers.no_messages(problem)
        sums = integer_sums.no_sums(problem)
    else:
        nothing = np.zeros((problem.n_entries, problem.n_components))
        to_row, to_column, sums = pack(problem, nothing), pack(problem, nothing), None
    rows, columns = prior_beliefs(problem)
    state = State("max-sum", to_row, to_column, rows, columns, sums=sums, field=field)
    believe(problem, state)
    return state


def believe(problem: Problem, state: State) -> None:
    """Give a state the beliefs of this problem: its priors, the sums of messages, and the field.

    Beliefs hold the priors of the problem that they were made for. Whoever goes on with another
    model begins here.
    """
    if problem.cluster is not None:
        problem.cluster.believe(problem, state)
    elif state.sums is not None:
        integer_sums.believe(problem, state)
    else:
        row_belief, column_belief = _first_sums(problem, state.field)
        for block, phi, psi in zip(problem.blocks, state.to_row, state.to_column, strict=True):
            if state.semiring == "sum-product":
                phi, psi = sum_product.log_odds(phi), sum_product.log_odds(psi)
            of_columns = np.zeros_like(column_belief)
            max_sum.add_up(
                block.for_kernels(),
                max_sum.Messages(phi, psi),
                max_sum.Sides(row_belief[block.rows], of_columns),
            )
            column_belief += of_columns
        state.row_belief, state.column_belief = row_belief, column_belief


def _first_sums(problem: Problem, field: Field | None) -> tuple[Floats, Floats]:
    """What float messages are added to: the priors and the field."""
    row_belief, column_belief = problem.row_prior.copy(), problem.column_prior.copy()
    if field is not None:
        row_belief += field.of_rows(slice(None))
        column_belief += field.of_columns()
    return row_belief, column_belief


def prior_beliefs(problem: Problem) -> tuple[Floats, Floats]:
    """What is believed without any message: a (M, K) and b (K, N), not to be written to."""
    (M, N), K = problem.shape, problem.n_components
    rows = np.broadcast_to(problem.row_prior, (M, K))
    return rows, np.broadcast_to(problem.column_prior, (K, N))


def state_from_messages(
    problem: Problem, to_row: list[NDArray[Any]], to_column: list[NDArray[Any]]
) -> State:
    """A max-sum state with the given messages (floats) and their sums as beliefs."""
    state = State("max-sum", to_row, to_column, *prior_beliefs(problem))
    believe(problem, state)
    return state


def to_sum_product(problem: Problem, state: State) -> State:
    """Go on with sum-product from the messages of a max-sum state."""
    to_row: Any
    to_column: Any
    if problem.cluster is not None:
        return problem.cluster.to_sum_product(problem, state)
    if state.sums is not None:
        sides = (state.to_row, state.to_column)
        to_row, to_column = (integers.to_sum_product(problem, side) for side in sides)
        sums = integer_sums.sums_of(problem, "sum-product", to_row, to_column)
    else:
        limit = float(np.log(sum_product.RATIO_LIMIT))
        to_row, to_column = (
            [np.exp(np.clip(m, -limit, limit), dtype=np.float32) for m in messages]
            for messages in (state.to_row, state.to_column)
        )
        sums = None
    return replace(state, semiring="sum-product", to_row=to_row, to_column=to_column, sums=sums)


def messages_of(problem: Problem, state: State) -> tuple[Floats, Floats]:
    """Φ and Ψ as log-odds, each (entries, K), in the order of the entries by rows."""
    sides = (state.to_row, state.to_column)
    if problem.code is not None:
        to_row, to_column = (integers.log_odds_of(problem, state.semiring, m) for m in sides)
        return to_row, to_column
    to_row, to_column = (unpack(problem, m) for m in sides)
    if state.semiring == "sum-product":
        return np.log(to_row), np.log(to_column)
    return to_row, to_column


# ---------------------------------------------------------------- the loop


def step(
    problem: Problem, state: State, damping: float, pool: ThreadPoolExecutor | None = None
) -> None:
    """One iteration over all of Ω; `state` is replaced by the next."""
    if problem.cluster is not None:
        problem.cluster.step(problem, state, damping)
        return
    if problem.code is not None:
        _compact_step(problem, state, damping, pool)
        return
    field = None if state.field is None else state.field.faded(damping)
    row_belief, column_belief = _first_sums(problem, field)
    row_input, column_input = state.row_belief, state.column_belief
    if state.semiring == "sum-product":
        row_input, column_input = _odds(row_input), _odds(column_input)

    def one_block(i: int) -> tuple[float, Floats, NDArray[np.float64]]:
        block = problem.blocks[i]
        column_sum = np.zeros_like(column_belief)
        expected_ones = np.zeros(2)
        arguments = (
            problem.model.product == "xor",
            block.for_kernels(),
            problem.dtype.type(damping),
            max_sum.Sides(row_input[block.rows], column_input),
            max_sum.Messages(state.to_row[i], state.to_column[i]),
            max_sum.Sides(row_belief[block.rows], column_sum),
        )
        if state.semiring == "sum-product":
            residual = sum_product.sum_product(*arguments, expected_ones)
        else:
            residual = max_sum.max_sum(*arguments)
        return residual, column_sum, expected_ones

    residual, ones = 0.0, np.zeros(2)
    # In the order of the blocks, not of their completion: float sums depend on their order.
    for change, column_sum, block_ones in run_all(pool, one_block, range(len(problem.blocks))):
        column_belief += column_sum
        residual = max(residual, float(change))
        ones += block_ones
    state.n_changed = (
        int(np.count_nonzero((row_belief > 0) != (state.row_belief > 0))),
        int(np.count_nonzero((column_belief > 0) != (state.column_belief > 0))),
    )
    state.row_belief, state.column_belief, state.field = row_belief, column_belief, field
    state.n_iter += 1
    state.residual = residual
    state.expected_ones = (float(ones[0]), float(ones[1]))


def _compact_step(
    problem: Problem, state: State, damping: float, pool: ThreadPoolExecutor | None
) -> None:
    n_threads = 1 if pool is None else pool._max_workers
    n_groups = max(1, min(n_threads, problem.store.most_threads, len(problem.blocks)))
    integer_step.step(
        problem, state, damping, lambda function, groups: run_all(pool, function, groups), n_groups
    )


def _odds(belief: Floats) -> Floats:
    limit = sum_product.BELIEF_LIMIT
    odds = np.exp(np.clip(belief, -limit, limit), dtype=np.float32)
    odds[belief <= -HARD_BELIEF / 2] = 0  # known: no evidence, however strong, moves it
    odds[belief >= HARD_BELIEF / 2] = np.finfo(np.float32).max
    return odds


def converged(state: State, tol: float) -> bool:
    """Whether no message changed by more than `tol` in the last step, and no field is left."""
    return state.field is None and state.residual <= tol


def run(
    problem: Problem,
    state: State,
    observations: Observations,
    *,
    damping: float = 0.4,
    max_iter: int = 200,
    tol: float = 1e-3,
    n_jobs: int | None = None,
    on_iteration: Callable[[int, float, float], None] | None = None,
    recorder: Recorder | None = None,
) -> Result:
    """Iterate from `state` until the messages settle, `max_iter` iterations or Ctrl-C.

    The messages of the state are kept, its beliefs are made anew for this problem.
    `state` is left as it was after the last iteration; the result holds the beliefs of the iterate
    with the highest log-posterior (sum-product: of the last). `on_iteration` is told iteration,
    residual and log-posterior; the `recorder` is given a chance to save after every iteration.
    """
    marginal = state.semiring == "sum-product"
    if recorder is None:
        recorder = Recorder()

    def begin() -> Run:
        believe(problem, state)
        return Run(state)

    with threads(n_jobs) as pool, recorder.frame("run", begin) as at:
        state = at.state
        log_posterior_of = Scorer(problem, pool)
        try:
            while len(at.scores) < max_iter and not (
                len(at.scores) >= LEAST_ITERATIONS and converged(state, tol)
            ):
                step(problem, state, damping, pool)
                score = log_posterior_of(state)
                at.residuals.append(state.residual)
                at.scores.append(score)
                at.changes.append(sum(state.n_changed))
                if marginal or score >= at.best[0]:
                    # marginals are those of the last iterate
                    beliefs = state.row_belief, state.column_belief
                    at.best = (score, *map(_kept, beliefs, at.best[1:]))
                if on_iteration is not None:
                    on_iteration(state.n_iter, state.residual, score)
                recorder.save_if_due()
            ending = Ending.of(converged(state, tol))
        except KeyboardInterrupt:
            ending = Ending.INTERRUPTED
    best = at.best
    if not at.scores:
        best = (log_posterior(problem, state), state.row_belief, state.column_belief)
    return Result(
        model=problem.model,
        observations=observations,
        row_log_odds=with_infinities(best[1]),
        column_log_odds=with_infinities(best[2]),
        log_posterior=best[0],
        ending=ending,
        n_iter=len(at.scores),
        history={
            "residual": np.array(at.residuals, dtype=np.float64),
            "log_posterior": np.array(at.scores, dtype=np.float64),
            "changes": np.array(at.changes, dtype=np.float64),
        },
        marginal=marginal,
    )


def _kept(belief: Any, before: Any) -> Any:
    """Beliefs that the next step does not change, in the place of those kept before."""
    if isinstance(belief, integer_sums.Beliefs):
        return belief.written_to(before)
    return belief  # of floats, and on a cluster, a step makes new ones
