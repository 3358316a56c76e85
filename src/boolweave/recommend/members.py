"""The members of factors, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.data.labels import name_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.engine.result import Result


def members(result: Result, k: int, axis: str) -> tuple[str, ...]:
    """Names of the rows or columns of factor k (from 0), the most certain first."""
    odds = result.row_log_odds[:, k] if axis == "row" else result.column_log_odds[k]
    return tuple(name_of(result.observations, int(i), axis) for i in surest(odds))


def surest(odds: NDArray[np.floating[Any]]) -> NDArray[np.intp]:
    """Positions of the members of a factor, the most certain first."""
    inside = np.flatnonzero(odds > 0)
    return inside[np.argsort(-odds[inside], kind="stable")]
