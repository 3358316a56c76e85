"""Asso: factors from associations between columns (Miettinen et al. 2008)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import Interval, Real, StrOptions

from boolweave.baselines.base import Baseline
from boolweave.baselines.boolean_factors import BooleanFactors, matrix_of
from boolweave.estimator.parameters import AtLeast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from boolweave.baselines.boolean_factors import Bits, Matrix
    from boolweave.data.observations import Observations

# The paper reports the best of these.
PAPER_THRESHOLDS = (0.10, 0.31, 0.52, 0.74, 0.95)

# Number of candidates that are evaluated at a time, so that the gains (M, part) fit into memory.
PART = 512


class Asso(BooleanFactors):
    """Asso: factors are chosen among sets of associated columns, one candidate for each column.

    Column j is associated with column i if the confidence P(j | i) reaches the threshold. Factors
    are chosen one by one: each is the candidate that, with the rows that gain from it, adds most to
    bonus × (ones covered) − penalty × (zeros covered).

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Number of factors K; there are fewer if more would gain nothing. "auto" chooses it by the
        accuracy on a tenth of the entries.
    threshold : float, sequence of float or "auto", default="auto"
        τ in (0, 1]. If there are several, the best one on held-out entries is chosen; "auto" tries
        the five of the paper, `PAPER_THRESHOLDS`.
    bonus, penalty : float, default=1
        Weights of a covered one and of a covered zero.
    absent : {"zero", "missing"}, default="zero"
        How to treat the entries that a sparse matrix does not store.
    random_state : int, RandomState or None
        Random seed of the choice of held-out entries.

    Attributes
    ----------
    row_factors_, components_ : (M, K) and (K, N) arrays of uint8
    threshold_ : float
    rates_ : (float, float)
        P(o = 1) where the product is 0 and where it is 1, counted on the held-out entries, or on
        all entries if nothing was chosen.

    Notes
    -----
    Missing entries are ignored, both in confidences and in what is covered.

    Examples
    --------
    >>> from boolweave.baselines import Asso
    >>> Asso(2, threshold=0.9).fit([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1]]).components_
    array([[1, 1, 0, 0],
           [0, 0, 1, 1]], dtype=uint8)

    New rows get the factors that they gain from:

    >>> model = Asso(2, threshold=0.9).fit([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1]])
    >>> model.transform([[1, 1, 1, 1], [0, 0, 1, 1]])
    array([[1, 1],
           [0, 1]], dtype=uint8)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Baseline._parameter_constraints,
        "n_components": [AtLeast(1), StrOptions({"auto"})],
        "threshold": [Interval(Real, 0, 1, closed="right"), "array-like", StrOptions({"auto"})],
        "bonus": [Interval(Real, 0, None, closed="neither")],
        "penalty": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_components: int | Literal["auto"] = "auto",
        *,
        threshold: float | Sequence[float] | Literal["auto"] = "auto",
        bonus: float = 1.0,
        penalty: float = 1.0,
        absent: Literal["zero", "missing"] = "zero",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.threshold = threshold
        self.bonus = bonus
        self.penalty = penalty
        self.absent = absent
        self.random_state = random_state

    def _fit(self, seen: Observations) -> None:
        thresholds: tuple[float, ...] = PAPER_THRESHOLDS
        if not isinstance(self.threshold, str):
            thresholds = tuple(float(t) for t in np.atleast_1d(np.asarray(self.threshold)))
            if not thresholds or min(thresholds) <= 0 or max(thresholds) > 1:
                raise ValueError(
                    f"threshold must be in (0, 1], one or several, got {self.threshold}"
                )
        self.threshold_ = self._fit_best(seen, thresholds)

    def _greedy(self, seen: Observations, most: int, option: float) -> tuple[Bits, Bits]:
        candidates = np.unique(confidences(seen) >= option, axis=0)
        candidates = candidates[candidates.any(axis=1)]
        gain_of_entry = self._gains(seen)
        X, Y = np.zeros((seen.n_rows, most), np.uint8), np.zeros((most, seen.n_columns), np.uint8)
        for k in range(most):
            best, who = 0.0, -1
            for first in range(0, len(candidates), PART):
                part = candidates[first : first + PART].astype(np.float32)
                gains = np.maximum(gain_of_entry @ part.T, 0).sum(axis=0)
                if gains.size and gains.max() > best:
                    best, who = float(gains.max()), first + int(gains.argmax())
            if who < 0:
                return X[:, :k], Y[:k]
            X[:, k], Y[k] = _cover(gain_of_entry, candidates[who]), candidates[who]
        return X, Y

    def _gains(self, seen: Observations) -> Matrix:
        """The gain from covering each entry, (rows, N)."""
        return matrix_of(seen, np.where(seen.values, self.bonus, -self.penalty))

    def _rows_of(self, seen: Observations) -> Bits:
        """Assign factors in the order in which they were chosen, each to the rows that gain."""
        gain_of_entry = self._gains(seen)
        X = np.zeros((seen.n_rows, len(self.components_)), np.uint8)
        for k, members in enumerate(self.components_.astype(bool)):
            X[:, k] = _cover(gain_of_entry, members)
        return X


def confidences(seen: Observations) -> NDArray[np.float32]:
    """Fraction of the rows with a 1 in column i, and column j observed, with a 1 in j: (N, N).

    Two columns that were never observed together have confidence 0, and a column with itself 1.
    """
    ones = matrix_of(seen, seen.values)
    known = matrix_of(seen, np.ones(seen.n_observed))
    both, possible = (
        product if isinstance(product, np.ndarray) else product.toarray()
        for product in (ones.T @ ones, ones.T @ known)
    )
    return np.asarray(both / np.maximum(possible, 1), dtype=np.float32)


def _cover(gain: Matrix, members: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which rows (M,) gain from a factor of these columns; the gains of its entries become 0."""
    rows = np.asarray(gain @ members.astype(np.float32) > 0)
    if isinstance(gain, np.ndarray):
        gain[np.ix_(rows, members)] = 0
    else:
        row_of_entry = np.repeat(rows, np.diff(gain.indptr))
        gain.data[row_of_entry & members[gain.indices]] = 0
    return rows
