"""Row and column logits: how willing each row is, and how popular each column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import Interval, Real, StrOptions

from boolweave.baselines.base import (
    Baseline,
    entries_of,
    hold_out,
    log_loss_of_scores,
    logit_of_share,
    sigmoid,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.observations import Observations

    Floats = NDArray[np.float64]

REGULARIZATIONS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


class BiasModel(Baseline):
    """P(o = 1) = sigmoid(intercept + row logit + column logit), with quadratic regularisation.

    Minimises Σ log-loss + regularization · (Σ row logits² + Σ column logits²).

    Parameters
    ----------
    regularization : float or "auto", default="auto"
        "auto": by the log-loss of a tenth of the entries, then refitted to all.
    absent : {"zero", "missing"}, default="zero"
        What the entries are that a sparse matrix does not store.
    random_state : int, RandomState or None
        Which entries are held out.

    Attributes
    ----------
    intercept_ : float
    row_logits_, column_logits_ : (M,) and (N,) arrays
    regularization_ : float
        Given or chosen.

    Examples
    --------
    >>> from boolweave.baselines import BiasModel
    >>> table = [[1, 1, 1], [1, 1, 0], [0, 0, 0]]
    >>> model = BiasModel(regularization=0.1).fit(table)
    >>> model.predict([0, 2], [2, 0])
    array([1, 0], dtype=uint8)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "regularization": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "absent": [StrOptions({"zero", "missing"})],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        regularization: float | Literal["auto"] = "auto",
        *,
        absent: Literal["zero", "missing"] = "zero",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.regularization = regularization
        self.absent = absent
        self.random_state = random_state

    def _fit(self, seen: Observations) -> None:
        strength = self.regularization
        if strength == "auto":
            kept, check = hold_out(seen, self._generator())
            losses: dict[float, float] = {}
            for candidate in REGULARIZATIONS:
                self._solve(kept, candidate)
                score = self._score(check.rows, check.columns)
                losses[candidate] = log_loss_of_scores(score, check.values)
            strength = min(REGULARIZATIONS, key=lambda candidate: losses[float(candidate)])
        self.regularization_ = float(strength)
        self._solve(seen, self.regularization_)
        self.n_components_ = 0

    def _solve(self, seen: Observations, strength: float) -> None:
        from scipy.optimize import minimize

        n_rows, n_columns = seen.shape
        rows, columns, values = entries_of(seen)

        def objective(logits: Floats) -> tuple[float, Floats]:
            return loss_and_gradient(logits, rows, columns, values, seen.shape, strength)

        start = np.zeros(1 + n_rows + n_columns)
        start[0] = logit_of_share(values)
        options = {"maxiter": 500, "ftol": 1e-10, "gtol": 1e-5}
        found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x
        self.intercept_ = float(found[0])
        self.row_logits_ = found[1 : 1 + n_rows]
        self.column_logits_ = found[1 + n_rows :]

    def _score(self, rows: NDArray[Any], columns: NDArray[Any]) -> Floats:
        return self.intercept_ + self.row_logits_[rows] + self.column_logits_[columns]


def loss_and_gradient(
    logits: Floats, rows: NDArray[Any], columns: NDArray[Any], values: NDArray[np.uint8],
    shape: tuple[int, int], strength: float,
) -> tuple[float, Floats]:  # fmt: skip
    """The objective and its gradient, (1 + M + N,), at intercept, row and column logits."""
    n_rows, n_columns = shape
    of_row, of_column = logits[1 : 1 + n_rows], logits[1 + n_rows :]
    v = logits[0] + of_row[rows] + of_column[columns]
    slope = sigmoid(v) - values
    loss = np.sum(np.logaddexp(0, v) - values * v)
    loss += strength * (of_row @ of_row + of_column @ of_column)
    gradient = np.concatenate(
        [
            [slope.sum()],
            np.bincount(rows, slope, n_rows) + 2 * strength * of_row,
            np.bincount(columns, slope, n_columns) + 2 * strength * of_column,
        ]
    )
    return float(loss), gradient
