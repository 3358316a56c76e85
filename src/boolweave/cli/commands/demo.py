"""The command `boolweave demo`: votes of the US Senate completed, animals of a zoo explained."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from boolweave.cli.options import Jobs, Seed
from boolweave.cli.output import check_picture, put_json, save_picture
from boolweave.runtime.extras import installing

if TYPE_CHECKING:
    from boolweave.covering.result import Cover
    from boolweave.data.observations import Observations
    from boolweave.datasets import Dataset
    from boolweave.engine.result import Result
    from boolweave.estimator import BooleanMatrixFactorization

T = TypeVar("T")

HIDDEN_SHARE = 0.8
PARTY_COLOURS = {"Democrat": "#3b6fb6", "Republican": "#c8443a", "Independent": "#7f7f7f"}
# Who votes together, by whether most Democrats and most Republicans do.
SIDES = {
    (True, True): "both parties",
    (True, False): "the Democratic side",
    (False, True): "the Republican side",
    (False, False): "a group of its own",
}
OFFSETS, COMPLETION = "offsets alone", "boolweave completion"

# The size of the completion is fixed, which makes the demo quick; choosing it would gain little.
SIZE: dict[str, Any] = {"n_directions": 2, "n_layers": 4, "n_components": 4, "n_members": 8}


def demo(
    *,
    seed: Seed = 0,
    jobs: Jobs = -1,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File of the picture: .png, .svg or .pdf.")
    ] = Path("boolweave-demo.png"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the figures.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Write JSON, without a picture.")] = False,
) -> None:
    """Complete hidden votes of the 107th US Senate, and explain the animals of a zoo.

    The demo hides 80% of the votes, fills them in from the rest, and compares its models with two
    simple rules. It prints how many of the hidden votes were right, how many of the yeas were
    found, how many nays were taken for yeas, and the log-loss of the probabilities. Then it
    describes the Boolean factors. For the zoo it prints the factors with the fewest wrong entries,
    and a few groups of shared traits that cover most of the table. It draws a picture of the votes
    if matplotlib is installed.

    The first run takes longer, because it compiles the kernels.

    Example: boolweave demo --seed 1 -o senate.png
    """
    from rich.console import Console

    from boolweave.datasets import load_senate, load_zoo
    from boolweave.metrics import agreement, log_loss

    messages = Console(stderr=True, quiet=quiet or json, soft_wrap=True, highlight=False)
    page = Console(quiet=json, soft_wrap=True, highlight=False)
    check_picture(output, "--output")
    senate, zoo = load_senate(107), load_zoo()
    votes = senate.observations
    kept, rows, columns, values = votes.hide(HIDDEN_SHARE, random_state=seed)
    messages.print(
        f"The 107th Senate: {votes.n_rows} roll calls x {votes.n_columns} senators, "
        f"{votes.n_observed:,} votes. {len(values):,} are hidden, {kept.n_observed:,} remain.\n"
        "Fitting. The first run also compiles the kernels, which takes up to a minute."
    )
    with _meanwhile(_explain_zoo, zoo, seed, jobs) as explained:
        factors, models = _fit_all(kept, seed, jobs)
        completion = models[COMPLETION]
        right = {name: agreement(values, m.predict(rows, columns)) for name, m in models.items()}
        losses = {
            name: log_loss(values, model.predict_proba(rows, columns))
            for name, model in models.items()
        }
        _print_figures(page, right, losses)
        if not quiet:
            gain = (right[COMPLETION].accuracy or 0.0) - (right[OFFSETS].accuracy or 0.0)
            page.print(
                f"\nThe completion gets {100 * gain:.1f} percentage points more of the hidden "
                "votes right than offsets alone, which say how often a senator votes yea and how "
                "many yeas a roll call has."
            )
            _print_factors(page, factors, senate)
        with_picture = not json and find_spec("matplotlib") is not None
        if with_picture:
            _draw(factors, completion, senate, output)
        found, groups = explained()
    if json:
        figures = ("accuracy", "ones_covered", "false_ones")
        of_zoo = {"factors": len(found.Y), "wrong": found.cost, "wrong_at_least": found.bound}
        of_zoo |= {"groups": len(groups.Y), "coverage": groups.coverage}
        put_json(
            {"hidden": len(values), "hidden_ones": int(values.sum())}
            | {f: {name: getattr(of, f) for name, of in right.items()} for f in figures}
            | {"log_loss": losses, "zoo": of_zoo}
        )
        return
    if not quiet:
        _print_zoo(page, zoo, found, groups)
    picture = f"No picture: it needs matplotlib, {installing('plot')}"
    messages.print(f"Picture: {output}" if with_picture else picture, markup=False)
    for dataset in (senate, zoo):
        messages.print(f"Data: {dataset.citation}", style="dim")


@contextmanager
def _meanwhile(task: Callable[..., T], *arguments: Any) -> Iterator[Callable[[], T]]:
    """Run `task` in another process meanwhile, and yield a function that returns its result.

    In the first run, the two processes compile different kernels at the same time. With one job,
    the last argument, there is no other process.
    """
    if arguments[-1] == 1:
        yield lambda: task(*arguments)
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield pool.submit(task, *arguments).result


def _explain_zoo(zoo: Dataset, seed: int, jobs: int) -> tuple[Result, Cover]:
    """Factors with the fewest wrong entries, and few that cover most ones and no zero."""
    from boolweave.functions import cover, factorize

    found = factorize(zoo.observations, n_components=4, n_jobs=jobs, random_state=seed)
    return found, cover(zoo.observations, coverage=0.8, closed=True, random_state=seed)


def _fit_all(
    kept: Observations, seed: int, jobs: int
) -> tuple[BooleanMatrixFactorization, dict[str, Any]]:
    """Fit the default factorization and all models, by name, without using the hidden votes."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    from boolweave.baselines import BiasModel, Majority
    from boolweave.completion import BooleanCompletion
    from boolweave.estimator import BooleanMatrixFactorization

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        factors = BooleanMatrixFactorization(n_jobs=jobs, random_state=seed).fit(kept)
    return factors, {
        "always the majority": Majority().fit(kept),
        OFFSETS: BiasModel(random_state=seed).fit(kept),
        f"boolweave, {len(factors.components_)} factors": factors,
        COMPLETION: BooleanCompletion(**SIZE, n_jobs=jobs, random_state=seed).fit(kept),
    }


