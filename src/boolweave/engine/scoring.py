"""The log-posterior of decoded factors, in parts that can be added up anywhere in any order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.engine import integers
from boolweave.engine.integer_sums import Beliefs
from boolweave.engine.kernels import variables
from boolweave.model.odds import HARD_BELIEF
from boolweave.runtime.threads import run_all

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Parts:
    """What the rows of a problem, or some of them, say."""

    # (3,) entries of each code that the decoded product makes 1; Σ L over them where messages are
    # floats
    covered: Any
    rows: NDArray[np.int64]  # prior log-odds of the ones of X, in the steps of `variables.decoded`
    columns: NDArray[np.int64]  # and of Y

    def log_posterior(self, problem: Any) -> float:
        """Their sum, from the log-probability of zeros up."""
        explained = self.covered if problem.code is None else self.covered @ problem.code.levels
        coarse, fine = (self.rows + self.columns).tolist()
        priors = coarse / variables.COARSE + fine / variables.FINE
        return float(problem.log_probability_of_zeros + explained + priors)


def log_posterior(problem: Any, state: Any, pool: ThreadPoolExecutor | None = None) -> float:
    """log p(X) + log p(Y) + Σ log p(o|z) of the factors that the beliefs decode to."""
    return Scorer(problem, pool)(state)


class Scorer:
    """`log_posterior` of one state after another, counted anew only where a bit has changed."""

    def __init__(self, problem: Any, pool: ThreadPoolExecutor | None) -> None:
        self.problem, self.pool = problem, pool
        # decoded bits, or sums and the number of their changes; and what came of them
        self.last: tuple[Any, Any, Parts] | None = None

    def __call__(self, state: Any) -> float:
        """The log-posterior of what the beliefs of a state decode to."""
        problem = self.problem
        found = (
            self.parts(state) if problem.cluster is None else problem.cluster.parts(problem, state)
        )
        return found.log_posterior(problem)

    def parts(self, state: Any) -> Parts:
        """The same, in parts."""
        problem, last = self.problem, self.last
        if self._are_decoded(state):
            sums = state.sums
            if last is not None and last[0] is sums and last[1] == sums.n_changes:
                return last[2]
            covered = self._covered([side.words for side in sums.rows], sums.columns.words)
            of_rows = sum((side.totals for side in sums.rows), np.zeros(2, dtype=np.int64))
            found = Parts(covered, of_rows, sums.columns.totals.copy())
            self.last = sums, sums.n_changes, found
            return found
        (M, N), K = problem.shape, problem.n_components
        rows, *of_rows = _decoded(state.row_belief, problem.row_prior, (M, K), True)
        columns, *of_columns = _decoded(state.column_belief, problem.column_prior, (K, N), False)
        if last is not None and np.array_equal(rows, last[0]) and np.array_equal(columns, last[1]):
            return last[2]
        by_block = [rows[block.rows] for block in problem.blocks]
        found = Parts(self._covered(by_block, columns), np.array(of_rows), np.array(of_columns))
        self.last = rows, columns, found
        return found

    def _are_decoded(self, state: Any) -> bool:
        """Whether the last step of the state has written down its bits, and with these priors."""
        sides = (state.row_belief, state.column_belief)
        priors = (self.problem.row_prior, self.problem.column_prior)
        return all(
            isinstance(belief, Beliefs) and belief.sums is state.sums and belief.prior is prior
            for belief, prior in zip(sides, priors, strict=True)
        )

    def _covered(self, row_words: list[Any], column_words: NDArray[Any]) -> Any:
        """Entries that the decoded product makes 1, by code; of floats, Σ L over them.

        row_words is a list, by block.
        """
        problem = self.problem

        def by_code(i: int) -> NDArray[np.int64]:
            return integers.covered(problem, problem.blocks[i], row_words[i], column_words)

        def explained(i: int) -> float:
            block = problem.blocks[i]
            return variables.explained_evidence(
                True if problem.model.product == "xor" else None,
                block.for_kernels(),
                row_words[i],
                column_words,
            )

        numbers = range(len(problem.blocks))
        if problem.code is None:
            return sum(run_all(self.pool, explained, numbers))
        return sum(run_all(self.pool, by_code, numbers), np.zeros(3, dtype=np.int64))


def _decoded(belief: Any, prior: Any, shape: tuple[int, int], by_row: bool) -> Any:
    """`variables.decoded` of beliefs from anywhere."""
    prior = np.ascontiguousarray(np.broadcast_to(prior, shape))
    belief = np.ascontiguousarray(belief, dtype=prior.dtype)
    return variables.decoded(belief, prior, HARD_BELIEF, by_row)
