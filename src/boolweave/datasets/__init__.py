"""Example tables that ship with the package, MovieLens, and planted problems with a known answer.

Tables for trying the library belong here; reading of users' files is in `boolweave.io`. Start with
`load_senate` and `make_boolean`.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from dataclasses import dataclass
from importlib.resources import files
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from boolweave.data.cells import MISSING
from boolweave.data.convert import from_codes
from boolweave.data.observations import Observations
from boolweave.model.products import Product, boolean_product, check_product
from boolweave.runtime.checks import check_count, generator_of, is_whole

__all__ = [
    "CONGRESSES",
    "Dataset",
    "Planted",
    "example_file",
    "fetch_movielens",
    "load_movielens",
    "load_movietweetings",
    "load_paleo",
    "load_senate",
    "load_votes84",
    "load_zoo",
    "make_boolean",
]

CONGRESSES = range(101, 108)

# What to cite, by the name of the data set.
_CITATIONS = {
    "senate": (
        "Lewis, Jeffrey B., Keith Poole, Howard Rosenthal, Adam Boche, Aaron Rudkin, and Luke "
        "Sonnet. Voteview: Congressional Roll-Call Votes Database. https://voteview.com/"
    ),
    "votes84": (
        "Congressional Voting Records (1987). UCI Machine Learning Repository. "
        "https://doi.org/10.24432/C5C01P. CC BY 4.0."
    ),
    "zoo": (
        "Forsyth, R. (1990). Zoo. UCI Machine Learning Repository. "
        "https://doi.org/10.24432/C5R59V. CC BY 4.0."
    ),
    "paleo": (
        "Puolamäki K, Fortelius M, Mannila H (2006). Seriation in Paleontological Data Using "
        "Markov Chain Monte Carlo Methods. PLOS Computational Biology 2(2): e6. "
        "https://doi.org/10.1371/journal.pcbi.0020006. CC BY 2.5."
    ),
    "movietweetings": (
        "Dooms S, De Pessemier T, Martens L (2013). MovieTweetings: a Movie Rating Dataset "
        "Collected From Twitter. Workshop on Crowdsourcing and Human Computation for "
        "Recommender Systems, CrowdRec at RecSys 2013. "
        "https://github.com/sidooms/MovieTweetings. MIT licence."
    ),
    "steak-risk-survey.csv": (
        "FiveThirtyEight (2014). How Americans Like Their Steak. "
        "https://github.com/fivethirtyeight/data. CC BY 4.0."
    ),
    "biodiversity-conversation.csv.gz": (
        "The Computational Democracy Project. Scoop Hivemind: biodiversity. "
        "https://github.com/compdemocracy/openData. CC BY 4.0."
    ),
    "movielens": (
        "F. Maxwell Harper and Joseph A. Konstan (2015). The MovieLens Datasets: History and "
        "Context. ACM Transactions on Interactive Intelligent Systems 5(4). "
        "https://doi.org/10.1145/2827872"
    ),
}


@dataclass(frozen=True, eq=False)
class Dataset:
    """A named table of observations with its provenance.

    Attributes
    ----------
    observations : Observations
        The known entries with row and column labels. Shape (M, N).
    name, description, citation : str
        Name, description, and the source to cite.
    row_groups : ndarray of shape (M,), str, or None
        A known grouping of the rows, such as the party of a representative.
    column_groups : ndarray of shape (N,), str, or None
        A known grouping of the columns.
    ratings : ndarray of shape (n_observed,), int8, or None
        The rating behind each observed entry, in the order of `observations`.
    """

    observations: Observations
    name: str
    description: str
    citation: str
    row_groups: NDArray[np.str_] | None = None
    column_groups: NDArray[np.str_] | None = None
    ratings: NDArray[np.int8] | None = None


def load_senate(congress: int = 107) -> Dataset:
    """Load votes of the United States Senate, roll calls x senators.

    A one is a yea and a zero a nay; other entries (absent, present, not a member at the time) are
    missing. Columns have names such as "Daschle (D-SD)" and are grouped by party. A senator who
    changed party during the Congress has one column per party.

    Parameters
    ----------
    congress : int
        Number of the Congress, 101 (1989) to 107 (2002).

    Returns
    -------
    Dataset
        ``column_groups`` of shape (N,) holds "Democrat", "Republican" or "Independent".

    Examples
    --------
    >>> from boolweave.datasets import load_senate
    >>> senate = load_senate(107)
    >>> senate.observations.shape
    (633, 102)
    """
    if not is_whole(congress):
        raise TypeError(f"congress must be a whole number, 101 to 107, got {congress!r}")
    if congress not in CONGRESSES:
        raise ValueError(
            f"congress must be one of 101 to 107, got {congress}; votes of other Congresses can be "
            "downloaded from voteview.com and read with Observations.from_triples"
        )
    first_year = 1787 + 2 * int(congress)
    return _load(
        f"senate-{congress}",
        f"Votes of the United States Senate, Congress {congress} ({first_year} to "
        f"{first_year + 2}): roll calls x senators, 1 = yea, 0 = nay, others missing.",
        _CITATIONS["senate"],
    )


def load_votes84() -> Dataset:
    """Load sixteen key votes of the House of Representatives in 1984.

    Returns
    -------
    Dataset
        The shape is (435, 16), representatives x votes, with 392 missing entries; ``row_groups`` of
        shape (435,) holds the parties.

    Examples
    --------
    >>> from boolweave.datasets import load_votes84
    >>> load_votes84().observations.n_observed
    6568
    """
    return _load(
        "votes84",
        "Key votes of the United States House of Representatives in 1984: representatives x "
        "votes, 1 = yea, 0 = nay, others missing.",
        _CITATIONS["votes84"],
    )


def example_file(name: str) -> Path:
    """The path of a file that ships with the package as it was published, to try how it is read.

    Parameters
    ----------
    name : {"steak-risk-survey.csv", "biodiversity-conversation.csv.gz"}
        A survey by FiveThirtyEight with two lines of names, or the votes of a conversation of the
        Computational Democracy Project.

    Returns
    -------
    Path

    Examples
    --------
    >>> from boolweave.datasets import example_file
    >>> from boolweave.io import read
    >>> read(example_file("steak-risk-survey.csv"), encode="auto").plan["Age"].levels
    ('18-29', '30-44', '45-60', '> 60')
    """
    known = [own for own in _CITATIONS if ".csv" in own]
    if name not in known:
        raise ValueError(f"there is no example file {name!r}; there are {', '.join(known)}")
    return Path(str(files(__package__) / "tables" / name))


def load_zoo() -> Dataset:
    """Load animals and their traits, animals x Boolean traits (without the number of legs).

    Returns
    -------
    Dataset
        The shape is (101, 15), without missing entries; ``row_groups`` of shape (101,) holds the
        classes of the animals.

    Examples
    --------
    >>> from boolweave.datasets import load_zoo
    >>> load_zoo().observations.shape
    (101, 15)
    """
    return _load(
        "zoo", "Animals x Boolean traits, 1 = the animal has the trait.", _CITATIONS["zoo"]
    )


def load_paleo() -> Dataset:
    """Load fossil finds, sites x genera of mammals.

    Returns
    -------
    Dataset
        The shape is (124, 139), without missing entries; ``row_groups`` of shape (124,) holds the
        age of a site as its unit in the Mammal Neogene (MN) scale, from MN 2, the oldest, to MN 17,
        the youngest.

    Examples
    --------
    >>> from boolweave.datasets import load_paleo
    >>> load_paleo().observations.shape
    (124, 139)
    """
    return _load(
        "paleo",
        "Fossil sites of the European Neogene x genera of land mammals, 1 = found at the site.",
        _CITATIONS["paleo"],
    )


def load_movietweetings() -> Dataset:
    """Load ratings of films that were collected from tweets in 2013, users x films.

    The table is a part of the snapshot of 100,000 ratings: of the 500 films that were rated most
    often, those with at least 10 ratings by the users in the table, and the users who rated at
    least 20 of these films. A one is a rating of 8 or more out of 10, and a zero is a lower one;
    films that a user did not rate are missing.

    Returns
    -------
    Dataset
        The shape is (563, 468), with 17,512 known entries; ``column_groups`` of shape (468,) holds
        the genres of a film, such as "Action|Sci-Fi", and ``ratings`` of shape (17512,) holds the
        ratings, 0 to 10.

    Examples
    --------
    >>> from boolweave.datasets import load_movietweetings
    >>> films = load_movietweetings()
    >>> films.observations.shape, films.observations.n_observed
    ((563, 468), 17512)
    >>> print(films.observations.column_labels[0], films.column_groups[0])
    Man of Steel (2013) Action|Adventure|Fantasy|Sci-Fi
    """
    return _load(
        "movietweetings",
        "Ratings of films, collected from tweets in 2013: users x films, 1 = rated 8 or more out "
        "of 10, 0 = rated lower, others missing.",
        _CITATIONS["movietweetings"],
    )


def load_movielens(path: str | PathLike[str]) -> Dataset:
    r"""Read a MovieLens data set from the user's own copy, users x films.

    A one is a rating above the mean of all ratings, a zero is one at or below it; films that a user
    did not rate are missing. Users and films without any rating are left out.

    Parameters
    ----------
    path : path
        One of the files u.data (tab-separated), ratings.dat (separated by ``::``) and ratings.csv,
        or a directory that holds one. Titles are taken from u.item, movies.dat or movies.csv next
        to it; without those, films are labelled by their numbers.

    Returns
    -------
    Dataset

    See Also
    --------
    fetch_movielens : download a data set.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from boolweave.datasets import load_movielens
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "u.data"
    ...     _ = file.write_text("1\t7\t5\t881250949\n2\t7\t1\t881250950\n")
    ...     movies = load_movielens(folder)
    >>> movies.observations.shape, movies.observations.values.tolist()
    ((2, 1), [1, 0])
    """
    ratings = read_movielens(path)
    observations = Observations.from_triples(
        ratings.rows,
        ratings.columns,
        (ratings.ratings > ratings.ratings.mean()).astype(np.uint8),
        shape=(len(ratings.users), len(ratings.films)),
        row_labels=ratings.users,
        column_labels=ratings.films,
    )
    return Dataset(
        observations=observations,
        name="movielens",
        description="MovieLens: users x films, 1 = rated above the mean of all ratings.",
        citation=_CITATIONS["movielens"],
    )


def _load(name: str, description: str, citation: str) -> Dataset:
    """Read one of the files that ship with the package."""
    packed = files("boolweave.datasets") / "tables" / f"{name}.npz"
    with packed.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        arrays = {key: stored[key] for key in stored.files}
    shape = (int(arrays["shape"][0]), int(arrays["shape"][1]))
    known, values = (
        np.unpackbits(arrays[key], count=shape[0] * shape[1]).reshape(shape)
        for key in ("known", "values")
    )
    codes = np.where(known, values, np.uint8(MISSING))
    labels = arrays["row_labels"], arrays["column_labels"]
    return Dataset(
        observations=Observations(*from_codes(codes, *labels)),
        name=name,
        description=description,
        citation=citation,
        row_groups=arrays.get("row_groups"),
        column_groups=arrays.get("column_groups"),
        ratings=arrays.get("ratings"),
    )


# ---------------------------------------------------------------- MovieLens


MOVIELENS_URL = "https://files.grouplens.org/datasets/movielens"

MOVIELENS_NAMES = ("ml-100k", "ml-1m", "ml-10m", "ml-20m", "ml-25m", "ml-32m", "ml-latest-small")

# File of ratings, its separator, whether it has a header, and the file of titles.
_FORMATS = {
    "u.data": ("\t", False, "u.item"),
    "ratings.dat": ("::", False, "movies.dat"),
    "ratings.csv": (",", True, "movies.csv"),
}


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings as triples, users and films numbered from 0."""

    rows: NDArray[np.int64]  # (n_ratings,) the user of each
    columns: NDArray[np.int64]  # (n_ratings,) and the film
    ratings: NDArray[np.float64]  # (n_ratings,)
    users: NDArray[np.str_]  # (M,) their numbers in the file
    films: NDArray[np.str_]  # (N,) titles where known, else their numbers
    times: NDArray[np.int64]  # (n_ratings,) in seconds since 1970


