"""Names out where names went in: what a factorization answers, in which form."""

import matplotlib.figure
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

import boolweave
from boolweave import BooleanMatrixFactorization, Observations, factorize
from boolweave.recommend import Recommendations, percent

NAN = np.nan
LIKES = pd.DataFrame(
    [[1, 1, 1, 0, 0], [1, 1, NAN, 0, 0], [1, 1, 1, 0, NAN], [0, 0, 0, 1, 1], [0, 0, 0, 1, NAN]],
    index=["Ann", "Bo", "Cy", "Di", "Ed"],
    columns=["tea", "milk", "cake", "rum", "gin"],
)
NEW = pd.DataFrame([[1, NAN, NAN, 0, 0], [NAN, 0, 0, 1, NAN]], ["Zoe", "Yan"], LIKES.columns)


def fit(data):
    return BooleanMatrixFactorization(2, objective="errors", random_state=0).fit(data)


@pytest.fixture(scope="module")
def model():
    return fit(LIKES)


@pytest.fixture(scope="module")
def plain():
    return fit(Observations.from_data(LIKES))


# ---------------------------------------------------------------- recommendations


def test_a_table_for_a_table(model, plain):
    found = model.recommend(["Bo", "Ed", "Ann"], n=2, why=True)
    assert isinstance(found, pd.DataFrame)
    assert found.columns.tolist() == ["row", "rank", "column", "probability", "why"]
    assert found[["row", "rank", "column"]].values.tolist() == [["Bo", 1, "cake"], ["Ed", 1, "gin"]]
    same = plain.recommend(["Bo", "Ed", "Ann"], n=2)
    assert isinstance(same, Recommendations)
    np.testing.assert_array_equal(found.probability, same.table["probability"])
    assert found.why.tolist() == [same.reasons[0][0], same.reasons[1][0]]


def test_polars_for_polars():
    found = fit(pl.from_pandas(LIKES.reset_index(names="who"))).recommend(["Bo"], n=1)
    assert isinstance(found, pl.DataFrame)
    assert found.drop("probability").rows() == [("Bo", 1, "cake")]


def test_without_a_table_short_texts(plain):
    found = plain.recommend(np.arange(5), n=3)
    lines = repr(found).splitlines()
    assert lines[0] == "Recommendations for 5 rows"
    assert (
        lines[2].startswith("  Bo: cake 9")
        and "nothing, because every column was observed" in lines[1]
    )
    assert found.table.columns == ["row", "rank", "column", "probability"]
    page = found._repr_html_()
    assert "cake" in page and "3 recommendations" in page


def test_new_rows_are_recommended_to(model, plain):
    found = model.recommend(NEW, n=1, why=True)
    assert found[["row", "column"]].values.tolist() == [["Zoe", "milk"], ["Yan", "gin"]]
    assert found.why[0] == "because Zoe has tea, which this group has"
    chance = model.predict_proba(NEW)
    assert found.probability.tolist() == [chance.loc["Zoe", "milk"], chance.loc["Yan", "gin"]]
    same = plain.recommend(NEW.to_numpy(), n=1)
    assert isinstance(same, Recommendations) and same.columns.tolist() == [[1], [4]]


def test_new_rows_without_zeros():
    """Where zeros are not listed, a zero is what may become a one."""
    ones = scipy.sparse.csr_array(np.kron(np.eye(3), np.ones((20, 10))))
    model = BooleanMatrixFactorization(3, zeros="collective", random_state=0).fit(ones)
    new = scipy.sparse.csr_array(([1] * 8, ([0] * 8, range(10, 18))), shape=(1, 30))
    assert set(model.recommend(new, n=2).columns[0].tolist()) == {18, 19}


# ---------------------------------------------------------------- explanations


def test_words_that_fit(model):
    found = model.explain("Bo", "cake", verb="likes", columns="drinks")
    sentence = "because factor 1: Bo likes both of its other observed drinks: tea, milk"
    in_short = "because Bo likes tea and milk, which this group likes"
    assert (found.reasons[0].sentence, found.reason()) == (sentence, in_short)
    chance = percent(found.probability)
    assert found.sentence == f"Bo, cake: 1 with a probability of {chance}, {in_short}"
    assert repr(found) == f"Explanation({found.sentence})"
    assert isinstance(found.table, pd.DataFrame) and found.table.because.tolist() == [sentence]
    assert "Bo likes both" in found._repr_html_()
    with pytest.raises(TypeError, match="verbs"):
        model.explain("Bo", "cake", verbs="likes")


