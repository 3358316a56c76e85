"""1-bit matrix completion (Davenport, Plan, van den Berg and Wootters 2014)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np
import scipy.sparse

from boolweave.baselines.base import (
    Baseline,
    Doubles,
    entries_of,
    hold_out,
    share_of_ones,
    total_log_loss,
)
from boolweave.baselines.glrm import scores_at
from boolweave.data.observations import Observations
from boolweave.estimator.parameters import declared
from boolweave.metrics import log_loss
from boolweave.model.odds import log_odds, sigmoid
from boolweave.parameters import parameter
from boolweave.runtime.types import Integers

# Number of singular vectors computed in addition to those needed in the last iteration.
SPARE = 5


@declared
@dataclass(eq=False, repr=False)
class OneBitCompletion(Baseline):
    """Logistic likelihood under a bound on the nuclear norm of the log-odds.

    Minimizes the log-loss of the observed entries over Q (M, N) with

        |Q|_* ≤ beta · √(rank · M · N),

    by accelerated projected gradient. Q is stored as factors; the projection computes the leading
    singular values of a low-rank plus a sparse matrix.

    Attributes
    ----------
    left_, right_ : (M, R) and (N, R) arrays
        Q = left_ right_ᵀ.
    intercept_ : float
    beta_ : float
        Given or chosen.
    n_components_ : int
        R, the rank of Q.

    Examples
    --------
    >>> import numpy as np
    >>> from boolweave.baselines import OneBitCompletion
    >>> table = np.kron(np.eye(2), np.ones((4, 4)))
    >>> table[0, 7] = np.nan
    >>> OneBitCompletion(beta=2, random_state=0).fit(table).predict([0], [7])
    array([0], dtype=uint8)
    """

    beta: float | Literal["auto"] = parameter(
        "auto",
        "The size of typical log-odds.",
        'The paper reports the best of 0.1, 1 and 10; "auto" goes from small to large, judged by '
        "the log-loss of a tenth of the entries.",
        range="(0.0, inf)",
    )
    _: KW_ONLY
    rank: float = parameter(
        1,
        "The rank in the bound, if the number of factors is known.",
        "It only scales beta.",
        range="(0.0, inf)",
    )
    offset: bool = parameter(
        True,
        "Whether an intercept is added to Q, which the norm does not count; the paper has none.",
    )
    max_iter: int = parameter(200, "Maximum number of iterations for one beta.", range="[1, 2^63)")
    tol: float = parameter(
        1e-5,
        "Convergence tolerance: the fit ends when the loss falls by less than this fraction.",
        range="[0.0, inf)",
    )

    def _fit(self, observations: Observations) -> None:
        self.beta_ = self._choose(observations) if self.beta == "auto" else float(self.beta)
        self.intercept_ = self._intercept(observations)
        solution = self._solve(observations, self.beta_, None, self.max_iter, self.tol)
        self.left_, self.right_ = solution.left, solution.right
        self.n_components_ = solution.left.shape[1]
        self.n_iter_ = solution.n_iter

    def _choose(self, observations: Observations) -> float:
        """Choose the beta with the lowest log-loss on held-out entries, from small to large."""
        kept, check = hold_out(observations, self._generator())
        self.intercept_ = self._intercept(kept)
        # "auto" tries radii β √(M N) from small to large, growing by this factor, and stops when
        # one does not lower the held-out log-loss.
        first_beta, beta_step, most_betas = 0.1, 2.0, 8
        best, beta, solution = np.inf, first_beta, None
        # The fits that try radii need not be as exact as the last one.
        rough_iterations, rough_tol = 60, 1e-3
        for i in range(most_betas):
            candidate = first_beta * beta_step**i / np.sqrt(self.rank)
            solution = self._solve(kept, candidate, solution, rough_iterations, rough_tol)
            score = self.intercept_ + solution.scores(check.rows, check.columns)
            loss = log_loss(check.values, sigmoid(score))
            if not loss < best:
                break
            best, beta = loss, candidate
        return float(beta)

    def _intercept(self, observations: Observations) -> float:
        return float(log_odds(share_of_ones(observations.values))) if self.offset else 0.0

    def _solve(
        self,
        observations: Observations,
        beta: float,
        start: LowRank | None,
        max_iter: int,
        tol: float,
    ) -> LowRank:
        radius = beta * np.sqrt(self.rank * observations.n_rows * observations.n_columns)
        return solve(observations, radius, self.intercept_, start, max_iter, tol, self._generator())

    def _score(self, rows: Integers, columns: Integers) -> Doubles:
        return self.intercept_ + scores_at(rows, columns, self.left_, self.right_)


# ---------------------------------------------------------------- projected gradient


@dataclass(eq=False)
class LowRank:
    """left (M, R) · right (N, R)ᵀ."""

    left: Doubles
    right: Doubles
    n_iter: int = 0

    def scores(self, rows: Integers, columns: Integers) -> Doubles:
        """Its entries at pairs of positions."""
        return scores_at(rows, columns, self.left, self.right)


def solve(
    observations: Observations,
    radius: float,
    intercept: float,
    start: LowRank | None,
    max_iter: int,
    tol: float,
    random: np.random.Generator,
) -> LowRank:
    """Minimize the log-loss within the nuclear-norm ball (Nesterov's momentum, restarted)."""
    rows, columns, values = entries_of(observations)
    n_rows, n_columns = observations.shape
    current = start or LowRank(np.zeros((n_rows, 0)), np.zeros((n_columns, 0)))
    previous, momentum = current, 1.0
    loss = total_log_loss(intercept + current.scores(rows, columns), values)
    # Second derivatives of the logistic loss are at most 1/4, so that a step of 4 always descends.
    step = 4.0
    for iteration in range(1, max_iter + 1):
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = (momentum - 1) / following
        point = LowRank(  # current + ahead · (current − previous), as one product
            np.hstack([(1 + ahead) * current.left, -ahead * previous.left]),
            np.hstack([current.right, previous.right]),
        )
        slope = sigmoid(intercept + point.scores(rows, columns)) - values
        proposal = project(observations, point, -step * slope, radius, current, random)
        new_loss = total_log_loss(intercept + proposal.scores(rows, columns), values)
        if new_loss > loss and momentum > 1:
            previous, momentum = current, 1.0  # the momentum overshot: restart it
            continue
        fell = loss - new_loss
        previous, current, loss, momentum = current, proposal, new_loss, following
        current.n_iter = iteration
        if fell <= tol * abs(loss) and momentum > 3:
            break
    return current


def project(
    observations: Observations,
    point: LowRank,
    change: Doubles,
    radius: float,
    near: LowRank,
    random: np.random.Generator,
) -> LowRank:
    """The matrix of nuclear norm ≤ radius nearest to `point` + the sparse matrix `change`."""
    from scipy.sparse import csr_array

    sparse = csr_array(
        (change, observations.indices, observations.indptr), shape=observations.shape
    )
    smallest = min(observations.shape)
    n_values = min(near.left.shape[1] + SPARE, smallest)
    # Below this many rows or columns, it is fastest to compute all singular values.
    small = 150
    while True:
        if smallest <= small or 2 * n_values > smallest:
            u, s, vt = all_triples(sparse.toarray() + point.left @ point.right.T)
            n_values = smallest
        else:
            u, s, vt = leading(sparse, point, near.right, n_values, random)
        cut = simplex_cut(s, radius)
        # Singular values that were not computed are smaller than the last computed one: if that one
        # is cut to 0, so are they.
        if n_values == smallest or s[-1] <= cut:
            break
        n_values = min(2 * n_values, smallest)
    left = np.maximum(s - cut, 0)
    kept = left > 0
    root = np.sqrt(left[kept])
    return LowRank(np.ascontiguousarray(u[:, kept] * root), np.ascontiguousarray(vt[kept].T * root))


def simplex_cut(values: Doubles, radius: float) -> float:
    """The amount to subtract from descending `values` so that the positive rest sums to radius.

    It is 0 if they already sum to less.
    """
    if values.sum() <= radius:
        return 0.0
    lowered = (np.cumsum(values) - radius) / np.arange(1, len(values) + 1)
    return float(lowered[np.flatnonzero(values > lowered)[-1]])


def all_triples(matrix: Doubles) -> tuple[Doubles, Doubles, Doubles]:
    """All singular triples, largest first, by the eigenvectors of the smaller Gram matrix.

    Singular values below 1e-8 of the largest are lost, but those are always cut to 0.
    """
    if matrix.shape[0] < matrix.shape[1]:
        u, s, vt = all_triples(matrix.T)
        return vt.T, s, u.T
    squares, v = np.linalg.eigh(matrix.T @ matrix)
    s, v = np.sqrt(np.maximum(squares[::-1], 0)), v[:, ::-1]
    return matrix @ v / np.maximum(s, 1e-300), s, v.T


def leading(
    sparse: scipy.sparse.csr_array,
    point: LowRank,
    near: Doubles,
    n_values: int,
    random: np.random.Generator,
) -> tuple[Doubles, Doubles, Doubles]:
    """Leading singular triples of `sparse` + `point`, by subspace iteration from `near` (N, R)."""

    def times(block: Doubles) -> Doubles:
        return np.asarray(sparse @ block + point.left @ (point.right.T @ block))

    def times_transposed(block: Doubles) -> Doubles:
        return np.asarray(sparse.T @ block + point.right @ (point.left.T @ block))

    n_columns = sparse.shape[1]
    n_extra = max(n_values + SPARE - near.shape[1], SPARE)
    block = np.hstack([near, random.normal(size=(n_columns, n_extra))])
    for _ in range(2):  # `near` is close to the answer already
        block = orthonormal(times_transposed(orthonormal(times(block))))
    q = orthonormal(orthonormal(times(block)))  # twice, because of the condition of the first
    u, s, vt = all_triples(times_transposed(q).T)
    return (q @ u)[:, :n_values], s[:n_values], vt[:n_values]


def orthonormal(block: Doubles) -> Doubles:
    """An orthonormal basis of the columns, (n, R): block · C⁻¹ with CᵀC = blockᵀ block.

    This is several times faster than a QR decomposition, which is used if columns are dependent.
    """
    from scipy.linalg import cholesky, solve_triangular

    try:
        factor = cholesky(block.T @ block, lower=True)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.qr(block)[0])
    inverse = solve_triangular(factor, np.eye(len(factor)), lower=True)
    return np.asarray(block @ inverse.T)  # a product is faster than solving with so many rows
