"""The numbers that a report shows, worked out of a fitted model."""

from __future__ import annotations

import base64
import html
import itertools
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.engine.ordering import factor_order, tile_order
from boolweave.recommend import each_row, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from boolweave.data.observations import Observations

# A matrix up to this size is drawn entry by entry; a larger one as a grid of means.
MOST_CELLS = 1_000_000
MOST_ON_A_SIDE = 4000
GRID_SIDE = 400
# Rows and columns in each cell of such a grid whose probabilities are looked at.
SAMPLED = 3

# Shares are sent as one byte: 0 to 254, and 255 where nothing was observed.
FULL, NOTHING = 254, 255

# Log-odds beyond this are drawn at the edge of the histogram: P = 0.999999.
WIDEST_LOG_ODDS = 14.0
N_BINS = 56


@dataclass(frozen=True, eq=False)
class Grid:
    """The matrix as it is drawn, rows and columns in the order of the tiles.

    Attributes
    ----------
    observed, probability : arrays of shape (R, C), uint8
        Share of ones, and P(z = 1), in 254ths; 255 where nothing was observed.
    row_labels, column_labels : lists of str
    tiles : list of dict
        For each factor, the runs of rows and of columns that it covers.
    summarised : bool
        Whether a cell stands for several entries.
    """

    observed: NDArray[np.uint8]
    probability: NDArray[np.uint8]
    row_labels: list[str]
    column_labels: list[str]
    tiles: list[dict[str, Any]]
    summarised: bool

    def packed(self) -> dict[str, Any]:
        """For JSON: arrays as deflated base64, labels escaped for plotly, which reads tags."""
        return {
            "shape": list(self.observed.shape),
            "observed": _packed(self.observed),
            "probability": _packed(self.probability),
            "rows": [html.escape(label) for label in self.row_labels],
            "columns": [html.escape(label) for label in self.column_labels],
            "tiles": self.tiles,
            "summarised": self.summarised,
        }


def _packed(array: NDArray[np.uint8]) -> str:
    return base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes(), 9)).decode()


def make_grid(model: Any) -> Grid:
    """Order rows and columns by factors, and sum up what is too large to draw."""
    seen = model.observations_
    X, Y = model.row_log_odds_ > 0, model.components_ > 0
    by_size = factor_order(X, Y)  # not always the order of the factors' numbers
    rows = tile_order(X[:, by_size], _mean_belief(model.row_log_odds_))
    columns = tile_order(Y[by_size].T, _mean_belief(model.column_log_odds_.T))
    whole = (
        seen.n_rows * seen.n_columns <= MOST_CELLS and max(seen.shape, default=0) <= MOST_ON_A_SIDE
    )
    row_cuts = _cuts(len(rows), len(rows) if whole else GRID_SIDE)
    column_cuts = _cuts(len(columns), len(columns) if whole else GRID_SIDE)
    return Grid(
        observed=_observed(seen, rows, columns, row_cuts, column_cuts),
        probability=_probability(model, rows, columns, row_cuts, column_cuts),
        row_labels=_labels(model, rows, row_cuts, "row"),
        column_labels=_labels(model, columns, column_cuts, "column"),
        tiles=[
            {
                "rows": _runs(X[rows, k], row_cuts),
                "columns": _runs(Y[k, columns], column_cuts),
            }
            for k in range(len(Y))
        ],
        summarised=not whole,
    )


def _mean_belief(log_odds: NDArray[Any]) -> NDArray[np.float64]:
    return np.clip(log_odds, -WIDEST_LOG_ODDS, WIDEST_LOG_ODDS).mean(axis=1)


def _cuts(size: int, n_groups: int) -> NDArray[np.int64]:
    """Borders of groups of about equal size, (groups + 1,)."""
    n_groups = max(1, min(size, n_groups))
    return (np.arange(n_groups + 1) * size) // n_groups


def _observed(
    seen: Any, rows: NDArray[np.intp], columns: NDArray[np.intp],
    row_cuts: NDArray[np.int64], column_cuts: NDArray[np.int64],
) -> NDArray[np.uint8]:  # fmt: skip
    shape = len(row_cuts) - 1, len(column_cuts) - 1
    row_group = np.empty(len(rows), np.int64)
    row_group[rows] = np.repeat(np.arange(shape[0]), np.diff(row_cuts))
    column_group = np.empty(len(columns), np.int64)
    column_group[columns] = np.repeat(np.arange(shape[1]), np.diff(column_cuts))
    count, ones = np.zeros((2, shape[0] * shape[1]), dtype=np.int64)
    for row, column, value in _entries(seen):
        cell = row_group[row] * shape[1] + column_group[column]
        count += np.bincount(cell, minlength=len(count))
        ones += np.bincount(cell[value == 1], minlength=len(ones))
    share = np.round(FULL * ones / np.maximum(count, 1))
    return np.where(count > 0, share, NOTHING).astype(np.uint8).reshape(shape)


