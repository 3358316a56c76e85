"""What an entry says of a Boolean layer, given all else: a channel that differs by entry."""

import math

import numpy as np

from boolweave.engine.kernels.jit import njit
from boolweave.runtime.types import Floats, Integers

# log Φ is tabled from −REACH to REACH; beyond it is a parabola, or 0.
REACH = 8.0
PER_UNIT = 64
_SQRT_HALF = math.sqrt(0.5)

# Probabilities of a level are kept this far from 0.
LEAST = 1e-12


def log_normal_table() -> Floats:
    """log Φ at −REACH, … , REACH in steps of 1/PER_UNIT, and one more."""
    from scipy.special import log_ndtr

    return np.asarray(log_ndtr(np.arange(2 * REACH * PER_UNIT + 2) / PER_UNIT - REACH))


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def log_normal(x: float, table: Floats) -> float:
    """log Φ(x) to 1e-4 by linear interpolation."""
    if x >= REACH:
        return 0.0
    if x <= -REACH:
        return -0.5 * x * x - math.log(-x) - 0.9189385332046727
    place = (x + REACH) * PER_UNIT
    i = int(place)
    part = place - i
    return table[i] * (1.0 - part) + table[i + 1] * part


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def normal_between(low: float, high: float) -> float:
    """Φ(high) − Φ(low), exact also where both are large."""
    if low > 0.0:
        low, high = -high, -low
    return 0.5 * (math.erfc(-high * _SQRT_HALF) - math.erfc(-low * _SQRT_HALF))


@njit(nogil=True, cache=True, error_model="numpy")
def evidence_of(
    mean: Floats,
    variance: Floats,
    levels: Integers,
    cuts: Floats,
    strength: float,
    table: Floats,
    limit: float,
    out: Floats,
) -> None:
    """out = log p(o | z = 1) / p(o | z = 0) at each entry, cut to ±limit.

    y is normal with mean mean ± strength and variance 1 + variance; a level is seen where y is
    between two cuts.
    """
    binary = cuts.shape[0] == 3
    for e in range(mean.shape[0]):
        scale = 1.0 / math.sqrt(1.0 + variance[e])
        level = levels[e]
        if binary:
            sign = scale * (2.0 * level - 1.0)
            told = log_normal(sign * (mean[e] + strength), table)
            told -= log_normal(sign * (mean[e] - strength), table)
        else:
            low, high = cuts[level] - mean[e], cuts[level + 1] - mean[e]
            one = normal_between((low - strength) * scale, (high - strength) * scale)
            zero = normal_between((low + strength) * scale, (high + strength) * scale)
            told = math.log(max(one, LEAST) / max(zero, LEAST))
        out[e] = min(limit, max(-limit, told))