def read_movielens(path: str | PathLike[str]) -> Ratings:
    """Read u.data, ratings.dat or ratings.csv, or the one in a directory or in a folder of it."""
    import polars as pl

    file = _find_ratings(Path(path))
    separator, header, titles_name = _FORMATS[file.name]
    content, single = file.read_bytes(), separator
    if separator == "::":  # polars splits at single bytes only
        content, single = content.replace(b"::", b"\t"), "\t"
    try:
        frame = pl.read_csv(
            content,
            separator=single,
            has_header=False,
            skip_rows=1 if header else 0,
            schema={"user": pl.Int64, "film": pl.Int64, "rating": pl.Float64, "time": pl.Int64},
        )
    except pl.exceptions.PolarsError as error:
        raise ValueError(
            f"{file} must hold user, film, rating and time as numbers, separated by {separator!r}; "
            "download the data set again"
        ) from error
    if frame.height == 0 or frame.null_count().sum_horizontal().item() > 0:
        raise ValueError(
            f"{file} must hold a user, a film and a rating on each line, got an empty file or "
            "empty cells; download the data set again"
        )
    user_ids, rows = np.unique(frame["user"].to_numpy(), return_inverse=True)
    film_ids, columns = np.unique(frame["film"].to_numpy(), return_inverse=True)
    titles = _read_titles(file.with_name(titles_name))
    return Ratings(
        rows=rows.astype(np.int64),
        columns=columns.astype(np.int64),
        ratings=frame["rating"].to_numpy().astype(np.float64),
        users=user_ids.astype(np.str_),
        films=_film_labels(film_ids, titles),
        times=frame["time"].to_numpy(),
    )


