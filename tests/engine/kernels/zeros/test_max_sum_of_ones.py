"""Max-sum over ones entry by entry, compared with the kernel that has 16 entries in a vector."""

import numba
import numpy as np
import pytest
from engines import messages_of
from matrices import codes_at_random

from boolweave.data.observations import Observations
from boolweave.engine import integers
from boolweave.engine.backend import InitialBeliefs
from boolweave.engine.integers import IntegerBackend
from boolweave.model.channel import Channel
from boolweave.model.model import Model

# Without the compiler the kernels take seconds for what they do in microseconds.
PLAIN = bool(numba.config.DISABLE_JIT)
N_ITER = 3 if PLAIN else 12
CASES = (
    [((9, 7), 0.3, 16), ((4, 40), 0.4, 20)]
    if PLAIN
    else [((40, 30), 0.3, 16), ((90, 70), 0.2, 37), ((5, 900), 0.5, 20)]
)
SHAPE = (10, 9) if PLAIN else (60, 50)


def ones_of(shape, density, seed):
    """Ones alone, at random; some rows have none."""
    random = np.random.default_rng(seed)
    table = np.where(random.random(shape) < density, 1.0, np.nan)
    table[random.random(shape[0]) < 0.1] = np.nan
    return Observations.from_dense(table)


def states(seen, K, by_entry, monkeypatch, n_iter, damping, n_jobs=1, n_blocks=500, field=None):
    """Beliefs, residuals and messages of some iterations from first beliefs at random."""
    monkeypatch.setattr(integers, "BY_ENTRY", 16 if by_entry else 10**6)
    monkeypatch.setattr("boolweave.engine.backend.MIN_BLOCK", n_blocks)
    backend = IntegerBackend(seen, n_jobs)
    problem = backend.problem(Model(K, Channel(one_given_zero=0.02, one_given_one=0.9), 0.1, 0.1))
    assert problem.by_entry == by_entry
    at_random = InitialBeliefs.random(seen.shape, K, (3.0, 3.0), 0.01, np.random.default_rng(1))
    state = backend.start(problem, field or at_random)
    residuals = []
    for _ in range(n_iter):
        backend.step(problem, state, damping)
        residuals.append(state.residual)
    return backend, problem, state, residuals


@pytest.mark.parametrize("damping", [0.4, 0.1, 1.0])
@pytest.mark.parametrize(("shape", "density", "K"), CASES)
def test_same_bits_as_sixteen_entries_at_once(shape, density, K, damping, monkeypatch):
    seen, found = ones_of(shape, density, K), []
    for by_entry in (True, False):
        for n_jobs in (1, 2):
            made = states(seen, K, by_entry, monkeypatch, N_ITER, damping, n_jobs)
            backend, problem, state, residuals = made
            found.append((*messages_of(problem, state), np.array(residuals)))
            beliefs = backend.beliefs(problem, state)
            found[-1] += (beliefs.rows, beliefs.columns)
    assert len(found[0][0]) and found[0][0].any()
    for other in found[1:]:
        for one, same in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, same)


if not PLAIN:  # it takes thousands of entries in a column to fill the sums

    @pytest.mark.parametrize("damping", [0.4, 1.0])
    def test_columns_with_many_ones_have_room(damping, monkeypatch):
        seen, K, found = ones_of((1500, 9), 0.5, 0), 19, []
        rows, columns = (
            np.full((1500, K), 3.0),
            np.full((K, 9), -6.0),
        )  # all entries ask for columns
        field = InitialBeliefs.of_log_odds(rows, columns, 0.01)
        for by_entry, n_jobs in ((True, 1), (True, 2), (False, 1)):
            made = states(seen, K, by_entry, monkeypatch, 1, damping, n_jobs, field=field)
            columns = made[2].messages.sums.columns
            found.append(columns.table(columns.sums))
        assert found[0].max() > 2 * np.iinfo(np.int16).max
        np.testing.assert_array_equal(found[0], found[1])
        np.testing.assert_array_equal(found[0], found[2])


def test_messages_go_on_as_those_of_sum_product(monkeypatch):
    seen, found = ones_of(SHAPE, 0.3, 0), []
    for by_entry in (True, False):
        backend, problem, state, _ = states(seen, 33, by_entry, monkeypatch, N_ITER // 2, 0.4)
        after = backend.to_sum_product(problem, state)
        backend.check(problem, after)
        found.append(messages_of(problem, after))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_beliefs_are_those_that_a_step_writes_down(monkeypatch):
    seen = ones_of(SHAPE, 0.3, 0)
    backend, problem, state, _ = states(seen, 20, True, monkeypatch, 3, 0.4)
    out = backend.beliefs(problem, state)
    out.rows[...], out.columns[...] = np.nan, np.nan
    room = type(out)(out.rows, np.ascontiguousarray(out.columns.T).T)
    backend.step(problem, state, 0.4, room)
    now = backend.beliefs(problem, state)
    np.testing.assert_allclose(room.rows, now.rows, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(room.columns, now.columns, rtol=1e-6, atol=1e-6)


def test_zeros_among_the_entries_go_by_sixteen(monkeypatch):
    monkeypatch.setattr(integers, "BY_ENTRY", 16)
    seen = Observations.from_dense(codes_at_random((20, 20), np.random.default_rng(0)))
    problem = IntegerBackend(seen).problem(Model(20, Channel.symmetric(0.1)))
    assert not problem.by_entry
