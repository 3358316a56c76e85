"""What is said about a file holds in every format, or is refused; headers of long tables."""

import numpy as np
import polars as pl
import pytest
import scipy.io
import scipy.sparse
from good_files import markets, tables
from read_files import table

from boolweave import io
from boolweave.io.dialect import Dialect
from boolweave.io.files import FileError

NAN = np.nan
# Columns of very different size: the mean of the table is 12.5, those of the columns are 2, 30, ...
RATINGS = np.array(
    [[1, 20, 5, 0.5, 2], [3, 40, NAN, 1.5, 3], [2, 30, 9, 50, 4], [2, 10, 7, 33.5, 1]]
)


def write_ratings(folder):
    """The same ratings in every format that can hold them."""
    names = list("abcde")
    frame = pl.DataFrame(RATINGS, schema=names).fill_nan(None)
    frame.write_csv(folder / "r.csv")
    frame.write_parquet(folder / "r.parquet")
    frame.write_ipc(folder / "r.arrow")
    np.save(folder / "r.npy", RATINGS)
    np.savez(folder / "r.npz", RATINGS)
    rows, columns = np.nonzero(~np.isnan(RATINGS))
    values = RATINGS[rows, columns]
    sparse = scipy.sparse.coo_array((values, (rows, columns)), shape=RATINGS.shape)
    scipy.io.mmwrite(folder / "r.mtx", sparse)
    scipy.sparse.save_npz(folder / "sparse.npz", sparse)
    triples = pl.DataFrame(
        {"user": [f"u{i}" for i in rows], "item": [names[j] for j in columns], "v": values}
    )
    triples.write_csv(folder / "triples.csv")
    triples.write_parquet(folder / "triples.parquet")
    triples[:9].write_parquet(folder / "part-1.parquet")
    triples[9:].write_parquet(folder / "part-2.parquet")


@pytest.mark.parametrize("above", ["mean", "median", 4])
def test_above_means_the_same_in_every_format(tmp_path, above):
    write_ratings(tmp_path)
    known = RATINGS[~np.isnan(RATINGS)]
    limit = {"mean": known.mean(), "median": np.median(known)}.get(above, above)
    expected = np.where(np.isnan(RATINGS), NAN, limit < RATINGS)
    for name in ("r.csv", "r.parquet", "r.arrow", "r.npy", "r.npz"):
        np.testing.assert_array_equal(table(tmp_path / name, above=above), expected, name)
    for name in ("r.mtx", "sparse.npz"):
        found = table(tmp_path / name, above=above, absent="missing")
        np.testing.assert_array_equal(found, expected, name)
    parts = [tmp_path / "part-1.parquet", tmp_path / "part-2.parquet"]
    for source in (tmp_path / "triples.csv", tmp_path / "triples.parquet", parts):
        seen = io.read(source, above=above).observations
        order = [seen.column_labels.tolist().index(name) for name in "abcde"]
        np.testing.assert_array_equal(seen.to_dense()[:, order], expected)


def test_above_of_sparse_files_leaves_absent_entries_absent(tmp_path):
    sparse = scipy.sparse.coo_array(([1.0, 4.0], ([0, 1], [0, 1])), shape=(2, 2))
    scipy.sparse.save_npz(tmp_path / "s.npz", sparse)
    np.testing.assert_array_equal(table(tmp_path / "s.npz", above="mean"), [[0, 0], [0, 1]])
    found = table(tmp_path / "s.npz", above="mean", absent_default="missing")
    np.testing.assert_array_equal(found, [[0, NAN], [NAN, 1]])


