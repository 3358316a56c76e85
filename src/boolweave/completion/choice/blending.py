"""Weights of several predictions, fitted to held-out entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from boolweave.model.odds import sigmoid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Doubles = NDArray[np.float64]

# The prior of the weights: standard deviations of each weight around an equal share, and of what
# the intercept adds at the mean log-odds. Few held-out entries then change little: each family has
# a constant of its own that was fitted to nearly the same entries.
WEIGHT_DEVIATION = 0.2
SHIFT_DEVIATION = 0.1

# A family with less weight than this is left out, and so costs nothing.
LEAST_WEIGHT = 0.08


def blend(odds: Doubles, values: NDArray[np.uint8], weights: Doubles | None = None) -> Doubles:
    """Intercept and non-negative weights (1 + F,) of log-odds (n, F) for bits (n,).

    Minimises the log-loss plus the logarithm of a normal prior: weights 1/F, and no change at the
    mean log-odds. (Where ones are common, steeper log-odds need an intercept below 0.)
    """
    from scipy.optimize import minimize

    n_families = odds.shape[1]
    count = np.ones(len(odds)) if weights is None else weights
    typical = np.average(odds, axis=0, weights=count)
    center = np.concatenate([[0.0], np.full(n_families, 1 / n_families)])
    spread = np.concatenate([[SHIFT_DEVIATION], np.full(n_families, WEIGHT_DEVIATION)])
    x = np.column_stack([np.ones(len(odds)), odds - typical])
    fixed = typical.mean()

    def loss(w: Doubles) -> tuple[float, Doubles]:
        v = fixed + x @ w
        gap = (w - center) / spread
        total = np.sum(count * (np.logaddexp(0, v) - values * v)) + 0.5 * gap @ gap
        return float(total), x.T @ (count * (sigmoid(v) - values)) + gap / spread

    bounds = [(None, None), *[(0.0, None)] * n_families]
    found: Doubles = minimize(loss, center, jac=True, method="L-BFGS-B", bounds=bounds).x
    found[0] += fixed - typical @ found[1:]
    return found
