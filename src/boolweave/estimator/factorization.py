"""`BooleanMatrixFactorization`: its parameters, the call of a fit, and the methods of a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from boolweave import cautions, plot, recommend, saving
from boolweave.data.convert import entry_weights
from boolweave.data.frames import Frame, is_matrix, like
from boolweave.data.labels import check_order, name_of, pairs
from boolweave.data.observations import Observations
from boolweave.data.observed import ObservedEntries
from boolweave.data.ones import SparseObservations
from boolweave.data.splits import Entries
from boolweave.engine.prediction import FoldIn
from boolweave.engine.result import Ending, Kind, Result, numbered
from boolweave.estimator.parameters import (
    bytes_allowed,
    check_sample_weight,
    declared,
    implicit_zeros,
    most_useful,
    noise_lines,
    settings_of,
)
from boolweave.fit import learn, rank
from boolweave.fit.rank_selection import RankSelection
from boolweave.fit.settings import Settings
from boolweave.fit.stages import BackendFactory
from boolweave.metrics import accuracy
from boolweave.model.channel import Channel
from boolweave.model.odds import sigmoid
from boolweave.model.products import boolean_product
from boolweave.parameters import FactorizationParameters, check_method, check_objective
from boolweave.recommend import Explanation, FactorExplainer
from boolweave.runtime.checkpoint import Recorder, WholeNumber
from boolweave.runtime.checks import seed_of
from boolweave.runtime.free_memory import check_answer
from boolweave.runtime.run import Run
from boolweave.runtime.types import Floats
from boolweave.search.answer import fewest_errors
from boolweave.search.curve import search_rank, trace_curve
from boolweave.search.result import FoldInOfFewestErrors, result_of
from boolweave.search.searching import Job, Options
from boolweave.search.table import pack_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The result, how its rank was chosen, and how many useless factors were dropped.
Found: TypeAlias = tuple[Result, RankSelection | None, int]


def _view(name: str) -> Any:
    """A property that shows an attribute of the result."""
    return property(attrgetter(f"result_.{name}"))


class TableEstimator(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """An estimator of scikit-learn for tables with missing entries."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = []  # the results have types of their own
        return tags


class FittedFactorization(
    FactorizationParameters, recommend.RecommenderMixin[Explanation], TableEstimator
):
    """The methods and attributes of a factorization that need its result."""

    result_: Result
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
        if implicit_zeros(self, X):
            return SparseObservations.from_data(X)
        return Observations.from_data(X, absent=self.absent)

    def _observe(self, X: Any, *, reset: bool) -> ObservedEntries:
        """Convert input and check it."""
        observations = self._converted(X)
        check_input(self, X, observations, reset=reset)
        return observations

    # ------------------------------------------------------------ answers

    def transform(self, X: Any) -> NDArray[Any]:
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
        (rows, K) array of uint8, or with ``output="probability"`` of float64
        """
        check_is_fitted(self)
        return self._row_factors(self._observe(X, reset=False).fetched())

    def _row_factors(
        self, observations: ObservedEntries, row_prior: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Row factors (rows, K): bits, or the probability of a one; their prior may be given."""
        if self.output == "probability":
            return self._fold_in.probabilities(observations, row_prior)
        return self._fold_in.transform(observations, row_prior)

    def _new_rows(self, X: Any, itemsize: int = 0, answer: str = "") -> Observations:
        """Check new rows; raise MemoryError if the answer (itemsize bytes each) is too large."""
        observations = self._observe(X, reset=False).to_local()
        if answer:
            most = bytes_allowed(self.max_memory)
            remedy = "pass fewer rows at a time, or pairs of rows and columns"
            check_answer(observations.shape, itemsize, answer, remedy, most)
        return observations

    @property
    def _fold_in(self) -> FoldIn:
        check_is_fitted(self)
        if self.result_.cost is not None:
            return FoldInOfFewestErrors(
                self.result_, n_jobs=self.n_jobs, false_one_weight=self.false_one_weight
            )
        result = self.result_
        if not isinstance(self.noise, Channel):  # it was learned, and new rows have no part in it
            channel = result.model.channel.of_new_rows()
            result = replace(result, model=replace(result.model, channel=channel))
        return result.fold_in(self.damping, self.n_jobs)

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
        self, what: Literal["matrix", "factors", "curve"] = "matrix", path: str | Path | None = None
    ) -> Figure:
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
        check_is_fitted(self)
        kinds = {"matrix": _matrix, "factors": _factors, "curve": _curve}
        return plot.draw_kind(kinds, self, what, path)

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
        # If zeros are not listed, they are the entries that may become ones.
        return replace(self._fold_in.of_rows(seen.to_local()), observations=seen)

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
        return self._fold_in.score(self._observe(X, reset=False).fetched())

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


