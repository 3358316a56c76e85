"""Factors are sorted once, at the end of a fit, and have the same number everywhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from boolweave import BooleanMatrixFactorization, Observations, load
from boolweave.engine.result import Result, factor_order, numbered
from boolweave.functions import factorize
from boolweave.model.channel import Channel
from boolweave.model.model import Model
from boolweave.report.contents import factor_facts, factor_grid

SIZES = [(4, 3), (12, 9), (8, 5)]  # rows and columns of three tiles


@pytest.fixture(scope="module")
def table():
    X, Y = np.zeros((24, 3), int), np.zeros((3, 17), int)
    row = column = 0
    for k, (height, width) in enumerate(SIZES):
        X[row : row + height, k], Y[k, column : column + width] = 1, 1
        row, column = row + height, column + width
    rows, columns = np.array([f"r{i}" for i in range(24)]), np.array([*"abcdefghijklmnopq"])
    labels = {"row_labels": rows, "column_labels": columns}
    return replace(Observations.from_data(X @ Y), **labels)


def sizes(model):
    X = model.row_log_odds_ > 0
    return list(zip(X.sum(axis=0).tolist(), model.components_.sum(axis=1).tolist(), strict=True))


@pytest.mark.parametrize("n_components", [3, "auto"])
@pytest.mark.parametrize("method", ["auto", "max-sum"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_largest_comes_first(table, n_components, method, seed):
    how = {"method": method, "random_state": seed, "n_init": 6}
    model = BooleanMatrixFactorization(n_components, **how).fit(table)
    assert sizes(model) == sorted(SIZES, reverse=True)
    found = factorize(table, n_components, **how)
    np.testing.assert_array_equal(found.Y, model.components_)


def test_everything_moves_together():
    """Log-odds, priors of each factor, stability; and nothing else changes."""
    rng = np.random.default_rng(0)
    rows, columns = rng.standard_normal((9, 4)), rng.standard_normal((4, 7))
    per_factor = np.array([[0.1, 0.2, 0.3, 0.4]])
    model = Model(4, Channel.symmetric(0.1), row_prior=per_factor, column_prior=per_factor.T)
    seen = Observations.from_data(np.ones((9, 7)))
    result = Result(
        model, seen, rows, columns, 0.0, "converged", 0, {}, True, np.array([0.25, 0.5, 0.75, 1.0])
    )
    order = factor_order(result.X, result.Y)
    assert order.tolist() != [0, 1, 2, 3]
    found = numbered(result)
    np.testing.assert_array_equal(found.row_log_odds, rows[:, order])
    np.testing.assert_array_equal(found.column_log_odds, columns[order])
    np.testing.assert_array_equal(found.model.row_prior, per_factor[:, order])
    np.testing.assert_array_equal(found.model.column_prior, per_factor.T[order])
    np.testing.assert_array_equal(found.stability, result.stability[order])
    np.testing.assert_array_equal(found.Z, result.Z)
    assert numbered(found) is found


@pytest.mark.parametrize(
    ("given", "stays"),
    [
        ({"column_prior": "known"}, True),
        ({"row_prior": [0.2, 0.4, 0.3]}, True),
        ({"row_prior": np.full((24, 1), 0.3), "column_prior": np.full(17, 0.3)}, False),
    ],
)
def test_priors_by_factor_keep_their_order(table, given, stays):
    known = np.zeros((3, 17))
    known[0, :3], known[1, 3:12], known[2, 12:] = 1, 1, 1
    given = {name: known if isinstance(p, str) else p for name, p in given.items()}
    model = BooleanMatrixFactorization(3, noise=0.1, random_state=0, **given).fit(table)
    if "column_prior" in given and stays:
        np.testing.assert_array_equal(model.components_, known)
    elif stays:
        np.testing.assert_array_equal(np.ravel(model.row_prior_), [0.2, 0.4, 0.3])
    else:
        assert sizes(model) == sorted(SIZES, reverse=True)


def test_one_number_everywhere(table, tmp_path):
    model = BooleanMatrixFactorization(3, random_state=0).fit(table)
    model.save(tmp_path / "model.npz")
    for one in (model, load(tmp_path / "model.npz")):
        rows = one.row_log_odds_ > 0
        listed = one.members().to_dicts()
        grid = factor_grid(one.result_)
        frame = one.set_output(transform="pandas").transform(table)
        for k, (height, width) in enumerate(sorted(SIZES, reverse=True)):
            number = k + 1
            members = [line["label"] for line in listed if line["factor"] == number]
            assert len(members) == height + width
            first_row, first_column = members[0], members[-1]
            assert one.explain(first_row, first_column).reasons[0].factor == number
            assert factor_facts(one.result_)[k]["number"] == number
            tile = grid.tiles[k]
            assert sum(b - a + 1 for a, b in tile["rows"]) == height
            assert sum(b - a + 1 for a, b in tile["columns"]) == width
            np.testing.assert_array_equal(frame[f"factor{number}"], rows[:, k])


def test_pictures_number_factors_as_they_are_given():
    from boolweave.plot import FACTOR_COLOURS, plot_tiles

    X, Y = np.array([[1, 0], [0, 1], [0, 1]]), np.array([[1, 0, 0], [0, 1, 1]])
    figure = plot_tiles({"one": X @ Y}, X, Y)
    labels = {text.get_text(): patch for text, patch in zip(
        figure.legends[0].get_texts(), figure.legends[0].get_patches(), strict=True
    )}  # fmt: skip
    from matplotlib.colors import to_hex

    assert to_hex(labels["factor 1"].get_facecolor()) == FACTOR_COLOURS[0]
    beside = figure.axes[2].images[0].get_array()  # a strip for each factor: rows x factors
    coloured = (np.asarray(beside) < 1).any(axis=2)
    assert coloured.sum(axis=0).tolist() == [1, 2]  # factor 1 has one row
