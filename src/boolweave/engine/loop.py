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
from boolweave.runtime.checkpoint import Recorder
from boolweave.runtime.progress import OnIteration

# Minimum number of iterations of a run: with another model, or other first beliefs, it takes some
# iterations before changes of messages show whether they have converged.
LEAST_ITERATIONS = 3


@dataclass(eq=False)
class Run:
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
    backend: AnyBackend, problem: Problem, at: Run, damping: float, keep_last: bool = False
) -> None:
    """Do one iteration, note how it went, and keep the beliefs if they are the best so far.

    Those of sum-product are marginals, of which the last are the best.
    """
    state = at.state
    backend.step(problem, state, damping)
    score = backend.log_posterior(problem, state)
    at.residuals.append(state.residual)
    at.scores.append(score)
    at.changes.append(sum(state.n_changed))
    if keep_last or state.semiring == "sum-product" or score >= at.best_score:
        before, at.best = at.best, None  # which Ctrl-C may leave half overwritten
        at.best = backend.keep_beliefs(problem, state, before)
        at.best_score = score


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
    on_iteration: OnIteration | None = None,
    recorder: Recorder | None = None,
) -> Result:
    """Iterate from `state` until convergence, `max_iter` iterations or Ctrl-C.

    Afterwards, `state` is that of the last iteration; the result holds the beliefs of the iterate
    with the highest log-posterior; those of the last one in sum-product, or to `keep_last`.
    `on_iteration` is called with iteration, residual and log-posterior; the `recorder` may save
    after every iteration.
    """
    recorder = recorder or Recorder()
    with recorder.frame("run", lambda: Run(state), Run) as at:
        state = at.state
        try:
            while len(at.scores) < max_iter and not (
                len(at.scores) >= LEAST_ITERATIONS and converged(state, tol)
            ):
                iterate(backend, problem, at, damping, keep_last)
                if on_iteration is not None:
                    on_iteration(state.n_iter, state.residual, at.scores[-1])
                recorder.save_if_due()
            ending = Ending.of(converged(state, tol))
        except KeyboardInterrupt:
            ending = Ending.INTERRUPTED
        if at.best is None:
            at.best = backend.keep_beliefs(problem, state, None)
            at.best_score = backend.log_posterior(problem, state)
    return Result(
        model=problem.model,
        observations=observations,
        row_log_odds=with_infinities(at.best.rows),
        column_log_odds=with_infinities(at.best.columns),
        log_posterior=at.best_score,
        ending=ending,
        n_iter=len(at.scores),
        history={
            "residual": np.array(at.residuals, dtype=np.float64),
            "log_posterior": np.array(at.scores, dtype=np.float64),
            "changes": np.array(at.changes, dtype=np.float64),
        },
        marginal=state.semiring == "sum-product",
    )
