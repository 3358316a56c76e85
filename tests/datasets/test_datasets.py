"""The shipped data, the planted problems and the MovieLens reader."""

from __future__ import annotations

import zipfile
from dataclasses import FrozenInstanceError
from importlib.resources import files

import numpy as np
import pytest

from boolweave import datasets
from boolweave.datasets import (
    example_file,
    fetch_movielens,
    load_movielens,
    load_movietweetings,
    load_paleo,
    load_senate,
    load_votes84,
    load_zoo,
    make_boolean,
)
from boolweave.io import read
from boolweave.model.products import boolean_product

LOADERS = {
    **{f"senate-{c}": (lambda c=c: load_senate(c)) for c in datasets.CONGRESSES},
    "votes84": load_votes84,
    "zoo": load_zoo,
    "paleo": load_paleo,
    "movietweetings": load_movietweetings,
}


@pytest.mark.parametrize("name", LOADERS)
def test_every_shipped_set_is_labelled_and_attributed(name):
    data = LOADERS[name]()
    observations = data.observations
    assert data.name == name
    assert data.description
    assert "http" in data.citation
    assert (data.ratings is None) == (name != "movietweetings")
    for labels, groups, size in (
        (observations.row_labels, data.row_groups, observations.shape[0]),
        (observations.column_labels, data.column_groups, observations.shape[1]),
    ):
        assert len(labels) == len(set(labels)) == size
        assert groups is None or groups.shape == (size,)
    with pytest.raises(FrozenInstanceError):
        data.name = "other"


def test_the_shipped_files_are_small():
    packed = [
        f
        for f in files("boolweave.datasets").joinpath("tables").iterdir()
        if f.name.endswith(".npz")
    ]
    assert len(packed) == len(LOADERS)
    assert sum(len(file.read_bytes()) for file in packed) < 200_000


VOTES = (638, 550, 724, 919, 612, 672, 633)
SENATORS = (101, 102, 102, 103, 100, 102, 102)


@pytest.mark.parametrize(
    ("congress", "n_votes", "n_senators"),
    [*zip(datasets.CONGRESSES, VOTES, SENATORS, strict=True)],
)
def test_senate(congress, n_votes, n_senators):
    data = load_senate(congress)
    observations = data.observations
    assert observations.shape == (n_votes, n_senators)
    assert 0.94 < observations.n_observed / (n_votes * n_senators) < 0.985
    assert 0.62 < observations.values.mean() < 0.70
    assert set(data.column_groups) <= {"Democrat", "Republican", "Independent"}
    assert 40 <= (data.column_groups == "Democrat").sum() <= 60
    for label, party in zip(observations.column_labels, data.column_groups, strict=True):
        assert f"({party[0]}-" in label


def test_senate_names():
    labels = set(load_senate().observations.column_labels)
    assert {"Daschle (D-SD)", "McCain (R-AZ)", "DeWine (R-OH)", "Ben Nelson (D-NE)"} < labels
    assert {"Bill Nelson (D-FL)", "Jeffords (R-VT)", "Jeffords (I-VT)"} < labels
    assert "D'Amato (R-NY)" in list(load_senate(104).observations.column_labels)


def test_senate_votes_follow_the_parties():
    data = load_senate(107)
    dense = data.observations.to_dense().astype(float)
    majority = {}
    for party in ("Democrat", "Republican"):
        majority[party] = np.nanmean(dense[:, data.column_groups == party], axis=1) > 0.5
    daschle = dense[:, list(data.observations.column_labels).index("Daschle (D-SD)")]
    known = ~np.isnan(daschle)
    agrees = {p: np.mean(daschle[known] == m[known]) for p, m in majority.items()}
    assert agrees["Democrat"] > 0.9 > agrees["Republican"]


@pytest.mark.parametrize("congress", [100, 108, -1])
def test_unknown_congress(congress):
    with pytest.raises(ValueError, match=f"101 to 107, got {congress}; .*voteview"):
        load_senate(congress)


