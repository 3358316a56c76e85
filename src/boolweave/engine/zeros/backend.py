"""The back end for sparse matrices: messages of ones, and all zeros of a row at once.

Another back end keeps the messages of ones, as small integers or floats. Zeros send one number to
each variable (`collective`), which is a field for that back end. Zeros that the decoded factors
cover are the exception, because another factor costs nothing there. They are few in a good answer;
a list of them, made again every few iterations, has messages of its own (`listed`). At the end
stands the search for first factors: patterns that two rows have in common.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from boolweave.data.entries import select_rows
from boolweave.data.ones import Cells, SparseObservations
from boolweave.engine.backend import (
    AnyBackend,
    Backend,
    Beliefs,
    InitialBeliefs,
    KeptBeliefs,
    Messages,
    Problem,
    Semiring,
    State,
    check_like,
    no_array,
)
from boolweave.engine.floats import FloatBackend
from boolweave.engine.footprint import WIDTH, most_listed
from boolweave.engine.integers import IntegerBackend, Part, Score, quantise
from boolweave.engine.zeros.collective import (
    FINE,
    STEPS,
    Side,
    Steps,
    ZeroScale,
    ZeroSums,
    quantised,
    renew_sums,
)
from boolweave.engine.zeros.listed import Listed, ListedSums
from boolweave.engine.zeros.tiles import Tiles
from boolweave.model.model import Model, differ_by_factor
from boolweave.runtime.storage import Memory
from boolweave.runtime.threads import pool_of
from boolweave.runtime.types import Array, Floats, Integers

# Number of iterations after which a new list of covered zeros is made.
REFRESH = 5

# With fewer ones, rows and columns in total, threads take more time than they save.
WORTH_THREADS = 200_000


@dataclass(frozen=True, eq=False)
class SparseProblem(Problem):
    """A problem in which all zeros have the same evidence, and so have all ones."""

    of_ones: Problem  # the problem of the back end that keeps the messages of ones
    strength: float  # λ, the evidence |L| of a zero
    of_one: float  # the evidence of a one
    free: float  # Σ log p(o | z = 0) over all zeros and missing cells

    @cached_property
    def _scales(self) -> dict[Semiring, ZeroScale]:
        return {}

    def scale(self, semiring: Semiring) -> ZeroScale:
        """The steps of beliefs, with their tables, which are made once."""
        return self._scales.setdefault(semiring, ZeroScale(self.strength, semiring))

    def mean_evidence(self, observations: SparseObservations) -> float:
        """Mean evidence |L| of an observed entry."""
        share = observations.share_of_ones
        return share * self.of_one + (1 - share) * self.strength


@dataclass(eq=False)
class SparseMessages(Messages):
    """Messages of ones, sums of the messages of zeros, and messages of the covered zeros."""

    of_ones: Messages
    rows: Floats  # (M, K) sums of the messages of zeros to rows, without the listed ones
    columns: Floats  # (N, K), the same for columns
    row_steps: Steps  # (M, stride) beliefs in the last iteration
    column_steps: Steps  # (N, stride)
    listed: Listed

    def __post_init__(self) -> None:
        # Derived from these: what zeros and a field add to beliefs, and the beliefs in a problem.
        self.field: tuple[InitialBeliefs | None, ZeroField] | None = None
        self.current: tuple[ref[SparseProblem], Beliefs] | None = None
        # Arrays that may be overwritten.
        self.spare: ZeroField | None = None
        self.spare_list: Listed | None = None
        self.spare_beliefs: Beliefs | None = None


@dataclass(frozen=True, eq=False)
class ZeroField:
    """What zeros and first beliefs add to beliefs: a field for the back end of ones."""

    rows: Floats  # (M, K)
    columns: Floats  # (K, N)
    after: ZeroField | None = None  # the field after the iteration

    def of_rows(self, rows: slice) -> Floats:
        """Log-odds of some rows, (rows, K)."""
        return self.rows[rows]

    def of_columns(self) -> Floats:
        """Log-odds of the columns, (K, N)."""
        return self.columns

    def faded(self, damping: float) -> ZeroField | None:
        """The field after an iteration."""
        return self.after


@dataclass(frozen=True, eq=False)
class SparseScore:
    """The contribution of the rows of a problem, or of some of them, to the log-posterior."""

    of_ones: Score
    n_zeros: int  # number of observed zeros that the decoded factors cover

    def log_posterior(self, problem: SparseProblem) -> float:
        """Add evidence and priors to the log-probability of zeros."""
        of_ones = self.of_ones.log_posterior(problem.of_ones)  # type: ignore[arg-type]
        return of_ones + problem.free - problem.strength * self.n_zeros


class SparseBackend:
    """Messages of ones, and all zeros of a row or column at once; for the OR product.

    Parameters
    ----------
    observations : SparseObservations
    integers : bool
        Whether the messages of ones are small integers.
    n_jobs : int, optional
        Number of threads.
    store : Memory, optional
        Where messages of ones are kept if they are integers.
    part : Part, optional
        The rows of a larger matrix to which the observations belong; then messages of ones must be
        integers.
    """

    def __init__(
        self,
        observations: SparseObservations,
        integers: bool = True,
        n_jobs: int | None = None,
        store: Memory | None = None,
        part: Part | None = None,
    ) -> None:
        self.observations, self.part = observations, part
        ones = observations.as_ones()
        self.ones: AnyBackend = (
            IntegerBackend(ones, n_jobs, store, part) if integers else FloatBackend(ones, n_jobs)
        )
        n_lines = sum(observations.shape) + observations.n_ones
        self.pool = pool_of(n_jobs) if n_lines >= WORTH_THREADS else None
        self._scratch: Array | None = None  # of `renew_sums`
        # the last score: problem, messages, iteration; and the number of covered zeros
        self._scored: tuple[ref[Problem], ref[Messages], int, int] | None = None

    def reduce(self, array: Array) -> Array:
        """The sum of an array over all parts of the matrix."""
        return array if self.part is None else self.part.reduce(array)

    @cached_property
    def ones_by_column(self) -> Cells:
        """The ones by columns."""
        return self.observations.ones.by_columns(self.observations.n_columns)

    @cached_property
    def holes_by_column(self) -> Cells:
        """The missing cells by columns."""
        return self.observations.holes.by_columns(self.observations.n_columns)

    def problem(self, model: Model) -> SparseProblem:
        """Make the problem of the observations and a model."""
        return sparse_problem(self.observations, model, self.ones.problem)

    # ------------------------------------------------------------ messages

    def random_start(self, problem: SparseProblem, random: np.random.Generator) -> State:
        """Make neutral messages; first beliefs come from ones drawn at random."""
        return self.start(problem, wide_start(self, problem, random))

    def start(self, problem: SparseProblem, field: InitialBeliefs | None = None) -> State:
        """Make neutral messages; beliefs are the priors and the field."""
        shape, K = problem.shape, problem.n_components
        inner = self.ones.start(problem.of_ones, None)
        assert inner.messages is not None
        rows, columns = (np.zeros((n, K), np.float32) for n in shape)
        row_steps, column_steps = (quantised(n, K, "max-sum") for n in shape)
        listed = Listed.none(shape[0], K)
        messages = SparseMessages(inner.messages, rows, columns, row_steps, column_steps, listed)
        return State(messages, field=field)

    def to_sum_product(self, problem: SparseProblem, state: State) -> State:
        """Convert the messages of max-sum, so that sum-product can continue from them."""
        before, K = messages_of(state), problem.n_components
        inner = self.ones.to_sum_product(problem.of_ones, self._inner(state))
        assert inner.messages is not None
        row_steps, column_steps = (quantised(n, K, "sum-product") for n in problem.shape)
        sums, listed = (before.rows, before.columns), before.listed.to_sum_product(K)
        after = SparseMessages(inner.messages, *sums, row_steps, column_steps, listed)
        return replace(state, messages=after, semiring="sum-product")

    def to_floats(
        self, problem: SparseProblem, state: State
    ) -> tuple[SparseBackend, SparseProblem, State]:
        """Return the arguments: sums of zeros are floats already, and there are many ones."""
        return self, problem, state

    def check(self, problem: SparseProblem, state: State) -> None:
        """Raise ValueError unless the messages of a stored state fit this problem."""
        messages = state.messages
        if not isinstance(messages, SparseMessages):
            raise ValueError("expected messages of ones and sums of zeros")
        (M, N), K = problem.shape, problem.n_components
        check_like(no_array((M, K), np.float32), messages.rows)
        check_like(no_array((N, K), np.float32), messages.columns)
        check_like(quantised(M, K, state.semiring), messages.row_steps)
        check_like(quantised(N, K, state.semiring), messages.column_steps)
        messages.listed.check(problem.shape, K, state.semiring)
        self.ones.check(problem.of_ones, self._inner(state))

    # ------------------------------------------------------------ beliefs

    def beliefs(self, problem: SparseProblem, state: State) -> Beliefs:
        """Add the priors of the problem, the sums of the messages and the field."""
        messages = messages_of(state)
        if messages.current is None or messages.current[0]() is not problem:
            inner = self._inner(state)
            spare = messages.spare_beliefs or _empty_beliefs(problem)
            kept = self.ones.keep_beliefs(problem.of_ones, inner, spare)
            messages.spare_beliefs = None
            messages.current = ref(problem), Beliefs(kept.rows, kept.columns)
        return messages.current[1]

    def keep_beliefs(
        self, problem: SparseProblem, state: State, before: KeptBeliefs | None
    ) -> Beliefs:
        """Keep the beliefs of this iterate; those kept before may be overwritten."""
        now = self.beliefs(problem, state)
        if before is None:
            return Beliefs(now.rows.copy(), np.array(now.columns, order="C"))
        before.rows[...] = now.rows
        before.columns[...] = now.columns
        return Beliefs(before.rows, before.columns)

    def log_posterior(self, problem: SparseProblem, state: State) -> float:
        """log p(X) + log p(Y) + Σ log p(o|z) of the factors that the beliefs decode to."""
        if isinstance(self.ones, IntegerBackend):
            return self.score(problem, state).log_posterior(problem)
        of_ones: float = self.ones.log_posterior(problem.of_ones, self._inner(state))
        return of_ones + problem.free - problem.strength * self._n_covered_zeros(problem, state)

    def score(self, problem: SparseProblem, state: State) -> SparseScore:
        """The log-posterior in parts, if messages of ones are integers."""
        assert isinstance(self.ones, IntegerBackend)
        of_ones = self.ones.score(problem.of_ones, self._inner(state))  # type: ignore[arg-type]
        n_ones = int(of_ones.covered[1])
        return SparseScore(of_ones, self._n_covered_zeros(problem, state, n_ones))

    def _n_covered_zeros(
        self, problem: SparseProblem, state: State, n_ones: int | None = None
    ) -> int:
        """Count the observed zeros that the decoded factors cover, only if a bit has changed.

        `n_ones` is the number of covered ones, if it is known.
        """
        messages = messages_of(state)
        last, changed = self._scored, any(state.n_changed)
        same = last is not None and last[0]() is problem and last[1]() is messages
        if last is None or not same or changed or last[2] != state.n_iter - 1:
            zeros = self._tiles(problem, state).n_covered_zeros(self.observations, n_ones)
        else:
            zeros = last[3]
        self._scored = ref(problem), ref(messages), state.n_iter, zeros
        return zeros

    def _tiles(self, problem: SparseProblem, state: State) -> Tiles:
        """The tiles of the decoded factors."""
        if not isinstance(self.ones, IntegerBackend):
            beliefs = self.beliefs(problem, state)
            return Tiles.of_beliefs(beliefs.rows, beliefs.columns, self.pool)
        inner = self._inner(state)
        quantise(problem.of_ones, inner)  # type: ignore[arg-type]
        sums = inner.messages.sums  # type: ignore[union-attr]
        rows = [side.words for side in sums.rows]
        return Tiles.of_bits(rows, sums.columns.words, problem.n_components, self.pool)

    def allows(self, model: Model) -> bool:
        """Whether messages of this kind can represent a model."""
        return self.ones.allows(model) and model.product == "or"

    def mean_evidence(self, problem: SparseProblem) -> float:
        """Mean evidence |L| of an observed entry."""
        return problem.mean_evidence(self.observations)

    # ------------------------------------------------------------ one iteration

    def step(self, problem: SparseProblem, state: State, damping: float) -> None:
        """Do one iteration over all entries; the messages of the state are replaced."""
        messages, before = messages_of(state), self.beliefs(problem, state)
        if state.n_iter % REFRESH == 0 and state.n_iter:
            self._refresh(problem, state, before)
        now = self._field(state)
        left = None if state.field is None else state.field.faded(damping)
        after = messages.spare or _field_like(messages)
        change = self._renew_sums(problem, state, before, damping, left, after)
        sums = self._listed_sums([messages.listed], after.rows)
        moved, of_zeros = messages.listed.step(problem.strength, damping, before, sums)
        sums.finish(after.columns.T, self.reduce)
        inner = self._inner(state, replace(now, after=after))
        if isinstance(self.ones, IntegerBackend):
            beliefs = messages.spare_beliefs or _empty_beliefs(problem)
            self.ones.step(problem.of_ones, inner, damping, beliefs)  # type: ignore[arg-type]
            messages.current = ref(problem), beliefs
        else:
            self.ones.step(problem.of_ones, inner, damping)
            messages.current = None
        messages.field, messages.spare, messages.spare_beliefs = (left, after), now, before
        state.field = left
        state.n_changed = inner.n_changed
        state.residual = max(inner.residual, moved, damping * change)
        state.expected_ones = (inner.expected_ones[0], of_zeros)
        state.n_iter += 1

    def _renew_sums(
        self,
        problem: SparseProblem,
        state: State,
        before: Beliefs,
        damping: float,
        left: InitialBeliefs | None,
        after: ZeroField,
    ) -> float:
        """Damp the sums of zeros towards those that follow from these beliefs.

        Their sum with the field that is left is written to `after`. Returns the largest change of
        what a variable sends to zeros: in max-sum relative to λ, in sum-product in log-odds.
        """
        messages, scale, pool = messages_of(state), problem.scale(state.semiring), self.pool
        observations, listed = self.observations, messages.listed
        rows, change = Side.of(scale, before.rows, messages.row_steps, pool)
        columns, more = Side.of(scale, before.columns.T, messages.column_steps, pool)
        sums = ZeroSums(messages.rows, messages.columns, after.rows, after.columns.T)
        self._scratch = renew_sums(
            scale,
            rows,
            columns,
            [observations.ones, observations.holes, listed.cells],
            [self.ones_by_column, self.holes_by_column, listed.by_columns(observations.n_columns)],
            damping,
            sums,
            pool,
            left,
            self.reduce,
            self._scratch,
        )
        return max(change, more) / (STEPS if state.semiring == "max-sum" else FINE)

    def _refresh(self, problem: SparseProblem, state: State, before: Beliefs) -> None:
        """Make a new list of the zeros that the decoded factors cover.

        Zeros that join the list no longer count among the other zeros of their rows, and vice
        versa; the sum of all messages stays the same.
        """
        messages = messages_of(state)
        options = {} if self.part is None else {"count_before": self.part.count_before}
        tiles, most = self._tiles(problem, state), most_listed(problem.n_components)
        cells = tiles.covered_zeros(self.observations, most, **options)
        listed = messages.listed.replaced(
            cells, problem.strength, before, self.pool, messages.spare_list
        )
        sums = self._listed_sums([messages.listed, listed], messages.rows)
        messages.listed.add(sums)
        listed.add(sums, -1)
        sums.finish(messages.columns, self.reduce)
        messages.listed, messages.spare_list = listed, messages.listed

    def _listed_sums(self, lists: list[Listed], rows: Floats) -> ListedSums:
        """Sums for listed zeros; for all columns if other workers have other lists."""
        everywhere = self.part is not None
        return ListedSums.of(lists, rows, self.observations.n_columns, everywhere, self.pool)

    # ------------------------------------------------------------ the state of the back end of ones

    def _field(self, state: State) -> ZeroField:
        """What zeros and first beliefs add to beliefs."""
        messages = messages_of(state)
        if messages.field is None or messages.field[0] is not state.field:
            field, first = _field_like(messages), state.field
            of_rows = None if first is None else first.of_rows(slice(None))
            of_columns = None if first is None else first.of_columns()
            _add_field(messages.rows, of_rows, field.rows)
            _add_field(messages.columns.T, of_columns, field.columns)
            sums = self._listed_sums([messages.listed], field.rows)
            messages.listed.add(sums)
            sums.finish(field.columns.T, self.reduce)
            messages.field = state.field, field
        return messages.field[1]

    def _inner(self, state: State, field: ZeroField | None = None) -> State:
        """The state of the back end of ones."""
        field = self._field(state) if field is None else field
        of_ones = messages_of(state).of_ones
        return replace(state, messages=of_ones, field=field)  # type: ignore[arg-type]


def sparse_problem(
    observations: SparseObservations, model: Model, of_ones: Callable[[Model], Problem]
) -> SparseProblem:
    """Make the problem of observations and a model; `of_ones` makes that of the ones."""
    if not model.channel.is_uniform or model.product != "or":
        raise ValueError(
            'zeros="collective" needs the OR product and a channel that is the same for all '
            'entries; use zeros="exact"'
        )
    of_zero, of_one = model.channel.evidence_by_value()
    if not of_zero < 0 < of_one:
        raise ValueError(
            'zeros="collective" needs a channel with one_given_one above one_given_zero, got '
            f"{model.channel}"
        )
    given_zero, _ = model.channel.log_probabilities_by_value()
    free = (observations.n_observed - observations.n_ones) * float(given_zero[0])
    missing = model.channel.missing_given_zero
    if missing is not None and len(observations.holes):
        free += len(observations.holes) * float(np.log(np.asarray(missing)))
    inner = of_ones(model)
    return SparseProblem(
        model,
        observations.shape,
        inner.row_prior,
        inner.column_prior,
        inner.log_probability_of_zeros + free,
        inner,
        -of_zero,
        of_one,
        free,
    )


def messages_of(state: State) -> SparseMessages:
    """The messages of a state of this back end."""
    assert isinstance(state.messages, SparseMessages)
    return state.messages


def _empty_beliefs(problem: SparseProblem) -> Beliefs:
    """Arrays for beliefs."""
    (M, N), K = problem.shape, problem.n_components
    return Beliefs(np.empty((M, K), "f4"), np.empty((N, K), "f4").T)


def _field_like(messages: SparseMessages) -> ZeroField:
    """Arrays like the sums of zeros."""
    return ZeroField(np.empty_like(messages.rows), np.empty_like(messages.columns).T)


def _add_field(sums: Floats, field: Floats | None, out: Floats) -> None:
    """Write the sum of both to `out`."""
    if field is None:
        np.copyto(out, sums)
    else:
        np.add(sums, field, out=out)


# ---------------------------------------------------------------- first factors


# Log-odds of first beliefs, and those below which they are dropped.
FIRST = 8.0
LEAST = 0.01


def first_beliefs(
    observations: SparseObservations, by_column: Cells, n_factors: int, random: np.random.Generator
) -> InitialBeliefs:
    """First beliefs of a number of factors, from patterns that two rows have in common.

    A random factor would cover hardly any ones of a large matrix. Therefore a factor begins at a
    one that no previous factor explains. The columns that its row shares with another row that has
    a one in the same column are a pattern, and the rows with most of the pattern belong to it. A
    few such pairs of rows are tried, and the pattern with most unexplained ones is used.

    Parameters
    ----------
    observations : SparseObservations, (M, N)
    by_column : Cells
        Its ones by columns.
    n_factors : int
    random : numpy Generator
    """
    M, N = observations.shape
    rows, columns = np.full((M, n_factors), -FIRST, "f4"), np.full((n_factors, N), -FIRST, "f4")
    if observations.n_ones:
        patterns = _Patterns(observations.ones, by_column, M, N)
        for k in range(n_factors):
            inside, pattern = patterns.next(random)
            rows[inside, k], columns[k, pattern] = FIRST, FIRST
    return InitialBeliefs.of_log_odds(rows, columns, LEAST)


@dataclass(eq=False)
class _Patterns:
    """The ones of a matrix, and which of them no pattern explains so far."""

    ones: Cells
    by_column: Cells
    n_rows: int
    n_columns: int
    left: NDArray[np.bool_] = field(init=False)  # (ones,)

    def __post_init__(self) -> None:
        self.left = np.ones(len(self.ones), dtype=bool)

    def next(self, random: np.random.Generator) -> tuple[Integers, Integers]:
        """Rows and columns of the best of a few patterns, whose ones are explained from now on."""
        candidates = np.flatnonzero(self.left)
        if not len(candidates):
            candidates = np.arange(len(self.ones))
        best = -np.inf
        # Number of pairs of rows that are tried for a pattern.
        n_pairs = 8
        for _ in range(n_pairs):
            one = int(candidates[random.integers(len(candidates))])
            rows, columns, hits = self._tile(one, random)
            new = int(self.left[hits].sum())
            gain = new - (len(rows) * len(columns) - len(hits))
            if gain > best:
                best, tile, explained = gain, (rows, columns), hits
        self.left[explained] = False
        return tile

    def _tile(self, one: int, random: np.random.Generator) -> tuple[Integers, Integers, Integers]:
        """Rows, columns and ones of a pattern that begins at a one."""
        m = int(np.searchsorted(self.ones.indptr, one, "right")) - 1
        others = _of(self.by_column, int(self.ones.columns[one]))
        other = int(others[random.integers(len(others))])
        shared = np.intersect1d(_of(self.ones, m), _of(self.ones, other), assume_unique=True)
        counts = np.zeros(self.n_rows, dtype=np.int32)
        for n in shared:  # the rows of one column are all different
            counts[_of(self.by_column, int(n))] += 1
        # The minimum fraction of a pattern that a row of it has.
        least = 0.7
        rows = np.flatnonzero(counts >= least * len(shared))
        member = np.zeros(self.n_columns, dtype=bool)
        member[shared] = True
        ones = select_rows(self.ones.indptr, rows)[1]
        return rows, shared, ones[member[self.ones.columns[ones]]]


def _of(cells: Cells, m: int) -> Integers:
    """The columns of a row; of cells by columns, the rows of a column."""
    return cells.columns[cells.indptr[m] : cells.indptr[m + 1]]


# Number of iterations of a start with more factors than are wanted, and damping.
ITERATIONS = 20
DAMPING = 0.4


class WideBackend(Backend["SparseProblem"], Protocol):
    """What a wide start needs, here or on a cluster."""

    observations: SparseObservations

    @property
    def ones_by_column(self) -> Cells:
        """The ones by columns."""
        ...


def wide_start(
    backend: WideBackend, problem: SparseProblem, random: np.random.Generator
) -> InitialBeliefs:
    """First beliefs of the wanted number of factors, from a run with more of them.

    A pattern may belong to two factors at once, or to one that another pattern has found already.
    With as many patterns as factors, some factors would then never be found. Surplus factors become
    empty, duplicates or parts of others, and explain little that no other factor does.
    """
    n_factors, model = problem.n_components, problem.model
    if n_factors == 1 or differ_by_factor(model.row_prior, model.column_prior):
        return first_beliefs(backend.observations, backend.ones_by_column, n_factors, random)
    wide = backend.problem(replace(model, n_components=int(np.ceil(WIDTH * n_factors))))
    field = first_beliefs(backend.observations, backend.ones_by_column, wide.n_components, random)
    state = backend.start(wide, field)
    for _ in range(ITERATIONS):
        backend.step(wide, state, DAMPING)
    beliefs = backend.beliefs(wide, state)
    kept = best_factors(backend, wide, beliefs, n_factors)
    rows, columns = (
        np.clip(np.ascontiguousarray(odds), -FIRST, FIRST)
        for odds in (beliefs.rows[:, kept], beliefs.columns[kept])
    )
    return InitialBeliefs.of_log_odds(rows, columns, LEAST)


def best_factors(
    backend: WideBackend, problem: SparseProblem, beliefs: Beliefs, n: int
) -> NDArray[np.intp]:
    """Drop the factor that explains least by itself, repeatedly, until n are left."""
    tiles = Tiles.of_beliefs(beliefs.rows, beliefs.columns)
    kept = np.ones(problem.n_components, dtype=bool)
    for _ in range(problem.n_components - n):
        ones, cells = tiles.alone(backend.observations, kept)
        worth = problem.of_one * ones - problem.strength * (cells - ones)
        kept[np.flatnonzero(kept)[np.argmin(worth[kept])]] = False
    return np.flatnonzero(kept)
