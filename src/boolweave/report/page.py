"""A page about a fitted model or a cover: a self-contained HTML file.

`render_report` makes the page, and `write_report` writes it to a file. `words.py`, `contents.py`,
`completion.py` and `cover.py` compute its contents; `templates/` holds the pages, their style and
their scripts.
"""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave import __version__
from boolweave.completion import BooleanCompletion
from boolweave.covering.result import Cover
from boolweave.estimator import BooleanMatrixFactorization
from boolweave.functions import Completion
from boolweave.metrics import Agreement
from boolweave.plot import FACTOR_COLOURS
from boolweave.report import completion, contents, cover, running, words
from boolweave.report.entries import doubtful, holes
from boolweave.report.held_out import HeldOutPredictions
from boolweave.report.lines import Lines
from boolweave.runtime.atomic import replacing
from boolweave.runtime.extras import need

if TYPE_CHECKING:
    from pathlib import Path

    from boolweave.data.observed import ObservedEntries
    from boolweave.report.entries import EntryList
    from boolweave.report.grid import Grid
    from boolweave.report.held_out import HeldOut

    Model = BooleanMatrixFactorization | BooleanCompletion | Cover
    Facts = list[tuple[str, str]]
    # The variables of the template, and the data of the scripts.
    Page = tuple[dict[str, Any], dict[str, Any]]

# Number of members of a factor that its card shows at once; the others can be unfolded.
MEMBERS_SHOWN = 12

# Number of members of a factor that a reason names.
MEMBERS_NAMED = 4

# The scripts; each of them uses those before it.
SCRIPTS = ("core.js", "charts.js", "matrix.js", "reasons.js", "lists.js", "factors.js")


def write_report(
    model: Model,
    path: str | Path,
    *,
    title: str = "",
    held_out: HeldOut | None = None,
    command: str | None = None,
) -> None:
    """Write the page about a fitted model, or about a cover.

    Parameters
    ----------
    model : BooleanMatrixFactorization, BooleanCompletion, Completion or Cover
        A fitted model, or the result of `boolweave.complete` or `boolweave.cover`.
    path : path
        The file of the page; an old file is replaced once the new one is complete.
    title : str
        Title of the page.
    held_out : (rows, columns, values), optional
        Entries that the model has not seen, to test its probabilities. Arrays of whole numbers are
        positions, as `Observations.hide` returns them; other rows and columns are labels.
    command : str, optional
        The command that makes the same page again, if the model does not know it.

    Examples
    --------
    >>> from boolweave import cover
    >>> from boolweave.report import write_report
    >>> found = cover([[1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 1, 1]], random_state=0)
    >>> write_report(found, "roles.html", title="Who may do what")
    """
    text = render_report(model, title=title, held_out=held_out, command=command)
    page = text.encode("utf-8", "backslashreplace")  # a label may hold a lone surrogate
    with replacing(path) as file:
        file.write(page)


def render_report(
    model: Model,
    *,
    title: str = "",
    held_out: HeldOut | None = None,
    command: str | None = None,
    exploring: dict[str, Any] | None = None,
) -> str:
    """The page about a fitted model, as text; the parameters are those of `write_report`.

    `exploring` holds the data of the slider on a page that is shown by a server.
    """
    need("jinja2", "a report")
    import jinja2
    from markupsafe import Markup

    model = _checked(model)
    if isinstance(model, Cover):
        variables, data = _cover_page(model)
    else:
        tested = None if held_out is None else HeldOutPredictions.of(model, held_out)
        if isinstance(model, BooleanMatrixFactorization):
            variables, data = _factor_page(model, tested)
        else:
            variables, data = _completion_page(model, tested)
    variables["command"] = command or variables["command"]
    data |= {"colours": FACTOR_COLOURS, "exploring": exploring}
    # In a script element, only "</script" and "<!--" could end or change the text.
    payload = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    names = [*SCRIPTS, *(["explore.js"] if exploring else []), "start.js"]
    script = "\n".join(['"use strict";', "(() => {", *map(_text, names), "})();"])
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_text), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    variables["glossary"] = words.explained([name for name, _ in variables["summary"]])
    template = "completion.html.j2" if data["kind"] == "completion" else "report.html.j2"
    return environment.get_template(template).render(
        title=title or variables.pop("default_title"),
        shown=MEMBERS_SHOWN,
        has=data,
        exploring=exploring,
        style=Markup(_text("report.css")),
        payload=Markup(payload),
        script=Markup(script),
        # Only this script may run, whatever a label contains, and connect only to the server.
        policy=_fingerprint(script),
        **variables,
    )


