"""The slow twins against each other: on trees, message passing must find what enumeration finds."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from problems import random_small
from reference import (
    enumerate_exactly,
    likelihood,
    log_probability,
    max_sum_reference,
    sum_product_reference,
)
from trees import assert_same_log_odds, trees


@pytest.mark.parametrize(
    ("iterate", "name"), [(max_sum_reference, "max"), (sum_product_reference, "marginal")]
)
@settings(max_examples=80)
@given(tree=trees(), seed=st.integers(0, 99))
def test_exact_on_trees(iterate, name, tree, seed):
    exact = tree.exact()
    assume(np.isfinite(exact.best))
    M, N, _ = tree.shape
    *_, last = iterate(
        tree.evidence,
        *tree.prior_log_odds,
        *tree.random_messages(seed),
        damping=1.0,
        n_iter=M + N + 3,
        product=tree.product,
    )
    assert_same_log_odds(last.row_belief, getattr(exact, f"row_{name}"))
    assert_same_log_odds(last.column_belief, getattr(exact, f"column_{name}"))


def test_enumeration_by_hand():
    # One entry seen as 1 through a 10% flip, prior 0.3 and 0.4: p(z=1) = 0.12 before looking.
    given = likelihood(np.array([[1.0]]), 0.1, 0.9)
    exact = enumerate_exactly(np.array([[0.3]]), np.array([[0.4]]), given)
    x_and_y, x_only, neither = 0.12 * 0.9, 0.18 * 0.1, 0.42 * 0.1
    y_only = 0.28 * 0.1
    np.testing.assert_allclose(
        exact.row_marginal, np.log((x_and_y + x_only) / (y_only + neither)).reshape(1, 1)
    )
    np.testing.assert_allclose(exact.row_max, np.log(x_and_y / neither).reshape(1, 1))
    np.testing.assert_allclose(exact.best, np.log(x_and_y))


def test_enumeration_with_known_bits_and_no_noise():
    given = likelihood(np.array([[1.0, 0.0]]), 0.0, 1.0)
    exact = enumerate_exactly(np.array([[0.5]]), np.array([[0.5, 1.0]]), given)
    assert np.isnan(exact.row_max).all()  # x·y = 1 and x = 0 cannot both be
    exact = enumerate_exactly(np.array([[0.5]]), np.array([[0.5, 0.0]]), given)
    assert exact.row_max == np.inf
    np.testing.assert_array_equal(exact.column_marginal, [[np.inf, -np.inf]])


def test_two_terms_cancel_in_xor_only():
    given = likelihood(np.array([[1.0]]), 0.1, 0.7)
    ones = np.ones((1, 2), dtype=np.uint8)
    priors = (np.full((1, 2), 0.5), np.full((2, 1), 0.5))
    assert log_probability(ones, ones.T, *priors, given, "or") == pytest.approx(np.log(0.7 / 16))
    assert log_probability(ones, ones.T, *priors, given, "xor") == pytest.approx(np.log(0.1 / 16))


def test_value_dependent_erasure_is_evidence():
    given = likelihood(np.array([[np.nan, 0.0]]), 0.1, 0.6, 0.2, 0.3)
    np.testing.assert_allclose(given[:, 0], [[0.2, 0.7], [0.3, 0.1]])


def test_damping_keeps_the_fixed_point():
    small = random_small(3, (4, 5, 2))
    start = (small.evidence, *small.prior_log_odds, *small.random_messages(0))
    for damping in (0.3, 0.6):
        *_, last = max_sum_reference(*start, damping=damping, n_iter=300)
        *_, again = max_sum_reference(
            *start[:3], last.to_row, last.to_column, damping=1.0, n_iter=1
        )
        np.testing.assert_allclose(again.row_belief, last.row_belief, atol=1e-9)
