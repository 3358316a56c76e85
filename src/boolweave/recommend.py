"""What to show to whom, and why: views on a fitted model, without inference of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from boolweave.data.labels import positions
from boolweave.data.ones import SparseObservations

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from boolweave.data.observed import ObservedEntries
    from boolweave.engine.result import Result
    from boolweave.runtime.types import Integers

# How many members of a factor its sentence names.
NAMES_IN_SENTENCE = 4


class Fitted(Protocol):
    """An estimator after its fit."""

    @property
    def result_(self) -> Result:
        """What it found."""
        ...


@dataclass(frozen=True, eq=False)
class Recommendations:
    """The best unseen columns of some rows.

    Attributes
    ----------
    rows : array of shape (R,)
        The rows asked for.
    columns : array of shape (R, n)
        Columns, the most probable first; −1 where a row has fewer than n unseen ones.
    probabilities : array of shape (R, n)
        P(o = 1); NaN beside a −1.
    """

    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    probabilities: NDArray[np.float64]


def recommend(model: Fitted, rows: ArrayLike, n: int = 10) -> Recommendations:
    """The n columns of each row that were not observed and are most probably 1.

    Where all zeros of a row were treated at once (zeros="collective"), nothing but the ones counts
    as observed here: a zero is what may become a one.

    Parameters
    ----------
    model : BooleanMatrixFactorization
        Fitted.
    rows : positions or labels, shape (R,)
    n : int
        How many, at least 1.

    Examples
    --------
    >>> from boolweave import BooleanMatrixFactorization
    >>> from boolweave.recommend import recommend
    >>> nan = float("nan")
    >>> likes = [[1, 1, 1, 0], [1, 1, nan, nan], [1, 1, 1, 0], [0, 0, 0, 0]]
    >>> model = BooleanMatrixFactorization(n_components=1, random_state=0).fit(likes)
    >>> recommend(model, [1], n=1).columns
    array([[2]])
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    seen = model.result_.observations
    wanted = positions(rows, seen, "row")
    columns = np.full((len(wanted), n), -1, dtype=np.intp)
    probabilities = np.full((len(wanted), n), np.nan)
    for some, chances in model.result_.predict_proba_rows(wanted):
        chances[known_cells(seen, wanted[some])] = -1  # below all that may be recommended
        for i, chance in enumerate(chances, some.start):
            best = _largest(chance, n)
            best = best[chance[best] >= 0]
            columns[i, : len(best)] = best
            probabilities[i, : len(best)] = chance[best]
    return Recommendations(wanted, columns, probabilities)


def known_cells(seen: ObservedEntries, rows: Integers) -> tuple[Integers, Integers]:
    """Positions among some rows, and columns, of what is not to be recommended.

    That is what was observed; where zeros are not listed, the ones.
    """
    if isinstance(seen, SparseObservations):
        ones = seen.ones.take_rows(rows)
        return ones.rows(), ones.columns
    own = seen.take_rows(rows)
    return own.rows_of_entries(), own.indices


def _largest(values: NDArray[np.float64], n: int) -> NDArray[np.intp]:
    """Where the n largest values are: by value, then by position, so that ties are no accident."""
    places = np.arange(len(values))
    if n < len(values):
        places = np.flatnonzero(values >= -np.partition(-values, n - 1)[n - 1])
    return places[np.argsort(-values[places], kind="stable")[:n]]


@dataclass(frozen=True)
class Reason:
    """One factor's part in an entry.

    Attributes
    ----------
    factor : int
        Its number, from 1.
    probability : float
        That both the row and the column belong to it.
    contribution : float
        Its share of the reasons, all of which add up to 1.
    rows, columns : tuples of str
        Names of its members, the surest first.
    sentence : str
    """

    factor: int
    probability: float
    contribution: float
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    sentence: str


