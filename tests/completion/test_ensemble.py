"""Whole rows are the same as their pairs one by one."""

import numpy as np
import pytest
from completions import all_pairs, fitted, random_ensemble

from boolweave.completion import ensemble as ensemble_module

CUTS = np.array([-np.inf, -0.7, 0.4, np.inf])


@pytest.mark.parametrize(
    ("ensemble", "rows"),
    [
        (random_ensemble(1, product="or"), [3, 0, 3, 6]),
        (random_ensemble(1, product="xor"), [3, 0, 3, 6]),
        (random_ensemble(2, cuts=CUTS, cut=1), range(7)),
        (random_ensemble(2, cuts=CUTS, cut=2), range(7)),
        (None, range(0, 60, 7)),
    ],
    ids=["or", "xor", "first level", "second level", "a fit"],
)
def test_equal_to_pairs(ensemble, rows):
    ensemble, rows = ensemble or fitted()[0], np.array(rows)
    m, n = all_pairs((len(rows), ensemble.shape[1]))
    expected = ensemble.probabilities(rows[m], n).reshape(len(rows), ensemble.shape[1])
    found = ensemble.row_probabilities(rows)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6, strict=True)


def test_pieces(monkeypatch):
    ensemble, rows = random_ensemble(0), np.array([5, 1, 1, 0, 6])
    whole = ensemble.row_probabilities(rows)
    monkeypatch.setattr(ensemble_module, "PIECE", 20)
    pieces = list(ensemble.row_pieces(rows))
    assert [len(piece) for _, piece in pieces] == [2, 2, 1]
    for some, piece in pieces:
        np.testing.assert_allclose(piece, whole[some], rtol=1e-12)
    assert list(ensemble.row_pieces(rows[:0])) == []
