"""Entries as single numbers: what goes in comes out, however many columns there are."""

import numpy as np
import pytest

from boolweave.data.convert import pack_triples
from boolweave.data.entries import count, rows_from_packed, split

NO_LABELS = (None, None)


@pytest.mark.parametrize("n_columns", [3, 2**31, 2**31 + 1, 2**40])
def test_round_trip(n_columns):
    shape = (5, n_columns)
    rows, columns, values = (
        [0, 1, 1, 4, 4],
        [0, 1, n_columns - 1, 0, n_columns - 1],
        [1, 0, 1, 1, 0],
    )
    packed = pack_triples((rows, columns, values), NO_LABELS, shape)
    per_row, n_ones, _ = count(packed, shape)
    assert per_row.tolist() == [1, 2, 0, 0, 2]
    assert n_ones == 3
    top, bottom = split(packed, np.array([2]), shape)
    assert (len(top), len(bottom)) == (3, 2)
    found_shape, indptr, indices, found, *_ = rows_from_packed(
        bottom.copy(), (3, n_columns), first_row=2
    )
    assert found_shape == (3, n_columns)
    assert indptr.tolist() == [0, 0, 0, 2]
    assert indices.tolist() == [0, n_columns - 1]
    assert found.tolist() == [1, 0]
    _, indptr, indices, found, *_ = rows_from_packed(np.concatenate([top, bottom]), shape)
    assert indptr.tolist() == [0, 1, 3, 3, 3, 5]
    assert indices.tolist() == columns
    assert found.tolist() == values


def test_more_than_63_bits_can_number():
    with pytest.raises(ValueError, match="too many to number"):
        pack_triples(([0], [0], [1]), NO_LABELS, (2**31, 2**33))


def test_a_contradiction_in_a_run_of_rows_is_named_by_its_own_row():
    shape = (5, 3)
    packed = pack_triples(([3, 3], [1, 1], [0, 1]), NO_LABELS, shape)
    with pytest.raises(ValueError, match="row 3, column 1 is given as both 0 and 1"):
        rows_from_packed(packed, (2, 3), first_row=3)
