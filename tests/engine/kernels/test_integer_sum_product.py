"""Sum-product on small integers: one step against the twin, and close to enumeration on trees.

`make test` runs this file twice, compiled and as plain Python: keep the problems small.
"""

from dataclasses import replace

import integer_reference as twin
import numpy as np
import pytest
from engines import beliefs, init, init_from, step, to_sum_product
from hypothesis import given, settings
from hypothesis import strategies as st
from integer_problems import (
    LONG,
    PLAIN,
    PRODUCTS,
    even_small,
    few_examples,
    in_matrix,
    integer_problem,
    started,
)
from problems import posterior_of_one_entry
from reference import sum_product_reference
from trees import trees

from boolweave.engine import backend, quantization
from boolweave.engine.kernels import integer_sum_product as kernels
from boolweave.engine.kernels.jit import njit
from boolweave.engine.kernels.vectors import LANES, load, pointer, store
from boolweave.model.odds import sigmoid

# A message is a whole number of steps; its new value comes from 32-bit floats.
STEP = twin.STEP


def assert_one_step_is_the_twins(small, damping=0.4, n_iter=2, seed=0):
    """Before each step the twin is given the messages of the engine.

    Both where a message goes and its damped way there are rounded up or down: a step each.
    """
    problem, state = started(small, "sum-product", seed)
    share = round(128 * damping) / 128
    seen = small.evidence != 0
    step(problem, state, damping)  # beliefs that are the sums of the messages
    for _ in range(n_iter):
        before = [messages * STEP for messages in in_matrix(problem, state)]
        (one_step,) = sum_product_reference(
            small.evidence, *small.prior_log_odds, *before, damping=1.0, n_iter=1,
            product=small.product,
        )  # fmt: skip
        step(problem, state, damping)
        after = [messages * STEP for messages in in_matrix(problem, state)]
        targets = [one_step.to_row, one_step.to_column]
        for found, old, target in zip(after, before, targets, strict=True):
            expected = old + share * (target - old)
            np.testing.assert_allclose(found[seen], expected[seen], atol=2.05 * STEP, rtol=3e-3)
            assert (found[~seen] == 0).all()
        belief = small.prior_log_odds[0] + after[0].sum(axis=1)
        soft = np.isfinite(belief)
        rows, _ = beliefs(problem, state)
        np.testing.assert_allclose(rows[soft], belief[soft], atol=1e-4, rtol=1e-5)
        gap = max(np.abs(new - old).max() for new, old in zip(targets, before, strict=True))
        # old and new are rounded, and one step less counts, as that is rounding
        assert state.residual == pytest.approx(damping * gap, abs=3.1 * STEP, rel=3e-3)


@pytest.mark.parametrize("product", PRODUCTS)
@few_examples
@given(
    seed=st.integers(0, 999),
    shape=st.tuples(st.integers(1, 8), st.integers(1, 8), st.integers(1, 5)),
    share=st.sampled_from([1.0, 0.8, 0.4]),
    hard=st.sampled_from([0.0, 0.3]),
    damping=st.sampled_from([0.4, 1.0]),
    channel=st.sampled_from([(0.1, 0.9), (0.02, 0.7), (0.3, 0.6), (1e-4, 0.9999)]),
)
def test_one_step_of_sum_product(product, seed, shape, share, hard, damping, channel):
    small = even_small(seed, shape, share, product, hard, channel)
    assert_one_step_is_the_twins(small, damping, seed=seed)


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("share", [1.0, 0.85, 0.3])
def test_one_step_of_sum_product_over_chunks(monkeypatch, product, share):
    monkeypatch.setattr(backend, "MIN_BLOCK", 600)
    assert_one_step_is_the_twins(even_small(9, (*LONG, 2), share, product), n_iter=1)


@pytest.mark.parametrize("product", PRODUCTS)
@settings(max_examples=2 if PLAIN else 30)
@given(
    tree=trees(hard=False),
    channel=st.sampled_from([(0.1, 0.9), (0.02, 0.7), (0.3, 0.6), (0.05, 0.95)]),
    damping=st.sampled_from([1.0] if PLAIN else [1.0, 0.4]),
)
def test_marginals_on_trees(product, tree, channel, damping):
    """Within a hundredth of enumeration."""
    channel = dict(zip(("one_given_zero", "one_given_one"), channel, strict=True))
    tree = replace(tree, product=product, channel=channel)
    problem, state = started(tree, "sum-product")
    for _ in range(sum(tree.shape) + 3 if damping == 1.0 else 40):
        step(problem, state, damping)
    exact = tree.exact()
    marginals = exact.row_marginal, exact.column_marginal
    for belief, expected in zip(beliefs(problem, state), marginals, strict=True):
        np.testing.assert_allclose(sigmoid(belief), sigmoid(expected), atol=0.01, rtol=0)


