"""Generalized low rank models: real factors under a loss for bits (Udell et al. 2016)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boolweave.baselines.base import Baseline, Doubles, entries_of, hold_out, platt, share_of_ones
from boolweave.data.observations import Observations
from boolweave.data.splits import entry_positions
from boolweave.engine.kernels.jit import njit
from boolweave.estimator.parameters import declared
from boolweave.metrics import log_loss
from boolweave.model.odds import log_odds, sigmoid
from boolweave.parameters import parameter
from boolweave.runtime.types import Integers

QUADRATIC, LOGISTIC, HINGE, ORDINAL = 0, 1, 2, 3

# The corner of the hinge is rounded over this width, so that it has a gradient; the loss differs
# from the hinge by at most half of it.
CORNER = 0.05

# This many factors between 1 and 2 are multiplied before taking a logarithm: far from overflow.
FACTORS = 512

# Steps grow after a success and shrink after a failure, as in Udell et al. (2016).
GROW, SHRINK, TRIES = 1.3, 0.5, 20


@njit(nogil=True, cache=True)
def hinge(t: float) -> tuple[float, float]:
    """max(0, t) with a rounded corner, and its slope."""
    if t <= 0.0:
        return 0.0, 0.0
    if t < CORNER:
        return t * t / (2.0 * CORNER), t / CORNER
    return t - CORNER / 2.0, 1.0


@njit(nogil=True, cache=True)
def loss_of(kind: int, v: float, target: float, n_levels: int) -> tuple[float, float]:
    """Loss of score `v` and its slope in v.

    The target is ±1; for the ordinal hinge a level 0, …, n_levels − 1, where the score should lie
    above all lower levels by one and below all higher ones.
    """
    if kind == QUADRATIC:
        return (v - target) ** 2, 2.0 * (v - target)
    if kind == LOGISTIC:
        t = -target * v
        if t > 0.0:
            return t + np.log1p(np.exp(-t)), -target / (1.0 + np.exp(-t))
        return np.log1p(np.exp(t)), -target * np.exp(t) / (1.0 + np.exp(t))
    if kind == HINGE:
        loss, slope = hinge(1.0 - target * v)
        return loss, -target * slope
    loss, slope = 0.0, 0.0
    for level in range(n_levels):
        if level < target:
            part, d = hinge(1.0 - v + level)
            loss += part
            slope -= d
        elif level > target:
            part, d = hinge(1.0 + v - level)
            loss += part
            slope += d
    return loss, slope


@njit(nogil=True, cache=True)
def losses_of_row(kind, n_levels, n, fixed, linear, targets, slopes):
    """Sum of the losses of scores fixed + linear, the first n of each; their slopes go to `slopes`.

    The hinge has no branch here, so that its loop is vectorized: with c = t clipped to 0 and the
    width w of the corner, the rounded max(0, t) is c² / 2w + max(0, t − w). The logistic loss
    log(1 + e^t) = max(0, t) + log(1 + e^−|t|) takes one logarithm of a product for many entries.
    The product is stored as its excess over 1, because the losses of entries that fit are far below
    the rounding error at 1, and without regularization nothing else determines the factors.
    """
    total = 0.0
    if kind == LOGISTIC:
        excess = 0.0
        for e in range(n):
            t = -targets[e] * (fixed[e] + linear[e])
            small = np.exp(-abs(t))
            total += max(t, 0.0)
            excess += small + excess * small
            if e % FACTORS == FACTORS - 1:
                total += np.log1p(excess)
                excess = 0.0
            slopes[e] = -targets[e] * (1.0 if t > 0.0 else small) / (1.0 + small)
        return total + np.log1p(excess)
    if kind == HINGE:
        for e in range(n):
            t = 1.0 - targets[e] * (fixed[e] + linear[e])
            c = min(max(t, 0.0), CORNER)
            total += c * c / (2.0 * CORNER) + max(t - CORNER, 0.0)
            slopes[e] = -targets[e] * c / CORNER
    else:
        for e in range(n):
            loss, slopes[e] = loss_of(kind, fixed[e] + linear[e], targets[e], n_levels)
            total += loss
    return total


@njit(nogil=True, cache=True)
def product_of_row(n, vector, gathered, out):
    """Σ_k vector[k] gathered[k, e] for the first n entries e."""
    for e in range(n):
        out[e] = 0.0
    for k in range(len(vector)):
        for e in range(n):
            out[e] += vector[k] * gathered[k, e]


@njit(nogil=True, cache=True)
def gradient_of_row(n, slopes, gathered, offset, gradient):
    """Gradient of the row's loss in its factors and its offset."""
    for k in range(len(gradient)):
        total = 0.0
        for e in range(n):
            total += slopes[e] * gathered[k, e]
        gradient[k] = total
    if not offset:
        gradient[len(gradient) - 1] = 0.0


