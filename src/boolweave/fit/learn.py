"""From one run to an answer: restarts, learned channel and priors, decimation, fall-back.

`fit` is the way through, by `Settings.method`:

    max-sum       random starts, each run to the end; the best by log-posterior
    sum-product   random starts, sum-product with what is to be learned
    auto          many short max-sum starts, the most promising go on with sum-product and
                  expectation-maximisation, fewer and fewer, and the best one is finished
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from boolweave.engine import loop as engine
from boolweave.engine.field import Field
from boolweave.engine.integer_sums import Side, Sums
from boolweave.engine.result import Result
from boolweave.fit import float_finish
from boolweave.fit.judging import (
    MORE_WRONG,
    climbs,
    failed,
    is_to_be_explained,
    says_something,
    shares_explained,
    wrong_as_constant,
    wrong_entries,
)
from boolweave.fit.resuming import frame_of, whole_number
from boolweave.fit.settings import PAPER_FLIP, Settings
from boolweave.fit.starts import (
    Attempts,
    Candidate,
    Decimation,
    Learning,
    Starts,
    agreed,
    best_first,
    finalists,
    joined,
)
from boolweave.fit.steps import FIRST_UPDATE, UPDATE_EVERY, Steps
from boolweave.metrics import match_factors
from boolweave.model.channel import Channel
from boolweave.model.model import Model
from boolweave.runtime.checkpoint import Recorder
from boolweave.runtime.threads import effective_jobs

if TYPE_CHECKING:
    from collections.abc import Callable

    from boolweave.data.observations import Observations

    OnIteration = Callable[[int, float, float], None]

# Learning of the noise begins with so many flips; if no start finds anything, with fewer.
FLIPS = (PAPER_FLIP, 0.02, 0.004)

# "auto": so many starts of so many iterations, fewer starts if some agree, and more iterations, up
# to a limit, of those that are still on their way up; the best go on with sum-product for so many
# iterations; the best of those is finished.
N_STARTS = 6
SHORT = 40
MORE = 20
MOST = 120
TRIAL = 50

# So many starts, and the best one, are taken to the end by max-sum where a table is there to be
# explained: the first ones, so that the answer is no worse than that of max-sum with these starts.
N_FINISHED = 3

# A factor comes back in another start if the tiles overlap by this Jaccard similarity.
SAME_FACTOR = 0.5


# What the frames of a checkpoint consist of.
FRAME_TYPES = (
    Attempts, Starts, Learning, Decimation, Candidate, Result, Model, Channel,
    engine.Run, engine.State, Field, Sums, Side,
)  # fmt: skip


class UninformativeWarning(UserWarning):
    """The answer says little: sum-product forgot what max-sum had found, or nothing was found."""


def fit(
    observations: Observations,
    settings: Settings,
    random: np.random.Generator,
    on_iteration: OnIteration | None = None,
    recorder: Recorder | None = None,
    first: Result | None = None,
) -> Result:
    """Find the factors, by the method of `settings`.

    Parameters
    ----------
    observations : Observations
    settings : Settings
    random : numpy Generator
        Seeds the starts.
    on_iteration : callable, optional
        Told the iteration, residual and log-posterior of every iteration.
    recorder : Recorder, optional
        Keeps what the fit needs to go on after a crash; one that has it goes on.
    first : Result, optional
        Factors, as many as there are to be, that one more start begins with; there need not be
        any random start then.

    Returns
    -------
    Result
    """
    this = _Fit(observations, settings, on_iteration, recorder or Recorder(), first)
    this.recorder.checks["blocks"] = whole_number
    store = this.room(effective_jobs(settings.n_jobs))
    with this.recorder.frame("blocks", lambda: [store.n_blocks]) as n_blocks:
        this.keep_in(store, n_blocks[0])
        try:
            return this.run(random)
        finally:
            this.recorder.checks.clear()  # they hold on to the problem, and so to its messages


def check_memory(observations: Observations, settings: Settings) -> None:
    """Raise MemoryError if a fit would take more than there is."""
    _Fit(observations, settings, None, Recorder()).room(effective_jobs(settings.n_jobs))


class _Fit(Steps):
    """One call of `fit`: the way through its steps."""

    def run(self, random: np.random.Generator) -> Result:
        """The answer of the first attempt that does not fail; if all do, the best of them."""
        seeds = random.spawn(self.settings.n_init * len(FLIPS))
        self._check_frames()
        with self.recorder.frame("attempts", Attempts) as attempts:
            while True:
                n = attempts.n_failed
                self._begin_with(FLIPS[n])
                result = self._attempt(seeds[n * self.settings.n_init :][: self.settings.n_init])
                enough = result.interrupted or not self.settings.alone
                if enough or not failed(result, self.observations):
                    return result
                best = attempts.best
                if best is None or self._wrong(result) < self._wrong(best):
                    attempts.best = result
                attempts.n_failed += 1
                if attempts.n_failed == len(FLIPS):
                    assert attempts.best is not None
                    return self._with_warning(attempts.best)

    def _check_frames(self) -> None:
        """Tell the recorder what the frames of a checkpoint have to be."""
        self.recorder.register(*FRAME_TYPES)
        most = max(self.settings.max_iter, FIRST_UPDATE, UPDATE_EVERY)
        for name, kind in (
            ("attempts", Attempts), ("starts", Starts), ("max-sum", Learning),
            ("refine", Learning), ("decimate", Decimation), ("run", engine.Run),
        ):  # fmt: skip
            self.recorder.checks[name] = frame_of(kind, lambda: self.first_problem, most)

    def _begin_with(self, flip: float) -> None:
        """Begin learning with this share of flips, if the noise is to be learned."""
        if flip != self.settings.first_flip:
            self.settings = replace(self.settings, first_flip=flip)
            self.__dict__.pop("first_problem", None)

    def _wrong(self, result: Result) -> int:
        return wrong_entries(result, self.observations)

    def _with_warning(self, result: Result) -> Result:
        """An answer that failed, with a word about it."""
        warnings.warn(
            f"no start found factors that say more than a constant matrix: they have "
            f"{self._wrong(result)} wrong entries, a constant "
            f"{wrong_as_constant(self.observations)}. Try fewer factors, more starts (n_init), or "
            "give the noise if you know it.",
            UninformativeWarning,
            stacklevel=2,
        )
        return result

    def _attempt(self, seeds: list[np.random.Generator]) -> Result:
        with self.recorder.frame("starts", Starts) as at:
            try:
                method = self._auto if self.settings.method == "auto" else self._restarts
                at.so_far = method(at, seeds)
                return with_stability(at.so_far, at.ends)
            except KeyboardInterrupt:  # between two runs; within one, the engine returns
                if at.so_far is None:
                    raise
                return with_stability(at.so_far.as_interrupted(), at.ends)

    def _restarts(self, at: Starts, seeds: list[np.random.Generator]) -> Result:
        """Random starts, and the given one, each run to the end."""
        while len(at.done) < len(seeds) + self.has_first:
            if not self.recorder.resuming:
                random = len(at.done) < len(seeds)
                at.current = self._start(seeds[len(at.done)]) if random else self._given_start()
                if self.settings.method == "sum-product":
                    at.current.state = engine.to_sum_product(self.first_problem, at.current.state)
            assert at.current is not None
            candidate = self._to_the_end(at, at.current)
            candidate.forget_messages()
            at.done.append(candidate)
            at.current, at.refined = None, None
            if at.so_far is None or candidate.result.log_posterior > at.so_far.log_posterior:
                at.so_far = candidate.result
            if candidate.result.interrupted:
                at.so_far = at.so_far.as_interrupted()
                break
        assert at.so_far is not None
        return at.so_far

    def _to_the_end(self, at: Starts, candidate: Candidate) -> Candidate:
        if self.settings.method == "max-sum":
            return self._max_sum(candidate)
        if at.refined is None:
            at.refined = self._refine(candidate, self.settings.max_iter)
        return at.refined if self.settings.decimation is None else self._decimate(at.refined)

    # ------------------------------------------------------------ auto

    def _auto(self, at: Starts, seeds: list[np.random.Generator]) -> Result:
        short = min(SHORT, self.settings.max_iter)
        trial = min(TRIAL, self.settings.max_iter - short)
        while len(at.done) < len(seeds) and not agreed(at.done):
            if not self.recorder.resuming:
                at.current = self._start(seeds[len(at.done)])
                at.current.number = len(at.done)
            assert at.current is not None
            result = self._begin(at.current)
            at.done = best_first([*at.done, at.current])
            at.so_far = at.done[0].result
            if result.interrupted:
                return at.so_far.as_interrupted()
            for loser in finalists(at.done, keep=False):
                loser.forget_messages()
        best_start = self.first or at.done[0].result
        chosen = finalists(at.done)
        trials = self._trials(chosen)
        while at.n_tried < len(trials) + self.has_first:
            if not self.recorder.resuming and at.n_tried == len(trials):
                at.current = self._given_start()
                at.current.state = engine.to_sum_product(self.first_problem, at.current.state)
            elif not self.recorder.resuming:
                at.current = self._with_first_guess(*trials[at.n_tried])
                self._forget_all_but(chosen, trials[at.n_tried + 1 :])
            assert at.current is not None
            refined = self._refine(at.current, trial)
            if refined.result.interrupted:
                return (at.so_far or refined.result).as_interrupted()
            at.finalists = best_first([*at.finalists, refined])
            at.current = None  # it has the messages of `refined`, which may be let go
            at.n_tried += 1
            for loser in at.finalists[1:]:
                loser.forget_messages()
            if says_something(at.finalists[0].result, best_start, self.observations):
                at.so_far = at.finalists[0].result
        if at.refined is None:
            at.current, best = None, at.finalists[0]
            left = self.settings.max_iter - short - trial
            at.refined = best if best.result.converged else self._refine(best, left)
        if at.marginal is None:
            best = at.refined if self.settings.decimation is None else self._decimate(at.refined)
            at.marginal = best.result
            best.forget_messages()
        return self._explained(at, seeds) or self._checked(at.marginal, best_start)

    def _begin(self, start: Candidate) -> Result:
        """The first iterations of a start: few, but more while it is still on its way up."""
        while True:
            done = start.result.n_iter
            n_iter = min(MORE if done else SHORT, self.settings.max_iter - done)
            result = self._run(self.first_problem, start.state, n_iter)
            start.result = joined(start.result, result)
            most = min(MOST, self.settings.max_iter)
            if result.interrupted or start.result.n_iter >= most or not climbs(start.result):
                return result

    def _trials(self, chosen: list[Candidate]) -> list[tuple[Candidate, bool]]:
        """Which starts go on with sum-product, each without priors; the best also with its own.

        Where the noise is strong the priors of a short start mislead. In a real table, which is no
        product of factors that are half ones, sum-product without them forgets what max-sum found.
        """
        learns = self.settings.learns("row_prior") or self.settings.learns("column_prior")
        trials = [(start, False) for start in chosen]
        return [*trials[:1], (chosen[0], True), *trials[1:]] if learns and chosen else trials

    @staticmethod
    def _forget_all_but(starts: list[Candidate], trials: list[tuple[Candidate, bool]]) -> None:
        """Let go of the messages of starts that no trial needs any longer."""
        for start in starts:
            if not any(start is other for other, _ in trials):
                start.forget_messages()

    def _with_first_guess(self, start: Candidate, with_priors: bool) -> Candidate:
        """Sum-product where learning begins: the channel of the decoded factors, or all of it."""
        model = self._model_of(start.result)
        if not with_priors:
            model = replace(start.result.model, channel=model.channel)
        state = engine.to_sum_product(self.first_problem, start.state)
        return Candidate(state, replace(start.result, model=model))

    def _explained(self, at: Starts, seeds: list[np.random.Generator]) -> Result | None:
        """The best start and the first ones, by max-sum to the end; None if not fewer are wrong.

        Marginals explain rare ones away as noise. That is right for what is not seen, but a table
        that is there as a whole is to be explained: by the factors with the fewest wrong entries.
        """
        answer = at.marginal
        assert answer is not None
        alone = self.settings.alone and is_to_be_explained(self.observations)
        if answer.interrupted or not alone or not at.done:
            return None
        wrong, start = self._wrong(answer), at.done[0].result
        settled = start.converged and agreed(at.done)  # more of max-sum would change nothing
        if wrong == 0 or (settled and wrong <= self._wrong(start)):
            return None
        numbers = self._to_be_finished(at.done[0], len(seeds))
        while at.n_finished < len(numbers):
            if not self.recorder.resuming:
                at.current = self._start(seeds[numbers[at.n_finished]])
            assert at.current is not None
            result = self._last_run(self.first_problem, at.current)
            if at.max_sum is None or self._wrong(result) < self._wrong(at.max_sum):
                at.max_sum = result
            at.current = None
            at.n_finished += 1
            if result.interrupted:
                better = MORE_WRONG * self._wrong(at.max_sum) < wrong
                return (at.max_sum if better else answer).as_interrupted()
        assert at.max_sum is not None
        if MORE_WRONG * self._wrong(at.max_sum) >= wrong:
            return None
        return replace(at.max_sum, model=self._model_of(at.max_sum))

    def _to_be_finished(self, best: Candidate, n_starts: int) -> list[int]:
        """Which starts max-sum takes to the end: of a large table the best one only."""
        size = self.observations.n_observed, self.settings.n_components
        first = range(min(N_FINISHED, n_starts)) if float_finish.is_quick(*size) else ()
        return sorted({*first, best.number})

    def _checked(self, result: Result, start: Result) -> Result:
        """The sum-product answer, unless it says nothing about the data where max-sum did."""
        if result.interrupted or says_something(result, start, self.observations):
            return result
        right, right_before, constant = shares_explained(self.observations, result, start)
        warnings.warn(
            f"sum-product turned uninformative (it explains {right:.1%} of the entries, a constant "
            f"{constant:.1%}, max-sum {right_before:.1%}); the answer is max-sum's. The noise may "
            "be too strong for this many factors: try fewer, or give noise and priors.",
            UninformativeWarning,
            stacklevel=2,
        )
        return replace(start, model=self._model_of(start))


def with_stability(result: Result, ends: list[Result]) -> Result:
    """Say of each factor in which share of the starts it came back (Jaccard of tiles ≥ ½)."""
    X, Y = result.X, result.Y
    found = np.zeros(X.shape[1])
    for end in ends:
        match = match_factors(X, Y, end.X, end.Y)
        found += (match.permutation >= 0) & (match.similarities >= SAME_FACTOR)
    found[~(X.any(axis=0) & Y.any(axis=1))] = 0  # an empty factor is none
    return replace(result, stability=found / max(1, len(ends)))
