"""The commands that use a saved model: transform, predict, recommend, explain, report."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from boolweave.cli.common import (
    find_positions,
    load_model,
    local_file,
    read_input,
    read_model,
    read_new_rows,
    read_row_features,
)
from boolweave.cli.options import (
    Json,
    ModelFile,
    NewRows,
    NounsOption,
    Quiet,
    ReadingOptions,
    RowFeatures,
    Source,
    VerbOption,
    Writing,
)
from boolweave.cli.output import (
    check_output,
    check_report,
    in_words,
    print_message,
    put_answer,
    put_json,
    put_table,
)
from boolweave.cli.results import words_of
from boolweave.runtime.words import Words, counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from boolweave.cli.common import Model
    from boolweave.data.observed import ObservedEntries
    from boolweave.facts import HeldOut
    from boolweave.recommend import Explanation, Recommendations


def predict(
    model: ModelFile,
    pairs: Annotated[
        str | None,
        typer.Argument(
            metavar="PAIRS", help="A table of rows and columns, or - for standard input."
        ),
    ] = None,
    *,
    row: Annotated[str | None, typer.Option(help="A row, instead of a table of pairs.")] = None,
    column: Annotated[str | None, typer.Option(help="A column, together with --row.")] = None,
    writing: Writing,
) -> None:
    """Predict the values of entries, and the probability that each is 1.

    The table of pairs has a row and a column in each line, by label, or by number (from 1) if the
    data had no labels; further columns are ignored. The answer has the columns row, column, value
    and probability.

    Example: boolweave predict votes.npz pairs.csv -o predicted.csv
    """
    import polars as pl

    kind = check_output(writing)
    if (row is None) != (column is None) or (row is None) == (pairs is None):
        raise ValueError(
            "expected either a table of PAIRS or both --row and --column; give one of the two"
        )
    stored = read_model(model)
    from boolweave.facts import predicted_at
    from boolweave.io.write import encodable

    rows, columns = ([row or ""], [column or ""]) if pairs is None else _read_pairs(pairs)
    m = find_positions(stored.observations, rows, "row", pairs)
    n = find_positions(stored.observations, columns, "column", pairs)
    value, chance = predicted_at(stored.answers, m, n)
    answer = pl.DataFrame(
        {
            "row": pl.Series(encodable(rows), dtype=pl.String),
            "column": pl.Series(encodable(columns), dtype=pl.String),
            "value": value,
            "probability": chance.round(6),
        }
    )
    put_table(writing, kind, answer)


def _read_pairs(source: str) -> tuple[list[str], list[str]]:
    """Read the first two fields of every line; a header is skipped."""
    from boolweave.io.dialect import Dialect, guess
    from boolweave.io.files import FileError, magic
    from boolweave.io.text import read_fields

    with local_file(source) as path:
        if magic(path) is not None:
            raise FileError(str(path), "expected a text table of rows and columns")
        fields = read_fields(path, str(path), guess(path, str(path), Dialect(layout="pairs")))
    rows, columns = (fields[f].fill_null("").str.strip_chars().to_list() for f in ("f0", "f1"))
    return rows, columns


def transform(
    model: ModelFile,
    source: Source,
    *,
    probabilities: Annotated[
        bool | None,
        typer.Option(
            "--probabilities/--bits",
            help="With a factorization: write the probability that a row has a factor, or 0 or 1.",
            show_default="as the model was saved",
        ),
    ] = None,
    row_features: RowFeatures = None,
    writing: Writing,
    reading: ReadingOptions,
) -> None:
    """Apply a model to new rows.

    With a factorization, the answer says which factors each row has (0 or 1), or with
    --probabilities how probable that is. With a completion, it
    holds the rows with their missing entries replaced by probabilities; observed entries stay as
    they are. Each row is treated separately, and columns are matched by name.

    Example: boolweave transform votes.npz new.csv -o factors.csv
    """
    import numpy as np

    from boolweave.io.write import row_names, write_matrix

    kind = check_output(writing)
    fitted = load_model(model)
    from boolweave.data.observations import Observations
    from boolweave.estimator import BooleanMatrixFactorization

    has_factors = isinstance(fitted, BooleanMatrixFactorization)
    if probabilities is not None:
        if not has_factors:
            option = "--probabilities" if probabilities else "--bits"
            raise ValueError(
                f"{option} is for the factors of a factorization, but {model.name} is a "
                "completion, which writes probabilities of missing entries; leave it out"
            )
        fitted.set_params(output="probability" if probabilities else "bits")
    seen = read_new_rows(fitted, source, reading, writing.quiet)
    if row_features is None:
        values = np.asarray(fitted.transform(seen))
    elif isinstance(fitted, BooleanMatrixFactorization):
        raise ValueError(
            f"--row-features is for a completion, but {model.name} is a factorization; leave it out"
        )
    else:
        features = read_row_features(row_features, seen, fitted)
        values = np.asarray(fitted.transform(seen, row_features=features))
    names = [str(name) for name in fitted.get_feature_names_out()]
    empty = np.empty((0,), dtype=np.int64)
    labels: dict[str, Any] = {"row_labels": row_names(seen), "column_labels": names}
    lines = Observations.from_triples(empty, empty, empty, shape=values.shape, **labels)
    values = values if values.dtype == np.uint8 else values.round(6)
    put_answer(
        writing,
        lambda: [
            {"row": row, **dict(zip(names, line, strict=True))}
            for row, line in zip(row_names(seen), values.tolist(), strict=True)
        ],
        lambda: write_matrix([values], lines, writing.output, kind),
    )
    what = "missing entries filled in"
    if has_factors:
        what = counted(values.shape[1], "factor")
        what = what if values.dtype == np.uint8 else f"probabilities of {what}"
    print_message(f"{counted(seen.n_rows, 'new row')}, {what}", writing.quiet)


def recommend(
    model: ModelFile,
    rows: Annotated[
        list[str] | None,
        typer.Argument(metavar="ROWS", help="Rows, by label; all rows by default."),
    ] = None,
    *,
    n: Annotated[int, typer.Option("-n", min=1, help="Number of recommendations per row.")] = 10,
    least: Annotated[
        float,
        typer.Option(min=0.0, max=1.0, metavar="P", help="Least probability to be recommended."),
    ] = 0.5,
    new: NewRows = None,
    why: Annotated[
        bool | None,
        typer.Option(
            "--why/--no-why",
            help="Add a column with the reason for each recommendation.",
            show_default="if rows are named",
        ),
    ] = None,
    verb: VerbOption = "has",
    nouns: NounsOption = None,
    writing: Writing,
    reading: ReadingOptions,
) -> None:
    """Recommend the most probable unobserved columns of each row, with reasons.

    Columns with a probability below --least are left out. With --new, the rows are those of a file,
    which the model has not seen.

    Example: boolweave recommend likes.npz Ann Bo -n 5 --verb likes --nouns guests,drinks
    """
    import numpy as np

    kind = check_output(writing)
    called = words_of(nouns, verb)
    explainer = _explainer(model, new, reading, writing.quiet, called)
    from boolweave.data.frames import Frame
    from boolweave.data.labels import name_of
    from boolweave.recommend import percent, recommend_at, some_names

    seen = explainer.observations
    wanted = find_positions(seen, rows, "row", new) if rows else np.arange(seen.n_rows)
    unobserved = recommend_at(explainer, wanted, n)
    found = unobserved.above(least)
    if in_words(writing) and rows:
        for line in _in_sentences(found):
            typer.echo(line)
    else:
        with_why = why or (why is None and bool(rows))
        table = found.in_form_of(Frame("polars"), why=with_why)
        put_table(writing, kind, _named(table, seen))
    full = (unobserved.columns < 0).all(axis=1)
    unlikely = (found.columns < 0).all(axis=1) & ~full
    for nothing, words in (
        (wanted[full], "nothing to recommend: every column was observed in {}"),
        (
            wanted[unlikely],
            f"nothing above {percent(least)} for {{}}; --least 0 shows what is most probable",
        ),
    ):
        if len(nothing):
            names = tuple(name_of(seen, int(row), "row") for row in nothing[:5])
            print_message(words.format(some_names(names, len(nothing))), writing.quiet)


def _explainer(
    model: Path, new: str | None, reading: ReadingOptions, quiet: bool, words: Words
) -> Any:
    """Return an explainer of the rows of the model, or of the rows of a file."""
    if new is not None:
        fitted = load_model(model)
        rows = read_new_rows(fitted, new, reading, quiet)
        return fitted._explainer(rows, dataclasses.asdict(words))[0]
    stored = read_model(model)
    from boolweave.engine.result import Result
    from boolweave.recommend import FactorExplainer

    if isinstance(stored.answers, Result):
        return FactorExplainer(stored.answers, words)
    from boolweave.completion.answers.explaining import Explainer

    return Explainer(stored.answers, stored.observations.to_local(), words=words)


def _named(table: pl.DataFrame, seen: ObservedEntries) -> pl.DataFrame:
    """Replace positions, where there are no labels, by names with numbers from 1."""
    import polars as pl

    for axis, labels in (("row", seen.row_labels), ("column", seen.column_labels)):
        if labels is None:
            table = table.with_columns(pl.format(f"{axis} {{}}", pl.col(axis) + 1).alias(axis))
    return table.with_columns(pl.col("probability").round(6))


def _in_sentences(found: Recommendations) -> Iterator[str]:
    """Describe what is recommended to each row, and why."""
    from boolweave.data.labels import name_of
    from boolweave.recommend import percent

    seen = found.explainer.observations
    for i, row in enumerate(found.rows):
        if (found.columns[i] >= 0).any():
            yield f"{name_of(seen, int(row), 'row')}:"
        for j, column in enumerate(found.columns[i]):
            if column >= 0:
                name, chance = name_of(seen, int(column), "column"), found.probabilities[i, j]
                yield f"  {j + 1}. {name}, {percent(chance)}, {found.reasons[i][j]}"


def explain(
    model: ModelFile,
    row: Annotated[str, typer.Argument(metavar="ROW", help="A row, by label.")],
    column: Annotated[str, typer.Argument(metavar="COLUMN", help="A column, by label.")],
    *,
    new: NewRows = None,
    verb: VerbOption = "has",
    nouns: NounsOption = None,
    json: Json = False,
    quiet: Quiet = False,
    reading: ReadingOptions,
) -> None:
    """Explain the probability of an entry.

    With a completion, the reasons are the offsets of the row and the column, the directions and the
    Boolean layers, and how much each adds to the log-odds. With a factorization, they are the
    factors responsible, with their members. With --new, the row is taken from a file, which the
    model has not seen.

    Example: boolweave explain likes.npz Ann tea --verb likes --nouns guests,drinks
    """
    called = words_of(nouns, verb)
    explainer = _explainer(model, new, reading, quiet or json, called)
    from boolweave.recommend import Explanation, percent

    (m,) = find_positions(explainer.observations, [row], "row", new)
    (n,) = find_positions(explainer.observations, [column], "column")
    found = explainer.at(int(m), int(n))
    if json:
        put_json(dataclasses.asdict(found))
        return
    observed = "not observed" if found.observed is None else f"observed: {found.observed}"
    chance = percent(found.probability)
    typer.echo(f"{found.row}, {found.column}: 1 with a probability of {chance}; {observed}")
    if isinstance(found, Explanation):
        _echo_factors(found, called)
        return
    typer.echo(f"  mostly {found.reason() if found.value else found.reason_against()}")
    typer.echo(f"  log-odds for a 1 (+) and against it (-), in total {found.log_odds:+.2f}:")
    for part in found.parts:
        typer.echo(f"    {part.sentence}")
    for note in found.notes:
        typer.echo(f"  {note}")


def _echo_factors(found: Explanation, nouns: Words) -> None:
    """Print the factors responsible, one by one."""
    from boolweave.recommend import some_names

    for reason in found.reasons:
        typer.echo(f"  {reason.sentence}")
        typer.echo(
            f"    {reason.contribution:.0%} of the reasons; both belong to it with a "
            f"probability of {reason.probability:.3f}"
        )
        typer.echo(f"    its {len(reason.rows):,} {nouns.rows}: {some_names(reason.rows)}")
        typer.echo(f"    its {len(reason.columns):,} {nouns.columns}: {some_names(reason.columns)}")
    if not found.value:
        typer.echo(f"  {found.reason()}")


def report(
    model: ModelFile,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File of the page (.html).")
    ] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    nouns: NounsOption = None,
    held_out: Annotated[
        str | None,
        typer.Option(help="A file of held-out entries (row, column, value) to test the model on."),
    ] = None,
    quiet: Quiet = False,
    reading: ReadingOptions,
) -> None:
    """Write a report about a model: a single HTML file that can be sent to others.

    Example: boolweave report votes.npz -o votes.html
    """
    check_report(output, "--output")
    called = words_of(nouns)
    fitted = load_model(model)
    entries = None if held_out is None else _read_held_out(fitted, held_out, reading)
    from boolweave.report import write_report

    write_report(
        fitted,
        output,
        title=title or model.name,
        held_out=entries,
        rows=called.rows,
        columns=called.columns,
    )
    print_message(f"report: {output}", quiet)


def _read_held_out(fitted: Model, source: str, reading: ReadingOptions) -> HeldOut:
    from boolweave.io.write import column_names, row_names

    truth = read_input(source, reading, True).observations.to_local()
    rows = find_positions(fitted.observations_, row_names(truth), "row", source)
    columns = find_positions(fitted.observations_, column_names(truth), "column", source)
    return rows[truth.rows_of_entries()], columns[truth.indices], truth.values
