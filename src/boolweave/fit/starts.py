"""Starts on their way: what each has found, and which of them go on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.engine.loop import State
from boolweave.engine.result import Ending, Result

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.data.observations import Observations
    from boolweave.model.model import Model

# "auto": so many starts that ended in different places go on with sum-product; so many that ended
# in the same best place make more starts needless.
N_FINALISTS = 3
N_AGREE = 2


@dataclass(eq=False)
class Candidate:
    """A start on its way: its state, the model it has learned so far, and what it found."""

    state: State
    result: Result
    number: int = 0  # of the start among the starts of a fit

    @classmethod
    def of(cls, state: State, model: Model, observations: Observations) -> Candidate:
        """A start that has found nothing yet: a run that goes on from it has its own result."""
        nothing = np.zeros((0, model.n_components), dtype=np.float32)
        history = {name: np.zeros(0) for name in ("residual", "log_posterior", "changes")}
        ending = Ending.OUT_OF_ITERATIONS
        return cls(
            state, Result(model, observations, nothing, nothing.T, -np.inf, ending, 0, history)
        )

    def forget_messages(self) -> None:
        """Let the messages go, which are large: this candidate is not to be continued."""
        gone: Any = None
        self.state = replace(
            self.state, to_row=[], to_column=[], sums=None, row_belief=gone, column_belief=gone
        )


# ---------------------------------------------------------------- the loops, as they stand


@dataclass(eq=False)
class Attempts:
    """How many attempts at a fit failed, and the best of their answers."""

    n_failed: int = 0
    best: Result | None = None


@dataclass(eq=False)
class Starts:
    """How far the starts of a fit are."""

    current: Candidate | None = None  # the one under way
    done: list[Candidate] = field(default_factory=list)
    finalists: list[Candidate] = field(default_factory=list)  # after their trial with sum-product
    n_tried: int = 0
    refined: Candidate | None = None  # the best of them, or the current one, at its end
    so_far: Result | None = None  # the best that is finished
    marginal: Result | None = None  # the answer of sum-product
    n_finished: int = 0  # starts that max-sum has taken to the end, and the best of their results
    max_sum: Result | None = None

    @property
    def ends(self) -> list[Result]:
        """Where the starts ended."""
        return [candidate.result for candidate in self.done]


@dataclass(eq=False)
class Learning:
    """How far a candidate is that runs and learns by turns."""

    candidate: Candidate
    model: Model
    left: int  # iterations (or runs, of max-sum)
    pause: int = 0  # iterations before the model is learned again

    @classmethod
    def of(cls, candidate: Candidate, left: int, pause: int = 0) -> Learning:
        """The beginning, with a candidate of its own."""
        return cls(replace(candidate), candidate.result.model, left, pause)


@dataclass(eq=False)
class Decimation:
    """How far decimation is: the priors, 0 or 1 where an entry is fixed."""

    candidate: Candidate
    rows: NDArray[np.float64]  # (M, K)
    columns: NDArray[np.float64]  # (K, N)


# ---------------------------------------------------------------- which go on


def best_first(candidates: list[Candidate]) -> list[Candidate]:
    """The candidates, the one with the highest log-posterior first."""
    return sorted(candidates, key=lambda candidate: -candidate.result.log_posterior)


def same(a: Candidate, b: Candidate) -> bool:
    """Whether two starts ended in the same place: their log-posteriors are equal."""
    return bool(np.isclose(a.result.log_posterior, b.result.log_posterior, rtol=1e-9, atol=1e-6))


def finalists(starts: list[Candidate], *, keep: bool = True) -> list[Candidate]:
    """The best few starts that ended in different places (or, not `keep`, all the others)."""
    chosen: list[Candidate] = []
    others: list[Candidate] = []
    for start in starts:
        new = len(chosen) < N_FINALISTS and not any(same(start, other) for other in chosen)
        (chosen if new else others).append(start)
    return chosen if keep else others


def agreed(starts: list[Candidate]) -> bool:
    """Whether so many starts found the same best place that more are not needed."""
    return sum(same(start, starts[0]) for start in starts) >= N_AGREE


def joined(before: Result, after: Result) -> Result:
    """The result of a run that continued another: its own end, both histories."""
    if after.n_iter == 0 and before.n_iter > 0:
        return replace(before, ending=after.ending)
    history = {
        name: np.concatenate([before.history[name], after.history[name]]) for name in after.history
    }
    return replace(after, n_iter=before.n_iter + after.n_iter, history=history)
