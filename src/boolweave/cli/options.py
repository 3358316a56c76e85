"""Groups of options that several commands share.

A command takes a group as one argument, a frozen dataclass; `grouped` shows typer the fields of the
dataclass as the command's own options.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import traceback
import typing
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from boolweave.cli.process import INTERRUPTED, catch_interruptions, ignore_output


class Absent(StrEnum):
    zero = "zero"
    missing = "missing"


class Duplicates(StrEnum):
    error = "error"
    majority = "majority"


class Layout(StrEnum):
    wide = "wide"
    triples = "triples"
    pairs = "pairs"


class Labels(StrEnum):
    yes = "yes"
    no = "no"
    ignore = "ignore"


class Product(StrEnum):
    or_ = "or"
    xor = "xor"


class Method(StrEnum):
    auto = "auto"
    max_sum = "max-sum"
    sum_product = "sum-product"


class Messages(StrEnum):
    auto = "auto"
    uint8 = "uint8"
    float32 = "float32"


_IN, _FIT, _TALK = "How the input is read", "How the factors are found", "Output"
_WHERE = "Where the factors are found"

Source = Annotated[
    str, typer.Argument(metavar="INPUT", help="The file; - is standard input.", show_default=False)
]
Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT...", show_default=False,
        help="The file; - is standard input. Or several Parquet files of triples.",
    ),
]  # fmt: skip
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model that factorize or complete wrote (.npz).")
]


@dataclass(frozen=True)
class Reading:
    """How a file is read."""

    input_format: Annotated[
        str | None,
        typer.Option(
            help="csv, parquet, arrow, mtx, npz, fimi, movielens or png; else the file tells.",
            rich_help_panel=_IN,
        ),
    ] = None
    layout: Annotated[
        Layout | None,
        typer.Option(
            help="wide: a line per row; triples: row, column, value; pairs: row, column of ones.",
            rich_help_panel=_IN,
        ),
    ] = None
    delimiter: Annotated[
        str | None, typer.Option(help="What parts the fields of a line.", rich_help_panel=_IN)
    ] = None
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            help="Whether the first line holds names.",
            rich_help_panel=_IN,
            show_default=False,
        ),
    ] = None
    labels: Annotated[
        Labels | None,
        typer.Option(
            help="Whether the first column holds names; ignore leaves it out.", rich_help_panel=_IN
        ),
    ] = None
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="ROW,COLUMN,VALUE",
            help="Which columns hold the triples, by name or by number from 1.",
            rich_help_panel=_IN,
        ),
    ] = None
    above: Annotated[
        str | None,
        typer.Option(
            metavar="mean|median|NUMBER",
            help="The values are ratings; those above it are ones. The mean is that of all values.",
            rich_help_panel=_IN,
        ),
    ] = None
    absent: Annotated[
        Absent | None,
        typer.Option(
            help="What entries are that sparse files, pairs, triples or transactions do not name.",
            rich_help_panel=_IN,
        ),
    ] = None
    duplicates: Annotated[
        Duplicates,
        typer.Option(help="Where one entry is given as both 0 and 1.", rich_help_panel=_IN),
    ] = Duplicates.error


@dataclass(frozen=True)
class Fitting:
    """Parameters of the estimator, under their own names."""

    n_components: Annotated[
        str,
        typer.Option(
            "--n-components", "-k", metavar="K|auto", help="Number of factors.",
            rich_help_panel=_FIT,
        ),
    ] = "auto"  # fmt: skip
    product: Annotated[
        Product | None, typer.Option(help="How factors are joined.", rich_help_panel=_FIT)
    ] = None
    method: Annotated[
        Method | None, typer.Option(help="The kind of message passing.", rich_help_panel=_FIT)
    ] = None
    noise: Annotated[
        str | None,
        typer.Option(metavar="P|learn", help="Probability of a flip.", rich_help_panel=_FIT),
    ] = None
    row_prior: Annotated[
        str | None,
        typer.Option(metavar="P|learn", help="P(a row has a factor).", rich_help_panel=_FIT),
    ] = None
    column_prior: Annotated[
        str | None,
        typer.Option(metavar="P|learn", help="P(a column has a factor).", rich_help_panel=_FIT),
    ] = None
    damping: Annotated[
        float | None,
        typer.Option(help="Share of the new message in each step.", rich_help_panel=_FIT),
    ] = None
    max_iter: Annotated[
        int | None, typer.Option(help="Most iterations of one start.", rich_help_panel=_FIT)
    ] = None
    tol: Annotated[
        float | None, typer.Option(help="When messages have settled.", rich_help_panel=_FIT)
    ] = None
    n_init: Annotated[
        str | None, typer.Option(metavar="N|auto", help="Number of starts.", rich_help_panel=_FIT)
    ] = None
    messages: Annotated[
        Messages | None, typer.Option(help="How messages are stored.", rich_help_panel=_FIT)
    ] = None
    decimation: Annotated[
        float | None,
        typer.Option(help="Share of the entries to fix at a time.", rich_help_panel=_FIT),
    ] = None
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="DIRECTORY|URL",
            help="Where a long run keeps what it needs to go on after a crash.",
            rich_help_panel=_FIT,
        ),
    ] = None
    max_memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Such as 2GiB: what a run may take; messages beyond it are kept in files.",
            rich_help_panel=_FIT,
        ),
    ] = None
    seed: Annotated[
        int,
        typer.Option("--seed", "--random-state", help="Seed of the starts.", rich_help_panel=_FIT),
    ] = 0
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs", "--n-jobs", "-j", help="Threads; -1 for all cores.", rich_help_panel=_FIT
        ),
    ] = -1


@dataclass(frozen=True)
class Cluster:
    """Where the factors are found, if not here."""

    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="A Dask cluster, such as tcp://host:8786.",
            rich_help_panel=_WHERE,
        ),
    ] = None
    local_cluster: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="A Dask cluster of N processes on this machine.",
            rich_help_panel=_WHERE,
        ),
    ] = None


@dataclass(frozen=True)
class Writing:
    """Where the answer goes."""

    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="A file instead of standard output.", rich_help_panel=_TALK
        ),
    ] = None
    format: Annotated[
        str | None,
        typer.Option(help="csv, tsv, parquet, arrow, json; else by suffix.", rich_help_panel=_TALK),
    ] = None
    json: Annotated[
        bool,
        typer.Option("--json", help="For machines, to standard output.", rich_help_panel=_TALK),
    ] = False
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Say nothing.", rich_help_panel=_TALK)
    ] = False


_DEBUG = Annotated[
    bool, typer.Option("--debug", help="Show the traceback of an error.", rich_help_panel=_TALK)
]


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Spread arguments that are option groups into single options, for typer to see.

    Every command also gets the option --debug, which shows where an error comes from.
    """
    hints = typing.get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, tuple[Any, tuple[str, ...]]] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        hint = hints[name]
        if not dataclasses.is_dataclass(hint):
            parameters.append(parameter.replace(annotation=hint))
            continue
        fields = typing.get_type_hints(hint, include_extras=True)
        groups[name] = (hint, tuple(fields))
        parameters += [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=fields[field.name],
            )
            for field in dataclasses.fields(hint)
        ]

    parameters.append(
        inspect.Parameter("debug", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_DEBUG)
    )

    @functools.wraps(command)
    def run(**given: Any) -> None:
        debug = given.pop("debug")
        for name, (make, fields) in groups.items():
            given[name] = make(**{field: given.pop(field) for field in fields})
        catch_interruptions()
        try:
            command(**given)
        except BrokenPipeError:  # the reader of our output went away, as `head` does
            ignore_output()
        except KeyboardInterrupt:  # typer would end without a word
            typer.echo("boolweave: interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except Exception:
            if debug:
                traceback.print_exc()
            raise

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run
