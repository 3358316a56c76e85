"""Compiled loops over real factors: losses, proximal gradient steps and scores at entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from boolweave.engine.kernels.jit import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.runtime.types import Integers

QUADRATIC, LOGISTIC, HINGE, ORDINAL = 0, 1, 2, 3

# The corner of the hinge is rounded over this width, so that it has a gradient; the loss differs
# from the hinge by at most half of it.
CORNER = 0.05

# This many factors between 1 and 2 are multiplied before taking a logarithm: far from overflow.
FACTORS = 512

# Steps grow after a success and shrink after a failure, as in Udell et al. (2016).
GROW, SHRINK, TRIES = 1.3, 0.5, 20


@njit(nogil=True, cache=True)
def hinge(t: float) -> tuple[float, float]:
    """max(0, t) with a rounded corner, and its slope."""
    if t <= 0.0:
        return 0.0, 0.0
    if t < CORNER:
        return t * t / (2.0 * CORNER), t / CORNER
    return t - CORNER / 2.0, 1.0


@njit(nogil=True, cache=True)
def loss_of(kind: int, v: float, target: float, n_levels: int) -> tuple[float, float]:
    """Loss of score `v` and its slope in v.

    The target is ±1; for the ordinal hinge a level 0, …, n_levels − 1, where the score should lie
    above all lower levels by one and below all higher ones.
    """
    if kind == QUADRATIC:
        return (v - target) ** 2, 2.0 * (v - target)
    if kind == LOGISTIC:
        t = -target * v
        if t > 0.0:
            return t + np.log1p(np.exp(-t)), -target / (1.0 + np.exp(-t))
        return np.log1p(np.exp(t)), -target * np.exp(t) / (1.0 + np.exp(t))
    if kind == HINGE:
        loss, slope = hinge(1.0 - target * v)
        return loss, -target * slope
    loss, slope = 0.0, 0.0
    for level in range(n_levels):
        if level < target:
            part, d = hinge(1.0 - v + level)
            loss += part
            slope -= d
        elif level > target:
            part, d = hinge(1.0 + v - level)
            loss += part
            slope += d
    return loss, slope


@njit(nogil=True, cache=True)
def losses_of_row(kind, n_levels, n, fixed, linear, targets, slopes):
    """Sum of the losses of scores fixed + linear, the first n of each; their slopes go to `slopes`.

    The hinge has no branch here, so that its loop is vectorized: with c = t clipped to 0 and the
    width w of the corner, the rounded max(0, t) is c² / 2w + max(0, t − w). The logistic loss
    log(1 + e^t) = max(0, t) + log(1 + e^−|t|) takes one logarithm of a product for many entries.
    The product is stored as its excess over 1, because the losses of entries that fit are far below
    the rounding error at 1, and without regularization nothing else determines the factors.
    """
    total = 0.0
    if kind == LOGISTIC:
        excess = 0.0
        for e in range(n):
            t = -targets[e] * (fixed[e] + linear[e])
            small = np.exp(-abs(t))
            total += max(t, 0.0)
            excess += small + excess * small
            if e % FACTORS == FACTORS - 1:
                total += np.log1p(excess)
                excess = 0.0
            slopes[e] = -targets[e] * (1.0 if t > 0.0 else small) / (1.0 + small)
        return total + np.log1p(excess)
    if kind == HINGE:
        for e in range(n):
            t = 1.0 - targets[e] * (fixed[e] + linear[e])
            c = min(max(t, 0.0), CORNER)
            total += c * c / (2.0 * CORNER) + max(t - CORNER, 0.0)
            slopes[e] = -targets[e] * c / CORNER
    else:
        for e in range(n):
            loss, slopes[e] = loss_of(kind, fixed[e] + linear[e], targets[e], n_levels)
            total += loss
    return total


@njit(nogil=True, cache=True)
def product_of_row(n, vector, gathered, out):
    """Σ_k vector[k] gathered[k, e] for the first n entries e."""
    for e in range(n):
        out[e] = 0.0
    for k in range(len(vector)):
        for e in range(n):
            out[e] += vector[k] * gathered[k, e]


@njit(nogil=True, cache=True)
def gradient_of_row(n, slopes, gathered, offset, gradient):
    """Gradient of the row's loss in its factors and its offset."""
    for k in range(len(gradient)):
        total = 0.0
        for e in range(n):
            total += slopes[e] * gathered[k, e]
        gradient[k] = total
    if not offset:
        gradient[len(gradient) - 1] = 0.0


