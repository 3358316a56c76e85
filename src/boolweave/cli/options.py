"""Groups of options that several commands share.

A command takes a group as one argument, a frozen dataclass; `grouped` shows typer the fields of the
dataclass as the command's own options.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import traceback
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from boolweave.cli.process import INTERRUPTED, catch_interruptions, ignore_output

if TYPE_CHECKING:
    from boolweave.data.words import Words

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
Json = Annotated[bool, typer.Option("--json", help="For machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing.")]
Jobs = Annotated[int, typer.Option("--jobs", "--n-jobs", "-j", help="Threads; -1 for all cores.")]

NounsOption = Annotated[
    str | None,
    typer.Option("--nouns", metavar="ROWS,COLUMNS", help="What these are, such as users,films."),
]
VerbOption = Annotated[
    str,
    typer.Option("--verb", help="What a row does to the columns where it has ones: liked, owns."),
]
NewRows = Annotated[
    str | None,
    typer.Option("--new", metavar="FILE", help="A table of new rows, in place of those fitted."),
]


def _option(panel: str, help: str, *names: str, default: object = None, **more: Any) -> Any:
    """A field of a group: what `typer.Option` takes, and the panel of the help it stands in."""
    option = typer.Option(*names, help=help, rich_help_panel=panel, **more)
    return dataclasses.field(default=default, metadata={"option": option})


_read = functools.partial(_option, "How the input is read")
_fit = functools.partial(_option, "How the factors are found")
_complete = functools.partial(_option, "How holes are filled")
_where = functools.partial(_option, "Where the factors are found")
_write = functools.partial(_option, "Output")


def as_options(message: str) -> str:
    """A message about a file, the parameters that it names in backticks as options."""

    def option(found: re.Match[str]) -> str:
        verb, name, value = found.groups()
        words = [f"--{name.replace('_', '-')}", *([value.replace(" ", "")] if value else [])]
        if (name, value) == ("header", "False"):
            words = ["--no-header"]
        return " ".join([*(["say"] if verb else []), *words])

    groups = ReadingOptions, Fitting, Completing
    fields = [field.name for group in groups for field in dataclasses.fields(group)]
    names = "|".join([*fields, "times"])
    return re.sub(rf'(pass )?`({names})(?:="?\[?([\w.,+ -]+)\]?"?)?`', option, message)


# How zeros of sparse input can be treated: what --zeros says, if it does not say how they look.
TREATMENTS = ("auto", "exact", "collective")

# An option of two groups: of the reader, and of the fit.
_zeros = _read(
    "What zeros look like beside 0, false, no and n, such as nein,-. Of sparse input: exact treats "
    "each zero by itself, collective all zeros of a row at once, for large matrices; auto chooses.",
    metavar="WORD,WORD|auto|exact|collective",
)


@dataclass(frozen=True)
class ReadingOptions:
    """How a file is read."""

    input_format: str | None = _read(
        "csv, parquet, arrow, xlsx, mtx, npz, fimi, movielens or png; else the file tells."
    )
    layout: Literal["wide", "triples", "pairs"] | None = _read(
        "wide: a line per row; triples: row, column, value; pairs: row, column of ones."
    )
    delimiter: str | None = _read("What parts the fields of a line.")
    header: bool | None = _read(
        "Whether the first line holds names.", "--header/--no-header", show_default=False
    )
    labels: Literal["yes", "no", "ignore"] | None = _read(
        "Whether the first column holds names; ignore leaves it out."
    )
    columns: str | None = _read(
        "Which columns hold the triples, by name or by number from 1.",
        metavar="ROW,COLUMN,VALUE",
    )
    above: str | None = _read(
        "The values are ratings; those above it are ones. The mean is that of all values.",
        metavar="mean|median|NUMBER",
    )
    absent: Literal["zero", "missing"] | None = _read(
        "What entries are that sparse files, pairs, triples or transactions do not name."
    )
    duplicates: Literal["error", "majority"] = _read(
        "Where one entry is given as both 0 and 1.", default="error"
    )
    ones: str | None = _read(
        "What ones look like beside 1, true, yes and y, such as ja,x.", metavar="WORD,WORD"
    )
    zeros: str | None = _zeros
    missing: str | None = _read(
        "What missing cells look like beside empty ones, NA and ?, such as -,.,99.",
        metavar="WORD,WORD",
    )
    use: str | None = _read(
        "The columns of a wide table that are used, by name or by number from 1.",
        metavar="COLUMN,COLUMN",
    )
    drop: str | None = _read("Its columns that are left out.", metavar="COLUMN,COLUMN")
    index: str | None = _read("The column that holds the names of its rows.", metavar="COLUMN")
    encode: str = _read(
        "Columns that are no 0/1: auto turns categories, numbers and dates into such columns; "
        "never refuses them; rules such as 'age=40,60;hobby=split:,;zip=category' are about "
        "single ones.",
        metavar="auto|never|RULES", default="auto",
    )  # fmt: skip

    def words(self) -> Words:
        """What ones, zeros and missing cells look like."""
        from boolweave.data.words import Words

        zeros = None if self.zeros in TREATMENTS else self.zeros
        try:
            return Words.of(*map(_words, (self.ones, zeros, self.missing)))
        except ValueError as error:
            raise ValueError(as_options(str(error))) from None


def _words(text: str | None) -> list[str] | None:
    return None if text is None else text.split(",")


@dataclass(frozen=True)
class Completing:
    """Parameters that a completion alone has."""

    n_layers: str | None = _complete(
        "Number of Boolean layers.", "--layers", "--n-layers", metavar="N|auto",
        show_default="auto",
    )  # fmt: skip
    n_directions: str | None = _complete(
        "Number of real directions in which rows and columns differ.", "--directions",
        "--n-directions", metavar="N|auto", show_default="auto",
    )  # fmt: skip
    n_members: int | None = _complete(
        "Models whose probabilities are averaged.", "--members", "--n-members", metavar="N", min=1,
        show_default="16",
    )  # fmt: skip

    def parameters(self) -> dict[str, Any]:
        """Those that were given."""
        return _given(self)


@dataclass(frozen=True)
class Fitting:
    """Parameters of the estimator, under their own names."""

    n_components: str = _fit(
        "Number of factors.", "--n-components", "-k", metavar="K|auto", default="auto"
    )
    objective: Literal["errors", "posterior"] | None = _fit(
        "errors: fewest wrong entries, for what is seen; posterior: probabilities, for what is not."
    )
    false_one_weight: float | None = _fit(
        "With errors: what a false one costs beside a missed one; inf allows none.",
        metavar="W|inf",
    )
    product: Literal["or", "xor"] | None = _fit("How factors are joined.")
    method: Literal["auto", "max-sum", "sum-product"] | None = _fit(
        "The kind of message passing; this and others of its options choose posterior."
    )
    noise: str | None = _fit("Probability of a flip.", metavar="P|learn")
    row_prior: str | None = _fit("P(a row has a factor).", metavar="P|learn")
    column_prior: str | None = _fit("P(a column has a factor).", metavar="P|learn")
    damping: float | None = _fit("Share of the new message in each step.")
    max_iter: int | None = _fit("Most iterations of one start.")
    tol: float | None = _fit("When messages have settled.")
    n_init: str | None = _fit("Number of starts.", metavar="N|auto")
    messages: Literal["auto", "uint8", "float32"] | None = _fit("How messages are stored.")
    decimation: float | None = _fit("Share of the entries to fix at a time.")
    zeros: str | None = _zeros
    checkpoint: str | None = _fit(
        "Where a long run keeps what it needs to go on after a crash.", metavar="DIRECTORY|URL"
    )
    max_memory: str | None = _fit(
        "Such as 2GiB: what a run may take; messages beyond it are kept in files.",
        metavar="SIZE",
    )
    max_time: float | None = _fit("Seconds after which the best answer so far is written.")
    random_state: int = _fit("Seed of the starts.", "--seed", "--random-state", default=0)
    n_jobs: int = _fit("Threads; -1 for all cores.", "--jobs", "--n-jobs", "-j", default=-1)

    def parameters(self) -> dict[str, Any]:
        """The estimator's parameters; those not given keep its defaults."""
        given = _given(self)
        if self.zeros not in TREATMENTS:  # it says how zeros look
            given.pop("zeros", None)
        return given


