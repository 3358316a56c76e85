"""Pictures of a fitted completion: its table, its Boolean factors, the models compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from boolweave import plot
from boolweave.completion.answers.dense import completed
from boolweave.data.labels import name_of

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from boolweave.completion.answers.fitted import FittedCompletion


def draw(model: FittedCompletion, what: str, path: str | Path | None = None) -> Figure:
    """Draw the matrix, the factors or the curve, and save the picture to `path`, if given."""
    kinds = {"matrix": _matrix, "factors": _factors, "curve": _curve}
    return plot.draw_kind(kinds, model, what, path)


def _matrix(model: FittedCompletion) -> Figure:
    """Draw the table and the completed table, with the lines with most ones first."""
    seen = model.observations_
    if seen.n_rows * seen.n_columns > plot.MOST_CELLS:
        raise ValueError(
            f"a picture of {seen.n_rows:,} × {seen.n_columns:,} cells is too large; draw some rows "
            "with boolweave.plot.plot_tiles"
        )
    filled = (completed(model.ensemble_, seen) > 0.5).astype(np.uint8)
    chances = _first_factors(model)
    x, y = (np.zeros((seen.n_rows, 1)), np.zeros((1, seen.n_columns))) if chances is None else (
        chances[0] > 0.5, chances[1] > 0.5
    )  # fmt: skip
    return plot.plot_tiles({"observed entries": seen.to_dense(), "completed": filled}, x, y)


def _factors(model: FittedCompletion) -> Figure:
    """Draw the members of the Boolean factors of one model."""
    seen, chances = model.observations_, _first_factors(model)
    if chances is None:
        raise ValueError(
            "this completion has no Boolean factors, as offsets and directions were best; draw "
            "the matrix or the curve, or fit with n_directions=0"
        )
    rows, columns = chances
    orders = plot.tile_orders(rows > 0.5, columns > 0.5, rows.sum(axis=1), columns.sum(axis=0))
    return plot.plot_members(
        {
            f"{axis}s": (chance[order], [name_of(seen, int(i), axis) for i in order])
            for axis, chance, order in zip(
                ("row", "column"), (rows, columns.T), orders, strict=True
            )
        }
    )


def _first_factors(
    model: FittedCompletion,
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Memberships (M, K) and (K, N) of the first layer of a member, or of the plain model."""
    for member in model.members_:
        if member.layers:
            layer = member.layers[0]
            return layer.rows.astype(np.float64), layer.columns.astype(np.float64)
    plain = model.ensemble_.plain
    if plain is None:
        return None
    return plain.rows.astype(np.float64), plain.columns.astype(np.float64)


def _curve(model: FittedCompletion) -> Figure:
    """Draw the log-loss of every model on held-out entries."""
    tried = model.selection_
    if not tried:
        raise ValueError(
            "no entries could be held out to compare models, so there is no curve; draw the matrix"
        )
    return plot.plot_bars(
        [str(line["model"]) for line in tried],
        np.array([line["log_loss"] for line in tried]),
        np.array([line["standard_error"] for line in tried]),
        "log-loss of held-out entries, lower is better",
    )