class Targets(NamedTuple):
    """The observed entries in CSR form, and the targets of their scores."""

    indptr: Integers
    indices: Integers
    values: NDArray[np.float64]
    n_levels: int


@njit(nogil=True, cache=True)
def improve_factor(kind, targets, intercept, offset, factor, other, strength, steps, n_inner):
    """Do proximal gradient steps for every row of `factor` (M, K + 1); `other` (N, K + 1) is fixed.

    The last column of both holds the offsets. A step is taken only if it lowers the objective of
    the row. `steps` (M,) holds the step size of each row from call to call. Returns the objective
    without the regularization of `other`.

    Scores are linear in the size of a step: given the scores of the row and of the gradient, a
    trial costs one loss per entry and no product of factors.
    """
    indptr, indices, n_levels = targets.indptr, targets.indices, targets.n_levels
    width = factor.shape[1]
    longest = 0
    for m in range(len(factor)):
        longest = max(longest, indptr[m + 1] - indptr[m])
    gathered = np.ones((width, longest))  # the last row is multiplied by the offset of the row
    fixed, linear, along = np.zeros(longest), np.zeros(longest), np.zeros(longest)
    trial, slopes, gradient = np.zeros(longest), np.zeros(longest), np.zeros(width)
    total = 0.0
    for m in range(len(factor)):
        entries = slice(indptr[m], indptr[m + 1])
        columns, goal, own = indices[entries], targets.values[entries], factor[m]
        n = len(columns)
        for e in range(n):
            fixed[e] = intercept + other[columns[e], width - 1]
            for k in range(width - 1):
                gathered[k, e] = other[columns[e], k]
        product_of_row(n, own, gathered, linear)
        norm = 0.0
        for k in range(width):
            norm += own[k] * own[k]
        current = strength * norm + losses_of_row(kind, n_levels, n, fixed, linear, goal, slopes)
        for _ in range(n_inner):
            gradient_of_row(n, slopes, gathered, offset, gradient)
            product_of_row(n, gradient, gathered, along)
            improved = False
            for _ in range(TRIES):
                # prox of strength |u|²: u / (1 + 2 · step · strength)
                step = steps[m]
                shrink = 1.0 / (1.0 + 2.0 * step * strength)
                norm = 0.0
                for k in range(width):
                    norm += (own[k] - step * gradient[k]) ** 2
                for e in range(n):
                    trial[e] = (linear[e] - step * along[e]) * shrink
                value = strength * norm * shrink * shrink
                value += losses_of_row(kind, n_levels, n, fixed, trial, goal, slopes)
                if value < current:
                    improved = True
                    break
                steps[m] *= SHRINK
            if not improved:
                break
            current = value
            for k in range(width):
                own[k] = (own[k] - step * gradient[k]) * shrink
            linear, trial = trial, linear
            steps[m] *= GROW
        total += current
    return total


@njit(nogil=True, cache=True)
def scores_at(rows, columns, left, right):
    """Σ_k left[m, k] right[n, k] at pairs (m, n), (len,)."""
    out = np.zeros(len(rows))
    for e in range(len(rows)):
        a, b = left[rows[e]], right[columns[e]]
        total = 0.0
        for k in range(left.shape[1]):
            total += a[k] * b[k]
        out[e] = total
    return out