def _print_figures(page: Any, right: dict[str, Any], losses: dict[str, float]) -> None:
    from rich.table import Table

    best = max(found.accuracy for found in right.values())
    table = Table(title="Predictions of the hidden votes", title_justify="left", box=None)
    table.add_column("rule")
    for heading in ("right", "yeas found", "false yeas", "log-loss"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for name, found in right.items():
        share = found.accuracy
        cells = (f"{share:.1%}", f"{found.ones_covered:.1%}", f"{found.false_ones:,}")
        bar, style = "█" * round(10 * share), "bold" if share == best else ""
        table.add_row(name, *cells, f"{losses[name]:.3f}", bar, style=style)
    page.print(table)


def _print_factors(page: Any, model: BooleanMatrixFactorization, senate: Dataset) -> None:
    """Describe each factor: its side, its senators and its roll calls."""
    from boolweave.recommend import members, some_names

    X, Y, parties = model.row_log_odds_ > 0, model.components_ > 0, senate.column_groups
    assert parties is not None
    page.print(
        "\n[bold]The factors[/bold]: senators who vote yea together, and on which roll calls"
    )
    for k in range(len(Y)):
        counts = {
            party: (int(Y[k, parties == party].sum()), int((parties == party).sum()))
            for party in PARTY_COLOURS
        }
        democrats, republicans = (inside > 0.5 * size for inside, size in list(counts.values())[:2])
        side = SIDES[democrats, republicans]
        senators = members(model.result_, k, "column")
        of_parties = ", ".join(f"{n} of {size} {party}s" for party, (n, size) in counts.items())
        alone = int((X[:, k] & (X.sum(axis=1) == 1)).sum())
        page.print(f"\n[bold]Factor {k + 1}: {side}[/bold]")
        page.print(f"  {len(senators)} senators: {of_parties}")
        page.print(f"  most certain: {some_names(senators)}", markup=False)
        page.print(
            f"  vote yea in {int(X[:, k].sum())} roll calls, in {alone} of them as the only factor"
        )
    page.print(f"\nIn {int((~X.any(axis=1)).sum())} roll calls no factor votes yea.\n")


def _print_zoo(page: Any, zoo: Dataset, found: Result, groups: Cover) -> None:
    """Factors and groups of traits, with the animals that have them."""
    from boolweave.recommend import some_names

    seen = zoo.observations
    animals, traits = seen.row_labels, seen.column_labels
    assert animals is not None and traits is not None
    titles = (
        f"[bold]A zoo[/bold]: {seen.n_rows} animals x {seen.n_columns} traits, explained by "
        f"{len(found.Y)} factors with {found.cost:.0f} wrong entries of {seen.n_observed:,}; "
        f"no {len(found.Y)} factors can have fewer than {found.bound:.0f}",
        f"\n[bold]A cover[/bold]: {len(groups.Y)} groups of animals, each with all of these "
        f"traits; together they contain {groups.coverage:.0%} of the ones and no zero",
    )
    for title, (X, Y) in zip(titles, ((found.X, found.Y), (groups.X, groups.Y)), strict=True):
        page.print(title)
        for k, y in enumerate(Y):
            names = some_names(tuple(animals[X[:, k] > 0].tolist()))
            of_group = ", ".join(traits[y > 0].tolist())
            line = f"  {k + 1}. {of_group}: {int(X[:, k].sum())} animals, {names}"
            page.print(line, markup=False)
    page.print("")


def _draw(factors: Any, completion: Any, senate: Dataset, output: Path) -> None:
    """Draw the visible, the completed and the true votes, ordered by the factors."""
    import numpy as np

    from boolweave.plot import plot_tiles

    shown = factors.observations_
    chances = completion.ensemble_.row_probabilities(np.arange(shown.n_rows))
    figure = plot_tiles(
        {
            f"visible: {1 - HIDDEN_SHARE:.0%} of the votes": shown.to_dense(),
            "completed": (chances > 0.5).astype(np.uint8),
            "all votes": senate.observations.to_dense(),
        },
        factors.row_log_odds_ > 0,
        factors.components_,
        title="The 107th Senate, completed from a fifth of its votes",
        row_name="roll calls",
        column_name="senators",
        value_names=("yea", "nay", "hidden"),
        column_groups=senate.column_groups,
        group_colours=PARTY_COLOURS,
    )
    save_picture(figure, output)
