"""Observations from sparse matrices and from tables, good and bad."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from matrices import NAN, partly_observed, same, stored

from boolweave.data.observations import Observations

FORMATS = ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"]
SPARSE_KINDS = [(name, kind) for name in FORMATS for kind in ("array", "matrix")]


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
            pl.DataFrame({"x": [1], "y": ["so"]}),
            ValueError,
            "row 0, column 'y' holds the text 'so'",
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


@pytest.mark.parametrize(
    "table", [pd.DataFrame([[1, 0]], columns=["x", "x"]), pa.table([[1], [0]], names=["x", "x"])]
)
def test_repeated_names_are_refused_with_a_remedy(table):
    with pytest.raises(ValueError, match=r"column labels must differ.*rename the repeats"):
        Observations.from_data(table)