def test_weak_messages_add_up():
    """A thousand messages of a fraction of a step each: their sum is right, as rounding differs."""
    weak = (0.4995, 0.5005)  # L = 0.002, two steps; a message is a share of it
    small = even_small(0, (1, 1000, 1), channel=weak)
    small.seen[:] = 1
    small.row_prior[:], small.column_prior[:] = 0.5, 0.3
    problem = integer_problem(small)
    state = to_sum_product(problem, init(problem, np.random.default_rng(0)))
    for _ in range(2):
        step(problem, state, 1.0)
    expected = 1000 * np.log(0.7 + 0.3 * weak[1] / weak[0])
    assert beliefs(problem, state)[0][0, 0] == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("product", PRODUCTS)
def test_expected_ones(product):
    """On one entry, the sum of P(z = 1 | o) is that of Bayes' rule."""
    for seen in (0, 1):
        small = even_small(1, (1, 1, 3), product=product, channel=(0.2, 0.7))
        small.seen[:] = seen
        problem = integer_problem(small)
        state = to_sum_product(problem, init_from(problem))
        step(problem, state, 1.0)
        assert sum(state.expected_ones) == pytest.approx(posterior_of_one_entry(small), abs=1e-3)
        assert state.expected_ones[seen] == 0


# ---------------------------------------------------------------- exponential and logarithm


@njit(cache=False)
def powers(steps, out):
    for i in range(0, steps.shape[0], LANES):
        store(pointer(out), i, kernels._power(load(pointer(steps), i)))


@njit(cache=False)
def logarithms(ratios, spread, out):
    dither = kernels._dither(load(pointer(spread), 0))
    for i in range(0, ratios.shape[0], LANES):
        store(pointer(out), i, kernels._steps(load(pointer(ratios), i), dither))


def in_order(values):
    """Of each 16, the even ones stand before the odd ones."""
    return values.reshape(-1, 2, LANES // 2).transpose(0, 2, 1).reshape(-1)


def logarithms_of(ratios, spread):
    found = np.zeros(len(ratios), dtype=np.int32)
    logarithms(ratios, np.full(LANES, spread, dtype=np.int16), found)
    return found / 65536


def test_the_power_is_that_of_numpy():
    steps = np.linspace(-32000, 32000, 160).astype(np.int16)
    steps[:32] = np.arange(-16, 16)
    steps[32:48] = 512 * np.arange(-8, 8)
    found = np.zeros(len(steps), dtype=np.float32)
    powers(steps, found)
    np.testing.assert_allclose(in_order(found), 2.0 ** (steps / 512), rtol=1e-4)


def test_the_logarithm_is_that_of_numpy():
    edges = [2.0**-18, np.exp(-12), 0.5, np.nextafter(1, 0), 1, np.nextafter(2, 0), np.exp(12), 2]
    values = np.concatenate([edges, np.exp(np.linspace(-13, 13, 520)), np.linspace(0.9, 1.1, 176)])
    values = values.astype(np.float32)
    exact = 512 * np.log2(values.astype(float))
    for spread, dither in ((0, 0.5 / 256), (0x4000, 64.5 / 256), (-1, 255.5 / 256)):
        found = logarithms_of(values, spread) - dither
        np.testing.assert_allclose(found, exact, rtol=0, atol=0.32)
        weak = np.abs(exact) < 5
        np.testing.assert_allclose(found[weak], exact[weak], rtol=4e-4, atol=5e-4)


def test_no_ratio_of_1_is_rounded_to_a_step():
    for spread in range(-32768, 32768, 255):
        assert (np.floor(logarithms_of(np.ones(LANES, np.float32), spread)) == 0).all()


@pytest.mark.parametrize("product", PRODUCTS)
def test_what_is_missing_says_nothing(monkeypatch, product):
    """Not even by rounding, wherever it is."""
    monkeypatch.setattr(quantization, "DENSE", 0.0)
    small = even_small(0, (*LONG, 2), 0.5, product)
    small.seen[:, 0] = small.seen[0] = np.nan
    problem, state = started(small, "sum-product")
    for damping in (1.0, 0.4):
        step(problem, state, damping)
        for messages in in_matrix(problem, state):
            assert (messages[np.isnan(small.seen)] == 0).all()
