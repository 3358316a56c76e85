"""Methods with Boolean factors that are chosen greedily: Asso and GreConD.

Asso finds factors from associations between columns (Miettinen et al. 2008), GreConD factors that
cover ones and no zero (Belohlavek and Vychodil 2010).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from boolweave.baselines.base import Baseline, Triplets, entries_of, hold_out, share_of_ones
from boolweave.data.observations import Observations
from boolweave.engine.kernels.bits import pack, popcount
from boolweave.engine.kernels.jit import njit
from boolweave.estimator.parameters import declared
from boolweave.model.products import boolean_product, product_at
from boolweave.parameters import parameter
from boolweave.runtime.threads import cut
from boolweave.runtime.types import Array, Integers

Bits: TypeAlias = NDArray[np.uint8]
Matrix: TypeAlias = NDArray[np.float32] | scipy.sparse.csr_array

Option = TypeVar("Option", float, str)

CHOSEN = '"auto" chooses it by the accuracy on a tenth of the entries.'


class BooleanFactors(TransformerMixin, Baseline):
    """Predictions from Boolean factors, and factors of new rows, for Asso and GreConD.

    A method fills in `_greedy` and `_rows_of`.
    """

    n_components: int | Literal["auto"]
    row_factors_: Bits
    components_: Bits
    rates_: tuple[float, float]

    def fit_transform(self, X: Any, y: Any = None) -> Bits:
        """Fit, and return the row factors, (M, K)."""
        return self.fit(X).row_factors_

    def transform(self, X: Any) -> Bits:
        """Find the row factors of new rows for fixed components.

        A row gets the factors that `fit` would give it with the same components; the rows of `fit`
        get ``row_factors_``.

        Parameters
        ----------
        X : as in `fit`, shape (rows, N)

        Returns
        -------
        (rows, K) array of uint8
        """
        check_is_fitted(self, "components_")
        observations = Observations.from_data(X, absent=self.absent)
        if observations.n_columns != self.n_features_in_:
            raise ValueError(
                f"X has {observations.n_columns} features, but {type(self).__name__} was fitted "
                f"with {self.n_features_in_}; pass the same columns in the same order"
            )
        return self._rows_of(observations)

    def inverse_transform(self, X: ArrayLike | None = None) -> Bits:
        """Return the Boolean product of row factors (rows, K) and the components, (rows, N).

        By default, these are the row factors of `fit`.
        """
        check_is_fitted(self, "components_")
        return boolean_product(self.row_factors_ if X is None else X, self.components_)

    # ------------------------------------------------------------ to fill in

    def _greedy(self, observations: Observations, most: int, option: Any) -> tuple[Bits, Bits]:
        """Factors (M, K) and (K, N), K ≤ `most`, in the order in which they were chosen."""
        raise NotImplementedError

    def _rows_of(self, observations: Observations) -> Bits:
        """Row factors (rows, K) for the present components."""
        raise NotImplementedError

    # ------------------------------------------------------------ fitting and prediction

    def _fit_best(self, observations: Observations, options: Sequence[Option]) -> Option:
        """Fit with the best option, which is returned, and the best rank if it is not given.

        The accuracy on held-out entries decides, and the rates are counted on these entries. If
        there is nothing to choose, nothing is held out.
        """
        open_rank = self.n_components == "auto"
        # A greedy search seldom gains from more factors than this, so that "auto" does not try
        # more.
        most_components = 30
        most = most_components if open_rank else int(self.n_components)
        option, rates = options[0], None
        if open_rank or len(options) > 1:
            kept, check = hold_out(observations, self._generator())
            best, best_rank = -1.0, most
            for candidate in options:
                X, Y = self._greedy(kept, most, candidate)
                right = prefix_accuracies(X, Y, check)
                rank = int(np.argmax(right)) if open_rank else len(Y)
                if right[rank] > best:
                    best, option, best_rank = float(right[rank]), candidate, rank
                    rates = rates_of(X[:, :rank], Y[:rank], check)
            if open_rank:
                most = best_rank
        X, Y = self._greedy(observations, most, option)
        self.row_factors_, self.components_, self.n_components_ = X, Y, len(Y)
        self.rates_ = rates or rates_of(X, Y, entries_of(observations))
        return option

    def _decoded(self, rows: Integers, columns: Integers) -> NDArray[np.bool_]:
        return product_at(self.row_factors_, self.components_, rows, columns) > 0

    def _score(self, rows: Integers, columns: Integers) -> NDArray[np.float64]:
        return np.where(self._decoded(rows, columns), 1.0, -1.0)

    def _probability(self, rows: Integers, columns: Integers) -> NDArray[np.float64]:
        return np.where(self._decoded(rows, columns), self.rates_[1], self.rates_[0])


def rates_of(X: Bits, Y: Bits, check: Triplets) -> tuple[float, float]:
    """P(o = 1) where the product of the factors is 0 and where it is 1."""
    decoded = product_at(X, Y, check.rows, check.columns) > 0
    return share_of_ones(check.values[~decoded]), share_of_ones(check.values[decoded])


def prefix_accuracies(X: Bits, Y: Bits, check: Triplets) -> NDArray[np.float64]:
    """Accuracy on `check` of the first 0, 1, …, K factors: (K + 1,)."""
    ones = np.zeros(len(check.values), dtype=bool)
    right = [np.mean(check.values == 0)]
    for k in range(len(Y)):
        ones |= (X[check.rows, k] & Y[k, check.columns]).astype(bool)
        right.append(np.mean(ones == check.values))
    return np.array(right, dtype=np.float64)


def matrix_of(observations: Observations, entries: Array) -> Matrix:
    """The entries as (M, N) float32, 0 where nothing was observed; sparse if there are few."""
    from scipy.sparse import csr_array

    stored = (entries.astype(np.float32), observations.indices, observations.indptr)
    matrix = csr_array(stored, shape=observations.shape)
    # Matrices with a smaller fraction of observed entries are multiplied as sparse matrices.
    dense_share = 0.1
    dense = observations.n_observed > dense_share * observations.n_rows * observations.n_columns
    return matrix.toarray() if dense else matrix


# ---------------------------------------------------------------- Asso


# The paper reports the best of these.
PAPER_THRESHOLDS = (0.10, 0.31, 0.52, 0.74, 0.95)


@declared
@dataclass(eq=False, repr=False)
class Asso(BooleanFactors):
    """Asso: factors are chosen among sets of associated columns, one candidate for each column.

    Column j is associated with column i if the confidence P(j | i) reaches the threshold. Factors
    are chosen one by one: each is the candidate that, with the rows that gain from it, adds most to
    bonus × (ones covered) − penalty × (zeros covered).

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

    n_components: int | Literal["auto"] = parameter(
        "auto",
        "Number of factors K; there are fewer if more would gain nothing.",
        CHOSEN,
        range="[1, 2^63)",
    )
    _: KW_ONLY
    threshold: float | Sequence[float] | Literal["auto"] = parameter(
        "auto",
        "τ in (0, 1].",
        'If there are several, the best one on held-out entries is chosen; "auto" tries the five '
        "of the paper, `PAPER_THRESHOLDS`.",
        range="(0.0, 1.0]",
    )
    bonus: float = parameter(1.0, "Weight of a covered one.", range="(0.0, inf)")
    penalty: float = parameter(1.0, "Weight of a covered zero.", range="[0.0, inf)")

    def _fit(self, observations: Observations) -> None:
        thresholds: tuple[float, ...] = PAPER_THRESHOLDS
        if not isinstance(self.threshold, str):
            thresholds = tuple(float(t) for t in np.atleast_1d(np.asarray(self.threshold)))
            if not thresholds or min(thresholds) <= 0 or max(thresholds) > 1:
                raise ValueError(
                    f"threshold must be in (0, 1], one or several, got {self.threshold}"
                )
        self.threshold_ = self._fit_best(observations, thresholds)

    def _greedy(self, observations: Observations, most: int, option: float) -> tuple[Bits, Bits]:
        candidates = np.unique(confidences(observations) >= option, axis=0)
        candidates = candidates[candidates.any(axis=1)]
        gain_of_entry = self._gains(observations)
        X, Y = (
            np.zeros((observations.n_rows, most), np.uint8),
            np.zeros((most, observations.n_columns), np.uint8),
        )
        # Number of candidates that are evaluated at a time, so that the gains (M, part) fit into
        # memory.
        n_at_once = 512
        for k in range(most):
            best, who = 0.0, -1
            for some in cut(len(candidates), 1, n_at_once):
                part = candidates[some].astype(np.float32)
                gains = np.maximum(gain_of_entry @ part.T, 0).sum(axis=0)
                if gains.max() > best:
                    best, who = float(gains.max()), some.start + int(gains.argmax())
            if who < 0:
                return X[:, :k], Y[:k]
            X[:, k], Y[k] = _cover(gain_of_entry, candidates[who]), candidates[who]
        return X, Y

    def _gains(self, observations: Observations) -> Matrix:
        """The gain from covering each entry, (rows, N)."""
        return matrix_of(observations, np.where(observations.values, self.bonus, -self.penalty))

    def _rows_of(self, observations: Observations) -> Bits:
        """Assign factors in the order in which they were chosen, each to the rows that gain."""
        gain_of_entry = self._gains(observations)
        X = np.zeros((observations.n_rows, len(self.components_)), np.uint8)
        for k, members in enumerate(self.components_.astype(bool)):
            X[:, k] = _cover(gain_of_entry, members)
        return X


