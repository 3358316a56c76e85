"""The candidates of a fit, the progress of its loops, and the choice of candidates."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from boolweave.engine.backend import State
from boolweave.engine.result import Ending, Result

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from boolweave.data.observed import ObservedEntries
    from boolweave.model.model import Model

# "auto": the number of starts with different ends that are continued by sum-product; the number of
# starts with the same best end that makes more starts unnecessary.
N_FINALISTS = 3
N_AGREE = 2


@dataclass(eq=False)
class Candidate:
    """A start in progress: its messages, and its result with the model learned so far."""

    state: State
    result: Result
    number: int = 0  # of the start among the starts of a fit

    @classmethod
    def of(cls, state: State, model: Model, observations: ObservedEntries) -> Candidate:
        """Make a start that has found nothing yet."""
        nothing = np.zeros((0, model.n_components), dtype=np.float32)
        history = {name: np.zeros(0) for name in ("residual", "log_posterior", "changes")}
        ending = Ending.OUT_OF_ITERATIONS
        return cls(
            state, Result(model, observations, nothing, nothing.T, -np.inf, ending, 0, history)
        )


def forget_messages(candidates: Iterable[Candidate], all_but: Iterable[Candidate] = ()) -> None:
    """Free the messages, which are large, of candidates that will not be continued."""
    kept = {id(candidate) for candidate in all_but}
    for candidate in candidates:
        if id(candidate) not in kept:
            candidate.state = replace(candidate.state, messages=None)


# ---------------------------------------------------------------- progress of the loops


@dataclass(eq=False)
class Attempts:
    """The number of attempts at a fit that failed, and the best of their answers."""

    n_failed: int = 0
    best: Result | None = None


@dataclass(eq=False)
class Starts:
    """The progress of the starts of a fit."""

    current: Candidate | None = None  # the candidate in progress
    finished: list[Candidate] = field(default_factory=list)  # starts
    finalists: list[Candidate] = field(default_factory=list)  # after their trial with sum-product
    n_tried: int = 0
    refined: Candidate | None = None  # the current start or the best finalist, before decimation
    best: Result | None = None  # what Ctrl-C would return
    sum_product: Result | None = None  # the answer of sum-product
    n_finished: int = 0  # the number of starts that max-sum has finished
    max_sum: Result | None = None  # the best of their answers

    @property
    def ends(self) -> list[Result]:
        """The results of the starts."""
        return [start.result for start in self.finished]


@dataclass(eq=False)
class Learning:
    """The progress of a candidate that alternates between running and learning."""

    candidate: Candidate
    model: Model
    left: int  # iterations (or runs, of max-sum)
    pause: int = 0  # iterations before the model is learned again

    @classmethod
    def of(cls, candidate: Candidate, left: int, pause: int = 0) -> Learning:
        """Begin with a copy of the candidate."""
        return cls(replace(candidate), candidate.result.model, left, pause)


@dataclass(eq=False)
class Decimation:
    """The progress of decimation: the priors of fixed entries are 0 or 1."""

    candidate: Candidate
    rows: NDArray[np.float64]  # (M, K)
    columns: NDArray[np.float64]  # (K, N)


# ---------------------------------------------------------------- which go on


def best_first(candidates: list[Candidate]) -> list[Candidate]:
    """Sort candidates, the highest log-posterior first."""
    return sorted(candidates, key=lambda candidate: -candidate.result.log_posterior)


def same_end(a: Candidate, b: Candidate) -> bool:
    """Whether two starts have the same log-posterior, and so probably ended in the same place."""
    return bool(np.isclose(a.result.log_posterior, b.result.log_posterior, rtol=1e-9, atol=1e-6))


def choose_finalists(starts: list[Candidate]) -> list[Candidate]:
    """Choose the first few of the best starts that ended in different places."""
    chosen: list[Candidate] = []
    for start in starts:
        if len(chosen) < N_FINALISTS and not any(same_end(start, other) for other in chosen):
            chosen.append(start)
    return chosen


def agree(starts: list[Candidate]) -> bool:
    """Whether so many starts ended in the same best place that more are not needed."""
    return sum(same_end(start, starts[0]) for start in starts) >= N_AGREE


def joined(before: Result, after: Result) -> Result:
    """Return the result of a run that continued another, with the histories of both."""
    if after.n_iter == 0 and before.n_iter > 0:
        return replace(before, ending=after.ending)
    history = {
        name: np.concatenate([before.history[name], after.history[name]]) for name in after.history
    }
    return replace(after, n_iter=before.n_iter + after.n_iter, history=history)