# Parameters that are a number, or a word in its place.
NUMBER_OR_WORD: dict[str, tuple[type[int] | type[float], str]] = {
    "n_components": (int, "auto"),
    "n_layers": (int, "auto"),
    "n_directions": (int, "auto"),
    "noise": (float, "learn"),
    "row_prior": (float, "learn"),
    "column_prior": (float, "learn"),
    "n_init": (int, "auto"),
    "prevalence": (float, "learn"),
}


def _given(group: Completing | Fitting) -> dict[str, Any]:
    """The options that were given, numbers as numbers."""
    given = {name: value for name, value in vars(group).items() if value is not None}
    return {
        name: number_or_word(name, value) if name in NUMBER_OR_WORD else value
        for name, value in given.items()
    }


def number_or_word(name: str, text: str) -> float | str:
    """The value of a parameter of `NUMBER_OR_WORD`."""
    kind, word = NUMBER_OR_WORD[name]
    if text == word:
        return text
    try:
        return kind(text)
    except ValueError:
        option, what = name.replace("_", "-"), "a whole number" if kind is int else "a number"
        raise ValueError(f"--{option}: expected {what} or {word}, got {text!r}") from None


@dataclass(frozen=True)
class Cluster:
    """Where the factors are found, if not here."""

    scheduler: str | None = _where("A Dask cluster, such as tcp://host:8786.", metavar="ADDRESS")
    local_cluster: int | None = _where(
        "A Dask cluster of N processes on this machine.", metavar="N", min=1
    )


