"""Splits by time against rows and entries sorted one by one."""

import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boolweave import Observations
from boolweave.data.splits import (
    entry_positions,
    folds_by_time,
    hide_after,
    hide_last,
    in_entry_order,
)

MATRIX = np.array([[1, 0, 1, np.nan], [np.nan, 1, np.nan, np.nan], [0, 0, np.nan, 1]])
SEEN = Observations.from_dense(MATRIX, row_labels=list("abc"))
YEARS = np.array([3, 1, 2, 9, 5, 7, 7])
NOT_PARTED = "must be hidden and some kept|at least one entry"


@st.composite
def timed(draw):
    """A table with holes and a whole number for each entry that is there."""
    n_rows, n_columns = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    cells = draw(
        st.lists(
            st.sampled_from([0.0, 1.0, np.nan]),
            min_size=n_rows * n_columns, max_size=n_rows * n_columns,
        )
    )  # fmt: skip
    dense = np.reshape(cells, (n_rows, n_columns))
    n = int(np.count_nonzero(~np.isnan(dense)))
    times = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    return dense, np.array(times, dtype=np.int64)


def entries_of(dense, times):
    """Row, column and time of each entry, in order."""
    places = np.argwhere(~np.isnan(dense)).tolist()
    return [(row, column, int(t)) for (row, column), t in zip(places, times, strict=True)]


def hidden_places(split):
    return list(zip(split[1].tolist(), split[2].tolist(), strict=True))


def is_whole(split, dense):
    """What is kept and what is hidden are the table together, each entry once."""
    kept, rows, columns, values = split
    whole = kept.to_dense()
    assert np.isnan(whole[rows, columns]).all()
    whole[rows, columns] = values
    np.testing.assert_array_equal(whole, dense)


@given(timed(), st.integers(1, 3))
def test_the_last_of_each_row(problem, per_row):
    dense, times = problem
    expected = []
    for row in range(len(dense)):
        own = [entry for entry in entries_of(dense, times) if entry[0] == row]
        own.sort(key=lambda entry: (entry[2], entry[1]))
        if len(own) > per_row:
            expected += [entry[:2] for entry in own[-per_row:]]
    observations = Observations.from_dense(dense)
    if not expected:
        with pytest.raises(ValueError, match="per_row must be less than the number of entries"):
            hide_last(observations, times, per_row)
        return
    found = hide_last(observations, times, per_row)
    is_whole(found, dense)
    assert hidden_places(found) == sorted(expected)


@given(timed(), st.integers(0, 4))
def test_all_after_a_moment(problem, moment):
    dense, times = problem
    expected = [(row, column) for row, column, t in entries_of(dense, times) if t > moment]
    observations = Observations.from_dense(dense)
    if not 0 < len(expected) < len(times):
        with pytest.raises(ValueError, match=NOT_PARTED):
            hide_after(observations, times, time=moment)
        return
    found = hide_after(observations, times, time=moment)
    is_whole(found, dense)
    assert hidden_places(found) == expected


@given(timed(), st.floats(0.05, 0.95))
def test_a_share_is_the_latest_and_not_more(problem, share):
    dense, times = problem
    asked = min(max(round(share * len(times)), 1), len(times) - 1)
    moments = [t for t in set(times.tolist()) if 0 < np.sum(times > t) <= asked]
    observations = Observations.from_dense(dense)
    if not moments:
        with pytest.raises(ValueError, match=NOT_PARTED):
            hide_after(observations, times, share=share)
        return
    found = hide_after(observations, times, share=share)
    is_whole(found, dense)
    assert hidden_places(found) == hidden_places(hide_after(observations, times, time=min(moments)))


def test_all_different_times_give_the_share_asked_for():
    times = np.random.default_rng(0).permutation(200)
    observations = Observations.from_dense(np.ones((20, 10)))
    for share, n_hidden in ((0.1, 20), (0.5, 100), (0.999, 199), (0.001, 1)):
        assert len(hide_after(observations, times, share=share)[1]) == n_hidden


