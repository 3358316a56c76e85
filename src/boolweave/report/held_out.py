"""Held-out entries, and what a model predicts for them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from boolweave.data.labels import pairs
from boolweave.functions import predicted_at
from boolweave.metrics import Agreement, agreement

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.completion import BooleanCompletion
    from boolweave.estimator import BooleanMatrixFactorization
    from boolweave.runtime.types import Integers

    Bits = NDArray[np.uint8]
    HeldOut = tuple[Integers, Integers, Bits]  # rows, columns and values of held-out entries


@dataclass(frozen=True, eq=False)
class HeldOutPredictions:
    """Held-out entries and predictions.

    Attributes
    ----------
    values, predicted : arrays of shape (n,), uint8
        The held-out values, and those that the model predicts.
    chances : array of shape (n,)
        P(o = 1) according to the model.
    """

    values: Bits
    predicted: Bits
    chances: NDArray[np.float64]

    @classmethod
    def of(
        cls, model: BooleanMatrixFactorization | BooleanCompletion, held_out: HeldOut
    ) -> HeldOutPredictions:
        """Predict the held-out entries, whose rows and columns are positions or labels."""
        rows, columns, values = held_out
        with warnings.catch_warnings():  # that positions may have been meant as labels
            warnings.simplefilter("ignore")
            rows, columns = pairs(rows, columns, model.observations_)
        return cls(np.asarray(values), *predicted_at(model, rows, columns))

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def agreement(self) -> Agreement:
        """How many of the values are predicted correctly."""
        return agreement(self.values, self.predicted)