@pytest.mark.parametrize("congress", ["107", 107.0, None, True])
def test_congress_that_is_no_number(congress):
    with pytest.raises(TypeError, match="whole number"):
        load_senate(congress)


def test_votes84():
    data = load_votes84()
    assert data.observations.shape == (435, 16)
    assert data.observations.n_observed == 435 * 16 - 392
    assert data.observations.column_labels[0] == "handicapped-infants"
    assert (data.row_groups == "Democrat").sum() == 267
    assert (data.row_groups == "Republican").sum() == 168


def test_zoo():
    data = load_zoo()
    observations = data.observations
    assert observations.shape == (101, 15)
    assert observations.n_observed == 101 * 15
    assert "legs" not in list(observations.column_labels)
    assert [name for name in observations.row_labels if "frog" in name] == ["frog", "frog 2"]
    milk = observations.to_dense()[:, list(observations.column_labels).index("milk")]
    np.testing.assert_array_equal(milk == 1, data.row_groups == "mammal")


def test_paleo():
    data = load_paleo()
    assert data.observations.shape == (124, 139)
    assert data.observations.n_observed == 124 * 139
    assert data.observations.values.mean() == pytest.approx(0.115, abs=0.001)
    assert data.row_groups[0] == "MN 2"
    assert not any("*" in label for label in data.observations.row_labels)


def test_movietweetings():
    data = load_movietweetings()
    seen = data.observations
    assert seen.shape == (563, 468)
    assert seen.n_observed == 17_512
    np.testing.assert_array_equal(seen.values, data.ratings >= 8)
    assert set(data.ratings) == set(range(11))
    assert np.bincount(seen.rows_of_entries()).min() == 20
    assert np.bincount(seen.indices).min() == 10
    genres = dict(zip(seen.column_labels, data.column_groups, strict=True))
    assert genres["The Godfather (1972)"] == "Crime|Drama"


def test_movietweetings_carries_the_notice_that_its_licence_asks_for():
    tables = files("boolweave.datasets").joinpath("tables")
    notice = tables.joinpath("movietweetings-LICENSE.txt").read_text(encoding="utf-8")
    assert "Copyright (c) 2013 Simon Dooms" in notice
    assert "this permission notice shall be included" in notice


@pytest.mark.parametrize("product", ["or", "xor"])
@pytest.mark.parametrize("n_components", [1, 5, 20])
def test_share_of_ones_in_a_planted_matrix(product, n_components):
    # OR: one half by the choice of the densities. XOR: each term is one with probability 1/4.
    expected = 0.5 if product == "or" else (1 - 0.5**n_components) / 2
    shares = [
        make_boolean(200, 200, n_components, product=product, random_state=seed).Z.mean()
        for seed in range(20)
    ]
    assert np.mean(shares) == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize("product", ["or", "xor"])
def test_planted_parts_fit_together(product):
    planted = make_boolean(40, 30, 4, product=product, random_state=1)
    assert planted.X.shape == (40, 4)
    assert planted.Y.shape == (4, 30)
    assert planted.X.dtype == planted.Y.dtype == planted.Z.dtype == np.uint8
    np.testing.assert_array_equal(planted.Z, boolean_product(planted.X, planted.Y, product))
    np.testing.assert_array_equal(planted.observations.to_dense(), planted.Z)


def test_planted_densities():
    planted = make_boolean(3000, 2000, 4, row_density=0.2, column_density=0.7, random_state=0)
    assert planted.X.mean() == pytest.approx(0.2, abs=0.02)
    assert planted.Y.mean() == pytest.approx(0.7, abs=0.02)
    other = make_boolean(3000, 3000, 2, row_density=0.5, random_state=0)
    assert other.Z.mean() == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("flip", [0.1, (0.05, 0.3), (0.0, 1.0)])
