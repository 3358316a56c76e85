"""Rows and columns by name: one search serves fitted models, triples and the command line."""

import numpy as np
import pytest

from boolweave.data.labels import FEW, find_labels, positions
from boolweave.data.observations import Observations

LABELS = np.array(["tea", "rum", "gin", "ale"])


def test_known_and_unknown_labels():
    at, known = find_labels(np.array(["gin", "zzz", "tea", "a"]), LABELS)
    assert known.tolist() == [True, False, True, False]
    assert at[known].tolist() == [2, 0]
    assert not find_labels(LABELS, LABELS[:0])[1].any()


@pytest.mark.parametrize("n_wanted", [0, 1, FEW, FEW + 1])
def test_few_and_many_labels_are_found_alike(n_wanted):
    n = 3 * FEW
    labels = [f"row {i}" for i in range(n)]
    seen = Observations.from_dense(np.zeros((n, 2)), row_labels=labels, column_labels=["a", "b"])
    wanted = np.random.default_rng(0).integers(0, n, n_wanted)
    found = positions([labels[i] for i in wanted], seen, "row")
    assert found.tolist() == wanted.tolist()
    with pytest.raises(ValueError, match="there is no row named 'nobody'"):
        positions([*(labels[i] for i in wanted), "nobody"], seen, "row")


def test_numbers_out_of_range():
    seen = Observations.from_dense(np.zeros((3, 2)))
    assert positions([2, 0], seen, "row").tolist() == [2, 0]
    with pytest.raises(ValueError, match="columns must be from 0 to 1, got 2"):
        positions(2, seen, "column")
    with pytest.raises(ValueError, match="no row labels"):
        positions("tea", seen, "row")