def test_ratings_in_the_first_column_are_ratings(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("4,1,5,2,3\n4,4,1,2,5\n")
    np.testing.assert_array_equal(table(path, above=3), [[1, 0, 1, 0, 0], [1, 1, 0, 0, 1]])
    for labels in ("user,a,b,c,d\n9,1,5,2,3\n7,4,1,2,5\n", "1,1,5,2,3\n2,4,1,2,5\n"):
        path.write_text(labels)
        np.testing.assert_array_equal(table(path, above=3), [[0, 1, 0, 0], [1, 0, 0, 1]])


# ---------------------------------------------------------------- absent entries


def test_absent_entries_of_triples(tmp_path):
    frame = pl.DataFrame({"r": ["a", "b", "b"], "c": ["x", "y", "x"], "v": [1, 0, None]})
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        path = tmp_path / name
        np.testing.assert_array_equal(table(path), [[1, NAN], [NAN, 0]])
        np.testing.assert_array_equal(table(path, absent_default="zero"), [[1, NAN], [NAN, 0]])
        np.testing.assert_array_equal(table(path, absent="zero"), [[1, 0], [NAN, 0]])


# ---------------------------------------------------------------- what does not apply


def bits(folder):
    """One file of each kind, all of which can be read without options."""
    wide = pl.DataFrame({"a": [1, 0], "b": [0, 1], "c": [1, 1], "d": [1, 0], "e": [0, 1]})
    wide.write_csv(folder / "wide.csv")
    wide.write_parquet(folder / "wide.parquet")
    long = pl.DataFrame({"user": ["a", "b"], "item": ["x", "y"], "v": [1, 0]})
    long.write_csv(folder / "triples.csv")
    long.write_parquet(folder / "triples.parquet")
    long[:, :2].write_csv(folder / "pairs.csv")
    long[:, :2].write_parquet(folder / "pairs.parquet")
    (folder / "t.fimi").write_text("1 2 3\n2 3\n")
    (folder / "u.data").write_text("1\t2\t3\t88\n2\t1\t5\t88\n")
    np.save(folder / "array.npy", wide.to_numpy())
    sparse = scipy.sparse.csr_array(wide.to_numpy())
    scipy.sparse.save_npz(folder / "sparse.npz", sparse)
    scipy.io.mmwrite(folder / "sparse.mtx", sparse)
    scipy.io.mmwrite(folder / "array.mtx", wide.to_numpy())
    image = pytest.importorskip("PIL.Image")
    image.fromarray(wide.to_numpy().astype(np.uint8) * 255).save(folder / "picture.png")


TEXT = {"delimiter", "header"}
LONG = {"layout", "columns", "absent", "duplicates"}
SPARSE = {"above", "absent", "duplicates"}
APPLIES = {
    "wide.csv": TEXT | {"layout", "labels", "above"},
    "wide.parquet": {"layout", "labels", "above"},
    "triples.csv": TEXT | LONG | {"above"},
    "triples.parquet": LONG | {"above"},
    "pairs.csv": TEXT | LONG,
    "pairs.parquet": LONG,
    "t.fimi": {"delimiter", "absent"},
    "u.data": {"above"},
    "array.npy": {"above"},
    "array.mtx": {"above"},
    "sparse.npz": SPARSE,
    "sparse.mtx": SPARSE,
    "picture.png": {"above"},
}
GIVEN = {
    "delimiter": {"dialect": Dialect(delimiter=",")},
    "header": {"dialect": Dialect(header=True)},
    "labels": {"dialect": Dialect(labels="no")},
    "above": {"above": 0.5},
    "absent": {"absent": "missing"},
    "duplicates": {"duplicates": "majority"},
}


@pytest.mark.parametrize("name", APPLIES)
def test_an_option_applies_or_is_refused(tmp_path, name):
    bits(tmp_path)
    path = tmp_path / name
    kind = "movielens" if name == "u.data" else None
    io.read(path, format=kind)
    long = 2 if name.startswith("pairs") else 3
    given = GIVEN | {
        "layout": {"dialect": Dialect(layout=name.split(".")[0] if "layout" in APPLIES[name]
                                      else "triples")},
        "columns": {"dialect": Dialect(columns=("1", "2", "3")[:long],
                                       layout=None if "columns" in APPLIES[name] else "wide")},
    }  # fmt: skip
    for option, options in given.items():
        if option in APPLIES[name]:
            io.read(path, format=kind, **options)
        else:
            with pytest.raises(FileError, match=rf"{name}: `.*does not apply") as caught:
                io.read(path, format=kind, **options)
            assert f"`{option}" in str(caught.value) or option == "columns"


def test_several_files_take_few_options(tmp_path):
    write_ratings(tmp_path)
    parts = [tmp_path / "part-1.parquet", tmp_path / "part-2.parquet"]
    by_number = io.read(parts, above=4, dialect=Dialect(columns=("1", "2", "3"))).observations
    by_name = io.read(parts, above=4, dialect=Dialect(columns=("user", "item", "v"))).observations
    np.testing.assert_array_equal(by_number.to_dense(), by_name.to_dense())
    for options in ({"absent": "zero"}, {"dialect": Dialect(labels="yes")}):
        with pytest.raises(FileError, match="does not apply to several files"):
            io.read(parts, above=4, **options)


def test_matrices_are_wide_and_models_are_what_they_are(tmp_path):
    import boolweave

    np.save(tmp_path / "a.npy", np.eye(3))
    np.testing.assert_array_equal(
        table(tmp_path / "a.npy", dialect=Dialect(layout="wide")), np.eye(3)
    )
    model = boolweave.BooleanMatrixFactorization(3, method="max-sum", random_state=0)
    model.fit(np.eye(3)).save(tmp_path / "m.npz")
    np.testing.assert_array_equal(table(tmp_path / "m.npz"), np.eye(3))
    with pytest.raises(FileError, match="`above` does not apply to a boolweave model"):
        io.read(tmp_path / "m.npz", above=1)


def test_transactions_with_another_delimiter(tmp_path):
    path = tmp_path / "t.fimi"
    path.write_text("green tea, rum\nrum,gin\n")
    seen = io.read(path, dialect=Dialect(delimiter=",")).observations
    assert seen.column_labels.tolist() == ["green tea", "rum", "gin"]
    np.testing.assert_array_equal(seen.to_dense(), [[1, 1, 0], [0, 1, 1]])


def test_columns_of_parquet_by_number(tmp_path):
    frame = pl.DataFrame({"time": [1, 2], "v": [1, 0], "user": ["a", "b"], "item": ["x", "x"]})
    frame.write_parquet(tmp_path / "t.parquet")
    by_number = table(tmp_path / "t.parquet", dialect=Dialect(columns=("3", "4", "2")))
    np.testing.assert_array_equal(by_number, [[1], [0]])
    with pytest.raises(FileError, match=r"t\.parquet: `columns`: there is no column 'whom'"):
        io.read(tmp_path / "t.parquet", dialect=Dialect(columns=("whom", "item", "v")))
    with pytest.raises(FileError, match="expected 2 columns for pairs"):
        io.read(tmp_path / "t.parquet", dialect=Dialect(layout="pairs", columns=("1", "2", "3")))


def test_a_table_called_ratings_may_be_any_table(tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_text("name;a;b;c;d\nx;1;0;1;1\ny;0;1;1;0\n")
    seen = io.read(path, dialect=Dialect(delimiter=";")).observations
    np.testing.assert_array_equal(seen.to_dense(), [[1, 0, 1, 1], [0, 1, 1, 0]])
    assert io.read(path).format == "csv"
    for name, text in (
        ("ratings.csv", "user,item,liked\nAnn,tea,1\nBo,tea,0\n"),
        ("u.data", "1 0\n"),
    ):
        (tmp_path / name).write_text(text)
        assert io.read(tmp_path / name).format == "csv"


def test_a_folder_is_no_table(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FileError, match=r"folder\.csv: expected a file, got a folder"):
        io.read(tmp_path / "folder.csv")


# ---------------------------------------------------------------- headers of long tables


@pytest.mark.parametrize(
    "first",
    ["user,item", "User ID,Item name", "customerid,product_id", "MovieName,Genres", "row,column"],
)
def test_names_above_pairs_are_no_pair(tmp_path, first):
    path = tmp_path / "pairs.csv"
    path.write_text(f"{first}\nann,tea\nbo,rum\nann,rum\n")
    seen = io.read(path).observations
    assert seen.row_labels.tolist() == ["ann", "bo"]
    assert seen.column_labels.tolist() == ["tea", "rum"]
    assert "first line is a header" in io.read(path).guess
    assert io.read(path, dialect=Dialect(header=False)).observations.shape == (3, 3)


@pytest.mark.parametrize(
    "first", ["ann,milk", "user,milk", "x,y", "user,item\nuser,tea", "tea,item\nbo,item"]
)
def test_pairs_without_names_above_keep_their_first_line(tmp_path, first):
    path = tmp_path / "pairs.csv"
    path.write_text(f"{first}\nbo,rum\nann,rum\n")
    assert "no header" in io.read(path).guess


def test_two_columns_of_categories_can_be_read_as_a_table(tmp_path):
    path, hint = tmp_path / "clothes.csv", "two columns of categories"
    path.write_text("colour,size\n" + "red,small\nblue,large\nred,large\n" * 4)
    pl.read_csv(path).write_parquet(tmp_path / "clothes.parquet")
    for file in (path, tmp_path / "clothes.parquet"):
        assert io.read(file).guess.endswith(f'; pass `layout="wide"` if these are {hint} to encode')
    encoded = io.read(path, dialect=Dialect(layout="wide"), encode="auto").observations
    assert encoded.column_labels.tolist() == [
        "colour = blue", "colour = red", "size = large", "size = small",
    ]  # fmt: skip
    assert hint not in io.read(path, dialect=Dialect(layout="pairs")).guess
    path.write_text("user,item\nann,tea\nbo,rum\n")
    assert hint not in io.read(path).guess


@pytest.mark.parametrize("first", ["name,a,b", "user,item", "user,item,value", '"a ""b""",c,d'])
@pytest.mark.parametrize("encode", ["auto", "always", "never"])
def test_only_a_header(tmp_path, first, encode):
    path = tmp_path / "header.csv"
    path.write_text(f"{first}\n")
    with pytest.raises(FileError, match="expected lines below the header, got only the header"):
        io.read(path, encode=encode)


@pytest.mark.parametrize(
    ("content", "columns", "header"),
    [
        ("user,7\nann,3\nbo,8\n", (), False),
        ("who,what\nann,3\nbo,8\n", (), True),
        ("user,item,y\nann,tea,1\nbo,rum,0\n", (), True),
        ("4,5,1\n6,7,0\n", (), False),
        ("a,b,1\n6,7,0\n8,9,1\n", (), True),
        # The value is not the third field.
        ("88,ann,tea,1\n89,bo,rum,0\n", ("2", "3", "4"), False),
        ("1,ann,tea,88\n0,bo,rum,89\n", ("2", "3", "1"), False),
        ("when,who,what,like\n88,ann,tea,1\n89,bo,rum,0\n", ("2", "3", "4"), True),
        ("0,user,item\n1,ann,tea\n", ("user", "item", "0"), True),
    ],
)
def test_headers_of_long_tables(tmp_path, content, columns, header):
    path = tmp_path / "long.csv"
    path.write_text(content)
    words = "first line is a header" if header else "no header"
    assert words in io.read(path, dialect=Dialect(columns=columns)).guess


def test_which_files_list_entries(tmp_path):
    """All that hold less than a whole matrix; `cover` takes what these leave out as zeros."""
    kinds = {name: content for part in (tables, markets) for name, content in part()}
    names = ("wide.csv", "triples.csv", "pairs.txt", "u.data", "baskets.fimi", "a.mtx", "c.mtx")
    found = {}
    for name in names:
        (tmp_path / name).write_bytes(kinds[name])
        found[name] = io.read(tmp_path / name).lists_entries
    assert [name for name in names if not found[name]] == ["wide.csv", "c.mtx"]
