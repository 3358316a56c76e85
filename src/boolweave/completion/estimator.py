"""The estimator BooleanCompletion."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from boolweave import cautions, plot
from boolweave.completion.answers import saving
from boolweave.completion.answers.explaining import CompletionExplanation, Explainer
from boolweave.completion.answers.new_rows import FoldIn
from boolweave.completion.ensemble import Ensemble, Fitted, Member
from boolweave.completion.fitting import fit, refit
from boolweave.completion.selection import Wanted
from boolweave.completion.table import FeatureEncoding, Table, joined, levels_of
from boolweave.completion.tasks import Runner
from boolweave.data.convert import entry_weights
from boolweave.data.frames import Frame, is_matrix, like
from boolweave.data.labels import name_of, pairs
from boolweave.data.observations import Observations
from boolweave.data.questions import Questions
from boolweave.data.splits import Entries
from boolweave.estimator.factorization import TableEstimator, check_input
from boolweave.estimator.parameters import declared
from boolweave.metrics import accuracy, answer_scores
from boolweave.model.odds import sigmoid
from boolweave.parameters import CompletionParameters
from boolweave.recommend import RecommenderMixin, Words
from boolweave.runtime.checks import seed_of
from boolweave.runtime.run import Run
from boolweave.runtime.types import Doubles, Integers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The parameters of `fit` in addition to the table, which `complete` passes on.
FIT_PARAMETERS = ("ratings", "sample_weight", "row_features", "column_features", "groups")


@declared
class BooleanCompletion(
    CompletionParameters, RecommenderMixin[CompletionExplanation], TableEstimator
):
    """Probabilities of the unobserved entries of a 0/1 table.

    Every row and every column has an offset; rows have positions, and columns slopes, along a few
    real-valued directions; Boolean layers, found by message passing, move entries further up or
    down. Offsets and directions may depend on which entries were observed. Held-out entries decide
    how many of each are used, and whether the plain Boolean model of `BooleanMatrixFactorization`
    is better. The best models are blended and averaged over members.

    Attributes
    ----------
    selection_ : list of dict
        The models that were compared on held-out entries: "model", "log_loss", its
        "standard_error", "accuracy", "weight" in the blend, and "seconds". The first line is the
        blend. The list is empty if there were too few entries to hold some out. If the questions of
        an encoded table are known, log-loss and accuracy are those of whole answers.
    row_bias_, column_bias_ : (M,) and (N,) arrays
        Mean offsets over all members, in standard deviations of the noise of an entry.
    members_ : tuple of Member
        Means and variances of all parameters over some draws of a chain each.
    ensemble_ : Ensemble
        Members with their weights, from which predictions are made.
    observations_ : Observations
        The data to which the model was fitted.
    interrupted_ : bool
        Whether Ctrl-C ended the fit.
    provenance_ : dict
        For a model made by the command line: "command"; "hold_out", the fraction of held-out
        entries; and "plan", the reading plan of an encoded table.

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

    _frame: Frame | None = None

    # ------------------------------------------------------------ fitting

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        ratings: Any = None,
        sample_weight: Any = None,
        row_features: Any = None,
        column_features: Any = None,
        groups: Any = None,
    ) -> Self:
        """Choose a model by held-out entries, and fit it to all entries.

        Parameters
        ----------
        X : array, table, sparse matrix or Observations, shape (M, N)
            Zeros and ones; NaN or null for missing entries.
        y : ignored
        ratings : array or table, shape (M, N), or array of shape (n_observed,), optional
            The rating of each observed entry, as a table or by rows and then columns; ones must be
            the entries from some rating on. Ratings are more informative than bits; predictions are
            still about ones.
        sample_weight : array or sparse matrix, shape (M,) or (M, N), optional
            How often a row or an entry counts. An entry of weight 0 counts as missing.
        row_features, column_features : array or table, M or N lines, optional
            Features of rows and columns: numbers, or categories as text. They help most if a row or
            column has few entries.
        groups : Questions, or array of whole numbers, shape (N,), optional
            The questions of the columns of an encoded table: `TableEncoder.questions_`, which the
            array that the encoder returns already has. Whole answers are held out to choose a
            model, because the levels of a category tell what each other is. Probabilities of the
            levels of a category add up to 1, and those of thresholds decrease. An array of numbers
            only says which columns belong to one question.

        Returns
        -------
        self
            The fitted estimator.
        """
        self._validate_params()
        seen = self._observe(X, reset=True)
        weights = None if sample_weight is None else entry_weights(sample_weight, seen)
        encoding = FeatureEncoding.of(row_features, seen.n_rows, "row_features")
        of_rows = encoding.encoded(row_features, seen.n_rows, "row_features")
        of_columns = FeatureEncoding.of(column_features, seen.n_columns, "column_features").encoded(
            column_features, seen.n_columns, "column_features"
        )
        levels, n_levels = levels_of(ratings, seen)
        table = Table.of(seen, levels, weights, of_rows, of_columns, n_levels)
        if weights is not None and not weights.all():
            table = table.part(weights > 0)
        if table.n_entries == 0:
            raise ValueError(
                f"BooleanCompletion needs at least one observed entry, got a matrix of shape "
                f"{seen.shape} without any; check how ones and zeros are marked"
            )
        if groups is None:
            groups = getattr(X, "questions", None) if isinstance(X, np.ndarray) else None
        questions = None if groups is None else Questions.of(groups, seen.n_columns)
        cautions.about_one_value(table.observations)
        wanted, n_members = self._wanted(), int(self.n_members)
        seed = seed_of(self.random_state)
        runner = Runner(self.n_jobs, self.client)
        with runner.shielded(), Run(verbose=self.verbose) as run:
            say = run.progress.say
            found = fit(table, wanted, n_members, seed, runner, self.max_time, say, questions)
        self._frame = Frame.of(X)
        return self._keep(table, found, encoding)

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
        n_new = seen.n_columns - self.observations_.n_columns
        if self.ensemble_.questions is not None and n_new:
            raise ValueError(
                f"partial_fit got {n_new} new columns, whose questions are not known; call fit "
                "with all entries and `groups`"
            )
        features: list[Doubles | None] = []
        encodings: list[FeatureEncoding] = []
        for given, size, name, before in (
            (row_features, seen.n_rows, "row_features", self.table_.row_features),
            (column_features, seen.n_columns, "column_features", self.table_.column_features),
        ):
            encoding = FeatureEncoding.of(given, size, name)
            encodings.append(encoding)
            encoded = encoding.encoded(given, size, name)
            n_before, n_now = before.n_features - 2, 0 if encoded is None else encoded.shape[1]
            if n_before != n_now:
                raise ValueError(
                    f"{name} must have {n_before} columns, as in fit, but there are {n_now}; pass "
                    "the features of all lines, in the same form"
                )
            features.append(encoded)
        table = Table.of(seen, None, None, features[0], features[1])
        wanted, seed = self._wanted(), seed_of(self.random_state)
        runner = Runner(self.n_jobs, self.client)
        with runner.shielded(), Run(verbose=self.verbose) as run:
            ensemble, stopped = refit(
                table, self.ensemble_, wanted, seed, runner, self.max_time, run.progress.say
            )
        self.n_features_in_ = seen.n_columns
        if self._frame is not None:  # its names are those of the first table; labels are complete
            self._frame = replace(self._frame, rows=None, columns=None)
        return self._keep(table, Fitted(ensemble, self.selection_, stopped), encodings[0])

    def _keep(self, table: Table, found: Fitted, encoding: FeatureEncoding | None = None) -> Self:
        self.table_ = table
        self._row_encoding = encoding or FeatureEncoding(None)
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

    def _observe(self, X: Any, *, reset: bool) -> Observations:
        """Convert input and check it."""
        seen = Observations.from_data(X, absent=self.absent)
        check_input(self, X, seen, reset=reset)
        return seen

    # ------------------------------------------------------------ views

    @property
    def members_(self) -> tuple[Member, ...]:
        """All members, family by family."""
        return tuple(member for family in self.ensemble_.families for member in family.members)

    @property
    def row_bias_(self) -> Doubles:
        """Mean offsets of the rows, (M,)."""
        return self._bias("rows", self.ensemble_.shape[0])

    @property
    def column_bias_(self) -> Doubles:
        """Mean offsets of the columns, (N,)."""
        return self._bias("columns", self.ensemble_.shape[1])

    def _bias(self, side: str, n: int) -> Doubles:
        offsets = [getattr(member, side)[:, -1] for member in self.members_]
        return np.mean(offsets, axis=0, dtype=np.float64) if offsets else np.zeros(n)

    # ------------------------------------------------------------ pairs and rows

    def predict_proba(self, rows: Any, cols: Any = None, *, row_features: Any = None) -> Any:
        """Compute P(o = 1), the probability that a one would be observed.

        Parameters
        ----------
        rows, cols : arrays of the same length, or of shapes that broadcast
            Pairs of positions, or of labels if the fitted data had labels. Without `cols`, `rows`
            is a matrix as in `fit`, whose new rows are folded in.
        row_features : array or table, optional
            Features of new rows, in the form of those in `fit`; without them, the rows are average.

        Returns
        -------
        array
            The shape is (len,), or that to which `rows` and `cols` broadcast; the result is a
            series if `rows` is one. Without `cols`, the shape is (rows, N), and the result has the
            form of the input table.
        """
        return self._answer(rows, cols, row_features, "probability")

    def predict(self, rows: Any, cols: Any = None, *, row_features: Any = None) -> Any:
        """Predict the more probable value of entries.

        Parameters
        ----------
        rows, cols, row_features
            As in `predict_proba`.

        Returns
        -------
        array of uint8
            0 or 1; the shape and the form are those of `predict_proba`.
        """
        return self._answer(rows, cols, row_features, "value")

    def _answer(
        self, rows: Any, cols: Any, row_features: Any, what: Literal["probability", "value"]
    ) -> Any:
        """Probabilities, or the more probable values, in the form of the arguments."""
        check_is_fitted(self, "ensemble_")
        if cols is None:
            seen = self._observe(rows, reset=False)
            new = self._fold_in(seen, row_features)
            chance = new.row_probabilities(np.arange(seen.n_rows))
            frame = Frame.of(rows)
            answer = chance if what == "probability" else (chance > 0.5).astype(np.uint8)
            return answer if frame is None else frame.matrix(answer, seen)
        if row_features is not None:
            raise ValueError(
                "row_features are those of new rows, but `rows` and `cols` are entries of the "
                "fitted table; leave out one of them"
            )
        m, n = pairs(rows, cols, self.observations_)
        chance = self.ensemble_.probabilities(m.ravel(), n.ravel()).reshape(m.shape)
        answer = chance if what == "probability" else (chance > 0.5).astype(np.uint8)
        return like(rows, answer, what)

    def predict_interval(self, rows: Any, cols: Any, coverage: float = 0.9) -> tuple[Any, Any]:
        """Compute intervals of the probabilities over the members.

        The log-odds of the members are assumed to be normal. An interval says how certain the
        model is of a probability, given few or many entries, not how certain the entry is. The
        plain Boolean model and the regressions on other answers have one fit each, and count as
        certain.

        Parameters
        ----------
        rows, cols : arrays of the same length, or of shapes that broadcast
            Pairs of positions, or of labels if the fitted data had labels.
        coverage : float between 0 and 1
            Fraction of the distribution over the members that is within the interval.

        Returns
        -------
        low, high : arrays
            The shape and the form are those of `predict_proba`.
        """
        check_is_fitted(self, "ensemble_")
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must be between 0 and 1, got {coverage!r}")
        m, n = pairs(rows, cols, self.observations_)
        at = m.ravel(), n.ravel()
        odds, spread = self.ensemble_.log_odds(*at), self.ensemble_.spread(*at)
        width = ndtri((1 + coverage) / 2) * spread
        ends = sigmoid(odds - width).reshape(m.shape), sigmoid(odds + width).reshape(m.shape)
        return like(rows, ends[0], "low"), like(rows, ends[1], "high")

    def plot(
        self,
        what: Literal["matrix", "factors", "curve"] = "matrix",
        path: str | Path | None = None,
    ) -> Figure:
        """Draw the result (needs matplotlib).

        Parameters
        ----------
        what : {"matrix", "factors", "curve"}
            "matrix" shows the table and the completed table. "factors" shows the members of the
            Boolean factors of the first model that has any. "curve" shows the log-loss of the
            models that were compared on held-out entries.
        path : path, optional
            File of the picture: .png, .svg or .pdf.

        Returns
        -------
        matplotlib.figure.Figure
        """
        check_is_fitted(self, "ensemble_")
        kinds = {"matrix": _draw_matrix, "factors": _draw_factors, "curve": _draw_curve}
        return plot.draw_kind(kinds, self, what, path)

    def _explainer(self, rows: Any, words: dict[str, str]) -> tuple[Explainer, Frame | None]:
        """An explainer of rows of the fit or of new rows, and the form of its tables."""
        check_is_fitted(self, "ensemble_")
        chosen = Words(**words)
        if not is_matrix(rows):
            return Explainer(self.ensemble_, self.observations_, words=chosen), self._frame
        given = self._observe(rows, reset=False)
        seen = replace(given, column_labels=self.observations_.column_labels)  # as in the fit
        new = self._folding.fold_in(seen)
        explainer = Explainer(new, seen, self.ensemble_, chosen, self.observations_)
        return explainer, Frame.of(rows)

    def _fold_in(self, new: Observations, row_features: Any) -> Ensemble:
        """The ensemble of new rows, whose features may be given."""
        encoded = self._row_encoding.encoded(row_features, new.n_rows, "row_features")
        return self._folding.fold_in(new, encoded)

    @property
    def _folding(self) -> FoldIn:
        return FoldIn(self.ensemble_, self.table_.count_scales[0], self.n_jobs)

    # ------------------------------------------------------------ answers

    def score(self, X: Any, y: Any = None) -> float:
        """Compute the accuracy on X, each entry predicted from the others of its row.

        The entries of a row, or its answers if the questions are known, are distributed in turn
        over five parts. Each part is hidden once and predicted from the rest.

        Parameters
        ----------
        X : as in `fit`, shape (rows, N)
            Rows with observed entries. `boolweave.model_selection.Entries` are predicted as entries
            of the fitted table.
        y : ignored

        Returns
        -------
        float
            The fraction of the observed entries, or answers, that is predicted correctly.
        """
        check_is_fitted(self, "ensemble_")
        if isinstance(X, Entries):
            at = X.rows_of_entries(), X.indices.astype(np.intp)
            return self._share_right(*at, X.values, self.ensemble_.probabilities(*at))
        seen = self._observe(X, reset=False)
        if not seen.n_observed:
            raise ValueError("X must have at least one observed entry, got none")
        # Number of parts over which `score` distributes the entries of a row; each part is hidden
        # once.
        parts = 5
        answers, rows = seen.answers_of_entries(self.ensemble_.questions), seen.rows_of_entries()
        row_of_answer = np.empty(int(answers.max()) + 1, dtype=np.int64)
        row_of_answer[answers] = rows
        part = (answers - np.searchsorted(row_of_answer, rows)) % parts
        chances, folding = np.empty(seen.n_observed), self._folding
        for i in range(int(part.max()) + 1):
            rest, hidden_rows, columns, _ = seen.split(part == i)
            new = folding.fold_in(rest)
            chances[part == i] = new.probabilities(hidden_rows, columns.astype(np.intp))
        return self._share_right(rows, seen.indices, seen.values, chances)

    def _share_right(
        self, rows: Integers, columns: Integers, values: NDArray[np.uint8], chances: Doubles
    ) -> float:
        """The fraction of entries, or of answers if the questions are known, that is right."""
        questions = self.ensemble_.questions
        if questions is None:
            return accuracy(values, chances > 0.5)
        return answer_scores(rows, columns, values, chances, questions).accuracy

    def transform(self, X: Any, *, row_features: Any = None) -> Doubles:
        """Replace the missing entries of new rows by probabilities.

        Observed entries stay as they are. Each row gets an offset, positions and bits of its own
        from its entries; columns do not change.

        Parameters
        ----------
        X : as in `fit`, shape (rows, N)
            New rows, with the columns of the fitted table.
        row_features : array or table, optional
            As in `predict_proba`.

        Returns
        -------
        (rows, N) array
        """
        check_is_fitted(self, "ensemble_")
        seen = self._observe(X, reset=False)
        return self._fold_in(seen, row_features).completed(seen)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the columns of `transform`: labels, or column1 and so on."""
        check_is_fitted(self, "ensemble_")
        labels = self.observations_.column_labels
        if labels is None:
            labels = np.array([f"column{n + 1}" for n in range(self.ensemble_.shape[1])])
        return labels.astype(object)

    def fit_transform(
        self,
        X: Any,
        y: Any = None,
        *,
        ratings: Any = None,
        sample_weight: Any = None,
        row_features: Any = None,
        column_features: Any = None,
        groups: Any = None,
    ) -> Doubles:
        """Fit, and replace the missing entries of the same rows by probabilities.

        The rows are those of the model; `transform` folds in the same rows as if they were new,
        which gives nearly the same result.

        Parameters
        ----------
        X, y, ratings, sample_weight, row_features, column_features, groups
            As in `fit`.

        Returns
        -------
        (M, N) array
        """
        self.fit(
            X,
            ratings=ratings,
            sample_weight=sample_weight,
            row_features=row_features,
            column_features=column_features,
            groups=groups,
        )
        return self.ensemble_.completed(self.observations_)

    # ------------------------------------------------------------ files

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a file, which `boolweave.load` reads.

        Parameters
        ----------
        path : path
            File of the model (.npz). It holds arrays and plain text, and no pickle.
        """
        check_is_fitted(self, "ensemble_")
        saving.save(path, self)


