"""Log-odds and probabilities, and the finite numbers that represent certainty."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from boolweave.runtime.types import Floats

    Doubles: TypeAlias = NDArray[np.float64]

# log p is clipped here, so that an observation without noise has the weight e^500, but sums of such
# observations stay finite, and differences between them exact enough, in 32-bit floats.
HARD_EVIDENCE = 500.0

# The log-odds of a known entry of a factor. It absorbs whatever is added to it, and sums of a few
# such numbers stay finite in 32-bit floats.
HARD_BELIEF = 1e30


def sigmoid(odds: ArrayLike) -> Doubles:
    """Probabilities of log-odds, accurate even near 0."""
    values = np.asarray(odds, dtype=np.float64)
    smaller = np.empty_like(values)  # e^−|odds|, without other arrays of this size
    np.exp(np.negative(np.abs(values, out=smaller), out=smaller), out=smaller)
    chance: Doubles = np.where(values > 0, 1.0, smaller)
    smaller += 1
    chance /= smaller
    return chance[()]


def log_odds(probability: ArrayLike, limit: float = HARD_BELIEF) -> Doubles:
    """Log-odds of probabilities; 0 and 1 give ∓`limit`, which may be infinite."""
    p = np.asarray(probability, dtype=np.float64)
    with np.errstate(divide="ignore"):
        odds = np.log(p) - np.log1p(-p)
    return np.clip(odds, -limit, limit)


def log_probability(probability: ArrayLike) -> Doubles:
    """Logarithms of probabilities, not below −`HARD_EVIDENCE`."""
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(probability), -HARD_EVIDENCE)


def with_infinities(belief: Floats) -> Floats:
    """Log-odds with ±∞ instead of the finite numbers that represent certainty."""
    belief = np.asarray(belief)
    if belief.min(initial=0) > -HARD_BELIEF / 2 and belief.max(initial=0) < HARD_BELIEF / 2:
        return belief
    return np.where(np.abs(belief) >= HARD_BELIEF / 2, np.copysign(np.inf, belief), belief)
