"""Matrices of which only the ones are listed."""

import numpy as np
import pytest
import scipy.sparse
from matrices import codes_at_random, sparse_of

from boolweave import BooleanCompletion, Observations, cover
from boolweave.data.ones import Cells, SparseObservations, is_large_and_sparse

TABLE = codes_at_random((9, 7), np.random.default_rng(0), missing=0.15)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "dok", "bsr"])
def test_same_entries_as_with_all_zeros(kind):
    stored = scipy.sparse.coo_array(np.nan_to_num(TABLE, nan=7.0))
    stored.data[stored.data == 7] = np.nan
    seen = SparseObservations.from_sparse(stored.asformat(kind))
    exact = Observations.from_sparse(stored.asformat(kind))
    np.testing.assert_array_equal(seen.to_local().to_dense(), TABLE)
    np.testing.assert_array_equal(exact.to_dense(), TABLE)
    assert (seen.n_observed, seen.n_ones) == (exact.n_observed, exact.n_ones)
    assert seen.is_complete == exact.is_complete


def test_stored_zeros_duplicates_and_ties():
    rows, columns, values = [0, 0, 0, 1, 1, 1], [0, 1, 1, 2, 2, 0], [0, 1, 1, 0, 1, 1]
    stored = scipy.sparse.coo_array((values, (rows, columns)), shape=(2, 3))
    with pytest.raises(ValueError, match="row 1, column 2"):
        SparseObservations.from_sparse(stored)
    seen = SparseObservations.from_sparse(stored, duplicates="majority")
    expected = [[0, 1, 0], [1, 0, np.nan]]
    np.testing.assert_array_equal(seen.to_local().to_dense(), expected)


def test_rows_and_labels():
    seen = SparseObservations.from_observations(
        Observations.from_dense(TABLE, row_labels=list("abcdefghi"), column_labels=list("tuvwxyz"))
    )
    np.testing.assert_array_equal(seen.to_local().to_dense(), TABLE)
    some = seen.take_rows([4, 1])
    np.testing.assert_array_equal(some.to_dense(), TABLE[[4, 1]])
    assert some.row_labels.tolist() == ["e", "b"]
    few = seen.some_rows(slice(2, 5))
    np.testing.assert_array_equal(few.to_local().to_dense(), TABLE[2:5])
    assert seen.fingerprint != few.fingerprint
    taken = np.array([True, False, True, True, False, False, True])
    narrow = seen.some_columns(taken)
    np.testing.assert_array_equal(narrow.to_local().to_dense(), TABLE[:, taken])
    assert narrow.column_labels.tolist() == ["t", "v", "w", "z"]
    assert "9 rows × 7 columns" in repr(seen)


def test_cells_by_columns_and_joined():
    seen = sparse_of(TABLE)
    turned = seen.ones.by_columns(7)
    np.testing.assert_array_equal(
        np.stack([turned.rows(), turned.columns]), np.stack(np.nonzero(TABLE.T == 1))
    )
    both = seen.not_zero
    np.testing.assert_array_equal(np.stack([both.rows(), both.columns]), np.nonzero(TABLE != 0))


@pytest.mark.parametrize(
    ("indptr", "columns", "problem"),
    [
        ([0, 1], [0], "indptr must have 3 numbers"),
        ([0, 2, 1], [0], "indptr must have 3 numbers"),
        ([0, 1, 2], [0, 5], "from 0 to 3"),
        ([0, 2, 2], [1, 1], "increase strictly"),
    ],
)
def test_wrong_cells(indptr, columns, problem):
    with pytest.raises(ValueError, match=problem):
        SparseObservations((2, 4), Cells(np.array(indptr), np.array(columns)))


def test_a_cell_is_listed_once():
    ones = Cells(np.array([0, 1, 2]), np.array([1, 3]))
    with pytest.raises(ValueError, match="both a one and missing"):
        SparseObservations((2, 4), ones, Cells(np.array([0, 0, 1]), np.array([3])))


def test_too_many_zeros_to_list(monkeypatch):
    monkeypatch.setattr("boolweave.runtime.free_memory.free_memory", lambda: 100)
    with pytest.raises(MemoryError, match="9 rows × 7 columns"):
        sparse_of(TABLE).to_local()


def test_large_and_sparse():
    assert is_large_and_sparse((100_000, 20_000), 10**7)
    assert not is_large_and_sparse((100_000, 20_000), 10**9)
    assert not is_large_and_sparse((1000, 1000), 1000)


def test_what_needs_every_zero_gets_them():
    table = np.array([[0, 1, 0, 1], [1, 1, 0, 0], [1, np.nan, 0, 1]])
    seen = SparseObservations.from_observations(Observations.from_dense(table))
    np.testing.assert_array_equal(Observations.from_data(seen).to_dense(), table)
    covered, expected = cover(seen), cover(table)
    np.testing.assert_array_equal(covered.Y, expected.Y)
    made = BooleanCompletion(n_layers=0, n_members=1, random_state=0, n_jobs=1).fit(seen)
    assert made.observations_.n_observed == 11


@pytest.mark.parametrize("missing", [0.0, 0.15])
def test_folds_hide_every_one_once_and_a_sample_of_zeros(missing):
    table = codes_at_random((60, 50), np.random.default_rng(1), missing=missing)
    seen, hidden_ones, n_zeros = sparse_of(table), [], int((table == 0).sum())
    for kept, rows, columns, values, weights in seen.folds(5, 3):
        np.testing.assert_array_equal(table[rows, columns], values)
        assert len(np.unique(rows * 50 + columns)) == len(rows)
        expected = table.copy()
        expected[rows, columns] = np.nan
        np.testing.assert_array_equal(kept.to_local().to_dense(), expected)
        hidden_ones.append(rows[values == 1] * 50 + columns[values == 1])
        assert 0.5 < np.sum(values == 0) / np.sum(values == 1) < 1.3
        assert weights[values == 0].sum() == pytest.approx(n_zeros / 5)
        assert (weights[values == 1] == 1).all()
    everywhere = np.flatnonzero(table == 1)
    np.testing.assert_array_equal(np.sort(np.concatenate(hidden_ones)), everywhere)


def test_folds_are_drawn_from_the_seed_and_never_list_zeros(monkeypatch):
    seen = SparseObservations.from_sparse(scipy.sparse.eye_array(300, 10**9, format="csr"))
    monkeypatch.setattr(SparseObservations, "_with_zeros", None)
    one, other = (next(seen.folds(3, 7)) for _ in range(2))
    for part, same in zip(one[1:], other[1:], strict=True):
        np.testing.assert_array_equal(part, same)


@pytest.mark.parametrize("n_folds", [1, 2.5, 4])
def test_a_number_of_folds_that_is_not_possible(n_folds):
    with pytest.raises(ValueError, match=f"from 2 to the number of ones, 3, but got {n_folds}"):
        sparse_of(np.eye(3)).folds(n_folds)
