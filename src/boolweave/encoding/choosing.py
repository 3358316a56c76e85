"""The kind of a column and its encoding: by a rule of the user, or by its cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, floor, isfinite, log10
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from boolweave.data.cells import (
    MISSING,
    USUAL,
    WRONG,
    CellWords,
    counterpart,
    no_answer_codes,
)
from boolweave.encoding.features import (
    MONTHS,
    OTHER,
    WEEKDAYS,
    Boolean,
    Category,
    Choices,
    Dates,
    Dropped,
    Feature,
    Numbers,
    cell_codes,
    level_texts,
    part_of,
    split_choices,
    whole,
)
from boolweave.encoding.tables import as_dates, as_numbers, counts_up

if TYPE_CHECKING:
    import polars as pl

Part: TypeAlias = Literal["year", "month", "weekday", "hour"]
PARTS: tuple[Part, ...] = ("year", "month", "weekday", "hour")

# Separators of several choices in a cell that are tried by default.
SEPARATORS = (";", "|", ",")
# Cells hold several choices if this fraction of them has the separator, if choices recur this
# often, and if no choice is longer than this: a text with commas is not a list.
SHARE_SPLIT = 0.1
TIMES_AGAIN = 2.0
LONGEST_CHOICE = 40

# A text column is left out if more than this fraction of its cells differ and they are too many to
# be levels.
SHARE_DISTINCT = 0.5

# Numbers are rounded to fewer digits, before or after the decimal point, than this power of ten.
MOST_DIGITS = 300


@dataclass(frozen=True)
class Rule:
    """The rule for one column; the default is no rule, so that its cells decide."""

    kind: Literal["auto", "category", "bins", "thresholds", "split"] = "auto"
    edges: tuple[float, ...] = ()
    separator: str = ""


@dataclass(frozen=True)
class Settings:
    """The settings for all columns."""

    numbers: Literal["auto", "bins", "thresholds"] = "auto"
    n_bins: int = 4
    parts: tuple[Part, ...] = PARTS
    separators: tuple[str, ...] = SEPARATORS
    min_frequency: float = 0.01
    max_levels: int = 30
    words: CellWords = USUAL


def choose(column: pl.Series, rule: Rule, settings: Settings) -> Feature:
    """Choose the encoding of a clean column (`tables.without_blanks`)."""
    import polars as pl

    name = column.name
    known = column.drop_nulls()
    if not len(known):
        return Dropped(name, "no value is known")
    if rule.kind == "category":
        return _category(column, settings, asked=True)
    if rule.kind == "split":
        return _choices(column, rule.separator, settings)
    if rule.kind in ("bins", "thresholds"):
        return _numbers_asked(column, rule, settings)
    if (found := _boolean(column, settings.words)) is not None:
        return found
    numbers = as_numbers(column)
    if numbers is not None:
        return _as_written(_numbers_found(numbers, settings), known)
    dates = as_dates(column)
    if dates is not None:
        return _dates(name, dates, settings)
    if column.dtype != pl.String:  # times of day, durations, lists, ...
        return Dropped(name, f"its cells have the type {column.dtype}")
    separator = _separator(known, settings)
    if separator:
        return _choices(column, separator, settings)
    return _category(column, settings, asked=False)


def boolean_codes(column: pl.Series, words: CellWords) -> dict[object, int]:
    """The code of each different cell: 0, 1, MISSING or WRONG; none for dates, lists and so on."""
    import polars as pl

    known = column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.String)
    return cell_codes(column, words) if known else {}


def _boolean(column: pl.Series, words: CellWords) -> Boolean | None:
    codes = boolean_codes(column, words)
    if any(code == WRONG for code in codes.values()) or set(codes.values()) <= {MISSING}:
        return None
    counts = Counter(column.drop_nulls().to_list())
    spelled: dict[int, object] = {}
    for cell in _most_frequent(counts):
        spelled.setdefault(codes[cell], cell)
    usual: dict[int, object] = {1: 1, 0: 0}
    if any(isinstance(cell, bool) for cell in codes):
        usual = {1: True, 0: False}
    elif any(isinstance(cell, str) for cell in codes):
        usual = {1: "1", 0: "0"}
        for code, cell in spelled.items():
            if (other := counterpart(code, str(cell))) is not None:
                usual[1 - code] = other
    spelled = usual | spelled
    return Boolean(column.name, words, whole(spelled[1]), whole(spelled[0]))


# ---------------------------------------------------------------- levels


def _most_frequent(counts: Counter[Any]) -> list[Any]:
    """The cells, those that occur most often first; ties do not depend on the order of rows."""
    return sorted(counts, key=lambda cell: (-counts[cell], _order(cell)))


def _kept(counts: Counter[str], settings: Settings, n_rows: int) -> tuple[list[str], str]:
    """The levels that get a column each, and the name of the others, if there are any."""
    least = settings.min_frequency
    enough = max(1, ceil(least * n_rows - 1e-9) if least < 1 else int(least))
    often = [level for level in _most_frequent(counts) if counts[level] >= enough]
    kept = often[: settings.max_levels]
    if len(kept) == len(counts):
        return kept, ""
    if len(counts) - len(kept) == 1 and len(kept) < settings.max_levels:
        return [*kept, *(counts.keys() - set(kept))], ""  # pooling a single level gains nothing
    pooled = OTHER
    while pooled in counts:
        pooled = f"any {pooled}"
    return kept, pooled


def _category(column: pl.Series, settings: Settings, *, asked: bool) -> Feature:
    name, texts = column.name, level_texts(column).drop_nulls()
    counts = Counter(texts.to_list())
    n_known = len(texts)
    if not asked:
        if len(counts) == n_known > 1:
            return Dropped(name, "all values differ")
        if len(counts) > max(settings.max_levels, SHARE_DISTINCT * n_known):
            return Dropped(name, f"{len(counts)} different values in {n_known} rows")
        if len(counts) == 1:
            return Dropped(name, f"always {next(iter(counts))!r}")
    kept, pooled = _kept(counts, settings, n_known)
    cell_of = dict(zip(texts.to_list(), column.drop_nulls().to_list(), strict=True))
    levels = sorted(kept, key=lambda level: _order(cell_of[level]))
    return Category(name, tuple(whole(cell_of[level]) for level in levels), pooled)


def _order(cell: object) -> tuple[int, float, str, str]:
    """A sort key: months and weekdays in order, numbers by value, others by letters, a before A."""
    for names in (MONTHS, WEEKDAYS):
        if cell in names:
            return 0, names.index(str(cell)), "", ""
    if isinstance(cell, int | float):
        return 0, float(cell), "", ""
    return 1, 0.0, str(cell).casefold(), str(cell).swapcase()


def _separator(texts: pl.Series, settings: Settings) -> str:
    """The separator of several choices in the cells, or an empty text."""
    for separator in settings.separators:
        several = texts.str.contains(separator, literal=True)
        if several.sum() < max(2, SHARE_SPLIT * len(texts)):
            continue
        parts = Counter(split_choices(texts, separator).explode().drop_nulls().to_list())
        again = sum(parts.values()) >= TIMES_AGAIN * len(parts)
        short = all(len(part) <= LONGEST_CHOICE for part in parts)
        digits = separator == "," and all(part.isdigit() for part in parts)  # 3,5 is a number
        if again and short and not digits and len(parts) > 1:
            return separator
    return ""


def _choices(column: pl.Series, separator: str, settings: Settings) -> Feature:
    parts = split_choices(column, separator).list.unique(maintain_order=True)
    counts = Counter(parts.explode().drop_nulls().to_list())
    if not counts:
        return Dropped(column.name, "no value is known")
    kept, pooled = _kept(counts, settings, len(column.drop_nulls()))
    return Choices(column.name, separator, tuple(sorted(kept, key=_order)), pooled)


# ---------------------------------------------------------------- numbers


def _numbers_asked(column: pl.Series, rule: Rule, settings: Settings) -> Feature:
    numbers = as_numbers(column)
    if numbers is None:
        raise ValueError(
            f"column {column.name!r} cannot be cut into intervals, because it does not hold only "
            "numbers; define which cells are `missing`, or treat it as a category"
        )
    values = numbers.drop_nulls().to_numpy()
    nested = rule.kind == "thresholds"
    if rule.edges:
        found: Feature = _numbers(column.name, values, np.array(rule.edges), nested)
    else:
        found = _cut(column.name, values, nested, settings)
    return _as_written(found, column.drop_nulls())


def _as_written(feature: Feature, cells: pl.Series) -> Feature:
    """The feature of a column of numbers, which are written with decimal commas if they were."""
    import polars as pl

    if isinstance(feature, Numbers) and cells.dtype == pl.String:
        return replace(feature, comma=bool(cells.str.contains(",", literal=True).any()))
    return feature


def _numbers_found(numbers: pl.Series, settings: Settings) -> Feature:
    name, values = numbers.name, numbers.drop_nulls().to_numpy()
    if len(values) > 2 and len(numbers) == len(values) and counts_up(values):
        return Dropped(name, "it counts the rows")
    codes = no_answer_codes(np.unique(values).tolist())
    if codes:
        shown, one = ", ".join(map(str, codes)), len(codes) == 1
        words = ("is", "a code", "it is one", "it is a number") if one else (
            "are", "codes", "they are", "they are numbers"
        )  # fmt: skip
        raise ValueError(
            f"column {name!r}: {shown} {words[0]} far from the other numbers, like {words[1]} for "
            f"a missing answer; pass `missing={codes[0] if one else f'[{shown}]'}` if {words[2]}, "
            f"or give the column a rule of its own if {words[3]}"
        )
    nested = settings.numbers == "thresholds"
    if settings.numbers == "auto":  # a few different numbers are counts or grades, with an order
        nested = len(np.unique(values)) <= settings.n_bins + 1
    return _cut(name, values, nested, settings)


def _cut(name: str, values: NDArray[np.float64], nested: bool, settings: Settings) -> Feature:
    """Cut at every number if there are few, otherwise into intervals with equally many numbers."""
    distinct = np.unique(values)
    if len(distinct) == 1:
        return Dropped(name, f"always {values[0]:g}")
    if len(distinct) <= settings.n_bins + nested:
        return _numbers(name, values, distinct[1:], nested, exact=True)
    shares = np.arange(1, settings.n_bins) / settings.n_bins
    edges = np.quantile(values, shares, method="higher")
    edges = _rounded(edges, float(distinct[-1] / 2 - distinct[0] / 2))
    edges = np.unique(edges[(edges > distinct[0]) & (edges <= distinct[-1])])
    return _numbers(name, values, edges if len(edges) else distinct[1:2], nested)


def _rounded(edges: NDArray[np.float64], half: float) -> NDArray[np.float64]:
    """Edges rounded to the digits that distinguish them: three of the spread, twice `half`."""
    digits = 2 - floor(log10(half) + log10(2)) if half else MOST_DIGITS
    return np.round(edges, digits) if abs(digits) < MOST_DIGITS else edges


def _numbers(
    name: str,
    values: NDArray[np.float64],
    edges: NDArray[np.float64],
    nested: bool,
    exact: bool = False,
) -> Numbers:
    at = np.searchsorted(edges, values, side="right")
    inside = [np.sort(values[at == interval]) for interval in range(len(edges) + 1)]
    bounds = [edges[0], *(edges[:-1] / 2 + edges[1:] / 2), edges[-1]]
    middle = [
        float(part[(len(part) - 1) // 2]) if len(part) else float(bounds[interval])
        for interval, part in enumerate(inside)
    ]
    return Numbers(name, tuple(float(edge) for edge in edges), nested, tuple(middle), exact)


# ---------------------------------------------------------------- dates


def _dates(name: str, dates: pl.Series, settings: Settings) -> Feature:
    """The parts that differ from date to date."""
    parts: list[tuple[str, Feature]] = []
    for part in settings.parts:
        cells = part_of(dates, part).alias(f"{name} {part}")
        if cells.drop_nulls().n_unique() < 2:
            continue
        if part in ("year", "hour"):
            usual = "thresholds" if part == "year" else "bins"
            nested = (usual if settings.numbers == "auto" else settings.numbers) == "thresholds"
            values = cells.drop_nulls().to_numpy()
            parts.append((part, _cut(cells.name, values, nested, settings)))
        else:
            parts.append((part, _category(cells, settings, asked=True)))
    if not parts:
        return Dropped(name, "all dates are alike")
    return Dates(name, tuple(parts))


# ---------------------------------------------------------------- rules about single columns


SYNTAX = (
    "column=RULE;column=RULE, where RULE is category, bins, thresholds, drop, split:SEPARATOR or "
    "numbers such as 40,60, optionally after thresholds:"
)


@dataclass(frozen=True)
class Rules:
    """Rules for single columns: parameters of the encoder, and columns to leave out.

    Attributes
    ----------
    parameters : dict
        Parameters of `boolweave.TableEncoder`.
    dropped : tuple of str
    """

    parameters: dict[str, Any]
    dropped: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """All columns for which there are rules."""
        own = [name for columns in self.parameters.values() for name in columns]
        return [*dict.fromkeys(own), *self.dropped]

    def renamed(self, name_of: Callable[[str], str]) -> Rules:
        """The same rules for columns with other names."""
        parameters = {
            parameter: [name_of(column) for column in columns]
            if isinstance(columns, list)
            else {name_of(column): value for column, value in columns.items()}
            for parameter, columns in self.parameters.items()
        }
        return Rules(parameters, tuple(name_of(column) for column in self.dropped))


def parse_rules(text: str) -> Rules:
    """The rules in a text such as ``"age=40,60;hobby=split:,;zip=category;name=drop"``.

    Examples
    --------
    >>> parse_rules("age=40,60; hobby=split:,; name=drop").parameters
    {'bins': {'age': [40.0, 60.0]}, 'separators': {'hobby': ','}}
    """
    numbers: dict[str, str] = {}
    bins: dict[str, list[float]] = {}
    separators: dict[str, str] = {}
    categories: list[str] = []
    dropped: list[str] = []
    seen: set[str] = set()
    for part in _parts(text):
        column, equals, rule = (piece.strip() for piece in part.partition("="))
        if not equals or not column:
            raise ValueError(f"expected {SYNTAX}, got {part.strip()!r}")
        if column in seen:
            raise ValueError(f"there are two rules for {column!r}; leave one of them out")
        seen.add(column)
        kind, _, edges = rule.partition(":")
        if rule == "category":
            categories.append(column)
        elif rule == "drop":
            dropped.append(column)
        elif kind == "split" and edges:
            separators[column] = edges
        elif rule in ("bins", "thresholds"):
            numbers[column] = rule
        elif kind in ("bins", "thresholds"):
            numbers[column] = kind
            bins[column] = _edges_in(edges, part)
        else:
            bins[column] = _edges_in(rule, part)
    given = {"numbers": numbers, "bins": bins, "separators": separators, "categories": categories}
    return Rules({name: value for name, value in given.items() if value}, tuple(dropped))


def _parts(text: str) -> list[str]:
    """The rules, separated by semicolons; ``split:;`` contains a semicolon of its own."""
    parts: list[str] = []
    for piece in text.split(";"):
        if parts and parts[-1].rstrip().endswith("split:"):
            parts[-1] = parts[-1].rstrip() + ";"
        if piece.strip():
            parts.append(piece)
    return parts


def _edges_in(text: str, part: str) -> list[float]:
    try:
        return [float(number) for number in text.split(",")]
    except ValueError:
        raise ValueError(f"expected {SYNTAX}, got {part.strip()!r}") from None


def rules_of(
    names: list[str],
    numbers: str | Mapping[str, str],
    bins: Mapping[str, object] | None,
    separators: object,
    categories: object,
) -> dict[str, Rule]:
    """The rules for single columns in the parameters of an encoder."""
    rules: dict[str, Rule] = {}
    if isinstance(numbers, Mapping):
        rules |= {name: Rule(_kind_of_numbers(kind)) for name, kind in numbers.items()}
    usual = Rule("thresholds" if numbers == "thresholds" else "bins")
    for name, edges in (bins or {}).items():
        rules[name] = replace(rules.get(name, usual), edges=_edges(name, edges))
    if isinstance(separators, Mapping):
        for name, separator in separators.items():
            check_separator(separator, f" for {name!r}")
            rules[name] = Rule("split", separator=separator)
    for name in categories if isinstance(categories, list | tuple) else ():
        rules[str(name)] = Rule("category")
    unknown = [name for name in rules if name not in names]
    if unknown:
        known = ", ".join(map(repr, names[:10]))
        raise ValueError(f"there is no column {unknown[0]!r} to encode; there are {known}")
    return rules


def _kind_of_numbers(kind: str) -> Literal["bins", "thresholds"]:
    if kind not in ("bins", "thresholds"):
        raise ValueError(f'numbers must be "bins" or "thresholds" for a column, but got {kind!r}')
    return "bins" if kind == "bins" else "thresholds"


def check_separator(separator: object, where: str = "") -> None:
    """Raise unless a separator is a text."""
    if not isinstance(separator, str) or not separator:
        raise ValueError(
            f'separators must be texts{where}, such as ";", but got {separator!r}; leave it out, '
            "or give the character between two choices"
        )


def _edges(name: str, edges: object) -> tuple[float, ...]:
    try:
        found = () if isinstance(edges, str) else tuple(map(float, edges))  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        found = ()
    if not found or not all(map(isfinite, found)) or any(a >= b for a, b in pairwise(found)):
        raise ValueError(
            f"bins must give increasing numbers for {name!r}, such as [40, 60], but got {edges!r}"
        )
    return found
