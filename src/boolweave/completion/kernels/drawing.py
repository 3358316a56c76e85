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

# What the compiler may do to sums: other orders, and inverses instead of divisions.
REORDER = {"contract", "reassoc", "nsz", "arcp"}

# What is done for each line is inlined: for lines of few entries the calls, which count references
# to every array that they pass, took more than half of the time.


class Lines(NamedTuple):
    """The entries of the rows, or of the columns, one after another."""

    indptr: Integers  # (lines + 1,) int64
    other: Integers  # (entries,) int32, the line that crosses it there
    level: Integers  # (entries,) uint8, what was seen
    place: Integers  # (entries,) int64, its place in the order by rows


def lines_of(indptr: Integers, other: Integers, level: Integers, place: Integers) -> Lines:
    """Lines of read-only arrays: for others, the kernels would be compiled once more."""
    parts = [np.asarray(part).view() for part in (indptr, other, level, place)]
    for part in parts:
        part.flags.writeable = False
    return Lines(*parts)


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


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy", fastmath=REORDER)
def lower_root(precision: Floats, target: Floats) -> None:
    """Replace A = precision (its lower half) by its lower root R, and h = target by R⁻¹h."""
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


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy", fastmath=REORDER)
def _regress(
    precision: Floats, target: Floats, line: int, own: Draws, proposal: Floats, state: Any
) -> Any:
    """center = A⁻¹h, proposal ~ N(A⁻¹h, A⁻¹) with A = precision (its lower half), h = target.

    The precision is overwritten by its lower root.
    """
    lower_root(precision, target)
    n = target.shape[0]
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


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _log_proposal(root: Floats, at: Floats, center: Floats) -> float:
    """−½ (at − center)ᵀ A (at − center), with the lower root of A."""
    total = 0.0
    for j in range(at.shape[0]):
        s = 0.0
        for i in range(j, at.shape[0]):
            s += root[i, j] * (at[i] - center[i])
        total -= 0.5 * s * s
    return total


class _Scratch(NamedTuple):
    """The entries of one line, one after another, in arrays as long as the longest line."""

    known: Floats  # (D, entries): the parameters of the lines that cross it; 1 for the offset
    rest: Floats  # what does not depend on the line: their offsets, and layers
    scale: Floats  # 1 / standard deviation; of bits negative where a zero was seen
    mean: Floats  # what depends on the line
    weight: Floats
    pull: Floats


