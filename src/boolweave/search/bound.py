"""A proven lower bound on the cost of every OR-product of K factors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from boolweave.search.bound_ascent import Ascent, work_of_evaluation

if TYPE_CHECKING:
    from boolweave.runtime.types import Array, Floats

# Number of additions to spend by default: about two seconds on one thread.
MAX_WORK = 1.5e10

# With fewer evaluations of all patterns than this, the prices remain too bad to be useful.
MIN_EVALUATIONS = 25

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
        total += ascent.run(max_work / len(blocks))
    return min(total, upper)


def is_cheap(ones: Array, zeros: Array, n_components: int, max_work: float = MAX_WORK) -> bool:
    """Whether `lower_bound` can process the whole table at once within `max_work` additions.

    Otherwise the table is divided into blocks of columns, and the bound is weaker, or 0.
    """
    if np.size(ones) > MAX_ENTRIES:
        return False
    table = _merged(_Part(_signed_weights(ones, zeros, 1.0, None), None)).signed
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
    return work_of_evaluation(table > 0, n_columns) * MIN_EVALUATIONS <= max_work


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
