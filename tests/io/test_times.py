"""The times of triples, read along with them."""

import datetime

import numpy as np
import polars as pl
import pytest
from good_files import tables

from boolweave.io import FileError, read
from boolweave.io.dialect import Dialect

TRIPLES = [("Bo", "tea", 1), ("Ann", "rum", 0), ("Ann", "tea", 1), ("Bo", "gin", 1)]
# Rows and columns are numbered as they come: Bo tea, Bo gin, Ann tea, Ann rum.
IN_ORDER = [0, 3, 2, 1]


def written(folder, times, header="user,item,value,when\n"):
    lines = [
        f"{row},{column},{value},{t}\n"
        for (row, column, value), t in zip(TRIPLES, times, strict=True)
    ]
    path = folder / "triples.csv"
    path.write_text(header + "".join(lines))
    return path


@pytest.mark.parametrize(
    "times",
    [
        [5, 3, 4, 1],
        [1.5, -2.0, 0.25, 7.0],
        ["2024-02-01", "2023-12-31", "2024-01-01", "2022-05-05"],
        ["2024-02-01 10:00", "2024-02-01T10:00:01", "2024-02-01T10:00:00.5Z", "2024-02-01"],
        ["5", "2024", "6", "7"],
    ],
)
def test_numbers_and_dates_in_text(tmp_path, times):
    found = read(written(tmp_path, times), times="when")
    if isinstance(times[0], str) and "-" in times[0]:
        expected = np.array([t.strip("Z") for t in times], dtype="datetime64[us]")
    else:
        expected = np.array(times, dtype=float)
    assert found.times.tolist() == expected[IN_ORDER].tolist()
    assert found.observations.values.tolist() == [1, 1, 1, 0]


def test_a_column_by_number_and_without_header(tmp_path):
    path = written(tmp_path, [5, 3, 4, 1], header="")
    found = read(path, times="4", dialect=Dialect(header=False))
    assert found.times.tolist() == [5, 1, 4, 3]


def test_plain_numbers_and_columns_in_another_order(tmp_path):
    path = tmp_path / "plain.csv"
    path.write_text("when,like,film,user\n9,1,7,1\n8,0,7,2\n7,1,5,2\n")
    found = read(path, times="when", dialect=Dialect(columns=("user", "film", "like")))
    assert found.times.tolist() == [9, 8, 7]


def test_the_latest_of_repeated_triples_and_none_of_missing_ones(tmp_path):
    path = tmp_path / "triples.csv"
    path.write_text("user,item,value,when\na,x,1,3\na,x,1,9\na,y,,5\na,x,1,4\nb,x,0,2\n")
    assert read(path, times="when").times.tolist() == [9, 2]


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_typed_tables(tmp_path, suffix):
    path = tmp_path / f"triples.{suffix}"
    frame = pl.DataFrame(TRIPLES, schema=["user", "item", "value"], orient="row")
    days = [datetime.date(2024, 1, day) for day in (5, 3, 4, 1)]
    for times in (days, [5, 3, 4, 1], ["2024-01-05", "2024-01-03", "2024-01-04", "2024-01-01"]):
        timed = frame.with_columns(pl.Series("when", times))
        timed.write_parquet(path) if suffix == "parquet" else timed.write_ipc(path)
        found = read(path, times="when").times
        assert np.argsort(found).tolist() == [1, 3, 2, 0]
    timed.with_columns(when=pl.lit(True)).write_parquet(path)
    with pytest.raises(FileError, match="number or a date"):
        read(path, times="when")


@pytest.mark.parametrize("name", ["u.data", "ratings.dat", "ratings.csv"])
def test_movielens(tmp_path, name):
    (tmp_path / name).write_bytes(dict(tables())[name])
    expected = 881250949 + np.repeat(np.arange(5), 4)
    np.testing.assert_array_equal(read(tmp_path / name, times="4").times, expected)
    np.testing.assert_array_equal(read(tmp_path / name, times="timestamp").times, expected)
    (tmp_path / name).rename(tmp_path / "other.txt")
    found = read(tmp_path / "other.txt", format="movielens", times="4")
    np.testing.assert_array_equal(found.times, expected)


def test_nobody_asked(tmp_path):
    assert read(written(tmp_path, [5, 3, 4, 1])).times is None


@pytest.mark.parametrize(
    ("times", "options", "words"),
    [
        ([5, 3, 4, 1], {"times": "date"}, "`times`: there is no column 'date'"),
        ([5, 3, 4, 1], {"times": "9"}, "`times`: there is no column '9'"),
        ([5, 3, "soon", 1], {"times": "when"}, "time of entry 3, got 'soon'"),
        ([5, 3, "", 1], {"times": "when"}, "time of entry 3, got"),
        ([5, 3, "nan", 1], {"times": "when"}, "time of entry 3, got"),
        (["2024-13-01", 1, 1, 1], {"times": "when"}, "time of entry 1, got '2024-13-01'"),
        ([5, 3, 4, 1], {"times": "when", "absent": "zero"}, "`times` does not apply to zeros"),
        (
            [5, 3, 4, 1],
            {"times": "when", "dialect": Dialect(layout="pairs")},
            "`times` does not apply to a table of pairs",
        ),
    ],
)
def test_bad_times(tmp_path, times, options, words):
    with pytest.raises(FileError, match=words):
        read(written(tmp_path, times), **options)


def test_files_without_times(tmp_path):
    np.save(tmp_path / "table.npy", np.eye(3))
    with pytest.raises(FileError, match="`times` does not apply"):
        read(tmp_path / "table.npy", times="when")
    (tmp_path / "u.data").write_bytes(dict(tables())["u.data"])
    with pytest.raises(FileError, match="`times`: expected timestamp"):
        read(tmp_path / "u.data", times="when")
