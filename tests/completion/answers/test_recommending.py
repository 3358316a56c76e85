"""Recommendations: unseen columns only, the best first, in pieces, with reasons."""

import numpy as np
import pytest
from completions import fitted, planted, random_ensemble, random_observations, recommend

from boolweave import Observations
from boolweave.completion import ensemble as ensemble_module
from boolweave.recommend import Recommendations


def slowly(ensemble, seen, row, n):
    table = seen.to_dense()
    unseen = np.flatnonzero(np.isnan(table[row]))
    chance = ensemble.probabilities(np.full(len(unseen), row), unseen)
    best = sorted(zip(-chance, unseen, strict=True))[:n]
    return [column for _, column in best], [-chance for chance, _ in best]


@pytest.mark.parametrize("piece", [1, 25, 1 << 18])
def test_agrees_with_the_slow_way(piece, monkeypatch):
    monkeypatch.setattr(ensemble_module, "PIECE", piece)
    ensemble, seen = random_ensemble(4), random_observations(1)
    rows = [3, 0, 6, 3]
    found = recommend(ensemble, seen, rows, n=6)
    assert isinstance(found, Recommendations)
    assert found.rows.tolist() == rows and found.columns.shape == (4, 6)
    for i, row in enumerate(rows):
        columns, chances = slowly(ensemble, seen, row, 6)
        assert found.columns[i][: len(columns)].tolist() == columns
        np.testing.assert_allclose(found.probabilities[i][: len(columns)], chances, atol=1e-6)
        assert (found.columns[i][len(columns) :] == -1).all()
        assert np.isnan(found.probabilities[i][len(columns) :]).all()


def test_reasons_of_recommended_pairs_only(monkeypatch):
    ensemble, seen = random_ensemble(4), random_observations(1, share=0.8)
    found = recommend(ensemble, seen, ["r1", "r5"], n=5)
    asked = []
    explain = found.explainer.at
    monkeypatch.setattr(found.explainer, "at", lambda m, n: asked.append((m, n)) or explain(m, n))
    reasons = found.reasons
    assert len(asked) == (found.columns >= 0).sum() < 10
    assert [len(line) for line in reasons] == [5, 5]
    for texts, columns in zip(reasons, found.columns, strict=True):
        for text, column in zip(texts, columns, strict=True):
            assert (text == "") == (column < 0)
            assert column < 0 or text.startswith("because ")
            assert "\n" not in text
    assert found.reasons is reasons and len(asked) == (found.columns >= 0).sum()


def test_rows_without_entries():
    ensemble, _ = fitted()
    empty = Observations.from_triples([], [], [], shape=planted().shape)
    found = recommend(ensemble, empty, [2], n=50)
    assert sorted(found.columns[0, :40].tolist()) == list(range(40))
    assert (np.diff(found.probabilities[0, :40]) <= 0).all()
    assert (found.columns[0, 40:] == -1).all()


def test_nothing_asked_for():
    found = recommend(random_ensemble(4), random_observations(1), [], n=3)
    assert found.columns.shape == (0, 3) and found.reasons == ()


def test_wrong_input():
    ensemble, seen = random_ensemble(4), random_observations(1)
    with pytest.raises(ValueError, match="n must be a whole number >= 1, got 0"):
        recommend(ensemble, seen, [0], n=0)
    with pytest.raises(ValueError, match="there is no row named 'r9'"):
        recommend(ensemble, seen, ["r9"])
    with pytest.raises(ValueError, match="rows must be from 0 to 6, got 7"):
        recommend(ensemble, seen, [7])
    with pytest.raises(ValueError, match="expected observations of the shape"):
        recommend(ensemble, seen.take_rows([0, 1]), [0])
