"""The back end of a cluster where all zeros of a row are treated at once.

Every worker runs `SparseBackend` on its rows. The messages of zeros to columns follow from counts
and sums over all rows. These are whole numbers, which are added up over the workers like the
changes of column sums, so that the result is the same bit for bit for any distribution of the rows.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.data.ones import SparseObservations
from boolweave.distributed.backend import ClusterBackend, RemoteMessages, added, part_of
from boolweave.distributed.worker import writable
from boolweave.engine.integers import integer_problem
from boolweave.engine.zeros.backend import (
    SparseMessages,
    SparseProblem,
    SparseScore,
    mean_evidence,
    sparse_problem,
)
from boolweave.engine.zeros.listed import Listed
from boolweave.engine.zeros.wide import wide_start

if TYPE_CHECKING:
    from boolweave.data.observations import Observations
    from boolweave.data.ones import Cells
    from boolweave.engine.backend import AnyBackend, Problem, State
    from boolweave.model.model import Model


class RemoteSparseMessages(RemoteMessages):
    """Messages of ones and of listed zeros, and sums of zeros, that the workers keep."""

    def to_local(self) -> SparseMessages:
        """Fetch all of them."""

        def parts_of(name: str) -> list[Any]:
            return self.cluster.call_all("messages", self.key, name)

        return SparseMessages(
            self.integers("of_ones."),
            np.concatenate(parts_of("rows")),
            writable(parts_of("columns")[0]),
            np.concatenate(parts_of("row_steps")),
            writable(parts_of("column_steps")[0]),
            Listed.joined(parts_of("listed")),
        )


class SparseClusterBackend(ClusterBackend):
    """A `ClusterBackend` with messages of ones and sums of zeros."""

    observations: SparseObservations
    kept_here = SparseMessages
    remote = RemoteSparseMessages

    @cached_property
    def _ones(self) -> Observations:
        return self.observations.as_ones()

    @cached_property
    def ones_by_column(self) -> Cells:
        """The ones by columns."""
        return self.observations.ones.by_columns(self.observations.n_columns)

    def problem(self, model: Model) -> SparseProblem:
        """Make the problem of the observations and a model; its blocks are on the workers."""
        return sparse_problem(
            self.observations, model, lambda model: integer_problem(self._ones, model)
        )

    def random_start(self, problem: SparseProblem, random: np.random.Generator) -> State:
        """Make neutral messages; first beliefs come from ones drawn at random."""
        return self.start(problem, wide_start(self, problem, random))

    def to_floats(self, problem: Problem, state: State) -> tuple[AnyBackend, Problem, State]:
        """Return the arguments, as `SparseBackend` does."""
        return self, problem, state

    def _part(self, messages: Any, rows: slice, blocks: slice) -> SparseMessages:
        return SparseMessages(
            part_of(messages.of_ones, blocks), messages.rows[rows], messages.columns,
            messages.row_steps[rows], messages.column_steps, messages.listed.take_rows(rows),
        )  # fmt: skip

    def _added(self, scores: list[Any]) -> SparseScore:
        n_zeros = sum(score.n_zeros for score in scores)
        return SparseScore(added([score.of_ones for score in scores]), n_zeros)

    def allows(self, model: Model) -> bool:
        """Whether messages of this kind can represent a model."""
        return super().allows(model) and model.product == "or"

    def mean_evidence(self, problem: SparseProblem) -> float:
        """Mean evidence |L| of an observed entry."""
        return mean_evidence(problem, self.observations)
