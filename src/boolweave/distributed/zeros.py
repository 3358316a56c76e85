"""The back end of a cluster where all zeros of a row are treated at once.

Every worker runs `SparseBackend` on its rows. What zeros tell columns follows from counts and sums
over all rows, which are whole numbers and are added up over the workers as the changes of column
sums are: the answer is the same bit for bit, however rows are dealt.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.data.ones import SparseObservations
from boolweave.distributed.backend import ClusterBackend, RemoteMessages, added, part_of
from boolweave.distributed.worker import own
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
    from boolweave.data.ones import Cells
    from boolweave.engine.backend import AnyBackend, Problem, State
    from boolweave.model.model import Model


class SparseClusterBackend(ClusterBackend):
    """Messages of ones, and sums of zeros, with the workers of a cluster; as `ClusterBackend`."""

    observations: SparseObservations
    kept_here = SparseMessages

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.remote = RemoteSparseMessages
        self._ones = self.observations.as_ones()

    @cached_property
    def ones_by_column(self) -> Cells:
        """The ones by columns."""
        return self.observations.ones.by_columns(self.observations.n_columns)

    def problem(self, model: Model) -> SparseProblem:
        """Pose the problem of the observations and a model; blocks are with the workers."""
        return sparse_problem(
            self.observations, model, lambda model: integer_problem(self._ones, model)
        )

    def random_start(self, problem: SparseProblem, random: np.random.Generator) -> State:
        """Make messages that say nothing; first beliefs begin at ones drawn at random."""
        return self.start(problem, wide_start(self, problem, random))

    def to_floats(self, problem: Problem, state: State) -> tuple[AnyBackend, Problem, State]:
        """Stay as it is, as `SparseBackend` does."""
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
        """Whether messages of this kind can be those of a model."""
        return super().allows(model) and model.product == "or"

    def mean_evidence(self, problem: SparseProblem) -> float:
        """What an observed entry says on average, |L|."""
        return mean_evidence(problem, self.observations)


class RemoteSparseMessages(RemoteMessages):
    """Messages of ones and of listed zeros, and sums of zeros, that the workers keep."""

    def to_local(self) -> SparseMessages:
        """Fetch them all."""

        def parts_of(name: str) -> list[Any]:
            return self.cluster.ask_all("messages", self.key, name)

        return SparseMessages(
            self.integers("of_ones."),
            np.concatenate(parts_of("rows")),
            own(parts_of("columns")[0]),
            np.concatenate(parts_of("row_steps")),
            own(parts_of("column_steps")[0]),
            Listed.joined(parts_of("listed")),
        )
