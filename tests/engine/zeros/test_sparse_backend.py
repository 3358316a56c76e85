"""The back end for sparse matrices, compared with back ends that have messages of every zero."""

import numpy as np
import pytest
from matrices import codes_at_random, or_product, sparse_of

from boolweave.datasets import make_boolean
from boolweave.engine import loop
from boolweave.engine.backend import Beliefs
from boolweave.engine.floats import FloatBackend
from boolweave.engine.quantization import Quantization, quantization_for
from boolweave.engine.zeros import backend as sparse
from boolweave.engine.zeros.backend import SparseBackend, best_factors, first_beliefs
from boolweave.metrics import match_factors
from boolweave.model.channel import Channel
from boolweave.model.model import Model

CHANNEL = Channel(one_given_zero=0.01, one_given_one=0.95)


def planted(seed, shape=(400, 300), K=8, **how):
    how = {"row_density": 0.12, "column_density": 0.12, "flip": (0.002, 0.02), **how}
    return make_boolean(*shape, K, random_state=seed, **how)


def run(backend, model, field, seen, semiring="max-sum", n_iter=60):
    problem = backend.problem(model)
    state = backend.start(problem, field)
    result = loop.run(backend, problem, state, seen, max_iter=n_iter)
    if semiring == "sum-product":
        state = backend.to_sum_product(problem, state)
        result = loop.run(backend, problem, state, seen, max_iter=n_iter)
    return result, state


def field_of(seen, K, seed=0):
    by_column = seen.ones.by_columns(seen.n_columns)
    return first_beliefs(seen, by_column, K, np.random.default_rng(seed))


@pytest.mark.parametrize("observed", [1.0, 0.97])
@pytest.mark.parametrize("semiring", ["max-sum", "sum-product"])
@pytest.mark.parametrize("integers", [True, False])
def test_same_end_as_with_every_zero(semiring, integers, observed):
    made = planted(1, observed=observed)
    seen = sparse_of(made.observations.to_dense())
    model, field = Model(8, CHANNEL, 0.2, 0.2), field_of(seen, 8)
    exact, of_exact = run(FloatBackend(made.observations), model, field, seen, semiring)
    found, state = run(SparseBackend(seen, integers), model, field, seen, semiring)
    np.testing.assert_array_equal(found.X, exact.X)
    np.testing.assert_array_equal(found.Y, exact.Y)
    np.testing.assert_array_equal(found.Z, made.Z)
    assert found.log_posterior == pytest.approx(exact.log_posterior, rel=1e-6)
    assert found.converged
    if semiring == "sum-product":
        assert state.expected_ones == pytest.approx(of_exact.expected_ones, rel=0.01)


def test_fixed_points_are_nearly_the_same():
    """Beliefs, too, where they are not beyond all doubt."""
    made = planted(3, (60, 50), 3, flip=(0.05, 0.1), row_density=0.3, column_density=0.3)
    seen = sparse_of(made.observations.to_dense())
    model, field = Model(3, Channel.symmetric(0.1), 0.4, 0.4), field_of(seen, 3)
    exact, _ = run(FloatBackend(made.observations), model, field, seen, n_iter=100)
    found, _ = run(SparseBackend(seen, False), model, field, seen, n_iter=100)
    np.testing.assert_array_equal(found.Z, exact.Z)
    for one, other in (
        (found.row_log_odds, exact.row_log_odds),
        (found.column_log_odds, exact.column_log_odds),
    ):
        assert np.abs(one - other).mean() < 0.05 * np.abs(other).mean()


def test_covered_zeros_matter():
    """A row in which one factor covers zeros costs another nothing there: the list knows it."""
    made = planted(0, (80, 60), 4, flip=(0.02, 0.25), row_density=0.3, column_density=0.3)
    seen = sparse_of(made.observations.to_dense())
    model, field = (
        Model(4, Channel(one_given_zero=0.02, one_given_one=0.75), 0.3, 0.3),
        field_of(seen, 4),
    )
    exact, _ = run(FloatBackend(made.observations), model, field, seen)
    found, state = run(SparseBackend(seen), model, field, seen)
    assert len(state.messages.listed.columns) > 100
    assert found.log_posterior == pytest.approx(exact.log_posterior, rel=1e-6)