def _find_ratings(path: Path) -> Path:
    """Find the file of ratings at `path`, in it, or in one of its subfolders."""
    if path.is_file() and path.name in _FORMATS:
        return path
    if path.is_dir():
        for folder in (path, *sorted(child for child in path.iterdir() if child.is_dir())):
            for name in _FORMATS:
                if (folder / name).is_file():
                    return folder / name
    raise FileNotFoundError(
        f"expected a MovieLens file {', '.join(_FORMATS)} or a directory that holds one, got "
        f"{path}; fetch_movielens downloads a data set"
    )


def _read_titles(file: Path) -> dict[int, str]:
    """Titles by film number; empty if there is no such file."""
    if not file.is_file():
        return {}
    if file.suffix == ".csv":
        with file.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.reader(stream))[1:]
    else:
        separator = "::" if file.suffix == ".dat" else "|"
        content = file.read_bytes()
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:  # the older sets are Latin-1
            text = content.decode("latin-1")
        rows = [line.split(separator) for line in text.splitlines()]
    return {int(row[0]): row[1].strip() for row in rows if len(row) > 1 and row[0].isdecimal()}


def _film_labels(film_ids: NDArray[np.int64], titles: dict[int, str]) -> NDArray[np.str_]:
    """A unique label for each film: its title, with its number if titles repeat or are missing."""
    names = [titles.get(film, "") for film in film_ids.tolist()]
    count = Counter(names)
    return np.array(
        [
            name if name and count[name] == 1 else f"{name} #{film}" if name else f"film {film}"
            for name, film in zip(names, film_ids.tolist(), strict=True)
        ],
        dtype=np.str_,
    )


