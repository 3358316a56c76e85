"""Thresholds between ordered levels, for ratings with more than two levels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.completion.table import Table
    from boolweave.runtime.types import Floats

    Doubles = NDArray[np.float64]

BINARY_CUTS = np.array([-np.inf, 0.0, np.inf])

# Minimum distance between two thresholds, and the largest step of one.
LEAST_GAP, LARGEST_STEP = 0.02, 0.25

# Probabilities of a level are kept this far from 0.
LEAST_CHANCE = 1e-9


def first_cuts(table: Table) -> Doubles:
    """Thresholds that give the levels their observed frequencies, shifted so that one is 0.

    The threshold at 0 is the one below the lowest level that counts as a one.
    """
    from scipy.special import ndtri

    if table.n_levels == 2:
        return BINARY_CUTS.copy()
    counts = np.bincount(table.levels, minlength=table.n_levels) + 0.5
    cuts = np.concatenate([[-np.inf], ndtri(np.cumsum(counts)[:-1] / counts.sum()), [np.inf]])
    cuts -= cuts[cut_of(table.levels, table.observations.values)]
    return cuts


def cut_of(levels: NDArray[np.uint8], values: NDArray[np.uint8]) -> int:
    """The lowest level that counts as a one."""
    below = levels[values == 0]
    return int(below.max(initial=0)) + 1 if len(below) else 1


def moved_cuts(
    cuts: Doubles, mean: Doubles, scale: Floats | float, levels: NDArray[np.uint8]
) -> Doubles:
    """Take a Newton step for each threshold separately, given the means of the entries."""
    from scipy.special import ndtr

    scale = np.broadcast_to(scale, mean.shape)
    low, high = (cuts[levels] - mean) * scale, (cuts[levels + 1] - mean) * scale
    chance = np.maximum(ndtr(high) - ndtr(low), LEAST_CHANCE)
    n = len(cuts)
    slopes, bends = np.zeros(n), np.full(n, 1e-3)
    for at, place, sign in ((high, levels + 1, 1.0), (low, levels, -1.0)):
        finite = np.isfinite(at)
        x = at[finite]
        density = np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi) / chance[finite] * scale[finite]
        slopes += np.bincount(place[finite], sign * density, n)
        bends += np.bincount(place[finite], density**2, n)
    steps = np.clip(slopes / bends, -LARGEST_STEP, LARGEST_STEP)
    moved = cuts.copy()
    free = np.isfinite(cuts) & (cuts != 0.0)
    moved[free] += steps[free]
    zero = int(np.flatnonzero(cuts == 0.0)[0])
    for j in range(zero + 1, n - 1):
        moved[j] = max(moved[j], moved[j - 1] + LEAST_GAP)
    for j in range(zero - 1, 0, -1):
        moved[j] = min(moved[j], moved[j + 1] - LEAST_GAP)
    return moved