@dataclass(frozen=True)
class Explanation:
    """Why an entry is what it is.

    Attributes
    ----------
    row, column : str
        Names.
    value : int
        What the factors say, 0 or 1.
    probability : float
        P(o = 1), that a 1 would be observed.
    observed : int or None
        What was observed, if anything.
    reasons : tuple of Reason
        The factors responsible, the strongest first; none where the value is 0.
    sentence : str
    """

    row: str
    column: str
    value: int
    probability: float
    observed: int | None
    reasons: tuple[Reason, ...]
    sentence: str


def explain(model: Fitted, row: int | str, column: int | str) -> Explanation:
    """Which factors make an entry a one, with their members by name.

    With the OR product a factor's contribution is its share of −log P(z = 0) = −Σ log(1 − p_k),
    where p_k is the probability that row and column both belong to factor k. With XOR it is its
    share of Σ p_k.

    Parameters
    ----------
    model : BooleanMatrixFactorization
        Fitted.
    row, column : position or label

    Examples
    --------
    >>> from numpy import nan
    >>> from boolweave import BooleanMatrixFactorization
    >>> from boolweave.recommend import explain
    >>> likes = [[1, 1, 0], [1, nan, 0], [0, 0, 0]]
    >>> model = BooleanMatrixFactorization(n_components=1, random_state=0).fit(likes)
    >>> print(explain(model, 0, 1).reasons[0].sentence)
    because factor 1: {row 1, row 2} like {column 1, column 2}
    """
    result = model.result_
    seen = result.observations
    at = positions([row], seen, "row"), positions([column], seen, "column")
    m, n = int(at[0][0]), int(at[1][0])
    value, chance = int(result.predict(*at)[0]), float(result.predict_proba(*at)[0])
    both, shares = result.contributions(m, n)
    reasons = tuple(
        _reason(model, int(k), float(both[k]), float(shares[k]))
        for k in np.argsort(-shares, kind="stable")
        if shares[k] > 0
    )
    row_name, column_name = name_of(model, m, "row"), name_of(model, n, "column")
    own = seen.take_rows([m])
    observed = int(own.values[own.indices == n][0]) if n in own.indices else None
    if value and reasons:
        why = "; ".join(reason.sentence for reason in reasons)
    elif reasons:  # an even number of factors under XOR
        why = f"because its {len(reasons)} factors cancel out"
    else:
        why = "because no factor has both"
    sentence = f"{row_name}, {column_name}: {value} with P(observing 1) = {chance:.2f}, {why}"
    return Explanation(row_name, column_name, value, chance, observed, reasons, sentence)


def _reason(model: Fitted, k: int, both: float, share: float) -> Reason:
    rows, columns = members(model, k, "row"), members(model, k, "column")
    sentence = f"because factor {k + 1}: {{{some_names(rows)}}} like {{{some_names(columns)}}}"
    return Reason(k + 1, both, share, rows, columns, sentence)


# ---------------------------------------------------------------- names


def members(model: Fitted, k: int, axis: str) -> tuple[str, ...]:
    """Names of the rows or columns of factor k (from 0), the surest first."""
    result = model.result_
    odds = result.row_log_odds[:, k] if axis == "row" else result.column_log_odds[k]
    inside = np.flatnonzero(odds > 0)
    order = inside[np.argsort(-odds[inside], kind="stable")]
    return tuple(name_of(model, int(i), axis) for i in order)


def name_of(model: Fitted, position: int, axis: str) -> str:
    """The label of a row or column, or its number from 1."""
    seen = model.result_.observations
    labels = seen.row_labels if axis == "row" else seen.column_labels
    return f"{axis} {position + 1}" if labels is None else str(labels[position])


def some_names(names: tuple[str, ...]) -> str:
    """The first few names, and how many more there are."""
    if len(names) <= NAMES_IN_SENTENCE + 1:
        return ", ".join(names)
    return f"{', '.join(names[:NAMES_IN_SENTENCE])} and {len(names) - NAMES_IN_SENTENCE} more"
