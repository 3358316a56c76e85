"""The command `boolweave demo`: votes of the US Senate are hidden and filled in again."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from boolweave.cli.output import check_picture, put_json, save_picture

if TYPE_CHECKING:
    from rich.console import Console

    from boolweave.baselines import Baseline
    from boolweave.completion import BooleanCompletion
    from boolweave.data.observations import Observations
    from boolweave.datasets import Dataset
    from boolweave.estimator import BooleanMatrixFactorization
    from boolweave.metrics import Agreement

HIDDEN_SHARE = 0.8
RANKS = (1, 2, 3, 4)
STARTS = 3
PARTIES = ("Democrat", "Republican")
PARTY_COLOURS = {"Democrat": "#3b6fb6", "Republican": "#c8443a", "Independent": "#7f7f7f"}
NAMES_SHOWN = 6
OFFSETS, COMPLETION = "offsets alone", "boolweave completion"

# The size of the completion is fixed, which makes the demo quick; choosing it would gain little.
SIZE: dict[str, Any] = {"n_directions": 2, "n_layers": 4, "n_components": 4, "n_members": 8}


def demo(
    *,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", help="Number of threads; -1 uses all cores.")
    ] = -1,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File of the picture: .png, .svg or .pdf.")
    ] = Path("boolweave-demo.png"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the figures.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Write JSON, without a picture.")] = False,
) -> None:
    """Predict hidden votes of the 107th US Senate.

    The demo hides 80% of the votes, fills them in from the rest, and compares three models with
    always predicting the majority. It prints how many of the hidden votes were right, how many of
    the yeas were found, how many nays were taken for yeas, and the log-loss of the probabilities.
    Then it describes a few Boolean factors, and draws a picture if matplotlib is installed.

    Example: boolweave demo --seed 1 -o senate.png
    """
    from rich.console import Console

    from boolweave.baselines import BiasModel, Majority
    from boolweave.completion import BooleanCompletion
    from boolweave.datasets import load_senate
    from boolweave.metrics import agreement, log_loss

    talk = Console(stderr=True, quiet=quiet or json, soft_wrap=True, highlight=False)
    page = Console(soft_wrap=True, highlight=False)
    check_picture(output, "--output")
    senate = load_senate(107)
    votes = senate.observations
    kept, rows, columns, values = votes.hide(HIDDEN_SHARE, random_state=seed)
    talk.print(
        f"The 107th Senate: {votes.n_rows} roll calls x {votes.n_columns} senators, "
        f"{votes.n_observed} votes. {len(values)} are hidden, {kept.n_observed} remain."
    )
    factors = _find_factors(kept, seed, jobs)
    completion = BooleanCompletion(**SIZE, n_jobs=jobs, random_state=seed).fit(kept)
    rules: dict[str, Baseline | BooleanMatrixFactorization | BooleanCompletion] = {
        "always the majority": Majority().fit(kept),
        OFFSETS: BiasModel(random_state=seed).fit(kept),
        f"boolweave, {len(factors.components_)} factors": factors,
        COMPLETION: completion,
    }
    figures = {name: agreement(values, rule.predict(rows, columns)) for name, rule in rules.items()}
    losses = {
        name: log_loss(values, rule.predict_proba(rows, columns)) for name, rule in rules.items()
    }
    if json:
        measures = ("accuracy", "ones_covered", "false_ones")
        put_json(
            {"hidden": len(values), "hidden_ones": int(values.sum())}
            | {m: {name: getattr(f, m) for name, f in figures.items()} for m in measures}
            | {"log_loss": losses}
        )
        return
    _print_figures(page, figures, losses)
    if not quiet:
        gain = (figures[COMPLETION].accuracy or 0.0) - (figures[OFFSETS].accuracy or 0.0)
        page.print(
            f"\nThe completion gets {100 * gain:.1f} percentage points more of the hidden votes "
            f"right than offsets alone. Its model: {completion.ensemble_.name}."
        )
        _print_factors(page, factors, senate)
    if find_spec("matplotlib") is not None:
        _draw(factors, completion, senate, output)
        talk.print(f"Picture: {output}", markup=False)
    else:
        talk.print("No picture: it needs matplotlib, pip install 'boolweave[plot]'", markup=False)
    talk.print(f"Data: {senate.citation}", style="dim")


# ---------------------------------------------------------------- completing


def _find_factors(kept: Observations, seed: int, jobs: int) -> BooleanMatrixFactorization:
    """Fit the number of factors with the highest log-posterior, without using the hidden votes."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    from boolweave.estimator import BooleanMatrixFactorization

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = [
            BooleanMatrixFactorization(
                rank, method="max-sum", n_init=STARTS, n_jobs=jobs, random_state=seed
            ).fit(kept)
            for rank in RANKS
        ]
    return max(fitted, key=lambda model: model.log_posterior_)


