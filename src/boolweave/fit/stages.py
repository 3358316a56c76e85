"""The stages of a fit: starts, runs of max-sum and of sum-product with learning, decimation.

`boolweave.fit.learn` calls them. The choice of the back end, the candidates of a fit and the
progress of its loops come first, then the stages, and at the end the M-step, which learns the
channel and the priors from marginals or from decoded factors.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from boolweave.data.observed import ObservedEntries
from boolweave.engine import loop
from boolweave.engine.backend import AnyBackend, Beliefs, InitialBeliefs, Problem, State
from boolweave.engine.floats import FloatMessages, PrintedBackend
from boolweave.engine.integers import IntegerMessages, Sums
from boolweave.engine.quantization import Quantization, Variables
from boolweave.engine.result import Ending, Result
from boolweave.engine.zeros.backend import SparseMessages
from boolweave.engine.zeros.listed import Listed
from boolweave.fit import first_factors, memory, noise
from boolweave.fit.backends import backends_for
from boolweave.fit.settings import Settings
from boolweave.model.channel import Channel
from boolweave.model.model import Model
from boolweave.model.odds import sigmoid
from boolweave.runtime.run import Run
from boolweave.runtime.storage import Memory
from boolweave.runtime.threads import effective_jobs
from boolweave.runtime.types import Floats

# The types of messages in checkpoints.
MESSAGE_TYPES = (FloatMessages, IntegerMessages, Sums, Variables, SparseMessages, Listed)


class BackendFactory(Protocol):
    """The choice of the back end of a fit."""

    def choose_store(
        self, observations: ObservedEntries, n_components: int, **options: Any
    ) -> Memory:
        """Choose where messages are kept, as in `memory.store_for`, which may raise MemoryError."""
        ...

    def make(
        self, observations: ObservedEntries, integers: bool, n_jobs: int | None, store: Memory
    ) -> AnyBackend:
        """Make the back end, with messages that are integers or floats."""
        ...


class LocalBackends:
    """The threads of this process."""

    def choose_store(
        self, observations: ObservedEntries, n_components: int, **options: Any
    ) -> Memory:
        """Choose memory, or files if `max_memory` is less than is needed."""
        return memory.store_for(observations, n_components, **options)

    def make(
        self, observations: ObservedEntries, integers: bool, n_jobs: int | None, store: Memory
    ) -> AnyBackend:
        """Make the back end, with messages that are integers or floats."""
        return backends_for(observations).make(observations, integers, n_jobs, store)


# ---------------------------------------------------------------- candidates

# "auto": the number of starts with the same best end that makes more starts unnecessary.
N_AGREE = 2


@dataclass(eq=False)
class Candidate:
    """A start in progress: its messages, and its result with the model learned so far."""

    state: State
    result: Result

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
        if len(chosen) < memory.N_FINALISTS and not any(same_end(start, other) for other in chosen):
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


# ---------------------------------------------------------------- the stages

# Sum-product that continues from max-sum takes larger steps: it does not oscillate as max-sum does,
# and near the limits of what can be recovered it is slow.
STRIDE = 1.5

# Expectation-maximization: sum-product needs the first iterations to forget the max-sum messages;
# learning from them sooner drives a noisy problem into the uninformative fixed point.
FIRST_UPDATE = 20
UPDATE_EVERY = 10


@dataclass(eq=False)
class FitStages:
    """The constants of a fit, and its stages."""

    observations: ObservedEntries
    settings: Settings
    run: Run
    first: Result | None = None
    backends: BackendFactory = field(default_factory=LocalBackends)
    store: Memory = field(default_factory=Memory)

    def choose_store(self, n_jobs: int) -> Memory:
        """Choose where messages are kept, given the number of threads."""
        return self.backends.choose_store(
            self.observations,
            self.settings.n_components,
            n_jobs=n_jobs,
            messages="uint8" if self.integers else "float32",
            method=self.settings.method,
            learns=self.settings.learns_any,
            n_init=self.settings.n_init + self.has_first,
            product=self.settings.product,
            max_memory=self.settings.max_memory,
        )

    def keep_in(self, store: Memory, n_blocks: int) -> None:
        """Keep messages in the store, in this many blocks.

        A resumed run has the blocks of its checkpoint. If they would be too large for `max_memory`
        with more threads than it had, it uses fewer threads.
        """
        n_jobs = effective_jobs(self.settings.n_jobs)
        while store.n_blocks > n_blocks and n_jobs > 1:
            n_jobs -= 1
            store = self.choose_store(n_jobs)
        store.n_blocks = n_blocks
        self.settings = replace(self.settings, n_jobs=n_jobs)
        self.store = self.run.recorder.store = store

    @property
    def has_first(self) -> bool:
        """Whether one of the starts is given."""
        return self.first is not None

    # ------------------------------------------------------------ problems and starts

    @cached_property
    def integers(self) -> bool:
        """Whether messages are integers, which must be wanted and possible."""
        if self.settings.messages == "float32" or self.settings.noise_axis is not None:
            return False
        quantization = backends_for(self.observations).quantization(self.settings.first_model())
        if self.settings.messages == "uint8" and not isinstance(quantization, Quantization):
            raise ValueError(
                f'messages="uint8" is not possible here: {quantization}; use "auto" or "float32"'
            )
        return isinstance(quantization, Quantization)

    @cached_property
    def backend(self) -> AnyBackend:
        """The back end, which holds the messages and does the work."""
        n_jobs = self.settings.n_jobs
        if self.settings.method == "paper":
            return PrintedBackend(self.observations.to_local())
        return self.backends.make(self.observations, self.integers, n_jobs, self.store)

    @cached_property
    def first_problem(self) -> Problem:
        """The problem to begin with."""
        return self.backend.problem(self.settings.first_model())

    def _start(self, seed: np.random.Generator) -> Candidate:
        """A random start, the same one each time with the same seed."""
        random = copy.deepcopy(seed)
        problem = self.first_problem
        if self.settings.product == "xor" and self.settings.method != "sum-product":
            state = first_factors.xor_start(
                self.backend, problem, self.observations, random, self.settings.damping
            )
        else:
            state = self.backend.random_start(problem, random)
        return Candidate.of(state, problem.model, self.observations)

    def _given_start(self) -> Candidate:
        """The beliefs of the given factors, with the channel and the priors that they support."""
        assert self.first is not None
        model = self._model_of(self.first)
        # Given factors start with at most these log-odds, which fade until only these are left.
        first_log_odds = 8.0
        least_log_odds = 0.01
        rows, columns = (
            np.clip(odds, -first_log_odds, first_log_odds)
            for odds in (self.first.row_log_odds, self.first.column_log_odds)
        )
        field = InitialBeliefs.of_log_odds(rows, columns, least_log_odds)
        state = self.backend.start(self.backend.problem(model), field)
        return Candidate.of(state, model, self.observations)

    def _run(
        self, problem: Problem, state: State, n_iter: int, backend: AnyBackend | None = None
    ) -> Result:
        return loop.run(
            backend or self.backend,
            problem,
            state,
            self.observations,
            damping=self._damping(state),
            max_iter=n_iter,
            tol=self.settings.tol,
            keep_last=self.settings.method == "paper",
            run=self.run,
        )

    def _damping(self, state: State) -> float:
        if self.settings.method == "auto" and state.semiring == "sum-product":
            return min(1.0, STRIDE * self.settings.damping)
        return self.settings.damping

    def _max_sum(self, candidate: Candidate) -> Candidate:
        """Run max-sum to the end; if something is learned, run it again with the learned model."""
        n_runs = 3 if self.settings.learns_any else 1
        begin = partial(Learning.of, candidate, n_runs)
        with self.run.recorder.frame("max-sum", begin, Learning) as at:
            while True:
                problem = self.backend.problem(at.model)
                if at.left > 1:
                    result = self._run(problem, at.candidate.state, self.settings.max_iter)
                else:
                    result = self._last_run(problem, at.candidate)
                at.candidate.result = joined(at.candidate.result, result)
                at.left -= 1
                if at.left <= 0 or result.interrupted:
                    return at.candidate
                at.model = self._model_of(result)

    def _refine(self, candidate: Candidate, n_iter: int) -> Candidate:
        """Run sum-product from the messages of the candidate, with learning."""
        learns = self.settings.learns_any
        begin = partial(Learning.of, candidate, n_iter, FIRST_UPDATE if learns else n_iter)
        with self.run.recorder.frame("refine", begin, Learning) as at:
            state = at.candidate.state
            while True:
                problem = self.backend.problem(at.model)
                result = self._run(problem, state, min(at.left, at.pause))
                at.candidate.result = joined(at.candidate.result, result)
                at.left -= result.n_iter
                if at.left <= 0 or result.interrupted or not learns:
                    return at.candidate
                beliefs = self.backend.beliefs(problem, state)
                new = model_from_beliefs(
                    self.settings, self.observations, at.model, beliefs, state.expected_ones
                )
                if result.converged and distance(new, at.model) < self.settings.tol:
                    return at.candidate
                at.model, at.pause = new, UPDATE_EVERY
                state.residual = np.inf  # with another model, messages must converge again

    def _last_run(self, problem: Problem, candidate: Candidate) -> Result:
        """Run max-sum to the end; if there are few messages, the last iterations use floats.

        Those are not recorded, so that a resumed run does them again.
        """
        settings, observations = self.settings, self.observations
        n_iter, n_more = settings.max_iter, memory.n_float_iterations(settings.max_iter)
        wanted = settings.alone and settings.messages == "auto" and self.integers
        possible = memory.last_floats_fit(observations.n_observed, settings.n_components)
        if not wanted or not possible or not n_more:
            return self._run(problem, candidate.state, n_iter)
        result = self._run(problem, candidate.state, n_iter - n_more)
        if result.interrupted:
            return result
        backend, problem, state = self.backend.to_floats(problem, candidate.state)
        with self.run.recorder.paused():
            after = self._run(problem, state, n_more, backend)
        if after.log_posterior >= result.log_posterior:
            return joined(result, after)
        return result.as_interrupted() if after.interrupted else result

    def _model_of(self, result: Result) -> Model:
        """The channel and priors that the decoded factors support."""
        return model_from_bits(self.settings, self.observations, result)

    # ------------------------------------------------------------ decimation

    def _decimate(self, candidate: Candidate) -> Candidate:
        """Fix the most biased fraction of the undecided entries and run on, until all are fixed."""
        model, shape, K = (
            candidate.result.model,
            self.observations.shape,
            self.settings.n_components,
        )

        def begin() -> Decimation:
            rows = np.broadcast_to(model.row_prior, (shape[0], K)).copy()
            columns = np.broadcast_to(model.column_prior, (K, shape[1])).copy()
            return Decimation(replace(candidate), rows, columns)

        assert self.settings.decimation is not None
        pause = max(1, int(np.ceil(self.settings.max_iter * self.settings.decimation)))
        with self.run.recorder.frame("decimate", begin, Decimation) as at:
            state = at.candidate.state
            while not at.candidate.result.interrupted:
                if not self.run.recorder.resuming and not self._fix_some(at):
                    break
                fixed = replace(model, row_prior=at.rows, column_prior=at.columns)
                result = self._run(self.backend.problem(fixed), state, pause)
                at.candidate.result = joined(at.candidate.result, result)
            return Candidate(state, replace(at.candidate.result, model=model))

    def _fix_some(self, at: Decimation) -> bool:
        """Fix the most biased fraction of the undecided entries; False if there are none."""
        free_rows, free_columns = _undecided(at.rows), _undecided(at.columns)
        n_free = int(free_rows.sum() + free_columns.sum())
        if n_free == 0:
            return False
        n_fix = max(1, int(np.ceil((self.settings.decimation or 0.0) * n_free)))
        last_problem = self.backend.problem(at.candidate.result.model)
        beliefs = self.backend.beliefs(last_problem, at.candidate.state)
        bias = np.concatenate(
            [np.abs(beliefs.rows[free_rows]), np.abs(beliefs.columns[free_columns])]
        )
        threshold = np.partition(bias, n_free - n_fix)[n_free - n_fix]
        for prior, free, belief in (
            (at.rows, free_rows, beliefs.rows),
            (at.columns, free_columns, beliefs.columns),
        ):
            fixed = free & (np.abs(belief) >= threshold)
            prior[fixed] = belief[fixed] > 0
        return True


def _undecided(prior: NDArray[np.float64]) -> NDArray[np.bool_]:
    return (prior > 0) & (prior < 1)


# ---------------------------------------------------------------- the M-step

# Densities stay away from 0 and 1, which would be certain and could not be unlearned.
LEAST_DENSITY = 1e-3


def model_from_beliefs(
    settings: Settings,
    observations: ObservedEntries,
    model: Model,
    beliefs: Beliefs,
    expected_ones: tuple[float, float],
) -> Model:
    """Learn the channel and the priors from the marginals of sum-product."""
    if settings.noise_axis is not None:
        channel = _channel_by_line(settings, observations, beliefs.rows, beliefs.columns, True)
        model = replace(model, channel=channel)
    elif settings.learns("noise"):
        n_ones = observations.n_ones
        seen_one, seen_zero = expected_ones
        n_zeros = observations.n_observed - n_ones
        counts = (n_zeros - seen_zero, seen_zero), (n_ones - seen_one, seen_one)
        model = replace(model, channel=channel_from_counts(counts))
    if settings.learns("row_prior"):
        model = replace(model, row_prior=density(sigmoid(beliefs.rows)))
    if settings.learns("column_prior"):
        model = replace(model, column_prior=density(sigmoid(beliefs.columns.T)).T)
    return model


def model_from_bits(settings: Settings, observations: ObservedEntries, result: Result) -> Model:
    """Learn the same from the decoded factors, because max-sum has no marginals."""
    model = result.model
    if settings.noise_axis is not None:
        odds = result.row_log_odds, result.column_log_odds
        channel = _channel_by_line(settings, observations, *odds, result.marginal)
        model = replace(model, channel=channel)
    elif settings.learns("noise"):
        model = replace(model, channel=channel_from_counts(result.decoded_counts(observations)))
    if settings.learns("row_prior"):
        model = replace(model, row_prior=density(result.X.astype(np.float64)))
    if settings.learns("column_prior"):
        model = replace(model, column_prior=density(result.Y.T.astype(np.float64)).T)
    return model


def _channel_by_line(
    settings: Settings,
    observations: ObservedEntries,
    row_log_odds: Floats,
    column_log_odds: Floats,
    marginal: bool,
) -> Channel:
    """Learn rates for each column or each row."""
    axis = settings.noise_axis
    assert axis is not None
    odds = row_log_odds, column_log_odds
    counts = noise.expected_counts(observations.to_local(), *odds, settings.product, marginal)
    return noise.channel_of(counts[axis], axis)


def channel_from_counts(counts: Sequence[Sequence[float]] | NDArray[np.int64]) -> Channel:
    """Estimate the channel from (expected) counts, indexed by the seen and then the true value.

    Ten entries with the flip probability of the paper are added for either true value, so that
    small data do not change it much.
    """
    (zero_and_zero, zero_and_one), (one_and_zero, one_and_one) = counts
    one_given_one = (one_and_one + 9) / (one_and_one + zero_and_one + 10)
    one_given_zero = (one_and_zero + 1) / (one_and_zero + zero_and_zero + 10)
    middle = (one_given_one + one_given_zero) / 2
    # Limits of a learned channel: never certain (that could not be unlearned), never useless.
    least_flip = 1e-6
    least_gap = 0.02
    one_given_one = max(one_given_one, middle + least_gap / 2)
    one_given_zero = min(one_given_zero, middle - least_gap / 2)
    return Channel(
        one_given_zero=float(np.clip(one_given_zero, least_flip, 1 - 2 * least_gap)),
        one_given_one=float(np.clip(one_given_one, 2 * least_gap, 1 - least_flip)),
    )


def density(probabilities: NDArray[np.floating]) -> NDArray[np.float64]:
    """Estimate the density of a factor from the probabilities of its entries.

    Parameters
    ----------
    probabilities : (M, K) array
        P(entry = 1).

    Returns
    -------
    (1, 1), (1, K) or (M, 1) array
        One density in total, per factor, or per row. More numbers are used only if they raise the
        expected log-probability of the entries by more than ½ log(entries per number) each.
    """
    n_rows, n_factors = probabilities.shape
    if probabilities.size == 0:
        return np.full((1, 1), 0.5)
    choices = []
    for axis, entries in ((None, n_rows * n_factors), (0, n_rows), (1, n_factors)):
        # One additional success and failure prevent certainty in small samples.
        sums = probabilities.sum(axis=axis, keepdims=True, dtype=np.float64)
        p = np.clip((sums + 1) / (entries + 2), LEAST_DENSITY, 1 - LEAST_DENSITY)
        gain = float(np.sum(sums * np.log(p) + (entries - sums) * np.log1p(-p)))
        choices.append((gain - 0.5 * p.size * np.log(entries + 1), p))
    return max(choices, key=lambda choice: choice[0])[1]


def distance(a: Model, b: Model) -> float:
    """Return the largest difference between the probabilities of two models."""
    pairs = [
        (a.channel.one_given_zero, b.channel.one_given_zero),
        (a.channel.one_given_one, b.channel.one_given_one),
        (a.row_prior, b.row_prior),
        (a.column_prior, b.column_prior),
    ]
    return max(float(np.max(np.abs(np.subtract(x, y)), initial=0.0)) for x, y in pairs)
