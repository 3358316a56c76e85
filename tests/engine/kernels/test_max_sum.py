"""The kernels against the six-array twin, iteration by iteration.

`make test` runs this file twice, compiled and as plain Python: keep the problems small.
"""

from dataclasses import replace

import numpy as np
import pytest
from engines import beliefs, init_from, log_posterior, pack, step, unpack
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from problems import Small, random_small, smalls
from reference import boolean_product_by_definition, max_sum_reference

from boolweave.engine import backend, floats
from boolweave.engine.backend import InitialBeliefs
from boolweave.engine.kernels import folding_in, max_sum
from boolweave.engine.kernels.rules import xor_of
from boolweave.engine.kernels.vectors import LANES

# Distance allowed between kernel and twin, in units of the largest evidence. Sums of M or N
# messages amplify a rounding error a little in each iteration.
CLOSE = {np.float64: 1e-11, np.float32: 1e-4}
N_ITER = {np.float64: 12, np.float32: 5}

few_examples = settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def assert_follows_the_twin(small: Small, dtype, damping=0.4, start=None):
    """Step the engine and the twin from the same messages and compare them after each step.

    The twin damps Φ̂, the engine Φ, which therefore is the running mean of the twin's Φ.
    """
    start = small.random_messages(seed=0) if start is None else start
    problem = small.problem(dtype)
    state = small.state(problem, *start)
    inside = small.evidence != 0
    scale = max(1.0, np.abs(small.evidence).max())
    tolerance = {"atol": CLOSE[dtype] * scale, "rtol": 0}
    mean_row, mean_column = start
    for twin in max_sum_reference(
        small.evidence,
        *small.prior_log_odds,
        *start,
        damping=damping,
        n_iter=N_ITER[dtype],
        product=small.product,
    ):
        before = mean_row, mean_column
        mean_row = (1 - damping) * mean_row + damping * twin.to_row
        mean_column = (1 - damping) * mean_column + damping * twin.to_column
        step(problem, state, damping)
        sides = state.messages.to_row, state.messages.to_column
        to_row, to_column = (unpack(problem, messages) for messages in sides)
        assert to_row.dtype == dtype
        np.testing.assert_allclose(to_row, mean_row[inside], **tolerance)
        np.testing.assert_allclose(to_column, mean_column[inside], **tolerance)
        a, b = small.prior_log_odds
        rows, columns = beliefs(problem, state)
        for belief, prior, messages in (
            (rows, a, mean_row.sum(axis=1)),
            (columns, b, mean_column.sum(axis=0).T),
        ):
            known = np.isinf(prior)
            np.testing.assert_allclose(belief[~known], (prior + messages)[~known], **tolerance)
            assert (belief[known] * np.sign(prior[known]) > 1e29).all()
        change = np.maximum(np.abs(mean_row - before[0]), np.abs(mean_column - before[1]))
        assert_residual(state.residual, change, small.evidence, CLOSE[dtype])
    assert np.isfinite(to_row).all()


def assert_residual(residual, change, evidence, tolerance):
    """The largest change as a share of |L|; an entry of weak evidence magnifies roundings."""
    inside = evidence != 0
    bound = np.abs(evidence[inside])
    expected = (change[inside].max(axis=1) / bound).max(initial=0)
    slack = tolerance * np.abs(evidence).max() / bound.min(initial=np.inf)
    assert residual == pytest.approx(expected, rel=tolerance, abs=tolerance + slack)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@few_examples
@given(small=smalls(), damping=st.sampled_from([0.4, 0.1, 1.0]), seed=st.integers(0, 99))
def test_follows_the_twin(dtype, small, damping, seed):
    assert_follows_the_twin(small, dtype, damping, small.random_messages(seed))


@pytest.mark.parametrize("chunk", [LANES, 2 * LANES])
@pytest.mark.parametrize("min_block", [1, 3, 1000])
@few_examples
@given(small=smalls(max_side=7, max_factors=3))
def test_chunks_and_blocks_change_nothing(monkeypatch, chunk, min_block, small):
    """Chunks that end inside a row, chunks over several rows, blocks of any size."""
    monkeypatch.setattr(floats, "CHUNK", chunk)
    monkeypatch.setattr(backend, "MIN_BLOCK", min_block)
    assert_follows_the_twin(small, np.float64)


@pytest.mark.parametrize(
    "options",
    [
        {"hard_prior": 1.0},
        {"hard_prior": 0.6, "hard_noise": 0.6},
        {"hard_noise": 1.0},
        {"share": 0.0},
        {"share": 0.1, "erasure": True},
    ],
)
@pytest.mark.parametrize("product", ["or", "xor"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_extremes(options, dtype, product):
    for seed in range(3):
        assert_follows_the_twin(random_small(seed, (5, 6, 3), product=product, **options), dtype)


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 9, 4), (9, 1, 4), (3, 2, 70), (2, 3, 130)])
@pytest.mark.parametrize("product", ["or", "xor"])
def test_odd_shapes(shape, product):
    assert_follows_the_twin(random_small(1, shape, share=1.0, product=product), np.float64)


@pytest.mark.parametrize("product", ["or", "xor"])
@pytest.mark.parametrize("value", [0.0, 0.7, -0.7])
def test_ties(value, product):
    """Equal messages everywhere: the largest and the second largest are the same."""
    small = Small(
        seen=np.array([[1.0, 0.0], [0.0, 1.0]]),
        row_prior=np.full((2, 3), 0.5),
        column_prior=np.full((3, 2), 0.5),
        channel={"one_given_zero": np.full((2, 2), 0.1), "one_given_one": np.full((2, 2), 0.9)},
        product=product,
    )
    assert_follows_the_twin(small, np.float64, start=np.full((2, *small.shape), value))