def _draw_matrix(model: BooleanCompletion) -> Figure:
    """Draw the table and the completed table, with the lines with most ones first."""
    seen = model.observations_
    if seen.n_rows * seen.n_columns > plot.MOST_CELLS:
        raise ValueError(
            f"a picture of {seen.n_rows:,} × {seen.n_columns:,} cells is too large; draw some rows "
            "with boolweave.plot.plot_tiles"
        )
    filled = (model.ensemble_.completed(seen) > 0.5).astype(np.uint8)
    chances = _first_factors(model)
    if chances is None:
        chances = np.zeros((seen.n_rows, 1)), np.zeros((1, seen.n_columns))
    x, y = (chance > 0.5 for chance in chances)
    return plot.plot_tiles({"observed entries": seen.to_dense(), "completed": filled}, x, y)


def _draw_factors(model: BooleanCompletion) -> Figure:
    """Draw the members of the Boolean factors of one model."""
    seen, chances = model.observations_, _first_factors(model)
    if chances is None:
        raise ValueError(
            "this completion has no Boolean factors, as offsets and directions were best; draw "
            "the matrix or the curve, or fit with n_directions=0"
        )
    rows, columns = chances
    orders = plot.tile_orders(rows > 0.5, columns > 0.5, rows.sum(axis=1), columns.sum(axis=0))
    return plot.plot_members(
        {
            f"{axis}s": (chance[order], [name_of(seen, int(i), axis) for i in order])
            for axis, chance, order in zip(
                ("row", "column"), (rows, columns.T), orders, strict=True
            )
        }
    )


def _first_factors(model: BooleanCompletion) -> tuple[Doubles, Doubles] | None:
    """Memberships (M, K) and (K, N) of the first layer of a member, or of the plain model."""
    layers = (member.layers[0] for member in model.members_ if member.layers)
    first = next(layers, model.ensemble_.plain)
    if first is None:
        return None
    return first.rows.astype(np.float64), first.columns.astype(np.float64)


def _draw_curve(model: BooleanCompletion) -> Figure:
    """Draw the log-loss of every model on held-out entries."""
    tried = model.selection_
    if not tried:
        raise ValueError(
            "no entries could be held out to compare models, so there is no curve; draw the matrix"
        )
    return plot.plot_bars(
        [str(line["model"]) for line in tried],
        np.array([line["log_loss"] for line in tried]),
        np.array([line["standard_error"] for line in tried]),
        "log-loss of held-out entries, lower is better",
    )
