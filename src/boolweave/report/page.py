"""A page about a fitted model or a cover: a self-contained HTML file.

`render_report` makes the page, and `write_report` writes it to a file. `words.py`, `contents.py`
and `grid.py` compute its contents; `templates/` holds the pages, their style and their scripts.
"""

from __future__ import annotations

import base64
import hashlib
import json
import platform
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from boolweave import __version__
from boolweave.completion import BooleanCompletion
from boolweave.covering.result import Cover
from boolweave.data.observed import ObservedEntries
from boolweave.estimator import BooleanMatrixFactorization
from boolweave.facts import CompletionFacts, CoverFacts, FactorFacts, HeldOut
from boolweave.metrics import Agreement, roc_auc
from boolweave.model.channel import Channel
from boolweave.plot import FACTOR_COLOURS
from boolweave.recommend import percent
from boolweave.report import contents, words
from boolweave.report.contents import Facts, Model
from boolweave.report.grid import EntryList, Grid, Lines, doubtful, holes
from boolweave.runtime.atomic import replacing
from boolweave.runtime.extras import need
from boolweave.runtime.words import NEUTRAL, Words

# The variables of the template, and the data of the scripts.
Page = tuple[dict[str, Any], dict[str, Any]]
# For each factor: its numbers and its members.
Cards = list[dict[str, Any]]

# Number of members of a factor that its card shows at once; the others can be unfolded.
MEMBERS_SHOWN = 12

# Number of lines of each table of a review.
REVIEWED = 50

# Number of members of a factor that a reason names.
MEMBERS_NAMED = 4

# The scripts; each of them uses those before it.
SCRIPTS = ("core.js", "charts.js", "matrix.js", "reasons.js", "lists.js", "factors.js")


