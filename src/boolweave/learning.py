"""From one run to an answer: restarts, learned channel and priors, decimation, fall-back.

`fit` is the way through, by `Settings.method`:

    max-sum       random starts, each run to the end; the best by log-posterior
    sum-product   random starts, sum-product with what is to be learned
    auto          many short max-sum starts, the most promising go on with sum-product and
                  expectation-maximisation, fewer and fewer, and the best one is finished
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from boolweave import compact, memory, xor_starts
from boolweave import message_passing as engine
from boolweave.candidates import (
    Candidate,
    Decimation,
    Learning,
    Starts,
    agreed,
    best_first,
    finalists,
    joined,
)
from boolweave.checkpoint import Recorder
from boolweave.density import density
from boolweave.field import Field
from boolweave.message_passing import Problem, State
from boolweave.metrics import match_factors
from boolweave.model import Channel, Model, sigmoid
from boolweave.products import Product
from boolweave.result import Result
from boolweave.resuming import frame_of, whole_number
from boolweave.storage import Memory
from boolweave.threads import effective_jobs

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from boolweave.observations import Observations

    OnIteration = Callable[[int, float, float], None]

# What the paper uses where it does not learn; where it learns, a run starts from it.
PAPER_FLIP = 0.1
PAPER_PRIOR = 0.5

# With more factors than this, factors that are half ones cover next to everything, and messages
# that begin there end there. Learned priors then begin where they explain the share of ones.
MANY_FACTORS = 16

# "auto": so many starts of so many iterations, fewer if some agree; the best go on with sum-product
# for so many iterations; the best of those is finished. In all at most four times 200 iterations of
# max-sum.
N_STARTS = 6
SHORT = 40
TRIAL = 50

# Sum-product that goes on from max-sum takes longer steps: it does not swing as max-sum does, and
# near the limits of what can be recovered it is slow.
STRIDE = 1.5

# Expectation-maximisation: sum-product needs the first iterations to forget the max-sum messages;
# learning from them sooner drives a noisy problem into the uninformative fixed point.
FIRST_UPDATE = 20
UPDATE_EVERY = 10

# What a learned channel may be: never certain (that could not be unlearned), never useless.
LEAST_FLIP = 1e-6
LEAST_GAP = 0.02

# Given factors are not believed beyond these log-odds, and no longer than until these are left.
FIRST_LOG_ODDS = 8.0
LEAST_LOG_ODDS = 0.01

# A factor comes back in another start if the tiles overlap by this Jaccard similarity.
SAME_FACTOR = 0.5


class UninformativeWarning(UserWarning):
    """Sum-product forgot what max-sum had found; the answer is max-sum's."""


@dataclass(frozen=True)
class Settings:
    """What to fit and how; the estimator's parameters, resolved."""

    n_components: int
    product: Product = "or"
    method: Literal["auto", "max-sum", "sum-product"] = "auto"
    noise: Channel | Literal["learn"] = "learn"
    row_prior: ArrayLike | Literal["learn"] = "learn"
    column_prior: ArrayLike | Literal["learn"] = "learn"
    damping: float = 0.4
    max_iter: int = 200
    tol: float = 1e-3
    n_init: int = 1
    n_jobs: int | None = None
    decimation: float | None = None
    messages: Literal["auto", "uint8", "float32"] = "auto"
    max_memory: int | None = None

    def learns(self, name: str) -> bool:
        """Whether `name`, "noise", "row_prior" or "column_prior", is to be learned."""
        value = getattr(self, name)
        return isinstance(value, str) and value == "learn"

    @property
    def learns_any(self) -> bool:
        """Whether anything is to be learned."""
        return any(self.learns(name) for name in ("noise", "row_prior", "column_prior"))

    def first_model(self, share_of_ones: float = 0.5) -> Model:
        """The model to begin with: what is given, and the paper's values for what is learned.

        With many factors, priors that make as many ones as were seen: d = 1 − (1 − p²)^K.
        """
        prior = PAPER_PRIOR
        if self.product == "or" and self.n_components > MANY_FACTORS:
            share = min(max(share_of_ones, 0.01), 0.99)
            prior = float(np.sqrt(1 - (1 - share) ** (1 / self.n_components)))
        return Model(
            n_components=self.n_components,
            channel=Channel.symmetric(PAPER_FLIP) if self.learns("noise") else self.noise,  # type: ignore[arg-type]
            row_prior=prior if self.learns("row_prior") else self.row_prior,
            column_prior=prior if self.learns("column_prior") else self.column_prior,
            product=self.product,
        )


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


