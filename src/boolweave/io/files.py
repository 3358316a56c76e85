"""Files as bytes: opening, decompressing, cutting into chunks of lines; errors about files."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb
from typing import BinaryIO

from boolweave.runtime.atomic import naming
from boolweave.runtime.words import shortened

# Number of bytes of text that are parsed at a time: large enough for polars to work in parallel,
# small enough that the scratch arrays of a chunk do not matter.
CHUNK_BYTES = 8 * 2**20

_MAGIC = {
    b"\x1f\x8b": "gz",
    b"\x28\xb5\x2f\xfd": "zst",
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"\x89PNG": "png",
    b"PK\x03\x04": "npz",
    b"PK\x05\x06": "npz",
    b"\x93NUMPY": "npy",
    b"%%MatrixMarket": "mtx",
}

# The first bytes of files that are not read, with what they are and the remedy.
_FOREIGN = {
    b"\xd0\xcf\x11\xe0": (
        "an old workbook (.xls), or one with a password",
        "save it as .xlsx without a password",
    ),
    b"BZh91AY": ("data compressed with bzip2", "decompress it with bunzip2, or use gzip or zstd"),
    b"\xfd7zXZ": ("data compressed with xz", "decompress it with unxz, or use gzip or zstd"),
    b'[{"': ("JSON", "convert it to CSV or Parquet"),
    b'{"': ("JSON", "convert it to CSV or Parquet"),
}

_BARE_RETURN = re.compile(rb"\r(?!\n)")


def listed(names: Sequence[str], most: int = 10) -> str:
    """The first names of a list that may be long, and how many there are."""
    shown = ", ".join(shortened(name, 40) for name in names[:most])
    return shown if len(names) <= most else f"{shown}, ... ({len(names)} in total)"


def by_value(digits: str) -> tuple[int, str]:
    """A key that sorts whole numbers of any length by their value."""
    significant = digits.lstrip("0")
    return len(significant), significant


class FileError(ValueError):
    """A file that cannot be read as requested.

    The message says where the problem is, what was expected, what was found, and the remedy. It
    names parameters of `boolweave.io.read` and fields of `Dialect` in backticks; the command line
    replaces them by its options.
    """

    def __init__(
        self, name: str, problem: str, *, line: int | None = None, column: object = None
    ) -> None:
        place = name
        if line is not None:
            place += f", line {line}"
        if column is not None:
            place += f", column {shortened(str(column), 80)}"
        super().__init__(f"{place}: {shortened(problem)}")


@contextmanager
def local_copy(source: str | Path) -> Iterator[tuple[Path, str]]:
    """Provide the path of an uncompressed file on disk, and the name of the file in messages.

    "-" means standard input. Data that are compressed with gzip or zstd, or that come through a
    pipe, are first written to a temporary file.
    """
    with contextlib.ExitStack() as stack:
        if str(source) == "-":
            name = "standard input"
            if sys.stdin is None:
                raise FileError(name, "it is closed; give the name of a file, or pipe data into it")
            path = _spool(sys.stdin.buffer, stack)
        else:
            path, name = Path(source), str(source)
            if path.is_dir():
                raise FileError(name, "expected a file, got a folder; name a file in it")
            if not path.exists():
                raise FileError(
                    name, "there is no such file; check its name, or give - for standard input"
                )
            if not path.is_file():  # a named pipe, as in <(command)
                with path.open("rb") as pipe:
                    path = _spool(pipe, stack)
        kind = magic(path)
        if kind == "gz":
            path = _unpack_gzip(path, name, stack)
        elif kind == "zst":
            path = _unpack_zstd(path, name, stack)
        _refuse_foreign(path, name)
        yield path, name


# Encodings of text that are not UTF-8, as they are tried.
_ENCODINGS = ("cp1252", "latin_1", "mac_roman")
# Letters and signs of Western European languages, without those that they hardly have: ä in Windows
# is ‰ on an old Mac, and ä there is Š in Windows.
_WESTERN = frozenset("äöüßÄÖÜéèêëàâáãåæçíìîïñóòôõøúùûÉÅØÇ€£°–—’‘“”„«»…•·§½²³©®™¿¡")
# Number of bytes of lines that are not plain ASCII, by which an encoding is recognized.
_ODD_BYTES = 20_000


@contextmanager
def in_utf8(path: Path, name: str, encoding: str | None) -> Iterator[tuple[Path, str | None]]:
    """Provide a text file in UTF-8, and the encoding it had if it was another one.

    Unless an encoding is given, it is recognized. Binary files stay as they are.
    """
    found = encoding or _encoding_of(path)
    if found is None:
        yield path, None
        return
    with contextlib.ExitStack() as stack:
        target = _scratch(stack)
        try:
            with path.open(encoding=found, newline="") as text, target.open("wb") as file:
                while block := text.read(CHUNK_BYTES):
                    file.write(block.encode("utf-8", "replace"))
        except LookupError:
            raise FileError(
                name,
                f"`encoding`: there is no encoding {found!r}; utf-8, utf-16, latin-1, cp1252 "
                "and mac-roman are some",
            ) from None
        except UnicodeError:
            raise FileError(
                name, f"expected text in {found}, got other bytes; pass another `encoding`"
            ) from None
        yield target, found


def _encoding_of(path: Path) -> str | None:
    """The encoding of a text file that is not in UTF-8; None for UTF-8 and for binary data."""
    with path.open("rb") as file:
        start = file.read(256)
        if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
            return "utf-16"
        if b"\0" in start:
            even, odd = start[0::2], start[1::2]
            for zeros, others, name in ((odd, even, "utf-16-le"), (even, odd, "utf-16-be")):
                if not zeros.strip(b"\0") and others.isascii() and b"\0" not in others:
                    return name
            return None
        file.seek(0)
        decoder, lines, size = codecs.getincrementaldecoder("utf-8")(), [], 0
        try:
            while block := file.read(CHUNK_BYTES):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            file.seek(0)
        else:
            return None
        for line in file:
            if b"\0" in line:
                return None
            if not line.isascii() and size < _ODD_BYTES:
                lines.append(line)
                size += len(line)
    sample = b"".join(lines)
    usual = {name: _usual_characters(sample, name) for name in ("cp1252", "mac_roman")}
    if usual["cp1252"] != usual["mac_roman"]:
        return max(usual, key=lambda name: usual[name])
    from charset_normalizer import from_bytes

    best = from_bytes(sample, cp_isolation=list(_ENCODINGS)).best()
    return "latin_1" if best is None else best.encoding


def _usual_characters(text: bytes, encoding: str) -> int:
    """The number of characters that Western European texts have; −1 if a byte has no meaning."""
    try:
        return sum(character in _WESTERN for character in text.decode(encoding))
    except UnicodeDecodeError:
        return -1


@contextmanager
def without_panic(name: str) -> Iterator[None]:
    """Turn a panic inside polars, which is not even an Exception, into a `FileError`."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise FileError(name, "the file is damaged and cannot be read; recreate it") from None


