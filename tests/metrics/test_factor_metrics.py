"""Factors paired, and the information bound."""

from __future__ import annotations

import math

import numpy as np
import pytest

from boolweave import metrics


def test_match_finds_a_permutation():
    rng = np.random.default_rng(1)
    X, Y = rng.integers(0, 2, (40, 6)), rng.integers(0, 2, (6, 30))
    order = rng.permutation(6)
    match = metrics.match_factors(X, Y, X[:, order], Y[order])
    np.testing.assert_array_equal(order[match.permutation], np.arange(6))
    np.testing.assert_array_equal(match.similarities, 1)


def test_match_with_fewer_or_more_factors():
    rng = np.random.default_rng(2)
    X, Y = rng.integers(0, 2, (40, 4)), rng.integers(0, 2, (4, 30))
    fewer = metrics.match_factors(X, Y, X[:, [2, 0]], Y[[2, 0]])
    np.testing.assert_array_equal(fewer.permutation, [1, -1, 0, -1])
    np.testing.assert_array_equal(fewer.similarities, [1, 0, 1, 0])
    more = metrics.match_factors(X[:, [2, 0]], Y[[2, 0]], X, Y)
    np.testing.assert_array_equal(more.permutation, [2, 0])


def test_match_similarity_is_jaccard_of_the_tiles():
    X_a, Y_a = np.array([[1], [1], [0]]), np.array([[1, 1, 0]])
    X_b, Y_b = np.array([[0], [1], [1]]), np.array([[1, 1, 1]])
    tile_a, tile_b = (X_a @ Y_a) > 0, (X_b @ Y_b) > 0
    expected = (tile_a & tile_b).sum() / (tile_a | tile_b).sum()
    match = metrics.match_factors(X_a, Y_a, X_b, Y_b)
    assert match.similarities[0] == pytest.approx(expected)


def test_empty_factors_match_each_other():
    X, Y = np.zeros((3, 1), dtype=int), np.ones((1, 3), dtype=int)
    assert metrics.match_factors(X, Y, X, Y).similarities[0] == 1


def test_information_bound():
    K, M, N = 5, 1000, 800
    assert metrics.information_bound(M, N, K) == pytest.approx(K * (M + N - math.log(K) + 1))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: metrics.information_bound(0, 1, 1), "n_rows must be a whole number >= 1, got 0"),
        (
            lambda: metrics.match_factors([[1]], [[1]], [[1], [0]], [[1]]),
            "1 x 1 and 2 x 1",
        ),
        (lambda: metrics.match_factors([[1, 0]], [[1]], [[1]], [[1]]), "same number of components"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(ValueError, match=words):
        call()
