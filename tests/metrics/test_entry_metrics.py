"""Measures of entries against values known by hand and scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn import metrics as peer

from boolweave import metrics


def random_predictions(seed=0, n=500):
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    return (rng.random(n) < p).astype(int), p


def test_error_and_accuracy():
    Z = np.array([[1, 0, 1], [0, 0, 1]], dtype=np.uint8)
    Z_hat = np.array([[1, 1, 1], [0, 0, 0]], dtype=np.uint8)
    assert metrics.reconstruction_error(Z, Z_hat) == pytest.approx(2 / 6)
    assert metrics.accuracy(Z, Z_hat) == pytest.approx(4 / 6)
    assert metrics.reconstruction_error(Z, Z) == 0


def test_unknown_entries_are_not_counted():
    Z = np.array([[1.0, np.nan], [0.0, np.nan]])
    assert metrics.reconstruction_error(Z, [[0, 1], [0, 1]]) == 0.5
    for truth in (np.ma.array([1, 0, 0], mask=[0, 1, 0]), np.array([1, None, 0], dtype=object)):
        assert metrics.accuracy(truth, [1, 1, 0]) == 1
        assert metrics.agreement(truth, [1, 1, 0]).n_entries == 2


def test_log_loss_and_area_agree_with_scikit_learn():
    y, p = random_predictions()
    assert metrics.log_loss(y, p) == pytest.approx(peer.log_loss(y, p))
    assert metrics.roc_auc(y, p) == pytest.approx(peer.roc_auc_score(y, p))


def test_log_loss_of_a_certain_mistake_is_finite():
    assert metrics.log_loss([1], [0.0]) == pytest.approx(-math.log(metrics.PROBABILITY_FLOOR))
    assert metrics.log_loss([1, 0], [1.0, 0.0]) == pytest.approx(0, abs=1e-12)


def test_calibration_error():
    # Two bins: 0.2 predicted, 1/2 seen; 0.9 predicted, all seen.
    y, p = [1, 0, 1, 1], [0.2, 0.2, 0.9, 0.9]
    assert metrics.expected_calibration_error(y, p, n_bins=2) == pytest.approx(0.3 / 2 + 0.1 / 2)
    # 1.0 belongs to the last bin, whose gaps of 1 and -0.2 are added up.
    assert metrics.expected_calibration_error([0, 1], [1.0, 0.8], 2) == pytest.approx(0.8 / 2)
    y, p = random_predictions(n=200_000)
    assert metrics.expected_calibration_error(y, p) < 0.01
    assert metrics.expected_calibration_error(y, np.full(len(p), 1.0)) == pytest.approx(
        0.5, abs=0.01
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: metrics.reconstruction_error([1, 0], [1]), r"same shape, got \(2,\) and \(1,\)"),
        (lambda: metrics.reconstruction_error([np.nan], [1]), "at least one known entry"),
        (lambda: metrics.log_loss([1, 2], [0.5, 0.5]), "only 0 and 1, got 2"),
        (lambda: metrics.log_loss([1, 0], [0.5, 1.5]), "between 0 and 1, got 1.5"),
        (lambda: metrics.log_loss([1], [np.nan]), "between 0 and 1, got nan"),
        (lambda: metrics.log_loss([], []), "at least one entry"),
        (lambda: metrics.roc_auc([1, 1], [0.5, 0.6]), "both 0 and 1"),
        (lambda: metrics.expected_calibration_error([1], [0.5], n_bins=0), "n_bins"),
        (lambda: metrics.expected_calibration_error([1], [0.5], n_bins=2.5), "n_bins"),
        (lambda: metrics.accuracy([1, 0], [0.9, 0.1]), "y_hat must hold only 0 and 1, got 0.9"),
        (lambda: metrics.accuracy([1, 0], [1, np.nan]), "y_hat must hold only 0 and 1, got nan"),
        (lambda: metrics.agreement([2, 0], [1, 0]), "y must hold only 0 and 1, got 2"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize(
    ("p", "words"),
    [
        (["0.5", "0.1"], "p must hold numbers, got dtype <U3; convert it"),
        (np.array([0.5, "x"], dtype=object), "p must hold numbers, got 'x'; convert it"),
        ([0.5, 1j], "p must hold numbers, got dtype complex128"),
        (np.array(["2001-01-01"] * 2, dtype="M8[D]"), r"p must hold numbers, got dtype datetime64"),
    ],
)
def test_what_is_no_number(p, words):
    with pytest.raises(TypeError, match=words):
        metrics.log_loss([1, 0], p)


def test_lists_of_different_lengths_and_none():
    with pytest.raises(ValueError, match="p must be an array, got lists of different lengths"):
        metrics.log_loss([1, 0], [[0.5], [0.5, 0.5]])
    assert metrics.accuracy([1, None, 0], [1, 1, 1]) == 0.5


def test_agreement_tells_a_constant_from_an_answer():
    truth = np.zeros((20, 10))
    truth[:2, :4] = 1  # 4% ones
    truth[19, 9] = np.nan
    nothing = metrics.agreement(truth, np.zeros((20, 10)))
    assert nothing.accuracy == nothing.constant_accuracy == 191 / 199
    assert (nothing.ones_covered, nothing.false_ones, nothing.constant) == (0.0, 0, 0)
    guess = np.zeros((20, 10))
    guess[:3, :3] = 1
    found = metrics.agreement(truth, guess)
    assert (found.n_entries, found.n_ones, found.n_covered, found.false_ones) == (199, 8, 6, 3)
    assert found.accuracy == metrics.accuracy(truth, guess)
    assert found.sentence("observed entries") == (
        "75.0% of 8 ones covered, 3 false ones; "
        "97.5% of 199 observed entries right (all zeros: 96.0%)"
    )
    assert metrics.Agreement.of_counts([[188, 3], [2, 6]]) == found
    assert found.figures("held_out_")["held_out_ones_covered"] == 0.75


def test_agreement_without_ones_or_entries():
    assert metrics.agreement([0, 0], [0, 1]).sentence() == (
        "no ones to cover, 1 false one; 50.0% of 2 entries right (all zeros: 100.0%)"
    )
    empty = metrics.agreement([], [])
    assert empty.sentence("observed entries") == "no observed entries"
    assert set(empty.figures().values()) == {0, None}
    assert metrics.agreement([1, 1], [1, 1]).constant == 1
    assert metrics.agreement([1, 0], [1, 1]).constant == 0  # a tie


def test_more_bins_than_there_is_memory_for():
    y, p = [1, 0, 1, 1], [0.75, 0.75, 0.5, 1.0]
    gap = metrics.expected_calibration_error(y, p, 2**62)
    assert gap == pytest.approx(metrics.expected_calibration_error(y, p, 1000)) == 0.25
