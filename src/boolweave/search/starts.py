"""The beginnings of a search: tiles found by max-sum, pruned, or chosen by a linear program."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from boolweave.data.observations import Observations
from boolweave.engine.kernels.bits import pack, unpack
from boolweave.engine.quantization import MOST_FACTORS
from boolweave.fit import learn
from boolweave.fit.settings import PAPER_PRIOR, Settings
from boolweave.model.channel import Channel
from boolweave.search.kernels.descent import prune
from boolweave.search.kernels.factors import Factors, Table, best_sets, cost, empty_factors
from boolweave.search.table import Bits, bits_of, factors_of, shape_of

# Number of iterations of max-sum in a start; maximum number of messages that are passed in it: for
# a larger table, it uses a sample of the rows.
N_ITER = 40
MOST_MESSAGES = 4 * 10**8


def max_sum(
    observations: Observations, table: Table, n_components: int, flip: float, seed: int
) -> Factors:
    """Factors that a short run of max-sum finds with this noise."""
    random = np.random.default_rng(seed)
    rows = _sample(observations, n_components, random)
    settings = Settings(
        n_components=n_components,
        product="xor" if table.xor else "or",
        method="max-sum",
        noise=Channel.symmetric(flip),
        row_prior=PAPER_PRIOR,
        column_prior=PAPER_PRIOR,
        max_iter=N_ITER,
        alone=False,
    )
    part = observations if rows is None else observations.take_rows(rows)
    result = learn.fit(part, settings, random)
    X = np.zeros((observations.shape[0], n_components), dtype=np.uint8)
    X[slice(None) if rows is None else rows] = result.X
    return _with_best_rows(table, X, result.Y, from_nothing=rows is not None)


def can_use_max_sum(n_components: int) -> bool:
    """Whether max-sum with this many factors runs on integers; otherwise it is slow."""
    return n_components <= MOST_FACTORS


def _sample(
    observations: Observations, n_components: int, random: np.random.Generator
) -> np.ndarray | None:
    """Choose a sample of the rows if there are too many."""
    M, n_messages = observations.shape[0], observations.n_observed * n_components * N_ITER
    if n_messages <= MOST_MESSAGES:
        return None
    n_rows = max(min(M, 200), int(M * MOST_MESSAGES / n_messages))
    return np.sort(random.choice(M, n_rows, replace=False))


def _with_best_rows(table: Table, X: Bits, Y: Bits, from_nothing: bool) -> Factors:
    """Give each row the factors that are best for it, if they are better than its present ones.

    If the rows of X are a sample, or false ones are not allowed, the rows start without factors.
    """
    weights = table.rows.weights
    least = weights[weights > 0].min(initial=1.0) if len(weights) else 1.0
    everything = cost(table, empty_factors(shape_of(table), 1))
    no_false_ones = table.false_weight * least > everything
    members = pack(np.zeros_like(X) if from_nothing or no_false_ones else X)
    best_sets(table.rows, table.false_weight, table.xor, pack(Y), members)
    return factors_of(table, unpack(members, len(Y)), Y)


def pruned(table: Table, X: Bits, Y: Bits, n_components: int) -> Factors:
    """Drop the least useful tiles until K are left; if there are fewer, add empty ones."""
    n_tiles = len(Y)
    if n_tiles > n_components:
        factors = factors_of(table, X, Y)
        alive = prune(table, factors, n_components)
        X, Y = bits_of(factors)
        X, Y = X[:, alive], Y[alive]
    elif n_tiles < n_components:
        M, N = shape_of(table)
        X = np.hstack([X, np.zeros((M, n_components - n_tiles), dtype=np.uint8)])
        Y = np.vstack([Y, np.zeros((n_components - n_tiles, N), dtype=np.uint8)])
    return factors_of(table, X, Y)


# ---------------------------------------------------------------- a linear program


# Limits of the program that is solved: numbers in its constraints, entries times tiles to set it
# up, steps of the simplex method.
MOST_NUMBERS = 40_000
MOST_CELLS = 3 * 10**8
MOST_STEPS = 20_000


@dataclass(frozen=True, eq=False)
class Choice:
    """Chosen tiles, the work of choosing them, and whether nearly all values were 0 or 1."""

    tiles: NDArray[np.intp]
    work: float
    is_whole: bool


@dataclass(frozen=True, eq=False)
class _Program:
    """Minimize cost · v with A v ≥ low and 0 ≤ v ≤ 1; the first variables are the tiles."""

    cost: NDArray[np.float64]
    A: sparse.csr_array
    low: NDArray[np.float64]
    n_tiles: int


def choose(table: Table, X: Bits, Y: Bits, n_components: int) -> Choice:
    """Choose K tiles with a low cost among X (M, T) and Y (T, N).

    The program has a variable for each tile, for each kind of one (missed unless a tile covers it)
    and for each kind of zero (false if a tile covers it). Entries are of one kind if the same tiles
    cover them. If a few tiles have fractional values, HiGHS searches for whole numbers; if there
    are many, or the program is too large, nothing is chosen and all tiles stay.
    """
    everything = np.arange(len(Y))
    program = _set_up(table, X, Y, n_components)
    if program is None:
        return Choice(everything, 0.0, False)
    # Approximate number of nanoseconds for a number in the constraints.
    work_of_number = 10_000.0
    work = work_of_number * program.A.nnz
    solved = linprog(
        program.cost,
        A_ub=-program.A,
        b_ub=-program.low,
        bounds=(0, 1),
        method="highs-ds",
        options={"maxiter": MOST_STEPS},
    )
    if solved.x is None or solved.status != 0:
        return Choice(everything, work, False)
    shares = solved.x[: program.n_tiles]
    n_between = int(((shares > 1e-6) & (shares < 1 - 1e-6)).sum())
    if n_between > 10 + n_components // 2:
        return Choice(everything, work, False)
    if n_between:
        shares = _whole(program, shares)
    order = np.argsort(-shares, kind="stable")[:n_components]
    return Choice(np.sort(order[shares[order] > 1e-6]), work, True)


def _whole(program: _Program, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Search for a solution in whole numbers; if none is found, return the fractional one."""
    n_more = len(program.cost) - program.n_tiles
    # Maximum number of nodes of the search in whole numbers.
    most_nodes = 100
    found = milp(
        program.cost,
        constraints=LinearConstraint(program.A, program.low, np.inf),
        bounds=Bounds(0, 1),
        integrality=np.concatenate([np.ones(program.n_tiles), np.zeros(n_more)]),
        options={"node_limit": most_nodes, "mip_rel_gap": 0},
    )
    return shares if found.x is None else found.x[: program.n_tiles]


