"""The search: independent searches with populations of solutions, then one from all their results.

A search begins with max-sum starts and random starts (`starts`), each improved by iterated local
search (`kernels.descent`). Then, round by round, two solutions are joined and pruned to K factors,
or K tiles are chosen from the whole population by a linear program (`choosing`), and improved
again, until as many rounds as were needed to find the best solution, or some, gain nothing. Unless
several independent searches agree, a last one continues from their results.

Limits are in units of work, not of time: a seed gives the same answer on any number of threads,
unless a time limit or Ctrl-C ends the search.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from boolweave.data.observations import Observations
from boolweave.engine.kernels.bits import Words, random_words
from boolweave.fit.settings import FLIPS
from boolweave.runtime.run import Run, drive
from boolweave.runtime.threads import effective_jobs
from boolweave.search import starts
from boolweave.search.kernels.descent import fill, improve, prune, scratch
from boolweave.search.kernels.factors import Entries, Factors, Table, best_sets, empty_factors
from boolweave.search.solutions import Solution, add, distinct, distinct_tiles
from boolweave.search.starts import choose
from boolweave.search.table import bits_of, shape_of

# Number of tasks of a round, for any number of threads.
N_TASKS = 4

# A search ends when this many rounds have gained nothing; one of several independent ones also when
# more rounds have gained nothing than were needed to find its best solution.
PATIENCE = 6

# "auto": the maximum number of independent searches, and how many with the same best cost suffice.
MOST_SEARCHES = 8
N_AGREE = 3

# Work is counted in nanoseconds that a core took when this was written: the minimum work and the
# minimum number of trials of a task, its maximum number of trials for each factor (twice as many if
# there is only one search), the maximum work of all tasks together (about seven seconds of two
# threads) without a time limit, and the fraction of it for one independent search.
TASK_WORK = 50e6
TASK_TRIALS = 50
MOST_TRIALS = 50
MOST_WORK = 14e9
SHARE_OF_SEARCH = 0.3

# After this many rounds, this many of which gained nothing, a task chooses tiles by a linear
# program.
CHOOSE_AFTER = 6
CHOOSE_WHEN_QUIET = (1, 3, 5)

# By how much wide starts are wider.
WIDE = 1.5

# The number of tries for each factor of a random start.
N_TRIES = 8


@dataclass(frozen=True, eq=False)
class Job:
    """A table to search, and the circumstances of the search.

    Parameters
    ----------
    observations : Observations, shape (M, N)
    table : Table
        The same observations, packed.
    run : Run
        Its time limit, progress, checkpoints and threads. Without a limit, there is a fixed amount
        of work.
    """

    observations: Observations
    table: Table
    run: Run = field(default_factory=Run)


@dataclass(frozen=True)
class Options:
    """When a search ends, and whether a lower bound follows.

    Parameters
    ----------
    n_init : int, optional
        The number of independent searches; by default, until some agree.
    most_work : float, optional
        The maximum work of a single independent search, and of all searches without a time limit.
    bound : bool, default=True
        Whether a lower bound of the cost is computed, which takes up to two seconds.
    """

    n_init: int | None = None
    most_work: float | None = None
    bound: bool = True


@dataclass(eq=False)
class Searching:
    """The state of a search between two rounds; a checkpoint keeps it."""

    kept: list[Solution] = field(default_factory=list)  # solutions of the current search
    winners: list[Solution] = field(default_factory=list)  # the best of each independent search
    found: list[Solution] = field(default_factory=list)  # all solutions that they kept
    best: Solution | None = None
    is_last: bool = False  # whether it continues from the results of the others
    n_rounds: int = 0  # of the current search
    n_quiet: int = 0  # rounds since it last found something better
    n_batches: int = 0
    work: float = 0.0
    work_before: float = 0.0  # when the current search began
    chooses: bool = True  # whether the linear program helps: few values are fractional
    history: list[float] = field(default_factory=list)  # the best cost after each round


def work_of_refit(table: Table) -> float:
    """The work of refitting one factor of a table."""
    n_words = table.rows.ones.size + table.columns.ones.size
    # For the refit itself, for each row and column in it, and for each word of 64 entries.
    of_refit, of_line, of_word = 3000.0, 15.0, 2.0
    return of_refit + of_line * sum(shape_of(table)) + of_word * n_words


def improve_factors(
    table: Table,
    factors: Factors,
    random: Words,
    most_refits: int,
    least_trials: int,
    stop: NDArray[np.bool_],
    simplify: bool = False,
    most_trials: int = 100,
) -> tuple[float, int]:
    """Improve factors in place; return their cost and the number of refits. See `improve`.

    `most_trials` is the maximum number of trials for each factor.
    """
    shape, K = shape_of(table), len(factors.rows.patterns)
    kept, memory, most = empty_factors(shape, K), scratch(shape, K), most_trials * K
    cost, n_refits = improve(
        table, factors, kept, memory, random, most_refits, least_trials, most, simplify, stop
    )
    return cost, n_refits


def check_state(table: Table, n_components: int, state: object) -> None:
    """Raise ValueError unless a state can belong to a search in this table."""
    if not isinstance(state, Searching) or not _is_possible(table, n_components, state):
        raise ValueError("expected the state of a search for this many factors of this table")


def _is_possible(table: Table, n_components: int, state: Searching) -> bool:
    """Whether the numbers of a state are in range, and its solutions fit the table."""
    solutions = [*state.kept, *state.winners, *state.found]
    solutions += [] if state.best is None else [state.best]
    measured = (state.work, state.work_before, *state.history)
    return (
        all(type(n) is int and n >= 0 for n in (state.n_rounds, state.n_quiet, state.n_batches))
        and all(isinstance(value, float) and 0 <= value < np.inf for value in measured)
        and all(type(flag) is bool for flag in (state.is_last, state.chooses))
        and all(isinstance(one, Solution) and one.is_of(table, n_components) for one in solutions)
        and (state.best is not None or not solutions)
        and (bool(state.kept) or state.n_rounds == 0)
        and (bool(state.winners) or not state.is_last)
    )


@dataclass(frozen=True, eq=False)
class _Task:
    """The beginning of a task, for one thread."""

    kind: str  # "max-sum", "wide", "fill", "join", "choose", "continue" or "simplify"
    seed: list[int]
    flip: float = 0.0
    given: tuple[Solution, ...] = ()


@dataclass(eq=False)
class _Done:
    """The result of a task, its work, and whether a linear program was nearly integral."""

    solution: Solution
    work: float
    was_whole: bool


@cache
def compile_kernels() -> None:
    """Compile the kernels by calling them once on a tiny table."""
    bit = np.ones((1, 1), dtype=np.uint64)
    entries = Entries(bit, np.zeros_like(bit), np.zeros((0, 0)))
    table, memory = Table(entries, entries, 1.0, False), scratch((1, 1), 1)
    factors, random = empty_factors((1, 1), 1), np.ones(1, dtype=np.uint64)
    never = np.zeros(1, dtype=np.bool_)
    fill(table, factors, memory, random, 1, never)
    improve(table, factors, empty_factors((1, 1), 1), memory, random, 1, 1, 1, False, never)
    prune(table, factors, 0)
    best_sets(entries, 1.0, False, bit, bit.copy())


@dataclass(eq=False)
class Search:
    """A search for K factors of a table.

    Parameters
    ----------
    job : Job
    K : int
    options : Options
    seed : int
    first : sequence of Solution
        Solutions with K factors that are already known; the last search begins from these, too.
    """

    job: Job
    K: int
    options: Options
    seed: int
    first: Sequence[Solution] = ()

    def __post_init__(self) -> None:
        most_work = self.options.most_work
        self.most_work = MOST_WORK if most_work is None else most_work
        self.table, self.stop = self.job.table, self.job.run.stop
        self.is_timed = self.job.run.max_time is not None
        self.refit_work = work_of_refit(self.table)
        # A single search is thorough, because no other one finds what it misses; and so are those
        # of a large table, whose tasks may run out of work: a trial takes some eight refits.
        enough = TASK_WORK / self.refit_work >= 8 * MOST_TRIALS * self.K
        self.is_thorough = self.options.n_init == 1 or not enough

    def run(self, state: Searching) -> Searching:
        """Run rounds until the end; `state` is updated."""
        compile_kernels()
        if state.best is None and self.first:
            state.best = min(self.first, key=lambda solution: solution.cost)
        with ThreadPoolExecutor(effective_jobs(self.job.run.n_jobs), "boolweave") as pool:
            drive(partial(self._step, pool), state, self.job.run)
            if state.best is None:
                raise KeyboardInterrupt
            try:
                self._simplify(state, pool)
            except KeyboardInterrupt as reason:
                self.job.run.interrupt(reason)
        return state

    # ------------------------------------------------------------ when it ends

    def _is_finished(self, state: Searching) -> bool:
        """Whether the search has ended; if only a part has ended, begin the next part."""
        if state.best is not None and (state.best.cost == 0 or self.stop[0]):
            return True
        if state.n_rounds == 0 or not self._part_ends(state):
            return False
        self._end_part(state)
        if state.is_last:
            state.n_batches += 1
            if not self.is_timed or self.options.n_init is not None:
                return True
            if self._has_enough(state) or len(state.winners) >= 100 * MOST_SEARCHES:
                return True
            state.is_last = False
        elif self._searches_end(state):
            alone = len(state.winners) == 1 and (self.options.n_init or not self.is_timed)
            if alone or self._has_enough(state):
                return True
            state.is_last = True
            for solution in [*state.found, *self.first]:
                state.kept = add(state.kept, solution)
        return False

    def _part_ends(self, state: Searching) -> bool:
        """Whether the current search has ended."""
        is_full = state.is_last or self.is_thorough
        patience = PATIENCE if is_full else min(PATIENCE, state.n_rounds - state.n_quiet + 1)
        if state.n_quiet >= patience or self._is_over(state):
            return True
        limit = (1.0 if is_full else SHARE_OF_SEARCH) * self.most_work
        return state.work - state.work_before > limit

    def _end_part(self, state: Searching) -> None:
        if not state.is_last:
            state.winners.append(state.kept[0])
            state.found += state.kept
        state.kept, state.n_rounds, state.n_quiet, state.work_before = [], 0, 0, state.work
        state.chooses = True

    def _searches_end(self, state: Searching) -> bool:
        """Whether there are enough independent searches."""
        n = len(state.winners)
        if self.options.n_init is not None:
            return n >= self.options.n_init
        if self._has_enough(state) or n >= MOST_SEARCHES * (1 + state.n_batches):
            return True
        return state.work > 2 * SHARE_OF_SEARCH * self.most_work * (1 + state.n_batches)

    def _has_enough(self, state: Searching) -> bool:
        """Whether several independent searches found the best cost."""
        assert state.best is not None
        limit = state.best.cost * (1 + 1e-9)
        n_agree = sum(winner.cost <= limit for winner in state.winners)
        return self.options.n_init is None and n_agree >= N_AGREE

    def _is_over(self, state: Searching) -> bool:
        """Whether the work of a search without a time limit is done."""
        return not self.is_timed and state.work > self.most_work

    # ------------------------------------------------------------ rounds

    def _step(self, pool: ThreadPoolExecutor, state: Searching) -> bool:
        """Run a round in threads and keep the best of its results; False at the end."""
        if self._is_finished(state):
            return False
        number = [
            self.seed,
            len(state.winners),
            state.n_batches,
            int(state.is_last),
            state.n_rounds,
        ]
        tasks = self._tasks(state, np.random.default_rng(number), number)
        futures = [pool.submit(self._work_on, task) for task in tasks]
        self.job.run.wait(futures)
        before = state.kept[0].cost if state.kept else np.inf
        for future in futures:
            done = future.result()
            state.kept = add(state.kept, done.solution)
            state.work += done.work
            state.chooses = state.chooses and (
                done.was_whole or (state.is_last and state.n_rounds == 0)
            )
        state.n_rounds += 1
        state.n_quiet = 0 if state.kept[0].cost < before else state.n_quiet + 1
        if state.best is None or state.kept[0].cost < state.best.cost:
            state.best = state.kept[0]
        state.history.append(state.best.cost)
        is_short = self.is_timed or self.options.most_work is not None
        share = None if is_short else state.work / self.most_work
        self.job.run.progress.round(len(state.history), state.best.cost, self.K, share)
        return True

    def _simplify(self, state: Searching, pool: ThreadPoolExecutor) -> None:
        """Take the simplest of the solutions with the lowest cost, and look for simpler ones.

        Many tables have several best solutions. If the simplest one is found, the result does not
        depend on which of them was found first.
        """
        assert state.best is not None
        limit = state.best.cost * (1 + 1e-9)
        # Maximum number of rounds in which simpler solutions of the same cost are searched.
        most_simpler = 4
        for n_round in range(most_simpler if state.best.cost > 0 else 1):
            every = [state.best, *state.kept, *state.winners, *state.found]
            equal = sorted((one for one in every if one.cost <= limit), key=Solution.order)
            before, state.best = state.best.order(), equal[0]
            if self.stop[0] or (n_round > 0 and state.best.order() == before):
                break
            given = distinct(equal, N_TASKS)
            number = [self.seed, len(state.winners), state.n_batches, 2, n_round]
            tasks = [
                _Task("simplify", [*number, i], given=(given[i % len(given)],))
                for i in range(N_TASKS)
            ]
            futures = [pool.submit(self._work_on, task) for task in tasks]
            self.job.run.wait(futures)
            state.found += [future.result().solution for future in futures]
            limit = min(limit, *(one.cost for one in state.found))
        state.best = min([state.best, *state.found], key=Solution.order)
        if state.history:
            state.history[-1] = state.best.cost

    def _tasks(
        self, state: Searching, random: np.random.Generator, number: list[int]
    ) -> list[_Task]:
        """The tasks of the next round."""
        seeds = [[*number, i] for i in range(N_TASKS)]
        # Number of first rounds with starts.
        n_start_rounds = 2
        if not state.is_last and state.n_rounds < n_start_rounds:
            return [self._start(state.n_rounds, i, seed) for i, seed in enumerate(seeds)]
        tasks = []
        for i, seed in enumerate(seeds):
            if i == 0 and self._is_time_to_choose(state):
                others = state.found if state.is_last and state.n_rounds == 0 else []
                tasks.append(_Task("choose", seed, given=(*state.kept, *others)))
            elif len(state.kept) > 1 and random.random() < 0.6:
                a, b = random.choice(len(state.kept), 2, replace=False)
                tasks.append(_Task("join", seed, given=(state.kept[a], state.kept[b])))
            else:
                one = state.kept[random.integers(len(state.kept))]
                tasks.append(_Task("continue", seed, given=(one,)))
        return tasks

    def _is_time_to_choose(self, state: Searching) -> bool:
        """Whether the solutions are so similar that a linear program over their tiles is easy."""
        if self.table.xor or not state.chooses:
            return False
        if state.is_last:
            return state.n_rounds % 2 == 0
        return state.n_rounds >= CHOOSE_AFTER and state.n_quiet in CHOOSE_WHEN_QUIET

    def _start(self, n_round: int, i: int, seed: list[int]) -> _Task:
        """One of the first tasks: every other start uses max-sum if that is fast."""
        kind = ("max-sum", "fill", "wide" if n_round == 0 else "max-sum", "fill")[i]
        flip = FLIPS[(n_round + i // 2) % len(FLIPS)]
        n_factors = self._n_wide if kind == "wide" else self.K
        if kind != "fill" and not starts.can_use_max_sum(n_factors):
            kind = "fill"
        return _Task(kind, seed, flip)

    @property
    def _n_wide(self) -> int:
        return int(np.ceil(WIDE * self.K))

    def _work_on(self, task: _Task) -> _Done:
        """Do a task: make factors and improve them."""
        seeds = np.random.default_rng(task.seed)
        random = random_words(seeds)
        factors, work, was_whole = self._begin(task, seeds)
        if task.kind == "fill":
            memory = scratch(shape_of(self.table), self.K)
            fill(self.table, factors, memory, random, N_TRIES, self.stop)
            work += 2 * N_TRIES * self.K * self.refit_work
        most, simplify = int(TASK_WORK / self.refit_work), task.kind == "simplify"
        most_trials = (2 if self.is_thorough else 1) * MOST_TRIALS
        cost, n_refits = improve_factors(
            self.table, factors, random, most, TASK_TRIALS, self.stop, simplify, most_trials
        )
        work += n_refits * self.refit_work
        return _Done(Solution.of(cost, factors), work, was_whole)

    def _begin(self, task: _Task, seeds: np.random.Generator) -> tuple[Factors, float, bool]:
        """Make the first factors of a task; also return the work of max-sum or a linear program."""
        if task.kind in ("max-sum", "wide"):
            n_factors = self._n_wide if task.kind == "wide" else self.K
            seed = int(seeds.integers(2**31))
            observations = self.job.observations
            factors = starts.max_sum(observations, self.table, n_factors, task.flip, seed)
            n_messages = observations.n_observed * n_factors * starts.N_ITER
            if task.kind == "wide":
                factors = starts.pruned(self.table, *bits_of(factors), self.K)
            # A message takes about a nanosecond.
            return factors, float(min(n_messages, starts.MOST_MESSAGES)), True
        if task.kind == "fill":
            return empty_factors(shape_of(self.table), self.K), 0.0, True
        if task.kind in ("continue", "simplify"):
            return task.given[0].factors(self.table), 0.0, True
        X, Y = distinct_tiles(task.given)
        work, was_whole = 0.0, True
        if task.kind == "choose":
            chosen = choose(self.table, X, Y, self.K)
            work, was_whole = chosen.work, chosen.is_whole
            X, Y = X[:, chosen.tiles], Y[chosen.tiles]
        return starts.pruned(self.table, X, Y, self.K), work, was_whole
