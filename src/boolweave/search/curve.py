"""The curve of the fewest errors against the number of factors, and the answer at the best.

Short searches for 1, 2, 4, 8, … factors fill a pool of tiles. Then every rank has several
beginnings: the factors of the rank below and the best tiles of the pool, the factors of a rank
above without the least useful ones, and the result of a short search; each is improved. The ranks
are visited upwards and then downwards.

The curve depends only on the table, not on a seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from boolweave.engine.kernels.bits import pack, random_words, sizes_of
from boolweave.fit.judging import length_in_bits, length_without_factors
from boolweave.fit.rank import RANKS_BEYOND, STEP, rank_left_out
from boolweave.fit.rank_selection import RankSelection
from boolweave.runtime.checkpoint import Recorder
from boolweave.runtime.run import drive
from boolweave.runtime.threads import effective_jobs
from boolweave.search.answer import Answer, answer_of, fewest_errors
from boolweave.search.kernels.descent import add_best, scratch
from boolweave.search.kernels.factors import Factors, Table, cost
from boolweave.search.searching import (
    MOST_WORK,
    Job,
    Options,
    Search,
    Searching,
    check_state,
    compile_kernels,
    improve_factors,
    work_of_refit,
)
from boolweave.search.solutions import Solution, add, distinct_tiles, without_errors
from boolweave.search.starts import pruned
from boolweave.search.table import Bits, shape_of

# The work of a short search, and of one beginning of a rank; see `searching`.
POOL_WORK = 0.03 * MOST_WORK
RANK_WORK = 20e6

# The ranks of short searches grow by this factor, until some in a row gain nothing.
GROWTH = 2


# ---------------------------------------------------------------- what is known


@dataclass(frozen=True, eq=False)
class Point:
    """The factors with the fewest errors at one rank, and the bits that describe them."""

    solution: Solution
    bits: float

    @property
    def rank(self) -> int:
        """The number of factors, empty ones among them."""
        return len(self.solution.Y)


@dataclass(eq=False)
class Tracing:
    """The state of the search for a curve, which a checkpoint saves."""

    pool: list[list[Solution]] = field(default_factory=list)  # of each short search, best first
    points: list[Point] = field(default_factory=list)  # the ranks from the lowest up
    has_pool: bool = False
    is_up: bool = False  # whether all ranks were visited on the way up
    n_down: int = 0  # number of ranks visited on the way down
    has_ended: bool = False  # whether only the search at the best rank is left


def frame(recorder: Recorder, table: Table) -> AbstractContextManager[Tracing]:
    """Open a new state, or that of an interrupted run."""
    recorder.checks[Tracing] = partial(_check, table)
    return recorder.frame("curve", Tracing)


def _check(table: Table, state: object) -> None:
    """Raise ValueError unless a state can belong to this table."""
    if not isinstance(state, Tracing):
        raise ValueError("expected the state of a search for the number of factors")
    found = [*(one for kept in state.pool for one in kept), *(p.solution for p in state.points)]
    if not all(solution.is_of(table, len(solution.Y)) for solution in found):
        raise ValueError("expected factors of this table")


# ---------------------------------------------------------------- the search


@dataclass(eq=False)
class Curve:
    """The search for the fewest errors at every rank.

    Parameters
    ----------
    job : Job
    state : Tracing
        The state, which is updated.
    """

    job: Job
    state: Tracing

    def __post_init__(self) -> None:
        self.table, self.run, self.stop = self.job.table, self.job.run, self.job.run.stop
        self.n_rounds = 0
        exact = without_errors(self.table, min(shape_of(self.table)))
        assert exact is not None
        self.n_most = len(exact.Y)  # more factors cannot explain more
        compile_kernels()

    def trace(self, ranks: Iterable[int] | None) -> None:
        """Visit all ranks that are given and explain more, or as many as are of interest."""
        wanted = None if ranks is None else sorted({min(int(k), self.n_most) for k in ranks})
        state = self.state
        if state.has_ended:
            return
        try:
            self._fill_pool(wanted)
            with ThreadPoolExecutor(effective_jobs(self.run.n_jobs), "boolweave") as self.threads:
                drive(partial(self._go_up, wanted), state, self.run)
                drive(self._go_down, state, self.run)
                if wanted is None:
                    drive(self._fill_in, state, self.run)
        except KeyboardInterrupt as reason:
            if not state.pool:
                raise
            self.run.interrupt(reason)
        if self.stop[0]:
            self._end_early(wanted)
        self._smooth(wanted is None)
        state.has_ended = True

    # ------------------------------------------------------------ the pool of tiles

    def _fill_pool(self, wanted: list[int] | None) -> None:
        """Search for 1, 2, 4, 8, … factors until the description does not become shorter."""
        state, most = self.state, self.n_most if wanted is None else wanted[-1]
        while not state.has_pool:
            last = len(state.pool[-1][0].Y) if state.pool else 0
            rank = min(most, max(1, GROWTH * last))
            self.run.recorder.checks[Searching] = partial(check_state, self.table, rank)
            with self.run.recorder.frame("search", Searching) as at:
                Search(self.job, rank, Options(1, POOL_WORK), seed=0).run(at)
            found: list[Solution] = []
            for solution in [*at.found, *at.kept]:
                found = add(found, solution)
            state.pool.append(found)
            state.has_pool = (
                rank == most
                or found[0].cost == 0
                or bool(self.stop[0])
                or (wanted is None and self._has_failed())
            )

    def _has_failed(self) -> bool:
        """Whether the last short searches did not shorten the description."""
        bits = self._bits_of_pool()
        # The number of short searches in a row that gain nothing.
        most_failed = 2
        return len(bits) - 1 - int(np.argmin(bits)) >= most_failed

    def _bits_of_pool(self) -> list[float]:
        return [min(map(self._bits, found)) for found in self.state.pool]

    @cached_property
    def _tiles(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """All tiles of the pool, packed: (T, words of M) and (T, words of N)."""
        X, Y = distinct_tiles(solution for found in self.state.pool for solution in found)
        return pack(X.T), pack(Y)

    # ------------------------------------------------------------ which ranks

    def _go_up(self, wanted: list[int] | None, state: Tracing) -> bool:
        """Visit the next rank on the way from the lowest to the highest; False at the end."""
        rank = None if state.is_up else self._next(wanted)
        if rank is not None:
            self._visit(rank)
        state.is_up = rank is None
        return not state.is_up

    def _next(self, wanted: list[int] | None) -> int | None:
        """Return the rank that is visited next on the way up; None at the end."""
        points = self.state.points
        if wanted is not None:
            return wanted[len(points)] if len(points) < len(wanted) else None
        if not points:
            return 1
        last, best = points[-1].rank, self.best
        limit = GROWTH * len(self.state.pool[int(np.argmin(self._bits_of_pool()))][0].Y)
        if last >= self.n_most or points[-1].solution.cost == 0:
            return None
        if last >= limit and last - best >= RANKS_BEYOND:
            return None
        return min(self.n_most, last + max(1, last // STEP))

    def _go_down(self, state: Tracing) -> bool:
        """Visit the next rank again, from the highest but one to the lowest; False at the end."""
        if state.n_down >= len(state.points) - 1:
            return False
        self._visit(state.points[-2 - state.n_down].rank)
        state.n_down += 1
        return True

    def _fill_in(self, state: Tracing) -> bool:
        """Visit a rank next to the best one that was left out; False if there is none."""
        rank = rank_left_out([point.rank for point in state.points], self.best)
        if rank is not None:
            self._visit(rank)
        return rank is not None

    def _end_early(self, wanted: list[int] | None) -> None:
        """Score the ranks about which something is known."""
        known = {point.rank for point in self.state.points}
        for found in self.state.pool:
            rank = len(found[0].Y)
            if rank not in known and (wanted is None or rank in wanted):
                for solution in found:
                    self._keep(solution)
        if not self.state.points:
            assert wanted is not None
            with ThreadPoolExecutor(1) as self.threads:
                self._visit(wanted[0])

    # ------------------------------------------------------------ one rank

    def _visit(self, rank: int) -> None:
        """Begin a rank in several ways, improve each, and keep the best."""
        number = [rank, int(self.state.is_up), len(self.state.points)]
        beginnings = self._beginnings(rank)
        futures = [
            self.threads.submit(self._improved, begin, [*number, i])
            for i, begin in enumerate(beginnings)
        ]
        self.run.wait(futures)
        for future in futures:
            self._keep(future.result())
        self.n_rounds += 1
        self.run.progress.round(self.n_rounds, self.point(rank).solution.cost, rank, None)

    def _beginnings(self, rank: int) -> list[Callable[[], Factors]]:
        """The ways to make the first factors of a rank from known solutions."""
        points, table = self.state.points, self.table
        below = max((p for p in points if p.rank < rank), key=lambda p: p.rank, default=None)
        above = min((p for p in points if p.rank > rank), key=lambda p: p.rank, default=None)
        own = [point.solution for point in points if point.rank == rank]
        ways: list[Callable[[], Factors]] = []
        # Maximum number of solutions of one short search with which a rank begins.
        most_beginnings = 3
        if not own:
            ways.append(partial(self._extended, None if below is None else below.solution, rank))
            larger = [found for found in self.state.pool if len(found[0].Y) >= rank]
            if larger:
                first = min(larger, key=lambda found: len(found[0].Y))[:most_beginnings]
                ways += [partial(pruned, table, one.X, one.Y, rank) for one in first]
        if above is not None:
            for given in ([above.solution], [above.solution, *own])[: 1 + len(own)]:
                ways.append(partial(pruned, table, *distinct_tiles(given), rank))
        return ways

    def _extended(self, solution: Solution | None, rank: int) -> Factors:
        """Add tiles of the pool to a solution, each time the one that saves most."""
        M, N = shape_of(self.table)
        X, Y = np.zeros((M, 0), dtype=np.uint8), np.zeros((0, N), dtype=np.uint8)
        if solution is not None:
            X, Y = solution.X, solution.Y
        factors = pruned(self.table, X, Y, rank)
        add_best(self.table, factors, len(Y), *self._tiles, scratch((M, N), rank))
        return factors

    def _improved(self, begin: Callable[[], Factors], number: list[int]) -> Solution:
        factors, random = begin(), random_words(np.random.default_rng(number))
        most = int(RANK_WORK / work_of_refit(self.table))
        # The minimum number of trials of one beginning.
        rank_trials = 10
        least, _ = improve_factors(self.table, factors, random, most, rank_trials, self.stop)
        return Solution.of(least, factors)

    # ------------------------------------------------------------ results

    def point(self, rank: int) -> Point:
        """The best known factors of a rank."""
        (found,) = (point for point in self.state.points if point.rank == rank)
        return found

    @property
    def best(self) -> int:
        """The rank with the shortest description; of equally short ones the lowest."""
        return min(self.state.points, key=lambda point: point.bits).rank

    def _keep(self, solution: Solution) -> None:
        """Keep a solution if it is the best of its rank so far; of two equal ones, the shorter."""
        new, points = Point(solution, self._bits(solution)), self.state.points
        for i, old in enumerate(points):
            if old.rank == new.rank:
                points[i] = min(old, new, key=lambda point: (point.solution.cost, point.bits))
                return
        points.append(new)
        points.sort(key=lambda point: point.rank)

    def _bits(self, solution: Solution) -> float:
        return length_in_bits(solution.X, solution.Y, self._counts(solution))

    def _counts(self, solution: Solution) -> NDArray[np.int64]:
        """Count the entries o where the product is z, [o, z]."""
        ones, zeros, _ = self.table.rows
        products = ~solution.covered, solution.covered
        return np.array(
            [[sizes_of(entries & z).sum() for z in products] for entries in (zeros, ones)]
        )

    def _smooth(self, ends_at_zero: bool) -> None:
        """Make no rank worse than the one below with empty factors; end at a cost of zero."""
        points = self.state.points
        empty = sum(float(np.log2(n + 1)) for n in shape_of(self.table))
        for i in range(1, len(points)):
            before, here = points[i - 1], points[i]
            solution, bits = here.solution, before.bits + (here.rank - before.rank) * empty
            if solution.cost > before.solution.cost:
                old = before.solution
                factors = pruned(self.table, old.X, old.Y, here.rank)
                solution = Solution.of(old.cost, factors)
            points[i] = Point(solution, min(bits, here.bits))
            if ends_at_zero and before.solution.cost == 0:
                del points[i:]
                return

    def add(self, X: Bits, Y: Bits) -> None:
        """Add factors that were found elsewhere, at the lowest rank that has room for them.

        They replace factors of the same cost. The score of the rank does not become worse, so that
        the best rank stays the same.
        """
        points = self.state.points
        for i, old in enumerate(points):
            if old.rank >= len(Y):
                factors = pruned(self.table, X, Y, old.rank)
                new = Solution.of(cost(self.table, factors), factors)
                if new.cost <= old.solution.cost:
                    points[i] = Point(new, min(self._bits(new), old.bits))
                break
        self._smooth(False)

    def selection(self) -> RankSelection:
        """The curve, and the rank with the shortest description."""
        points = self.state.points
        counts = [self._counts(point.solution) for point in points]
        return RankSelection(
            ranks=np.array([point.rank for point in points]),
            scores=np.array([point.bits for point in points]),
            errors=np.zeros(len(points)),
            best=self.best,
            criterion="mdl",
            interrupted=self.run.interrupted,
            costs=np.array([point.solution.cost for point in points]),
            missed=np.array([count[1, 0] for count in counts]),
            false_ones=np.array([count[0, 1] for count in counts]),
            without=length_without_factors(self.job.observations),
        )


# ---------------------------------------------------------------- the whole curve


def search_rank(
    job: Job,
    ranks: Iterable[int] | None = None,
    options: Options = Options(),  # noqa: B008 (frozen)
    seed: int = 0,
    few: bool = False,
) -> tuple[RankSelection, Answer]:
    """Choose a number of factors by description length and search for the fewest errors with it.

    If `few` are wanted, the number is the elbow of the curve. `ranks` are those to choose from;
    `seed` is used by the last search, and the choice does not depend on it.

    Examples
    --------
    >>> from boolweave.datasets import make_boolean
    >>> from boolweave.search.table import pack_table
    >>> observations = make_boolean(60, 50, 2, random_state=0).observations
    >>> selection, answer = search_rank(Job(observations, pack_table(observations)))
    >>> selection.best, answer.Y.shape
    (2, (2, 50))
    """
    # The fraction of the time for the curve if a search for the answer follows.
    share_of_time = 0.4
    with frame(job.run.recorder, job.table) as state:
        curve = Curve(job, state)
        job.run.begin(share_of_time)
        curve.trace(ranks)
        selection = curve.selection()
        best = selection.elbow if few else selection.best
        known = curve.point(best).solution
        if job.run.interrupted:
            answer = answer_of(job, best, Searching(best=known), seed, is_bounded=False)
        else:
            job.run.begin()
            job.run.passed = False  # whether the answer is out of time depends on its own search
            answer = fewest_errors(job, best, options, seed, first=[known])
        if not few:  # the curve by which few were chosen stays as it was
            curve.add(answer.X, answer.Y)
            selection = curve.selection()
    return selection, answer


def trace_curve(job: Job, ranks: Iterable[int] | None = None) -> RankSelection:
    """Find the fewest errors at every rank, without a full search at the chosen rank.

    Examples
    --------
    >>> from boolweave.datasets import make_boolean
    >>> from boolweave.search.table import pack_table
    >>> observations = make_boolean(60, 50, 2, random_state=0).observations
    >>> trace_curve(Job(observations, pack_table(observations)), ranks=[1, 2]).costs[1]
    np.float64(0.0)
    """
    with frame(job.run.recorder, job.table) as state:
        curve = Curve(job, state)
        curve.trace(ranks)
    return curve.selection()