def test_a_new_list_changes_no_belief():
    made = planted(0, (80, 60), 4, flip=(0.02, 0.25))
    seen = sparse_of(made.observations.to_dense())
    backend = SparseBackend(seen)
    problem = backend.problem(Model(4, CHANNEL, 0.3, 0.3))
    state = backend.start(problem, field_of(seen, 4))
    for _ in range(4):
        backend.step(problem, state, 0.4)
    before = backend.keep_beliefs(problem, state, None)
    backend._refresh(problem, state, before)
    state.messages.field = state.messages.current = None
    after = backend.beliefs(problem, state)
    assert len(state.messages.listed.columns) > 0
    np.testing.assert_allclose(after.rows, before.rows, atol=1e-3)
    np.testing.assert_allclose(after.columns, before.columns, atol=1e-3)


@pytest.mark.parametrize("semiring", ["max-sum", "sum-product"])
def test_beliefs_made_anew_are_those_of_the_step(semiring):
    """A run that is resumed has messages but no beliefs: they must not differ by a bit."""
    made = planted(0, (80, 60), 4, flip=(0.02, 0.25))
    seen = sparse_of(made.observations.to_dense())
    backend = SparseBackend(seen)
    problem = backend.problem(Model(4, CHANNEL, 0.3, 0.3))
    state = backend.start(problem, field_of(seen, 4))
    for n in range(8):
        if n == 3 and semiring == "sum-product":
            state = backend.to_sum_product(problem, state)
        backend.step(problem, state, 0.4)
        stepped = backend.keep_beliefs(problem, state, None)
        state.messages.field = state.messages.current = None
        anew = backend.beliefs(problem, state)
        np.testing.assert_array_equal(anew.rows, stepped.rows)
        np.testing.assert_array_equal(anew.columns, stepped.columns)
    assert len(state.messages.listed.columns) > 0


@pytest.mark.parametrize("integers", [True, False])
def test_threads_and_pieces_give_the_same_bits(integers, monkeypatch):
    monkeypatch.setattr("boolweave.engine.backend.MIN_BLOCK", 500)
    monkeypatch.setattr("boolweave.runtime.threads.LEAST_ROWS", 32)
    monkeypatch.setattr("boolweave.engine.zeros.collective.CELLS", 100)
    monkeypatch.setattr("boolweave.engine.zeros.backend.WORTH_THREADS", 0)
    made = planted(2, observed=0.99)
    seen = sparse_of(made.observations.to_dense())
    ends = []
    for n_jobs in (1, 3):
        model, field = Model(8, CHANNEL, 0.2, 0.2), field_of(seen, 8)
        backend = SparseBackend(seen, integers, n_jobs)
        ends.append(run(backend, model, field, seen, "sum-product", 8)[0])
    np.testing.assert_array_equal(ends[0].row_log_odds, ends[1].row_log_odds)
    np.testing.assert_array_equal(ends[0].column_log_odds, ends[1].column_log_odds)
    np.testing.assert_array_equal(
        ends[0].history["log_posterior"], ends[1].history["log_posterior"]
    )


def test_patterns_find_planted_factors():
    made = planted(5)
    seen = sparse_of(made.observations.to_dense())
    field = field_of(seen, 8)
    found = match_factors(
        made.X, made.Y, (field.rows > 0).astype(np.uint8), (field.columns > 0).astype(np.uint8)
    )
    assert np.median(found.similarities) > 0.7


def roles(shape, K, seed, missing=0.05, extra=0.02):
    """Users with one to three roles each; some grants are missing, and some are too many."""
    random = np.random.default_rng(seed)
    X, Y = np.zeros((shape[0], K), np.uint8), np.zeros((K, shape[1]), np.uint8)
    for x in X:
        x[random.choice(K, random.integers(1, 4), replace=False)] = 1
    for y in Y:
        y[random.choice(shape[1], random.integers(10, 30), replace=False)] = 1
    granted = or_product(X, Y)
    seen = granted & (random.random(shape) >= missing)
    n_extra = int(extra * granted.sum())
    seen[random.integers(0, shape[0], n_extra), random.integers(0, shape[1], n_extra)] = True
    return X, Y, seen.astype(float)