def _set_up(table: Table, X: Bits, Y: Bits, n_components: int) -> _Program | None:
    n_tiles = len(Y)
    if X.shape[0] * Y.shape[1] * n_tiles > MOST_CELLS:
        return None
    ones, n_ones = _kinds(table, X, Y, table.rows.ones)
    zeros, n_zeros = _kinds(table, X, Y, table.rows.zeros)
    if ones.nnz + zeros.nnz > MOST_NUMBERS:
        return None
    kind, tile = zeros.nonzero()
    false = sparse.csr_array(
        (-np.ones(len(tile)), (np.arange(len(tile)), tile)), (len(tile), n_tiles)
    )
    of_kind = sparse.csr_array(
        (np.ones(len(kind)), (np.arange(len(kind)), kind)), (len(kind), len(n_zeros))
    )
    A = sparse.block_array(
        [
            [ones, sparse.eye_array(len(n_ones)), None],
            [false, None, of_kind],
            [sparse.csr_array(-np.ones((1, n_tiles))), None, None],
        ]
    ).tocsr()
    low = np.concatenate([np.ones(len(n_ones)), np.zeros(len(kind)), [-n_components]])
    cost = np.concatenate([np.zeros(n_tiles), n_ones, table.false_weight * n_zeros])
    return _Program(cost, A, low, n_tiles)


def _kinds(
    table: Table, X: Bits, Y: Bits, entries: NDArray[np.uint64]
) -> tuple[sparse.csr_array, NDArray[np.float64]]:
    """The kinds of covered entries: their tiles (kinds, T) and their weights (kinds,)."""
    n_columns, weights = shape_of(table)[1], table.rows.weights
    rows, columns = np.nonzero(unpack(entries, n_columns))
    tiles = X[rows].astype(bool) & Y[:, columns].T.astype(bool)
    covered = tiles.any(axis=1)
    tiles, rows, columns = tiles[covered], rows[covered], columns[covered]
    kinds, which = np.unique(np.packbits(tiles, axis=1), axis=0, return_inverse=True)
    weight = np.ones(len(rows)) if not len(weights) else weights[rows, columns]
    totals = np.bincount(which.ravel(), weights=weight, minlength=len(kinds))
    has = np.unpackbits(kinds, axis=1, count=len(Y))
    return sparse.csr_array(has.astype(np.float64)), totals.astype(np.float64)
