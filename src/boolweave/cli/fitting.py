"""The commands that find factors: factorize, complete, rank; and info."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from boolweave.cli.common import command_line, fit, not_lost, read_input, zeros_of
from boolweave.cli.options import (
    Cluster,
    Fitting,
    Json,
    Keeping,
    ReadingOptions,
    Source,
    Sources,
    Writing,
)
from boolweave.cli.output import (
    check_folder,
    check_output,
    check_report,
    factor_table,
    put_answer,
    put_json,
    put_table,
    talk,
)
from boolweave.cli.process import INTERRUPTED

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from boolweave.data.observations import Absent
    from boolweave.estimator import BooleanMatrixFactorization
    from boolweave.io import Reading
    from boolweave.metrics import Agreement
    from boolweave.report.contents import HeldOut

# Factors whose stability is said one by one.
NAMED = 8


def factorize(
    source: Sources,
    *,
    writing: Writing,
    full: Annotated[
        bool, typer.Option("--full", help="List everyone, not only the members of factors.")
    ] = False,
    keeping: Keeping,
    reading: ReadingOptions,
    fitting: Fitting,
    where: Cluster,
) -> None:
    """Find the factors behind a table: who belongs together, and in what.

    The factors are those with the fewest wrong entries, unless --objective says otherwise. Writes a
    line for each member of each factor: factor, axis, label, probability.

    Example: boolweave factorize votes.csv -k 3 --model votes.npz --report votes.html
    """
    from boolweave.io.write import write_table
    from boolweave.recommend import members

    kind = check_output(writing)
    _check_kept(keeping)
    contents = read_input(
        source, reading, writing.quiet, max_memory=fitting.max_memory,
        zeros="exact" if keeping.hold_out else zeros_of(fitting, where, "errors"),
    )  # fmt: skip
    absent = reading.absent or "zero"
    with _fitted(contents, absent, fitting, where, keeping, writing.quiet, "errors") as found:
        model = found.model
        put_answer(
            writing,
            lambda: {
                **found.summary(),
                "factors": [
                    {
                        "factor": k + 1,
                        "rows": members(model, k, "row"),
                        "columns": members(model, k, "column"),
                        "stability": _number_of(model.factor_stability_, k),
                        "redundancy": _number_of(model.redundancy_, k),
                    }
                    for k in range(len(model.components_))
                ],
            },
            lambda: write_table(factor_table(model, full=full), writing.output, kind),
        )


def complete(
    source: Sources,
    *,
    writing: Writing,
    fill: Annotated[
        Literal["values", "probabilities", "both"],
        typer.Option(
            help="values: the table without holes; probabilities: P(observing 1) of each entry; "
            "both: a line for each entry that was missing."
        ),
    ] = "values",
    denoise: Annotated[
        bool, typer.Option("--denoise", help="Replace observed entries too where factors differ.")
    ] = False,
    keeping: Keeping,
    reading: ReadingOptions,
    fitting: Fitting,
    where: Cluster,
) -> None:
    """Fill the holes of a table.

    Observed entries stay as they are. What sparse files do not name is missing here.

    Example: boolweave complete votes.csv -k 3 -o completed.csv
    """
    from boolweave.cli import filling
    from boolweave.io.write import MATRIX_FORMATS, TABLE_FORMATS, write_matrix, write_pieces

    kind = check_output(writing, TABLE_FORMATS if fill == "both" else MATRIX_FORMATS)
    _check_kept(keeping)
    contents = read_input(source, reading, writing.quiet, "missing", fitting.max_memory)
    seen = contents.observations.to_local()
    filling.check_size(seen, kind, fill, fitting.max_memory)
    absent = reading.absent or "missing"
    with _fitted(contents, absent, fitting, where, keeping, writing.quiet) as found:
        model = found.model

        def write() -> None:
            if fill == "both":
                write_pieces(filling.holes(model, seen), writing.output, kind)
            elif fill == "probabilities":
                write_matrix(filling.probabilities(model), seen, writing.output, kind)
            else:
                write_matrix(filling.values(model, seen, denoise), seen, writing.output, kind)

        put_answer(
            writing,
            lambda: {
                **found.summary(),
                "filled": [
                    line for piece in filling.holes(model, seen) for line in piece.to_dicts()
                ],
            },
            write,
        )


def rank(
    source: Source,
    *,
    writing: Writing,
    criterion: Annotated[
        str, typer.Option(help="mdl: description length; heldout: entries kept aside.")
    ] = "mdl",
    max_rank: Annotated[
        int | None, typer.Option(min=1, help="The largest number of factors to try.")
    ] = None,
    reading: ReadingOptions,
    fitting: Fitting,
) -> None:
    """Choose the number of factors: a line for each number tried, and how good it is.

    With --objective errors also the fewest wrong entries at each number; on a terminal, a curve.

    Example: boolweave rank votes.csv
    """
    import polars as pl

    from boolweave import select_rank

    kind = check_output(writing)
    zeros = "exact" if criterion == "heldout" else zeros_of(fitting, None, "posterior")
    contents = read_input(source, reading, writing.quiet, zeros=zeros)
    chosen = fitting.parameters() | {"verbose": 0 if writing.quiet else 1}
    del chosen["n_components"]
    found = select_rank(
        contents.observations,
        None if max_rank is None else range(1, max_rank + 1),
        criterion,  # type: ignore[arg-type]  # select_rank checks it
        **chosen,
    )
    answer = {"best": int(found.best), "criterion": found.criterion, "ranks": found.table()}
    answer["interrupted"] = found.interrupted
    plain = (writing.output, writing.format, writing.json) == (None, None, False)
    if found.costs is not None and plain and sys.stdout.isatty():
        typer.echo(str(found))
    else:
        put_table(writing, kind, pl.DataFrame(found.table()), answer)
    stopped = " of those tried before the interrupt" if found.interrupted else ""
    talk(f"best{stopped}: n_components = {found.best}", writing.quiet or writing.json)
    _end(found.interrupted)


def info(
    source: Source,
    *,
    json: Json = False,
    n_components: Annotated[
        int, typer.Option("--n-components", "-k", min=1, help="For the memory of a run.")
    ] = 10,
    reading: ReadingOptions,
) -> None:
    """Say what is in a file: shape, entries, ones, and the memory a run would take.

    Example: boolweave info votes.csv
    """
    from boolweave.data.ones import SparseObservations
    from boolweave.fit.learn import N_STARTS
    from boolweave.fit.memory import FitSize
    from boolweave.runtime.free_memory import in_words

    contents = read_input(source, reading, True, zeros="auto")
    seen = contents.observations
    per_row, per_column = seen.observed_per_line()
    share = seen.n_observed / max(seen.n_rows * seen.n_columns, 1)
    collective = isinstance(seen, SparseObservations)
    n_entries = seen.n_ones if collective else seen.n_observed
    size = FitSize(seen.shape, n_entries, n_components, n_init=N_STARTS, collective=collective)
    memory = size.n_bytes
    answer: dict[str, object] = {
        "file": contents.name,
        "format": contents.format,
        "read as": contents.guess,
        "rows": seen.n_rows,
        "columns": seen.n_columns,
        "observed": seen.n_observed,
        "observed share": share if json else f"{share:.2%}",
        "ones share": seen.share_of_ones if json else f"{seen.share_of_ones:.2%}",
        "zeros": "collective" if collective else "exact",
        "empty rows": int((per_row == 0).sum()),
        "empty columns": int((per_column == 0).sum()),
        "row labels": _examples(seen.row_labels),
        "column labels": _examples(seen.column_labels),
    }
    if json:
        put_json(answer | {"n_components": n_components, "memory of a run in bytes": memory})
        return
    answer[f"memory of a run with {n_components} factors"] = in_words(memory)
    width = max(len(name) for name in answer)
    for name, value in answer.items():
        typer.echo(f"{name:<{width}}  {value}")


def _examples(labels: NDArray[np.str_] | None) -> str:
    if labels is None:
        return "none"
    return ", ".join(labels[:3].tolist()) + (", ..." if len(labels) > 3 else "")


# ---------------------------------------------------------------- a fit and what is said of it


@dataclass(frozen=True, eq=False)
class _Fit:
    """A fitted model, and the entries that were kept aside to test it."""

    model: BooleanMatrixFactorization
    held_out: HeldOut | None

    def on_observed(self) -> Agreement:
        from boolweave.metrics import Agreement

        return Agreement.of_counts(self.model.result_.counts(self.model.observations_))

    def on_held_out(self) -> Agreement | None:
        from boolweave.metrics import agreement

        if self.held_out is None:
            return None
        rows, columns, values = self.held_out
        return agreement(values, self.model.predict(rows, columns))

    def n_empty(self) -> int:
        """How many factors have no row, or no column."""
        full = (self.model.row_log_odds_ > 0).any(0) & self.model.components_.any(1)
        return len(self.model.components_) - int(full.sum())

    def summary(self) -> dict[str, object]:
        """The figures of a fit, for `--json`."""
        model, seen = self.model, self.model.observations_
        observed = self.on_observed()
        summary = {
            "rows": seen.n_rows,
            "columns": seen.n_columns,
            "observed": seen.n_observed,
            "objective": model.objective,
            "zeros": model.result_.zeros,
            "error": model.error_,
            "error_bound": model.error_bound_,
            "missed": observed.n_ones - observed.n_covered,
            "n_components": len(model.components_),
            "n_empty": self.n_empty(),
            "converged": bool(model.converged_),
            "interrupted": bool(model.interrupted_),
            "n_iter": int(model.n_iter_),
            "log_posterior": float(model.log_posterior_),
            **observed.figures(),
        }
        aside = self.on_held_out()
        if aside is not None:
            summary |= {"held_out": aside.n_entries, **aside.figures("held_out_")}
        return summary

    def say(self) -> None:
        """Say the same in words."""
        n, n_empty = len(self.model.components_), self.n_empty()
        empty = f", {n_empty} empty" if n_empty else ""
        words = self.on_observed().sentence("observed entries")
        talk(f"{_count(n, 'factor')}{empty}: {words}", False)
        if self.model.error_ is not None:
            talk(self._errors_in_words(), False)
            if self.model.factor_stability_ is not None:
                talk(_stability_in_words(self.model.factor_stability_), False)
        aside = self.on_held_out()
        if aside is not None:
            talk(f"held out: {aside.sentence()}", False)

    def _errors_in_words(self) -> str:
        """The wrong entries, and what is known of the fewest possible."""
        model, seen = self.model, self.on_observed()
        missed, false = seen.n_ones - seen.n_covered, seen.false_ones
        words = (
            f"{_count(missed + false, 'wrong entry', 'wrong entries')} = "
            f"{missed:,} missed + {_count(false, 'false one')}"
        )
        if model.false_one_weight != 1:
            words += (
                f"; error {model.error_:,.10g} with --false-one-weight {model.false_one_weight:g}"
            )
        which = f"{_count(len(model.components_), 'factor')}"
        if model.error_bound_ == model.error_:
            words += f"; optimal, as no {which} can have less"
        elif model.error_bound_ > 0:
            words += f"; {which} cannot have less than {model.error_bound_:,.10g}"
        return words


def _stability_in_words(stability: NDArray[np.float64]) -> str:
    """Which factors came back in every search, and in how many the others did."""
    changing = [k for k, share in enumerate(stability) if share < 1]
    words = f"stability: {len(stability) - len(changing)} of {_count(len(stability), 'factor')} "
    words += "came back in every search"
    if changing:
        named = [f"factor {k + 1} in {stability[k]:.0%}" for k in changing[:NAMED]]
        words += f"; {', '.join(named)}"
    if len(changing) > NAMED:
        words += f" and {len(changing) - NAMED} more"
    return words


def _count(n: int, what: str, many: str | None = None) -> str:
    return f"{n:,} {what if n == 1 else many or what + 's'}"


def _number_of(by_factor: NDArray[np.float64] | None, k: int) -> float | None:
    return None if by_factor is None else float(by_factor[k])


def _check_kept(keeping: Keeping) -> None:
    """Find mistakes in the names of model and report before the work is done."""
    from boolweave.runtime.atomic import is_stream

    model = keeping.model
    check_folder(model, "--model")
    if model is not None and model.suffix.lower() != ".npz" and not is_stream(model):
        raise ValueError(f"--model: expected a name that ends in .npz, got {str(model)!r}")
    if keeping.report is not None:
        check_report(keeping.report, "--report")


@contextmanager
def _fitted(
    contents: Reading, absent: Absent, fitting: Fitting, where: Cluster, keeping: Keeping,
    quiet: bool, objective: Literal["errors", "posterior"] = "posterior",
) -> Iterator[_Fit]:  # fmt: skip
    """Fit and write the model and the report; at the end, say how good it is.

    While the answer is written, the model is not lost.
    """
    seen, held_out = contents.observations, None
    if keeping.hold_out:
        hidden = seen.to_local().hide(keeping.hold_out, random_state=fitting.random_state)
        seen, held_out = hidden[0], hidden[1:]
    began = time.time()
    model = fit(seen, fitting, quiet, where, objective)
    model.absent = absent
    model.provenance_ = {"command": command_line()}
    if keeping.hold_out:
        model.provenance_["hold_out"] = keeping.hold_out
    found = _Fit(model, held_out)
    with not_lost(model, began, keeping.model):
        _keep(found, keeping, contents.name, quiet)
        yield found
    if not quiet:
        found.say()
    _end(model.interrupted_)


def _keep(found: _Fit, keeping: Keeping, title: str, quiet: bool) -> None:
    """Write the model and the report, if asked to."""
    if keeping.model is not None:
        found.model.save(keeping.model)
        talk(f"model: {keeping.model}", quiet)
    if keeping.report is not None:
        from boolweave.report import write_report

        write_report(found.model, keeping.report, title=title, held_out=found.held_out)
        talk(f"report: {keeping.report}", quiet)


def _end(interrupted: bool) -> None:
    """End with the exit code 130 where Ctrl-C ended the run, after everything is written."""
    if interrupted:
        raise typer.Exit(INTERRUPTED)