@contextmanager
def expecting(name: str, what: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn what is raised for a file that is not `what` into a `FileError`.

    Its message quotes a reason only in our own words; what another library said is its cause.
    """
    try:
        yield
    except FileError:
        raise
    except errors as error:
        words = words_of_ours(error)
        reason = f" ({words})" if words else ""
        raise FileError(
            name, f"expected {what}, but it cannot be read{reason}; recreate it"
        ) from error


def words_of_ours(error: Exception) -> str:
    """Return the first line of a message of boolweave; nothing if another library raised it."""
    *_, (frame, _) = walk_tb(error.__traceback__)
    module = frame.f_globals.get("__name__", "")
    ours = module.startswith("boolweave.") or module == "sklearn.utils._param_validation"
    return str(error).partition("\n")[0] if ours and isinstance(error, ValueError) else ""


def magic(path: Path) -> str | None:
    """The format that the first bytes of a file indicate; None for text and unknown formats."""
    start = _start(path)
    return next((kind for mark, kind in _MAGIC.items() if start.startswith(mark)), None)


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(16)


def _refuse_foreign(path: Path, name: str) -> None:
    """Refuse files whose first bytes show that they must be converted first."""
    start = _start(path)
    for mark, (found, remedy) in _FOREIGN.items():
        if start.startswith(mark):
            raise FileError(name, f"expected a table, got {found}; {remedy}")


def decoded(line: bytes, name: str, number: int) -> str:
    """A line as text; raise an error if the text has another encoding."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileError(
            name,
            f"expected text in UTF-8, got the byte 0x{line[error.start]:02x}; convert it, for "
            "example with iconv -f latin1 -t utf-8",
            line=number,
        ) from None


def open_quote(name: str, line: int) -> FileError:
    """The error for a quoted text that does not end."""
    return FileError(
        name,
        "expected a quoted text to end, got a single quotation mark; "
        'close it, or write a quotation mark inside a text as ""',
        line=line,
    )


def _scratch(stack: contextlib.ExitStack) -> Path:
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="boolweave-"))
    return Path(folder) / "data"


def _spool(stream: BinaryIO | gzip.GzipFile, stack: contextlib.ExitStack) -> Path:
    path = _scratch(stack)
    with naming(path), path.open("wb") as file:
        shutil.copyfileobj(stream, file)
    return path


def _unpack_gzip(path: Path, name: str, stack: contextlib.ExitStack) -> Path:
    errors = OSError, EOFError, zlib.error
    with expecting(name, "a gzip file", *errors), gzip.open(path, "rb") as packed:
        return _spool(packed, stack)


