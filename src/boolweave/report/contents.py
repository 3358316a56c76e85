"""The numbers that a report shows, worked out of a fitted model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from boolweave.data.ones import SparseObservations
from boolweave.metrics import expected_calibration_error, log_loss
from boolweave.plot import tile_orders
from boolweave.recommend import members
from boolweave.report.grid import Grid, entries_of, make_grid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.completion import BooleanCompletion
    from boolweave.estimator import BooleanMatrixFactorization
    from boolweave.model.channel import Channel
    from boolweave.runtime.types import Floats, Integers

    Bits = NDArray[np.uint8]
    HeldOut = tuple[Integers, Integers, Bits]  # rows, columns and values of entries not seen

# Log-odds beyond this are drawn at the edge of the histogram: P = 0.999999.
WIDEST_LOG_ODDS = 14.0
N_BINS = 56

# Members of a factor that its card lists at all: a page with a million names helps nobody.
MEMBERS_LISTED = 500


def factor_grid(model: BooleanMatrixFactorization) -> Grid:
    """The matrix, rows and columns ordered by factors, with P(z = 1)."""
    X, Y = model.row_log_odds_ > 0, model.components_ > 0
    beliefs = (
        np.clip(odds, -WIDEST_LOG_ODDS, WIDEST_LOG_ODDS)
        for odds in (model.row_log_odds_, model.column_log_odds_.T)
    )
    orders = tile_orders(X, Y, *(belief.mean(axis=1) for belief in beliefs))

    def latent(rows: Integers, columns: Integers) -> Floats:
        return model.predict_proba(rows, columns, "latent")

    return make_grid(model.observations_, orders, latent, (X, Y))


# ---------------------------------------------------------------- factors


def factor_facts(model: BooleanMatrixFactorization) -> list[dict[str, object]]:
    """Coverage, precision, stability, redundancy and members of each factor, by number."""
    seen = model.observations_
    X, Y = model.row_log_odds_ > 0, model.components_ > 0
    n_inside, hits, alone = np.zeros((3, len(Y)), dtype=np.int64)
    for row, column, value in entries_of(seen):
        inside = X[row] & Y[:, column].T
        n_inside += inside.sum(axis=0)
        inside = inside[value == 1]
        hits += inside.sum(axis=0)
        # A one that several factors explain is nobody's alone.
        alone += inside[inside.sum(axis=1) == 1].sum(axis=0)
    if isinstance(seen, SparseObservations):
        missing = n_inside - hits
        n_inside = X.sum(axis=0, dtype=np.int64) * Y.sum(axis=1, dtype=np.int64) - missing
    stability, redundancy = model.factor_stability_, model.redundancy_
    facts: list[dict[str, object]] = []
    for k in range(len(Y)):
        rows, columns = members(model, k, "row"), members(model, k, "column")
        facts.append(
            {
                "number": k + 1,
                "coverage": _share(hits[k], seen.n_ones),
                "alone": _share(alone[k], seen.n_ones),
                "precision": _share(hits[k], n_inside[k]),
                "stability": "not measured" if stability is None else f"{stability[k]:.0%}",
                "redundancy": None if redundancy is None else f"{redundancy[k]:,.10g}",
                "rows": rows[:MEMBERS_LISTED],
                "n_rows": len(rows),
                "columns": columns[:MEMBERS_LISTED],
                "n_columns": len(columns),
            }
        )
    return facts


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "–"


def noise_in_words(channel: Channel) -> str:
    """The flips of a channel, or that they differ from entry to entry."""
    up, down = np.asarray(channel.one_given_zero), 1 - np.asarray(channel.one_given_one)
    if up.ndim or down.ndim:
        return "given for each entry"
    if np.isclose(up, down):
        return f"{float(up):.1%} of entries flipped"
    return f"{float(up):.1%} of zeros, {float(down):.1%} of ones flipped"


# ---------------------------------------------------------------- charts


def histogram(name: str, log_odds: Floats) -> dict[str, object]:
    """Counts of log-odds in bins of equal width; what lies beyond is in the outermost bins."""
    edges = np.linspace(-WIDEST_LOG_ODDS, WIDEST_LOG_ODDS, N_BINS + 1)
    inside = np.clip(np.nan_to_num(log_odds).ravel(), edges[0], edges[-1])
    counts, _ = np.histogram(inside, edges)
    return {"name": name, "edges": edges.tolist(), "counts": counts.tolist()}


def calibration(
    model: BooleanMatrixFactorization | BooleanCompletion, held_out: HeldOut
) -> dict[str, object] | None:
    """Predicted probability and frequency of ones in ten bins, on entries kept aside."""
    rows, columns, values = held_out
    if not len(values):
        return None
    chance = np.clip(model.predict_proba(rows, columns), 0.0, 1.0)
    group = np.minimum((chance * 10).astype(int), 9)
    count = np.bincount(group, minlength=10)
    used = np.flatnonzero(count)
    return {
        "predicted": (np.bincount(group, chance, 10)[used] / count[used]).tolist(),
        "frequency": (np.bincount(group, values, 10)[used] / count[used]).tolist(),
        "count": count[used].tolist(),
        "error": expected_calibration_error(values, chance),
        "log_loss": log_loss(values, chance),
    }
