"""All factors of one line at a time, with fixed patterns: the row step and the column step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from boolweave.engine.kernels.jit import njit
from boolweave.search.kernels.bits import (
    ONE,
    ZERO,
    clear,
    contains,
    copy,
    flip,
    lowest,
    popcount,
)
from boolweave.search.kernels.factors import sum_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.search.kernels.bits import Words
    from boolweave.search.kernels.factors import Entries

# Up to this many factors, all 2^K sets of factors are tried for each line.
MOST_EXACT = 12


@njit(cache=True, nogil=True)
def _cost_of_line(entries: Entries, false_weight: float, line: int, covered: Words) -> float:
    """The cost of a line if these of its entries are covered."""
    ones, zeros, weights = entries
    missed, false = 0.0, 0.0
    for w in range(covered.shape[0]):
        one, zero = ones[line, w] & ~covered[w], zeros[line, w] & covered[w]
        if weights.shape[0] == 0:
            missed += popcount(one)
            false += popcount(zero)
        else:
            missed += sum_of(weights, line, w, one)
            false += sum_of(weights, line, w, zero)
    return missed + false_weight * false


@njit(cache=True, nogil=True)
def _cover(patterns: Words, members: Words, xor: bool, covered: Words) -> None:
    """Set what the members (words of K) cover together."""
    clear(covered)
    for j in range(members.shape[0]):
        left = members[j]
        while left != ZERO:
            k = 64 * j + lowest(left)
            left &= left - ONE
            for w in range(covered.shape[0]):
                if xor:
                    covered[w] ^= patterns[k, w]
                else:
                    covered[w] |= patterns[k, w]


@njit(cache=True, nogil=True)
def _flip_while_better(
    entries: Entries, false_weight: float, xor: bool, line: int, patterns: Words, members: Words,
    covered: Words,
) -> float:  # fmt: skip
    """Add or remove the factor that saves most, or exchange two, until nothing helps."""
    K = patterns.shape[0]
    _cover(patterns, members, xor, covered)
    best = _cost_of_line(entries, false_weight, line, covered)
    while best > 0:
        first, second, least = -1, -1, best
        for k in range(K):
            flip(members, k)
            _cover(patterns, members, xor, covered)
            now = _cost_of_line(entries, false_weight, line, covered)
            if now < least:
                first, second, least = k, -1, now
            flip(members, k)
        if first < 0:
            for k in range(K):
                if not contains(members, k):
                    continue
                flip(members, k)
                for j in range(K):
                    if j == k or contains(members, j):
                        continue
                    flip(members, j)
                    _cover(patterns, members, xor, covered)
                    now = _cost_of_line(entries, false_weight, line, covered)
                    if now < least:
                        first, second, least = k, j, now
                    flip(members, j)
                flip(members, k)
        if first < 0:
            break
        flip(members, first)
        if second >= 0:
            flip(members, second)
        best = least
    return best


@njit(cache=True, nogil=True)
def _try_all(
    entries: Entries, false_weight: float, xor: bool, line: int, patterns: Words, covered: Words
) -> tuple[float, np.uint64]:
    """Try all sets of factors; of equally good ones, the one with fewest factors."""
    K = patterns.shape[0]
    members = np.zeros(1, dtype=np.uint64)
    best, chosen = np.inf, ZERO
    for number in range(1 << K):
        members[0] = np.uint64(number)
        _cover(patterns, members, xor, covered)
        now = _cost_of_line(entries, false_weight, line, covered)
        if now < best or (now == best and popcount(members[0]) < popcount(chosen)):
            best, chosen = now, members[0]
    return best, chosen


@njit(cache=True, nogil=True)
def best_sets(
    entries: Entries, false_weight: float, xor: bool, patterns: Words, members: Words
) -> NDArray[np.float64]:  # fmt: skip
    """Set the factors of each line (L, words of K) to the best ones; return the costs (L,).

    This is exact for few factors. For more, it takes the better of two descents: from the present
    members, and from none. A line keeps its members if others are not better.
    """
    K, n = patterns.shape
    costs = np.zeros(members.shape[0])
    covered = np.zeros(n, dtype=np.uint64)
    new = np.zeros(members.shape[1], dtype=np.uint64)
    for line in range(members.shape[0]):
        _cover(patterns, members[line], xor, covered)
        costs[line] = _cost_of_line(entries, false_weight, line, covered)
        for attempt in range(1 if K <= MOST_EXACT else 2):
            if K <= MOST_EXACT:
                now, new[0] = _try_all(entries, false_weight, xor, line, patterns, covered)
            else:
                clear(new)
                if attempt == 0:
                    copy(members[line], new)
                now = _flip_while_better(entries, false_weight, xor, line, patterns, new, covered)
            if now < costs[line]:
                costs[line] = now
                copy(new, members[line])
    return costs
