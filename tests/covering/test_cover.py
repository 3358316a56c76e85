"""`boolweave.cover` against enumeration, and what every cover must keep to."""

from __future__ import annotations

import os
import re
import signal

import numpy as np
import pytest
from commands import wide_terminal
from cover_reference import least_cover, least_limited_cover
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from boolweave import Observations, cover
from boolweave.covering import exact
from boolweave.covering.covering import find_cover
from boolweave.covering.matrix import Matrix, Requirements
from boolweave.engine.result import Result
from boolweave.runtime.run import Run
from short import shorten_covers

SETTINGS = settings(deadline=None, max_examples=20)
small = st.tuples(st.integers(1, 5), st.integers(1, 5)).flatmap(
    lambda s: arrays(np.uint8, s, elements=st.integers(0, 1))
)
medium = st.integers(0, 2**32 - 1).map(lambda seed: _planted(seed))


def _planted(seed, shape=(25, 18), K=4, flip=0.03):
    random = np.random.default_rng(seed)
    X, Y = random.random((shape[0], K)) < 0.3, random.random((K, shape[1])) < 0.35
    return ((X @ Y) ^ (random.random(shape) < flip)).astype(np.uint8)


def check(matrix, found, n_fixed=0):
    """What the answer says of itself is true."""
    ones = np.asarray(matrix) == 1
    zeros = np.asarray(matrix) == 0
    Z = found.Z.astype(bool)
    assert isinstance(found, Result)
    np.testing.assert_array_equal(found.missed, np.argwhere(ones & ~Z))
    np.testing.assert_array_equal(found.false_ones, np.argwhere(zeros & Z))
    assert found.coverage == pytest.approx((ones & Z).sum() / ones.sum() if ones.any() else 1)
    if found.cost:
        assert len(found.Y) == found.cost and found.X.shape[1] == found.cost
        for k in range(int(found.cost)):
            part = (found.X[:, : k + 1] @ found.Y[: k + 1]) > 0
            assert found.curve[k] == pytest.approx((part & ones).sum() / max(1, ones.sum()))
    gained = np.diff(found.curve, prepend=0)[n_fixed:]
    assert (np.diff(gained) <= 1e-12).all()


# ---------------------------------------------------------------- all ones, no false ones


@SETTINGS
@given(small)
def test_a_cover_of_a_small_matrix_is_the_least(matrix):
    found = cover(matrix, random_state=0)
    check(matrix, found)
    assert not len(found.missed) and not len(found.false_ones)
    assert found.cost == least_cover(matrix)
    assert found.bound == found.cost


@SETTINGS
@given(
    st.tuples(st.integers(1, 4), st.integers(1, 4)).flatmap(
        lambda s: arrays(np.float64, s, elements=st.sampled_from([0, 1, np.nan]))
    )
)
def test_missing_entries_may_be_covered(matrix):
    found = cover(matrix, random_state=0)
    check(matrix, found)
    assert not len(found.missed) and not len(found.false_ones)
    assert found.cost == least_cover(matrix == 1, matrix != 0)


@SETTINGS
@given(medium)
def test_a_cover_has_all_ones_and_no_others(matrix):
    found = cover(matrix, random_state=0)
    check(matrix, found)
    assert np.array_equal(found.Z, matrix)
    assert found.bound <= found.cost <= min(matrix.shape)


@SETTINGS
@given(small, st.randoms(use_true_random=False))
def test_the_order_of_rows_and_columns_does_not_change_the_number(matrix, random):
    rows, columns = list(range(len(matrix))), list(range(matrix.shape[1]))
    random.shuffle(rows)
    random.shuffle(columns)
    shuffled = matrix[rows][:, columns]
    assert cover(shuffled, random_state=0).cost == cover(matrix, random_state=0).cost
    assert cover(matrix.T, random_state=0).cost == cover(matrix, random_state=0).cost


def test_equal_rows_and_columns_change_nothing():
    matrix = _planted(0)
    twice = np.repeat(np.repeat(matrix, 3, axis=0), 2, axis=1)
    assert cover(twice, random_state=0).cost == cover(matrix, random_state=0).cost


