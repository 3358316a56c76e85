"""Log-odds and probabilities, and the finite numbers that represent certainty."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boolweave.runtime.types import Floats

Doubles: TypeAlias = NDArray[np.float64]
Numbers = TypeVar("Numbers", bound=NDArray[np.floating[Any]])

# log p is clipped here, so that an observation without noise has the weight e^500, but sums of such
# observations stay finite, and differences between them exact enough, in 32-bit floats.
HARD_EVIDENCE = 500.0

# The log-odds of a known entry of a factor. It absorbs whatever is added to it, and sums of a few
# such numbers stay finite in 32-bit floats.
HARD_BELIEF = 1e30


def without_nan(values: Numbers) -> Numbers:
    """Return log-odds or probabilities; raise FloatingPointError if one of them is NaN."""
    if np.isnan(np.min(values, initial=0.0)):
        raise FloatingPointError(
            "a probability cannot be computed: a number of the model is NaN or too large; please "
            "report this, and fit the model again"
        )
    return values


def sigmoid(odds: ArrayLike) -> Doubles:
    """Probabilities of log-odds, accurate even near 0; none of them is NaN.

    The probabilities of every model are computed here, so that none of them returns NaN.
    """
    values = without_nan(np.asarray(odds, dtype=np.float64))
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
    """Log-odds with ±∞ instead of the finite numbers that represent certainty; none is NaN."""
    belief = without_nan(np.asarray(belief))
    if belief.min(initial=0) > -HARD_BELIEF / 2 and belief.max(initial=0) < HARD_BELIEF / 2:
        return belief
    return np.where(np.abs(belief) >= HARD_BELIEF / 2, np.copysign(np.inf, belief), belief)
