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

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.console import Console

    from boolweave.baselines import Baseline
    from boolweave.completion import BooleanCompletion
    from boolweave.covering.result import Cover
    from boolweave.data.observations import Observations
    from boolweave.datasets import Dataset
    from boolweave.engine.result import Result
    from boolweave.estimator import BooleanMatrixFactorization
    from boolweave.metrics import Agreement

T = TypeVar("T")

HIDDEN_SHARE = 0.8
ZOO_FACTORS = 4
ZOO_COVERAGE = 0.8
PARTIES = ("Democrat", "Republican")
PARTY_COLOURS = {"Democrat": "#3b6fb6", "Republican": "#c8443a", "Independent": "#7f7f7f"}
NAMES_SHOWN = 6
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

    messages = Console(stderr=True, quiet=quiet or json, soft_wrap=True, highlight=False)
    page = Console(soft_wrap=True, highlight=False)
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
        factors, rules = _fit_all(kept, seed, jobs)
        figures, losses = _judge(rules, rows, columns, values)
        if not json:
            _print_figures(page, figures, losses)
            if not quiet:
                _print_gain(page, figures, rules[COMPLETION])
                _print_factors(page, factors, senate)
            if picture := find_spec("matplotlib") is not None:
                _draw(factors, rules[COMPLETION], senate, output)
        found, groups = explained()
    if json:
        measures = ("accuracy", "ones_covered", "false_ones")
        put_json(
            {"hidden": len(values), "hidden_ones": int(values.sum())}
            | {m: {name: getattr(f, m) for name, f in figures.items()} for m in measures}
            | {"log_loss": losses, "zoo": _zoo_in_numbers(found, groups)}
        )
        return
    if not quiet:
        _print_zoo(page, zoo, found, groups)
    if picture:
        messages.print(f"Picture: {output}", markup=False)
    else:
        messages.print(
            "No picture: it needs matplotlib, pip install 'boolweave[plot]'", markup=False
        )
    for dataset in (senate, zoo):
        messages.print(f"Data: {dataset.citation}", style="dim")


# ---------------------------------------------------------------- completing


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


def _fit_all(
    kept: Observations, seed: int, jobs: int
) -> tuple[BooleanMatrixFactorization, dict[str, Any]]:
    """Fit the default factorization and all rules, by name, without using the hidden votes."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    from boolweave.baselines import BiasModel, Majority
    from boolweave.completion import BooleanCompletion
    from boolweave.estimator import BooleanMatrixFactorization

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        factors = BooleanMatrixFactorization(n_jobs=jobs, random_state=seed).fit(kept)
    rules: dict[str, Baseline | BooleanMatrixFactorization | BooleanCompletion] = {
        "always the majority": Majority().fit(kept),
        OFFSETS: BiasModel(random_state=seed).fit(kept),
        f"boolweave, {len(factors.components_)} factors": factors,
        COMPLETION: BooleanCompletion(**SIZE, n_jobs=jobs, random_state=seed).fit(kept),
    }
    return factors, rules


def _judge(
    rules: dict[str, Any], rows: Any, columns: Any, values: Any
) -> tuple[dict[str, Agreement], dict[str, float]]:
    """How well each rule predicts the hidden votes, and the log-loss of its probabilities."""
    from boolweave.metrics import agreement, log_loss

    figures = {name: agreement(values, rule.predict(rows, columns)) for name, rule in rules.items()}
    losses = {
        name: log_loss(values, rule.predict_proba(rows, columns)) for name, rule in rules.items()
    }
    return figures, losses


def _explain_zoo(zoo: Dataset, seed: int, jobs: int) -> tuple[Result, Cover]:
    """Factors with the fewest wrong entries, and few that cover most ones and no zero."""
    from boolweave.functions import cover, factorize

    found = factorize(zoo.observations, n_components=ZOO_FACTORS, n_jobs=jobs, random_state=seed)
    return found, cover(zoo.observations, coverage=ZOO_COVERAGE, random_state=seed)


def _zoo_in_numbers(found: Result, groups: Cover) -> dict[str, float]:
    return {
        "factors": found.Y.shape[0], "wrong": found.cost, "wrong_at_least": found.bound,
        "groups": groups.Y.shape[0], "coverage": groups.coverage,
    }  # fmt: skip


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


def _print_gain(
    page: Console, figures: dict[str, Agreement], completion: BooleanCompletion
) -> None:
    gain = (figures[COMPLETION].accuracy or 0.0) - (figures[OFFSETS].accuracy or 0.0)
    page.print(
        f"\nThe completion gets {100 * gain:.1f} percentage points more of the hidden votes right "
        f"than offsets alone. Its model: {completion.ensemble_.name}."
    )


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
        senators = members(model.result_, k, "column")
        page.print(f"  most certain: {', '.join(senators[:NAMES_SHOWN])}", markup=False)
        minority = [p for p in PARTIES if 0 < counts[p][0] <= 0.5 * counts[p][1]]
        if len(minority) == 1:
            crossed = some_names(tuple(labels[Y[k] & (parties == minority[0])].tolist()))
            page.print(f"  from the other party: {crossed}", markup=False)
        calls = [name.removeprefix("roll call ") for name in members(model.result_, k, "row")]
        alone = int((X[:, k] & (X.sum(axis=1) == 1)).sum())
        page.print(
            f"  vote yea in {len(calls)} roll calls, in {alone} of them as the only factor; "
            f"most certain: numbers {', '.join(calls[:NAMES_SHOWN])}"
        )
    page.print(f"\nIn {int((~X.any(axis=1)).sum())} roll calls no factor votes yea.\n")


def _print_zoo(page: Console, zoo: Dataset, found: Result, groups: Cover) -> None:
    """Factors and groups of traits, with the animals that have them."""
    seen = zoo.observations
    page.print(
        f"[bold]A zoo[/bold]: {seen.n_rows} animals x {seen.n_columns} traits, explained by "
        f"{len(found.Y)} factors with {found.cost:.0f} wrong entries of {seen.n_observed:,}; "
        f"no {len(found.Y)} factors can have fewer than {found.bound:.0f}"
    )
    _print_tiles(page, zoo, found.X, found.Y)
    page.print(
        f"\n[bold]A cover[/bold]: {len(groups.Y)} groups of animals, each with all of these "
        f"traits; together they contain {groups.coverage:.0%} of the ones and no zero"
    )
    _print_tiles(page, zoo, groups.X, groups.Y)
    page.print("")


def _print_tiles(page: Console, zoo: Dataset, X: NDArray[Any], Y: NDArray[Any]) -> None:
    from boolweave.recommend import some_names

    animals, traits = zoo.observations.row_labels, zoo.observations.column_labels
    assert animals is not None and traits is not None
    for k in range(len(Y)):
        named = ", ".join(traits[Y[k] > 0].tolist())
        of_them = some_names(tuple(animals[X[:, k] > 0].tolist()))
        page.print(f"  {k + 1}. {named}: {int(X[:, k].sum())} animals, {of_them}", markup=False)


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
