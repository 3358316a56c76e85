"""A wide start: more factors than are wanted, for some iterations, and the best of them kept.

A pattern may meet two factors at once, or one that another has met; with as many patterns as
factors some factor is then never found. Surplus factors end empty, doubled or inside others, and
these explain little alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from boolweave.engine.field import Field
from boolweave.engine.zeros.patterns import FIRST, LEAST, first_beliefs
from boolweave.engine.zeros.tiles import Tiles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.data.ones import Cells, SparseObservations
    from boolweave.engine.backend import Beliefs, State
    from boolweave.engine.zeros.backend import SparseProblem
    from boolweave.model.model import Model

# Factors to begin with for each that is wanted, the iterations that they have, and their damping.
WIDTH = 1.5
ITERATIONS = 20
DAMPING = 0.4


class WideBackend(Protocol):
    """What a wide start needs of a back end, here or on a cluster."""

    observations: SparseObservations

    @property
    def ones_by_column(self) -> Cells:
        """The ones by columns."""
        ...

    def problem(self, model: Model) -> SparseProblem:
        """Pose the problem of the observations and a model."""
        ...

    def start(self, problem: SparseProblem, field: Field | None = None) -> State:
        """Make messages that say nothing."""
        ...

    def step(self, problem: SparseProblem, state: State, damping: float) -> None:
        """Do one iteration."""
        ...

    def beliefs(self, problem: SparseProblem, state: State) -> Beliefs:
        """The beliefs of a state."""
        ...


def wide_start(backend: WideBackend, problem: SparseProblem, random: np.random.Generator) -> Field:
    """First beliefs of the factors that are wanted, from more of them."""
    n_factors, model = problem.n_components, problem.model
    if n_factors == 1 or not _same_for_all_factors(problem):
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
    """Drop the factor that explains least alone, again and again, until n are left."""
    tiles = Tiles.of_beliefs(beliefs.rows, beliefs.columns)
    kept = np.ones(problem.n_components, dtype=bool)
    for _ in range(problem.n_components - n):
        ones, cells = tiles.alone(backend.observations, kept)
        worth = problem.of_one * ones - problem.strength * (cells - ones)
        kept[np.flatnonzero(kept)[np.argmin(worth[kept])]] = False
    return np.flatnonzero(kept)


def _same_for_all_factors(problem: SparseProblem) -> bool:
    """Whether no prior differs from factor to factor."""
    row_prior, column_prior = (
        np.asarray(prior) for prior in (problem.model.row_prior, problem.model.column_prior)
    )
    of_rows = row_prior.ndim and row_prior.shape[-1] > 1
    return not of_rows and not (column_prior.ndim == 2 and len(column_prior) > 1)