def confidences(observations: Observations) -> NDArray[np.float32]:
    """Fraction of the rows with a 1 in column i, and column j observed, with a 1 in j: (N, N).

    Two columns that were never observed together have confidence 0, and a column with itself 1.
    """
    ones = matrix_of(observations, observations.values)
    known = matrix_of(observations, np.ones(observations.n_observed))
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


# ---------------------------------------------------------------- GreConD


@declared
@dataclass(eq=False, repr=False)
class GreConD(BooleanFactors):
    """Greedy factors on demand: formal concepts, largest gain first.

    A factor is a set of columns and all rows that have ones in all of them. It is extended column
    by column as long as it covers more ones that no other factor covers yet. The product never
    covers a zero, and with enough factors it covers all ones.

    Attributes
    ----------
    row_factors_, components_ : (M, K) and (K, N) arrays of uint8
    missing_ : {"zero", "one"}
        Given or chosen.
    rates_ : (float, float)
        P(o = 1) where the product is 0 and where it is 1, counted on the held-out entries, or on
        all entries if nothing was chosen.

    Examples
    --------
    >>> from boolweave.baselines import GreConD
    >>> model = GreConD(3).fit([[1, 1, 0], [1, 1, 1], [0, 0, 1]])
    >>> model.components_
    array([[1, 1, 0],
           [0, 0, 1]], dtype=uint8)
    >>> model.transform([[1, 1, 1], [1, 0, 1]])
    array([[1, 1],
           [0, 1]], dtype=uint8)
    """

    n_components: int | Literal["auto"] = parameter(
        "auto",
        "Number of factors K; there are fewer if all ones are covered.",
        CHOSEN,
        range="[1, 2^63)",
    )
    _: KW_ONLY
    missing: Literal["auto", "zero", "one"] = parameter(
        "auto",
        "How missing entries count while factors are extended.",
        "As ones, they let factors extend over missing entries, but they are never counted as "
        f"covered ones. {CHOSEN}",
    )

    def _fit(self, observations: Observations) -> None:
        ways = [self.missing]
        if self.missing == "auto":
            ways = ["zero"] if observations.is_complete else ["zero", "one"]
        self.missing_ = self._fit_best(observations, ways)

    def _greedy(self, observations: Observations, most: int, option: str) -> tuple[Bits, Bits]:
        entries = observations.rows_of_entries(), observations.indices
        ones = np.zeros(observations.shape, dtype=bool)
        ones[entries] = observations.values == 1
        allowed = np.full(observations.shape, option == "one")
        allowed[entries] = ones[entries]
        allowed_words, left = pack(allowed), pack(ones)  # left: the ones not covered yet
        extents: list[NDArray[np.bool_]] = []
        intents: list[NDArray[np.bool_]] = []
        while len(intents) < most and left.any():
            extent, intent = _grow(allowed, allowed_words, left)
            if not extent.any():
                break
            left[extent] &= ~pack(intent[None])[0]
            extents.append(extent)
            intents.append(intent)
        shape = len(extents), observations.n_rows
        X = np.array(extents, dtype=np.uint8).reshape(shape).T
        Y = np.array(intents, dtype=np.uint8).reshape(len(intents), observations.n_columns)
        return np.ascontiguousarray(X), Y

    def _rows_of(self, observations: Observations) -> NDArray[np.uint8]:
        """Assign to a row the factors in all of whose columns it has ones, or missing entries.

        The latter only if they count as ones. The order of the factors does not matter.
        """
        columns = self.components_.T.astype(np.float32)
        if self.missing_ == "one":
            is_in = matrix_of(observations, 1 - observations.values) @ columns == 0
        else:
            is_in = matrix_of(observations, observations.values) @ columns == columns.sum(axis=0)
        return np.asarray(is_in, dtype=np.uint8)


