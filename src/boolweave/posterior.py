"""The log-posterior of decoded factors, in parts that can be added up anywhere in any order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave import compact, kernels
from boolweave.model import HARD_BELIEF
from boolweave.threads import run_all

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Parts:
    """What the rows of a problem, or some of them, say."""

    # (3,) entries of each code that the decoded product makes 1; Σ L over them where messages are
    # floats
    covered: Any
    rows: NDArray[np.int64]  # prior log-odds of the ones of X, in the steps of `kernels.decoded`
    columns: NDArray[np.int64]  # and of Y

    def log_posterior(self, problem: Any) -> float:
        """Their sum, from the log-probability of zeros up."""
        explained = self.covered if problem.code is None else self.covered @ problem.code.levels
        coarse, fine = (self.rows + self.columns).tolist()
        priors = coarse / kernels.COARSE + fine / kernels.FINE
        return float(problem.log_probability_of_zeros + explained + priors)


def log_posterior(problem: Any, state: Any, pool: ThreadPoolExecutor | None = None) -> float:
    """log p(X) + log p(Y) + Σ log p(o|z) of the factors that the beliefs decode to."""
    return Scorer(problem, pool)(state)


class Scorer:
    """`log_posterior` of one state after another, counted anew only where a bit has changed."""

    def __init__(self, problem: Any, pool: ThreadPoolExecutor | None) -> None:
        self.problem, self.pool = problem, pool
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
        rows, *of_rows = kernels.decoded(state.row_belief, problem.row_prior, HARD_BELIEF, True)
        columns, *of_columns = kernels.decoded(
            state.column_belief, problem.column_prior, HARD_BELIEF, False
        )
        if last is not None and np.array_equal(rows, last[0]) and np.array_equal(columns, last[1]):
            return last[2]
        found = Parts(self._covered(rows, columns), np.array(of_rows), np.array(of_columns))
        self.last = rows, columns, found
        return found

    def _covered(self, row_words: NDArray[Any], column_words: NDArray[Any]) -> Any:
        """Entries that the decoded product makes 1, by code; of floats, Σ L over them."""
        problem = self.problem

        def by_code(block: compact.CompactBlock) -> NDArray[np.int64]:
            return compact.covered(problem, block, row_words[block.rows], column_words)

        def explained(block: Any) -> float:
            return kernels.explained_evidence(
                problem.model.product == "xor", block.indptr, block.columns, block.evidence,
                row_words[block.rows], column_words,
            )  # fmt: skip

        if problem.code is None:
            return sum(run_all(self.pool, explained, problem.blocks))
        return sum(run_all(self.pool, by_code, problem.blocks), np.zeros(3, dtype=np.int64))
