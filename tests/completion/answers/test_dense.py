"""Whole rows are the same as their pairs one by one."""

import numpy as np
import pytest
from completions import all_pairs, fitted, random_ensemble

from boolweave.completion.answers import dense

CUTS = np.array([-np.inf, -0.7, 0.4, np.inf])


def slowly(ensemble, rows):
    m, n = all_pairs((len(rows), ensemble.shape[1]))
    return ensemble.probabilities(rows[m], n).reshape(len(rows), -1)


@pytest.mark.parametrize("product", ["or", "xor"])
def test_equal_to_pairs(product):
    ensemble = random_ensemble(1, product=product)
    rows = np.array([3, 0, 3, 6])
    found = dense.row_probabilities(ensemble, rows)
    assert found.shape == (4, 9)
    np.testing.assert_allclose(found, slowly(ensemble, rows), rtol=0, atol=1e-6)


@pytest.mark.parametrize("cut", [1, 2])
def test_levels(cut):
    ensemble = random_ensemble(2, cuts=CUTS, cut=cut)
    rows = np.arange(7)
    found = dense.row_probabilities(ensemble, rows)
    np.testing.assert_allclose(found, slowly(ensemble, rows), rtol=0, atol=1e-6)


def test_a_fit():
    ensemble, _ = fitted()
    rows = np.arange(0, 60, 7)
    found = dense.row_probabilities(ensemble, rows)
    np.testing.assert_allclose(found, slowly(ensemble, rows), rtol=0, atol=1e-6)


def test_pieces(monkeypatch):
    ensemble, rows = random_ensemble(0), np.array([5, 1, 1, 0, 6])
    whole = dense.row_probabilities(ensemble, rows)
    monkeypatch.setattr(dense, "PIECE", 20)
    pieces = list(dense.row_pieces(ensemble, rows))
    assert [len(piece) for _, piece in pieces] == [2, 2, 1]
    for some, piece in pieces:
        np.testing.assert_allclose(piece, whole[some], rtol=1e-12)
    assert list(dense.row_pieces(ensemble, rows[:0])) == []
