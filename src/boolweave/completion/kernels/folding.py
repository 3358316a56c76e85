"""Offsets, directions and factors of new rows, given all columns.

Each row is on its own. In turns, its offset and directions take a step of Newton's method, given
what Boolean layers add at its entries; then each layer is passed messages of sum-product, given
offsets, directions and the other layers. Columns are uncertain: their variances widen the noise.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from boolweave.completion.kernels.channels import LEAST, log_normal, normal_between
from boolweave.completion.kernels.drawing import (
    Lines,
    Link,
    Prior,
    level_slopes,
    lower_root,
    slope_at,
)
from boolweave.engine.kernels.jit import njit
from boolweave.engine.kernels.rules import likelihood
from boolweave.runtime.types import Floats

# What an entry may say of a factor, and what is believed of one, in log-odds.
LARGEST_EVIDENCE = 12.0
LARGEST_BELIEF = 40.0

# So many ratios are multiplied before a logarithm is taken: they stay above e^−192.
PER_LOGARITHM = 16


class FixedColumns(NamedTuple):
    """What is known of columns."""

    lines: Floats  # (N, D) float32, directions and, last, the offset
    variance: Floats  # (N, D) float32
    chance: Floats  # (N, L, K) float32, P(y = 1) in each layer
    strength: Floats  # (L,), how far each layer moves an entry


class FoldedRows(NamedTuple):
    """What is found of rows; all of it is overwritten."""

    lines: Floats  # (R, D)
    variance: Floats  # (R, D)
    factors: Floats  # (R, L, K), log-odds of x = 1


class _Scratch(NamedTuple):
    """Numbers of the E entries of one row."""

    mean: Floats  # (E,) of offsets, directions and layers
    variance: Floats  # (E,) of columns, layers and noise
    ratio: Floats  # (E,) p(o | z = 1) / p(o | z = 0)
    away: Floats  # (L, E) P(z = 0), without what the entry itself says
    chance: Floats  # (L, K, E) P(y = 1)
    told: Floats  # (L, K, E) p(o | x = 1) / p(o | x = 0)
    both: Floats  # (L, K, E) P(x = 1, y = 1), without what the entry itself says
    after: Floats  # (K + 1, E) P(no factor from k on has both)


@njit(nogil=True, cache=True, error_model="numpy")
def _scratch(n_entries: int, n_layers: int, n_factors: int) -> Any:
    return _Scratch(
        np.empty(n_entries),
        np.empty(n_entries),
        np.empty(n_entries),
        np.empty((n_layers, n_entries)),
        np.empty((n_layers, n_factors, n_entries)),
        np.empty((n_layers, n_factors, n_entries)),
        np.empty((n_layers, n_factors, n_entries)),
        np.ones((n_factors + 1, n_entries)),
    )


@njit(nogil=True, cache=True, error_model="numpy")
def _gather(
    lines: Lines,
    line: int,
    fixed: FixedColumns,
    factor_prior: Floats,
    here: _Scratch,
    out: FoldedRows,
) -> None:
    """Begin with the priors of a row's factors."""
    begin = lines.indptr[line]
    n = lines.indptr[line + 1] - begin
    for layer in range(fixed.strength.shape[0]):
        for e in range(n):
            here.away[layer, e] = 1.0
        for k in range(factor_prior.shape[1]):
            out.factors[line, layer, k] = factor_prior[layer, k]
            prior = 1.0 / (1.0 + math.exp(-factor_prior[layer, k]))
            for e in range(n):
                chance = float(fixed.chance[lines.other[begin + e], layer, k])
                here.chance[layer, k, e] = chance
                here.both[layer, k, e] = prior * chance
                here.away[layer, e] *= 1.0 - prior * chance


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz", "arcp"})
def _means(lines: Lines, line: int, fixed: FixedColumns, at: Floats, here: _Scratch) -> None:
    """Mean and variance of what is added up at the entries of a row."""
    begin = lines.indptr[line]
    n = lines.indptr[line + 1] - begin
    last = at.shape[0] - 1
    for e in range(n):
        column = lines.other[begin + e]
        mean = at[last] + float(fixed.lines[column, last])
        variance = 1.0 + float(fixed.variance[column, last])
        for i in range(last):
            mean += at[i] * float(fixed.lines[column, i])
            variance += at[i] * at[i] * float(fixed.variance[column, i])
        here.mean[e] = mean
        here.variance[e] = variance
    for layer in range(fixed.strength.shape[0]):
        _add_layer(n, fixed.strength[layer], layer, here, 1.0)


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz", "arcp"})
def _add_layer(n_entries: int, strength: float, layer: int, here: _Scratch, times: float) -> None:
    """Add a layer to means and variances, or take it away (−1 times)."""
    away, mean, variance = here.away[layer], here.mean, here.variance
    for e in range(n_entries):
        mean[e] += times * strength * (1.0 - 2.0 * away[e])
        variance[e] += times * 4.0 * strength * strength * away[e] * (1.0 - away[e])


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz", "arcp"})
def _newton(
    lines: Lines,
    link: Link,
    prior: Prior,
    line: int,
    fixed: FixedColumns,
    here: _Scratch,
    precision: Floats,
    target: Floats,
    at: Floats,
) -> None:
    """One step of Newton's method for `at`; the lower root of the curvature is left behind."""
    begin = lines.indptr[line]
    n = at.shape[0]
    last = n - 1
    binary = link.cuts.shape[0] == 3
    for i in range(n):
        target[i] = prior.mean[line, i] / prior.variance[i]
        for j in range(i):
            precision[i, j] = 0.0
        precision[i, i] = 1.0 / prior.variance[i]
    for e in range(lines.indptr[line + 1] - begin):
        column, level = lines.other[begin + e], lines.level[begin + e]
        mean = here.mean[e]
        own = at[last]
        for i in range(last):
            own += at[i] * float(fixed.lines[column, i])
        scale = 1.0 / math.sqrt(here.variance[e])
        if binary:
            x = (mean - link.cuts[1]) * scale
            x = x if level == 1 else -x
            slope = slope_at(x, link.slopes)
            weight = slope * (slope + x)
            slope = slope if level == 1 else -slope
        else:
            low = (link.cuts[level] - mean) * scale
            slope, weight = level_slopes(low, (link.cuts[level + 1] - mean) * scale)
        weight *= scale * scale
        pull = weight * own + slope * scale
        for i in range(n):
            known = 1.0 if i == last else float(fixed.lines[column, i])
            target[i] += pull * known
            for j in range(i):
                precision[i, j] += weight * known * float(fixed.lines[column, j])
            precision[i, i] += weight * known * known
    _solve(precision, target, at)