def fetch_movielens(name: str, directory: str | PathLike[str]) -> Path:
    """Download and unpack a MovieLens data set, unless it is already there.

    The data sets are for research and must not be redistributed; each has its own README.

    Parameters
    ----------
    name : str
        "ml-100k", "ml-1m", "ml-10m", "ml-20m", "ml-25m", "ml-32m" or "ml-latest-small".
    directory : path
        The directory of the data set. If it is already there, it is not downloaded again.

    Returns
    -------
    Path
        The folder of the data set, for `load_movielens`.
    """
    import shutil
    import tempfile
    import urllib.request
    import zipfile

    if name not in MOVIELENS_NAMES:
        raise ValueError(f"name must be one of {', '.join(MOVIELENS_NAMES)}, got {name!r}")
    target = Path(directory) / name
    if target.is_dir():
        return _find_ratings(target).parent
    url = f"{MOVIELENS_URL}/{name}.zip"
    target.parent.mkdir(parents=True, exist_ok=True)
    download_timeout_seconds = 60
    # Everything happens in a temporary folder next to the target, so that an interrupted download
    # leaves nothing that looks like a finished one.
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        archive = Path(scratch) / "set.zip"
        try:
            with (
                urllib.request.urlopen(url, timeout=download_timeout_seconds) as response,
                archive.open("wb") as file,
            ):
                shutil.copyfileobj(response, file)
        except OSError as error:
            raise ConnectionError(
                f"could not download {url} ({error}); download it in another way, unpack it and "
                "pass its folder to load_movielens"
            ) from error
        unpacked = Path(scratch) / "unpacked"
        try:
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(unpacked)
        except zipfile.BadZipFile as error:
            raise ValueError(
                f"{url} must be a zip file, got something else ({error}); try again later"
            ) from error
        _find_ratings(unpacked)
        unpacked.rename(target)
    return _find_ratings(target).parent


