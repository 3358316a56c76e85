"""A page about a fitted model: one HTML file that needs nothing else.

`render_report` makes the page, `write_report` puts it into a file. `contents.py` and
`completion.py` work out the numbers, `templates/` holds the pages, their style and their script,
and plotly's JavaScript is copied into the page.
"""

from __future__ import annotations

import base64
import hashlib
import json
import platform
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave import __version__
from boolweave.estimator import BooleanMatrixFactorization
from boolweave.metrics import Agreement, agreement
from boolweave.model.channel import Channel
from boolweave.plot import FACTOR_COLOURS
from boolweave.report.completion import (
    completion_data,
    completion_grid,
    examples,
    layer_facts,
    scores,
)
from boolweave.report.contents import (
    calibration,
    factor_facts,
    factor_grid,
    histogram,
    noise_in_words,
)
from boolweave.runtime.atomic import replacing

if TYPE_CHECKING:
    from pathlib import Path

    from boolweave.completion import BooleanCompletion
    from boolweave.data.observations import Observations
    from boolweave.report.contents import HeldOut
    from boolweave.report.grid import Grid

    Model = BooleanMatrixFactorization | BooleanCompletion
    Facts = list[tuple[str, str]]
    Page = tuple[dict[str, Any], dict[str, object]]  # what is said, and what the script draws

# Members of a factor that its card shows at once; the others unfold.
MEMBERS_SHOWN = 12


def write_report(
    model: Model,
    path: str | Path,
    *,
    title: str = "",
    held_out: HeldOut | None = None,
) -> None:
    """Write the page about a fitted model.

    Parameters
    ----------
    model : BooleanMatrixFactorization or BooleanCompletion
        Fitted.
    path : path
        Where the page goes; an old file there is replaced when the new one is whole.
    title : str
        Stands above the page.
    held_out : (rows, columns, values), optional
        Entries that the model has not seen, to test its probabilities on.
    """
    text = render_report(model, title=title, held_out=held_out)
    page = text.encode("utf-8", "backslashreplace")  # a label may hold half of a character
    with replacing(path) as file:
        file.write(page)


def render_report(model: Model, *, title: str = "", held_out: HeldOut | None = None) -> str:
    """The page about a fitted model, as text; the parameters are those of `write_report`."""
    import jinja2
    from markupsafe import Markup

    of_factors = isinstance(model, BooleanMatrixFactorization)
    words, data = (_factor_page if of_factors else _completion_page)(model, held_out)
    # In a script element nothing but "</script" and "<!--" could end or change the text.
    payload = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    scripts = {"plotly": _plotly(), "script": _text("report.js")}
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_text), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    template = "report.html.j2" if of_factors else "completion.html.j2"
    return environment.get_template(template).render(
        title=title or ("Boolean factors" if of_factors else "Boolean completion"),
        shown=MEMBERS_SHOWN,
        has=data,
        provenance=_provenance(model),
        python=_python(model),
        command=model.provenance_.get("command"),
        style=Markup(_text("report.css")),
        payload=Markup(payload),
        # Only these two scripts may run, whatever a label says.
        policy=" ".join(_fingerprint(text) for text in scripts.values()),
        **words,
        **{name: Markup(text) for name, text in scripts.items()},
    )


def _factor_page(model: BooleanMatrixFactorization, held_out: HeldOut | None) -> Page:
    grid = factor_grid(model)
    words = {
        "summary": _summary(model, held_out),
        "grid": grid,
        "says": "factors say",
        "factors": factor_facts(model),
    }
    return words, _data(model, grid, held_out)


def _completion_page(model: BooleanCompletion, held_out: HeldOut | None) -> Page:
    grid, shown = completion_grid(model), examples(model)
    found = None if held_out is None else calibration(model, held_out)
    words = {
        "summary": _completion_summary(model, held_out, found),
        "grid": grid,
        "says": "expected",
        "model_name": model.ensemble_.name,
        "examples": shown,
        "layers": layer_facts(model),
        "selection": model.selection_,
    }
    data = {
        "grid": grid.packed(),
        "chance": "P(observing 1)",
        "colours": FACTOR_COLOURS,
        "calibration": found,
        **completion_data(model, shown),
    }
    return words, data


def _text(name: str) -> str:
    return (files("boolweave.report") / "templates" / name).read_text(encoding="utf-8")


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    # It would end the script element it stands in.
    return get_plotlyjs().replace("</script", "<\\/script")