def test_the_same_seed_gives_the_same_answer():
    matrix = _planted(1, (25, 20), 4, 0.02)
    first, second = (cover(matrix, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(first.X, second.X)
    np.testing.assert_array_equal(first.Y, second.Y)


@settings(deadline=None, max_examples=40)
@given(arrays(np.uint8, (5, 6), elements=st.sampled_from([0, 1, 1])))
def test_the_search_of_large_parts_on_small_ones(matrix):
    """Without lists of all cliques, the bound is still one, and the cover is nearly the least."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "MOST_LISTED", 0)
        found = cover(matrix, random_state=0)
    check(matrix, found)
    assert np.array_equal(found.Z, matrix)
    least = least_cover(matrix)
    assert found.bound <= least <= found.cost <= least + 1


def test_a_matrix_that_the_reductions_do_not_solve():
    """A crown: any two ones of different rows and columns are neighbours, so nothing is forced."""
    n = 7
    crown = 1 - np.eye(n, dtype=np.uint8)
    found = cover(crown, random_state=0)
    check(crown, found)
    assert np.array_equal(found.Z, crown)
    # The least t with (t choose t/2) >= n.
    assert found.cost == found.bound == 5


@pytest.mark.parametrize(
    "matrix", [np.zeros((3, 2)), np.zeros((0, 4)), np.zeros((2, 0)), [[np.nan, 0]]]
)
def test_nothing_to_cover(matrix):
    found = cover(matrix)
    assert found.cost == found.bound == 0 and found.coverage == 1 and not len(found.missed)
    assert found.X.shape == (len(matrix), 1) and not found.Y.any()


def test_one_factor_for_all():
    assert cover(np.ones((3, 4))).Y.tolist() == [[1, 1, 1, 1]]


# ---------------------------------------------------------------- kinds of input


def test_sparse_input_is_not_made_dense():
    """A matrix of 10^12 cells: only what it stores is looked at."""
    n = 1_000_000
    rows = np.repeat(np.arange(0, 900_000, 1000), 3)
    columns = np.tile([5, 70, 999_999], 900)
    matrix = sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=(n, n))
    found = cover(matrix, random_state=0)
    assert found.cost == found.bound == 1
    assert found.Y.sum() == 3 and found.X.sum() == 900 and found.coverage == 1


@pytest.mark.parametrize(
    "kind", ["csr_array", "csc_array", "coo_matrix", "lil_array", "bsr_array", "dia_array"]
)
def test_sparse_and_dense_input_give_the_same(kind):
    matrix = _planted(4)
    expected = cover(matrix, random_state=0)
    found = cover(getattr(sparse, kind)(matrix), random_state=0)
    np.testing.assert_array_equal(found.X, expected.X)
    np.testing.assert_array_equal(found.Y, expected.Y)


def test_a_stored_nan_is_missing():
    dense = np.array([[1.0, np.nan], [np.nan, 1.0]])
    assert cover(sparse.csr_array(dense)).cost == cover(dense).cost == 1
    assert cover(sparse.csr_array(np.eye(2))).cost == 2


# ---------------------------------------------------------------- less than all, or more


@SETTINGS
@given(medium, st.sampled_from([0.5, 0.8, 0.95]))
def test_a_share_of_the_ones(matrix, coverage):
    found, every = cover(matrix, coverage, random_state=0), cover(matrix, random_state=0)
    check(matrix, found)
    assert found.coverage >= coverage and not len(found.false_ones)
    assert found.bound <= found.cost <= every.cost


@settings(deadline=None, max_examples=15)
@given(arrays(np.uint8, (4, 5), elements=st.integers(0, 1)), st.integers(0, 4))
def test_a_share_of_a_small_matrix_is_covered_by_the_fewest(matrix, most_missed):
    n_ones = int(matrix.sum())
    if n_ones > most_missed:
        found = cover(matrix, (n_ones - most_missed) / n_ones, random_state=0)
        assert found.cost == least_cover(matrix, most_missed=most_missed)


@SETTINGS
@given(medium, st.integers(1, 6))
def test_so_many_factors(matrix, K):
    found, every = cover(matrix, n_components=K, random_state=0), cover(matrix, random_state=0)
    check(matrix, found)
    assert found.cost <= K and not len(found.false_ones)
    assert found.coverage == 1 or found.cost < every.cost


@SETTINGS
@given(medium, st.sampled_from([(1.0, 5), (1.0, 0.1), (0.9, 3), (0.9, 0.05)]))
def test_false_ones_within_the_limit(matrix, how):
    coverage, false_ones = how
    found = cover(matrix, coverage, false_ones, random_state=0)
    check(matrix, found)
    assert found.coverage >= coverage
    assert len(found.false_ones) <= (false_ones if false_ones >= 1 else false_ones * matrix.sum())
    assert found.cost <= cover(matrix, coverage, random_state=0).cost


# ---------------------------------------------------------------- limits and fixed factors


@SETTINGS
@given(
    medium,
    st.sampled_from([(3, None), (None, 2), (4, 3), (1, 1)]),
    st.sampled_from([(1.0, 0), (0.8, 0), (0.9, 0.1)]),
)
def test_limits_are_kept(matrix, limits, how):
    max_rows, max_columns = limits
    found = cover(matrix, *how, max_rows=max_rows, max_columns=max_columns, random_state=0)
    check(matrix, found)
    assert found.X.sum(axis=0).max() <= (max_rows or len(matrix))
    assert found.Y.sum(axis=1).max() <= (max_columns or matrix.shape[1])
    assert found.coverage >= how[0] and len(found.false_ones) <= how[1] * matrix.sum()
    assert found.bound <= found.cost


@settings(deadline=None, max_examples=25)
@given(arrays(np.uint8, (4, 4), elements=st.integers(0, 1)), st.integers(1, 2), st.integers(1, 2))
def test_limits_of_a_small_matrix(matrix, max_rows, max_columns):
    found = cover(matrix, max_rows=max_rows, max_columns=max_columns, random_state=0)
    least = least_limited_cover(matrix, max_rows, max_columns) if matrix.sum() <= 8 else 0
    assert found.bound <= found.cost
    assert found.cost >= least and (not least or found.cost <= least + 1)


@SETTINGS
@given(
    medium,
    st.sampled_from(
        [{}, {"coverage": 0.8}, {"false_ones": 5}, {"max_rows": 3}, {"n_components": 4}]
    ),
)
def test_fixed_factors_are_kept(matrix, how):
    fixed = np.zeros((2, matrix.shape[1]), dtype=np.uint8)
    fixed[0, :3], fixed[1, 4:6] = 1, 1
    found = cover(matrix, fixed=fixed, closed=True, random_state=0, **how)
    check(matrix, found, n_fixed=2)
    assert found.n_fixed == 2
    np.testing.assert_array_equal(found.Y[:2], fixed)
    assert len(found.false_ones) <= how.get("false_ones", 0)
    if not how:
        np.testing.assert_array_equal(found.X[:, :2], (matrix @ fixed.T) == fixed.sum(axis=1))
        assert found.coverage == 1 and found.bound <= found.cost


def test_fixed_factors_spare_others():
    matrix = _planted(5, flip=0)
    free = cover(matrix, random_state=0)
    again = cover(matrix, fixed=free.Y, random_state=0)
    assert again.cost == free.cost


def test_fixed_factors_are_found_by_name():
    seen = Observations.from_dense([[1, 1, 0], [0, 1, 1]], column_labels=["a", "b", "c"])
    fixed = Observations.from_dense([[1, 1]], column_labels=["c", "b"])
    assert cover(seen, fixed=fixed).Y[0].tolist() == [0, 1, 1]
    assert cover(seen, fixed=[0, 1, 1]).Y[0].tolist() == [0, 1, 1]
    wrong = Observations.from_dense([[1, 1]], column_labels=["c", "x"])
    with pytest.raises(ValueError, match="'x', which the matrix does not have"):
        cover(seen, fixed=wrong)


def test_names_of_fixed_factors_are_kept():
    seen = Observations.from_dense([[1, 1, 0], [0, 1, 1]])
    fixed = Observations.from_dense([[0, 1, 1], [0, 1, 0]], row_labels=["ops", "all"])
    found = cover(seen, fixed=fixed, random_state=0)
    assert found.fixed_names == ("ops", "all") and found.n_fixed == 2 and found.cost == 3
    assert [found.name_of_factor(k) for k in range(3)] == ["ops", "all", None]
    members = found.members()
    assert members.columns == ["factor", "name", "axis", "label", "probability"]
    of_factors = dict(members.select("factor", "name").unique().iter_rows())
    assert of_factors == {1: "ops", 2: "all", 3: ""}
    unnamed = cover(seen, fixed=[[0, 1, 1]], random_state=0)
    assert unnamed.fixed_names == () and unnamed.name_of_factor(0) is None
    assert "name" not in unnamed.members().columns


# ---------------------------------------------------------------- noise


def test_noisy_roles_are_found_again():
    """Of planted roles 5% of the grants are missing and 2% are extra: exact covers find none."""
    random = np.random.default_rng(7)
    X, Y = random.random((150, 6)) < 0.25, random.random((6, 60)) < 0.2
    Z = X @ Y
    seen = Z & (random.random(Z.shape) >= 0.05)
    extra = np.flatnonzero(~Z)
    seen.reshape(-1)[random.choice(extra, int(0.02 * Z.sum()), replace=False)] = True
    found = cover(seen, coverage=0.97, false_ones=0.07, closed=True, random_state=0)

    def best(cover_found):
        same = cover_found.Y.astype(int) @ Y.T
        union = cover_found.Y.sum(1, dtype=int)[:, None] + Y.sum(1) - same
        return (same / union).max(axis=0)

    assert found.cost == 6
    assert best(found).min() >= 0.95
    assert cover(seen, closed=True, random_state=0).cost > 30


# ---------------------------------------------------------------- the lower bound


@settings(deadline=None, max_examples=30)
@given(
    arrays(np.uint8, (4, 5), elements=st.integers(0, 1)),
    st.one_of(st.floats(0, 1, exclude_min=True), st.sampled_from([5e-324, 1e-12, 0.5, 1.0])),
    st.one_of(st.integers(0, 3), st.floats(0, 0.5)),
    st.one_of(st.none(), st.integers(1, 4)),
    st.one_of(st.none(), st.integers(1, 4)),
    st.one_of(st.none(), st.integers(1, 4)),
)
def test_the_bound_is_one(matrix, coverage, false_ones, n_components, max_rows, max_columns):
    """Only an answer with too few factors for the coverage costs less than the bound."""
    with pytest.MonkeyPatch.context() as patch:
        shorten_covers(patch)
        found = cover(
            matrix, coverage, false_ones, n_components, max_rows=max_rows, max_columns=max_columns,
            random_state=0,
        )  # fmt: skip
    check(matrix, found)
    n_ones = int(matrix.sum())
    reached = found.coverage >= coverage
    assert reached == (len(found.missed) <= found.most_missed)
    assert found.bound <= found.cost if reached else found.cost == n_components
    if max_rows is max_columns is None and len(found.false_ones) == 0 and n_ones:
        most_missed = max(n for n in range(n_ones) if (n_ones - n) / n_ones >= coverage)
        assert found.most_missed == most_missed
        assert found.bound <= least_cover(matrix, most_missed=most_missed)


def test_a_tiny_share_of_the_ones_is_one_of_them():
    found = cover(np.eye(3), coverage=1e-12, random_state=0)
    assert (found.cost, found.bound, len(found.missed)) == (1, 1, 2)


# ---------------------------------------------------------------- time limits and Ctrl-C


def hard(n=24, share=0.45):
    """A table that the reductions do not solve."""
    return (np.random.default_rng(0).random((n, n)) < share).astype(np.uint8)


HOWS = [{}, {"coverage": 0.8}, {"false_ones": 5}, {"n_components": 5}, {"max_rows": 3},
        {"coverage": 0.9, "false_ones": 3, "max_columns": 4}]  # fmt: skip


@pytest.mark.parametrize("how", HOWS, ids=str)
@pytest.mark.parametrize("max_time", [1e-9, np.float32(0.05), 1e308])
def test_a_time_limit_ends_with_a_valid_cover(how, max_time):
    table = hard(24 if max_time < 1 else 12)
    found = cover(table, **how, max_time=max_time, random_state=0)
    check(table, found)
    assert found.ending in ("out of time", "converged") and not found.interrupted
    assert found.ending == "out of time" or max_time > 1e-9 or "max_columns" in how
    if "n_components" not in how:
        assert found.bound <= found.cost and found.coverage >= how.get("coverage", 1)
    assert len(found.false_ones) <= how.get("false_ones", 0)


@pytest.mark.parametrize(
    ("how", "step"),
    [({}, "reducing"), ({}, "round"), ({}, "lower bound"), ({"max_rows": 4}, "round"),
     ({"false_ones": 5}, "trying"), ({"coverage": 0.8}, "trying")],
)  # fmt: skip
def test_ctrl_c_ends_with_the_best_cover_so_far(how, step):
    table, pressed = hard(14 if step == "trying" else 40), []

    def say(text):
        if step in text and not pressed:
            pressed.append(text)
            os.kill(os.getpid(), signal.SIGINT)

    matrix, run = Matrix.of_data(table), Run()
    run.progress.say = say
    found = find_cover(matrix, Requirements.of(matrix, **how), 0, run)
    check(table, found)
    assert pressed and found.interrupted and found.ending == "interrupted"
    assert found.coverage >= how.get("coverage", 1)
    assert found.bound <= found.cost


def test_an_error_in_the_thread_is_raised(monkeypatch):
    monkeypatch.setattr("boolweave.covering.covering.exact_cover", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cover(np.eye(3))


# ---------------------------------------------------------------- progress


@pytest.mark.parametrize(("how", "step"), [
    ({}, r"\d+ roles so far, round"), ({"max_rows": 3}, r"\d+ roles so far, round"),
    ({"coverage": 0.9}, r"\d+ roles so far, trying \d+"),
    ({}, r"5 roles with \d+ assignments so far, at least \d roles are needed"),
    ({"objective": "assignments"}, r"\d+ roles and assignments so far, at least \d+ are needed"),
    ({"min_rows": 7}, "covering ones within the rules"),
    ({"false_ones": 3}, r"\d+ roles so far, allowing false ones"),
])  # fmt: skip
def test_progress(monkeypatch, how, step):
    said = []
    monkeypatch.setattr(exact, "MOST_LISTED", 0)
    matrix, run = Matrix.of_data(1 - np.eye(7)), Run()
    run.progress.say = lambda text, share=None: said.append(text)
    find_cover(matrix, Requirements.of(matrix, **how), 0, run)
    assert said[0] == "reducing 42 ones"
    assert any(re.match(step, line) for line in said)


def test_progress_is_shown_if_asked_for(monkeypatch):
    terminal = wide_terminal(monkeypatch)
    cover(1 - np.eye(7))
    assert terminal.getvalue() == ""
    cover(1 - np.eye(7), verbose=1)
    assert re.search(
        r"roles .*so far", terminal.getvalue()
    )  # which of its lines, the clock decides


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"coverage": 0}, "coverage must be a fraction"),
        ({"coverage": 1.1}, "coverage must be a fraction"),
        ({"coverage": float("nan")}, "coverage must be a fraction"),
        ({"coverage": True}, "coverage must be a fraction"),
        ({"false_ones": -1}, "false_ones must be a non-negative whole number"),
        ({"false_ones": 1.0}, "false_ones must be a non-negative whole number"),
        ({"false_ones": True}, "false_ones must be a non-negative whole number"),
        ({"n_components": 0}, "n_components must be a whole number >= 1"),
        ({"n_components": 1.5}, "n_components must be a whole number >= 1"),
        ({"max_rows": 0}, "max_rows must be a whole number >= 1.*None sets no limit"),
        ({"max_rows": 10**30}, "max_rows must be a whole number below 2\\^63"),
        ({"max_columns": "3"}, "max_columns must be a whole number >= 1"),
        ({"min_rows": 0}, "min_rows must be a whole number >= 1"),
        ({"min_rows": 3, "max_rows": 2}, "min_rows must be at most max_rows, 2, but got 3"),
        ({"max_roles_per_row": 0}, "max_roles_per_row must be a whole number >= 1"),
        ({"objective": "cost"}, "objective must be 'roles' or 'assignments', but got 'cost'"),
        ({"conflicts": [0, 1]}, "conflicts must be pairs or sets of columns"),
        ({"conflicts": [[0]]}, "conflicts must be sets of at least two columns"),
        ({"conflicts": [[0, 3]]}, "conflicts: columns must be from 0 to 2"),
        ({"closed": True, "min_rows": 2}, "closed=True gives every factor all rows"),
        ({"fixed": [[1, 0]]}, "fixed must have 3 columns"),
        ({"fixed": [[0, 0, 0]]}, "fixed factor 1 has no columns"),
        ({"fixed": [[1, np.nan, 0]]}, "fixed must be zeros and ones"),
        ({"fixed": [[2, 0, 0]]}, "cells must be 0, 1"),
        ({"fixed": np.eye(3), "n_components": 2}, "at least the number of fixed factors, 3"),
    ],
)  # fmt: skip
def test_bad_parameters(how, message):
    with pytest.raises(ValueError, match=message):
        cover([[1, 1, 0], [0, 1, 1]], **how)


def test_bad_cells():
    with pytest.raises(ValueError, match="cells must be 0, 1"):
        cover([[1, 2]])
