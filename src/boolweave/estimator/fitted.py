"""What a factorization can do after its fit: predict, explain, decode new rows, be saved."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from boolweave import recommend, saving
from boolweave.data.labels import check_order, pairs
from boolweave.data.observations import Observations
from boolweave.data.ones import SparseObservations
from boolweave.data.sparse import is_sparse
from boolweave.estimator.parameters import bytes_allowed, collective
from boolweave.fit import memory
from boolweave.model.products import boolean_product
from boolweave.search.new_rows import FoldInOfFewestErrors

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import ArrayLike, NDArray

    from boolweave.data.observations import Absent
    from boolweave.data.observed import ObservedEntries
    from boolweave.engine.fold_in import FoldIn
    from boolweave.engine.result import Kind, Result
    from boolweave.model.channel import Channel
    from boolweave.model.products import Product
    from boolweave.recommend import Explanation, Recommendations
    from boolweave.runtime.types import Floats


class FittedFactorization(TransformerMixin, BaseEstimator):
    """The methods and attributes of a factorization that need its result."""

    result_: Result
    absent: Absent
    damping: float
    n_jobs: int | None
    max_memory: int | str | None
    false_one_weight: float
    zeros: Literal["auto", "exact", "collective"]
    objective: Literal["posterior", "errors"]
    product: Product
    noise: float | Channel | Literal["learn"] | None

    # ------------------------------------------------------------ views on the result

    observations_ = property(attrgetter("result_.observations"))
    components_ = property(attrgetter("result_.Y"))
    row_factors_ = property(attrgetter("result_.X"))
    row_log_odds_ = property(attrgetter("result_.row_log_odds"))
    column_log_odds_ = property(attrgetter("result_.column_log_odds"))
    marginal_ = property(attrgetter("result_.marginal"))
    noise_ = property(attrgetter("result_.model.channel"))
    row_prior_ = property(attrgetter("result_.model.row_prior"))
    column_prior_ = property(attrgetter("result_.model.column_prior"))
    n_iter_ = property(attrgetter("result_.n_iter"))
    converged_ = property(attrgetter("result_.converged"))
    interrupted_ = property(attrgetter("result_.interrupted"))
    history_ = property(attrgetter("result_.history"))
    log_posterior_ = property(attrgetter("result_.log_posterior"))
    factor_stability_ = property(attrgetter("result_.stability"))
    error_ = property(attrgetter("result_.cost"))
    error_bound_ = property(attrgetter("result_.bound"))
    redundancy_ = property(attrgetter("result_.redundancy"))

    # ------------------------------------------------------------ data at the door

    def _converted(self, X: Any) -> ObservedEntries:
        if not collective(self, X):
            seen = X.to_local() if isinstance(X, SparseObservations) else X
            return Observations.from_data(seen, absent=self.absent)
        if isinstance(X, SparseObservations):
            return X
        if is_sparse(X):
            return SparseObservations.from_sparse(X)
        return SparseObservations.from_observations(Observations.from_data(X))

    def _observe(self, X: Any, *, reset: bool) -> ObservedEntries:
        """Convert at the door; check the number and the names of columns as scikit-learn does."""
        observations = self._converted(X)
        # Names that scikit-learn does not know of, those of observations, are checked below.
        own = not reset and not hasattr(self, "feature_names_in_")
        own = own and self.observations_.column_labels is not None
        own_kinds = Observations | SparseObservations
        plain = isinstance(observations, own_kinds) and not isinstance(X, own_kinds)
        plain = plain and not own and observations.shape == getattr(X, "shape", None)
        named = X if plain else np.broadcast_to(np.zeros(()), observations.shape)
        names = ("sample", "row"), ("feature", "column")
        for size, (name, side) in zip(observations.shape, names, strict=True):
            if reset and size < 1:
                raise ValueError(
                    f"Found array with 0 {name}(s) (shape={observations.shape}) while a minimum of "
                    f"1 is required: give a matrix with at least one {side}"
                )
        validate_data(self, named, reset=reset, skip_check_array=True)
        if not reset:
            check_order(observations.column_labels, self.observations_.column_labels)
        return observations

    # ------------------------------------------------------------ using the fit

    def transform(self, X: Any) -> NDArray[np.uint8]:
        """Row factors of new rows, the components held fixed.

        Each row is decoded from its own entries alone: equal rows get equal factors. With
        objective="errors" they are those with the least error in the row.

        Parameters
        ----------
        X : as in `fit`, shape (rows, N)
            A prior that differs from row to row, given or learned, is replaced by its mean.

        Returns
        -------
        (rows, K) array of uint8
        """
        return self._fold_in.transform(here(self._observe(X, reset=False)))

    def _new_rows(self, X: Any, itemsize: int = 0, answer: str = "") -> Observations:
        """New rows, checked; MemoryError if the answer, so many bytes an entry, is too large."""
        observations = self._observe(X, reset=False).to_local()
        if answer:
            most = bytes_allowed(self.max_memory)
            remedy = "ask for fewer rows at a time, or for pairs of rows and columns"
            memory.check_answer(observations.shape, itemsize, answer, remedy, most)
        return observations

    @property
    def _fold_in(self) -> FoldIn:
        check_is_fitted(self)
        if self.result_.cost is not None:
            return FoldInOfFewestErrors(
                self.result_, n_jobs=self.n_jobs, false_one_weight=self.false_one_weight
            )
        return self.result_.fold_in(self.damping, self.n_jobs)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns that `transform` returns: factor1, factor2 and so on."""
        check_is_fitted(self)
        return np.array([f"factor{k + 1}" for k in range(len(self.components_))], dtype=object)

    def inverse_transform(self, X: ArrayLike) -> NDArray[np.uint8]:
        """The Boolean product of row factors (rows, K) and the components: (rows, N) uint8."""
        check_is_fitted(self)
        return boolean_product(X, self.components_, self.result_.model.product)

    def predict(self, rows: Any, cols: ArrayLike | None = None) -> NDArray[np.uint8]:
        """The decoded value of the true matrix.

        Parameters
        ----------
        rows, cols : arrays of equal length
            Pairs of positions, or of labels where the fitted data had them. Without `cols`, `rows`
            is a matrix as in `transform`, whose rows are folded in, and all of its entries are
            decoded.

        Returns
        -------
        (len,) array of uint8, or (rows, N) without `cols`
        """
        if cols is None:
            return self._fold_in.predict(self._new_rows(rows, 1, "the decoded matrix"))
        check_is_fitted(self)
        return self.result_.predict(*pairs(rows, cols, self.observations_))

    def predict_proba(
        self, rows: Any, cols: ArrayLike | None = None, kind: Kind = "observed"
    ) -> Floats:
        """Probability of a one.

        Parameters
        ----------
        rows, cols : arrays of equal length
            As in `predict`.
        kind : {"observed", "latent"}
            "observed": P(o = 1), what one would see through the channel; "latent": P(z = 1), the
            true matrix.

        Returns
        -------
        (len,) array, or (rows, N) without `cols`
        """
        if kind not in ("observed", "latent"):
            raise ValueError(f'kind must be "observed" or "latent", got {kind!r}')
        if cols is None:
            what = "the matrix of probabilities"
            return self._fold_in.predict_proba(self._new_rows(rows, 8, what), kind)
        check_is_fitted(self)
        return self.result_.predict_proba(*pairs(rows, cols, self.observations_), kind)

    def recommend(self, rows: ArrayLike, n: int = 10) -> Recommendations:
        """The n columns of each row that were not observed and are most probably 1.

        Parameters
        ----------
        rows : positions, or labels where the fitted data had them
        n : int
            How many columns for each row.

        Returns
        -------
        Recommendations
            With ``rows`` (R,), ``columns`` (R, n) and ``probabilities`` (R, n).
        """
        check_is_fitted(self)
        return recommend.recommend(self, rows, n)

    def explain(self, row: Any, col: Any) -> Explanation:
        """Which factors make an entry a one, with their members by name; see `Explanation`."""
        check_is_fitted(self)
        return recommend.explain(self, row, col)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean accuracy on the observed entries of X, each predicted from the others of its row.

        The entries of a row are dealt in turn, from left to right, into five parts. Each part is
        hidden once: the row is folded in with the rest, and the hidden entries are predicted as
        `predict` does. So no entry is judged that helped to predict itself, and more factors do
        not raise the score by themselves. A row with a single entry is predicted from the prior.
        Where zeros are not listed (``zeros="collective"``), missing cells are dealt, too, and of
        the zeros only those are looked at that factors may cover.
        """
        return self._fold_in.score(here(self._observe(X, reset=False)))

    # ------------------------------------------------------------ files

    def save(self, path: str | Path) -> None:
        """Write the fitted model to an .npz file; `boolweave.load` reads it."""
        check_is_fitted(self)
        saving.save(path, self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = []  # always uint8
        return tags


def here(entries: ObservedEntries) -> Observations | SparseObservations:
    """The entries in this process; zeros stay unlisted where they are."""
    return entries if isinstance(entries, SparseObservations) else entries.to_local()
