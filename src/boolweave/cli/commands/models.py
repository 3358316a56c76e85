"""The commands that use a saved model: predict, recommend, explain, report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from boolweave.cli.common import find_positions, load_model, local_file, read_input
from boolweave.cli.options import Json, ModelFile, Quiet, ReadingOptions, Writing
from boolweave.cli.output import check_output, check_report, put_json, put_table, talk

if TYPE_CHECKING:
    from boolweave.cli.common import Model
    from boolweave.recommend import Explanation
    from boolweave.report.contents import HeldOut


def predict(
    model: ModelFile,
    pairs: Annotated[
        str | None,
        typer.Argument(metavar="[PAIRS]", help="A table of rows and columns; - is standard input."),
    ] = None,
    *,
    row: Annotated[str | None, typer.Option(help="A row instead of a table of pairs.")] = None,
    column: Annotated[str | None, typer.Option(help="A column, with --row.")] = None,
    writing: Writing,
) -> None:
    """Predict entries: row, column, value and probability of observing a 1, for each pair.

    The table of pairs has a row and a column in each line, by label (or by number from 1 where the
    data had no labels); further columns are ignored.

    Example: boolweave predict votes.npz pairs.csv -o predicted.csv
    """
    import polars as pl

    from boolweave.io.write import encodable

    kind = check_output(writing)
    if (row is None) != (column is None) or (row is None) == (pairs is None):
        raise ValueError(
            "expected either a table of PAIRS, or --row and --column; give one of them"
        )
    fitted = load_model(model)
    rows, columns = ([row or ""], [column or ""]) if pairs is None else _read_pairs(pairs)
    m = find_positions(fitted, rows, "row", pairs)
    n = find_positions(fitted, columns, "column", pairs)
    answer = pl.DataFrame(
        {
            "row": pl.Series(encodable(rows), dtype=pl.String),
            "column": pl.Series(encodable(columns), dtype=pl.String),
            "value": fitted.predict(m, n),
            "probability": fitted.predict_proba(m, n).round(6),
        }
    )
    put_table(writing, kind, answer)


def _read_pairs(source: str) -> tuple[list[str], list[str]]:
    """The first two fields of every line; a line of names above is skipped."""
    from boolweave.io.dialect import Dialect, guess, split
    from boolweave.io.files import FileError, magic, shortened

    pairs: list[list[str]] = []
    with local_file(source) as path:
        if magic(path) is not None:
            raise FileError(str(path), "expected a text table of rows and columns")
        found = guess(path, str(path), Dialect(layout="pairs"), False)
        text = path.read_text(encoding="utf-8-sig", errors="replace")
        for number, line in enumerate(text.split("\n"), start=1):
            fields = [field.strip() for field in split(line.rstrip("\r"), found.delimiter or ",")]
            if not any(fields):
                continue
            if len(fields) < 2:
                got = shortened(line, 80)
                raise FileError(str(path), f"expected a row and a column, got {got!r}", line=number)
            pairs.append(fields)
    if found.header:
        del pairs[0]
    return [fields[0] for fields in pairs], [fields[1] for fields in pairs]


def recommend(
    model: ModelFile,
    rows: Annotated[
        list[str] | None, typer.Argument(metavar="[ROWS]...", help="Rows by label; all if none.")
    ] = None,
    *,
    n: Annotated[int, typer.Option("-n", min=1, help="How many for each row.")] = 10,
    why: Annotated[
        bool | None,
        typer.Option(
            "--why/--no-why",
            help="Say in a column why each is recommended.",
            show_default="if rows are named",
        ),
    ] = None,
    writing: Writing,
) -> None:
    """Recommend columns that a row has not seen, the most probable first, and say why.

    Example: boolweave recommend likes.npz Ann Bo -n 5
    """
    import numpy as np
    import polars as pl

    from boolweave.io.write import column_names, row_names

    kind = check_output(writing)
    fitted = load_model(model)
    seen = fitted.observations_
    wanted = find_positions(fitted, rows, "row") if rows else np.arange(seen.n_rows)
    found = fitted.recommend(wanted, n)
    i, j = np.nonzero(found.columns >= 0)
    answer = pl.DataFrame(
        {
            "row": pl.Series(row_names(seen), dtype=pl.String).gather(found.rows[i]),
            "rank": j + 1,
            "column": pl.Series(column_names(seen), dtype=pl.String).gather(found.columns[i, j]),
            "probability": found.probabilities[i, j].round(6),
        }
    )
    if why or (why is None and rows):
        lines = [
            fitted.explain(found.rows[a], found.columns[a, b]).reason()
            for a, b in zip(i, j, strict=True)
        ]
        answer = answer.with_columns(why=pl.Series(lines, dtype=pl.String))
    put_table(writing, kind, answer)


def explain(
    model: ModelFile,
    row: Annotated[str, typer.Argument(help="A row, by label.")],
    column: Annotated[str, typer.Argument(help="A column, by label.")],
    *,
    json: Json = False,
) -> None:
    """Explain an entry: the reasons for its probability, and who else they hold for.

    Of a completion these are the offsets of row and column, directions and Boolean layers, and how
    much each adds to the log-odds; of a factorization the factors responsible.

    Example: boolweave explain likes.npz Ann tea
    """
    import dataclasses

    from boolweave.recommend import Explanation

    fitted = load_model(model)
    (m,) = find_positions(fitted, [row], "row")
    (n,) = find_positions(fitted, [column], "column")
    found = fitted.explain(m, n)
    if json:
        put_json(dataclasses.asdict(found))
        return
    observed = "not observed" if found.observed is None else f"observed: {found.observed}"
    typer.echo(f"{found.row}, {found.column}: {found.value}")
    typer.echo(f"  P(observing 1) = {found.probability:.3f}; {observed}")
    if isinstance(found, Explanation):
        _echo_factors(found)
        return
    typer.echo(f"  log-odds {found.log_odds:+.2f}, the sum of")
    for part in found.parts:
        typer.echo(f"    {part.sentence}")
    for note in found.notes:
        typer.echo(f"  {note}")


def _echo_factors(found: Explanation) -> None:
    """The factors responsible, one by one."""
    from boolweave.recommend import some_names

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


def report(
    model: ModelFile,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page, .html.")] = Path(
        "report.html"
    ),
    title: Annotated[str | None, typer.Option(help="Stands above the page.")] = None,
    held_out: Annotated[
        str | None,
        typer.Option(help="Entries kept aside, row, column, value, to test the probabilities."),
    ] = None,
    quiet: Quiet = False,
    reading: ReadingOptions,
) -> None:
    """Write a page about a model: one HTML file, to look at and to send.

    Example: boolweave report votes.npz -o votes.html
    """
    check_report(output, "--output")
    fitted = load_model(model)
    aside = None if held_out is None else _read_held_out(fitted, held_out, reading)
    from boolweave.report import write_report

    write_report(fitted, output, title=title or model.name, held_out=aside)
    talk(f"report: {output}", quiet)


def _read_held_out(fitted: Model, source: str, reading: ReadingOptions) -> HeldOut:
    from boolweave.io.write import column_names, row_names

    truth = read_input(source, reading, True).observations.to_local()
    rows = find_positions(fitted, row_names(truth), "row", source)
    columns = find_positions(fitted, column_names(truth), "column", source)
    return rows[truth.rows_of_entries()], columns[truth.indices], truth.values
