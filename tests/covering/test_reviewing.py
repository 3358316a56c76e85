"""What a review says of a cover: descriptions of factors, changes, and the table of factors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from boolweave import Observations, cover
from boolweave.covering.reviewing import Description, attributes_of

TABLE = np.array([[1, 1, 0, 0]] * 3 + [[1, 1, 1, 0]] + [[0, 0, 1, 1]] * 2)
USERS = {
    "department": ["Sales", "Sales", "Sales", "Sales", "IT", "IT"],
    "city": ["Berlin", "Berlin", "Rome", "Rome", "Rome", None],
}


def names(found):
    return [found.name_of_factor(k) for k in range(found.n_factors)]


def test_factors_are_described_by_attributes_of_their_rows():
    found = cover(TABLE, row_attributes=USERS, random_state=0)
    by_rows = {
        tuple(np.flatnonzero(x)): d for x, d in zip(found.X.T, found.descriptions, strict=True)
    }
    assert by_rows[0, 1, 2, 3] == Description("Sales", 4, 4)
    assert by_rows[4, 5] == Description("IT", 2, 2)
    assert str(by_rows[3,]) == "Sales in Rome: 1 of 2"
    assert set(found.members()["name"]) == set(names(found)) == {"Sales", "IT", "Sales in Rome"}


def test_equal_descriptions_have_different_names():
    found = cover(np.eye(2), row_attributes={"team": ["a", "a"]}, random_state=0)
    assert names(found) == ["a", "a (2)"]
    assert [str(d) for d in found.descriptions] == ["a: 1 of 2", "a (2): 1 of 2"]


def test_rows_that_share_nothing_are_not_described():
    found = cover(np.ones((3, 2)), row_attributes={"team": ["a", "b", "c"]}, random_state=0)
    assert found.descriptions == (None,) and names(found) == [None]


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, dict])
def test_an_export_describes_its_rows(library):
    """Lines are matched by label; columns with several values for a row do not describe rows."""
    seen = Observations.from_dense(np.eye(2), row_labels=["u2", "u1"])
    export = {
        "permission": ["x", "y", "z"], "user": ["u1", "u1", "u2"], "team": ["a", "a", None],
        "floor": [1, 1, 2],
    }  # fmt: skip
    assert attributes_of(library(export), seen) == {"team": ["", "a"], "floor": ["2", "1"]}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([["Sales"]], "row_attributes must be a table or a dict .*, but got a list"),
        ({"team": ["a"]}, "a value for each of the 6 rows, but 'team' has 1; or let one"),
    ],
)
def test_attributes_that_do_not_fit(given, message):
    with pytest.raises(ValueError, match=message):
        cover(TABLE, row_attributes=given)


def test_changes_and_conflicts():
    seen = Observations.from_dense(
        [[1, 1, 0], [1, 1, 0], [0, 1, 1]], column_labels=["pay", "approve", "read"]
    )
    found = cover(seen, conflicts=[["pay", "approve"]], min_rows=2, random_state=0)
    assert found.changes().rows() == [
        ("row 3", "loses", "read"), ("row 1", "should lose", "pay"),
        ("row 2", "should lose", "pay"),
    ]  # fmt: skip


@settings(deadline=None, max_examples=15)
@given(arrays(np.uint8, (5, 4), elements=st.integers(0, 1)))
def test_the_table_of_a_review(matrix):
    found = cover(matrix, random_state=0)
    review = found.review(existing=np.eye(4)[:1])
    K = found.n_factors
    assert review["role"].to_list() == list(range(1, K + 1))
    count = found.X.astype(int) @ found.Y
    for k, line in enumerate(review.to_dicts()):
        x, y = found.X[:, k].astype(bool), found.Y[k].astype(bool)
        assert (line["rows"], line["columns"]) == (x.sum(), y.sum())
        assert line["held_by_few"] == (x.sum() <= 2)
        assert line["covered_by_it_alone"] == (count[np.ix_(x, y)] == 1).sum()
        shares = [
            0.0 if j == k else (y & other).sum() / (y | other).sum()
            for j, other in enumerate(found.Y[:K].astype(bool))
        ]
        assert line["overlap"] == pytest.approx(max(shares), abs=1e-4)
        assert shares[line["closest_role"] - 1] == max(shares)
        added = [f"column {n + 1}" for n in np.flatnonzero(y) if n]
        expected = ("existing 1", "; ".join(added)) if y[0] else (None, None)
        assert (line["existing_role"], line["columns_added"]) == expected
