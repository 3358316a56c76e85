"""Names out where names went in: what a completion answers, in which form."""

from dataclasses import replace

import matplotlib.figure
import numpy as np
import pandas as pd
import polars as pl
import pytest

import boolweave
from boolweave import BooleanCompletion, complete

TABLE = pd.DataFrame(
    np.kron(np.eye(2), np.ones((5, 4))),
    index=[f"u{i}" for i in range(10)],
    columns=[f"i{j}" for j in range(8)],
)
TABLE.iloc[0, 3] = TABLE.iloc[7, 6] = TABLE.iloc[2, 7] = np.nan
QUICK = {"n_directions": 0, "n_layers": 1, "n_components": 2, "n_members": 2, "random_state": 0}
NEW = pd.DataFrame([[1, 1, np.nan, 1, 0, 0, np.nan, 0]], index=["new"], columns=TABLE.columns)


@pytest.fixture(scope="module")
def filled():
    return complete(TABLE, **QUICK)


def test_the_table_comes_back(filled):
    done = filled.completed
    assert done.index.equals(TABLE.index) and done.columns.equals(TABLE.columns)
    seen = TABLE.notna()
    assert (done[seen] == TABLE[seen]).sum().sum() == seen.sum().sum()
    assert filled.probabilities.index.equals(TABLE.index)
    holes = filled.filled
    assert holes[["row", "column"]].values.tolist() == [["u0", "i3"], ["u2", "i7"], ["u7", "i6"]]
    for row, column, value, chance in holes.itertuples(index=False):
        assert done.loc[row, column] == value == (chance > 0.5)
        assert filled.probabilities.loc[row, column] == pytest.approx(chance, abs=1e-9)
    assert repr(filled).startswith("Completion(10 rows × 8 columns, 3 entries filled in by ")
    assert filled._repr_html_().count("background") == 3


def test_polars_and_arrays():
    polars = pl.from_pandas(TABLE.reset_index(names="who"))
    found = complete(polars, **QUICK)
    assert found.completed.columns == polars.columns
    assert isinstance(found.filled, pl.DataFrame)
    plain = complete(TABLE.to_numpy(), **QUICK)
    assert isinstance(plain.completed, np.ndarray)
    assert plain.filled["row"].to_list() == [0, 2, 7]
    np.testing.assert_array_equal(found.completed.drop("who").to_numpy(), plain.completed)


def test_recommendations_and_new_rows(filled):
    model = filled.model
    found = model.recommend(["u0", "u7"], n=2, why=True)
    assert found[["row", "column"]].values.tolist() == [["u0", "i3"], ["u7", "i6"]]
    assert all(line.startswith("because ") for line in found.why)
    new = model.recommend(NEW, n=2)
    chance = model.predict_proba(NEW)
    assert new.column.tolist() == ["i2", "i6"]
    np.testing.assert_allclose(new.probability, chance.loc["new", ["i2", "i6"]], atol=1e-9)
    assert model.predict(NEW).loc["new", "i2"] == 1


def test_reasons_with_words(filled):
    found = filled.model.explain("u0", "i3", verb="bought", columns="things")
    layers = [part for part in found.parts if part.factors]
    assert layers and all("u0 bought" in f.evidence for part in layers for f in part.factors)
    assert all("this group bought" in f.evidence for part in layers for f in part.factors)
    assert isinstance(found.table, pd.DataFrame)
    np.testing.assert_allclose(found.table.log_odds.sum(), found.log_odds)
    assert "log-odds" in found._repr_html_()
    new = filled.model.explain(NEW, "i2")
    assert (new.row, new.column, new.observed) == ("new", "i2", None)
    assert new.notes == ()  # the column has entries, in the fit
    (column,) = [part for part in new.parts if part.kind == "column"]
    assert column.sentence.endswith("(10 entries)")
    assert new.probability == pytest.approx(filled.model.predict_proba(NEW).loc["new", "i2"])


def test_pairs_broadcast(filled):
    model = filled.model
    grid = model.predict_proba([["u0"], ["u7"]], ["i0", "i5", "i6"])
    assert grid.shape == (2, 3)
    np.testing.assert_array_equal(grid[1], model.predict_proba("u7", ["i0", "i5", "i6"]))
    low, high = model.predict_interval("u7", ["i0", "i5"])
    assert (low <= high).all() and low.shape == (2,)
    asked = pd.Series(["u0", "u7"], index=[4, 2])
    assert model.predict(asked, ["i0", "i5"]).to_dict() == {4: 1, 2: 1}


def test_a_file_remembers_the_form_and_more_entries_keep_it(filled, tmp_path):
    filled.model.save(tmp_path / "m.npz")
    loaded = boolweave.load(tmp_path / "m.npz")
    pd.testing.assert_frame_equal(loaded.recommend(["u0"], 1), filled.model.recommend(["u0"], 1))
    model = BooleanCompletion(**QUICK).fit(TABLE)
    model.partial_fit(NEW)
    assert model.recommend(["new"], n=1).column.tolist() == ["i2"]


def test_pictures(filled, tmp_path):
    for what in ("matrix", "factors", "curve"):
        figure = filled.model.plot(what, tmp_path / f"{what}.svg")
        assert isinstance(figure, matplotlib.figure.Figure)
        assert (tmp_path / f"{what}.svg").stat().st_size > 1000
    with pytest.raises(ValueError, match="what must be one of"):
        filled.model.plot("tiles")
    without = complete(TABLE, n_layers=0, n_directions=1, n_members=1, random_state=0).model
    without.ensemble_ = replace(without.ensemble_, plain=None)
    with pytest.raises(ValueError, match="has no Boolean factors"):
        without.plot("factors")