def _fingerprint(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"


# ---------------------------------------------------------------- what the script draws


def _data(
    model: BooleanMatrixFactorization, grid: Grid, held_out: HeldOut | None
) -> dict[str, object]:
    selection = model.rank_selection_
    return {
        "grid": grid.packed(),
        "chance": "P(true 1)",
        "colours": FACTOR_COLOURS,
        "history": {
            name: values.tolist()
            for name, values in model.history_.items()
            if np.isfinite(values).all()
        },
        "histograms": [
            histogram("beliefs of rows", model.row_log_odds_),
            histogram("beliefs of columns", model.column_log_odds_),
        ],
        "calibration": None if held_out is None else calibration(model, held_out),
        "rank": None if selection is None else selection.table(),
    }


# ---------------------------------------------------------------- what the page says


def _summary(model: BooleanMatrixFactorization, held_out: HeldOut | None) -> Facts:
    facts = [
        *_seen(model.observations_),
        ("factors", f"{len(model.components_)}"),
        *_agreement(Agreement.of_counts(model.result_.counts(model.observations_)), "observed"),
        *_errors(model),
        ("noise", noise_in_words(model.noise_)),
    ]
    if held_out is not None:
        facts += _on_held_out(model, held_out)
    return facts


def _completion_summary(
    model: BooleanCompletion, held_out: HeldOut | None, found: dict[str, Any] | None
) -> Facts:
    facts = [
        *_seen(model.observations_),
        ("models averaged", f"{len(model.members_)}"),
    ]
    losses = {row["model"]: row["log_loss"] for row in model.selection_}
    if losses:
        facts.append(("log-loss, entries held out in turns", f"{losses['blend']:.4f}"))
        facts.append(("the same by offsets alone", f"{losses['offsets']:.4f}"))
    if held_out is not None:
        facts += _on_held_out(model, held_out)
        facts += [] if found is None else scores(model, held_out, found)
    return facts


def _seen(seen: Observations) -> Facts:
    n_entries = max(1, seen.n_rows * seen.n_columns)
    return [
        ("rows × columns", f"{seen.n_rows:,} × {seen.n_columns:,}"),
        ("entries observed", f"{seen.n_observed:,} ({seen.n_observed / n_entries:.1%})"),
        ("ones among them", f"{seen.n_ones:,} ({seen.share_of_ones:.1%})"),
    ]


def _on_held_out(model: Model, held_out: HeldOut) -> Facts:
    rows, columns, values = held_out
    return _agreement(agreement(values, model.predict(rows, columns)), "held-out")


def _errors(model: BooleanMatrixFactorization) -> Facts:
    """The error of the factors and the least one that is possible, where errors were counted."""
    if model.error_ is None:
        return []
    counts = model.result_.counts(model.observations_)
    missed, false = int(counts[1, 0]), int(counts[0, 1])
    facts = [("wrong entries", f"{missed + false:,} = {missed:,} missed + {false:,} false")]
    if model.error_ != missed + false:
        facts.append(("error, with its weights", f"{model.error_:,.10g}"))
    optimal = " (optimal)" if model.error_bound_ == model.error_ else ""
    return [*facts, ("least possible error", f"at least {model.error_bound_:,.10g}{optimal}")]


def _agreement(found: Agreement, which: str) -> Facts:
    """What the factors have right, beside what a constant would have."""
    if not found.n_entries:
        return [(f"{which} entries right", f"no {which} entries")]
    covered = "no ones" if found.ones_covered is None else f"{found.ones_covered:.1%}"
    constant = f"all {'ones' if found.constant else 'zeros'}: {found.constant_accuracy:.1%}"
    return [
        (f"{which} ones covered", covered),
        (f"{which} zeros made ones", f"{found.false_ones:,}"),
        (f"{which} entries right", f"{found.accuracy:.1%} ({constant})"),
    ]


def _provenance(model: Model) -> Facts:
    import numba
    import scipy

    facts = [("boolweave", __version__)]
    words = {"random_state": "random_state, the seed"}
    facts += [
        (words.get(name, name), value if isinstance(value, str) else _shown("given", value))
        for name, value in model.get_params(deep=False).items()
    ]
    if isinstance(model, BooleanMatrixFactorization):
        facts += _run(model)
    facts += [
        ("interrupted", "yes" if model.interrupted_ else "no"),
        ("Python", platform.python_version()),
        ("NumPy, SciPy, Numba", f"{np.__version__}, {scipy.__version__}, {numba.__version__}"),
    ]
    return facts


def _run(model: BooleanMatrixFactorization) -> Facts:
    counted = model.error_ is not None
    return [
        ("starts of the search" if counted else "iterations", f"{model.n_iter_}"),
        ("search finished" if counted else "messages settled", "yes" if model.converged_ else "no"),
        ("log-posterior", f"{float(model.log_posterior_):,.2f}"),
    ]


def _shown(name: str, value: object) -> str:
    """A parameter as it stands in a call: arrays and generators by the parameter's own name."""
    plain = value is None or isinstance(value, bool | int | float | str | Channel)
    return repr(value) if plain else name


def _python(model: Model) -> str:
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
    if hold_out is None:
        return f"{call}.fit(data)"
    hide = f"data.hide({hold_out!r}, random_state={model.random_state!r})"
    return f"kept, *held_out = {hide}\n{call}.fit(kept)"
