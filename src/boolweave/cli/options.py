"""Groups of options that several commands share.

A command takes a group as one argument, a frozen dataclass; `grouped` presents the fields of the
dataclass to typer as the command's own options.
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
    from boolweave.data.cells import CellWords

Source = Annotated[
    str,
    typer.Argument(
        metavar="INPUT", help="The input file, or - for standard input.", show_default=False
    ),
]
Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT", show_default=False,
        help="The input file, or - for standard input; or several Parquet files of triples.",
    ),
]  # fmt: skip
ModelFile = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="A model file (.npz) written by factorize or complete."),
]
Json = Annotated[bool, typer.Option("--json", help="Write JSON to standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no messages.")]
Jobs = Annotated[
    int, typer.Option("--jobs", "--n-jobs", "-j", help="Number of threads; -1 uses all cores.")
]
LARGEST_SEED = 2**32 - 1  # as in scikit-learn
Seed = Annotated[
    int,
    typer.Option("--seed", "--random-state", min=0, max=LARGEST_SEED, help="Random seed."),
]

NounsOption = Annotated[
    str | None,
    typer.Option(
        "--nouns",
        metavar="ROWS,COLUMNS",
        help="What the rows and the columns are called, for example users,films.",
    ),
]
VerbOption = Annotated[
    str,
    typer.Option(
        "--verb", help="The verb between a row and a column where there is a one: liked, owns."
    ),
]
NewRows = Annotated[
    str | None,
    typer.Option(
        "--new", metavar="FILE", help="A table of new rows to use instead of the fitted rows."
    ),
]


def _option(panel: str, help: str, *names: str, default: object = None, **more: Any) -> Any:
    """Make a field of a group from the arguments of `typer.Option` and a panel of the help."""
    option = typer.Option(*names, help=help, rich_help_panel=panel, **more)
    return dataclasses.field(default=default, metadata={"option": option})


_read = functools.partial(_option, "How the input is read")
_fit = functools.partial(_option, "How the factors are found")
_complete = functools.partial(_option, "How missing entries are filled in")
_where = functools.partial(_option, "Where the computation runs")
_write = functools.partial(_option, "Output")


# Values of --zero-treatment, which is the parameter `zeros` of estimators.
TREATMENTS = ("auto", "exact", "collective")


def as_options(message: str) -> str:
    """Return a message with the parameters that it names in backticks turned into options."""

    def option(found: re.Match[str]) -> str:
        verb, name, value = found.groups()
        words = [option_of(name, value), *([value.replace(" ", "")] if value else [])]
        if value == "False":
            words = [f"--no-{name}"]
        return " ".join([*(["use"] if verb else []), *words])

    groups = ReadingOptions, Fitting, Completing
    fields = [field.name for group in groups for field in dataclasses.fields(group)]
    names = "|".join([*fields, "times"])
    return re.sub(rf'(pass )?`({names})(?:="?\[?([\w.,+ -]+)\]?"?)?`', option, message)


def option_of(parameter: str, value: str | None = None) -> str:
    """Return the option that sets a parameter, to a value if one is given.

    Readers and estimators have a parameter `zeros` each. The option of readers has that name.
    """
    if parameter == "zeros" and value in TREATMENTS:
        parameter = "zero_treatment"
    return f"--{parameter.replace('_', '-')}"


@dataclass(frozen=True)
class ReadingOptions:
    """How a file is read."""

    input_format: str | None = _read(
        "csv, parquet, arrow, xlsx, mtx, npz, fimi, movielens or png; by default, the format is "
        "recognized from the file."
    )
    layout: Literal["wide", "triples", "pairs"] | None = _read(
        "wide: one line per row; triples: row, column, value; pairs: the row and column of each "
        "one."
    )
    delimiter: str | None = _read("The field separator: one character, tab, space or ::.")
    header: bool | None = _read(
        "Whether the first line is a header.", "--header/--no-header", show_default=False
    )
    header_row: int | None = _read(
        "The number of the line that holds the names of the columns, from 1, blank lines not "
        "counted; lines above it are titles.", metavar="N", min=1,
    )  # fmt: skip
    encoding: str | None = _read(
        "The encoding of a text table, such as utf-8, utf-16, latin-1, cp1252 or mac-roman; by "
        "default, it is recognized.", metavar="NAME",
    )  # fmt: skip
    labels: Literal["yes", "no", "ignore"] | None = _read(
        "Whether the first column holds row labels; ignore leaves that column out."
    )
    columns: str | None = _read(
        "The columns that hold the triples, by name or by number (from 1).",
        metavar="ROW,COLUMN,VALUE",
    )
    above: str | None = _read(
        "Treat the values as ratings: those above this number, or above the mean or median of all "
        "values, are ones.",
        metavar="mean|median|NUMBER",
    )
    absent: Literal["zero", "missing"] | None = _read(
        "How to treat entries that sparse files, pairs, triples or transactions do not list."
    )
    duplicates: Literal["error", "majority"] = _read(
        "What to do if an entry is given as both 0 and 1.", default="error"
    )
    ones: str | None = _read(
        "More words for 1, in addition to 1, true, yes and y: for example ja,x.",
        metavar="WORD,WORD",
    )
    zeros: str | None = _read(
        "More words for 0, in addition to 0, false, no and n: for example nein,-.",
        metavar="WORD,WORD",
    )
    missing: str | None = _read(
        "More words for a missing value, in addition to empty cells, NA and ?: for example -,.,99.",
        metavar="WORD,WORD",
    )
    use: str | None = _read(
        "The columns of a wide table to use, by name or by number (from 1).",
        metavar="COLUMN,COLUMN",
    )
    drop: str | None = _read("The columns of a wide table to leave out.", metavar="COLUMN,COLUMN")
    index: str | None = _read(
        "The column of a wide table that holds the row labels.", metavar="COLUMN"
    )
    encode: str = _read(
        "How to treat columns that do not hold 0/1 values. auto: turn categories, numbers and "
        "dates into 0/1 columns; never: refuse them. Rules such as "
        "'age=40,60; hobby=split:,; zip=category' set the encoding of single columns.",
        metavar="auto|never|RULES", default="auto",
    )  # fmt: skip

    plan: Path | None = _read(
        "The file of a reading plan: what each column of a wide table is, and what becomes of it. "
        "info writes it; the other commands obey it, except where --encode, --ones, --zeros or "
        "--missing say otherwise.", metavar="FILE",
    )  # fmt: skip

    def words(self) -> CellWords:
        """What ones, zeros and missing cells look like."""
        from boolweave.data.cells import CellWords

        try:
            return CellWords.of(*map(_words, (self.ones, self.zeros, self.missing)))
        except ValueError as error:
            raise ValueError(as_options(str(error))) from None


def _words(text: str | None) -> list[str] | None:
    return None if text is None else text.split(",")


@dataclass(frozen=True)
class Completing:
    """Parameters that only a completion has."""

    n_layers: str | None = _complete(
        "Number of Boolean layers.", "--layers", "--n-layers", metavar="N|auto",
        show_default="auto",
    )  # fmt: skip
    n_directions: str | None = _complete(
        "Number of real-valued directions in which rows and columns differ.", "--directions",
        "--n-directions", metavar="N|auto", show_default="auto",
    )  # fmt: skip
    n_members: int | None = _complete(
        "Number of models whose probabilities are averaged.", "--members", "--n-members",
        metavar="N", min=1, show_default="16",
    )  # fmt: skip

    def parameters(self) -> dict[str, Any]:
        """Return the parameters that were given."""
        return _given(self)


@dataclass(frozen=True)
class Fitting:
    """Parameters of the estimator, under their names in Python except for `zero_treatment`."""

    n_components: str = _fit(
        "Number of factors.", "--n-components", "-k", metavar="K|auto", default="auto"
    )
    objective: Literal["errors", "posterior"] | None = _fit(
        "errors: fewest wrong entries, to describe observed entries; posterior: probabilities, to "
        "predict unobserved ones."
    )
    false_one_weight: float | None = _fit(
        "With --objective errors: the cost of a false one relative to a missed one; inf allows no "
        "false ones.",
        metavar="W|inf",
    )
    bound: bool | None = _fit(
        "With --objective errors: whether to compute a lower bound of the errors, which takes up "
        "to two seconds.",
        "--bound/--no-bound", show_default="bound",
    )  # fmt: skip
    product: Literal["or", "xor"] | None = _fit("How the factors are combined.")
    method: Literal["auto", "max-sum", "sum-product", "paper"] | None = _fit(
        "The message-passing algorithm. This option and the other options of message passing "
        "imply --objective posterior."
    )
    noise: str | None = _fit("Probability that an observed entry is flipped.", metavar="P|learn")
    row_prior: str | None = _fit("Prior probability that a row has a factor.", metavar="P|learn")
    column_prior: str | None = _fit(
        "Prior probability that a column has a factor.", metavar="P|learn"
    )
    damping: float | None = _fit("Weight of the new message in each update.")
    max_iter: int | None = _fit("Maximum number of iterations per start.")
    tol: float | None = _fit("Convergence tolerance of the messages.")
    n_init: str | None = _fit("Number of random starts.", metavar="N|auto")
    messages: Literal["auto", "uint8", "float32"] | None = _fit("How messages are stored.")
    decimation: float | None = _fit("Fraction of the factor entries that is fixed in each round.")
    zero_treatment: Literal["auto", "exact", "collective"] | None = _fit(
        "For sparse input in which absent entries are zeros. exact: treat each zero separately; "
        "collective: treat all zeros of a row at once, for large matrices; auto: choose by size.",
        "--zero-treatment",
    )
    checkpoint: str | None = _fit(
        "Where a long run saves its state, so that it can continue after a crash.",
        metavar="DIRECTORY",
    )
    max_memory: str | None = _fit(
        "Memory limit of a run, for example 2GiB; messages that exceed it are kept in files.",
        metavar="SIZE",
    )
    max_time: float | None = _fit(
        "Time limit in seconds, after which the best answer so far is written."
    )
    random_state: int = _fit(
        "Random seed.", "--seed", "--random-state", default=0, min=0, max=LARGEST_SEED
    )
    n_jobs: int = _fit(
        "Number of threads; -1 uses all cores.", "--jobs", "--n-jobs", "-j", default=-1
    )

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the estimator; those not given keep their defaults."""
        given = _given(self)
        if self.zero_treatment is not None:
            given["zeros"] = given.pop("zero_treatment")
        return given


