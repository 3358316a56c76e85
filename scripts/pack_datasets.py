"""Pack the raw example data into the compact files that ship with the package.

Set the environment variable BOOLWEAVE_DATA to a directory that holds the folders

- senate: S101_votes.csv, S101_members.csv, ... S107_members.csv (voteview.com, CSV per Congress)
- votes: house-votes-84.data.txt and house-votes-84.names.txt (UCI)
- zoo: zoo.data.txt and zoo.names.txt (UCI)
- paleo: g10s10.txt, g10s10.sites and g10s10.genus (supplement of Puolamäki et al. 2006)
- movietweetings: ratings.dat, movies.dat and LICENSE (github.com/sidooms/MovieTweetings)

and run ``python scripts/pack_datasets.py``. Every output file holds the known entries and their
values as packed bits, and the names as arrays of strings; equal input gives equal bytes.
"""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import sys
import zipfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

OUTPUT = Path(__file__).resolve().parents[1] / "src" / "boolweave" / "datasets" / "tables"
CONGRESSES = range(101, 108)
PRESIDENTS = {"99908", "99909", "99910"}
YEA, NAY = {"1", "2", "3"}, {"4", "5", "6"}
PARTIES = {"100": "Democrat", "200": "Republican", "328": "Independent"}
ZOO_CLASSES = ("mammal", "bird", "reptile", "fish", "amphibian", "insect", "invertebrate")
MISSING = -1
MOST_RATED_FILMS = 500
RATINGS_OF_A_USER, RATINGS_OF_A_FILM = 20, 10  # minimum numbers
GOOD = 8  # of 10; the mean of all ratings is 7.3


def main() -> None:
    """Write every packed file and print its size."""
    if "BOOLWEAVE_DATA" not in os.environ:
        sys.exit("BOOLWEAVE_DATA must name the directory of the raw files; it is not set")
    source = Path(os.environ["BOOLWEAVE_DATA"])
    OUTPUT.mkdir(parents=True, exist_ok=True)
    for congress in CONGRESSES:
        pack_senate(source / "senate", congress)
    pack_votes84(source / "votes")
    pack_zoo(source / "zoo")
    pack_paleo(source / "paleo")
    pack_movietweetings(source / "movietweetings")


def pack_senate(folder: Path, congress: int) -> None:
    """Roll calls x senators of one Congress."""
    members = {
        row["icpsr"]: row
        for row in read_table(folder / f"S{congress}_members.csv")
        if row["icpsr"] not in PRESIDENTS
    }
    votes = [
        row
        for row in read_table(folder / f"S{congress}_votes.csv")
        if row["icpsr"] not in PRESIDENTS
    ]
    icpsr = sorted({row["icpsr"] for row in votes}, key=int)
    labels = senator_labels([members[number] for number in icpsr])
    surnames = [surname(members[number]["bioname"]) for number in icpsr]
    order = sorted(range(len(icpsr)), key=lambda index: (surnames[index], labels[index]))
    column_of = {icpsr[index]: column for column, index in enumerate(order)}
    rolls = sorted({int(row["rollnumber"]) for row in votes})
    row_of = {roll: row for row, roll in enumerate(rolls)}
    matrix = np.full((len(rolls), len(icpsr)), MISSING, dtype=np.int8)
    for vote in votes:
        code = vote["cast_code"]
        if code in YEA or code in NAY:
            matrix[row_of[int(vote["rollnumber"])], column_of[vote["icpsr"]]] = code in YEA
    write(
        f"senate-{congress}",
        matrix,
        row_labels=[f"roll call {roll}" for roll in rolls],
        column_labels=[labels[index] for index in order],
        column_groups=[PARTIES[members[icpsr[index]]["party_code"]] for index in order],
    )