@dataclass(eq=False)
class _Fit:
    """One call of `fit`: what does not change during it, and the steps."""

    observations: Observations
    settings: Settings
    on_iteration: OnIteration | None
    recorder: Recorder
    first: Result | None = None
    store: Memory = field(default_factory=Memory)

    def room(self, n_jobs: int) -> Memory:
        """Where this many threads may keep messages."""
        settings = self.settings
        how: dict[str, Any] = {
            "max_memory": settings.max_memory,
            "messages": "float32" if self.code is None else "uint8",
            "method": settings.method,
            "learns": settings.learns_any,
            "n_init": settings.n_init + self.has_first,
            "product": settings.product,
        }
        cluster = getattr(self.observations, "cluster", None)
        if cluster is not None:  # the messages are not kept here
            return cluster.room(self.observations, settings.n_components, **how)  # type: ignore[no-any-return]
        return memory.store_for(self.observations, settings.n_components, n_jobs=n_jobs, **how)

    def keep_in(self, store: Memory, n_blocks: int) -> None:
        """Keep messages in the store, in so many blocks.

        A run that goes on has the blocks of its checkpoint. If with more threads than it had they
        would be too large for `max_memory`, it takes fewer threads.
        """
        n_jobs = effective_jobs(self.settings.n_jobs)
        while store.n_blocks > n_blocks and n_jobs > 1:
            n_jobs -= 1
            store = self.room(n_jobs)
        store.n_blocks = n_blocks
        self.settings = replace(self.settings, n_jobs=n_jobs)
        self.store = self.recorder.store = store

    @property
    def has_first(self) -> bool:
        """Whether one of the starts is given."""
        return self.first is not None

    def run(self, random: np.random.Generator) -> Result:
        seeds = random.spawn(self.settings.n_init)
        most = max(self.settings.max_iter, FIRST_UPDATE, UPDATE_EVERY)
        for name, kind in (
            ("starts", Starts), ("max-sum", Learning), ("refine", Learning),
            ("decimate", Decimation), ("run", engine.Run),
        ):  # fmt: skip
            self.recorder.checks[name] = frame_of(kind, lambda: self.first_problem, most)
        with self.recorder.frame("starts", Starts) as at:
            try:
                method = self._auto if self.settings.method == "auto" else self._restarts
                at.so_far = method(at, seeds)
                return with_stability(at.so_far, at.ends)
            except KeyboardInterrupt:  # between two runs; within one, the engine returns
                if at.so_far is None:
                    raise
                return with_stability(replace(at.so_far, interrupted=True), at.ends)

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
                at.so_far = replace(at.so_far, interrupted=True)
                break
        assert at.so_far is not None
        return at.so_far

    def _to_the_end(self, at: Starts, candidate: Candidate) -> Candidate:
        if self.settings.method == "max-sum":
            return self._max_sum(candidate, self.settings.max_iter)
        if at.refined is None:
            at.refined = self._refine(candidate, self.settings.max_iter)
        return at.refined if self.settings.decimation is None else self._decimate(at.refined)

    # ------------------------------------------------------------ the steps

    @cached_property
    def code(self) -> compact.Code | None:
        """How messages are integers, where that is wanted and possible."""
        if self.settings.messages == "float32":
            return None
        code = compact.code_for(self.settings.first_model())
        if isinstance(code, compact.Code):
            return code
        if self.settings.messages == "uint8":
            raise ValueError(
                f'messages="uint8" is not possible here: {code}; use "auto" or "float32"'
            )
        return None

    @cached_property
    def first_problem(self) -> Problem:
        """The problem to begin with."""
        seen = self.observations
        model = self.settings.first_model(seen.n_ones / max(1, seen.n_observed))
        return engine.make_problem(seen, model, code=self.code, store=self.store)

    def _problem(self, model: Model) -> Problem:
        return engine.with_model(self.first_problem, self.observations, model)

    def _start(self, random: np.random.Generator) -> Candidate:
        problem = self.first_problem
        if self.settings.product == "xor" and self.settings.method != "sum-product":
            state = xor_starts.start(problem, self.observations, random, self.settings.damping)
        else:
            state = engine.init(problem, random)
        return Candidate.of(state, problem.model, self.observations)

    def _given_start(self) -> Candidate:
        """The beliefs of the given factors, with the channel and the priors that they support."""
        assert self.first is not None
        model = self._learn_from_bits(replace(self.first, marginal=False))
        rows, columns = (
            np.clip(odds, -FIRST_LOG_ODDS, FIRST_LOG_ODDS)
            for odds in (self.first.row_log_odds, self.first.column_log_odds)
        )
        field = Field.of_log_odds(rows, columns, LEAST_LOG_ODDS)
        state = engine.init_from(self._problem(model), field)
        return Candidate.of(state, model, self.observations)

    def _run(self, problem: Problem, state: State, n_iter: int) -> Result:
        return engine.run(
            problem,
            state,
            self.observations,
            damping=self._damping(state),
            max_iter=n_iter,
            tol=self.settings.tol,
            n_jobs=self.settings.n_jobs,
            on_iteration=self.on_iteration,
            recorder=self.recorder,
        )

    def _damping(self, state: State) -> float:
        if self.settings.method == "auto" and state.semiring == "sum-product":
            return min(1.0, STRIDE * self.settings.damping)
        return self.settings.damping

    def _max_sum(self, candidate: Candidate, n_iter: int) -> Candidate:
        """Max-sum to the end; then, where something is to be learned, again with what was found."""
        n_runs = 3 if self.settings.learns_any else 1
        with self.recorder.frame("max-sum", lambda: Learning.of(candidate, n_runs)) as at:
            while True:
                result = self._run(self._problem(at.model), at.candidate.state, n_iter)
                at.candidate.result = joined(at.candidate.result, result)
                at.left -= 1
                if at.left <= 0 or result.interrupted:
                    return at.candidate
                at.model = self._learn_from_bits(result)

    def _refine(self, candidate: Candidate, n_iter: int) -> Candidate:
        """Sum-product from the candidate's messages, learning what is to be learned."""
        learns = self.settings.learns_any
        pause = FIRST_UPDATE if learns else n_iter
        with self.recorder.frame("refine", lambda: Learning.of(candidate, n_iter, pause)) as at:
            state = at.candidate.state
            while True:
                result = self._run(self._problem(at.model), state, min(at.left, at.pause))
                at.candidate.result = joined(at.candidate.result, result)
                at.left -= result.n_iter
                if at.left <= 0 or result.interrupted or not learns:
                    return at.candidate
                new = self._learn_from_beliefs(state, at.model)
                if result.converged and _distance(new, at.model) < self.settings.tol:
                    return at.candidate
                at.model, at.pause = new, UPDATE_EVERY
                state.residual = np.inf  # with another model the messages are to settle anew

    # ------------------------------------------------------------ learning

    def _learn_from_beliefs(self, state: State, model: Model) -> Model:
        """The M-step: the channel and priors that the marginals of sum-product support."""
        channel = model.channel
        if self.settings.learns("noise"):
            n_ones = self.observations.n_ones
            seen_one, seen_zero = state.expected_ones
            channel = _channel_from_counts(
                one_and_one=seen_one,
                one_and_zero=n_ones - seen_one,
                zero_and_one=seen_zero,
                zero_and_zero=self.observations.n_observed - n_ones - seen_zero,
            )
        row_prior, column_prior = model.row_prior, model.column_prior
        if self.settings.learns("row_prior"):
            row_prior = density(sigmoid(state.row_belief))
        if self.settings.learns("column_prior"):
            column_prior = density(sigmoid(state.column_belief.T)).T
        return replace(model, channel=channel, row_prior=row_prior, column_prior=column_prior)

    def _learn_from_bits(self, result: Result) -> Model:
        """The same from decoded factors, as max-sum has no marginals."""
        model = result.model
        channel = model.channel
        X, Y = result.X, result.Y
        if self.settings.learns("noise"):
            seen = self.observations
            (zero_and_zero, zero_and_one), (one_and_zero, one_and_one) = result.counts(seen)
            channel = _channel_from_counts(
                zero_and_zero=zero_and_zero, zero_and_one=zero_and_one,
                one_and_zero=one_and_zero, one_and_one=one_and_one,
            )  # fmt: skip
        row_prior, column_prior = model.row_prior, model.column_prior
        if self.settings.learns("row_prior"):
            row_prior = density(X.astype(np.float64))
        if self.settings.learns("column_prior"):
            column_prior = density(Y.T.astype(np.float64)).T
        return replace(model, channel=channel, row_prior=row_prior, column_prior=column_prior)

    # ------------------------------------------------------------ auto

    def _auto(self, at: Starts, seeds: list[np.random.Generator]) -> Result:
        short = min(SHORT, self.settings.max_iter)
        trial = min(TRIAL, self.settings.max_iter - short)
        while len(at.done) < len(seeds) and not agreed(at.done):
            if not self.recorder.resuming:
                at.current = self._start(seeds[len(at.done)])
            assert at.current is not None
            result = self._run(self.first_problem, at.current.state, short)
            at.current.result = joined(at.current.result, result)
            at.done = best_first([*at.done, at.current])
            at.so_far = at.done[0].result
            if result.interrupted:
                return replace(at.so_far, interrupted=True)
            for loser in finalists(at.done, keep=False):
                loser.forget_messages()
        best_start = self.first or at.done[0].result
        chosen = finalists(at.done)
        while at.n_tried < len(chosen) + self.has_first:
            if not self.recorder.resuming and at.n_tried == len(chosen):
                at.current = self._given_start()
                at.current.state = engine.to_sum_product(self.first_problem, at.current.state)
            elif not self.recorder.resuming:
                at.current = self._with_first_guess(chosen[at.n_tried])
                chosen[at.n_tried].forget_messages()
            assert at.current is not None
            refined = self._refine(at.current, trial)
            if refined.result.interrupted:
                return replace(at.so_far or refined.result, interrupted=True)
            at.finalists = best_first([*at.finalists, refined])
            at.current = None  # it has the messages of `refined`, which may be let go
            at.n_tried += 1
            for loser in at.finalists[1:]:
                loser.forget_messages()
            if self._says_something(at.finalists[0].result, best_start):
                at.so_far = at.finalists[0].result
        if at.refined is None:
            at.current, best = None, at.finalists[0]
            left = self.settings.max_iter - short - trial
            at.refined = best if best.result.converged else self._refine(best, left)
        best = at.refined if self.settings.decimation is None else self._decimate(at.refined)
        return self._checked(best.result, best_start)

    def _with_first_guess(self, start: Candidate) -> Candidate:
        """Sum-product where learning begins: the channel of the decoded factors, no prior yet."""
        learned = self._learn_from_bits(start.result)
        model = replace(start.result.model, channel=learned.channel)
        state = engine.to_sum_product(self.first_problem, start.state)
        return Candidate(state, replace(start.result, model=model))

    def _checked(self, result: Result, start: Result) -> Result:
        """The sum-product answer, unless it says nothing about the data where max-sum did."""
        if result.interrupted or self._says_something(result, start):
            return result
        right, right_before, constant = self._shares_explained(result, start)
        warnings.warn(
            f"sum-product turned uninformative (it explains {right:.1%} of the entries, a constant "
            f"{constant:.1%}, max-sum {right_before:.1%}); the answer is max-sum's. The noise may "
            "be too strong for this many factors: try fewer, or give noise and priors.",
            UninformativeWarning,
            stacklevel=2,
        )
        return replace(start, model=self._learn_from_bits(start))

    def _says_something(self, result: Result, start: Result) -> bool:
        """Whether it explains at least a tenth of what max-sum explains beyond a constant."""
        if self.observations.n_observed == 0:
            return True
        right, right_before, constant = self._shares_explained(result, start)
        return right > constant + 0.1 * (right_before - constant) or right >= right_before

    def _shares_explained(self, *results: Result) -> list[float]:
        """The share of the entries that each result explains; last, that of a constant."""
        seen = self.observations
        shares = [int(np.trace(result.counts(seen))) / seen.n_observed for result in results]
        ones = seen.share_of_ones
        return [*shares, max(ones, 1 - ones)]

    # ------------------------------------------------------------ decimation

    def _decimate(self, candidate: Candidate) -> Candidate:
        """Fix the most biased share of the undecided entries, run on, until all are decided."""
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
        with self.recorder.frame("decimate", begin) as at:
            state = at.candidate.state
            while not at.candidate.result.interrupted:
                if not self.recorder.resuming and not self._fix_some(at):
                    break
                fixed = replace(model, row_prior=at.rows, column_prior=at.columns)
                result = self._run(self._problem(fixed), state, pause)
                at.candidate.result = joined(at.candidate.result, result)
            return Candidate(state, replace(at.candidate.result, model=model))

    def _fix_some(self, at: Decimation) -> bool:
        """Fix the most biased share of what is undecided; False if nothing is."""
        free_rows, free_columns = _undecided(at.rows), _undecided(at.columns)
        n_free = int(free_rows.sum() + free_columns.sum())
        if n_free == 0:
            return False
        n_fix = max(1, int(np.ceil((self.settings.decimation or 0.0) * n_free)))
        state = at.candidate.state
        bias = np.concatenate(
            [np.abs(state.row_belief[free_rows]), np.abs(state.column_belief[free_columns])]
        )
        threshold = np.partition(bias, n_free - n_fix)[n_free - n_fix]
        for prior, free, belief in (
            (at.rows, free_rows, state.row_belief), (at.columns, free_columns, state.column_belief)
        ):  # fmt: skip
            fixed = free & (np.abs(belief) >= threshold)
            prior[fixed] = belief[fixed] > 0
        return True


