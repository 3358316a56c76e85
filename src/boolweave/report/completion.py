"""The numbers that a report about a completion shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.completion.answers.explaining import Explainer
from boolweave.data.labels import name_of
from boolweave.metrics import roc_auc
from boolweave.recommend.members import surest
from boolweave.report.contents import MEMBERS_LISTED
from boolweave.report.grid import Grid, make_grid

if TYPE_CHECKING:
    from boolweave.completion import BooleanCompletion
    from boolweave.completion.answers.explanation import CompletionExplanation
    from boolweave.data.observations import Observations
    from boolweave.report.entries import EntryList
    from boolweave.report.grid import Predict
    from boolweave.report.held_out import HeldOutPredictions
    from boolweave.report.lines import Lines
    from boolweave.runtime.types import Floats, Integers

    Facts = list[tuple[str, str]]

# Number of offsets that are drawn: this many of the highest and of the lowest.
ENDS = 8

# A row or a column belongs to a factor if this is more probable than not.
BELONGS = 0.5

# Number of entries of each list whose reasons are computed for the page.
EXPLAINED = 40

# Names of the bars in a chart of reasons.
PARTS = {
    "base": "base",
    "row": "row offset",
    "column": "column offset",
    "pattern": "pattern of entries",
    "directions": "directions",
    "layers": "Boolean layers",
    "boolean": "Boolean model",
}


def probabilities_of(model: BooleanCompletion) -> Predict:
    """P(o = 1) at pairs of positions."""

    def predict(rows: Integers, columns: Integers) -> Floats:
        return model.ensemble_.probabilities(rows.astype(np.intp), columns.astype(np.intp))

    return predict


def completion_grid(model: BooleanCompletion) -> Grid:
    """The matrix with P(o = 1), rows and columns with the highest offsets first."""
    orders = tuple(
        np.argsort(-bias, kind="stable") for bias in (model.row_bias_, model.column_bias_)
    )
    return make_grid(model.observations_, (orders[0], orders[1]), probabilities_of(model))


def offsets(seen: Observations, bias: Floats, axis: str) -> dict[str, object]:
    """The highest and the lowest offsets of lines with entries, by name, the highest first."""
    filled = np.diff(seen.indptr) > 0
    if axis == "column":
        filled = np.bincount(seen.indices, minlength=seen.n_columns) > 0
    order = np.argsort(-bias, kind="stable")
    order = order[filled[order]]
    if len(order) > 2 * ENDS:
        order = np.concatenate([order[:ENDS], order[-ENDS:]])
    return {
        "axis": axis,
        "names": [name_of(seen, int(i), axis) for i in order],
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
        "names": [*names, "in total"],
        "values": [*(round(part.log_odds, 4) for part in found.parts), round(found.log_odds, 4)],
        "sentences": [*(part.sentence for part in found.parts), *found.notes],
    }


def scores(tested: HeldOutPredictions, found: dict[str, Any]) -> Facts:
    """Log-loss, area under the curve and calibration error on held-out entries.

    The first and the last are taken from the calibration `found`.
    """
    facts = [
        ("held-out log-loss", f"{found['log_loss']:.4f}"),
        ("held-out calibration error", f"{found['error']:.4f}"),
    ]
    if 0 < np.count_nonzero(tested.values) < len(tested):
        auc = roc_auc(tested.values, tested.chances)
        facts.insert(1, ("held-out area under the curve", f"{auc:.4f}"))
    return facts


def layer_facts(model: BooleanCompletion) -> list[dict[str, object]]:
    """The non-empty Boolean factors with their members, the most certain first.

    Every model of an ensemble has its own factors; those of the first model are shown.
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
        inside = surest(rows[:, k] - BELONGS), surest(columns[k] - BELONGS)
        if not all(len(own) for own in inside):
            continue
        names = [
            [name_of(model.observations_, int(i), axis) for i in own[:MEMBERS_LISTED]]
            for own, axis in zip(inside, ("row", "column"), strict=True)
        ]
        facts.append(
            {
                "name": f"{name}, factor {k + 1}: {way} ones",
                "rows": names[0],
                "n_rows": len(inside[0]),
                "columns": names[1],
                "n_columns": len(inside[1]),
            }
        )
    return facts


# ---------------------------------------------------------------- reasons


def reasons(
    model: BooleanCompletion, lists: list[EntryList], rows: Lines, columns: Lines
) -> list[dict[str, object]]:
    """Explanations of the first and the last entries of each list."""
    found = []
    explainer = Explainer(model.ensemble_, model.observations_)
    for entries in lists:
        at = np.arange(len(entries))
        if len(at) > EXPLAINED:
            at = np.concatenate([at[: EXPLAINED // 2], at[-EXPLAINED // 2 :]])
        numbers = rows.numbers(entries.rows[at]), columns.numbers(entries.columns[at])
        for i, row, column in zip(at, *(own.tolist() for own in numbers), strict=True):
            why = explainer.at(int(entries.rows[i]), int(entries.columns[i]))
            found.append({"row": row, "column": column, **reason(why)})
    return found
