"""Generalized low rank models: real factors under a loss for bits (Udell et al. 2016)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from sklearn.utils._param_validation import Interval, Real, StrOptions

from boolweave.baselines import real_factors
from boolweave.baselines.base import Baseline, entries_of, hold_out, platt, share_of_ones
from boolweave.baselines.real_factors import Targets
from boolweave.data.splits import entry_positions
from boolweave.estimator.parameters import AtLeast
from boolweave.metrics import log_loss
from boolweave.model.odds import log_odds, sigmoid

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from boolweave.baselines.base import Doubles
    from boolweave.data.observations import Observations
    from boolweave.runtime.types import Integers

Loss = Literal["quadratic", "logistic", "hinge", "ordinal"]

LOSSES = {
    "quadratic": real_factors.QUADRATIC,
    "logistic": real_factors.LOGISTIC,
    "hinge": real_factors.HINGE,
    "ordinal": real_factors.ORDINAL,
}
PAPER_REGULARIZATIONS = (0.01, 0.1, 1.0, 10.0)

# What "auto" tries: ranks, and strengths of regularization in finer steps than in the paper.
RANKS = (1, 2, 4, 8)
REGULARIZATIONS = (0.1, 0.3, 1.0, 3.0, 10.0)

# Number of steps of one factor before the other one is updated.
N_INNER = 2


class GLRM(Baseline):
    """Generalized low rank model with quadratic regularization, by proximal gradient.

    Minimizes, alternating between the rows of U (M, K) and of V (N, K),

        Σ over observed entries of loss(v_mn, o_mn) + regularization · (|U|² + |V|²),
        v_mn = intercept + a_m + b_n + u_m · v_n.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Rank K. "auto" chooses it, with the regularization, by the log-loss of a tenth of the
        entries.
    loss : {"quadratic", "logistic", "hinge", "ordinal"}, default="logistic"
        "ordinal" is the ordinal hinge, which can be fitted to ratings instead of bits.
    regularization : float or "auto", default="auto"
    offset : bool, default=True
        Whether there are an intercept and regularized offsets a_m and b_n; the paper has none.
    max_iter : int, default=200
        Maximum number of iterations.
    tol : float, default=1e-5
        Convergence tolerance: the fit ends when an iteration lowers the objective by less than this
        fraction.
    absent : {"zero", "missing"}, default="zero"
        How to treat the entries that a sparse matrix does not store.
    random_state : int, RandomState or None
        Random seed of the initial factors and of the choice of held-out entries.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Baseline._parameter_constraints,
        "n_components": [AtLeast(1), StrOptions({"auto"})],
        "loss": [StrOptions(set(LOSSES))],
        "regularization": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "offset": ["boolean"],
        "max_iter": [AtLeast(1)],
        "tol": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_components: int | Literal["auto"] = "auto",
        *,
        loss: Loss = "logistic",
        regularization: float | Literal["auto"] = "auto",
        offset: bool = True,
        max_iter: int = 200,
        tol: float = 1e-5,
        absent: Literal["zero", "missing"] = "zero",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.loss = loss
        self.regularization = regularization
        self.offset = offset
        self.max_iter = max_iter
        self.tol = tol
        self.absent = absent
        self.random_state = random_state

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
        seen = self._observe(X)
        targets = self._targets(seen, ratings)
        rank, strength, calibration = self.n_components, self.regularization, None
        if rank == "auto" or strength == "auto":
            rank, strength, calibration = self._choose(seen, targets)
        self.n_components_, self.regularization_ = int(rank), float(strength)
        found = self._solve(seen, targets, self.n_components_, self.regularization_)
        self.intercept_, self.n_iter_, self.objective_ = (
            found.intercept,
            found.n_iter,
            found.objective,
        )
        self.row_factors_, self.row_offsets_ = found.rows[:, :-1], found.rows[:, -1]
        self.column_factors_, self.column_offsets_ = found.columns[:, :-1], found.columns[:, -1]
        if calibration is None:
            every = entries_of(seen)
            calibration = self._calibrate(self._score(every.rows, every.columns), every.values)
        self.slope_, self.shift_ = calibration
        return self

    def _targets(self, seen: Observations, ratings: ArrayLike | None) -> Doubles:
        """The targets of the scores, ±1 or levels; also sets the threshold of scores, `cut_`."""
        self.cut_, self.n_levels_ = 0.0, 2
        if self.loss != "ordinal":
            if ratings is not None:
                raise ValueError(f'ratings need loss="ordinal", got loss={self.loss!r}')
            return np.where(seen.values == 1, 1.0, -1.0)
        if ratings is None:
            self.cut_ = 0.5
            return seen.values.astype(np.float64)
        given = np.asarray(ratings, dtype=np.float64)
        if given.shape != (seen.n_observed,) or not np.isfinite(given).all():
            raise ValueError(
                f"ratings must be {seen.n_observed} numbers, one for each observed entry, got "
                f"shape {given.shape}"
            )
        levels, level = np.unique(given, return_inverse=True)
        ones = np.bincount(level, seen.values) / np.bincount(level)
        self.n_levels_ = len(levels)
        self.cut_ = float(np.count_nonzero(ones < 0.5)) - 0.5
        return level.astype(np.float64)

    def _choose(
        self, seen: Observations, targets: Doubles
    ) -> tuple[int, float, tuple[float, float]]:
        """Rank and strength with the lowest log-loss on held-out entries, and the calibration."""
        kept, check = hold_out(seen, self._generator())
        kept_targets = targets[entry_positions(seen, kept.rows_of_entries(), kept.indices)]
        ranks = RANKS if self.n_components == "auto" else (self.n_components,)
        strengths = REGULARIZATIONS if self.regularization == "auto" else (self.regularization,)
        largest = max(1, min(seen.shape) - 1)
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

    def _solve(self, seen: Observations, targets: Doubles, rank: int, strength: float) -> Factors:
        """Improve rows and columns alternately until the objective converges."""
        random = self._generator()
        intercept = 0.0
        if self.offset:
            share = share_of_ones((targets > 0).astype(np.uint8))
            intercept = float(log_odds(share) if self.loss == "logistic" else targets.mean())
        # Initial factors are random, with products of size one; the last column holds the offsets,
        # which start at 0.
        rows, columns = (
            random.normal(scale=rank**-0.25, size=(size, rank + 1)) for size in seen.shape
        )
        rows[:, -1] = columns[:, -1] = 0.0
        turned, by_column = seen.transpose(), targets[np.argsort(seen.indices, kind="stable")]
        sides = (
            (Targets(seen.indptr, seen.indices, targets, self.n_levels_), rows, columns),
            (Targets(turned.indptr, turned.indices, by_column, self.n_levels_), columns, rows),
        )
        steps = [1.0 / np.maximum(np.diff(side[0].indptr), 1) for side in sides]
        n_iter, last = 0, np.inf
        while n_iter < self.max_iter:
            n_iter += 1
            for (goal, own, other), step in zip(sides, steps, strict=True):
                objective = real_factors.improve_factor(
                    LOSSES[self.loss], goal, intercept, self.offset, own, other, strength, step,
                    N_INNER,
                )  # fmt: skip
            objective += strength * float(np.sum(rows**2))
            if last - objective <= self.tol * abs(objective):
                break
            last = objective
        return Factors(intercept, rows, columns, n_iter, float(objective))

    def _score(self, rows: Integers, columns: Integers) -> Doubles:
        inner = real_factors.scores_at(rows, columns, self.row_factors_, self.column_factors_)
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
        inner = real_factors.scores_at(rows, columns, self.rows[:, :-1], self.columns[:, :-1])
        return self.intercept + inner + self.rows[rows, -1] + self.columns[columns, -1]
