"""What cells say: words for ones, zeros and nothing; long tables."""

from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boolweave import Observations
from boolweave.data.cells import CellWords, key_of, no_answer_codes

NAN = np.nan
SURVEY = {"tea": ["ja", "Nein", "-", "x"], "rum": ["yes", "no", "", None]}
MEANING = [[1, 1], [0, 0], [NAN, NAN], [1, NAN]]
SAID = {"ones": ["ja", "x"], "zeros": "nein", "missing": ["-", 99]}


def test_tables_and_arrays_read_alike():
    rows = [list(row) for row in zip(*SURVEY.values(), strict=True)]
    for data in (pd.DataFrame(SURVEY), pl.DataFrame(SURVEY), rows, np.array(rows, dtype=object)):
        seen = Observations.from_data(data, **SAID)
        np.testing.assert_array_equal(seen.to_dense(), MEANING)
    table = Observations.from_table(pl.DataFrame({"who": list("abcd"), **SURVEY}), **SAID)
    assert table.row_labels.tolist() == list("abcd")


@pytest.mark.parametrize("dtype", [np.int64, np.float32, object])
def test_numbers_are_compared_by_value(dtype):
    cells = np.array([[1, 2], [2, 99], [1, 1]], dtype=dtype)
    seen = Observations.from_data(cells, ones="2.0", zeros=1, missing=["99"])
    np.testing.assert_array_equal(seen.to_dense(), [[0, 1], [1, NAN], [0, 0]])


def test_yes_and_no_need_no_words():
    seen = Observations.from_data([["yes", "NO"], ["True", "n/a"], [1, "0"]])
    np.testing.assert_array_equal(seen.to_dense(), [[1, 0], [1, NAN], [1, 0]])


@pytest.mark.parametrize(
    ("data", "said", "words"),
    [
        ([["ja"]], {}, "holds the text 'ja'.*`ones`"),
        ([[1, 9]], {"missing": 99}, "holds 9; turn"),
        ([[1]], {"ones": "x", "missing": ["X"]}, "'x' is both in `ones` and in `miss"),
        (Observations.from_data([[1]]), {"ones": "x"}, "do not apply to observations"),
    ],
)
def test_one_clear_error(data, said, words):
    with pytest.raises(ValueError, match=words):
        Observations.from_data(data, **said)


@given(st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(10**9), 10**9)))
def test_a_number_has_one_key(number):
    assert key_of(number) == key_of(f" {float(number)!r} ") == key_of(float(number))
    assert CellWords.of(ones=[number]).code(float(number)) == 1


@pytest.mark.parametrize(
    ("numbers", "codes"),
    [
        ([0, 1, 9], [9]),
        ([0, 1, 99], [99]),
        ([1, 2, 3, 4, 5, 97, 98, 99], [97, 98, 99]),
        ([18, 35, 47, 62, 999], [999]),
        ([1, 2, 3, -9], [-9]),
        ([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], []),
        ([-1, 0, 1], []),
        ([-1, 1], []),
        ([-2, -1, 0, 1], []),
        ([90, 95, 99], []),
        ([0.5, 1, 99], []),
        ([99], []),
    ],
)
def test_codes_for_no_answer(numbers, codes):
    assert no_answer_codes([*numbers, NAN]) == codes


# ---------------------------------------------------------------- long tables


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_ids_are_names(kind):
    table = kind({"user": [70, 5, 70], "item": ["x", "y", "y"], "rating": [5.0, 3.0, None]})
    seen = Observations.from_long(table, "user", "item", "rating", above=3)
    assert seen.row_labels.tolist() == ["70", "5"] and seen.column_labels.tolist() == ["x", "y"]
    np.testing.assert_array_equal(seen.to_dense(), [[1, NAN], [NAN, 0]])


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_ids_are_dates(unit):
    days = pd.Series(["2024-05-01", "2024-05-02"]).astype(f"datetime64[{unit}]")
    table = pd.DataFrame({"day": days, "bird": ["swift", "wren"]})
    seen = Observations.from_long(table, "day", "bird")
    assert seen.row_labels.tolist() == ["2024-05-01 00:00:00", "2024-05-02 00:00:00"]
    plain = pl.DataFrame({"day": [date(2024, 5, 1)], "bird": ["swift"]})
    assert Observations.from_long(plain, "day", "bird").row_labels.tolist() == ["2024-05-01"]


def test_ids_as_positions_and_other_values():
    table = pl.DataFrame({"u": [0, 2, 0], "i": [1, 0, 0], "v": ["ja", "nein", "?"]})
    seen = Observations.from_long(table, "u", "i", "v", ids="positions", ones="ja", zeros="nein")
    assert seen.row_labels is None and seen.shape == (3, 2)
    np.testing.assert_array_equal(seen.to_dense(), [[NAN, 1], [NAN, NAN], [0, NAN]])
    pairs = Observations.from_long(table, "u", "i")
    np.testing.assert_array_equal(pairs.to_dense(), [[1, 1], [0, 1]])
    only = Observations.from_long(table, "u", "i", absent="missing")
    np.testing.assert_array_equal(only.to_dense(), [[1, 1], [NAN, 1]])
    rated = pl.DataFrame({"u": ["a", "b"], "i": ["x", "x"], "r": [4, 99]})
    seen = Observations.from_long(rated, "u", "i", "r", above=3, missing=99)
    np.testing.assert_array_equal(seen.to_dense(), [[1], [NAN]])


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        (("user", "i", "v"), {}, "no column 'user'"),
        (("u", "i", "v"), {}, "row 'b', column 'y' holds 4"),
        (("u", "i", "t"), {"above": 3}, "expected numbers in 't'.*holds 'many'"),
        (("u", "i", "v"), {"above": "most"}, '"mean", "median" or a number'),
        (("u", "i", "v"), {"above": 3, "ones": 5}, "leave out `ones` and `zeros`"),
        (("u", "i"), {"above": 3}, "name their column"),
        (("n", "i", "v"), {"above": 3}, "row 1 is missing"),
        (("d", "i", "v"), {"above": 3}, "every row of 'd', but that of row 0 is missing"),
        (("u", "i", "v"), {"ids": "rows"}, '"names" or "positions"'),
        (("u", "i", "v"), {"ids": "positions", "above": 3}, "positions, counted .* but got 'a'"),
        (("v", "m", "v"), {"ids": "positions", "above": 3}, "triple 1 has column -1"),
    ],
)
def test_bad_long_tables(columns, options, words):
    table = pl.DataFrame(
        {
            "u": ["a", "b"], "i": ["x", "y"], "v": [1, 4], "t": ["1", "many"], "n": ["a", None],
            "m": [0, -1], "d": [None, date(2024, 5, 1)],
        }
    )  # fmt: skip
    with pytest.raises(ValueError, match=words):
        Observations.from_long(table, *columns, **options)
    with pytest.raises(TypeError, match="expected a table in memory"):
        Observations.from_long(np.eye(2), "u", "i")


@pytest.mark.parametrize("ids", ["names", "positions"])
def test_a_long_table_without_lines(ids):
    """Its columns may be texts, since nothing shows what they would hold."""
    table = pl.DataFrame(schema={"u": pl.String, "i": pl.String, "v": pl.Int64})
    assert Observations.from_long(table, "u", "i", "v", ids=ids).shape == (0, 0)