def write_report(
    model: Model | Cover,
    path: str | Path,
    *,
    title: str = "",
    held_out: HeldOut | None = None,
    command: str | None = None,
    existing: Any = None,
    rows: str = "rows",
    columns: str = "columns",
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
    existing : array, table, sparse matrix or Observations, shape (F, N), optional
        The columns of factors that exist already, with which the page compares those of a cover.
    rows, columns : str
        Plural nouns for the rows and the columns, such as "users" and "films".

    Examples
    --------
    >>> from boolweave import cover
    >>> from boolweave.report import write_report
    >>> found = cover([[1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 1, 1]], random_state=0)
    >>> write_report(found, "roles.html", title="Who may do what")
    """
    text = render_report(
        model,
        title=title,
        held_out=held_out,
        command=command,
        existing=existing,
        nouns=Words(rows=rows, columns=columns),
    )
    page = text.encode("utf-8", "backslashreplace")  # a label may hold a lone surrogate
    with replacing(path) as file:
        file.write(page)


def render_report(
    model: Model | Cover,
    *,
    title: str = "",
    held_out: HeldOut | None = None,
    command: str | None = None,
    existing: Any = None,
    nouns: Words = NEUTRAL,
    exploring: dict[str, Any] | None = None,
) -> str:
    """The page about a fitted model, as text; the parameters are those of `write_report`.

    `nouns` has the nouns for rows and columns, and `exploring` holds the data of the slider on a
    page that is shown by a server.
    """
    need("jinja2", "a report")
    import jinja2
    from markupsafe import Markup

    model = _checked(model)
    if existing is not None and not isinstance(model, Cover):
        raise ValueError(
            "existing factors are compared with those of a cover, got a "
            f"{type(model).__name__}; leave existing out"
        )
    if held_out is not None and isinstance(model, Cover):
        raise ValueError(
            "held_out tests the probabilities of a model, but a cover has none; leave held_out out"
        )
    if isinstance(model, Cover):
        variables, data = _cover_page(CoverFacts(model), existing, nouns)
    elif isinstance(model, BooleanMatrixFactorization):
        variables, data = _factor_page(FactorFacts(model, held_out), nouns)
    else:
        variables, data = _completion_page(CompletionFacts(model, held_out), nouns)
    data["nouns"] = {name: getattr(nouns, name) for name in ("row", "rows", "column", "columns")}
    variables["command"] = command or variables["command"]
    data |= {"colours": FACTOR_COLOURS, "exploring": exploring}
    # In a script element, only "</script" and "<!--" could end or change the text.
    payload = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    names = [*SCRIPTS, *(["explore.js"] if exploring else []), "start.js"]
    script = "\n".join(['"use strict";', "(() => {", *map(_text, names), "})();"])
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_text),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    variables["glossary"] = words.explained([name for name, _ in variables["summary"]])
    template = "completion.html.j2" if data["kind"] == "completion" else "report.html.j2"
    return environment.get_template(template).render(
        title=title or variables.pop("default_title"),
        shown=MEMBERS_SHOWN,
        group=data["group"],
        nouns=nouns,
        reviewed=REVIEWED,
        has=data,
        exploring=exploring,
        style=Markup(_text("report.css")),
        payload=Markup(payload),
        script=Markup(script),
        # Only this script may run, whatever a label contains, and connect only to the server.
        policy=_fingerprint(script),
        **variables,
    )


def _checked(model: Any) -> Model | Cover:
    """The model of a page; raise unless it is fitted, and of a kind that has a page."""
    from sklearn.utils.validation import check_is_fitted

    from boolweave.functions import Completion

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


def _factor_page(facts: FactorFacts, nouns: Words) -> Page:
    model, result, tested = facts.model, facts.model.result_, facts.tested
    seen = model.observations_.fetched()
    grid = contents.factor_grid(result, seen)
    cards = contents.factor_facts(result, seen)
    for card, flags in zip(cards, facts.flags, strict=True):
        card["flags"] = flags
    if facts.is_single_search:  # no other search could find them again
        for card in cards:
            card["figures"].pop("found again", None)
    lists = [holes(seen, result.predict_proba), doubtful(seen, result.predict_proba, grid)]
    variables = _provenance(model) | {
        "default_title": "Boolean factors",
        "in_short": words.of_factors(facts, nouns),
        "summary": _summary(facts, nouns),
        "lists": [entries for entries in lists if entries is not None],
        "factors": cards,
        "figures": _figures(cards),
        "grid": grid,
        "predicted": "reconstructed",
    }
    lines = _factor_lines(result, seen, grid)
    data = _data("factors", grid, variables["lists"], lines, cards)
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


def _cover_page(facts: CoverFacts, existing: Any, nouns: Words) -> Page:
    found = facts.cover
    seen, lists = contents.cover_entries(found), contents.cover_lists(found)
    grid = contents.factor_grid(found, seen, decoded=True)
    cards = contents.factor_facts(found, seen) if found.n_factors else []
    for k, card in enumerate(cards):
        if name := found.name_of_factor(k):
            description = found.description_of(k)
            card["name"] = name if k < len(found.fixed_names) else str(description)
    variables = {
        "default_title": "Roles that cover a table",
        "provenance": [("boolweave", __version__), *_versions()],
        "python": None,
        "command": None,
        "in_short": words.of_cover(facts, nouns),
        "summary": [*_seen(seen, nouns), *contents.cover_facts(facts)],
        "lists": lists,
        "factors": cards,
        "figures": _figures(cards),
        "review": contents.cover_review(found, existing),
        "grid": grid,
        "predicted": "reconstructed",
    }
    data = _data("cover", grid, lists, _factor_lines(found, seen, grid), cards)
    data |= {"chance": "covered", "xor": False, "coverage": found.curve.tolist()}
    data |= {"history": {}, "histograms": [], "calibration": None, "rank": None}
    return variables, data


def _completion_page(facts: CompletionFacts, nouns: Words) -> Page:
    model, seen, tested = facts.model, facts.model.observations_, facts.tested
    grid = contents.completion_grid(model)
    predict = contents.probabilities_of(model)
    lists = [holes(seen, predict), doubtful(seen, predict, grid)]
    variables = _provenance(model) | {
        "default_title": "Boolean completion",
        "in_short": words.of_completion(facts, nouns),
        "summary": _completion_summary(facts, nouns),
        "lists": [entries for entries in lists if entries is not None],
        "factors": contents.layer_facts(model),
        "grid": grid,
        "predicted": "predicted",
        "model_name": model.ensemble_.name,
        "selection": model.selection_,
        "not_compared": words.why_not_compared(facts),
    }
    lines = (
        Lines(seen, "row", grid.drawn[0], offsets=model.row_bias_),
        Lines(seen, "column", grid.drawn[1], offsets=model.column_bias_),
    )
    data = _data("completion", grid, variables["lists"], lines, [])
    data |= {
        "chance": "P(observing 1)",
        "reasons": contents.reasons(model, variables["lists"], *lines, nouns),
        "offsets": [
            contents.offsets(seen, model.row_bias_, "row"),
            contents.offsets(seen, model.column_bias_, "column"),
        ],
        "calibration": None if tested is None else contents.calibration(tested),
    }
    return variables, data


def _provenance(model: Model) -> dict[str, Any]:
    return {
        "provenance": _run_facts(model),
        "python": _python_call(model),
        "command": model.provenance_.get("command"),
    }


def _figures(cards: Cards) -> dict[str, str]:
    """The meanings of the numbers that are on the cards."""
    there = {name for card in cards for name in card["figures"]}
    return {name: what for name, what in contents.FIGURES.items() if name in there}


def _factor_lines(result: Any, seen: Any, grid: Grid) -> tuple[Lines, Lines]:
    X, Y = result.row_log_odds > 0, result.column_log_odds > 0
    return Lines(seen, "row", grid.drawn[0], X), Lines(seen, "column", grid.drawn[1], Y.T)


def _data(
    kind: str, grid: Grid, lists: list[EntryList], lines: tuple[Lines, Lines], cards: Cards
) -> dict[str, Any]:
    """The data of the scripts that every kind of page has."""
    packed = [entries.packed(*lines) for entries in lists]  # first, because it adds lines
    some = {"rows": MEMBERS_NAMED, "columns": MEMBERS_NAMED}
    return {
        "kind": kind,
        "group": "role" if kind == "cover" else "factor",  # what the page calls a factor
        "grid": grid.packed(),
        "lists": packed,
        "lines": [line.table() for line in lines],
        "factors": [
            {name: card[name][:n] for name, n in some.items()}
            | {"n_rows": card["n_rows"], "n_columns": card["n_columns"]}
            for card in cards
        ],
    }


# ---------------------------------------------------------------- figures


def _summary(facts: FactorFacts, nouns: Words) -> Facts:
    figures = [
        *_seen(facts.model.observations_, nouns),
        ("factors", f"{facts.n_components}"),
        *_agreement(facts.explained, "observed"),
        *_errors(facts),
        ("noise", contents.noise_in_words(facts.model.noise_)),
    ]
    if facts.tested is not None:
        figures += _agreement(facts.tested.agreement, "held-out")
    return figures


def _completion_summary(facts: CompletionFacts, nouns: Words) -> Facts:
    model, tested, blend, alone = facts.model, facts.tested, facts.blend, facts.offsets_alone
    per = " per answer" if facts.noun == "answer" else ""
    figures = [*_seen(model.observations_, nouns), ("models averaged", f"{len(model.members_)}")]
    if blend is not None:
        figures.append((f"cross-validated log-loss{per}", f"{blend['log_loss']:.4f}"))
        if alone is not None:
            figures.append((f"the same with {alone['model']} alone", f"{alone['log_loss']:.4f}"))
    if tested is not None and tested.answers is not None and tested.most_frequent is not None:
        right, usual = tested.answers.accuracy, tested.most_frequent.accuracy
        figures += [
            ("held-out answers", f"{tested.answers.n_answers:,}"),
            ("held-out answers right", percent(right, 1)),
            ("most frequent answers right", percent(usual, 1)),
        ]
    elif tested is not None:
        figures += _agreement(tested.agreement, "held-out")
    if tested:
        figures.append((f"held-out log-loss{per}", f"{tested.log_loss:.4f}"))
        if 0 < np.count_nonzero(tested.values) < len(tested):
            auc = roc_auc(tested.values, tested.chances)
            figures.append(("held-out area under the curve", f"{auc:.4f}"))
        figures.append(("held-out calibration error", f"{tested.calibration_error:.4f}"))
    return figures


def _seen(seen: ObservedEntries, nouns: Words) -> Facts:
    n_entries = max(1, seen.n_rows * seen.n_columns)
    return [
        (f"{nouns.rows} × {nouns.columns}", f"{seen.n_rows:,} × {seen.n_columns:,}"),
        ("entries observed", f"{seen.n_observed:,} ({percent(seen.n_observed / n_entries, 1)})"),
        ("ones among them", f"{seen.n_ones:,} ({percent(seen.share_of_ones, 1)})"),
    ]


def _errors(facts: FactorFacts) -> Facts:
    """The error of the factors and its lower bound, if errors were counted."""
    error, bound = facts.model.error_, facts.model.error_bound_
    if error is None:
        return []
    parts = f"{facts.missed:,} missed + {facts.explained.false_ones:,} false"
    figures = [("wrong entries", f"{facts.wrong:,} = {parts}")]
    if error != facts.wrong:
        figures.append(("weighted error", f"{error:,.10g}"))
    if facts.is_optimal:
        figures.append(("least possible error", f"{bound:,.10g} (reached)"))
    elif bound:
        figures.append(("least possible error", f"at least {bound:,.10g}"))
    return figures


def _agreement(found: Agreement, which: str) -> Facts:
    """The accuracy of the factors, compared with a constant."""
    if not found.n_entries:
        return [(f"{which} entries right", f"no {which} entries")]
    covered = "no ones" if found.ones_covered is None else percent(found.ones_covered, 1)
    constant = f"all {'ones' if found.constant else 'zeros'}: {percent(found.constant_accuracy, 1)}"
    return [
        (f"{which} ones covered", covered),
        (f"{which} zeros predicted as ones", f"{found.false_ones:,}"),
        (f"{which} entries right", f"{percent(found.accuracy, 1)} ({constant})"),
    ]


# ---------------------------------------------------------------- the run, and how to repeat it


def _run_facts(model: Model) -> Facts:
    """Parameters, how the run ended, and versions."""
    words = {"random_state": "random_state (seed)"}
    facts = [("boolweave", __version__)]
    facts += [
        (words.get(name, name), value if isinstance(value, str) else _shown("given", value))
        for name, value in model.get_params(deep=False).items()
    ]
    if isinstance(model, BooleanMatrixFactorization):
        facts += _run(model)
    return [*facts, ("interrupted", "yes" if model.interrupted_ else "no"), *_versions()]


def _versions() -> Facts:
    """Versions of the software on which the numbers depend."""
    import numba
    import scipy

    return [
        ("Python", platform.python_version()),
        ("NumPy, SciPy, Numba", f"{np.__version__}, {scipy.__version__}, {numba.__version__}"),
    ]


def _run(model: BooleanMatrixFactorization) -> Facts:
    counted = model.error_ is not None
    return [
        ("starts of the search" if counted else "iterations", f"{model.n_iter_}"),
        ("search finished" if counted else "converged", "yes" if model.converged_ else "no"),
        ("log-posterior", f"{float(model.log_posterior_):,.2f}"),
    ]


def _shown(name: str, value: object) -> str:
    """A parameter as it is written in a call; arrays and generators are shown by its name."""
    plain = value is None or isinstance(value, bool | int | float | str | Channel)
    return repr(value) if plain else name


def _python_call(model: Model) -> str:
    """How to repeat the fit: the parameters that are not at their defaults."""
    defaults = type(model)().get_params(deep=False)
    arguments = [f"n_components={model.n_components!r}"]
    for name, value in model.get_params(deep=False).items():
        shown = _shown(name, value)
        unchanged = shown == _shown(name, defaults[name])
        if not unchanged and name not in ("n_components", "verbose", "n_jobs"):
            arguments.append(f"{name}={shown}")
    call = f"{type(model).__name__}({', '.join(arguments)})"
    hold_out = model.provenance_.get("hold_out")
    whole = ", groups=encoder.questions_" if "plan" in model.provenance_ else ""
    of_fit = "" if isinstance(model, BooleanMatrixFactorization) else whole
    if hold_out is None:
        return f"{call}.fit(data{of_fit})"
    hide = f"data.hide({hold_out!r}, random_state={model.random_state!r}{whole})"
    return f"kept, *held_out = {hide}\n{call}.fit(kept{of_fit})"
