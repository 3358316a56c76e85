"""The commands that use a saved model: predict, recommend, explain, report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from boolweave.cli.common import load_model, names_or_positions, no_tty_output, put_json, talk
from boolweave.cli.options import ModelFile, Reading, Writing


def predict(
    model: ModelFile,
    pairs: Annotated[
        str | None,
        typer.Argument(metavar="[PAIRS]", help="A table of rows and columns; - is standard input."),
    ] = None,
    row: Annotated[str | None, typer.Option(help="A row instead of a table of pairs.")] = None,
    column: Annotated[str | None, typer.Option(help="A column, with --row.")] = None,
    writing: Writing = Writing(),  # noqa: B008
) -> None:
    """Predict entries: row, column, value and probability of observing a 1, for each pair.

    The table of pairs has a row and a column in each line, by label (or by number from 1 where the
    data had no labels); further columns are ignored.

    Example: boolweave predict votes.npz pairs.csv -o predicted.csv
    """
    import polars as pl

    from boolweave.io.write import (
        TABLE_FORMATS,
        check_folder,
        encodable,
        output_format,
        write_table,
    )

    kind = output_format(writing.output, writing.format, TABLE_FORMATS)
    no_tty_output(kind, writing.output)
    check_folder(writing.output)
    if (row is None) != (column is None) or (row is None) == (pairs is None):
        raise ValueError(
            "expected either a table of PAIRS, or --row and --column; give one of them"
        )
    fitted = load_model(model)
    rows, columns = ([row or ""], [column or ""]) if pairs is None else _read_pairs(pairs)
    m = names_or_positions(fitted, rows, "row", pairs)
    n = names_or_positions(fitted, columns, "column", pairs)
    answer = pl.DataFrame(
        {
            "row": pl.Series(encodable(rows), dtype=pl.String),
            "column": pl.Series(encodable(columns), dtype=pl.String),
            "value": fitted.predict(m, n) if m else pl.Series([], dtype=pl.UInt8),
            "probability": fitted.predict_proba(m, n).round(6)
            if m
            else pl.Series([], dtype=pl.Float64),
        }
    )
    if writing.json:
        put_json(answer.to_dicts())
    if not writing.json or writing.output is not None:
        write_table(answer, writing.output, kind)


def _read_pairs(source: str) -> tuple[list[str], list[str]]:
    """The first two fields of every line; a line of names above is skipped."""
    from boolweave.io import files
    from boolweave.io.dialect import Dialect, guess, split

    with files.local_copy(source) as (path, name):
        if files.magic(path) is not None:
            raise files.FileError(name, "expected a text table of rows and columns")
        found = guess(path, name, Dialect(layout="pairs"), False)
        rows: list[str] = []
        columns: list[str] = []
        header = bool(found.header)
        text = path.read_text(encoding="utf-8-sig", errors="replace")
        for number, line in enumerate(text.split("\n"), start=1):
            fields = [field.strip() for field in split(line.rstrip("\r"), found.delimiter or ",")]
            if not any(fields):
                continue
            if len(fields) < 2:
                raise files.FileError(
                    name, f"expected a row and a column, got {files.shortened(line, 80)!r}",
                    line=number,
                )  # fmt: skip
            if header:
                header = False
                continue
            rows.append(fields[0])
            columns.append(fields[1])
    return rows, columns


def recommend(
    model: ModelFile,
    rows: Annotated[
        list[str] | None, typer.Argument(metavar="[ROWS]...", help="Rows by label; all if none.")
    ] = None,
    n: Annotated[int, typer.Option("-n", min=1, help="How many for each row.")] = 10,
    writing: Writing = Writing(),  # noqa: B008
) -> None:
    """Recommend columns that a row has not seen, the most probable first.

    Example: boolweave recommend likes.npz Ann Bo -n 5
    """
    import numpy as np
    import polars as pl

    from boolweave.io.write import (
        TABLE_FORMATS,
        check_folder,
        column_names,
        output_format,
        row_names,
        write_table,
    )
    from boolweave.recommend import recommend as best_columns

    kind = output_format(writing.output, writing.format, TABLE_FORMATS)
    no_tty_output(kind, writing.output)
    check_folder(writing.output)
    fitted = load_model(model)
    seen = fitted.observations_
    wanted = names_or_positions(fitted, rows, "row") if rows else list(range(seen.n_rows))
    found = best_columns(fitted, np.array(wanted, dtype=np.intp), n)
    row_label = np.array(row_names(seen), object)
    column_label = np.array(column_names(seen), object)
    i, j = np.nonzero(found.columns >= 0)
    answer = pl.DataFrame(
        {
            "row": pl.Series(row_label[found.rows[i]].tolist(), dtype=pl.String),
            "rank": j + 1,
            "column": pl.Series(column_label[found.columns[i, j]].tolist(), dtype=pl.String),
            "probability": found.probabilities[i, j].round(6),
        }
    )
    if writing.json:
        put_json(answer.to_dicts())
    if not writing.json or writing.output is not None:
        write_table(answer, writing.output, kind)


def explain(
    model: ModelFile,
    row: Annotated[str, typer.Argument(help="A row, by label.")],
    column: Annotated[str, typer.Argument(help="A column, by label.")],
    json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Explain an entry: the factors responsible, and who belongs to them.

    Example: boolweave explain likes.npz Ann tea
    """
    import dataclasses

    from boolweave.recommend import explain as reasons
    from boolweave.recommend import some_names

    fitted = load_model(model)
    m = names_or_positions(fitted, [row], "row")[0]
    n = names_or_positions(fitted, [column], "column")[0]
    found = reasons(fitted, m, n)
    if json:
        put_json(dataclasses.asdict(found))
        return
    observed = "not observed" if found.observed is None else f"observed: {found.observed}"
    typer.echo(f"{found.row}, {found.column}: {found.value}")
    typer.echo(f"  P(observing 1) = {found.probability:.3f}; {observed}")
    for reason in found.reasons:
        typer.echo(f"  {reason.sentence}")
        typer.echo(
            f"    {reason.contribution:.0%} of the reasons; both belong to it with P = "
            f"{reason.probability:.3f}"
        )
        typer.echo(f"    {len(reason.rows)} rows: {some_names(reason.rows)}")
        typer.echo(f"    {len(reason.columns)} columns: {some_names(reason.columns)}")
    if not found.reasons:
        typer.echo("  because no factor has both")


