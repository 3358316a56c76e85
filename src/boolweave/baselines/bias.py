"""The simplest models: one value for all, or a logit for each row and each column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from boolweave.baselines.base import (
    Baseline,
    Doubles,
    Triplets,
    entries_of,
    hold_out,
    share_of_ones,
    total_log_loss,
)
from boolweave.data.observations import Observations
from boolweave.estimator.parameters import declared
from boolweave.metrics import log_loss
from boolweave.model.odds import log_odds, sigmoid
from boolweave.parameters import parameter
from boolweave.runtime.types import Integers


class Majority(Baseline):
    """The more frequent observed value everywhere; the probability is the fraction of ones.

    Parameters
    ----------
    absent : {"zero", "missing"}, default="zero"
        How to treat the entries that a sparse matrix does not store.

    Examples
    --------
    >>> from boolweave.baselines import Majority
    >>> Majority().fit([[1, 1], [0, 1]]).predict_proba([0], [0])
    array([0.75])
    """

    def __init__(self, absent: Literal["zero", "missing"] = "zero") -> None:
        self.absent = absent

    def _fit(self, observations: Observations) -> None:
        self.share_of_ones_ = observations.share_of_ones
        self.n_components_ = 0

    def _score(self, rows: Integers, columns: Integers) -> NDArray[np.float64]:
        return np.full(len(rows), self.share_of_ones_ - 0.5)

    def _probability(self, rows: Integers, columns: Integers) -> NDArray[np.float64]:
        return np.full(len(rows), self.share_of_ones_)


@declared
@dataclass(eq=False, repr=False)
class BiasModel(Baseline):
    """P(o = 1) = sigmoid(intercept + row logit + column logit), with quadratic regularization.

    Minimizes Σ log-loss + regularization · (Σ row logits² + Σ column logits²).

    Attributes
    ----------
    intercept_ : float
    row_logits_, column_logits_ : (M,) and (N,) arrays
    regularization_ : float
        Given or chosen.

    Examples
    --------
    >>> from boolweave.baselines import BiasModel
    >>> table = [[1, 1, 1], [1, 1, 0], [0, 0, 0]]
    >>> model = BiasModel(regularization=0.1).fit(table)
    >>> model.predict([0, 2], [2, 0])
    array([1, 0], dtype=uint8)
    """

    regularization: float | Literal["auto"] = parameter(
        "auto",
        '"auto" chooses it by the log-loss of a tenth of the entries and refits to all entries.',
        range="[0.0, inf)",
    )

    def _fit(self, observations: Observations) -> None:
        strength = self.regularization
        start: Doubles | None = None
        regularizations = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
        if strength == "auto":
            kept, check = hold_out(observations, self._generator())
            losses: dict[float, float] = {}
            for candidate in sorted(regularizations, reverse=True):  # each starts from the last
                start = self._keep(solve(kept, candidate, start))
                score = self._score(check.rows, check.columns)
                losses[candidate] = log_loss(check.values, sigmoid(score))
            strength = min(regularizations, key=lambda candidate: losses[float(candidate)])
        self.regularization_ = float(strength)
        self._keep(solve(observations, self.regularization_, start))
        self.n_components_ = 0

    def _keep(self, logits: Doubles) -> Doubles:
        n_rows = self.shape_[0]
        self.intercept_ = float(logits[0])
        self.row_logits_, self.column_logits_ = logits[1 : 1 + n_rows], logits[1 + n_rows :]
        return logits

    def _score(self, rows: Integers, columns: Integers) -> Doubles:
        return self.intercept_ + self.row_logits_[rows] + self.column_logits_[columns]


def solve(observations: Observations, strength: float, start: Doubles | None = None) -> Doubles:
    """Intercept, row and column logits, (1 + M + N,), by Newton's method.

    A step solves Hessian · step = −gradient by conjugate gradients; the Hessian is never formed,
    because its products need only the entries. Steps are halved until the objective falls.
    """
    from scipy.sparse import csr_array, dia_array
    from scipy.sparse.linalg import LinearOperator, cg

    entries = entries_of(observations)
    size = 1 + sum(observations.shape)
    logits = start
    if logits is None:
        logits = np.zeros(size)
        logits[0] = log_odds(share_of_ones(observations.values))
    loss, gradient = loss_and_gradient(logits, entries, observations.shape, strength)
    # Newton's method ends when no entry of the gradient is larger than this, relative to one entry.
    small_gradient = 1e-5
    most_steps, most_halvings = 50, 30
    for _ in range(most_steps):
        if np.abs(gradient).max() <= small_gradient:
            break
        p = sigmoid(_log_odds(logits, entries, observations.n_rows))
        weights = csr_array(
            (p * (1 - p), observations.indices, observations.indptr), shape=observations.shape
        )
        diagonal, product = _hessian(weights, strength)
        hessian = LinearOperator((size, size), matvec=product, dtype=np.float64)
        scale = dia_array((1 / diagonal[None], [0]), shape=(size, size))
        # A step need not be exact, because the next one corrects it.
        step = cg(hessian, -gradient, rtol=1e-2, maxiter=50, M=scale)[0]
        for _ in range(most_halvings):
            trial = logits + step
            new = loss_and_gradient(trial, entries, observations.shape, strength)
            if new[0] < loss:
                break
            step = step / 2
        else:
            break  # the objective falls no further because of rounding
        logits, (loss, gradient) = trial, new
    return logits


def _hessian(
    weights: scipy.sparse.csr_array, strength: float
) -> tuple[Doubles, Callable[[Doubles], Doubles]]:
    """The diagonal of the Hessian, and its product with a vector, from weights p(1 − p) (M, N)."""
    n_rows = weights.shape[0]
    of_rows, of_columns = weights.sum(axis=1), weights.sum(axis=0)
    turned = weights.T.tocsr()
    diagonal = np.concatenate([[of_rows.sum()], of_rows + 2 * strength, of_columns + 2 * strength])

    def product(v: Doubles) -> Doubles:
        v = v.ravel()
        row, column = v[1 : 1 + n_rows], v[1 + n_rows :]
        to_row = of_rows * v[0] + weights @ column
        to_column = of_columns * v[0] + turned @ row
        out = diagonal * v
        out[0] += of_rows @ row + of_columns @ column
        out[1 : 1 + n_rows] += to_row
        out[1 + n_rows :] += to_column
        return out

    # A row whose entries are all certain has weight 0, so that a step in it makes no difference.
    least_weight = 1e-12
    return np.maximum(diagonal, least_weight), product


def _log_odds(logits: Doubles, entries: Triplets, n_rows: int) -> Doubles:
    """Intercept + row logit + column logit at each entry."""
    of_row, of_column = logits[1 : 1 + n_rows], logits[1 + n_rows :]
    return logits[0] + of_row[entries.rows] + of_column[entries.columns]


def loss_and_gradient(
    logits: Doubles, entries: Triplets, shape: tuple[int, int], strength: float
) -> tuple[float, Doubles]:
    """The objective and its gradient, (1 + M + N,), at intercept, row and column logits."""
    n_rows, n_columns = shape
    v = _log_odds(logits, entries, n_rows)
    slope = sigmoid(v) - entries.values
    penalized = logits[1:]
    loss = total_log_loss(v, entries.values) + strength * float(penalized @ penalized)
    of_rows = np.bincount(entries.rows, slope, n_rows)
    of_columns = np.bincount(entries.columns, slope, n_columns)
    gradient = np.concatenate([[slope.sum()], of_rows, of_columns])
    gradient[1:] += 2 * strength * penalized
    return loss, gradient
