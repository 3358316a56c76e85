"""The model: priors in, log-odds out."""

import numpy as np
import pytest

from boolweave import Channel
from boolweave.model.model import Model, differ_by_factor
from boolweave.model.odds import log_odds


@pytest.mark.parametrize(
    ("row_prior", "expected"),
    [
        (0.2, np.full((3, 2), 0.2)),
        ([0.1, 0.7], [[0.1, 0.7]] * 3),
        ([[0.1], [0.2], [0.3]], [[0.1] * 2, [0.2] * 2, [0.3] * 2]),
        ([[0, 1], [0.5, 0.5], [1, 0.1]], [[0, 1], [0.5, 0.5], [1, 0.1]]),
    ],
)
def test_priors_broadcast(row_prior, expected):
    a, b = Model(2, Channel(), row_prior, 0.3).prior_log_odds((3, 4))
    np.testing.assert_allclose(a, log_odds(expected))
    np.testing.assert_allclose(b, np.full((2, 4), np.log(0.3 / 0.7)))


@pytest.mark.parametrize(
    ("row_prior", "column_prior", "expected"),
    [
        (None, None, False), (0.2, "learn", False), (np.full((3, 1), 0.2), [0.1, 0.7], False),
        (np.full(2, 0.2), 0.3, True), (np.full((3, 2), 0.2), 0.3, True),
        (0.2, np.full((1, 4), 0.3), False), (0.2, np.full((2, 1), 0.3), True),
    ],
)  # fmt: skip
def test_priors_that_differ_by_factor(row_prior, column_prior, expected):
    assert differ_by_factor(row_prior, column_prior) is expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_components": 0}, "n_components must be at least 1, got 0"),
        ({"product": "and"}, '"or" or "xor"'),
        ({"row_prior": 1.2}, "row_prior must hold probabilities"),
        ({"column_prior": [0.1, np.nan]}, "column_prior must hold probabilities.*nan"),
    ],
)
def test_bad_models(arguments, message):
    with pytest.raises(ValueError, match=message):
        Model(**{"n_components": 2, "channel": Channel(), **arguments})


@pytest.mark.parametrize(
    ("name", "size"),
    [("row_prior", r"\(rows, factors\) = \(3, 2\)"), ("column_prior", r"\(2, 4\)")],
)
def test_priors_that_do_not_fit(name, size):
    model = Model(2, Channel(), **{name: np.full((5, 5), 0.5)})
    with pytest.raises(ValueError, match=rf"{name} must be a number or broadcast to.*{size}, got"):
        model.prior_log_odds((3, 4))
