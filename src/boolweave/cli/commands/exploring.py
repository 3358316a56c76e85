"""The command `boolweave explore`: factors on a page, with their number as a slider."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from boolweave.cli.common import fit_factors, read_input, zeros_of
from boolweave.cli.fits import end
from boolweave.cli.options import Cluster, Fitting, Quiet, ReadingOptions, Source
from boolweave.cli.output import check_report_packages, talk
from boolweave.cli.process import end_at_once

if TYPE_CHECKING:
    from boolweave.estimator import BooleanMatrixFactorization

# Seconds that a fit takes at most, unless --max-time says another number.
PATIENCE = 20.0


def explore(
    source: Source,
    *,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Where the page is served; 0 is any free port.")
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Whether to open it in the browser.")
    ] = True,
    quiet: Quiet = False,
    reading: ReadingOptions,
    fitting: Fitting,
) -> None:
    """Look at the factors of a table in the browser, and try other numbers of them.

    Shows the page that --report of factorize writes, with a slider for the number of factors. The
    page is served by this computer to this computer alone; its address, which is printed, holds a
    token that nobody else knows. Ctrl-C ends it. A fit ends after 20 seconds with the best factors
    so far, unless --max-time says another number.

    Example: boolweave explore votes.csv
    """
    from dataclasses import replace

    check_report_packages()
    if fitting.checkpoint is not None:
        raise ValueError("explore fits again and again: --checkpoint has no place here")
    fitting = replace(fitting, max_time=PATIENCE if fitting.max_time is None else fitting.max_time)
    contents = read_input(
        source, reading, quiet, max_memory=fitting.max_memory,
        zeros=zeros_of(fitting, None, "errors"),
    )  # fmt: skip
    seen = contents.observations
    first = fit_factors(seen, how=fitting, quiet=quiet, where=Cluster(), objective="errors")
    end(first.interrupted_)
    parameters = {**first.get_params(deep=False), "verbose": 0}

    def fit(n_components: int) -> BooleanMatrixFactorization:
        chosen: dict[str, Any] = {**parameters, "n_components": n_components}
        return type(first)(**chosen).fit(seen)

    from boolweave.report.serving import Explorer, Server

    limit, title = float(fitting.max_time or PATIENCE), Path(contents.name).name
    server = Server(Explorer(first, fit, limit, title), port)
    typer.echo(server.url)
    talk("the page is there until Ctrl-C", quiet)
    if browser:
        import webbrowser

        webbrowser.open(server.url)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        talk("stopped", quiet)
        end_at_once(0)  # also where a fit is going on
