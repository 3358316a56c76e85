"""Log-odds and probabilities, against their formulas."""

import numpy as np
import pytest

from boolweave.model.odds import (
    HARD_BELIEF,
    HARD_EVIDENCE,
    log_odds,
    log_probability,
    sigmoid,
    with_infinities,
)


def test_log_odds():
    np.testing.assert_allclose(log_odds([0.5, 0.75, 0.1]), [0, np.log(3), -np.log(9)], atol=1e-12)
    np.testing.assert_array_equal(log_odds([0.0, 1.0]), [-HARD_BELIEF, HARD_BELIEF])
    np.testing.assert_array_equal(log_odds([0.0, 1.0], limit=np.inf), [-np.inf, np.inf])


def test_sigmoid_is_the_inverse():
    p = np.array([0.0, 1e-9, 0.2, 0.5, 0.999, 1.0])
    np.testing.assert_allclose(sigmoid(log_odds(p)), p, atol=1e-16)
    np.testing.assert_array_equal(sigmoid([-np.inf, 0, np.inf]), [0, 0.5, 1])
    assert sigmoid(np.float32([1.5])).dtype == np.float64


def test_logarithms_are_cut():
    np.testing.assert_allclose(log_probability([0.0, 0.5, 1.0]), [-HARD_EVIDENCE, np.log(0.5), 0])


def test_the_stand_in_for_certainty_shows_as_infinite():
    belief = np.array([-HARD_BELIEF - 5, -2.0, 0.0, 3.0, 2 * HARD_BELIEF], dtype=np.float32)
    np.testing.assert_array_equal(with_infinities(belief), [-np.inf, -2, 0, 3, np.inf])
    assert with_infinities(belief[1:4]).base is belief


def test_nan_is_never_returned():
    for function in (sigmoid, with_infinities):
        with pytest.raises(FloatingPointError, match="NaN"):
            function(np.array([0.5, np.nan, 1e31]))
        assert function(np.array([])).shape == (0,)
