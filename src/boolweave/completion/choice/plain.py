"""The plain Boolean model, as one of the models that completion chooses from."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from boolweave.completion.ensemble import PlainBoolean
from boolweave.data.observations import Observations
from boolweave.estimator import BooleanMatrixFactorization
from boolweave.metrics import log_loss
from boolweave.model.odds import sigmoid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.completion.choice.selection import Fold

    Doubles = NDArray[np.float64]

# The plain model is first tried with this many factors, on a large table with a sample of rows that
# have about this many entries. It is given up if its log-loss is worse than the best known one by
# more than this factor.
SCREENED = 8
SAMPLE = 100_000
FAR_BEHIND = 1.08


def fit_plain(
    observations: Observations,
    n_components: int | None,
    seed: int,
    weight: float = 1.0,
    n_jobs: int | None = None,
) -> PlainBoolean:
    """Fit factors, noise and priors, and keep the probabilities of all bits; ignore labels."""
    bare = Observations(
        observations.shape, observations.indptr, observations.indices, observations.values
    )
    model = BooleanMatrixFactorization(
        "auto" if n_components is None else n_components,
        absent="missing",
        random_state=seed,
        n_jobs=n_jobs,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an uninformative answer gets a bad score anyway
        model.fit(bare)
    channel = model.noise_
    return PlainBoolean(
        sigmoid(model.row_log_odds_).astype(np.float32),
        sigmoid(model.column_log_odds_).astype(np.float32),
        float(np.asarray(channel.one_given_zero).mean()),
        float(np.asarray(channel.one_given_one).mean()),
        model.product,
        weight,
    )


def is_far_behind(fold: Fold, known: Doubles, seed: int, n_jobs: int | None) -> bool:
    """Whether the plain model predicts held-out entries far worse than the known predictions.

    It is tried with a number of factors that suffices for this; surplus ones stay empty.
    """
    seen = fold.table.observations
    some = np.ones(seen.n_rows, dtype=bool)
    if seen.n_observed > SAMPLE:
        some = np.random.default_rng(seed).random(seen.n_rows) < SAMPLE / seen.n_observed
    held = some[fold.rows]
    if not held.any():
        return True
    n_components = min(SCREENED, *(max(1, n - 1) for n in seen.shape))
    found = fit_plain(seen.take_rows(some), n_components, seed, 1.0, n_jobs)
    place = np.cumsum(some) - 1
    chance = found.probabilities(place[fold.rows[held]], fold.columns[held])
    values = fold.values[held]
    return log_loss(values, chance) > FAR_BEHIND * log_loss(values, known[held])
