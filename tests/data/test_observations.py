"""What observations tell, and what can be made from them."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from matrices import MATRIX, partly_observed, same

from boolweave.data.observations import Observations


def test_properties():
    observations = Observations.from_data(MATRIX)
    assert (observations.n_rows, observations.n_columns) == (4, 3)
    assert observations.n_observed == 7
    assert observations.share_of_ones == 4 / 7
    assert not observations.is_complete
    assert repr(observations) == (
        "Observations(4 rows × 3 columns, 7 of 12 entries observed, 57.1% ones)"
    )


@given(partly_observed())
def test_transpose(dense):
    labels = {"row_labels": range(dense.shape[0]), "column_labels": range(dense.shape[1])}
    observations = Observations.from_dense(dense, **labels)
    flipped = observations.transpose()
    same(flipped, dense.T)
    same(flipped.transpose(), dense)
    assert flipped.row_labels.tolist() == observations.column_labels.tolist()
    assert flipped.column_labels.tolist() == observations.row_labels.tolist()


@given(partly_observed(min_side=1), st.data())
def test_take_rows(dense, data):
    observations = Observations.from_dense(dense)
    rows = data.draw(st.lists(st.integers(-len(dense), len(dense) - 1), max_size=9))
    same(observations.take_rows(rows), dense[np.array(rows, dtype=int)])
    same(observations.take_rows(slice(None, None, -2)), dense[::-2])
    mask = data.draw(hnp.arrays(bool, len(dense)))
    same(observations.take_rows(mask), dense[mask])


def test_take_rows_keeps_labels():
    observations = Observations.from_dense([[1], [0], [1]], row_labels=list("abc"))
    assert observations.take_rows([2, 0]).row_labels.tolist() == ["c", "a"]
    with pytest.raises(ValueError, match="row labels must differ"):
        observations.take_rows([0, 0])
    with pytest.raises(ValueError, match="index must be 1-D"):
        observations.take_rows(0)
    with pytest.raises(IndexError):
        observations.take_rows([3])


def put_back(kept, rows, columns, values):
    dense = kept.to_dense()
    assert np.isnan(dense[rows, columns]).all()
    dense[rows, columns] = values
    return dense


@given(partly_observed(), st.floats(0, 1), st.integers(0, 99))
def test_hide_parts_the_entries(dense, share, seed):
    observations = Observations.from_dense(dense)
    kept, *hidden = observations.hide(share, random_state=seed)
    np.testing.assert_array_equal(put_back(kept, *hidden), dense)
    assert len(hidden[0]) == round(share * observations.n_observed)
    again, *same_hidden = observations.hide(share, random_state=seed)
    np.testing.assert_array_equal(again.to_dense(), kept.to_dense())
    for one, other in zip(hidden, same_hidden, strict=True):
        np.testing.assert_array_equal(one, other)


@given(partly_observed(min_side=2), st.integers(2, 5), st.integers(0, 99))
def test_folds_part_the_entries(dense, n_folds, seed):
    observations = Observations.from_dense(dense)
    if observations.n_observed < n_folds:
        with pytest.raises(ValueError, match="n_folds must be from 2"):
            observations.folds(n_folds, random_state=seed)
        return
    times_hidden = np.zeros(dense.shape)
    sizes = []
    for kept, *hidden in observations.folds(n_folds, random_state=seed):
        np.testing.assert_array_equal(put_back(kept, *hidden), dense)
        times_hidden[hidden[0], hidden[1]] += 1
        sizes.append(len(hidden[0]))
    np.testing.assert_array_equal(times_hidden, ~np.isnan(dense))
    assert len(sizes) == n_folds
    assert max(sizes) - min(sizes) <= 1


def test_splits_keep_labels_and_empty_rows():
    observations = Observations.from_dense(MATRIX, row_labels=list("abcd"))
    kept, *_ = observations.hide(1.0, random_state=np.random.default_rng(0))
    assert kept.n_observed == 0
    assert kept.shape == MATRIX.shape
    assert kept.row_labels.tolist() == list("abcd")
    with pytest.raises(ValueError, match="from 0 to 1"):
        observations.hide(1.5)
    with pytest.raises(ValueError, match="n_folds"):
        observations.folds(1)


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_copies(clone):
    observations = Observations.from_dense(MATRIX, row_labels=list("abcd"))
    same(clone(observations), MATRIX)
    assert clone(observations).row_labels.tolist() == list("abcd")


def test_arrays_load_neither_scipy_nor_narwhals():
    program = (
        "import sys; from boolweave.data.observations import Observations; "
        "Observations.from_data([[1, 0], [0, 1]]); "
        "print([name for name in ('scipy.sparse', 'narwhals', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_entries_are_parted_in_pieces(monkeypatch):
    rng = np.random.default_rng(0)
    table = np.where(rng.random((40, 9)) < 0.5, np.nan, rng.integers(0, 2, (40, 9)))
    table[[0, 7, 8, 39]] = np.nan
    observations = Observations.from_dense(table)
    hidden = rng.random(observations.n_observed) < 0.4
    for piece in (1 << 16, 10, 1):
        monkeypatch.setattr("boolweave.data.observations.ENTRIES_PER_CHUNK", piece)
        kept, rows, columns, values = observations.split(hidden)
        at = observations.rows_of_entries()
        np.testing.assert_array_equal(rows, at[hidden])
        np.testing.assert_array_equal(values, table[rows, columns])
        left = table.copy()
        left[rows, columns] = np.nan
        np.testing.assert_array_equal(kept.to_dense(), left)
