"""A wide start: some iterations with more factors than are wanted, of which the best are kept.

A pattern may belong to two factors at once, or to one that another pattern has found already. With
as many patterns as factors, some factors would then never be found. Surplus factors become empty,
duplicates or parts of others, and explain little that no other factor does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from boolweave.engine.backend import Backend
from boolweave.engine.field import Field
from boolweave.engine.zeros.patterns import FIRST, LEAST, first_beliefs
from boolweave.engine.zeros.tiles import Tiles
from boolweave.model.model import differ_by_factor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.data.ones import Cells, SparseObservations
    from boolweave.engine.backend import Beliefs
    from boolweave.engine.zeros.backend import SparseProblem

# Number of factors at the beginning for each one that is wanted, number of iterations, and damping.
WIDTH = 1.5
ITERATIONS = 20
DAMPING = 0.4


class WideBackend(Backend["SparseProblem"], Protocol):
    """What a wide start needs, here or on a cluster."""

    observations: SparseObservations

    @property
    def ones_by_column(self) -> Cells:
        """The ones by columns."""
        ...


def wide_start(backend: WideBackend, problem: SparseProblem, random: np.random.Generator) -> Field:
    """First beliefs of the wanted number of factors, from a run with more of them."""
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
    return Field.of_log_odds(rows, columns, LEAST)


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
