"""Inference of one factor of a noisy Boolean product when the other factor is known."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boolweave.data.observations import Observations
from boolweave.decoding.tanner import (
    DecoderSettings,
    Matrix,
    TannerGraph,
    as_probabilities,
    propagate,
)
from boolweave.model.channel import Channel
from boolweave.model.odds import log_odds, sigmoid, with_infinities
from boolweave.model.products import Product, check_product
from boolweave.runtime.types import Floats


@dataclass(frozen=True, eq=False)
class FactorResult:
    """The result of `infer_factor`.

    Attributes
    ----------
    bits : (K, N) uint8 array
        The decided factor Y.
    log_odds : (K, N) array
        Log-odds of y = 1.
    converged : (N,) bool array
        Whether the beliefs of each column converged.
    n_iter : (N,) int array
    """

    bits: NDArray[np.uint8]
    log_odds: Floats = field(repr=False)
    converged: NDArray[np.bool_]
    n_iter: NDArray[np.int64]

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """P(y = 1), (K, N)."""
        return sigmoid(self.log_odds)


def infer_factor(
    X: Matrix,
    observed: ArrayLike | Observations,
    noise: float | Channel = 0.1,
    prior: ArrayLike = 0.5,
    *,
    product: Product = "xor",
    method: str = "sum-product",
    schedule: str = "flooding",
    max_iter: int = 100,
    tol: float = 1e-3,
    scale: float = 1.0,
    damping: float = 1.0,
    n_jobs: int | None = None,
) -> FactorResult:
    """Infer Y from noisy entries of Z = X • Y when X is known.

    The work is proportional to the number of ones of X times the number of columns of Y. With the
    XOR product, X is the transposed generator of a low-density generator-matrix code, a column of Y
    is a message, and a column of Z is the word that was sent. X then needs rows with a single one,
    as in a systematic code, because with uniform priors the other rows send no information until
    some bits are known. If Y is the known factor, transpose: Zᵀ = Yᵀ • Xᵀ.

    Parameters
    ----------
    X : (M, K) array or sparse matrix of 0 and 1
    observed : (M, N) array of 0, 1 and NaN (missing), or Observations
        The noisy Z; a vector (M,) counts as one column.
    noise : float or Channel
        The probability that an entry was flipped.
    prior : float or array that broadcasts to (K, N)
        P(y = 1); 0 and 1 are certain knowledge.
    product : {"xor", "or"}
    method : {"sum-product", "max-sum"}
    schedule : {"flooding", "serial"}
    max_iter : int
    tol : float
        Convergence tolerance: a column is done when none of its log-odds changes by more than this.
    scale : float in (0, 1]
        Scaling factor of the max-sum messages.
    damping : float in (0, 1]
        Weight of the new message in each update.
    n_jobs : int, optional
        Number of threads, which share the columns; the result does not depend on it.

    Returns
    -------
    FactorResult

    Examples
    --------
    >>> import numpy as np
    >>> from boolweave.decoding import infer_factor
    >>> X = np.array([[1, 0], [0, 1], [1, 1], [1, 1]])
    >>> Z = np.array([[1, 1], [0, 1], [1, 0], [1, 1]])  # the last entry is wrong
    >>> infer_factor(X, Z, noise=0.1).bits
    array([[1, 1],
           [0, 1]], dtype=uint8)
    """
    check_product(product)
    graph = TannerGraph.from_matrix(X, "X")
    if not isinstance(observed, Observations):
        array = np.asarray(observed)
        observed = Observations.from_dense(array[:, None] if array.ndim == 1 else array)
    if observed.shape[0] != graph.n_checks:
        raise ValueError(
            f"observed must have a row for each of the {graph.n_checks} rows of X, got "
            f"{observed.shape[0]}"
        )
    p = as_probabilities("prior", prior)
    shape = graph.n_variables, observed.shape[1]
    try:
        odds = np.broadcast_to(log_odds(p, limit=np.inf), shape)
    except ValueError:
        raise ValueError(
            f"prior must be a number or broadcast to (K, N) = {shape}, got an array of shape "
            f"{p.shape}"
        ) from None
    channel = noise if isinstance(noise, Channel) else Channel.symmetric(noise)
    evidence = np.broadcast_to(channel.missing_log_likelihood_ratio(), observed.shape).copy()
    evidence[observed.rows_of_entries(), observed.indices] = channel.log_likelihood_ratio(observed)
    settings = DecoderSettings(
        product=product,
        method=method,
        schedule=schedule,
        damping=damping,
        scale=scale,
        max_iter=max_iter,
        tol=tol,
    )
    found = propagate(graph, odds.T, evidence.T, settings, n_jobs)
    beliefs = with_infinities(found.log_odds.T.copy())
    return FactorResult(found.bits.T.copy(), beliefs, found.converged, found.n_iter)
