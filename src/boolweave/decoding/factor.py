"""One factor of a Boolean product is known, the other is inferred from the noisy product."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.data.observations import Observations
from boolweave.decoding.tanner import CERTAIN, Settings, TannerGraph, propagate
from boolweave.model.channel import Channel
from boolweave.model.odds import log_odds, sigmoid
from boolweave.model.products import Product, check_product

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, eq=False)
class FactorResult:
    """What `infer_factor` found about Y.

    Attributes
    ----------
    bits : (K, N) uint8 array
        The decided factor Y.
    log_odds : (K, N) array
        Log-odds of y = 1.
    converged : (N,) bool array
        Whether the beliefs of each column settled.
    n_iter : (N,) int array
    """

    bits: NDArray[np.uint8]
    log_odds: NDArray[np.float32] = field(repr=False)
    converged: NDArray[np.bool_]
    n_iter: NDArray[np.int64]

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """P(y = 1), (K, N)."""
        return sigmoid(self.log_odds)


def infer_factor(
    X: Any,
    observed: Any,
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

    The work is proportional to the ones of X times the columns of Y. With the XOR product, X is the
    transposed generator of a low-density generator code, a column of Y a message and a column of Z
    the word that was sent. For that use X needs rows with a single one, as a systematic code has
    them: with uniform priors the other rows stay silent until some bits are known. If Y is the
    known factor, transpose: Zᵀ = Yᵀ • Xᵀ.

    Parameters
    ----------
    X : (M, K) array or sparse matrix of 0 and 1
    observed : (M, N) array of 0, 1 and NaN (not seen), or Observations
        Noisy Z; a vector (M,) counts as one column.
    noise : float or Channel
        The probability that an entry was flipped.
    prior : float or array that broadcasts to (K, N)
        P(y = 1); 0 and 1 are certain knowledge.
    product : {"xor", "or"}
    method : {"sum-product", "max-sum"}
    schedule : {"flooding", "serial"}
    max_iter : int
    tol : float
        A column is done when none of its log-odds moves by more.
    scale : float in (0, 1]
        Factor on the messages of max-sum.
    damping : float in (0, 1]
        Share of the new message taken in each step.
    n_jobs : int, optional
        Threads over columns; the result does not depend on it.

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
    seen = _observations(observed, graph.n_checks)
    channel = noise if isinstance(noise, Channel) else Channel.symmetric(noise)
    n_columns = seen.shape[1]
    p = np.asarray(prior, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("prior must hold probabilities between 0 and 1")
    try:
        odds = np.broadcast_to(log_odds(p, limit=np.inf), (graph.n_variables, n_columns))
    except ValueError:
        raise ValueError(
            f"prior must be a number or broadcast to (K, N) = ({graph.n_variables}, {n_columns}), "
            f"got an array of shape {p.shape}"
        ) from None
    evidence = np.broadcast_to(channel.missing_log_likelihood_ratio(), seen.shape).copy()
    evidence[seen.rows_of_entries(), seen.indices] = channel.log_likelihood_ratio(seen)
    settings = Settings(
        product=product, method=method, schedule=schedule, damping=damping, scale=scale,
        max_iter=max_iter, tol=tol,
    )  # fmt: skip
    found = propagate(graph, odds.T, evidence.T, settings, n_jobs)
    beliefs = found.log_odds.T.copy()
    beliefs[np.abs(beliefs) >= CERTAIN / 2] *= np.inf
    return FactorResult(found.bits.T.copy(), beliefs, found.converged, found.n_iter)


def _observations(observed: Any, n_rows: int) -> Observations:
    if not isinstance(observed, Observations):
        array = np.asarray(observed)
        observed = Observations.from_dense(array[:, None] if array.ndim == 1 else array)
    if observed.shape[0] != n_rows:
        raise ValueError(
            f"observed must have a row for each of the {n_rows} rows of X, got {observed.shape[0]}"
        )
    return observed
