"""The commands that fit a table, factorize, complete, rank and explore, and the command info."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from boolweave.cli.common import (
    HERE,
    check_completion_options,
    check_factor_options,
    fit_completion,
    fit_factors,
    read_input,
    read_row_features,
    warnings_as_lines,
    zeros_of,
)
from boolweave.cli.options import (
    Cluster,
    Completing,
    Fitting,
    Json,
    Keeping,
    Quiet,
    ReadingOptions,
    RowFeatures,
    Source,
    Sources,
    Writing,
    as_options,
    option_of,
)
from boolweave.cli.output import (
    check_output,
    check_picture,
    in_words,
    print_message,
    print_paragraph,
    put_answer,
    put_json,
    put_table,
    save_picture,
    write_all,
)
from boolweave.cli.process import end_at_once
from boolweave.cli.results import (
    check_kept,
    end,
    factor_sentences,
    fit_and_write,
    number_of,
    words_of,
)
from boolweave.parameters import only_in_factorization
from boolweave.runtime.extras import need

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from boolweave.cli.common import Model
    from boolweave.estimator import BooleanMatrixFactorization
    from boolweave.facts import FactorFacts, FitFacts
    from boolweave.fit.rank_selection import RankSelection
    from boolweave.io.cells import Seen

# Number of labels that `info` shows.
EXAMPLES = 3

# The lines of `info` that have a longer name in text than in JSON.
INFO_NAMES = {
    "n_rows": "rows",
    "n_columns": "columns",
    "observed": "observed entries",
    "observed_share": "share of all entries",
    "ones_share": "share of ones among them",
    "zeros": "treatment of zeros",
}


def factorize(
    source: Sources,
    *,
    writing: Writing,
    full: Annotated[
        bool, typer.Option("--full", help="List all rows and columns, not only members of factors.")
    ] = False,
    keeping: Keeping,
    reading: ReadingOptions,
    fitting: Fitting,
    where: Cluster,
) -> None:
    """Find the Boolean factors of a table: groups of rows that share a set of columns.

    The factors are those with the fewest wrong entries, unless --objective says otherwise. On a
    terminal, they are described in sentences. A file or a pipe gets one line for each member of
    each factor: factor, axis, label, probability.

    Example: boolweave factorize votes.csv -k 3 --model votes.npz --report votes.html
    """
    from boolweave.io.write import write_table

    kind = check_output(writing)
    check_kept(keeping, writing.output)
    called = words_of(keeping.nouns)
    chosen = check_factor_options(fitting, "errors", where)
    zeros = "exact" if keeping.hold_out else zeros_of(chosen, where)
    contents = read_input(
        source, reading, writing.quiet, max_memory=fitting.get("max_memory"), zeros=zeros
    )
    absent, seed = reading.absent or "zero", fitting["random_state"]
    fit = partial(fit_factors, how=fitting, quiet=writing.quiet, where=where, objective="errors")

    def write(facts: FactorFacts) -> None:
        from boolweave.recommend import members

        model = facts.model
        if in_words(writing):
            for line in factor_sentences(facts, called):
                typer.echo(line)
            return
        put_answer(
            writing,
            lambda: {
                **facts.figures(),
                "factors": [
                    {
                        "factor": k + 1,
                        "rows": members(model.result_, k, "row"),
                        "columns": members(model.result_, k, "column"),
                        "stability": number_of(model.factor_stability_, k),
                        "redundancy": number_of(model.redundancy_, k),
                        "flags": facts.flags[k],
                    }
                    for k in range(len(model.components_))
                ],
            },
            lambda: write_table(model.result_.members(full=full), writing.output, kind),
        )

    fit_and_write(contents, absent, keeping, seed, writing.quiet, fit, write)


def complete(
    source: Sources,
    *,
    writing: Writing,
    fill: Annotated[
        Literal["values", "probabilities", "both", "none"],
        typer.Option(
            help="values: the completed table; probabilities: the probability that each entry is "
            "1; both: one line for each missing entry; none: only the files of --model and "
            "--report."
        ),
    ] = "values",
    denoise: Annotated[
        bool,
        typer.Option("--denoise", help="Also replace observed entries that the model contradicts."),
    ] = False,
    mark: Annotated[
        bool,
        typer.Option(
            "--mark/--no-mark",
            help="Mark the filled-in entries, in an additional last column or by colour in a "
            "workbook.",
        ),
    ] = True,
    row_features: RowFeatures = None,
    keeping: Keeping,
    reading: ReadingOptions,
    completing: Completing,
    fitting: Fitting,
    where: Cluster,
) -> None:
    """Fill in the missing entries of a table.

    Observed entries stay as they are, and a wide table keeps its form: its delimiter, its names,
    its words for yes and no, and its other columns. Entries that sparse files do not list are
    treated as missing.

    The model has an offset for each row and column, and as many directions and Boolean layers, of
    -k factors each, as improve the prediction of held-out entries. Options that only a Boolean
    factorization has, such as --method, --noise, --product or --objective, fit a factorization
    instead.

    Example: boolweave complete votes.csv -o completed.csv --report votes.html
    """
    from boolweave.cli.commands import filling
    from boolweave.io.write import MATRIX_FORMATS, TABLE_FORMATS, write_matrix, write_pieces

    kind = check_output(writing, TABLE_FORMATS if fill == "both" else MATRIX_FORMATS)
    check_kept(keeping, writing.output)
    if fill == "none":
        filling.check_nothing_written(writing, keeping)
    fits_factors = _fits_factors(fitting, completing, where)
    if fits_factors and row_features is not None:
        raise ValueError(
            "--row-features is an option of a completion, but other options ask for a Boolean "
            "factorization: leave one of them out"
        )
    contents = read_input(
        source, reading, writing.quiet, "missing", fitting.get("max_memory"), keep=fill == "values"
    )
    seen = contents.observations.to_local()
    if fill != "none":
        filling.check_size(seen, kind, fill, fitting.get("max_memory"))
    features = None if row_features is None else read_row_features(row_features, seen)
    absent, seed = reading.absent or "missing", fitting["random_state"]

    def fit(kept: Seen) -> Model:
        if fits_factors:
            return fit_factors(kept, fitting, writing.quiet, where)
        return fit_completion(
            kept, fitting, completing, writing.quiet, where, contents.groups, features
        )

    def write(facts: FitFacts) -> None:
        model = facts.model

        def write_file() -> None:
            if fill == "none":
                return
            filling.announce(seen, fill, writing.quiet)
            if fill == "both":
                write_pieces(filling.holes(model, seen), writing.output, kind)
            elif fill == "probabilities":
                write_matrix(filling.probabilities(model), seen, writing.output, kind)
            elif kind in TABLE_FORMATS and contents.is_wide_table:
                filling.write_table_again(model, contents, writing.output, kind, denoise, mark)
            else:
                write_matrix(filling.values(model, seen, denoise), seen, writing.output, kind)

        put_answer(
            writing,
            lambda: {
                **facts.figures(),
                "filled": [
                    line
                    for piece in (filling.holes(model, seen) if fill != "none" else ())
                    for line in piece.to_dicts()
                ],
            },
            write_file,
        )

    fit_and_write(contents, absent, keeping, seed, writing.quiet, fit, write)


def _fits_factors(fitting: Fitting, completing: Completing, where: Cluster) -> bool:
    """Whether `complete` fits factors, because an option that only they have is given."""
    of_factors = only_in_factorization(fitting)
    if of_factors and completing:
        names = [option_of(name, fitting.get(name)) for name in (of_factors[0], min(completing))]
        raise ValueError(
            f"{names[0]} is an option of a Boolean factorization, which has no option {names[1]}: "
            "leave one of them out"
        )
    if of_factors:
        check_factor_options(fitting, "posterior", where)
    else:
        check_completion_options(fitting, completing)
    return bool(of_factors)


def info(
    source: Source,
    *,
    json: Json = False,
    n_components: Annotated[
        int,
        typer.Option("--n-components", "-k", min=1, help="Number of factors, to estimate memory."),
    ] = 10,
    reading: ReadingOptions,
) -> None:
    """Describe a file: its shape, its ones, the memory of a run, and how each column is read.

    With --plan, the reading plan is also written to a file, which can be edited and given to the
    other commands.

    Example: boolweave info votes.csv
    """
    from boolweave.engine.footprint import N_STARTS
    from boolweave.fit.memory import FitSize
    from boolweave.runtime.free_memory import format_bytes

    contents = read_input(source, replace(reading, plan=None), True, zeros="auto")
    plan = contents.plan
    if reading.plan is not None:
        if plan is None:
            raise ValueError(
                f"--plan: expected a wide table, but {contents.name} is read as "
                f"{as_options(contents.guess)}; leave out --plan, or pass --layout wide"
            )
        plan.write_csv(reading.plan)
    for line in contents.encoded.in_words() if contents.encoded is not None else ():
        print_paragraph(line, False)
    seen = contents.observations
    per_row, per_column = seen.observed_per_line()
    share = seen.n_observed / max(seen.n_rows * seen.n_columns, 1)
    memory = FitSize.of(seen, n_components, n_init=N_STARTS).n_bytes
    answer: dict[str, object] = {
        "file": contents.name,
        "format": contents.format,
        "read_as": as_options(contents.guess),
        "n_rows": seen.n_rows,
        "n_columns": seen.n_columns,
        "observed": seen.n_observed,
        "observed_share": share,
        "ones_share": seen.share_of_ones,
        "zeros": seen.zeros,
        "empty_rows": int((per_row == 0).sum()),
        "empty_columns": int((per_column == 0).sum()),
        "row_labels": _examples(seen.row_labels),
        "column_labels": _examples(seen.column_labels),
    }
    if json:
        columns = [line.as_dict() for line in plan] if plan is not None else []
        more = {"n_components": n_components, "memory_bytes": memory, "columns": columns}
        put_json(answer | more)
        return
    answer[f"memory of a run with {n_components} factors"] = format_bytes(memory)
    for kind, labels in (("row", seen.row_labels), ("column", seen.column_labels)):
        if labels is not None and len(labels) > EXAMPLES:
            answer[f"{kind}_labels"] = [*labels[:EXAMPLES].tolist(), "..."]
    named = {INFO_NAMES.get(name, name.replace("_", " ")): v for name, v in answer.items()}
    width = max(len(name) for name in named)
    for name, value in named.items():
        typer.echo(f"{name:<{width}}  {_plain(value)}")
    if plan is not None:
        typer.echo(f"\n{plan}")


def _examples(labels: NDArray[np.str_] | None) -> list[str] | None:
    """Return the first labels, if there are any."""
    return None if labels is None else labels[:EXAMPLES].tolist()


def _plain(value: object) -> object:
    """Format a value for a line of text: fractions in percent, labels as examples."""
    if isinstance(value, float):
        return f"{value:.2%}"
    if isinstance(value, list):
        return ", ".join(value)
    return "none" if value is None else value


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

    The number is the one that factorize finds with the same options. The answer has one line for
    each number of factors, with the fewest wrong entries found for it; on a terminal, it is a
    curve. --objective posterior and --criterion heldout look for factors that predict instead.

    Example: boolweave rank votes.csv --plot curve.png
    """
    kind = check_output(writing)
    if plot is not None:
        check_picture(plot, "--plot")
        need("matplotlib", "--plot")
    default: Literal["errors", "posterior"] = "errors" if criterion == "mdl" else "posterior"
    chosen = check_factor_options(fitting, default) | {"verbose": 0 if writing.quiet else 1}
    if criterion == "heldout" and chosen["objective"] == "errors":
        raise ValueError(
            "--criterion heldout looks for the best prediction and --objective errors for the best "
            "description: leave one of them out"
        )
    zeros = "exact" if criterion == "heldout" else zeros_of(chosen)
    contents = read_input(source, reading, writing.quiet, zeros=zeros)
    from boolweave import select_rank

    chosen.pop("n_components", None)
    ranks = None if max_rank is None else range(1, max_rank + 1)
    with warnings_as_lines(writing.quiet):
        groups = contents.groups if criterion == "heldout" else None
        found = select_rank(contents.observations, ranks, criterion, groups=groups, **chosen)
    write_all(
        lambda: _put_ranks(found, writing, kind),
        lambda: None if plot is None else save_picture(found.plot(), plot),
    )
    stopped = " of those tried before the interruption" if found.interrupted else ""
    best = f"best{stopped}: {found.sentence}"
    print_message(best, writing.quiet or writing.json)
    end(found.interrupted)