def _unpack_zstd(path: Path, name: str, stack: contextlib.ExitStack) -> Path:
    """Unpack text with polars, the one dependency that reads zstd on every version of Python."""
    import polars as pl

    target = _scratch(stack)
    with expecting(name, "text packed with zstd", pl.exceptions.PolarsError, OSError):
        lines = pl.scan_csv(
            path,
            separator="\x01",
            has_header=False,
            quote_char=None,
            glob=False,
            schema={"line": pl.String},
            truncate_ragged_lines=True,
        )
        lines.sink_csv(
            target, include_header=False, quote_style="never", separator="\x01", null_value=""
        )
    return target


def chunks_of_lines(path: Path, size: int = CHUNK_BYTES) -> Iterator[bytes]:
    """The file in chunks of whole lines, each of about `size` bytes and ending with a newline.

    If the first lines end with carriage returns alone, as on old Macs, these become newlines.
    """
    with path.open("rb") as file:
        rest = b""
        returns: bool | None = None  # unknown until the first line ends
        while block := file.read(size):
            if rest == b"" and file.tell() == len(block):
                block = block.removeprefix(b"\xef\xbb\xbf")  # the mark that Excel writes
            if returns is None and (b"\n" in block or b"\r" in block[:-1]):
                returns = b"\n" not in block
            if returns:
                block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            cut = block.rfind(b"\n") + 1
            if cut == 0:
                rest += block
                continue
            yield rest + block[:cut]
            rest = block[cut:]
        if rest:
            yield rest + b"\n"


def text_chunks(path: Path, name: str, what: str) -> Iterator[tuple[bytes, int]]:
    """The chunks of a text file and the number of lines before each; binary data are refused."""
    n_lines = 0
    for content in chunks_of_lines(path):
        if (at := content.find(b"\x00")) >= 0:
            line = n_lines + content.count(b"\n", 0, at) + 1
            problem = f"expected {what} as text, got binary data; name another file"
            raise FileError(name, problem, line=line)
        if b"\r" in content and (bare := _BARE_RETURN.search(content)):
            raise FileError(
                name,
                "expected lines that end with a newline, got a carriage return without one; "
                r"convert the file, for example with tr '\r' '\n'",
                line=n_lines + content.count(b"\n", 0, bare.start()) + 1,
            )
        yield content, n_lines
        n_lines += content.count(b"\n")


# ---------------------------------------------------------------- records of text tables


# The line above a table by which Excel states the delimiter.
_SEP = re.compile(rb'"?sep=(.)"?\r?(?=\n)', re.IGNORECASE)
# Number of bytes within which a quoted field must end; otherwise, its closing quotation mark was
# forgotten.
LONGEST = 4 * CHUNK_BYTES


def sep_line(path: Path) -> str | None:
    """The delimiter that the first line names, as in ``sep=;``."""
    with path.open("rb") as file:
        start = file.read(64).removeprefix(b"\xef\xbb\xbf").replace(b"\r", b"\n")
    found = _SEP.match(start)
    return found[1].decode("ascii", "replace") if found else None


def table_chunks(path: Path, name: str) -> Iterator[tuple[bytes, int]]:
    """Chunks of whole records of a table, and the number of lines before each chunk."""
    pending, before = b"", 0
    for content, lines_before in text_chunks(path, name, "a table"):
        if lines_before == 0 and (found := _SEP.match(content)):
            content = content[found.end() :]
        if not pending:
            before = lines_before
        pending += content
        pending = without_comments(pending, _is_open_comment)
        if pending.count(b'"') % 2 and len(pending) < LONGEST:
            continue
        yield pending, before
        pending = b""
    if pending:
        yield pending, before


def _is_open_comment(line: bytes) -> bool:
    """Whether a line that begins with # has a single quotation mark, and is no name of a column."""
    return line.count(b'"') % 2 == 1 and line[1:2] not in (b",", b";", b"\t", b"|")


def without_comments(content: bytes, is_comment: Callable[[bytes], bool]) -> bytes:
    """The content with an empty line instead of each comment, which begins with #."""
    if not (content.startswith(b"#") or b"\n#" in content):
        return content
    lines, inside = content.split(b"\n"), False
    for i, line in enumerate(lines):
        if not inside and line.startswith(b"#") and is_comment(line.rstrip(b"\r")):
            lines[i] = b""
        else:
            inside ^= line.count(b'"') % 2 == 1
    return b"\n".join(lines)


def records(content: bytes) -> Iterator[tuple[bytes, int]]:
    """The records in whole lines, without line ends, and the number of lines before each.

    The last record may have a quoted field that does not end.
    """
    pending, start = b"", 0
    for number, line in enumerate(content.split(b"\n")[:-1]):
        if not pending:
            start = number
        pending += line + b"\n"
        if pending.count(b'"') % 2 == 0:
            yield pending.rstrip(b"\r\n"), start
            pending = b""
    if pending:
        yield pending.rstrip(b"\r\n"), start