@dataclass(frozen=True)
class Keeping:
    """What else `factorize` and `complete` write, and what they test the model on."""

    model: Path | None = _write("Write the model here (.npz), for predict and others.")
    report: Path | None = _write("Write a report here (.html).")
    hold_out: float = _fit(
        "Share of the entries kept aside to test the probabilities.",
        default=0.0, min=0.0, max=0.9,
    )  # fmt: skip


@dataclass(frozen=True)
class Writing:
    """Where the answer goes."""

    output: Path | None = _write("A file instead of standard output.", "--output", "-o")
    format: str | None = _write("csv, tsv, parquet, arrow, json, xlsx; else by suffix.")
    json: bool = _write("For machines, to standard output.", "--json", default=False)
    quiet: bool = _write("Say nothing.", "--quiet", "-q", default=False)


@dataclass(frozen=True)
class Debugging:
    """What every command can do besides."""

    debug: bool = _write("Show the traceback of an error.", "--debug", default=False)


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Spread arguments that are option groups into single options, for typer to see.

    Every command also gets the option --debug, which shows where an error comes from.
    """
    options: dict[str, inspect.Parameter] = {}
    groups: dict[str, type] = {}
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        group = parameter.annotation
        if isinstance(group, type) and dataclasses.is_dataclass(group):
            groups[name] = group
            options |= _options_of(group)
        else:
            options[name] = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
    options |= _options_of(Debugging)

    @functools.wraps(command)
    def run(**given: object) -> None:
        debug = given.pop("debug")
        fields = {name: _options_of(group) for name, group in groups.items()}
        made = {name: groups[name](**{f: given[f] for f in own}) for name, own in fields.items()}
        shared = {field for own in fields.values() for field in own}  # some by two groups
        given = {name: value for name, value in given.items() if name not in shared} | made
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

    run.__signature__ = inspect.Signature(list(options.values()))  # type: ignore[attr-defined]
    run.__annotations__ = {name: option.annotation for name, option in options.items()}
    return run


def _options_of(group: type) -> dict[str, inspect.Parameter]:
    hints = typing.get_type_hints(group)
    return {
        field.name: inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default,
            annotation=Annotated[hints[field.name], field.metadata["option"]],
        )
        for field in dataclasses.fields(group)
    }  # fmt: skip
