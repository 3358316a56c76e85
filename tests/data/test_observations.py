"""Every kind of input, every kind of bad input, and what observations can do."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from boolweave.data.observations import Observations

NAN = np.nan
FORMATS = ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"]
SPARSE_KINDS = [(name, kind) for name in FORMATS for kind in ("array", "matrix")]
MATRIX = np.array([[1, 0, NAN], [NAN, 1, 1], [NAN, NAN, NAN], [0, 0, 1]])


def same(observations, dense):
    """Whether the observations are those of a 0/1/NaN matrix, entry by entry."""
    dense = np.asarray(dense, dtype=float)
    np.testing.assert_array_equal(observations.to_dense(), dense)
    rows, columns = np.nonzero(~np.isnan(dense))
    np.testing.assert_array_equal(observations.rows_of_entries(), rows)
    np.testing.assert_array_equal(observations.indices, columns)
    np.testing.assert_array_equal(observations.values, dense[rows, columns])
    assert observations.shape == dense.shape
    assert observations.indptr.dtype == np.int64
    assert observations.indices.dtype == np.int32
    assert observations.values.dtype == np.uint8


def partly_observed(min_side=0, max_side=7):
    """Matrices of 0, 1 and NaN of all shapes and densities."""
    return hnp.arrays(
        np.float64,
        hnp.array_shapes(min_dims=2, max_dims=2, min_side=min_side, max_side=max_side),
        elements=st.sampled_from([0.0, 1.0, NAN]),
    )


def stored(dense, name, kind="array"):
    """A sparse matrix that stores what is not NaN, zeros too."""
    rows, columns = np.nonzero(~np.isnan(dense))
    make = getattr(sp, f"coo_{kind}")
    values = dense[rows, columns]
    return make((values, (rows, columns)), shape=dense.shape).asformat(name)


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
        (([0], [0], ["yes"]), {}, ValueError, "row 0, column 0 holds the text 'yes'"),
        (([0, 1], [0], [1, 0]), {}, ValueError, "one length"),
        (([0, 1], [0, 1], [1]), {}, ValueError, "one length"),
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
        ((["a"], [0], [1]), {"shape": (2, 1)}, ValueError, "asks for 2 rows.*name 1.*row_labels"),
        ((["a", "q"], [0, 0], [1, 1]), {"row_labels": ["a"]}, ValueError, "triple 1 has row 'q'"),
        ((["a"], [0], [1]), {"row_labels": []}, ValueError, "triple 0 has row 'a'"),
        (([0], [0], [1]), {"row_labels": ["a", "a"]}, ValueError, "'a' occurs 2 times"),
        (([0], [0], [1]), {"duplicates": "last"}, ValueError, '"error" or "majority"'),
    ],
)
def test_bad_triples(arguments, options, error, message):
    with pytest.raises(error, match=message):
        Observations.from_triples(*arguments, **options)


# ---------------------------------------------------------------- sparse matrices


@pytest.mark.parametrize(("name", "kind"), SPARSE_KINDS)
@given(dense=partly_observed(min_side=1))
@settings(max_examples=30)
def test_sparse_round_trip(name, kind, dense):
    matrix = stored(dense, name, kind)
    zeros = np.nan_to_num(dense, nan=0)
    same(Observations.from_data(matrix), zeros)
    observations = Observations.from_data(matrix, absent="missing")
    if name not in ("bsr", "dia"):  # these store whole blocks and diagonals
        same(observations, dense)
        assert observations.n_observed == matrix.nnz
    found = observations.to_dense()
    assert (np.isnan(dense) | (found == dense)).all()
    np.testing.assert_array_equal(np.nan_to_num(found, nan=0), zeros)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("name", FORMATS)
def test_sparse_dtypes(name, dtype):
    dense = np.array([[1, 0, 0], [0, 1, 1]], dtype=dtype)
    matrix = sp.coo_array(dense).asformat(name)
    same(Observations.from_data(matrix), dense)


def test_stored_zeros_are_observed_in_blocks_and_diagonals():
    block = sp.bsr_array((np.array([[[1, 0], [0, 0]]]), [0], [0, 1]), shape=(2, 2))
    same(Observations.from_sparse(block, absent="missing"), [[1, 0], [0, 0]])
    diagonal = sp.dia_array((np.array([[1, 0, 1]]), [-1]), shape=(3, 3))
    expected = [[NAN, NAN, NAN], [1, NAN, NAN], [NAN, 0, NAN]]
    same(Observations.from_sparse(diagonal, absent="missing"), expected)


@pytest.mark.parametrize("name", ["coo", "csr", "csc"])
def test_stored_nan_is_missing(name):
    matrix = sp.coo_array(([1.0, NAN, 0.0], ([0, 0, 1], [0, 1, 1])), shape=(2, 3)).asformat(name)
    same(Observations.from_sparse(matrix), [[1, NAN, 0], [0, 0, 0]])
    same(Observations.from_sparse(matrix, absent="missing"), [[1, NAN, NAN], [NAN, 0, NAN]])


def unsorted_csr(data):
    return sp.csr_array((data, [2, 0, 2], [0, 3, 3]), shape=(2, 3))


@pytest.mark.parametrize(
    "make",
    [
        unsorted_csr,
        lambda data: sp.coo_array((data, ([0, 0, 0], [2, 0, 2])), shape=(2, 3)),
        lambda data: sp.csc_array((data, [0, 0, 0], [0, 0, 0, 3]), shape=(2, 3)),
    ],
)
def test_sparse_duplicates_are_never_summed(make):
    agree, disagree = make([1, 1, 1]), make([1, 1, 0])
    assert Observations.from_sparse(agree).share_of_ones == np.mean(agree.toarray() > 0)
    assert (Observations.from_sparse(agree, absent="missing").values == 1).all()
    for absent in ("zero", "missing"):
        with pytest.raises(ValueError, match="row 0, column 2 is given as both"):
            Observations.from_sparse(disagree, absent=absent)
    assert agree.nnz == 3  # the caller's matrix stays as it was


def test_sparse_majority():
    matrix = sp.coo_array(([1, 0, 1, 1, 0], ([0] * 5, [0, 0, 1, 1, 1])), shape=(1, 3))
    zero = Observations.from_sparse(matrix, duplicates="majority")
    same(zero, [[NAN, 1, 0]])
    same(Observations.from_data(matrix, absent="missing", duplicates="majority"), [[NAN, 1, NAN]])


def test_tidy_csr_is_not_copied():
    matrix = sp.csr_array(np.random.default_rng(0).random((50, 40)) < 0.3)
    observations = Observations.from_sparse(matrix, absent="missing")
    assert np.shares_memory(observations.indices, matrix.indices)
    matrix.indices[0] = matrix.indices[0]  # still the caller's to write
    same(observations, np.where(matrix.toarray(), 1, NAN))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("absent", ["zero", "missing"])
def test_bad_cells_in_sparse_matrices(name, absent):
    matrix = sp.coo_array(([1, 3], ([0, 1], [0, 1])), shape=(2, 2)).asformat(name)
    with pytest.raises(ValueError, match="row 'b', column 'y' holds 3"):
        Observations.from_sparse(
            matrix, absent=absent, row_labels=["a", "b"], column_labels=["x", "y"]
        )


@pytest.mark.parametrize(
    ("matrix", "options", "error", "message"),
    [
        (sp.csr_array([[1j]]), {}, ValueError, "Complex data not supported"),
        (sp.csr_array([[1]]), {"absent": "nothing"}, ValueError, '"zero" or "missing"'),
        (sp.csr_array([[1]]), {"duplicates": "sum"}, ValueError, '"error" or "majority"'),
        (sp.csr_array([[1]]), {"row_labels": ["a", "b"]}, ValueError, "expected 1 row labels"),
        (np.ones((2, 2)), {}, TypeError, "scipy.sparse.*got ndarray"),
    ],
)
def test_bad_sparse_input(matrix, options, error, message):
    with pytest.raises(error, match=message):
        Observations.from_sparse(matrix, **options)


def test_sparse_arrays_of_one_dimension():
    line = sp.coo_array([1, 0])
    if line.ndim == 1:  # older scipy makes a row of it
        with pytest.raises(ValueError, match="Reshape your data"):
            Observations.from_data(line)


# ---------------------------------------------------------------- tables


def as_polars(dense, names):
    cells = [[None if np.isnan(cell) else int(cell) for cell in column] for column in dense.T]
    return pl.DataFrame(dict(zip(names, cells, strict=True)), schema=dict.fromkeys(names, pl.Int8))


@given(partly_observed(min_side=1))
@settings(max_examples=40)
def test_table_round_trip(dense):
    names = [f"c{i}" for i in range(dense.shape[1])]
    floats = pd.DataFrame(dense, columns=names)
    tables = [
        floats,
        floats.astype("Int8"),
        floats.astype("boolean"),
        floats.astype("Int64").astype("int64[pyarrow]"),
        floats.astype("boolean").astype("bool[pyarrow]"),
        floats.astype(object),
        floats.astype(object).where(floats.notna(), None),
        pl.DataFrame(dense, schema=names),
        as_polars(dense, names),
        as_polars(dense, names).cast(pl.Boolean),
        as_polars(dense, names).to_arrow(),
        as_polars(dense, names).cast(pl.Boolean).to_arrow(),
    ]
    for table in tables:
        observations = Observations.from_data(table)
        same(observations, dense)
        assert observations.column_labels.tolist() == names
        assert observations.row_labels is None


def test_mixed_columns():
    columns = {"a": [True, False], "b": [1, None], "c": [0.0, NAN], "d": [None, None]}
    expected = [[1, 1, 0, NAN], [0, NAN, NAN, NAN]]
    for table in (pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)):
        same(Observations.from_table(table), expected)


def test_pandas_labels():
    table = pd.DataFrame([[1, 0], [0, 1]])
    assert Observations.from_table(table).row_labels is None
    assert Observations.from_table(table).column_labels is None
    named = pd.DataFrame([[1, 0], [0, 1]], index=["a", "b"], columns=["x", "y"])
    assert Observations.from_table(named).row_labels.tolist() == ["a", "b"]
    assert Observations.from_table(named).column_labels.tolist() == ["x", "y"]
    assert Observations.from_table(table.iloc[1:]).row_labels.tolist() == ["1"]
    assert Observations.from_table(table[[1]]).column_labels.tolist() == ["1"]
    for dtype in ("str", "category", object):
        first = named.reset_index(names="name").astype({"name": dtype})
        same(Observations.from_table(first), [[1, 0], [0, 1]])
        assert Observations.from_table(first).row_labels.tolist() == ["a", "b"]
        assert Observations.from_table(first).column_labels.tolist() == ["x", "y"]
    pairs = pd.MultiIndex.from_tuples([("a", 1), ("a", 2)])
    nested = Observations.from_table(pd.DataFrame([[True, False]], columns=pairs))
    assert nested.column_labels.tolist() == ["('a', 1)", "('a', 2)"]
    unnamed = Observations.from_table(pd.DataFrame([["a", 1, 0], ["b", 0, 1]]))
    assert (unnamed.row_labels.tolist(), unnamed.shape) == (["a", "b"], (2, 2))


@pytest.mark.parametrize("convert", [lambda table: table, pl.DataFrame.to_arrow])
@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical, pl.Enum(["a", "b"])])
def test_first_text_column_gives_labels(convert, dtype):
    columns = {"name": ["b", "a"], "x": [1, None], "y": [True, False]}
    observations = Observations.from_data(
        convert(pl.DataFrame(columns, schema_overrides={"name": dtype}))
    )
    same(observations, [[1, 1], [NAN, 0]])
    assert observations.row_labels.tolist() == ["b", "a"]
    assert observations.column_labels.tolist() == ["x", "y"]


def test_tables_without_cells():
    assert Observations.from_table(pl.DataFrame()).shape == (0, 0)
    assert Observations.from_table(pl.DataFrame({"name": ["a", "b"]})).shape == (2, 0)
    assert Observations.from_table(pd.DataFrame(index=["a", "b"])).row_labels.tolist() == ["a", "b"]
    empty = Observations.from_table(pl.DataFrame(schema={"name": pl.String, "x": pl.Int8}))
    assert empty.shape == (0, 1)


def test_pandas_sparse_columns():
    table = pd.DataFrame({"a": pd.arrays.SparseArray([1, 0, 0]), "b": [0, 1, 0]})
    same(Observations.from_data(table), [[1, 0], [0, 1], [0, 0]])


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        (pl.DataFrame({"n": ["a", "b"], "x": [1, 2]}), ValueError, "row 'b', column 'x' holds 2"),
        (pd.DataFrame({"x": [1, 0.5]}), ValueError, "row 1, column 'x' holds 0.5"),
        (
            pl.DataFrame({"x": [1], "y": ["no"]}),
            ValueError,
            "row 0, column 'y' holds the text 'no'",
        ),
        (pd.DataFrame({"x": ["a"]}, index=["i"]), ValueError, "row 'i', column 'x' holds the text"),
        (pl.DataFrame({"n": ["a", "a"], "x": [1, 0]}), ValueError, "row labels must differ"),
        (pl.DataFrame({"n": ["a", None], "x": [1, 0]}), ValueError, "label of row 1 is missing"),
        (pd.DataFrame({"n": ["a", None], "x": [1, 0]}), ValueError, "label of row 1 is missing"),
        (pd.DataFrame({"x": [1, 0]}, index=[4, 4]), ValueError, "'4' occurs 2 times"),
        (pd.DataFrame([[1, 0]], columns=["x", "x"]), ValueError, "column labels must differ.*'x'"),
        (pa.table([[1], [0]], names=["x", "x"]), ValueError, "column labels must differ.*'x'"),
        (pl.DataFrame({"x": [[1], [0]]}), TypeError, "row 0, column 'x' holds an object"),
        (pd.DataFrame({"t": pd.to_datetime(["2020-01-01"])}), TypeError, "column 't'.*datetime64"),
        (pl.LazyFrame({"x": [1]}), TypeError, "collect a lazy table first"),
        (np.ones((2, 2)), TypeError, "got ndarray"),
    ],
)
def test_bad_tables(table, error, message):
    with pytest.raises(error, match=message):
        Observations.from_table(table)


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
        ([[1, "yes"]], ValueError, "row 0, column 1 holds the text 'yes'.*astype"),
        (np.array([["1"]]), ValueError, "row 0, column 0 holds the text '1'"),
        (np.array([[b"\xff"]]), ValueError, "row 0, column 0 holds the text b'"),
        (np.array([[1, "no"]], dtype=object), ValueError, "row 0, column 1 holds the text 'no'"),
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
        ("ab", TypeError, "one text"),
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
        (((1, 2), [0, 2], [0, 1], [1]), "one length"),
        (((1, 2), [0, 1], [2], [1]), "from 0 to 1"),
        (((1, 2), [0, 1], [-1], [1]), "from 0 to 1"),
        (((1, 2), [0, 2], [1, 0], [1, 1]), "strictly increasing"),
        (((1, 2), [0, 2], [1, 1], [1, 1]), "strictly increasing"),
        (((1, 2), [0, 1], [0], [2]), "values must be 0 or 1"),
        (((1, 2), [0, 1], [0], [256]), "values must fit uint8"),
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


# ---------------------------------------------------------------- what observations can do


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
        monkeypatch.setattr("boolweave.data.observations.PIECE_OF_ROWS", piece)
        kept, rows, columns, values = observations.split(hidden)
        at = observations.rows_of_entries()
        np.testing.assert_array_equal(rows, at[hidden])
        np.testing.assert_array_equal(values, table[rows, columns])
        left = table.copy()
        left[rows, columns] = np.nan
        np.testing.assert_array_equal(kept.to_dense(), left)
