"""The steps of a fit: starts, runs of max-sum and of sum-product with learning, decimation.

`boolweave.fit.learn` calls them.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from boolweave.data.ones import SparseObservations
from boolweave.engine import loop
from boolweave.engine.backend import AnyBackend, Problem, State
from boolweave.engine.field import Field
from boolweave.engine.integer_blocks import Code, code_for
from boolweave.engine.result import Result
from boolweave.fit import memory, xor_starts
from boolweave.fit.machine import Machine, ThisMachine
from boolweave.fit.maximization import distance, model_from_beliefs, model_from_bits
from boolweave.fit.settings import Settings
from boolweave.fit.starts import Candidate, Decimation, Learning, joined
from boolweave.model.model import Model
from boolweave.runtime.checkpoint import Recorder
from boolweave.runtime.storage import Memory
from boolweave.runtime.threads import effective_jobs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.data.observed import ObservedEntries
    from boolweave.runtime.progress import OnIteration

# Sum-product that continues from max-sum takes larger steps: it does not oscillate as max-sum does,
# and near the limits of what can be recovered it is slow.
STRIDE = 1.5

# Expectation-maximization: sum-product needs the first iterations to forget the max-sum messages;
# learning from them sooner drives a noisy problem into the uninformative fixed point.
FIRST_UPDATE = 20
UPDATE_EVERY = 10

# Given factors start with at most these log-odds, which fade until only these are left.
FIRST_LOG_ODDS = 8.0
LEAST_LOG_ODDS = 0.01


@dataclass(eq=False)
class Steps:
    """The constants of a fit, and its steps."""

    observations: ObservedEntries
    settings: Settings
    on_iteration: OnIteration | None
    recorder: Recorder
    first: Result | None = None
    machine: Machine = field(default_factory=ThisMachine)
    store: Memory = field(default_factory=Memory)

    def choose_store(self, n_jobs: int) -> Memory:
        """Choose where messages are kept, given the number of threads."""
        return self.machine.choose_store(
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
        self.store = self.recorder.store = store

    @property
    def has_first(self) -> bool:
        """Whether one of the starts is given."""
        return self.first is not None

    # ------------------------------------------------------------ problems and starts

    @cached_property
    def integers(self) -> bool:
        """Whether messages are integers, which must be wanted and possible."""
        if self.settings.messages == "float32":
            return False
        ones_alone = isinstance(self.observations, SparseObservations)
        code = code_for(self.settings.first_model(), ones_alone)
        if self.settings.messages == "uint8" and not isinstance(code, Code):
            raise ValueError(
                f'messages="uint8" is not possible here: {code}; use "auto" or "float32"'
            )
        return isinstance(code, Code)

    @cached_property
    def backend(self) -> AnyBackend:
        """The back end, which holds the messages and does the work."""
        n_jobs = self.settings.n_jobs
        return self.machine.backend(self.observations, self.integers, n_jobs, self.store)

    @cached_property
    def first_problem(self) -> Problem:
        """The problem to begin with."""
        return self.backend.problem(self.settings.first_model())

    def _start(self, seed: np.random.Generator) -> Candidate:
        """A random start, the same one each time with the same seed."""
        random = copy.deepcopy(seed)
        problem = self.first_problem
        if self.settings.product == "xor" and self.settings.method != "sum-product":
            state = xor_starts.start(
                self.backend, problem, self.observations, random, self.settings.damping
            )
        else:
            state = self.backend.random_start(problem, random)
        return Candidate.of(state, problem.model, self.observations)

    def _given_start(self) -> Candidate:
        """The beliefs of the given factors, with the channel and the priors that they support."""
        assert self.first is not None
        model = self._model_of(self.first)
        rows, columns = (
            np.clip(odds, -FIRST_LOG_ODDS, FIRST_LOG_ODDS)
            for odds in (self.first.row_log_odds, self.first.column_log_odds)
        )
        field = Field.of_log_odds(rows, columns, LEAST_LOG_ODDS)
        state = self.backend.start(self.backend.problem(model), field)
        return Candidate.of(state, model, self.observations)

    def _run(
        self, problem: Problem, state: State, n_iter: int, backend: AnyBackend | None = None,
        recorder: Recorder | None = None,
    ) -> Result:  # fmt: skip
        return loop.run(
            backend or self.backend,
            problem,
            state,
            self.observations,
            damping=self._damping(state),
            max_iter=n_iter,
            tol=self.settings.tol,
            on_iteration=self.on_iteration,
            recorder=recorder or self.recorder,
        )

    def _damping(self, state: State) -> float:
        if self.settings.method == "auto" and state.semiring == "sum-product":
            return min(1.0, STRIDE * self.settings.damping)
        return self.settings.damping

    def _max_sum(self, candidate: Candidate) -> Candidate:
        """Run max-sum to the end; if something is learned, run it again with the learned model."""
        n_runs = 3 if self.settings.learns_any else 1
        with self.recorder.frame("max-sum", lambda: Learning.of(candidate, n_runs)) as at:
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
        pause = FIRST_UPDATE if learns else n_iter
        with self.recorder.frame("refine", lambda: Learning.of(candidate, n_iter, pause)) as at:
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
        settings, seen = self.settings, self.observations
        n_iter, n_more = settings.max_iter, memory.n_float_iterations(settings.max_iter)
        wanted = settings.alone and settings.messages == "auto" and self.integers
        possible = memory.last_floats_fit(seen.n_observed, settings.n_components)
        if not wanted or not possible or not n_more:
            return self._run(problem, candidate.state, n_iter)
        result = self._run(problem, candidate.state, n_iter - n_more)
        if result.interrupted:
            return result
        backend, problem, state = self.backend.to_floats(problem, candidate.state)
        after = self._run(problem, state, n_more, backend, Recorder())
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
        with self.recorder.frame("decimate", begin) as at:
            state = at.candidate.state
            while not at.candidate.result.interrupted:
                if not self.recorder.resuming and not self._fix_some(at):
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
            (at.rows, free_rows, beliefs.rows), (at.columns, free_columns, beliefs.columns)
        ):  # fmt: skip
            fixed = free & (np.abs(belief) >= threshold)
            prior[fixed] = belief[fixed] > 0
        return True


def _undecided(prior: NDArray[np.float64]) -> NDArray[np.bool_]:
    return (prior > 0) & (prior < 1)