class Targets(NamedTuple):
    """The observed entries in CSR form, and the targets of their scores."""

    indptr: Integers
    indices: Integers
    values: NDArray[np.float64]
    n_levels: int


@njit(nogil=True, cache=True)
def improve_factor(kind, targets, intercept, offset, factor, other, strength, steps, n_inner):
    """Do proximal gradient steps for every row of `factor` (M, K + 1); `other` (N, K + 1) is fixed.

    The last column of both holds the offsets. A step is taken only if it lowers the objective of
    the row. `steps` (M,) holds the step size of each row from call to call. Returns the objective
    without the regularization of `other`.

    Scores are linear in the size of a step: given the scores of the row and of the gradient, a
    trial costs one loss per entry and no product of factors.
    """
    indptr, indices, n_levels = targets.indptr, targets.indices, targets.n_levels
    width = factor.shape[1]
    longest = 0
    for m in range(len(factor)):
        longest = max(longest, indptr[m + 1] - indptr[m])
    gathered = np.ones((width, longest))  # the last row is multiplied by the offset of the row
    fixed, linear, along = np.zeros(longest), np.zeros(longest), np.zeros(longest)
    trial, slopes, gradient = np.zeros(longest), np.zeros(longest), np.zeros(width)
    total = 0.0
    for m in range(len(factor)):
        entries = slice(indptr[m], indptr[m + 1])
        columns, goal, own = indices[entries], targets.values[entries], factor[m]
        n = len(columns)
        for e in range(n):
            fixed[e] = intercept + other[columns[e], width - 1]
            for k in range(width - 1):
                gathered[k, e] = other[columns[e], k]
        product_of_row(n, own, gathered, linear)
        norm = 0.0
        for k in range(width):
            norm += own[k] * own[k]
        current = strength * norm + losses_of_row(kind, n_levels, n, fixed, linear, goal, slopes)
        for _ in range(n_inner):
            gradient_of_row(n, slopes, gathered, offset, gradient)
            product_of_row(n, gradient, gathered, along)
            improved = False
            for _ in range(TRIES):
                # prox of strength |u|²: u / (1 + 2 · step · strength)
                step = steps[m]
                shrink = 1.0 / (1.0 + 2.0 * step * strength)
                norm = 0.0
                for k in range(width):
                    norm += (own[k] - step * gradient[k]) ** 2
                for e in range(n):
                    trial[e] = (linear[e] - step * along[e]) * shrink
                value = strength * norm * shrink * shrink
                value += losses_of_row(kind, n_levels, n, fixed, trial, goal, slopes)
                if value < current:
                    improved = True
                    break
                steps[m] *= SHRINK
            if not improved:
                break
            current = value
            for k in range(width):
                own[k] = (own[k] - step * gradient[k]) * shrink
            linear, trial = trial, linear
            steps[m] *= GROW
        total += current
    return total


@njit(nogil=True, cache=True)
def scores_at(rows, columns, left, right):
    """Σ_k left[m, k] right[n, k] at pairs (m, n), (len,)."""
    out = np.zeros(len(rows))
    for e in range(len(rows)):
        a, b = left[rows[e]], right[columns[e]]
        total = 0.0
        for k in range(left.shape[1]):
            total += a[k] * b[k]
        out[e] = total
    return out


# ---------------------------------------------------------------- the model


Loss = Literal["quadratic", "logistic", "hinge", "ordinal"]

LOSSES = {
    "quadratic": QUADRATIC,
    "logistic": LOGISTIC,
    "hinge": HINGE,
    "ordinal": ORDINAL,
}


