"""The command `boolweave rank`: how good each number of factors is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from boolweave.cli.common import check_factor_options, read_input, warnings_as_lines, zeros_of
from boolweave.cli.fits import end
from boolweave.cli.options import Fitting, ReadingOptions, Source, Writing
from boolweave.cli.output import (
    check_output,
    check_picture,
    in_words,
    print_message,
    put_table,
    save_picture,
)
from boolweave.runtime.extras import need
from boolweave.runtime.progress import counted

if TYPE_CHECKING:
    from boolweave.fit.rank import RankSelection

# For each criterion, the name of the column with the score, and a description of the score.
SCORES = {
    "mdl": ("bits_lower_is_better", "description length in bits, lower is better"),
    "heldout": ("log_loss_lower_is_better", "log-loss of held-out entries, lower is better"),
}


def rank(
    source: Source,
    *,
    writing: Writing,
    criterion: Annotated[
        Literal["mdl", "heldout"],
        typer.Option(help="mdl: description length; heldout: prediction of held-out entries."),
    ] = "mdl",
    max_rank: Annotated[
        int | None, typer.Option(min=1, help="The largest number of factors to try.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the curve to this file: .png, .svg or .pdf.")
    ] = None,
    reading: ReadingOptions,
    fitting: Fitting,
) -> None:
    """Choose the number of factors by trying several and scoring each of them.

    The answer has one line for each number of factors; on a terminal, it is a curve. With
    --objective errors, it also contains the fewest wrong entries found for each number.

    Example: boolweave rank votes.csv --plot curve.png
    """
    from boolweave import select_rank

    kind = check_output(writing)
    if plot is not None:
        check_picture(plot, "--plot")
        need("matplotlib", "--plot")
    chosen = check_factor_options(fitting, "posterior") | {"verbose": 0 if writing.quiet else 1}
    if criterion == "heldout" and chosen["objective"] == "errors":
        raise ValueError(
            "--criterion heldout looks for the best prediction and --objective errors for the best "
            "description: leave one of them out"
        )
    zeros = "exact" if criterion == "heldout" else zeros_of(chosen)
    contents = read_input(source, reading, writing.quiet, zeros=zeros)
    del chosen["n_components"]
    ranks = None if max_rank is None else range(1, max_rank + 1)
    with warnings_as_lines(writing.quiet):
        found = select_rank(contents.observations, ranks, criterion, **chosen)
    if plot is not None:
        save_picture(found.plot(), plot)
    if in_words(writing):
        for line in _curve(found):
            typer.echo(line)
    else:
        _put(found, writing, kind)
    stopped = " of those tried before the interruption" if found.interrupted else ""
    best = f"best{stopped}: {counted(found.best, 'factor')}"
    print_message(best, writing.quiet or writing.json)
    end(found.interrupted)


def _put(found: RankSelection, writing: Writing, kind: str) -> None:
    """Write the table of ranks, or JSON."""
    import polars as pl

    score, words = SCORES[found.criterion]
    lines = []
    for line in found.table():
        own: dict[str, Any] = {"rank": line["rank"], score: line["score"]}
        if found.criterion == "heldout":
            own["standard_error"] = line["error"]
        own["best"] = line["best"]
        if found.costs is not None:
            own["wrong_entries"] = line["missed"] + line["false_ones"]
            own |= {name: line[name] for name in ("missed", "false_ones", "cost")}
        lines.append(own)
    answer = {
        "best": int(found.best),
        "criterion": found.criterion,
        "score": words,
        "ranks": lines,
        "interrupted": found.interrupted,
    }
    put_table(writing, kind, pl.DataFrame(lines), answer)


def _curve(found: RankSelection) -> list[str]:
    """Draw charts of the score, and of the wrong entries if they are known."""
    from boolweave.plot import text_curve

    lines = text_curve(found.ranks, found.scores, found.best, SCORES[found.criterion][1], "factors")
    if found.costs is not None:
        title = "fewest errors found, lower is better"
        lines += ["", *text_curve(found.ranks, found.costs, found.best, title, "factors", "chosen")]
    return lines
