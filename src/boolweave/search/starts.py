"""The starts of a search: tiles found by max-sum, pruned if there are too many, or random ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from boolweave.engine.integer_blocks import MOST_FACTORS
from boolweave.fit import learn
from boolweave.fit.settings import PAPER_PRIOR, Settings
from boolweave.model.channel import Channel
from boolweave.search.kernels.bits import pack, unpack
from boolweave.search.kernels.descent import prune
from boolweave.search.kernels.factors import Factors, cost, empty_factors
from boolweave.search.kernels.lines import best_sets
from boolweave.search.table import bits_of, factors_of, shape_of

if TYPE_CHECKING:
    from boolweave.data.observations import Observations
    from boolweave.search.kernels.factors import Table
    from boolweave.search.table import Bits

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
