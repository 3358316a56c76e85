"""The command `boolweave`: arguments, messages and exit codes.

This package holds what a shell needs: options, progress, signals and exit codes. Nothing that a
Python user would miss belongs here. This module imports only typer, and every command imports what
it needs when it runs, so that ``--help`` and a mistyped option are answered at once. Start with
`commands/fitting.py`.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from boolweave.cli import process
from boolweave.cli.commands import decoding, fitting, models
from boolweave.cli.commands.comparing import compare
from boolweave.cli.commands.covering import cover
from boolweave.cli.commands.demo import demo
from boolweave.cli.options import grouped
from boolweave.cli.output import one_line, print_error
from boolweave.runtime.words import shortened

app = typer.Typer(
    help="Find the Boolean structure of a 0/1 table: factors, missing entries and explanations.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from boolweave import __version__

        typer.echo(f"boolweave {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


for _command in (
    fitting.factorize, fitting.complete, cover, models.transform, models.predict, models.recommend,
    models.explain, fitting.rank, models.report, fitting.explore, compare, decoding.pools,
    decoding.group_test, decoding.decode, fitting.info, demo,
):  # fmt: skip
    app.command(_command.__name__.replace("_", "-"))(grouped(_command))


def main() -> None:
    """Run the command line.

    The exit code is 2 after bad input, which is reported in one line, 1 after a bug in boolweave,
    and 130 after Ctrl-C.
    """
    process.open_streams()
    process.end_on_signals()
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):  # before the command began, or after it ended
        code = process.INTERRUPTED
    except (ValueError, OSError, ImportError, MemoryError, NotImplementedError) as error:
        print_error(error)
        code = process.BAD_INPUT
    except Exception as error:
        if hasattr(error, "format_message"):  # from the argument parser; typer hides its class
            if message := error.format_message():
                text = _with_suggestion(error, message)
                stop = "" if text[-1] in ".?!" else "."
                print_error(f"{shortened(text)}{stop} See: {_help_of(error)}")
            code = process.BAD_INPUT
        else:
            print_error(
                f"internal error: {type(error).__name__}: {one_line(error)}. This is a bug in "
                "boolweave: please report it, with the output of the same command with --debug"
            )
            code = process.FAILED
    sys.exit(code if isinstance(code, int) else 0)


def _with_suggestion(error: Exception, message: str) -> str:
    """Return the complaint of the parser, with the options that may have been meant."""
    wrong, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if context is None or not hasattr(error, "possibilities") or not isinstance(wrong, str):
        return message
    from boolweave.data.labels import suggestion

    options = [
        name
        for option in context.command.params
        for name in (*option.opts, *option.secondary_opts)
        if name[:2] == "--"
    ]
    return f"No such option: {wrong}{suggestion(wrong, options) or '.'}".replace("'", "")


def _help_of(error: Exception) -> str:
    """Return the command that shows the help of the command that was called."""
    context = getattr(error, "ctx", None)
    command = "" if context is None or context.parent is None else f" {context.info_name}"
    return f"boolweave{command} --help"
