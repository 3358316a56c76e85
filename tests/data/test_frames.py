"""Answers in the form of the table that was asked about, and labels before positions."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from boolweave import Observations
from boolweave.data.frames import Frame, html_table, is_matrix, like, names_of, only_row
from boolweave.data.labels import pairs, positions, suggestion, whole_numbers
from boolweave.io.write import write_matrix

CELLS = np.array([[1, 0, 1], [0, 1, 1]])
NAMES, THINGS = ["Ann", "Bo"], ["tea", "rum", "gin"]


def labelled(rows=NAMES, columns=THINGS):
    shape = len(rows), len(columns)
    return Observations.from_dense(np.ones(shape), row_labels=rows, column_labels=columns)


# ---------------------------------------------------------------- tables


def test_a_pandas_table_comes_back_with_its_own_names():
    index = pd.Index([30, 10], name="user")
    frame = pd.DataFrame(CELLS, index=index, columns=pd.Index([7, 8, 9], name="film"))
    seen = Observations.from_data(frame)
    form = Frame.of(frame)
    back = form.matrix(CELLS, seen)
    pd.testing.assert_frame_equal(back, frame)
    assert form.names(seen, "row", np.array([1, 1])).tolist() == [10, 10]
    # As a file remembers it: the same names, made of the labels.
    again = Frame.stored(form.as_stored()).matrix(CELLS, seen)
    pd.testing.assert_frame_equal(again, frame, check_names=False)
    assert again.index.name == "user"


def test_a_pandas_table_with_names_in_its_first_column():
    frame = pd.DataFrame(CELLS, columns=THINGS)
    frame.insert(0, "who", NAMES)
    back = Frame.of(frame).matrix(CELLS, Observations.from_data(frame))
    pd.testing.assert_frame_equal(back, frame, check_dtype=False)


def test_some_rows_of_a_pandas_table_come_back_as_they_were():
    frame = pd.DataFrame(np.tile(CELLS, (2, 1)), columns=THINGS)
    named = frame.copy()
    named.insert(0, "who", ["Ann", "Bo", "Cy", "Di"])
    for some in (slice(1, 3), [0, 2], [3, 1]):
        for table, labels in ((frame, None), (named, named["who"].iloc[some].tolist())):
            part = table.iloc[some]
            seen = Observations.from_data(part)
            assert seen.shape == (2, 3)
            assert seen.row_labels.tolist() == (labels or [str(i) for i in part.index])
            back = Frame.of(part).matrix(part[THINGS].to_numpy(), seen)
            pd.testing.assert_frame_equal(back, part, check_dtype=False)


def test_a_pandas_table_with_answers_in_its_first_column():
    frame = pd.DataFrame({"tea": ["yes", "no"], "rum": [0, 1]}, index=pd.RangeIndex(4, 6))
    back = Frame.of(frame).matrix(CELLS[:, :2], Observations.from_data(frame))
    pd.testing.assert_frame_equal(back, pd.DataFrame(CELLS[:, :2], frame.index, frame.columns))


def test_a_polars_table_and_an_arrow_table():
    frame = pl.DataFrame({"who": NAMES, **{name: CELLS[:, j] for j, name in enumerate(THINGS)}})
    seen = Observations.from_data(frame)
    assert Frame.of(frame).matrix(CELLS, seen).equals(frame)
    arrow = frame.to_arrow()
    assert Frame.of(arrow).library == "pyarrow"
    back = Frame.of(arrow).matrix(CELLS, seen)
    assert isinstance(back, pa.Table) and pl.from_arrow(back).equals(frame)


@pytest.mark.parametrize(
    ("names", "first"), [(["row", "x"], "row label"), (["row", "row label"], "row label 2")]
)
def test_a_column_of_names_does_not_hide_another_one(names, first, tmp_path):
    """Neither in a table in memory nor in a file."""
    seen, wanted = labelled(columns=names), [first, *names]
    assert Frame("polars").matrix(np.zeros((2, 2)), seen).columns == wanted
    write_matrix([np.zeros((2, 2))], seen, tmp_path / "m.csv", "csv")
    assert pl.read_csv(tmp_path / "m.csv").columns == wanted


@pytest.mark.parametrize("data", [CELLS, CELLS.tolist(), scipy.sparse.csr_array(CELLS), labelled()])
def test_what_is_no_table_has_no_form(data):
    assert Frame.of(data) is None
    assert is_matrix(data)


@pytest.mark.parametrize("asked", [["Ann", "Bo"], "Ann", 3, np.arange(2), pd.Series(NAMES), []])
def test_names_are_no_matrix(asked):
    assert not is_matrix(asked)


def test_a_damaged_form_is_refused():
    assert Frame.stored(None) is None
    for kept in ({"library": "os"}, {"library": "polars", "label": 3}):
        with pytest.raises(ValueError, match="must name a library"):
            Frame.stored(kept)


def test_text_that_utf8_cannot_hold():
    table = Frame("polars").table({"row": np.array(["a\ud800", "b"]), "n": np.arange(2)})
    assert table["row"].to_list() == ["a\\ud800", "b"]


def test_series_for_series():
    chance = np.array([0.5, 0.25])
    own = pd.Series(NAMES, index=[4, 7])
    found = like(own, chance, "probability")
    assert found.index.equals(own.index) and found.name == "probability"
    assert like(pl.Series(NAMES), chance, "p").to_list() == [0.5, 0.25]
    assert isinstance(like(NAMES, chance, "p"), np.ndarray)
    assert isinstance(like(own.iloc[:1], chance, "p"), np.ndarray)  # broadcast: other pairs


def test_names_without_labels_are_positions():
    seen = Observations.from_data(CELLS)
    assert names_of(seen, "column").tolist() == [0, 1, 2]
    assert names_of(seen, "row", np.array([1])).tolist() == [1]


def test_html_is_escaped_and_marked():
    page = html_table(["<b>"], [["<i>"], ["x"]], "a & b", np.array([[True], [False]]))
    assert "&lt;b&gt;" in page and "&lt;i&gt;" in page and "a &amp; b" in page
    assert page.count("background") == 1


def test_one_row_only():
    assert only_row(labelled().take_rows([0])) == 0
    with pytest.raises(ValueError, match="expected one row, got a matrix of 2 rows"):
        only_row(labelled())


# ---------------------------------------------------------------- labels before positions


def numbered():
    return labelled(rows=["2", "0", "7"], columns=["1", "0"])


def test_whole_numbers_are_names_where_names_are_numbers():
    seen = numbered()
    for wanted in (
        [7, 2],
        (7, 2),
        pd.Series([7, 2]),
        pl.Series([7, 2]),
        pd.Index([7, 2]),
        ["7", "2"],
    ):
        assert positions(wanted, seen, "row").tolist() == [2, 0]
    assert positions(0, seen, "row").tolist() == [1]
    with pytest.raises(
        ValueError, match=r"no row named '1' in the model.*pass positions as an array"
    ):
        positions([1], seen, "row")


def test_whole_numbers_are_positions_where_names_are_text():
    assert positions([1, 0], labelled(), "row").tolist() == [1, 0]
    assert positions(range(2), labelled(), "row").tolist() == [0, 1]
    # 007 is text: nobody would write the number so.
    assert positions([1], labelled(rows=["007", "2"]), "row").tolist() == [1]


def test_arrays_are_positions_and_never_both_silently():
    seen = numbered()
    assert positions(np.array([1]), seen, "row").tolist() == [1]  # no row has this name
    with pytest.warns(UserWarning, match="0 is not the row labelled '0'"):
        assert positions(np.array([0, 2]), seen, "row").tolist() == [0, 2]
    same = labelled(rows=["0", "1"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert positions(np.array([1, 0]), same, "row").tolist() == [1, 0]  # both are the same


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=9, unique=True), st.data())
def test_numbers_and_texts_find_the_same(names, data):
    seen = labelled(rows=list(map(str, names)))
    wanted = data.draw(st.lists(st.sampled_from(names), max_size=5))
    expected = [names.index(name) for name in wanted]
    assert positions(wanted, seen, "row").tolist() == expected
    assert positions([str(name) for name in wanted], seen, "row").tolist() == expected
    np.testing.assert_array_equal(whole_numbers(seen.row_labels), names)


def test_pairs_broadcast():
    seen = labelled()
    m, n = pairs("Ann", THINGS, seen)
    assert (m.tolist(), n.tolist()) == ([0, 0, 0], [0, 1, 2])
    m, n = pairs([["Ann"], ["Bo"]], ["tea", "gin"], seen)
    assert (m.tolist(), n.tolist()) == ([[0, 0], [1, 1]], [[0, 2], [0, 2]])
    assert [at.shape for at in pairs(1, 2, seen)] == [(1,), (1,)]
    with pytest.raises(ValueError, match=r"must have the same length.*got 2 and 3"):
        pairs(["Ann", "Bo"], THINGS, seen)


def test_suggestions_do_not_mind_capitals():
    assert suggestion("ann", ["Ann", "Bo"]) == "; did you mean 'Ann'?"
    assert suggestion("zzz", ["Ann", "Bo"]) == ""
    assert suggestion("fargo", ["Alien (1979)", "Fargo (1996)"]) == "; did you mean 'Fargo (1996)'?"