@given(timed(), st.integers(1, 3))
def test_periods_are_predicted_from_what_came_before(problem, n_folds):
    dense, times = problem
    observations = Observations.from_dense(dense)
    cuts = [i * len(times) // (n_folds + 1) for i in range(n_folds + 1)]
    begins = [sorted(times.tolist())[cut] for cut in cuts] if len(times) else []
    if len(set(begins)) <= n_folds:
        with pytest.raises(ValueError, match="ask for fewer folds"):
            folds_by_time(observations, times, n_folds)
        return
    ends = [*begins[1:], 99]
    folds = list(folds_by_time(observations, times, n_folds))
    assert len(folds) == n_folds
    for (kept, *hidden), begin, end in zip(folds, begins[1:], ends[1:], strict=True):
        entries = entries_of(dense, times)
        assert hidden_places((kept, *hidden)) == [e[:2] for e in entries if begin <= e[2] < end]
        past = np.full(dense.shape, np.nan)
        for row, column, t in entries:
            if t < begin:
                past[row, column] = dense[row, column]
        np.testing.assert_array_equal(kept.to_dense(), past)


def test_labels_stay():
    assert hide_last(SEEN, YEARS)[0].row_labels.tolist() == list("abc")


def test_times_may_be_dates():
    days = np.datetime64("2024-01-01") + YEARS.astype("timedelta64[D]")
    assert hidden_places(hide_last(SEEN, days)) == hidden_places(hide_last(SEEN, YEARS))
    expected = hidden_places(hide_after(SEEN, YEARS, time=4))
    for moment in ("2024-01-05", datetime.date(2024, 1, 5), np.datetime64("2024-01-05T12")):
        assert hidden_places(hide_after(SEEN, days, time=moment)) == expected
    assert hidden_places(hide_after(SEEN, days, share=0.3)) == hidden_places(
        hide_after(SEEN, YEARS, share=0.3)
    )


def test_nanoseconds_are_told_apart():
    times = 2**60 + np.arange(7)
    assert len(hide_after(SEEN, times, time=2**60 + 4)[1]) == 2


@given(timed(), st.randoms(use_true_random=False))
def test_times_of_triples_in_any_order(problem, random):
    dense, times = problem
    triples = entries_of(dense, times)
    # Older times of the same entries, and entries whose value nobody knows.
    triples += [(row, column, t - 1) for row, column, t in triples[:3]]
    triples += [(row, column, 77) for row, column in np.argwhere(np.isnan(dense)).tolist()]
    random.shuffle(triples)
    rows, columns, when = (list(part) for part in zip(*triples, strict=True))
    observations = Observations.from_dense(dense)
    np.testing.assert_array_equal(in_entry_order(observations, rows, columns, when), times)


def test_times_of_labelled_triples():
    rows, columns = ["b", "a", "c", "a"], ["x", "y", "x", "x"]
    when = np.array([4, 1, 3, 2], dtype="datetime64[Y]")
    seen = Observations.from_triples(rows, columns, [1, 0, 1, 1])
    found = in_entry_order(seen, rows, columns, when)
    assert found.tolist() == when[[0, 3, 1, 2]].tolist()


@given(timed())
def test_positions_of_entries(problem):
    dense, _ = problem
    rows, columns = (part.ravel() for part in np.indices(dense.shape))
    expected, n = [], 0
    for cell in dense.ravel():
        expected.append(-1 if np.isnan(cell) else n)
        n += not np.isnan(cell)
    found = entry_positions(Observations.from_dense(dense), rows, columns)
    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: hide_last(SEEN, [1, 2]), ValueError, r"each of the 7 observed .* shape \(2,\)"),
        (lambda: hide_last(SEEN, list("abcdefg")), TypeError, "numbers or datetime64"),
        (lambda: hide_last(SEEN, [1, 2, 3, np.nan, 4, 5, 6]), ValueError, "number 3 is missing"),
        (lambda: hide_last(SEEN, np.full(7, "NaT", "M8[s]")), ValueError, "number 0 is missing"),
        (lambda: hide_last(SEEN, YEARS, 3), ValueError, "fullest row, 3, but got 3"),
        (lambda: hide_last(SEEN, YEARS, 0), ValueError, "per_row must be .* got 0"),
        (lambda: hide_last(SEEN, YEARS, 1.5), ValueError, "per_row must be .* got 1.5"),
        (lambda: hide_after(SEEN, YEARS), ValueError, "either share.*got neither"),
        (lambda: hide_after(SEEN, YEARS, share=0.1, time=3), ValueError, "either share.*got both"),
        (lambda: hide_after(SEEN, YEARS, share=1.0), ValueError, "share must be between 0 and 1"),
        (lambda: hide_after(SEEN, YEARS, time=9), ValueError, "hides none of 7 .* from 1 to 9"),
        (lambda: hide_after(SEEN, YEARS, time=0), ValueError, "time=0 hides all of 7"),
        (lambda: hide_after(SEEN, YEARS * 0, share=0.5), ValueError, "share=0.5 hides none"),
        (lambda: hide_after(SEEN, YEARS, time="soon"), ValueError, "time must be a number"),
        (lambda: hide_after(SEEN, YEARS, time=[1]), ValueError, "time must be a number"),
        (lambda: hide_after(SEEN, YEARS, time=np.nan), ValueError, "time must be a number"),
        (
            lambda: hide_after(SEEN, YEARS.astype("M8[s]"), time="soon"),
            ValueError,
            "time must be a date such as .* got 'soon'",
        ),
        (lambda: folds_by_time(SEEN, YEARS, 0), ValueError, "n_folds must be a whole"),
        (lambda: folds_by_time(SEEN, YEARS * 0, 2), ValueError, "7 entries with 1 different"),
        (
            lambda: in_entry_order(SEEN, [0, 0], [0, 1], [1, 2]),
            ValueError,
            "but row 'a', column 2 has none",
        ),
        (lambda: in_entry_order(SEEN, [0], [0], [1, 2]), ValueError, "each of the 1 triples"),
        (lambda: in_entry_order(SEEN, [0], [7], [1]), ValueError, "from 0 to 3, got 7"),
    ],
)
def test_bad_splits(call, error, words):
    with pytest.raises(error, match=words):
        call()
