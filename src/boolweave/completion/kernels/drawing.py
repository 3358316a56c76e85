"""Drawing offsets and directions of lines, given those of the lines that cross them.

What is seen at an entry is where a normal number with mean s falls between thresholds: above 0 for
a one, below for a zero (a probit model). Given all else, the log-posterior of the parameters of a
row is concave and nearly a parabola. A step goes towards its maximum by Newton's method, from where
it was in the last sweep, and proposes a normal number with that mean and the inverse curvature,
which is accepted or not (Metropolis and Hastings). Columns are done likewise, with rows and columns
exchanged.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from boolweave.completion.kernels.channels import (
    LEAST,
    PER_UNIT,
    REACH,
    log_normal,
    normal_between,
)
from boolweave.completion.kernels.random import normal, seeded, uniform
from boolweave.engine.kernels.jit import njit
from boolweave.runtime.types import Floats, Integers

ROOT_TAU = 1.0 / math.sqrt(2.0 * math.pi)


class Lines(NamedTuple):
    """The entries of the rows, or of the columns, one after another."""

    indptr: Integers  # (lines + 1,) int64
    other: Integers  # (entries,) int32, the line that crosses it there
    level: Integers  # (entries,) uint8, what was seen
    place: Integers  # (entries,) int64, its place in the order by rows


def slope_table() -> Floats:
    """φ/Φ at −REACH, … , REACH in steps of 1/PER_UNIT, and one more."""
    from scipy.special import log_ndtr

    x = np.arange(2 * REACH * PER_UNIT + 2) / PER_UNIT - REACH
    return np.asarray(np.exp(-0.5 * x * x - log_ndtr(x)) * ROOT_TAU)


class Mixed(NamedTuple):
    """What Boolean layers add at an entry, in the order by rows."""

    shift: Floats  # (entries,) float32: their mean
    variance: Floats  # (entries,) float32: their variance


class Link(NamedTuple):
    """What is seen, given the mean of an entry."""

    cuts: Floats  # (levels + 1,) thresholds between levels, from −∞ to ∞
    slopes: Floats  # φ/Φ from −REACH on, in steps of 1/PER_UNIT
    logs: Floats  # log Φ, likewise


class Draws(NamedTuple):
    """Directions and, last, the offset of lines."""

    center: Floats  # (lines, D), nearly the most probable ones, given all else
    draw: Floats  # (lines, D)


class Prior(NamedTuple):
    """The normal prior of the parameters of lines."""

    mean: Floats  # (lines, D)
    variance: Floats  # (D,)


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz", "arcp"})
def _regress(
    precision: Floats, target: Floats, line: int, own: Draws, proposal: Floats, state: Any
) -> Any:
    """center = A⁻¹h, proposal ~ N(A⁻¹h, A⁻¹) with A = precision (its lower half), h = target.

    The precision is overwritten by its lower root.
    """
    n = target.shape[0]
    for i in range(n):
        for j in range(i + 1):
            s = precision[i, j]
            for k in range(j):
                s -= precision[i, k] * precision[j, k]
            precision[i, j] = math.sqrt(s) if i == j else s / precision[j, j]
        s = target[i]
        for k in range(i):
            s -= precision[i, k] * target[k]
        target[i] = s / precision[i, i]
    for back in range(n):
        i = n - 1 - back
        state, noise = normal(state)
        s = target[i]
        for k in range(i + 1, n):
            s -= precision[k, i] * own.center[line, k]
            noise -= precision[k, i] * (proposal[k] - own.center[line, k])
        own.center[line, i] = s / precision[i, i]
        proposal[i] = own.center[line, i] + noise / precision[i, i]
    return state


@njit(nogil=True, cache=True, error_model="numpy")
def _log_proposal(root: Floats, at: Floats, center: Floats) -> float:
    """−½ (at − center)ᵀ A (at − center), with the lower root of A."""
    total = 0.0
    for j in range(at.shape[0]):
        s = 0.0
        for i in range(j, at.shape[0]):
            s += root[i, j] * (at[i] - center[i])
        total -= 0.5 * s * s
    return total


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz", "arcp"})
def _log_posterior(
    lines: Lines, link: Link, mixed: Mixed | None, weights: Floats | None, prior: Prior,
    line: int, at: Floats, other: Floats,
) -> float:  # fmt: skip
    """The log-posterior of the parameters of a line, given all else."""
    n = at.shape[0]
    n_directions = n - 1
    binary = link.cuts.shape[0] == 3
    total = 0.0
    for i in range(n):
        total -= 0.5 * (at[i] - prior.mean[line, i]) ** 2 / prior.variance[i]
    for e in range(lines.indptr[line], lines.indptr[line + 1]):
        column = lines.other[e]
        mean = at[n_directions] + other[column, n_directions]
        for i in range(n_directions):
            mean += at[i] * other[column, i]
        scale = 1.0
        if mixed is not None:
            mean += mixed.shift[lines.place[e]]
            scale = 1.0 / math.sqrt(1.0 + mixed.variance[lines.place[e]])
        level = lines.level[e]
        if binary:
            log = log_normal(mean * scale if level == 1 else -mean * scale, link.logs)
        else:
            low, high = (link.cuts[level] - mean) * scale, (link.cuts[level + 1] - mean) * scale
            log = math.log(max(normal_between(low, high), LEAST))
        total += log if weights is None else log * weights[lines.place[e]]
    return total


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def slope_at(x: float, table: Floats) -> float:
    """φ(x)/Φ(x), the derivative of log Φ, by linear interpolation."""
    if x >= REACH:
        return 0.0
    if x <= -REACH:
        return -x - 1.0 / x
    place = (x + REACH) * PER_UNIT
    i = int(place)
    part = place - i
    return table[i] * (1.0 - part) + table[i + 1] * part


@njit(nogil=True, cache=True, error_model="numpy")
def level_slopes(low: float, high: float) -> tuple[float, float]:
    """Slope and curvature of log (Φ(high) − Φ(low)) when both move by −x."""
    chance = max(normal_between(low, high), LEAST)
    at_low = math.exp(-0.5 * low * low) * ROOT_TAU if low > -math.inf else 0.0
    at_high = math.exp(-0.5 * high * high) * ROOT_TAU if high < math.inf else 0.0
    slope = (at_low - at_high) / chance
    bend = 0.0
    if at_low > 0.0:
        bend -= low * at_low
    if at_high > 0.0:
        bend += high * at_high
    return slope, min(max(slope * slope + bend / chance, 0.0), 1.0)


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz", "arcp"})
def draw_lines(
    lines: Lines, link: Link, mixed: Mixed | None, weights: Floats | None, prior: Prior,
    own: Draws, other: Floats, seed: int, first: int, last: int,
) -> None:  # fmt: skip
    """Draw the parameters of the lines from first to last, in place.

    Parameters
    ----------
    lines : Lines
    link : Link
    mixed : Mixed, optional
    weights : (entries,), optional, how often an entry counts, in the order by rows
    prior : Prior
    own : Draws; updated
    other : (other lines, D), likewise
    seed : whole number, another for every draw
    """
    n = own.center.shape[1]
    n_directions = n - 1
    binary = link.cuts.shape[0] == 3
    precision = np.empty((n, n))
    target = np.empty(n)
    proposal = np.empty(n)
    known = np.empty(n)
    known[n_directions] = 1.0
    for line in range(first, last):
        begin, end = lines.indptr[line], lines.indptr[line + 1]
        if begin == end:
            continue
        for i in range(n):
            target[i] = prior.mean[line, i] / prior.variance[i]
            for j in range(i):
                precision[i, j] = 0.0
            precision[i, i] = 1.0 / prior.variance[i]
        for e in range(begin, end):
            at = lines.other[e]
            mean = own.center[line, n_directions]
            for i in range(n_directions):
                known[i] = other[at, i]
                mean += own.center[line, i] * known[i]
            rest = other[at, n_directions]
            scale = 1.0
            if mixed is not None:
                rest += mixed.shift[lines.place[e]]
                scale = 1.0 / math.sqrt(1.0 + mixed.variance[lines.place[e]])
            level = lines.level[e]
            if binary:
                x = (mean + rest) * scale if level == 1 else -(mean + rest) * scale
                slope = slope_at(x, link.slopes)
                weight = slope * (slope + x)
                slope = slope if level == 1 else -slope
            else:
                low = (link.cuts[level] - mean - rest) * scale
                slope, weight = level_slopes(low, (link.cuts[level + 1] - mean - rest) * scale)
            slope *= scale
            weight *= scale * scale
            if weights is not None:
                slope *= weights[lines.place[e]]
                weight *= weights[lines.place[e]]
            pull = weight * mean + slope
            for i in range(n):
                target[i] += pull * known[i]
                share = weight * known[i]
                for j in range(i + 1):
                    precision[i, j] += share * known[j]
        state = _regress(precision, target, line, own, proposal, seeded(seed, line))
        gain = _log_posterior(lines, link, mixed, weights, prior, line, proposal, other)
        gain -= _log_posterior(lines, link, mixed, weights, prior, line, own.draw[line], other)
        gain += _log_proposal(precision, own.draw[line], own.center[line])
        gain -= _log_proposal(precision, proposal, own.center[line])
        state, u = uniform(state)
        if math.log(u) < gain:
            own.draw[line] = proposal


@njit(nogil=True, cache=True, error_model="numpy")
def entry_means(lines: Lines, own: Floats, other: Floats, out: Floats) -> None:
    """out (entries,) = offsets and directions of the rows and columns of all entries."""
    n_directions = own.shape[1] - 1
    for line in range(own.shape[0]):
        for e in range(lines.indptr[line], lines.indptr[line + 1]):
            at = lines.other[e]
            s = own[line, n_directions] + other[at, n_directions]
            for i in range(n_directions):
                s += own[line, i] * other[at, i]
            out[e] = s