# ---------------------------------------------------------------- planted problems

_NUMBERS = (int, float, np.integer, np.floating)

RandomState = int | np.random.Generator | np.random.RandomState | None


@dataclass(frozen=True, eq=False)
class Planted:
    """A problem drawn by `make_boolean`, with its answer.

    Attributes
    ----------
    observations : Observations
        The observed entries, including flipped ones. Shape (M, N).
    X : ndarray of shape (M, K), uint8
        Row factor.
    Y : ndarray of shape (K, N), uint8
        Column factor.
    Z : ndarray of shape (M, N), uint8
        Boolean product of X and Y, without noise and missing entries.
    """

    observations: Observations
    X: NDArray[np.uint8]
    Y: NDArray[np.uint8]
    Z: NDArray[np.uint8]


def make_boolean(
    n_rows: int = 1000,
    n_columns: int = 1000,
    n_components: int = 5,
    *,
    product: Product = "or",
    row_density: float | None = None,
    column_density: float | None = None,
    flip: float | tuple[float, float] = 0.0,
    observed: float | int = 1.0,
    random_state: RandomState = None,
) -> Planted:
    """Draw random factors, multiply them, flip some entries and hide others.

    Parameters
    ----------
    n_rows, n_columns, n_components : int
        M, N and K.
    product : {"or", "xor"}
        How the K terms of an entry are combined.
    row_density, column_density : float, optional
        P(x = 1) and P(y = 1). By default, the expected fraction of ones in Z is one half: for "or",
        both densities are sqrt(1 - 0.5 ** (1 / K)); for "xor", both are 1/2. If only one of the two
        is given for "or", the other is chosen so that the fraction is again one half, and an error
        is raised if that is impossible.
    flip : float or pair of float
        Probability that an entry is flipped, or the pair (p(1 observed | 0), p(0 observed | 1)).
    observed : float or int
        Fraction of the entries that are observed, in (0, 1], or their number, a whole number >= 2.
        They are drawn without replacement, ``round(observed * M * N)`` of them for a fraction.
    random_state : int, numpy Generator or RandomState, optional
        Random seed; equal seeds give equal problems.

    Returns
    -------
    Planted

    Examples
    --------
    >>> from boolweave.datasets import make_boolean
    >>> planted = make_boolean(20, 30, 3, flip=0.1, observed=0.5, random_state=0)
    >>> planted.X.shape, planted.Y.shape, planted.Z.shape
    ((20, 3), (3, 30), (20, 30))
    >>> planted.observations.n_observed
    300
    """
    for name, size in (
        ("n_rows", n_rows),
        ("n_columns", n_columns),
        ("n_components", n_components),
    ):
        check_count(name, size)
    check_product(product)
    row_p, column_p = _densities(int(n_components), product, row_density, column_density)
    one_given_zero, zero_given_one = _flip_pair(flip)
    n_entries = int(n_rows) * int(n_columns)
    n_observed = _n_observed(observed, n_entries)
    rng = _generator(random_state)

    X = (rng.random((n_rows, n_components)) < row_p).astype(np.uint8)
    Y = (rng.random((n_components, n_columns)) < column_p).astype(np.uint8)
    Z = boolean_product(X, Y, product)
    if n_observed == n_entries:
        entries = np.arange(n_entries, dtype=np.int64)
    else:
        entries = np.sort(rng.choice(n_entries, size=n_observed, replace=False, shuffle=False))
    truth = Z.ravel()[entries]
    # One number is drawn per entry, so that factors and observed entries of a seed do not depend on
    # the flip probabilities.
    wrong = rng.random(n_observed) < np.where(truth == 1, zero_given_one, one_given_zero)
    rows, columns = np.divmod(entries, n_columns)
    observations = Observations.from_triples(
        rows, columns, truth ^ wrong.astype(np.uint8), shape=(int(n_rows), int(n_columns))
    )
    return Planted(observations=observations, X=X, Y=Y, Z=Z)


