"""What a fitted model says about rows that it need not have seen: they are folded in.

Nothing but the answer grows with the number of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.engine.fold_in import Known, fold_in, n_right
from boolweave.engine.prediction import latent_rows
from boolweave.fit.memory import check_answer, in_bytes
from boolweave.model.model import Model
from boolweave.model.products import boolean_product

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from boolweave.data.observations import Observations


def factors(
    model: Any, observations: Observations, row_prior: ArrayLike | None = None
) -> NDArray[np.uint8]:
    """Row factors, (rows, K), the components held fixed."""
    return fold_in(observations, _known(model, row_prior), model.n_jobs)[0]


def decoded(model: Any, observations: Observations) -> NDArray[np.uint8]:
    """Decoded values of all entries, (rows, N): more likely 1 than 0 where there are marginals."""
    _check(model, observations, 1, "the decoded matrix")
    bits, row_log_odds = fold_in(observations, _known_by_marginals(model), model.n_jobs)
    if not model.marginal_:
        return boolean_product(bits, model.components_, model.product)
    out = np.empty(observations.shape, dtype=np.uint8)
    for rows, latent in latent_rows(row_log_odds, model.column_log_odds_, model.product):
        out[rows] = latent > 0.5
    return out


def probabilities(model: Any, observations: Observations, kind: str) -> NDArray[np.float64]:
    """P(o = 1) of all entries, or P(z = 1) if `kind` is "latent": (rows, N)."""
    _check(model, observations, 8, "the matrix of probabilities")
    row_log_odds = fold_in(observations, _known_by_marginals(model), model.n_jobs)[1]
    out = np.empty(observations.shape)
    columns = np.arange(out.shape[1])[None]
    for rows, latent in latent_rows(row_log_odds, model.column_log_odds_, model.product):
        if kind == "observed":
            index = np.arange(rows.start, rows.stop)[:, None]
            latent = model.noise_.seen_one(latent, index, columns, out.shape)
        out[rows] = latent
    return out


def score(model: Any, observations: Observations) -> float:
    """Share of the entries that are predicted rightly from the others of their row."""
    if observations.n_observed == 0:
        raise ValueError("score needs at least one observed entry, got none")
    return n_right(observations, _known_by_marginals(model), model.n_jobs) / observations.n_observed


def _check(model: Any, observations: Observations, itemsize: int, what: str) -> None:
    most = None if model.max_memory is None else in_bytes(model.max_memory)
    remedy = "ask for fewer rows at a time, or for pairs of rows and columns"
    check_answer(observations.shape, itemsize, what, remedy, most)


def _known_by_marginals(model: Any) -> Known:
    return _known(model, column_log_odds=model.column_log_odds_ if model.marginal_ else None)


def _known(
    model: Any, row_prior: ArrayLike | None = None, column_log_odds: NDArray[Any] | None = None
) -> Known:
    """What is known of new rows: the mean of the row priors, unless some are given."""
    if row_prior is None:
        row_prior = np.asarray(model.row_prior_, dtype=np.float64)
        row_prior = row_prior.mean(axis=0) if row_prior.ndim == 2 else row_prior
    of_rows = Model(
        n_components=len(model.components_),
        channel=model.noise_,
        row_prior=row_prior,
        column_prior=model.components_,
        product=model.product,
    )
    return Known(of_rows, column_log_odds, model.damping)
