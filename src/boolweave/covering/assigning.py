"""Fewer assignments: a cover that gives nobody what other factors give already.

A closed cover gives every factor to every row that it fits. Here, factors are taken apart and put
together again (`kernels.assigning`) by simulated annealing, until few rows and columns of factors
are left. The same search keeps to rules that closed covers do not know, and its objective is either
the number of factors first, or the sum of factors and assignments.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from boolweave.covering.kernels.assigning import (
    COLUMN,
    MOST_MISSED,
    N_FACTORS,
    N_MISSED,
    N_WORK,
    PRICE,
    ROW,
    Roles,
    Side,
    add_factor,
    anneal,
    cost_of,
    cover_left,
    prune_all,
    remember,
)
from boolweave.covering.kernels.bounds import nothing_chosen, take
from boolweave.covering.kernels.reducing import Indices
from boolweave.covering.matrix import NO_LEAST, NO_LIMITS, Matrix, Merged, Objective, Requirements
from boolweave.covering.parts import Part
from boolweave.covering.result import differences_of
from boolweave.engine.kernels.bits import Words, members, n_words, pack, random_words, sizes_of
from boolweave.runtime.run import Run
from boolweave.runtime.words import counted
from boolweave.search.table import Bits, transposed

# The steps of the search for each one of the merged matrix, by objective, and the most work of all
# steps: 1.5e9 takes some half a minute.
STEPS_PER_ONE = {"roles": 10, "assignments": 60}
FIRST_STEPS = 1000
MOST_WORK = {"roles": 2e8, "assignments": 1.5e9}
STEPS_AT_ONCE = 64

# The first and the last temperature, in assignments.
TEMPERATURES = (1.0, 0.1)

# Merged matrices with more cells, each of which takes three bytes, keep their closed cover. If ones
# may be missed or covered falsely, lines of a matrix with few cells are not merged, so that each
# entry counts by itself.
MOST_CELLS = 1 << 28
FEW_CELLS = 1 << 16


def with_fewer_assignments(
    matrix: Matrix, required: Requirements, X: Bits, Y: Bits, bound: int, seed: int, run: Run
) -> tuple[Bits, Bits] | None:
    """Rearrange a cover X (M, K), Y (K, N) so that it keeps to all rules with few assignments.

    Return None if the matrix is too large for that, and there are no rules to keep to.

    With ``objective="assignments"``, the search ends if the cost is `bound`, a lower bound of it.

    If only the number of factors counts and there are no rules, the ones that the given cover
    misses and the zeros that it covers may stay as they are; no other exceptions are made.
    """
    target, goal = matrix, required
    if required.objective == "roles" and not required.has_rules:
        target = _product_as_target(matrix, X, Y)
        goal = replace(required, most_missed=0, most_false=0)
    merged = _merged(target, goal)
    n_cells = merged.shape[0] * merged.shape[1]
    if n_cells > MOST_CELLS and required.has_rules:
        raise ValueError(
            "min_rows, min_columns, max_roles_per_row and conflicts need a matrix with at most "
            f"{MOST_CELLS:,} entries after equal rows and columns are merged, but got "
            f"{n_cells:,}; leave them out, or divide the matrix"
        )
    if n_cells > MOST_CELLS:
        return None
    if not n_cells:
        return X, Y
    random = random_words(np.random.default_rng(seed))
    first_columns = np.unique(merged.column_of[merged.column_of >= 0], return_index=True)[1]
    first_columns = np.flatnonzero(merged.column_of >= 0)[first_columns]
    given = pack(X[merged.first_rows].T), pack(Y[:, first_columns])
    roles = _start(merged, goal, given, len(Y), random)
    if goal.objective == "assignments":
        # Greedily chosen factors have mostly fewer assignments than those of a cover with few.
        none = given[0][:0], given[1][:0]
        roles = min(roles, _start(merged, goal, none, len(Y), random), key=cost_of)
    _improve(roles, random, goal.objective, bound, run)
    rows, columns = (side.best for side in roles.sides)
    again = _room_for(merged, goal, len(Y))
    _load(again, rows, columns)
    prune_all(again, random)
    rows, columns = (side.lines for side in again.sides)
    used = (sizes_of(rows) > 0) | (np.arange(len(rows)) < len(goal.fixed))
    X, Y = merged.expanded(rows[used], columns[used])
    Y[: len(goal.fixed)] = goal.fixed
    return X, Y


def _product_as_target(matrix: Matrix, X: Bits, Y: Bits) -> Matrix:
    """The matrix whose ones are those that a cover has; its exceptions may be covered or not."""
    missed, false = differences_of(matrix, X, Y)
    if not len(missed) and not len(false):
        return matrix
    either = np.concatenate([missed, false])
    entries = np.ones(len(either), dtype=np.int8), (either[:, 0], either[:, 1])
    free = sparse.csr_array(entries, shape=matrix.shape)
    ones = sparse.csr_array(matrix.ones - matrix.ones.multiply(free))
    ones.eliminate_zeros()
    if matrix.missing is not None:
        free = sparse.csr_array(free + matrix.missing)
    for part in (ones, free):
        part.sort_indices()
    return replace(matrix, ones=ones, missing=free)


def _merged(matrix: Matrix, goal: Requirements) -> Merged:
    """Merge equal lines where the rules do not tell them apart."""
    exceptions = goal.most_missed > 0 or goal.most_false > 0
    each = exceptions and matrix.shape[0] * matrix.shape[1] <= FEW_CELLS
    rows, columns = (
        most == none and least == 1 and not each
        for most, least, none in zip(goal.limits, goal.least, NO_LIMITS, strict=True)
    )
    apart = np.zeros((0, matrix.shape[1]), dtype=np.uint8)
    if goal.conflicts:
        in_conflict = np.unique(np.concatenate(goal.conflicts))
        apart = np.zeros((len(in_conflict), matrix.shape[1]), dtype=np.uint8)
        apart[np.arange(len(in_conflict)), in_conflict] = 1
    # Lines without ones can make a factor large enough, at the price of false ones.
    with_empty = goal.most_false > 0 and goal.least != NO_LEAST
    fixed = np.concatenate([goal.fixed, apart])
    return Merged.of(matrix, fixed, rows, columns, with_empty=with_empty)


def _room_for(merged: Merged, goal: Requirements, n_factors: int) -> Roles:
    """Memory for the search, without factors but the columns of fixed ones."""
    (M, N), F = merged.shape, len(goal.fixed)
    conflicts = np.zeros((N, N), dtype=bool)
    for columns in goal.conflicts:
        some = merged.column_of[columns]
        some = some[some >= 0]
        conflicts[np.ix_(some, some)] = True
    np.fill_diagonal(conflicts, False)
    most = 2 * n_factors + min(M, N) + 64 + 4 * int(conflicts.any(axis=0).sum())
    weights = merged.row_weight, merged.column_weight
    together = int(weights[0].sum() + weights[1].sum())
    price = 1 if goal.objective == "assignments" else 1 + n_factors * together
    whole = [F, goal.most_factors or most, goal.most_missed, goal.most_false, price]
    limits = [
        np.array([goal.least.rows, goal.limits.rows, goal.most_of_row]),
        np.array([goal.least.columns, goal.limits.columns, NO_LIMITS.columns]),
    ]
    ones = merged.ones, transposed(merged.ones, N)
    roles = no_roles(
        (merged.allowed.rows, merged.allowed.columns),
        ones,
        weights,
        (limits[0], limits[1]),
        pack(conflicts),
        np.array([*whole, price + together]),
        most,
    )
    nothing = np.zeros(n_words(M), dtype=np.uint64)
    outside = np.flatnonzero(merged.column_of < 0)  # columns without ones
    is_outside = goal.fixed[:, outside].sum(axis=1) > 0
    for f in range(F):
        add_factor(roles, f, nothing, 0 * merged.fixed[f] if is_outside[f] else merged.fixed[f])
    return roles


def _start(
    merged: Merged, goal: Requirements, given: tuple[Words, Words], n_factors: int, random: Words
) -> Roles:
    """Take the given factors, cover the ones that are left, and remove what is not needed."""
    roles = _room_for(merged, goal, n_factors)
    _load(roles, *given)
    missed = -1
    while roles.n[N_MISSED] > goal.most_missed and roles.n[N_MISSED] != missed:
        missed = int(roles.n[N_MISSED])
        cover_left(roles, random)
    prune_all(roles, random)
    return roles


def _load(roles: Roles, rows: Words, columns: Words) -> None:
    """Add factors (K, words of M') and (K, words of N') as far as the rules let them be."""
    fixed = np.zeros_like(columns[0]) if len(columns) else columns
    for t in range(len(rows)):
        is_fixed = t < roles.whole[0]
        if roles.n[N_FACTORS] < roles.whole[1] or is_fixed:
            add_factor(roles, t, rows[t], fixed if is_fixed else columns[t])


def _improve(roles: Roles, random: Words, objective: Objective, bound: int, run: Run) -> None:
    """Anneal the factors; the best ones are kept in `roles`."""
    remember(roles)
    best, stop = int(cost_of(roles)), run.stop
    n_ones = int(sizes_of(roles.sides[0].ones).sum())
    most_steps = FIRST_STEPS + STEPS_PER_ONE[objective] * n_ones
    seconds, first_work = run.left(), int(roles.n[N_WORK])
    n_steps, done = 0, 0.0
    is_short = roles.n[N_MISSED] > roles.whole[MOST_MISSED]
    hot, cold = TEMPERATURES
    least = bound if objective == "assignments" else 0
    while done < 1 and best > least and not stop[0]:
        temperature = hot * (cold / hot) ** done
        best = int(anneal(roles, random, STEPS_AT_ONCE, temperature, best, stop))
        n_steps += STEPS_AT_ONCE
        words = "covering ones within the rules" if is_short else _in_words(roles, best, bound)
        run.progress.say(words, min(done, 1.0))
        left = run.left()
        time_done = 0.0 if not seconds or left is None else 1 - left / seconds
        work_done = (int(roles.n[N_WORK]) - first_work) / MOST_WORK[objective]
        done = max(n_steps / most_steps, work_done, time_done)


def _in_words(roles: Roles, best: int, bound: int) -> str:
    """The lowest cost so far, and the lower bound."""
    price = int(roles.whole[PRICE])
    if price == 1:
        return f"{best:,} roles and assignments so far, at least {bound:,} are needed"
    n_factors, n_lines = divmod(best, price)
    words = f"{counted(n_factors, 'role')} with {counted(n_lines, 'assignment')} so far"
    return f"{words}, at least {counted(bound, 'role is', 'roles are')} needed"


def least_assignments(matrix: Matrix) -> int:
    """A lower bound of factors and assignments of covers without exceptions.

    Let I be ones of which no two can share a factor, and let each of them weigh 1 plus the weights
    of its row and its column. Let one entry of every other row weigh as much as its row, and of
    every other column as much as its column. Then no factor costs less than its entries weigh, and
    all factors together cost at least the weight of all entries.
    """
    merged = Merged.of(matrix, np.zeros((0, matrix.shape[1]), dtype=np.uint8))
    ones = merged.list_ones(merged.ones)
    n_rows, n_columns = np.bincount(ones.rows), np.bincount(ones.columns)
    worth = 1 + merged.row_weight[ones.rows] + merged.column_weight[ones.columns]
    best = 0
    for hardest in (n_rows[ones.rows] * n_columns[ones.columns], -worth):
        chosen = nothing_chosen(len(ones.rows))
        part = Part.of(merged, ones)
        take(part.allowed, part.active, part.ones, chosen, np.argsort(hardest, kind="stable"))
        inside = np.flatnonzero(chosen.inside)
        in_row = np.bincount(ones.rows[inside], minlength=merged.shape[0])
        in_column = np.bincount(ones.columns[inside], minlength=merged.shape[1])
        rows = merged.row_weight @ np.maximum(in_row, 1)
        columns = merged.column_weight @ np.maximum(in_column, 1)
        best = max(best, int(len(inside) + rows + columns))
    return best


def no_roles(
    allowed: tuple[Words, Words],
    ones: tuple[Words, Words],
    weight: tuple[Indices, Indices],
    limits: tuple[Indices, Indices],
    conflicts: Words,
    whole: Indices,
    most: int,
) -> Roles:
    """Make room for at most `most` factors; there are none yet, and every one is missed.

    Parameters
    ----------
    allowed, ones : pairs of (M, words of N) and (N, words of M) arrays
        The entries that may be covered, and those that must be.
    weight : pair of (M,) and (N,) arrays
    limits : pair of (3,) arrays
        See `LEAST`.
    conflicts : (N, words of N) array
    whole : (6,) array
        See `N_FIXED`.
    most : int
    """
    shape = M, N = len(weight[0]), len(weight[1])

    def words(*shape: int) -> Words:
        return np.zeros(shape, dtype=np.uint64)

    def side(kind: int) -> Side:
        L, own = shape[kind], n_words(shape[kind])
        apart = conflicts if kind == COLUMN else words(L, own)
        return Side(
            allowed[kind],
            ones[kind],
            ones[kind].copy(),
            np.zeros_like(ones[kind]),
            apart,
            weight[kind],
            limits[kind],
            words(most, own),
            np.zeros(most, dtype=np.int64),
            words(L, n_words(most)),
            np.zeros(L, dtype=np.int64),
            words(most, own),
            words(3, own),
            np.zeros(L, dtype=np.int64),
        )

    missed = sum(
        int(weight[0][row]) * int(weight[1][members(ones[0][row])].sum()) for row in range(M)
    )
    n_ones = sum(len(members(ones[0][row])) for row in range(M))
    n = np.zeros(7, dtype=np.int64)
    n[N_MISSED] = missed
    return Roles(
        (side(ROW), side(COLUMN)),
        whole,
        np.zeros(shape, dtype=np.int16),
        n,
        np.zeros((16 * (M + N) + 4096, 3), dtype=np.int64),
        np.zeros((n_ones + 64, 2), dtype=np.int64),
    )