@njit(nogil=True, cache=True, error_model="numpy")
def _solve(precision: Floats, target: Floats, out: Floats) -> None:
    """out = A⁻¹h with A = precision (its lower half), which its lower root replaces; h = target."""
    lower_root(precision, target)
    n = target.shape[0]
    for back in range(n):
        i = n - 1 - back
        s = target[i]
        for k in range(i + 1, n):
            s -= precision[k, i] * out[k]
        out[i] = s / precision[i, i]


@njit(nogil=True, cache=True, error_model="numpy")
def _inverse_diagonal(root: Floats, work: Floats, out: Floats) -> None:
    """The diagonal of A⁻¹, with the lower root of A."""
    n = root.shape[0]
    for j in range(n):
        out[j] = 0.0
        for i in range(j, n):
            s = 1.0 if i == j else 0.0
            for k in range(j, i):
                s -= root[i, k] * work[k]
            work[i] = s / root[i, i]
            out[j] += work[i] * work[i]


@njit(nogil=True, cache=True, error_model="numpy")
def _evidence(lines: Lines, link: Link, line: int, strength: float, here: _Scratch) -> None:
    """What each entry of a row says of a layer, given all else: means are without that layer."""
    begin = lines.indptr[line]
    binary = link.cuts.shape[0] == 3
    for e in range(lines.indptr[line + 1] - begin):
        mean = here.mean[e]
        scale = 1.0 / math.sqrt(here.variance[e])
        level = lines.level[begin + e]
        if binary:
            sign = scale if level == 1 else -scale
            mean -= link.cuts[1]
            told = log_normal(sign * (mean + strength), link.logs)
            told -= log_normal(sign * (mean - strength), link.logs)
        else:
            low, high = link.cuts[level] - mean, link.cuts[level + 1] - mean
            one = normal_between((low - strength) * scale, (high - strength) * scale)
            zero = normal_between((low + strength) * scale, (high + strength) * scale)
            told = math.log(max(one, LEAST) / max(zero, LEAST))
        here.ratio[e] = math.exp(min(LARGEST_EVIDENCE, max(-LARGEST_EVIDENCE, told)))


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz", "arcp"})
def _pass_messages(
    n_entries: int, layer: int, factor_prior: Floats, here: _Scratch, beliefs: Floats
) -> None:
    """One round of sum-product in a layer: factor by factor, with what the others now say."""
    n_factors = factor_prior.shape[1]
    away = here.away[layer]
    for back in range(n_factors):
        k = n_factors - 1 - back
        both, after, behind = here.both[layer, k], here.after[k], here.after[k + 1]
        for e in range(n_entries):
            after[e] = behind[e] * (1.0 - both[e])
    for e in range(n_entries):
        away[e] = 1.0
    for k in range(n_factors):
        chance, told, both = here.chance[layer, k], here.told[layer, k], here.both[layer, k]
        behind = here.after[k + 1]
        for e in range(n_entries):
            others = away[e] * behind[e]  # P(z = 0 | x = 0)
            none = others * (1.0 - chance[e])  # P(z = 0 | x = 1)
            ratio = here.ratio[e]
            told[e] = likelihood(None, ratio, 1.0, none) / likelihood(None, ratio, 1.0, others)
        belief = factor_prior[layer, k]
        for first in range(0, n_entries, PER_LOGARITHM):
            product = 1.0
            for e in range(first, min(first + PER_LOGARITHM, n_entries)):
                product *= told[e]
            belief += math.log(product)
        beliefs[k] = belief
        odds = math.exp(min(LARGEST_BELIEF, max(-LARGEST_BELIEF, belief)))
        for e in range(n_entries):
            both[e] = chance[e] * odds / (odds + told[e])
            away[e] *= 1.0 - both[e]


