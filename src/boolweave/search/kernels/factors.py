"""Factors of a bit-packed table, by rows and by columns: their cost, and the best ones of a line.

A table has two sides, its rows and its columns, with the same layout: a kernel treats the columns
like the rows when it is given the other side. `Side.once` and `Side.twice` say which entries are
covered by at least one and by at least two factors; with the product XOR, `once` is the parity of
the factors that cover an entry, and `twice` is not used.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from boolweave.engine.kernels.bits import (
    ONE,
    ZERO,
    Words,
    clear,
    contains,
    copy,
    flip,
    lowest,
    members,
    n_words,
    popcount,
)
from boolweave.engine.kernels.jit import njit


class Entries(NamedTuple):
    """The observed entries of one side; L lines, each with n entries."""

    ones: Words  # (L, words of n)
    zeros: Words  # (L, words of n)
    weights: NDArray[np.float64]  # (L, n), or (0, 0) if all weights are 1


class Table(NamedTuple):
    """The table that is to be explained."""

    rows: Entries
    columns: Entries
    false_weight: float  # the cost of a false one relative to a missed one
    xor: bool


class Side(NamedTuple):
    """The factors from the view of one side; L lines, each with n entries."""

    members: Words  # (L, words of K): the factors of each line
    patterns: Words  # (K, words of n): the entries of each factor
    once: Words  # (L, words of n)
    twice: Words  # (L, words of n)


class Factors(NamedTuple):
    """K factors; `columns.patterns` holds the rows of each factor, `rows.patterns` the columns."""

    rows: Side
    columns: Side


class Tile(NamedTuple):
    """A set of rows and a set of columns."""

    x: Words  # (words of M,)
    y: Words  # (words of N,)


def empty_factors(shape: tuple[int, int], n_components: int) -> Factors:
    """Make `n_components` empty factors."""

    def side(n_lines: int, n_entries: int) -> Side:
        def words(lines: int, n: int) -> Words:
            return np.zeros((lines, n_words(n)), dtype=np.uint64)

        covered = words(n_lines, n_entries), words(n_lines, n_entries)
        return Side(words(n_lines, n_components), words(n_components, n_entries), *covered)

    return Factors(side(*shape), side(*shape[::-1]))


def empty_tile(shape: tuple[int, int]) -> Tile:
    """Make an empty tile."""
    return Tile(*(np.zeros(n_words(n), dtype=np.uint64) for n in shape))


@njit(cache=True, nogil=True)
def recount(side: Side, line: int, xor: bool) -> None:
    """Set `once` and `twice` of a line."""
    once, twice = side.once, side.twice
    n = once.shape[1]
    for w in range(n):
        once[line, w] = ZERO
        twice[line, w] = ZERO
    for j in range(side.members.shape[1]):
        left = side.members[line, j]
        while left != ZERO:
            k = 64 * j + lowest(left)
            left &= left - ONE
            for w in range(n):
                pattern = side.patterns[k, w]
                if xor:
                    once[line, w] ^= pattern
                else:
                    twice[line, w] |= once[line, w] & pattern
                    once[line, w] |= pattern


@njit(cache=True, nogil=True)
def recount_lines(side: Side, lines: Words, xor: bool) -> None:
    """Set `once` and `twice` of a set of lines."""
    for j in range(lines.shape[0]):
        left = lines[j]
        while left != ZERO:
            recount(side, 64 * j + lowest(left), xor)
            left &= left - ONE


@njit(cache=True, nogil=True)
def recount_all(factors: Factors, xor: bool) -> None:
    """Set `once` and `twice` of all lines."""
    for line in range(factors.rows.once.shape[0]):
        recount(factors.rows, line, xor)
    for line in range(factors.columns.once.shape[0]):
        recount(factors.columns, line, xor)


@njit(cache=True, nogil=True)
def copy_side(source: Side, target: Side) -> None:
    """Copy one side of the factors."""
    for line in range(source.members.shape[0]):
        copy(source.members[line], target.members[line])
        copy(source.once[line], target.once[line])
        copy(source.twice[line], target.twice[line])
    for k in range(source.patterns.shape[0]):
        copy(source.patterns[k], target.patterns[k])


@njit(cache=True, nogil=True)
def copy_factors(source: Factors, target: Factors) -> None:
    """Copy factors."""
    copy_side(source.rows, target.rows)
    copy_side(source.columns, target.columns)


@njit(cache=True, nogil=True)
def sum_of(weights: NDArray[np.float64], line: int, w: int, chosen: np.uint64) -> float:
    """Add the weights of the chosen entries in one word of a line."""
    total = 0.0
    while chosen != ZERO:
        total += weights[line, 64 * w + lowest(chosen)]
        chosen &= chosen - ONE
    return total


@njit(cache=True, nogil=True)
def cost(table: Table, factors: Factors) -> float:
    """Add the weight of missed ones, and the weight of false ones times their cost."""
    ones, zeros, weights = table.rows
    covered = factors.rows.once
    n_lines, n = covered.shape
    if weights.shape[0] == 0:
        n_missed, n_false = 0, 0
        for line in range(n_lines):
            for w in range(n):
                n_missed += popcount(ones[line, w] & ~covered[line, w])
                n_false += popcount(zeros[line, w] & covered[line, w])
        return n_missed + table.false_weight * n_false
    missed, false = 0.0, 0.0
    for line in range(n_lines):
        for w in range(n):
            missed += sum_of(weights, line, w, ones[line, w] & ~covered[line, w])
            false += sum_of(weights, line, w, zeros[line, w] & covered[line, w])
    return missed + table.false_weight * false


@njit(cache=True, nogil=True)
def gains(
    table: Table,
    entries: Entries,
    side: Side,
    k: int,
    pattern: Words,
    lines: Words,
    saved: NDArray[np.float64],
) -> None:
    """Compute what is saved in each line if factor k covers `pattern` there, with others fixed.

    The factors other than k cover what is covered twice, and what is covered once but not by k.
    """
    ones, zeros, weights = entries
    members, own, once, twice = side
    false_weight, xor = table.false_weight, table.xor
    plain = weights.shape[0] == 0
    for j in range(lines.shape[0]):
        left = lines[j]
        while left != ZERO:
            line = 64 * j + lowest(left)
            left &= left - ONE
            keeps = ~ZERO * ((members[line, k >> 6] >> np.uint64(k & 63)) & ONE)
            good, bad = 0.0, 0.0
            for w in range(pattern.shape[0]):
                if xor:
                    others = once[line, w] ^ (own[k, w] & keeps)
                else:
                    others = (once[line, w] & ~(own[k, w] & keeps)) | twice[line, w]
                one, zero = ones[line, w] & pattern[w], zeros[line, w] & pattern[w]
                if plain:
                    good += popcount(one & ~others)
                    bad += popcount(zero & ~others)
                    if xor:
                        good -= popcount(one & others)
                        bad -= popcount(zero & others)
                else:
                    good += sum_of(weights, line, w, one & ~others)
                    bad += sum_of(weights, line, w, zero & ~others)
                    if xor:
                        good -= sum_of(weights, line, w, one & others)
                        bad -= sum_of(weights, line, w, zero & others)
            saved[line] = good - false_weight * bad


@njit(cache=True, nogil=True)
def gain_of_tile(
    table: Table, factors: Factors, k: int, x: Words, y: Words, saved: NDArray[np.float64]
) -> float:
    """Return what is saved if factor k has the rows x and the columns y, instead of none."""
    gains(table, table.rows, factors.rows, k, y, x, saved)
    total = 0.0
    for row in members(x):
        total += saved[row]
    return total


@njit(cache=True, nogil=True)
def loss(table: Table, factors: Factors, k: int, saved: NDArray[np.float64]) -> float:
    """Return the increase of the cost if factor k is dropped."""
    x, y = factors.columns.patterns[k], factors.rows.patterns[k]
    return gain_of_tile(table, factors, k, x, y, saved)


@njit(cache=True, nogil=True)
def _toggle(side: Side, k: int, other_side_pattern: Words, new: Words) -> bool:
    """Add factor k to new lines, remove it from old ones; return whether anything changed."""
    changed = False
    bit = ONE << np.uint64(k & 63)
    for j in range(new.shape[0]):
        left = other_side_pattern[j] ^ new[j]
        while left != ZERO:
            changed = True
            side.members[64 * j + lowest(left), k >> 6] ^= bit
            left &= left - ONE
    return changed


@njit(cache=True, nogil=True)
def install(table: Table, factors: Factors, k: int, tile: Tile, changed: Tile) -> bool:
    """Make a tile factor k; `changed` holds the rows and columns of the old and the new tile."""
    x, y = factors.columns.patterns[k], factors.rows.patterns[k]
    other_rows = _toggle(factors.rows, k, x, tile.x)
    other_columns = _toggle(factors.columns, k, y, tile.y)
    if not other_rows and not other_columns:
        return False
    for j in range(x.shape[0]):
        changed.x[j] = (x[j] | tile.x[j]) if other_columns else (x[j] ^ tile.x[j])
    for j in range(y.shape[0]):
        changed.y[j] = (y[j] | tile.y[j]) if other_rows else (y[j] ^ tile.y[j])
    for j in range(x.shape[0]):
        both = x[j] | tile.x[j]
        x[j] = tile.x[j]
        tile.x[j] = both
    for j in range(y.shape[0]):
        both = y[j] | tile.y[j]
        y[j] = tile.y[j]
        tile.y[j] = both
    recount_lines(factors.rows, changed.x, table.xor)
    recount_lines(factors.columns, changed.y, table.xor)
    copy(tile.x, changed.x)
    copy(tile.y, changed.y)
    return True


# ---------------------------------------------------------------- all factors of one line at a time


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
    entries: Entries,
    false_weight: float,
    xor: bool,
    line: int,
    patterns: Words,
    members: Words,
    covered: Words,
) -> float:
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
) -> NDArray[np.float64]:
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
