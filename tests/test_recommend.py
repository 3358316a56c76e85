import numpy as np
import pytest

from boolweave import BooleanMatrixFactorization, Observations
from boolweave.datasets import make_boolean
from boolweave.recommend import Words, evidence_in_words, largest, members, reason_in_words

NAN = np.nan
LIKES = np.array(
    [[1, 1, 1, 0, 0], [1, 1, NAN, 0, 0], [1, 1, 1, 0, NAN], [0, 0, 0, 1, 1], [0, 0, 0, 1, NAN]]
)
NAMES = ["Ann", "Bo", "Cy", "Di", "Ed"]
THINGS = ["tea", "milk", "cake", "rum", "gin"]


@pytest.fixture(scope="module")
def model():
    seen = Observations.from_dense(LIKES, row_labels=NAMES, column_labels=THINGS)
    return BooleanMatrixFactorization(2, method="max-sum", random_state=0).fit(seen)


def test_only_unseen_columns_best_first(model):
    found = model.recommend(["Bo", "Ed", "Ann"], n=2)
    assert found.rows.tolist() == [1, 4, 0]
    assert found.columns.tolist() == [[2, -1], [4, -1], [-1, -1]]
    assert found.probabilities[0, 0] > 0.5
    assert np.isnan(found.probabilities[2]).all()
    assert found.explain(0, 0).column == "cake"
    with pytest.raises(IndexError, match="there are 1 recommendations for this row"):
        found.explain(0, 1)


def test_a_row_asked_for_twice(model):
    found = model.recommend(["Ed", "Bo", "Ed"], n=1)
    assert found.rows.tolist() == [4, 1, 4]
    assert found.columns.tolist() == [[4], [2], [4]]


def test_agrees_with_the_slow_way():
    planted = make_boolean(30, 20, 3, flip=0.05, observed=0.5, random_state=1).observations
    model = BooleanMatrixFactorization(3, method="max-sum", random_state=0).fit(planted)
    found = model.recommend(np.arange(30), n=4)
    dense = planted.to_dense()
    for row in range(30):
        unseen = np.flatnonzero(np.isnan(dense[row]))
        chance = model.predict_proba(np.full(len(unseen), row), unseen)
        best = sorted(zip(-chance, unseen, strict=True))[:4]
        assert [column for _, column in best] == found.columns[row][: len(best)].tolist()


def test_rows_in_blocks(model, monkeypatch):
    whole, bits = (
        np.concatenate([piece for _, piece in pieces])
        for pieces in (model.result_.predict_proba_rows(), model.result_.predict_rows())
    )
    monkeypatch.setattr("boolweave.engine.prediction.VALUES_AT_A_TIME", 1)
    pieces = list(model.result_.predict_proba_rows(np.arange(5)))
    assert [rows.start for rows, _ in pieces] == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(np.concatenate([piece for _, piece in pieces]), whole)
    assert (whole >= 0).all() and (whole <= 1).all()
    np.testing.assert_array_equal(bits[~np.isnan(LIKES)], LIKES[~np.isnan(LIKES)])


def test_reasons_by_name(model):
    found = model.explain("Bo", "cake")
    assert (found.value, found.observed) == (1, None)
    reason = found.reasons[0]
    assert set(reason.rows) == {"Ann", "Bo", "Cy"} and set(reason.columns) == set(THINGS[:3])
    assert reason.contribution == pytest.approx(1.0)
    assert (reason.evidence, reason.n_observed) == (("tea", "milk"), 2)
    assert reason.sentence == (
        "because factor 1: Bo has both of its other observed columns: tea, milk"
    )
    assert found.reason() == "because Bo has tea and milk, which this group has"
    assert members(model.result_, reason.factor - 1, "row") == reason.rows


def test_members_of_a_factor_are_named_once_for_all_reasons(model, monkeypatch):
    """A factor may have a hundred thousand rows, and a table of recommendations as many reasons."""
    named = []

    def counted(result, k, axis):
        named.append((k, axis))
        return members(result, k, axis)

    monkeypatch.setattr("boolweave.recommend.members", counted)
    found = model.recommend(["Bo", "Ed", "Bo", "Cy"], n=2)
    assert sum(map(bool, sum(found.reasons, ()))) == 4
    assert len(named) == len(set(named)) == 4


def test_no_reason_for_a_zero(model):
    found = model.explain("Ann", "gin")
    assert (found.value, found.observed, found.reasons) == (0, 0, ())
    assert "no factor has both" in found.sentence


def test_shares_of_several_factors_add_up():
    table = np.ones((6, 6))
    table[:2, 4:] = table[4:, :2] = 0
    model = BooleanMatrixFactorization(2, method="max-sum", random_state=0).fit(table)
    found = model.explain(2, 2)
    assert sum(reason.contribution for reason in found.reasons) == pytest.approx(1.0)
    assert found.row == "row 3"


def test_wrong_names_and_numbers(model):
    with pytest.raises(ValueError, match=r"no row named 'Zoe' in the model$"):
        model.recommend(["Zoe"])
    with pytest.raises(ValueError, match=r"did you mean 'Ann'\?"):
        model.recommend(["Anne"])
    with pytest.raises(ValueError, match="n must be a whole number >= 1"):
        model.recommend(["Ann"], n=0)
    with pytest.raises(ValueError, match=r"n must be a whole number >= 1, got 2\.5"):
        model.recommend(["Ann"], n=2.5)
    with pytest.raises(ValueError, match="columns must be from 0 to 4"):
        model.explain(0, 9)


def test_ties_go_by_position():
    assert largest(np.array([0.5, 0.7, 0.5, 0.7, 0.5]), 3).tolist() == [1, 3, 0]
    assert largest(np.array([0.5, 0.7]), 3).tolist() == [1, 0]


def test_words_of_evidence():
    films = Words("liked", "users", "films")
    for names, n_observed, expected in (
        ([], 0, "user 7 belongs to it, although none of its other films was observed"),
        ([], 2, "user 7 liked none of its other observed films (2)"),
        (["a"], 1, "user 7 liked a, the only other observed one of its 9 films"),
        (["a", "b"], 2, "user 7 liked both of its other observed films: a, b"),
        (list("abc"), 3, "user 7 liked all 3 of its other observed films: a, b, c"),
        (list("abcde"), 8, "user 7 liked 5 of its 8 other observed films: a, b, c, d, e"),
    ):
        found = evidence_in_words("7", names, n_observed, 9, "factor 3", films)
        assert found == f"factor 3: {expected}"


def test_reasons_in_plain_words():
    films = Words("liked", "users", "films")
    belongs = "user 7 seems to belong to a group that liked it"
    for names, n_observed, expected in (
        ([], 0, f"{belongs}, although none of the group's other films was observed"),
        ([], 2, f"{belongs}, but liked none of its other observed films (2)"),
        (["a"], 1, "user 7 liked a, which this group liked"),
        (["a", "b"], 4, "user 7 liked a and b, which this group liked"),
        (list("abcd"), 8, "user 7 liked a and 3 more that this group liked"),
    ):
        assert reason_in_words("7", names, n_observed, films) == expected


def test_more_recommendations_than_columns(model):
    n_columns = model.result_.observations.shape[1]
    every, more = (model.recommend([0], n) for n in (n_columns, 2**62))
    np.testing.assert_array_equal(more.columns, every.columns)
