"""The log-posterior in parts: exact, however the rows are divided."""

import math

import numpy as np
import pytest

from boolweave import Channel
from boolweave.datasets import make_boolean
from boolweave.engine.backend import InitialBeliefs
from boolweave.engine.integers import IntegerBackend, Score
from boolweave.engine.kernels import variables
from boolweave.model.model import Model
from boolweave.model.odds import HARD_BELIEF


def test_sums_of_priors_are_exact():
    random = np.random.default_rng(0)
    belief = random.standard_normal((200, 3)).astype(np.float32)
    prior = (random.standard_normal((200, 3)) * 10 ** random.uniform(-6, 1, (200, 3))).astype("f4")
    prior[::17] = HARD_BELIEF
    words, coarse, fine = variables.decoded(belief, prior, HARD_BELIEF, True)
    chosen = prior[(belief > 0) & (prior < HARD_BELIEF)].astype(np.float64)
    total = coarse / variables.COARSE + fine / variables.FINE
    assert total == pytest.approx(math.fsum(chosen), abs=len(chosen) / variables.FINE)
    np.testing.assert_array_equal(words[:, 0], (belief > 0) @ [1, 2, 4])
    for cut in (1, 50, 199):
        halves = [
            variables.decoded(belief[part], prior[part], HARD_BELIEF, True)[1:]
            for part in (slice(cut), slice(cut, None))
        ]
        assert np.sum(halves, axis=0).tolist() == [coarse, fine]


@pytest.mark.parametrize("product", ["or", "xor"])
def test_scores_of_rows_add_up(product):
    seen = make_boolean(60, 40, 3, flip=0.1, observed=0.6, random_state=0).observations
    random = np.random.default_rng(1)
    priors = random.uniform(0.2, 0.8, (60, 3)), random.uniform(0.2, 0.8, (3, 40))
    whole = Model(3, Channel(0.1, 0.8), *priors, product=product)
    field = InitialBeliefs.random((60, 40), 3, (9.0, 9.0), 1e-3, np.random.default_rng(2))
    backend = IntegerBackend(seen)
    problem = backend.problem(whole)
    state = backend.start(problem, field)
    found = backend.score(problem, state)
    scores = []
    for rows in (slice(25), slice(25, 60)):
        model = Model(3, Channel(0.1, 0.8), priors[0][rows], priors[1], product=product)
        part = IntegerBackend(seen.take_rows(rows))
        posed = part.problem(model)
        scores.append(part.score(posed, part.start(posed, field.part(rows))))
    np.testing.assert_array_equal(scores[0].columns, scores[1].columns)
    joined = Score(
        scores[0].covered + scores[1].covered, scores[0].rows + scores[1].rows, scores[0].columns
    )
    assert joined.log_posterior(problem) == found.log_posterior(problem)
    assert found.log_posterior(problem) == backend.log_posterior(problem, state)


def test_what_did_not_change_is_not_counted_again(monkeypatch):
    seen = make_boolean(30, 20, 2, random_state=0).observations
    backend, counted = IntegerBackend(seen), []
    problem = backend.problem(Model(2, Channel.symmetric(0.1)))
    covered = variables.count_covered
    monkeypatch.setattr(variables, "count_covered", lambda *a: counted.append(1) or covered(*a))
    odds = np.random.default_rng(0).standard_normal((30, 2)), np.ones((2, 20))
    state = backend.start(problem, InitialBeliefs.of_log_odds(*odds, 1e-6))
    first = backend.log_posterior(problem, state)
    assert backend.log_posterior(problem, state) == first
    assert len(counted) == len(problem.blocks)
    state.field = InitialBeliefs.of_log_odds(-odds[0], odds[1], 1e-6)
    state.messages.quantised_for = None
    assert backend.log_posterior(problem, state) != first
    assert len(counted) == 2 * len(problem.blocks)
