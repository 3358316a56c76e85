"""From the best solution of a search to its answer: ordered, pruned and scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from boolweave.engine.kernels.bits import pack, unpack
from boolweave.fit.judging import shares_found
from boolweave.search.bound import is_cheap, lower_bound
from boolweave.search.kernels.descent import DROP_TIES, TAKE_TIES, add_best, descend, refit, scratch
from boolweave.search.kernels.factors import (
    MOST_EXACT,
    Factors,
    Table,
    best_sets,
    cost,
    empty_factors,
    loss,
)
from boolweave.search.searching import Job, Options, Search, Searching, check_state
from boolweave.search.solutions import Solution, enumerated, without_errors
from boolweave.search.table import Bits, bits_of, factors_of, shape_of


@dataclass(frozen=True, eq=False)
class Answer:
    """The factors with the fewest errors that a search found.

    Attributes
    ----------
    X, Y : (M, K) and (K, N) arrays of uint8
        The factors in the order of what they explain: the first one explains most, the second one
        most of the rest. Factors that explain nothing are left out, so that K may be smaller than
        requested.
    cost : float
        Missed ones plus `false_one_weight` times false ones, each with its weight.
    bound : float
        A proven lower bound of the cost of K factors.
    redundancy : (K,) array
        The increase of the cost if a factor is dropped.
    stability : (K,) array
        The fraction of the independent searches that found the factor.
    n_searches, n_rounds : int
        The number of independent searches, and the number of rounds of all searches.
    history : (n_rounds,) array
        The best cost after each round.
    interrupted : bool
        Whether Ctrl-C ended the search.
    passed : bool
        Whether the time limit ended the search.
    """

    X: Bits
    Y: Bits
    cost: float
    bound: float
    redundancy: NDArray[np.float64]
    stability: NDArray[np.float64]
    n_searches: int
    n_rounds: int
    history: NDArray[np.float64]
    interrupted: bool = False
    passed: bool = False


def fewest_errors(
    job: Job,
    n_components: int,
    options: Options = Options(),  # noqa: B008 (frozen)
    seed: int = 0,
    first: Sequence[Solution] = (),
) -> Answer:
    """Find K factors whose product has the fewest errors.

    `first` are solutions with K factors that are already known.

    Examples
    --------
    >>> from boolweave import Observations
    >>> from boolweave.search.searching import Job
    >>> from boolweave.search.table import pack_table
    >>> observations = Observations.from_data([[1, 1, 0], [1, 1, 0], [0, 1, 1]])
    >>> answer = fewest_errors(Job(observations, pack_table(observations)), 2)
    >>> answer.cost, answer.bound
    (0.0, 0.0)
    """
    table, recorder = job.table, job.run.recorder
    exact = without_errors(table, n_components)
    if exact is not None:
        n_components = len(exact.Y)  # more factors cannot explain more
    recorder.checks[Searching] = partial(check_state, table, n_components)
    with recorder.frame("search", Searching) as state:
        Search(job, n_components, options, seed, first).run(state)
        best = exact or (enumerated(table, n_components) if table.xor else None)
        if best is not None and state.best is not None and state.best.cost > best.cost:
            state.best = best
    left = job.run.left()
    # A bound takes about two seconds; if `max_time` leaves less than this, there is none.
    time_of_bound = 3.0
    has_time = not job.run.stop[0] and (left is None or left > time_of_bound)
    return answer_of(job, n_components, state, seed, is_bounded=options.bound and has_time)


def answer_of(
    job: Job, n_components: int, state: Searching, seed: int, *, is_bounded: bool
) -> Answer:
    """Turn the best solution of a search for K factors into an answer, optionally with a bound."""
    assert state.best is not None
    table = job.table
    X, Y = in_order(table, *without_needless(table, *polished(table, state.best, seed)))
    factors = factors_of(table, X, Y)
    total = cost(table, factors)
    return Answer(
        X,
        Y,
        total,
        _bound(table, n_components, X, Y, total) if is_bounded else 0.0,
        losses(table, factors),
        shares_found(X, Y, [(one.X, one.Y) for one in state.winners or [state.best]]),
        max(1, len(state.winners)),
        len(state.history),
        np.array(state.history),
        job.run.interrupted,
        job.run.passed,
    )


def losses(table: Table, factors: Factors) -> NDArray[np.float64]:
    """The increase of the cost if each factor is dropped."""
    memory = np.zeros(max(shape_of(table)))
    K = len(factors.rows.patterns)
    return np.array([loss(table, factors, k, memory) for k in range(K)], dtype=np.float64)


def polished(table: Table, solution: Solution, seed: int) -> tuple[Bits, Bits]:
    """Fit each row, then each column, to all factors at once, and refit, until nothing improves."""
    factors, best = solution.factors(table), solution.cost
    X, Y = solution.X, solution.Y
    memory = scratch(shape_of(table), X.shape[1])
    random, never = np.array([2 * seed + 1], dtype=np.uint64), np.zeros(1, dtype=np.bool_)
    while best > 0:
        if _lines_are_few(table, X.shape[1]):
            factors = factors_of(table, *_best_lines(table, *bits_of(factors)))
        now, _ = descend(table, factors, memory, random, np.int64(50), DROP_TIES, never)
        if now > best or (now == best and X is not solution.X):
            break
        X, Y = bits_of(factors)
        if now == best:
            break
        best = now
    return X, Y


def _lines_are_few(table: Table, n_components: int) -> bool:
    sets = 2**n_components if n_components <= MOST_EXACT else 4 * n_components**2
    # Rows and columns are fitted to all factors at once if that takes at most this many steps.
    most_steps = 2 * 10**8
    return sets * (table.rows.ones.size + table.columns.ones.size) <= most_steps


def _best_lines(table: Table, X: Bits, Y: Bits) -> tuple[Bits, Bits]:
    """The row step, then the column step."""
    K = len(Y)
    rows, columns = pack(X), pack(Y.T)
    how = table.false_weight, table.xor
    best_sets(table.rows, *how, pack(Y), rows)
    X = unpack(rows, K)
    best_sets(table.columns, *how, pack(X.T), columns)
    return X, np.ascontiguousarray(unpack(columns, K).T)


def without_needless(table: Table, X: Bits, Y: Bits) -> tuple[Bits, Bits]:
    """Drop factors whose loss does not raise the cost: empty, repeated or contained ones.

    Then every factor takes all members that cost nothing, and factors that thereby become
    unnecessary are dropped. With XOR, two equal factors cancel, and both are dropped.
    """
    if table.xor:
        tiles = np.hstack([X.T, Y])
        _, first, n_equal = np.unique(tiles, axis=0, return_index=True, return_counts=True)
        odd = np.sort(first[n_equal % 2 == 1])
        return _dropped(table, X[:, odd], Y[odd])
    X, Y = _dropped(table, X, Y)
    if len(Y) == 0:
        return X, Y
    factors = factors_of(table, X, Y)
    memory = scratch(shape_of(table), len(Y))
    for k in range(len(Y)):
        refit(table, factors, k, memory.tile, memory.changed, TAKE_TIES)
    fewer = _dropped(table, *bits_of(factors))
    return fewer if len(fewer[1]) < len(Y) else (X, Y)


def _dropped(table: Table, X: Bits, Y: Bits) -> tuple[Bits, Bits]:
    """Drop factors one by one as long as the cost does not rise."""
    while len(Y):
        lost = losses(table, factors_of(table, X, Y))
        least = int(lost.argmin())
        if lost[least] > 0:
            break
        X, Y = np.delete(X, least, axis=1), np.delete(Y, least, axis=0)
    return X, Y


def in_order(table: Table, X: Bits, Y: Bits) -> tuple[Bits, Bits]:
    """Sort the factors: first the one that explains most, then the one that adds most to it."""
    shape, K = shape_of(table), len(Y)
    chosen = empty_factors(shape, K)
    rows, columns = pack(X.T), pack(Y)
    add_best(table, chosen, 0, rows, columns, scratch(shape, K))
    number = {
        x.tobytes() + y.tobytes(): k for k, (x, y) in enumerate(zip(rows, columns, strict=True))
    }
    tiles = zip(chosen.columns.patterns, chosen.rows.patterns, strict=True)
    order = [number[x.tobytes() + y.tobytes()] for x, y in tiles if x.any()]
    left = [k for k in range(K) if k not in order]  # those that save nothing by themselves
    while left:
        costs = [cost(table, factors_of(table, X[:, [*order, k]], Y[[*order, k]])) for k in left]
        order.append(left.pop(int(np.argmin(costs))))
    return X[:, order], Y[order]


def _bound(table: Table, n_components: int, X: Bits, Y: Bits, total: float) -> float:
    """A lower bound of the cost of K factors if it can be computed quickly, otherwise 0."""
    ones, zeros = (
        unpack(entries, shape_of(table)[1]).astype(bool)
        for entries in (table.rows.ones, table.rows.zeros)
    )
    weights = table.rows.weights if len(table.rows.weights) else None
    problem = ones, zeros, n_components, table.false_weight, weights
    if total == 0 or table.xor or not is_cheap(*problem):
        return 0.0
    # Of small real tables, those whose bound reaches the cost had 98% of it or more after a tenth
    # of the work, and the others at most 92%.
    near = 0.95
    bound = lower_bound(*problem, factors=(X, Y), upper=total, near=near)
    return min(bound, total)
