"""The numbers that a report shows, computed from a fitted model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.data.labels import name_of
from boolweave.data.ones import SparseObservations
from boolweave.metrics import expected_calibration_error, log_loss
from boolweave.plot import tile_orders
from boolweave.recommend.members import surest
from boolweave.report.grid import Grid, entries_of, make_grid
from boolweave.report.words import percent

if TYPE_CHECKING:
    from boolweave.data.observed import ObservedEntries
    from boolweave.engine.result import Result
    from boolweave.model.channel import Channel
    from boolweave.report.grid import Seen
    from boolweave.report.held_out import HeldOutPredictions
    from boolweave.runtime.types import Floats, Integers

# Log-odds beyond this are drawn at the edge of the histogram: P = 0.999999.
WIDEST_LOG_ODDS = 14.0
N_BINS = 56

# The meanings of the numbers on a card.
FIGURES = {
    "coverage": "fraction of all observed ones that are in the rows and columns of the factor",
    "alone": "fraction of the observed ones that only this factor explains",
    "precision": "fraction of ones among the observed entries of the factor; the others are false "
    "ones",
    "found again": "fraction of the searches, from different starts, that found the same factor",
    "worth": "number of additional wrong entries without this factor",
}

# Maximum number of members of a factor in its card: a page with a million names helps nobody.
MEMBERS_LISTED = 500


def factor_grid(result: Result, seen: Seen | None = None, decoded: bool = False) -> Grid:
    """The matrix with rows and columns ordered by factors, with P(z = 1) or decoded values.

    `seen` are the observations, if they differ from those of the result.
    """
    seen = local(result.observations) if seen is None else seen
    X, Y = result.row_log_odds > 0, result.column_log_odds > 0
    beliefs = (
        np.clip(odds, -WIDEST_LOG_ODDS, WIDEST_LOG_ODDS)
        for odds in (result.row_log_odds, result.column_log_odds.T)
    )
    orders = tile_orders(X, Y, *(belief.mean(axis=1) for belief in beliefs))

    def latent(rows: Integers, columns: Integers) -> Floats:
        if decoded:
            return result.predict(rows, columns).astype(np.float64)
        return result.predict_proba(rows, columns, "latent")

    return make_grid(seen, orders, latent, (X, Y))


def local(seen: ObservedEntries) -> Seen:
    """The entries in this process; zeros that are not listed stay so."""
    return seen if isinstance(seen, SparseObservations) else seen.to_local()


# ---------------------------------------------------------------- factors


def factor_facts(result: Result, seen: Seen | None = None) -> list[dict[str, Any]]:
    """Coverage, precision, stability, redundancy and members of each factor, by number."""
    seen = local(result.observations) if seen is None else seen
    X, Y = result.row_log_odds > 0, result.column_log_odds > 0
    n_inside, hits, alone = np.zeros((3, len(Y)), dtype=np.int64)
    for row, column, value in entries_of(seen):
        inside = X[row] & Y[:, column].T
        n_inside += inside.sum(axis=0)
        inside = inside[value == 1]
        hits += inside.sum(axis=0)
        # A one that several factors explain does not count for any of them alone.
        alone += inside[inside.sum(axis=1) == 1].sum(axis=0)
    if isinstance(seen, SparseObservations):
        missing = n_inside - hits
        n_inside = X.sum(axis=0, dtype=np.int64) * Y.sum(axis=1, dtype=np.int64) - missing
    facts: list[dict[str, Any]] = []
    for k in range(len(Y)):
        rows, columns = (
            surest(odds) for odds in (result.row_log_odds[:, k], result.column_log_odds[k])
        )
        facts.append(
            {
                "number": k + 1,
                "figures": _figures(result, k, hits[k], alone[k], n_inside[k], seen.n_ones),
                "rows": [name_of(seen, int(m), "row") for m in rows[:MEMBERS_LISTED]],
                "n_rows": len(rows),
                "columns": [name_of(seen, int(n), "column") for n in columns[:MEMBERS_LISTED]],
                "n_columns": len(columns),
            }
        )
    return facts


def _figures(
    result: Result, k: int, hits: int, alone: int, n_inside: int, n_ones: int
) -> dict[str, str]:
    """The numbers of a card, by the keys of `FIGURES`."""
    figures = {
        "coverage": _share(hits, n_ones),
        "alone": _share(alone, n_ones),
        "precision": _share(hits, n_inside),
    }
    if result.stability is not None:
        figures["found again"] = f"{result.stability[k]:.0%}"
    if result.redundancy is not None:
        figures["worth"] = f"{result.redundancy[k]:,.10g}"
    return figures


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "–"


def noise_in_words(channel: Channel) -> str:
    """The flips of a channel, or that they differ from entry to entry."""
    up, down = np.asarray(channel.one_given_zero), 1 - np.asarray(channel.one_given_one)
    if up.ndim or down.ndim:
        return "given for each entry"
    if np.isclose(up, down):
        return f"{percent(float(up))} of entries flipped"
    return f"{percent(float(up))} of zeros, {percent(float(down))} of ones flipped"


# ---------------------------------------------------------------- charts


def histogram(name: str, log_odds: Floats) -> dict[str, object]:
    """Counts of log-odds in bins of equal width; the outermost bins include all beyond them."""
    edges = np.linspace(-WIDEST_LOG_ODDS, WIDEST_LOG_ODDS, N_BINS + 1)
    inside = np.clip(np.nan_to_num(log_odds).ravel(), edges[0], edges[-1])
    counts, _ = np.histogram(inside, edges)
    return {"name": name, "edges": edges.tolist(), "counts": counts.tolist()}


def calibration(tested: HeldOutPredictions) -> dict[str, object] | None:
    """Predicted probability and frequency of ones in ten bins, on held-out entries."""
    if not len(tested):
        return None
    chance, values = np.clip(tested.chances, 0.0, 1.0), tested.values
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
