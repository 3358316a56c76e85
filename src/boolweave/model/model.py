"""The model before any message passing: the product, the channel and the priors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.model.channel import Channel, probability_array
from boolweave.model.odds import log_odds
from boolweave.model.products import Product, check_product

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from boolweave.model.odds import Doubles


@dataclass(frozen=True, eq=False)
class Model:
    """The fixed parts of a problem: the product, the channel and the priors of both factors.

    Parameters
    ----------
    n_components : int
        K, the number of factors.
    channel : Channel
    row_prior, column_prior : float or array
        P(x = 1) and P(y = 1): numbers or arrays that broadcast to (M, K) and (K, N). With 0 and 1,
        an entry is fixed.
    product : {"or", "xor"}
    """

    n_components: int
    channel: Channel
    row_prior: ArrayLike = 0.5
    column_prior: ArrayLike = 0.5
    product: Product = "or"

    def __post_init__(self) -> None:
        if self.n_components < 1:
            raise ValueError(f"n_components must be at least 1, got {self.n_components}")
        check_product(self.product)
        for name in ("row_prior", "column_prior"):
            object.__setattr__(self, name, probability_array(name, getattr(self, name)))

    def prior_log_odds(self, shape: tuple[int, int]) -> tuple[Doubles, Doubles]:
        """Prior log-odds a (M, K) and b (K, N) of the two factors of an (M, N) matrix."""
        odds = []
        for name, size, of in (
            ("row_prior", (shape[0], self.n_components), "(rows, factors)"),
            ("column_prior", (self.n_components, shape[1]), "(factors, columns)"),
        ):
            value = log_odds(getattr(self, name))
            try:
                odds.append(np.broadcast_to(value, size))
            except ValueError:
                raise ValueError(
                    f"{name} must be a number or broadcast to {of} = {size}, "
                    f"got an array of shape {value.shape}"
                ) from None
        return odds[0], odds[1]


def differ_by_factor(row_prior: Any, column_prior: Any) -> bool:
    """Whether one of the priors, as given by a user, differs from factor to factor."""
    of_rows, of_columns = np.shape(row_prior), np.shape(column_prior)
    return (bool(of_rows) and of_rows[-1] > 1) or (len(of_columns) == 2 and of_columns[0] > 1)
