"""Lists of entries on a page, held against what all cells say."""

import numpy as np
import pytest
import scipy.sparse

from boolweave import BooleanMatrixFactorization, Observations, cover
from boolweave.data.entries import spread
from boolweave.data.ones import SparseObservations
from boolweave.datasets import make_boolean
from boolweave.report import grid as entries
from boolweave.report.contents import cover_entries, cover_lists, cover_review, factor_grid
from boolweave.report.grid import Lines, doubtful, holes
from boolweave.report.page import render_report


@pytest.fixture(scope="module")
def model():
    planted = make_boolean(30, 25, 3, flip=0.1, observed=0.7, random_state=0).observations
    return BooleanMatrixFactorization(3, random_state=0).fit(planted)


def of_model(model):
    result, table = model.result_, model.observations_
    grid = factor_grid(result)
    return holes(table, result.predict_proba), doubtful(table, result.predict_proba, grid)


def as_dictionary(found):
    return dict(zip(zip(found.rows, found.columns, strict=True), found.chances, strict=True))


def test_all_holes_the_most_probable_ones_first(model):
    found, _ = of_model(model)
    dense = model.observations_.to_dense()
    chances = model.result_.probability_matrix()
    expected = {(m, n): chances[m, n] for m, n in np.argwhere(np.isnan(dense))}
    assert as_dictionary(found) == pytest.approx(expected)
    assert (np.diff(found.chances) <= 0).all() and not found.is_sample
    assert found.n_all == len(found) == np.isnan(dense).sum()
    whole = Observations.from_dense(np.eye(3))
    assert holes(whole, lambda m, n: np.zeros(len(m))) is None


def test_observed_entries_are_doubted_in_order(model, monkeypatch):
    _, found = of_model(model)
    table = model.observations_
    rows, chances = table.rows_of_entries(), model.result_.probability_matrix()
    chance = chances[rows, table.indices]
    doubts = np.where(table.values == 1, 1 - chance, chance)
    n_uncertain = min((doubts > entries.LEAST_DOUBT).sum(), entries.LEAST_DOUBTFUL)
    expected = np.sort(doubts)[::-1][: max((doubts > 0.5).sum(), n_uncertain)]
    own = np.where(found.observed == 1, 1 - found.chances, found.chances)
    np.testing.assert_allclose(own, expected)
    right = doubtful(table, lambda m, n: table.to_dense()[m, n], factor_grid(model.result_))
    assert right is None  # the model is certain of all, and right
    # In pieces, and with a list that is full before the last of them.
    monkeypatch.setattr("boolweave.data.observations.ENTRIES_PER_CHUNK", 40)
    monkeypatch.setattr(entries, "MOST_LISTED", 60)
    few = of_model(model)[1]
    np.testing.assert_allclose(few.chances, found.chances[:60])


def test_large_tables_are_sampled(model, monkeypatch):
    monkeypatch.setattr(entries, "MOST_JUDGED", 100)
    monkeypatch.setattr("boolweave.data.observations.SAMPLED_COLUMNS", 10)
    unseen, doubted = of_model(model)
    dense, n_holes = model.observations_.to_dense(), unseen.n_all
    assert unseen.is_sample and doubted.is_sample
    assert 0 < len(unseen) <= 100 < n_holes and len(np.unique(unseen.columns)) <= 10
    assert np.isnan(dense[unseen.rows, unseen.columns]).all()
    np.testing.assert_array_equal(dense[doubted.rows, doubted.columns], doubted.observed)
    assert len(np.unique(doubted.rows)) > 20  # from all over the table
    page = render_report(model)
    assert "from a sample that is spread over the table" in page and "only a sample of its" in page
    np.testing.assert_array_equal(spread(5, 9), range(5))
    assert spread(100, 3).tolist() == [0, 49, 99]


def test_ones_alone(model):
    """A matrix that lists its ones has drawn zeros in the list, and its missing cells as holes."""
    ones = scipy.sparse.csr_array(np.kron(np.eye(2, dtype=np.int8), np.ones((10, 8), np.int8)))
    ones = ones.tolil()
    ones[0, 0], ones[0, 15] = 0, 1
    table = SparseObservations.from_sparse(scipy.sparse.csr_array(ones))
    fitted = BooleanMatrixFactorization(2, zeros="collective", random_state=0).fit(table)
    grid = factor_grid(fitted.result_)
    found = doubtful(table, fitted.result_.predict_proba, grid)
    worst = set(zip(found.rows[:2].tolist(), found.columns[:2].tolist(), strict=True))
    assert worst == {(0, 0), (0, 15)} and found.is_sample
    assert holes(table, fitted.result_.predict_proba) is None