def _undecided(prior: NDArray[np.float64]) -> NDArray[np.bool_]:
    return (prior > 0) & (prior < 1)


def _channel_from_counts(
    *, one_and_one: float, one_and_zero: float, zero_and_one: float, zero_and_zero: float
) -> Channel:
    """The channel of (expected) counts of "seen and true".

    Ten entries with the paper's share of flips are added for either true value: little data cannot
    teach much.
    """
    one_given_one = (one_and_one + 9) / (one_and_one + zero_and_one + 10)
    one_given_zero = (one_and_zero + 1) / (one_and_zero + zero_and_zero + 10)
    middle = (one_given_one + one_given_zero) / 2
    one_given_one = max(one_given_one, middle + LEAST_GAP / 2)
    one_given_zero = min(one_given_zero, middle - LEAST_GAP / 2)
    return Channel(
        one_given_zero=float(np.clip(one_given_zero, LEAST_FLIP, 1 - 2 * LEAST_GAP)),
        one_given_one=float(np.clip(one_given_one, 2 * LEAST_GAP, 1 - LEAST_FLIP)),
    )


def _distance(a: Model, b: Model) -> float:
    """Largest difference between the probabilities of two models."""
    pairs: list[tuple[Any, Any]] = [
        (a.channel.one_given_zero, b.channel.one_given_zero),
        (a.channel.one_given_one, b.channel.one_given_one),
        (a.row_prior, b.row_prior),
        (a.column_prior, b.column_prior),
    ]
    return max(float(np.max(np.abs(np.asarray(x) - y), initial=0.0)) for x, y in pairs)


def with_stability(result: Result, ends: list[Result]) -> Result:
    """Say of each factor in which share of the starts it came back (Jaccard of tiles ≥ ½)."""
    X, Y = result.X, result.Y
    found = np.zeros(X.shape[1])
    for end in ends:
        match = match_factors(X, Y, end.X, end.Y)
        found += (match.permutation >= 0) & (match.similarities >= SAME_FACTOR)
    return replace(result, stability=found / max(1, len(ends)))