def test_tiny_messages_become_zero():
    """Denormal floats would slow everything down."""
    small = random_small(0, (3, 4, 2), share=1.0)
    problem = small.problem(np.float32)
    tiny = np.full(small.shape, 1e-36)
    state = small.state(problem, tiny, tiny)
    for _ in range(300):
        step(problem, state, 0.4)
    for messages in (*state.messages.to_row, *state.messages.to_column):
        assert not ((messages != 0) & (np.abs(messages) <= max_sum.NEGLIGIBLE)).any()


@few_examples
@given(small=smalls(max_side=7), seed=st.integers(0, 99))
def test_messages_stay_within_their_bounds(small, seed):
    """Once the start has been forgotten, a message lies between 0 and L (XOR: −|L| and |L|)."""
    problem = small.problem()
    state = small.state(problem, *small.random_messages(seed))
    for _ in range(3):
        step(problem, state, 1.0)
        L = small.evidence[small.evidence != 0][:, None]
        lowest, highest = np.minimum(L, 0), np.maximum(L, 0)
        if small.product == "xor":
            lowest, highest = -np.abs(L), np.abs(L)
        for packed in (state.messages.to_row, state.messages.to_column):
            messages = unpack(problem, packed)
            assert (messages >= lowest - 1e-9).all()
            assert (messages <= highest + 1e-9).all()


@pytest.mark.parametrize("product", ["or", "xor"])
@pytest.mark.parametrize("n_factors", [1, 3, 63, 64, 65, 130])
def test_explained_evidence(n_factors, product):
    """With even priors, the log-posterior is the evidence of the ones, up to a constant."""
    small = random_small(n_factors, (6, 7, n_factors), product=product)
    small.row_prior[:] = small.column_prior[:] = 0.5
    problem = small.problem()
    nothing = init_from(problem)
    rng = np.random.default_rng(n_factors)
    for density in (0.0, 0.1, 0.5, 1.0):
        X = rng.random((6, n_factors)) < density
        Y = rng.random((n_factors, 7)) < density
        state = init_from(problem, InitialBeliefs.of_log_odds(X - 0.5, Y - 0.5, least=0.1))
        total = log_posterior(problem, state) - log_posterior(problem, nothing)
        Z = boolean_product_by_definition(X, Y, product)
        assert total == pytest.approx(small.evidence[Z == 1].sum(), abs=1e-9)


@few_examples
@given(small=smalls(max_side=7), chunk=st.sampled_from([1, 17, 33]), min_block=st.integers(1, 20))
def test_pack_and_unpack(monkeypatch, small, chunk, min_block):
    monkeypatch.setattr(floats, "CHUNK", chunk)
    monkeypatch.setattr(backend, "MIN_BLOCK", min_block)
    problem = small.problem()
    rng = np.random.default_rng(0)
    messages = rng.normal(size=(problem.n_entries, problem.n_components))
    packed = pack(problem, messages)
    np.testing.assert_array_equal(unpack(problem, packed), messages)
    assert all(block.shape[2] % LANES == 0 for block in packed)  # kernels read whole vectors
    assert problem.n_entries == np.count_nonzero(small.evidence)
    assert [block.start for block in problem.blocks][1:] == [b.stop for b in problem.blocks][:-1]
    assert (problem.blocks[0].start, problem.blocks[-1].stop) == (0, small.shape[0])


@few_examples
@given(small=smalls())
def test_state_from_messages_adds_up(small):
    to_row, to_column = small.random_messages(0)
    problem = small.problem()
    rows, columns = beliefs(problem, small.state(problem, to_row, to_column))
    a, b = small.prior_log_odds
    soft = np.isfinite(a), np.isfinite(b)
    np.testing.assert_allclose(rows[soft[0]], (a + to_row.sum(axis=1))[soft[0]])
    np.testing.assert_allclose(columns[soft[1]], (b + to_column.sum(axis=0).T)[soft[1]])


@pytest.mark.parametrize("product", ["or", "xor"])
@few_examples
@given(small=smalls(max_side=5, max_factors=4), seed=st.integers(0, 99))
def test_improve_rows_stops_where_no_flip_helps(product, small, seed):
    problem = replace(small, product=product).problem()
    rng = np.random.default_rng(seed)
    M, N, K = small.shape
    known = rng.integers(0, 2, (K, N), dtype=np.uint8)
    a = problem.row_prior
    start = np.where(np.isinf(small.prior_log_odds[0]), a > 0, rng.random((M, K)) < 0.5)

    def score(bits):
        """Log-posterior of each row, up to a constant."""
        Z = boolean_product_by_definition(bits, known, product)
        return (Z * small.evidence).sum(axis=1) + (bits * np.clip(a, -1e6, 1e6)).sum(axis=1)

    bits = start.astype(np.uint8)
    for block in problem.blocks:
        column_bits = np.ascontiguousarray(known.T)
        folding_in.improve_rows(
            xor_of(product), block.for_kernels(), a[block.rows], column_bits, bits[block.rows]
        )
    assert (score(bits) >= score(start.astype(np.uint8)) - 1e-6).all()
    for k in range(K):
        flipped = bits.copy()
        flipped[:, k] ^= 1
        assert (score(flipped) <= score(bits) + 1e-6).all()
