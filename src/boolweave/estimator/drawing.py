"""Pictures of a fitted factorization: its matrix, its factors, its curve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from boolweave import plot
from boolweave.data.labels import name_of
from boolweave.data.ones import SparseObservations
from boolweave.model.odds import sigmoid

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from boolweave.estimator.fitted import FittedFactorization


def draw(model: FittedFactorization, what: str, path: str | Path | None = None) -> Figure:
    """Draw the matrix, the factors or the curve, and save the picture to `path`, if given."""
    kinds = {"matrix": _matrix, "factors": _factors, "curve": _curve}
    return plot.draw_kind(kinds, model, what, path)


def _matrix(model: FittedFactorization) -> Figure:
    """Draw the table and its reconstruction by the factors."""
    result, seen = model.result_, model.observations_
    if seen.n_rows * seen.n_columns > plot.MOST_CELLS:
        raise ValueError(
            f"a picture of {seen.n_rows:,} × {seen.n_columns:,} cells is too large; draw some rows "
            'with boolweave.plot.plot_tiles, or the factors with what="factors"'
        )
    unlisted = isinstance(seen, SparseObservations)
    complete = seen.is_complete or unlisted
    first = "observed entries" if complete else "observed and missing entries"
    panels = {first: seen.to_local().to_dense(), f"{len(result.Y)} factors": result.Z}
    return plot.plot_tiles(panels, result.X, result.Y)


def _factors(model: FittedFactorization) -> Figure:
    """Draw which rows and columns belong to which factor."""
    result, seen = model.result_, model.observations_
    sides = {
        axis: (sigmoid(odds), [name_of(seen, i, axis) for i in range(len(odds))])
        for axis, odds in (("row", result.row_log_odds), ("column", result.column_log_odds.T))
    }
    orders = plot.tile_orders(
        result.X, result.Y, result.row_log_odds.sum(axis=1), result.column_log_odds.sum(axis=0)
    )
    return plot.plot_members(
        {
            f"{axis}s": (chance[order], [names[i] for i in order])
            for (axis, (chance, names)), order in zip(sides.items(), orders, strict=True)
        }
    )


def _curve(model: FittedFactorization) -> Figure:
    """Draw how the number of factors was chosen, or else the progress of the run."""
    selection = getattr(model, "rank_selection_", None)
    if selection is not None:
        return selection.plot()
    history = model.history_
    name, label = ("error", "smallest error so far") if "error" in history else (
        "log_posterior", "log-posterior"
    )  # fmt: skip
    values = np.asarray(history[name])
    return plot.plot_run(values, label, "round" if name == "error" else "iteration")