def _put_ranks(found: RankSelection, writing: Writing, kind: str) -> None:
    """Write the table of ranks, JSON, or a curve on a terminal."""
    import polars as pl

    if in_words(writing):
        typer.echo("\n".join(_rank_curves(found)))
        return
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
        "elbow": found.elbow,
        "nearly_as_good": found.nearly_as_good,
        "sentence": found.sentence,
        "criterion": found.criterion,
        "score": words,
        "ranks": lines,
        "interrupted": found.interrupted,
    }
    put_table(writing, kind, pl.DataFrame(lines), answer)


def _rank_curves(found: RankSelection) -> list[str]:
    """Draw charts of the score, and of the wrong entries if they are known."""
    from boolweave.plot import text_curve

    words = SCORES[found.criterion][1]
    lines = text_curve(found.ranks, found.scores, found.best, words, "factors", elbow=found.elbow)
    if found.costs is not None:
        title = "fewest errors found, lower is better"
        lines += ["", *text_curve(found.ranks, found.costs, found.best, title, "factors", "chosen")]
    return lines


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
    Ctrl-C stops the server. The first fit is that of factorize; a fit of another number of factors
    ends after 20 seconds with the best factors so far, unless --max-time sets another limit.

    Example: boolweave explore votes.csv
    """
    need("jinja2", "a report")
    if "checkpoint" in fitting:
        raise ValueError("explore fits repeatedly: leave out --checkpoint")
    # Time limit of a fit of another number of factors in seconds, unless --max-time sets another.
    default_max_time = 20.0
    max_time = fitting.get("max_time", default_max_time)
    chosen = check_factor_options(fitting, "errors")
    contents = read_input(
        source, reading, quiet, max_memory=fitting.get("max_memory"), zeros=zeros_of(chosen)
    )
    seen = contents.observations
    first = fit_factors(seen, fitting, quiet, HERE, "errors")
    end(first.interrupted_)
    parameters = {**first.get_params(deep=False), "verbose": 0, "max_time": max_time}

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
