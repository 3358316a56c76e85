"""Starts for the XOR product: a basis of row patterns.

From random messages, belief propagation does not find XOR factors: any invertible K×K matrix turns
one solution into another, and the messages average over them. But every row of Z is one of the 2^K
sums of the rows of Y, so K observed rows that are far from each other's sums are themselves a noisy
Y in some basis. Similar rows are added up to reduce the noise; X is decoded with that Y nearly
fixed; then Y is released.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from boolweave.engine.kernels import elimination
from boolweave.model.odds import sigmoid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from boolweave.data.observed import ObservedEntries
    from boolweave.engine.backend import AnyBackend, Problem, State

# Two rows are similar, or a row is similar to a sum of others, if they agree in three quarters of
# the entries that both have (correlation ½); unrelated ones agree in half of them.
SIMILAR = 0.5

# Patterns have at most these log-odds, so that X can disagree.
PATTERN_LIMIT = 6.0

# Number of iterations with the patterns as prior; number of rows that are examined; number of
# patterns whose sums, at most 2^10, are compared with the rows, and of those whose sums, at most
# 2^6, are tabulated.
N_FIXED = 15
SAMPLE = 1024
SUMS = 10
TABLED = 6


def start(
    backend: AnyBackend,
    problem: Problem,
    observations: ObservedEntries,
    random: np.random.Generator,
    damping: float,
) -> State:
    """Decode a max-sum state from a random basis of row patterns."""
    prior = _pattern_prior(problem, observations, random, backend.mean_evidence(problem))
    with_patterns = backend.problem(replace(problem.model, column_prior=prior))
    state: State = backend.start(with_patterns)
    for _ in range(N_FIXED):
        backend.step(with_patterns, state, damping)
    return state


def _pattern_prior(
    problem: Problem, observations: ObservedEntries, random: np.random.Generator, strength: float
) -> NDArray[np.float64]:
    """P(y = 1), (K, N), according to the patterns, except for entries that are known."""
    prior = _patterns(observations, problem.n_components, random)
    known = np.broadcast_to(np.asarray(problem.model.column_prior), prior.shape)
    for votes, own in zip(prior, known, strict=True):
        votes *= strength
        soft = sigmoid(np.clip(votes, -PATTERN_LIMIT, PATTERN_LIMIT))
        votes[...] = np.where((own == 0) | (own == 1), own, soft)
    return prior


def _patterns(
    observations: ObservedEntries, n_components: int, random: np.random.Generator
) -> NDArray[np.float64]:
    """Votes for 1 minus votes for 0 in each of K patterns, (K, N)."""
    n_rows, n_columns = observations.shape
    seen = observations.take_rows(random.permutation(n_rows)[:SAMPLE])
    rows = np.arange(seen.n_rows)
    entries = seen.indptr, seen.indices, seen.values
    pattern = np.zeros((n_components, n_columns))
    span = _Span(n_columns)
    to_span = np.full(len(rows), -np.inf)  # similarity to the most similar sum of patterns so far
    nothing = np.ones((n_columns, 1), dtype=np.int8)  # the empty sum
    elimination.raise_similarity(*entries, rows, nothing, nothing[:, 0], to_span)
    taken = np.zeros(len(rows), dtype=bool)
    for k in range(min(n_components, len(rows))):
        far = np.flatnonzero((to_span < SIMILAR) & ~taken)
        chosen = int(far[0]) if len(far) else int(np.flatnonzero(~taken)[0])
        taken[chosen] = True
        own = np.zeros(n_columns, dtype=np.int64)
        elimination.add_votes(*entries, rows[[chosen]], own)
        to_chosen = np.full(len(rows), -np.inf)
        row = own.astype(np.int8)[:, None]
        elimination.raise_similarity(*entries, rows, row, nothing[:, 0], to_chosen)
        to_chosen[chosen] = np.inf
        votes = np.zeros(n_columns, dtype=np.int64)
        elimination.add_votes(*entries, rows[to_chosen > SIMILAR], votes)
        pattern[k] = -votes
        if k < SUMS:
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
