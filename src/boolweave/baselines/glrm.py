"""Generalized low rank models: real factors under a loss for bits (Udell et al. 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from sklearn.utils._param_validation import Integral, Interval, Real, StrOptions

from boolweave.baselines import kernels
from boolweave.baselines.base import (
    Baseline,
    Entries,
    entries_of,
    hold_out,
    log_loss_of_scores,
    logit_of_share,
    platt,
)
from boolweave.model.odds import sigmoid

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from boolweave.data.observations import Observations

    Floats = NDArray[np.float64]

Loss = Literal["quadratic", "logistic", "hinge", "ordinal"]

LOSSES = {
    "quadratic": kernels.QUADRATIC,
    "logistic": kernels.LOGISTIC,
    "hinge": kernels.HINGE,
    "ordinal": kernels.ORDINAL,
}
PAPER_REGULARIZATIONS = (0.01, 0.1, 1.0, 10.0)

# What "auto" tries: ranks, and between the paper's strengths of regularisation a finer step.
RANKS = (1, 2, 4, 8)
REGULARIZATIONS = (0.1, 0.3, 1.0, 3.0, 10.0)

# Steps of one factor before it is the other's turn.
N_INNER = 2


class GLRM(Baseline):
    """Generalized low rank model with quadratic regularisation, by proximal gradient.

    Minimises, in turns over the rows of U (M, K) and of V (N, K),

        Σ over observed entries of loss(v_mn, o_mn) + regularization · (|U|² + |V|²),
        v_mn = intercept + a_m + b_n + u_m · v_n.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        K. "auto": with the regularisation by the log-loss of a tenth of the entries.
    loss : {"quadratic", "logistic", "hinge", "ordinal"}, default="logistic"
        "ordinal" is the ordinal hinge, which can be fitted to ratings instead of bits.
    regularization : float or "auto", default="auto"
    offset : bool, default=True
        Whether there are an intercept and regularised offsets a_m and b_n; the paper has none.
    max_iter : int, default=200
        Most turns.
    tol : float, default=1e-5
        The fit ends when a turn lowers the objective by less than this share of it.
    absent : {"zero", "missing"}, default="zero"
        What the entries are that a sparse matrix does not store.
    random_state : int, RandomState or None
        Start of the factors, and which entries are held out.

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
    Hinges have a corner rounded off over a width of 0.05. Probabilities are the logistic
    model's own; for other losses the log-odds are linear in the score, fitted to the entries held
    out, or to all entries where nothing is chosen and so nothing was held out.

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
        "n_components": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "loss": [StrOptions(set(LOSSES))],
        "regularization": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "offset": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "absent": [StrOptions({"zero", "missing"})],
        "random_state": ["random_state"],
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
            Zeros and ones; NaN or null where nothing was observed.
        y : ignored
        ratings : (n_observed,) array, optional
            With loss="ordinal": the rating behind each observed entry, by rows and then columns.

        Returns
        -------
        self
        """
        self._validate_params()
        seen = self._observe(X)
        self._levels(seen, ratings)
        self._fit(seen)
        return self

    def _fit(self, seen: Observations) -> None:
        targets = np.asarray(self._targets, dtype=np.float64)
        rank, strength = self.n_components, self.regularization
        calibration: tuple[float, float] | None = None
        if rank == "auto" or strength == "auto":
            rank, strength, calibration = self._choose(seen, targets)
        self.n_components_, self.regularization_ = int(rank), float(strength)
        found = self._solve(seen, targets, self.n_components_, self.regularization_)
        del self._targets
        self.row_factors_, self.row_offsets_ = found.rows[:, :-1], found.rows[:, -1]
        self.column_factors_, self.column_offsets_ = found.columns[:, :-1], found.columns[:, -1]
        self.intercept_, self.n_iter_ = found.base, found.n_iter
        self.objective_ = found.objective
        if self.loss == "logistic":
            self.slope_, self.shift_ = 1.0, 0.0
        else:
            if calibration is None:
                every = entries_of(seen)
                calibration = platt(self._score(every.rows, every.columns), every.values)
            self.slope_, self.shift_ = calibration

    # ------------------------------------------------------------ targets

    def _levels(self, seen: Observations, ratings: ArrayLike | None) -> None:
        """What the scores should be: ±1, or levels; and where scores are cut, `cut_`."""
        self.cut_, self.n_levels_ = 0.0, 2
        if self.loss != "ordinal":
            if ratings is not None:
                raise ValueError(f'ratings need loss="ordinal", got loss={self.loss!r}')
            self._targets = 2.0 * seen.values - 1.0
            return
        if ratings is None:
            self._targets, self.cut_ = seen.values.astype(np.float64), 0.5
            return
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
        self._targets = level.astype(np.float64)

    def _base(self, targets: Floats) -> float:
        if not self.offset:
            return 0.0
        if self.loss == "logistic":
            return logit_of_share((targets > 0).astype(np.uint8))
        return float(targets.mean())

    # ------------------------------------------------------------ choosing

    def _choose(
        self, seen: Observations, targets: Floats
    ) -> tuple[int, float, tuple[float, float]]:
        """Rank and strength with the least log-loss on held-out entries, and the calibration."""
        kept, check = hold_out(seen, self._generator())
        position = _positions(seen, kept)
        ranks = RANKS if self.n_components == "auto" else (self.n_components,)
        strengths = REGULARIZATIONS if self.regularization == "auto" else (self.regularization,)
        largest = max(1, min(seen.shape) - 1)
        best: tuple[float, int, float, tuple[float, float]] | None = None
        for rank in sorted({min(int(rank), largest) for rank in ranks}):
            for strength in strengths:
                found = self._solve(kept, targets[position], rank, float(strength))
                loss, calibration = self._held_out_loss(found, check)
                if best is None or loss < best[0]:
                    best = (loss, rank, float(strength), calibration)
        assert best is not None
        return best[1:]

    def _held_out_loss(self, found: _Factors, check: Entries) -> tuple[float, tuple[float, float]]:
        score = found.scores(check.rows, check.columns) - self.cut_
        calibration = (1.0, 0.0) if self.loss == "logistic" else platt(score, check.values)
        log_odds = calibration[0] * score + calibration[1]
        return log_loss_of_scores(log_odds, check.values), calibration

    # ------------------------------------------------------------ fitting

    def _solve(self, seen: Observations, targets: Floats, rank: int, strength: float) -> _Factors:
        random = self._generator()
        turned, order = _turned(seen)
        start = [_start(random, size, rank) for size in seen.shape]
        found = _Factors(self._base(targets), start[0], start[1])
        sides = (
            (seen.indptr, seen.indices, targets, found.rows, found.columns),
            (turned.indptr, turned.indices, targets[order], found.columns, found.rows),
        )
        steps = [1.0 / np.maximum(np.diff(side[0]), 1) for side in sides]
        common = (LOSSES[self.loss], self.n_levels_)
        last = np.inf
        for _ in range(self.max_iter):
            for (indptr, indices, goal, own, other), step in zip(sides, steps, strict=True):
                value = kernels.improve_factor(
                    *common, indptr, indices, goal, found.base, self.offset, own, other,
                    strength, step, N_INNER,
                )  # fmt: skip
            value += strength * float(np.sum(found.rows**2))
            found.n_iter += 1
            found.objective = float(value)
            if last - value <= self.tol * abs(value):
                break
            last = value
        return found

    def _score(self, rows: NDArray[Any], columns: NDArray[Any]) -> Floats:
        inner = kernels.scores_at(rows, columns, self.row_factors_, self.column_factors_)
        offsets = self.intercept_ + self.row_offsets_[rows] + self.column_offsets_[columns]
        return inner + offsets - self.cut_

    def _probability(self, rows: NDArray[Any], columns: NDArray[Any]) -> Floats:
        return sigmoid(self.slope_ * self._score(rows, columns) + self.shift_)


@dataclass(eq=False)
class _Factors:
    """Intercept, factors with their offsets as last column, and how far the fit went."""

    base: float
    rows: Floats  # (M, K + 1)
    columns: Floats  # (N, K + 1)
    n_iter: int = 0
    objective: float = np.inf

    def scores(self, rows: NDArray[Any], columns: NDArray[Any]) -> Floats:
        left, right = self.rows, self.columns
        inner = kernels.scores_at(
            rows, columns, np.ascontiguousarray(left[:, :-1]), np.ascontiguousarray(right[:, :-1])
        )
        return self.base + inner + left[rows, -1] + right[columns, -1]


def _start(random: np.random.Generator, size: int, rank: int) -> Floats:
    """Random factors whose products are of size one; no offsets."""
    factor = random.normal(scale=rank**-0.25, size=(size, rank + 1))
    factor[:, -1] = 0.0
    return factor


def _turned(seen: Observations) -> tuple[Observations, NDArray[np.intp]]:
    """The entries by columns, and where each stands by rows."""
    return seen.transpose(), np.argsort(seen.indices, kind="stable")


def _positions(seen: Observations, kept: Observations) -> NDArray[np.intp]:
    """Where the entries of `kept` stand among those of `seen`."""
    if kept is seen:
        return np.arange(seen.n_observed)
    keys = seen.rows_of_entries() * seen.n_columns + seen.indices
    return np.searchsorted(keys, kept.rows_of_entries() * kept.n_columns + kept.indices)