def _checked(model: Any) -> Model:
    """The model of a page; raise unless it is fitted, and of a kind that has a page."""
    from sklearn.utils.validation import check_is_fitted

    if isinstance(model, Completion):
        return model.model
    if not isinstance(model, BooleanMatrixFactorization | BooleanCompletion | Cover):
        raise TypeError(
            "expected a fitted BooleanMatrixFactorization, a BooleanCompletion or a cover, got a "
            f"{type(model).__name__}; fit an estimator to the table"
        )
    if not isinstance(model, Cover):
        check_is_fitted(model)
    return model


def _text(name: str) -> str:
    return (files("boolweave.report") / "templates" / name).read_text(encoding="utf-8")


def _fingerprint(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"


# ---------------------------------------------------------------- the three kinds of pages


def _factor_page(model: BooleanMatrixFactorization, tested: HeldOutPredictions | None) -> Page:
    result, seen = model.result_, contents.local(model.observations_)
    grid = contents.factor_grid(result, seen)
    facts = contents.factor_facts(result, seen)
    if words.is_single_search(model):  # no other search could find them again
        for fact in facts:
            fact["figures"].pop("found again", None)
    lists = [holes(seen, result.predict_proba), doubtful(seen, result.predict_proba, grid)]
    variables = _provenance(model) | {
        "default_title": "Boolean factors",
        "in_short": words.of_factors(model, tested),
        "summary": _summary(model, tested),
        "lists": [entries for entries in lists if entries is not None],
        "factors": facts,
        "figures": _figures(facts),
        "grid": grid,
        "predicted": "reconstructed",
    }
    lines = _factor_lines(result, seen, grid)
    data = _data("factors", grid, variables["lists"], lines, facts)
    selection = model.rank_selection_
    data |= {
        "chance": "P(true 1)",
        "xor": result.model.product == "xor",
        "history": {
            name: values.tolist()
            for name, values in model.history_.items()
            if np.isfinite(values).all()
        },
        "histograms": [
            contents.histogram("rows", model.row_log_odds_),
            contents.histogram("columns", model.column_log_odds_),
        ],
        "calibration": None if tested is None else contents.calibration(tested),
        "rank": None if selection is None else selection.table(),
    }
    return variables, data


def _cover_page(found: Cover) -> Page:
    seen, lists = cover.seen(found), cover.lists(found)
    grid = contents.factor_grid(found, seen, decoded=True)
    facts = contents.factor_facts(found, seen) if found.cost else []
    for fact, name in zip(facts, found.fixed_names, strict=False):
        fact["name"] = name
    variables = {
        "default_title": "Factors that cover a table",
        "provenance": [("boolweave", __version__), *running.versions()],
        "python": None,
        "command": None,
        "in_short": words.of_cover(found),
        "summary": [*_seen(seen), *cover.facts(found)],
        "lists": lists,
        "factors": facts,
        "figures": _figures(facts),
        "grid": grid,
        "predicted": "reconstructed",
    }
    data = _data("cover", grid, lists, _factor_lines(found, seen, grid), facts)
    data |= {
        "chance": "covered", "xor": False, "history": {}, "histograms": [],
        "calibration": None, "rank": None, "coverage": found.curve.tolist(),
    }  # fmt: skip
    return variables, data


def _completion_page(model: BooleanCompletion, tested: HeldOutPredictions | None) -> Page:
    seen = model.observations_
    grid = completion.completion_grid(model)
    predict = completion.probabilities_of(model)
    lists = [holes(seen, predict), doubtful(seen, predict, grid)]
    found = None if tested is None else contents.calibration(tested)
    variables = _provenance(model) | {
        "default_title": "Boolean completion",
        "in_short": words.of_completion(model, tested),
        "summary": _completion_summary(model, tested, found),
        "lists": [entries for entries in lists if entries is not None],
        "factors": completion.layer_facts(model),
        "grid": grid,
        "predicted": "predicted",
        "selection": model.selection_,
        "not_compared": words.why_not_compared(model),
    }
    lines = (
        Lines(seen, "row", grid.drawn[0], offsets=model.row_bias_),
        Lines(seen, "column", grid.drawn[1], offsets=model.column_bias_),
    )
    data = _data("completion", grid, variables["lists"], lines, [])
    data |= {
        "chance": "P(observing 1)",
        "reasons": completion.reasons(model, variables["lists"], *lines),
        "offsets": [
            completion.offsets(seen, model.row_bias_, "row"),
            completion.offsets(seen, model.column_bias_, "column"),
        ],
        "calibration": found,
    }
    return variables, data


def _provenance(model: BooleanMatrixFactorization | BooleanCompletion) -> dict[str, Any]:
    return {
        "provenance": running.provenance(model),
        "python": running.python_call(model),
        "command": model.provenance_.get("command"),
    }


def _figures(facts: list[dict[str, Any]]) -> dict[str, str]:
    """The meanings of the numbers that are on the cards."""
    there = {name for fact in facts for name in fact["figures"]}
    return {name: what for name, what in contents.FIGURES.items() if name in there}


def _factor_lines(result: Any, seen: Any, grid: Grid) -> tuple[Lines, Lines]:
    X, Y = result.row_log_odds > 0, result.column_log_odds > 0
    return Lines(seen, "row", grid.drawn[0], X), Lines(seen, "column", grid.drawn[1], Y.T)


def _data(
    kind: str, grid: Grid, lists: list[EntryList], lines: tuple[Lines, Lines],
    facts: list[dict[str, Any]],
) -> dict[str, Any]:  # fmt: skip
    """The data of the scripts that every kind of page has."""
    packed = [entries.packed(*lines) for entries in lists]  # first, because it adds lines
    some = {"rows": MEMBERS_NAMED, "columns": MEMBERS_NAMED}
    return {
        "kind": kind,
        "grid": grid.packed(),
        "lists": packed,
        "lines": [line.table() for line in lines],
        "factors": [
            {name: fact[name][:n] for name, n in some.items()}
            | {"n_rows": fact["n_rows"], "n_columns": fact["n_columns"]}
            for fact in facts
        ],
    }


# ---------------------------------------------------------------- figures


def _summary(model: BooleanMatrixFactorization, tested: HeldOutPredictions | None) -> Facts:
    right = Agreement.of_counts(model.result_.counts(model.observations_))
    facts = [
        *_seen(model.observations_),
        ("factors", f"{len(model.components_)}"),
        *_agreement(right, "observed"),
        *_errors(model, right),
        ("noise", contents.noise_in_words(model.noise_)),
    ]
    if tested is not None:
        facts += _agreement(tested.agreement, "held-out")
    return facts


def _completion_summary(
    model: BooleanCompletion, tested: HeldOutPredictions | None, found: dict[str, Any] | None
) -> Facts:
    facts = [*_seen(model.observations_), ("models averaged", f"{len(model.members_)}")]
    losses = {row["model"]: row["log_loss"] for row in model.selection_}
    if losses:
        facts.append(("cross-validated log-loss", f"{losses['blend']:.4f}"))
        facts.append(("the same with offsets alone", f"{losses['offsets']:.4f}"))
    if tested is not None:
        facts += _agreement(tested.agreement, "held-out")
        facts += [] if found is None else completion.scores(tested, found)
    return facts


def _seen(seen: ObservedEntries) -> Facts:
    n_entries = max(1, seen.n_rows * seen.n_columns)
    return [
        ("rows × columns", f"{seen.n_rows:,} × {seen.n_columns:,}"),
        ("entries observed", f"{seen.n_observed:,} ({words.percent(seen.n_observed / n_entries)})"),
        ("ones among them", f"{seen.n_ones:,} ({words.percent(seen.share_of_ones)})"),
    ]


def _errors(model: BooleanMatrixFactorization, right: Agreement) -> Facts:
    """The error of the factors and its lower bound, if errors were counted."""
    if model.error_ is None:
        return []
    missed, false = right.n_ones - right.n_covered, right.false_ones
    facts = [("wrong entries", f"{missed + false:,} = {missed:,} missed + {false:,} false")]
    if model.error_ != missed + false:
        facts.append(("weighted error", f"{model.error_:,.10g}"))
    bound = f"{model.error_bound_:,.10g}"
    if model.error_bound_ == model.error_:
        facts.append(("least possible error", f"{bound} (reached)"))
    elif model.error_bound_:
        facts.append(("least possible error", f"at least {bound}"))
    return facts


def _agreement(found: Agreement, which: str) -> Facts:
    """The accuracy of the factors, compared with a constant."""
    if not found.n_entries:
        return [(f"{which} entries right", f"no {which} entries")]
    covered = "no ones" if found.ones_covered is None else words.percent(found.ones_covered)
    constant = (
        f"all {'ones' if found.constant else 'zeros'}: {words.percent(found.constant_accuracy)}"
    )
    return [
        (f"{which} ones covered", covered),
        (f"{which} zeros predicted as ones", f"{found.false_ones:,}"),
        (f"{which} entries right", f"{words.percent(found.accuracy)} ({constant})"),
    ]