# Parameters that take a number, or a word instead.
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
    """Return the options that were given, with numbers converted from text."""
    given = {name: value for name, value in vars(group).items() if value is not None}
    return {
        name: number_or_word(name, value) if name in NUMBER_OR_WORD else value
        for name, value in given.items()
    }


def number_or_word(name: str, text: str) -> float | str:
    """Convert the text of one of the parameters in `NUMBER_OR_WORD`."""
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
    """Where the computation runs, if not in this process."""

    scheduler: str | None = _where(
        "Use the Dask cluster of this scheduler, for example tcp://host:8786.", metavar="ADDRESS"
    )
    local_cluster: int | None = _where(
        "Start a Dask cluster of N processes on this machine.", metavar="N", min=1
    )

    @property
    def is_used(self) -> bool:
        """Whether the computation runs on a cluster."""
        return self.scheduler is not None or self.local_cluster is not None


@dataclass(frozen=True)
class Keeping:
    """Files that `factorize` and `complete` also write, and the entries that they hold out."""

    model: Path | None = _write(
        "Save the model to this file (.npz), for predict and other commands."
    )
    report: Path | None = _write("Write a report to this file (.html).")
    hold_out: float = _fit(
        "Fraction of the entries to hold out, to test the probabilities.",
        default=0.0, min=0.0, max=0.9,
    )  # fmt: skip