@declared
class BooleanMatrixFactorization(FittedFactorization):
    """Boolean matrix factorization and completion by message passing.

    The estimator finds matrices X (M, K) and Y (K, N) of zeros and ones whose Boolean product
    explains a noisy matrix of which only some entries may be observed.

    Attributes
    ----------
    result_ : Result
        The result of the fit. Most other attributes are read-only views of it.
    components_ : (K, N) array of uint8
        Y, the decoded factors. The largest tile (rows × columns) comes first; with
        objective="errors", the factor that explains most comes first; if priors were given factor
        by factor, the factors keep their order. Texts, tables, pictures and the names of features
        number them from 1: factor 1 is ``components_[0]``.
    row_factors_ : (M, K) array of uint8
        X, the decoded row factors that were found together with the components.
    row_log_odds_, column_log_odds_ : (M, K) and (K, N) arrays
        Log-odds that an entry of X and of Y is 1.
    marginal_ : bool
        Whether these are marginals from sum-product, which yield probabilities; False if the answer
        is that of max-sum.
    noise_ : Channel
        The channel, given or learned.
    row_prior_, column_prior_ : array
        The priors, given or learned: one number, one per factor, or one per row or column.
    n_iter_ : int
        Number of iterations of the best start; with objective="errors", of rounds of the search.
    converged_ : bool
        Whether its messages converged within `tol`. On many tables they never do, although the
        decoded factors hardly change any more; a `ConvergenceWarning` is issued only if the factors
        still change.
    interrupted_ : bool
        Whether Ctrl-C ended the run; the best result so far is kept.
    history_ : dict of arrays
        "residual", "log_posterior" and "changes" (the number of entries of the decoded factors that
        changed), with one number per iteration; with objective="errors", only "error", the lowest
        error after each round.
    log_posterior_ : float
        log p(X, Y, O) of the decoded factors.
    factor_stability_ : (K,) array or None
        Fraction of the starts in which each factor was found again; None if the time limit or
        Ctrl-C ended the only search.
    error_ : float or None
        With objective="errors": the number of missed ones plus `false_one_weight` times the number
        of false ones of the product, each multiplied by the weight of its entry.
    error_bound_ : float or None
        With objective="errors": a proven lower bound of the error of this number of factors. If it
        equals `error_`, the factors are optimal. It is 0 if none is known.
    redundancy_ : (K,) array or None
        With objective="errors": the increase of the error if a factor is left out.
    rank_selection_ : RankSelection or None
        With n_components="auto" or "few": the description length of every rank tried, or the
        log-loss of held-out entries if these chose (its ``criterion`` is then "heldout").
    n_dropped_ : int
        With n_components="auto" or "few": the number of factors that were dropped because they were
        empty or repeated.
    observations_ : Observations
        The data to which the model was fitted.
    provenance_ : dict
        For a model made by the command line: "command"; "hold_out", the fraction of held-out
        entries; and "plan", the reading plan of an encoded table.

    Examples
    --------
    >>> import numpy as np
    >>> from boolweave import BooleanMatrixFactorization
    >>> table = np.array([[1, 1, 0, 0], [1, np.nan, 0, 0], [0, 0, 1, 1], [0, 0, 1, np.nan]])
    >>> model = BooleanMatrixFactorization(n_components=2, random_state=0).fit(table)
    >>> model.predict([1, 3], [1, 3])
    array([1, 1], dtype=uint8)
    """

    # ------------------------------------------------------------ fitting

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Find the factors of a partly observed Boolean matrix.

        Parameters
        ----------
        X : array, table, sparse matrix or Observations, shape (M, N)
            Zeros and ones; NaN or null for missing entries.
        y : ignored
        sample_weight : array or sparse matrix, shape (M, N) or (M,), optional
            With objective="errors": the cost of an error in each entry, or in each row. Weights are
            finite and non-negative. An entry of weight 0 counts as missing; an entry whose weight a
            sparse matrix does not store has the weight 1.

        Returns
        -------
        self
            The fitted estimator.
        """
        found = self._find(X, sample_weight)
        self.result_, self.rank_selection_, self.n_dropped_ = found
        self._frame = Frame.of(X)
        self.provenance_: dict[str, Any] = {}
        return self

    def _find(self, X: Any, sample_weight: Any = None) -> Found:
        """Check the data and the parameters, and fit."""
        check_sample_weight(self, sample_weight)
        observations = self._checked(X)
        if self.objective == "errors":
            return self._find_fewest_errors(observations.to_local(), sample_weight)
        return self._run(observations)

    def _checked(self, X: Any) -> ObservedEntries:
        """Check the parameters and the data, and return the data."""
        self._validate_params()
        return self._observe(X, reset=True)

    def _validate_params(self) -> None:
        super()._validate_params()
        check_objective(self)
        check_method(self)

    def _run(
        self,
        observations: ObservedEntries,
        first_seed: int | None = None,
        backends: BackendFactory | None = None,
    ) -> Found:
        """Fit, choose the rank if asked to, and count the useless factors that were dropped."""
        settings = settings_of(self, observations)
        lines = noise_lines(self, observations)
        more = {} if lines is None else {"lines": lines}
        cautions.about_data(observations, self)
        selection, n_dropped = None, 0
        with (
            self._recording(observations, settings, first_seed, **more) as (recorder, random),
            self._surroundings(recorder, learn.most_iterations(settings)) as run,
        ):
            if isinstance(self.n_components, str):
                few = self.n_components == "few"
                selection, best = rank.choose(observations, settings, random, run, backends, few)
                result, n_dropped = rank.drop_useless(best)
            else:
                useful = replace(settings, n_components=most_useful(settings, observations.shape))
                result = learn.fit(observations, useful, random, run, backends=backends)
            if lines is not None:
                result = learn.with_noise_of_lines(
                    result, observations, settings, lines, random, run
                )
            if selection is None:
                result = result.with_empty_factors(settings.n_components)
            if run.passed:
                result = replace(result, ending=Ending.OUT_OF_TIME)
                selection = selection and replace(selection, interrupted=False)
            if not result.interrupted:
                recorder.finish()
        cautions.about_changes(result, self)
        cautions.about_contradictions(result, self)
        return numbered(result, self.row_prior, self.column_prior), selection, n_dropped

    def _surroundings(self, recorder: Recorder, total: int | None = None) -> Run:
        """The time limit, the progress, the checkpoints and the threads of a search."""
        return Run(
            self.max_time, recorder=recorder, n_jobs=self.n_jobs, verbose=self.verbose, total=total
        )

    @contextmanager
    def _recording(
        self,
        observations: ObservedEntries,
        settings: Settings,
        first_seed: int | None = None,
        **more: Any,
    ) -> Iterator[tuple[Recorder, np.random.Generator]]:
        """Open the recorder of a run and its random numbers; a resumed run gets its first ones."""
        parameters = {**vars(settings), "n_components": self.n_components, **more}
        del parameters["n_jobs"]  # it does not change the result
        if isinstance(self.random_state, int | np.integer):
            parameters["random_state"] = int(self.random_state)
        drawn = seed_of(self.random_state) if first_seed is None else first_seed
        recorder = Recorder(self.checkpoint, observations, parameters)
        with recorder.frame("seed", lambda: WholeNumber(drawn), WholeNumber) as seed:
            yield recorder, np.random.default_rng(seed.value)

    # ------------------------------------------------------------ objective="errors"

    def _find_fewest_errors(self, observations: Observations, sample_weight: object) -> Found:
        """Search for the factors with the fewest errors, and choose their number if asked to."""
        n_components, selection, n_init = self.n_components, None, self.n_init
        with self._error_search(observations, sample_weight) as (job, weights, random):
            options = Options(None if n_init == "auto" else int(n_init), bound=self.bound)
            false_weight = float(self.false_one_weight)
            if job.table.false_weight < false_weight:  # so large that a false one never pays
                false_weight = np.inf
            seed = int(random.integers(2**31))
            if isinstance(n_components, str):
                few = n_components == "few"
                selection, answer = search_rank(job, None, options, seed, few)
                n_components = selection.elbow if few else selection.best
            else:
                answer = fewest_errors(job, int(n_components), options, seed)
            result = result_of(
                answer,
                observations,
                product=self.product,
                false_one_weight=false_weight,
                weights=weights,
            )
            if not result.interrupted:
                job.run.recorder.finish()
        return result, selection, n_components - result.model.n_components

    def _errors_by_rank(
        self, observations: Observations, ranks: list[int] | None, sample_weight: object
    ) -> RankSelection:
        """Find the fewest errors at every rank, and judge the ranks by description length."""
        searched = {"ranks": ranks, "criterion": "mdl"}
        with self._error_search(observations, sample_weight, **searched) as (job, _, _):
            selection = trace_curve(job, ranks)
            if not selection.interrupted:
                job.run.recorder.finish()
        return selection

    @contextmanager
    def _error_search(
        self, observations: Observations, sample_weight: object, **more: Any
    ) -> Iterator[tuple[Job, NDArray[np.float64] | None, np.random.Generator]]:
        """The search for the fewest errors, the weights of all entries, and random numbers."""
        weights = None if sample_weight is None else entry_weights(sample_weight, observations)
        bytes_per_cell = 1 if weights is None else 17
        check_answer(
            observations.shape,
            bytes_per_cell,
            "the search for the fewest errors",
            'use fewer rows or columns, or set `objective="posterior"`, which keeps in files what '
            "does not fit into memory",
            bytes_allowed(self.max_memory),
        )
        cautions.about_data(observations, self)
        counted, of_cells = _weighed(observations, weights)
        false_weight = float(self.false_one_weight)
        more |= {"objective": "errors", "false_one_weight": false_weight, "weights": weights}
        settings = settings_of(self, observations)
        with self._recording(observations, settings, **more) as (recorder, random):
            table = pack_table(counted, false_weight, self.product, of_cells)
            with self._surroundings(recorder) as run:
                yield Job(counted, table, run), weights, random

    def fit_transform(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> NDArray[Any]:
        """Fit, and return the row factors, as `transform` would.

        The bits of objective="errors" are `row_factors_`. Otherwise they are decoded again. A
        `row_prior` that was given row by row is used here as it is, while `transform`, which cannot
        know which rows it is given, uses its mean.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.

        Returns
        -------
        (M, K) array of uint8, or with ``output="probability"`` of float64
        """
        result = self.fit(X, sample_weight=sample_weight).result_
        if self.objective == "errors" and self.output == "bits":
            return result.X
        by_row = np.asarray(self.row_prior).ndim == 2
        prior = result.model.row_prior if by_row else None
        return self._row_factors(result.observations.fetched(), prior)


# ---------------------------------------------------------------- input and output


def _weighed(
    observations: Observations, weights: NDArray[np.float64] | None
) -> tuple[Observations, NDArray[np.float64] | None]:
    """The entries with a positive weight, and their weights (M, N), or None if all are 1."""
    if weights is None:
        return observations, None
    nothing = weights == 0
    if nothing.any():
        observations, weights = observations.split(nothing)[0], weights[~nothing]
    if (weights == 1).all():
        return observations, None
    dense = np.zeros(observations.shape)
    dense[observations.rows_of_entries(), observations.indices] = weights
    return observations, dense


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
    plain = not isinstance(X, ObservedEntries) and not own
    plain = plain and seen.shape == getattr(X, "shape", None)
    named = X if plain else np.broadcast_to(np.zeros(()), seen.shape)
    validate_data(estimator, named, reset=reset, skip_check_array=True)
    if not reset:
        check_order(seen.column_labels, estimator.observations_.column_labels)


# ---------------------------------------------------------------- pictures


def _matrix(model: FittedFactorization) -> Figure:
    """Draw the table and its reconstruction by the factors."""
    result, seen = model.result_, model.observations_
    if seen.n_rows * seen.n_columns > plot.MOST_CELLS:
        raise ValueError(
            f"a picture of {seen.n_rows:,} × {seen.n_columns:,} cells is too large; draw some rows "
            'with boolweave.plot.plot_tiles, or the factors with what="factors"'
        )
    first = "observed entries" if seen.is_complete else "observed and missing entries"
    panels = {first: seen.to_local().to_dense(), f"{len(result.Y)} factors": result.Z}
    return plot.plot_tiles(panels, result.X, result.Y)


def _factors(model: FittedFactorization) -> Figure:
    """Draw which rows and columns belong to which factor."""
    result, seen = model.result_, model.observations_
    sides = {
        axis: (sigmoid(odds), [name_of(seen, i, axis) for i in range(len(odds))])
        for axis, odds in (("row", result.row_log_odds), ("column", result.column_log_odds.T))
    }
    orders = plot.tile_orders(
        result.X, result.Y, result.row_log_odds.sum(axis=1), result.column_log_odds.sum(axis=0)
    )
    return plot.plot_members(
        {
            f"{axis}s": (chance[order], [names[i] for i in order])
            for (axis, (chance, names)), order in zip(sides.items(), orders, strict=True)
        }
    )


def _curve(model: FittedFactorization) -> Figure:
    """Draw how the number of factors was chosen, or else the progress of the run."""
    selection = getattr(model, "rank_selection_", None)
    if selection is not None:
        return selection.plot()
    history = model.history_
    name, label = (
        ("error", "smallest error so far")
        if "error" in history
        else ("log_posterior", "log-posterior")
    )
    values = np.asarray(history[name])
    return plot.plot_run(values, label, "round" if name == "error" else "iteration")
