"""Weights of entries: arrays, rows, sparse matrices, tables, and what is refused."""

import numpy as np
import polars
import pytest
import scipy.sparse

from boolweave import Observations
from boolweave.data.weights import entry_weights

NAN = np.nan
SEEN = Observations.from_data([[1, 0, NAN], [NAN, 1, 1]])  # entries 00 01 11 12


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([2, 0.5], [2, 2, 0.5, 0.5]),
        ([[1, 2, 3], [4, 5, 6]], [1, 2, 5, 6]),
        (np.array([[True, False, True]] * 2), [1, 0, 0, 1]),
        (np.array([[1, 2, 3], [4, 5, 6]], dtype=object), [1, 2, 5, 6]),
        (polars.DataFrame({"a": [1, 4], "b": [2.0, 5.0], "c": [3, 6]}), [1, 2, 5, 6]),
    ],
)
def test_arrays_and_tables(given, expected):
    np.testing.assert_array_equal(entry_weights(given, SEEN), expected)


@pytest.mark.parametrize("make", [scipy.sparse.csr_array, scipy.sparse.coo_matrix])
def test_stored_weights_belong_to_their_entries_and_others_weigh_1(make):
    stored = make(([7.0, 0.0, 3.0], ([0, 1, 1], [1, 1, 0])), shape=(2, 3))
    np.testing.assert_array_equal(entry_weights(stored, SEEN), [1, 7, 0, 1])


def test_nothing_stored():
    np.testing.assert_array_equal(entry_weights(scipy.sparse.csr_array((2, 3)), SEEN), np.ones(4))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([1, 2, 3], r"shape \(2,\), or for each entry, shape \(2, 3\).*got shape \(3,\)"),
        (np.ones((2, 2)), r"got shape \(2, 2\)"),
        (np.ones((1, 2, 3)), r"got shape \(1, 2, 3\)"),
        (3.0, r"got shape \(\)"),
        (scipy.sparse.csr_array((3, 2)), r"got shape \(3, 2\)"),
        ([1, -2], "got -2 at row 1"),
        ([NAN, 1], "got nan at row 0"),
        ([[1, 1, 1], [1, np.inf, 1]], "got inf at row 1, column 1"),
        (scipy.sparse.coo_array(([-1.0], ([1], [2])), shape=(2, 3)), "got -1 at row 1, column 2"),
        (scipy.sparse.coo_array(([1, 1], ([1, 1], [2, 2])), shape=(2, 3)), "more than once"),
        (["a", "b"], "must hold numbers"),
        ([1j, 2], "must hold numbers"),
        (polars.DataFrame({"a": ["x", "y"], "b": [1, 2], "c": [1, 2]}), "must hold numbers"),
    ],
)
def test_what_is_no_weight_is_refused(given, words):
    with pytest.raises(ValueError, match=words):
        entry_weights(given, SEEN)
