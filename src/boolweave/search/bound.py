"""A proven lower bound on the cost of every OR-product of K factors.

The bound is the dual of a linear program over all tiles t = (x, y), a set of rows times a set of
columns, of which K are chosen. Let c_ij be the number of chosen tiles that cover entry (i, j), and
n_j the number of those that have column j. Every product of K tiles satisfies

- a one (i, e) is covered or missed: missed_ie >= 1 - c_ie;
- a zero (i, j) is covered at most K times: false_ij >= c_ij / K;
- if a column is used, then a zero of it is covered, or a tile has the column without that row:
  false_ij >= c_ij - n_j + 1 - unused_j, and an unused column misses all its ones.

The prices of these inequalities (`price`, the rest of a zero's weight, and `column`) sum to at most
the weight of the entry. A fourth kind of price contributes most: part of a zero's weight is given
to the ones of its row, pair[i, j, e] to the one e. For a one that it covers, a tile gets the price
of the one reduced by the zeros that it covers in this row, max(0, price - sum of pair). However
tiles overlap, those that cover a row together get at least the prices of the ones they cover minus
the weights of the zeros they cover, which is all that the proof needs:

    cost >= sum of prices - K * (largest gain of a single tile).

For given columns y, each row can be decided separately, so that the best tile is found by trying
all 2^N patterns y. The prices are improved by smoothed subgradient steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from boolweave.runtime.types import Array, Floats, Integers
from boolweave.search.kernels import bounds as kernels
from boolweave.search.kernels.bounds import Gains

# Number of additions to spend by default: about two seconds on one thread.
MAX_WORK = 1.5e10

# Larger tables are not even merged, because sorting their rows would take too long.
MAX_ENTRIES = 500_000


def lower_bound(
    ones: Array,
    zeros: Array,
    n_components: int,
    false_one_weight: float = 1.0,
    weights: Array | None = None,
    factors: tuple[Array, Array] | None = None,
    upper: float = math.inf,
    max_work: float = MAX_WORK,
    near: float = 0.0,
) -> float:
    """Return a lower bound of the cost of every OR product of `n_components` factors.

    Parameters
    ----------
    ones, zeros : (M, N) arrays of bool
        Which entries are observed as one and as zero; the others are missing.
    n_components : int
        K.
    false_one_weight : float, default=1
        Cost of a zero that the product covers; inf if none may be covered.
    weights : (M, N) array of float, optional
        Non-negative weights of the entries.
    factors : (X, Y), optional
        Good factors, (M, K) and (K, N) of 0 and 1, from which the bound is reached sooner.
    upper : float, default=inf
        The cost of some product: the work ends when the bound reaches it.
    max_work : float, default=1.5e10
        Number of additions to spend. The bound depends on this number and not on time.
    near : float, default=0
        After a tenth of the work, the bound must be at least this fraction of `upper`. Otherwise it
        will not reach `upper`, and the work ends.

    Returns
    -------
    bound : float
        0 if nothing better is known.

    Examples
    --------
    Four ones, no two of which fit into one factor, cost two factors at least two errors:

    >>> import numpy as np
    >>> from boolweave.search.bound import lower_bound
    >>> ones = np.eye(4, dtype=bool)
    >>> lower_bound(ones, ~ones, n_components=2)
    2.0
    """
    if np.size(ones) > MAX_ENTRIES:
        return 0.0
    signed = _signed_weights(ones, zeros, false_one_weight, weights)
    blocks = _blocks(_merged(_Part(signed, factors)), n_components, max_work)
    unit = _unit(signed)
    total = 0.0
    for block in blocks:
        alone = upper if len(blocks) == 1 else math.inf
        ascent = Ascent(block.signed, n_components, block.factors, alone, unit)
        total += ascent.run(max_work / len(blocks), near)
    return min(total, upper)


def is_cheap(
    ones: Array,
    zeros: Array,
    n_components: int,
    false_one_weight: float = 1.0,
    weights: Array | None = None,
    max_work: float = MAX_WORK,
) -> bool:
    """Whether `lower_bound` can process the whole table at once within `max_work` additions.

    The weights matter because rows and columns are merged only if their weights are equal, too.

    Otherwise the table is divided into blocks of columns, and the bound is weaker, or 0.
    """
    if np.size(ones) > MAX_ENTRIES:
        return False
    signed = _signed_weights(ones, zeros, false_one_weight, weights)
    table = _merged(_Part(signed, None)).signed
    return min(table.shape) <= n_components or _is_affordable(table, table.shape[1], max_work)


@dataclass(frozen=True)
class _Part:
    """A table of signed weights, (R, N), and factors of it, (R, K) and (K, N)."""

    signed: Floats
    factors: tuple[Array, Array] | None

    def rows(self, index: Array) -> _Part:
        """The part of some rows."""
        factors = None if self.factors is None else (self.factors[0][index], self.factors[1])
        return _Part(self.signed[index], factors)

    def transposed(self) -> _Part:
        """Rows as columns."""
        factors = None if self.factors is None else (self.factors[1].T, self.factors[0].T)
        return _Part(self.signed.T, factors)


def _signed_weights(
    ones: Array, zeros: Array, false_one_weight: float, weights: Array | None
) -> Floats:
    """The cost of an error at each entry (M, N): positive at ones, negative at zeros, else 0.

    A zero costs at most as much as the ones of its row, or of its column, together, because giving
    up the row or the column is not worse than covering the zero.
    """
    weight = np.ones(np.shape(ones)) if weights is None else np.asarray(weights, float)
    one = np.where(ones, weight, 0.0)
    limit = np.minimum(one.sum(axis=1)[:, None], one.sum(axis=0))
    is_zero = np.asarray(zeros, bool) & (weight > 0)
    cost = np.multiply(weight, false_one_weight, out=np.zeros_like(one), where=is_zero)
    signed: Floats = one - np.minimum(cost, limit)
    return signed


def _merged(part: _Part) -> _Part:
    """The table without empty rows and columns, with equal ones merged; columns are fewer.

    Some best product has equal factors in equal rows, and none in rows without ones.
    """
    for _ in range(2):
        part = part.rows(np.flatnonzero((part.signed > 0).any(axis=1)))
        if part.signed.size:
            _, first, count = np.unique(part.signed, axis=0, return_index=True, return_counts=True)
            part = part.rows(first)
            part = _Part(part.signed * count[:, None], part.factors)
        part = part.transposed()
    n_rows, n_columns = part.signed.shape
    return part if n_rows >= n_columns else part.transposed()


def _unit(signed: Floats) -> float:
    """A number of which all costs are multiples: 1, 1/2 or 1/4; 0 if it is none of them."""
    for unit in (1.0, 0.5, 0.25):
        if (signed % unit == 0).all():
            return unit
    return 0.0


def _is_affordable(table: Floats, n_columns: int, max_work: float) -> bool:
    """Whether good prices for a block of `n_columns` columns of the table can be found."""
    # With fewer evaluations of all patterns than this, the prices remain too bad to be useful.
    min_evaluations = 25
    return work_of_evaluation(table > 0, n_columns) * min_evaluations <= max_work


def _blocks(part: _Part, n_components: int, max_work: float) -> list[_Part]:
    """Affordable blocks of columns: the costs of their best products sum to a bound.

    Blocks that `n_components` factors explain without an error are left out.
    """
    n_columns = part.signed.shape[1]
    if n_columns <= n_components:
        return []
    n_blocks = 1
    while not _is_affordable(part.signed, -(-n_columns // n_blocks), max_work / n_blocks):
        n_blocks += 1
        if n_columns < n_blocks * (n_components + 1):
            return []
    if n_blocks == 1:
        return [part]
    columns = np.array_split(np.arange(n_columns), n_blocks)
    parts = [_merged(part.transposed().rows(index).transposed()) for index in columns]
    return [block for block in parts if min(block.signed.shape) > n_components]


# ---------------------------------------------------------------- prices


Prices = tuple[Floats, Floats, Floats]

# Softness of the maximum over tiles, as a part of it: at most and at least.
SOFTEST, HARDEST = 0.1, 0.0005


def work_of_evaluation(one: Array, n_columns: int | None = None) -> float:
    """Number of additions to try all patterns of a table, or of `n_columns` of its columns."""
    n = one.shape[1] if n_columns is None else n_columns
    return float(np.count_nonzero(one) * n / one.shape[1] * 2.0**n)


class Ascent:
    """Prices of one table, and the best bound so far.

    Parameters
    ----------
    signed : (R, N) array
        Cost of an error, positive at ones and negative at zeros; more than K rows and columns.
    n_components : int
        K.
    factors : (X, Y) or None
        Factors to start from, (R, K) and (K, N). If None, tiles are chosen greedily.
    upper : float
        The cost of some product, at which the ascent ends; inf if none is known.
    unit : float
        A number of which all costs are multiples, or 0.
    """

    def __init__(
        self,
        signed: Floats,
        n_components: int,
        factors: tuple[Array, Array] | None,
        upper: float,
        unit: float,
    ) -> None:
        self.n_components = n_components
        self.unit = unit
        signed = np.ascontiguousarray(signed)
        one, zero = np.maximum(signed, 0.0), np.maximum(-signed, 0.0)
        # Sums stay below 2^30, so that they fit into int32 whatever their sign.
        largest_sum = 2.0**30
        self.scale = 2.0 ** math.floor(math.log2(largest_sum / (one.sum() + 2 * zero.sum())))
        self.one, self.zero = np.floor(one * self.scale), np.floor(zero * self.scale)
        n_columns = signed.shape[1]
        # Patterns of this many columns have tables that fit into the cache of a core.
        low_columns = 7
        self.n_low = min(low_columns, n_columns)
        self.prefixes = np.arange(1 << (n_columns - self.n_low))
        self.value = np.empty(len(self.prefixes), np.int32)
        self.place = np.empty(len(self.prefixes), np.int64)
        self.work = 0.0
        self.best = -math.inf
        if factors is None or len(factors[1]) == 0:
            factors = self._greedy_tiles()
        X, Y = (np.asarray(factor, bool) for factor in factors)
        tiles = np.ascontiguousarray(X.T[:, :, None] & Y[:, None, :])
        cover = tiles.sum(axis=0)
        cost = float(self.one[cover == 0].sum() + self.zero[cover > 0].sum())
        self.upper = min(upper, self._possible(cost / self.scale))
        self.prices = _first_prices(self.one, self.zero, tiles, n_components)
        self.toward = tuple(np.zeros_like(price) for price in self.prices)

    def run(self, max_work: float, near: float = 0.0) -> float:
        """Improve the prices until the bound reaches a known cost or the work is spent.

        See `lower_bound` for `near`.
        """
        # The part of the work, and the number of evaluations, after which the bound must be near.
        first_part, first_evaluations = 0.1, 8
        n_evaluations = 0
        # Factors of the step if the bound rose and if it did not, and limits of the step in units
        # of Polyak's step, the gap divided by the squared length of the gradient.
        rise, fall = 1.4, 0.65
        shortest, longest = 0.01, 2.0
        length = longest / self.n_components
        # At first, for each factor.
        first_softness = 0.015
        softness = min(SOFTEST, first_softness * self.n_components)
        active = np.zeros(0, np.int64)
        # Steps examine this part of the prefixes, and at least this many, of which a third is taken
        # from the last evaluation.
        active_part = 1 / 32
        min_active = 64
        n_active = max(min_active, int(active_part * len(self.prefixes)))
        while True:
            before = self.best
            value = self._evaluate()
            self.best = max(self.best, value)
            n_evaluations += 1
            if self.bound() >= self.upper or self.work >= max_work:
                return self.bound()
            is_late = self.work >= first_part * max_work and n_evaluations >= first_evaluations
            if is_late and self.bound() < near * self.upper:
                return self.bound()
            has_risen = self.best > before
            length = min(max(length * (rise if has_risen else fall), shortest), longest)
            top = np.argsort(-self.value, kind="stable")[: n_active // 3]
            active = np.concatenate([top, active[~np.isin(active, top)]])[:n_active]
            self._climb(active, length, softness * (1 - self.work / max_work) ** 2)

    def bound(self) -> float:
        """The best bound so far, rounded up to a possible cost."""
        return self._possible(max(0.0, self.best / self.scale))

    def _possible(self, cost: float) -> float:
        """The least possible cost that is not below the given one."""
        # A bound is rounded up to the next possible cost if it exceeds the previous one by this
        # much.
        rounding = 1e-6
        return math.ceil(cost / self.unit - rounding) * self.unit if self.unit else cost

    def _evaluate(self) -> float:
        """The bound of the current prices, from all patterns."""
        gains, _, constant = self._gains()
        kernels.best_patterns(gains, self.n_low, self.prefixes, self.value, self.place)
        self.work += work_of_evaluation(self.one)
        return float(constant - self.n_components * int(self.value.max()))

    def _gains(self) -> tuple[Gains, Floats, int]:
        """The prices as integers, which columns it is best to give up, and the constant part."""
        found: tuple[Gains, Floats, int] = kernels.gains_of(
            self.one, self.zero, self.prices, self.n_components
        )
        return found

    def _climb(self, active: Integers, length: float, softness: float) -> None:
        """Take some steps that examine only the patterns of the active prefixes."""
        value, place = np.empty(len(active), np.int32), np.empty(len(active), np.int64)
        # Part of the old direction that is kept at each step.
        memory = 0.9
        # Number of steps between two evaluations of all patterns.
        steps = 10
        for _ in range(steps):
            gains, is_given_up, constant = self._gains()
            kernels.best_patterns(gains, self.n_low, active, value, place)
            gap = self.upper * self.scale - (constant - self.n_components * int(value.max()))
            if gap <= 0:
                break
            # Use an average of good tiles instead of the best one (Nesterov's smoothing): with only
            # the best one, prices would zigzag.
            soft = max(softness, HARDEST) * int(value.max()) + 1.0
            share = np.exp((value - float(value.max())) / soft)
            is_near = share > np.exp(-5)
            patterns = ((active << self.n_low) | place)[is_near]
            tile = kernels.average_tile(gains, patterns, share[is_near] / share[is_near].sum())
            square = kernels.turn(
                self.one, self.zero, tile, is_given_up, self.n_components, memory, self.toward
            )
            size = length * gap / max(square, 1.0)
            kernels.move(self.one, self.zero, self.prices, self.toward, size)
        n_ones, n_columns = np.count_nonzero(self.one), self.one.shape[1]
        tables = (len(active) + 1) << self.n_low
        pairs = (len(active) + 40) * self.one.size * n_columns
        # Time of the calls of a step, in additions.
        calls = 2e6
        self.work += steps * (n_ones * tables + pairs + calls)

    def _greedy_tiles(self) -> tuple[Array, Array]:
        """Choose K tiles one by one, each the best one for the entries that are not covered yet."""
        n_rows, n_columns = self.one.shape
        X = np.zeros((n_rows, self.n_components), bool)
        Y = np.zeros((self.n_components, n_columns), bool)
        one, zero = self.one.copy(), self.zero.copy()
        for k in range(self.n_components):
            gains = (
                one.astype(np.int32),
                np.zeros((n_rows, n_columns, n_columns), np.int32),
                zero.astype(np.int32),
                np.zeros(n_columns, np.int32),
            )
            kernels.best_patterns(gains, self.n_low, self.prefixes, self.value, self.place)
            self.work += work_of_evaluation(one)
            prefix = int(self.value.argmax())
            pattern = (prefix << self.n_low) | int(self.place[prefix])
            Y[k] = (pattern >> np.arange(n_columns)) & 1
            X[:, k] = (one - zero)[:, Y[k]].sum(axis=1) > 0
            one[np.ix_(X[:, k], Y[k])] = 0
            zero[np.ix_(X[:, k], Y[k])] = 0
        return X, Y


def _first_prices(one: Floats, zero: Floats, tiles: Array, n_components: int) -> Prices:
    """Prices that would be optimal for the given tiles (K, R, N) if there were no others.

    With one factor, they are optimal, because the gain of a tile is what it saves.

    All tiles have the same gain, that of the smallest tile from the ones that it alone covers;
    missed ones have their full price. The weight of a zero is distributed over the ones of its row
    in proportion to their prices; if the zero is covered, over the ones that no tile covers without
    it.
    """
    n_columns = one.shape[1]
    pair = np.zeros((*one.shape, n_columns))
    if n_components == 1:
        return one.copy(), pair, np.zeros_like(zero)
    cover = tiles.sum(axis=0)
    alone = np.array([one[tile & (cover == 1)].sum() for tile in tiles])
    false = np.array([(zero / np.maximum(cover, 1))[tile].sum() for tile in tiles])
    gain = max(0.0, (alone - false).min())
    part = np.minimum(1.0, (gain + false) / np.maximum(alone, 1.0))
    # Initial part of the weight of a zero for its column, and price of a one that is covered twice.
    first_column = 0.01
    first_twice = 0.05
    price = np.where(cover == 0, one, first_twice * one)
    for tile, factor in zip(tiles, part, strict=True):
        price = np.where(tile & (cover == 1), factor * one, price)
    for j in range(n_columns):
        is_without = (tiles & ~tiles[:, :, j : j + 1]).any(axis=0)
        is_false = (cover[:, j : j + 1] > 0) & (zero[:, j : j + 1] > 0)
        share = price * np.where(is_false, (cover > 0) & ~is_without, True)
        total = np.maximum(share.sum(axis=1, keepdims=True), 1.0)
        pair[:, j] = (1 - first_column) * zero[:, j : j + 1] * share / total
    return price, pair, first_column * zero
