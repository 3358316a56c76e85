"""Weights of several predictions, fitted to held-out entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from boolweave.model.odds import sigmoid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Doubles = NDArray[np.float64]

# The prior: standard deviations of the intercept around 0 and of each weight around an equal share.
# A few held-out entries then change little. Averages of probabilities are too close to one half,
# above it and below it, so the weights stretch the log-odds about 0 and not about their mean.
INTERCEPT_DEVIATION = 0.2
WEIGHT_DEVIATION = 0.2

# A family with less weight than this is left out, and so costs nothing.
LEAST_WEIGHT = 0.08


def blend(odds: Doubles, values: NDArray[np.uint8], weights: Doubles | None = None) -> Doubles:
    """Intercept and non-negative weights (1 + F,) of log-odds (n, F) for bits (n,).

    Minimizes the log-loss plus the negative logarithm of a normal prior: intercept 0, weights 1/F.
    """
    from scipy.optimize import minimize

    n_families = odds.shape[1]
    count = np.ones(len(odds)) if weights is None else weights
    center = np.concatenate([[0.0], np.full(n_families, 1 / n_families)])
    deviation = np.concatenate([[INTERCEPT_DEVIATION], np.full(n_families, WEIGHT_DEVIATION)])
    x = np.column_stack([np.ones(len(odds)), odds])

    def loss(w: Doubles) -> tuple[float, Doubles]:
        v = x @ w
        gap = (w - center) / deviation
        total = np.sum(count * (np.logaddexp(0, v) - values * v)) + 0.5 * gap @ gap
        return float(total), x.T @ (count * (sigmoid(v) - values)) + gap / deviation

    bounds = [(None, None), *[(0.0, None)] * n_families]
    found: Doubles = minimize(loss, center, jac=True, method="L-BFGS-B", bounds=bounds).x
    return found
