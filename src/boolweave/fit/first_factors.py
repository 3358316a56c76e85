"""First factors from the data: tiles one by one, and row patterns for the XOR product.

Each tile is the one that explains most of the unexplained entries. A tile is a set of rows and a
set of columns. It begins with the unexplained ones of one row, takes all rows that gain from it,
then all columns that gain from these rows, and so on a few times. Many rows are tried, and the best
tile is kept. The result depends only on the data, not on a seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from boolweave.data.observations import Observations
from boolweave.data.observed import ObservedEntries
from boolweave.engine.backend import AnyBackend, Problem, State
from boolweave.engine.kernels import elimination
from boolweave.model.odds import log_odds, sigmoid
from boolweave.model.products import Product, product_at
from boolweave.runtime.types import Floats

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# Tiles are searched in rows with this many entries in total, spread evenly over a larger table.
ENTRIES = 1 << 22

# The log-odds of the members of a tile are limited to this, so that later steps can disagree.
MOST_LOG_ODDS = 8.0


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows in which tiles are searched."""

    rows: NDArray[np.intp]  # positions of the rows
    observations: Observations  # their entries
    row_of: NDArray[np.int64]  # of each entry

    @classmethod
    def of(cls, observations: ObservedEntries) -> Sample:
        """Take all rows, or evenly spread rows of a large table with `ENTRIES` entries."""
        n_rows = observations.shape[0]
        share = min(1.0, ENTRIES / max(1, observations.n_observed))
        rows = np.linspace(0, n_rows - 1, max(1, round(share * n_rows))).astype(np.intp)
        some = observations.take_rows(rows)
        return cls(rows, some, some.rows_of_entries())


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
    observations, at = sample.observations, sample.row_of
    here = row_log_odds[sample.rows]
    explained = product_at(here, column_log_odds, at, observations.indices, product)
    new_rows, new_columns = [], []
    for _ in range(n):
        gains = _gains(observations.values, explained, product, least_share)
        x, y = _best_tile(*_gains_table(sample, gains))
        tile = (x > 0)[at] & (y > 0)[observations.indices]
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

    observations = sample.observations
    # Gains are whole numbers up to this, so that their sums are exact in 32-bit floats, in any
    # order.
    steps = 32
    per_nat = steps / max(float(np.abs(gains).max(initial=0.0)), 1e-9)
    whole = np.sign(gains) * np.maximum(np.rint(np.abs(gains) * per_nat), np.abs(gains) > 0)
    whole = whole.astype(np.float32)
    table = csr_array((whole, observations.indices, observations.indptr), observations.shape)
    # A table of gains is dense if at least this fraction of its cells is observed.
    dense = 0.5
    if len(whole) >= dense * observations.shape[0] * observations.shape[1]:
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
    # The number of rounds in which each beginning grows.
    rounds = 4
    for _ in range(rounds):
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
    # The number of rows that are tried as beginnings.
    most = 64
    n = min(len(order), most)
    return order[np.linspace(0, len(order) - 1, n).astype(np.intp)] if n else order


def _cost(members: NDArray[np.float32], per_nat: np.float32) -> NDArray[np.float32]:
    """Return the cost of a member of each set, (n, sets): the log-odds of its density."""
    n = len(members)
    share = np.clip(members.sum(axis=0, dtype=np.float64) / n, 1 / (n + 1), 0.5)
    return (per_nat * np.log((1 - share) / share)).astype(np.float32)


# ---------------------------------------------------------------- row patterns for XOR

# Number of patterns whose sums, at most 2^6, are tabulated.
TABLED = 6


def xor_start(
    backend: AnyBackend,
    problem: Problem,
    observations: ObservedEntries,
    random: np.random.Generator,
    damping: float,
) -> State:
    """Decode a max-sum state from a random basis of row patterns.

    From random messages, belief propagation does not find XOR factors: any invertible K×K matrix
    turns one solution into another, and the messages average over them. But every row of Z is one
    of the 2^K sums of the rows of Y, so K observed rows that are far from each other's sums are
    themselves a noisy Y in some basis. Similar rows are added up to reduce the noise; X is decoded
    with that Y nearly fixed; then Y is released.
    """
    prior = _pattern_prior(problem, observations, random, backend.mean_evidence(problem))
    with_patterns = backend.problem(replace(problem.model, column_prior=prior))
    state: State = backend.start(with_patterns)
    # Number of iterations with the patterns as prior.
    n_fixed = 15
    for _ in range(n_fixed):
        backend.step(with_patterns, state, damping)
    return state


