"""What the baselines share: input, prediction, held-out entries, probabilities from scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from boolweave.data.observations import Observations
from boolweave.metrics import log_loss
from boolweave.model.odds import sigmoid

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

# Share of the observed entries on which a method chooses what is left at "auto", and the least
# number of them. Where they are fewer than twice as many, all entries serve both ends.
VALIDATION_SHARE = 0.1
LEAST_VALIDATION = 5


class Entries(NamedTuple):
    """Entries of a matrix and their values, each (n,)."""

    rows: NDArray[np.int64]
    columns: NDArray[Any]
    values: NDArray[np.uint8]


class Baseline(BaseEstimator):
    """The face of every baseline; a method fills in `_fit` and `_score`.

    Attributes
    ----------
    n_components_ : int
        The rank used; 0 where the method has none.
    shape_ : (int, int)
        Rows M and columns N of the matrix fitted.
    """

    absent: Literal["zero", "missing"]
    n_components_: int

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to a partly observed Boolean matrix.

        Parameters
        ----------
        X : array, table, sparse matrix or Observations, shape (M, N)
            Zeros and ones; NaN or null where nothing was observed.
        y : ignored

        Returns
        -------
        self
        """
        self._validate_params()
        seen = self._observe(X)
        self._fit(seen)
        return self

    def predict_proba(self, rows: ArrayLike, cols: ArrayLike) -> Floats:
        """Probability that a one is seen at each pair of positions, (len,)."""
        return self._probability(*self._pairs(rows, cols))

    def predict(self, rows: ArrayLike, cols: ArrayLike) -> NDArray[np.uint8]:
        """The method's own decision at each pair of positions, (len,) of 0 and 1."""
        return (self._score(*self._pairs(rows, cols)) > 0).astype(np.uint8)

    # ------------------------------------------------------------ to fill in

    def _fit(self, seen: Observations) -> None:
        raise NotImplementedError

    def _score(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Floats:
        """A number per pair, above 0 where the method says 1."""
        raise NotImplementedError

    def _probability(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Floats:
        return sigmoid(self._score(rows, columns))

    # ------------------------------------------------------------ input

    def _observe(self, X: Any) -> Observations:
        seen = Observations.from_data(X, absent=getattr(self, "absent", "zero"))
        if seen.n_observed == 0:
            raise ValueError(
                f"{type(self).__name__} needs at least one observed entry, got a matrix of shape "
                f"{seen.shape} without any"
            )
        self.shape_ = seen.shape
        self.n_features_in_ = seen.shape[1]
        return seen

    def _pairs(self, rows: ArrayLike, cols: ArrayLike) -> tuple[NDArray[np.intp], ...]:
        check_is_fitted(self, "shape_")
        pairs = []
        for name, given, size in (("rows", rows, self.shape_[0]), ("cols", cols, self.shape_[1])):
            index = np.atleast_1d(np.asarray(given))
            if index.size and (index.dtype.kind not in "iu" or index.ndim != 1):
                raise ValueError(
                    f"{name} must be a list of whole numbers, got {index.dtype} of shape "
                    f"{index.shape}"
                )
            if index.size and (index.min() < 0 or index.max() >= size):
                raise ValueError(
                    f"{name} must be from 0 to {size - 1}, got {index.min()} to {index.max()}"
                )
            pairs.append(index.astype(np.intp))
        if len(pairs[0]) != len(pairs[1]):
            raise ValueError(
                "rows and cols are pairs and must have one length, got "
                f"{len(pairs[0])} and {len(pairs[1])}"
            )
        return tuple(pairs)

    def _generator(self) -> np.random.Generator:
        state = check_random_state(getattr(self, "random_state", None))
        return np.random.default_rng(state.randint(2**31))


# ---------------------------------------------------------------- held-out entries


def hold_out(seen: Observations, random: np.random.Generator) -> tuple[Observations, Entries]:
    """Part the entries into those to fit and those to choose by; tiny data serve as both."""
    if seen.n_observed < 2 * LEAST_VALIDATION:
        return seen, entries_of(seen)
    share = max(VALIDATION_SHARE, LEAST_VALIDATION / seen.n_observed)
    kept, rows, columns, values = seen.hide(share, random)
    return kept, Entries(rows, columns, values)


def entries_of(seen: Observations) -> Entries:
    """All observed entries."""
    return Entries(seen.rows_of_entries(), seen.indices, seen.values)


# ---------------------------------------------------------------- probabilities


def logit_of_share(values: NDArray[np.uint8]) -> float:
    """Log-odds of the share of ones, one more of each kind counted."""
    ones = float(np.count_nonzero(values))
    return float(np.log((ones + 1) / (len(values) - ones + 1)))


def platt(score: Floats, values: NDArray[np.uint8]) -> tuple[float, float]:
    """Slope and intercept with which log-odds of a one follow from scores (Platt 1999).

    The targets are Platt's, a little inside 0 and 1, so that separable scores stay finite.
    """
    from scipy.optimize import minimize

    ones = float(np.count_nonzero(values))
    zeros = len(values) - ones
    target = np.where(values == 1, (ones + 1) / (ones + 2), 1 / (zeros + 2))
    scale = float(np.abs(score).mean()) or 1.0

    def loss(ab: Floats) -> tuple[float, Floats]:
        v = ab[0] * score / scale + ab[1]
        slope = sigmoid(v) - target
        total = np.sum(np.logaddexp(0, v) - target * v)
        return float(total), np.array([np.dot(slope, score) / scale, slope.sum()])

    start = np.array([1.0, 0.0])
    a, b = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0, None), (None, None)]).x
    return float(a / scale), float(b)


def rates(decoded: NDArray[np.bool_], values: NDArray[np.uint8]) -> tuple[float, float]:
    """P(seen 1 | decoded 0) and P(seen 1 | decoded 1), one more of each kind counted."""
    out = []
    for bit in (False, True):
        those = values[decoded == bit]
        out.append((np.count_nonzero(those) + 1.0) / (len(those) + 2.0))
    return out[0], out[1]


def log_loss_of_scores(log_odds: Floats, values: NDArray[np.uint8]) -> float:
    """Mean negative log-likelihood of bits under log-odds."""
    return log_loss(values, sigmoid(log_odds))