@dataclass(frozen=True)
class Writing:
    """Where the answer goes."""

    output: Path | None = _write("Write to this file instead of standard output.", "--output", "-o")
    format: str | None = _write(
        "csv, tsv, parquet, arrow, json or xlsx; by default, the suffix of the file decides."
    )
    json: bool = _write("Write JSON to standard output.", "--json", default=False)
    quiet: bool = _write("Print no messages.", "--quiet", "-q", default=False)


@dataclass(frozen=True)
class Debugging:
    """The option that every command has in addition."""

    debug: bool = _option(
        "Options", "Show the traceback if there is an error.", "--debug", default=False
    )


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Expand the arguments that are option groups into single options that typer can see.

    Every command also gets the option --debug, which shows where an error comes from. The lines of
    each paragraph of the help are joined, so that typer fits them to the width of the terminal.
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
        for name, group in groups.items():
            given[name] = group(**{field: given.pop(field) for field in _options_of(group)})
        catch_interruptions()
        try:
            command(**given)
        except BrokenPipeError:  # the reader of our output has ended, as `head` does
            ignore_output()
        except KeyboardInterrupt:  # typer would end without a message
            typer.echo("boolweave: interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except Exception:
            if debug:
                traceback.print_exc()
            raise

    run.__signature__ = inspect.Signature(list(options.values()))  # type: ignore[attr-defined]
    run.__annotations__ = {name: option.annotation for name, option in options.items()}
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    run.__doc__ = "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)
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