def _grow(
    allowed: NDArray[np.bool_], allowed_words: NDArray[np.uint64], left: NDArray[np.uint64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Build one concept; return its rows (M,) and its columns (N,).

    The gain of a column j is the number of ones in `left` that (D ∪ {j})↓ × (D ∪ {j})↓↑ covers.
    """
    extent: NDArray[np.bool_] = np.ones(len(allowed), dtype=bool)
    intent: NDArray[np.bool_] = np.zeros(allowed.shape[1], dtype=bool)
    best = 0
    while True:
        gains = concept_gains(allowed_words, left, extent, intent)
        if gains.max(initial=0) <= best:
            return extent, intent
        best = int(gains.max())
        extent &= allowed[:, np.argmax(gains)]
        intent = np.all(allowed[extent], axis=0)


@njit(nogil=True, cache=True)
def concept_gains(allowed, left, extent, intent):
    """The number of ones in `left` that a concept covers with column j, (N,); 0 if it has j.

    `allowed` and `left` are (M, words) bits, `extent` (M,) the rows and `intent` (N,) the columns
    of the concept so far.
    """
    n_rows, n_words = allowed.shape
    n_columns = len(intent)
    gains = np.zeros(n_columns, np.int64)
    closure = np.zeros(n_words, np.uint64)
    for j in range(n_columns):
        if intent[j]:
            continue
        word, bit = j // 64, np.uint64(1) << np.uint64(j % 64)
        closure[:] = ~np.uint64(0)
        for m in range(n_rows):
            if extent[m] and allowed[m, word] & bit:
                for w in range(n_words):
                    closure[w] &= allowed[m, w]
        total = 0
        for m in range(n_rows):
            if extent[m] and allowed[m, word] & bit:
                for w in range(n_words):
                    total += popcount(left[m, w] & closure[w])
        gains[j] = total
    return gains
