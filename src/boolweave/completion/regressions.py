"""Logistic regressions of every column of an encoded table on the answers to other questions.

A survey has few columns and many rows, so that the log-odds of a column can depend on each other
answer of the row directly, and not only through directions and factors. The columns of the same
question are left out. A normal prior keeps the slopes small.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from boolweave.completion.table import Table
from boolweave.data.observations import Observations
from boolweave.data.questions import Questions
from boolweave.model.odds import sigmoid
from boolweave.runtime.types import Doubles, Positions

# Precisions of the prior of a slope that are tried.
PENALTIES = (30.0, 100.0)

# Tables with more columns have no regressions; of a table with many rows, some are used.
MOST_COLUMNS, FEWEST_ROWS, MOST_PRODUCTS = 1000, 1000, 10**8


@dataclass(frozen=True, eq=False)
class AnswerRegressions:
    """Logistic regressions on the answers to other questions."""

    rows: NDArray[np.int8]  # (M, N) 1 and −1 for ones and zeros, 0 for missing entries
    offsets: Doubles  # (N,)
    slopes: Doubles  # (N, N): of each answer (first axis) for each column
    penalty: float  # half of it times the squared slopes is added to the log-loss
    weight: float

    def log_odds(self, rows: Positions) -> Doubles:
        """Log-odds of a one in rows, at all columns, (R, N)."""
        return self.offsets + self.rows[rows].astype(np.float64) @ self.slopes

    def log_odds_at(self, rows: Positions, columns: Positions) -> Doubles:
        """Log-odds of a one at pairs, (n,)."""
        return self.offsets[columns] + np.einsum(
            "ni,in->n", self.rows[rows].astype(np.float64), self.slopes[:, columns]
        )


def signs(observations: Observations) -> NDArray[np.int8]:
    """Ones and zeros as 1 and −1, and 0 for missing entries, (M, N)."""
    out = np.zeros(observations.shape, dtype=np.int8)
    out[observations.rows_of_entries(), observations.indices] = 2 * observations.values - 1
    return out


def can_regress(table: Table, questions: Questions | None) -> bool:
    """Whether there are several questions, and not too many columns."""
    few = table.shape[1] <= MOST_COLUMNS and table.n_levels == 2
    return questions is not None and few and questions.n_questions > 1


def fit_regressions(
    table: Table,
    questions: Questions,
    penalty: float,
    weight: float,
    random: np.random.Generator,
    seconds: float | None = None,
) -> AnswerRegressions:
    """Fit the regressions of all columns together, for some seconds at most.

    Minimizes the log-loss plus half the `penalty` times the squared slopes.
    """
    end = None if seconds is None else time.monotonic() + seconds
    seen = table.observations
    M, N = seen.shape
    given = signs(seen)
    weights = np.zeros(seen.shape)
    weights[seen.rows_of_entries(), seen.indices] = 1.0 if table.weights is None else table.weights
    n_rows = max(FEWEST_ROWS, MOST_PRODUCTS // N**2)
    some = np.arange(M) if n_rows >= M else np.sort(random.choice(M, n_rows, replace=False))
    x, count = given[some].astype(np.float64), weights[some]
    ones = x > 0
    free = questions.groups[:, None] != questions.groups

    def loss(parameters: Doubles) -> tuple[float, Doubles]:
        offsets, slopes = parameters[:N], parameters[N:].reshape(N, N) * free
        v = offsets + x @ slopes
        # A weak prior of the offset, for columns of which only ones or zeros were observed.
        offset_penalty = 0.1
        total = np.sum(count * (np.logaddexp(0, v) - ones * v))
        total += (penalty * np.sum(slopes**2) + offset_penalty * offsets @ offsets) / 2
        residual = count * (sigmoid(v) - ones)
        of_offsets = residual.sum(axis=0) + offset_penalty * offsets
        of_slopes = (x.T @ residual + penalty * slopes) * free
        return float(total), np.concatenate([of_offsets, of_slopes.ravel()])

    def stop_in_time(_: Doubles) -> None:
        if end is not None and time.monotonic() >= end:
            raise StopIteration

    from scipy.optimize import minimize  # not loaded for predictions

    best = minimize(
        loss,
        np.zeros(N + N * N),
        jac=True,
        method="L-BFGS-B",
        callback=stop_in_time,
        options={"maxiter": 100},  # the loss hardly changes any more
    ).x
    return AnswerRegressions(given, best[:N], best[N:].reshape(N, N) * free, penalty, weight)
