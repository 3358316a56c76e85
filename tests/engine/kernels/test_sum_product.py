"""Sum-product: one step against the twin, and exact on trees.

`make test` runs this file twice, compiled and as plain Python: keep the problems small.
"""

from dataclasses import replace

import numpy as np
import pytest
from engines import beliefs, step, to_sum_product, unpack
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from problems import posterior_of_one_entry, random_small, smalls
from reference import sum_product_reference
from trees import trees

from boolweave.engine import backend, floats
from boolweave.engine.kernels import sum_product
from boolweave.engine.kernels.vectors import LANES
from boolweave.model.odds import sigmoid

few_examples = settings(
    max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

PRODUCTS = ["or", "xor"]

# Ratios are 32-bit floats: the log of one that follows from a few multiplications and divisions.
CLOSE = 2e-4
IN_PROBABILITY = 1e-4

# Beyond these log-odds nothing is left to doubt, and the kernel's limits may show.
BEYOND_DOUBT = 20.0


# ---------------------------------------------------------------- one step


def sum_product_state(small, problem, messages):
    """The engine's state with the messages Φ and Ψ (M, N, K), kept as ratios."""
    return to_sum_product(problem, small.state(problem, *messages))


def both_messages(small, problem, state):
    """Φ and Ψ as (M, N, K), 0 outside Ω; from ratios to log-odds."""
    sides = np.zeros((2, *small.shape))
    for full, packed in zip(sides, (state.messages.to_row, state.messages.to_column), strict=True):
        full[small.evidence != 0] = np.log(unpack(problem, packed).astype(np.float64))
    return sides


def assert_one_step_is_the_twins(small, damping=0.4, n_iter=4, seed=0):
    """Before each step the twin is given the messages of the engine.

    The engine damps the ratio e^Φ, not Φ: after the twin's step, mix as it does.
    """
    problem = small.problem(np.float32)
    state = sum_product_state(small, problem, small.random_messages(seed))
    inside = small.evidence != 0
    a, b = small.prior_log_odds
    limit = np.log(float(sum_product.RATIO_LIMIT))
    for _ in range(n_iter):
        before = both_messages(small, problem, state)
        (twin,) = sum_product_reference(
            small.evidence, a, b, *before, damping=1.0, n_iter=1, product=small.product
        )
        step(problem, state, damping)
        after = both_messages(small, problem, state)
        for found, old, new in zip(after, before, (twin.to_row, twin.to_column), strict=True):
            mixed = np.log(
                (1 - damping) * np.exp(old) + damping * np.exp(np.clip(new, -limit, limit))
            )
            found, mixed = (np.clip(m[inside], -BEYOND_DOUBT, BEYOND_DOUBT) for m in (found, mixed))
            np.testing.assert_allclose(found, mixed, atol=CLOSE, rtol=CLOSE)
        sums = after[0].sum(axis=1), after[1].sum(axis=0).T
        for belief, prior, told in zip(beliefs(problem, state), (a, b), sums, strict=True):
            soft = np.isfinite(prior)
            np.testing.assert_allclose(
                belief[soft], (prior + told)[soft], rtol=1e-5, atol=1e-5 * (1 + limit)
            )
            assert (belief[~soft] * np.sign(prior[~soft]) > 1e29).all()
        moved = np.array([new - old for new, old in zip(after, before, strict=True)])[:, inside]
        largest = 2 * np.abs(np.tanh(moved / 2)).max(initial=0)
        assert state.residual == pytest.approx(largest, abs=1e-3)


@pytest.mark.parametrize("product", PRODUCTS)
@few_examples
@given(small=smalls(), damping=st.sampled_from([0.4, 0.1, 1.0]), seed=st.integers(0, 99))
def test_one_step_is_the_twins(product, small, damping, seed):
    assert_one_step_is_the_twins(replace(possible(small), product=product), damping, seed=seed)


def possible(small):
    """Some noise in every entry where bits are known: or the two might contradict each other."""
    known = ~np.isfinite(np.concatenate([odds.ravel() for odds in small.prior_log_odds]))
    least = 1e-4 if known.any() else 0.0
    noisy = dict(small.channel)
    for value in ("zero", "one"):
        gone = noisy.get(f"missing_given_{value}", 0.0)
        name = f"one_given_{value}"
        noisy[name] = np.clip(noisy[name], least, 1 - gone - least)
    return replace(small, channel=noisy)


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize(("chunk", "min_block"), [(LANES, 1), (LANES, 1000), (2 * LANES, 3)])
def test_chunks_and_blocks_change_nothing(monkeypatch, chunk, min_block, product):
    monkeypatch.setattr(floats, "CHUNK", chunk)
    monkeypatch.setattr(backend, "MIN_BLOCK", min_block)
    for seed in range(3):
        small = replace(random_small(seed, (7, 6, 3), erasure=seed == 2), product=product)
        assert_one_step_is_the_twins(small, seed=seed)


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize(
    "options",
    [
        {"hard_prior": 1.0},
        {"hard_noise": 1.0},
        {"hard_prior": 0.4},
        {"share": 0.0},
    ],
)
def test_extremes(options, product):
    for seed in range(3):
        small = replace(random_small(seed, (5, 6, 3), **options), product=product)
        assert_one_step_is_the_twins(small, n_iter=2)


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 9, 4), (9, 1, 4), (3, 2, 70)])
def test_odd_shapes(shape, product):
    assert_one_step_is_the_twins(replace(random_small(1, shape, share=1.0), product=product))


