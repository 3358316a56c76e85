"""The most probable columns that rows have not seen, and a line each that says why."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING

from boolweave.completion.answers.dense import row_pieces
from boolweave.completion.answers.explaining import Explainer
from boolweave.data.labels import positions
from boolweave.recommend import Recommendations, best_unseen

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from boolweave.completion.answers.explanation import CompletionExplanation
    from boolweave.completion.ensemble import Ensemble
    from boolweave.data.observations import Observations


@dataclass(frozen=True, eq=False)
class CompletionRecommendations(Recommendations):
    """The best unseen columns of some rows, and why.

    Attributes
    ----------
    rows : array of shape (R,)
        The rows asked for.
    columns : array of shape (R, n)
        Columns, the most probable first; −1 where a row has fewer than n unseen ones.
    probabilities : array of shape (R, n)
        P(o = 1); NaN beside a −1.
    reasons : tuple of R tuples of n texts
        One line each, empty beside a −1. They are worked out when they are first asked for.
    """

    explainer: Explainer = field(repr=False)

    def explain(self, i: int, j: int) -> CompletionExplanation:
        """Explain the j-th recommendation of the i-th row asked for, both from 0."""
        return self.explainer.explain(int(self.rows[i]), int(self.columns[i, j]))

    @cached_property
    def reasons(self) -> tuple[tuple[str, ...], ...]:
        """Why each column is recommended."""
        return tuple(
            tuple(
                self.explain(i, j).reason() if column >= 0 else ""
                for j, column in enumerate(columns)
            )
            for i, columns in enumerate(self.columns)
        )


def recommend(
    ensemble: Ensemble, observations: Observations, rows: ArrayLike, n: int = 10,
    trained: Ensemble | None = None,
) -> CompletionRecommendations:  # fmt: skip
    """The n columns of each row that were not observed and are most probably 1.

    Memory goes with the columns of a few rows, however many rows are asked for.

    Parameters
    ----------
    ensemble : Ensemble
        Of M rows and N columns.
    observations : Observations, shape (M, N)
        What was seen: these pairs are not recommended.
    rows : positions or labels, shape (R,)
    n : int
        How many, at least 1.
    trained : Ensemble, optional
        That of the fit, if `ensemble` is of new rows; reasons need its average row.

    Examples
    --------
    >>> import numpy as np
    >>> from boolweave import Observations
    >>> from boolweave.completion.answers.recommending import recommend
    >>> from boolweave.completion.chain import Chain, Structure
    >>> from boolweave.completion.ensemble import Ensemble, Family
    >>> from boolweave.completion.table import Table
    >>> nan = np.nan
    >>> likes = Observations.from_dense(
    ...     [[1, nan, 0, nan], [1, 1, nan, nan], [0, 1, nan, 0], [1, 1, 0, 0]],
    ...     column_labels=["tea", "milk", "rum", "gin"],
    ... )
    >>> chain = Chain.start(Table.of(likes), Structure(), np.random.default_rng(0))
    >>> family = Family(Structure(), (chain.member(10, 20),), 1.0)
    >>> found = recommend(Ensemble(likes.shape, (family,), None, 0.0), likes, [0], n=1)
    >>> found.columns
    array([[1]])
    >>> print(found.reasons[0][0])
    because ones are more common in milk than in an average column (3 entries)
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    explainer = Explainer(ensemble, observations, trained)
    wanted = positions(rows, observations, "row")
    found = best_unseen(partial(row_pieces, ensemble), observations, wanted, n)
    return CompletionRecommendations(wanted, *found, explainer)
