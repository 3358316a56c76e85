"""The command `boolweave compare`: which method is best on this table."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from boolweave.cli.common import parameters, put_json, read_input, talk
from boolweave.cli.options import Fitting, Reading, Source, Writing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from boolweave.baselines import Comparison
    from boolweave.baselines.comparison import OnFold

# Heading and format of each measure.
COLUMNS = {
    "accuracy": ("accuracy", ".3f"),
    "log_loss": ("log-loss", ".3f"),
    "auc": ("AUC", ".3f"),
    "calibration": ("calibration", ".3f"),
    "seconds": ("seconds", ".2f"),
    "megabytes": ("MB", ".0f"),
    "rank": ("rank", ".1f"),
}


def compare(
    source: Source,
    writing: Writing,
    folds: Annotated[
        int, typer.Option(min=2, help="Parts of the entries; each is predicted from the rest.")
    ] = 5,
    only: Annotated[
        str | None, typer.Option(metavar="A,B", help="Some of the methods, by name, with commas.")
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            help="Draw the comparison here: .png, .svg or .pdf.", rich_help_panel="Output"
        ),
    ] = None,
    reading: Reading = Reading(),  # noqa: B008
    fitting: Fitting = Fitting(),  # noqa: B008
) -> None:
    """Compare with other methods, each on all folds of this table.

    Every entry is predicted once, from those of the other folds. The table shows means over the
    folds and their standard errors, the best of each column in bold. Calibration is the mean gap
    between probability and frequency; MB is what a method took on top of the data.

    Example: boolweave compare votes.csv --folds 5 --picture votes.png
    """
    from boolweave.baselines import compare as compare_all
    from boolweave.baselines.comparison import METHODS
    from boolweave.io.write import TABLE_FORMATS, check_folder, output_format, write_table
    from boolweave.runtime.atomic import replacing

    kind = output_format(writing.output, writing.format, TABLE_FORMATS)
    check_folder(writing.output, "--output")
    _check_picture(picture)
    methods = list(METHODS) if only is None else [name.strip() for name in only.split(",")]
    given = parameters(fitting)
    if {"method", "checkpoint"} & set(given):
        raise ValueError("compare runs every method: --method and --checkpoint have no place here")
    contents = read_input(source, reading, writing.quiet, absent="missing")
    with _progress(len(methods) * folds, writing.quiet or writing.json) as on_fold:
        found = compare_all(
            contents.observations, methods=methods, n_folds=folds, random_state=fitting.seed,
            n_jobs=fitting.jobs, on_fold=on_fold, **given,
        )  # fmt: skip
    for name, reason in found.failures.items():
        talk(f"{name} did not finish: {reason}", writing.quiet)
    if writing.json:
        put_json({"folds": folds, "methods": found.rows(), "failures": found.failures})
    elif writing.output is None and writing.format is None:
        _print_table(found, contents.name, folds)
    if writing.output is not None or (writing.format is not None and not writing.json):
        import polars as pl

        rows = [{k: v for k, v in row.items() if k != "best_in"} for row in found.rows()]
        write_table(pl.DataFrame(rows), writing.output, kind)
    if picture is not None:
        figure = found.plot(f"{contents.name}: {folds} folds, best first by log-loss")
        with replacing(picture) as file:
            figure.savefig(file, format=picture.suffix[1:].lower())
        talk(f"picture: {picture}", writing.quiet)
    if not found.folds:
        raise ValueError("no method finished; see above")


def _check_picture(picture: Path | None) -> None:
    from importlib.util import find_spec

    from boolweave.io.write import check_folder

    if picture is None:
        return
    check_folder(picture, "--picture")
    if picture.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ValueError(f"--picture: expected a name in .png, .svg or .pdf, got {str(picture)!r}")
    if find_spec("matplotlib") is None:
        raise ValueError("--picture needs matplotlib: pip install 'boolweave[plot]'")


def _print_table(found: Comparison, name: str, folds: int) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{name}, {folds} folds", title_justify="left", box=None)
    table.add_column("method")
    for heading, _ in COLUMNS.values():
        table.add_column(heading, justify="right", no_wrap=True)
    for row in sorted(found.rows(), key=lambda row: row["log_loss"]):
        cells = [_cell(row, measure) for measure in COLUMNS]
        table.add_row(row["method"], *cells)
    width = None if sys.stdout.isatty() else 140
    Console(soft_wrap=True, highlight=False, width=width).print(table)


def _cell(row: dict[str, Any], measure: str) -> str:
    form = COLUMNS[measure][1]
    if row[measure] != row[measure]:
        return "–"
    text = f"{row[measure]:{form}} ± {row[f'{measure}_error']:{form}}"
    return f"[bold]{text}[/bold]" if measure in row["best_in"] else text


@contextmanager
def _progress(total: int, quiet: bool) -> Iterator[OnFold | None]:
    """A bar over methods and folds, on a terminal only."""
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
