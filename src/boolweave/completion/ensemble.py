"""The result of a fit: families of members, and how their log-odds are blended.

A family is a kind of model (offsets with directions, or offsets with Boolean layers) with some
members; the plain Boolean model may be one more. The log-odds of a one are an intercept plus the
weighted log-odds of each family, whose probability is the mean over its members. Intercept and
weights were fitted to held-out entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from boolweave.completion.member import probabilities
from boolweave.model.odds import log_odds, sigmoid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.completion.chain import Member, Structure
    from boolweave.completion.features import Pattern

    Doubles = NDArray[np.float64]
    Positions = NDArray[np.intp]

# Log-odds of a probability are clipped here: one certain mistake then costs 13.8.
LARGEST_LOG_ODDS = 13.8


@dataclass(frozen=True, eq=False)
class Family:
    """Members of a completion that have the same structure."""

    structure: Structure
    members: tuple[Member, ...]
    weight: float

    def by_member(self, rows: Positions, columns: Positions, cut: int) -> Doubles:
        """P(o = 1) at pairs by each member, (members, n)."""
        return np.array([probabilities(member, rows, columns, cut) for member in self.members])


@dataclass(frozen=True, eq=False)
class PlainBoolean:
    """The Boolean product of two factors, observed through one channel for all entries."""

    rows: NDArray[np.float32]  # (M, K) P(x = 1)
    columns: NDArray[np.float32]  # (K, N) P(y = 1)
    one_given_zero: float
    one_given_one: float
    product: str  # "or" or "xor"
    weight: float

    def probabilities(self, rows: Positions, columns: Positions) -> Doubles:
        """P(o = 1) at pairs, (n,)."""
        both = self.rows[rows].astype(np.float64) * self.columns[:, columns].T
        if self.product == "or":
            chance = 1 - np.prod(1 - both, axis=1)
        else:
            chance = (1 - np.prod(1 - 2 * both, axis=1)) / 2
        return self.one_given_zero + (self.one_given_one - self.one_given_zero) * chance


@dataclass(frozen=True, eq=False)
class Ensemble:
    """All models of a completion with their weights: everything that predictions need."""

    shape: tuple[int, int]
    families: tuple[Family, ...]
    plain: PlainBoolean | None
    intercept: float
    cut: int = 1  # the lowest level that counts as a one
    pattern: Pattern | None = None  # which entries were seen, if a family uses it

    @property
    def name(self) -> str:
        """The models in words."""
        names = [family.structure.name for family in self.families]
        if self.plain is not None:
            K = self.plain.rows.shape[1]
            names.append(f"Boolean product of {K} {'factor' if K == 1 else 'factors'}")
        return ", blended with ".join(names)

    def log_odds(self, rows: Positions, columns: Positions) -> Doubles:
        """Log-odds of a one at pairs, (n,)."""
        total = np.full(len(rows), self.intercept)
        for family in self.families:
            mean = family.by_member(rows, columns, self.cut).mean(axis=0)
            total += family.weight * limited_log_odds(mean)
        if self.plain is not None:
            total += self.plain.weight * limited_log_odds(self.plain.probabilities(rows, columns))
        return total

    def probabilities(self, rows: Positions, columns: Positions) -> Doubles:
        """P(o = 1) at pairs, (n,)."""
        return sigmoid(self.log_odds(rows, columns))

    def spread(self, rows: Positions, columns: Positions) -> Doubles:
        """Standard deviation of the log-odds over the members, (n,)."""
        total = np.zeros(len(rows))
        for family in self.families:
            if len(family.members) > 1:
                odds = limited_log_odds(family.by_member(rows, columns, self.cut))
                total += (family.weight * odds.std(axis=0, ddof=1)) ** 2
        return np.sqrt(total)


def limited_log_odds(probability: Doubles) -> Doubles:
    """Log-odds of probabilities, clipped, because nothing can be that certain."""
    return log_odds(probability, LARGEST_LOG_ODDS)
