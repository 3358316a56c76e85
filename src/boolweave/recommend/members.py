"""The members of factors, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from boolweave.data.frames import polars_table
from boolweave.data.labels import name_of
from boolweave.model.odds import sigmoid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.data.frames import Frame
    from boolweave.engine.result import Result


class Fitted(Protocol):
    """An estimator after its fit."""

    @property
    def result_(self) -> Result:
        """The result of the fit."""
        ...


def members(model: Fitted, k: int, axis: str) -> tuple[str, ...]:
    """Names of the rows or columns of factor k (from 0), the most certain first."""
    return members_of(model.result_, k, axis)


def members_of(result: Result, k: int, axis: str) -> tuple[str, ...]:
    """The same as `members`, for a result."""
    odds = result.row_log_odds[:, k] if axis == "row" else result.column_log_odds[k]
    return tuple(name_of(result.observations, int(i), axis) for i in surest(odds))


def members_table(result: Result, frame: Frame | None = None, *, full: bool = False) -> Any:
    """Factors in long form: factor, axis, label and probability of each member.

    Members are in the order of the table. With `full`, all rows and columns are listed, and a
    column `member`, 0 or 1, says which of them belong to the factor.
    """
    lines: dict[str, list[NDArray[Any]]] = {
        name: [] for name in ("factor", "axis", "label", "member", "probability")
    }
    seen = result.observations
    for k in range(result.model.n_components):
        for axis, odds in (
            ("row", result.row_log_odds[:, k]),
            ("column", result.column_log_odds[k]),
        ):
            chosen = np.arange(len(odds)) if full else np.flatnonzero(odds > 0)
            lines["factor"].append(np.full(len(chosen), k + 1, dtype=np.int32))
            lines["axis"].append(np.full(len(chosen), axis))
            lines["label"].append(np.array([name_of(seen, int(i), axis) for i in chosen], np.str_))
            lines["member"].append((odds[chosen] > 0).astype(np.uint8))
            lines["probability"].append(sigmoid(odds[chosen]).round(6))
    if not full:
        del lines["member"]
    table = {name: np.concatenate(parts) for name, parts in lines.items()}
    return polars_table(table) if frame is None else frame.table(table)


def surest(odds: NDArray[np.floating[Any]]) -> NDArray[np.intp]:
    """Positions of the members of a factor, the most certain first."""
    inside = np.flatnonzero(odds > 0)
    return inside[np.argsort(-odds[inside], kind="stable")]