def test_planted_flips(flip):
    planted = make_boolean(400, 400, 3, flip=flip, random_state=0)
    seen = planted.observations.to_dense()
    one_given_zero, zero_given_one = (flip, flip) if isinstance(flip, float) else flip
    assert np.mean(seen[planted.Z == 0]) == pytest.approx(one_given_zero, abs=0.01)
    assert 1 - np.mean(seen[planted.Z == 1]) == pytest.approx(zero_given_one, abs=0.01)


@pytest.mark.parametrize(
    ("observed", "count"), [(1.0, 600), (1, 600), (0.5, 300), (0.0001, 1), (2, 2), (600, 600)]
)
def test_planted_number_of_observations(observed, count):
    planted = make_boolean(20, 30, 2, observed=observed, random_state=0)
    observations = planted.observations
    assert observations.n_observed == count
    rows = np.repeat(np.arange(20), np.diff(observations.indptr))
    np.testing.assert_array_equal(observations.values, planted.Z[rows, observations.indices])


def test_planted_observations_are_spread_evenly():
    counts = np.zeros((10, 10))
    for seed in range(500):
        dense = make_boolean(10, 10, 1, observed=0.3, random_state=seed).observations.to_dense()
        counts += ~np.isnan(dense.astype(float))
    assert counts.min() > 100
    assert counts.max() < 200


