"""Starts for the XOR product: a basis of row patterns.

From random messages belief propagation does not find XOR factors: any invertible K×K matrix turns
one solution into another, and the messages average over them. But every row of Z is one of the 2^K
sums of the rows of Y, so K observed rows that are far from each other's sums are themselves a noisy
Y in some basis. Rows like them are added up to reduce the noise; X is decoded with that Y nearly
fixed; then Y is set free.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from boolweave import message_passing as engine
from boolweave.model import sigmoid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.message_passing import Problem, State
    from boolweave.observations import Observations

# Two rows are alike, or a row is near a sum of others, if they agree in three quarters of the
# entries they share (correlation ½): unlike ones agree in half of them.
ALIKE = 0.5

# Patterns are not believed beyond these log-odds: X must be free to disagree.
PATTERN_LIMIT = 6.0

# Iterations with the pattern as prior; as many rows as are looked at; sums of at most 2^10.
HELD = 15
SAMPLE = 1024
SUMS = 10


def start(
    problem: Problem, observations: Observations, random: np.random.Generator, damping: float
) -> State:
    """A max-sum state decoded from a random basis of row patterns."""
    pattern = _patterns(observations, problem.n_components, random)
    strength = _strength(problem, observations)
    belief = np.clip(pattern * strength, -PATTERN_LIMIT, PATTERN_LIMIT)
    own = np.asarray(problem.model.column_prior)
    known = (own == 0) | (own == 1)
    held = np.where(known, own, sigmoid(belief))
    held_model = replace(problem.model, column_prior=held)
    held_problem = engine.with_model(problem, observations, held_model)
    state = engine.init_neutral(held_problem)
    for _ in range(HELD):
        engine.step(held_problem, state, damping)
    return state


def _strength(problem: Problem, observations: Observations) -> float:
    """What an entry says on average, |L|."""
    if problem.code is None:
        evidence = [float(np.abs(b.evidence).mean()) for b in problem.blocks if b.n_entries]
        return max(evidence, default=0.0)
    if not observations.n_observed:
        return 0.0
    of_zero, of_one = np.abs(problem.code.levels[:2]).tolist()
    return float(of_zero + (of_one - of_zero) * observations.share_of_ones)


def _patterns(
    observations: Observations, n_components: int, random: np.random.Generator
) -> NDArray[np.float64]:
    """Votes for 1 minus votes for 0 in each of K patterns, (K, N)."""
    from scipy import sparse

    M, N = observations.shape
    sample = random.permutation(M)[:SAMPLE]
    looked_at = observations.take_rows(sample)
    signs = 1.0 - 2.0 * looked_at.values.astype(np.float64)  # +1 for a zero: XOR is a product
    seen = (looked_at.indices, looked_at.indptr)
    table = sparse.csr_array((signs, *seen), shape=looked_at.shape)
    known = sparse.csr_array((np.ones_like(signs), *seen), shape=looked_at.shape)
    sums, covered = np.ones((1, N)), np.ones((1, N))  # the empty sum
    pattern = np.zeros((n_components, N))
    taken = np.zeros(len(sample), dtype=bool)
    for k in range(min(n_components, len(sample))):
        nearness = (table @ sums.T) / np.maximum(known @ covered.T, 1)
        far = np.flatnonzero((nearness.max(axis=1) < ALIKE) & ~taken)
        chosen = int(far[0]) if len(far) else int(np.flatnonzero(~taken)[0])
        taken[chosen] = True
        row, mask = table[[chosen]].toarray(), known[[chosen]].toarray()
        alike = (table @ row[0]) / np.maximum(known @ mask[0], 1) > ALIKE
        alike[chosen] = True
        votes = table[alike].sum(axis=0)
        pattern[k] = -votes
        if k < SUMS:
            best = np.sign(votes)
            sums = np.concatenate([sums, sums * best])
            covered = np.concatenate([covered, covered * np.abs(best)])
    return pattern
