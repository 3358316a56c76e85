"""Entries as single numbers: what goes in comes out, however many columns there are."""

import numpy as np
import pytest

from boolweave.data.entries import count, pack, split, unpacked

NO_LABELS = (None, None)


@pytest.mark.parametrize("n_columns", [3, 2**31, 2**31 + 1, 2**40])
def test_round_trip(n_columns):
    shape = (5, n_columns)
    rows, columns, values = (
        [0, 1, 1, 4, 4],
        [0, 1, n_columns - 1, 0, n_columns - 1],
        [1, 0, 1, 1, 0],
    )
    packed = pack((rows, columns, values), NO_LABELS, shape)
    per_row, n_ones, _ = count(packed, shape)
    assert per_row.tolist() == [1, 2, 0, 0, 2]
    assert n_ones == 3
    top, bottom = split(packed, np.array([2]), shape)
    assert (len(top), len(bottom)) == (3, 2)
    found_shape, indptr, indices, found = unpacked((3, n_columns), 2, [bottom])
    assert found_shape == (3, n_columns)
    assert indptr.tolist() == [0, 0, 0, 2]
    assert indices.tolist() == [0, n_columns - 1]
    assert found.tolist() == [1, 0]
    _, indptr, indices, found = unpacked(shape, 0, [top, bottom])
    assert indptr.tolist() == [0, 1, 3, 3, 3, 5]
    assert indices.tolist() == columns
    assert found.tolist() == values


def test_more_than_63_bits_can_number():
    with pytest.raises(ValueError, match="too many to number"):
        pack(([0], [0], [1]), NO_LABELS, (2**31, 2**33))