@declared
@dataclass(eq=False, repr=False)
class GLRM(Baseline):
    """Generalized low rank model with quadratic regularization, by proximal gradient.

    Minimizes, alternating between the rows of U (M, K) and of V (N, K),

        Σ over observed entries of loss(v_mn, o_mn) + regularization · (|U|² + |V|²),
        v_mn = intercept + a_m + b_n + u_m · v_n.

    Attributes
    ----------
    row_factors_, column_factors_ : (M, K) and (N, K) arrays
    row_offsets_, column_offsets_ : (M,) and (N,) arrays
    intercept_ : float
    regularization_, n_components_ : float, int
        Given or chosen.
    n_iter_ : int
    objective_ : float

    Notes
    -----
    The corner of the hinge is rounded over a width of 0.05. The logistic model has probabilities of
    its own; for other losses, the log-odds are linear in the score, fitted to the held-out entries,
    or to all entries if nothing is chosen and therefore nothing was held out.

    Examples
    --------
    >>> import numpy as np
    >>> from boolweave.baselines import GLRM
    >>> table = np.kron(np.eye(2), np.ones((4, 4)))
    >>> table[0, 7] = np.nan
    >>> GLRM(1, loss="hinge", regularization=0.1, random_state=0).fit(table).predict([0], [7])
    array([0], dtype=uint8)
    """

    n_components: int | Literal["auto"] = parameter(
        "auto",
        "Rank K.",
        '"auto" chooses it, with the regularization, by the log-loss of a tenth of the entries.',
        range="[1, 2^63)",
    )
    _: KW_ONLY
    loss: Loss = parameter(
        "logistic",
        '"ordinal" is the ordinal hinge, which can be fitted to ratings instead of bits.',
    )
    regularization: float | Literal["auto"] = parameter(
        "auto", "Weight of the squares of the factors.", range="[0.0, inf)"
    )
    offset: bool = parameter(
        True,
        "Whether there are an intercept and regularized offsets a_m and b_n; the paper has none.",
    )
    max_iter: int = parameter(200, "Maximum number of iterations.", range="[1, 2^63)")
    tol: float = parameter(
        1e-5,
        "Convergence tolerance: the fit ends when an iteration lowers the objective by less than "
        "this fraction.",
        range="[0.0, inf)",
    )

    def fit(self, X: Any, y: Any = None, *, ratings: ArrayLike | None = None) -> Self:
        """Fit to a partly observed Boolean matrix, or to the ratings that its bits came from.

        Parameters
        ----------
        X : array, table, sparse matrix or Observations, shape (M, N)
            Zeros and ones; NaN or null for missing entries.
        y : ignored
        ratings : (n_observed,) array, optional
            With loss="ordinal": the rating of each observed entry, by rows and then columns.

        Returns
        -------
        self
        """
        observations = self._observe(X)
        targets = self._targets(observations, ratings)
        rank, strength, calibration = self.n_components, self.regularization, None
        if rank == "auto" or strength == "auto":
            rank, strength, calibration = self._choose(observations, targets)
        self.n_components_, self.regularization_ = int(rank), float(strength)
        found = self._solve(observations, targets, self.n_components_, self.regularization_)
        self.intercept_, self.n_iter_, self.objective_ = (
            found.intercept,
            found.n_iter,
            found.objective,
        )
        self.row_factors_, self.row_offsets_ = found.rows[:, :-1], found.rows[:, -1]
        self.column_factors_, self.column_offsets_ = found.columns[:, :-1], found.columns[:, -1]
        if calibration is None:
            every = entries_of(observations)
            calibration = self._calibrate(self._score(every.rows, every.columns), every.values)
        self.slope_, self.shift_ = calibration
        return self

    def _targets(self, observations: Observations, ratings: ArrayLike | None) -> Doubles:
        """The targets of the scores, ±1 or levels; also sets the threshold of scores, `cut_`."""
        self.cut_, self.n_levels_ = 0.0, 2
        if self.loss != "ordinal":
            if ratings is not None:
                raise ValueError(f'ratings need loss="ordinal", got loss={self.loss!r}')
            return np.where(observations.values == 1, 1.0, -1.0)
        if ratings is None:
            self.cut_ = 0.5
            return observations.values.astype(np.float64)
        given = np.asarray(ratings, dtype=np.float64)
        if given.shape != (observations.n_observed,) or not np.isfinite(given).all():
            raise ValueError(
                f"ratings must be {observations.n_observed} numbers, one for each observed entry, "
                f"got shape {given.shape}"
            )
        levels, level = np.unique(given, return_inverse=True)
        ones = np.bincount(level, observations.values) / np.bincount(level)
        self.n_levels_ = len(levels)
        self.cut_ = float(np.count_nonzero(ones < 0.5)) - 0.5
        return level.astype(np.float64)

    def _choose(
        self, observations: Observations, targets: Doubles
    ) -> tuple[int, float, tuple[float, float]]:
        """Rank and strength with the lowest log-loss on held-out entries, and the calibration."""
        kept, check = hold_out(observations, self._generator())
        kept_targets = targets[entry_positions(observations, kept.rows_of_entries(), kept.indices)]
        # What "auto" tries: ranks, and strengths of regularization in finer steps than in the
        # paper.
        tried_ranks = (1, 2, 4, 8)
        regularizations = (0.1, 0.3, 1.0, 3.0, 10.0)
        ranks = tried_ranks if self.n_components == "auto" else (self.n_components,)
        strengths = regularizations if self.regularization == "auto" else (self.regularization,)
        largest = max(1, min(observations.shape) - 1)
        best, chosen = np.inf, None
        for rank in sorted({min(int(rank), largest) for rank in ranks}):
            for strength in strengths:
                found = self._solve(kept, kept_targets, rank, float(strength))
                score = found.scores(check.rows, check.columns) - self.cut_
                slope, shift = self._calibrate(score, check.values)
                loss = log_loss(check.values, sigmoid(slope * score + shift))
                if chosen is None or loss < best:
                    best, chosen = loss, (rank, float(strength), (slope, shift))
        assert chosen is not None
        return chosen

    def _calibrate(self, score: Doubles, values: NDArray[np.uint8]) -> tuple[float, float]:
        """Slope and shift from scores to log-odds; the scores of the logistic loss are log-odds."""
        return (1.0, 0.0) if self.loss == "logistic" else platt(score, values)

    def _solve(
        self, observations: Observations, targets: Doubles, rank: int, strength: float
    ) -> Factors:
        """Improve rows and columns alternately until the objective converges."""
        random = self._generator()
        intercept = 0.0
        if self.offset:
            share = share_of_ones((targets > 0).astype(np.uint8))
            intercept = float(log_odds(share) if self.loss == "logistic" else targets.mean())
        # Initial factors are random, with products of size one; the last column holds the offsets,
        # which start at 0.
        rows, columns = (
            random.normal(scale=rank**-0.25, size=(size, rank + 1)) for size in observations.shape
        )
        rows[:, -1] = columns[:, -1] = 0.0
        turned, by_column = (
            observations.transpose(),
            targets[np.argsort(observations.indices, kind="stable")],
        )
        sides = (
            (
                Targets(observations.indptr, observations.indices, targets, self.n_levels_),
                rows,
                columns,
            ),
            (Targets(turned.indptr, turned.indices, by_column, self.n_levels_), columns, rows),
        )
        steps = [1.0 / np.maximum(np.diff(side[0].indptr), 1) for side in sides]
        n_iter, last = 0, np.inf
        # Number of steps of one factor before the other one is updated.
        n_inner = 2
        while n_iter < self.max_iter:
            n_iter += 1
            for (goal, own, other), step in zip(sides, steps, strict=True):
                objective = improve_factor(
                    LOSSES[self.loss],
                    goal,
                    intercept,
                    self.offset,
                    own,
                    other,
                    strength,
                    step,
                    n_inner,
                )
            objective += strength * float(np.sum(rows**2))
            if last - objective <= self.tol * abs(objective):
                break
            last = objective
        return Factors(intercept, rows, columns, n_iter, float(objective))

    def _score(self, rows: Integers, columns: Integers) -> Doubles:
        inner = scores_at(rows, columns, self.row_factors_, self.column_factors_)
        offsets = self.intercept_ + self.row_offsets_[rows] + self.column_offsets_[columns]
        return inner + offsets - self.cut_

    def _probability(self, rows: Integers, columns: Integers) -> Doubles:
        return sigmoid(self.slope_ * self._score(rows, columns) + self.shift_)


class Factors(NamedTuple):
    """Intercept, factors with their offsets as last column, and how far the fit went."""

    intercept: float
    rows: Doubles  # (M, K + 1)
    columns: Doubles  # (N, K + 1)
    n_iter: int
    objective: float

    def scores(self, rows: Integers, columns: Integers) -> Doubles:
        """The scores at pairs of positions."""
        inner = scores_at(rows, columns, self.rows[:, :-1], self.columns[:, :-1])
        return self.intercept + inner + self.rows[rows, -1] + self.columns[columns, -1]
