"""The methods `recommend` and `explain` of both estimators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.data.frames import is_matrix, only_row
from boolweave.data.labels import positions
from boolweave.recommend.unseen import recommend_at

if TYPE_CHECKING:
    from boolweave.data.frames import Frame


class RecommenderMixin:
    """Recommendations and explanations of a fitted estimator, which fills in `_explainer`."""

    def _explainer(self, rows: Any, words: dict[str, str]) -> tuple[Any, Frame | None]:
        """An explainer of rows of the fit or of new rows, and the form of its tables."""
        raise NotImplementedError

    def recommend(self, rows: Any, n: int = 10, *, why: bool = False, **words: str) -> Any:
        """Recommend the n unobserved columns of each row that are most probably 1.

        In a factorization with ``zeros="collective"``, only ones count as observed, because a zero
        is an entry that may become a one.

        Parameters
        ----------
        rows : positions, or labels if the fitted data had labels
            The rows may also be a matrix as in `transform`, whose new rows are folded in.
        n : int
            Number of columns for each row.
        why : bool
            Whether the table has a column with reasons.
        **words
            As in `explain`.

        Returns
        -------
        DataFrame or Recommendations
            If `rows`, or else the fitted data, came as a table: a table of the same library with
            one line for each recommendation: row, rank, column, probability and why. Otherwise
            `Recommendations` with ``rows`` (R,), ``columns`` (R, n), ``probabilities`` (R, n),
            ``reasons``, and ``table``.
        """
        explainer, frame = self._explainer(rows, words)
        seen = explainer.observations
        at = np.arange(seen.n_rows) if is_matrix(rows) else positions(rows, seen, "row")
        found = recommend_at(explainer, at, n)
        return found if frame is None else found.in_form_of(frame, why=why)

    def _explain(self, row: Any, col: Any, words: dict[str, str]) -> Any:
        """Explain an entry of a row of the fit, or of a new row."""
        explainer, frame = self._explainer(row, words)
        if is_matrix(row):
            row = only_row(explainer.observations)
        found = explainer.explain(row, col)
        if frame is not None:
            object.__setattr__(found, "_frame", frame)  # for its table
        return found