# ---------------------------------------------------------------- showing


def _print_figures(page: Console, figures: dict[str, Agreement], losses: dict[str, float]) -> None:
    from rich.table import Table

    best = max(found.accuracy or 0.0 for found in figures.values())
    table = Table(title="Predictions of the hidden votes", title_justify="left", box=None)
    table.add_column("rule")
    for heading in ("right", "yeas found", "false yeas", "log-loss"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for name, found in figures.items():
        share = found.accuracy or 0.0
        counts = (f"{share:.1%}", f"{found.ones_covered:.1%}", f"{found.false_ones:,}")
        cells = (*counts, f"{losses[name]:.3f}")
        style = "bold" if share == best else ""
        table.add_row(name, *cells, "█" * round(10 * share), style=style)
    page.print(table)


def _print_factors(page: Console, model: BooleanMatrixFactorization, senate: Dataset) -> None:
    """Describe each factor: its party, its senators and its roll calls."""
    from boolweave.recommend import members, some_names

    X, Y = model.row_log_odds_ > 0, model.components_ > 0
    parties, labels = senate.column_groups, senate.observations.column_labels
    assert parties is not None and labels is not None
    page.print(
        "\n[bold]The factors[/bold]: senators who vote yea together, and on which roll calls"
    )
    for k in range(len(Y)):
        counts = {
            party: (int(Y[k, parties == party].sum()), int((parties == party).sum()))
            for party in PARTY_COLOURS
        }
        page.print(f"\n[bold]Factor {k + 1}: {_side(counts)}[/bold]")
        counted = ", ".join(f"{n} of {all_} {party}s" for party, (n, all_) in counts.items())
        page.print(f"  {int(Y[k].sum())} senators: {counted}")
        senators = members(model, k, "column")
        page.print(f"  most certain: {', '.join(senators[:NAMES_SHOWN])}", markup=False)
        minority = [p for p in PARTIES if 0 < counts[p][0] <= 0.5 * counts[p][1]]
        if len(minority) == 1:
            crossed = some_names(tuple(labels[Y[k] & (parties == minority[0])].tolist()))
            page.print(f"  from the other party: {crossed}", markup=False)
        calls = [name.removeprefix("roll call ") for name in members(model, k, "row")]
        alone = int((X[:, k] & (X.sum(axis=1) == 1)).sum())
        page.print(
            f"  vote yea in {len(calls)} roll calls, in {alone} of them without another "
            f"factor; most certain: numbers {', '.join(calls[:NAMES_SHOWN])}"
        )
    page.print(f"\nNo factor votes yea in {int((~X.any(axis=1)).sum())} roll calls.\n")


def _side(counts: dict[str, tuple[int, int]]) -> str:
    democrat, republican = (counts[party][0] / counts[party][1] for party in PARTIES)
    if min(democrat, republican) > 0.5:
        return "both parties"
    if max(democrat, republican) <= 0.5:
        return "a group of its own"
    return "the Democratic side" if democrat > republican else "the Republican side"


def _draw(
    factors: BooleanMatrixFactorization, completion: BooleanCompletion, senate: Dataset,
    output: Path,
) -> None:  # fmt: skip
    """Draw the visible, the completed and the true votes, ordered by the factors."""
    import numpy as np

    from boolweave.completion.answers.dense import row_probabilities
    from boolweave.plot import plot_tiles

    X = factors.row_log_odds_ > 0
    shown = factors.observations_
    chances = row_probabilities(completion.ensemble_, np.arange(shown.n_rows))
    figure = plot_tiles(
        {
            f"visible: {1 - HIDDEN_SHARE:.0%} of the votes": shown.to_dense(),
            "completed": (chances > 0.5).astype(np.uint8),
            "all votes": senate.observations.to_dense(),
        },
        X,
        factors.components_,
        title="The 107th Senate, completed from a fifth of its votes",
        row_name="roll calls",
        column_name="senators",
        value_names=("yea", "nay", "hidden"),
        column_groups=senate.column_groups,
        group_colours=PARTY_COLOURS,
    )
    save_picture(figure, output)