@pytest.mark.parametrize("seed", range(3))
def test_a_wide_start_finds_noisy_roles(seed):
    X, Y, table = roles((400, 250), 12, seed)
    seen = sparse_of(table)
    backend = SparseBackend(seen)
    problem = backend.problem(Model(12, Channel(one_given_zero=0.01, one_given_one=0.9), 0.2, 0.2))
    state = backend.random_start(problem, np.random.default_rng(0))
    found = loop.run(backend, problem, state, seen, max_iter=60)
    assert match_factors(X, Y, found.X, found.Y).similarities.mean() >= 0.95


def test_what_explains_nothing_alone_is_dropped():
    """Of a factor, the same once more, one inside of it, an empty one and another: two are left."""
    x, y = np.arange(20) < 10, np.arange(15) < 8
    X = np.stack([x, x, np.arange(20) < 4, x & ~x, ~x], axis=1)
    Y = np.stack([y, y, y, y, ~y])
    seen = sparse_of((np.outer(x, y) | np.outer(~x, ~y)).astype(float))
    backend = SparseBackend(seen)
    beliefs = Beliefs(*(np.where(bits, 1.0, -1.0).astype("f4") for bits in (X, Y)))
    problem = backend.problem(Model(5, CHANNEL))
    kept = best_factors(backend, problem, beliefs, 2)
    assert kept.tolist() in ([0, 4], [1, 4])


def test_priors_of_single_factors_are_kept():
    """Then factors are not alike, and there are no more of them than are wanted."""
    seen = sparse_of(planted(0, (40, 30), 2).observations.to_dense())
    backend = SparseBackend(seen)
    for row_prior, column_prior in (([0.1, 0.3], 0.5), (0.5, np.full((2, 30), 0.2))):
        problem = backend.problem(Model(2, CHANNEL, row_prior, column_prior))
        state = backend.random_start(problem, np.random.default_rng(0))
        backend.step(problem, state, 0.4)
        assert backend.beliefs(problem, state).rows.shape == (40, 2)


def test_more_factors_than_sums_of_zeros_allow():
    """Messages of ones alone are integers for any number of factors."""
    seen = sparse_of(np.kron(np.eye(130), np.ones((3, 3))))
    assert isinstance(quantization_for(Model(130, CHANNEL), implicit_zeros=True), Quantization)
    assert isinstance(quantization_for(Model(130, CHANNEL)), str)
    backend = SparseBackend(seen)
    problem = backend.problem(Model(130, CHANNEL, 0.05, 0.05))
    state = backend.random_start(problem, np.random.default_rng(0))
    found = loop.run(backend, problem, state, seen, max_iter=40)
    assert (seen.to_local().to_dense() != found.Z).mean() < 0.001


def test_patterns_of_hardly_any_ones():
    for table in (np.zeros((3, 4)), np.eye(3)):
        field = field_of(sparse_of(table), 5)
        assert (field.rows.shape, field.columns.shape) == ((len(table), 5), (5, table.shape[1]))


def test_products_and_channels_that_are_refused():
    seen = sparse_of(np.eye(3))
    for model in (
        Model(2, CHANNEL, product="xor"),
        Model(2, Channel(one_given_zero=np.full((3, 3), 0.1))),
    ):
        with pytest.raises(ValueError, match='zeros="exact"'):
            SparseBackend(seen).problem(model)
    with pytest.raises(ValueError, match="one_given_one above"):
        SparseBackend(seen).problem(Model(2, Channel.symmetric(0.5)))


def test_check_of_stored_messages():
    seen = sparse_of(codes_at_random((30, 20), np.random.default_rng(0)))
    backend = SparseBackend(seen)
    problem = backend.problem(Model(3, CHANNEL))
    state = backend.start(problem)
    for _ in range(sparse.REFRESH + 2):
        backend.step(problem, state, 0.4)
    backend.check(problem, state)
    state.messages.rows = state.messages.rows[:-1]
    with pytest.raises(ValueError, match="expected"):
        backend.check(problem, state)
    with pytest.raises(ValueError, match="messages of ones"):
        backend.check(
            problem,
            FloatBackend(seen.to_local()).start(
                FloatBackend(seen.to_local()).problem(problem.model)
            ),
        )