def test_planted_seeds():
    def draw(seed, **options):
        return make_boolean(30, 20, 3, flip=0.2, observed=0.5, random_state=seed, **options)

    first, again, other = draw(7), draw(7), draw(8)
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.Y, again.Y)
    np.testing.assert_array_equal(first.observations.indices, again.observations.indices)
    np.testing.assert_array_equal(first.observations.values, again.observations.values)
    assert not np.array_equal(first.X, other.X)
    for make in (np.random.default_rng, np.random.RandomState):
        np.testing.assert_array_equal(draw(make(3)).Z, draw(make(3)).Z)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_rows": 0}, "n_rows must be a whole number >= 1, got 0"),
        ({"n_columns": 2.5}, "n_columns"),
        ({"n_components": -1}, "n_components"),
        ({"product": "and"}, '"or" or "xor"'),
        ({"row_density": 1.5}, "row_density must be a probability"),
        ({"column_density": float("nan")}, "column_density must be a probability"),
        ({"row_density": 0.01}, "pass both"),
        ({"flip": -0.1}, "flip must be a probability"),
        ({"flip": (0.1, 0.2, 0.3)}, "pair"),
        ({"flip": (0.1, 2)}, "flip must be a probability"),
        ({"observed": 0.0}, r"fraction in \(0, 1\]"),
        ({"observed": 0}, "between 2 and"),
        ({"observed": 1.5}, r"fraction in \(0, 1\]"),
        ({"observed": 10**9}, "between 2 and"),
        ({"observed": "half"}, "fraction"),
    ],
)
def test_planted_bad_input(options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make_boolean(**{"n_rows": 10, "n_columns": 10, "n_components": 2, **options})


TRIPLES = [(1, 10, 5), (1, 20, 3), (2, 10, 1), (5, 30, 4)]
MEAN = np.mean([rating for *_, rating in TRIPLES])


def write_ratings(folder, name):
    separator = {"u.data": "\t", "ratings.dat": "::", "ratings.csv": ","}[name]
    lines = [separator.join(map(str, (*triple, 881250949))) for triple in TRIPLES]
    if name == "ratings.csv":
        lines.insert(0, "userId,movieId,rating,timestamp")
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


@pytest.mark.parametrize("name", ["u.data", "ratings.dat", "ratings.csv"])
@pytest.mark.parametrize("where", ["file", "folder", "parent"])
def test_movielens_formats(tmp_path, name, where):
    folder = tmp_path / "ml"
    folder.mkdir()
    file = write_ratings(folder, name)
    data = load_movielens({"file": file, "folder": folder, "parent": tmp_path}[where])
    assert data.observations.shape == (3, 3)
    assert list(data.observations.row_labels) == ["1", "2", "5"]
    assert list(data.observations.column_labels) == ["film 10", "film 20", "film 30"]
    expected = np.full((3, 3), np.nan)
    for user, film, rating in TRIPLES:
        expected[[1, 2, 5].index(user), [10, 20, 30].index(film)] = rating > MEAN
    np.testing.assert_array_equal(data.observations.to_dense().astype(float), expected)
    assert "Harper" in data.citation


@pytest.mark.parametrize(
    ("ratings", "titles", "content"),
    [
        ("u.data", "u.item", "10|Amélie (2001)|x\n20|Twin|x\n30|Twin|x\n".encode("latin-1")),
        ("ratings.dat", "movies.dat", "10::Amélie (2001)::x\n20::Twin::x\n30::Twin::x\n".encode()),
        (
            "ratings.csv",
            "movies.csv",
            'movieId,title,genres\n10,"Amélie (2001)",x\n20,Twin,x\n30,Twin,x\n'.encode(),
        ),
    ],
)
def test_movielens_titles(tmp_path, ratings, titles, content):
    write_ratings(tmp_path, ratings)
    (tmp_path / titles).write_bytes(content)
    labels = list(load_movielens(tmp_path).observations.column_labels)
    assert labels == ["Amélie (2001)", "Twin #20", "Twin #30"]


def test_movielens_half_stars_are_read(tmp_path):
    (tmp_path / "ratings.csv").write_text(
        "userId,movieId,rating,timestamp\n1,1,4,5\n1,2,3.5,6\n2,1,4.5,6\n"
    )
    assert load_movielens(tmp_path).observations.values.tolist() == [0, 0, 1]


def test_movielens_absent(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"u\.data, ratings\.dat, ratings\.csv"):
        load_movielens(tmp_path)
    with pytest.raises(FileNotFoundError, match="fetch_movielens"):
        load_movielens(tmp_path / "nowhere")


@pytest.mark.parametrize("content", ["", "1\t2\n", "a\tb\tc\td\n", "1\t\t3\t4\n"])
def test_movielens_damaged(tmp_path, content):
    (tmp_path / "u.data").write_text(content)
    with pytest.raises(ValueError, match="ownload the data set again"):
        load_movielens(tmp_path)


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A folder that stands in for the server."""
    folder = tmp_path / "server"
    folder.mkdir()
    monkeypatch.setattr(datasets, "MOVIELENS_URL", folder.as_uri())
    return folder


def test_fetch_unpacks_once(tmp_path, server):
    file = write_ratings(tmp_path, "u.data")
    with zipfile.ZipFile(server / "ml-100k.zip", "w") as archive:
        archive.write(file, "ml-100k/u.data")
    folder = fetch_movielens("ml-100k", tmp_path / "copies")
    assert load_movielens(folder).observations.n_observed == len(TRIPLES)
    (server / "ml-100k.zip").unlink()
    assert fetch_movielens("ml-100k", tmp_path / "copies") == folder


def test_fetch_without_network_leaves_nothing_behind(tmp_path, server):
    with pytest.raises(ConnectionError, match=r"ml-1m\.zip .* load_movielens"):
        fetch_movielens("ml-1m", tmp_path / "copies")
    assert list((tmp_path / "copies").iterdir()) == []


def test_fetch_of_something_else(tmp_path, server):
    (server / "ml-1m.zip").write_text("<html>moved</html>")
    with pytest.raises(ValueError, match="must be a zip file"):
        fetch_movielens("ml-1m", tmp_path / "copies")
    with pytest.raises(ValueError, match=r"ml-100k, .* got 'ml-2'"):
        fetch_movielens("ml-2", tmp_path)


def test_files_as_they_were_published():
    survey = read(example_file("steak-risk-survey.csv"), encode="auto")
    assert survey.observations.shape == (550, 35) and "two lines of names" in survey.guess
    votes = read(example_file("biodiversity-conversation.csv.gz"), encode="auto").observations
    assert votes.n_rows == 536
    with pytest.raises(
        ValueError, match=r"no example file 'steak\.csv'; there are steak-risk-surv"
    ):
        example_file("steak.csv")
