"""The log-posterior in parts: exact, however the rows are parted."""

import math

import numpy as np
import pytest

from boolweave import Channel
from boolweave.datasets import make_boolean
from boolweave.engine import integers
from boolweave.engine import loop as engine
from boolweave.engine.kernels import variables
from boolweave.engine.scoring import Parts, Scorer
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
def test_parts_of_rows_add_up(product):
    seen = make_boolean(60, 40, 3, flip=0.1, observed=0.6, random_state=0).observations
    random = np.random.default_rng(1)
    priors = random.uniform(0.2, 0.8, (60, 3)), random.uniform(0.2, 0.8, (3, 40))
    whole = Model(3, Channel(0.1, 0.8), *priors, product=product)
    code = integers.code_for(whole)
    problem = engine.make_problem(seen, whole, code=code)
    state = engine.init(problem, np.random.default_rng(2))
    for _ in range(3):
        engine.step(problem, state, 0.4)
    found = Scorer(problem, None).parts(state)
    parts = []
    for rows in (slice(25), slice(25, 60)):
        model = Model(3, Channel(0.1, 0.8), priors[0][rows], priors[1], product=product)
        share = engine.make_problem(seen.take_rows(rows), model, code=code)
        own = engine.replace(state, row_belief=state.row_belief[rows], sums=None)
        parts.append(Scorer(share, None).parts(own))
    np.testing.assert_array_equal(parts[0].columns, parts[1].columns)
    joined = Parts(parts[0].covered + parts[1].covered, parts[0].rows + parts[1].rows,
                   parts[0].columns)  # fmt: skip
    assert joined.log_posterior(problem) == found.log_posterior(problem)
    assert found.log_posterior(problem) == engine.log_posterior(problem, state)


def test_what_did_not_change_is_not_counted_again(monkeypatch):
    seen = make_boolean(30, 20, 2, random_state=0).observations
    model = Model(2, Channel.symmetric(0.1))
    problem = engine.make_problem(seen, model, code=integers.code_for(model))
    state = engine.init(problem, np.random.default_rng(0))
    scorer, counted = Scorer(problem, None), []
    covered = integers.covered
    monkeypatch.setattr(integers, "covered", lambda *a: counted.append(1) or covered(*a))
    state.row_belief, state.column_belief = map(np.asarray, (state.row_belief, state.column_belief))
    first = scorer(state)
    state.row_belief = state.row_belief * 2
    assert scorer(state) == first and len(counted) == len(problem.blocks)
    state.row_belief = -state.row_belief
    assert scorer(state) != first and len(counted) == 2 * len(problem.blocks)