def _densities(
    n_components: int, product: Product, row: float | None, column: float | None
) -> tuple[float, float]:
    """P(x = 1) and P(y = 1), with defaults for those that are not given."""
    for name, density in (("row_density", row), ("column_density", column)):
        if density is not None:
            _check_probability(name, density)
    if product == "xor":
        return (0.5 if row is None else float(row), 0.5 if column is None else float(column))
    # P(z = 0) = (1 - p_x p_y)^K = 1/2 fixes the product of the two densities.
    both = 1.0 - 0.5 ** (1.0 / n_components)
    if row is not None and column is not None:
        return float(row), float(column)
    given = column if row is None else row
    if given is None:
        return math.sqrt(both), math.sqrt(both)
    given = float(given)
    if given < both:
        raise ValueError(
            f"with a density of {given} for one factor, fewer than half of Z are ones whatever the "
            f"other is (at least {both:.4g} is needed); pass both row_density and column_density"
        )
    return (both / given, given) if row is None else (given, both / given)


def _flip_pair(flip: float | tuple[float, float]) -> tuple[float, float]:
    """`flip` as (p(1 observed | 0), p(0 observed | 1))."""
    pair = (flip, flip) if isinstance(flip, _NUMBERS) else flip
    if not isinstance(pair, tuple | list | np.ndarray) or len(pair) != 2:
        raise ValueError(f"flip must be a number or a pair (p(1|0), p(0|1)), got {flip!r}")
    for probability in pair:
        _check_probability("flip", probability)
    return float(pair[0]), float(pair[1])  # type: ignore[arg-type]


def _n_observed(observed: float | int, n_entries: int) -> int:
    """Return the number of observed entries, from a fraction or a count."""
    if isinstance(observed, bool) or not isinstance(observed, _NUMBERS):
        raise TypeError(f"observed must be a fraction in (0, 1] or a count >= 2, got {observed!r}")
    if isinstance(observed, (int, np.integer)) and observed != 1:
        if not 2 <= observed <= n_entries:
            raise ValueError(
                f"observed as a count must lie between 2 and M*N = {n_entries}, got {observed}"
            )
        return int(observed)
    if not 0 < observed <= 1:
        raise ValueError(
            f"observed must be a fraction in (0, 1] or a whole number >= 2, got {observed!r}"
        )
    return max(1, round(float(observed) * n_entries))


def _check_probability(name: str, value: object) -> None:
    if not isinstance(value, _NUMBERS) or not 0 <= value <= 1:
        raise ValueError(f"{name} must be a probability between 0 and 1, got {value!r}")


def _generator(random_state: RandomState) -> np.random.Generator:
    """A generator from any kind of seed that scikit-learn accepts."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31, size=4))
    return generator_of(random_state)