def test_reasons_count_what_was_observed():
    table = np.kron(np.eye(2), np.ones((8, 12)))
    table[0, 3:5] = 0  # has 9 of the 11 others, of which 10 are known
    table[0, [0, 1]] = NAN
    seen = Observations.from_dense(table, column_labels=[f"c{j}" for j in range(24)])
    found = BooleanMatrixFactorization(2, objective="errors", random_state=0).fit(seen)
    reason = found.explain(0, "c0").reasons[0]
    known = [name for j, name in enumerate(seen.column_labels[:12]) if table[0, j] == 1]
    assert set(reason.evidence) == set(known) and reason.n_observed == 10
    assert "has 8 of its 10 other observed columns: " in reason.sentence
    assert reason.sentence.endswith("and 4 more")
    alone = found.explain([[NAN] * 24], "c0")
    assert not alone.reasons or "none of the group's other columns was observed" in alone.reason()


def test_a_new_row_is_explained(model):
    found = model.explain(NEW.iloc[:1], "cake")
    assert (found.row, found.value, found.observed) == ("Zoe", 1, None)
    with pytest.raises(ValueError, match="expected one row, got a matrix of 2"):
        model.explain(NEW, "cake")
    with pytest.raises(ValueError, match="expected one row and one column, got 2 and 1"):
        model.explain(["Ann", "Bo"], "cake")


# ---------------------------------------------------------------- predictions


def test_predictions_of_new_rows_have_names(model, plain):
    found = model.predict(NEW)
    assert isinstance(found, pd.DataFrame)
    assert found.index.tolist() == ["Zoe", "Yan"] and found.columns.equals(LIKES.columns)
    np.testing.assert_array_equal(found, plain.predict(NEW.to_numpy()))
    assert isinstance(plain.predict(NEW.to_numpy()), np.ndarray)


def test_pairs_in_the_form_of_the_question(model):
    asked = pd.DataFrame({"who": ["Ann", "Ed"], "what": ["tea", "gin"]}, index=[5, 3])
    asked["p"] = model.predict_proba(asked.who, asked.what)
    np.testing.assert_array_equal(asked.p, model.predict_proba(["Ann", "Ed"], ["tea", "gin"]))
    assert isinstance(model.predict(["Ann"], ["tea"]), np.ndarray)
    assert model.predict(pl.Series(["Ann"]), ["tea"]).to_list() == [1]
    grid = model.predict_proba([["Ann"], ["Di"]], ["tea", "gin"])
    assert grid.shape == (2, 2) and grid[0, 0] == asked.p[5]
    assert model.predict("Ann", ["tea", "gin"]).tolist() == [1, 0]


# ---------------------------------------------------------------- members and files


def test_members_by_name(model, plain):
    table = model.members()
    assert isinstance(table, pd.DataFrame)
    assert table.columns.tolist() == ["factor", "axis", "label", "probability"]
    for k, components in enumerate(model.components_):
        own = table[table.factor == k + 1]
        assert own[own.axis == "row"].label.tolist() == (
            LIKES.index[model.row_factors_[:, k] == 1].tolist()
        )
        assert own[own.axis == "column"].label.tolist() == LIKES.columns[components == 1].tolist()
    everyone = plain.members(full=True)
    assert isinstance(everyone, pl.DataFrame) and len(everyone) == 2 * (5 + 5)
    assert everyone["member"].sum() == len(table)


def test_a_result_lists_the_members_as_the_model_does(plain):
    for full in (False, True):
        table = plain.result_.members(full=full)
        assert isinstance(table, pl.DataFrame)
        assert table.equals(plain.members(full=full))
    result = factorize(np.eye(2), n_components=2, random_state=0)
    pairs = result.members()["axis", "label"].rows()
    assert sorted(pairs) == [
        ("column", "column 1"), ("column", "column 2"), ("row", "row 1"), ("row", "row 2")
    ]  # fmt: skip


def test_a_file_remembers_the_form(model, tmp_path):
    model.save(tmp_path / "m.npz")
    loaded = boolweave.load(tmp_path / "m.npz")
    found = loaded.recommend(["Bo"], n=1)
    pd.testing.assert_frame_equal(found, model.recommend(["Bo"], n=1))


def test_numbers_as_names(tmp_path):
    model = fit(LIKES.set_axis([40, 30, 20, 10, 0], axis=0))
    assert model.recommend([30], n=1).row.tolist() == [30]
    model.save(tmp_path / "m.npz")
    assert boolweave.load(tmp_path / "m.npz").recommend([30], n=1).row.tolist() == [30]


# ---------------------------------------------------------------- pictures


def test_pictures(model, tmp_path):
    for what in ("matrix", "factors", "curve"):
        figure = model.plot(what, tmp_path / f"{what}.png")
        assert isinstance(figure, matplotlib.figure.Figure)
        assert (tmp_path / f"{what}.png").read_bytes()[:4] == b"\x89PNG"
    names = [text.get_text() for text in model.plot("factors").axes[0].get_yticklabels()]
    assert sorted(names) == sorted(LIKES.index)
    posterior = BooleanMatrixFactorization(2, method="max-sum", random_state=0).fit(LIKES)
    assert posterior.plot("curve").axes[0].get_ylabel() == "log-posterior"
    with pytest.raises(ValueError, match="what must be one of matrix, factors, curve, got 'x'"):
        model.plot("x")
