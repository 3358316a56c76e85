"""Compiled loops of the baselines: losses, steps of factors, scores at entries."""

from __future__ import annotations

import numpy as np
from numba import njit

QUADRATIC, LOGISTIC, HINGE, ORDINAL = 0, 1, 2, 3

# The corner of a hinge is rounded off over this width, so that it has a gradient; the loss
# differs from the hinge by at most half of it.
CORNER = 0.05

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
def objective_of_row(
    kind, n_levels, columns, targets, base, offset, own, other, strength, gradient
):  # fmt: skip
    """Loss of one row and its regularisation; the gradient of the loss goes into `gradient`.

    `own` (K + 1,) and `other` (N, K + 1) end with the offsets.
    """
    n_components = len(own) - 1
    total = 0.0
    gradient[:] = 0.0
    for e in range(len(columns)):
        n = columns[e]
        v = base + own[n_components] + other[n, n_components]
        for k in range(n_components):
            v += own[k] * other[n, k]
        loss, slope = loss_of(kind, v, targets[e], n_levels)
        total += loss
        for k in range(n_components):
            gradient[k] += slope * other[n, k]
        gradient[n_components] += slope
    if not offset:
        gradient[n_components] = 0.0
    for k in range(n_components + 1):
        total += strength * own[k] * own[k]
    return total


@njit(nogil=True, cache=True)
def improve_factor(
    kind, n_levels, indptr, indices, targets, base, offset, factor, other, strength, steps, n_inner
):  # fmt: skip
    """Proximal gradient steps of every row of `factor` (M, K + 1), `other` (N, K + 1) held fixed.

    A step is taken only where it lowers the row's objective. `steps` (M,) holds each row's step
    size from call to call. Returns the objective, the regularisation of `other` left out.
    """
    width = factor.shape[1]
    gradient, trial, ignored = np.zeros(width), np.zeros(width), np.zeros(width)
    total = 0.0
    for m in range(len(factor)):
        columns, goal = indices[indptr[m] : indptr[m + 1]], targets[indptr[m] : indptr[m + 1]]
        own = factor[m]
        current = objective_of_row(
            kind, n_levels, columns, goal, base, offset, own, other, strength, gradient
        )
        for _ in range(n_inner):
            improved = False
            for _ in range(TRIES):
                # prox of strength |u|²: u / (1 + 2 · step · strength)
                shrink = 1.0 / (1.0 + 2.0 * steps[m] * strength)
                for k in range(width):
                    trial[k] = (own[k] - steps[m] * gradient[k]) * shrink
                value = objective_of_row(
                    kind, n_levels, columns, goal, base, offset, trial, other, strength, ignored
                )
                if value < current:
                    improved = True
                    break
                steps[m] *= SHRINK
            if not improved:
                break
            current = value
            for k in range(width):
                own[k] = trial[k]
                gradient[k] = ignored[k]
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


@njit(nogil=True, cache=True)
def count_bits(word):
    """Number of ones in a word of 64 bits, added up in pairs, fours and bytes."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    low = word & np.uint64(0x3333333333333333)
    word = low + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(nogil=True, cache=True)
def concept_gains(allowed, left, extent, intent, n_columns):
    """What a concept covers of `left` if column j joins it, (N,); 0 for columns that are in.

    `allowed` and `left` are (M, words) bits, `extent` (M,) the rows and `intent` (words,) the
    columns of the concept so far.
    """
    n_rows, n_words = allowed.shape
    gains = np.zeros(n_columns, np.int64)
    closure = np.zeros(n_words, np.uint64)
    for j in range(n_columns):
        word, bit = j // 64, np.uint64(1) << np.uint64(j % 64)
        if intent[word] & bit:
            continue
        closure[:] = ~np.uint64(0)
        for m in range(n_rows):
            if extent[m] and allowed[m, word] & bit:
                for w in range(n_words):
                    closure[w] &= allowed[m, w]
        total = 0
        for m in range(n_rows):
            if extent[m] and allowed[m, word] & bit:
                for w in range(n_words):
                    total += count_bits(left[m, w] & closure[w])
        gains[j] = total
    return gains