@njit(nogil=True, cache=True, error_model="numpy")
def _scratch(n: int, most: int) -> _Scratch:
    known = np.ones((n, most))
    return _Scratch(
        known, np.empty(most), np.empty(most), np.empty(most), np.empty(most), np.empty(most)
    )


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy", fastmath=REORDER)
def _gather(
    lines: Lines,
    mixed: Mixed | None,
    binary: bool,
    begin: int,
    end: int,
    other: Floats,
    to: _Scratch,
) -> None:
    """Put what the entries of a line need side by side."""
    n_directions = other.shape[1] - 1
    for e in range(end - begin):
        at = lines.other[begin + e]
        for i in range(n_directions):
            to.known[i, e] = other[at, i]
        rest = other[at, n_directions]
        scale = 1.0
        if mixed is not None:
            place = lines.place[begin + e]
            rest += mixed.shift[place]
            scale = 1.0 / math.sqrt(1.0 + mixed.variance[place])
        to.rest[e] = rest
        to.scale[e] = scale * (2.0 * lines.level[begin + e] - 1.0) if binary else scale


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy", fastmath=REORDER)
def _set_means(at: Floats, of: _Scratch, n_entries: int) -> None:
    """mean (entries,) = at · known."""
    last = at.shape[0] - 1
    for e in range(n_entries):
        of.mean[e] = at[last]
    for i in range(last):
        for e in range(n_entries):
            of.mean[e] += at[i] * of.known[i, e]


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy", fastmath=REORDER)
def _log_posterior(
    lines: Lines,
    link: Link,
    weights: Floats | None,
    prior: Prior,
    line: int,
    at: Floats,
    of: _Scratch,
) -> float:
    """The log-posterior of the parameters of a line, given all else."""
    begin, end = lines.indptr[line], lines.indptr[line + 1]
    _set_means(at, of, end - begin)
    total = 0.0
    for i in range(at.shape[0]):
        total -= 0.5 * (at[i] - prior.mean[line, i]) ** 2 / prior.variance[i]
    if link.cuts.shape[0] == 3:
        for e in range(end - begin):
            log = log_normal((of.mean[e] + of.rest[e]) * of.scale[e], link.logs)
            total += log if weights is None else log * weights[lines.place[begin + e]]
        return total
    for e in range(end - begin):
        level, mean = lines.level[begin + e], of.mean[e] + of.rest[e]
        low, high = link.cuts[level] - mean, link.cuts[level + 1] - mean
        log = math.log(max(normal_between(low * of.scale[e], high * of.scale[e]), LEAST))
        total += log if weights is None else log * weights[lines.place[begin + e]]
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


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy", fastmath=REORDER)
def _set_slopes(
    lines: Lines, link: Link, weights: Floats | None, begin: int, end: int, of: _Scratch
) -> None:
    """The curvature of each entry, and what it pulls towards, at the present means."""
    binary = link.cuts.shape[0] == 3
    for e in range(end - begin):
        mean, rest, scale = of.mean[e], of.rest[e], of.scale[e]
        if binary:
            x = (mean + rest) * scale
            slope = slope_at(x, link.slopes)
            weight = slope * (slope + x)
        else:
            level = lines.level[begin + e]
            low = (link.cuts[level] - mean - rest) * scale
            slope, weight = level_slopes(low, (link.cuts[level + 1] - mean - rest) * scale)
        slope *= scale
        weight *= scale * scale
        if weights is not None:
            slope *= weights[lines.place[begin + e]]
            weight *= weights[lines.place[begin + e]]
        of.weight[e] = weight
        of.pull[e] = weight * mean + slope


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy", fastmath=REORDER)
def _add_up(
    prior: Prior, line: int, n_entries: int, of: _Scratch, precision: Floats, target: Floats
) -> None:
    """precision (its lower half) = prior + Σ weight · known knownᵀ, target likewise."""
    n = target.shape[0]
    for i in range(n):
        s = 0.0
        for e in range(n_entries):
            s += of.pull[e] * of.known[i, e]
        target[i] = prior.mean[line, i] / prior.variance[i] + s
        for e in range(n_entries):  # means are not needed any more
            of.mean[e] = of.weight[e] * of.known[i, e]
        for j in range(i + 1):
            s = 0.0
            for e in range(n_entries):
                s += of.mean[e] * of.known[j, e]
            precision[i, j] = s
        precision[i, i] += 1.0 / prior.variance[i]


@njit(nogil=True, cache=True, error_model="numpy", fastmath=REORDER)
def draw_lines(
    lines: Lines,
    link: Link,
    mixed: Mixed | None,
    weights: Floats | None,
    prior: Prior,
    own: Draws,
    other: Floats,
    seed: int,
    first: int,
    last: int,
) -> None:
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
    binary = link.cuts.shape[0] == 3
    precision = np.empty((n, n))
    target = np.empty(n)
    proposal = np.empty(n)
    most = 0
    for line in range(first, last):
        most = max(most, lines.indptr[line + 1] - lines.indptr[line])
    entries = _scratch(n, most)
    for line in range(first, last):
        begin, end = lines.indptr[line], lines.indptr[line + 1]
        _gather(lines, mixed, binary, begin, end, other, entries)
        _set_means(own.center[line], entries, end - begin)
        _set_slopes(lines, link, weights, begin, end, entries)
        _add_up(prior, line, end - begin, entries, precision, target)
        state = _regress(precision, target, line, own, proposal, seeded(seed, line))
        gain = _log_posterior(lines, link, weights, prior, line, proposal, entries)
        gain -= _log_posterior(lines, link, weights, prior, line, own.draw[line], entries)
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