def senator_labels(members: list[dict[str, str]]) -> list[str]:
    """Readable names such as "Daschle (D-SD)", with a first name where surnames repeat.

    Somebody who changed party within a Congress is listed twice, once per party.
    """
    people: dict[str, set[str]] = defaultdict(set)
    for member in members:
        people[surname(member["bioname"])].add(member["bioguide_id"])
    labels = []
    for member in members:
        name = surname(member["bioname"])
        if len(people[name]) > 1:
            name = f"{first_name(member['bioname'])} {name}"
        labels.append(f"{name} ({PARTIES[member['party_code']][0]}-{member['state_abbrev']})")
    return labels


def surname(bioname: str) -> str:
    """ "McCAIN, John Sidney, III" -> "McCain"; the source already marks Mc and De."""
    return re.sub(r"[A-Z]+", lambda run: run[0].capitalize(), bioname.split(",")[0])


def first_name(bioname: str) -> str:
    """The name in brackets, or else the first given name that is not an initial."""
    given = bioname.split(",")[1]
    nickname = re.search(r"\((\w+)\)\s*$", bioname)
    if nickname:
        return nickname[1]
    words = [word for word in given.split() if not word.endswith(".")]
    return words[0]


def pack_votes84(folder: Path) -> None:
    """Representatives x key votes of 1984."""
    names = (folder / "house-votes-84.names.txt").read_text()
    columns = re.findall(r"^\s+\d+\. ([a-z-]+): 2 \(y,n\)", names, flags=re.MULTILINE)
    lines = (folder / "house-votes-84.data.txt").read_text().split()
    cells = [line.split(",") for line in lines]
    code = {"y": 1, "n": 0, "?": MISSING}
    write(
        "votes84",
        np.array([[code[cell] for cell in row[1:]] for row in cells], dtype=np.int8),
        row_labels=[f"representative {number}" for number in range(1, len(cells) + 1)],
        column_labels=columns,
        row_groups=[row[0].capitalize() for row in cells],
    )


def pack_zoo(folder: Path) -> None:
    """Animals x Boolean traits; the number of legs is left out."""
    names = (folder / "zoo.names.txt").read_text()
    traits = re.findall(r"^\s+(\d+)\. (\w+)\s+Boolean", names, flags=re.MULTILINE)
    cells = [line.split(",") for line in (folder / "zoo.data.txt").read_text().split()]
    write(
        "zoo",
        np.array([[int(row[int(at) - 1]) for at, _ in traits] for row in cells], dtype=np.int8),
        row_labels=unique([row[0] for row in cells]),
        column_labels=[name for _, name in traits],
        row_groups=[ZOO_CLASSES[int(row[-1]) - 1] for row in cells],
    )


def pack_paleo(folder: Path) -> None:
    """Fossil sites x genera; the marks of hard sites are dropped, the MN units become groups."""
    lines = (folder / "g10s10.txt").read_text().splitlines()
    n_sites, n_genera = (int(size) for size in lines[0].split())
    matrix = np.array([line.split()[:n_genera] for line in lines[1 : n_sites + 1]]).astype(np.int8)
    sites = [
        re.fullmatch(r"(\S+) \[(\w+),([\d.]+)\]\s*\*?\s*", line)
        for line in (folder / "g10s10.sites").read_text().splitlines()
    ]
    write(
        "paleo",
        matrix,
        row_labels=unique([clean(site[1]) for site in sites if site]),
        column_labels=unique([clean(g) for g in (folder / "g10s10.genus").read_text().split()]),
        row_groups=[f"MN {site[2]}" for site in sites if site],
    )


