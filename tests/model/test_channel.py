"""The channel: probabilities in, evidence out."""

import copy
import pickle

import numpy as np
import pytest

from boolweave import Channel, Observations
from boolweave.model.model import Model
from boolweave.model.odds import HARD_EVIDENCE

SEEN = Observations.from_dense([[1, 0, np.nan], [0, np.nan, 1]])


def test_symmetric_channel():
    ratio = Channel.symmetric(0.2).log_likelihood_ratio(SEEN)
    np.testing.assert_allclose(ratio, np.log(4) * np.array([1, -1, -1, 1]))
    tiny = Channel.symmetric(1e-100).log_likelihood_ratio(SEEN)  # 1 minus it is 1
    np.testing.assert_array_equal(tiny, tiny[0] * np.array([1, -1, -1, 1]))


def test_asymmetric_channel():
    ratio = Channel(one_given_zero=0.05, one_given_one=0.7).log_likelihood_ratio(SEEN)
    one, zero = np.log(0.7 / 0.05), np.log(0.3 / 0.95)
    np.testing.assert_allclose(ratio, [one, zero, zero, one])
    assert Channel(0.05, 0.7).evidence_by_value() == pytest.approx((zero, one))


def test_defaults_flip_one_in_ten():
    channel = Channel()
    assert (channel.one_given_zero, channel.one_given_one) == (0.1, 0.9)
    assert channel.missing_given_zero is None
    assert channel.missing_log_likelihood_ratio() == 0


def test_erasure_takes_its_share_from_the_zeros():
    channel = Channel(0.1, 0.6, missing_given_zero=0.2, missing_given_one=0.3)
    one, zero = np.log(0.6 / 0.1), np.log((1 - 0.6 - 0.3) / (1 - 0.1 - 0.2))
    np.testing.assert_allclose(channel.log_likelihood_ratio(SEEN), [one, zero, zero, one])
    np.testing.assert_allclose(channel.missing_log_likelihood_ratio(), np.log(0.3 / 0.2))


@pytest.mark.parametrize(
    "one_given_zero",
    [0.2, [0.1, 0.2, 0.3], [[0.1], [0.2]], [[0.1, 0.2, 0.3], [0.4, 0.05, 0.25]], np.float32(0.25)],
)
def test_probabilities_broadcast(one_given_zero):
    full = np.broadcast_to(one_given_zero, SEEN.shape)
    rows, columns = SEEN.rows_of_entries(), SEEN.indices
    p = full[rows, columns].astype(float)
    expected = np.where(SEEN.values == 1, np.log(0.9 / p), np.log(0.1 / (1 - p)))
    ratio = Channel(one_given_zero=one_given_zero).log_likelihood_ratio(SEEN)
    np.testing.assert_allclose(ratio, expected)


def test_no_noise_is_finite():
    ratio = Channel.symmetric(0.0).log_likelihood_ratio(SEEN)
    np.testing.assert_array_equal(ratio, HARD_EVIDENCE * np.array([1, -1, -1, 1]))
    np.testing.assert_array_equal(Channel.symmetric(1).log_likelihood_ratio(SEEN), -ratio)


def test_what_is_seen_of_a_latent_value():
    index = np.zeros(3, dtype=int)
    latent = np.array([0.0, 1.0, 0.25])
    plain = Channel(0.1, 0.8).probability_of_one(latent, index, index, (1, 1))
    np.testing.assert_allclose(plain, [0.1, 0.8, 0.75 * 0.1 + 0.25 * 0.8])
    erased = Channel(0.1, 0.6, 0.5, 0.2).probability_of_one(latent, index, index, (1, 1))
    expected = (0.75 * 0.1 + 0.25 * 0.6) / (0.75 * 0.5 + 0.25 * 0.8)
    np.testing.assert_allclose(erased, [0.1 / 0.5, 0.6 / 0.8, expected])
    never = Channel(0.0, 0.0, 1.0, 1.0).probability_of_one(latent, index, index, (1, 1))
    np.testing.assert_array_equal(never, 0.5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"one_given_zero": 1.5}, "one_given_zero must hold probabilities.*got 1.5"),
        ({"one_given_one": -0.1}, "one_given_one must hold probabilities.*got -0.1"),
        ({"one_given_one": np.nan}, "one_given_one must hold probabilities.*got nan"),
        ({"one_given_zero": [0.1, 2.0]}, "got 2.0"),
        ({"one_given_zero": np.full((2, 2, 2), 0.1)}, "broadcasts to .rows, columns.*3 dimensions"),
        ({"missing_given_zero": 0.1}, "belong together; pass both or neither"),
        ({"missing_given_one": 0.1}, "belong together; pass both or neither"),
        (
            {"missing_given_zero": 0.1, "missing_given_one": 0.2},
            r"one_given_one \+ missing_given_one must not exceed 1",
        ),
        (
            {"missing_given_zero": 0.95, "missing_given_one": 0.05},
            r"one_given_zero \+ missing_given_zero must not exceed 1",
        ),
    ],
)
def test_bad_channels(arguments, message):
    with pytest.raises(ValueError, match=message):
        Channel(**arguments)


def test_bad_flip():
    with pytest.raises(ValueError, match="flip must hold probabilities between 0 and 1, got 2"):
        Channel.symmetric(2)


def test_arrays_that_do_not_fit_the_matrix():
    with pytest.raises(ValueError, match=r"one_given_one must broadcast to the matrix 2 × 3.*\(2,"):
        Channel(one_given_one=[0.8, 0.9]).log_likelihood_ratio(SEEN)


def test_representation():
    assert repr(Channel.symmetric(0.1)) == "Channel(one_given_zero=0.1, one_given_one=0.9)"
    erased = Channel([0.1, 0.2], 0.5, 0.1, 0.25)
    assert repr(erased) == (
        "Channel(one_given_zero=<array (2,)>, one_given_one=0.5, "
        "missing_given_zero=0.1, missing_given_one=0.25)"
    )


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))])
def test_copies(duplicate):
    channel = duplicate(Channel([0.1, 0.2, 0.3], 0.5, 0.1, 0.25))
    np.testing.assert_array_equal(channel.one_given_zero, [0.1, 0.2, 0.3])
    assert channel.missing_given_one == 0.25


def test_arrays_of_the_caller_are_copied_not_frozen():
    mine = np.array([0.1, 0.2, 0.3])
    channel = Channel(one_given_zero=mine)
    model = Model(3, channel, row_prior=mine, column_prior=mine[:, None])
    mine[:] = 0.5
    for kept in (channel.one_given_zero, model.row_prior, model.column_prior[:, 0]):
        np.testing.assert_array_equal(kept, [0.1, 0.2, 0.3])
        with pytest.raises(ValueError, match="read-only"):
            kept[0] = 0.9
