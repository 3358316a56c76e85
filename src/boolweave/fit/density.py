"""How dense a factor is: one number, one per row or one per factor, whichever the data support."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Densities stay off 0 and 1, which would be certainty, never to be unlearned.
LEAST_DENSITY = 1e-3


def density(probabilities: NDArray[np.floating]) -> NDArray[np.float64]:
    """Densities of a factor from the probabilities of its entries.

    Parameters
    ----------
    probabilities : (M, K) array
        P(entry = 1).

    Returns
    -------
    (1, 1), (1, K) or (M, 1) array
        One density in all, per factor, or per row. More numbers are taken only where they raise the
        expected log-probability of the entries by more than ½ log(entries per number) each.
    """
    n_rows, n_factors = probabilities.shape
    if probabilities.size == 0:
        return np.full((1, 1), 0.5)
    choices = []
    for axis, entries in ((None, n_rows * n_factors), (0, n_rows), (1, n_factors)):
        # One success and one failure beforehand keep small samples from being certain.
        sums = probabilities.sum(axis=axis, keepdims=True, dtype=np.float64)
        p = np.clip((sums + 1) / (entries + 2), LEAST_DENSITY, 1 - LEAST_DENSITY)
        gain = float(np.sum(sums * np.log(p) + (entries - sums) * np.log1p(-p)))
        choices.append((gain - 0.5 * p.size * np.log(entries + 1), p))
    return max(choices, key=lambda choice: choice[0])[1]