# ---------------------------------------------------------------- exact on trees


def last_beliefs(tree, damping, seed):
    """Beliefs after many iterations from random messages; on a tree they converge."""
    problem = tree.problem(np.float32)
    state = sum_product_state(tree, problem, tree.random_messages(seed))
    for _ in range(sum(tree.shape) + 3 if damping == 1.0 else 150):
        step(problem, state, damping)
    return beliefs(problem, state)


def assert_same_probabilities(found, expected):
    """Log-odds, compared as probabilities."""
    assert not np.isnan(found).any()
    np.testing.assert_allclose(sigmoid(found), sigmoid(expected), atol=IN_PROBABILITY, rtol=0)


@pytest.mark.parametrize("product", PRODUCTS)
@settings(max_examples=40)
@given(tree=trees(), damping=st.sampled_from([1.0, 1.0, 0.4]), seed=st.integers(0, 99))
def test_exact_marginals_on_trees(product, tree, damping, seed):
    tree = replace(tree, product=product)
    exact = tree.exact()
    assume(np.isfinite(exact.best))
    row_belief, column_belief = last_beliefs(tree, damping, seed)
    assert_same_probabilities(row_belief, exact.row_marginal)
    assert_same_probabilities(column_belief, exact.column_marginal)


def extreme(tree, seed):
    """The same tree with priors and flips from a list of extremes."""
    rng = np.random.default_rng(seed)
    priors = np.array([0.0, 1e-6, 1e-3, 0.5, 0.9, 1 - 1e-6, 1.0])
    flips = np.array([0.0, 1e-9, 1e-4, 0.2, 0.5, 0.999])
    M, N, K = tree.shape
    flip = rng.choice(flips, (M, N))
    return replace(
        tree,
        row_prior=rng.choice(priors, (M, K)),
        column_prior=rng.choice(priors, (K, N)),
        channel={"one_given_zero": flip, "one_given_one": 1 - rng.choice(flips[:-1], (M, N))},
    )


@pytest.mark.parametrize("product", PRODUCTS)
@settings(max_examples=60)
@given(tree=trees(hard=False), seed=st.integers(0, 9999))
def test_exact_marginals_with_extreme_priors_and_channels(product, tree, seed):
    tree = replace(extreme(tree, seed), product=product)
    assume(tree.given.max(axis=0).min() > 0)
    exact = tree.exact()
    assume(np.isfinite(exact.best))
    row_belief, column_belief = last_beliefs(tree, 1.0, seed)
    assert_same_probabilities(row_belief, exact.row_marginal)
    assert_same_probabilities(column_belief, exact.column_marginal)


@pytest.mark.parametrize("product", PRODUCTS)
def test_the_likelihoods_of_entries_give_expected_ones(product):
    """On one entry, the sum of P(z = 1 | o) is that of Bayes' rule."""
    for seen in (0.0, 1.0):
        small = replace(random_small(3, (1, 1, 3), share=1.0), product=product)
        small.seen[:] = seen
        small.channel["one_given_zero"][:], small.channel["one_given_one"][:] = 0.2, 0.7
        problem = small.problem(np.float32)
        state = sum_product_state(small, problem, np.zeros((2, *small.shape)))
        step(problem, state, 1.0)
        assert sum(state.expected_ones) == pytest.approx(posterior_of_one_entry(small), abs=1e-5)
        assert state.expected_ones[0 if seen == 0 else 1] == 0


# ---------------------------------------------------------------- the logarithm and the limits


def test_the_logarithm_is_that_of_numpy():
    edges = np.array([1e-37, 1 / 2.3e17, 2 / 3, np.nextafter(2 / 3, 0), 1.0, 4 / 3, 2.3e17, 1e37])
    value = np.concatenate([edges, np.exp(np.linspace(-80, 80, 801)), np.linspace(0.5, 2, 501)])
    value = value.astype(np.float32)
    part, out = np.empty_like(value), np.empty_like(value)
    sum_product._logarithm(len(value), value.view(np.int32), part, part.view(np.int32), out)
    expected = np.log(value.astype(np.float64))
    np.testing.assert_allclose(out, expected, rtol=3e-7, atol=2e-7)


@pytest.mark.parametrize("product", PRODUCTS)
def test_nothing_leaves_the_range_of_floats(product):
    """Many noiseless entries that contradict each other: no NaN, no infinity, whatever comes."""
    rng = np.random.default_rng(0)
    small = replace(random_small(0, (12, 12, 3), share=1.0), product=product)
    small.seen[:] = rng.integers(0, 2, (12, 12))
    small.channel["one_given_zero"][:], small.channel["one_given_one"][:] = 0.0, 1.0
    for damping in (0.4, 1.0):
        problem = small.problem(np.float32)
        state = sum_product_state(small, problem, small.random_messages(0))
        for _ in range(60):
            step(problem, state, damping)
        for messages in (*state.messages.to_row, *state.messages.to_column):
            used = messages[messages != 0]
            assert np.isfinite(used).all() and (used > 0).all()
        assert all(np.isfinite(belief).all() for belief in beliefs(problem, state))
        assert np.isfinite(state.residual)


def test_messages_of_max_sum_become_ratios():
    small = random_small(4, (5, 4, 2))
    problem = small.problem(np.float32)
    state = sum_product_state(small, problem, small.random_messages(1))
    ratios = unpack(problem, state.messages.to_row)
    expected = np.exp(small.random_messages(1)[0][small.evidence != 0])
    np.testing.assert_allclose(ratios, expected, rtol=1e-6)
