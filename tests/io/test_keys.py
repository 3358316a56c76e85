"""Names of rows and columns: numbered by first appearance, however they come."""

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from boolweave.io import keys


def by_hand(names):
    """The number of each name, and the names in the order of their first appearance."""
    order = list(dict.fromkeys(names))
    return [order.index(name) for name in names], [str(name) for name in order]


@given(st.lists(st.integers(-5, 5) | st.sampled_from([2**40, -(2**40)]), max_size=30))
def test_integers(numbers):
    found, labels = keys.number_integers(np.array(numbers, dtype=np.int64))
    assert (found.tolist(), labels.tolist()) == by_hand(numbers)


@given(st.lists(st.lists(st.sampled_from("abcdef"), min_size=1), max_size=5))
def test_texts_in_several_parts(parts):
    numbering = keys.Numbering()
    found = [number for part in parts for number in numbering.number(pl.Series(part)).tolist()]
    numbers, labels = by_hand([name for part in parts for name in part])
    assert found == numbers
    assert numbering.labels().tolist() == labels
    assert len(numbering) == len(labels)
