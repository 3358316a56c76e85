"""Compiled kernels of the lower bound: the best tile under given prices, and a step of the prices.

A tile is a pattern y of columns with all rows that gain from it. Row i gains

    sum over its ones e in y of max(0, price[i, e] - sum over its zeros j in y of pair[i, j, e])
    - sum over its zeros j in y of cost[i, j],

and a column adds column_gain[j] of its own. All of this is in integers, so that a bound is exact.
A pattern is a number whose bit j is 1 if column j is in it; its low bits index tables, and its high
bits are called the prefix.
"""

import numpy as np

from boolweave.engine.kernels.jit import njit
from boolweave.runtime.types import Floats, Integers

# price (R, N) of ones, pair (R, N, N) of a zero and a one, cost (R, N) of zeros, column_gain (N,).
Gains = tuple[Integers, Integers, Integers, Integers]

# A price that stays negative in every sum, because prices are below 2^30.
NOTHING = np.int32(-(2**30))


@njit(cache=True, nogil=True)
def _tables(gains: Gains, n_low: int) -> tuple[Integers, ...]:
    """Sums over all low patterns, L = 2^n_low of them.

    Returns where the ones of each row begin (R + 1,), the columns of the ones, the remaining price
    of each (ones, L), the cost of the zeros of each row (R, L) and the gain of columns (L,). A low
    one that is not in the pattern has a price so negative that nothing can remain of it.
    """
    price, pair, cost, column_gain = gains
    n_rows, n_columns = price.shape
    length = 1 << n_low
    first = np.zeros(n_rows + 1, np.int64)
    for i in range(n_rows):
        first[i + 1] = first[i]
        for e in range(n_columns):
            if price[i, e] > 0:
                first[i + 1] += 1
    one = np.empty(first[n_rows], np.int64)
    left = np.empty((first[n_rows], length), np.int32)
    zeros = np.zeros((n_rows, length), np.int32)
    columns = np.zeros(length, np.int32)
    for j in range(n_low):
        half = 1 << j
        for pattern in range(half):
            columns[half + pattern] = columns[pattern] + column_gain[j]
    for i in range(n_rows):
        for j in range(n_low):
            half = 1 << j
            for pattern in range(half):
                zeros[i, half + pattern] = zeros[i, pattern] - cost[i, j]
        k = first[i]
        for e in range(n_columns):
            if price[i, e] > 0:
                one[k] = e
                row = left[k]
                row[0] = price[i, e]
                for j in range(n_low):
                    half = 1 << j
                    for pattern in range(half):
                        row[half + pattern] = row[pattern] - pair[i, j, e]
                if e < n_low:
                    for pattern in range(length):
                        if (pattern >> e) & 1 == 0:
                            row[pattern] = NOTHING
                k += 1
    return first, one, left, zeros, columns


@njit(cache=True, nogil=True)
def best_patterns(
    gains: Gains, n_low: int, prefixes: Integers, value: Integers, place: Integers
) -> None:
    """Find the best low pattern of each of some prefixes.

    Writes the gain of the best tile to `value` and its low pattern to `place`, both in the shape of
    the prefixes.
    """
    price, pair, cost, column_gain = gains
    n_rows, n_columns = price.shape
    length = 1 << n_low
    first, one, left, zeros, columns = _tables(gains, n_low)
    sums = np.empty(length, np.int32)
    gain = np.empty(length, np.int32)
    high = np.empty(n_columns, np.int64)
    discount = np.empty(n_columns, np.int32)
    place_of = np.empty(n_columns, np.int64)
    nothing = np.int32(0)
    for index in range(prefixes.shape[0]):
        prefix = prefixes[index]
        n_high = 0
        column_base = np.int32(0)
        for j in range(n_low, n_columns):
            if (prefix >> (j - n_low)) & 1:
                high[n_high] = j
                n_high += 1
                column_base += column_gain[j]
        for pattern in range(length):
            sums[pattern] = columns[pattern] + column_base
        for i in range(n_rows):
            base = np.int32(0)
            for h in range(n_high):
                base -= cost[i, high[h]]
            most = base
            n_left = 0
            for k in range(first[i], first[i + 1]):
                e = one[k]
                if e < n_low or (prefix >> (e - n_low)) & 1:
                    lost = np.int32(0)
                    for h in range(n_high):
                        lost += pair[i, high[h], e]
                    if lost < price[i, e]:
                        discount[n_left] = lost
                        place_of[n_left] = k
                        n_left += 1
                        most += price[i, e] - lost
            if most <= 0:
                continue
            for pattern in range(length):
                gain[pattern] = zeros[i, pattern] + base
            for n in range(n_left):
                row = left[place_of[n]]
                lost = discount[n]
                for pattern in range(length):
                    gain[pattern] += max(nothing, np.int32(row[pattern] - lost))
            for pattern in range(length):
                sums[pattern] += max(nothing, gain[pattern])
        place[index] = np.argmax(sums)
        value[index] = sums[place[index]]


