"""Observations from arrays and from triples, good and bad."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from matrices import MATRIX, NAN, partly_observed, same

from boolweave.data.observations import Observations

# ---------------------------------------------------------------- arrays


@given(partly_observed())
def test_dense_round_trip(dense):
    same(Observations.from_dense(dense), dense)
    same(Observations.from_data(np.asfortranarray(dense)), dense)
    same(Observations.from_data(dense.astype(object)), dense)
    masked = np.ma.MaskedArray(np.where(np.isnan(dense), 7, dense).astype(int), np.isnan(dense))
    same(Observations.from_data(masked), dense)


@given(
    hnp.arrays(
        st.one_of(
            hnp.boolean_dtypes(),
            hnp.integer_dtypes(),
            hnp.unsigned_integer_dtypes(),
            hnp.floating_dtypes(),
        ),
        hnp.array_shapes(min_dims=2, max_dims=2, min_side=0),
        elements=st.integers(0, 1),
    )
)
def test_every_dtype(dense):
    observations = Observations.from_data(dense)
    same(observations, dense)
    assert observations.is_complete
    same(Observations.from_data(dense[::-1, ::2]), dense[::-1, ::2])


@pytest.mark.parametrize("dtype", [np.longdouble, np.float16])
def test_uncommon_floats(dtype):
    same(Observations.from_data(MATRIX.astype(dtype)), MATRIX)


def test_nested_lists_and_python_objects():
    same(Observations.from_data([[1, 0, None], [True, NAN, 0.0]]), [[1, 0, NAN], [1, NAN, 0]])
    cells = [[Decimal(1), Fraction(0), pd.NA], [np.bool_(True), np.float32(0), Decimal("NaN")]]
    same(Observations.from_data(np.array(cells, dtype=object)), [[1, 0, NAN], [1, 0, NAN]])
    same(Observations.from_data(((1, 0), (0, 1))), [[1, 0], [0, 1]])


def test_masked_cells_are_not_looked_at():
    mask = [[False, True], [True, False]]
    same(Observations.from_data(np.ma.array([[1, 5], [-1, 0]], mask=mask)), [[1, NAN], [NAN, 0]])
    same(Observations.from_data(np.ma.array([[True, True]], mask=[[0, 1]])), [[1, NAN]])
    same(Observations.from_data(np.ma.array([[NAN, 1.0, 0.5]], mask=[[0, 0, 1]])), [[NAN, 1, NAN]])
    objects = np.ma.array(np.array([["x", 1]], dtype=object), mask=[[1, 0]])
    same(Observations.from_data(objects), [[NAN, 1]])
    same(Observations.from_data(np.ma.array([[1, 0]])), [[1, 0]])


@pytest.mark.parametrize(
    "dense",
    [
        np.empty((0, 0)),
        np.empty((0, 3)),
        np.empty((3, 0)),
        np.full((2, 3), NAN),
        np.zeros((2, 3)),
        np.ones((2, 3)),
        [[NAN, 1], [NAN, NAN]],
    ],
)
def test_extreme_matrices(dense):
    observations = Observations.from_data(dense)
    same(observations, dense)
    same(observations.transpose(), np.transpose(dense))
    assert "Observations(" in repr(observations)
    assert 0 <= observations.share_of_ones <= 1


def test_the_caller_keeps_the_array():
    dense = np.ones((2, 2), dtype=np.uint8)
    observations = Observations.from_data(dense)
    dense[0, 0] = 0
    assert observations.values.all()
    with pytest.raises(ValueError, match="read-only"):
        observations.values[0] = 0
    with pytest.raises(AttributeError):
        observations.shape = (1, 1)


def test_observations_pass_through():
    observations = Observations.from_data(MATRIX)
    assert Observations.from_data(observations) is observations


def test_no_wide_copies_of_bytes():
    import tracemalloc

    dense = np.ones((500, 1000), dtype=np.uint8)
    tracemalloc.start()
    Observations.from_data(dense)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * dense.size  # 5 bytes an entry are kept; a float64 copy alone takes 8


# ---------------------------------------------------------------- triples


@given(partly_observed(), st.randoms(use_true_random=False))
def test_triples_round_trip(dense, random):
    rows, columns = np.nonzero(~np.isnan(dense))
    values = dense[rows, columns]
    order = list(range(len(rows))) * 2  # everything twice
    random.shuffle(order)
    observations = Observations.from_triples(
        rows[order], columns[order], values[order], shape=dense.shape
    )
    same(observations, dense)


def test_triples_without_a_shape():
    observations = Observations.from_triples([2, 0], [1, 3], [True, NAN])
    same(observations, [[NAN] * 4, [NAN] * 4, [NAN, 1, NAN, NAN]])
    assert Observations.from_triples([], [], []).shape == (0, 0)
    assert Observations.from_triples([], [], [], shape=(2, 3)).shape == (2, 3)


@pytest.mark.parametrize(
    "wrap",
    [
        list,
        tuple,
        np.array,
        pd.Series,
        pl.Series,
        pa.array,
        lambda items: pa.chunked_array([items]),
        lambda items: np.array(items, dtype=object),
    ],
)
def test_triples_in_any_dress(wrap):
    by_index = Observations.from_triples(wrap([1, 0, 1]), wrap([0, 1, 1]), wrap([1, 0, 1]))
    same(by_index, [[NAN, 0], [1, 1]])
    by_label = Observations.from_triples(
        wrap(["b", "a", "b"]), wrap(["z", "y", "y"]), wrap([True, False, True])
    )
    same(by_label, [[1, 1], [NAN, 0]])  # in the order of first appearance
    assert by_label.row_labels.tolist() == ["b", "a"]
    assert by_label.column_labels.tolist() == ["z", "y"]


def test_triples_with_nullable_values():
    series = pd.Series([1, None, 0], dtype="Int64")
    same(Observations.from_triples([0, 0, 0], [0, 1, 2], series), [[1, NAN, 0]])
    masked = np.ma.array([1, 9], mask=[0, 1])
    same(Observations.from_triples([0, 0], [0, 1], masked), [[1, NAN]])
    same(Observations.from_triples(pl.Series(["a", "a"]), [0, 1], pl.Series([None, 1])), [[NAN, 1]])
    categories = pd.Series(["u", "v"], dtype="category")
    assert Observations.from_triples(categories, [0, 1], [1, 1]).row_labels.tolist() == ["u", "v"]


def test_triples_with_given_labels():
    observations = Observations.from_triples(
        ["c", "a"], [1, 0], [1, 0], row_labels=["a", "b", "c"], column_labels=["x", "y"]
    )
    same(observations, [[0, NAN], [NAN, NAN], [NAN, 1]])
    assert observations.row_labels.tolist() == ["a", "b", "c"]
    assert Observations.from_triples(["a"], [0.0], [1], shape=(1, 5)).shape == (1, 5)


def test_duplicates_by_majority():
    rows, columns = [0, 0, 0, 1, 1, 2], [0, 0, 0, 1, 1, 0]
    observations = Observations.from_triples(
        rows, columns, [1, 0, 1, 0, 1, 0], duplicates="majority"
    )
    same(observations, [[1, NAN], [NAN, NAN], [0, NAN]])  # a tie is missing


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (([0, 1, 0], [2, 1, 2], [1, 1, 0]), {}, ValueError, "row 0, column 2 is given as both"),
        ((["a", "a"], ["x", "x"], [1, 0]), {}, ValueError, "row 'a', column 'x' is given as both"),
        (([0, 1], [0, 1], [1, 2]), {}, ValueError, "row 1, column 1 holds 2;"),
        ((["a", "b"], [0, 1], [1, -1]), {}, ValueError, "row 'b', column 1 holds -1;"),
        (([0], [0], ["maybe"]), {}, ValueError, "row 0, column 0 holds the text 'maybe'"),
        (([0, 1], [0], [1, 0]), {}, ValueError, "same length"),
        (([0, 1], [0, 1], [1]), {}, ValueError, "same length"),
        (([0], [0], [[1]]), {}, ValueError, "1-D"),
        (([[0]], [0], [1]), {}, ValueError, "rows must be 1-D"),
        (([0, -1], [0, 0], [1, 1]), {}, ValueError, "triple 1 has row -1"),
        (([0, 3], [0, 0], [1, 1]), {"shape": (3, 3)}, ValueError, "from 0 to 2, but triple 1"),
        (([0], [5], [1]), {"column_labels": ["x"]}, ValueError, "triple 0 has column 5"),
        (([0, 1.5], [0, 0], [1, 1]), {}, ValueError, "triple 1 has row 1.5"),
        (([0, NAN], [0, 0], [1, 1]), {}, ValueError, "triple 1 has row nan"),
        (([True], [0], [1]), {}, TypeError, "triple 0 has row True"),
        (([None, "a"], [0, 0], [1, 1]), {}, TypeError, "triple 0 has row None"),
        (([0], [0], [1]), {"shape": (1, -1)}, ValueError, "shape must be two whole numbers"),
        (([0], [0], [1]), {"shape": 3}, ValueError, "shape must be two whole numbers"),
        (([0], [0], [1]), {"shape": (2.5, 1)}, ValueError, "shape must be two whole numbers"),
        (([0], [0], [1]), {"shape": (2**40, 2**40)}, ValueError, "too many to number"),
        ((["a"], [0], [1]), {"shape": (2, 1)}, ValueError, "shape has 2 rows.*name 1.*row_labels"),
        ((["a", "q"], [0, 0], [1, 1]), {"row_labels": ["a"]}, ValueError, "triple 1 has row 'q'"),
        ((["a"], [0], [1]), {"row_labels": []}, ValueError, "triple 0 has row 'a'"),
        (([0], [0], [1]), {"row_labels": ["a", "a"]}, ValueError, "'a' occurs 2 times"),
        (([0], [0], [1]), {"duplicates": "last"}, ValueError, '"error" or "majority"'),
    ],
)
def test_bad_triples(arguments, options, error, message):
    with pytest.raises(error, match=message):
        Observations.from_triples(*arguments, **options)


# ---------------------------------------------------------------- bad arrays


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ([[1, 0], [0, 2]], ValueError, "row 1, column 1 holds 2; turn the data"),
        ([[1, 0, -1]], ValueError, "row 0, column 2 holds -1"),
        (np.array([[256]]), ValueError, "holds 256"),
        ([[1, 0.5]], ValueError, "row 0, column 1 holds 0.5"),
        ([[NAN, np.inf]], ValueError, "row 0, column 1 holds inf"),
        ([[-np.inf]], ValueError, "holds -inf"),
        (np.ma.array([[1, 2]], mask=[[1, 0]]), ValueError, "row 0, column 1 holds 2"),
        ([[1, "red"]], ValueError, "row 0, column 1 holds the text 'red'.*TableEncoder"),
        (np.array([["2"]]), ValueError, "row 0, column 0 holds the text '2'"),
        (np.array([[b"\xff"]]), ValueError, "row 0, column 0 holds the text b'"),
        (np.array([[1, "so"]], dtype=object), ValueError, "row 0, column 1 holds the text 'so'"),
        (np.array([[0, {}]], dtype=object), TypeError, "must be a string or a number.*astype"),
        (np.array([[0, 3]], dtype=object), ValueError, "row 0, column 1 holds 3"),
        (np.array([[10**400]], dtype=object), ValueError, "row 0, column 0 holds 1000"),
        (np.array([[1j]]), ValueError, "Complex data not supported"),
        (np.array([[1j]], dtype=object), ValueError, "Complex data not supported"),
        (np.array([["2020-01-01"]], dtype="M8[D]"), TypeError, "2020-01-01 of type datetime64"),
        (np.zeros((1, 1), dtype="V2"), TypeError, "of type"),
        ([1, 0], ValueError, "Reshape your data"),
        (pd.Series([1, 0]), ValueError, "Reshape your data"),
        (np.zeros((2, 2, 2)), ValueError, r"3-D.*\(2, 2, 2\)"),
        (5, ValueError, "0-D data of type int"),
        (None, ValueError, "0-D data of type NoneType"),
        ("votes.csv", ValueError, "0-D data of type str"),
        ({"a": 1}, ValueError, "0-D data of type dict"),
        ([[1, 0], [1]], ValueError, "rows differ in length"),
    ],
)
def test_bad_arrays(data, error, message):
    with pytest.raises(error, match=message) as caught:
        Observations.from_data(data)
    assert "\n" not in str(caught.value)


def test_bad_cells_are_named_by_label():
    with pytest.raises(ValueError, match="row 'b', column 'x' holds 7"):
        Observations.from_dense([[1], [7]], row_labels=["a", "b"], column_labels=["x"])


def test_the_first_bad_cell_is_named_whatever_the_memory_order():
    dense = np.asfortranarray([[0, 0, 3], [4, 0, 0]])
    with pytest.raises(ValueError, match="row 0, column 2 holds 3"):
        Observations.from_data(dense)


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        (["a"], ValueError, "expected 2 row labels.*got 1"),
        (["a", "a"], ValueError, "'a' occurs 2 times"),
        ([1, "1"], ValueError, "'1' occurs 2 times"),
        (["a", None], ValueError, "label of row 1 is missing"),
        ("ab", TypeError, "a sequence of names, but got 'ab'"),
    ],
)
def test_bad_labels(labels, error, message):
    with pytest.raises(error, match=message):
        Observations.from_dense([[1], [0]], row_labels=labels)


@pytest.mark.parametrize("option", [{"absent": "no"}, {"duplicates": "no"}])
def test_bad_options(option):
    with pytest.raises(ValueError, match="must be"):
        Observations.from_data([[1]], **option)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (((2, 2), [0, 1], [0], [1]), "indptr must have 3"),
        (((2, 2), [0, 1, 2], [0], [1]), "indptr must have 3"),
        (((2, 2), [0, 2, 1], [0], [1]), "must not decrease"),
        (((1, 2), [0, 2], [0, 1], [1]), "same length"),
        (((1, 2), [0, 1], [2], [1]), "from 0 to 1"),
        (((1, 2), [0, 1], [-1], [1]), "from 0 to 1"),
        (((1, 2), [0, 2], [1, 0], [1, 1]), "strictly increasing"),
        (((1, 2), [0, 2], [1, 1], [1, 1]), "strictly increasing"),
        (((1, 2), [0, 1], [0], [2]), "values must be 0 or 1"),
        (((1, 2), [0, 1], [0], [256]), "values must fit into uint8"),
        (((1, 2), [0, 1], [[0]], [1]), "indices must be 1-D"),
        (((1, -2), [0, 1], [0], [1]), "shape must be"),
    ],
)
def test_the_constructor_checks(fields, message):
    with pytest.raises(ValueError, match=message):
        Observations(*fields)


def test_many_columns_need_wide_indices():
    observations = Observations.from_triples([0], [2**31], [1])
    assert observations.indices.dtype == np.int64
    assert observations.n_columns == 2**31 + 1