def _pattern_prior(
    problem: Problem, observations: ObservedEntries, random: np.random.Generator, strength: float
) -> NDArray[np.float64]:
    """P(y = 1), (K, N), according to the patterns, except for entries that are known."""
    prior = _patterns(observations, problem.n_components, random)
    known = np.broadcast_to(np.asarray(problem.model.column_prior), prior.shape)
    # Patterns have at most these log-odds, so that X can disagree.
    pattern_limit = 6.0
    for votes, own in zip(prior, known, strict=True):
        votes *= strength
        soft = sigmoid(np.clip(votes, -pattern_limit, pattern_limit))
        votes[...] = np.where((own == 0) | (own == 1), own, soft)
    return prior


def _patterns(
    observations: ObservedEntries, n_components: int, random: np.random.Generator
) -> NDArray[np.float64]:
    """Votes for 1 minus votes for 0 in each of K patterns, (K, N)."""
    n_rows, n_columns = observations.shape
    # Number of rows that are examined.
    n_examined = 1024
    sample = observations.take_rows(random.permutation(n_rows)[:n_examined])
    rows = np.arange(sample.n_rows)
    entries = sample.indptr, sample.indices, sample.values
    pattern = np.zeros((n_components, n_columns))
    span = _Span(n_columns)
    to_span = np.full(len(rows), -np.inf)  # similarity to the most similar sum of patterns so far
    nothing = np.ones((n_columns, 1), dtype=np.int8)  # the empty sum
    elimination.raise_similarity(*entries, rows, nothing, nothing[:, 0], to_span)
    taken = np.zeros(len(rows), dtype=bool)
    # Two rows are similar, or a row is similar to a sum of others, if they agree in three quarters
    # of the entries that both have (correlation ½); unrelated ones agree in half of them.
    similar = 0.5
    # Number of patterns whose sums, at most 2^10, are compared with the rows.
    n_compared = 10
    for k in range(min(n_components, len(rows))):
        far = np.flatnonzero((to_span < similar) & ~taken)
        chosen = int(far[0]) if len(far) else int(np.flatnonzero(~taken)[0])
        taken[chosen] = True
        own = np.zeros(n_columns, dtype=np.int64)
        elimination.add_votes(*entries, rows[[chosen]], own)
        to_chosen = np.full(len(rows), -np.inf)
        row = own.astype(np.int8)[:, None]
        elimination.raise_similarity(*entries, rows, row, nothing[:, 0], to_chosen)
        to_chosen[chosen] = np.inf
        votes = np.zeros(n_columns, dtype=np.int64)
        elimination.add_votes(*entries, rows[to_chosen > similar], votes)
        pattern[k] = -votes
        if k < n_compared:
            for sums, added in span.added(np.sign(votes).astype(np.int8)):
                elimination.raise_similarity(*entries, rows, sums, added, to_span)
    return pattern


class _Span:
    """All sums of some patterns, in a few bytes for each column.

    Those of the first patterns are tabulated, (N, 2^TABLED); the others are computed one at a time,
    and each stands for its sums with all of the tabulated ones.
    """

    def __init__(self, n_columns: int) -> None:
        self.table = np.ones((n_columns, 1), dtype=np.int8)
        self.rest: list[NDArray[np.int8]] = []

    def added(self, new: NDArray[np.int8]) -> Iterator[tuple[NDArray[np.int8], NDArray[np.int8]]]:
        """Add a pattern; yield the sums that contain it: a table, and a sum to add to it."""
        yield self.table, new
        for size in range(1, len(self.rest) + 1):
            for some in combinations(self.rest, size):
                yield self.table, new * np.prod(some, axis=0, dtype=np.int8)
        if self.table.shape[1] < 2**TABLED:
            self.table = np.concatenate([self.table, self.table * new[:, None]], axis=1)
        else:
            self.rest.append(new)