@njit(cache=True, nogil=True)
def average_tile(gains: Gains, patterns: Integers, share: Floats) -> tuple[Floats, Floats, Floats]:
    """The weighted mean of the tiles of some patterns.

    Returns how often the tile covers an entry, (R, N), where a one counts only if its remaining
    price is positive; how often it covers a zero j and such a one e, (R, N, N); and how often it
    has a column, (N,).
    """
    price, pair, cost, _ = gains
    n_rows, n_columns = price.shape
    cover = np.zeros((n_rows, n_columns))
    together = np.zeros((n_rows, n_columns, n_columns))
    used = np.zeros(n_columns)
    column = np.empty(n_columns, np.int64)
    left = np.empty(n_columns, np.int64)
    for index in range(patterns.shape[0]):
        weight = share[index]
        n = 0
        for j in range(n_columns):
            if (patterns[index] >> j) & 1:
                used[j] += weight
                column[n] = j
                n += 1
        for i in range(n_rows):
            gain = 0
            for a in range(n):
                e = column[a]
                left[a] = price[i, e]
                if left[a] > 0:
                    for b in range(n):
                        left[a] -= pair[i, column[b], e]
                gain += max(0, left[a]) - cost[i, e]
            if gain > 0:
                for a in range(n):
                    e = column[a]
                    if price[i, e] == 0:
                        cover[i, e] += weight
                    elif left[a] > 0:
                        cover[i, e] += weight
                        for b in range(n):
                            together[i, column[b], e] += weight
    return cover, together, used


@njit(cache=True, nogil=True)
def turn(
    one: Floats,
    zero: Floats,
    tile: tuple[Floats, Floats, Floats],
    is_given_up: Floats,
    n_components: int,
    memory: float,
    toward: tuple[Floats, Floats, Floats],
) -> float:
    """Turn the direction of ascent toward the gradient at K times the average tile.

    `toward` holds the direction of the prices (R, N), of the pair prices (R, N, N: zero, one) and
    of the column prices (R, N). Returns its squared length in the metric of the weights.
    """
    cover, together, used = tile
    to_price, to_pair, to_column = toward
    n_rows, n_columns = one.shape
    length = 0.0
    for i in range(n_rows):
        for j in range(n_columns):
            covered = cover[i, j] * n_components
            if one[i, j] > 0:
                ahead = memory * to_price[i, j] + (1 - memory) * (1 - covered - is_given_up[j])
                to_price[i, j] = ahead
                length += ahead * ahead * one[i, j]
            elif zero[i, j] > 0:
                alone = covered / n_components
                slope = 1 + covered - alone - used[j] * n_components - is_given_up[j]
                ahead = memory * to_column[i, j] + (1 - memory) * slope
                to_column[i, j] = ahead
                length += ahead * ahead * zero[i, j]
                for e in range(n_columns):
                    if one[i, e] > 0:
                        slope = together[i, j, e] * n_components - alone
                        ahead = memory * to_pair[i, j, e] + (1 - memory) * slope
                        to_pair[i, j, e] = ahead
                        length += ahead * ahead * min(one[i, e], zero[i, j])
    return length


