"""The methods of a fitted completion: predict, recommend, explain, draw."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from boolweave.completion.answers import dense
from boolweave.completion.answers.explaining import Explainer
from boolweave.data.frames import Frame, is_matrix, like
from boolweave.data.labels import pairs
from boolweave.model.odds import sigmoid
from boolweave.recommend import RecommenderMixin, Words

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from boolweave.completion.answers.explanation import CompletionExplanation
    from boolweave.completion.answers.new_rows import FoldIn
    from boolweave.completion.chain import Member
    from boolweave.completion.ensemble import Ensemble
    from boolweave.completion.table import Table
    from boolweave.data.observations import Observations

    Doubles = NDArray[np.float64]


class FittedCompletion(RecommenderMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The methods and attributes of a completion that need its ensemble."""

    ensemble_: Ensemble
    observations_: Observations
    table_: Table
    n_jobs: int | None
    _frame: Frame | None = None

    def _observe(self, X: Any, *, reset: bool) -> Observations:
        raise NotImplementedError

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

    def predict_proba(self, rows: Any, cols: Any = None) -> Any:
        """Compute P(o = 1), the probability that a one would be observed.

        Parameters
        ----------
        rows, cols : arrays of the same length, or of shapes that broadcast
            Pairs of positions, or of labels if the fitted data had labels. Without `cols`, `rows`
            is a matrix as in `fit`, whose new rows are folded in.

        Returns
        -------
        array
            The shape is (len,), or that to which `rows` and `cols` broadcast; the result is a
            series if `rows` is one. Without `cols`, the shape is (rows, N), and the result has the
            form of the input table.
        """
        return self._answer(rows, cols, "probability")

    def predict(self, rows: Any, cols: Any = None) -> Any:
        """Predict the more probable value of entries.

        Parameters
        ----------
        rows, cols : arrays of the same length, or of shapes that broadcast
            As in `predict_proba`.

        Returns
        -------
        array of uint8
            0 or 1; the shape and the form are those of `predict_proba`.
        """
        return self._answer(rows, cols, "value")

    def _answer(self, rows: Any, cols: Any, what: Literal["probability", "value"]) -> Any:
        """Probabilities, or the more probable values, in the form of the arguments."""
        check_is_fitted(self, "ensemble_")
        if cols is None:
            seen = self._observe(rows, reset=False)
            new = self._folding.fold_in(seen)
            chance = dense.row_probabilities(new, np.arange(seen.n_rows))
            frame = Frame.of(rows)
            answer = chance if what == "probability" else (chance > 0.5).astype(np.uint8)
            return answer if frame is None else frame.matrix(answer, seen)
        m, n = pairs(rows, cols, self.observations_)
        chance = self.ensemble_.probabilities(m.ravel(), n.ravel()).reshape(m.shape)
        answer = chance if what == "probability" else (chance > 0.5).astype(np.uint8)
        return like(rows, answer, what)

    def predict_interval(self, rows: Any, cols: Any, coverage: float = 0.9) -> tuple[Any, Any]:
        """Compute intervals of the probabilities over the members.

        The log-odds of the members are assumed to be normal. An interval says how certain the
        model is of a probability, given few or many entries, not how certain the entry is.

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
        from scipy.special import ndtri

        check_is_fitted(self, "ensemble_")
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must be between 0 and 1, got {coverage!r}")
        m, n = pairs(rows, cols, self.observations_)
        at = m.ravel(), n.ravel()
        odds, spread = self.ensemble_.log_odds(*at), self.ensemble_.spread(*at)
        width = ndtri((1 + coverage) / 2) * spread
        ends = sigmoid(odds - width).reshape(m.shape), sigmoid(odds + width).reshape(m.shape)
        return like(rows, ends[0], "low"), like(rows, ends[1], "high")

    def explain(self, row: Any, col: Any, **words: str) -> CompletionExplanation:
        """Split the log-odds of a pair into contributions of offsets, directions and factors.

        Parameters
        ----------
        row, col : position, or label if the fitted data had labels
            The row may also be a matrix of one row as in `transform`, which is folded in.
        **words
            The words of the sentences: `verb` is the verb between a row and a column where there is
            a one ("has"), and `rows` and `columns` are nouns for these ("rows", "columns").

        Returns
        -------
        CompletionExplanation
        """
        found: CompletionExplanation = self._explain(row, col, words)
        return found

    def plot(
        self, what: Literal["matrix", "factors", "curve"] = "matrix",
        path: str | Path | None = None,
    ) -> Figure:  # fmt: skip
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
        from boolweave.completion.answers import drawing

        check_is_fitted(self, "ensemble_")
        return drawing.draw(self, what, path)

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

    @property
    def _folding(self) -> FoldIn:
        from boolweave.completion.answers.new_rows import FoldIn

        return FoldIn(self.ensemble_, self.table_.count_scales[0], self.n_jobs)