def check_report(output: Path, option: str) -> None:
    """Find a wrong name or a missing package before the work is done."""
    from importlib.util import find_spec

    from boolweave.runtime.atomic import is_stream

    if output.suffix.lower() not in {".html", ".htm"} and not is_stream(output):
        raise ValueError(f"{option}: expected a name that ends in .html, got {str(output)!r}")
    missing = [name for name in ("plotly", "jinja2") if find_spec(name) is None]
    if missing:
        raise ValueError(f"a report needs {' and '.join(missing)}: pip install 'boolweave[report]'")


def report(
    model: ModelFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page, .html.")] = Path(
        "report.html"
    ),
    title: Annotated[str | None, typer.Option(help="Stands above the page.")] = None,
    held_out: Annotated[
        str | None,
        typer.Option(help="Entries kept aside, row, column, value, to test the probabilities."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing.")] = False,
    reading: Reading = Reading(),  # noqa: B008
) -> None:
    """Write a page about a model: one HTML file, to look at and to send.

    Example: boolweave report votes.npz -o votes.html
    """
    from boolweave.io.write import check_folder

    check_report(output, "--output")
    check_folder(output)
    fitted = load_model(model)
    aside: Any = None if held_out is None else _read_held_out(fitted, held_out, reading)
    from boolweave.report.page import write_report

    write_report(fitted, output, title=title or model.name, held_out=aside)
    talk(f"report: {output}", quiet)


def _read_held_out(fitted: Any, source: str, reading: Reading) -> Any:
    import numpy as np

    from boolweave.cli.common import read_input
    from boolweave.io.write import column_names, row_names

    truth = read_input(source, reading, True).observations
    rows = names_or_positions(fitted, row_names(truth), "row", source)
    columns = names_or_positions(fitted, column_names(truth), "column", source)
    at_row = np.array(rows)[truth.rows_of_entries()]
    at_column = np.array(columns)[truth.indices]
    return at_row, at_column, truth.values
