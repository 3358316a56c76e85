"""The most probable unobserved columns of rows, with a reason in one line for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from boolweave.completion.answers.explaining import Explainer
from boolweave.data.labels import positions
from boolweave.recommend import recommend_at

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from boolweave.completion.ensemble import Ensemble
    from boolweave.data.observations import Observations
    from boolweave.recommend import Recommendations


def recommend(
    ensemble: Ensemble, observations: Observations, rows: ArrayLike, n: int = 10,
    trained: Ensemble | None = None,
) -> Recommendations:  # fmt: skip
    """Recommend the n unobserved columns of each row that are most probably 1.

    Memory is needed only for the columns of a few rows, however many rows there are.

    Parameters
    ----------
    ensemble : Ensemble
        Of M rows and N columns.
    observations : Observations, shape (M, N)
        The observed entries, which are not recommended.
    rows : positions or labels, shape (R,)
    n : int
        Number of recommendations per row, at least 1.
    trained : Ensemble, optional
        The ensemble of the fit, if `ensemble` is for new rows; reasons need its average row.

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
    explainer = Explainer(ensemble, observations, trained)
    return recommend_at(explainer, positions(rows, observations, "row"), n)
