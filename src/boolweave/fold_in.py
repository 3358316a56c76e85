"""Rows of a factor where the other factor is known: new rows, or old ones once more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave import kernels
from boolweave.message_passing import Problem, init_neutral, open_ended, prior_beliefs, step
from boolweave.threads import run_all, threads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]

# Messages to rows whose components are known settle within some 20 iterations, or never. The number
# is fixed, so that what a row gets does not depend on the rows beside it.
ITERATIONS = 30


def fold_in(
    problem: Problem, damping: float = 0.4, n_jobs: int | None = None
) -> tuple[NDArray[np.uint8], Floats]:
    """Row factors (M, K) and their log-odds where the column factor is known, each row by itself.

    Messages from a neutral start, so equal claims of two factors stay equal and neither is
    believed; flips of single bits, taken while the log-posterior rises, decide between them.
    """
    state = init_neutral(problem)
    row_prior, column_prior = prior_beliefs(problem)
    column_bits = np.ascontiguousarray((column_prior > 0).T, dtype=np.uint8)
    with threads(n_jobs) as pool:
        for _ in range(ITERATIONS):
            step(problem, state, damping, pool)
        row_belief = np.asarray(state.row_belief)
        row_bits = (row_belief > 0).astype(np.uint8)

        def one_block(block: Any) -> None:
            kernels.improve_rows(
                problem.model.product == "xor", block.indptr, block.columns, block.evidence,
                np.ascontiguousarray(row_prior[block.rows]), column_bits, row_bits[block.rows],
            )  # fmt: skip

        for _ in run_all(pool, one_block, problem.blocks):
            pass
    return row_bits, open_ended(row_belief)
