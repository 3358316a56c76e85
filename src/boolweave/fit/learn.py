"""From several runs to one answer: starts, learned channel and priors, decimation, fall-back.

Read from the top: `fit` sets up the run, `_Fit.run` tries again with less noise if nothing was
found, and `_attempt` runs the method of the settings, which is

    max-sum       random starts, each run to the end; the best by log-posterior
    paper         one run of `PrintedBackend`, in which nothing is learned or tried again
    sum-product   random starts, sum-product with learning
    auto          `_auto`: many short starts of max-sum; trials of the best ones with sum-product
                  and expectation-maximization; the best trial to the end
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np

from boolweave.data.observed import ObservedEntries
from boolweave.engine.backend import Beliefs
from boolweave.engine.result import Result
from boolweave.fit import judging, memory, noise
from boolweave.fit.settings import FLIPS, Settings
from boolweave.fit.stages import (
    FIRST_UPDATE,
    MESSAGE_TYPES,
    UPDATE_EVERY,
    Attempts,
    BackendFactory,
    Candidate,
    FitStages,
    LocalBackends,
    Starts,
    agree,
    best_first,
    choose_finalists,
    forget_messages,
    joined,
)
from boolweave.runtime.checkpoint import WholeNumber
from boolweave.runtime.run import Run
from boolweave.runtime.threads import effective_jobs
from boolweave.runtime.warning import warn_user

# "auto": the iterations of a start, the additional ones while its log-posterior rises, and their
# maximum.
SHORT = 40
MORE = 20
MOST = 120


class UninformativeWarning(UserWarning):
    """The answer is uninformative: sum-product lost what max-sum found, or nothing was found."""


def fit(
    observations: ObservedEntries,
    settings: Settings,
    random: np.random.Generator,
    run: Run | None = None,
    first: Result | None = None,
    backends: BackendFactory | None = None,
) -> Result:
    """Find the factors by the method of `settings`.

    Parameters
    ----------
    observations : ObservedEntries
    settings : Settings
    random : numpy Generator
        Generator that seeds the starts.
    run : Run, optional
        The time limit of the fit, its progress and its checkpoints.
    first : Result, optional
        Factors of the same number with which an additional start begins; random starts are then
        optional.
    backends : BackendFactory, optional
        Where the fit runs; by default, in the threads of this process.

    Returns
    -------
    Result
    """
    this = _Fit(observations, settings, run or Run(), first, backends or LocalBackends())
    store = this.choose_store(effective_jobs(settings.n_jobs))
    recorder = this.run.recorder
    with recorder.frame("blocks", lambda: WholeNumber(store.n_blocks), WholeNumber) as n_blocks:
        this.keep_in(store, n_blocks.value)
        try:
            return this.answer(random)
        finally:
            recorder.checks = {}  # they refer to the problem, and so to its messages


def with_noise_of_lines(
    result: Result,
    observations: ObservedEntries,
    settings: Settings,
    axis: noise.Axis | Literal["best"],
    random: np.random.Generator,
    run: Run,
) -> Result:
    """Learn noise rates for each column or each row, beginning with factors of one pair of rates.

    Parameters
    ----------
    result : Result
        The factors that a fit with one pair of rates found, maybe on a cluster.
    observations : ObservedEntries
    settings : Settings
        Those of that fit.
    axis : {"columns", "rows", "best"}
        Which lines have rates of their own; "best" decides by description length, and leaves the
        result as it is if one pair of rates describes the entries best.
    random : numpy Generator
    run : Run

    Returns
    -------
    Result
    """
    is_empty = not (result.row_log_odds > 0).any() or not (result.column_log_odds > 0).any()
    if result.interrupted or run.passed or is_empty:
        return result
    n_factors = result.model.n_components
    if axis == "best":
        size, most = (observations.n_observed, n_factors), settings.max_memory
        if not memory.last_floats_fit(*size) or memory.bytes_of_floats(*size) > (most or np.inf):
            return result
        odds = result.row_log_odds, result.column_log_odds
        local = observations.to_local()
        counts = noise.expected_counts(local, *odds, settings.product, result.marginal)
        chosen = noise.best_axis(counts)
        if chosen is None:
            return result
        axis = chosen
    words: dict[str, Literal["learn-columns", "learn-rows"]]
    words = {"columns": "learn-columns", "rows": "learn-rows"}
    by_line = replace(
        settings,
        n_components=n_factors,
        noise=words[axis],
        n_init=0,
        messages="auto",
        alone=False,
    )
    # A resumed run does this part again: it is short, and its result is the same.
    with run.recorder.paused():
        refined = fit(observations.to_local(), by_line, random, run, first=result)
    return replace(joined(result, refined), stability=result.stability)


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
    observations: ObservedEntries, settings: Settings, backends: BackendFactory | None = None
) -> None:
    """Raise MemoryError if a fit would need more memory than there is."""
    this = _Fit(observations, settings, Run(), None, backends or LocalBackends())
    this.choose_store(effective_jobs(settings.n_jobs))


class _Fit(FitStages):
    """One call of `fit`: the order of its steps."""

    def answer(self, random: np.random.Generator) -> Result:
        """Return the answer of the first attempt that does not fail; if all do, the best one."""
        n_init = self.settings.n_init
        seeds = random.spawn(n_init * len(FLIPS))
        self._register_frames()
        with self.run.recorder.frame("attempts", Attempts) as attempts:
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
        """Announce the classes and the checks of the frames of a checkpoint."""
        from boolweave.fit.resuming import checks_of_fit

        self.run.recorder.register(Beliefs, *MESSAGE_TYPES)
        most = max(self.settings.max_iter, FIRST_UPDATE, UPDATE_EVERY)
        self.run.recorder.checks = checks_of_fit(self, most)

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
            f"{self._wrong(result)} wrong entries, a constant {constant}. "
            '`n_components="auto"` finds out whether there is more than noise; '
            '`objective="errors"` finds the factors with the fewest wrong entries in any case.',
            UninformativeWarning,
        )
        return result

    def _attempt(self, seeds: list[np.random.Generator]) -> Result:
        """Run the method of the settings once; after Ctrl-C, return the best answer so far.

        An interrupted run returns its result so far. The steps below keep that, if it is the best,
        and raise KeyboardInterrupt, as Ctrl-C between two runs does.
        """
        with self.run.recorder.frame("starts", Starts) as at:
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
        if not self.run.recorder.resuming:
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
        if self.settings.method in ("max-sum", "paper"):
            return self._max_sum(candidate)
        if at.refined is None:
            at.refined = self._refine(candidate, self.settings.max_iter)
        return self._decimated(at.refined)

    def _decimated(self, candidate: Candidate) -> Candidate:
        return candidate if self.settings.decimation is None else self._decimate(candidate)

    # ------------------------------------------------------------ auto

    def _auto(self, at: Starts, seeds: list[np.random.Generator]) -> Result:
        """Run short starts of max-sum, trials of the best, and the best trial to the end."""
        max_iter = self.settings.max_iter
        of_trial = 50
        n_trial = min(of_trial, max_iter - min(SHORT, max_iter))
        self._run_starts(at, seeds)
        best_start = self.first or at.finished[0].result
        self._run_trials(at, n_trial, best_start)
        if at.refined is None:
            best, left = at.finalists[0], max_iter - min(SHORT, max_iter) - n_trial
            at.refined = best if best.result.converged else self._refine(best, left)
        answer = self._decimated(at.refined)
        forget_messages([answer])
        if answer.result.interrupted:
            return answer.result
        return self._checked(answer.result, best_start)

    def _run_starts(self, at: Starts, seeds: list[np.random.Generator]) -> None:
        """Run short random starts of max-sum until some agree; only finalists keep messages."""
        while len(at.finished) < len(seeds) and not agree(at.finished):
            start = self._candidate(at, partial(self._start, seeds[len(at.finished)]))
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

    def _checked(self, result: Result, start: Result) -> Result:
        """Return the answer of sum-product, or of max-sum if only that explains something."""
        # With few entries, even true factors take more bits than they save, so that the bits decide
        # only if hardly any are missing.
        few_holes = judging.has_few_holes(self.observations)
        fits_noise = few_holes and not judging.explains(start)
        if fits_noise or judging.is_informative(result, start, self.observations):
            return result
        answer = replace(start, model=self._model_of(start))
        said, said_before = judging.shares_of_information(self.observations, result, start)
        if few_holes and said_before > 0.5:  # no noise, but too few entries to learn that from
            return answer
        warn_user(
            f"sum-product became uninformative (it has {said:.1%} of the information in the "
            f"entries, max-sum {said_before:.1%}), so the answer is that of max-sum. The noise may "
            'be too strong for this many factors; `n_components="auto"` looks for the number that '
            "predicts best.",
            UninformativeWarning,
        )
        return answer


def with_stability(result: Result, ends: list[Result]) -> Result:
    """Add the fraction of the starts that found each factor again."""
    X, Y = result.X, result.Y
    stability = judging.shares_found(X, Y, [(end.X, end.Y) for end in ends])
    stability[~(X.any(axis=0) & Y.any(axis=1))] = 0  # an empty factor does not count
    return replace(result, stability=stability)
