"""The slow twin of the engine on small integers: the formulas on full arrays of whole numbers.

Messages are (M, N, K) arrays of whole numbers with their sign, 0 outside Ω; beliefs are (M, K) and
(K, N). What a unit is, and how a move is rounded, is all that differs from `reference`.
"""

from __future__ import annotations

import numpy as np

OR_STEPS = 255  # |L| of the stronger kind of entry is so many units
XOR_STEPS = 127
CERTAIN = 1023  # beliefs are cut here
STEP = np.log(2) / 512  # log-odds of a step of sum-product


def unit_of(one_given_zero, one_given_one, product):
    """Log-odds of a unit: a share of the evidence of a 1 or of a 0, whichever is stronger."""
    one = np.log(one_given_one / one_given_zero)
    zero = np.log((1 - one_given_one) / (1 - one_given_zero))
    return max(one, -zero) / (XOR_STEPS if product == "xor" else OR_STEPS)


def in_units(evidence, unit):
    """L (M, N) as whole numbers of units, at least 1 where not 0."""
    size = np.maximum(np.rint(np.abs(evidence) / unit), 1)
    return (np.sign(evidence) * size).astype(int)


def rounded(belief, unit):
    """Log-odds in units, cut where they are as good as certain."""
    return np.clip(np.floor(np.asarray(belief, float) / unit + 0.5), -CERTAIN, CERTAIN).astype(int)


def moves(old, new, damping):
    """What messages move by: λ in 128ths of the gap, rounded to nearest.

    If then a gap of 2 would stay: a gap of 1 stays, all others become smaller by 1 at least.
    """
    gap = new - old
    steps = max(1, round(128 * damping))
    if 2 * steps > 64:
        return np.floor((gap * steps + 64) / 128).astype(int)
    inner = np.sign(gap) * np.maximum(np.abs(gap) - 1, 0)
    return (np.sign(inner) * np.ceil(np.abs(inner) * steps / 128)).astype(int)


def max_sum_step(L, row, column, to_row, to_column, damping, product):
    """The next Φ and Ψ (M, N, K) from beliefs (M, K), (K, N) and messages, all in units."""
    seen = (L != 0)[:, :, None]
    x = row[:, None, :] - to_row
    y = column.T[None, :, :] - to_column
    both = np.minimum(x + y, np.minimum(x, y))
    claim = np.empty_like(both)
    for k in range(claim.shape[2]):
        others = np.delete(both, k, axis=2)
        if product == "or":
            largest = others.max(axis=2, initial=-(10**6))
            claim[:, :, k] = np.minimum(
                np.maximum(-largest, 0), np.maximum(others, 0).sum(axis=2) + L
            )
        else:
            size = np.minimum(np.abs(L), np.abs(others).min(axis=2, initial=10**6))
            claim[:, :, k] = np.sign(L) * np.sign(-others).prod(axis=2) * size
    new_row = np.where(seen, np.maximum(claim + y, 0) - np.maximum(y, 0), 0)
    new_column = np.where(seen, np.maximum(claim + x, 0) - np.maximum(x, 0), 0)
    return (
        to_row + moves(to_row, new_row, damping),
        to_column + moves(to_column, new_column, damping),
    )
