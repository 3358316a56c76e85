"""The loop of one run: step after step until the messages converge.

A `Backend` does the steps; this module decides when to stop and which iterate to keep.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from boolweave.data.observed import ObservedEntries
from boolweave.engine.backend import AnyBackend, KeptBeliefs, Problem, State
from boolweave.engine.result import Ending, Result
from boolweave.model.odds import with_infinities
from boolweave.runtime.run import Run, drive

# Minimum number of iterations of a run: with another model, or other first beliefs, it takes some
# iterations before changes of messages show whether they have converged.
LEAST_ITERATIONS = 3


@dataclass(eq=False)
class Iterates:
    """The state of `run`: with the problem, it is enough to continue."""

    state: State
    residuals: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    changes: list[int] = field(default_factory=list)  # of decoded bits
    best_score: float = -np.inf
    best: KeptBeliefs | None = None  # beliefs of the iterate to return


def converged(state: State, tol: float) -> bool:
    """Whether no message changed by more than `tol` in the last step, and no field is left."""
    return state.field is None and state.residual <= tol


def iterate(
    backend: AnyBackend,
    problem: Problem,
    iterates: Iterates,
    damping: float,
    keep_last: bool = False,
) -> None:
    """Do one iteration, note how it went, and keep the beliefs if they are the best so far.

    Those of sum-product are marginals, of which the last are the best.
    """
    state = iterates.state
    backend.step(problem, state, damping)
    score = backend.log_posterior(problem, state)
    iterates.residuals.append(state.residual)
    iterates.scores.append(score)
    iterates.changes.append(sum(state.n_changed))
    if keep_last or state.semiring == "sum-product" or score >= iterates.best_score:
        before, iterates.best = iterates.best, None  # which Ctrl-C may leave half overwritten
        iterates.best = backend.keep_beliefs(problem, state, before)
        iterates.best_score = score


def run(
    backend: AnyBackend,
    problem: Problem,
    state: State,
    observations: ObservedEntries,
    *,
    damping: float = 0.4,
    max_iter: int = 200,
    tol: float = 1e-3,
    keep_last: bool = False,
    run: Run | None = None,
) -> Result:
    """Iterate from `state` until convergence, `max_iter` iterations, the time limit or Ctrl-C.

    Afterwards, `state` is that of the last iteration; the result holds the beliefs of the iterate
    with the highest log-posterior; those of the last one in sum-product, or to `keep_last`.
    """
    run = run or Run()

    def step(iterates: Iterates) -> bool:
        n, state = len(iterates.scores), iterates.state
        if n >= max_iter or (n >= LEAST_ITERATIONS and converged(state, tol)):
            return False
        iterate(backend, problem, iterates, damping, keep_last)
        run.progress.iteration(state.n_iter, state.residual, iterates.scores[-1])
        return True

    with run.recorder.frame("run", lambda: Iterates(state), Iterates) as iterates:
        state = iterates.state
        ended = drive(step, iterates, run)
        ending = Ending.of(converged(state, tol)) if ended else Ending.INTERRUPTED
        if iterates.best is None:
            iterates.best = backend.keep_beliefs(problem, state, None)
            iterates.best_score = backend.log_posterior(problem, state)
    return Result(
        model=problem.model,
        observations=observations,
        row_log_odds=with_infinities(iterates.best.rows),
        column_log_odds=with_infinities(iterates.best.columns),
        log_posterior=iterates.best_score,
        ending=ending,
        n_iter=len(iterates.scores),
        history={
            "residual": np.array(iterates.residuals, dtype=np.float64),
            "log_posterior": np.array(iterates.scores, dtype=np.float64),
            "changes": np.array(iterates.changes, dtype=np.float64),
        },
        marginal=state.semiring == "sum-product",
    )