def _probability(
    model: Any, rows: NDArray[np.intp], columns: NDArray[np.intp],
    row_cuts: NDArray[np.int64], column_cuts: NDArray[np.int64],
) -> NDArray[np.uint8]:  # fmt: skip
    """P(z = 1); in a grid of means, the mean over a few entries of each cell."""
    chosen_rows, of_row = _sampled(rows, row_cuts)
    chosen_columns, of_column = _sampled(columns, column_cuts)
    out = np.zeros((len(row_cuts) - 1, len(column_cuts) - 1))
    starts = np.searchsorted(of_column, np.arange(out.shape[1]))
    width = np.bincount(of_column, minlength=out.shape[1])
    height = np.bincount(of_row, minlength=len(out))
    for group, chance in zip(of_row, each_row(model, chosen_rows, "latent"), strict=True):
        out[group] += np.add.reduceat(chance[chosen_columns], starts) / width
    return np.round(FULL * out / np.maximum(height, 1)[:, None]).astype(np.uint8)


def _sampled(
    order: NDArray[np.intp], cuts: NDArray[np.int64]
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Up to SAMPLED things of each group, evenly spread; and the group of each."""
    places, groups = [], []
    for group, (start, stop) in enumerate(itertools.pairwise(cuts)):
        picked = np.unique(np.linspace(start, stop - 1, min(SAMPLED, stop - start)).astype(int))
        places.append(picked)
        groups.append(np.full(len(picked), group))
    return order[np.concatenate(places)], np.concatenate(groups)


def _labels(model: Any, order: NDArray[np.intp], cuts: NDArray[np.int64], axis: str) -> list[str]:
    labels = []
    for start, stop in itertools.pairwise(cuts):
        first = name_of(model, int(order[start]), axis)
        if stop - start > 1:
            last = name_of(model, int(order[stop - 1]), axis)
            first = f"{first} … {last} ({stop - start} {axis}s)"
        labels.append(first)
    return labels


def _runs(inside: NDArray[np.bool_], cuts: NDArray[np.int64]) -> list[list[int]]:
    """Runs of groups of which at least half belong: [first, last] each."""
    share = np.add.reduceat(inside.astype(np.float64), cuts[:-1]) / np.diff(cuts)
    member = np.concatenate([[False], share >= 0.5, [False]])
    change = np.flatnonzero(member[1:] != member[:-1])
    return [[int(a), int(b) - 1] for a, b in zip(change[::2], change[1::2], strict=True)]


# ---------------------------------------------------------------- factors


def factor_facts(model: Any) -> list[dict[str, Any]]:
    """Coverage, precision and stability of each factor, by number."""
    seen = model.observations_
    X, Y = model.row_log_odds_ > 0, model.components_ > 0
    n_inside, hits, alone = np.zeros((3, len(Y)), dtype=np.int64)
    for row, column, value in _entries(seen):
        inside = X[row] & Y[:, column].T
        n_inside += inside.sum(axis=0)
        inside = inside[value == 1]
        hits += inside.sum(axis=0)
        # A one that several factors explain is nobody's alone.
        alone += inside[inside.sum(axis=1) == 1].sum(axis=0)
    stability = getattr(model, "factor_stability_", None)
    return [
        {
            "number": k + 1,
            "coverage": _share(int(hits[k]), seen.n_ones),
            "alone": _share(int(alone[k]), seen.n_ones),
            "precision": _share(int(hits[k]), int(n_inside[k])),
            "stability": "not measured" if stability is None else f"{float(stability[k]):.0%}",
        }
        for k in range(len(Y))
    ]


def _entries(seen: Observations) -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """Rows, columns and values of the entries, some at a time."""
    for start, stop, columns, values in seen.in_pieces():
        per_row = np.diff(seen.indptr[start : stop + 1])
        yield np.repeat(np.arange(start, stop), per_row), columns, values


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "–"


def noise_in_words(channel: Any) -> str:
    """The flips of a channel, or that they differ from entry to entry."""
    up, down = np.asarray(channel.one_given_zero), 1 - np.asarray(channel.one_given_one)
    if up.ndim or down.ndim:
        return "given for each entry"
    if np.isclose(up, down):
        return f"{float(up):.1%} of entries flipped"
    return f"{float(up):.1%} of zeros, {float(down):.1%} of ones flipped"


# ---------------------------------------------------------------- charts


def histogram(name: str, log_odds: NDArray[Any]) -> dict[str, Any]:
    """Counts of log-odds in bins of equal width; what lies beyond is in the outermost bins."""
    edges = np.linspace(-WIDEST_LOG_ODDS, WIDEST_LOG_ODDS, N_BINS + 1)
    inside = np.clip(np.nan_to_num(log_odds).ravel(), edges[0], edges[-1])
    counts, _ = np.histogram(inside, edges)
    return {"name": name, "edges": edges.tolist(), "counts": counts.tolist()}


def calibration(model: Any, held_out: tuple[Any, Any, Any]) -> dict[str, Any] | None:
    """Predicted probability and frequency of ones in ten bins, on entries kept aside."""
    from boolweave.metrics import accuracy, expected_calibration_error, log_loss

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
        "accuracy": accuracy(values, (chance > 0.5).astype(np.uint8)),
    }


def rank_rows(model: Any) -> list[dict[str, Any]] | None:
    """The table of ranks that were tried, where the model keeps one."""
    selection = getattr(model, "rank_selection_", None)
    if selection is None:
        return None
    return [
        {
            "rank": int(row["rank"]),
            "score": float(row["score"]),
            "error": float(row.get("error", 0.0)),
            "best": bool(row.get("best", False)),
        }
        for row in selection.table()
    ]
