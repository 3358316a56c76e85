"""The methods of a fitted factorization: predict, explain, decode new rows, save."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from boolweave import recommend, saving
from boolweave.data.frames import Frame, is_matrix, like
from boolweave.data.labels import check_order, pairs
from boolweave.data.observations import Observations
from boolweave.data.ones import SparseObservations
from boolweave.data.sparse import is_sparse
from boolweave.data.splits import Entries
from boolweave.estimator.parameters import bytes_allowed, collective
from boolweave.fit import memory
from boolweave.metrics import accuracy
from boolweave.model.products import boolean_product
from boolweave.search.new_rows import FoldInOfFewestErrors

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike, NDArray

    from boolweave.data.observations import Absent
    from boolweave.data.observed import ObservedEntries
    from boolweave.engine.fold_in import FoldIn
    from boolweave.engine.result import Kind, Result
    from boolweave.model.channel import Channel
    from boolweave.model.products import Product
    from boolweave.recommend import Explanation, FactorExplainer
    from boolweave.runtime.types import Floats


def _view(name: str) -> Any:
    """A property that shows an attribute of the result."""
    return property(attrgetter(f"result_.{name}"))


class FittedFactorization(recommend.RecommenderMixin, TransformerMixin, BaseEstimator):
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
    _frame: Frame | None = None

    # ------------------------------------------------------------ views on the result

    components_: NDArray[np.uint8] = _view("Y")
    row_factors_: NDArray[np.uint8] = _view("X")
    row_log_odds_: Floats = _view("row_log_odds")
    column_log_odds_: Floats = _view("column_log_odds")
    marginal_: bool = _view("marginal")
    noise_: Channel = _view("model.channel")
    n_iter_: int = _view("n_iter")
    converged_: bool = _view("converged")
    interrupted_: bool = _view("interrupted")
    history_: dict[str, NDArray[np.float64]] = _view("history")
    log_posterior_: float = _view("log_posterior")
    # Their types depend on the data and the parameters.
    observations_: Any = _view("observations")
    row_prior_: Any = _view("model.row_prior")
    column_prior_: Any = _view("model.column_prior")
    factor_stability_: Any = _view("stability")
    error_: Any = _view("cost")
    error_bound_: Any = _view("bound")
    redundancy_: Any = _view("redundancy")

    # ------------------------------------------------------------ input data

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
        """Convert input and check it."""
        observations = self._converted(X)
        check_input(self, X, observations, reset=reset)
        return observations

    # ------------------------------------------------------------ answers

    def transform(self, X: Any) -> NDArray[np.uint8]:
        """Find the row factors of new rows for fixed components.

        Each row is decoded only from its own entries, so that equal rows get equal factors. With
        objective="errors", the factors of a row are those with the smallest error in the row.

        Parameters
        ----------
        X : as in `fit`, shape (rows, N)
            New rows. A prior that differs from row to row, given or learned, is replaced by its
            mean.

        Returns
        -------
        (rows, K) array of uint8
        """
        return self._fold_in.transform(with_local_entries(self._observe(X, reset=False)))

    def _new_rows(self, X: Any, itemsize: int = 0, answer: str = "") -> Observations:
        """Check new rows; raise MemoryError if the answer (itemsize bytes each) is too large."""
        observations = self._observe(X, reset=False).to_local()
        if answer:
            most = bytes_allowed(self.max_memory)
            remedy = "pass fewer rows at a time, or pairs of rows and columns"
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
        """Return the names of the columns of `transform`: factor1, factor2 and so on."""
        check_is_fitted(self)
        return np.array([f"factor{k + 1}" for k in range(len(self.components_))], dtype=object)

    def inverse_transform(self, X: ArrayLike) -> NDArray[np.uint8]:
        """Compute the Boolean product of row factors and the components.

        Parameters
        ----------
        X : (rows, K) array of 0 and 1
            Row factors, as `transform` returns them.

        Returns
        -------
        (rows, N) array of uint8
        """
        check_is_fitted(self)
        return boolean_product(X, self.components_, self.result_.model.product)

    def predict(self, rows: Any, cols: Any = None) -> Any:
        """Decode entries of the true matrix.

        Parameters
        ----------
        rows, cols : arrays of the same length, or of shapes that broadcast
            Pairs of positions, or of labels if the fitted data had labels. Without `cols`, `rows`
            is a matrix as in `transform`, whose rows are folded in, and all of its entries are
            decoded.

        Returns
        -------
        array of uint8
            The shape is (len,), or that to which `rows` and `cols` broadcast; the result is a
            series if `rows` is one. Without `cols`, the shape is (rows, N), and the result has the
            form of the input table.
        """
        check_is_fitted(self)
        if cols is None:
            seen = self._new_rows(rows, 1, "the decoded matrix")
            return _in_form_of(rows, self._fold_in.predict(seen), seen)
        m, n = pairs(rows, cols, self.observations_)
        return like(rows, self.result_.predict(m.ravel(), n.ravel()).reshape(m.shape), "value")

    def predict_proba(self, rows: Any, cols: Any = None, kind: Kind = "observed") -> Any:
        """Compute the probability of a one.

        Parameters
        ----------
        rows, cols : arrays of the same length, or of shapes that broadcast
            As in `predict`.
        kind : {"observed", "latent"}
            "observed": P(o = 1), that a one would be observed through the channel; "latent":
            P(z = 1), that the true matrix has a one.

        Returns
        -------
        array
            The shape and the form are those of `predict`.
        """
        if kind not in ("observed", "latent"):
            raise ValueError(f'kind must be "observed" or "latent", got {kind!r}')
        check_is_fitted(self)
        if cols is None:
            seen = self._new_rows(rows, 8, "the matrix of probabilities")
            return _in_form_of(rows, self._fold_in.predict_proba(seen, kind), seen)
        m, n = pairs(rows, cols, self.observations_)
        chance = self.result_.predict_proba(m.ravel(), n.ravel(), kind)
        return like(rows, chance.reshape(m.shape), "probability")

    def explain(self, row: Any, col: Any, **words: str) -> Explanation:
        """Explain which factors make an entry a one, with their members by name.

        Parameters
        ----------
        row, col : position, or label if the fitted data had labels
            The row may also be a matrix of one row as in `transform`, which is folded in.
        **words
            The words of the sentences: `verb` is the verb between a row and a column where there is
            a one ("has"), and `rows` and `columns` are nouns for these ("rows", "columns").

        Returns
        -------
        Explanation
        """
        found: Explanation = self._explain(row, col, words)
        return found

    def members(self, *, full: bool = False) -> Any:
        """List the members of all factors in a table with one line for each member.

        Parameters
        ----------
        full : bool
            Whether there is a line for every row and column, with a column `member` of 0 and 1.

        Returns
        -------
        DataFrame
            A table with the columns factor (from 1), axis ("row" or "column"), label and
            probability. It belongs to the library of the fitted table, or to polars.

        Examples
        --------
        >>> import pandas
        >>> from boolweave import BooleanMatrixFactorization
        >>> likes = pandas.DataFrame([[1, 1, 0], [1, 1, 0], [0, 0, 0]], index=["Ann", "Bo", "Cy"])
        >>> model = BooleanMatrixFactorization(1, random_state=0, objective="errors").fit(likes)
        >>> model.members().query("axis == 'row'").label.tolist()
        ['Ann', 'Bo']
        """
        check_is_fitted(self)
        return self.result_.members(full=full, frame=self._frame)

    def plot(
        self, what: Literal["matrix", "factors", "curve"] = "matrix",
        path: str | Path | None = None,
    ) -> Figure:  # fmt: skip
        """Draw the result (needs matplotlib).

        Parameters
        ----------
        what : {"matrix", "factors", "curve"}
            "matrix" shows the table and its reconstruction, in an order in which factors are tiles.
            "factors" shows which rows and columns belong to which factor, by name, with their
            probabilities. "curve" shows how the number of factors was chosen, or, if it was given,
            the progress of the run.
        path : path, optional
            File of the picture: .png, .svg or .pdf.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from boolweave.estimator import drawing

        check_is_fitted(self)
        return drawing.draw(self, what, path)

    def _explainer(self, rows: Any, words: dict[str, str]) -> tuple[FactorExplainer, Frame | None]:
        """An explainer of rows of the fit or of new rows, and the form of its tables."""
        check_is_fitted(self)
        chosen = recommend.Words(**words)
        if not is_matrix(rows):
            return recommend.FactorExplainer(self.result_, chosen), self._frame
        new = self._result_of(rows)
        return recommend.FactorExplainer(new, chosen, self.result_), Frame.of(rows)

    def _result_of(self, X: Any) -> Result:
        """Fold in new rows; their columns have the labels of the fit."""
        given: Any = self._observe(X, reset=False)
        seen = replace(given, column_labels=self.observations_.column_labels)
        found = self._fold_in.of_rows(seen.to_local())
        # If zeros are not listed, they are the entries that may become ones.
        return replace(found, observations=seen) if isinstance(seen, SparseObservations) else found

    def score(self, X: Any, y: Any = None) -> float:
        """Compute the accuracy on X, each entry predicted from the others of its row.

        The entries of a row are distributed in turn, from left to right, over five parts. Each part
        is hidden once: the row is folded in with the rest, and the hidden entries are predicted as
        by `predict`. No entry helps to predict itself, so that more factors do not raise the score
        by themselves. A row with a single entry is predicted from the prior. If zeros are not
        listed (``zeros="collective"``), missing cells are distributed, too, and only the zeros that
        factors may cover are examined.

        Parameters
        ----------
        X : as in `fit`, shape (rows, N)
            Rows with observed entries. `boolweave.model_selection.Entries`, which a search of
            scikit-learn held out, are predicted as entries of the fitted table.
        y : ignored

        Returns
        -------
        float
            The fraction of the observed entries that is predicted correctly.
        """
        if isinstance(X, Entries):
            check_is_fitted(self)
            return accuracy(X.values, self.result_.predict(X.rows_of_entries(), X.indices))
        return self._fold_in.score(with_local_entries(self._observe(X, reset=False)))

    # ------------------------------------------------------------ files

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a file, which `boolweave.load` reads.

        Parameters
        ----------
        path : path
            File of the model (.npz). It holds arrays and plain text, and no pickle.
        """
        check_is_fitted(self)
        saving.save(path, self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = []  # the result is always uint8
        return tags


def _in_form_of(asked: Any, values: NDArray[Any], seen: Observations) -> Any:
    """A matrix in the form of the table that was passed, if it was a table."""
    frame = Frame.of(asked)
    return values if frame is None else frame.matrix(values, seen)


def check_input(estimator: Any, X: Any, seen: ObservedEntries, *, reset: bool) -> None:
    """Check the size of a matrix, and the number and names of its columns as scikit-learn does."""
    names = ("sample", "row"), ("feature", "column")
    for size, (name, side) in zip(seen.shape, names, strict=True):
        if reset and size < 1:
            raise ValueError(
                f"Found array with 0 {name}(s) (shape={seen.shape}) while a minimum of 1 is "
                f"required; pass a matrix with at least one {side}"
            )
    # Scikit-learn does not know the names of columns of observations: they are checked below.
    own = not reset and not hasattr(estimator, "feature_names_in_")
    own = own and estimator.observations_.column_labels is not None
    own_kinds = Observations | SparseObservations
    plain = isinstance(seen, own_kinds) and not isinstance(X, own_kinds)
    plain = plain and not own and seen.shape == getattr(X, "shape", None)
    named = X if plain else np.broadcast_to(np.zeros(()), seen.shape)
    validate_data(estimator, named, reset=reset, skip_check_array=True)
    if not reset:
        check_order(seen.column_labels, estimator.observations_.column_labels)


def with_local_entries(entries: ObservedEntries) -> Observations | SparseObservations:
    """The entries in this process; zeros that are not listed stay so."""
    return entries if isinstance(entries, SparseObservations) else entries.to_local()
