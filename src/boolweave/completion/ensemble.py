"""The result of a fit: families of members, how their log-odds are blended, and predictions.

A family is a kind of model (offsets with directions, or offsets with Boolean layers) with some
members; the plain Boolean model may be one more. The log-odds of a one are an intercept plus the
weighted log-odds of each family, whose probability is the mean over its members. Intercept and
weights were fitted to held-out entries. Everything predicts at pairs of a row and a column and, by
products of matrices, in whole rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from boolweave.completion.regressions import AnswerRegressions
from boolweave.completion.table import Pattern
from boolweave.data.observations import Observations
from boolweave.data.questions import Questions
from boolweave.engine.prediction import chances_of_rows
from boolweave.model.odds import log_odds, sigmoid
from boolweave.runtime.types import Array, Doubles, Positions
from boolweave.runtime.words import counted

# The name of the regressions among the models of an ensemble.
REGRESSIONS = "logistic regressions on other answers"

# Number of pairs of a row and a column that are predicted at a time, with a few times 8 bytes each.
PIECE = 1 << 18


def limited_log_odds(probability: Doubles) -> Doubles:
    """Log-odds of probabilities, clipped, because nothing can be that certain."""
    # Log-odds of a probability are clipped here: one certain mistake then costs 13.8.
    largest_log_odds = 13.8
    return log_odds(probability, largest_log_odds)


def chance_of_one(both: Array, product: str = "or") -> Array:
    """P(z = 1) from the probabilities (…, K) that row and column both have each factor."""
    if product == "or":
        return 1 - np.prod(1 - both, axis=-1)
    return (1 - np.prod(1 - 2 * both, axis=-1)) / 2


def chances_in_rows(
    rows: NDArray[np.float32], columns: NDArray[np.float32], product: str = "or"
) -> Doubles:
    """`chance_of_one` of rows (R, K) at all columns (K, N): (R, N)."""
    x, y = (np.ascontiguousarray(side, dtype=np.float64) for side in (rows, columns.T))
    out = np.empty((len(x), len(y)))
    chances_of_rows(product == "xor", x, y, out)
    return out


@dataclass(frozen=True)
class Structure:
    """The parts of a model of a completion: directions and Boolean layers.

    Attributes
    ----------
    n_directions : int
        Number of real directions, along which each row has a position and each column a slope.
    n_layers, n_components : int
        Number of Boolean layers, and of factors of each.
    strength : float
        How far a layer moves the mean of an entry, up or down.
    pattern : bool
        Whether the means of offsets and directions depend on which entries were observed.
    """

    n_directions: int = 0
    n_layers: int = 0
    n_components: int = 4
    strength: float = 0.0
    pattern: bool = False

    @property
    def name(self) -> str:
        """The structure in words."""
        parts = ["offsets", "pattern"] if self.pattern else ["offsets"]
        if self.n_directions:
            parts.append(f"{self.n_directions} direction{'s' * (self.n_directions > 1)}")
        if self.n_layers:
            parts.append(
                f"{self.n_layers} layer{'s' * (self.n_layers > 1)} of {self.n_components} factors "
                f"(strength {self.strength:.2g})"
            )
        return " + ".join(parts)


@dataclass(frozen=True, eq=False)
class LayerFactors:
    """A fitted layer: probabilities of its bits, and how far it moves an entry."""

    rows: NDArray[np.float32]  # (M, K) P(x = 1)
    columns: NDArray[np.float32]  # (K, N) P(y = 1)
    strength: float  # the mean is moved by +strength where z = 1, by −strength where z = 0

    @property
    def n_components(self) -> int:
        """Number of factors K."""
        return self.rows.shape[1]

    def add(self, chance: Array, mean: Array, variance: Array) -> None:
        """Add the contribution of the layer to means and variances, given P(z = 1)."""
        mean += self.strength * (2 * chance - 1)
        variance += 4 * self.strength**2 * chance * (1 - chance)


class Moments(NamedTuple):
    """Mean and variance of the sum of all parts at pairs, each (n,)."""

    mean: Doubles
    variance: Doubles


class Member(NamedTuple):
    """Means and variances over some draws of a chain: everything that predictions need."""

    rows: NDArray[np.float32]  # (M, D): directions and, last, the offset
    row_variance: NDArray[np.float32]  # (M, D)
    columns: NDArray[np.float32]  # (N, D)
    column_variance: NDArray[np.float32]  # (N, D)
    layers: tuple[LayerFactors, ...]
    cuts: Doubles  # (levels + 1,)
    # For new rows: coefficients (F, D) and variances (D,) of rows, and those of columns.
    priors: tuple[Doubles, Doubles, Doubles, Doubles]

    def moments(self, rows: Positions, columns: Positions) -> Moments:
        """Mean and variance of offsets, directions and layers at pairs of positions."""
        u, v = self.rows[rows].astype(np.float64), self.columns[columns].astype(np.float64)
        du, dv = self.row_variance[rows], self.column_variance[columns]
        mean = u[:, -1] + v[:, -1]
        variance = du[:, -1] + dv[:, -1].astype(np.float64)
        u, v, du, dv = u[:, :-1], v[:, :-1], du[:, :-1], dv[:, :-1]
        mean += np.einsum("nd,nd->n", u, v)
        variance += np.einsum("nd,nd->n", u**2, dv) + np.einsum("nd,nd->n", du, v**2 + dv)
        for layer in self.layers:
            layer.add(chance_of_one(layer.rows[rows] * layer.columns[:, columns].T), mean, variance)
        return Moments(mean, np.asarray(variance, dtype=np.float64))

    def probabilities(self, rows: Positions, columns: Positions, cut: int = 1) -> Doubles:
        """P(the observed level is at least `cut`) at pairs of positions, (n,)."""
        out = np.empty(len(rows))
        for start in range(0, len(rows), PIECE):
            some = slice(start, start + PIECE)
            mean, variance = self.moments(rows[some], columns[some])
            out[some] = ndtr((mean - self.cuts[cut]) / np.sqrt(1 + variance))
        return out

    def row_probabilities(self, rows: Positions, cut: int = 1) -> Doubles:
        """The same for rows at all columns, (R, N)."""
        u, v = self.rows[rows].astype(np.float64), self.columns.astype(np.float64)
        du, dv = self.row_variance[rows].astype(np.float64), self.column_variance.astype(np.float64)
        mean = u[:, -1:] + v[:, -1] - self.cuts[cut]
        variance = du[:, -1:] + dv[:, -1] + 1
        u, v, du, dv = u[:, :-1], v[:, :-1], du[:, :-1], dv[:, :-1]
        mean += u @ v.T
        variance += u**2 @ dv.T
        variance += du @ (v**2 + dv).T
        for layer in self.layers:
            layer.add(chances_in_rows(layer.rows[rows], layer.columns), mean, variance)
        mean /= np.sqrt(variance, out=variance)
        out: Doubles = ndtr(mean, out=mean)
        return out


@dataclass(frozen=True, eq=False)
class Family:
    """Members of a completion that have the same structure."""

    structure: Structure
    members: tuple[Member, ...]
    weight: float

    def by_member(self, rows: Positions, columns: Positions, cut: int) -> Doubles:
        """P(o = 1) at pairs by each member, (members, n)."""
        return np.array([member.probabilities(rows, columns, cut) for member in self.members])

    def row_mean(self, rows: Positions, cut: int) -> Doubles:
        """P(o = 1) of rows at all columns, the mean over the members, (R, N)."""
        total = self.members[0].row_probabilities(rows, cut)
        for member in self.members[1:]:
            total += member.row_probabilities(rows, cut)
        total /= len(self.members)
        return total


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
        return self._observed(chance_of_one(both, self.product))

    def row_probabilities(self, rows: Positions) -> Doubles:
        """P(o = 1) of rows at all columns, (R, N)."""
        return self._observed(chances_in_rows(self.rows[rows], self.columns, self.product))

    def _observed(self, chance: Doubles) -> Doubles:
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
    questions: Questions | None = None  # of an encoded table
    regressions: AnswerRegressions | None = None

    def __repr__(self) -> str:
        n_members = sum(len(family.members) for family in self.families)
        size = f"{self.shape[0]:,} rows × {self.shape[1]:,} columns"
        return f"Ensemble({self.name}; {counted(n_members, 'member')}, {size})"

    @property
    def name(self) -> str:
        """The models in words."""
        names = [family.structure.name for family in self.families]
        if self.plain is not None:
            K = self.plain.rows.shape[1]
            names.append(f"Boolean product of {K} {'factor' if K == 1 else 'factors'}")
        if self.regressions is not None:
            names.append(REGRESSIONS)
        return ", blended with ".join(names)

    def log_odds(self, rows: Positions, columns: Positions) -> Doubles:
        """Log-odds of a one at pairs, (n,)."""
        if self.questions is None:
            return self.blended_log_odds(rows, columns)
        return limited_log_odds(self.probabilities(rows, columns))

    def blended_log_odds(self, rows: Positions, columns: Positions) -> Doubles:
        """Log-odds of a one at pairs, (n,), each column by itself."""
        return self._blended(
            np.full(len(rows), self.intercept),
            lambda family: family.by_member(rows, columns, self.cut).mean(axis=0),
            lambda plain: plain.probabilities(rows, columns),
            lambda regressions: regressions.log_odds_at(rows, columns),
        )

    def _blended(
        self,
        total: Doubles,
        of_family: Callable[[Family], Doubles],
        of_plain: Callable[[PlainBoolean], Doubles],
        of_regressions: Callable[[AnswerRegressions], Doubles],
    ) -> Doubles:
        """Add the weighted log-odds of all models to `total`."""
        for family in self.families:
            total += family.weight * limited_log_odds(of_family(family))
        if self.plain is not None:
            total += self.plain.weight * limited_log_odds(of_plain(self.plain))
        if self.regressions is not None:
            total += self.regressions.weight * of_regressions(self.regressions)
        return total

    def probabilities(self, rows: Positions, columns: Positions) -> Doubles:
        """P(o = 1) at pairs, (n,); of an encoded table, whole answers are consistent."""
        if self.questions is None:
            return sigmoid(self.blended_log_odds(rows, columns))
        lines, place = np.unique(rows, return_inverse=True)
        out = np.empty(len(rows))
        for some, chance in self.row_pieces(lines):
            inside = (place >= some.start) & (place < some.stop)
            out[inside] = chance[place[inside] - some.start, columns[inside]]
        return out

    def row_probabilities(self, rows: Positions) -> Doubles:
        """P(o = 1) of rows at all columns, (R, N).

        This is the same as `probabilities` of all these pairs, but faster. It takes a few arrays of
        the size of the answer; `row_pieces` processes many rows in bounded memory.

        Examples
        --------
        >>> import numpy as np
        >>> from boolweave import Observations
        >>> from boolweave.completion.chain import Chain
        >>> from boolweave.completion.ensemble import Ensemble, Family, Structure
        >>> from boolweave.completion.table import Table
        >>> votes = Observations.from_data([[1, 1, 0], [1, np.nan, 0], [0, 1, np.nan]])
        >>> chain = Chain.start(Table.of(votes), Structure(), np.random.default_rng(0))
        >>> family = Family(Structure(), (chain.member(10, 20),), 1.0)
        >>> chances = Ensemble(votes.shape, (family,), None, 0.0).row_probabilities(
        ...     np.array([1, 2])
        ... )
        >>> chances.shape, bool(chances[0, 1] > chances[0, 2])
        ((2, 3), True)
        """
        total = self._blended(
            np.full((len(rows), self.shape[1]), self.intercept),
            lambda family: family.row_mean(rows, self.cut),
            lambda plain: plain.row_probabilities(rows),
            lambda regressions: regressions.log_odds(rows),
        )
        chance = sigmoid(total)
        return chance if self.questions is None else self.questions.consistent(chance)

    def row_pieces(self, rows: Positions) -> Iterator[tuple[slice, Doubles]]:
        """Yield `row_probabilities`, some rows at a time: a slice, and an array (some, N)."""
        step = max(1, PIECE // max(1, self.shape[1]))
        for start in range(0, len(rows), step):
            some = slice(start, min(start + step, len(rows)))
            yield some, self.row_probabilities(rows[some])

    def completed(self, observations: Observations) -> Doubles:
        """The observed values, and P(o = 1) of all other entries of all rows, (M, N)."""
        filled = self.row_probabilities(np.arange(self.shape[0]))
        filled[observations.rows_of_entries(), observations.indices] = observations.values
        return filled

    def spread(self, rows: Positions, columns: Positions) -> Doubles:
        """Standard deviation of the log-odds over the members, (n,)."""
        total = np.zeros(len(rows))
        for family in self.families:
            if len(family.members) > 1:
                odds = limited_log_odds(family.by_member(rows, columns, self.cut))
                total += (family.weight * odds.std(axis=0, ddof=1)) ** 2
        return np.sqrt(total)


@dataclass(frozen=True, eq=False)
class Fitted:
    """The result of a fit."""

    ensemble: Ensemble
    selection: list[dict[str, Any]]
    interrupted: bool
