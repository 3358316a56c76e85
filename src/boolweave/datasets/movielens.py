"""Reading and downloading the MovieLens data sets, which must not be redistributed."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

MOVIELENS_URL = "https://files.grouplens.org/datasets/movielens"

MOVIELENS_NAMES = ("ml-100k", "ml-1m", "ml-10m", "ml-20m", "ml-25m", "ml-32m", "ml-latest-small")

# File of ratings, its separator, whether it has a header, and the file of titles.
_FORMATS = {
    "u.data": ("\t", False, "u.item"),
    "ratings.dat": ("::", False, "movies.dat"),
    "ratings.csv": (",", True, "movies.csv"),
}

DOWNLOAD_TIMEOUT_SECONDS = 60


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
        first = str(error).splitlines()[0][:200]
        raise ValueError(
            f"{file} must hold user, film, rating and time, separated by {separator!r}; "
            f"it could not be read ({first}). Download the data set again."
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


def is_movielens(file: Path, name: str) -> bool:
    """Whether a file of this name has the fields of MovieLens in its first line.

    Other tables may be called ratings.csv, too.
    """
    if name not in _FORMATS:
        return False
    separator, header, _ = _FORMATS[name]
    with file.open("rb") as stream:
        line = stream.readline(1000).decode("utf-8-sig", "replace").strip()
    fields = line.split(separator)
    if header:
        return fields == ["userId", "movieId", "rating", "timestamp"]
    return len(fields) == 4 and all(field.replace(".", "", 1).isdecimal() for field in fields)


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
    # Everything happens in a temporary folder next to the target, so that an interrupted download
    # leaves nothing that looks like a finished one.
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        archive = Path(scratch) / "set.zip"
        try:
            with (
                urllib.request.urlopen(url, timeout=DOWNLOAD_TIMEOUT_SECONDS) as response,
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
