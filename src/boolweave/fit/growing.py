"""Factors one by one: each is the tile that explains most of the unexplained entries.

A tile is a set of rows and a set of columns. It begins with the unexplained ones of one row, takes
all rows that gain from it, then all columns that gain from these rows, and so on a few times. Many
rows are tried, and the best tile is kept. The result depends only on the data, not on a seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from boolweave.model.odds import log_odds
from boolweave.model.products import product_at

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from boolweave.data.observations import Observations
    from boolweave.data.observed import ObservedEntries
    from boolweave.model.products import Product
    from boolweave.runtime.types import Floats

# Tiles are searched in rows with this many entries in total, spread evenly over a larger table.
ENTRIES = 1 << 22

# The number of rows that are tried as beginnings, and the number of rounds in which each grows.
SEEDS = 64
ROUNDS = 4

# The log-odds of the members of a tile are limited to this, so that later steps can disagree.
MOST_LOG_ODDS = 8.0

# Gains are whole numbers up to this, so that their sums are exact in 32-bit floats, in any order.
STEPS = 32

# A table of gains is dense if at least this fraction of its cells is observed.
DENSE = 0.5


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows in which tiles are searched."""

    rows: NDArray[np.intp]  # positions of the rows
    seen: Observations  # their entries
    row_of: NDArray[np.int64]  # of each entry

    @classmethod
    def of(cls, observations: ObservedEntries) -> Sample:
        """Take all rows, or evenly spread rows of a large table with `ENTRIES` entries."""
        n_rows = observations.shape[0]
        share = min(1.0, ENTRIES / max(1, observations.n_observed))
        rows = np.linspace(0, n_rows - 1, max(1, round(share * n_rows))).astype(np.intp)
        seen = observations.take_rows(rows)
        return cls(rows, seen, seen.rows_of_entries())


def with_tiles(
    sample: Sample,
    row_log_odds: Floats,
    column_log_odds: Floats,
    n: int,
    product: Product,
    least_share: float = 0.0,
) -> tuple[Floats, Floats]:
    """Add n factors to the given ones, as log-odds; those of rows outside the sample are 0.

    Parameters
    ----------
    sample : Sample
    row_log_odds, column_log_odds : (M, K) and (K, N) arrays
        The present factors.
    n : int
        Number of factors to add.
    product : {"or", "xor"}
    least_share : float
        A row gains from columns in which its unexplained entries are ones. The gain assumes that at
        least this fraction of the ones of a factor is observed, even if the present factors have
        less.
    """
    seen, at = sample.seen, sample.row_of
    here = row_log_odds[sample.rows]
    explained = product_at(here, column_log_odds, at, seen.indices, product)
    new_rows, new_columns = [], []
    for _ in range(n):
        gains = _gains(seen.values, explained, product, least_share)
        x, y = _best_tile(*_gains_table(sample, gains))
        tile = (x > 0)[at] & (y > 0)[seen.indices]
        explained = explained ^ tile if product == "xor" else explained | tile
        rows = np.zeros(len(row_log_odds), dtype=np.float32)
        rows[sample.rows] = x
        new_rows.append(rows)
        new_columns.append(y)
    return (
        np.column_stack([row_log_odds, *new_rows]).astype(np.float32),
        np.vstack([column_log_odds, *new_columns]).astype(np.float32),
    )


def _gains(
    values: NDArray[np.uint8], explained: NDArray[np.uint8], product: Product, least_share: float
) -> NDArray[np.float32]:
    """Return the gain of a tile from each entry, in nats."""
    if product == "xor":  # a tile corrects wrong entries, and makes right ones wrong
        wrong = values != explained
        flip = (np.count_nonzero(wrong) + 1) / (len(wrong) + 10)
        each = max(0.1, -float(log_odds(flip)))
        return np.where(wrong, each, -each).astype(np.float32)
    counts = np.bincount(2 * values.astype(np.intp) + explained, minlength=4).reshape(2, 2)
    one_given_zero = (counts[1, 0] + 1) / (counts[:, 0].sum() + 10)
    one_given_one = max((counts[1, 1] + 9) / (counts[:, 1].sum() + 10), least_share)
    one_given_one = min(max(one_given_one, one_given_zero + 0.02), 1 - 1e-6)
    one_given_zero = min(one_given_zero, one_given_one - 1e-6)
    of_zero = np.log1p(-one_given_one) - np.log1p(-one_given_zero)
    of_one = np.log(one_given_one) - np.log(one_given_zero)
    gains = np.where(values == 1, of_one, of_zero)
    gains[explained == 1] = 0  # another tile there changes nothing
    return gains.astype(np.float32)


def _gains_table(
    sample: Sample, gains: NDArray[np.float32]
) -> tuple[csr_array | NDArray[np.float32], np.float32]:
    """Make a dense or sparse table of the gains as whole numbers; also return the unit per nat."""
    from scipy.sparse import csr_array

    seen = sample.seen
    per_nat = STEPS / max(float(np.abs(gains).max(initial=0.0)), 1e-9)
    whole = np.sign(gains) * np.maximum(np.rint(np.abs(gains) * per_nat), np.abs(gains) > 0)
    whole = whole.astype(np.float32)
    table = csr_array((whole, seen.indices, seen.indptr), seen.shape)
    if len(whole) >= DENSE * seen.shape[0] * seen.shape[1]:
        table = table.toarray()
    return table, np.float32(per_nat)


def _best_tile(
    table: csr_array | NDArray[np.float32], per_nat: np.float32
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Find the log-odds of the rows and columns of the best tile; below 0 if there is none."""
    n_rows, n_columns = table.shape
    seeds = _seeds(table)
    if not len(seeds):
        return np.full(n_rows, -1.0, np.float32), np.full(n_columns, -1.0, np.float32)
    first = table[seeds] if isinstance(table, np.ndarray) else table[seeds].toarray()
    y = (first > 0).astype(np.float32).T  # (columns, seeds)
    row_cost = column_cost = np.zeros(len(seeds), dtype=np.float32)
    for _ in range(ROUNDS):
        for_rows = table @ y
        x = (for_rows > row_cost).astype(np.float32)
        row_cost = _cost(x, per_nat)
        for_columns = table.T @ x
        y = (for_columns > column_cost).astype(np.float32)
        column_cost = _cost(y, per_nat)
    for_rows = table @ y
    gained = np.maximum(for_rows - row_cost, 0).sum(axis=0, dtype=np.float64)
    best = int(np.argmax(gained - y.sum(axis=0) * column_cost))
    sides = for_rows[:, best] - row_cost[best], for_columns[:, best] - column_cost[best]
    x_odds, y_odds = (np.clip(s / per_nat, -MOST_LOG_ODDS, MOST_LOG_ODDS) for s in sides)
    return x_odds, y_odds


def _seeds(table: csr_array | NDArray[np.float32]) -> NDArray[np.intp]:
    """Choose rows to begin with, from those with most to explain to those with least."""
    unexplained = np.asarray((table > 0).sum(axis=1))
    order = np.argsort(-unexplained, kind="stable")
    order = order[: np.count_nonzero(unexplained)]
    n = min(len(order), SEEDS)
    return order[np.linspace(0, len(order) - 1, n).astype(np.intp)] if n else order


def _cost(members: NDArray[np.float32], per_nat: np.float32) -> NDArray[np.float32]:
    """Return the cost of a member of each set, (n, sets): the log-odds of its density."""
    n = len(members)
    share = np.clip(members.sum(axis=0, dtype=np.float64) / n, 1 / (n + 1), 0.5)
    return (per_nat * np.log((1 - share) / share)).astype(np.float32)
