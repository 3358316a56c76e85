"""What commands say and write: lines to standard error, tables, JSON, pictures."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

    from boolweave.cli.options import Writing

PICTURES = (".png", ".svg", ".pdf")


def talk(message: str, quiet: bool) -> None:
    """Write a line to standard error, where the answer does not go."""
    if not quiet:
        typer.echo(message, err=True)


def put_json(answer: object) -> None:
    """Write one JSON document to standard output; NaN has no place in JSON and becomes null."""
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
    """Find mistakes in how the answer is to be written before the work is done; its format."""
    from boolweave.io.write import TABLE_FORMATS, check_folder, output_format

    kind = output_format(writing.output, writing.format, formats or TABLE_FORMATS)
    binary = kind in ("npz", "png") or (kind in ("parquet", "arrow") and sys.stdout.isatty())
    if binary and writing.output is None:
        raise ValueError(f"--format {kind} needs a file: name it with --output")
    check_folder(writing.output)
    return kind


def put_answer(writing: Writing, as_json: Callable[[], object], write: Callable[[], None]) -> None:
    """Write JSON if asked to; and write the answer itself, unless JSON takes its place."""
    if writing.json:
        put_json(as_json())
    if not writing.json or writing.output is not None:
        write()


def put_table(writing: Writing, kind: str, table: pl.DataFrame, as_json: object = None) -> None:
    """Write a table as a table or as JSON, which has a line for each row or is `as_json`."""
    from boolweave.io.write import write_table

    put_answer(
        writing,
        lambda: table.to_dicts() if as_json is None else as_json,
        lambda: write_table(table, writing.output, kind),
    )


def check_picture(path: Path, option: str) -> None:
    """Find a wrong name before the work is done."""
    from boolweave.io.write import check_folder

    if path.suffix.lower() not in PICTURES:
        raise ValueError(
            f"{option}: expected a name that ends in .png, .svg or .pdf, got {str(path)!r}"
        )
    check_folder(path, option)


def check_report(path: Path, option: str) -> None:
    """Find a wrong name or a missing package before the work is done."""
    from boolweave.io.write import check_folder
    from boolweave.runtime.atomic import is_stream

    check_folder(path, option)
    if path.suffix.lower() not in {".html", ".htm"} and not is_stream(path):
        raise ValueError(f"{option}: expected a name that ends in .html, got {str(path)!r}")
    missing = [name for name in ("plotly", "jinja2") if find_spec(name) is None]
    if missing:
        raise ValueError(f"a report needs {' and '.join(missing)}: pip install 'boolweave[report]'")


def save_picture(figure: Figure, path: Path) -> None:
    """Write a picture in the format of its name; an old file is replaced when it is whole."""
    from boolweave.runtime.atomic import replacing

    with replacing(path) as file:
        figure.savefig(file, format=path.suffix[1:].lower())
