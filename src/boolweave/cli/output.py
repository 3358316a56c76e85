"""The output of commands: messages on standard error, tables, JSON, pictures."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from boolweave.cli.options import as_options
from boolweave.runtime.extras import need
from boolweave.runtime.words import shortened

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

    from boolweave.cli.options import Writing

PICTURES = (".png", ".svg", ".pdf")

_BY_SUFFIX = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet", ".pq": "parquet",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow", ".json": "json", ".npz": "npz",
    ".png": "png", ".xlsx": "xlsx",
}  # fmt: skip


def print_message(message: str, quiet: bool) -> None:
    """Print a message to standard error, so that it does not mix with the answer."""
    if not quiet:
        typer.echo(message, err=True)


def print_paragraph(message: str, quiet: bool) -> None:
    """Print a long message to standard error, broken into lines that fit a terminal."""
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        message = textwrap.fill(
            message, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
    print_message(message, quiet)


def in_words(writing: Writing) -> bool:
    """Decide whether a person reads the answer: on a terminal, with no file or format named."""
    plain = (writing.output, writing.format, writing.json) == (None, None, False)
    return plain and sys.stdout.isatty()


def print_error(error: BaseException | str) -> None:
    """Print an error as one line on standard error."""
    with suppress(OSError):
        typer.echo(f"boolweave: {error if isinstance(error, str) else one_line(error)}", err=True)


def one_line(error: BaseException) -> str:
    """Return the message of an error in one line, with options instead of parameters."""
    if isinstance(error, OSError) and error.strerror:
        name = f"{shortened(str(error.filename), 300)}: " if error.filename else ""
        if not name and error.errno == errno.ENOSPC:  # files are named where they are written
            name = "standard output: "
        return f"{name}{error.strerror[0].lower()}{error.strerror[1:]}"
    if isinstance(error, MemoryError) and not str(error):
        return "there is not enough memory; set a lower limit with --max-memory, or use less data"
    return shortened(as_options(" ".join(str(error).split())))


def write_all(*writes: Callable[[], object]) -> None:
    """Write one thing after the other; if one of them fails, the others are written nevertheless.

    The first error is raised in the end, and others are printed.
    """
    errors: list[Exception] = []
    for write in writes:
        try:
            write()
        except Exception as error:
            errors.append(error)
    errors.sort(key=lambda error: isinstance(error, BrokenPipeError))  # an end without a message
    for other in errors[1:]:
        if not isinstance(other, BrokenPipeError):
            print_error(other)
    if errors:
        raise errors[0]


def put_json(answer: object) -> None:
    """Write one JSON document to standard output; NaN, which JSON does not have, becomes null."""
    typer.echo(json.dumps(_without_nan(answer), ensure_ascii=False))


def _without_nan(answer: object) -> object:
    if isinstance(answer, dict):
        return {key: _without_nan(value) for key, value in answer.items()}
    if isinstance(answer, list | tuple):
        return [_without_nan(value) for value in answer]
    if isinstance(answer, float) and (answer != answer or abs(answer) == float("inf")):
        return None
    return answer


def check_output(writing: Writing, formats: tuple[str, ...] | None = None) -> str:
    """Check the output options before the work begins, and return the output format."""
    from boolweave.io.write import TABLE_FORMATS

    kind = output_format(writing.output, writing.format, formats or TABLE_FORMATS)
    binary = kind in ("npz", "png", "xlsx")
    binary |= kind in ("parquet", "arrow") and sys.stdout.isatty()
    if binary and writing.output is None:
        raise ValueError(f"--format {kind} needs a file: name it with --output")
    check_folder(writing.output)
    return kind


def output_format(
    output: Path | None, asked: str | None, known: tuple[str, ...], option: str = "--output"
) -> str:
    """Return the format asked for, or that of the suffix, or CSV; raise if it is not supported."""
    from boolweave.runtime.atomic import is_stream

    found = asked or "csv"
    if asked is not None and asked not in known:
        raise ValueError(f"--format: expected one of {', '.join(known)}, got {asked!r}")
    if asked is None and output is not None:
        unnamed = is_stream(output) and output.suffix.lower() not in _BY_SUFFIX
        found = "csv" if unnamed else _BY_SUFFIX.get(output.suffix.lower(), "")
    if found not in known:
        suffixes = ", ".join(s for s, kind in _BY_SUFFIX.items() if kind in known)
        raise ValueError(
            f"{option}: expected a name that ends in {suffixes}, got {str(output)!r}; "
            "rename it or set the format with --format"
        )
    if found == "xlsx":
        need("xlsxwriter", "a workbook")
    return found


def check_folder(output: Path | None, option: str = "--output") -> None:
    """Refuse a file that cannot be written, before the work begins."""
    from boolweave.runtime.atomic import is_stream

    if output is None:
        return
    if output.is_dir():
        raise ValueError(f"{option}: {str(output)!r} is a folder; name a file in it")
    if is_stream(output):
        return
    folder = Path(os.path.realpath(output) if output.is_symlink() else output).parent
    if not folder.is_dir():
        raise ValueError(f"{option}: there is no folder {str(folder)!r}; create it first")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{option}: the folder {str(folder)!r} is not writable")


def check_different(files: dict[str, Path | None]) -> None:
    """Refuse the same file for two options, of which the second would replace the first."""
    from boolweave.runtime.atomic import is_stream

    option_of: dict[str, str] = {}
    for option, path in files.items():
        if path is None or is_stream(path):
            continue
        other = option_of.setdefault(os.path.realpath(path), option)
        if other != option:
            raise ValueError(f"{other} and {option} name the same file, {str(path)!r}; rename one")


def put_answer(writing: Writing, as_json: Callable[[], object], write: Callable[[], None]) -> None:
    """Write JSON if it is asked for, and the answer itself unless JSON replaces it."""
    needed = not writing.json or writing.output is not None
    write_all(
        *([write] if needed else []), *([lambda: put_json(as_json())] if writing.json else [])
    )


def put_table(writing: Writing, kind: str, table: pl.DataFrame, as_json: object = None) -> None:
    """Write a table, or as JSON: `as_json` if it is given, otherwise one object per row."""
    from boolweave.io.write import write_table

    put_answer(
        writing,
        lambda: table.to_dicts() if as_json is None else as_json,
        lambda: write_table(table, writing.output, kind),
    )


def check_picture(path: Path, option: str) -> None:
    """Check the file name of a picture before the work begins."""
    if path.suffix.lower() not in PICTURES:
        raise ValueError(
            f"{option}: expected a name that ends in .png, .svg or .pdf, got {str(path)!r}"
        )
    check_folder(path, option)


def check_report(path: Path, option: str) -> None:
    """Check the file name of a report and the packages it needs before the work begins."""
    from boolweave.runtime.atomic import is_stream

    check_folder(path, option)
    if path.suffix.lower() not in {".html", ".htm"} and not is_stream(path):
        raise ValueError(f"{option}: expected a name that ends in .html, got {str(path)!r}")
    need("jinja2", "a report")


def save_picture(figure: Figure, path: Path) -> None:
    """Write a picture in the format of its suffix; an old file is replaced once it is complete."""
    from boolweave.runtime.atomic import replacing

    with replacing(path) as file:
        figure.savefig(file, format=path.suffix[1:].lower())
