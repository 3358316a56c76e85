"""What a run found, and what that says about the entries of the matrix."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.model import Model, sigmoid
from boolweave.products import Product, boolean_product

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.observations import Observations

    Floats = NDArray[np.floating[Any]]
    Indices = NDArray[np.integer[Any]]


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
    converged, interrupted : bool
        Whether the messages settled; whether Ctrl-C ended the run.
    n_iter : int
        Number of iterations done.
    history : dict
        ``"residual"`` and ``"log_posterior"``, one number per iteration, each (n_iter,).
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
    converged: bool
    interrupted: bool
    n_iter: int
    history: dict[str, NDArray[np.float64]] = field(repr=False)
    marginal: bool = False
    stability: NDArray[np.float64] | None = None

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
        return (self.probabilities > 0.5).astype(np.uint8)

    @property
    def probabilities(self) -> NDArray[np.float32]:
        """P(z = 1) of every entry, (M, N)."""
        return latent_matrix(self.row_log_odds, self.column_log_odds, self.model.product)

    def at(
        self, rows: NDArray[np.integer[Any]], columns: NDArray[np.integer[Any]]
    ) -> NDArray[np.uint8]:
        """`Z` at pairs of rows and columns, (n,)."""
        if self.marginal:
            p = latent_at(
                self.row_log_odds, self.column_log_odds, rows, columns, self.model.product
            )
            return (p > 0.5).astype(np.uint8)
        return decoded_at(self.X, self.Y, rows, columns, self.model.product)

    def counts(self, observations: Observations) -> NDArray[np.int64]:
        """How often 0 was seen where `Z` is 0 and where it is 1, and 1 likewise: (2, 2)."""
        if getattr(observations, "cluster", None) is not None:
            return observations.cluster.counts(self)  # type: ignore[attr-defined]
        total = np.zeros(4, dtype=np.int64)
        for start, stop, columns, values in observations.in_pieces():
            rows = np.repeat(
                np.arange(stop - start), np.diff(observations.indptr[start : stop + 1])
            )
            here = replace(self, row_log_odds=self.row_log_odds[start:stop]).at(rows, columns)
            total += np.bincount(2 * values.astype(np.intp) + here, minlength=4)
        return total.reshape(2, 2)

    def seen_one(self, rows: Indices, columns: Indices) -> NDArray[np.float64]:
        """P(o = 1), what one would see, at pairs of rows and columns, (n,)."""
        latent = latent_at(
            self.row_log_odds, self.column_log_odds, rows, columns, self.model.product
        )
        return self.model.channel.seen_one(latent, rows, columns, self.observations.shape)

    @property
    def completed(self) -> NDArray[np.uint8]:
        """What was observed, and Z where nothing was, (M, N)."""
        filled = self.Z
        seen = self.observations
        filled[seen.rows_of_entries(), seen.indices] = seen.values
        return filled


def latent_matrix(
    row_log_odds: Floats, column_log_odds: Floats, product: Product
) -> NDArray[np.float32]:
    """P(z = 1) of every entry, (M, N), the entries of the factors taken as independent."""
    x, y = (sigmoid(odds).astype(np.float32) for odds in (row_log_odds, column_log_odds))
    sign = np.float32(2 if product == "xor" else 1)
    rest = np.ones((x.shape[0], y.shape[1]), dtype=np.float32)
    for k in range(x.shape[1]):
        rest *= 1 - sign * np.multiply.outer(x[:, k], y[k])
    return (1 - rest) / sign


def latent_at(
    row_log_odds: Floats,
    column_log_odds: Floats,
    rows: Indices,
    columns: Indices,
    product: Product,
) -> NDArray[np.float64]:
    """P(z = 1) at pairs of rows and columns, (n,)."""
    x, y = sigmoid(row_log_odds), sigmoid(column_log_odds)
    sign = 2 if product == "xor" else 1
    rest = np.ones(len(rows))
    for k in range(x.shape[1]):
        rest *= 1 - sign * x[rows, k] * y[k, columns]
    return (1 - rest) / sign


def decoded_at(
    X: NDArray[np.uint8],
    Y: NDArray[np.uint8],
    rows: Indices,
    columns: Indices,
    product: Product,
) -> NDArray[np.uint8]:
    """The product of X (M, K) and Y (K, N) at pairs of rows and columns, (n,)."""
    z = np.zeros(len(rows), dtype=np.uint8)
    for k in range(X.shape[1]):
        term = X[rows, k] & Y[k, columns]
        z = z ^ term if product == "xor" else z | term
    return z
