"""Asso: factors from associations between columns (Miettinen et al. 2008)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils._param_validation import Integral, Interval, Real, StrOptions
from sklearn.utils.validation import check_is_fitted

from boolweave.baselines.base import Baseline, Entries, entries_of, hold_out, rates
from boolweave.data.observations import Observations
from boolweave.model.products import boolean_product, product_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float32]

# The paper reports the best of these.
PAPER_THRESHOLDS = (0.10, 0.31, 0.52, 0.74, 0.95)

# A greedy search seldom gains past this many factors, and "auto" need not look there.
MOST_COMPONENTS = 30

# Candidates are judged in parts of this many, so that the gains (M, part) fit into memory.
PART = 512

# Matrices with a smaller share of observed entries are multiplied as sparse ones.
DENSE_SHARE = 0.1


class BooleanFactors(TransformerMixin, Baseline):
    """Predictions from Boolean factors, and factors of new rows: those of Asso and of GreConD.

    A method fills in `_rows_of`.
    """

    row_factors_: NDArray[np.uint8]
    components_: NDArray[np.uint8]

    def fit_transform(self, X: Any, y: Any = None) -> NDArray[np.uint8]:
        """Fit, and return the row factors, (M, K)."""
        return self.fit(X).row_factors_

    def transform(self, X: Any) -> NDArray[np.uint8]:
        """Row factors of new rows, the components held fixed.

        A row gets the factors that `fit` would give it, had it chosen the same components; the
        rows of `fit` get ``row_factors_``.

        Parameters
        ----------
        X : as in `fit`, shape (rows, N)

        Returns
        -------
        (rows, K) array of uint8
        """
        check_is_fitted(self, "components_")
        seen = Observations.from_data(X, absent=self.absent)
        if seen.n_columns != self.n_features_in_:
            raise ValueError(
                f"X has {seen.n_columns} features, but {type(self).__name__} was fitted with "
                f"{self.n_features_in_}; give the same columns in the same order"
            )
        return self._rows_of(seen)

    def inverse_transform(self, X: ArrayLike | None = None) -> NDArray[np.uint8]:
        """The Boolean product of row factors (rows, K) and the components: (rows, N) uint8.

        Left out: the row factors of `fit`.
        """
        check_is_fitted(self, "components_")
        return boolean_product(self.row_factors_ if X is None else X, self.components_)

    def _rows_of(self, seen: Observations) -> NDArray[np.uint8]:
        """Row factors (rows, K) for the components there are."""
        raise NotImplementedError

    def _decoded(self, rows: NDArray[Any], columns: NDArray[Any]) -> NDArray[np.bool_]:
        return product_at(self.row_factors_, self.components_, rows, columns) > 0

    def _score(self, rows: NDArray[Any], columns: NDArray[Any]) -> NDArray[np.float64]:
        return np.where(self._decoded(rows, columns), 1.0, -1.0)

    def _probability(self, rows: NDArray[Any], columns: NDArray[Any]) -> NDArray[np.float64]:
        return np.where(self._decoded(rows, columns), self.rates_[1], self.rates_[0])

    def _keep(
        self, X: NDArray[np.uint8], Y: NDArray[np.uint8], counted: tuple[float, float]
    ) -> None:
        self.row_factors_, self.components_, self.n_components_ = X, Y, len(Y)
        self.rates_ = counted


class Asso(BooleanFactors):
    """Asso: every column proposes as a factor the columns that go with it; the best are taken.

    Column j goes with column i if the confidence P(j | i) reaches the threshold. Factors are taken
    one by one: of all candidates, with the rows that gain from it, the one which adds most to
    bonus × (ones covered) − penalty × (zeros covered).

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        K, or fewer where nothing is gained. "auto": by the accuracy on a tenth of the entries.
    threshold : float, sequence of float or "auto", default="auto"
        τ in (0, 1]. Of several the best one on held-out entries is taken; "auto" tries the five of
        the paper, `PAPER_THRESHOLDS`.
    bonus, penalty : float, default=1
        Weights of a covered one and of a covered zero.
    absent : {"zero", "missing"}, default="zero"
        What the entries are that a sparse matrix does not store.
    random_state : int, RandomState or None
        Which entries are held out.

    Attributes
    ----------
    row_factors_, components_ : (M, K) and (K, N) arrays of uint8
    threshold_ : float
    rates_ : (float, float)
        P(o = 1) where the product is 0 and where it is 1, counted on the entries held out, or on
        all where nothing was chosen.

    Notes
    -----
    Missing entries count nowhere: neither in a confidence nor in what is covered.

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
        "n_components": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "threshold": [Interval(Real, 0, 1, closed="right"), "array-like", StrOptions({"auto"})],
        "bonus": [Interval(Real, 0, None, closed="neither")],
        "penalty": [Interval(Real, 0, None, closed="left")],
        "absent": [StrOptions({"zero", "missing"})],
        "random_state": ["random_state"],
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
        thresholds = self._thresholds()
        most = MOST_COMPONENTS if self.n_components == "auto" else int(self.n_components)
        counted: tuple[float, float] | None = None
        if len(thresholds) > 1 or self.n_components == "auto":
            kept, check = hold_out(seen, self._generator())
            best = -1.0
            for candidate in thresholds:
                X, Y = self._greedy(kept, candidate, most)
                right = prefix_accuracies(X, Y, check)
                rank = int(np.argmax(right)) if self.n_components == "auto" else len(Y)
                if right[rank] > best:
                    best, threshold, most_kept = float(right[rank]), candidate, rank
                    counted = rates(covered(X[:, :rank], Y[:rank], check), check.values)
            if self.n_components == "auto":
                most = most_kept
        else:
            threshold = thresholds[0]
        self.threshold_ = threshold
        X, Y = self._greedy(seen, threshold, most)
        every = entries_of(seen)
        self._keep(X, Y, counted or rates(covered(X, Y, every), every.values))

    def _thresholds(self) -> tuple[float, ...]:
        if isinstance(self.threshold, str):
            return PAPER_THRESHOLDS
        given = tuple(float(t) for t in np.atleast_1d(np.asarray(self.threshold)))
        if not given or min(given) <= 0 or max(given) > 1:
            raise ValueError(f"threshold must be in (0, 1], one or several, got {self.threshold}")
        return given

    def _greedy(
        self, seen: Observations, threshold: float, most: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Factors (M, K) and (K, N), K ≤ `most`, in the order in which they were taken."""
        n_rows, n_columns = seen.shape
        candidates = np.unique(confidences(seen) >= threshold, axis=0)
        candidates = candidates[candidates.any(axis=1)]
        gain_of_entry = self._gains(seen)
        X, Y = np.zeros((n_rows, most), np.uint8), np.zeros((most, n_columns), np.uint8)
        for k in range(most):
            best, who = 0.0, -1
            for first in range(0, len(candidates), PART):
                part = candidates[first : first + PART].astype(np.float32)
                gains = np.maximum(gain_of_entry @ part.T, 0).sum(axis=0)
                if gains.size and gains.max() > best:
                    best, who = float(gains.max()), first + int(gains.argmax())
            if who < 0:
                return X[:, :k], Y[:k]
            X[:, k], Y[k] = _join(gain_of_entry, candidates[who]), candidates[who]
        return X, Y

    def _gains(self, seen: Observations) -> Any:
        """What it brings to cover each entry, (rows, N)."""
        return matrix_of(seen, np.where(seen.values, self.bonus, -self.penalty))

    def _rows_of(self, seen: Observations) -> NDArray[np.uint8]:
        """Factor by factor in the order in which they were taken, each for the rows that gain."""
        gain_of_entry = self._gains(seen)
        X = np.zeros((seen.n_rows, len(self.components_)), np.uint8)
        for k, members in enumerate(self.components_.astype(bool)):
            X[:, k] = _join(gain_of_entry, members)
        return X


def confidences(seen: Observations) -> NDArray[np.float32]:
    """Share of the rows with a 1 in column i that have a 1 in j too, of those seen there: (N, N).

    A pair of columns that was never seen together has confidence 0, and a column with itself 1.
    """
    ones = matrix_of(seen, seen.values)
    known = matrix_of(seen, np.ones(seen.n_observed))
    both, possible = ones.T @ ones, ones.T @ known
    if not isinstance(both, np.ndarray):
        both, possible = both.toarray(), possible.toarray()
    return np.asarray(both / np.maximum(possible, 1), dtype=np.float32)


def prefix_accuracies(
    X: NDArray[np.uint8], Y: NDArray[np.uint8], check: Entries
) -> NDArray[np.float64]:
    """Accuracy on `check` of the first 0, 1, …, K factors: (K + 1,)."""
    ones = np.zeros(len(check.values), dtype=bool)
    right = [np.mean(check.values == 0)]
    for k in range(len(Y)):
        ones |= (X[check.rows, k] & Y[k, check.columns]).astype(bool)
        right.append(np.mean(ones == check.values))
    return np.array(right, dtype=np.float64)


def covered(X: NDArray[np.uint8], Y: NDArray[np.uint8], where: Entries) -> NDArray[np.bool_]:
    """Which entries the Boolean product of the factors makes one."""
    return product_at(X, Y, where.rows, where.columns) > 0


def matrix_of(seen: Observations, entries: NDArray[Any]) -> Any:
    """The entries as (M, N) float32, 0 where nothing was observed; sparse where that is little."""
    from scipy.sparse import csr_array

    stored = (entries.astype(np.float32), seen.indices, seen.indptr)
    matrix = csr_array(stored, shape=seen.shape)
    dense = seen.n_observed > DENSE_SHARE * seen.n_rows * seen.n_columns
    return matrix.toarray() if dense else matrix


def _join(gain: Any, members: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which rows (M,) gain from a factor of these columns; they have then gained from it."""
    joined = np.asarray(gain @ members.astype(np.float32) > 0)
    _forget(gain, joined, members)
    return joined


def _forget(gain: Any, rows: NDArray[np.bool_], columns: NDArray[np.bool_]) -> None:
    """What is covered is neither won nor lost again."""
    if isinstance(gain, np.ndarray):
        gain[np.ix_(rows, columns)] = 0
        return
    row_of_entry = np.repeat(rows, np.diff(gain.indptr))
    gain.data[row_of_entry & columns[gain.indices]] = 0
