"""The answer of a search as a `Result`, so that it predicts and explains like any other.

The search has no probabilities. They are derived from its answer: the channel is estimated from the
entries where the product of the factors is 0 and where it is 1, and the log-odds of a bit are its
gain in errors, times the log-odds that an error is worth in this channel.

The gain of x_mk is the error with x_mk = 0 minus the error with x_mk = 1, with all other bits
unchanged. To a factor that covers it, a one is worth its weight, a zero is worth minus
`false_one_weight` times its weight, and a missing entry is worth nothing. The gain is

    OR    the worth of the entries of factor k in row m that no other factor covers
    XOR   the worth of those that an even number of other factors covers, minus that of the others

New rows get the factors with the smallest error (`FoldInOfFewestErrors`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boolweave.data.observations import Observations
from boolweave.engine.kernels.bits import Words, pack, unpack
from boolweave.engine.prediction import FixedColumns, FoldIn
from boolweave.engine.result import Ending, Result
from boolweave.model.channel import Channel
from boolweave.model.model import Model
from boolweave.model.products import Product
from boolweave.runtime.threads import cut
from boolweave.runtime.types import Floats
from boolweave.search.kernels.factors import Entries, best_sets

if TYPE_CHECKING:
    from boolweave.search.answer import Answer

# Number of cells of the matrix that are processed at a time, with some 50 bytes of memory for each.
CELLS = 1 << 20


def result_of(
    answer: Answer,
    observations: Observations,
    *,
    product: Product = "or",
    false_one_weight: float = 1.0,
    weights: Floats | None = None,
) -> Result:
    """The answer of a search as a `Result`; an answer without factors has an empty one.

    Parameters
    ----------
    answer : Answer
    observations : Observations
        The observations that were searched.
    product, false_one_weight
        The parameters of the search.
    weights : (n_observed,) array, optional
        The weights of the entries.
    """
    X, Y, redundancy = answer.X, answer.Y, answer.redundancy
    stability: NDArray[np.float64] | None = answer.stability
    if not len(Y):
        X, Y = (np.zeros(shape, dtype=np.uint8) for shape in ((len(X), 1), (1, Y.shape[1])))
        stability, redundancy = np.ones(1), np.zeros(1)
    if answer.n_searches == 1 and (answer.interrupted or answer.passed):
        stability = None  # no other search could find the factors again
    own = observations.values if weights is None else weights * observations.values
    cost_of_false_one = finite_weight(false_one_weight, float(own.sum()))
    gains = gains_of(
        observations, X, Y, product=product, false_one_weight=cost_of_false_one, weights=weights
    )
    channel = channel_of(gains.counts)
    worth, K = error_worth(channel), len(Y)
    ending = Ending.OUT_OF_TIME if answer.passed else Ending.CONVERGED
    if answer.interrupted:
        ending = Ending.INTERRUPTED
    return Result(
        model=Model(K, channel, product=product),
        observations=observations,
        row_log_odds=log_odds(worth * gains.rows, X, K),
        column_log_odds=log_odds(worth * gains.columns, Y, K),
        log_posterior=log_posterior(gains.counts, channel, X.size + Y.size),
        ending=ending,
        n_iter=answer.n_rounds,
        history={"error": answer.history},
        stability=stability,
        cost=float(answer.cost),
        bound=min(float(answer.bound), float(answer.cost)),
        redundancy=redundancy,
    )


def channel_of(counts: Floats) -> Channel:
    """The channel that was observed; `counts` are those of `Gains`."""
    # Number of entries of either value that are added to the observed ones where the product is 0,
    # and where it is 1, so that no probability of the channel is 0 or 1.
    added = 0.5
    zero, one = (counts[1] + added) / (counts.sum(axis=0) + 2 * added)
    return Channel(one_given_zero=float(zero), one_given_one=float(one))


def error_worth(channel: Channel) -> float:
    """The log-odds of one error: half of those that the channel has between 0 and 1.

    In a channel that flips zeros and ones alike, they are log((1 − p) / p).
    """
    one = np.array([channel.one_given_zero, channel.one_given_one], dtype=np.float64)
    zero, above = np.log(one) - np.log1p(-one)
    # An error is worth at least these log-odds, even if the channel is uninformative.
    least_worth = 0.1
    return max(least_worth, float(above - zero) / 2)


def log_odds(gained: Floats, bits: NDArray[np.uint8], n_components: int) -> Floats:
    """The log-odds of bits; `gained` are their gains as log-odds.

    Their signs are those of the bits, even if another bit would be as good. They are at least
    log(2K + 1), so that P(z = 1) is above ½ exactly where the product is 1: if none of K factors
    has both the row and the column, each has them with a probability of at most 1 / (2K + 2).
    """
    size = np.maximum(np.where(bits, gained, -gained), np.log(2 * n_components + 1))
    return np.where(bits, size, -size)


def log_posterior(counts: Floats, channel: Channel, n_bits: int) -> float:
    """log p(X, Y, O) of observed zeros and ones, and of factors with this many bits."""
    one = np.array([channel.one_given_zero, channel.one_given_one], dtype=np.float64)
    likelihood = float((counts[0] * np.log1p(-one) + counts[1] * np.log(one)).sum())
    return likelihood + n_bits * float(np.log(0.5))  # the prior of a bit is one half


# ---------------------------------------------------------------- gains


@dataclass(frozen=True, eq=False)
class Gains:
    """The gains of all bits, and the counts of ones and zeros where the product is 0 and 1.

    Attributes
    ----------
    rows, columns : arrays of shape (M, K) and (K, N)
        The gain of each bit.
    counts : (2, 2) array
        The weight of observed zeros and ones (first axis) where the product is 0 and where it is 1
        (second axis).
    """

    rows: Floats
    columns: Floats
    counts: Floats


def finite_weight(false_one_weight: float, weight_of_ones: float) -> float:
    """`false_one_weight`, or, instead of infinity, more than the weight of all ones."""
    return false_one_weight if np.isfinite(false_one_weight) else weight_of_ones + 1.0


def gains_of(
    observations: Observations,
    X: NDArray[np.uint8],
    Y: NDArray[np.uint8],
    *,
    product: Product = "or",
    false_one_weight: float = 1.0,
    weights: Floats | None = None,
) -> Gains:
    """The gains of the bits of X (M, K) and Y (K, N); `weights` are those of the entries."""
    x, y = X.astype(np.float32), Y.astype(np.float32)
    rows, columns, counts = np.empty(X.shape), np.zeros(Y.shape), np.zeros((2, 2))
    for some, one, zero in _pieces(observations, weights):
        n_covering = x[some] @ y
        z = n_covering % 2 == 1 if product == "xor" else n_covering > 0
        counts += [[zero[~z].sum(), zero[z].sum()], [one[~z].sum(), one[z].sum()]]
        worth = one - false_one_weight * zero
        if product == "xor":
            without, within = np.where(z, -worth, worth), np.where(z, worth, -worth)
        else:
            without, within = worth * (n_covering == 0), worth * (n_covering == 1)
        inside = X[some].astype(bool)
        rows[some] = np.where(inside, within @ y.T, without @ y.T)
        columns += np.where(Y, x[some].T @ within, x[some].T @ without)
    return Gains(rows, columns, counts)


def _pieces(
    observations: Observations, weights: Floats | None
) -> Iterator[tuple[slice, Floats, Floats]]:
    """Weights of the ones and of the zeros, some rows at a time, (some, N) each."""
    n_columns = observations.n_columns
    for some in cut(*observations.shape, CELLS):
        per_row = np.diff(observations.indptr[some.start : some.stop + 1])
        entries = slice(*observations.indptr[[some.start, some.stop]])
        at = np.repeat(np.arange(len(per_row)), per_row), observations.indices[entries]
        weight = 1.0 if weights is None else weights[entries]
        one, zero = np.zeros((2, len(per_row), n_columns))
        one[at] = weight * observations.values[entries]
        zero[at] = weight * (1 - observations.values[entries].astype(np.float64))
        yield some, one, zero


# ---------------------------------------------------------------- new rows


@dataclass(frozen=True, eq=False)
class ColumnsOfFewestErrors(FixedColumns):
    """Fixed column factors; rows are decoded so that their error is smallest.

    Attributes
    ----------
    false_one_weight : float
        The cost of a false one relative to a missed one.
    known : dict
        The factors (K,) that the fit found for rows, by a hash of their entries.
    """

    false_one_weight: float = 1.0
    known: dict[bytes, NDArray[np.uint8]] = field(default_factory=dict)

    @cached_property
    def _patterns(self) -> Words:
        """The packed column factors, (K, words)."""
        return pack(self.bits.T)

    def decode(
        self, piece: Observations, rows: slice, all_priors: Floats
    ) -> tuple[NDArray[np.uint8], Floats]:
        """Factors and log-odds of the rows of a piece, without priors."""
        K, product = self.bits.shape[1], self.model.product
        cost = finite_weight(self.false_one_weight, float(piece.n_columns))
        bits = np.zeros((piece.n_rows, K), dtype=np.uint8)
        for m, key in enumerate(_keys(piece)):
            if key in self.known:
                bits[m] = self.known[key]
        for some in cut(*piece.shape, CELLS):
            bits[some] = self._improved(piece.take_rows(some), bits[some], cost)
        gains = gains_of(piece, bits, self.bits.T, product=product, false_one_weight=cost)
        return bits, log_odds(error_worth(self.model.channel) * gains.rows, bits, K)

    def _improved(
        self, piece: Observations, bits: NDArray[np.uint8], cost: float
    ) -> NDArray[np.uint8]:
        """The factors with the smallest error for each row; known ones if they are as good."""
        dense, no_weights = piece.to_dense(), np.zeros((0, 0))
        entries = Entries(pack(dense == 1), pack(dense == 0), no_weights)
        members = pack(bits)
        best_sets(entries, cost, self.model.product == "xor", self._patterns, members)
        return unpack(members, bits.shape[1])


def _keys(observations: Observations) -> Iterator[bytes]:
    """A hash of the entries of each row."""
    columns, values = observations.indices, observations.values
    for start, stop in pairwise(observations.indptr.tolist()):
        data = hashlib.blake2b(columns[start:stop].tobytes(), digest_size=16)
        data.update(values[start:stop].tobytes())
        yield data.digest()


@dataclass(frozen=True, eq=False)
class FoldInOfFewestErrors(FoldIn):
    """Decoder of new rows with the smallest error, each only from its own entries.

    A row that was in the fitted data gets the factors that the fit found for it, unless others have
    a smaller error.

    Attributes
    ----------
    false_one_weight : float
        The cost of a false one relative to a missed one.
    """

    false_one_weight: float = 1.0

    def _columns(self, marginal: bool, row_prior: ArrayLike | None = None) -> FixedColumns:
        if marginal:  # probabilities, not the factors with the smallest error
            return super()._columns(marginal, row_prior)
        result = self.result
        known: dict[bytes, NDArray[np.uint8]] = {}
        for key, own in zip(_keys(result.observations.to_local()), result.X, strict=True):
            known.setdefault(key, own)
        return ColumnsOfFewestErrors(
            result.model,
            result.column_log_odds,
            false_one_weight=self.false_one_weight,
            known=known,
        )
