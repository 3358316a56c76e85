"""The command `boolweave demo`: votes of the Senate, hidden and completed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from boolweave.cli.common import put_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from boolweave.data.observations import Observations
    from boolweave.datasets import Dataset
    from boolweave.estimator import BooleanMatrixFactorization
    from boolweave.metrics import Agreement

HIDDEN_SHARE = 0.8
RANKS = (1, 2, 3, 4)
STARTS = 3
PARTY_COLOURS = {"Democrat": "#3b6fb6", "Republican": "#c8443a", "Independent": "#7f7f7f"}
NAMES_SHOWN = 6


def demo(
    seed: Annotated[int, typer.Option(help="Seed of what is hidden and of the starts.")] = 0,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Threads; -1 for all cores.")] = -1,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where the picture goes: .png, .svg or .pdf.")
    ] = Path("boolweave-demo.png"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the figures only.")] = False,
    json: Annotated[bool, typer.Option("--json", help="For machines, without a picture.")] = False,
) -> None:
    """Complete hidden votes of the 107th US Senate.

    Hides 80% of the votes, fills them in from the rest, and prints how many of the hidden ones were
    right, how many of the yeas were found and how many nays were taken for yeas, beside two simple
    rules. Draws a picture where matplotlib is installed.

    Example: boolweave demo --seed 1 -o senate.png
    """
    from rich.console import Console

    from boolweave.datasets import load_senate
    from boolweave.metrics import agreement

    talk = Console(stderr=True, quiet=quiet or json, soft_wrap=True, highlight=False)
    page = Console(soft_wrap=True, highlight=False)
    _check_picture(output)
    senate = load_senate(107)
    votes = senate.observations
    kept, rows, columns, values = votes.hide(HIDDEN_SHARE, random_state=seed)
    talk.print(
        f"The 107th Senate: {votes.n_rows} roll calls x {votes.n_columns} senators, "
        f"{votes.n_observed} votes. {len(values)} are hidden, {kept.n_observed} stay."
    )
    model = _fit(kept, seed, jobs)
    guesses = {
        "always the majority": _majority(kept, rows),
        "mean of senator and roll call": _means(kept, rows, columns),
        f"boolweave, {len(model.components_)} factors": model.predict(rows, columns),
    }
    figures = {name: agreement(values, guess) for name, guess in guesses.items()}
    if json:
        measures = ("accuracy", "ones_covered", "false_ones")
        put_json(
            {"hidden": len(values), "hidden_ones": int(values.sum())}
            | {m: {name: getattr(f, m) for name, f in figures.items()} for m in measures}
        )
        return
    _print_figures(page, figures)
    if quiet:
        _draw(model, senate, output)
        return
    _print_factors(page, model, senate)
    drawn = _draw(model, senate, output)
    if drawn:
        talk.print(f"Picture: {output}", markup=False)
    else:
        talk.print("No picture: install matplotlib, pip install 'boolweave[plot]'", markup=False)
    talk.print(f"Data: {senate.citation}", style="dim")


# ---------------------------------------------------------------- completing


def _fit(kept: Observations, seed: int, jobs: int) -> BooleanMatrixFactorization:
    """The number of factors with the highest log-posterior; the hidden votes are not looked at."""
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


def _majority(kept: Observations, rows: NDArray[Any]) -> NDArray[np.bool_]:
    import numpy as np

    return np.full(len(rows), kept.share_of_ones > 0.5)


def _means(kept: Observations, rows: NDArray[Any], columns: NDArray[Any]) -> NDArray[np.bool_]:
    """Mean of the roll call + mean of the senator − mean of all, above one half."""
    import numpy as np

    def means(index: NDArray[Any], size: int) -> NDArray[np.float64]:
        count = np.bincount(index, minlength=size)
        total = np.bincount(index, weights=kept.values, minlength=size)
        return np.where(count > 0, total / np.maximum(count, 1), kept.share_of_ones)

    of_row = means(kept.rows_of_entries(), kept.n_rows)
    of_column = means(kept.indices, kept.n_columns)
    return of_row[rows] + of_column[columns] - kept.share_of_ones > 0.5


# ---------------------------------------------------------------- showing


def _print_figures(page: Any, figures: dict[str, Agreement]) -> None:
    from rich.table import Table

    best = max(found.accuracy or 0.0 for found in figures.values())
    table = Table(title="Hidden votes that were right", title_justify="left", box=None)
    table.add_column("rule")
    for heading in ("right", "yeas found", "false yeas"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for name, found in figures.items():
        share = found.accuracy or 0.0
        cells = (f"{share:.1%}", f"{found.ones_covered:.1%}", f"{found.false_ones:,}")
        style = "bold" if share == best else ""
        table.add_row(name, *cells, "█" * round(10 * share), style=style)
    page.print(table)


def _print_factors(page: Any, model: BooleanMatrixFactorization, senate: Dataset) -> None:
    """Each factor in words: whose it is, which senators, which roll calls."""
    import numpy as np

    X = model.row_log_odds_ > 0
    Y = model.components_ > 0
    parties = senate.column_groups
    names = senate.observations.column_labels
    calls = senate.observations.row_labels
    assert parties is not None and names is not None and calls is not None
    page.print("\n[bold]The factors[/bold]: senators who say yea together, and to what")
    for k in range(len(Y)):
        shares = {
            party: (int(Y[k, parties == party].sum()), int((parties == party).sum()))
            for party in PARTY_COLOURS
        }
        page.print(f"\n[bold]Factor {k + 1}: {_side(shares)}[/bold]")
        counted = ", ".join(f"{n} of {all_} {party}s" for party, (n, all_) in shares.items())
        page.print(f"  {int(Y[k].sum())} senators: {counted}")
        sure = np.argsort(-model.column_log_odds_[k])[:NAMES_SHOWN]
        page.print(f"  most surely {', '.join(names[sure])}", markup=False)
        crossed = _crossing(Y[k], parties, shares)
        if len(crossed):
            more = "" if len(crossed) <= NAMES_SHOWN else f" and {len(crossed) - NAMES_SHOWN} more"
            shown = ", ".join(names[crossed[:NAMES_SHOWN]])
            page.print(f"  from the other side {shown}{more}", markup=False)
        order = np.argsort(-model.row_log_odds_[:, k])[:NAMES_SHOWN]
        alone = int((X[:, k] & (X.sum(axis=1) == 1)).sum())
        numbers = ", ".join(calls[i].removeprefix("roll call ") for i in order)
        page.print(
            f"  say yea in {int(X[:, k].sum())} roll calls, in {alone} of them without another "
            f"factor; most surely in numbers {numbers}"
        )
    page.print(f"\nNo factor says yea in {int((~X.any(axis=1)).sum())} roll calls.\n")


def _side(shares: dict[str, tuple[int, int]]) -> str:
    democrat = shares["Democrat"][0] / shares["Democrat"][1]
    republican = shares["Republican"][0] / shares["Republican"][1]
    if min(democrat, republican) > 0.5:
        return "both parties"
    if max(democrat, republican) <= 0.5:
        return "a group of its own"
    return "the Democratic side" if democrat > republican else "the Republican side"


def _crossing(
    members: NDArray[np.bool_], parties: NDArray[Any], shares: dict[str, tuple[int, int]]
) -> NDArray[np.intp]:
    """Members from the party of which fewer than half belong to the factor, if the other leads."""
    import numpy as np

    minority = [
        party
        for party in ("Democrat", "Republican")
        if 0 < shares[party][0] <= 0.5 * shares[party][1]
    ]
    if len(minority) != 1:
        return np.array([], dtype=np.intp)
    return np.flatnonzero(members & (parties == minority[0]))


def _check_picture(output: Path) -> None:
    if output.suffix.lower() not in {".png", ".svg", ".pdf"}:
        raise ValueError(
            f"--output: expected a name that ends in .png, .svg or .pdf, got {str(output)!r}"
        )
    if not output.parent.is_dir():
        raise ValueError(f"--output: there is no folder {str(output.parent)!r}; make it first")


def _draw(model: BooleanMatrixFactorization, senate: Dataset, output: Path) -> bool:
    """Write the picture; False where matplotlib is not installed."""
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        return False
    from boolweave.plot import plot_tiles
    from boolweave.runtime.atomic import replacing

    X = model.row_log_odds_ > 0
    figure = plot_tiles(
        {
            f"what was shown: {1 - HIDDEN_SHARE:.0%} of the votes": model.observations_.to_dense(),
            "completed": model.inverse_transform(X),
            "all votes": senate.observations.to_dense(),
        },
        X,
        model.components_,
        title="The 107th Senate, completed from a fifth of its votes",
        row_name="roll calls",
        column_name="senators",
        value_names=("yea", "nay", "not seen"),
        column_groups=senate.column_groups,  # type: ignore[arg-type]
        group_colours=PARTY_COLOURS,
    )
    with replacing(output) as file:
        figure.savefig(file, format=output.suffix[1:].lower())
    return True
