"""Searches and cross-validation of scikit-learn on tables with missing entries.

Scikit-learn hides rows. A hidden row says nothing about the missing entries of a table, so single
entries must be hidden instead: `Entries` is a table as the list of its entries, `EntryKFold`
splits this list, and `entry_scorer` scores the predictions of the hidden entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.model_selection import BaseCrossValidator

from boolweave.data.splits import Entries
from boolweave.metrics import accuracy, expected_calibration_error, log_loss, roc_auc
from boolweave.runtime.checks import check_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import ArrayLike, NDArray

    Positions = NDArray[np.intp]
    Measure = Literal["accuracy", "neg_log_loss", "roc_auc", "neg_calibration_error"]

__all__ = ["Entries", "EntryKFold", "entry_scorer"]

# By name: the method whose answer is scored, the measure, and whether more is better.
MEASURES: dict[str, tuple[str, Callable[[Any, Any], float], bool]] = {
    "accuracy": ("predict", accuracy, True),
    "neg_log_loss": ("predict_proba", log_loss, False),
    "roc_auc": ("predict_proba", roc_auc, True),
    "neg_calibration_error": ("predict_proba", expected_calibration_error, False),
}


class EntryKFold(BaseCrossValidator):
    """Folds of the observed entries of a table, each hidden in turn.

    Use it in `GridSearchCV`, `cross_val_score` and similar functions instead of `KFold`, and pass
    the table as `Entries`. The folds are those of `Observations.folds`.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, from 2 to the number of observed entries; their sizes differ by at most one
        entry.
    random_state : int, numpy Generator or None
        Random seed or generator of the folds. With None, they differ from call to call.
    groups : array of whole numbers, shape (N,), optional
        The question of each column, such as `TableEncoder.groups_`: folds consist of whole answers,
        as those of `Observations.folds`.

    See Also
    --------
    entry_scorer : measures other than accuracy, which is the default of a search.

    Notes
    -----
    ``search.predict`` has one argument, so that it cannot take pairs of rows and columns; use
    ``search.best_estimator_``, which is fitted to all entries. `cross_val_predict` has the same
    limitation and does not work.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from boolweave import BooleanMatrixFactorization
    >>> from boolweave.datasets import make_boolean
    >>> from boolweave.model_selection import Entries, EntryKFold
    >>> table = make_boolean(40, 30, 2, observed=0.8, random_state=0).observations
    >>> search = GridSearchCV(
    ...     BooleanMatrixFactorization(random_state=0),
    ...     {"n_components": [1, 2]},
    ...     cv=EntryKFold(3, random_state=0),
    ... ).fit(Entries.from_data(table))
    >>> search.best_params_
    {'n_components': 2}
    >>> search.best_estimator_.predict([0, 1], [5, 6]).shape
    (2,)
    """

    def __init__(
        self,
        n_splits: int = 5,
        *,
        random_state: int | np.random.Generator | None = None,
        groups: ArrayLike | None = None,
    ) -> None:
        self.n_splits = check_count("n_splits", n_splits, least=2)
        self.random_state = random_state
        self.groups = groups

    def get_n_splits(self, X: object = None, y: object = None, groups: object = None) -> int:
        """Return the number of folds."""
        return int(self.n_splits)

    def split(
        self, X: Entries, y: object = None, groups: object = None
    ) -> Iterator[tuple[Positions, Positions]]:
        """Yield positions of the entries to train on and to test on, fold by fold.

        Parameters
        ----------
        X : Entries, shape (M, N)
        y, groups : ignored; the groups of entries follow from those of the columns
        """
        if not isinstance(X, Entries):
            raise TypeError(
                "EntryKFold hides entries, but scikit-learn splits the rows of a "
                f"{type(X).__name__}; pass Entries.from_data(X) to the search instead of X"
            )
        part = X.random_parts(self.n_splits, self.random_state, self.groups, "n_splits")
        for fold in range(self.n_splits):
            hidden = part == fold
            yield np.flatnonzero(~hidden), np.flatnonzero(hidden)


def entry_scorer(measure: Measure = "accuracy") -> Callable[..., float]:
    """Make a ``scoring=`` argument for scikit-learn that scores predictions of hidden entries.

    Parameters
    ----------
    measure : {"accuracy", "neg_log_loss", "roc_auc", "neg_calibration_error"}
        Measures that begin with "neg" are negative, so that more is better, as in scikit-learn.

    Returns
    -------
    callable of an estimator and `Entries`
        It works for any estimator with ``predict(rows, cols)`` and ``predict_proba(rows, cols)``,
        including the baselines.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from boolweave.baselines import BiasModel
    >>> from boolweave.datasets import load_zoo
    >>> from boolweave.model_selection import Entries, EntryKFold, entry_scorer
    >>> zoo = Entries.from_data(load_zoo().observations)
    >>> folds = EntryKFold(4, random_state=0)
    >>> cross_val_score(BiasModel(), zoo, cv=folds, scoring=entry_scorer("neg_log_loss")).shape
    (4,)
    """
    if measure not in MEASURES:
        raise ValueError(f"measure must be one of {', '.join(MEASURES)}, got {measure!r}")
    return EntryScorer(measure)


class EntryScorer:
    """The result of `entry_scorer`; it is a class so that it can be sent to other processes."""

    def __init__(self, measure: str) -> None:
        self.measure = measure

    def __repr__(self) -> str:
        return f"entry_scorer({self.measure!r})"

    def __call__(self, estimator: Any, X: Entries, y: object = None) -> float:
        """Score the predictions of the entries X."""
        if not isinstance(X, Entries):
            raise TypeError(
                f"{self!r} scores entries, got a {type(X).__name__}; pass Entries.from_data(X) to "
                "the search, with cv=EntryKFold()"
            )
        method, of, more_is_better = MEASURES[self.measure]
        answer = getattr(estimator, method)(X.rows_of_entries(), X.indices)
        score = float(of(X.values, np.asarray(answer).ravel()))
        return score if more_is_better else -score
