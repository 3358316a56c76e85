"""What observations tell, and what can be made from them."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import polars
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from matrices import MATRIX, partly_observed, same

from boolweave import Observations
from boolweave.data.convert import entry_weights, pack_triples
from boolweave.data.entries import count, rows_from_packed, split
from boolweave.data.labels import FEW, find_labels, positions


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
    with pytest.raises(IndexError, match="below 3, the number of rows, got 0 to 3"):
        observations.take_rows([0, 3])
    with pytest.raises(ValueError, match="3 Booleans, one for each row, got 2"):
        observations.take_rows([True, False])
    with pytest.raises(ValueError, match="positions of rows or Booleans, got float64"):
        observations.take_rows([0.5])


@pytest.mark.parametrize("option", [np.ones((3, 3)), np.zeros((0, 0)), ["zero"]])
def test_an_array_is_not_an_option(option):
    with pytest.raises(ValueError, match='absent must be "zero" or "missing", but got'):
        Observations.from_data([[1, 0]], absent=option)


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


@given(partly_observed(min_side=2), st.floats(0, 1), st.integers(0, 99), st.data())
def test_the_entries_of_an_answer_are_hidden_together(dense, share, seed, data):
    """What is known of a hidden level cannot be read off the other levels of its question."""
    observations = Observations.from_dense(dense)
    groups = data.draw(st.lists(st.integers(-2, 2), min_size=len(dense[0]), max_size=len(dense[0])))
    answers = [[np.flatnonzero(np.equal(groups, g)) for g in set(groups)] for _ in dense]

    def n_answers(cells):
        known = ~np.isnan(cells)
        return sum(known[m, own].any() for m, line in enumerate(answers) for own in line)

    def parted(kept, *hidden):
        np.testing.assert_array_equal(put_back(kept, *hidden), dense)
        alone = np.full(dense.shape, np.nan)
        alone[hidden[0], hidden[1]] = hidden[2]
        assert n_answers(kept.to_dense()) + n_answers(alone) == n_answers(dense)
        return n_answers(alone)

    n_hidden = parted(*observations.hide(share, random_state=seed, groups=groups))
    assert n_hidden == round(share * n_answers(dense))
    if n_answers(dense) < 2:
        with pytest.raises(ValueError, match="from 2 to the number of answers"):
            observations.folds(2, random_state=seed, groups=groups)
        return
    sizes = [parted(*fold) for fold in observations.folds(2, random_state=seed, groups=groups)]
    assert sum(sizes) == n_answers(dense) and abs(sizes[0] - sizes[1]) <= 1


def test_groups_that_do_not_fit_the_columns():
    observations = Observations.from_dense(MATRIX)
    for groups in ([0, 1], [0.5] * MATRIX.shape[1], [[0] * MATRIX.shape[1]]):
        with pytest.raises(ValueError, match="groups must have a whole number for each of the"):
            observations.hide(0.5, groups=groups)


def test_splits_keep_labels_and_empty_rows():
    observations = Observations.from_dense(MATRIX, row_labels=list("abcd"))
    kept, *_ = observations.hide(1.0, random_state=np.random.default_rng(0))
    assert kept.n_observed == 0
    assert kept.shape == MATRIX.shape
    assert kept.row_labels.tolist() == list("abcd")
    with pytest.raises(ValueError, match="from 0 to 1"):
        observations.hide(1.5)
    with pytest.raises(ValueError, match="share must be from 0 to 1, but got 'x'"):
        observations.hide("x")
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


LABELS = np.array(["tea", "rum", "gin", "ale"])


def test_known_and_unknown_labels():
    at, known = find_labels(np.array(["gin", "zzz", "tea", "a"]), LABELS)
    assert known.tolist() == [True, False, True, False]
    assert at[known].tolist() == [2, 0]
    assert not find_labels(LABELS, LABELS[:0])[1].any()


@pytest.mark.parametrize("n_wanted", [0, 1, FEW, FEW + 1])
def test_few_and_many_labels_are_found_alike(n_wanted):
    n = 3 * FEW
    labels = [f"row {i}" for i in range(n)]
    seen = Observations.from_dense(np.zeros((n, 2)), row_labels=labels, column_labels=["a", "b"])
    wanted = np.random.default_rng(0).integers(0, n, n_wanted)
    found = positions([labels[i] for i in wanted], seen, "row")
    assert found.tolist() == wanted.tolist()
    with pytest.raises(ValueError, match="there is no row named 'nobody'"):
        positions([*(labels[i] for i in wanted), "nobody"], seen, "row")


def test_numbers_out_of_range():
    seen = Observations.from_dense(np.zeros((3, 2)))
    assert positions([2, 0], seen, "row").tolist() == [2, 0]
    with pytest.raises(ValueError, match="columns must be from 0 to 1, got 2"):
        positions(2, seen, "column")
    with pytest.raises(ValueError, match="no row labels"):
        positions("tea", seen, "row")


NO_LABELS = (None, None)


@pytest.mark.parametrize("n_columns", [3, 2**31, 2**31 + 1, 2**40])
def test_round_trip(n_columns):
    shape = (5, n_columns)
    rows, columns, values = (
        [0, 1, 1, 4, 4],
        [0, 1, n_columns - 1, 0, n_columns - 1],
        [1, 0, 1, 1, 0],
    )
    packed = pack_triples((rows, columns, values), NO_LABELS, shape)
    per_row, n_ones, _ = count(packed, shape)
    assert per_row.tolist() == [1, 2, 0, 0, 2]
    assert n_ones == 3
    top, bottom = split(packed, np.array([2]), shape)
    assert (len(top), len(bottom)) == (3, 2)
    found_shape, indptr, indices, found, *_ = rows_from_packed(
        bottom.copy(), (3, n_columns), first_row=2
    )
    assert found_shape == (3, n_columns)
    assert indptr.tolist() == [0, 0, 0, 2]
    assert indices.tolist() == [0, n_columns - 1]
    assert found.tolist() == [1, 0]
    _, indptr, indices, found, *_ = rows_from_packed(np.concatenate([top, bottom]), shape)
    assert indptr.tolist() == [0, 1, 3, 3, 3, 5]
    assert indices.tolist() == columns
    assert found.tolist() == values


def test_more_than_63_bits_can_number():
    with pytest.raises(ValueError, match="too many to number"):
        pack_triples(([0], [0], [1]), NO_LABELS, (2**31, 2**33))


def test_a_contradiction_in_a_run_of_rows_is_named_by_its_own_row():
    shape = (5, 3)
    packed = pack_triples(([3, 3], [1, 1], [0, 1]), NO_LABELS, shape)
    with pytest.raises(ValueError, match="row 3, column 1 is given as both 0 and 1"):
        rows_from_packed(packed, (2, 3), first_row=3)


NAN = np.nan
SEEN = Observations.from_data([[1, 0, NAN], [NAN, 1, 1]])  # entries 00 01 11 12


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([2, 0.5], [2, 2, 0.5, 0.5]),
        ([[1, 2, 3], [4, 5, 6]], [1, 2, 5, 6]),
        (np.array([[True, False, True]] * 2), [1, 0, 0, 1]),
        (np.array([[1, 2, 3], [4, 5, 6]], dtype=object), [1, 2, 5, 6]),
        (polars.DataFrame({"a": [1, 4], "b": [2.0, 5.0], "c": [3, 6]}), [1, 2, 5, 6]),
    ],
)
def test_arrays_and_tables(given, expected):
    np.testing.assert_array_equal(entry_weights(given, SEEN), expected)


@pytest.mark.parametrize("make", [scipy.sparse.csr_array, scipy.sparse.coo_matrix])
def test_stored_weights_belong_to_their_entries_and_others_weigh_1(make):
    stored = make(([7.0, 0.0, 3.0], ([0, 1, 1], [1, 1, 0])), shape=(2, 3))
    np.testing.assert_array_equal(entry_weights(stored, SEEN), [1, 7, 0, 1])


def test_nothing_stored():
    np.testing.assert_array_equal(entry_weights(scipy.sparse.csr_array((2, 3)), SEEN), np.ones(4))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([1, 2, 3], r"shape \(2,\), or for each entry, shape \(2, 3\).*got shape \(3,\)"),
        (np.ones((2, 2)), r"got shape \(2, 2\)"),
        (np.ones((1, 2, 3)), r"got shape \(1, 2, 3\)"),
        (3.0, r"got shape \(\)"),
        (scipy.sparse.csr_array((3, 2)), r"got shape \(3, 2\)"),
        ([1, -2], "got -2 at row 1"),
        ([NAN, 1], "got nan at row 0"),
        ([[1, 1, 1], [1, np.inf, 1]], "got inf at row 1, column 1"),
        (scipy.sparse.coo_array(([-1.0], ([1], [2])), shape=(2, 3)), "got -1 at row 1, column 2"),
        (scipy.sparse.coo_array(([1, 1], ([1, 1], [2, 2])), shape=(2, 3)), "more than once"),
        (["a", "b"], "must hold numbers"),
        ([1j, 2], "must hold numbers"),
        (polars.DataFrame({"a": ["x", "y"], "b": [1, 2], "c": [1, 2]}), "must hold numbers"),
    ],
)
def test_what_is_no_weight_is_refused(given, words):
    with pytest.raises(ValueError, match=words):
        entry_weights(given, SEEN)
