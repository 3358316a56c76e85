"""Code that the baselines share: input, prediction, held-out entries, calibration of scores."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from boolweave.data.observations import Observations
from boolweave.estimator.parameters import declared
from boolweave.model.odds import sigmoid, without_nan
from boolweave.parameters import ABSENT, parameter
from boolweave.runtime.checks import seed_of
from boolweave.runtime.types import Integers

Doubles: TypeAlias = NDArray[np.float64]


class Triplets(NamedTuple):
    """Rows, columns and values of entries, each (n,)."""

    rows: Integers
    columns: Integers
    values: NDArray[np.uint8]


@declared
@dataclass(eq=False, repr=False, kw_only=True)
class Baseline(BaseEstimator):
    """The interface of every baseline; a method fills in `_fit` and `_score`.

    Attributes
    ----------
    n_components_ : int
        The rank used; 0 if the method has none.
    shape_ : (int, int)
        Rows M and columns N of the matrix fitted.
    """

    absent: Literal["zero", "missing"] = parameter("zero", ABSENT)
    random_state: int | np.random.RandomState | None = parameter(
        None, "Random seed of the choice of held-out entries, and of the first factors."
    )

    n_components_: int = field(init=False)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to a partly observed Boolean matrix.

        Parameters
        ----------
        X : array, table, sparse matrix or Observations, shape (M, N)
            Zeros and ones; NaN or null for missing entries.
        y : ignored

        Returns
        -------
        self
        """
        self._fit(self._observe(X))
        return self

    def predict_proba(self, rows: ArrayLike, cols: ArrayLike) -> Doubles:
        """Probability that a one is observed at each pair of positions, (len,)."""
        return without_nan(self._probability(*self._pairs(rows, cols)))

    def predict(self, rows: ArrayLike, cols: ArrayLike) -> NDArray[np.uint8]:
        """The method's own decision at each pair of positions, (len,) of 0 and 1."""
        return (self._score(*self._pairs(rows, cols)) > 0).astype(np.uint8)

    # ------------------------------------------------------------ to fill in

    def _fit(self, observations: Observations) -> None:
        """Fit to checked observations and set the attributes."""
        raise NotImplementedError

    def _score(self, rows: Integers, columns: Integers) -> Doubles:
        """A number for each pair, which is positive if the method predicts 1."""
        raise NotImplementedError

    def _probability(self, rows: Integers, columns: Integers) -> Doubles:
        """P(a one is observed) at each pair."""
        return sigmoid(self._score(rows, columns))

    # ------------------------------------------------------------ input

    def _observe(self, X: Any) -> Observations:
        """Check the parameters and the data, and remember the shape."""
        self._validate_params()
        observations = Observations.from_data(X, absent=self.absent)
        if observations.n_observed == 0:
            raise ValueError(
                f"{type(self).__name__} needs at least one observed entry, got a matrix of shape "
                f"{observations.shape} without any"
            )
        self.shape_ = observations.shape
        self.n_features_in_ = observations.shape[1]
        return observations

    def _pairs(self, rows: ArrayLike, cols: ArrayLike) -> tuple[Integers, Integers]:
        """Check positions and return them as arrays of one length."""
        check_is_fitted(self, "shape_")
        row, column = (np.atleast_1d(np.asarray(given)) for given in (rows, cols))
        for name, index, size in zip(("rows", "cols"), (row, column), self.shape_, strict=True):
            if index.size and (index.dtype.kind not in "iu" or index.ndim != 1):
                raise ValueError(
                    f"{name} must be a list of whole numbers, got {index.dtype} of shape "
                    f"{index.shape}"
                )
            if index.size and (index.min() < 0 or index.max() >= size):
                raise ValueError(
                    f"{name} must be from 0 to {size - 1}, got {index.min()} to {index.max()}"
                )
        if len(row) != len(column):
            raise ValueError(
                "rows and cols form pairs and must have the same length, got "
                f"{len(row)} and {len(column)}"
            )
        return row.astype(np.intp), column.astype(np.intp)

    def _generator(self) -> np.random.Generator:
        """A new generator, the same each time if `random_state` is a number."""
        return np.random.default_rng(seed_of(self.random_state))


# ---------------------------------------------------------------- held-out entries


def hold_out(
    observations: Observations, random: np.random.Generator
) -> tuple[Observations, Triplets]:
    """Split the entries into those to fit and those to choose by; tiny data serve as both."""
    # Fraction of the observed entries by which a method chooses parameters that are "auto", and
    # their minimum number. If there are fewer than twice as many entries, all entries serve both
    # purposes.
    validation_share = 0.1
    least_validation = 5
    if observations.n_observed < 2 * least_validation:
        return observations, entries_of(observations)
    share = max(validation_share, least_validation / observations.n_observed)
    kept, rows, columns, values = observations.hide(share, random)
    return kept, Triplets(rows, columns, values)


def entries_of(observations: Observations) -> Triplets:
    """All observed entries."""
    return Triplets(observations.rows_of_entries(), observations.indices, observations.values)


# ---------------------------------------------------------------- probabilities


def share_of_ones(values: NDArray[np.uint8]) -> float:
    """The fraction of ones among bits, with one more of each kind counted."""
    return (np.count_nonzero(values) + 1.0) / (len(values) + 2.0)


def total_log_loss(log_odds: Doubles, values: NDArray[np.uint8] | Doubles) -> float:
    """Negative log-likelihood of bits under log-odds, summed."""
    return float(np.sum(np.logaddexp(0, log_odds) - values * log_odds))


def platt(score: Doubles, values: NDArray[np.uint8]) -> tuple[float, float]:
    """Slope and intercept that turn scores into log-odds of a one (Platt 1999).

    The targets are Platt's, a little inside 0 and 1, so that separable scores stay finite.
    """
    from scipy.optimize import minimize

    ones = float(np.count_nonzero(values))
    zeros = len(values) - ones
    target = np.where(values == 1, (ones + 1) / (ones + 2), 1 / (zeros + 2))
    scale = float(np.abs(score).mean()) or 1.0

    def loss(ab: Doubles) -> tuple[float, Doubles]:
        v = ab[0] * score / scale + ab[1]
        slope = sigmoid(v) - target
        return total_log_loss(v, target), np.array([np.dot(slope, score) / scale, slope.sum()])

    start = np.array([1.0, 0.0])
    a, b = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0, None), (None, None)]).x
    return float(a / scale), float(b)
