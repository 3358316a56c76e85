"""What a run found, and what that says about the entries of the matrix."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.engine import prediction
from boolweave.engine.ordering import factor_order
from boolweave.model.model import Model
from boolweave.model.products import boolean_product, product_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

    from boolweave.data.observations import Observations

    Floats = NDArray[np.floating[Any]]
    Indices = NDArray[np.integer[Any]]


class Ending(StrEnum):
    """Why a run ended; a checkpoint keeps the text."""

    CONVERGED = "converged"
    OUT_OF_ITERATIONS = "out of iterations"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, eq=False)
class Result:
    """What a run found: the beliefs of the best iterate, and how it got there.

    Attributes
    ----------
    row_log_odds : (M, K) array
        Log-odds of x = 1; ±∞ where the prior was hard knowledge.
    column_log_odds : (K, N) array
        Log-odds of y = 1.
    log_posterior : float
        log p(X) + log p(Y) + log p(O | X • Y) of the decoded factors.
    ending : Ending
        Why the run ended: the messages settled, there were no more iterations, or Ctrl-C.
    converged, interrupted : bool
        Whether it was the first of these; whether it was the last.
    n_iter : int
        Number of iterations done.
    history : dict
        ``"residual"``, ``"log_posterior"`` and ``"changes"``, the number of entries of X and Y
        that changed: one number per iteration, each (n_iter,).
    marginal : bool
        Whether the log-odds are marginals (sum-product), so that they make probabilities.
    stability : (K,) array or None
        Share of the starts in which each factor came back.
    """

    model: Model
    observations: Observations
    row_log_odds: Floats
    column_log_odds: Floats
    log_posterior: float
    ending: Ending
    n_iter: int
    history: dict[str, NDArray[np.float64]] = field(repr=False)
    marginal: bool = False
    stability: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "ending", Ending(self.ending))

    @property
    def converged(self) -> bool:
        """Whether the messages settled."""
        return self.ending is Ending.CONVERGED

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the run."""
        return self.ending is Ending.INTERRUPTED

    def as_interrupted(self) -> Result:
        """The same, of a run that Ctrl-C ended."""
        return replace(self, ending=Ending.INTERRUPTED)

    @property
    def X(self) -> NDArray[np.uint8]:
        """The decoded row factor, (M, K)."""
        return (self.row_log_odds > 0).astype(np.uint8)

    @property
    def Y(self) -> NDArray[np.uint8]:
        """The decoded column factor, (K, N)."""
        return (self.column_log_odds > 0).astype(np.uint8)

    @property
    def Z(self) -> NDArray[np.uint8]:
        """The decoded matrix, (M, N): more likely 1 than 0, or the product of decoded factors."""
        if not self.marginal:
            return boolean_product(self.X, self.Y, self.model.product)
        out = np.empty(self._shape, dtype=np.uint8)
        for rows, chance in self._latent_rows():
            out[rows] = chance > 0.5
        return out

    @property
    def probabilities(self) -> NDArray[np.float32]:
        """P(z = 1) of every entry, (M, N)."""
        out = np.empty(self._shape, dtype=np.float32)
        for rows, chance in self._latent_rows():
            out[rows] = chance
        return out

    @property
    def _shape(self) -> tuple[int, int]:
        return len(self.row_log_odds), self.column_log_odds.shape[1]

    def _latent_rows(self) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        return prediction.latent_rows(self.row_log_odds, self.column_log_odds, self.model.product)

    def at(self, rows: Indices, columns: Indices) -> NDArray[np.uint8]:
        """`Z` at pairs of rows and columns, (n,)."""
        factors = self.row_log_odds, self.column_log_odds
        if self.marginal:
            latent = prediction.latent_at(*factors, rows, columns, self.model.product)
            return (latent > 0.5).astype(np.uint8)
        return product_at(*factors, rows, columns, self.model.product)

    def counts(self, observations: Observations) -> NDArray[np.int64]:
        """How often 0 was seen where `Z` is 0 and where it is 1, and 1 likewise: (2, 2)."""
        if getattr(observations, "cluster", None) is not None:
            return observations.cluster.counts(self)  # type: ignore[attr-defined]
        return prediction.counts(
            self.row_log_odds, self.column_log_odds, observations, self.model.product, self.marginal
        )

    def decoded_counts(self, observations: Observations) -> NDArray[np.int64]:
        """`counts` of the product of `X` and `Y`, also where `Z` is made of marginals."""
        return replace(self, marginal=False).counts(observations)

    def seen_one(self, rows: Indices, columns: Indices) -> NDArray[np.float64]:
        """P(o = 1), what one would see, at pairs of rows and columns, (n,)."""
        latent = prediction.latent_at(
            self.row_log_odds, self.column_log_odds, rows, columns, self.model.product
        )
        return self.model.channel.seen_one(latent, rows, columns, self.observations.shape)

    def with_factors(self, chosen: ArrayLike) -> Result:
        """The same with some of the factors, or with all of them in another order."""
        chosen, K = np.asarray(chosen), self.model.n_components
        row_prior, column_prior = np.asarray(self.model.row_prior), self.model.column_prior
        if K > 1 and row_prior.ndim and row_prior.shape[-1] == K:
            row_prior = row_prior[..., chosen]
        if K > 1 and np.ndim(column_prior) == 2 and len(np.asarray(column_prior)) == K:
            column_prior = np.asarray(column_prior)[chosen]
        return replace(
            self,
            model=replace(
                self.model,
                n_components=len(chosen),
                row_prior=row_prior,
                column_prior=column_prior,
            ),
            row_log_odds=self.row_log_odds[:, chosen],
            column_log_odds=self.column_log_odds[chosen],
            stability=None if self.stability is None else self.stability[chosen],
        )

    @property
    def completed(self) -> NDArray[np.uint8]:
        """What was observed, and Z where nothing was, (M, N)."""
        filled = self.Z
        seen = self.observations
        filled[seen.rows_of_entries(), seen.indices] = seen.values
        return filled


def numbered(result: Result, row_prior: Any = None, column_prior: Any = None) -> Result:
    """The result with its factors in the order of their numbers: the largest tile first.

    Where the user gave a prior that differs from factor to factor, the order stays as it is, so
    that factors mean what the prior says of them.
    """
    of_rows, of_columns = np.shape(row_prior), np.shape(column_prior)
    if (of_rows and of_rows[-1] > 1) or (len(of_columns) == 2 and of_columns[0] > 1):
        return result
    order = factor_order(result.X, result.Y)
    return result if (np.diff(order) > 0).all() else result.with_factors(order)
