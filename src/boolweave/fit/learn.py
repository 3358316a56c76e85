"""From several runs to one answer: starts, learned channel and priors, decimation, fall-back.

Read from the top: `fit` sets up the run, `_Fit.run` tries again with less noise if nothing was
found, and `_attempt` runs the method of the settings, which is

    max-sum       random starts, each run to the end; the best by log-posterior
    sum-product   random starts, sum-product with learning
    auto          `_auto`: many short starts of max-sum; trials of the best ones with sum-product
                  and expectation-maximization; the best trial to the end; and max-sum to the end
                  if that explains more of a table with hardly any missing entries
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from boolweave.data.ones import SparseObservations
from boolweave.engine.backend import Beliefs, State
from boolweave.engine.field import Field
from boolweave.engine.loop import Run
from boolweave.engine.result import Result
from boolweave.fit import judging, memory
from boolweave.fit.machine import MESSAGE_TYPES, Machine, ThisMachine
from boolweave.fit.resuming import frame_check, whole_number
from boolweave.fit.settings import PAPER_FLIP, Settings
from boolweave.fit.starts import (
    Attempts,
    Candidate,
    Decimation,
    Learning,
    Starts,
    agree,
    best_first,
    choose_finalists,
    forget_messages,
    joined,
)
from boolweave.fit.steps import FIRST_UPDATE, UPDATE_EVERY, Steps
from boolweave.model.channel import Channel
from boolweave.model.model import Model
from boolweave.runtime.checkpoint import Recorder
from boolweave.runtime.threads import effective_jobs
from boolweave.runtime.warning import warn_user

if TYPE_CHECKING:
    from boolweave.data.observed import ObservedEntries
    from boolweave.runtime.progress import OnIteration

# The flip probabilities with which learning of the noise begins; the next one is used if no start
# finds anything with the previous one.
FLIPS = (PAPER_FLIP, 0.02, 0.004)

# "auto": the number of starts (fewer if some agree); the iterations of a start, the additional ones
# while its log-posterior rises, and their maximum; the iterations of a trial.
N_STARTS = 6
SHORT = 40
MORE = 20
MOST = 120
TRIAL = 50

# If the aim is to explain the table, max-sum finishes this many of the first starts and the best
# one, so that the answer is no worse than that of max-sum with these starts.
N_FINISHED = 3

# The types in the frames of a checkpoint.
FRAME_TYPES = (
    Attempts, Starts, Learning, Decimation, Candidate, Result, Model, Channel,
    Run, State, Beliefs, Field, *MESSAGE_TYPES,
)  # fmt: skip


class UninformativeWarning(UserWarning):
    """The answer is uninformative: sum-product lost what max-sum found, or nothing was found."""


def fit(
    observations: ObservedEntries,
    settings: Settings,
    random: np.random.Generator,
    on_iteration: OnIteration | None = None,
    recorder: Recorder | None = None,
    first: Result | None = None,
    machine: Machine | None = None,
) -> Result:
    """Find the factors by the method of `settings`.

    Parameters
    ----------
    observations : ObservedEntries
    settings : Settings
    random : numpy Generator
        Generator that seeds the starts.
    on_iteration : callable, optional
        It is called with the iteration, residual and log-posterior of every iteration.
    recorder : Recorder, optional
        It saves the state of the fit; if it has a saved state, the fit continues from there.
    first : Result, optional
        Factors of the same number with which an additional start begins; random starts are then
        optional.
    machine : Machine, optional
        Where the fit runs; by default, in the threads of this process.

    Returns
    -------
    Result
    """
    recorder, machine = recorder or Recorder(), machine or ThisMachine()
    this = _Fit(observations, settings, on_iteration, recorder, first, machine)
    this.recorder.checks["blocks"] = whole_number
    store = this.choose_store(effective_jobs(settings.n_jobs))
    with this.recorder.frame("blocks", lambda: [store.n_blocks]) as n_blocks:
        this.keep_in(store, n_blocks[0])
        try:
            return this.run(random)
        finally:
            this.recorder.checks.clear()  # they refer to the problem, and so to its messages


def most_iterations(settings: Settings) -> int:
    """The approximate maximum number of iterations of a fit: of its starts, and of the last run.

    Examples
    --------
    >>> from boolweave.fit.learn import most_iterations
    >>> from boolweave.fit.settings import Settings
    >>> most_iterations(Settings(2, method="max-sum", n_init=3, max_iter=50))
    150
    """
    if settings.method != "auto":
        return settings.n_init * settings.max_iter
    return settings.n_init * min(SHORT, settings.max_iter) + settings.max_iter


def check_memory(
    observations: ObservedEntries, settings: Settings, machine: Machine | None = None
) -> None:
    """Raise MemoryError if a fit would need more memory than there is."""
    this = _Fit(observations, settings, None, Recorder(), None, machine or ThisMachine())
    this.choose_store(effective_jobs(settings.n_jobs))


class _Fit(Steps):
    """One call of `fit`: the order of its steps."""

    def run(self, random: np.random.Generator) -> Result:
        """Return the answer of the first attempt that does not fail; if all do, the best one."""
        n_init = self.settings.n_init
        seeds = random.spawn(n_init * len(FLIPS))
        self._register_frames()
        with self.recorder.frame("attempts", Attempts) as attempts:
            while attempts.n_failed < len(FLIPS):
                n = attempts.n_failed
                self._begin_with(FLIPS[n])
                result = self._attempt(seeds[n * n_init : (n + 1) * n_init])
                enough = result.interrupted or not self.settings.alone
                if enough or not judging.failed(result, self.observations):
                    return result
                best = attempts.best
                if best is None or self._wrong(result) < self._wrong(best):
                    attempts.best = result
                attempts.n_failed += 1
            assert attempts.best is not None
            return self._with_warning(attempts.best)

    def _register_frames(self) -> None:
        """Register the checks of the frames of a checkpoint with the recorder."""
        self.recorder.register(*FRAME_TYPES)
        most = max(self.settings.max_iter, FIRST_UPDATE, UPDATE_EVERY)
        for name, kind in (
            ("attempts", Attempts), ("starts", Starts), ("max-sum", Learning),
            ("refine", Learning), ("decimate", Decimation), ("run", Run),
        ):  # fmt: skip
            self.recorder.checks[name] = frame_check(kind, self, most)

    def _begin_with(self, flip: float) -> None:
        """Begin learning with this flip probability, if the noise is learned."""
        if flip != self.settings.first_flip:
            self.settings = replace(self.settings, first_flip=flip)
            self.__dict__.pop("first_problem", None)

    def _wrong(self, result: Result) -> int:
        return judging.wrong_entries(result, self.observations)

    def _with_warning(self, result: Result) -> Result:
        constant = judging.wrong_as_constant(self.observations)
        warn_user(
            f"no start found factors that are better than a constant matrix: they have "
            f"{self._wrong(result)} wrong entries, a constant {constant}. Try fewer factors, more "
            "starts (`n_init`), or set the noise if you know it.",
            UninformativeWarning,
        )
        return result

    def _attempt(self, seeds: list[np.random.Generator]) -> Result:
        """Run the method of the settings once; after Ctrl-C, return the best answer so far.

        An interrupted run returns its result so far. The steps below keep that, if it is the best,
        and raise KeyboardInterrupt, as Ctrl-C between two runs does.
        """
        with self.recorder.frame("starts", Starts) as at:
            try:
                method = self._auto if self.settings.method == "auto" else self._restarts
                at.best = method(at, seeds)
                return with_stability(at.best, at.ends)
            except KeyboardInterrupt:
                if at.best is None:
                    raise
                return with_stability(at.best.as_interrupted(), at.ends)

    def _candidate(self, at: Starts, begin: Callable[[], Candidate]) -> Candidate:
        """Return the current candidate: a new one, or that of a checkpoint when resuming.

        Callers should keep no other reference to it, so that its messages can be freed.
        """
        if not self.recorder.resuming:
            at.current = begin()
        assert at.current is not None
        return at.current

    # ------------------------------------------------------------ max-sum, sum-product

    def _restarts(self, at: Starts, seeds: list[np.random.Generator]) -> Result:
        """Run the random starts, and the given one, each to the end."""
        while len(at.finished) < len(seeds) + self.has_first:
            candidate = self._to_the_end(at, self._candidate(at, lambda: self._next(at, seeds)))
            forget_messages([candidate])
            at.finished.append(candidate)
            at.current, at.refined = None, None
            if at.best is None or candidate.result.log_posterior > at.best.log_posterior:
                at.best = candidate.result
            if candidate.result.interrupted:
                raise KeyboardInterrupt
        assert at.best is not None
        return at.best

    def _next(self, at: Starts, seeds: list[np.random.Generator]) -> Candidate:
        """Begin the next random start; after the last one, the given start."""
        n = len(at.finished)
        start = self._start(seeds[n]) if n < len(seeds) else self._given_start()
        return self._to_sum_product(start) if self.settings.method == "sum-product" else start

    def _to_sum_product(self, start: Candidate) -> Candidate:
        start.state = self.backend.to_sum_product(self.first_problem, start.state)
        return start

    def _to_the_end(self, at: Starts, candidate: Candidate) -> Candidate:
        if self.settings.method == "max-sum":
            return self._max_sum(candidate)
        if at.refined is None:
            at.refined = self._refine(candidate, self.settings.max_iter)
        return self._decimated(at.refined)

    def _decimated(self, candidate: Candidate) -> Candidate:
        return candidate if self.settings.decimation is None else self._decimate(candidate)

    # ------------------------------------------------------------ auto

    def _auto(self, at: Starts, seeds: list[np.random.Generator]) -> Result:
        """Run short starts, trials of the best, the best trial to the end; compare with max-sum."""
        max_iter = self.settings.max_iter
        n_trial = min(TRIAL, max_iter - min(SHORT, max_iter))
        self._run_starts(at, seeds)
        best_start = self.first or at.finished[0].result
        self._run_trials(at, n_trial, best_start)
        if at.refined is None:
            best, left = at.finalists[0], max_iter - min(SHORT, max_iter) - n_trial
            at.refined = best if best.result.converged else self._refine(best, left)
        if at.sum_product is None:
            answer = self._decimated(at.refined)
            forget_messages([answer])
            at.sum_product = answer.result
        if at.sum_product.interrupted:
            return at.sum_product
        return self._explained(at, seeds) or self._checked(at.sum_product, best_start)

    def _run_starts(self, at: Starts, seeds: list[np.random.Generator]) -> None:
        """Run short random starts of max-sum until some agree; only finalists keep messages."""
        while len(at.finished) < len(seeds) and not agree(at.finished):
            number = len(at.finished)
            start = self._candidate(at, partial(self._start, seeds[number]))
            start.number = number
            self._begin(start)
            at.finished = best_first([*at.finished, start])
            at.best = at.finished[0].result
            if start.result.interrupted:
                raise KeyboardInterrupt
            forget_messages(at.finished, all_but=choose_finalists(at.finished))

    def _begin(self, start: Candidate) -> None:
        """Run the first iterations of a start: few, but more while its log-posterior rises."""
        most = min(MOST, self.settings.max_iter)
        while True:
            done = start.result.n_iter
            n_iter = min(MORE if done else SHORT, self.settings.max_iter - done)
            result = self._run(self.first_problem, start.state, n_iter)
            start.result = joined(start.result, result)
            enough = result.interrupted or start.result.n_iter >= most
            if enough or not judging.is_rising(start.result):
                return

    def _run_trials(self, at: Starts, n_iter: int, best_start: Result) -> None:
        """Run sum-product from the finalists, and from the given start; the best keeps messages."""
        finalists = choose_finalists(at.finished)
        trials = self._trials(finalists)
        while at.n_tried < len(trials) + self.has_first:
            begin = partial(self._next_trial, at.n_tried, finalists, trials)
            refined = self._refine(self._candidate(at, begin), n_iter)
            if refined.result.interrupted:
                at.best = at.best or refined.result
                raise KeyboardInterrupt
            at.finalists = best_first([*at.finalists, refined])
            at.current = None  # it has the messages of `refined`, which may be freed
            at.n_tried += 1
            forget_messages(at.finalists, all_but=at.finalists[:1])
            if judging.is_informative(at.finalists[0].result, best_start, self.observations):
                at.best = at.finalists[0].result

    def _trials(self, finalists: list[Candidate]) -> list[tuple[Candidate, bool]]:
        """List the starts to continue, each without learned priors; the best also with its own.

        If the noise is strong, the priors of a short start are misleading. In a real table, whose
        factors do not consist of half ones, sum-product without them loses what max-sum found.
        """
        learns = self.settings.learns("row_prior") or self.settings.learns("column_prior")
        trials = [(start, False) for start in finalists]
        if learns and trials:
            trials.insert(1, (finalists[0], True))
        return trials

    def _next_trial(
        self, n: int, finalists: list[Candidate], trials: list[tuple[Candidate, bool]]
    ) -> Candidate:
        """Begin a trial with the channel of the decoded factors, or with their priors, too."""
        if n == len(trials):
            return self._to_sum_product(self._given_start())
        start, with_priors = trials[n]
        model = self._model_of(start.result)
        if not with_priors:
            model = replace(start.result.model, channel=model.channel)
        trial = self._to_sum_product(Candidate(start.state, replace(start.result, model=model)))
        forget_messages(finalists, all_but=[other for other, _ in trials[n + 1 :]])
        return trial

    def _explained(self, at: Starts, seeds: list[np.random.Generator]) -> Result | None:
        """Run the best start and the first ones by max-sum to the end, if few entries are missing.

        Marginals explain rare ones away as noise. That is right for predictions, but a complete
        table should be explained by the factors with the fewest wrong entries. The result is None
        if max-sum does not have fewer of them, or if its factors only fit noise.
        """
        answer = at.sum_product
        assert answer is not None
        if not (self.settings.alone and judging.has_few_holes(self.observations) and at.finished):
            return None
        wrong, best_start = self._wrong(answer), at.finished[0]
        enough = agree(at.finished) or isinstance(self.observations, SparseObservations)
        is_final = best_start.result.converged and enough  # more iterations would change nothing
        if wrong == 0 or (is_final and wrong <= self._wrong(best_start.result)):
            return None
        at.best = answer
        size = self.observations.n_observed, self.settings.n_components
        first = range(min(N_FINISHED, len(seeds))) if memory.last_floats_are_few(*size) else ()
        numbers = sorted({*first, best_start.number})
        while at.n_finished < len(numbers):
            begin = partial(self._start, seeds[numbers[at.n_finished]])
            result = self._last_run(self.first_problem, self._candidate(at, begin))
            fewest = wrong / judging.MORE_WRONG if at.max_sum is None else self._wrong(at.max_sum)
            if self._wrong(result) < fewest and judging.explains(result):
                at.best = at.max_sum = result
            at.current = None
            at.n_finished += 1
            if result.interrupted:
                raise KeyboardInterrupt
        if at.max_sum is None:
            return None
        return replace(at.max_sum, model=self._model_of(at.max_sum))

    def _checked(self, result: Result, start: Result) -> Result:
        """Return the answer of sum-product, or of max-sum if only that explains something."""
        # With few entries, even true factors take more bits than they save.
        fits_noise = judging.has_few_holes(self.observations) and not judging.explains(start)
        if fits_noise or judging.is_informative(result, start, self.observations):
            return result
        right, right_before, constant = judging.shares_explained(self.observations, result, start)
        warn_user(
            f"sum-product became uninformative (it explains {right:.1%} of the entries, a constant "
            f"{constant:.1%}, max-sum {right_before:.1%}), so the answer is that of max-sum. The "
            "noise may be too strong for this many factors: try fewer, or set noise and priors.",
            UninformativeWarning,
        )
        return replace(start, model=self._model_of(start))


def with_stability(result: Result, ends: list[Result]) -> Result:
    """Add the fraction of the starts that found each factor again."""
    X, Y = result.X, result.Y
    stability = judging.shares_found(X, Y, [(end.X, end.Y) for end in ends])
    stability[~(X.any(axis=0) & Y.any(axis=1))] = 0  # an empty factor does not count
    return replace(result, stability=stability)
