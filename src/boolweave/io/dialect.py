"""The form of a text table: its delimiter, its header, its labels, and its layout."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from boolweave.data.cells import USUAL, CellWords
from boolweave.data.labels import distinct
from boolweave.io.cells import is_cell
from boolweave.io.files import (
    FileError,
    decoded,
    listed,
    open_quote,
    records,
    sep_line,
    table_chunks,
)
from boolweave.runtime.words import counted

Layout = Literal["wide", "triples", "pairs"]
Labels = Literal["yes", "no", "ignore"]

DELIMITERS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "bar", "::": "::", " ": "space"}
# The name of the column in which `complete` lists the columns that it filled in; it is left out
# when the file is read again.
MARK = "filled by boolweave"
# The sample for guesses: this many lines from the beginning, up to this many characters in total,
# and this many bytes from the middle and the end.
SAMPLE_LINES = 200
SAMPLE_SIZE = 2**20
SAMPLE_BYTES = 4096
# Number of lines from which on a first column without repetitions is no row of triples.
ENOUGH_LINES = 10
# The largest number of lines above the names.
MOST_TITLES = 5
# What survey tools write below a question that has no options.
_RESPONSE = frozenset({"Response", "Open-Ended Response", "Responses"})
# What Qualtrics writes: short names of questions, and identifiers in the third line.
_CODED = re.compile(r"Q(ID)?[0-9]+([._#][A-Za-z0-9_#.]+)?")
_IMPORT_ID = re.compile(r'\s*\{\s*"ImportId"')
# The name that pandas gives to a column without one.
_UNNAMED = re.compile(r"Unnamed: \d+")

# Usual headings, in the singular, of columns that hold names.
_HEADINGS = frozenset(
    {
        "row", "column", "col", "user", "customer", "client", "person", "people", "name", "id",
        "key", "label", "code", "index", "item", "product", "movie", "film", "book", "song",
        "track", "artist", "album", "title", "article", "tag", "term", "document", "doc",
        "sample", "gene", "protein", "patient", "subject", "transaction", "basket", "order",
        "invoice", "session", "visitor", "member", "student", "course", "author", "paper",
        "source", "target", "src", "dst", "node", "pool", "test", "species", "site", "role",
        "permission", "group", "resource", "account", "object", "attribute", "feature",
        "property", "class", "category", "genre", "brand", "entitlement", "privilege", "employee",
    }
)  # fmt: skip

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Dialect:
    """The form of a text table; attributes that are not given are guessed from its first lines.

    Attributes
    ----------
    delimiter : str, optional
    layout : {"wide", "triples", "pairs"}, optional
        One line per row; or row, column, value; or the row and column of each one.
    header : bool, optional
        Whether the first line is a header.
    labels : {"yes", "no", "ignore"}, optional
        Whether the first column of a wide table holds row labels; "ignore" leaves it out.
    columns : tuple of str
        The columns that hold row, column and value, by name or by number (from 1). By default,
        these are the first ones.
    names : tuple of str
        The names of all columns, from the header or generated.
    use, drop : tuples of str
        The columns of a wide table that are used, by default all, and those that are left out, by
        name or by number (from 1).
    index : str, optional
        The column of a wide table that holds the row labels.
    empty_end : bool
        Whether every line of a wide table ends with a delimiter, so that its last field is empty.
    encoding : str, optional
        The encoding of the text, if it is not UTF-8.
    header_row : int, optional
        The number of the line that holds the names, from 1, without blank lines; lines above it
        are titles.
    sheet : str, optional
        The sheet of a workbook; by default, the first one.
    header_lines : int
        Number of lines that hold the names: 2 if a line of questions is followed by one of options,
        and 2 or 3 if a line of short names is followed by one of questions.
    n_titles : int
        Number of lines above the names.
    """

    delimiter: str | None = None
    layout: Layout | None = None
    header: bool | None = None
    labels: Labels | None = None
    columns: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    use: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    index: str | None = None
    empty_end: bool = False
    encoding: str | None = None
    header_row: int | None = None
    sheet: str | None = None
    header_lines: int = 1
    n_titles: int = 0

    @property
    def n_above(self) -> int:
        """Number of lines above the body that are not blank."""
        return self.n_titles + (self.header_lines if self.header else 0)

    @property
    def n_fields(self) -> int:
        """Number of fields of a line."""
        return len(self.names)

    @property
    def n_labels(self) -> int:
        """Number of fields of a line before its cells."""
        return int(self.labels in ("yes", "ignore"))

    @property
    def picks(self) -> bool:
        """Whether some columns of a wide table are chosen, left out or named as row labels."""
        return bool(self.use or self.drop or self.index)

    def label_field(self, name: str) -> int | None:
        """Position of the row label in a line of the wide table `name`."""
        if self.index is not None:
            return self.position(self.index, name, "index")
        return 0 if self.labels == "yes" else None

    def cell_fields(self, name: str) -> list[int]:
        """Positions of the cells in a line of the wide table `name`."""
        own = {self.label_field(name), *range(self.n_labels if self.index is None else 0)}
        own |= {self.position(column, name, "drop") for column in self.drop}
        if self.empty_end or (self.names[-1:] == (MARK,) and MARK not in self.use):
            own.add(self.n_fields - 1)
        used = {self.position(column, name, "use") for column in self.use}
        wanted = [i for i in range(self.n_fields) if i in used] if used else range(self.n_fields)
        left = [i for i in wanted if i not in own]
        if not left and self.picks:
            raise FileError(name, "no column is left; `use` more of them or `drop` fewer")
        return left

    def in_words(self) -> str:
        """A description of the dialect, to be shown."""
        about_rows = {"yes": "first column holds labels", "ignore": "first column is left out"}
        about = about_rows.get(str(self.labels), "no row labels")
        if self.index is not None:
            about = f"labels in column {self.index}"
        if self.layout != "wide":
            about = f"columns {', '.join(self.names[i] for i in self.picked())}"
        separated = f"{DELIMITERS.get(self.delimiter or ',', repr(self.delimiter))}-separated"
        header = "first line is a header" if self.header else "no header"
        if self.header and self.header_lines > 1:
            header = f"{'two' if self.header_lines == 2 else 'three'} lines of names"
        if self.n_titles:
            header += f" below {counted(self.n_titles, 'title')}"
        encoding = f", {self.encoding}" if self.encoding else ""
        return f"{separated}{encoding}, {self.layout}, {header}, {about}"

    def picked(self, name: str = "") -> tuple[int, ...]:
        """Positions of row, column and value (not with pairs) in a line of the file `name`."""
        wanted = ("row", "column", "value")[: 2 if self.layout == "pairs" else 3]
        if self.columns and len(self.columns) != len(wanted):
            raise FileError(
                name,
                f"`columns`: expected {len(wanted)} columns for {self.layout}, "
                f"{','.join(wanted)}, got {','.join(self.columns)!r}",
            )
        if self.n_fields < len(wanted):
            number = "two" if self.layout == "pairs" else "three"
            problem = f"expected {number} columns, {', '.join(wanted)}, but got {self.n_fields}"
            remedy = 'set the layout with `layout="wide"`'
            if self.delimiter is not None:  # a text file, whose delimiter may have been misjudged
                remedy = 'set the delimiter with `delimiter`, or the layout with `layout="wide"`'
            raise FileError(name, f"{problem}; {remedy}")
        if not self.columns:
            return tuple(range(len(wanted)))
        return tuple(self.position(column, name) for column in self.columns)

    def position(self, column: str, name: str, option: str = "columns") -> int:
        """Position of a column in a line of the file `name`, by name or by number (from 1)."""
        if column in self.names:
            return self.names.index(column)
        if column.isdecimal() and 1 <= int(column) <= self.n_fields:
            return int(column) - 1
        known = listed(self.names)
        raise FileError(name, f"`{option}`: there is no column {column!r}; there are {known}")


def is_value(text: str, words: CellWords = USUAL) -> bool:
    """Whether a text can be a cell or a rating."""
    return is_cell(text, words) or _is_number(text)


def split(line: str, delimiter: str) -> list[str]:
    """The fields of one line."""
    if delimiter == " " and '"' not in line:  # a run of blanks is one delimiter
        return re.split("[ \t]+", line.strip(" \t")) if line.strip(" \t") else []
    if len(delimiter) > 1 or '"' not in line:
        return line.split(delimiter) if line else []
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:  # a field of more than 128 KiB
        return [line]


def guess(
    path: Path, name: str, asked: Dialect, above: bool = False, words: CellWords = USUAL
) -> Dialect:
    """Guess what `asked` leaves open from the first lines of the file."""
    delimiter, rows, asked = _below_titles(path, name, asked)
    if asked.columns and asked.layout is None:
        layout: Layout = "pairs" if len(asked.columns) == 2 else "triples"
    elif asked.picks:
        layout = asked.layout or "wide"
    else:
        layout = asked.layout or _guess_layout(rows, above, words)
    found = with_names(replace(asked, delimiter=delimiter, layout=layout, header=False), rows)
    header = asked.header
    if header is None and layout == "wide":
        header = _wide_header(rows, above, words)
    elif header is None:
        # Columns can be referred to by name only if there are names.
        named = any(not column.isdecimal() for column in asked.columns)
        header = named or _long_header(rows, found.picked(name), words)
    found = with_names(replace(found, header=header), rows)
    if layout == "wide" and header and len(rows[0]) > 1:
        ends = (row[-1].strip() for row in rows if len(row) == len(rows[0]))
        found = replace(found, empty_end=not any(ends))
    if layout != "wide":
        found.picked(name)
    elif asked.labels is None:
        first = found.index is None and 0 in replace(found, labels="no").cell_fields(name)
        named = first and not found.use and _guess_labels(rows, bool(header), above, words)
        found = replace(found, labels="yes" if named else "no")
    return found


def _below_titles(path: Path, name: str, asked: Dialect) -> tuple[str, list[list[str]], Dialect]:
    """The delimiter, the sampled lines without titles above the names, and the number of these."""
    delimiter, rows = sampled(path, name, asked)
    n_titles = count_titles(rows, name, asked)
    if asked.header_row is not None:
        asked = replace(asked, header=True)
    return delimiter, rows[n_titles:], replace(asked, n_titles=n_titles)


def count_titles(rows: list[list[str]], name: str, asked: Dialect) -> int:
    """The number of lines above the names, given the first lines of a table, none of them blank."""
    n_titles = 0
    if asked.header_row is not None:
        n_titles = asked.header_row - 1
        if not 0 <= n_titles < len(rows):
            raise FileError(
                name, f"`header_row`: expected a line from 1 to {len(rows)}, got {asked.header_row}"
            )
    elif asked.header is not False:
        widths = [len(row) for row in rows]
        usual = max(set(widths), key=widths.count)
        for row in rows[:MOST_TITLES]:
            if usual < 3 or len([field for field in row if field.strip()]) > 1:
                break
            if len(row) != usual and len(row) != 1:
                break
            n_titles += 1
        # What follows must look like names, in a line as long as the others.
        first = rows[n_titles] if n_titles < len(rows) else []
        if len(first) != usual or any(_is_number(field) for field in first):
            n_titles = 0
    return n_titles


def sampled(path: Path, name: str, asked: Dialect) -> tuple[str, list[list[str]]]:
    """The delimiter of a file and some of its lines, as fields."""
    sample = _sample(path, name)
    plain = [line for line in sample if not line.startswith("#")] or sample
    delimiter = asked.delimiter or sep_line(path) or _guess_delimiter(plain, path)
    counts = [len(split(line, delimiter)) for line in plain]
    usual = max(set(counts), key=counts.count)
    rows = [
        row
        for line in sample
        if (row := split(line, delimiter)) and not (is_comment(line, delimiter, usual))
    ]
    if not rows:
        raise FileError(name, "expected a table, got blank lines")
    # The first rows of a sorted file are all alike, so look further down, too.
    rows += [row for line in _further_down(path) if len(row := split(line, delimiter)) == usual]
    return delimiter, rows


def is_comment(line: str, delimiter: str, n_fields: int) -> bool:
    """Whether a line that begins with # has another number of fields than the table.

    A # that is a field of its own is a name of a column, whose line may go on below.
    """
    if not line.startswith("#") or (line[1:].startswith(delimiter) and delimiter != " "):
        return False
    return len(split(line, delimiter)) != n_fields


def _sample(path: Path, name: str) -> list[str]:
    """The first lines that are not blank."""
    lines: list[str] = []
    for content, lines_before in table_chunks(path, name):
        for raw, number in records(content):
            text = decoded(raw, name, lines_before + number + 1)
            if text:
                if text.count('"') % 2:
                    raise open_quote(name, lines_before + number + 1)
                lines.append(text)
            if len(lines) == SAMPLE_LINES or (
                len(lines) > 1 and sum(map(len, lines)) > SAMPLE_SIZE
            ):
                return lines
    if not lines:
        raise FileError(name, "expected a table, got an empty file")
    return lines


def _further_down(path: Path) -> list[str]:
    """Some lines from the middle and the end of files that are longer than the sample."""
    size = path.stat().st_size
    found: list[str] = []
    if size > 2 * SAMPLE_BYTES:
        with path.open("rb") as file:
            for start in (size // 2, size - SAMPLE_BYTES):
                file.seek(start)
                lines = file.read(SAMPLE_BYTES).decode("utf-8", "replace").split("\n")[1:-1]
                found += [text for line in lines if (text := line.rstrip("\r")) and '"' not in text]
    return found


def _guess_delimiter(sample: list[str], path: Path) -> str:
    if path.suffix.lower() in {".tsv", ".tab"} and any("\t" in line for line in sample):
        return "\t"
    best, best_score = ",", (0, 0, 0)
    for rank, delimiter in enumerate(DELIMITERS):
        counts = [len(split(line, delimiter)) for line in sample]
        usual = max(set(counts), key=counts.count)
        if usual == 1:
            continue
        # First, all lines should agree; a space counts only if nothing else separates the fields;
        # then more fields are better.
        agree = counts.count(usual)
        score = (int(10 * agree / len(counts)) - 10 * (delimiter == " "), usual, -rank)
        if best_score == (0, 0, 0) or score > best_score:
            best, best_score = delimiter, score
    return best


def guess_columns(path: Path, name: str, asked: Dialect, words: CellWords) -> Dialect:
    """Guess the dialect of a wide table whose columns may hold anything, except its labels."""
    delimiter, rows, asked = _below_titles(path, name, asked)
    header = asked.header
    if header is None:
        header = _names_columns(rows, words)
    return with_names(replace(asked, delimiter=delimiter, layout="wide", header=header), rows)


def with_names(dialect: Dialect, rows: list[list[str]]) -> Dialect:
    """The dialect with the names of its columns, from one or two lines of names."""
    if not dialect.header:
        return replace(dialect, names=tuple(str(i + 1) for i in range(len(rows[0]))))
    if dialect.layout == "wide" and (n_lines := _n_coded(rows)):
        names = [" ".join(text.split()) or code for code, text in zip(*rows[:2], strict=True)]
        return replace(dialect, names=tuple(distinct(names)), header_lines=n_lines)
    if dialect.layout == "wide" and _has_options(rows):
        names = _questions_and_options(rows[0], rows[1])
        return replace(dialect, names=tuple(names), header_lines=2)
    names = [field.strip() or f"column {i + 1}" for i, field in enumerate(rows[0])]
    if dialect.layout == "wide":
        for j, name in _spanned(rows).items():
            names[j] = name
    return replace(dialect, names=tuple(distinct(names)))


def _spanned(rows: list[list[str]]) -> dict[int, str]:
    """The names of checkboxes below a question that spans several columns, by their numbers.

    Only the first of the columns has a name, and each of them holds one label or nothing.
    """
    first = [field.strip() for field in rows[0]]
    names: dict[int, str] = {}
    body = [row for row in rows[1:] if len(row) == len(first)]
    labels = [{row[j].strip() for row in body} - {""} for j in range(len(first))]
    start = 0
    for j in range(1, len(first) + 1):
        if j < len(first) and not first[j] and len(labels[j]) == 1:
            continue
        boxes = labels[start:j]
        if j > start + 1 and first[start] and all(len(label) == 1 for label in boxes):
            names |= {start + i: f"{first[start]}: {min(label)}" for i, label in enumerate(boxes)}
        start = j
    return names if len(set(names.values())) == len(names) else {}


def _n_coded(rows: list[list[str]]) -> int:
    """Number of lines of names that Qualtrics writes: short names, questions, perhaps identifiers.

    Short names are Q1, Q2_3 and so on, and questions do not occur below. 0 if it is another table.
    """
    if len(rows) < 3 or len(rows[1]) != len(rows[0]):
        return 0
    if len(rows[2]) == len(rows[0]) and all(_IMPORT_ID.match(field) for field in rows[2]):
        return 3
    coded = [bool(_CODED.fullmatch(field.strip())) for field in rows[0]]
    questions = [rows[1][j].strip() for j, is_code in enumerate(coded) if is_code]
    body = [row for row in rows[2:] if len(row) == len(rows[0])]
    below = {row[j].strip() for row in body for j, is_code in enumerate(coded) if is_code}
    asked = sum(len(text.split()) > 2 for text in questions)
    if 3 * sum(coded) < len(coded) or 2 * asked < len(questions) or not body:
        return 0
    return 2 if all(text and text not in below for text in questions) else 0


def _has_options(rows: list[list[str]]) -> bool:
    """Whether the second line holds options of the questions in the first, as survey tools write.

    Then each column without a name in the first line has one in the second, and what the second
    line says occurs hardly below, except in columns of checkboxes; or it says "Response".
    """
    if len(rows) < 4 or len(rows[1]) != len(rows[0]):
        return False
    first, second = ([field.strip() for field in row] for row in rows[:2])
    said = [text for text in second if text]
    if not said or any(_is_number(text) for text in said):
        return False
    if sum(text in _RESPONSE for text in second) * 2 >= len(said):
        return True
    unnamed = [j for j, text in enumerate(first) if not text or _UNNAMED.match(text)]
    options = [second[j] for j in unnamed if j]
    if not options or not all(options):
        return False
    body = [row for row in rows[2:] if len(row) == len(first)]
    below = [{row[j].strip() for row in body} - {""} for j in range(len(first))]
    new = [not text or text not in b or b == {text} for text, b in zip(second, below, strict=True)]
    return 10 * sum(new) >= 9 * len(new) and not (first[0] and second[0])


def _questions_and_options(first: list[str], second: list[str]) -> list[str]:
    """A name for each column: its question, and its option if there are several."""
    names, question = [], ""
    asked = [" ".join(text.split()) for text in first]
    asked = ["" if _UNNAMED.match(text) else text for text in asked]
    for j, text in enumerate(asked):
        question, option = text or question, " ".join(second[j].split())
        plain = not option or option in _RESPONSE
        several = not text or (j + 1 < len(asked) and not asked[j + 1])
        if plain or (not several and not question):
            names.append(question or option or f"column {j + 1}")
        else:
            names.append(f"{question}: {option}" if question else option)
    return distinct(names)


def _names_columns(rows: list[list[str]], words: CellWords) -> bool:
    """Whether the first line holds names of columns: nothing that recurs, and words above numbers.

    Names may be numbers, too, if all of them differ.
    """
    first, body = [field.strip() for field in rows[0]], rows[1:]
    below = [[row[i].strip() for row in body if len(row) > i] for i in range(len(first))]
    if all(is_cell(field, words) for field in first):
        return False
    if _n_coded(rows):
        return True
    if any(_is_number(field) for field in first):
        above_numbers = any(
            field and not _is_number(field) and cells and all(_is_number(c) for c in cells if c)
            for field, cells in zip(first, below, strict=True)
        )
        return above_numbers and len(set(first)) == len(first)
    again = sum(field in cells for field, cells in zip(first, below, strict=True))
    return 2 * again < len(first) or _has_options(rows)


def _guess_layout(rows: list[list[str]], above: bool, words: CellWords) -> Layout:
    """Guess the layout: only in triples and pairs, the second field may be something else."""
    body = rows[1:] or rows
    width = len(rows[0])
    if width < 2 or any(len(row) != width for row in rows):
        return "wide"
    # This asks for most of them: a single odd cell is a mistake, which the reader of wide tables
    # will report.
    second_is_key = 2 * sum(not is_cell(row[1], words) for row in rows) > len(rows)
    if width == 2:  # pairs have no ratings: if ratings are expected, the numbers are ratings
        if _lists_choices(body) or _measures(body):
            return "wide"
        ratings = above and all(is_value(row[1], words) for row in body)
        return "pairs" if second_is_key and not ratings else "wide"
    third_is_value = all(is_value(row[2], words) for row in body)
    if width <= 4 and third_is_value and (second_is_key or above) and not _describes(rows):
        return "triples"
    return "wide"


def _describes(rows: list[list[str]]) -> bool:
    """Whether the second column describes rows that all differ, or is often empty.

    In triples, rows and columns recur, and both have names. Usual headings say more than that.
    """
    names, body = rows[0], rows[1:]
    if all(map(is_heading, names[:2])) or is_value(names[2]) or len(body) < ENOUGH_LINES:
        return False
    firsts = {row[0] for row in body}
    is_key = len(firsts) == len(body) and not any(map(_is_number, firsts))
    empty = sum(not row[1].strip() for row in body)
    return 10 * empty > len(body) or (is_key and not is_heading(names[1]))


def _lists_choices(rows: list[list[str]]) -> bool:
    """Whether rows of two fields are a name that does not repeat and a list of several things."""
    firsts, lists = [row[0] for row in rows], [row[1] for row in rows]
    several = max(sum(mark in cell for cell in lists) for mark in (";", "|", ","))
    return len(set(firsts)) == len(firsts) > 2 and 2 * several >= len(lists)


def _measures(rows: list[list[str]]) -> bool:
    """Whether rows of two fields are a name that does not repeat and a number with decimals."""
    firsts, seconds = ([row[field] for row in rows] for field in (0, 1))
    if len(set(firsts)) < len(firsts) or not all(map(_is_number, seconds)):
        return False
    return any(not cell.strip().isdigit() for cell in seconds)


def _wide_header(rows: list[list[str]], above: bool, words: CellWords) -> bool:
    fits = is_value if above else is_cell
    cells = rows[0][1:] or rows[0]
    return 2 * sum(not fits(cell, words) for cell in cells) >= len(cells)


def _long_header(rows: list[list[str]], at: tuple[int, ...], words: CellWords) -> bool:
    """Whether the first line of triples or pairs, with fields at the positions `at`, has names."""
    first, body = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    if len(at) == 3 and not is_value(first[at[2]], words):
        return True
    keys = at[:2]
    if body and any(
        not _is_number(first[i]) and all(_is_number(row[i]) for row in body) for i in keys
    ):
        return True
    # All fields are words: a header has usual headings, which do not recur.
    seen = {row[i] for row in body for i in keys}
    return all(is_heading(first[i]) and first[i] not in seen for i in keys)


def about_pairs(asked: Dialect, found: Dialect) -> str:
    """How to correct a guess of pairs, which look like two columns of categories."""
    guessed = found.layout == "pairs" and asked.layout is None and not asked.columns
    if not guessed or all(map(is_heading, found.names)):
        return ""
    return '; pass `layout="wide"` if these are two columns of categories to encode'


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text.strip()) is not None


def is_heading(text: str) -> bool:
    """Whether a text looks like the name of a column with names: user, item_id, MovieName."""
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+|\d+", text)
    if not words:
        return False
    last = words[-1].lower()
    # userid and username, written as one word
    stem = re.sub("(id|ids|name|names|no|key|code)$", "", last)
    return any(word in _HEADINGS or word.removesuffix("s") in _HEADINGS for word in (last, stem))


def _guess_labels(rows: list[list[str]], header: bool, above: bool, words: CellWords) -> bool:
    body = rows[1:] if header else rows
    if len(rows[0]) < 2:
        return False
    firsts = [row[0].strip() for row in body if row]
    # pandas writes an index of numbers under an empty name
    if header and rows[0][0].strip() == "" and all(firsts):
        return True
    if not above:
        return any(not is_cell(text, words) for text in firsts)
    # In a table of ratings, a column of numbers holds ratings, too, unless it counts the rows or
    # its heading says otherwise.
    counts = len(firsts) > 1 and any(
        firsts == [str(i) for i in range(start, start + len(firsts))] for start in (0, 1)
    )
    named = header and is_heading(rows[0][0])
    return counts or named or any(not is_value(text, words) for text in firsts)
