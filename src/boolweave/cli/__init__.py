"""The command `boolweave`: arguments, messages and exit codes.

Only typer is imported here. Every command imports what it needs when it runs, so that ``--help``
and a mistyped option are answered at once.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from boolweave.cli import fitting, known, models
from boolweave.cli.comparing import compare
from boolweave.cli.demo import demo
from boolweave.cli.options import grouped

app = typer.Typer(
    help="Find the Boolean structure behind a 0/1 table: factors, missing entries, reasons.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)

BAD_INPUT = 2
INTERRUPTED = 130


def _show_version(wanted: bool) -> None:
    if wanted:
        from boolweave import __version__

        typer.echo(f"boolweave {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show version.")
    ] = False,
) -> None:
    pass


for _command in (
    fitting.factorize, fitting.complete, models.predict, models.recommend, models.explain,
    fitting.rank, models.report, compare, known.decode, known.group_test, fitting.info,
    demo,
):  # fmt: skip
    app.command(_command.__name__.replace("_", "-"))(grouped(_command))


def main() -> None:
    """Run the command line: exit code 2 and one line for bad input, 130 for Ctrl-C."""
    try:
        code = app(standalone_mode=False)
    except KeyboardInterrupt:
        _say("interrupted")
        code = INTERRUPTED
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        sys.stderr.close()
        code = 0
    except (ValueError, TypeError, OSError, ImportError, MemoryError, NotImplementedError) as error:
        _say(_one_line(error))
        code = BAD_INPUT
    except Exception as error:
        # Errors of the argument parser, from whichever copy of click typer uses.
        if type(error).__name__ == "Abort":
            code = INTERRUPTED
        elif hasattr(error, "format_message"):
            if message := error.format_message():
                _say(f"{message} See: boolweave --help")
            code = BAD_INPUT
        else:
            raise
    sys.exit(code if isinstance(code, int) else 0)


def _say(message: str) -> None:
    typer.echo(f"boolweave: {message}", err=True)


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        name = f"{error.filename}: " if error.filename else ""
        return f"{name}{error.strerror.lower()}"
    return " ".join(str(error).split())
