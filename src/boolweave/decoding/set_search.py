"""The search for the most likely set of positive items by single changes and exchanges."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from boolweave.decoding.batches import ONE
from boolweave.decoding.tanner import TannerGraph
from boolweave.engine.kernels.jit import njit
from boolweave.model.odds import HARD_BELIEF, HARD_EVIDENCE
from boolweave.runtime.types import Array

# Gains of the log-posterior below this are rounding errors.
LEAST_GAIN = 1e-9


def most_likely_sets(
    graph: TannerGraph,
    prior: NDArray[np.float64],
    evidence: NDArray[np.float64],
    probabilities: NDArray[np.float64],
) -> NDArray[np.uint8]:
    """Search for the set with the highest posterior in each column, (items, columns) uint8.

    There are two climbs, from the items above one half and from the empty set; the better result is
    kept.
    """
    pools_of_items = graph.transposed()
    odds = np.clip(prior, -HARD_BELIEF, HARD_BELIEF)
    weights = np.clip(evidence, -HARD_EVIDENCE, HARD_EVIDENCE)
    sets = np.zeros(probabilities.shape, dtype=np.uint8)
    # Items less probable than this do not take part in the search.
    candidate = 1e-4
    pool_of_edge = np.repeat(np.arange(graph.n_checks), graph.degrees)
    # Maximum number of passes of the search over the exchanges of items.
    search_passes = 10
    for column in range(probabilities.shape[1]):
        p, a = probabilities[:, column], np.ascontiguousarray(odds[:, column])
        known = a >= HARD_BELIEF
        # A pool that is certainly positive needs an item, however improbable each of them is.
        cleared, needed = (
            np.bincount(graph.variables[certain[pool_of_edge]], minlength=len(p)) > 0
            for certain in (np.isneginf(evidence[:, column]), np.isposinf(evidence[:, column]))
        )
        free = ((p > candidate) | (needed & ~cleared)) & (np.abs(a) < HARD_BELIEF)
        best = -np.inf
        for start in (p > 0.5, known):
            chosen = (start | known).astype(np.uint8)
            posterior = Posterior(
                graph, pools_of_items, a, np.ascontiguousarray(weights[:, column]), free
            )
            score = improve_set(posterior, chosen, search_passes)
            if score > best:
                best = score
                sets[:, column] = chosen
    return sets


class Posterior(NamedTuple):
    """The posterior of a set: Σ odds of its items + Σ evidence of its pools."""

    items: TannerGraph  # the items of each pool
    pools: TannerGraph  # the pools of each item
    odds: Array  # prior log-odds, (items,)
    evidence: Array  # L, (pools,)
    free: Array  # bool, (items,): which items may move


@njit(nogil=True, cache=True)
def _gain(item, posterior, chosen, count):
    """The gain of the log-posterior if an item is added to the set, or removed from it."""
    pools = posterior.pools
    alone = np.float64(0)
    own = 1 if chosen[item] else 0
    for at in range(pools.indptr[item], pools.indptr[item + ONE]):
        pool = np.uint64(pools.variables[at])
        if count[pool] == own:  # no other item of the set covers the pool
            alone += posterior.evidence[pool]
    return -posterior.odds[item] - alone if chosen[item] else posterior.odds[item] + alone


@njit(nogil=True, cache=True)
def _flip(item, posterior, chosen, count, gain):
    """Add or remove an item; update the counts and the gains of items that share a pool."""
    items, pools = posterior.items, posterior.pools
    step = -1 if chosen[item] else 1
    chosen[item] = 1 - chosen[item]
    for at in range(pools.indptr[item], pools.indptr[item + ONE]):
        count[np.uint64(pools.variables[at])] += step
    gain[item] = _gain(item, posterior, chosen, count)
    for at in range(pools.indptr[item], pools.indptr[item + ONE]):
        pool = np.uint64(pools.variables[at])
        for e in range(items.indptr[pool], items.indptr[pool + ONE]):
            other = np.uint64(items.variables[e])
            if posterior.free[other]:
                gain[other] = _gain(other, posterior, chosen, count)


@njit(nogil=True, cache=True)
def improve_set(posterior, chosen, passes):
    """Add, remove or exchange items as long as the posterior rises.

    chosen (items,) uint8 is updated. Returns the log-posterior of the set, up to a constant.
    """
    items, pools = posterior.items, posterior.pools
    n_items = np.uint64(chosen.shape[0])
    count = np.zeros(posterior.evidence.shape[0], np.int64)  # items of the set in each pool
    for item in range(n_items):
        if chosen[item]:
            for at in range(pools.indptr[item], pools.indptr[item + ONE]):
                count[np.uint64(pools.variables[at])] += 1
    gain = np.full(chosen.shape[0], -np.inf)
    for item in range(n_items):
        if posterior.free[item]:
            gain[item] = _gain(item, posterior, chosen, count)
    for _ in range(passes):
        best = np.uint64(np.argmax(gain))
        while gain[best] > LEAST_GAIN:
            _flip(best, posterior, chosen, count, gain)
            best = np.uint64(np.argmax(gain))
        improved = False
        for out in range(n_items):
            if not (chosen[out] and posterior.free[out]):
                continue
            loss = -gain[out]
            _flip(out, posterior, chosen, count, gain)
            # Only items that share a pool can gain more than before, when no item had a gain.
            best, best_gain = np.uint64(out), loss + LEAST_GAIN
            for at in range(pools.indptr[out], pools.indptr[out + ONE]):
                pool = np.uint64(pools.variables[at])
                for e in range(items.indptr[pool], items.indptr[pool + ONE]):
                    other = np.uint64(items.variables[e])
                    if other != out and not chosen[other] and gain[other] > best_gain:
                        best, best_gain = other, gain[other]
            _flip(best, posterior, chosen, count, gain)
            improved = improved or best != out  # otherwise the same item returned
        if not improved:
            break
    total = 0.0
    for item in range(n_items):
        if chosen[item]:
            total += posterior.odds[item]
    return total + posterior.evidence[count > 0].sum()
