"""The kind of a column and its encoding: by a rule of the user, or by its cells."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import starmap
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from boolweave.data.cells import (
    MISSING,
    USUAL,
    WRONG,
    CellWords,
    counterpart,
    is_no_answer,
    no_answer_codes,
)
from boolweave.encoding.features import (
    MONTHS,
    OTHER,
    WEEKDAYS,
    Boolean,
    Category,
    Checkbox,
    Choices,
    Dates,
    Dropped,
    Feature,
    Numbers,
    Ordered,
    cell_codes,
    level_text,
    level_texts,
    number_text,
    part_of,
    split_choices,
    whole,
)
from boolweave.encoding.plan import LEFT_OUT, ColumnPlan
from boolweave.encoding.rules import Rule, edges_in, kind_of_numbers
from boolweave.encoding.scales import in_order
from boolweave.encoding.tables import (
    AROUND,
    as_dates,
    as_numbers,
    counts_up,
    date_form,
    form_in_words,
    form_of_words,
    has_decimal_comma,
)

if TYPE_CHECKING:
    import polars as pl

Part: TypeAlias = Literal["year", "month", "weekday", "hour"]
PARTS: tuple[Part, ...] = ("year", "month", "weekday", "hour")
# The parts that have names.
ALL_OF = {"month": tuple(MONTHS), "weekday": tuple(WEEKDAYS)}

# Separators of several choices in a cell that are tried by default.
SEPARATORS = (";", "|", ",")
# A choice is not longer than this: a text with commas is not a list.
LONGEST_CHOICE = 40

# Words for a checked box, and for an empty one beside a label.
MARKS = frozenset({"x", "✓", "✔", "☑", "☒", "*", "selected", "checked", "ticked", "marked"})
EMPTY_BOXES = frozenset({"not selected", "unselected", "not checked", "unchecked", "not mentioned"})

# Names of columns that hold identifiers, alone and at the end of a word such as RespondentID.
_ID = re.compile(
    r"(^|[\W_])(id|ids|uuid|guid|icpsr|respondent|participant|e-?mail|phone|zip|zipcode|postal"
    r"|postcode)($|[\W_])",
    re.IGNORECASE,
)
_ID_AT_END = re.compile(r"[a-z](ID|Id)s?$")
# Names of columns whose numbers are names.
_CODE = re.compile(r"(^|[\W_])codes?($|[\W_])", re.IGNORECASE)
_EMAIL = r"^[^@\s]+@[^@\s]+\.[^@\s]+$"

# Names of columns in which people say in their own words what they meant by "other".
_OWN_WORDS = re.compile(
    r"\bother,? \(?please specify\)?$|\bother - text$|_text$|\[other\]$", re.IGNORECASE
)

# Words for yes and no in other languages, which are these only where a column has both of them.
YES_AND_NO = (
    ("ja", "nein"), ("oui", "non"), ("sí", "no"), ("si", "no"), ("sì", "no"), ("sim", "não"),
    ("ja", "nee"), ("ja", "nej"), ("ja", "nei"), ("tak", "nie"), ("ano", "ne"), ("igen", "nem"),
    ("kyllä", "ei"), ("да", "нет"), ("evet", "hayır"), ("wahr", "falsch"), ("vrai", "faux"),
)  # fmt: skip

# A text column is left out if more than this fraction of its cells differ and they are too many to
# be levels.
SHARE_DISTINCT = 0.5
# It is free text if nearly all of more than a few cells differ.
FEW_TEXTS, SHARE_OF_TEXT = 10, 0.7

# Names have at most so many words on average; free text has more.
WORDS_OF_A_NAME = 4

# Identifiers have at least seven digits, and this many of them are enough to tell.
LONG_NUMBER, ENOUGH_NUMBERS = 10**6, 10

# A scale has at most this many whole numbers in a row, such as grades from 0 to 10.
LONGEST_SCALE = 11

# A vote: for, against, and neither.
FOR, AGAINST, NEITHER = 1, -1, 0

# A column of numbers may have so few cells that are none, of so few kinds; they are missing.
MOST_ODD, MOST_ODD_CELLS = 0.05, 12

# Numbers are rounded to fewer digits, before or after the decimal point, than this power of ten.
MOST_DIGITS = 300


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


def choose(column: pl.Series, rule: Rule, settings: Settings, n_marked: int = 0) -> Feature:
    """Choose the encoding of a clean column (`tables.without_blanks`) without codes for no answer.

    `n_marked` is the number of columns of the table that look like checkboxes.
    """
    import polars as pl

    name = column.name
    known = column.drop_nulls()
    if not len(known):
        return Dropped(name, "no value is known", "constant")
    if rule.kind == "category":
        return _category(column, settings, asked=True)
    if rule.kind == "split":
        return _choices(column, rule.separator, settings)
    if rule.kind in ("bins", "thresholds"):
        return _numbers_asked(column, rule, settings)
    own_words = column.dtype == pl.String and _OWN_WORDS.search(name) is not None
    if own_words and any(cell not in name for cell in known.unique().to_list()):
        return Dropped(name, "answers in own words", "text")
    if (box := _checkbox(column, settings.words, n_marked)) is not None:
        return box
    boolean = _boolean(column, settings.words)
    if boolean is None:
        boolean = _yes_and_no(column)
    if boolean is not None and not is_id_name(name):
        return boolean
    numbers = as_numbers(column)
    if numbers is not None:
        return _as_written(_numbers_or_id(numbers, column, settings), known)
    form = date_form(column)
    dates = as_dates(column, form)
    if dates is not None:
        return _dates(name, dates, form, settings)
    if column.dtype != pl.String:  # times of day, durations, lists, ...
        return Dropped(name, f"its cells have the type {column.dtype}")
    if known.str.contains(_EMAIL).all():
        return Dropped(name, "e-mail addresses", "id")
    levels = known.unique().sort().to_list()
    recur = len(levels) <= settings.max_levels and not FEW_TEXTS < len(levels) == len(known)
    if recur and (order := in_order(levels, name)) is not None:
        return Ordered(name, tuple(order))
    separator = _separator(known, settings)
    if separator:
        return _choices(column, separator, settings)
    return _category(column, settings, asked=False)


def no_answers(column: pl.Series, rule: Rule, words: CellWords) -> tuple[str, ...]:
    """The cells of a clean column that say that there is no answer; at least one other is left."""
    import polars as pl

    if rule.kind in ("bins", "thresholds"):  # the user says that these are numbers
        return ()
    known = column.drop_nulls().unique()
    cells: list[object] = []
    if column.dtype == pl.String:
        cells = [
            cell
            for cell in sorted(known.to_list())
            if words.code(cell) == WRONG and is_no_answer(cell)
        ]
    left = known.filter(~known.is_in(cells)) if cells else known
    if rule.kind != "auto":
        return () if len(cells) == len(known) else tuple(map(level_text, cells))
    if left.dtype == pl.String and as_numbers(left) is None:
        odd = _odd_cells(column.filter(column.is_in(left.to_list()).fill_null(False)), words)
        cells, left = [*cells, *odd], left.filter(~left.is_in(odd)) if odd else left
    if (numbers := as_numbers(left)) is not None:
        codes = no_answer_codes(numbers.to_list()) if len(left) > 2 else []
        if codes and _ends_counts(column, left, numbers.to_list(), codes):
            codes = []
        cells += [
            cell
            for cell, number in zip(left.to_list(), numbers.to_list(), strict=True)
            if number in codes and words.code(cell) == WRONG
        ]
    return () if len(cells) == len(known) else tuple(level_text(cell) for cell in cells)


def _ends_counts(
    column: pl.Series, cells: pl.Series, numbers: Sequence[float], codes: Sequence[int]
) -> bool:
    """Whether 9 ends counts from 0, because it is no more frequent than the number before it.

    A code for no answer would be a peak behind the last counts.
    """
    answers = sorted(number for number in numbers if number not in codes)
    if list(codes) != [9] or answers[0] != 0 or len(answers) <= LONGEST_SCALE // 3:
        return False
    times = Counter(column.drop_nulls().to_list())
    cell_of = dict(zip(numbers, cells.to_list(), strict=True))
    return times[cell_of[9]] <= times[cell_of[answers[-1]]]


def _odd_cells(texts: pl.Series, words: CellWords) -> list[str]:
    """The few cells of another kind: a negative code among words, or words among numbers."""
    import polars as pl

    plain = texts.str.replace_all(AROUND, "").str.replace_all(",", "", literal=True)
    numbers = plain.cast(pl.Float64, strict=False)
    negative = texts.filter((numbers < 0).fill_null(False)).unique()
    if len(negative) == 1 and numbers.null_count() == len(texts) - (numbers < 0).sum():
        code = float(numbers.drop_nulls()[0])
        is_code = code in no_answer_codes([code, 1.0, 2.0])
        return negative.to_list() if is_code else []
    odd = sorted(texts.filter(numbers.is_null()).unique().to_list())
    few = 0 < numbers.null_count() <= MOST_ODD * len(texts) and len(odd) <= MOST_ODD_CELLS
    several = numbers.drop_nulls().n_unique() >= ENOUGH_NUMBERS
    return odd if few and several and all(words.code(cell) == WRONG for cell in odd) else []


def without_cells(column: pl.Series, cells: Sequence[str]) -> pl.Series:
    """The column with nulls instead of these cells, which are given as texts."""
    if not cells:
        return column
    return column.set(level_texts(column).is_in(list(cells)).fill_null(False), None)


def is_marked(column: pl.Series, words: CellWords) -> bool:
    """Whether a clean column holds one label or nothing, like a checkbox."""
    known = column.drop_nulls()
    if len(known) == len(column) or known.n_unique() != 1 or words.codes:
        return False
    cell = level_text(known[0])
    enough = len(known) > 1 or cell in column.name or cell.casefold() in MARKS
    return words.code(cell) != 0 and enough


def vote_columns(columns: Sequence[pl.Series], words: CellWords) -> set[int]:
    """The positions of clean columns of votes: 1 for, -1 against, 0 neither, nothing if not asked.

    They stand side by side, at least two of them have votes for and against, and some votes are
    missing.
    """
    ballots, run = set(), list[tuple[int, set[float]]]()
    for j, column in enumerate([*columns, None]):
        numbers = None if column is None or words.codes else as_numbers(column)
        cells = set() if numbers is None else set(numbers.drop_nulls().unique().to_list())
        if numbers is not None and cells <= {FOR, AGAINST, NEITHER}:
            run.append((j, cells))
            continue
        divided = [i for i, votes in run if {FOR, AGAINST} <= votes]
        if len(divided) > 1 and any(columns[i].null_count() for i, _ in run):
            ballots |= {i for i, _ in run}
        run = []
    return ballots


def vote(column: pl.Series) -> tuple[Feature, tuple[str, ...]]:
    """The encoding of a column of votes, and its cells that are neither for nor against."""
    cells = column.drop_nulls().unique().to_list()
    by_number = {float(str(cell)): cell for cell in cells}
    neither = (level_text(by_number[NEITHER]),) if NEITHER in by_number else ()
    if not {FOR, AGAINST} <= by_number.keys():
        said = [level_text(cell) for number, cell in by_number.items() if number != NEITHER]
        why = f"always {said[0]!r}" if said else "no value is known"
        return Dropped(column.name, why, "constant"), neither
    pro, contra = whole(by_number[FOR]), whole(by_number[AGAINST])
    return Boolean(column.name, CellWords.of(pro, contra, None), pro, contra), neither


def _checkbox(column: pl.Series, words: CellWords, n_marked: int) -> Checkbox | None:
    cells = column.drop_nulls().unique().to_list()
    if len(cells) == 2:
        for blank, mark in (cells, cells[::-1]):
            if str(blank).casefold() in EMPTY_BOXES:
                return Checkbox(column.name, whole(mark), blank)
    if not is_marked(column, words):
        return None
    cell = level_text(cells[0])
    sure = cell.casefold() in MARKS or (words.code(cell) == WRONG and cell in column.name)
    return Checkbox(column.name, whole(cells[0])) if sure or n_marked > 1 else None


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


def _yes_and_no(column: pl.Series) -> Boolean | None:
    """The encoding of a column of words for yes and no in another language."""
    import polars as pl

    if column.dtype != pl.String:
        return None
    cells = column.drop_nulls().unique().sort().to_list()
    words = {cell.casefold() for cell in cells}
    for one, zero in YES_AND_NO:
        if words == {one, zero}:
            yes, no = (next(c for c in cells if c.casefold() == word) for word in (one, zero))
            return Boolean(column.name, CellWords.of(yes, no, None), yes, no)
    return None


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
        words = sum(len(text.split()) for text in counts)
        short = max(map(len, counts)) <= LONGEST_CHOICE and words <= WORDS_OF_A_NAME * len(counts)
        if len(counts) == n_known > 1:
            return Dropped(name, "all values differ", "id" if short else "text")
        many = len(counts) > FEW_TEXTS and len(counts) > SHARE_OF_TEXT * n_known
        if many or len(counts) > max(settings.max_levels, SHARE_DISTINCT * n_known):
            why = f"{len(counts)} different values in {n_known} rows"
            return Dropped(name, why, "id" if short and is_id_name(name) else "text")
        if len(counts) == 1:
            return Dropped(name, f"always {next(iter(counts))!r}", "constant")
    kept, pooled = _kept(counts, settings, n_known)
    if not kept and not asked:
        return Dropped(name, f"{len(counts)} different values, none of which is frequent", "text")
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
    """The separator of several choices in the cells, or an empty text.

    Cells hold several choices if they have different numbers of parts, and if the parts recombine:
    some occur in several different cells and, as sentences have commas, too, most of those between
    commas. A comma between digits separates nothing.
    """
    cells = texts.unique().to_list()
    for separator in settings.separators:
        lists = [[part.strip() for part in cell.split(separator)] for cell in cells]
        lists = [[part for part in parts if part] for parts in lists]
        if len({len(parts) for parts in lists}) < 2:
            continue
        if separator == "," and any(re.search(r"\d,\d", cell) for cell in cells):
            continue
        counts = Counter(part for parts in lists for part in set(parts))
        again = [part for part, n in counts.items() if n > 1]
        # "Yes, a little", "Yes, very" and "No": the parts are more than the cells themselves.
        fewer = len(counts) < len(cells) + (separator != ",")
        short = all(len(part) <= LONGEST_CHOICE for part in counts)
        recombine = 2 * len(again) > len(counts) if separator == "," else bool(again)
        if fewer and short and recombine and len(counts) > 1:
            return separator
    return ""


def _choices(column: pl.Series, separator: str, settings: Settings) -> Feature:
    parts = split_choices(column, separator).list.unique(maintain_order=True)
    counts = Counter(parts.explode().drop_nulls().to_list())
    if not counts:
        return Dropped(column.name, "no value is known", "constant")
    kept, pooled = _kept(counts, settings, len(column.drop_nulls()))
    joint = joint_of(column, separator)
    return Choices(column.name, separator, tuple(sorted(kept, key=_order)), pooled, joint)


def joint_of(column: pl.Series, separator: str) -> str:
    """What stands between two choices: the separator, mostly with a blank behind it or without."""
    several = level_texts(column).drop_nulls()
    several = several.filter(several.str.contains(separator, literal=True))
    with_blank = several.str.contains(f"{separator} ", literal=True).sum()
    return f"{separator} " if 2 * with_blank >= len(several) else separator


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
    """The feature of a column of numbers, which are written again as they were."""
    import polars as pl

    if isinstance(feature, Numbers) and cells.dtype == pl.String:
        comma = has_decimal_comma(cells)
        numbers = as_numbers(cells)
        spelled = {} if numbers is None else dict(zip(numbers, cells, strict=True))
        texts = tuple(spelled.get(value, "") for value in feature.values)
        return replace(feature, comma=comma, spelled=texts if all(texts) else ())
    return feature


def is_id_name(name: str) -> bool:
    """Whether the name of a column says that it holds identifiers."""
    return _ID.search(name) is not None or _ID_AT_END.search(name) is not None


def _numbers_or_id(numbers: pl.Series, column: pl.Series, settings: Settings) -> Feature:
    name, values = numbers.name, numbers.drop_nulls().to_numpy()
    if len(values) > 2 and len(numbers) == len(values) and counts_up(values):
        return Dropped(name, "it counts the rows", "id")
    distinct = np.unique(values)
    whole_numbers = bool((distinct == np.floor(distinct)).all())
    named = is_id_name(name) or _CODE.search(name) is not None
    if whole_numbers and len(distinct) > 1 and named:
        if len(distinct) > max(settings.max_levels, SHARE_DISTINCT * len(values)):
            return Dropped(name, "its name and its numbers are those of an identifier", "id")
        return _category(column, settings, asked=True)
    long = whole_numbers and abs(distinct[0]) >= LONG_NUMBER and abs(distinct[-1]) >= LONG_NUMBER
    if long and len(distinct) == len(values) >= ENOUGH_NUMBERS:
        return Dropped(name, "all its long numbers differ", "id")
    nested = settings.numbers == "thresholds"
    if settings.numbers == "auto":  # a few different numbers are counts or grades, with an order
        # Of halves, because the difference may be beyond the largest number.
        short = distinct[-1] / 2 - distinct[0] / 2 < LONGEST_SCALE / 2
        if whole_numbers and len(distinct) > 1 and short:
            return _numbers(name, values, distinct[1:], nested=True, exact=True)
        nested = len(distinct) <= settings.n_bins + 1
    return _cut(name, values, nested, settings)


def _cut(name: str, values: NDArray[np.float64], nested: bool, settings: Settings) -> Feature:
    """Cut at every number if there are few, otherwise into intervals with equally many numbers."""
    distinct = np.unique(values)
    if len(distinct) == 1:
        return Dropped(name, f"always {number_text(values[0])}", "constant")
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


def _dates(name: str, dates: pl.Series, form: str | None, settings: Settings) -> Feature:
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
        return Dropped(name, "all dates are alike", "constant")
    return Dates(name, tuple(parts), form)


def _planned_parts(name: str, dates: pl.Series, rest: str) -> tuple[tuple[str, Feature], ...]:
    """The parts of dates as a plan asks for them, such as "month;hour=bins:9,17"."""
    parts: list[tuple[str, Feature]] = []
    for piece in rest.split(";"):
        part, _, levels = (text.strip() for text in piece.partition("="))
        kind, colon, edges = levels.partition(":")
        if part not in PARTS or (not levels and part not in ALL_OF):
            expected = "parts:month;weekday=Saturday,Sunday;hour=bins:9,17"
            raise ValueError(f"expected parts of dates such as {expected!r}, got {piece!r}")
        cells = part_of(dates, part).alias(f"{name} {part}")
        if colon:
            exact, values = "|" in edges, cells.drop_nulls().to_numpy()
            numbers = edges_in(edges.replace("|", ","), piece)
            nested = kind_of_numbers(kind) == "thresholds"
            feature = _numbers(cells.name, values, np.array(numbers[int(exact) :]), nested, exact)
            parts.append((part, replace(feature, values=tuple(numbers)) if exact else feature))
        else:
            names = tuple(level.strip() for level in levels.split(",") if level) or ALL_OF[part]
            pooled = _pooled(names)
            parts.append((part, Category(cells.name, names[:-1] if pooled else names, pooled)))
    return tuple(parts)


def _part_in_words(part: str, feature: Feature) -> str:
    """A part of dates in the words of a plan."""
    if isinstance(feature, Numbers):
        numbers = feature.values if feature.exact else feature.edges
        edges = ("|" if feature.exact else ",").join(map(number_text, numbers))
        return f"{part}={'thresholds' if feature.nested else 'bins'}:{edges}"
    assert isinstance(feature, Category)
    if feature.values == ALL_OF[part]:
        return part
    return f"{part}={','.join(map(str, feature.values))}"


def _pooled(levels: Sequence[str]) -> str:
    """The last level if it is the name of all levels that are not listed."""
    return levels[-1] if levels and re.fullmatch(f"(any )*{OTHER}", levels[-1]) else ""


# ---------------------------------------------------------------- plans


def plan_of(feature: Feature) -> ColumnPlan:
    """The encoding of a column in words."""
    levels: Sequence[object] = ()
    encoding = LEFT_OUT
    if isinstance(feature, Boolean):
        levels, encoding = (feature.zero, feature.one), "one column"
    elif isinstance(feature, Checkbox):
        empty = () if feature.blank is None else (feature.blank,)
        levels, encoding = (*empty, feature.mark), "one column"
    elif isinstance(feature, Category):
        levels, encoding = feature.values, "levels"
    elif isinstance(feature, Ordered):
        levels, encoding = feature.levels, "thresholds"
    elif isinstance(feature, Choices):
        pooled = (feature.pooled,) if feature.pooled else ()
        levels, encoding = (*feature.choices, *pooled), f"split:{feature.separator}"
    elif isinstance(feature, Numbers):
        levels = feature.values if feature.exact else ()
        edges = ",".join(map(number_text, feature.edges))
        encoding = f"{'thresholds' if feature.nested else 'bins'}:{edges}"
    elif isinstance(feature, Dates):
        levels = (form_in_words(feature.form),) if feature.form else ()
        encoding = f"parts:{';'.join(starmap(_part_in_words, feature.parts))}"
    why = feature.reason if isinstance(feature, Dropped) else ""
    texts = tuple(level_text(level) for level in levels)
    return ColumnPlan(feature.name, feature.kind, texts, (), encoding, "", why)


def of_plan(line: ColumnPlan, column: pl.Series, settings: Settings) -> Feature:
    """The encoding of a clean column as a line of a plan asks for it."""
    name, levels, (encoding, _, rest) = line.name, line.levels, line.encoding.partition(":")
    if not line.is_encoded:
        return Dropped(name, line.why or "as the plan says", line.kind)
    words, boolean = settings.words, None
    if line.kind == "yes/no" and (words.ones or words.zeros):
        boolean = _boolean(column, words)
    if boolean is not None:
        return boolean
    if line.kind == "yes/no" and len(levels) == 2:
        ones_and_zeros = CellWords.of(levels[1], levels[0], settings.words.missing)
        return Boolean(name, ones_and_zeros, levels[1], levels[0])
    if line.kind == "checkbox" and levels:
        return Checkbox(name, levels[-1], levels[0] if len(levels) > 1 else None)
    pooled = _pooled(levels)
    if line.kind == "category" and levels:
        return Category(name, levels[:-1] if pooled else levels, pooled)
    if line.kind == "ordered" and len(levels) > 1:
        return Ordered(name, levels)
    if line.kind == "choices" and encoding == "split" and rest:
        if not levels:
            return _choices(column, rest, settings)
        choices = levels[:-1] if pooled else levels
        return Choices(name, rest, choices, pooled, joint_of(column, rest))
    if line.kind == "number" and encoding in ("bins", "thresholds"):
        edges = tuple(edges_in(rest, line.encoding)) if rest else ()
        feature = _numbers_asked(column, Rule(kind_of_numbers(encoding), edges), settings)
        if isinstance(feature, Numbers) and len(levels) == len(feature.edges) + 1:
            return replace(feature, exact=True)
        return feature
    if line.kind == "date":
        form = form_of_words(levels[0]) if levels else date_form(column)
        dates = as_dates(column, form)
        if dates is not None and encoding == "parts" and rest:
            return Dates(name, _planned_parts(name, dates, rest), form)
        if dates is not None and encoding == "parts":
            return _dates(name, dates, form, settings)
        if dates is None and levels:
            raise ValueError(f"column {name!r} does not hold dates {levels[0]!r} as in the plan")
    raise ValueError(
        f"the plan cannot be followed in column {name!r}: expected levels for {line.kind}, or an "
        f"encoding such as bins:40,60, split:; or {LEFT_OUT}, got {line.encoding!r}"
    )
