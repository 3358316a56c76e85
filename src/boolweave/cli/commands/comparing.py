"""The command `boolweave compare`: which method is best on this table."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from boolweave.cli.common import check_factor_options, read_input
from boolweave.cli.options import Fitting, ReadingOptions, Source, Writing
from boolweave.cli.output import (
    check_output,
    check_picture,
    print_message,
    put_table,
    save_picture,
    write_all,
)
from boolweave.cli.results import end
from boolweave.runtime.extras import need

if TYPE_CHECKING:
    from collections.abc import Iterator

    from boolweave.baselines.comparison import OnFold
    from boolweave.data.observations import Split
    from boolweave.io import Reading

# Heading and format of each measure.
COLUMNS = {
    "accuracy": ("accuracy", ".3f"),
    "log_loss": ("log-loss", ".3f"),
    "auc": ("AUC", ".3f"),
    "calibration": ("ECE", ".3f"),
    "seconds": ("seconds", ".2f"),
    "megabytes": ("MB", ".0f"),
    "rank": ("rank", ".1f"),
}

# The same for the measures of rankings, which have a table of their own.
RANKING = {
    "precision": ("precision@{top}", ".3f"),
    "recall": ("recall@{top}", ".3f"),
    "ndcg": ("nDCG@{top}", ".3f"),
    "map": ("MAP@{top}", ".3f"),
}

# The measures that decide who wins: whether probabilities can be trusted, and how many entries are
# right.
JUDGED = ("log_loss", "accuracy")


def compare(
    source: Source,
    *,
    writing: Writing,
    folds: Annotated[
        int | None,
        typer.Option(
            min=2,
            show_default="5",
            help="Number of folds; each is predicted from the others, or from those before it.",
        ),
    ] = None,
    split: Annotated[
        Literal["entries", "last", "time"],
        typer.Option(
            help="Which entries are predicted: random ones; the last ones of each row; or periods "
            "of time, each from everything before it."
        ),
    ] = "entries",
    times: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="For --split last and time: the column of triples that holds the times, by name "
            "or by number (from 1).",
        ),
    ] = None,
    per_row: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            show_default="1",
            help="Number of entries of each row that --split last hides.",
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Only these methods, by name, separated by commas."),
    ] = None,
    ranking: Annotated[
        bool,
        typer.Option("--ranking", help="Also show how well the entries of each row are ranked."),
    ] = False,
    top: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of entries of each row in a ranking.")
    ] = 10,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Draw the comparison to this file: .png, .svg or .pdf.", rich_help_panel="Output"
        ),
    ] = None,
    reading: ReadingOptions,
    fitting: Fitting,
) -> None:
    """Compare boolweave with other methods by cross-validation on a table.

    Every entry is predicted once, from the entries of the other folds; the answers of a table that
    is encoded are hidden whole. --split chooses entries by time instead. The table shows means over
    the folds and their standard errors, with the best of each column in bold. The lines below it
    say which method wins by log-loss and by accuracy, by how much, and whether the difference is
    more than chance. ECE is the expected calibration error, the mean gap between probability and
    frequency; MB is the memory that a method used in addition to the data. --ranking adds
    precision, recall, nDCG and MAP of the N held-out entries of each row with the highest
    probabilities; files and --json always contain them. With --split last, standard errors are
    computed by leaving out groups of rows.

    Example: boolweave compare votes.csv --folds 5 --plot votes.png
    """
    import polars as pl

    from boolweave.baselines.comparison import METHODS, N_FOLDS
    from boolweave.baselines.comparison import compare as compare_all

    kind = check_output(writing)
    if plot is not None:
        check_picture(plot, "--plot")
        need("matplotlib", "--plot")
    methods = list(METHODS) if only is None else [name.strip() for name in only.split(",")]
    if unknown := [name for name in methods if name not in METHODS]:
        raise ValueError(f"--only: expected names among {', '.join(METHODS)}, got {unknown[0]!r}")
    if {"method", "checkpoint"} & set(fitting):
        raise ValueError("compare runs every method: leave out --method and --checkpoint")
    check_factor_options(fitting, "posterior")
    _check_split(split, times, folds, per_row)
    contents = read_input(source, reading, writing.quiet, absent="missing", times=times)
    splits, what = _splits(contents, split, folds or N_FOLDS, per_row or 1)
    n_splits = 1 if split == "last" else folds or N_FOLDS
    if splits is None and n_splits > contents.observations.n_observed:
        raise ValueError(
            f"--folds: expected at most the number of observed entries, "
            f"{contents.observations.n_observed}, got {n_splits}"
        )
    with _progress(len(methods) * n_splits, writing.quiet or writing.json) as on_fold:
        found = compare_all(
            contents.observations,
            methods=methods,
            n_folds=n_splits if splits is None else None,
            splits=splits,
            groups=contents.groups if splits is None else None,
            top=top,
            on_fold=on_fold,
            **fitting,
        )
    if found.interrupted:
        done = f"{len(found.folds)} of {len(methods)} methods"
        print_message(f"interrupted: this is the comparison of {done}", writing.quiet)
    for name, reason in found.failures.items():
        print_message(f"{name} did not finish: {reason}", writing.quiet)
    rows = found.rows()
    verdicts = [verdict for name in JUDGED if (verdict := found.verdict(name)) is not None]

    def write_answer() -> None:
        if writing.json or writing.output is not None or writing.format is not None:
            table = pl.DataFrame([{k: v for k, v in row.items() if k != "best_in"} for row in rows])
            answer = {
                "split": split,
                "folds": n_splits,
                "top": top,
                "methods": rows,
                "failures": found.failures,
                "interrupted": found.interrupted,
                "verdicts": [asdict(verdict) | {"clear": verdict.is_clear} for verdict in verdicts],
            }
            put_table(writing, kind, table, answer)
        else:
            _print_table(rows, COLUMNS, f"{contents.name}, {what}")
            if ranking:
                headed = {
                    key: (heading.format(top=top), f) for key, (heading, f) in RANKING.items()
                }
                _print_table(rows, headed, "\nranking of the held-out entries of each row")
            for number, verdict in enumerate(verdicts):
                typer.echo(f"{'' if number else chr(10)}{verdict}.")

    def write_picture() -> None:
        if plot is not None:
            title = f"{contents.name}: {what}, best first by log-loss"
            save_picture(found.plot(title), plot)
            print_message(f"picture: {plot}", writing.quiet)

    write_all(write_answer, write_picture)
    if not found.folds:
        raise ValueError("no method finished; the reasons are above")
    end(found.interrupted)


def _check_split(split: str, times: str | None, folds: int | None, per_row: int | None) -> None:
    """Refuse options that do not fit together, before anything is read."""
    if split == "entries" and times is not None:
        raise ValueError("--times needs --split last or --split time; add one or leave out --times")
    if split != "entries" and times is None:
        raise ValueError(f"--split {split} needs the column of times: name it with --times")
    if split == "last" and folds is not None:
        raise ValueError("--split last is a single split: leave out --folds")
    if split != "last" and per_row is not None:
        raise ValueError("--per-row needs --split last; add it or leave out --per-row")


def _splits(
    contents: Reading, split: str, folds: int, per_row: int
) -> tuple[list[Split] | None, str]:
    """Return the splits, or None for random folds, and a name for them."""
    from boolweave.data.splits import folds_by_time, hide_last

    seen, times = contents.observations.to_local(), contents.times
    if times is None:
        return None, f"{folds} folds"
    if split == "time":
        periods = list(folds_by_time(seen, times, folds))
        return periods, f"{folds} periods, each predicted from those before it"
    hidden = "entry" if per_row == 1 else f"{per_row} entries"
    return [hide_last(seen, times, per_row)], f"the last {hidden} of each row"


def _print_table(
    rows: list[dict[str, Any]], columns: dict[str, tuple[str, str]], title: str
) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None)
    table.add_column("method")
    for heading, _ in columns.values():
        table.add_column(heading, justify="right", no_wrap=True)
    for row in sorted(rows, key=lambda row: row["log_loss"]):
        cells = (_cell(row, measure, form) for measure, (_, form) in columns.items())
        table.add_row(row["method"], *cells)
    width = None if sys.stdout.isatty() else 140
    Console(soft_wrap=True, highlight=False, width=width).print(table)


def _cell(row: dict[str, Any], measure: str, form: str) -> str:
    value, error = row[measure], row[f"{measure}_error"]
    if value != value:
        return "–"
    text = f"{value:{form}}" if error != error else f"{value:{form}} ± {error:{form}}"
    return f"[bold]{text}[/bold]" if measure in row["best_in"] else text


@contextmanager
def _progress(total: int, quiet: bool) -> Iterator[OnFold | None]:
    """Show a progress bar over methods and folds, on a terminal only."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=total)

        def on_fold(method: str, fold: int) -> None:
            bar.update(task, advance=1, description=f"{method}, fold {fold}")

        yield on_fold