def pack_movietweetings(folder: Path) -> None:
    """Users x films: the films rated most often, and the users who rated many of them."""
    ratings: dict[tuple[int, str], int] = {}
    for line in (folder / "ratings.dat").read_text().splitlines():
        user, film, rating, _ = line.split("::")
        ratings[int(user), film] = int(rating)
    count = Counter(film for _, film in ratings)
    films = sorted(count, key=lambda film: (-count[film], film))[:MOST_RATED_FILMS]
    users, before = sorted({user for user, _ in ratings}), 0
    while before != len(users) + len(films):  # until neither users nor films are left out
        before = len(users) + len(films)
        chosen = set(films)
        of_user = Counter(user for user, film in ratings if film in chosen)
        users = [user for user in users if of_user[user] >= RATINGS_OF_A_USER]
        active = set(users)
        of_film = Counter(film for user, film in ratings if user in active)
        films = [film for film in films if of_film[film] >= RATINGS_OF_A_FILM]
    stars = np.full((len(users), len(films)), MISSING, dtype=np.int8)
    row_of, column_of = ({line: at for at, line in enumerate(lines)} for lines in (users, films))
    for (user, film), rating in ratings.items():
        if user in row_of and film in column_of:
            stars[row_of[user], column_of[film]] = rating
    lines = (folder / "movies.dat").read_text(encoding="utf-8").splitlines()
    known = {number: rest for number, *rest in (line.split("::") for line in lines)}
    write(
        "movietweetings",
        np.where(stars == MISSING, MISSING, stars >= GOOD).astype(np.int8),
        row_labels=[f"user {user}" for user in users],
        column_labels=unique([known[film][0].strip() for film in films]),
        column_groups=[known[film][1].strip() for film in films],
        ratings=stars[stars != MISSING],
    )
    shutil.copyfile(folder / "LICENSE", OUTPUT / "movietweetings-LICENSE.txt")


def clean(name: str) -> str:
    """Underscores stand for spaces, three of them for a dash."""
    return name.strip().replace("___", " - ").replace("_", " ").strip()


def unique(names: list[str]) -> list[str]:
    """Number the second and later of equal names: frog, frog 2."""
    seen: Counter[str] = Counter()
    out = []
    for name in names:
        seen[name] += 1
        out.append(name if seen[name] == 1 else f"{name} {seen[name]}")
    return out


def read_table(path: Path) -> list[dict[str, str]]:
    """A CSV file as a list of rows."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(
    name: str,
    matrix: NDArray[np.int8],
    row_labels: list[str],
    column_labels: list[str],
    row_groups: list[str] | None = None,
    column_groups: list[str] | None = None,
    ratings: NDArray[np.int8] | None = None,
) -> None:
    """Write one packed file: bits of known entries, bits of their values, names, ratings."""
    for labels, size in ((row_labels, matrix.shape[0]), (column_labels, matrix.shape[1])):
        if len(set(labels)) != size:
            repeated = [label for label, count in Counter(labels).items() if count > 1]
            sys.exit(f"{name}: expected {size} unique labels, got {len(labels)}, {repeated}")
    arrays: dict[str, NDArray[Any]] = {
        "shape": np.array(matrix.shape, dtype=np.int64),
        "known": np.packbits(matrix != MISSING),
        "values": np.packbits(matrix == 1),
        "row_labels": np.array(row_labels),
        "column_labels": np.array(column_labels),
    }
    for key, groups, size in (
        ("row_groups", row_groups, matrix.shape[0]),
        ("column_groups", column_groups, matrix.shape[1]),
    ):
        if groups is not None:
            if len(groups) != size:
                sys.exit(f"{name}: expected {size} {key}, got {len(groups)}")
            arrays[key] = np.array(groups)
    if ratings is not None:
        arrays["ratings"] = ratings
    target = OUTPUT / f"{name}.npz"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for key, array in arrays.items():
            buffer = io.BytesIO()
            np.save(buffer, array, allow_pickle=False)
            # A fixed date, because numpy.savez_compressed would write the current time.
            entry = zipfile.ZipInfo(f"{key}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, buffer.getvalue(), compresslevel=9)
    known = (matrix != MISSING).mean()
    ones = (matrix == 1).sum() / (matrix != MISSING).sum()
    print(
        f"{target.name}: {matrix.shape[0]} x {matrix.shape[1]}, {known:.1%} known, "
        f"{ones:.1%} of them ones, {target.stat().st_size} bytes"
    )


if __name__ == "__main__":
    main()