@njit(nogil=True, cache=True, error_model="numpy")
def fold_rows(
    lines: Lines,
    link: Link,
    prior: Prior,
    factor_prior: Floats,
    fixed: FixedColumns,
    n_rounds: int,
    out: FoldedRows,
) -> None:
    """Offsets, directions and factors of rows, each from its own entries.

    Parameters
    ----------
    lines : Lines, the entries of R rows
    link : Link; with two levels the cut between them may be anywhere
    prior : Prior, of offsets and directions
    factor_prior : (L, K), log-odds of x = 1
    fixed : FixedColumns
    n_rounds : rounds of Newton's method and messages; one more step of Newton's method follows
    out : FoldedRows; overwritten
    """
    n_rows, D = out.lines.shape
    n_layers, n_factors = factor_prior.shape
    most = 0
    for line in range(n_rows):
        most = max(most, lines.indptr[line + 1] - lines.indptr[line])
    here = _scratch(most, n_layers, n_factors)
    precision, target, work = np.empty((D, D)), np.empty(D), np.empty(D)
    for line in range(n_rows):
        n = lines.indptr[line + 1] - lines.indptr[line]
        at = out.lines[line]
        at[:] = prior.mean[line]
        _gather(lines, line, fixed, factor_prior, here, out)
        _means(lines, line, fixed, at, here)
        for _ in range(n_rounds if n else 0):
            _newton(lines, link, prior, line, fixed, here, precision, target, at)
            _means(lines, line, fixed, at, here)
            for layer in range(n_layers):
                strength = fixed.strength[layer]
                _add_layer(n, strength, layer, here, -1.0)
                _evidence(lines, link, line, strength, here)
                _pass_messages(n, layer, factor_prior, here, out.factors[line, layer])
                _add_layer(n, strength, layer, here, 1.0)
        _newton(lines, link, prior, line, fixed, here, precision, target, at)
        _inverse_diagonal(precision, work, out.variance[line])
