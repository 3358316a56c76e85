"""The commands that find factors: factorize, complete, rank; and info."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from boolweave.cli.common import (
    command_line,
    finish,
    fit,
    no_tty_output,
    not_lost,
    parameters,
    put_json,
    read_input,
    talk,
)
from boolweave.cli.options import Cluster, Fitting, Reading, Source, Sources, Writing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from boolweave.data.observations import Observations
    from boolweave.estimator import BooleanMatrixFactorization
    from boolweave.metrics import Agreement

    HeldOut = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]

_MODEL = typer.Option(
    "--model", help="Write the model here (.npz), for predict and others.", rich_help_panel="Output"
)
_REPORT = typer.Option("--report", help="Write a report here (.html).", rich_help_panel="Output")
_HOLD_OUT = typer.Option(
    min=0.0, max=0.9, help="Share of the entries kept aside to test the probabilities.",
    rich_help_panel="How the factors are found",
)  # fmt: skip


class Fill(StrEnum):
    """What `complete` writes."""

    values = "values"
    probabilities = "probabilities"
    both = "both"


def factorize(
    source: Sources,
    writing: Writing,
    full: Annotated[
        bool, typer.Option("--full", help="List everyone, not only the members of factors.")
    ] = False,
    model: Annotated[Path | None, _MODEL] = None,
    report: Annotated[Path | None, _REPORT] = None,
    hold_out: Annotated[float, _HOLD_OUT] = 0.0,
    reading: Reading = Reading(),  # noqa: B008
    fitting: Fitting = Fitting(),  # noqa: B008
    where: Cluster = Cluster(),  # noqa: B008
) -> None:
    """Find the factors behind a table: who belongs together, and in what.

    Writes a line for each member of each factor: factor, axis, label, probability.

    Example: boolweave factorize votes.csv -k 3 --model votes.npz --report votes.html
    """
    from boolweave.io.write import TABLE_FORMATS, factor_table, write_table

    kind = _check_outputs(writing, TABLE_FORMATS, model, report)
    contents = read_input(source, reading, writing.quiet, max_memory=fitting.max_memory)
    began = time.time()
    fitted, held_out = _fit(contents.observations, fitting, hold_out, writing.quiet, where)
    fitted.absent = reading.absent.value if reading.absent else "zero"
    with not_lost(fitted, began, model):
        _write_more(fitted, held_out, contents.name, model, report, writing.quiet)
        if writing.json:
            put_json({**_summary(fitted, held_out), "factors": _factors(fitted)})
        if not writing.json or writing.output is not None:
            write_table(factor_table(fitted, full=full), writing.output, kind)
    _say_summary(fitted, held_out, writing.quiet)
    finish(fitted.interrupted_)


def complete(
    source: Sources,
    writing: Writing,
    fill: Annotated[
        Fill,
        typer.Option(
            help="values: the table without holes; probabilities: P(observing 1) of each entry; "
            "both: a line for each entry that was missing."
        ),
    ] = Fill.values,
    denoise: Annotated[
        bool, typer.Option("--denoise", help="Replace observed entries too where factors differ.")
    ] = False,
    model: Annotated[Path | None, _MODEL] = None,
    report: Annotated[Path | None, _REPORT] = None,
    hold_out: Annotated[float, _HOLD_OUT] = 0.0,
    reading: Reading = Reading(),  # noqa: B008
    fitting: Fitting = Fitting(),  # noqa: B008
    where: Cluster = Cluster(),  # noqa: B008
) -> None:
    """Fill the holes of a table.

    Observed entries stay as they are. What sparse files do not name is missing here.

    Example: boolweave complete votes.csv -k 3 -o completed.csv
    """
    from boolweave.cli import filling
    from boolweave.io.write import MATRIX_FORMATS, TABLE_FORMATS, write_matrix, write_pieces

    formats = TABLE_FORMATS if fill is Fill.both else MATRIX_FORMATS
    kind = _check_outputs(writing, formats, model, report)
    contents = read_input(source, reading, writing.quiet, "missing", fitting.max_memory)
    filling.check_size(contents.observations, kind, fill.value, fitting.max_memory)
    began = time.time()
    fitted, held_out = _fit(contents.observations, fitting, hold_out, writing.quiet, where)
    fitted.absent = reading.absent.value if reading.absent else "missing"
    seen = contents.observations
    with not_lost(fitted, began, model):
        _write_more(fitted, held_out, contents.name, model, report, writing.quiet)
        if writing.json:
            lines = [line for piece in filling.holes(fitted, seen) for line in piece.to_dicts()]
            put_json({**_summary(fitted, held_out), "filled": lines})
        if not writing.json or writing.output is not None:
            if fill is Fill.both:
                write_pieces(filling.holes(fitted, seen), writing.output, kind)
            elif fill is Fill.probabilities:
                write_matrix(filling.probabilities(fitted, seen), seen, writing.output, kind)
            else:
                write_matrix(filling.values(fitted, seen, denoise), seen, writing.output, kind)
    _say_summary(fitted, held_out, writing.quiet)
    finish(fitted.interrupted_)


def rank(
    source: Source,
    writing: Writing,
    criterion: Annotated[
        str, typer.Option(help="mdl: description length; heldout: entries kept aside.")
    ] = "mdl",
    max_rank: Annotated[
        int | None, typer.Option(min=1, help="The largest number of factors to try.")
    ] = None,
    reading: Reading = Reading(),  # noqa: B008
    fitting: Fitting = Fitting(),  # noqa: B008
) -> None:
    """Choose the number of factors: a line for each number tried, and how good it is.

    Example: boolweave rank votes.csv
    """
    import boolweave
    from boolweave.io.write import TABLE_FORMATS, write_table

    select_rank: Any = getattr(boolweave, "select_rank", None)
    if select_rank is None:
        raise ValueError("rank is not part of this version; give --n-components to factorize")
    kind = _check_outputs(writing, TABLE_FORMATS)
    contents = read_input(source, reading, writing.quiet)
    chosen = {k: v for k, v in parameters(fitting).items() if k != "n_components"}
    if max_rank is not None:
        chosen["ranks"] = range(1, max_rank + 1)
    found = select_rank(
        contents.observations, criterion=criterion, random_state=fitting.seed,
        n_jobs=fitting.jobs, **chosen,
    )  # fmt: skip
    if writing.json:
        answer = {"best": int(found.best), "criterion": found.criterion, "ranks": found.table()}
        put_json({**answer, "interrupted": found.interrupted})
    else:
        import polars as pl

        write_table(pl.DataFrame(found.table()), writing.output, kind)
        stopped = " of those tried before the interrupt" if found.interrupted else ""
        talk(f"best{stopped}: n_components = {found.best}", writing.quiet)
    finish(found.interrupted)


def info(
    source: Source,
    json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
    n_components: Annotated[
        int, typer.Option("--n-components", "-k", min=1, help="For the memory of a run.")
    ] = 10,
    reading: Reading = Reading(),  # noqa: B008
) -> None:
    """Say what is in a file: shape, entries, ones, and the memory a run would take.

    Example: boolweave info votes.csv
    """
    import numpy as np

    from boolweave.runtime.free_memory import in_words

    contents = read_input(source, reading, True)
    seen = contents.observations
    per_column = np.zeros(seen.n_columns, dtype=np.int64)
    for _, _, columns, _ in seen.in_pieces():
        per_column += np.bincount(columns, minlength=seen.n_columns)
    size = seen.n_rows * seen.n_columns
    answer: dict[str, Any] = {
        "file": contents.name,
        "format": contents.format,
        "read as": contents.guess,
        "rows": seen.n_rows,
        "columns": seen.n_columns,
        "observed": seen.n_observed,
        "observed share": seen.n_observed / max(size, 1),
        "ones share": seen.share_of_ones,
        "empty rows": int((np.diff(seen.indptr) == 0).sum()),
        "empty columns": int((per_column == 0).sum()),
        "row labels": _examples(seen.row_labels),
        "column labels": _examples(seen.column_labels),
        "n_components": n_components,
        "memory of a run in bytes": _memory(seen, n_components),
    }
    if json:
        put_json(answer)
        return
    answer["observed share"] = f"{answer['observed share']:.2%}"
    answer["ones share"] = f"{answer['ones share']:.2%}"
    memory = answer.pop("memory of a run in bytes")
    del answer["n_components"]
    answer[f"memory of a run with {n_components} factors"] = in_words(memory)
    width = max(len(name) for name in answer)
    for name, value in answer.items():
        typer.echo(f"{name:<{width}}  {value}")


# ---------------------------------------------------------------- helpers


def _examples(labels: NDArray[np.str_] | None) -> str:
    if labels is None:
        return "none"
    return ", ".join(labels[:3].tolist()) + (", ..." if len(labels) > 3 else "")


def _memory(seen: Observations, n_components: int) -> int:
    """What a run with the default settings takes at most."""
    from boolweave.fit.learn import N_STARTS
    from boolweave.fit.memory import estimate

    return estimate(seen.shape, seen.n_observed, n_components, n_init=N_STARTS)


def _check_outputs(
    writing: Writing, formats: tuple[str, ...], model: Path | None = None,
    report: Path | None = None,
) -> str:  # fmt: skip
    """Find mistakes in the names of outputs before the work is done."""
    from boolweave.io.write import check_folder, output_format
    from boolweave.runtime.atomic import is_stream

    kind = output_format(writing.output, writing.format, formats)
    no_tty_output(kind, writing.output)
    for path, option in ((writing.output, "--output"), (model, "--model"), (report, "--report")):
        check_folder(path, option)
    if model is not None and model.suffix.lower() != ".npz" and not is_stream(model):
        raise ValueError(f"--model: expected a name that ends in .npz, got {str(model)!r}")
    if report is not None:
        from boolweave.cli.models import check_report

        check_report(report, "--report")
    return kind


def _fit(
    seen: Observations, fitting: Fitting, hold_out: float, quiet: bool, where: Cluster
) -> tuple[BooleanMatrixFactorization, HeldOut | None]:
    aside: HeldOut | None = None
    if hold_out:
        seen, rows, columns, values = seen.hide(hold_out, random_state=fitting.seed)
        aside = rows, columns, values
    fitted = fit(seen, fitting, quiet, where)
    fitted.provenance_ = {"command": command_line()} | ({"hold_out": hold_out} if hold_out else {})
    return fitted, aside


def _write_more(
    fitted: BooleanMatrixFactorization, held_out: HeldOut | None, name: str, model: Path | None,
    report: Path | None, quiet: bool,
) -> None:  # fmt: skip
    if model is not None:
        fitted.save(model)
        talk(f"model: {model}", quiet)
    if report is not None:
        from boolweave.report.page import write_report

        write_report(fitted, report, title=name, held_out=held_out)
        talk(f"report: {report}", quiet)


def _summary(fitted: BooleanMatrixFactorization, held_out: HeldOut | None) -> dict[str, Any]:
    """The figures of a fit, for `--json`."""
    seen = fitted.observations_
    summary = {
        "rows": seen.n_rows,
        "columns": seen.n_columns,
        "observed": seen.n_observed,
        "n_components": len(fitted.components_),
        "n_empty": _n_empty(fitted),
        "converged": bool(fitted.converged_),
        "interrupted": bool(fitted.interrupted_),
        "n_iter": int(fitted.n_iter_),
        "log_posterior": float(fitted.log_posterior_),
        **_agreement(fitted).figures(),
    }
    if held_out is not None:
        summary["held_out"] = len(held_out[2])
        summary |= _agreement(fitted, held_out).figures("held_out_")
    return summary


def _say_summary(fitted: BooleanMatrixFactorization, held_out: HeldOut | None, quiet: bool) -> None:
    """The same in words."""
    if quiet:
        return
    n, n_empty = len(fitted.components_), _n_empty(fitted)
    empty = f", {n_empty} empty" if n_empty else ""
    words = _agreement(fitted).sentence("observed entries")
    talk(f"{n} factor{'' if n == 1 else 's'}{empty}: {words}", quiet)
    if held_out is not None:
        talk(f"held out: {_agreement(fitted, held_out).sentence()}", quiet)


def _n_empty(fitted: BooleanMatrixFactorization) -> int:
    """How many factors have no row, or no column."""
    has_rows, has_columns = (fitted.row_log_odds_ > 0).any(0), fitted.components_.any(1)
    return int((~(has_rows & has_columns)).sum())


def _agreement(fitted: BooleanMatrixFactorization, held_out: HeldOut | None = None) -> Agreement:
    from boolweave.metrics import Agreement, agreement

    if held_out is None:
        return Agreement.of_counts(fitted.result_.counts(fitted.observations_))
    rows, columns, values = held_out
    return agreement(values, fitted.predict(rows, columns))


def _factors(fitted: BooleanMatrixFactorization) -> list[dict[str, Any]]:
    from boolweave.recommend import members

    return [
        {
            "factor": k + 1,
            "rows": list(members(fitted, k, "row")),
            "columns": list(members(fitted, k, "column")),
        }
        for k in range(len(fitted.components_))
    ]
