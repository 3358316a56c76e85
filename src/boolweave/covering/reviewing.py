"""What people who administer roles want to know of a cover: who a factor is for, and what changes.

A factor is described by the attributes of its rows. The tables of a review list the changes of each
row, the factors that few rows have or that overlap most, and the differences to existing factors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from boolweave.covering.matrix import Matrix, Requirements
from boolweave.data.convert import is_table
from boolweave.data.frames import names_of
from boolweave.data.labels import name_of
from boolweave.data.observed import ObservedEntries

if TYPE_CHECKING:
    from boolweave.covering.result import Cover

# Attributes whose values follow the word "in".
PLACES = ("location", "city", "site", "office", "country", "region", "building")

# A factor with at most this many rows is held by few.
FEW = 2


@dataclass(frozen=True)
class Description:
    """The rows of a factor, in the words of their attributes.

    Attributes
    ----------
    name : str
        The values that describe the rows best, such as "Sales in Berlin"; a suggested name. If
        other factors have the same values, a number follows.
    n_inside, n_described : int
        The number of rows with these values in the factor, and in the whole table.

    Examples
    --------
    >>> from boolweave.covering.reviewing import Description
    >>> print(Description("Sales in Berlin", 41, 43))
    Sales in Berlin: 41 of 43
    """

    name: str
    n_inside: int
    n_described: int

    def __str__(self) -> str:
        return f"{self.name}: {self.n_inside:,} of {self.n_described:,}"


def descriptions_of(
    X: NDArray[np.uint8], attributes: dict[str, list[str]]
) -> tuple[Description | None, ...]:
    """Describe each factor by one or two attributes of its rows; None if most rows share none.

    Parameters
    ----------
    X : (M, K) array
    attributes : dict of lists
        The values of each attribute, M each.
    """
    used: Counter[str] = Counter()
    descriptions = []
    for x in X.T:
        best = _best(attributes, x)
        if best is not None:
            used[best.name] += 1
            if used[best.name] > 1:
                name = f"{best.name} ({used[best.name]})"
                best = Description(name, best.n_inside, best.n_described)
        descriptions.append(best)
    return tuple(descriptions)


def attributes_of(given: Any, observations: ObservedEntries) -> dict[str, list[str]]:
    """The values of each attribute, one for each row of the matrix; an empty text is unknown."""
    if not isinstance(given, Mapping) and not is_table(given):
        raise ValueError(
            "row_attributes must be a table or a dict with a list of values for each attribute, "
            f"but got a {type(given).__name__}"
        )
    columns = given if isinstance(given, Mapping) else _columns(given)
    values = {
        str(name): ["" if v is None or v != v else str(v) for v in column]
        for name, column in columns.items()
    }
    labels = [str(label) for label in names_of(observations, "row")]
    if observations.row_labels is not None:
        for name, column in values.items():
            if set(labels) <= set(column):
                return _by_label(values, name, labels)
    for name, column in values.items():
        if len(column) != len(labels):
            raise ValueError(
                f"row_attributes must have a value for each of the {len(labels)} rows, but "
                f"{name!r} has {len(column)}; or let one of its columns hold the labels of all rows"
            )
    return values


def _columns(table: Any) -> dict[str, Any]:
    import narwhals as nw

    frame = nw.from_native(table, eager_only=True)
    return {name: frame[name].to_list() for name in frame.columns}


def _by_label(values: dict[str, list[str]], key: str, labels: list[str]) -> dict[str, list[str]]:
    """Match lines by the label in the column `key`; a label may occur in several lines.

    Attributes with several values for one row, such as the permission in each line of an export,
    do not describe rows and are left out.
    """
    matched = {}
    for name in values.keys() - {key}:
        of_label: dict[str, str] = {}
        for label, value in zip(values[key], values[name], strict=True):
            if value and of_label.setdefault(label, value) != value:
                break
        else:
            matched[name] = [of_label.get(label, "") for label in labels]
    return {name: matched[name] for name in values if name in matched}


def _best(values: dict[str, list[str]], inside: NDArray[np.uint8]) -> Description | None:
    """The values of one or two attributes that most rows of a factor have, and few others."""
    rows, best, most = np.flatnonzero(inside).tolist(), None, 0.0
    attributes: list[tuple[str, ...]] = [(name,) for name in values]
    for some in (*attributes, *combinations(values, 2)):
        lines = list(zip(*(values[name] for name in some), strict=True))
        everywhere, here = Counter(lines), Counter(lines[m] for m in rows)
        for value, n in here.items():
            score = 2 * n / (len(rows) + everywhere[value])
            if all(value) and 2 * n > len(rows) and score > most + 1e-9:
                most, best = score, Description(_joined(some, value), n, everywhere[value])
    return best


def _joined(attributes: tuple[str, ...], values: tuple[str, ...]) -> str:
    """The values, those of places last: "Sales in Berlin"."""
    order = sorted(range(len(values)), key=lambda i: attributes[i].lower() in PLACES)
    name = values[order[0]]
    for i in order[1:]:
        name += f" in {values[i]}" if attributes[i].lower() in PLACES else f", {values[i]}"
    return name


# ---------------------------------------------------------------- tables


def changes_of(cover: Cover) -> dict[str, NDArray[Any]]:
    """The columns of the table of changes: row, change and column."""
    seen = cover.observations
    lines = [
        (m, change, n)
        for change, pairs in (("loses", cover.missed), ("gains", cover.false_ones))
        for m, n in pairs.tolist()
    ]
    lines += [
        (m, "should lose", n) for m, n in dict.fromkeys((m, n) for m, n, _ in cover.conflicts)
    ]
    return {
        "row": np.array([name_of(seen, m, "row") for m, _, _ in lines], dtype=object),
        "change": np.array([change for _, change, _ in lines], dtype=object),
        "column": np.array([name_of(seen, n, "column") for _, _, n in lines], dtype=object),
    }


def review_of(cover: Cover, existing: Any = None) -> dict[str, NDArray[Any]]:
    """The columns of the table of factors of `Cover.review`."""
    K, Y = cover.n_factors, cover.Y[: cover.n_factors].astype(np.int64)
    n_rows = cover.X[:, :K].sum(axis=0, dtype=np.int64)
    alike = _jaccard(Y, Y)
    np.fill_diagonal(alike, 0.0)
    closest = alike.argmax(axis=1) if K else np.zeros(0, dtype=np.int64)
    descriptions = [cover.description_of(k) for k in range(K)]
    table = {
        "role": np.arange(1, K + 1),
        "name": _texts([cover.name_of_factor(k) for k in range(K)]),
        "description": _texts([None if d is None else str(d) for d in descriptions]),
        "rows": n_rows,
        "columns": Y.sum(axis=1),
        "covered_by_it_alone": _covered_by_one(cover.X[:, :K], Y),
        "held_by_few": n_rows <= FEW,
        "closest_role": closest + 1,
        "overlap": alike.max(axis=1, initial=0.0).round(4),
    }
    if existing is not None:
        table |= _against(cover, Y, existing)
    return table


def _covered_by_one(X: NDArray[np.uint8], Y: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of entries that a single factor covers, for each factor, (K,)."""
    rows, columns = sparse.csr_array(X.astype(np.int64)), sparse.csr_array(Y)
    n_factors = rows @ columns
    rows.data = 1 + rows.indices.astype(np.int64)
    # The sum of the numbers of the factors of an entry is the number of its factor if it has one.
    numbers = rows @ columns
    for product in (n_factors, numbers):
        product.sort_indices()
    return np.bincount(numbers.data[n_factors.data == 1] - 1, minlength=len(Y))


