"""What a text table looks like: its delimiter, its header, its labels, wide or triples."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from boolweave.io.files import FileError, bare_return, listed

Layout = Literal["wide", "triples", "pairs"]
Labels = Literal["yes", "no", "ignore"]

ONES = ("1", "true", "yes", "y", "1.0")
ZEROS = ("0", "false", "no", "n", "0.0")
BLANKS = ("", "na", "n/a", "nan", "null", "none", "?")
CODES = {**dict.fromkeys(ONES, 1), **dict.fromkeys(ZEROS, 0), **dict.fromkeys(BLANKS, 2)}
CELLS = "expected 0/1, true/false, yes/no, y/n or nothing (empty, NA, NaN, ?)"

DELIMITERS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "bar", "::": "::", " ": "space"}
# What is looked at to guess: lines from the beginning, as long as they have so many characters in
# all, and bytes from the middle and the end.
SAMPLE_LINES = 200
SAMPLE_SIZE = 2**20
SAMPLE_BYTES = 4096

# Names that columns of names have, in the singular.
_HEADINGS = frozenset(
    {
        "row", "column", "col", "user", "customer", "client", "person", "people", "name", "id",
        "key", "label", "code", "index", "item", "product", "movie", "film", "book", "song",
        "track", "artist", "album", "title", "article", "tag", "term", "document", "doc",
        "sample", "gene", "protein", "patient", "subject", "transaction", "basket", "order",
        "invoice", "session", "visitor", "member", "student", "course", "author", "paper",
        "source", "target", "src", "dst", "node", "pool", "test", "species", "site", "role",
        "permission", "group", "resource", "account", "object", "attribute", "feature",
        "property", "class", "category", "genre", "brand",
    }
)  # fmt: skip

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Dialect:
    """How to read a text table; what the user leaves open is guessed from its first lines.

    Attributes
    ----------
    delimiter : str, optional
    layout : {"wide", "triples", "pairs"}, optional
        A line per row; or row, column, value; or row, column of the ones.
    header : bool, optional
        Whether the first line holds names.
    labels : {"yes", "no", "ignore"}, optional
        Whether the first column of a wide table holds names; "ignore" leaves it out.
    columns : tuple of str
        Which columns are row, column and value, by name or by number from 1; else the first ones.
    names : tuple of str
        The names of all columns, from the header or made up.
    n_fields : int
        How many fields a line has.
    """

    delimiter: str | None = None
    layout: Layout | None = None
    header: bool | None = None
    labels: Labels | None = None
    columns: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    n_fields: int = 0

    def given(self) -> bool:
        """Whether anything is said at all."""
        return self != Dialect()

    def in_words(self) -> str:
        """The guess, to be shown."""
        words = [f"{DELIMITERS.get(self.delimiter or ',', repr(self.delimiter))}-separated"]
        words.append(f"{self.layout}")
        words.append("first line is a header" if self.header else "no header")
        if self.layout == "wide":
            words.append(
                {"yes": "first column holds labels", "ignore": "first column left out"}.get(
                    self.labels or "no", "no row labels"
                )
            )
        else:
            picked = [self.names[i] for i in self.picked()]
            words.append(f"columns {', '.join(picked)}")
        return ", ".join(words)

    @property
    def n_labels(self) -> int:
        """How many fields of a line come before its cells."""
        return int(self.labels in ("yes", "ignore"))

    def picked(self) -> tuple[int, ...]:
        """Positions of row, column and value (not with pairs) in a line."""
        wanted = 2 if self.layout == "pairs" else 3
        if not self.columns:
            return tuple(range(wanted))
        return tuple(self._position(column) for column in self.columns[:wanted])

    def _position(self, column: str) -> int:
        if column in self.names:
            return self.names.index(column)
        if column.isdigit() and 1 <= int(column) <= self.n_fields:
            return int(column) - 1
        raise ValueError(f"there is no column {column!r}; there are {listed(self.names)}")

    def checked(self, name: str) -> Dialect:
        """The same, if it can pick the columns of triples or pairs."""
        wanted = ("row", "column") if self.layout == "pairs" else ("row", "column", "value")
        if self.columns and len(self.columns) != len(wanted):
            raise FileError(
                name,
                f"--columns: expected {len(wanted)} columns for {self.layout}, "
                f"{','.join(wanted)}, got {','.join(self.columns)!r}",
            )
        if self.n_fields < len(wanted):
            number = {2: "two", 3: "three"}[len(wanted)]
            problem = f"expected {number} columns, {', '.join(wanted)}, but got {self.n_fields}"
            remedy = "name the layout with --layout wide"
            if self.delimiter is not None:  # of a text file: it may be another one
                remedy = "name the delimiter with --delimiter, or the layout with --layout wide"
            raise FileError(name, f"{problem}; {remedy}")
        try:
            self.picked()
        except ValueError as error:
            raise FileError(name, f"--columns: {error}") from None
        return self


def is_cell(text: str) -> bool:
    """Whether a text can be a cell of a Boolean table."""
    return text.strip().lower() in CODES


def is_value(text: str) -> bool:
    """Whether a text can be a cell or a rating."""
    return is_cell(text) or _NUMBER.fullmatch(text.strip()) is not None


def split(line: str, delimiter: str) -> list[str]:
    """The fields of one line."""
    if delimiter == " " and '"' not in line:
        return re.split("[ \t]+", line.strip(" \t")) if line.strip(" \t") else []  # runs are one
    if len(delimiter) > 1 or '"' not in line:
        return line.split(delimiter) if line else []
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:  # a field of more than 128 KiB
        return [line]


def guess(path: Path, name: str, asked: Dialect, above: bool) -> Dialect:
    """Fill what `asked` leaves open, from the first lines of the file."""
    sample = _sample(path, name)
    delimiter = asked.delimiter or _guess_delimiter(sample, path)
    rows = [row for line in sample if (row := split(line, delimiter))]
    if not rows:
        raise FileError(name, "expected a table, got blank lines")
    # A sorted file begins with rows that are all alike: look further down too.
    rows += [
        row for line in _further_down(path) if len(row := split(line, delimiter)) == len(rows[0])
    ]
    if asked.columns and asked.layout is None:
        layout: Layout = "pairs" if len(asked.columns) == 2 else "triples"
    else:
        layout = asked.layout or _guess_layout(rows, above)
    found = replace(
        asked,
        delimiter=delimiter,
        layout=layout,
        n_fields=len(rows[0]),
        labels=asked.labels or "no",
    )
    header = asked.header
    if layout == "wide":
        header = _wide_header(rows, above) if header is None else header
        found = replace(found, header=header, names=_names(rows[0], header))
        if asked.labels is None and _guess_labels(rows, header, above):
            found = replace(found, labels="yes")
        _check_names(found, name)
        return found
    if header is None:
        # Columns are called by name only where there are names.
        named = any(not column.isdigit() for column in asked.columns)
        header = named or _long_header(
            rows, replace(found, names=_names(rows[0], False)).checked(name).picked()
        )
    return replace(found, header=header, names=_names(rows[0], header)).checked(name)


def _sample(path: Path, name: str) -> list[str]:
    lines: list[str] = []
    size = 0
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if number == 1:
                raw = raw.removeprefix(b"\xef\xbb\xbf")
            if b"\x00" in raw:
                raise FileError(
                    name,
                    "expected a table as text, got binary data; name another file",
                    line=number,
                )
            try:
                text = raw.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise not_utf8(name, number, error) from None
            if "\r" in text:
                raise bare_return(name, number)
            if text:
                if text.count('"') % 2:
                    raise open_quote(name, number)
                lines.append(text)
                size += len(text)
            if len(lines) == SAMPLE_LINES or (len(lines) > 1 and size > SAMPLE_SIZE):
                break
    if not lines:
        raise FileError(name, "expected a table, got an empty file")
    return lines


def _further_down(path: Path) -> list[str]:
    """Some lines from the middle and the end, in files longer than the sample."""
    size = path.stat().st_size
    found: list[str] = []
    if size > 2 * SAMPLE_BYTES:
        with path.open("rb") as file:
            for start in (size // 2, size - SAMPLE_BYTES):
                file.seek(start)
                lines = file.read(SAMPLE_BYTES).decode("utf-8", "replace").split("\n")[1:-1]
                found += [text for line in lines if (text := line.rstrip("\r")) and '"' not in text]
    return found


def not_utf8(name: str, line: int, error: UnicodeDecodeError) -> FileError:
    """The error for text in another encoding."""
    byte = error.object[error.start]
    return FileError(
        name,
        f"expected text in UTF-8, got the byte 0x{byte:02x}; convert it, for example with "
        "iconv -f latin1 -t utf-8",
        line=line,
    )


def open_quote(name: str, line: int) -> FileError:
    """The error for a quoted text that does not end."""
    return FileError(
        name,
        "expected a quoted text to end on its line, got a single quote mark; "
        'close it, or write a quote mark inside a text as ""',
        line=line,
    )


def _guess_delimiter(sample: list[str], path: Path) -> str:
    if path.suffix.lower() in {".tsv", ".tab"} and any("\t" in line for line in sample):
        return "\t"
    best, best_score = ",", (0, 0, 0)
    for rank, delimiter in enumerate(DELIMITERS):
        counts = [len(split(line, delimiter)) for line in sample]
        usual = max(set(counts), key=counts.count)
        if usual == 1:
            continue
        # First that all lines agree; a space only where nothing else parts them; then many fields.
        agree = counts.count(usual)
        score = (int(10 * agree / len(counts)) - 10 * (delimiter == " "), usual, -rank)
        if best_score == (0, 0, 0) or score > best_score:
            best, best_score = delimiter, score
    return best


def _guess_layout(rows: list[list[str]], above: bool) -> Layout:
    """In triples and pairs something in the second field is no cell; in wide tables never."""
    body = rows[1:] or rows
    width = len(rows[0])
    if width < 2 or any(len(row) != width for row in rows):
        return "wide"
    # Most of them: a single odd cell is a mistake, which the reader of wide tables will name.
    second_is_key = 2 * sum(not is_cell(row[1]) for row in rows) > len(rows)
    if width == 2:  # pairs have no ratings: if some are asked for, numbers are those
        ratings = above and all(is_value(row[1]) for row in body)
        return "pairs" if second_is_key and not ratings else "wide"
    third_is_value = all(is_value(row[2]) for row in body)
    if width <= 4 and third_is_value and (second_is_key or above):
        return "triples"
    return "wide"


def _wide_header(rows: list[list[str]], above: bool) -> bool:
    fits = is_value if above else is_cell
    cells = rows[0][1:] or rows[0]
    return 2 * sum(not fits(cell) for cell in cells) >= len(cells)


def _long_header(rows: list[list[str]], at: tuple[int, ...]) -> bool:
    """Whether the first line of triples or pairs, whose fields are `at` these places, has names."""
    first, body = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    if len(at) == 3 and not is_value(first[at[2]]):
        return True
    keys = at[:2]
    if body and any(
        not _is_number(first[i]) and all(_is_number(row[i]) for row in body) for i in keys
    ):
        return True
    # Nothing but words: those that one gives to columns, and that never come again.
    seen = {row[i] for row in body for i in keys}
    return all(is_heading(first[i]) and first[i] not in seen for i in keys)


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


def _guess_labels(rows: list[list[str]], header: bool, above: bool) -> bool:
    body = rows[1:] if header else rows
    if len(rows[0]) < 2:
        return False
    firsts = [row[0].strip() for row in body if row]
    # pandas writes an index of numbers under an empty name
    if header and rows[0][0].strip() == "" and all(firsts):
        return True
    if not above:
        return any(not is_cell(text) for text in firsts)
    # Among ratings a column of numbers is one more of them, unless it counts or is called so.
    counts = len(firsts) > 1 and any(
        firsts == [str(i) for i in range(start, start + len(firsts))] for start in (0, 1)
    )
    named = header and is_heading(rows[0][0])
    return counts or named or any(not is_value(text) for text in firsts)


def _names(first: list[str], header: bool) -> tuple[str, ...]:
    if not header:
        return tuple(str(i + 1) for i in range(len(first)))
    return tuple(cell.strip() or f"column {i + 1}" for i, cell in enumerate(first))


def _check_names(found: Dialect, name: str) -> None:
    if not found.header:
        return
    seen: dict[str, int] = {}
    for number, column in enumerate(found.names[found.n_labels :], start=1):
        if column in seen:
            raise FileError(
                name,
                f"expected every column to have its own name, got {column!r} twice; rename one of "
                "them, or say --no-header if the first line holds data",
                line=1,
                column=number + found.n_labels,
            )
        seen[column] = number
