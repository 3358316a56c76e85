"""The model before any message passing: product, channel and priors, and evidence of entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boolweave.model.channel import Channel, probability_array
from boolweave.model.odds import HARD_EVIDENCE, Doubles, log_odds, log_probability
from boolweave.model.products import Product, check_product

if TYPE_CHECKING:
    from boolweave.data.observations import Observations


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


def evidence_of(
    observations: Observations, model: Model, first_row: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.float64], float]:
    """Ω in CSR form, indptr (M + 1,), columns and L (|Ω|,), and Σ log p(o|0) over all entries.

    Errors name rows by their number, counted from `first_row`.
    """
    channel, shape = model.channel, observations.shape
    channel.broadcasts_to(shape)
    indptr, columns = observations.indptr, observations.indices
    if channel.is_uniform:
        by_value = channel.log_probabilities_by_value()
        given_zero, given_one = (logs[observations.values] for logs in by_value)
    else:
        given_zero, given_one = channel.log_probabilities(
            observations.rows_of_entries(), columns, observations.values, shape
        )
    _refuse_impossible(observations, given_zero, given_one, first_row)
    evidence = given_one - given_zero
    base = float(given_zero.sum())
    if channel.missing_given_zero is not None:
        indptr, columns, evidence, base = _add_missing(
            observations, model, evidence, base, first_row
        )
    if not evidence.all():
        informative = evidence != 0
        rows = np.repeat(np.arange(shape[0]), np.diff(indptr))[informative]
        indptr = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=shape[0]))))
        columns, evidence = columns[informative], evidence[informative]
    return indptr.astype(np.int64), columns.astype(np.uint32), evidence, base


def _refuse_impossible(
    observations: Observations,
    given_zero: NDArray[np.float64],
    given_one: NDArray[np.float64],
    first_row: int,
) -> None:
    impossible = np.maximum(given_zero, given_one) <= -HARD_EVIDENCE
    if impossible.any():
        entry = int(impossible.argmax())
        row = first_row + int(np.searchsorted(observations.indptr, entry, side="right")) - 1
        raise ValueError(
            f"according to the channel, row {row}, column {int(observations.indices[entry])} "
            f"cannot be observed as {int(observations.values[entry])} whatever its true value is; "
            f"set a probability above 0, or remove the entry"
        )


def _add_missing(
    observations: Observations,
    model: Model,
    evidence: NDArray[np.float64],
    base: float,
    first_row: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], float]:
    """Add every missing entry to Ω, with its evidence."""
    channel, shape = model.channel, observations.shape
    full = np.broadcast_to(channel.missing_log_likelihood_ratio(), shape).copy()
    gone = np.ones(shape, dtype=bool)
    rows = observations.rows_of_entries()
    gone[rows, observations.indices] = False
    given_zero = np.broadcast_to(np.asarray(channel.missing_given_zero), shape)
    given_one = np.broadcast_to(np.asarray(channel.missing_given_one), shape)
    impossible = gone & (given_zero == 0) & (given_one == 0)
    if impossible.any():
        row, column = (int(i) for i in np.argwhere(impossible)[0])
        raise ValueError(
            f"according to the channel, row {first_row + row}, column {column} cannot be missing "
            "whatever its true value is, but it is; leave out missing_given_zero and "
            "missing_given_one, or raise them"
        )
    base += float(log_probability(given_zero[gone]).sum())
    full[rows, observations.indices] = evidence
    indptr = np.arange(shape[0] + 1, dtype=np.int64) * shape[1]
    return indptr, np.tile(np.arange(shape[1]), shape[0]), full.ravel(), base