def _against(cover: Cover, Y: NDArray[np.int64], existing: Any) -> dict[str, NDArray[Any]]:
    """The existing factor that is most like each factor, and how they differ."""
    seen = cover.observations.to_local()
    names, given = existing_factors(cover, existing)
    columns = np.array([name_of(seen, n, "column") for n in range(seen.shape[1])], dtype=object)
    alike = _jaccard(Y, given.astype(np.int64))
    lines: list[tuple[str | None, str | None, str | None]] = []
    for y, scores in zip(Y, alike, strict=True):
        if not scores.any():
            lines.append((None, None, None))
            continue
        old = int(scores.argmax())
        added = columns[(y == 1) & (given[old] == 0)]
        removed = columns[(y == 0) & (given[old] == 1)]
        lines.append((names[old], "; ".join(added), "; ".join(removed)))
    keys = ("existing_role", "columns_added", "columns_removed")
    return {key: _texts([line[i] for line in lines]) for i, key in enumerate(keys)}


def existing_factors(cover: Cover, existing: Any) -> tuple[tuple[str, ...], NDArray[np.uint8]]:
    """The names and the columns (F, N) of the factors with which a cover is compared."""
    seen = cover.observations.to_local()
    given = Requirements.of(Matrix.of_observations(seen, "zero"), fixed=existing)
    names = given.fixed_names or tuple(f"existing {f + 1}" for f in range(len(given.fixed)))
    return names, given.fixed


def _texts(values: list[str | None]) -> NDArray[np.object_]:
    return np.array(values, dtype=object)


def _jaccard(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.float64]:
    """The share of common members of sets, (A, N) and (B, N) to (A, B)."""
    common = a @ b.T
    either = a.sum(axis=1)[:, None] + b.sum(axis=1) - common
    return common / np.maximum(either, 1)
