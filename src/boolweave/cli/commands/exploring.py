"""The command `boolweave explore`: a page of factors with a slider for their number."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from boolweave.cli.common import HERE, check_factor_options, fit_factors, read_input, zeros_of
from boolweave.cli.fits import end
from boolweave.cli.options import Fitting, Quiet, ReadingOptions, Source
from boolweave.cli.output import print_message
from boolweave.cli.process import end_at_once
from boolweave.runtime.extras import need

if TYPE_CHECKING:
    from boolweave.estimator import BooleanMatrixFactorization

# Time limit of a fit in seconds, unless --max-time sets another.
DEFAULT_MAX_TIME = 20.0


def explore(
    source: Source,
    *,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the page; 0 means any free port.")
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Whether to open the page in a browser.")
    ] = True,
    quiet: Quiet = False,
    reading: ReadingOptions,
    fitting: Fitting,
) -> None:
    """View the factors of a table in the browser, and try other numbers of factors.

    The page is the one that factorize --report writes, with a slider for the number of factors. It
    is served to this computer only, and its address, which is printed, contains a secret token.
    Ctrl-C stops the server. A fit ends after 20 seconds with the best factors so far, unless
    --max-time sets another limit.

    Example: boolweave explore votes.csv
    """
    from dataclasses import replace

    need("jinja2", "a report")
    if fitting.checkpoint is not None:
        raise ValueError("explore fits repeatedly: leave out --checkpoint")
    max_time = DEFAULT_MAX_TIME if fitting.max_time is None else fitting.max_time
    fitting = replace(fitting, max_time=max_time)
    chosen = check_factor_options(fitting, "errors")
    contents = read_input(
        source, reading, quiet, max_memory=fitting.max_memory, zeros=zeros_of(chosen)
    )
    seen = contents.observations
    first = fit_factors(seen, fitting, quiet, HERE, "errors")
    end(first.interrupted_)
    parameters = {**first.get_params(deep=False), "verbose": 0}

    def fit(n_components: int) -> BooleanMatrixFactorization:
        return type(first)(**{**parameters, "n_components": n_components}).fit(seen)

    from boolweave.report.serving import Explorer, Server

    title = Path(contents.name).name
    server = Server(Explorer(first, fit, max_time, title), port)
    typer.echo(server.url)
    print_message("press Ctrl-C to stop the server", quiet)
    if browser:
        import webbrowser

        webbrowser.open(server.url)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print_message("stopped", quiet)
        end_at_once(0)  # even if a fit is running
