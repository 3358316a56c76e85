"""Code that Asso and GreConD share: choice of the rank, predictions and factors of new rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from boolweave.baselines.base import Baseline, entries_of, hold_out, share_of_ones
from boolweave.data.observations import Observations
from boolweave.model.products import boolean_product, product_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    import scipy.sparse
    from numpy.typing import ArrayLike, NDArray

    from boolweave.baselines.base import Triplets
    from boolweave.runtime.types import Array, Integers

    Bits: TypeAlias = NDArray[np.uint8]
    Matrix: TypeAlias = NDArray[np.float32] | scipy.sparse.csr_array

Option = TypeVar("Option", float, str)

# A greedy search seldom gains from more factors than this, so that "auto" does not try more.
MOST_COMPONENTS = 30

# Matrices with a smaller fraction of observed entries are multiplied as sparse matrices.
DENSE_SHARE = 0.1


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
        seen = Observations.from_data(X, absent=self.absent)
        if seen.n_columns != self.n_features_in_:
            raise ValueError(
                f"X has {seen.n_columns} features, but {type(self).__name__} was fitted with "
                f"{self.n_features_in_}; pass the same columns in the same order"
            )
        return self._rows_of(seen)

    def inverse_transform(self, X: ArrayLike | None = None) -> Bits:
        """Return the Boolean product of row factors (rows, K) and the components, (rows, N).

        By default, these are the row factors of `fit`.
        """
        check_is_fitted(self, "components_")
        return boolean_product(self.row_factors_ if X is None else X, self.components_)

    # ------------------------------------------------------------ to fill in

    def _greedy(self, seen: Observations, most: int, option: Any) -> tuple[Bits, Bits]:
        """Factors (M, K) and (K, N), K ≤ `most`, in the order in which they were chosen."""
        raise NotImplementedError

    def _rows_of(self, seen: Observations) -> Bits:
        """Row factors (rows, K) for the present components."""
        raise NotImplementedError

    # ------------------------------------------------------------ fitting and prediction

    def _fit_best(self, seen: Observations, options: Sequence[Option]) -> Option:
        """Fit with the best option, which is returned, and the best rank if it is not given.

        The accuracy on held-out entries decides, and the rates are counted on these entries. If
        there is nothing to choose, nothing is held out.
        """
        open_rank = self.n_components == "auto"
        most = MOST_COMPONENTS if open_rank else int(self.n_components)
        option, rates = options[0], None
        if open_rank or len(options) > 1:
            kept, check = hold_out(seen, self._generator())
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
        X, Y = self._greedy(seen, most, option)
        self.row_factors_, self.components_, self.n_components_ = X, Y, len(Y)
        self.rates_ = rates or rates_of(X, Y, entries_of(seen))
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


def matrix_of(seen: Observations, entries: Array) -> Matrix:
    """The entries as (M, N) float32, 0 where nothing was observed; sparse if there are few."""
    from scipy.sparse import csr_array

    stored = (entries.astype(np.float32), seen.indices, seen.indptr)
    matrix = csr_array(stored, shape=seen.shape)
    dense = seen.n_observed > DENSE_SHARE * seen.n_rows * seen.n_columns
    return matrix.toarray() if dense else matrix