def test_covers_list_what_they_change():
    grants = np.array([[1, 1, 0, np.nan], [1, 1, 1, 1], [0, 0, 1, 1]])
    found = cover(grants, n_components=1, random_state=0)
    table = cover_entries(found)
    np.testing.assert_array_equal(table.to_local().to_dense(), grants)
    (missed,) = cover_lists(found)
    pairs = set(zip(missed.rows.tolist(), missed.columns.tolist(), strict=True))
    assert missed.kind == "missed" and pairs == set(map(tuple, found.missed.tolist()))
    assert "These are the ones that rows lose" in render_report(found)
    sparse = cover(scipy.sparse.csr_array(np.nan_to_num(grants)), random_state=0)
    np.testing.assert_array_equal(
        cover_entries(sparse).to_local().to_dense(), np.nan_to_num(grants)
    )
    assert cover_lists(sparse) == [] and "no cover has fewer roles" in render_report(sparse)
    nothing = cover(np.zeros((2, 2)), random_state=0)
    assert "no ones to cover" in render_report(nothing)


def test_pages_about_covers_say_what_to_review():
    grants = np.array([[1, 1, 1, 0, 0]] * 3 + [[1, 1, 0, 1, 0]] * 2 + [[0, 0, 0, 0, 1]] * 4)
    seen = Observations.from_dense(grants, column_labels=["a", "b", "c", "<d>", "e"])
    found = cover(seen, closed=True, random_state=0)
    existing = Observations.from_dense(
        [[1, 1, 0, 0, 0], [0, 0, 0, 0, 1], [0, 1, 0, 1, 0]], row_labels=["base", "last", "<old>"]
    )
    review = cover_review(found, existing)
    (few,) = [k + 1 for k in range(3) if found.X[:, k].sum() <= 2]
    (other,) = [k + 1 for k in range(3) if found.X[:, k].sum() == 3]
    assert [line["role"] for line in review["few"]] == [few]
    assert [{line["role"], line["closest_role"]} for line in review["alike"]] == [{few, other}]
    assert review["alike"][0]["overlap"] == 0.5
    assert {line["role"]: line["existing_role"] for line in review["changed"]} == {
        few: "base", other: "base",
    }  # fmt: skip
    assert review["dropped"] == ["<old>"]
    page = render_report(found, existing=existing)
    page = page[: page.index('<script type="application/json"')]
    assert f'<th scope="row"><span data-factor="{few - 1}">Role {few}</span></th><td>2</td>' in page
    assert (
        '<td class="text">base</td><td class="text">&lt;d&gt;</td><td class="text">–</td>' in page
    )
    assert "1 of 3 roles exist as they are." in page
    assert "can be dropped: &lt;old&gt;." in page
    assert "existing" not in render_report(found)
    new = render_report(found, existing=[[0, 0, 0, 0, 1]])
    assert new.count("new: it has no column of an existing role") == 2


def test_covers_without_anything_to_review(model):
    found = cover(np.kron(np.eye(2), np.ones((3, 1))), random_state=0)
    page = render_report(found, existing=np.eye(2))
    assert "Every role has more than two rows." in page
    assert "No two roles have a column in common." in page
    assert "2 of 2 roles exist as they are." in page and "against-existing" not in page
    with pytest.raises(ValueError, match="those of a cover, got a BooleanMatrixFactorization"):
        render_report(model, existing=np.eye(2))
    with pytest.raises(ValueError, match="a cover has none; leave held_out out"):
        render_report(found, held_out=([0], [0], [1]))


def test_lines_are_numbered_as_they_come():
    table = Observations.from_dense(np.eye(4), row_labels=list("abcd"))
    members = np.eye(4, 2, dtype=bool)
    lines = Lines(table, "row", np.array([2, 0]), members)
    assert lines.numbers(np.array([0, 3, 2, 3])).tolist() == [1, 2, 0, 2]
    assert lines.table() == {"names": ["c", "a", "d"], "factors": [[], [0], []]}