@njit(cache=True, nogil=True)
def move(
    one: Floats,
    zero: Floats,
    prices: tuple[Floats, Floats, Floats],
    toward: tuple[Floats, Floats, Floats],
    step: float,
) -> None:
    """Move the prices along the direction and back into the set of valid prices.

    Prices are valid if 0 <= price <= one, and if the pair prices of a zero and its column price sum
    to at most the weight of the zero.
    """
    price, pair, column = prices
    to_price, to_pair, to_column = toward
    n_rows, n_columns = one.shape
    for i in range(n_rows):
        for j in range(n_columns):
            if one[i, j] > 0:
                moved = price[i, j] + step * one[i, j] * to_price[i, j]
                price[i, j] = min(max(moved, 0.0), one[i, j])
            elif zero[i, j] > 0:
                moved = column[i, j] + step * zero[i, j] * to_column[i, j]
                column[i, j] = min(max(moved, 0.0), zero[i, j])
                for e in range(n_columns):
                    if one[i, e] > 0:
                        scale = step * min(one[i, e], zero[i, j])
                        pair[i, j, e] = max(pair[i, j, e] + scale * to_pair[i, j, e], 0.0)
        # If a sum is too large, two equal cuts (approximately a projection), then a scaling.
        for attempt in range(3):
            for j in range(n_columns):
                if zero[i, j] > 0:
                    total, n = column[i, j], 1
                    for e in range(n_columns):
                        if pair[i, j, e] > 0:
                            total += pair[i, j, e]
                            n += 1
                    if total > zero[i, j]:
                        cut = (total - zero[i, j]) / n
                        factor = zero[i, j] / total
                        if attempt < 2:
                            column[i, j] = max(column[i, j] - cut, 0.0)
                        else:
                            column[i, j] *= factor
                        for e in range(n_columns):
                            if attempt < 2:
                                pair[i, j, e] = max(pair[i, j, e] - cut, 0.0)
                            else:
                                pair[i, j, e] *= factor


@njit(cache=True, nogil=True)
def gains_of(
    one: Floats, zero: Floats, prices: tuple[Floats, Floats, Floats], n_components: int
) -> tuple[Gains, Floats, int]:
    """Round the prices down to integers, which are valid despite rounding errors of the floats.

    Returns the gains of tiles, which columns it is best to give up (N,), and the constant part of
    the bound.
    """
    price, pair, column = prices
    n_rows, n_columns = one.shape
    whole_price = np.zeros((n_rows, n_columns), np.int32)
    whole_pair = np.zeros((n_rows, n_columns, n_columns), np.int32)
    cost = np.zeros((n_rows, n_columns), np.int32)
    column_gain = np.zeros(n_columns, np.int32)
    slack = np.zeros(n_columns, np.int64)
    constant = 0
    for i in range(n_rows):
        for e in range(n_columns):
            whole = min(int(one[i, e]), int(price[i, e]))
            whole_price[i, e] = whole
            constant += whole
            slack[e] += int(one[i, e]) - whole
        for j in range(n_columns):
            if zero[i, j] > 0:
                rest = int(zero[i, j])
                own = min(rest, int(column[i, j]))
                rest -= own
                for e in range(n_columns):
                    if whole_price[i, e] > 0:
                        both = min(rest, int(pair[i, j, e]))
                        rest -= both
                        whole_pair[i, j, e] = both
                cost[i, j] = own + rest // n_components
                constant += own
                column_gain[j] += own
    is_given_up = np.zeros(n_columns)
    for j in range(n_columns):
        if column_gain[j] > slack[j]:
            is_given_up[j] = 1.0
            constant -= column_gain[j] - slack[j]
    return (whole_price, whole_pair, cost, column_gain), is_given_up, constant
