"""The baseline that always predicts the more frequent value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from boolweave.baselines.base import Baseline

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.data.observations import Observations
    from boolweave.runtime.types import Integers


class Majority(Baseline):
    """The more frequent observed value everywhere; the probability is the fraction of ones.

    Parameters
    ----------
    absent : {"zero", "missing"}, default="zero"
        How to treat the entries that a sparse matrix does not store.

    Examples
    --------
    >>> from boolweave.baselines import Majority
    >>> Majority().fit([[1, 1], [0, 1]]).predict_proba([0], [0])
    array([0.75])
    """

    def __init__(self, absent: Literal["zero", "missing"] = "zero") -> None:
        self.absent = absent

    def _fit(self, seen: Observations) -> None:
        self.share_of_ones_ = seen.share_of_ones
        self.n_components_ = 0

    def _score(self, rows: Integers, columns: Integers) -> NDArray[np.float64]:
        return np.full(len(rows), self.share_of_ones_ - 0.5)

    def _probability(self, rows: Integers, columns: Integers) -> NDArray[np.float64]:
        return np.full(len(rows), self.share_of_ones_)
