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
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from boolweave.cli.process import INTERRUPTED, catch_interruptions, ignore_output
from boolweave.parameters import (
    CompletionParameters,
    CoverParameters,
    FactorizationParameters,
    Parameter,
    parameters_of,
)

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
        metavar="INPUT",
        show_default=False,
        help="The input file, or - for standard input; or several Parquet files of triples.",
    ),
]
ModelFile = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="A model file (.npz) written by factorize or complete."),
]
Json = Annotated[bool, typer.Option("--json", help="Write JSON to standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no messages.")]
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
RowFeatures = Annotated[
    str | None,
    typer.Option(
        "--row-features",
        metavar="FILE",
        help="A table with features of the rows, numbers or categories: first the name of a row, "
        "if rows have names, then its features.",
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
FIT_PANEL = "How the factors are found"
_where = functools.partial(_option, "Where the computation runs")
_write = functools.partial(_option, "Output")


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
        "The number of the line, or of the row of a sheet, that holds the names of the columns, "
        "from 1, blank lines not counted; what is above it are titles.",
        metavar="N",
        min=1,
    )
    sheet: str | None = _read("The sheet of a workbook; by default, the first one.", metavar="NAME")
    encoding: str | None = _read(
        "The encoding of a text table, such as utf-8, utf-16, latin-1, cp1252 or mac-roman; by "
        "default, it is recognized.",
        metavar="NAME",
    )
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
        metavar="auto|never|RULES",
        default="auto",
    )

    plan: Path | None = _read(
        "The file of a reading plan: what each column of a wide table is, and what becomes of it. "
        "info writes it; the other commands obey it, except where --encode, --ones, --zeros or "
        "--missing say otherwise.",
        metavar="FILE",
    )

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
class ParameterGroup:
    """Parameters of an estimator as options: those that are given keep their names in Python."""

    panel: str
    parameters: Mapping[str, Parameter]
    defaults: Mapping[str, object] = dataclasses.field(default_factory=dict)

    def options(self) -> dict[str, inspect.Parameter]:
        """The options, by the names that typer uses."""
        made = {}
        for name, parameter in self.parameters.items():
            if not parameter.options:
                continue
            default = self.defaults.get(name)
            kind: Any = _type_of(parameter)
            made[_name_of(parameter)] = inspect.Parameter(
                _name_of(parameter),
                inspect.Parameter.KEYWORD_ONLY,
                default=default,
                annotation=Annotated[kind | None, typer_option(parameter, self.panel)],
            )
        return made

    def given(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters whose options were given, with numbers converted from text."""
        found = {}
        for name, parameter in self.parameters.items():
            value = options.get(_name_of(parameter)) if parameter.options else None
            if isinstance(value, str) and parameter.is_text_of_number:
                value = number_or_word(name, value, parameter.kinds, parameter.words)
            if value is not None:
                found[name] = value
        return found


def typer_option(parameter: Parameter, panel: str | None = None) -> Any:
    """The option of a parameter, as typer describes it."""
    default, metavar = parameter.default, parameter.metavar
    shown = parameter.name if default is True else str(default)
    if default in (None, "posterior") or default is False:  # an objective depends on the command
        shown = ""
    seeds = parameter.name == "random_state"
    least = parameter.range if _type_of(parameter) is int else None
    return typer.Option(
        *parameter.options,
        help=re.sub('["`]', "", as_options(f"{parameter.sentence} {parameter.file}".rstrip())),
        rich_help_panel=panel,
        metavar="|".join([metavar, *parameter.words]) if metavar else None,
        show_default=shown or True,
        min=0 if seeds else int(least[1:-1].split(",")[0]) if least else None,
        max=2**32 - 1 if seeds else None,  # as in scikit-learn
    )


def _name_of(parameter: Parameter) -> str:
    """The name of an option for typer, in which it is an argument of a function."""
    return parameter.main_option[2:].replace("-", "_")


def _type_of(parameter: Parameter) -> Any:
    """The type of an option for typer; a number or a word is a text."""
    if parameter.words and not parameter.number:
        return Literal[parameter.words]
    if parameter.is_text_of_number:
        return str
    return next((kind for kind in (str, bool, parameter.number) if kind in parameter.kinds), str)


_OF_FACTORS = parameters_of(FactorizationParameters)
# The command line calls a factor of a cover a role, as its tables do.
_OF_COVERS = {
    name: dataclasses.replace(
        parameter,
        short=parameter.short.replace("factor", "role"),
        file=parameter.file.replace("factor", "role"),
    )
    for name, parameter in parameters_of(CoverParameters).items()
}
_OF_COMPLETIONS = {
    name: parameter
    for name, parameter in parameters_of(CompletionParameters).items()
    if name not in _OF_FACTORS
}
FIT_OPTIONS = ParameterGroup(FIT_PANEL, _OF_FACTORS, {"random_state": 0, "n_jobs": -1})
COMPLETION_OPTIONS = ParameterGroup("How missing entries are filled in", _OF_COMPLETIONS)
Fitting = Annotated[dict[str, Any], FIT_OPTIONS]
COVER_OPTIONS = ParameterGroup("What is covered", _OF_COVERS, {"random_state": 0})
Completing = Annotated[dict[str, Any], COMPLETION_OPTIONS]
Covering = Annotated[dict[str, Any], COVER_OPTIONS]

# Values of --zero-treatment, which is the parameter `zeros` of estimators.
TREATMENTS = _OF_FACTORS["zeros"].words


def as_options(message: str) -> str:
    """Return a message with the parameters that it names in backticks turned into options."""

    def option(found: re.Match[str]) -> str:
        verb, name, value = found.groups()
        words = [option_of(name, value), *([value.replace(" ", "")] if value else [])]
        if value in ("True", "False"):
            words = [option_of(name) if value == "True" else f"--no-{name}"]
        return " ".join([*(["use"] if verb else []), *words])

    fields = [field.name for field in dataclasses.fields(ReadingOptions)]
    names = "|".join([*fields, *_OF_FACTORS, *_OF_COMPLETIONS, *_OF_COVERS, "times"])
    return re.sub(rf'(pass )?`({names})(?:="?\[?([\w.,+ -]+)\]?"?)?`', option, message)


def option_of(parameter: str, value: str | None = None) -> str:
    """Return the option that sets a parameter, to a value if one is given.

    Readers and estimators have a parameter `zeros` each. The option of readers has that name.
    """
    if parameter == "zeros" and value in TREATMENTS:
        return _OF_FACTORS["zeros"].main_option
    return f"--{parameter.replace('_', '-')}"


Jobs = Annotated[int, typer_option(_OF_FACTORS["n_jobs"])]
Seed = Annotated[int, typer_option(_OF_FACTORS["random_state"])]


def number_or_word(
    name: str, text: str, kinds: tuple[type, ...], words: tuple[str, ...] = ()
) -> float | str:
    """Convert the text of a parameter that takes a number, or one of some words instead."""
    if text in words:
        return text
    for kind in (int, float):
        with suppress(ValueError):
            if kind in kinds:
                return kind(text)
    expected = " or ".join(["a number" if float in kinds else "a whole number", *words])
    raise ValueError(f"--{name.replace('_', '-')}: expected {expected}, got {text!r}")


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
    no_labels: bool = _write(
        "Leave the names of rows, such as those of people, out of the model and the report.",
        "--no-labels", default=False,
    )  # fmt: skip
    nouns: str | None = _write(
        "What the rows and the columns are called, for example users,films.",
        "--nouns", metavar="ROWS,COLUMNS",
    )  # fmt: skip
    hold_out: float = _option(
        FIT_PANEL,
        "Fraction of the entries, or of the answers of a table that is encoded, to hold out, to "
        "test the probabilities.",
        default=0.0,
        min=0.0,
        max=0.9,
    )


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
    groups: dict[str, Any] = {}
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        group = parameter.annotation
        if isinstance(getattr(group, "__metadata__", (None,))[0], ParameterGroup):
            [group] = group.__metadata__
        if isinstance(group, ParameterGroup) or dataclasses.is_dataclass(group):
            groups[name] = group
            options |= _options_of(group)
        else:
            options[name] = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
    options |= _options_of(Debugging)

    @functools.wraps(command)
    def run(**given: object) -> None:
        debug = given.pop("debug")
        for name, group in groups.items():
            values = {field: given.pop(field) for field in _options_of(group)}
            of_estimator = isinstance(group, ParameterGroup)
            given[name] = group.given(values) if of_estimator else group(**values)
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


def _options_of(group: Any) -> dict[str, inspect.Parameter]:
    if isinstance(group, ParameterGroup):
        return group.options()
    hints = typing.get_type_hints(group)
    return {
        field.name: inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=Annotated[hints[field.name], field.metadata["option"]],
        )
        for field in dataclasses.fields(group)
    }
