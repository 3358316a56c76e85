"""The estimator BooleanCompletion."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from boolweave import cautions
from boolweave.completion.answers import dense, saving, scoring
from boolweave.completion.answers.fitted import FittedCompletion
from boolweave.completion.choice.selection import Wanted
from boolweave.completion.features import encoded_features, levels_of
from boolweave.completion.fitting import Fitted, fit, refit
from boolweave.completion.growing import joined
from boolweave.completion.table import Table
from boolweave.completion.tasks import Runner
from boolweave.data.frames import Frame
from boolweave.data.observations import Observations
from boolweave.data.splits import Entries
from boolweave.data.weights import entry_weights
from boolweave.estimator.fitted import check_input
from boolweave.estimator.parameters import AtLeast
from boolweave.runtime.progress import task_progress

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from boolweave.completion.ensemble import Ensemble

    Doubles = NDArray[np.float64]


# The parameters of `fit` in addition to the table.
FIT_PARAMETERS = ("ratings", "sample_weight", "row_features", "column_features")


class BooleanCompletion(FittedCompletion):
    """Probabilities of the unobserved entries of a 0/1 table.

    Every row and every column has an offset; rows have positions, and columns slopes, along a few
    real-valued directions; Boolean layers, found by message passing, move entries further up or
    down. Offsets and directions may depend on which entries were observed. Held-out entries decide
    how many of each are used, and whether the plain Boolean model of `BooleanMatrixFactorization`
    is better. The best models are blended and averaged over members.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Number of Boolean factors of a layer, and of the plain Boolean model.
    n_layers : int or "auto", default="auto"
        Number of Boolean layers; 0 means none.
    n_directions : int or "auto", default="auto"
        Number of real-valued directions; 0 means none.
    n_members : int, default=16
        Number of fits that are averaged.
    absent : {"missing", "zero"}, default="missing"
        How to treat the entries that a sparse matrix does not store.
    n_jobs : int, optional
        Number of threads; −1 uses all cores. The answer does not depend on it.
    random_state : int, RandomState or None
        Random seed of the held-out entries and of all draws.
    verbose : int, default=0
        With 1, progress is shown on a terminal.
    max_time : float, optional
        Time limit in seconds, after which the fit ends with its result so far.
    client : dask.distributed.Client, optional
        A client whose cluster runs trials and members.

    Attributes
    ----------
    selection_ : list of dict
        The models that were compared on held-out entries: "model", "log_loss", its
        "standard_error", "accuracy", "weight" in the blend, and "seconds". The first line is the
        blend. The list is empty if there were too few entries to hold some out.
    row_bias_, column_bias_ : (M,) and (N,) arrays
        Mean offsets over all members, in standard deviations of the noise of an entry.
    members_ : tuple of Member
        Means and variances of all parameters over stretches of the chains.
    ensemble_ : Ensemble
        Members with their weights, from which predictions are made.
    observations_ : Observations
        The data to which the model was fitted.
    interrupted_ : bool
        Whether Ctrl-C ended the fit.
    provenance_ : dict
        For a model made by the command line: "command", and "hold_out", the fraction of held-out
        entries.

    Examples
    --------
    >>> import numpy as np
    >>> from boolweave import BooleanCompletion
    >>> table = np.kron(np.eye(2), np.ones((6, 6)))
    >>> table[0, 11], table[7, 8] = np.nan, np.nan
    >>> model = BooleanCompletion(n_members=4, random_state=0).fit(table)
    >>> model.predict([0, 7], [11, 8])
    array([0, 1], dtype=uint8)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [AtLeast(1), StrOptions({"auto"})],
        "n_layers": [AtLeast(0), StrOptions({"auto"})],
        "n_directions": [AtLeast(0), StrOptions({"auto"})],
        "n_members": [AtLeast(1)],
        "absent": [StrOptions({"zero", "missing"})],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "client": "no_validation",  # type: ignore[dict-item]
    }

    def __init__(
        self,
        n_components: int | Literal["auto"] = "auto",
        n_layers: int | Literal["auto"] = "auto",
        n_members: int = 16,
        *,
        n_directions: int | Literal["auto"] = "auto",
        absent: Literal["missing", "zero"] = "missing",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        max_time: float | None = None,
        client: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_layers = n_layers
        self.n_members = n_members
        self.n_directions = n_directions
        self.absent = absent
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.max_time = max_time
        self.client = client

    # ------------------------------------------------------------ fitting

    def fit(self, X: Any, y: Any = None, **fit_params: Any) -> Self:
        """Choose a model by held-out entries, and fit it to all entries.

        Parameters
        ----------
        X : array, table, sparse matrix or Observations, shape (M, N)
            Zeros and ones; NaN or null for missing entries.
        y : ignored
        **fit_params
            See "Other Parameters".

        Returns
        -------
        BooleanCompletion
            The fitted estimator.

        Other Parameters
        ----------------
        ratings : array or table, shape (M, N), or array of shape (n_observed,)
            The rating of each observed entry, as a table or by rows and then columns; ones must be
            the entries from some rating on. Ratings are more informative than bits; predictions are
            still about ones.
        sample_weight : array or sparse matrix, shape (M,) or (M, N)
            How often a row or an entry counts. An entry of weight 0 counts as missing.
        row_features, column_features : array or table, M or N lines
            Features of rows and columns: numbers, or categories as text. They help most if a row or
            column has few entries.
        """
        unknown = sorted(set(fit_params) - set(FIT_PARAMETERS))
        if unknown:
            raise TypeError(
                f"fit() got an unexpected argument {unknown[0]!r}; it takes only X, y, "
                f"{', '.join(FIT_PARAMETERS)}"
            )
        ratings, sample_weight, row_features, column_features = map(fit_params.get, FIT_PARAMETERS)
        self._validate_params()
        seen = self._observe(X, reset=True)
        weights = None if sample_weight is None else entry_weights(sample_weight, seen)
        of_rows = encoded_features(row_features, seen.n_rows, "row_features")
        of_columns = encoded_features(column_features, seen.n_columns, "column_features")
        levels, n_levels = levels_of(ratings, seen)
        table = Table.of(seen, levels, weights, of_rows, of_columns, n_levels)
        if weights is not None and not weights.all():
            table = table.part(weights > 0)
        if table.n_entries == 0:
            raise ValueError(
                f"BooleanCompletion needs at least one observed entry, got a matrix of shape "
                f"{seen.shape} without any; check how ones and zeros are marked"
            )
        cautions.about_one_value(table.observations)
        with task_progress(self.verbose) as say:
            found = fit(
                table, self._wanted(), int(self.n_members), self._seed(), self._runner(),
                self.max_time, say,
            )  # fmt: skip
        self._frame = Frame.of(X)
        return self._keep(table, found)

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        row_features: Any = None,
        column_features: Any = None,
    ) -> Self:
        """Continue the fit with more entries, rows and columns, without a new choice of the model.

        Parameters
        ----------
        X : array, table, sparse matrix or Observations
            The new entries. If both tables have labels, rows and columns are matched by them, and
            new labels are appended; otherwise they are matched by position, and a larger table has
            new rows and columns at its ends. If an entry was already known, the new value counts.
        y : ignored
        row_features, column_features : array or table, optional
            Features of all rows and columns, including earlier ones; required if `fit` had them.

        Returns
        -------
        self
        """
        if not hasattr(self, "ensemble_"):
            return self.fit(X, row_features=row_features, column_features=column_features)
        self._validate_params()
        if self.table_.n_levels > 2 or self.table_.weights is not None:
            raise ValueError(
                "partial_fit does not support ratings and weights, with which this model was "
                "fitted; call fit with all entries"
            )
        seen = joined(self.observations_, Observations.from_data(X, absent=self.absent))
        features = []
        for given, size, name, before in (
            (row_features, seen.n_rows, "row_features", self.table_.row_features),
            (column_features, seen.n_columns, "column_features", self.table_.column_features),
        ):
            encoded = encoded_features(given, size, name)
            n_before, n_now = before.n_features - 2, 0 if encoded is None else encoded.shape[1]
            if n_before != n_now:
                raise ValueError(
                    f"{name} must have {n_before} columns, as in fit, but there are {n_now}; pass "
                    "the features of all lines, in the same form"
                )
            features.append(encoded)
        table = Table.of(seen, None, None, features[0], features[1])
        with task_progress(self.verbose) as say:
            ensemble, stopped = refit(
                table, self.ensemble_, self._wanted(), self._seed(), self._runner(),
                self.max_time, say,
            )  # fmt: skip
        self.n_features_in_ = seen.n_columns
        if self._frame is not None:  # its names are those of the first table; labels are complete
            self._frame = replace(self._frame, rows=None, columns=None)
        return self._keep(table, Fitted(ensemble, self.selection_, stopped))

    def _keep(self, table: Table, found: Fitted) -> Self:
        self.table_ = table
        self.observations_ = table.observations
        self.ensemble_: Ensemble = found.ensemble
        self.selection_ = found.selection
        self.interrupted_ = found.interrupted
        self.provenance_: dict[str, Any] = {}
        return self

    def _wanted(self) -> Wanted:
        chosen = [
            None if value == "auto" else int(value)
            for value in (self.n_directions, self.n_layers, self.n_components)
        ]
        return Wanted(chosen[0], chosen[1], chosen[2], self.n_jobs)

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31))

    def _runner(self) -> Runner:
        return Runner(self.n_jobs, self.client)

    def _observe(self, X: Any, *, reset: bool) -> Observations:
        """Convert input and check it."""
        seen = Observations.from_data(X, absent=self.absent)
        check_input(self, X, seen, reset=reset)
        return seen

    # ------------------------------------------------------------ answers

    def score(self, X: Any, y: Any = None) -> float:
        """Compute the accuracy on X, each entry predicted from the others of its row.

        The entries of a row are distributed in turn over five parts. Each part is hidden once and
        predicted from the rest.

        Parameters
        ----------
        X : as in `fit`, shape (rows, N)
            Rows with observed entries. `boolweave.model_selection.Entries` are predicted as entries
            of the fitted table.
        y : ignored

        Returns
        -------
        float
            The fraction of the observed entries that is predicted correctly.
        """
        check_is_fitted(self, "ensemble_")
        if isinstance(X, Entries):
            return scoring.accuracy_of_entries(self.ensemble_, X)
        return scoring.accuracy_of_rows(self._folding, self._observe(X, reset=False))

    def transform(self, X: Any) -> Doubles:
        """Replace the missing entries of new rows by probabilities.

        Observed entries stay as they are. Each row gets an offset, positions and bits of its own
        from its entries; columns do not change.

        Parameters
        ----------
        X : as in `fit`, shape (rows, N)
            New rows, with the columns of the fitted table.

        Returns
        -------
        (rows, N) array
        """
        check_is_fitted(self, "ensemble_")
        seen = self._observe(X, reset=False)
        return dense.completed(self._folding.fold_in(seen), seen)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the columns of `transform`: labels, or column1 and so on."""
        check_is_fitted(self, "ensemble_")
        labels = self.observations_.column_labels
        if labels is None:
            labels = np.array([f"column{n + 1}" for n in range(self.ensemble_.shape[1])])
        return labels.astype(object)

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Doubles:
        """Fit, and replace the missing entries of the same rows by probabilities.

        The rows are those of the model; `transform` folds in the same rows as if they were new,
        which gives nearly the same result.

        Parameters
        ----------
        X, y, **fit_params
            As in `fit`.

        Returns
        -------
        (M, N) array
        """
        self.fit(X, **fit_params)
        return dense.completed(self.ensemble_, self.observations_)

    # ------------------------------------------------------------ files

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a file, which `boolweave.load` reads.

        Parameters
        ----------
        path : path
            File of the model (.npz). It holds arrays and plain text, and no pickle.
        """
        check_is_fitted(self, "ensemble_")
        table = self.table_
        fitted: dict[str, Any] = {
            "interrupted": self.interrupted_,
            "provenance": self.provenance_,
            "n_levels": table.n_levels,
            "row_features": table.row_features.here[:, 2:],
            "column_features": table.column_features.here[:, 2:],
        }
        if self._frame is not None:
            fitted["table"] = self._frame.as_stored()
        if table.n_levels > 2:
            fitted["levels"] = table.levels
        if table.weights is not None:
            fitted["weights"] = table.weights
        if hasattr(self, "feature_names_in_"):
            fitted["feature_names"] = [str(name) for name in self.feature_names_in_]
        parameters = {**self.get_params(deep=False), "client": None}
        saving.save(self.ensemble_, table.observations, parameters, self.selection_, path, fitted)

    @classmethod
    def _load(cls, path: str | Path) -> BooleanCompletion:
        """Read what `save` wrote."""
        stored = saving.load(path)
        model = cls(**stored.parameters)
        seen, fitted = stored.observations, stored.fitted
        table = Table.of(
            seen, fitted.get("levels"), fitted.get("weights"), fitted["row_features"],
            fitted["column_features"], int(fitted["n_levels"]),
        )  # fmt: skip
        model.n_features_in_ = seen.n_columns
        if "feature_names" in fitted:
            model.feature_names_in_ = np.array(fitted["feature_names"], dtype=object)
        model._keep(
            table, Fitted(stored.ensemble, list(stored.selection), bool(fitted["interrupted"]))
        )
        model.provenance_ = dict(fitted["provenance"])
        model._frame = Frame.stored(fitted.get("table"))
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = []  # the result is always float64
        return tags
