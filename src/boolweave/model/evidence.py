"""The evidence of every entry about its true value: log-likelihood ratios over Ω."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from boolweave.model.model import Model
from boolweave.model.odds import HARD_EVIDENCE, log_probability

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.data.observations import Observations


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
    observations: Observations, given_zero: NDArray[np.float64], given_one: NDArray[np.float64],
    first_row: int,
) -> None:  # fmt: skip
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
    observations: Observations, model: Model, evidence: NDArray[np.float64], base: float,
    first_row: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], float]:  # fmt: skip
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
