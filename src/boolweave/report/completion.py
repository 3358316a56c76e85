"""The numbers that a report about a completion shows."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.completion.answers.explaining import Explainer
from boolweave.data.labels import name_of
from boolweave.metrics import roc_auc
from boolweave.report.contents import MEMBERS_LISTED
from boolweave.report.grid import Grid, make_grid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.completion import BooleanCompletion
    from boolweave.completion.answers.explanation import CompletionExplanation
    from boolweave.data.observations import Observations
    from boolweave.report.contents import HeldOut
    from boolweave.runtime.types import Floats

    Positions = NDArray[np.intp]
    Facts = list[tuple[str, str]]

# Offsets that are drawn: so many of the highest, and so many of the lowest.
ENDS = 8

# A row or a column belongs to a factor if that is more probable than not.
BELONGS = 0.5

# Log-odds are about so many times what a normal distribution function takes.
LOGISTIC = 1.7

# Pairs among which examples are looked for.
SAMPLED_PAIRS = 2000

# What the bars of a chart of reasons are called.
PARTS = {
    "base": "base",
    "row": "row offset",
    "column": "column offset",
    "directions": "directions",
    "layers": "Boolean layers",
    "boolean": "Boolean model",
}


def completion_grid(model: BooleanCompletion) -> Grid:
    """The matrix with P(o = 1), rows and columns with the highest offsets first."""
    orders = tuple(
        np.argsort(-bias, kind="stable") for bias in (model.row_bias_, model.column_bias_)
    )
    return make_grid(model.observations_, (orders[0], orders[1]), model.predict_proba)


def completion_data(
    model: BooleanCompletion, examples: list[CompletionExplanation]
) -> dict[str, object]:
    """What the script draws beside the matrix: offsets and reasons."""
    seen = model.observations_
    return {
        "offsets": [
            offsets(seen, model.row_bias_, "row"),
            offsets(seen, model.column_bias_, "column"),
        ],
        "reasons": [reason(example) for example in examples],
    }


def offsets(seen: Observations, bias: Floats, axis: str) -> dict[str, object]:
    """The highest and the lowest offsets by name, the highest first; of lines with entries."""
    filled = np.diff(seen.indptr) > 0
    if axis == "column":
        filled = np.bincount(seen.indices, minlength=seen.n_columns) > 0
    order = np.argsort(-bias, kind="stable")
    order = order[filled[order]]
    if len(order) > 2 * ENDS:
        order = np.concatenate([order[:ENDS], order[-ENDS:]])
    return {
        "axis": axis,
        "names": [html.escape(name_of(seen, int(i), axis)) for i in order],
        "values": bias[order].tolist(),
    }


def reason(found: CompletionExplanation) -> dict[str, object]:
    """The parts of the log-odds of a pair, and their sum."""
    kinds = [part.kind for part in found.parts]
    names = [
        f"{PARTS[part.kind]} {part.family}" if kinds.count(part.kind) > 1 else PARTS[part.kind]
        for part in found.parts
    ]
    return {
        "names": [*names, "all together"],
        "values": [*(part.log_odds for part in found.parts), found.log_odds],
    }


def scores(model: BooleanCompletion, held_out: HeldOut, found: dict[str, Any]) -> Facts:
    """Log-loss, area under the curve and calibration error on entries kept aside.

    The first and the last are those of the calibration that was found.
    """
    rows, columns, values = held_out
    facts = [
        ("held-out log-loss", f"{found['log_loss']:.4f}"),
        ("held-out calibration error", f"{found['error']:.4f}"),
    ]
    if 0 < np.count_nonzero(values) < len(values):
        auc = roc_auc(values, model.predict_proba(rows, columns))
        facts.insert(1, ("held-out area under the curve", f"{auc:.4f}"))
    return facts


def layer_facts(model: BooleanCompletion) -> list[dict[str, object]]:
    """The Boolean factors with their typical members, the surest first; empty ones are left out.

    Members of a family have factors of their own: those of the first are shown.
    """
    facts = []
    for family in model.ensemble_.families:
        for number, layer in enumerate(family.members[0].layers, 1):
            way = "more" if layer.strength > 0 else "less"
            facts += _factors(model, f"Layer {number}", way, layer.rows, layer.columns)
    plain = model.ensemble_.plain
    if plain is not None:
        facts += _factors(model, "Boolean model", "more", plain.rows, plain.columns)
    return facts


def _factors(
    model: BooleanCompletion, name: str, way: str, rows: Floats, columns: Floats
) -> list[dict[str, Any]]:
    facts = []
    for k in range(rows.shape[1]):
        inside = _surest(rows[:, k]), _surest(columns[k])
        if not all(len(own) for own in inside):
            continue
        names = [
            [name_of(model.observations_, int(i), axis) for i in own[:MEMBERS_LISTED]]
            for own, axis in zip(inside, ("row", "column"), strict=True)
        ]
        facts.append(
            {
                "name": f"{name}, factor {k + 1}",
                "way": way,
                "rows": names[0],
                "n_rows": len(inside[0]),
                "columns": names[1],
                "n_columns": len(inside[1]),
            }
        )
    return facts


def _surest(chances: Floats) -> Positions:
    """Where members are, the surest first."""
    order = np.argsort(-chances, kind="stable")
    return order[: int(np.count_nonzero(chances > BELONGS))]


# ---------------------------------------------------------------- examples


def examples(model: BooleanCompletion) -> list[CompletionExplanation]:
    """Pairs that were not observed, explained: different ones, and one without entries if any."""
    rows, columns = _pairs(model.observations_)
    if not len(rows):
        return []
    chance = model.predict_proba(rows, columns)
    odds = np.log(np.clip(chance, 1e-12, 1)) - np.log(np.clip(1 - chance, 1e-12, 1))
    beyond = odds - LOGISTIC * (model.row_bias_[rows] + model.column_bias_[columns])
    chosen = [
        int(np.argmax(chance)),
        int(np.argmin(chance)),
        int(np.argmin(np.abs(odds))),
        int(np.argmax(beyond)),
        int(np.argmin(beyond)),
    ]
    empty = np.flatnonzero(np.diff(model.observations_.indptr)[rows] == 0)
    chosen += empty[:1].tolist()
    explainer = Explainer(model.ensemble_, model.observations_)
    return [explainer.at(int(rows[i]), int(columns[i])) for i in dict.fromkeys(chosen)]


def _pairs(seen: Observations) -> tuple[Positions, Positions]:
    """Pairs that were not observed, at random; of a table without holes, pairs that were."""
    random = np.random.default_rng(0)
    sides = [random.integers(n, size=SAMPLED_PAIRS) for n in seen.shape]
    at = np.unique(np.ravel_multi_index(sides, seen.shape))
    known = seen.rows_of_entries().astype(np.int64) * seen.n_columns + seen.indices
    unseen = at[~np.isin(at, known)]
    found = np.unravel_index(unseen if len(unseen) else at, seen.shape)
    return found[0], found[1]
